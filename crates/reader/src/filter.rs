//! Which records pass.
//!
//! The cheap questions come first: level and time from the head of the line, then texts in the whole record; only
//! then is the record taken apart, and not even then when a wanted key or module does not stand in it at all.

use crate::head::{Head, read_head};
use crate::part::Text;
use crate::record::Record;
use crate::times::Times;
use jiff::tz::TimeZone;
use logdrive_wire::Level;
use memchr::memmem::Finder;
use std::cmp::Ordering;
use std::str::FromStr;

/// A condition on a field: `key=value`, `key!=value`, `key>number`.
#[derive(Debug, Clone)]
pub struct Condition {
    key: String,
    operator: Operator,
    value: String,
    /// Finds the key as it stands in a line; `None` where it may be written in other ways.
    key_finder: Option<Finder<'static>>,
}

/// An operator: its text, and the orderings of a value to the wanted one for which it holds.
type Operator = (&'static str, &'static [Ordering]);

const NOT_EQUAL: &str = "!=";

/// The longer ones first, so that `>=` is not read as `>`.
const OPERATORS: [Operator; 7] = [
    (NOT_EQUAL, &[Ordering::Less, Ordering::Greater]),
    (">=", &[Ordering::Greater, Ordering::Equal]),
    ("<=", &[Ordering::Less, Ordering::Equal]),
    ("==", &[Ordering::Equal]),
    ("=", &[Ordering::Equal]),
    (">", &[Ordering::Greater]),
    ("<", &[Ordering::Less]),
];

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || "write key=value, key!=value, or with a number key>1, key>=1, key<1, key<=1".to_owned();
        let at = text.find(['=', '!', '<', '>']).ok_or_else(wrong)?;
        let (key, rest) = text.split_at(at);
        let operator = (OPERATORS.into_iter())
            .find(|(sign, _)| rest.starts_with(sign))
            .ok_or_else(wrong)?;
        let sign = operator.0;
        let (key, value) = (key.trim(), rest[sign.len()..].trim());
        if key.is_empty() {
            return Err(wrong());
        }
        let is_order = !sign.ends_with('=') || matches!(sign, ">=" | "<=");
        if is_order && !value.parse::<f64>().is_ok_and(|number| !number.is_nan()) {
            return Err(format!("{sign} compares numbers, and {value:?} is none"));
        }
        let is_written_plainly = key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        // The record's own parts have no key in text.
        let key_finder =
            (is_written_plainly && own_part(key, value).is_none()).then(|| Finder::new(key).into_owned());
        Ok(Self {
            key: key.to_owned(),
            operator,
            value: value.to_owned(),
            key_finder,
        })
    }
}

/// Part of a record besides its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnPart {
    Level,
    App,
    Pid,
    Thread,
    /// The target, where the record has one.
    Module,
    /// Name of the source file, or its path where that is all there is.
    File,
    /// Path of the source file, or its name where that is all there is.
    Path,
    Line,
    Message,
}

fn own_part(key: &str, value: &str) -> Option<OwnPart> {
    Some(match key {
        "level" => OwnPart::Level,
        "app" => OwnPart::App,
        "pid" => OwnPart::Pid,
        "thread" => OwnPart::Thread,
        "module" | "target" => OwnPart::Module,
        "file" if value.contains(['/', '\\']) => OwnPart::Path,
        "file" => OwnPart::File,
        "line" => OwnPart::Line,
        "message" | "msg" => OwnPart::Message,
        _ => return None,
    })
}

/// Values of a record, whether it was parsed from a line or is typed.
pub(crate) trait RecordValues {
    /// Gives the values of all fields with a key, as text.
    fn fields(&mut self, key: &str, each: &mut dyn FnMut(&[u8]));

    /// Gives a part of the record, if it has it.
    fn own_part(&mut self, part: OwnPart, each: &mut dyn FnMut(&[u8]));

