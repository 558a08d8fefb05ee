//! Values of a record, for filters and queries, whether it was parsed from a line or is typed.

use crate::escape::Writing;
use crate::foreign::container::unwrapped;
use crate::part::Text;
use crate::record::{Field, Record};
use crate::times::Times;
use logdrive_query::Record as AskedRecord;
use logdrive_wire::Level;
use std::borrow::Cow;

/// Part of a record besides its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnPart {
    App,
    Pid,
    Thread,
    /// The target, where the record has one.
    Module,
    /// Name of the source file.
    File,
    /// Path of the source file, or its name where that is all there is.
    Path,
    Line,
    /// The message; the lines that follow it are a value of their own.
    Message,
}

pub(crate) fn own_part(key: &str) -> Option<OwnPart> {
    Some(match key {
        "app" => OwnPart::App,
        "pid" => OwnPart::Pid,
        "thread" => OwnPart::Thread,
        "module" | "target" => OwnPart::Module,
        "file" => OwnPart::File,
        "line" => OwnPart::Line,
        "message" | "msg" | "_msg" => OwnPart::Message,
        _ => return None,
    })
}

/// Values of a record, whether it was parsed from a line or is typed.
pub(crate) trait RecordValues {
    /// Gives the values of all fields with a key, as text: those of the record, then those of its spans.
    fn fields(&mut self, key: &str, each: &mut dyn FnMut(&[u8]));

    /// Gives keys and values of all fields: those of the record, then those of its spans.
    fn each_field(&mut self, each: &mut dyn FnMut(&[u8], &[u8]));

    /// Gives a part of the record, if it has it.
    fn own_part(&mut self, part: OwnPart, each: &mut dyn FnMut(&[u8]));

    /// The record as it stands in its log, where it does.
    fn line(&mut self) -> Option<&[u8]> {
        None
    }

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
pub(crate) struct ParsedRecord<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) parts: &'a Record,
}

impl ParsedRecord<'_> {
    /// Fields in the order of their values.
    fn in_order(&self) -> impl Iterator<Item = &Field> {
        let fields = self.parts.fields.iter();
        let present = fields.filter(|field| !is_absent(field, self.bytes));
        let own = present.clone().filter(|field| field.span.is_none());
        own.chain(present.filter(|field| field.span.is_some()))
    }
}

/// Whether a field has no value: `null` in JSON, `None` in text.
fn is_absent(field: &Field, bytes: &[u8]) -> bool {
    let written = field.value.part.of(bytes);
    match field.value.writing {
        Writing::JsonValue => written == b"null",
        Writing::Text => written == b"None",
        _ => false,
    }
}

impl RecordValues for ParsedRecord<'_> {
    fn fields(&mut self, key: &str, each: &mut dyn FnMut(&[u8])) {
        for field in self.in_order() {
            if *field.key.plain(self.bytes) == *key.as_bytes() {
                each(&field.value.plain(self.bytes));
            }
        }
    }

    fn each_field(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) {
        for field in self.in_order() {
            each(&field.key.plain(self.bytes), &field.value.plain(self.bytes));
        }
    }

    fn own_part(&mut self, part: OwnPart, each: &mut dyn FnMut(&[u8])) {
        let parts = self.parts;
        let text = match part {
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
            OwnPart::Message => {
                // A record without a message has an empty one, as in JSON.
                each(&parts.message.plain(self.bytes));
                let further = parts.further_lines(self.bytes);
                if !further.is_empty() {
                    each(&further);
                }
                return;
            }
        };
        if !text.is_empty() {
            each(&text.plain(self.bytes));
        }
    }
}

/// A record that is parsed when its parts are first asked for.
pub(crate) struct LazyRecord<'a> {
    bytes: &'a [u8],
    /// The same as its program wrote it, once it is parsed.
    plain: Cow<'a, [u8]>,
    parts: &'a mut Record,
    times: &'a mut Times,
    is_parsed: bool,
}

impl<'a> LazyRecord<'a> {
    pub(crate) fn new(bytes: &'a [u8], parts: &'a mut Record, times: &'a mut Times) -> Self {
        Self {
            bytes,
            plain: Cow::Borrowed(bytes),
            parts,
            times,
            is_parsed: false,
        }
    }

    fn parsed(&mut self) -> ParsedRecord<'_> {
        if !std::mem::replace(&mut self.is_parsed, true) {
            self.plain = unwrapped(self.bytes);
            self.parts.read(&self.plain, self.times);
        }
        ParsedRecord {
            bytes: &self.plain,
            parts: self.parts,
        }
    }
}

impl RecordValues for LazyRecord<'_> {
    fn fields(&mut self, key: &str, each: &mut dyn FnMut(&[u8])) {
        self.parsed().fields(key, each);
    }

    fn each_field(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) {
        self.parsed().each_field(each);
    }

    fn own_part(&mut self, part: OwnPart, each: &mut dyn FnMut(&[u8])) {
        self.parsed().own_part(part, each);
    }

    fn line(&mut self) -> Option<&[u8]> {
        Some(self.bytes)
    }
}

/// A record that a query asks, with what its head says.
pub(crate) struct QueriedRecord<'a, R> {
    pub(crate) values: &'a mut R,
    pub(crate) unix_ns: Option<u64>,
    pub(crate) level: Option<Level>,
    /// Application and process id, where the record does not say them.
    pub(crate) process: Option<&'a (String, String)>,
}

impl<R: RecordValues> AskedRecord for QueriedRecord<'_, R> {
    fn unix_ns(&mut self) -> Option<u64> {
        self.unix_ns
    }

    fn level(&mut self) -> Option<Level> {
        self.level
    }

    fn values(&mut self, field: &str, each: &mut dyn FnMut(&[u8])) {
        let Some(part) = own_part(field) else {
            return self.values.fields(field, each);
        };
        let mut has_own = false;
        self.values.own_part(part, &mut |value| {
            has_own = true;
            each(value);
        });
        match (part, self.process) {
            (OwnPart::App, Some((app, _))) if !has_own => each(app.as_bytes()),
            (OwnPart::Pid, Some((_, pid))) if !has_own => each(pid.as_bytes()),
            (OwnPart::File, _) => self.values.own_part(OwnPart::Path, each),
            _ => {}
        }
        self.values.fields(field, each);
    }

    fn each_field(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) {
        self.values.each_field(each);
    }

    fn line(&mut self) -> Option<&[u8]> {
        self.values.line()
    }
}
