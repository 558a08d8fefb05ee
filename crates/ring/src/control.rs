//! Control words: one entry of 32 bytes per callsite, in shared memory, that the hot path loads.
#![allow(unsafe_code)]

use crate::limits::SETTLE_ROUNDS_MAX;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// The callsite is off: the call returns at once.
pub const OFF: u32 = 0;
/// The callsite is on.
pub const ON: u32 = 1;
/// The callsite is off, and its calls are counted: some nanoseconds each instead of less than one.
pub const OFF_COUNTED: u32 = 2;
/// One call of so many passes; the parameter says of how many.
pub const EVERY: u32 = 3;
/// So many calls pass in a second, in all threads together; the parameter says how many.
pub const PER_SECOND: u32 = 4;
/// So many calls pass in a second for each value of one field; see [`KeyedLimit`].
pub const PER_KEY: u32 = 5;
/// The callsite has not been registered with the running session. Never in shared memory.
pub const UNREGISTERED: u32 = u32::MAX;

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 32;

/// The entry of one callsite. Anything but 0 and 1 in `control` takes the slow path: counting,
/// sampling.
#[repr(C)]
#[derive(Debug)]
pub struct ControlEntry {
    control: AtomicU32,
    id: AtomicU32,
    parameter: AtomicU64,
    /// The control word that the process's own filter gave.
    base: AtomicU32,
    /// Calls that may pass before the next refill.
    budget: AtomicU32,
    /// The callsite under which kept records of a sample go, 0 as long as there is none.
    sampled_variant: AtomicU32,
    unused: AtomicU32,
}

const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<ControlEntry>() == ENTRY_BYTES);
    assert!(offset_of!(ControlEntry, parameter) == 8);
    assert!(offset_of!(ControlEntry, base) == 16);
    assert!(offset_of!(ControlEntry, sampled_variant) == 24);
};

/// Setting of a callsite: its control word with all that belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// The control word.
    pub control: u32,
    /// Parameter of the word.
    pub parameter: u64,
}

impl Switch {
    /// A word that needs no parameter.
    pub const fn plain(control: u32) -> Self {
        Self {
            control,
            parameter: 0,
        }
    }

    /// Calls that pass at once when the callsite is switched this way.
    fn first_budget(self) -> u32 {
        match self.control {
            // A line that has just been sampled is seen once without a wait.
            EVERY => 1,
            PER_SECOND => u32::try_from(self.parameter).unwrap_or(u32::MAX),
            _ => 0,
        }
    }
}

/// The parameter of [`PER_KEY`]: calls a second for each key, and which field the key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedLimit {
    /// Calls that pass in a second for each key.
    pub per_second: u32,
    /// Which field is the key.
    pub key: KeyField,
}

/// Field that is the key of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyField {
    /// By its index in the callsite.
    Index(u8),
    /// By the hash of its name, where records bring names along.
    Named(u32),
}

/// In the upper half of a keyed limit: the rest is the hash of a name.
const BY_NAME: u32 = 1 << 31;

impl KeyedLimit {
    /// The parameter.
    pub fn to_parameter(self) -> u64 {
        let key = match self.key {
            KeyField::Index(index) => u32::from(index),
            KeyField::Named(hash) => hash | BY_NAME,
        };
        u64::from(key) << 32 | u64::from(self.per_second)
    }

    /// Reads a parameter; every number is one.
    pub fn of(parameter: u64) -> Self {
        let key = (parameter >> 32) as u32;
        Self {
            per_second: parameter as u32,
            key: if key & BY_NAME != 0 {
                KeyField::Named(key & !BY_NAME)
            } else {
                KeyField::Index(key as u8)
            },
        }
    }

    /// The key that is found by its name.
    pub fn named(name: &str) -> KeyField {
        // FNV-1a: names are short, and a mistake would need a record with two names of one hash.
        let hash = name.bytes().fold(0x811c_9dc5u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        KeyField::Named(hash & !BY_NAME)
    }
}

impl ControlEntry {
    /// An entry with a control word and an id.
    pub(crate) const fn new(control: u32, id: u32) -> Self {
        Self {
            control: AtomicU32::new(control),
            id: AtomicU32::new(id),
            parameter: AtomicU64::new(0),
            base: AtomicU32::new(control),
            budget: AtomicU32::new(0),
            sampled_variant: AtomicU32::new(0),
            unused: AtomicU32::new(0),
        }
    }

    /// The control word.
    #[inline(always)]
    pub fn control(&self) -> u32 {
        // Relaxed: the word is all there is; a change is seen some nanoseconds later.
        self.control.load(Ordering::Relaxed)
    }

