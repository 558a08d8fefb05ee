//! Parts of a line: the offsets between which a piece of a record stands, and the escapes that it is written with.

use crate::escape::{Writing, unescape};
use logdrive_query::GivenName;
use std::borrow::Cow;

/// A place in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Part {
    start: u32,
    end: u32,
}

impl Part {
    /// From an offset up to another. Lines are shorter than `RECORD_BYTES_MAX`, so their offsets fit.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// The part so many bytes further behind.
    pub(crate) fn shifted(self, bytes: usize) -> Self {
        Self::new(self.start() + bytes, self.end() + bytes)
    }

    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    pub(crate) fn end(self) -> usize {
        self.end as usize
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Returns the bytes of the part.
    pub(crate) fn of(self, line: &[u8]) -> &[u8] {
        line.get(self.start()..self.end()).unwrap_or(b"")
    }
}

/// A piece of text in a line, and how it is written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Text {
    pub(crate) part: Part,
    pub(crate) writing: Writing,
}

impl Text {
    /// With the escapes of text.
    pub(crate) fn in_text(part: Part) -> Self {
        Self::new(part, Writing::Text)
    }

    pub(crate) fn new(part: Part, writing: Writing) -> Self {
        Self { part, writing }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.part.is_empty()
    }

    /// A name that does not stand in the line.
    pub(crate) fn given(name: GivenName) -> Self {
        let number = name as usize;
        Self::new(Part::new(number, number), Writing::Given)
    }

    #[cold]
    fn given_text(self) -> &'static [u8] {
        let name = GivenName::ALL.get(self.part.start());
        name.map_or(b"", |name| name.text().as_bytes())
    }

    /// Returns the bytes that were logged.
    #[inline]
    pub(crate) fn plain(self, line: &[u8]) -> Cow<'_, [u8]> {
        if self.writing == Writing::Given {
            return Cow::Borrowed(self.given_text());
        }
        unescape(self.part.of(line), self.writing)
    }
}

/// A key and its value in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) key: Part,
    pub(crate) value: Text,
    /// Offset of what follows.
    pub(crate) next: usize,
}
