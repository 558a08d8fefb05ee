//! A line that is one JSON object, as the values of a dynamic record.
//!
//! The level and the message are found under the keys that common loggers use; everything else becomes a field of its
//! own type, times included, in the order in which it stands. What is nested is kept as its JSON text. A line that is
//! no such object, or more than a record holds, is not refused: it stays a line of text.

use super::level;
use logdrive_wire::Kind;
use logdrive_wire::Level;
use logdrive_wire::limits::NAME_BYTES_MAX;
use logdrive_wire::value::INLINE_KEY;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

use super::limits::{JSON_FIELDS_MAX, PIECE_BYTES_MAX};

/// Keys of the message, the better ones first.
const MESSAGE_KEYS: [&str; 4] = ["message", "msg", "event", "@message"];

/// Keys of the level, the better ones first.
const LEVEL_KEYS: [&str; 6] = ["level", "severity", "lvl", "levelname", "log.level", "@level"];

/// The values of one line, kept from line to line so that their memory is used again.
#[derive(Debug, Default)]
pub struct Object {
    /// The message; empty without one.
    pub message: Vec<u8>,
    /// The fields as a dynamic record has them.
    pub fields: Vec<u8>,
    /// The level, if it is given as a known word or number.
    pub level: Option<Level>,
}

impl Object {
    /// Reads a line. `false`: it is no object that fits a record, and nothing of it is kept.
    ///
    /// ```
    /// use logdrive_agent::capture::json::Object;
    /// let mut object = Object::default();
    /// assert!(object.read(br#"{"level":"warn","msg":"slow","took_ms":250}"#));
    /// assert_eq!((object.message.as_slice(), object.level), (&b"slow"[..], Some(logdrive_wire::Level::Warn)));
    /// assert!(!object.read(b"{not json}"));
    /// ```
    pub fn read(&mut self, line: &[u8]) -> bool {
        self.message.clear();
        self.fields.clear();
        self.level = None;
        let line = line.trim_ascii();
        if !(line.starts_with(b"{") && line.ends_with(b"}")) {
            return false;
        }
        let Ok(pairs) = serde_json::from_slice::<Pairs<'_>>(line) else {
            return false;
        };
        self.take(&pairs.0).is_some()
    }

    fn take(&mut self, pairs: &[Pair<'_>]) -> Option<()> {
        if pairs.is_empty() || pairs.len() > JSON_FIELDS_MAX {
            return None;
        }
        let message = first_of(&MESSAGE_KEYS, pairs, |value| text_of(value).is_some());
        let level = first_of(&LEVEL_KEYS, pairs, |value| level_of(value).is_some());
        for (index, (key, value)) in pairs.iter().enumerate() {
            if Some(index) == message {
                self.message.extend_from_slice(text_of(value)?.as_bytes());
            } else if Some(index) == level {
                self.level = level_of(value);
            } else {
                self.field(key, value)?;
            }
        }
        (self.message.len() + self.fields.len() <= PIECE_BYTES_MAX).then_some(())
    }

    fn field(&mut self, key: &str, value: &RawValue) -> Option<()> {
        if key.len() > NAME_BYTES_MAX {
            return None;
        }
        let text = value.get();
        match text.as_bytes().first()? {
            b'"' => self.blob(key, text_of(value)?.as_bytes()),
            b'n' => self.value(Kind::None, key, &[]),
            b't' => self.value(Kind::Bool, key, &[1]),
            b'f' => self.value(Kind::Bool, key, &[0]),
            b'{' | b'[' => self.blob(key, text.as_bytes()),
            _ => self.number(key, text),
        }
        Some(())
    }

    /// A number as it would be read by most, or as text where that would change it.
    fn number(&mut self, key: &str, text: &str) {
        let is_integer = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        if let Ok(number) = text.parse::<u64>() {
            self.value(Kind::U64, key, &number.to_le_bytes());
        } else if let Ok(number) = text.parse::<i64>() {
            self.value(Kind::I64, key, &number.to_le_bytes());
        } else if let Some(number) = text
            .parse::<f64>()
            .ok()
            .filter(|number| !is_integer && number.is_finite())
        {
            self.value(Kind::F64, key, &number.to_le_bytes());
        } else {
            self.blob(key, text.as_bytes());
        }
    }

    fn blob(&mut self, key: &str, text: &[u8]) {
        // A line is far shorter than 4 GiB.
        self.value(Kind::Str, key, &(text.len() as u32).to_le_bytes());
        self.fields.extend_from_slice(text);
    }

    fn value(&mut self, kind: Kind, key: &str, value: &[u8]) {
        self.fields.extend_from_slice(&[kind.code(), INLINE_KEY]);
        self.fields.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.fields.extend_from_slice(key.as_bytes());
        self.fields.extend_from_slice(value);
    }
}