    /// Whether the record has the part, and it is as wanted.
    fn has_part(&mut self, part: OwnPart, is_wanted: impl Fn(&[u8]) -> bool) -> Option<bool>
    where
        Self: Sized,
    {
        let mut found = None;
        self.own_part(part, &mut |text| found = Some(is_wanted(text)));
        found
    }
}

/// A record that was parsed, with its bytes.
struct ParsedRecord<'a> {
    bytes: &'a [u8],
    parts: &'a Record,
}

impl RecordValues for ParsedRecord<'_> {
    fn fields(&mut self, key: &str, each: &mut dyn FnMut(&[u8])) {
        for field in &self.parts.fields {
            if *field.key.plain(self.bytes) == *key.as_bytes() {
                each(&field.value.plain(self.bytes));
            }
        }
    }

    fn own_part(&mut self, part: OwnPart, each: &mut dyn FnMut(&[u8])) {
        let parts = self.parts;
        let text = match part {
            OwnPart::Level => return parts.level.iter().for_each(|level| each(level.name().as_bytes())),
            OwnPart::App => Text::in_text(parts.process.app),
            OwnPart::Pid => Text::in_text(parts.process.pid),
            OwnPart::Thread => parts.thread,
            OwnPart::Module => parts.module,
            OwnPart::File => {
                // The name alone, as records of live sessions have it.
                let path = parts.file.plain(self.bytes);
                let name = path.rsplit(|byte| matches!(byte, b'/' | b'\\')).next();
                return name.into_iter().filter(|name| !name.is_empty()).for_each(each);
            }
            OwnPart::Path => parts.file,
            OwnPart::Line => Text::in_text(parts.line),
            OwnPart::Message => parts.message,
        };
        if !text.is_empty() {
            each(&text.plain(self.bytes));
        }
    }
}

impl Condition {
    fn is_not_equal(&self) -> bool {
        self.operator.0 == NOT_EQUAL
    }

    /// Whether a record may have the field at all.
    fn is_possible(&self, record: &[u8]) -> bool {
        let finder = self.key_finder.as_ref();
        self.is_not_equal() || finder.is_none_or(|finder| finder.find(record).is_some())
    }

    fn holds(&self, record: &mut impl RecordValues) -> bool {
        let is_all = self.is_not_equal();
        let mut holds = is_all;
        let mut each = |value: &[u8]| {
            let found = self.is_met_by(value);
            // None may be equal, or one has to be as wanted.
            holds = if is_all { holds && found } else { holds || found };
        };
        record.fields(&self.key, &mut each);
        if let Some(part) = own_part(&self.key, &self.value) {
            record.own_part(part, &mut each);
        }
        holds
    }

    /// Whether one value is as wanted.
    fn is_met_by(&self, value: &[u8]) -> bool {
        let ordering = self.compare(value);
        ordering.map_or(self.is_not_equal(), |ordering| {
            self.operator.1.contains(&ordering)
        })
    }

    /// Compares a value to the wanted one: as numbers where both are, else as texts, which have no order here.
    fn compare(&self, value: &[u8]) -> Option<Ordering> {
        let is_equal = value == self.value.as_bytes()
            || (self.key == "level" && value.eq_ignore_ascii_case(self.value.as_bytes()));
        if is_equal {
            return Some(Ordering::Equal);
        }
        let text = std::str::from_utf8(value).ok()?;
        // Large whole numbers are more than an `f64` can distinguish.
        if let (Ok(value), Ok(wanted)) = (text.parse::<i128>(), self.value.parse::<i128>()) {
            return Some(value.cmp(&wanted));
        }
        text.parse::<f64>().ok()?.partial_cmp(&self.value.parse().ok()?)
    }
}

/// A text that is searched in the whole record.
#[derive(Debug, Clone)]
pub struct Needle {
    finder: Finder<'static>,
    ignore_case: bool,
}

