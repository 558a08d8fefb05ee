//! Values as the bytes of a dynamic record: `u8 kind, u8 field index, value`, or an inline key after the index 0xff.

use crate::capture::limits::CUT_MARK;
use logdrive_wire::Kind;
use logdrive_wire::limits::NAME_BYTES_MAX;
use logdrive_wire::value::INLINE_KEY;
use std::fmt::{self, Write};

/// Key of a value: a field of the callsite, or a name in the record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key<'a> {
    /// The callsite's field of this index; below 255.
    Index(u8),
    /// A key that the record carries.
    Inline(&'a str),
}

/// Writes values one behind the other into a byte string. What does not fit is cut, or left out.
#[derive(Debug)]
pub(crate) struct Encoder<'a> {
    bytes: &'a mut [u8],
    at: usize,
    cut: bool,
}

impl<'a> Encoder<'a> {
    /// An encoder that starts at the first byte.
    #[inline]
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            cut: false,
        }
    }

    /// Returns the bytes that were written, and whether anything was cut or left out.
    #[inline]
    pub(crate) fn written(&self) -> (&[u8], bool) {
        (self.bytes.get(..self.at).unwrap_or(&[]), self.cut)
    }

    /// A number, or nothing at all (`Kind::None`).
    #[inline(always)]
    pub(crate) fn number<const N: usize>(&mut self, kind: Kind, key: Key<'_>, value: [u8; N]) {
        match key {
            Key::Index(index) => {
                if let Some(rest) = self.bytes.get_mut(self.at..)
                    && let Some((head, rest)) = rest.split_first_chunk_mut::<2>()
                    && let Some(place) = rest.first_chunk_mut::<N>()
                {
                    *head = [kind.code(), index];
                    *place = value;
                    self.at += 2 + N;
                } else {
                    self.cut = true;
                }
            }
            Key::Inline(name) => {
                if self.inline_head(kind, name, N) {
                    self.put(value);
                }
            }
        }
    }

    /// Text, cut where it does not fit.
    #[inline(always)]
    pub(crate) fn text(&mut self, kind: Kind, key: Key<'_>, text: &str) {
        if !self.head(kind, key, 4 + CUT_MARK.len()) {
            return;
        }
        let length = (text.len() as u32).to_le_bytes();
        if let Some(rest) = self.bytes.get_mut(self.at..)
            && let Some((head, rest)) = rest.split_first_chunk_mut::<4>()
            && let Some(place) = rest.get_mut(..text.len())
        {
            *head = length;
            copy(place, text.as_bytes());
            self.at += 4 + text.len();
        } else {
            self.text_cut(text);
        }
    }

    #[cold]
    fn text_cut(&mut self, text: &str) {
        self.counted(|out| out.write_str(text));
    }

    /// Opaque bytes, cut where they do not fit.
    #[cfg(feature = "tracing")]
    pub(crate) fn bytes(&mut self, key: Key<'_>, bytes: &[u8]) {
        if self.head(Kind::Bytes, key, 4) {
            let length = bytes.len().min(self.left() - 4);
            self.cut |= length < bytes.len();
            self.put((length as u32).to_le_bytes());
            self.append(bytes.get(..length).unwrap_or(&[]));
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
    pub(crate) fn message(
        &mut self,
        constant: Option<&str>,
        write: impl FnOnce(&mut dyn Write) -> fmt::Result,
    ) {
        let before = self.at;
        let state = constant.map_or(State::Own, State::Undecided);
        let mut out = Text {
            encoder: self,
            state,
            length_at: None,
        };
        if constant.is_none() {
            out.open();
        }
        // As for rendered values.
        let _ = write(&mut out);
        out.end();
        if before > 0 && self.at > before {
            let length = self.at - before;
            if let Some(all) = self.bytes.get_mut(..self.at) {
                all.rotate_right(length);
            }
        }
    }

    /// A span's name, and where the length of its fields will stand.
    #[cfg(feature = "tracing")]
    #[inline]
    pub(crate) fn span_name(&mut self, name: &str) -> usize {
        let name = bounded(name);
        self.put((name.len() as u16).to_le_bytes());
        self.append(name.as_bytes());
        let at = self.at;
        self.put([0; 2]);
        at
    }

    /// The length of a span's fields, when all have been written.
    #[cfg(feature = "tracing")]
    pub(crate) fn end_span(&mut self, at: usize) {
        let length = (self.at - at - 2) as u16;
        if let Some(place) = self.bytes.get_mut(at..at + 2) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }

    #[inline]
    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Kind and key, if there is room for them and for `room` more bytes.
    #[inline(always)]
    fn head(&mut self, kind: Kind, key: Key<'_>, room: usize) -> bool {
        match key {
            Key::Index(index) if self.left() >= 2 + room => {
                self.put([kind.code(), index]);
                true
            }
            Key::Index(_) => {
                self.cut = true;
                false
            }
            Key::Inline(name) => self.inline_head(kind, name, room),
        }
    }

    #[inline]
    fn inline_head(&mut self, kind: Kind, name: &str, room: usize) -> bool {
        let name = bounded(name);
        if self.left() < 4 + name.len() + room {
            self.cut = true;
            return false;
        }
        let [low, high] = (name.len() as u16).to_le_bytes();
        self.put([kind.code(), INLINE_KEY, low, high]);
        self.append(name.as_bytes());
        true
    }

    /// Writes what there is room for, as the caller has seen.
    #[inline]
    fn put<const N: usize>(&mut self, value: [u8; N]) {
        if let Some(place) = self
            .bytes
            .get_mut(self.at..)
            .and_then(|rest| rest.first_chunk_mut::<N>())
        {
            *place = value;
            self.at += N;
        }
    }

    /// Writes a value as [`Encoder::put`] does.
    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.at..self.at + bytes.len()) {
            copy(place, bytes);
            self.at += bytes.len();
        }
    }

    /// Text with its length before it. There is room for the length and the mark of a cut.
    fn counted(&mut self, write: impl FnOnce(&mut Text<'_, '_, '_>) -> fmt::Result) {
        let mut text = Text {
            length_at: Some(self.at),
            encoder: self,
            state: State::Own,
        };
        text.encoder.put([0; 4]);
        // The text so far is logged; a failed `Display` cannot be reported from here.
        let _ = write(&mut text);
        text.end();
    }

    /// Takes text as far as there is room, and marks where it was cut; `false` if it was.
    #[inline]
    fn append_text(&mut self, text: &str) -> bool {
        if text.len() + CUT_MARK.len() <= self.left() {
            self.append(text.as_bytes());
            return true;
        }
        self.append_cut(text);
        false
    }

    #[cold]
    fn append_cut(&mut self, text: &str) {
        let kept = text.floor_char_boundary(self.left().saturating_sub(CUT_MARK.len()));
        self.append(text.get(..kept).unwrap_or("").as_bytes());
        self.append(CUT_MARK.as_bytes());
        self.cut = true;
    }
}

