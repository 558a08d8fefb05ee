//! Lines of a form that the parser knows as the values of a dynamic record.
//!
//! Parts that are neither level nor message become fields of their own types, also time, thread and logger as the lines have
//! them: the record has the time at which they were read. Nested values are kept as their JSON text. Lines of no known
//! form, or of more than a record holds, stay text.

use logdrive_reader::foreign::{ForeignParser, ForeignRecord, ForeignValue};
use logdrive_reader::iso_text;
use logdrive_wire::Level;

/// Keys that lines of logfmt begin with.
const LOGFMT_KEYS: [&[u8]; 5] = [b"time=", b"ts=", b"level=", b"t=", b"lvl="];

/// The values of a record, kept from one to the next so that their memory is used again.
#[derive(Debug, Default)]
pub struct StructuredLine {
    parser: ForeignParser,
    /// Message and fields as a dynamic record has them.
    pub payload: Vec<u8>,
    /// The level, if it is given as a known word or number.
    pub level: Option<Level>,
}

impl StructuredLine {
    /// Returns whether a line may be JSON or logfmt, by its first bytes.
    #[inline]
    pub(crate) fn may_be_pairs(line: &[u8]) -> bool {
        match line.first() {
            Some(b'{') => true,
            Some(b't' | b'l') => LOGFMT_KEYS.iter().any(|key| line.starts_with(key)),
            _ => false,
        }
    }

    /// Reads a line of JSON or logfmt. `false`: it is none that fits a record, and nothing of it is kept.
    ///
    /// ```
    /// use logdrive_agent::capture::structured::StructuredLine;
    /// let mut line = StructuredLine::default();
    /// assert!(line.read(br#"{"level":"warn","msg":"slow","took_ms":250}"#));
    /// assert_eq!(line.level, Some(logdrive_wire::Level::Warn));
    /// assert!(!line.read(b"{not json}"));
    /// ```
    pub fn read(&mut self, line: &[u8]) -> bool {
        let found = self.parser.read_pairs(line);
        self.take(found)
    }

    /// Reads the lines of a record of any form that is known.
    pub(crate) fn read_any(&mut self, lines: &[u8]) -> bool {
        let found = self.parser.read_known(lines);
        self.take(found)
    }

    fn take(&mut self, found: Option<ForeignRecord>) -> bool {
        self.payload.clear();
        self.level = None;
        let Some(mut record) = found else {
            return false;
        };
        let own = [
            ("time", record.unix_ns.map(iso_text).unwrap_or_default()),
            ("thread", std::mem::take(&mut record.thread)),
            ("target", std::mem::take(&mut record.target)),
        ];
        for (key, text) in own.into_iter().filter(|(_, text)| !text.is_empty()) {
            record
                .fields
                .push((key.to_owned(), ForeignValue::Text(text.into_bytes())));
        }
        self.level = record.level;
        let has_values = !record.fields.is_empty() || !record.message.is_empty();
        has_values && record.encode(&mut self.payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_wire::Value;
    use logdrive_wire::value::DynamicFields;

    /// The level, and the values as they are debugged, with their keys; the message has none.
    fn read(line: &str) -> Option<(Option<Level>, String)> {
        let mut found = StructuredLine::default();
        found.payload.push(7);
        if !found.read(line.as_bytes()) {
            return None;
        }
        let mut fields = DynamicFields::new(&found.payload);
        let mut shown = Vec::new();
        while let Some(named) = fields.next_value().expect("values that can be read") {
            shown.push(match named.value {
                Value::Message(text) => String::from_utf8_lossy(text).into_owned(),
                Value::Str(text) => format!("{}={:?}", named.key, String::from_utf8_lossy(text)),
                other => format!("{}={other:?}", named.key),
            });
        }
        Some((found.level, shown.join(" ")))
    }

    #[test]
    fn lines_of_common_loggers_become_values() {
        for (line, level, shown) in [
            (r#"{"level":"info","msg":"a"}"#, Some(Level::Info), "a"),
            (
                r#"{"severity":"ERROR","message":"a\nb\u00e9"}"#,
                Some(Level::Error),
                "a\nbé",
            ),
            (r#"{"event":"x","lvl":"Warning"}"#, Some(Level::Warn), "x"),
            (
                r#"{"level":30,"msg":"pino","pid":7}"#,
                Some(Level::Info),
                "pino pid=U64(7)",
            ),
            (r#"{"severity":3,"msg":"syslog"}"#, Some(Level::Error), "syslog"),
            (
                r#"{"levelname":"CRITICAL","message":"py"}"#,
                Some(Level::Fatal),
                "py",
            ),
            (r#"{"a":1}"#, None, "a=U64(1)"),
            (
                r#"{"s":"a\"b","i":-7,"f":1.5,"t":true,"u":null,"o":{"a":[1, 2]},"big":123456789012345678901234567890}"#,
                None,
                r#"s="a\"b" i=I64(-7) f=F64(1.5) t=Bool(true) u=None o="{\"a\":[1, 2]}" big="123456789012345678901234567890""#,
            ),
            (
                r#"{"time":"2026-11-21T12:34:56Z","level":"warn","logger":"a.B","thread":"main","msg":"x"}"#,
                Some(Level::Warn),
                r#"x time="2026-11-21T12:34:56.000000000Z" thread="main" target="a.B""#,
            ),
            (
                "level=error msg=\"cannot read\" order=A-17 tries=3 flag",
                Some(Level::Error),
                r#"cannot read order="A-17" tries=U64(3) flag="""#,
            ),
        ] {
            assert_eq!(read(line), Some((level, shown.to_owned())), "{line}");
        }
    }

    #[test]
    fn what_is_neither_or_too_much_is_left_as_text() {
        let many: Vec<String> = (0..300).map(|index| format!("\"k{index}\":1")).collect();
        let many = format!("{{{}}}", many.join(","));
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(70_000));
        let long_key = format!(r#"{{"{}":1}}"#, "k".repeat(2_000));
        for line in [
            "",
            "{}",
            "{",
            "}",
            "[1]",
            "{not json}",
            r#"{"a":1"#,
            r#"{"a":1} {"b":2}"#,
            "text a=1",
            &many,
            &long,
            &long_key,
        ] {
            assert_eq!(read(line), None, "{}", line.get(..40).unwrap_or(line));
        }
    }
}
