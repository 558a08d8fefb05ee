//! Which records pass.
//!
//! The cheap questions come first: level and time from the head of the line, then texts in the whole record; only
//! then is the record taken apart, and not even then when a wanted key or module does not stand in it at all.

use crate::foreign::container::unwrapped;
use crate::foreign::trace::level_of_unknown;
use crate::head::read_head;
use crate::line_head::Head;
use crate::record::Record;
use crate::record_values::{LazyRecord, OwnPart, ParsedRecord, QueriedRecord, RecordValues};
use crate::times::Times;
use jiff::tz::TimeZone;
use logdrive_query::{Plan, RawSearch};
use logdrive_wire::Level;
use memchr::memmem::Finder;
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

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
    /// Query that the record answers; [`Filter::asking`] sets it.
    pub query: Option<Arc<Plan>>,
    /// Application and process id of records that do not say them.
    pub process: Option<(String, String)>,
}

impl Filter {
    /// Adds a query. Its times and levels narrow what is read at all.
    #[must_use]
    pub fn asking(mut self, query: Plan) -> Self {
        let (first, last) = query.times();
        if first > 0 {
            self.since_ns = Some(self.since_ns.unwrap_or(0).max(first));
        }
        if last < u64::MAX {
            self.until_ns = Some(self.until_ns.unwrap_or(u64::MAX).min(last));
        }
        self.query = Some(Arc::new(query));
        self
    }

    /// The filter without its query, for records that were asked.
    pub(crate) fn without_query(&self) -> Self {
        Self {
            query: None,
            ..self.clone()
        }
    }

    /// The query alone, for records whose other parts are tested later.
    pub(crate) fn query_alone(&self) -> Self {
        Self {
            query: self.query.clone(),
            process: self.process.clone(),
            ..Self::default()
        }
    }

    /// Whether records of this level may pass.
    pub(crate) fn may_have_level(&self, level: Level) -> bool {
        self.level.is_none_or(|least| level >= least)
            && (self.query.as_ref()).is_none_or(|query| query.may_have_level(Some(level)))
    }

    /// The filter for lines of one process that do not name it.
    #[must_use]
    pub fn of_process(mut self, app: &str, pid: u32) -> Self {
        self.process = Some((app.to_owned(), pid.to_string()));
        self
    }

    /// Whether a record passes by its head.
    #[inline]
    pub(crate) fn passes_head(&self, head: &Head) -> bool {
        match head.is_level_behind() {
            // Any level may follow.
            true => self.passes_level_and_time(Some(Level::Fatal), head.unix_ns),
            false => self.passes_level_and_time(head.level, head.unix_ns),
        }
    }

    /// Whether a record passes by a level that does not stand in its first line.
    fn passes_level_behind(&self, record: &[u8], head: &Head, parts: &mut Record, times: &mut Times) -> bool {
        parts.read(record, times);
        self.passes_level_and_time(parts.level, head.unix_ns)
    }

    #[inline]
    pub(crate) fn passes_level_and_time(&self, level: Option<Level>, unix_ns: u64) -> bool {
        self.level
            .is_none_or(|least| level.is_some_and(|level| level >= least))
            && self.since_ns.is_none_or(|since| unix_ns >= since)
            && self.until_ns.is_none_or(|until| unix_ns <= until)
            && (self.query.as_ref()).is_none_or(|query| query.may_have_level(level))
    }

    /// Whether a line passes that belongs to no record: to a query it is a message.
    pub(crate) fn passes_headless(&self, line: &[u8], parts: &mut Record, times: &mut Times) -> bool {
        let has_level = self
            .level
            .is_none_or(|least| level_of_unknown(line).is_some_and(|level| level >= least));
        has_level
            && !self.asks_for_time_or_place()
            && self.passes_texts(line)
            && self.passes_query(line, None, parts, times)
    }

    /// Whether nothing passes that is no record, but for lines that say their level.
    pub fn asks_for_records(&self) -> bool {
        self.level.is_some() || self.asks_for_time_or_place()
    }

    fn asks_for_time_or_place(&self) -> bool {
        self.since_ns.is_some() || self.until_ns.is_some() || self.asks_for_place()
    }

    /// Whether a record, whose head passes, passes as a whole. `parts` is used to take it apart, where that must be.
    #[inline]
    pub(crate) fn passes_whole(
        &self,
        record: &[u8],
        head: &Head,
        parts: &mut Record,
        times: &mut Times,
    ) -> bool {
        self.passes_texts(record)
            && (!head.is_level_behind() || self.passes_level_behind(record, head, parts, times))
            && self.passes_query(record, Some(head), parts, times)
            && (!self.asks_for_place() || {
                let bytes = &*unwrapped(record);
                parts.read(bytes, times);
                self.passes_place(&mut ParsedRecord { bytes, parts })
            })
    }

    fn passes_query(
        &self,
        record: &[u8],
        head: Option<&Head>,
        parts: &mut Record,
        times: &mut Times,
    ) -> bool {
        let Some(query) = &self.query else {
            return true;
        };
        if !query.may_match(record) {
            return false;
        }
        let is_level_behind = head.is_some_and(Head::is_level_behind);
        let is_parsed = !query.is_of_head() || is_level_behind;
        let bytes = &*match is_parsed {
            true => unwrapped(record),
            false => Cow::Borrowed(record),
        };
        if is_parsed {
            parts.read(bytes, times);
        }
        let level = match head {
            Some(_) if is_level_behind => parts.level,
            Some(head) => head.level,
            None => level_of_unknown(record),
        };
        query.matches(&mut QueriedRecord {
            values: &mut ParsedRecord { bytes, parts },
            unix_ns: head.map(|head| head.unix_ns),
            level,
            process: self.process.as_ref(),
        })
    }

