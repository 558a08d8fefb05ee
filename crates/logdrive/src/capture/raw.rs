//! The types that are taken as they are: their bytes go into the ring, and the drain makes the text.

use core::num::NonZero;
use core::ptr::NonNull;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use logdrive_ring::RecordWriter;
use logdrive_wire::Kind;
use logdrive_wire::limits::RECORD_BYTES_MAX;

use super::cut::kept;
use super::limits::CUT_MARK;
use super::{Field, sealed};

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

macro_rules! numbers {
    ($($type:ty, $kind:ident, $bytes:literal, $put:ident, |$value:ident| $bits:expr;)+) => {$(
        impl sealed::Sealed for $type {}

        impl Raw for $type {
            type Captured<'a> = $type;

            #[inline(always)]
            fn capture(&self) -> $type {
                *self
            }
        }

        impl Plain for $type {}

        impl Field for $type {
            const KIND: u8 = Kind::$kind as u8;

            #[inline(always)]
            fn size_bytes(&self) -> usize {
                $bytes
            }

            #[inline(always)]
            fn write(&self, out: &mut RecordWriter<'_>) {
                let $value = *self;
                out.$put($bits);
            }

            type View<'a> = Self;

            #[inline(always)]
            fn view(&self) -> Self {
                *self
            }
        }
    )+};
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

/// Types that become another one first; the drain shows them alike.
macro_rules! converted {
    ($($type:ty => $captured:ty, |$value:ident| $made:expr;)+) => {$(
        impl sealed::Sealed for $type {}

        impl Raw for $type {
            type Captured<'a> = $captured;

            #[inline(always)]
            fn capture(&self) -> $captured {
                let $value = *self;
                $made
            }
        }

        impl Plain for $type {}
    )+};
}

converted! {
    usize => u64, |value| value as u64;
    isize => i64, |value| value as i64;
    NonZero<i8> => i8, |value| value.get();
    NonZero<i16> => i16, |value| value.get();
    NonZero<i32> => i32, |value| value.get();
    NonZero<i64> => i64, |value| value.get();
    NonZero<i128> => i128, |value| value.get();
    NonZero<isize> => i64, |value| value.get() as i64;
    NonZero<u8> => u8, |value| value.get();
    NonZero<u16> => u16, |value| value.get();
    NonZero<u32> => u32, |value| value.get();
    NonZero<u64> => u64, |value| value.get();
    NonZero<u128> => u128, |value| value.get();
    NonZero<usize> => u64, |value| value.get() as u64;
}

/// A captured address, shown in hexadecimal.
#[derive(Debug, Clone, Copy)]
pub struct Pointer(u64);

impl sealed::Sealed for Pointer {}

impl Field for Pointer {
    const KIND: u8 = Kind::Pointer as u8;

    #[inline(always)]
    fn size_bytes(&self) -> usize {
        8
    }

    #[inline(always)]
    fn write(&self, out: &mut RecordWriter<'_>) {
        out.u64(self.0);
    }

    type View<'a> = Self;

    #[inline(always)]
    fn view(&self) -> Self {
        *self
    }
}

macro_rules! pointers {
    ($($type:ty, |$value:ident| $pointer:expr;)+) => {$(
        impl<T> sealed::Sealed for $type {}

        impl<T> Raw for $type {
            type Captured<'a> = Pointer where Self: 'a;

            #[inline(always)]
            fn capture(&self) -> Pointer {
                let $value = *self;
                Pointer($pointer.addr() as u64)
            }
        }

        impl<T> Plain for $type {}
    )+};
}

// Thin pointers only: the `Debug` of a wide one shows more than its address.
pointers! {
    *const T, |value| value;
    *mut T, |value| value;
    NonNull<T>, |value| value.as_ptr();
}

/// Text or a byte string, as `KIND` says.
#[derive(Debug, Clone, Copy)]
pub struct Blob<'a, const KIND: u8> {
    bytes: &'a [u8],
}

impl<'a, const KIND: u8> Blob<'a, KIND> {
    const IS_TEXT: bool = KIND != Kind::Bytes as u8;

    #[inline(always)]
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl<const KIND: u8> sealed::Sealed for Blob<'_, KIND> {}

impl<const KIND: u8> Field for Blob<'_, KIND> {
    const KIND: u8 = KIND;

