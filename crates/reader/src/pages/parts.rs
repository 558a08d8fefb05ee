//! A record taken apart for a screen: its own parts, its message, its fields, all as they were logged.

use crate::foreign::container::unwrapped;
use crate::head::read_head;
use crate::part::Text;
use crate::record::Record;
use crate::times::Times;
use jiff::tz::TimeZone;
use logdrive_wire::Level;

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordField {
    /// Key; with that of its span before it, as `request.id`.
    pub key: String,
    /// Value, with any bytes.
    pub value: Vec<u8>,
}

/// Parts of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordParts {
    /// Time, in nanoseconds since 1970.
    pub unix_ns: Option<u64>,
    /// Level.
    pub level: Option<Level>,
    /// Application, process id, thread, module, and place in the source (`net.rs:42`), those that it has.
    pub own: Vec<(&'static str, Vec<u8>)>,
    /// Names of its spans, the outermost first.
    pub spans: Vec<String>,
    /// Message.
    pub message: Vec<u8>,
    /// Lines behind the first one.
    pub further: Vec<u8>,
    /// Fields.
    pub fields: Vec<RecordField>,
}

/// Takes records apart. Times without a zone are those of the system's zone.
///
/// ```
/// use logdrive_reader::pages::RecordReader;
/// let parts = RecordReader::new().read(b"ts=2026-11-21T12:34:56Z level=info msg=ready id=7\n");
/// assert_eq!(parts.message, b"ready");
/// assert_eq!((&*parts.fields[0].key, &*parts.fields[0].value), ("id", &b"7"[..]));
/// ```
#[derive(Debug)]
pub struct RecordReader {
    times: Times,
    record: Record,
}

impl Default for RecordReader {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordReader {
    /// Returns a reader; it keeps memory from record to record.
    pub fn new() -> Self {
        Self {
            times: Times::new(TimeZone::system()),
            record: Record::default(),
        }
    }

    /// Takes a record apart, which may have several lines.
    pub fn read(&mut self, bytes: &[u8]) -> RecordParts {
        let bytes = &*unwrapped(bytes);
        self.record.read(bytes, &mut self.times);
        let record = &self.record;
        let plain = |text: Text| text.plain(bytes).into_owned();
        let mut parts = RecordParts {
            unix_ns: record.unix_ns,
            level: record.level,
            spans: record
                .span_names
                .iter()
                .map(|name| lossy(&plain(*name)))
                .collect(),
            message: plain(record.message),
            further: record.further_lines(bytes).into_owned(),
            ..RecordParts::default()
        };
        let mut file = plain(record.file);
        if !record.line.is_empty() {
            file.push(b':');
            file.extend_from_slice(record.line.of(bytes));
        }
        parts.own = [
            ("app", plain(Text::in_text(record.process.app))),
            ("pid", plain(Text::in_text(record.process.pid))),
            ("thread", plain(record.thread)),
            ("module", plain(record.module)),
            ("file", file),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
        for field in &record.fields {
            let key = lossy(&plain(field.key));
            let span = field.span.and_then(|span| parts.spans.get(usize::from(span)));
            parts.fields.push(RecordField {
                key: match span {
                    Some(span) => format!("{span}.{key}"),
                    None => key,
                },
                value: plain(field.value),
            });
        }
        parts
    }

    /// The time of a record, if it begins with one.
    pub fn time(&mut self, bytes: &[u8]) -> Option<u64> {
        let line = bytes.split(|byte| *byte == b'\n').next()?;
        read_head(line, &mut self.times).map(|head| head.unix_ns)
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_they_were_logged() {
        let line = b"2026-11-21T08:00:03.000000000Z ERROR shop[7]/w-1 shop::net net.rs:24 req{id=3}: failed: a\\nb id=4 reason=\"card declined\"\n  at x\n";
        let parts = RecordReader::new().read(line);
        assert_eq!(parts.message, b"failed: a\nb");
        assert_eq!(parts.further, b"  at x");
        let own: Vec<_> = parts
            .own
            .iter()
            .map(|(name, value)| (*name, lossy(value)))
            .collect();
        let expected = [
            ("app", "shop"),
            ("pid", "7"),
            ("thread", "w-1"),
            ("module", "shop::net"),
            ("file", "net.rs:24"),
        ];
        assert_eq!(own, expected.map(|(name, value)| (name, value.to_owned())));
        let fields: Vec<_> = parts
            .fields
            .iter()
            .map(|field| (&*field.key, lossy(&field.value)))
            .collect();
        assert_eq!(fields[0], ("req.id", "3".to_owned()));
        assert_eq!(fields[2], ("reason", "card declined".to_owned()));
    }
}
