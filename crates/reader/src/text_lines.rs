//! Lines of text files as they stand, each with its time and level where it has them: for whoever stores them in another
//! form.

use crate::error::ReadError;
use crate::filter::Filter;
use crate::head::read_head;
use crate::input::Input;
use crate::limits::CHUNK_BYTES;
use crate::times::Times;
use jiff::tz::TimeZone;
use logdrive_wire::Level;

/// Bytes of a line that is passed as one; a longer one is passed in pieces.
const LINE_BYTES_MAX: usize = 512 << 10;

/// A line of a text file.
#[derive(Debug, Clone, Copy)]
pub struct TextLine<'a> {
    /// Its bytes, without the line break.
    pub bytes: &'a [u8],
    /// Time in nanoseconds since 1970: that of the line before where it has none, and 0 where no line had any.
    pub unix_ns: u64,
    /// Its level; that of the line before where it has no time.
    pub level: Option<Level>,
}

/// Times and levels of lines of text that come one after the other.
///
/// ```
/// let mut heads = logdrive_reader::LineHeads::default();
/// let line = heads.of(b"2026-11-24T05:00:00Z WARN slow");
/// assert_eq!(line.level, Some(logdrive_wire::Level::Warn));
/// assert_eq!(heads.of(b"    at Reader.run").unix_ns, line.unix_ns);
/// ```
#[derive(Debug)]
pub struct LineHeads {
    times: Times,
    unix_ns: u64,
    level: Option<Level>,
}

impl Default for LineHeads {
    fn default() -> Self {
        Self {
            times: Times::new(TimeZone::system()),
            unix_ns: 0,
            level: None,
        }
    }
}

impl LineHeads {
    /// Returns the next line with what its head says, or the head of the line before where it has none.
    #[inline]
    pub fn of<'a>(&mut self, bytes: &'a [u8]) -> TextLine<'a> {
        if let Some(head) = read_head(bytes, &mut self.times) {
            (self.unix_ns, self.level) = (head.unix_ns, head.level);
        }
        TextLine {
            bytes,
            unix_ns: self.unix_ns,
            level: self.level,
        }
    }
}

/// Passes all lines of a log on, in their order. Memory is bounded by the length of a line.
///
/// # Errors
/// When a file cannot be read, or the line cannot be passed on.
pub fn each_text_line<E: From<ReadError>>(
    input: &mut Input,
    mut each: impl FnMut(TextLine<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut heads = LineHeads::default();
    let mut pass = |bytes: &[u8]| each(heads.of(bytes));
    let mut chunk = vec![0; CHUNK_BYTES.max(2 * LINE_BYTES_MAX)];
    while input.open_next(&Filter::default())? {
        let mut filled = 0;
        loop {
            let length = input.read(chunk.get_mut(filled..).unwrap_or_default())?;
            if let Some(damage) = input.take_damages().into_iter().next() {
                return Err(damage.into());
            }
            let read = chunk.get(..filled + length).unwrap_or_default();
            let mut start = 0;
            for end in memchr::memchr_iter(b'\n', read) {
                pass(read.get(start..end).unwrap_or_default())?;
                start = end + 1;
            }
            if read.len() - start > LINE_BYTES_MAX || (length == 0 && start < read.len()) {
                for piece in read.get(start..).unwrap_or_default().chunks(LINE_BYTES_MAX) {
                    pass(piece)?;
                }
                start = read.len();
            }
            if length == 0 {
                break;
            }
            let end = read.len();
            chunk.copy_within(start..end, 0);
            filled = end - start;
        }
    }
    Ok(())
}