impl Needle {
    /// Prepares the search for a text; `ignore_case` is about ASCII letters.
    pub fn new(text: &str, ignore_case: bool) -> Self {
        Self {
            finder: Finder::new(text).into_owned(),
            ignore_case,
        }
    }

    /// Returns the offset at which the text is found first.
    pub fn find(&self, text: &[u8]) -> Option<usize> {
        if !self.ignore_case {
            return self.finder.find(text);
        }
        let needle = self.finder.needle();
        let Some(first) = needle.first() else {
            return Some(0);
        };
        let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
        memchr::memchr2_iter(lower, upper, text).find(|at| {
            let found = text.get(*at..*at + needle.len());
            found.is_some_and(|found| found.eq_ignore_ascii_case(needle))
        })
    }

    /// Length of the text, in bytes.
    pub fn len(&self) -> usize {
        self.finder.needle().len()
    }

    /// Whether the text is empty, and so is found everywhere.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Conditions on records, which all hold for one that passes.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Lowest level.
    pub level: Option<Level>,
    /// Earliest time, in nanoseconds since 1970.
    pub since_ns: Option<u64>,
    /// Latest time, in nanoseconds since 1970.
    pub until_ns: Option<u64>,
    /// Texts that all stand in the record.
    pub wanted: Vec<Needle>,
    /// Texts of which none stands in the record.
    pub unwanted: Vec<Needle>,
    /// Modules of which the record's is one, or lies below one; any if empty.
    pub modules: Vec<String>,
    /// Names of threads of which the record's is one; any if empty.
    pub threads: Vec<String>,
    /// Conditions on fields, which all hold.
    pub conditions: Vec<Condition>,
}

impl Filter {
    /// Whether a record passes by its head.
    #[inline]
    pub(crate) fn passes_head(&self, head: &Head) -> bool {
        self.passes_level_and_time(head.level, head.unix_ns)
    }

    #[inline]
    pub(crate) fn passes_level_and_time(&self, level: Option<Level>, unix_ns: u64) -> bool {
        self.level
            .is_none_or(|least| level.is_some_and(|level| level >= least))
            && self.since_ns.is_none_or(|since| unix_ns >= since)
            && self.until_ns.is_none_or(|until| unix_ns <= until)
    }

    /// Whether a line passes that belongs to no record.
    pub(crate) fn passes_headless(&self, line: &[u8]) -> bool {
        !self.asks_for_records() && self.passes_texts(line)
    }

    /// The filter for lines of one process that do not name it: what it asks of application and process id is decided
    /// now. `None` when no such line passes.
    pub fn of_process(&self, app: &str, pid: u32) -> Option<Self> {
        let pid = pid.to_string();
        let mut filter = self.clone();
        let mut can_pass = true;
        filter.conditions.retain(|condition| {
            let own = match own_part(&condition.key, &condition.value) {
                Some(OwnPart::App) => app,
                Some(OwnPart::Pid) => &pid,
                _ => return true,
            };
            let is_met = condition.is_met_by(own.as_bytes());
            let is_all = condition.is_not_equal();
            // A field of the same name may decide otherwise.
            can_pass &= is_met || !is_all;
            is_all || !is_met
        });
        can_pass.then_some(filter)
    }

    /// Whether nothing passes that is no record.
    pub fn asks_for_records(&self) -> bool {
        self.level.is_some() || self.since_ns.is_some() || self.until_ns.is_some() || self.asks_for_parts()
    }

    /// Whether a record, whose head passes, passes as a whole. `parts` is used to take it apart, where that must be.
    #[inline]
    pub(crate) fn passes_whole(&self, record: &[u8], parts: &mut Record, times: &mut Times) -> bool {
        self.passes_texts(record) && (!self.asks_for_parts() || self.passes_parts(record, parts, times))
    }

    /// Whether texts are searched in the whole record.
    pub(crate) fn asks_for_texts(&self) -> bool {
        !(self.wanted.is_empty() && self.unwanted.is_empty())
    }

