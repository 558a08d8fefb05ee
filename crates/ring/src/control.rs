//! Control words: one entry of 32 bytes per callsite, in shared memory, that the hot path loads.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The callsite is off: the call returns at once.
pub const OFF: u32 = 0;
/// The callsite is on.
pub const ON: u32 = 1;
/// The callsite has not been registered with the running session. Never in shared memory.
pub const UNREGISTERED: u32 = u32::MAX;

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 32;

/// The entry of one callsite. Anything but 0 and 1 in `control` takes the sampling path.
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
pub struct ControlRef(AtomicPtr<ControlEntry>);

static NOT_REGISTERED: ControlEntry = ControlEntry::new(UNREGISTERED, 0);

impl ControlRef {
    /// A callsite that has not been registered.
    pub const fn unregistered() -> Self {
        Self(AtomicPtr::new(&raw const NOT_REGISTERED as *mut ControlEntry))
    }

    /// The entry.
    #[inline(always)]
    pub fn entry(&self) -> &'static ControlEntry {
        // SYNC(control): the entry's id is visible before its address is. (A plain load on x86-64.)
        // SAFETY: the pointer is always that of a `&'static ControlEntry`: `bind` takes nothing else.
        unsafe { &*self.0.load(Ordering::Acquire) }
    }

    /// Ties the callsite to its entry.
    pub fn bind(&self, entry: &'static ControlEntry) {
        // SYNC(control)
        self.0
            .store(core::ptr::from_ref(entry).cast_mut(), Ordering::Release);
    }

    /// Back to the beginning: the session has ended.
    pub fn unbind(&self) {
        self.bind(&NOT_REGISTERED);
    }
}
