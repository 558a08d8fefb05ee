//! Splits a stream of bytes into lines. No I/O and no clock: the caller reads into [`Lines::space`] and says when the
//! stream pauses.
//!
//! However the bytes are divided into reads, the same lines come out; only a pause, which is a fact of time, divides a
//! line. A line ends with `\n` or `\r\n`, neither of which is part of it. Bytes mean nothing otherwise: they need not
//! be UTF-8 and may be zero. A character of UTF-8 is never divided between two pieces of a line.

use super::limits::{GATHER_BYTES, PIECE_BYTES_MAX, READ_BYTES};
use logdrive_reader::foreign::ansi::ESCAPE;

/// A move of this many bytes costs less than a system call.
const CHEAP_MOVE_BYTES: usize = 1024;

/// Part that a piece of text is of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// All of it.
    Whole,
    /// The Nth piece of a line that is too long for one record; another follows at once.
    Part(u32),
    /// The Nth and last piece.
    Last(u32),
    /// The Nth piece of a line that has not ended when the stream paused or ended. The rest, if any, follows.
    Partial(u32),
}

/// A line, or a piece of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The bytes, without a line break.
    pub text: &'a [u8],
    /// Part that the text is of its line.
    pub piece: Piece,
    /// True if the escape byte of terminals may stand in it, or a carriage return that writes over it.
    pub has_escape: bool,
    /// First byte of what follows, where that was read.
    pub next: Option<u8>,
}

/// The splitter of one stream.
///
/// ```
/// use logdrive_agent::capture::lines::{Line, Lines, Piece};
/// let mut lines = Lines::new();
/// for bytes in ["one\r\ntw", "o\npass", "word: "] {
///     lines.space()[..bytes.len()].copy_from_slice(bytes.as_bytes());
///     lines.filled(bytes.len());
///     while let Some(line) = lines.next_line() {
///         assert!(matches!(line, Line { text: b"one" | b"two", piece: Piece::Whole, .. }));
///     }
/// }
/// assert_eq!(lines.paused().map(|line| line.piece), Some(Piece::Partial(1)));
/// ```
#[derive(Debug)]
pub struct Lines {
    buffer: Box<[u8]>,
    /// Start of the text that has not been returned.
    start: usize,
    /// Up to here there is no line break behind `start`.
    scanned: usize,
    /// Behind the last byte that was read.
    end: usize,
    /// Start of the bytes of the last read.
    read_at: usize,
    /// Pieces of the line at `start` that have been given.
    pieces: u32,
    /// True if an escape byte was met between `start` and `scanned`.
    has_escape: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new()
    }
}

impl Lines {
    /// A splitter at the begin of a line.
    pub fn new() -> Self {
        Self {
            buffer: vec![0; PIECE_BYTES_MAX + 2 + 2 * GATHER_BYTES].into_boxed_slice(),
            start: 0,
            scanned: 0,
            end: 0,
            read_at: 0,
            pieces: 0,
            has_escape: false,
        }
    }

    /// Returns the space for the next read: [`READ_BYTES`] once all lines have been taken.
    pub fn space(&mut self) -> &mut [u8] {
        let rest_bytes = self.end - self.start;
        // Mostly the rest is the front of a short line. A long one that comes in small reads is not moved for each.
        if rest_bytes <= CHEAP_MOVE_BYTES || self.buffer.len() - self.end < READ_BYTES {
            self.buffer.copy_within(self.start..self.end, 0);
            self.scanned -= self.start;
            self.start = 0;
            self.end = rest_bytes;
        }
        let stop = (self.end + READ_BYTES).min(self.buffer.len());
        self.buffer.get_mut(self.end..stop).unwrap_or_default()
    }

