//! A value for the whole program that may be replaced, and that is never freed: readers need no lock, and the child
//! of a `fork` can drop it without touching what other threads of the parent had locked.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicPtr, Ordering};

/// A value that is never freed, in a chain with all others: a checker of leaks finds them by it.
#[repr(C)]
struct Kept<T> {
    next: *mut (),
    value: T,
}

/// The newest of them.
static KEPT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

impl<T: Send + Sync + 'static> Kept<T> {
    fn new(value: T) -> *mut Self {
        let next = core::ptr::null_mut();
        Box::into_raw(Box::new(Self { next, value }))
    }

    /// Puts it into the chain, which nobody follows but a checker.
    ///
    /// # Safety
    /// What `new` gave, once, and never freed.
    unsafe fn keep(kept: *mut Self) -> &'static T {
        // Relaxed: the chain is never read.
        let mut first = KEPT.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller's; no other thread uses this field.
            unsafe { (*kept).next = first };
            match KEPT.compare_exchange_weak(first, kept.cast(), Ordering::Relaxed, Ordering::Relaxed) {
                // SAFETY: the caller's: it is never freed, and its value is not changed.
                Ok(_) => return unsafe { &(*kept).value },
                Err(other) => first = other,
            }
        }
    }
}

/// Keeps a value until the program ends. A checker of leaks sees that it is meant.
pub(crate) fn keep<T: Send + Sync + 'static>(value: T) -> &'static T {
    // SAFETY: it is new.
    unsafe { Kept::keep(Kept::new(value)) }
}

/// A pointer to a leaked value, or to none.
///
/// ```
/// use logdrive_ring::StaticCell;
/// static NAME: StaticCell<String> = StaticCell::empty();
/// assert!(NAME.value().is_none());
/// assert_eq!(NAME.value_or(|| "first".to_owned()), "first");
/// assert_eq!(NAME.value_or(|| "second".to_owned()), "first");
/// NAME.set("a".to_owned());
/// assert_eq!(NAME.value().map(String::as_str), Some("a"));
/// NAME.clear();
/// assert!(NAME.value().is_none());
/// ```
#[derive(Debug)]
pub struct StaticCell<T: 'static>(AtomicPtr<T>);

impl<T: Send + Sync + 'static> StaticCell<T> {
    /// No value.
    pub const fn empty() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// The value, if there is one. One load.
    #[inline]
    pub fn value(&self) -> Option<&'static T> {
        // SYNC(leaked): the value is initialised before its address is stored.
        // SAFETY: null, or the address of a box that was leaked.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The value; makes it where there is none. Of several threads that make one, one wins.
    pub fn value_or(&self, make: impl FnOnce() -> T) -> &'static T {
        if let Some(value) = self.value() {
            return value;
        }
        let made = Kept::new(make());
        // SAFETY: the address of a field of a box.
        let value = unsafe { &raw mut (*made).value };
        // SYNC(leaked)
        let exchanged =
            self.0
                .compare_exchange(core::ptr::null_mut(), value, Ordering::AcqRel, Ordering::Acquire);
        match exchanged {
            // SAFETY: it is new, and published with this exchange.
            Ok(_) => unsafe { Kept::keep(made) },
            Err(other) => {
                // SAFETY: `made` came from a box and was not published; `other` is the address of a value that is kept.
                unsafe {
                    drop(Box::from_raw(made));
                    &*other
                }
            }
        }
    }

    /// Replaces the value. The old one stays in memory.
    pub fn set(&self, value: T) {
        // SYNC(leaked)
        self.0
            .store(core::ptr::from_ref(keep(value)).cast_mut(), Ordering::Release);
    }

    /// From now on there is no value. The old one stays in memory.
    pub fn clear(&self) {
        // SYNC(leaked)
        self.0.store(core::ptr::null_mut(), Ordering::Release);
    }
}
