//! Values as the bytes of a dynamic record: `u8 kind, u8 field index, value`, or an inline key after the index 0xff.

#[cfg(feature = "tracing")]
use super::limits::CONSTANT_MESSAGE_BYTES_MAX;
use crate::capture::limits::CUT_MARK;
use logdrive_wire::Kind;
use logdrive_wire::limits::NAME_BYTES_MAX;
use logdrive_wire::value::INLINE_KEY;
use std::fmt::{self, Write};

/// Whose value it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key<'a> {
    /// The callsite's field of this index; below 255.
    #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only tracing knows its fields beforehand"))]
    Index(u8),
    /// A key that the record carries.
    Inline(&'a str),
}

/// Appends values to a byte string, up to a limit. What does not fit is cut, or left out.
#[derive(Debug)]
pub(crate) struct Encoder<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
    end_max: usize,
    cut: bool,
}

impl<'a> Encoder<'a> {
    /// Appends at most `bytes_max` bytes.
    #[inline]
    pub(crate) fn new(bytes: &'a mut Vec<u8>, bytes_max: usize) -> Self {
        let start = bytes.len();
        Self { bytes, start, end_max: start + bytes_max, cut: false }
    }

    /// Whether anything was cut or left out.
    #[inline]
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// A number, or nothing at all (`Kind::None`).
    #[inline]
    pub(crate) fn number<const N: usize>(&mut self, kind: Kind, key: Key<'_>, value: [u8; N]) {
        if self.head(kind, key, N) {
            self.bytes.extend_from_slice(&value);
        }
    }

    /// Text, cut where it does not fit.
    #[inline]
    pub(crate) fn text(&mut self, kind: Kind, key: Key<'_>, text: &str) {
        if self.head(kind, key, 4 + CUT_MARK.len()) {
            if self.bytes.len() + 4 + text.len() <= self.end_max {
                self.bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
                self.bytes.extend_from_slice(text.as_bytes());
            } else {
                self.counted(|out| out.write_str(text));
            }
        }
    }

    /// Opaque bytes, cut where they do not fit.
    #[cfg(feature = "tracing")]
    pub(crate) fn bytes(&mut self, key: Key<'_>, bytes: &[u8]) {
        if self.head(Kind::Bytes, key, 4) {
            let length = bytes.len().min(self.end_max - self.bytes.len() - 4);
            self.cut |= length < bytes.len();
            self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
            self.bytes.extend_from_slice(bytes.get(..length).unwrap_or(&[]));
        }
    }

    /// Text that a value's own code makes.
    pub(crate) fn rendered(&mut self, kind: Kind, key: Key<'_>, text: fmt::Arguments<'_>) {
        if self.head(kind, key, 4 + CUT_MARK.len()) {
            self.counted(|out| out.write_fmt(text));
        }
    }

    /// The message, which leads all fields. It is left out where it is the one that the callsite table holds.
    ///
    /// `write` gives the text in any number of pieces.
    #[inline]
    pub(crate) fn message(&mut self, constant: Option<&str>, write: impl FnOnce(&mut dyn Write) -> fmt::Result) {
        let at = self.bytes.len();
        let state = constant.map_or(State::Own, State::Undecided);
        let mut out = Message { encoder: self, state, head: None, full: false };
        if constant.is_none() {
            out.open();
        }
        // As for rendered values.
        let _ = write(&mut out);
        out.end();
        if self.bytes.len() > at && at > self.start {
            let length = self.bytes.len() - at;
            if let Some(all) = self.bytes.get_mut(self.start..) {
                all.rotate_right(length);
            }
        }
    }

    /// Kind and key, if there is room for them and for `room` more bytes.
    #[inline]
    fn head(&mut self, kind: Kind, key: Key<'_>, room: usize) -> bool {
        match key {
            Key::Index(index) if self.bytes.len() + 2 + room <= self.end_max => {
                self.bytes.extend_from_slice(&[kind.code(), index]);
                true
            }
            Key::Inline(name) => self.inline_head(kind, name, room),
            Key::Index(_) => {
                self.cut = true;
                false
            }
        }
    }

