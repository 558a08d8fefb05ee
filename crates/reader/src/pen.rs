//! Pens: how formatted records leave the reader, piece by piece, so that a printer can colour and escape each.

use logdrive_wire::Level;

/// Kind of a piece of a line, which decides about its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// Text of the message, and values.
    Plain,
    /// Details beside the message: times, places in the source, punctuation.
    Detail,
    /// A level.
    Level(Level),
    /// The key of a field.
    Key,
}

/// Receiver of formatted pieces.
///
/// A `Vec<u8>` is a pen without colours:
/// ```
/// use logdrive_reader::{Pen, Piece};
/// let mut line = Vec::new();
/// line.put(Piece::Key, b"peer");
/// line.put(Piece::Detail, b"=");
/// assert_eq!(line, b"peer=");
/// ```
pub trait Pen {
    /// Writes a piece of a line. A pen for terminals escapes what a terminal would obey.
    fn put(&mut self, piece: Piece, text: &[u8]);

    /// Bytes behind the pen, for JSON and ends of lines, which are neither coloured nor escaped.
    fn bytes(&mut self) -> &mut Vec<u8>;
}

impl Pen for Vec<u8> {
    fn put(&mut self, _: Piece, text: &[u8]) {
        self.extend_from_slice(text);
    }

    fn bytes(&mut self) -> &mut Vec<u8> {
        self
    }
}