/// A name, cut to what a reader takes.
#[inline]
fn bounded(name: &str) -> &str {
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    name.get(..name.floor_char_boundary(NAME_BYTES_MAX)).unwrap_or("")
}

/// Copies between places of equal length. Most names and pieces of text are short: overlapping moves do for them,
/// without a call.
#[inline]
fn copy(place: &mut [u8], bytes: &[u8]) {
    match bytes.len() {
        0 => {}
        1..=3 => {
            for (place, byte) in place.iter_mut().zip(bytes) {
                *place = *byte;
            }
        }
        4..=7 => copy_ends::<4>(place, bytes),
        8..=16 => copy_ends::<8>(place, bytes),
        17..=32 => copy_ends::<16>(place, bytes),
        length => {
            if let Some(place) = place.get_mut(..length) {
                place.copy_from_slice(bytes);
            }
        }
    }
}

/// Copies the first and the last `N` bytes, which may overlap.
#[inline]
fn copy_ends<const N: usize>(place: &mut [u8], bytes: &[u8]) {
    if let (Some(front), Some(back)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) {
        if let Some(place) = place.first_chunk_mut() {
            *place = *front;
        }
        if let Some(place) = place.last_chunk_mut() {
            *place = *back;
        }
    }
}

/// Returns true if two texts are equal. Two overlapping pairs of words do for most literal messages, without a call.
#[inline]
fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if let 8..=16 = one.len() {
        one.len() == other.len()
            && one.first_chunk::<8>() == other.first_chunk()
            && one.last_chunk::<8>() == other.last_chunk()
    } else if let 17..=32 = one.len() {
        one.len() == other.len()
            && one.first_chunk::<16>() == other.first_chunk()
            && one.last_chunk::<16>() == other.last_chunk()
    } else {
        one == other
    }
}

