//! A value for the whole program that may be replaced, and that is never freed: readers need no lock, and the child
//! of a `fork` can drop it without touching what other threads of the parent had locked.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicPtr, Ordering};

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
        let made = Box::into_raw(Box::new(make()));
        // SYNC(leaked)
        let exchanged =
            self.0
                .compare_exchange(core::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
        match exchanged {
            // SAFETY: the box was leaked with this exchange.
            Ok(_) => unsafe { &*made },
            Err(other) => {
                // SAFETY: `made` came from a box and was not published; `other` is the address of a leaked box.
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
        self.0.store(Box::into_raw(Box::new(value)), Ordering::Release);
    }

    /// From now on there is no value. The old one stays in memory.
    pub fn clear(&self) {
        // SYNC(leaked)
        self.0.store(core::ptr::null_mut(), Ordering::Release);
    }
}