    #[inline(always)]
    fn size_bytes(&self) -> usize {
        4 + self.blob_bytes()
    }

    #[inline(always)]
    fn write(&self, out: &mut RecordWriter<'_>) {
        out.u32(self.bytes.len() as u32);
        out.bytes(self.bytes);
    }

    type View<'b>
        = Self
    where
        Self: 'b;

    #[inline(always)]
    fn view(&self) -> Self {
        *self
    }

    /// A string longer than any record counts as one that is just too long, so that a sum of lengths cannot wrap
    /// around and seem to fit. It also gives the compiler the bounds by which it drops the checks of [`RecordWriter`].
    #[inline(always)]
    fn blob_bytes(&self) -> usize {
        self.bytes.len().min(RECORD_BYTES_MAX)
    }

    fn cut_size_bytes(&self, limit_bytes: usize) -> usize {
        let (length, has_mark) = kept(self.bytes, Self::IS_TEXT, limit_bytes);
        4 + length + if has_mark { CUT_MARK.len() } else { 0 }
    }

    fn write_cut(&self, out: &mut RecordWriter<'_>, limit_bytes: usize) {
        let (length, has_mark) = kept(self.bytes, Self::IS_TEXT, limit_bytes);
        let mark = if has_mark { CUT_MARK } else { "" };
        out.u32((length + mark.len()) as u32);
        out.bytes(self.bytes.get(..length).unwrap_or(&[]));
        out.bytes(mark.as_bytes());
    }
}

macro_rules! blobs {
    ($(for<$($generics:ident)?> $type:ty, $kind:ident, |$value:ident| $bytes:expr;)+) => {$(
        impl<$(const $generics: usize)?> sealed::Sealed for $type {}

        impl<$(const $generics: usize)?> Raw for $type {
            type Captured<'a> = Blob<'a, { Kind::$kind as u8 }>;

            #[inline(always)]
            fn capture(&self) -> Self::Captured<'_> {
                let $value = self;
                Blob::new($bytes)
            }
        }

        impl<$(const $generics: usize)?> Plain for $type {}
    )+};
}

blobs! {
    for<> str, Str, |value| value.as_bytes();
    for<> String, Str, |value| value.as_bytes();
    for<> [u8], Bytes, |value| value;
    for<> Vec<u8>, Bytes, |value| value;
    for<N> [u8; N], Bytes, |value| value;
}

macro_rules! references {
    ($(for<T $(: $extra:ident)?> $type:ty;)+) => {$(
        impl<T: Raw + ?Sized $(+ $extra)?> sealed::Sealed for $type {}

        impl<T: Raw + ?Sized $(+ $extra)?> Raw for $type {
            type Captured<'a> = T::Captured<'a> where Self: 'a;

            #[inline(always)]
            fn capture(&self) -> Self::Captured<'_> {
                (**self).capture()
            }
        }

        impl<T: Plain + ?Sized $(+ $extra)?> Plain for $type {}
    )+};
}

references! {
    for<T> &T;
    for<T> &mut T;
    for<T> Box<T>;
    for<T> Rc<T>;
    for<T> Arc<T>;
    for<T: ToOwned> Cow<'_, T>;
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

impl<F: Field> Field for Maybe<F> {
    const KIND: u8 = F::KIND | Kind::OPTIONAL;

    #[inline(always)]
    fn size_bytes(&self) -> usize {
        1 + self.0.as_ref().map_or(0, F::size_bytes)
    }

    type View<'a>
        = Maybe<F::View<'a>>
    where
        Self: 'a;

    #[inline(always)]
    fn view(&self) -> Self::View<'_> {
        Maybe(self.0.as_ref().map(F::view))
    }

    #[inline(always)]
    fn write(&self, out: &mut RecordWriter<'_>) {
        out.u8(u8::from(self.0.is_some()));
        if let Some(value) = &self.0 {
            value.write(out);
        }
    }

    fn blob_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, F::blob_bytes)
    }

    fn cut_size_bytes(&self, limit_bytes: usize) -> usize {
        1 + self
            .0
            .as_ref()
            .map_or(0, |value| value.cut_size_bytes(limit_bytes))
    }

    fn write_cut(&self, out: &mut RecordWriter<'_>, limit_bytes: usize) {
        out.u8(u8::from(self.0.is_some()));
        if let Some(value) = &self.0 {
            value.write_cut(out, limit_bytes);
        }
    }
}
