//! The types that are taken as they are: their bytes go into the ring, and the drain makes the text.

use core::num::NonZero;
use core::ptr::NonNull;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use logdrive_ring::RecordWriter;
use logdrive_wire::Kind;
use logdrive_wire::limits::RECORD_BYTES_MAX;

use super::{Field, Piece, Values, sealed};

/// A type whose values are taken as they are.
#[diagnostic::on_unimplemented(
    message = "a value of type `{Self}` cannot be logged as it is",
    label = "write `%` before this value to log its `Display`, or `?` to log its `Debug`",
    note = "numbers, `bool`, `char`, text, bytes, pointers and `Option`s of them are logged as they are"
)]
pub trait Raw: sealed::Sealed {
    /// Form of the value that goes into the ring.
    type Captured<'a>: Field
    where
        Self: 'a;

    /// Takes the value; text and bytes are borrowed until the record is written.
    fn capture(&self) -> Self::Captured<'_>;
}

/// A [`Raw`] type that an `Option` can be made of: the wire has one presence byte, not two.
#[diagnostic::on_unimplemented(
    message = "an `Option` of `{Self}` cannot be logged as it is",
    label = "write `?` before this value to log its `Debug`",
    note = "numbers, `bool`, `char`, text, bytes, pointers and `Option`s of them are logged as they are"
)]
pub trait Plain: Raw {}

/// Takes the value of a `name = value` field.
#[inline(always)]
pub fn raw_value<T: Raw + ?Sized>(value: &T) -> T::Captured<'_> {
    value.capture()
}

/// Types that are captured as another one, or as themselves.
macro_rules! raw {
    ($(for[$($generics:tt)*][$($plain:tt)*] $type:ty => $captured:ty, |$value:ident| $made:expr;)+) => {$(
        impl<$($generics)*> sealed::Sealed for $type {}

        impl<$($generics)*> Raw for $type {
            type Captured<'a> = $captured where Self: 'a;

            #[inline(always)]
            fn capture(&self) -> Self::Captured<'_> {
                let $value = self;
                $made
            }
        }

        impl<$($plain)*> Plain for $type {}
    )+};
}

/// Values of one width, of which `$bits` is written.
macro_rules! fixed {
    ($($type:ty, $kind:ident, $bytes:literal, $put:ident, |$value:ident| $bits:expr;)+) => {$(
        impl Values for $type {
            #[inline(always)]
            fn size_bytes(&self) -> usize {
                $bytes
            }

            #[inline(always)]
            fn write(&self, out: &mut RecordWriter<'_>) {
                let $value = *self;
                out.$put($bits);
            }

            fn give(&self, each: &mut dyn FnMut(Piece<'_>)) {
                let $value = *self;
                each(Piece::Fixed(&$bits.to_le_bytes()));
            }
        }

        impl Field for $type {
            const KIND: u8 = Kind::$kind as u8;

            type View<'a> = Self;

            #[inline(always)]
            fn view(&self) -> Self {
                *self
            }
        }
    )+};
}

macro_rules! numbers {
    ($($type:ty, $kind:ident, $bytes:literal, $put:ident, |$value:ident| $bits:expr;)+) => {
        raw! { $(for[][] $type => $type, |value| *value;)+ }
        fixed! { $($type, $kind, $bytes, $put, |$value| $bits;)+ }
    };
}

numbers! {
    bool, Bool, 1, u8, |value| u8::from(value);
    i8, I8, 1, u8, |value| value.cast_unsigned();
    i16, I16, 2, u16, |value| value.cast_unsigned();
    i32, I32, 4, u32, |value| value.cast_unsigned();
    i64, I64, 8, u64, |value| value.cast_unsigned();
    i128, I128, 16, u128, |value| value.cast_unsigned();
    u8, U8, 1, u8, |value| value;
    u16, U16, 2, u16, |value| value;
    u32, U32, 4, u32, |value| value;
    u64, U64, 8, u64, |value| value;
    u128, U128, 16, u128, |value| value;
    f32, F32, 4, u32, |value| value.to_bits();
    f64, F64, 8, u64, |value| value.to_bits();
    char, Char, 4, u32, |value| u32::from(value);
}

// The drain shows these alike.
raw! {
    for[][] usize => u64, |value| *value as u64;
    for[][] isize => i64, |value| *value as i64;
    for[][] NonZero<i8> => i8, |value| value.get();
    for[][] NonZero<i16> => i16, |value| value.get();
    for[][] NonZero<i32> => i32, |value| value.get();
    for[][] NonZero<i64> => i64, |value| value.get();
    for[][] NonZero<i128> => i128, |value| value.get();
    for[][] NonZero<isize> => i64, |value| value.get() as i64;
    for[][] NonZero<u8> => u8, |value| value.get();
    for[][] NonZero<u16> => u16, |value| value.get();
    for[][] NonZero<u32> => u32, |value| value.get();
    for[][] NonZero<u64> => u64, |value| value.get();
    for[][] NonZero<u128> => u128, |value| value.get();
    for[][] NonZero<usize> => u64, |value| value.get() as u64;
}

/// A captured address, shown in hexadecimal.
#[derive(Debug, Clone, Copy)]
pub struct Pointer(u64);

impl sealed::Sealed for Pointer {}

fixed! {
    Pointer, Pointer, 8, u64, |value| value.0;
}

// Thin pointers only: the `Debug` of a wide one shows more than its address.
raw! {
    for[T][T] *const T => Pointer, |value| Pointer(value.addr() as u64);
    for[T][T] *mut T => Pointer, |value| Pointer(value.addr() as u64);
    for[T][T] NonNull<T> => Pointer, |value| Pointer(value.as_ptr().addr() as u64);
}

/// Text or a byte string, as `KIND` says.
#[derive(Debug, Clone, Copy)]
pub struct Blob<'a, const KIND: u8> {
    bytes: &'a [u8],
}

