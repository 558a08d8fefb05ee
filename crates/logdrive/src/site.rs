//! The callsite in the program: a static that points to its control entry, and the way of a record into the ring.

use crate::capture::{Fields, Kinds, Shortened};
use crate::runtime;
use logdrive_ring::control::{ControlEntry, ControlRef, OFF, OFF_COUNTED, ON, UNREGISTERED};
use logdrive_ring::local::{self, Wrote};
use logdrive_ring::{DropReason, Put};
use logdrive_wire::Level;
use logdrive_wire::limits::RECORD_BYTES_MAX;
use logdrive_wire::record::{HEADER_BYTES, align_up};

/// What is known of a log statement when the program is compiled.
#[derive(Debug)]
pub struct Meta {
    /// Its level.
    pub level: Level,
    /// Source file.
    pub file: &'static str,
    /// Line in it.
    pub line: u32,
    /// Module path.
    pub module: &'static str,
    /// Target; empty for the module.
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
    /// Whether the message shows it.
    pub argument: bool,
}

/// A callsite's static.
#[derive(Debug)]
pub struct Site {
    control: ControlRef,
    meta: &'static Meta,
}

/// The permission to write one record.
#[derive(Debug, Clone, Copy)]
pub struct Ticket {
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

    /// Whether the call goes on. Two loads when the callsite is known; registers it the first time.
    #[inline(always)]
    pub fn admit<C: Fields>(&'static self, _: &Kinds<C>) -> Option<Ticket> {
        let entry = self.control.entry();
        match entry.control() {
            ON => Some(Ticket { id: entry.id() }),
            OFF => None,
            _ => self.admit_slowly(C::KINDS),
        }
    }

    #[cold]
    #[inline(never)]
    fn admit_slowly(&'static self, kinds: &'static [u8]) -> Option<Ticket> {
        let entry = self.control.entry();
        let entry = match entry.control() {
            UNREGISTERED => runtime::register(&self.control, self.meta, kinds)?,
            _ => entry,
        };
        admit_entry(entry)
    }

    /// Writes the record.
    #[inline(always)]
    pub fn write<const URGENT: bool, C: Fields>(&'static self, ticket: Ticket, values: C) {
        let length = align_up(HEADER_BYTES + values.size_bytes());
        if length > RECORD_BYTES_MAX {
            return self.write_cut(ticket, URGENT, C::KINDS, &values);
        }
        let wrote = local::write(ticket.id, length, URGENT, |put| values.write(put));
        if wrote != Wrote::Committed {
            let id = || self.admit_slowly(C::KINDS).map(|ticket| ticket.id);
            write_slowly(wrote, length, URGENT, &|put| values.write(put), &id);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_cut<C: Fields>(&'static self, ticket: Ticket, urgent: bool, kinds: &'static [u8], values: &C) {
        let values = Shortened::new(values, RECORD_BYTES_MAX - HEADER_BYTES);
        let length = align_up(HEADER_BYTES + values.size_bytes());
        if length > RECORD_BYTES_MAX {
            runtime::count_drop(DropReason::TooLarge);
            return;
        }
        let wrote = local::write(ticket.id, length, urgent, |put| values.write(put));
        let id = || self.admit_slowly(kinds).map(|ticket| ticket.id);
        if write_slowly(wrote, length, urgent, &|put| values.write(put), &id) {
            local::count_cut();
        }
    }
}

/// On, or anything that asks for a look at sampling.
fn admit_entry(entry: &'static ControlEntry) -> Option<Ticket> {
    match entry.control() {
        OFF => None,
        OFF_COUNTED => {
            local::count_disabled();
            None
        }
        _ => Some(Ticket { id: entry.id() }),
    }
}

/// Goes on where the hot path could not: gets a ring, tells a gap, or counts the drop. `id` gives the callsite's
/// number in the session that runs now. Returns whether the record is committed.
#[cold]
#[inline(never)]
pub(crate) fn write_slowly(
    mut wrote: Wrote,
    length: usize,
    urgent: bool,
    fill: &dyn Fn(&mut Put<'_>),
    id: &dyn Fn() -> Option<u32>,
) -> bool {
    // A ring to get, then a gap to tell, then the record: more than that means that the session changes under us.
    for _ in 0..4 {
        match wrote {
            Wrote::Committed => return true,
            Wrote::Dropped => return false,
            Wrote::GapDue => runtime::tell_gap(),
            Wrote::NoRing => {
                if let Err(reason) = runtime::attach() {
                    runtime::count_drop(reason);
                    return false;
                }
            }
        }
        let Some(id) = id() else { return false };
        wrote = local::write(id, length, urgent, |put| fill(put));
    }
    if matches!(wrote, Wrote::NoRing | Wrote::GapDue) {
        runtime::count_drop(DropReason::Other);
    }
    wrote == Wrote::Committed
}