/// Position of the best of these keys whose value will do.
fn first_of(keys: &[&str], pairs: &[Pair<'_>], will_do: impl Fn(&RawValue) -> bool) -> Option<usize> {
    keys.iter().find_map(|wanted| {
        pairs
            .iter()
            .position(|(key, value)| key == wanted && will_do(value))
    })
}

/// The text of a JSON string.
fn text_of(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(value.get()).ok().map(Cow::Owned)
}

/// A level in words; or as a number of pino and bunyan (10 to 60), or of syslog (0 to 7).
fn level_of(value: &RawValue) -> Option<Level> {
    if let Some(word) = text_of(value) {
        return level::named(word.trim().as_bytes());
    }
    match value.get().parse::<u64>().ok()? {
        number @ 0..=7 => level::severity(number),
        10..20 => Some(Level::Trace),
        20..30 => Some(Level::Debug),
        30..40 => Some(Level::Info),
        40..50 => Some(Level::Warn),
        50..60 => Some(Level::Error),
        60..70 => Some(Level::Fatal),
        _ => None,
    }
}

type Pair<'a> = (Cow<'a, str>, &'a RawValue);

/// The members of an object, their values unread. Nested values are passed over without recursion, so their depth
/// does not matter.
struct Pairs<'a>(Vec<Pair<'a>>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Pairs<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::with_capacity(16);
        while let Some((Key(key), value)) = map.next_entry()? {
            // One more than is taken shows that there are too many.
            if pairs.len() <= JSON_FIELDS_MAX {
                pairs.push((key, value));
            }
        }
        Ok(Pairs(pairs))
    }
}

/// A key, borrowed where it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyText)
    }
}

struct KeyText;

impl<'de> Visitor<'de> for KeyText {
    type Value = Key<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Owned(text.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_wire::Value;
    use logdrive_wire::value::DynamicFields;

    /// Message, level, and fields with their values as they are debugged.
    type Found = (String, Option<Level>, Vec<(String, String)>);

    fn read(line: &str) -> Option<Found> {
        let mut object = Object::default();
        object.message.push(b'x');
        if !object.read(line.as_bytes()) {
            return None;
        }
        let mut fields = DynamicFields::new(&object.fields);
        let mut found = Vec::new();
        while let Some(named) = fields.next_value().expect("fields that can be read") {
            let value = match named.value {
                Value::Str(text) => format!("{:?}", String::from_utf8_lossy(text)),
                other => format!("{other:?}"),
            };
            found.push((named.key.to_owned(), value));
        }
        let message = String::from_utf8(object.message).expect("text");
        Some((message, object.level, found))
    }

    fn fields(line: &str) -> Vec<(String, String)> {
        read(line).expect("an object").2
    }

    #[test]
    fn message_and_level_are_found_under_the_usual_keys() {
        for (line, message, level) in [
            (r#"{"level":"info","msg":"a"}"#, "a", Some(Level::Info)),
            (
                r#" {"severity" : "ERROR", "message" : "a\nb\u00e9"} "#,
                "a\nbé",
                Some(Level::Error),
            ),
            (r#"{"event":"x","lvl":"Warning"}"#, "x", Some(Level::Warn)),
            (r#"{"level":30,"msg":"pino"}"#, "pino", Some(Level::Info)),
            (r#"{"severity":3,"msg":"syslog"}"#, "syslog", Some(Level::Error)),
            (
                r#"{"levelname":"CRITICAL","message":"py"}"#,
                "py",
                Some(Level::Fatal),
            ),
            (r#"{"level":"INFORMATION","a":1}"#, "", Some(Level::Info)),
            (r#"{"a":1}"#, "", None),
        ] {
            let found = read(line).expect(line);
            assert_eq!((found.0.as_str(), found.1), (message, level), "{line}");
        }
    }

    #[test]
    fn what_is_not_the_message_stays_a_field() {
        let line = r#"{"event":"click","message":"m","level":"loud","severity":"warn","msg":7}"#;
        let found = read(line).expect("an object");
        assert_eq!((found.0.as_str(), found.1), ("m", Some(Level::Warn)));
        let keys: Vec<&str> = found.2.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["event", "level", "msg"]);
    }

    #[test]
    fn values_keep_their_types() {
        let line = r#"{"s":"a\"b","n":7,"i":-7,"f":1.5,"t":true,"u":null,"o":{"a":[1, 2]},"l":[],"big":
            123456789012345678901234567890,"huge":1e999,"neg":-1e3,"k\u0065y":false}"#;
        let expected = [
            ("s", r#""a\"b""#),
            ("n", "U64(7)"),
            ("i", "I64(-7)"),
            ("f", "F64(1.5)"),
            ("t", "Bool(true)"),
            ("u", "None"),
            ("o", r#""{\"a\":[1, 2]}""#),
            ("l", r#""[]""#),
            ("big", r#""123456789012345678901234567890""#),
            ("huge", r#""1e999""#),
            ("neg", "F64(-1000.0)"),
            ("key", "Bool(false)"),
        ];
        let found = fields(line);
        let found: Vec<(&str, &str)> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_object_or_too_much_is_left_as_text() {
        let many: Vec<String> = (0..=JSON_FIELDS_MAX)
            .map(|index| format!("\"k{index}\":1"))
            .collect();
        let many = format!("{{{}}}", many.join(","));
        let long_key = format!(r#"{{"{}":1}}"#, "k".repeat(NAME_BYTES_MAX + 1));
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(PIECE_BYTES_MAX));
        for line in [
            "",
            "{}",
            "{",
            "}",
            "[1]",
            "{not json}",
            r#"{"a":1"#,
            r#"{"a":1} {"b":2}"#,
            r#"{"a":01}"#,
            &many,
            &long_key,
            &long,
        ] {
            assert_eq!(read(line), None, "{}", line.get(..40).unwrap_or(line));
        }
        assert!(!Object::default().read(b"{\"a\":\"\xff\"}"), "no UTF-8");
    }

    #[test]
    fn deep_nesting_is_text_of_any_depth() {
        let line = format!(r#"{{"deep":{}{}}}"#, "[".repeat(30_000), "]".repeat(30_000));
        assert_eq!(fields(&line)[0].1.len(), 60_002);
    }
}