    /// Switches the callsite, without a check of the rules.
    pub(crate) fn set_control(&self, control: u32) {
        // Relaxed: as above.
        self.control.store(control, Ordering::Relaxed);
    }

    /// The callsite's number in its session.
    #[inline(always)]
    pub fn id(&self) -> u32 {
        // Relaxed: written once, before the entry's address or the callsite count is published.
        self.id.load(Ordering::Relaxed)
    }

    pub(crate) fn set_id(&self, id: u32) {
        self.id.store(id, Ordering::Relaxed);
    }

    /// Parameter of the control word.
    #[inline(always)]
    pub fn parameter(&self) -> u64 {
        // Relaxed: a parameter of the word before or after is taken for some nanoseconds at most.
        self.parameter.load(Ordering::Relaxed)
    }

    /// Word and parameter.
    pub fn switch(&self) -> Switch {
        Switch {
            control: self.control(),
            parameter: self.parameter(),
        }
    }

    /// Switches the callsite; whether that changed anything. What was there stays as it is, with its budget.
    ///
    /// After the store, the caller checks that the inputs of the word have not changed, see [`settle`].
    pub(crate) fn set_switch(&self, switch: Switch) -> bool {
        let changed = self.switch() != switch;
        if changed {
            // Relaxed: see `parameter`.
            self.parameter.store(switch.parameter, Ordering::Relaxed);
            self.budget.store(switch.first_budget(), Ordering::Relaxed);
            self.set_control(switch.control);
        }
        changed
    }

    /// The control word that the process's own filter gave.
    pub fn base(&self) -> u32 {
        // Relaxed: ordered by the fences of `settle`.
        self.base.load(Ordering::Relaxed)
    }

    /// Notes what the process's own filter says.
    pub fn set_base(&self, control: u32) {
        // Relaxed: as above.
        self.base.store(control, Ordering::Relaxed);
        // SYNC(settle): a thread that stores a word made of the old base sees the new one afterwards.
        fence(Ordering::SeqCst);
    }

    /// Returns whether a call may pass now.
    #[inline(always)]
    pub(crate) fn has_budget(&self) -> bool {
        // Relaxed: a count by itself.
        self.budget.load(Ordering::Relaxed) > 0
    }

    /// Takes one of the calls that may pass. No more than a load when there is none.
    #[inline]
    pub(crate) fn take_budget(&self) -> bool {
        // Relaxed: a count by itself.
        let mut left = self.budget.load(Ordering::Relaxed);
        while left > 0 {
            match self
                .budget
                .compare_exchange_weak(left, left - 1, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(other) => left = other,
            }
        }
        false
    }

    /// Lets more calls pass, up to `most` at one time.
    pub fn add_budget(&self, more: u32, most: u32) {
        let add = |left: u32| Some(left.saturating_add(more).min(most));
        // Relaxed: a count by itself. The sum always exists.
        let _ = self
            .budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// The callsite under which kept records of a sample go; 0 as long as there is none.
    #[inline]
    pub fn sampled_variant(&self) -> u32 {
        // Relaxed: a number by itself; the drain looks it up in the table, and a wrong one is an unknown callsite.
        self.sampled_variant.load(Ordering::Relaxed)
    }

    /// Notes under which callsite kept records go.
    pub fn set_sampled_variant(&self, id: u32) {
        self.sampled_variant.store(id, Ordering::Relaxed);
    }
}

/// Switches a callsite as base and rules say, when both may change at any time: `made_of` gives the rules' sequence,
/// `make` what they make of a base. A thread that changes either stores it first and the words afterwards, so that the
/// last word always is one of the newest base and rules. Returns whether anything changed.
pub fn settle(
    entry: &ControlEntry,
    mut made_of: impl FnMut() -> u64,
    mut make: impl FnMut(u32) -> Switch,
) -> bool {
    let mut changed = false;
    // More than a few rounds need a tool that changes rules all the time; its last change settles it.
    for _ in 0..SETTLE_ROUNDS_MAX {
        let (sequence, base) = (made_of(), entry.base());
        changed |= entry.set_switch(make(base));
        // SYNC(settle): if another one's word was overwritten, what it was made of is seen below.
        fence(Ordering::SeqCst);
        if (made_of(), entry.base()) == (sequence, base) {
            break;
        }
    }
    changed
}

/// A callsite's pointer to its entry, for statics. The pointer comes first: front ends in other languages read it.
#[derive(Debug)]
#[repr(C)]
pub struct ControlRef {
    entry: AtomicPtr<ControlEntry>,
    /// The next of all pointers that were ever bound.
    next: AtomicPtr<ControlRef>,
    listed: AtomicU32,
}

static NOT_REGISTERED: ControlEntry = ControlEntry::new(UNREGISTERED, 0);

/// The first of all pointers that were ever bound; they are statics, so the list only grows.
static LISTED: AtomicPtr<ControlRef> = AtomicPtr::new(core::ptr::null_mut());

impl ControlRef {
    /// A callsite that has not been registered.
    pub const fn unregistered() -> Self {
        Self {
            entry: AtomicPtr::new(&raw const NOT_REGISTERED as *mut ControlEntry),
            next: AtomicPtr::new(core::ptr::null_mut()),
            listed: AtomicU32::new(0),
        }
    }

