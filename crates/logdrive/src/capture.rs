//! Capture: the way of a log call's values into the bytes of a record.
//!
//! [`Raw`] is the sealed list of types that are taken as they are; a value of any other type is rendered at the
//! call ([`Rendered`]). Either way the result is a [`Field`], and a call's fields together are [`Fields`]:
//! their kinds are constants, which a callsite registers before the first value exists ([`Kinds`]), their size
//! is known before the ring is touched, and writing them cannot fail ([`Values`]). Records that would be too long are cut
//! in a cold path ([`Shortened`]).

use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;

use logdrive_ring::RecordWriter;
use logdrive_wire::Kind;
use logdrive_wire::limits::FIELDS_MAX;

pub(crate) mod cut;
pub mod limits;
mod raw;
mod rendered;

pub use cut::Shortened;
pub use raw::{Blob, Maybe, Plain, Pointer, Raw, raw_value};
pub use rendered::Rendered;

mod sealed {
    /// Values are written into a ring whose space was reserved by [`super::Values::size_bytes`], so that no
    /// other crate may add an implementation that gets the size wrong.
    pub trait Sealed {}
}

/// Values of a record on their way into the ring.
pub trait Values {
    /// Number of bytes that [`Values::write`] writes, exactly. It is a constant after inlining where every kind has a
    /// fixed width. May be past the limit of a record: then write [`Shortened`] instead.
    fn size_bytes(&self) -> usize;

    /// Writes the values one behind the other, as `spec/record.md` says.
    fn write(&self, out: &mut RecordWriter<'_>);

    /// Gives the values piece by piece, so that the longest can be cut.
    fn give(&self, each: &mut dyn FnMut(Piece<'_>));
}

/// A piece of the values of a record that is too long.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    /// Bytes that are never cut.
    Fixed(&'a [u8]),
    /// The inside of a text; its length goes before it.
    Text(&'a [u8]),
    /// The inside of a byte string; its length goes before it.
    Bytes(&'a [u8]),
}

impl<'a> Piece<'a> {
    pub(crate) fn bytes(self) -> &'a [u8] {
        let (Self::Fixed(bytes) | Self::Text(bytes) | Self::Bytes(bytes)) = self;
        bytes
    }
}

/// One captured value of a call.
pub trait Field: Values + sealed::Sealed {
    /// The code of its kind on the wire.
    const KIND: u8;

    /// The value in a form that lies in registers.
    type View<'a>: Field + Copy
    where
        Self: 'a;

    /// Returns a copy that borrows, see [`Fields::view`].
    fn view(&self) -> Self::View<'_>;
}

/// All captured values of a call: a tuple of [`Field`]s, or a [`Cons`] of two such.
pub trait Fields: Values + sealed::Sealed {
    /// The codes of the kinds, in the order of the values.
    const KINDS: &'static [u8];

    /// Type of what [`Fields::view`] returns.
    type View<'a>: Fields + Copy
    where
        Self: 'a;

    /// The same values, copyable. A hot path that hands a copy to its cold path keeps its own in registers; a
    /// reference to them would put all values on the stack at every call.
    fn view(&self) -> Self::View<'_>;
}

macro_rules! fields_of_tuple {
    ($($($name:ident $index:tt),*;)+) => {$(
        impl<$($name: Field),*> sealed::Sealed for ($($name,)*) {}

        impl<$($name: Field),*> Values for ($($name,)*) {
            #[inline(always)]
            fn size_bytes(&self) -> usize {
                0 $(+ self.$index.size_bytes())*
            }

            #[inline(always)]
            fn write(&self, _out: &mut RecordWriter<'_>) {
                $(self.$index.write(_out);)*
            }

            fn give(&self, _each: &mut dyn FnMut(Piece<'_>)) {
                $(self.$index.give(_each);)*
            }
        }

        impl<$($name: Field),*> Fields for ($($name,)*) {
            const KINDS: &'static [u8] = &[$($name::KIND),*];

            type View<'a> = ($($name::View<'a>,)*) where Self: 'a;

            #[inline(always)]
            #[allow(clippy::unused_unit, reason = "the view of no values")]
            fn view(&self) -> Self::View<'_> {
                ($(self.$index.view(),)*)
            }
        }
    )+};
}

fields_of_tuple! {
    ;
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11;
}

/// The values of a call that has more than one tuple takes.
#[derive(Debug, Clone, Copy)]
pub struct Cons<A, B>(pub A, pub B);

impl<A: Fields, B: Fields> Cons<A, B> {
    const CODES: [u8; FIELDS_MAX] = {
        let mut codes = [0; FIELDS_MAX];
        let mut index = 0;
        while index < A::KINDS.len() + B::KINDS.len() {
            codes[index] = if index < A::KINDS.len() {
                A::KINDS[index]
            } else {
                B::KINDS[index - A::KINDS.len()]
            };
            index += 1;
        }
        codes
    };
}

impl<A: Fields, B: Fields> sealed::Sealed for Cons<A, B> {}

impl<A: Fields, B: Fields> Values for Cons<A, B> {
    #[inline]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes() + self.1.size_bytes()
    }

    #[inline]
    fn write(&self, out: &mut RecordWriter<'_>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn give(&self, each: &mut dyn FnMut(Piece<'_>)) {
        self.0.give(each);
        self.1.give(each);
    }
}

