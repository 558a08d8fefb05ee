//! The export format of journald, as `journalctl -o export` writes it: fields in lines `NAME=VALUE`, or a line with the name,
//! eight bytes with a length, and so many bytes; an empty line ends an entry.

use crate::limits::{JOURNALD_ENTRY_MAX, JOURNALD_FIELD_BYTES_MAX};

/// An entry: its fields in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournaldEntry {
    /// Names and values; what is beyond the limits is left out.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl JournaldEntry {
    /// Value of the first field of a name.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        let found = self.fields.iter().find(|(known, _)| known == name.as_bytes());
        found.map(|(_, value)| value.as_slice())
    }

    fn put(&mut self, name: Vec<u8>, value: Vec<u8>) {
        let (fields_max, bytes_max) = JOURNALD_ENTRY_MAX;
        let bytes = self.bytes + name.len() + value.len();
        // The cursor stands first: it always fits.
        if self.fields.len() < fields_max && bytes <= bytes_max {
            self.bytes = bytes;
            self.fields.push((name, value));
        }
    }
}

/// A field whose end has not come.
#[derive(Debug)]
struct OpenField {
    name: Vec<u8>,
    value: Vec<u8>,
    /// Bytes that are to come; `None` for a line, which ends with a line break.
    left: Option<u64>,
}

/// Takes entries from bytes that come in any pieces.
///
/// ```
/// use logdrive_collector::input::ExportDecoder;
/// let mut decoder = ExportDecoder::default();
/// decoder.push(b"__CURSOR=s=1\nMESSAGE\n\x03\0\0\0\0\0\0\0a\nb\n\n");
/// let entry = decoder.next_entry().unwrap().expect("an entry");
/// assert_eq!(entry.value("MESSAGE"), Some(&b"a\nb"[..]));
/// ```
#[derive(Debug, Default)]
pub struct ExportDecoder {
    bytes: Vec<u8>,
    /// Bytes at the front that were taken.
    taken: usize,
    entry: JournaldEntry,
    field: Option<OpenField>,
}

