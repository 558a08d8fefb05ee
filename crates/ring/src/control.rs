//! Control words: one entry of 32 bytes per callsite, in shared memory, that the hot path loads.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The callsite is off: the call returns at once.
pub const OFF: u32 = 0;
/// The callsite is on.
pub const ON: u32 = 1;
/// The callsite is off, and its calls are counted: some nanoseconds each instead of less than one.
pub const OFF_COUNTED: u32 = 2;
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
    suppressed: AtomicU64,
    unused: AtomicU64,
}

const _: () = assert!(core::mem::size_of::<ControlEntry>() == ENTRY_BYTES);

impl ControlEntry {
    /// An entry with a control word and an id.
    pub const fn new(control: u32, id: u32) -> Self {
        Self {
            control: AtomicU32::new(control),
            id: AtomicU32::new(id),
            parameter: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
            unused: AtomicU64::new(0),
        }
    }

    /// The control word.
    #[inline(always)]
    pub fn control(&self) -> u32 {
        // Relaxed: the word is all there is; a change is seen some nanoseconds later.
        self.control.load(Ordering::Relaxed)
    }

    /// Switches the callsite.
    pub fn set_control(&self, control: u32) {
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
}

/// A callsite's pointer to its entry, for statics.
#[derive(Debug)]
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

    /// The entry.
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
        // Relaxed: only whoever sees the 0 lists the pointer.
        if self.listed.swap(1, Ordering::Relaxed) != 0 {
            return;
        }
        let this = core::ptr::from_ref(self).cast_mut();
        let mut first = LISTED.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange below.
            self.next.store(first, Ordering::Relaxed);
            // SYNC(listed): whoever walks the list sees `next`.
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
