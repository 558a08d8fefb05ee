//! The bytes of Logdrive: levels, callsites, records and message templates.
//!
//! This crate turns values into bytes and back. It has no I/O, no clock and no `unsafe`; whatever it reads is
//! treated as hostile: a reader returns an error, it never panics and never reads past what it was given.
//! The byte drawings are in `spec/record.md`; the shared test vectors in `vectors/` judge every language.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

pub mod agent;
pub mod callsite;
mod fields;
pub mod kind;
pub mod level;
pub mod limits;
pub mod record;
pub mod template;
pub mod value;

pub use callsite::{Callsite, Field};
pub use fields::each_field;
pub use kind::Kind;
pub use level::Level;
pub use record::RecordHeader;
pub use template::{Piece, Spec, Template};
pub use value::{Named, Scope, ScopeField, Value};

/// Error that says what was wrong with bytes that claimed to be a record, a callsite or a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end before the value does.
    Truncated {
        /// Byte offset of the value that does not fit.
        offset: usize,
        /// Bytes that it needs.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A length, count or id is outside of its limit.
    Limit {
        /// Which quantity.
        what: &'static str,
        /// The value found.
        found: u64,
        /// The largest value allowed.
        limit: u64,
    },
    /// A code that this version does not know.
    Unknown {
        /// Which code.
        what: &'static str,
        /// The value found.
        found: u64,
    },
    /// Text that is not UTF-8 where the format asks for UTF-8.
    NotUtf8 {
        /// Which text.
        what: &'static str,
    },
    /// A template that cannot be read.
    Template {
        /// Byte offset in the template.
        offset: usize,
        /// Reason, in words.
        what: &'static str,
    },
}

impl core::fmt::Display for WireError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Truncated { offset, needed, left } => {
                write!(
                    f,
                    "bytes end early: offset {offset} needs {needed} bytes, {left} are left"
                )
            }
            Self::Limit { what, found, limit } => write!(f, "{what} is {found}, the limit is {limit}"),
            Self::Unknown { what, found } => write!(f, "unknown {what} {found}"),
            Self::NotUtf8 { what } => write!(f, "{what} is not valid utf-8"),
            Self::Template { offset, what } => write!(f, "template, byte {offset}: {what}"),
        }
    }
}

impl std::error::Error for WireError {}

/// Reads little-endian values from the front of a byte slice; every read is checked.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    offset: usize,
}

macro_rules! cursor_number {
    ($($(#[$doc:meta])* $name:ident: $type:ty),* $(,)?) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self) -> Result<$type, WireError> {
            Ok(<$type>::from_le_bytes(self.array()?))
        }
    )*};
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Bytes consumed so far.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes that are left.
    #[inline]
    pub fn left(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// Takes the next `length` bytes.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        match self.bytes.get(self.offset..).and_then(|rest| rest.get(..length)) {
            Some(taken) => {
                self.offset += length;
                Ok(taken)
            }
            None => Err(WireError::Truncated {
                offset: self.offset,
                needed: length,
                left: self.left(),
            }),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        match self
            .bytes
            .get(self.offset..)
            .and_then(|rest| rest.first_chunk::<N>())
        {
            Some(chunk) => {
                self.offset += N;
                Ok(*chunk)
            }
            None => Err(WireError::Truncated {
                offset: self.offset,
                needed: N,
                left: self.left(),
            }),
        }
    }

    cursor_number! {
        /// Next byte.
        u8: u8,
        /// Next two bytes.
        u16: u16,
        /// Next four bytes.
        u32: u32,
        /// Next eight bytes.
        u64: u64,
        /// Next sixteen bytes.
        u128: u128,
    }

    /// Takes `u16 length + UTF-8`, as names are stored.
    pub fn short_str(&mut self, what: &'static str) -> Result<&'a str, WireError> {
        let length = usize::from(self.u16()?);
        core::str::from_utf8(self.take(length)?).map_err(|_| WireError::NotUtf8 { what })
    }
}