    fn inline_head(&mut self, kind: Kind, name: &str, room: usize) -> bool {
        let name = name.get(..name.floor_char_boundary(NAME_BYTES_MAX)).unwrap_or("");
        if self.bytes.len() + 4 + name.len() + room > self.end_max {
            self.cut = true;
            return false;
        }
        self.bytes.extend_from_slice(&[kind.code(), INLINE_KEY]);
        self.bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        true
    }

    /// Text with its length before it. There is room for the length and the mark of a cut.
    fn counted(&mut self, write: impl FnOnce(&mut Text<'_>) -> fmt::Result) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        let mut text = Text::new(self.bytes, self.end_max);
        // The text so far is what there is to log; there is nobody to report a failed `Display` to.
        let _ = write(&mut text);
        self.cut |= text.is_full();
        set_length(self.bytes, at);
    }
}

/// Writes the length of what follows the four bytes at `at` into them.
fn set_length(bytes: &mut [u8], at: usize) {
    let length = (bytes.len() - at - 4) as u32;
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

/// Takes text up to a limit, and marks where it was cut. What is past it is dropped without an error: an error would
/// make a `Display` that unwraps panic in the user's program.
#[derive(Debug)]
struct Text<'a> {
    bytes: &'a mut Vec<u8>,
    end_max: usize,
    full: bool,
}

impl<'a> Text<'a> {
    /// Appends until the byte string has `end_max` bytes, the mark of a cut included.
    fn new(bytes: &'a mut Vec<u8>, end_max: usize) -> Self {
        Self { bytes, end_max: end_max.saturating_sub(CUT_MARK.len()), full: false }
    }

    /// Whether text was cut.
    fn is_full(&self) -> bool {
        self.full
    }
}

impl Write for Text<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = self.end_max.saturating_sub(self.bytes.len());
        if text.len() <= left && !self.full {
            self.bytes.extend_from_slice(text.as_bytes());
        } else if !self.full {
            self.full = true;
            self.bytes.extend_from_slice(text.get(..text.floor_char_boundary(left)).unwrap_or("").as_bytes());
            self.bytes.extend_from_slice(CUT_MARK.as_bytes());
        }
        Ok(())
    }
}

/// A message on its way. As long as it is the constant one, nothing is written.
struct Message<'e, 'a, 'c> {
    encoder: &'e mut Encoder<'a>,
    state: State<'c>,
    /// Where its head is, once there is one.
    head: Option<usize>,
    full: bool,
}

#[derive(Clone, Copy)]
enum State<'c> {
    /// Nothing has come yet; it may become the constant.
    Undecided(&'c str),
    /// All that came is the constant.
    Constant(&'c str),
    /// It is not the constant.
    Own,
}

impl Message<'_, '_, '_> {
    fn open(&mut self) {
        self.state = State::Own;
        let at = self.encoder.bytes.len();
        // A message stands for itself: the index means nothing.
        if self.encoder.head(Kind::Message, Key::Index(0), 4 + CUT_MARK.len()) {
            self.encoder.bytes.extend_from_slice(&[0; 4]);
            self.head = Some(at);
        }
    }

    #[inline]
    fn append(&mut self, text: &str) {
        if self.head.is_some() && !self.full {
            let mut out = Text::new(self.encoder.bytes, self.encoder.end_max);
            // `write_str` of `Text` does not fail.
            let _ = out.write_str(text);
            self.full = out.is_full();
        }
    }

    #[inline]
    fn end(mut self) {
        if matches!(self.state, State::Undecided(_)) {
            self.open();
        }
        if let Some(at) = self.head {
            set_length(self.encoder.bytes, at + 2);
        }
        self.encoder.cut |= self.full;
    }
}

