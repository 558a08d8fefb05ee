//! A record taken apart: the parts of its line in which the thread, the module, the message and the fields stand.
//!
//! Nothing is copied: parts are offsets into the line, and one [`Record`] is used for all records in turn.

use crate::escape::Writing;
use crate::foreign::container::plain_lines;
use crate::limits::FIELDS_MAX;
use crate::line_head::{Form, Head};
use crate::part::{Pair, Part, Text};
use logdrive_wire::Level;
use std::borrow::Cow;

/// A field of a record, or of a span around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) key: Text,
    pub(crate) value: Text,
    /// The number of its span.
    pub(crate) span: Option<u8>,
}

/// Name and number of a process in a line of text.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessPart {
    pub(crate) app: Part,
    pub(crate) pid: Part,
}

/// Lines of a record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RecordLines {
    /// The length of the first line, without its end.
    pub(crate) first_bytes: usize,
    /// Whether a container's runtime wrapped the lines, and whether the first one is a piece.
    pub(crate) is_wrapped: bool,
    pub(crate) is_partial: bool,
    /// Whether a line is to lose nothing: broken JSON is none, and words of logfmt without a value are fields.
    pub(crate) is_strict: bool,
}

/// A record.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) form: Form,
    pub(crate) unix_ns: Option<u64>,
    pub(crate) level: Option<Level>,
    /// Time and level as they stand in the line; only in text and glog.
    pub(crate) time: Part,
    pub(crate) level_part: Part,
    /// Process of a line that names it before its thread, `app[pid]/thread`; with keys of their own they are fields.
    pub(crate) process: ProcessPart,
    pub(crate) thread: Text,
    pub(crate) module: Text,
    pub(crate) file: Text,
    pub(crate) line: Part,
    pub(crate) span_names: Vec<Text>,
    pub(crate) message: Text,
    pub(crate) fields: Vec<Field>,
    /// Memory for pairs behind the message, kept from record to record.
    pub(crate) pairs: Vec<Pair>,
    pub(crate) lines: RecordLines,
}

impl Record {
    /// Back to nothing, but with its memory.
    pub(crate) fn clear(&mut self) {
        let mut kept = std::mem::take(self);
        kept.fields.clear();
        kept.span_names.clear();
        self.fields = kept.fields;
        self.span_names = kept.span_names;
        self.pairs = kept.pairs;
        self.lines.is_strict = kept.lines.is_strict;
    }

    /// Takes the whole first line for the message, because it is not what it seemed to be.
    pub(crate) fn forget_parts(&mut self) {
        let (unix_ns, level, line_length) = (self.unix_ns, self.level, self.lines.first_bytes);
        self.clear();
        (self.unix_ns, self.level, self.lines.first_bytes) = (unix_ns, level, line_length);
        self.message = Text::new(Part::new(0, line_length), Writing::Verbatim);
    }

    pub(crate) fn take_head(&mut self, head: &Head) {
        self.form = head.form;
        self.unix_ns = head.is_timed.then_some(head.unix_ns);
        self.level = head.level;
        self.time = head.time;
        self.level_part = head.level_part;
    }

    /// Returns the lines behind the first one, without the last line's end.
    pub(crate) fn further_lines<'a>(&self, record: &'a [u8]) -> Cow<'a, [u8]> {
        let rest = record.get(self.lines.first_bytes..).unwrap_or(b"");
        let rest = rest.strip_prefix(b"\r").unwrap_or(rest);
        let rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
        match self.lines.is_wrapped && !rest.is_empty() {
            true => Cow::Owned(plain_lines(rest, self.lines.is_partial)),
            false => Cow::Borrowed(rest),
        }
    }

    /// Returns what stands between the message and the lines behind the first one.
    pub(crate) fn break_before_further(&self) -> &'static [u8] {
        if self.lines.is_partial { b"" } else { b"\n" }
    }

    /// The fields of a span, or of the record itself.
    pub(crate) fn fields_of(&self, span: Option<usize>) -> impl Iterator<Item = &Field> {
        let fields = self.fields.iter();
        fields.filter(move |field| field.span.map(usize::from) == span)
    }

    /// Adds a field, as long as there is room.
    pub(crate) fn push_field(&mut self, key: Text, value: Text, span: Option<u8>) {
        if self.fields.len() < FIELDS_MAX {
            self.fields.push(Field { key, value, span });
        }
    }

    /// Begins a span; `None` when there are too many.
    pub(crate) fn push_span(&mut self, name: Text) -> Option<u8> {
        let number = u8::try_from(self.span_names.len()).ok()?;
        self.span_names.push(name);
        Some(number)
    }
}