impl<A: Fields, B: Fields> Fields for Cons<A, B> {
    const KINDS: &'static [u8] = Self::CODES.split_at(A::KINDS.len() + B::KINDS.len()).0;

    type View<'a>
        = Cons<A::View<'a>, B::View<'a>>
    where
        Self: 'a;

    #[inline(always)]
    fn view(&self) -> Self::View<'_> {
        Cons(self.0.view(), self.1.view())
    }
}

/// The type of a call's values, known before the values are: the expansion creates it first and ties it to the
/// values afterwards, so that the first call can register its callsite without evaluating an argument.
///
/// It holds no value, and is `Send` whatever the values are: an `.await` in an argument may lie in between.
#[derive(Debug)]
pub struct Kinds<C>(PhantomData<fn() -> C>);

impl<C> Kinds<C> {
    /// Kinds of values that are still to come.
    #[inline(always)]
    #[expect(clippy::new_without_default, reason = "only the expansion makes one")]
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// Says that the values are these.
    #[inline(always)]
    pub const fn tie(&self, _: &C) {}
}

/// An argument of a call, before it is decided whether it is taken as it is.
///
/// Its methods are those of `T: Raw` where that holds; where it does not, method lookup goes on through `Deref` to
/// [`Any`], which takes the text. The text's `fmt::Arguments` also make the compiler check that the type has the
/// trait that the placeholder asks for. The names of the methods are long because a method of the same name that some
/// trait of the caller gives to all types would be found before `Any`'s.
#[derive(Debug)]
pub struct Arg<'a, T: ?Sized>(&'a T);

impl<'a, T: ?Sized> Arg<'a, T> {
    /// Holds a reference to the argument.
    #[inline(always)]
    pub const fn new(value: &'a T) -> Self {
        Self(value)
    }
}

impl<'a, T: Raw + ?Sized> Arg<'a, T> {
    /// Takes the value; its text is not made.
    #[inline(always)]
    pub fn logdrive_display(&self, _: fmt::Arguments<'_>) -> T::Captured<'a> {
        self.0.capture()
    }

    /// Takes the value; its text is not made.
    #[inline(always)]
    pub fn logdrive_debug(&self, _: fmt::Arguments<'_>) -> T::Captured<'a> {
        self.0.capture()
    }
}

impl<T: ?Sized> Deref for Arg<'_, T> {
    type Target = Any;

    #[inline(always)]
    fn deref(&self) -> &Any {
        &Any
    }
}

/// An argument of which only the text can be taken.
#[derive(Debug)]
pub struct Any;

impl Any {
    /// Renders the text of a `Display`, or of any other trait but `Debug`.
    #[inline(always)]
    pub fn logdrive_display(&self, text: fmt::Arguments<'_>) -> Rendered<{ Kind::Display as u8 }> {
        Rendered::new(text)
    }

    /// Renders the text of a `Debug`.
    #[inline(always)]
    pub fn logdrive_debug(&self, text: fmt::Arguments<'_>) -> Rendered<{ Kind::Debug as u8 }> {
        Rendered::new(text)
    }
}

#[cfg(test)]
mod tests;
