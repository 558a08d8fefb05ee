//! The callsite in the program: a static that points to its control entry, and the way of a record into the ring.

use crate::capture::limits::{KEYED_BYTES_MAX, KEYED_BYTES_USUAL};
use crate::capture::{Fields, Kinds, Shortened};
use crate::{runtime, sampling};
use logdrive_drain::control::is_off;
use logdrive_ring::control::{ControlEntry, ControlRef, KeyField, OFF, ON, UNREGISTERED};
use logdrive_ring::limits::RECORD_BYTES_SURE;
use logdrive_ring::local::{self, Wrote};
use logdrive_ring::{DropReason, RecordWriter, thread_counts};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::record::{HEADER_BYTES, align_up};
use logdrive_wire::{Callsite, Cursor, Field, Level, Value};

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
            entry = self.register(kinds)?;
            // A callsite that is off counts its calls only where it is told to.
            if entry.control() == OFF {
                return None;
            }
        }
        sampling::admit_uncommon(entry).map(|id| Ticket { id })
    }

    #[cold]
    fn register(&'static self, kinds: &'static [u8]) -> Option<&'static ControlEntry> {
        runtime::register(&self.control, &|| describe(self.meta, kinds))
    }

    /// Writes the record into the thread's ring.
    #[inline(always)]
    pub fn write<const URGENT: bool, C: Fields>(&'static self, ticket: Ticket, values: C) {
        // Copied for the cold paths, so that the values stay in registers here.
        let values = values.view();
        let length = align_up(HEADER_BYTES + values.size_bytes());
        if length > RECORD_BYTES_SURE || ticket.id >= sampling::MARKS {
            return self.write_uncommon(ticket, URGENT, values);
        }
        let wrote = local::write(ticket.id, length, URGENT, |put| values.write(put));
        if wrote != Wrote::Committed {
            self.write_again(wrote, length, URGENT, values);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_again<C: Fields + Copy>(&'static self, wrote: Wrote, length: usize, urgent: bool, values: C) {
        let again = || self.number_again(C::KINDS, false);
        write_slowly(
            &self.control,
            wrote,
            length,
            urgent,
            &|put| values.write(put),
            &again,
        );
    }

    /// Writes a record that not every ring takes, cut to what the rings of the running session take, or one of a
    /// sample.
    #[cold]
    #[inline(never)]
    fn write_uncommon<C: Fields + Copy>(&'static self, ticket: Ticket, urgent: bool, values: C) {
        let (kinds, values) = (C::KINDS, &values);
        let entry = self.control.entry();
        if sampling::is_keyed(ticket.id) && !key_passes(entry, kinds, values) {
            return;
        }
        let sampled_variant = sampling::is_one_of_many(ticket.id)
            .then(|| self.sampled_variant(entry, kinds))
            .flatten();
        let record = RecordDraft {
            site: self,
            id: sampled_variant.unwrap_or(sampling::number(ticket.id)),
            one_of: sampled_variant.map(|_| sampling::one_of(entry)),
            urgent,
            kinds,
        };
        let longest = runtime::record_bytes_max();
        if record.length(values) <= longest {
            record.write(values);
            return;
        }
        let values = Shortened::new(values, longest - HEADER_BYTES - record.mark_bytes());
        if record.length(&values) > longest {
            drop_call(&self.control, DropReason::TooLarge);
        } else if record.write(&values) {
            local::count_cut();
        }
    }

    /// The number of the callsite under which records go that say of how many calls they are one. `None` where there
    /// is no room for such a callsite, or none may be made now.
    fn sampled_variant(&'static self, entry: &'static ControlEntry, kinds: &'static [u8]) -> Option<u32> {
        match entry.sampled_variant() {
            0 => runtime::register_sampled_variant(entry, &|| describe(self.meta, kinds)),
            own if own == entry.id() => None,
            sampled_variant => Some(sampling::number(sampled_variant)),
        }
    }

    /// The number in the session that runs now, for a record that has been admitted.
    #[cold]
    fn number_again(&'static self, kinds: &'static [u8], has_mark: bool) -> Option<u32> {
        let mut entry = self.control.entry();
        if entry.control() == UNREGISTERED {
            entry = self.register(kinds)?;
        }
        if is_off(entry.control()) {
            local::count_disabled();
            return None;
        }
        if !has_mark {
            return Some(sampling::number(entry.id()));
        }
        let sampled_variant = self.sampled_variant(entry, kinds);
        if sampled_variant.is_none() {
            drop_call(&self.control, DropReason::Other);
        }
        sampled_variant
    }
}

/// A record on its way that may say of how many calls it is one: as one more field, of another callsite.
struct RecordDraft {
    site: &'static Site,
    id: u32,
    one_of: Option<u64>,
    urgent: bool,
    kinds: &'static [u8],
}

impl RecordDraft {
    fn mark_bytes(&self) -> usize {
        if self.one_of.is_some() { 8 } else { 0 }
    }

    fn length(&self, values: &impl Fields) -> usize {
        align_up(HEADER_BYTES + values.size_bytes() + self.mark_bytes())
    }

    /// Returns true if the record is committed.
    fn write(&self, values: &impl Fields) -> bool {
        let length = self.length(values);
        let fill = |put: &mut RecordWriter<'_>| {
            values.write(put);
            if let Some(calls) = self.one_of {
                put.u64(calls);
            }
        };
        let wrote = local::write(self.id, length, self.urgent, fill);
        let again = || self.site.number_again(self.kinds, self.one_of.is_some());
        write_slowly(&self.site.control, wrote, length, self.urgent, &fill, &again)
    }
}