/// Text or a message on its way. As long as a message is the constant one, nothing is written. What is past the limit is
/// dropped without an error: an error would make a `Display` that unwraps panic in the user's program.
struct Text<'e, 'a, 'c> {
    encoder: &'e mut Encoder<'a>,
    state: State<'c>,
    /// Offset of its length, once there is one.
    length_at: Option<usize>,
}

#[derive(Clone, Copy)]
enum State<'c> {
    /// Nothing has come yet; it may become the constant.
    Undecided(&'c str),
    /// All that came is the constant.
    Constant(&'c str),
    /// The text is not the constant of a message.
    Own,
    /// There is no room for more.
    Full,
}

impl Text<'_, '_, '_> {
    fn open(&mut self) {
        let encoder = &mut *self.encoder;
        // A message stands for itself: the index means nothing.
        if encoder.head(Kind::Message, Key::Index(0), 4 + CUT_MARK.len()) {
            self.length_at = Some(encoder.at);
            encoder.put([0; 4]);
            self.state = State::Own;
        } else {
            self.state = State::Full;
        }
    }

    #[inline]
    fn append(&mut self, text: &str) {
        if matches!(self.state, State::Own) && !self.encoder.append_text(text) {
            self.state = State::Full;
        }
    }

    /// The first piece, or the first behind the constant.
    fn decide(&mut self, text: &str) {
        match self.state {
            _ if text.is_empty() => {}
            // Literal text comes in one piece.
            State::Undecided(constant) if is_same(constant, text) => self.state = State::Constant(constant),
            State::Constant(constant) => {
                self.open();
                self.append(constant);
                self.append(text);
            }
            _ => {
                self.open();
                self.append(text);
            }
        }
    }

    #[inline]
    fn end(mut self) {
        if matches!(self.state, State::Undecided(_)) {
            self.open();
        }
        if let Some(at) = self.length_at {
            let length = (self.encoder.at - at - 4) as u32;
            let behind = self.encoder.bytes.get_mut(at..);
            if let Some(place) = behind.and_then(|rest| rest.first_chunk_mut()) {
                *place = length.to_le_bytes();
            }
        }
    }
}

impl Write for Text<'_, '_, '_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match self.state {
            State::Own => self.append(text),
            State::Full => {}
            State::Undecided(_) | State::Constant(_) => self.decide(text),
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
        let mut bytes = [0xee; 1000];
        let mut encoder = Encoder::new(&mut bytes);
        encoder.message(constant, |out| {
            pieces.iter().try_for_each(|piece| out.write_str(piece))
        });
        encoder.written().0.to_vec()
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
            assert_eq!(
                values(&bytes)[0].value,
                Value::Message(text.as_bytes()),
                "{constant:?} {pieces:?}"
            );
        }
    }

    #[test]
    fn a_message_leads_whatever_came_before_it() {
        let mut bytes = [0xee; 100];
        let mut encoder = Encoder::new(&mut bytes);
        encoder.number(Kind::U64, Key::Index(3), 7u64.to_le_bytes());
        encoder.message(None, |out| out.write_str("hello"));
        encoder.text(Kind::Str, Key::Inline("key"), "value");
        let values = values(encoder.written().0);
        assert_eq!(values[0].value, Value::Message(b"hello"));
        assert_eq!((values[1].index, values[1].value), (Some(3), Value::U64(7)));
        assert_eq!((values[2].key, values[2].value), ("key", Value::Str(b"value")));
    }

    #[test]
    fn whatever_the_limit_the_bytes_can_be_read_and_keep_to_it() {
        for limit in 0..120 {
            let mut bytes = vec![0xee; limit];
            let mut encoder = Encoder::new(&mut bytes);
            encoder.message(Some("other"), |out| write!(out, "a message of pieces é"));
            encoder.number(Kind::I64, Key::Index(1), (-5i64).to_le_bytes());
            encoder.text(Kind::Str, Key::Index(2), "twenty bytes of text");
            encoder.rendered(Kind::Debug, Key::Inline("list"), format_args!("{:?}", [1, 2, 3]));
            let (bytes, cut) = encoder.written();
            let values = values(bytes);
            assert_eq!(cut, limit < 88, "{limit} {values:?}");
            if !cut {
                assert_eq!(values.len(), 4);
                assert_eq!(values[3].value, Value::Debug(b"[1, 2, 3]"));
            }
        }
    }
}