    /// Search in bytes for records that may pass, where a text or a value has to stand in them.
    pub(crate) fn raw_search(&self) -> Option<RawSearch> {
        let wanted = self.wanted.iter().filter(|needle| !needle.ignore_case);
        let texts = wanted.map(|needle| needle.finder.needle());
        let longest = texts.max_by_key(|text| text.len());
        let of_text = longest.and_then(RawSearch::of_text);
        of_text.or_else(|| RawSearch::of_plan(self.query.as_ref()?))
    }

    /// Whether texts are searched in the whole record.
    pub(crate) fn asks_for_texts(&self) -> bool {
        !(self.wanted.is_empty() && self.unwanted.is_empty())
    }

    /// Whether its place in the program decides: its module or its thread.
    fn asks_for_place(&self) -> bool {
        !(self.modules.is_empty() && self.threads.is_empty())
    }

    #[inline]
    pub(crate) fn passes_texts(&self, record: &[u8]) -> bool {
        self.wanted.iter().all(|needle| needle.find(record).is_some())
            && !self.unwanted.iter().any(|needle| needle.find(record).is_some())
    }

    /// Whether the parts of a typed record pass.
    pub(crate) fn passes_values(&self, record: &mut impl RecordValues, unix_ns: u64, level: Level) -> bool {
        let answers = (self.query.as_ref()).is_none_or(|query| {
            query.matches(&mut QueriedRecord {
                values: record,
                unix_ns: Some(unix_ns),
                level: Some(level),
                process: self.process.as_ref(),
            })
        });
        answers && (!self.asks_for_place() || self.passes_place(record))
    }

    /// Whether thread and module of a record pass.
    fn passes_place(&self, record: &mut impl RecordValues) -> bool {
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

    /// Gives a record, which may have several lines, to who asks it as a query does, if it passes.
    pub(crate) fn ask(
        &mut self,
        record: &[u8],
        each: &mut dyn FnMut(&mut dyn logdrive_query::Record) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if !self.passes(record) {
            return ControlFlow::Continue(());
        }
        let first = record.split(|byte| *byte == b'\n').next().unwrap_or(record);
        self.times.begin_record();
        let mut head = read_head(first, &mut self.times);
        if let Some(head) = head.as_mut().filter(|head| head.is_level_behind()) {
            self.record.read(record, &mut self.times);
            head.level = self.record.level;
        }
        let mut values = LazyRecord::new(record, &mut self.record, &mut self.times);
        each(&mut QueriedRecord {
            values: &mut values,
            unix_ns: head.map(|head| head.unix_ns),
            level: head.and_then(|head| head.level),
            process: self.filter.process.as_ref(),
        })
    }

    /// Whether a record passes, which may have several lines.
    pub fn passes(&mut self, record: &[u8]) -> bool {
        let first = record.split(|byte| *byte == b'\n').next().unwrap_or(record);
        self.times.begin_record();
        match read_head(first, &mut self.times) {
            Some(head) => {
                self.filter.passes_head(&head)
                    && (self.filter).passes_whole(record, &head, &mut self.record, &mut self.times)
            }
            None => (self.filter).passes_headless(record, &mut self.record, &mut self.times),
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
    use logdrive_query::Query;

    const TEXT: &[u8] =
        b"2026-11-21T12:34:56.123456789Z INFO  main app::net n.rs:42 req{user=\"a b\"}: sent id=7 \
        ms=1.50 big=9007199254740993 empty=\"\" path=C:\\\\x";
    const JSON: &[u8] = br#"{"ts":"2026-11-21T12:34:56.123456789Z","level":"INFO","thread":"main","module":"app::net","file":"n.rs","line":42,"message":"sent","id":7,"ms":1.50,"big":9007199254740993,"empty":"","path":"C:\\x","spans":[{"name":"req","user":"a b"}]}"#;

    fn passes(filter: &Filter, line: &[u8]) -> bool {
        let mut times = Times::new(TimeZone::UTC);
        let head = crate::head::read_head(line, &mut times).expect("a head");
        filter.passes_head(&head) && filter.passes_whole(line, &head, &mut Record::default(), &mut times)
    }

    fn asking(condition: &str) -> Filter {
        let query = Query::parse_condition(condition).expect(condition);
        Filter::default().asking(query.plan(0))
    }

    #[test]
    fn what_lines_do_not_say_of_their_process_is_known_beforehand() {
        for (condition, expected) in [
            ("app=shop", true),
            ("pid=4711 and id=7", true),
            ("pid=4711 and id=8", false),
            ("app!=bank and pid>4000", true),
            ("app!=shop", false),
            ("app=bank", false),
            ("pid<4711", false),
        ] {
            let filter = asking(condition).of_process("shop", 4711);
            assert_eq!(passes(&filter, TEXT), expected, "{condition}");
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
            ("id=7 or id=8", true),
            ("id=8 or id=9", false),
            ("id=8 or ms>1 and user=a b", true),
        ] {
            let filter = asking(condition);
            assert_eq!(passes(&filter, TEXT), expected, "text {condition}");
            assert_eq!(passes(&filter, JSON), expected, "json {condition}");
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