    /// Entry of the callsite. One load.
    #[inline(always)]
    pub fn entry(&self) -> &'static ControlEntry {
        // SYNC(control): the entry's id is visible before its address is. (A plain load on x86-64.)
        // SAFETY: the pointer is always that of a `&'static ControlEntry`: `bind` takes nothing else.
        unsafe { &*self.entry.load(Ordering::Acquire) }
    }

    /// Ties the callsite to its entry, until [`unbind_all`].
    pub fn bind(&'static self, entry: &'static ControlEntry) {
        // SYNC(control)
        self.entry
            .store(core::ptr::from_ref(entry).cast_mut(), Ordering::Release);
        // Relaxed: only the thread that sees the 0 lists the pointer.
        if self.listed.swap(1, Ordering::Relaxed) != 0 {
            return;
        }
        let this = core::ptr::from_ref(self).cast_mut();
        let mut first = LISTED.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange below.
            self.next.store(first, Ordering::Relaxed);
            // SYNC(listed): a thread that walks the list sees `next`.
            match LISTED.compare_exchange_weak(first, this, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => first = other,
            }
        }
    }
}

/// Every callsite is unregistered again: the session has ended.
pub fn unbind_all() {
    // SYNC(listed)
    let mut at = LISTED.load(Ordering::Acquire);
    // SAFETY: the list holds addresses of statics only.
    while let Some(reference) = unsafe { at.as_ref() } {
        reference
            .entry
            .store((&raw const NOT_REGISTERED).cast_mut(), Ordering::Release);
        // Relaxed: written before the element was published.
        at = reference.next.load(Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyed_limit_reads_back() {
        for key in [
            KeyField::Index(0),
            KeyField::Index(254),
            KeyedLimit::named("peer"),
        ] {
            for per_second in [0, 1, u32::MAX] {
                let limit = KeyedLimit { per_second, key };
                assert_eq!(KeyedLimit::of(limit.to_parameter()), limit);
            }
        }
        assert_ne!(KeyedLimit::named("peer"), KeyedLimit::named("peers"));
    }

    #[test]
    fn a_budget_is_never_overdrawn_and_never_overfilled() {
        let entry = ControlEntry::new(ON, 0);
        assert!(!entry.take_budget());
        entry.add_budget(7, 5);
        let taken = (0..10).filter(|_| entry.take_budget()).count();
        assert_eq!(taken, 5);
        entry.add_budget(u32::MAX, u32::MAX);
        entry.add_budget(u32::MAX, u32::MAX);
        assert!(entry.take_budget());
    }

    #[test]
    fn the_same_switch_twice_keeps_the_budget() {
        let entry = ControlEntry::new(ON, 0);
        let switch = Switch {
            control: PER_SECOND,
            parameter: 3,
        };
        assert!(entry.set_switch(switch));
        assert!(entry.take_budget());
        assert!(!entry.set_switch(switch));
        assert_eq!((0..10).filter(|_| entry.take_budget()).count(), 2);
    }

    #[test]
    fn a_word_is_made_again_when_its_base_or_its_rules_change_meanwhile() {
        let entry = ControlEntry::new(ON, 0);
        let sequence = core::cell::Cell::new(1);
        let mut made = Vec::new();
        settle(
            &entry,
            || sequence.get(),
            |base| {
                made.push((sequence.get(), base));
                match made.len() {
                    1 => entry.set_base(OFF),
                    2 => sequence.set(2),
                    _ => {}
                }
                Switch::plain(base)
            },
        );
        assert_eq!(made, [(1, ON), (1, OFF), (2, OFF)]);
        assert_eq!(entry.control(), OFF);
    }

    #[test]
    fn settling_ends_when_somebody_changes_the_rules_all_the_time() {
        let entry = ControlEntry::new(ON, 0);
        let mut sequence = 0;
        let count = || {
            sequence += 1;
            sequence
        };
        assert!(settle(&entry, count, |_| Switch::plain(OFF)));
        assert_eq!(entry.control(), OFF);
    }
}