impl<'a, const KIND: u8> Blob<'a, KIND> {
    #[inline(always)]
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl<const KIND: u8> sealed::Sealed for Blob<'_, KIND> {}

impl<const KIND: u8> Values for Blob<'_, KIND> {
    /// A string longer than any record counts as one that is just too long, so that a sum of lengths cannot wrap
    /// around and seem to fit. It also gives the compiler the bounds by which it drops the checks of [`RecordWriter`].
    #[inline(always)]
    fn size_bytes(&self) -> usize {
        4 + self.bytes.len().min(RECORD_BYTES_MAX)
    }

    #[inline(always)]
    fn write(&self, out: &mut RecordWriter<'_>) {
        out.u32(self.bytes.len() as u32);
        out.bytes(self.bytes);
    }

    fn give(&self, each: &mut dyn FnMut(Piece<'_>)) {
        each(match KIND == Kind::Bytes as u8 {
            true => Piece::Bytes(self.bytes),
            false => Piece::Text(self.bytes),
        });
    }
}

impl<const KIND: u8> Field for Blob<'_, KIND> {
    const KIND: u8 = KIND;

    type View<'b>
        = Self
    where
        Self: 'b;

    #[inline(always)]
    fn view(&self) -> Self {
        *self
    }
}

raw! {
    for[][] str => Blob<'a, { Kind::Str as u8 }>, |value| Blob::new(value.as_bytes());
    for[][] String => Blob<'a, { Kind::Str as u8 }>, |value| Blob::new(value.as_bytes());
    for[][] [u8] => Blob<'a, { Kind::Bytes as u8 }>, |value| Blob::new(value);
    for[][] Vec<u8> => Blob<'a, { Kind::Bytes as u8 }>, |value| Blob::new(value);
    for[const N: usize][const N: usize] [u8; N] => Blob<'a, { Kind::Bytes as u8 }>, |value| Blob::new(value);
}

// References of all kinds, which are captured as what they refer to.
raw! {
    for[T: Raw + ?Sized][T: Plain + ?Sized] &T => T::Captured<'a>, |value| (**value).capture();
    for[T: Raw + ?Sized][T: Plain + ?Sized] &mut T => T::Captured<'a>, |value| (**value).capture();
    for[T: Raw + ?Sized][T: Plain + ?Sized] Box<T> => T::Captured<'a>, |value| (**value).capture();
    for[T: Raw + ?Sized][T: Plain + ?Sized] Rc<T> => T::Captured<'a>, |value| (**value).capture();
    for[T: Raw + ?Sized][T: Plain + ?Sized] Arc<T> => T::Captured<'a>, |value| (**value).capture();
    for[T: Raw + ?Sized + ToOwned][T: Plain + ?Sized + ToOwned] Cow<'_, T> => T::Captured<'a>, |value| (**value).capture();
}

impl<T: Plain> sealed::Sealed for Option<T> {}

impl<T: Plain> Raw for Option<T> {
    type Captured<'a>
        = Maybe<T::Captured<'a>>
    where
        Self: 'a;

    #[inline(always)]
    fn capture(&self) -> Self::Captured<'_> {
        Maybe(self.as_ref().map(Raw::capture))
    }
}

/// A value that may be absent.
#[derive(Debug, Clone, Copy)]
pub struct Maybe<F>(Option<F>);

impl<F: Field> sealed::Sealed for Maybe<F> {}

impl<F: Field> Values for Maybe<F> {
    #[inline(always)]
    fn size_bytes(&self) -> usize {
        1 + self.0.as_ref().map_or(0, F::size_bytes)
    }

    #[inline(always)]
    fn write(&self, out: &mut RecordWriter<'_>) {
        out.u8(u8::from(self.0.is_some()));
        if let Some(value) = &self.0 {
            value.write(out);
        }
    }

    fn give(&self, each: &mut dyn FnMut(Piece<'_>)) {
        each(Piece::Fixed(&[u8::from(self.0.is_some())]));
        if let Some(value) = &self.0 {
            value.give(each);
        }
    }
}

impl<F: Field> Field for Maybe<F> {
    const KIND: u8 = F::KIND | Kind::OPTIONAL;

    type View<'a>
        = Maybe<F::View<'a>>
    where
        Self: 'a;

    #[inline(always)]
    fn view(&self) -> Self::View<'_> {
        Maybe(self.0.as_ref().map(F::view))
    }
}