    /// Whether parts of the record decide, beside level and time.
    pub(crate) fn asks_for_parts(&self) -> bool {
        !(self.modules.is_empty() && self.threads.is_empty() && self.conditions.is_empty())
    }

    #[inline]
    pub(crate) fn passes_texts(&self, record: &[u8]) -> bool {
        self.wanted.iter().all(|needle| needle.find(record).is_some())
            && !self.unwanted.iter().any(|needle| needle.find(record).is_some())
    }

    fn passes_parts(&self, record: &[u8], parts: &mut Record, times: &mut Times) -> bool {
        if !self
            .conditions
            .iter()
            .all(|condition| condition.is_possible(record))
        {
            return false;
        }
        parts.read(record, times);
        self.passes_values(&mut ParsedRecord { bytes: record, parts })
    }

    /// Whether thread, module and fields of a record pass.
    pub(crate) fn passes_values(&self, record: &mut impl RecordValues) -> bool {
        let is_thread = |name: &[u8]| self.threads.iter().any(|thread| thread.as_bytes() == name);
        let is_module = |name: &[u8]| {
            let mut modules = self.modules.iter();
            modules.any(|prefix| is_below(name, prefix.as_bytes()))
        };
        (self.threads.is_empty() || record.has_part(OwnPart::Thread, is_thread) == Some(true))
            && (self.modules.is_empty()
                // A line without a module has its file.
                || record
                    .has_part(OwnPart::Module, is_module)
                    .or_else(|| record.has_part(OwnPart::File, is_module))
                    == Some(true))
            && self.conditions.iter().all(|condition| condition.holds(record))
    }
}

/// A filter with the memory that lines from anywhere need to be judged.
#[derive(Debug)]
pub struct LineFilter {
    filter: Filter,
    pub(crate) times: Times,
    record: Record,
}

impl LineFilter {
    /// Returns the filter for lines. Times without a zone are those of the system's zone.
    pub fn new(filter: Filter) -> Self {
        Self {
            filter,
            times: Times::new(TimeZone::system()),
            record: Record::default(),
        }
    }

    /// The conditions.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether a record passes, which may have several lines.
    pub fn passes(&mut self, record: &[u8]) -> bool {
        let first = record.strip_suffix(b"\n").unwrap_or(record);
        match read_head(first, &mut self.times) {
            Some(head) => {
                self.filter.passes_head(&head)
                    && self
                        .filter
                        .passes_whole(record, &mut self.record, &mut self.times)
            }
            None => self.filter.passes_headless(record),
        }
    }
}

