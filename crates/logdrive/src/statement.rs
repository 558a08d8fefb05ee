//! The log statement of any front end, and the record of one that the hot path could not write by itself: the first of
//! its thread, one for a full ring, one of a sample, one that is too long.

use crate::capture::{Shortened, Values};
use crate::runtime::{self, Attached};
use crate::sampling;
use logdrive_drain::control::is_off;
use logdrive_ring::control::{ControlEntry, ControlRef, KeyField, UNREGISTERED};
use logdrive_ring::local::{self, Wrote};
use logdrive_ring::{DropReason, RecordWriter, thread_counts};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::record::{HEADER_BYTES, align_up};
use logdrive_wire::{Callsite, Cursor, Value};

/// Times that a record is written again.
const TRIES: usize = 8;

/// A log statement: its control word, and its description for the session's table.
pub(crate) trait Statement {
    /// Returns the reference to the control word.
    fn control(&self) -> &'static ControlRef;

    /// Returns the description of the callsite.
    fn describe(&self) -> Callsite;

    /// Returns true if the records may use the ring's last eighth.
    fn is_urgent(&self) -> bool;

    /// Returns true if the filter's word for the callsite says nothing about its records.
    fn ignores_filter(&self) -> bool {
        false
    }

    /// Returns the entry in the running session; enters the callsite the first time. `None` is counted as a drop.
    fn entry(&self) -> Option<&'static ControlEntry> {
        match self.control().entry() {
            entry if entry.control() == UNREGISTERED => {
                runtime::register(self.control(), &|| self.describe())
            }
            entry => Some(entry),
        }
    }

    /// Returns the entry, unless the callsite is off, which is counted where that is asked for.
    fn entry_if_on(&self) -> Option<&'static ControlEntry> {
        let entry = self.entry()?;
        if is_off(entry.control()) && !self.ignores_filter() {
            local::count_disabled();
            return None;
        }
        Some(entry)
    }

    /// Returns the number of the callsite under which records go that say of how many calls they are one. `None` where
    /// there is no room for such a callsite, or none may be made now.
    fn sampled_variant(&self, entry: &'static ControlEntry) -> Option<u32> {
        match entry.sampled_variant() {
            0 => runtime::register_sampled_variant(entry, &|| self.describe()),
            own if own == entry.id() => None,
            sampled_variant => Some(sampling::number(sampled_variant)),
        }
    }

    /// Counts a call that came to nothing.
    fn drop_call(&self, reason: DropReason) {
        thread_counts::count_dropped(self.control().entry(), runtime::counts_of);
        runtime::count_drop(reason);
    }
}

/// A record on its way that may say of how many calls it is one: as one more field, of another callsite.
pub(crate) struct RecordDraft<'a> {
    statement: &'a dyn Statement,
    id: u32,
    one_of: Option<u64>,
}

impl<'a> RecordDraft<'a> {
    /// A record of the callsite with this number, which may bear marks of `sampling`; they count for nothing here.
    pub(crate) fn new(statement: &'a dyn Statement, marked: u32) -> Self {
        Self {
            statement,
            id: sampling::number(marked),
            one_of: None,
        }
    }

    /// A record after its first try: the number is looked up for the next one.
    pub(crate) fn unnumbered(statement: &'a dyn Statement) -> Self {
        Self::new(statement, 0)
    }

    /// A record that says of how many calls it is one, where its number has that mark.
    pub(crate) fn of_sample(statement: &'a dyn Statement, marked: u32) -> Self {
        let mut draft = Self::new(statement, marked);
        let entry = statement.control().entry();
        if sampling::is_one_of_many(marked)
            && let Some(id) = statement.sampled_variant(entry)
        {
            draft.id = id;
            draft.one_of = Some(sampling::one_of(entry));
        }
        draft
    }