/// Returns true if a record passes whose key is one of its values.
fn key_passes(entry: &'static ControlEntry, kinds: &'static [u8], values: &impl Fields) -> bool {
    if values.size_bytes() <= KEYED_BYTES_USUAL {
        key_passes_in::<KEYED_BYTES_USUAL>(entry, kinds, values)
    } else {
        key_passes_in::<KEYED_BYTES_MAX>(entry, kinds, &Shortened::new(values, KEYED_BYTES_MAX))
    }
}

#[inline(never)]
fn key_passes_in<const BYTES: usize>(
    entry: &'static ControlEntry,
    kinds: &'static [u8],
    values: &impl Fields,
) -> bool {
    let mut bytes = [0; BYTES];
    let mut key = None;
    // Numbers alone may be more; then all records have one key together.
    if let Some(bytes) = bytes.get_mut(..values.size_bytes()) {
        values.write(&mut RecordWriter::new(bytes));
        key = value_at(sampling::key_of(entry), kinds, bytes);
    }
    sampling::pass_key(entry, key.as_ref())
}

/// Returns the value of the key among a record's values.
fn value_at<'a>(key: KeyField, kinds: &[u8], bytes: &'a [u8]) -> Option<Value<'a>> {
    let KeyField::Index(index) = key else {
        return None;
    };
    let (last, before) = kinds.get(..=usize::from(index))?.split_last()?;
    let mut cursor = Cursor::new(bytes);
    for kind in before {
        Value::read(FieldKind::from_code(*kind).ok()?, &mut cursor).ok()?;
    }
    let (value, _) = Value::read(FieldKind::from_code(*last).ok()?, &mut cursor).ok()?;
    Some(value)
}

/// Returns the description of a macro's callsite for the session's table.
fn describe(meta: &Meta, kinds: &[u8]) -> Callsite {
    Callsite {
        level: meta.level,
        dynamic: false,
        line: meta.line,
        file: meta.file.to_owned(),
        module: meta.module.to_owned(),
        target: meta.target.to_owned(),
        message: meta.message.to_owned(),
        fields: fields(meta, kinds),
    }
}

fn fields(meta: &Meta, kinds: &[u8]) -> Vec<Field> {
    let kinds = kinds.iter().filter_map(|code| FieldKind::from_code(*code).ok());
    meta.fields
        .iter()
        .zip(kinds)
        .map(|(field, kind)| Field {
            name: field.name.to_owned(),
            kind,
            argument: field.argument,
        })
        .collect()
}

/// Counts a call of a callsite that came to nothing.
pub(crate) fn drop_call(control: &'static ControlRef, reason: DropReason) {
    thread_counts::count_dropped(control.entry(), runtime::counts_of);
    runtime::count_drop(reason);
}

/// Goes on where the hot path could not: gets a ring, tells a gap, or counts the drop. `again` gives the callsite's
/// number in the session that runs now. Returns whether the record is committed.
#[cold]
#[inline(never)]
pub(crate) fn write_slowly(
    control: &'static ControlRef,
    mut wrote: Wrote,
    length: usize,
    urgent: bool,
    fill: &dyn Fn(&mut RecordWriter<'_>),
    again: &dyn Fn() -> Option<u32>,
) -> bool {
    // A ring to get, then a gap to tell, then the record: more than that means that the session changes under us.
    for _ in 0..4 {
        match wrote {
            Wrote::Committed => return true,
            Wrote::Dropped => {
                // The ring has counted it.
                thread_counts::count_dropped(control.entry(), runtime::counts_of);
                return false;
            }
            Wrote::GapDue => runtime::report_gap(),
            Wrote::NoRing => {
                if let Err(reason) = runtime::attach() {
                    drop_call(control, reason);
                    return false;
                }
            }
        }
        let Some(id) = again() else { return false };
        wrote = local::write(id, length, urgent, |put| fill(put));
    }
    match wrote {
        Wrote::Committed => {}
        Wrote::Dropped => thread_counts::count_dropped(control.entry(), runtime::counts_of),
        Wrote::NoRing | Wrote::GapDue => drop_call(control, DropReason::Other),
    }
    wrote == Wrote::Committed
}
