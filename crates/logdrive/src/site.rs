//! The callsite in the program: a static that points to its control entry, and the way of a record into the ring.

use crate::capture::limits::{KEYED_BYTES_MAX, KEYED_BYTES_USUAL};
use crate::capture::{Fields, Kinds, Shortened, Values};
use crate::sampling;
use crate::statement::{RecordDraft, Statement, value_at};
use logdrive_ring::RecordWriter;
use logdrive_ring::control::{ControlEntry, ControlRef, OFF, ON, UNREGISTERED};
use logdrive_ring::limits::RECORD_BYTES_SURE;
use logdrive_ring::local::{self, Wrote};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::record::{HEADER_BYTES, align_up};
use logdrive_wire::{Callsite, Field, Level};

/// Description of a log statement that is known when the program is compiled.
#[derive(Debug)]
pub struct Meta {
    /// Level of the statement.
    pub level: Level,
    /// Path of the source file.
    pub file: &'static str,
    /// Line of the statement in the file.
    pub line: u32,
    /// Path of the module.
    pub module: &'static str,
    /// Target of the statement; empty for the module.
    pub target: &'static str,
    /// The message with explicit field indices.
    pub message: &'static str,
    /// The fields in the order of the values.
    pub fields: &'static [FieldMeta],
}

/// A field's name, and whether the message shows it.
#[derive(Debug)]
pub struct FieldMeta {
    /// The key; empty for a positional argument.
    pub name: &'static str,
    /// True if the message shows it.
    pub argument: bool,
}

/// The static of a callsite: its control word and its description.
#[derive(Debug)]
pub struct Site {
    control: ControlRef,
    meta: &'static Meta,
}

/// The permission to write one record.
#[derive(Debug, Clone, Copy)]
pub struct Ticket {
    /// The callsite's number, with the marks of `sampling`.
    id: u32,
}

impl Site {
    /// A callsite that has not been called.
    pub const fn new(meta: &'static Meta) -> Self {
        Self {
            control: ControlRef::unregistered(),
            meta,
        }
    }

    /// Returns a ticket if the call goes on. Two loads when the callsite is known; registers it the first time.
    #[inline(always)]
    pub fn admit<C: Fields>(&'static self, _: &Kinds<C>) -> Option<Ticket> {
        let entry = self.control.entry();
        match entry.control() {
            ON => Some(Ticket { id: entry.id() }),
            OFF => None,
            _ if sampling::is_left_out(entry) => None,
            _ => self.admit_slowly(C::KINDS),
        }
    }

    #[cold]
    #[inline(never)]
    fn admit_slowly(&'static self, kinds: &'static [u8]) -> Option<Ticket> {
        let mut entry = self.control.entry();
        if entry.control() == UNREGISTERED {
            entry = Call { site: self, kinds }.entry()?;
            // A callsite that is off counts its calls only where that is asked for.
            if entry.control() == OFF {
                return None;
            }
        }
        sampling::admit_uncommon(entry).map(|id| Ticket { id })
    }

    /// Writes the record into the thread's ring.
    #[inline(always)]
    pub fn write<const URGENT: bool, C: Fields>(&'static self, ticket: Ticket, values: C) {
        // Copied for the cold paths, so that the values stay in registers here.
        let values = values.view();
        let length = align_up(HEADER_BYTES + values.size_bytes());
        if length > RECORD_BYTES_SURE || ticket.id >= sampling::MARKS {
            return self.write_uncommon(ticket, values);
        }
        let wrote = local::write(ticket.id, length, URGENT, |put| values.write(put));
        if wrote != Wrote::Committed {
            self.write_again(wrote, length, values);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_again<C: Fields + Copy>(&'static self, wrote: Wrote, length: usize, values: C) {
        let kinds = C::KINDS;
        let call = Call { site: self, kinds };
        RecordDraft::unnumbered(&call).put_again(wrote, length, &|put| values.write(put));
    }

    /// Writes a record that not every ring takes, cut to what the rings of the running session take, or one of a
    /// sample.
    #[cold]
    #[inline(never)]
    fn write_uncommon<C: Fields + Copy>(&'static self, ticket: Ticket, values: C) {
        let kinds = C::KINDS;
        let call = Call { site: self, kinds };
        if !sampling::is_keyed(ticket.id) || call.key_passes(&values) {
            RecordDraft::of_sample(&call, ticket.id).write(&values);
        }
    }
}

/// A call of a macro: its callsite, and the kinds of its values, which are known by their types.
struct Call {
    site: &'static Site,
    kinds: &'static [u8],
}

impl Statement for Call {
    fn control(&self) -> &'static ControlRef {
        &self.site.control
    }

    fn is_urgent(&self) -> bool {
        self.site.meta.level.is_urgent()
    }

    fn describe(&self) -> Callsite {
        let meta = self.site.meta;
        Callsite {
            level: meta.level,
            dynamic: false,
            line: meta.line,
            file: meta.file.to_owned(),
            module: meta.module.to_owned(),
            target: meta.target.to_owned(),
            message: meta.message.to_owned(),
            fields: (meta.fields.iter().zip(self.kinds()))
                .map(|(field, kind)| Field {
                    name: field.name.to_owned(),
                    kind,
                    argument: field.argument,
                })
                .collect(),
        }
    }
}

impl Call {
    fn kinds(&self) -> impl Iterator<Item = FieldKind> {
        let codes = self.kinds.iter();
        codes.filter_map(|code| FieldKind::from_code(*code).ok())
    }

    /// Returns true if a record passes whose key is one of its values.
    fn key_passes(&self, values: &dyn Values) -> bool {
        let entry = self.control().entry();
        if values.size_bytes() <= KEYED_BYTES_USUAL {
            self.key_passes_in::<KEYED_BYTES_USUAL>(entry, values)
        } else {
            self.key_passes_in::<KEYED_BYTES_MAX>(entry, &Shortened::new(values, KEYED_BYTES_MAX))
        }
    }

    #[inline(never)]
    fn key_passes_in<const BYTES: usize>(&self, entry: &'static ControlEntry, values: &dyn Values) -> bool {
        let mut bytes = [0; BYTES];
        let mut key = None;
        // Numbers alone may be more; then all records have one key together.
        if let Some(bytes) = bytes.get_mut(..values.size_bytes()) {
            values.write(&mut RecordWriter::new(bytes));
            key = value_at(sampling::key_of(entry), self.kinds(), bytes);
        }
        sampling::pass_key(entry, key.as_ref())
    }
}