    /// Writes the record, with values that are cut to what the rings of the running session take. Returns true if it is
    /// committed; one that is not is counted.
    pub(crate) fn write(&self, values: &dyn Values) -> bool {
        let mark_bytes = if self.one_of.is_some() { 8 } else { 0 };
        let length = |values: &dyn Values| align_up(HEADER_BYTES + values.size_bytes() + mark_bytes);
        let put = |values: &dyn Values| {
            self.put(length(values), &|put| {
                values.write(put);
                if let Some(calls) = self.one_of {
                    put.u64(calls);
                }
            })
        };
        let longest = runtime::record_bytes_max();
        if length(values) <= longest {
            return put(values);
        }
        let values = Shortened::new(values, longest - HEADER_BYTES - mark_bytes);
        if length(&values) > longest {
            self.statement.drop_call(DropReason::TooLarge);
            return false;
        }
        let committed = put(&values);
        if committed {
            local::count_cut();
        }
        committed
    }

    /// Writes a record of so many bytes. Returns true if it is committed.
    pub(crate) fn put(&self, length: usize, fill: &dyn Fn(&mut RecordWriter<'_>)) -> bool {
        let wrote = local::write(self.id, length, self.statement.is_urgent(), |put| fill(put));
        self.put_again(wrote, length, fill)
    }

    /// Goes on behind a first try: gets a ring, reports a gap, or counts the drop. Returns true if the record is committed.
    #[cold]
    #[inline(never)]
    pub(crate) fn put_again(
        &self,
        mut wrote: Wrote,
        length: usize,
        fill: &dyn Fn(&mut RecordWriter<'_>),
    ) -> bool {
        let mut attached = Attached::ForGood;
        let committed = self.write_again(&mut wrote, &mut attached, length, fill);
        if attached == Attached::ForOneCall {
            local::detach_thread();
        }
        committed
    }

    fn write_again(
        &self,
        wrote: &mut Wrote,
        attached: &mut Attached,
        length: usize,
        fill: &dyn Fn(&mut RecordWriter<'_>),
    ) -> bool {
        let control = self.statement.control();
        // A ring to get, larger ones for a long record, then a gap to report, then the record: more than that means that the
        // session changes under us.
        for _ in 0..TRIES {
            match *wrote {
                Wrote::Committed | Wrote::Dropped => break,
                Wrote::GapDue => runtime::report_gap(),
                Wrote::RingFull => runtime::enlarge_ring(),
                Wrote::NoRing => match runtime::attach() {
                    Ok(now) => *attached = now,
                    Err(reason) => {
                        self.statement.drop_call(reason);
                        return false;
                    }
                },
            }
            let Some(id) = self.number_now() else { return false };
            *wrote = local::write(id, length, self.statement.is_urgent(), |put| fill(put));
        }
        match *wrote {
            Wrote::Committed => return true,
            // The ring has counted it.
            Wrote::Dropped => thread_counts::count_dropped(control.entry(), runtime::counts_of),
            Wrote::NoRing | Wrote::GapDue | Wrote::RingFull => self.statement.drop_call(DropReason::Other),
        }
        false
    }

    /// The number in the session that runs now, for a record that has been admitted.
    fn number_now(&self) -> Option<u32> {
        let entry = self.statement.entry_if_on()?;
        if self.one_of.is_none() {
            return Some(sampling::number(entry.id()));
        }
        let sampled_variant = self.statement.sampled_variant(entry);
        if sampled_variant.is_none() {
            self.statement.drop_call(DropReason::Other);
        }
        sampled_variant
    }
}

/// Returns the value of a sample's key among the values of a record, encoded.
pub(crate) fn value_at<'a>(
    key: KeyField,
    mut kinds: impl Iterator<Item = FieldKind>,
    bytes: &'a [u8],
) -> Option<Value<'a>> {
    let KeyField::Index(index) = key else {
        return None;
    };
    let mut cursor = Cursor::new(bytes);
    for _ in 0..index {
        Value::read(kinds.next()?, &mut cursor).ok()?;
    }
    let (value, _) = Value::read(kinds.next()?, &mut cursor).ok()?;
    Some(value)
}
