//! Values that only know how to display themselves: rendered at the call, before the ring is touched.
//!
//! The text goes into a string of the thread's pool, so that nothing is allocated once the pool is warm. The pool
//! is not held while the value's own code runs: a `Display` that logs, or panics, does no harm. In a signal
//! handler a rendered value may allocate; values that are taken as they are never do.

use core::cell::RefCell;
use core::fmt::{self, Write};

use logdrive_ring::RecordWriter;

use super::limits::{POOL_STRING_BYTES, POOL_STRINGS_MAX, RENDERED_BYTES_MAX};
use super::raw::Blob;
use super::{Field, Piece, Values, sealed};

thread_local! {
    static POOL: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The text that a value's `Display` or `Debug` made, as `KIND` says.
#[derive(Debug)]
pub struct Rendered<const KIND: u8> {
    text: String,
}

impl<const KIND: u8> Rendered<KIND> {
    /// Renders; an error of the value's own code ends the text where it occurred.
    #[inline(never)]
    pub fn new(text: fmt::Arguments<'_>) -> Self {
        let mut rendered = Self { text: take_string() };
        // The text so far is logged; a failed `Display` cannot be reported from here.
        let _ = Bounded(&mut rendered.text).write_fmt(text);
        rendered
    }
}

impl<const KIND: u8> Drop for Rendered<KIND> {
    #[inline]
    fn drop(&mut self) {
        return_string(core::mem::take(&mut self.text));
    }
}

impl<const KIND: u8> sealed::Sealed for Rendered<KIND> {}

impl<const KIND: u8> Values for Rendered<KIND> {
    #[inline(always)]
    fn size_bytes(&self) -> usize {
        self.view().size_bytes()
    }

    #[inline(always)]
    fn write(&self, out: &mut RecordWriter<'_>) {
        self.view().write(out);
    }

    fn give(&self, each: &mut dyn FnMut(Piece<'_>)) {
        self.view().give(each);
    }
}

impl<const KIND: u8> Field for Rendered<KIND> {
    const KIND: u8 = KIND;

    type View<'a> = Blob<'a, KIND>;

    #[inline(always)]
    fn view(&self) -> Blob<'_, KIND> {
        Blob::new(self.text.as_bytes())
    }
}

/// Takes text up to the limit. What is past it is dropped without an error: an error would make a `Display` that
/// unwraps panic in the user's program.
struct Bounded<'a>(&'a mut String);

impl Write for Bounded<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = RENDERED_BYTES_MAX - self.0.len();
        if text.len() <= left {
            self.0.push_str(text);
        } else {
            self.0
                .push_str(text.get(..text.floor_char_boundary(left)).unwrap_or(""));
            // Nothing shorter may follow what was left out.
            self.0
                .extend(core::iter::repeat_n(' ', RENDERED_BYTES_MAX - self.0.len()));
        }
        Ok(())
    }
}

/// A thread that is ending has no pool any more, and a signal handler may meet it half-changed; both get a new string.
fn take_string() -> String {
    let pooled = POOL.try_with(|pool| pool.try_borrow_mut().ok().and_then(|mut pool| pool.pop()));
    match pooled {
        Ok(Some(text)) => text,
        _ => String::with_capacity(POOL_STRING_BYTES),
    }
}

fn return_string(mut text: String) {
    text.clear();
    // Where the pool is gone or in use the string is freed, which is all that would be left to do.
    let _ = POOL.try_with(|pool| {
        if let Ok(mut pool) = pool.try_borrow_mut()
            && pool.len() < POOL_STRINGS_MAX
        {
            pool.push(text);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    type Text = Rendered<17>;

    #[test]
    fn a_string_of_the_pool_is_used_again() {
        let long = "x".repeat(1000);
        let first = Text::new(format_args!("{long}"));
        let place = first.text.as_ptr();
        drop(first);
        let second = Text::new(format_args!("{}", 5));
        assert_eq!((second.text.as_ptr(), second.text.as_str()), (place, "5"));
        let third = Text::new(format_args!("nested"));
        assert_ne!(third.text.as_ptr(), place);
    }

    #[test]
    fn the_pool_is_bounded() {
        let many: Vec<_> = (0..POOL_STRINGS_MAX + 9)
            .map(|n| Text::new(format_args!("{n}")))
            .collect();
        drop(many);
        assert_eq!(POOL.with_borrow(Vec::len), POOL_STRINGS_MAX);
    }

    #[test]
    fn a_panicking_display_leaves_the_pool_usable() {
        struct Panics;
        impl fmt::Display for Panics {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                std::panic::resume_unwind(Box::new(()))
            }
        }
        assert!(std::panic::catch_unwind(|| Text::new(format_args!("a {}", Panics))).is_err());
        assert_eq!(Text::new(format_args!("b")).text, "b");
    }

    #[test]
    fn text_past_the_limit_is_left_out() {
        let rendered = Text::new(format_args!("{}{}{}", "é".repeat(RENDERED_BYTES_MAX), "b", "c"));
        assert_eq!(rendered.text.len(), RENDERED_BYTES_MAX);
        let odd = Text::new(format_args!("a{}{}", "é".repeat(RENDERED_BYTES_MAX), "b"));
        assert_eq!(odd.text.len(), RENDERED_BYTES_MAX);
        assert!(odd.text.ends_with("é "));
    }
}