impl Write for Message<'_, '_, '_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match self.state {
            _ if text.is_empty() => {}
            // Literal text comes in one piece.
            State::Undecided(constant) if constant == text => self.state = State::Constant(constant),
            State::Undecided(_) => {
                self.open();
                self.append(text);
            }
            State::Constant(constant) => {
                self.open();
                self.append(constant);
                self.append(text);
            }
            State::Own => self.append(text),
        }
        Ok(())
    }
}

/// Finds out whether a message came in one piece, as literal text does.
#[cfg(feature = "tracing")]
#[derive(Debug, Default)]
pub(crate) struct OnePiece {
    text: String,
    pieces: usize,
}

#[cfg(feature = "tracing")]
impl OnePiece {
    /// The text, where it may be kept in the callsite table.
    pub(crate) fn constant(self) -> Option<String> {
        (self.pieces == 1 && !self.text.is_empty()).then_some(self.text)
    }
}

#[cfg(feature = "tracing")]
impl Write for OnePiece {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.pieces += usize::from(!text.is_empty());
        if self.pieces == 1 && text.len() <= CONSTANT_MESSAGE_BYTES_MAX {
            self.text.push_str(text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_wire::Value;
    use logdrive_wire::value::{DynamicFields, Named};

    fn values(bytes: &[u8]) -> Vec<Named<'_>> {
        let mut fields = DynamicFields::new(bytes);
        std::iter::from_fn(|| fields.next_value().unwrap()).collect()
    }

    fn message(constant: Option<&str>, pieces: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes, 1000).message(constant, |out| {
            pieces.iter().try_for_each(|piece| out.write_str(piece))
        });
        bytes
    }

    #[test]
    fn a_constant_message_is_left_out_and_any_other_is_not() {
        assert!(message(Some("started"), &["started"]).is_empty());
        assert!(message(Some("started"), &["", "started", ""]).is_empty());
        for (constant, pieces, text) in [
            (None, &["started"][..], "started"),
            (Some("started"), &["stopped"], "stopped"),
            (Some("started"), &["started", " twice"], "started twice"),
            (Some("started"), &["start", "ed"], "started"),
            (Some("started"), &[], ""),
            (None, &[], ""),
        ] {
            let bytes = message(constant, pieces);
            assert_eq!(values(&bytes)[0].value, Value::Message(text.as_bytes()), "{constant:?} {pieces:?}");
        }
    }

    #[test]
    fn a_message_leads_whatever_came_before_it() {
        let mut bytes = b"kept".to_vec();
        let mut encoder = Encoder::new(&mut bytes, 100);
        encoder.number(Kind::U64, Key::Index(3), 7u64.to_le_bytes());
        encoder.message(None, |out| out.write_str("hello"));
        encoder.text(Kind::Str, Key::Inline("key"), "value");
        assert_eq!(&bytes[..4], b"kept");
        let values = values(&bytes[4..]);
        assert_eq!(values[0].value, Value::Message(b"hello"));
        assert_eq!((values[1].index, values[1].value), (Some(3), Value::U64(7)));
        assert_eq!((values[2].key, values[2].value), ("key", Value::Str(b"value")));
    }

    #[test]
    fn whatever_the_limit_the_bytes_can_be_read_and_keep_to_it() {
        for limit in 0..120 {
            let mut bytes = Vec::new();
            let mut encoder = Encoder::new(&mut bytes, limit);
            encoder.message(Some("other"), |out| write!(out, "a message of {} é", "pieces"));
            encoder.number(Kind::I64, Key::Index(1), (-5i64).to_le_bytes());
            encoder.text(Kind::Str, Key::Index(2), "twenty bytes of text");
            encoder.rendered(Kind::Debug, Key::Inline("list"), format_args!("{:?}", [1, 2, 3]));
            let cut = encoder.is_cut();
            assert!(bytes.len() <= limit);
            let values = values(&bytes);
            assert_eq!(cut, limit < 94, "{limit} {values:?}");
            if !cut {
                assert_eq!(values.len(), 4);
                assert_eq!(values[3].value, Value::Debug(b"[1, 2, 3]"));
            }
        }
    }
}