    /// So many bytes were read into [`Lines::space`].
    pub fn filled(&mut self, bytes: usize) {
        self.read_at = self.end;
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    /// The bytes of the last read, until the next call of [`Lines::space`].
    pub fn last_read(&self) -> &[u8] {
        self.buffer.get(self.read_at..self.end).unwrap_or_default()
    }

    /// Returns whether there is text of a line that has not ended.
    pub fn has_rest(&self) -> bool {
        self.start < self.end
    }

    /// The next line, or piece of a long one; `None` when more has to be read first.
    #[inline]
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        loop {
            let fresh = self.buffer.get(self.scanned..self.end)?;
            // One search for all: most lines have none of the others, and then it costs nothing to know.
            let Some(found) = memchr::memchr3(b'\n', ESCAPE, b'\r', fresh) else {
                self.scanned = self.end;
                return self.next_part();
            };
            self.scanned += found;
            if fresh.get(found) != Some(&b'\n') {
                // A carriage return before a line break writes over nothing.
                self.has_escape |= fresh.get(found..found + 2) != Some(b"\r\n");
                self.scanned += 1;
                continue;
            }
            let start = self.start;
            let mut stop = self.scanned;
            if stop > start && self.buffer.get(stop - 1) == Some(&b'\r') {
                stop -= 1;
            }
            if stop - start > PIECE_BYTES_MAX {
                return self.next_part();
            }
            self.scanned += 1;
            self.start = self.scanned;
            let has_escape = std::mem::take(&mut self.has_escape);
            let pieces = std::mem::take(&mut self.pieces);
            // What was given when the stream paused was all of it.
            if pieces > 0 && start == stop {
                continue;
            }
            let piece = match pieces {
                0 => Piece::Whole,
                before => Piece::Last(before.saturating_add(1)),
            };
            return Some(Line {
                text: self.buffer.get(start..stop)?,
                piece,
                has_escape,
                next: self.buffer.get(self.start..self.end)?.first().copied(),
            });
        }
    }

    /// A piece of a line that is certainly too long: one byte more than a piece may still be the `\r` of its end.
    #[cold]
    fn next_part(&mut self) -> Option<Line<'_>> {
        let rest = self.buffer.get(self.start..self.end)?;
        if rest.len() < PIECE_BYTES_MAX + 2 {
            return None;
        }
        let length = whole_chars(rest, PIECE_BYTES_MAX);
        let piece = Piece::Part(self.count_piece());
        Some(self.take(length, piece))
    }

    /// Returns the unfinished line when the stream pauses. Held back is what may still become another thing: a `\r`, and
    /// the front of a character.
    pub fn paused(&mut self) -> Option<Line<'_>> {
        let rest = self.buffer.get(self.start..self.end)?;
        let mut length = rest.len() - unfinished_char(rest);
        if length > 0 && rest.get(length - 1) == Some(&b'\r') {
            length -= 1;
        }
        self.unended(length)
    }

    /// Returns the unfinished line when the stream has ended; to be called until it returns nothing.
    pub fn ended(&mut self) -> Option<Line<'_>> {
        self.unended(self.end - self.start)
    }

    fn unended(&mut self, length: usize) -> Option<Line<'_>> {
        let rest = self.buffer.get(self.start..self.end)?;
        let length = whole_chars(rest, PIECE_BYTES_MAX).min(length);
        if length == 0 {
            return None;
        }
        let piece = Piece::Partial(self.count_piece());
        Some(self.take(length, piece))
    }

    fn count_piece(&mut self) -> u32 {
        self.pieces = self.pieces.saturating_add(1);
        self.pieces
    }

    fn take(&mut self, length: usize, piece: Piece) -> Line<'_> {
        let start = self.start;
        self.start += length;
        self.scanned = self.scanned.max(self.start);
        Line {
            text: self.buffer.get(start..self.start).unwrap_or_default(),
            piece,
            // Also of the pieces behind it: where in the line it stands is not kept.
            has_escape: self.has_escape,
            next: None,
        }
    }
}

const fn continues_char(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// The length of the longest front of at most `most` bytes that ends between two characters. Bytes that are not UTF-8
/// are cut anywhere.
fn whole_chars(text: &[u8], most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    let back = (0..4).find(|back| text.get(most - back).is_some_and(|byte| !continues_char(*byte)));
    most - back.unwrap_or(0)
}

/// Bytes at the end that begin a character and do not end it.
fn unfinished_char(text: &[u8]) -> usize {
    let tail = text.get(text.len().saturating_sub(3)..).unwrap_or_default();
    let Some(back) = tail.iter().rev().position(|byte| !continues_char(*byte)) else {
        return 0;
    };
    let has = back + 1;
    let needs = match tail.get(tail.len() - has) {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 0,
    };
    if has < needs { has } else { 0 }
}

#[cfg(test)]
mod tests;