/// Whether a module is `prefix` or lies below it, as filters of a running logger have it.
fn is_below(module: &[u8], prefix: &[u8]) -> bool {
    let prefix = prefix.strip_suffix(b"::").unwrap_or(prefix);
    module
        .strip_prefix(prefix)
        .is_some_and(|rest| rest.first().is_none_or(|byte| matches!(byte, b':' | b'.' | b'/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        b"2026-11-21T12:34:56.123456789Z INFO  main app::net n.rs:42 req{user=\"a b\"}: sent id=7 \
        ms=1.50 big=9007199254740993 empty=\"\" path=C:\\\\x";
    const JSON: &[u8] = br#"{"ts":"2026-11-21T12:34:56.123456789Z","level":"INFO","thread":"main","module":"app::net","file":"n.rs","line":42,"message":"sent","id":7,"ms":1.50,"big":9007199254740993,"empty":"","path":"C:\\x","spans":[{"name":"req","user":"a b"}]}"#;

    fn passes(filter: &Filter, line: &[u8]) -> bool {
        let mut times = Times::new(TimeZone::UTC);
        let head = crate::head::read_head(line, &mut times).expect("a head");
        filter.passes_head(&head) && filter.passes_whole(line, &mut Record::default(), &mut times)
    }

    #[test]
    fn what_lines_do_not_say_of_their_process_is_decided_beforehand() {
        for (conditions, expected) in [
            (&["app=shop"][..], true),
            (&["pid=4711", "id=7"], true),
            (&["pid=4711", "id=8"], false),
            (&["app!=bank", "pid>4000"], true),
            (&["app!=shop"], false),
            (&["app=bank"], false),
            (&["pid<4711"], false),
        ] {
            let conditions = conditions.iter().map(|text| text.parse().expect("sound"));
            let filter = Filter {
                conditions: conditions.collect(),
                ..Filter::default()
            };
            let filter = filter.of_process("shop", 4711);
            assert_eq!(filter.is_some_and(|filter| passes(&filter, TEXT)), expected);
        }
    }

    #[test]
    fn conditions_hold_alike_in_every_form() {
        for (condition, expected) in [
            ("id=7", true),
            ("id==7", true),
            ("id=7.0", true),
            ("id=8", false),
            ("id!=8", true),
            ("id!=7", false),
            ("ms>1.4", true),
            ("ms>1.5", false),
            ("ms>=1.5", true),
            ("ms<2", true),
            ("ms<=1", false),
            ("big=9007199254740993", true),
            ("big=9007199254740992", false),
            ("big>9007199254740992", true),
            ("empty=", true),
            ("path=C:\\x", true),
            ("user=a b", true),
            ("user>1", false),
            ("none=1", false),
            ("none!=1", true),
            ("thread=main", true),
            ("module=app::net", true),
            ("line>41", true),
            ("message=sent", true),
            ("level=info", true),
            ("level!=info", false),
            ("file=n.rs", true),
            ("i=7", false),
        ] {
            let filter = Filter {
                conditions: vec![condition.parse().expect(condition)],
                ..Filter::default()
            };
            assert_eq!(passes(&filter, TEXT), expected, "text {condition}");
            assert_eq!(passes(&filter, JSON), expected, "json {condition}");
        }
    }

    #[test]
    fn conditions_that_cannot_be_read_say_what_may_be_written() {
        for text in ["", "id", "=7", "id!7", "id>many"] {
            let error = text.parse::<Condition>().expect_err(text);
            assert!(
                error.contains("key>1") || error.contains("compares numbers"),
                "{error}"
            );
        }
    }

    #[test]
    fn modules_are_matched_by_whole_parts() {
        for (prefix, expected) in [
            ("app", true),
            ("app::net", true),
            ("app::", true),
            ("app::n", false),
            ("net", false),
        ] {
            let filter = Filter {
                modules: vec![prefix.to_owned()],
                ..Filter::default()
            };
            assert_eq!(passes(&filter, TEXT), expected, "{prefix}");
        }
    }

    #[test]
    fn levels_and_times_are_limits_that_are_included() {
        let time = 1_795_264_496_123_456_789;
        let at = |since_ns, until_ns| Filter {
            since_ns,
            until_ns,
            ..Filter::default()
        };
        assert!(passes(&at(Some(time), Some(time)), TEXT));
        assert!(!passes(&at(Some(time + 1), None), TEXT));
        assert!(!passes(&at(None, Some(time - 1)), TEXT));
        let from = |level| Filter {
            level: Some(level),
            ..Filter::default()
        };
        assert!(passes(&from(Level::Info), TEXT));
        assert!(!passes(&from(Level::Warn), TEXT));
    }

    #[test]
    fn texts_may_ignore_case() {
        let filter = |text, ignore_case| Filter {
            wanted: vec![Needle::new(text, ignore_case)],
            ..Filter::default()
        };
        assert!(passes(&filter("sent id", false), TEXT));
        assert!(!passes(&filter("SENT", false), TEXT));
        assert!(passes(&filter("SENT Id", true), TEXT));
        assert!(!passes(&filter("sent it", true), TEXT));
        let unwanted = Filter {
            unwanted: vec![Needle::new("sent", false)],
            ..Filter::default()
        };
        assert!(!passes(&unwanted, TEXT));
    }
}
