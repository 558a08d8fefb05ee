//! A record taken apart: the parts of its line in which the thread, the module, the message and the fields stand.
//!
//! Nothing is copied: parts are offsets into the line, and one [`Record`] is used for all records in turn.

use crate::escape::Writing;
use crate::head::{Form, Head};
use crate::limits::FIELDS_MAX;
use crate::part::{Pair, Part, Text};
use logdrive_wire::Level;

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
    /// The length of the record's first line, without its end.
    pub(crate) line_length: usize,
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
    }

    /// Takes the whole first line for the message, because it is not what it seemed to be.
    pub(crate) fn forget_parts(&mut self) {
        let (unix_ns, level, line_length) = (self.unix_ns, self.level, self.line_length);
        self.clear();
        (self.unix_ns, self.level, self.line_length) = (unix_ns, level, line_length);
        self.message = Text::new(Part::new(0, line_length), Writing::Verbatim);
    }

    pub(crate) fn take_head(&mut self, head: &Head) {
        self.form = head.form;
        self.unix_ns = Some(head.unix_ns);
        self.level = head.level;
        self.time = head.time;
        self.level_part = head.level_part;
    }

    /// Returns the lines behind the first one, without the last line's end.
    pub(crate) fn further_lines<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        let rest = record.get(self.line_length..).unwrap_or(b"");
        let rest = rest.strip_prefix(b"\r").unwrap_or(rest);
        let rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        rest.strip_suffix(b"\n").unwrap_or(rest)
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