impl ExportDecoder {
    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next entry; `None` when it has not come whole.
    ///
    /// # Errors
    /// When the bytes are of another format.
    pub fn next_entry(&mut self) -> Result<Option<JournaldEntry>, &'static str> {
        loop {
            if let Some(field) = self.field.take() {
                match self.go_on(field)? {
                    Some(open) => {
                        self.field = Some(open);
                        return Ok(None);
                    }
                    None => continue,
                }
            }
            let rest = self.bytes.get(self.taken..).unwrap_or_default();
            let Some(end) = memchr::memchr(b'\n', rest) else {
                if rest.len() <= JOURNALD_FIELD_BYTES_MAX {
                    return Ok(None);
                }
                // A line that is longer than what is taken of it.
                let equals = memchr::memchr(b'=', rest).ok_or("a name without an end")?;
                let (name, value) = rest.split_at(equals);
                self.field = Some(OpenField {
                    name: name.to_vec(),
                    value: value.get(1..).unwrap_or_default().to_vec(),
                    left: None,
                });
                self.taken = self.bytes.len();
                continue;
            };
            let line = rest.get(..end).unwrap_or_default();
            if line.is_empty() {
                self.taken += 1;
                if self.entry.fields.is_empty() {
                    continue;
                }
                return Ok(Some(std::mem::take(&mut self.entry)));
            }
            match memchr::memchr(b'=', line) {
                Some(equals) => {
                    let (name, value) = line.split_at(equals);
                    let value = value.get(1..).unwrap_or_default();
                    let value = value.get(..JOURNALD_FIELD_BYTES_MAX).unwrap_or(value);
                    self.entry.put(name.to_vec(), value.to_vec());
                    self.taken += end + 1;
                }
                None => {
                    let Some(length) = rest.get(end + 1..end + 9) else {
                        return Ok(None);
                    };
                    let length = length
                        .first_chunk::<8>()
                        .map_or(0, |bytes| u64::from_le_bytes(*bytes));
                    self.field = Some(OpenField {
                        name: line.to_vec(),
                        value: Vec::new(),
                        left: Some(length),
                    });
                    self.taken += end + 9;
                }
            }
        }
    }

    /// Takes what has come of a field; gives it back while its end has not come.
    fn go_on(&mut self, mut field: OpenField) -> Result<Option<OpenField>, &'static str> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let (part, taken, is_whole) = match field.left {
            None => match memchr::memchr(b'\n', rest) {
                Some(end) => (rest.get(..end), end + 1, true),
                None => (Some(rest), rest.len(), false),
            },
            Some(left) => {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                let left = left - length as u64;
                field.left = Some(left);
                let is_whole = left == 0 && rest.len() > length;
                if is_whole && rest.get(length) != Some(&b'\n') {
                    return Err("a field that is longer than its length");
                }
                (rest.get(..length), length + usize::from(is_whole), is_whole)
            }
        };
        let room = JOURNALD_FIELD_BYTES_MAX.saturating_sub(field.value.len());
        let part = part.unwrap_or_default();
        field.value.extend_from_slice(part.get(..room).unwrap_or(part));
        self.taken += taken;
        if !is_whole {
            return Ok(Some(field));
        }
        field.value.truncate(JOURNALD_FIELD_BYTES_MAX);
        self.entry.put(field.name, field.value);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(stream: &[u8], piece: usize) -> Result<Vec<JournaldEntry>, &'static str> {
        let (mut decoder, mut found) = (ExportDecoder::default(), Vec::new());
        for part in stream.chunks(piece) {
            decoder.push(part);
            while let Some(entry) = decoder.next_entry()? {
                found.push(entry);
            }
        }
        Ok(found)
    }

    #[test]
    fn entries_come_whole_in_any_pieces() {
        let stream = b"__CURSOR=s=a;i=1\nMESSAGE=one = two\nEMPTY=\n\n\n\
                       __CURSOR=s=a;i=2\nMESSAGE\n\x04\0\0\0\0\0\0\0a\n\nb\nBLOB\n\0\0\0\0\0\0\0\0\n_PID=7\n\n";
        for piece in 1..stream.len() {
            let found = entries(stream, piece).expect("the format");
            assert_eq!(found.len(), 2, "{piece}");
            assert_eq!(found[0].value("MESSAGE"), Some(&b"one = two"[..]));
            assert_eq!(found[0].value("EMPTY"), Some(&b""[..]));
            assert_eq!(found[1].value("MESSAGE"), Some(&b"a\n\nb"[..]));
            assert_eq!(
                (found[1].value("BLOB"), found[1].value("_PID")),
                (Some(&b""[..]), Some(&b"7"[..]))
            );
        }
    }

    #[test]
    fn long_fields_are_cut_and_hold_no_memory() {
        let long = vec![b'x'; 3 * JOURNALD_FIELD_BYTES_MAX];
        let length = (long.len() as u64).to_le_bytes();
        let stream = [
            b"__CURSOR=1\nLINE=".as_slice(),
            &long,
            b"\nBLOB\n",
            &length,
            &long,
            b"\nMESSAGE=end\n\n",
        ]
        .concat();
        for piece in [1 << 10, 1 << 16, stream.len()] {
            let found = entries(&stream, piece).expect("the format");
            assert_eq!(
                found[0].value("LINE").map(<[u8]>::len),
                Some(JOURNALD_FIELD_BYTES_MAX)
            );
            assert_eq!(
                found[0].value("BLOB").map(<[u8]>::len),
                Some(JOURNALD_FIELD_BYTES_MAX)
            );
            assert_eq!(found[0].value("MESSAGE"), Some(&b"end"[..]));
        }
        assert!(entries(&long, 1 << 10).is_err(), "a name without an end");
        assert!(entries(b"A\n\x01\0\0\0\0\0\0\0ab\n\n", 64).is_err());
        // A length that lies is waited for, and nothing is set aside for it.
        assert_eq!(
            entries(b"A\n\xff\xff\xff\xff\xff\xff\xff\xffab\n\n", 3),
            Ok(Vec::new())
        );
    }

    #[test]
    fn pieces_make_no_difference_to_bytes_that_are_damaged() {
        let sound =
            b"__CURSOR=s=a;i=1\nMESSAGE\n\x04\0\0\0\0\0\0\0a\n\nb\n_PID=7\n\n__CURSOR=s=a;i=2\nMESSAGE=x\n\n";
        let mut state = 11_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..2_000 {
            let mut stream = sound.to_vec();
            for _ in 0..1 + random(3) {
                let place = random(stream.len());
                stream[place] = [0, b'\n', b'=', 0xff, 3][random(5)];
            }
            let whole = entries(&stream, stream.len());
            let pieces = entries(&stream, 1 + random(9));
            assert_eq!(whole.is_ok(), pieces.is_ok(), "{stream:?}");
            assert_eq!(
                whole.unwrap_or_default(),
                pieces.unwrap_or_default(),
                "{stream:?}"
            );
        }
    }
}
