//! Reader of segments: finds blocks, leaves out those that nobody wants, and goes on behind damaged ones.

use crate::block::Block;
use crate::error::StoreError;
use crate::head::{self, BlockHead, FIXED_BYTES, MAGIC, MAGIC_FRONT};
use crate::limits::{RESYNC_READ_BYTES, RESYNC_TRIES_MAX};
use std::io::{self, Read, Seek, SeekFrom};

/// Bytes of a segment that are no block, and were left out.
///
/// ```
/// use logdrive_store::{Damage, StoreError};
/// let damage = Damage { offset: 96, bytes: 10, error: StoreError::NoBlock };
/// assert_eq!(damage.to_string(), "10 bytes at offset 96 are left out: no block begins here");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Place of the first of them in the file.
    pub offset: u64,
    /// Number of bytes up to the next block.
    pub bytes: u64,
    /// Reason.
    pub error: StoreError,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} bytes at offset {} are left out: {}",
            self.bytes, self.offset, self.error
        )
    }
}

/// Returns true if a file with these first bytes is a segment, of any version.
///
/// ```
/// assert!(!logdrive_store::is_segment(b"2026-11-24T05:00:00Z INFO a line"));
/// ```
pub fn is_segment(front: &[u8]) -> bool {
    front.get(..MAGIC_FRONT) == MAGIC.get(..MAGIC_FRONT)
}

/// Reads the blocks of a segment in their order. At the end it may be asked again: a file that is still written has
/// more by then. It holds one block in memory.
///
/// ```
/// use logdrive_store::SegmentReader;
/// let mut reader = SegmentReader::new(std::io::Cursor::new(Vec::new()));
/// assert!(reader.next_block(|_| true)?.is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SegmentReader<R> {
    file: R,
    offset: u64,
    damages: Vec<Damage>,
}

enum Found {
    Block(Box<BlockHead>),
    /// The file ends here, perhaps within a block.
    End,
    Damaged(StoreError),
}

impl<R: Read + Seek> SegmentReader<R> {
    /// Starts at the first byte of a file.
    pub fn new(file: R) -> Self {
        Self {
            file,
            offset: 0,
            damages: Vec::new(),
        }
    }

    /// Starts at the offset of a block.
    ///
    /// ```
    /// use logdrive_store::SegmentReader;
    /// assert_eq!(SegmentReader::at(std::io::Cursor::new(Vec::new()), 96).offset(), 96);
    /// ```
    pub fn at(file: R, offset: u64) -> Self {
        Self {
            offset,
            ..Self::new(file)
        }
    }

    /// Place behind the last block that was returned or left out.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns damage that was found since the last call.
    pub fn take_damages(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.damages)
    }

    /// Reads up to the next block whose head is wanted. `None`: no whole block follows.
    ///
    /// # Errors
    /// When the file cannot be read. Damage is no error here: see [`SegmentReader::take_damages`].
    pub fn next_block(&mut self, mut is_wanted: impl FnMut(&BlockHead) -> bool) -> io::Result<Option<Block>> {
        loop {
            let length = self.file.seek(SeekFrom::End(0))?;
            let error = match self.head_at(self.offset, length)? {
                Found::End => return Ok(None),
                Found::Damaged(error) => error,
                Found::Block(head) => {
                    let start = self.offset + head.head_bytes as u64;
                    let end = start + head.body_bytes as u64;
                    if end > length {
                        // It is being written, or was cut; in the second case others may stand behind it.
                        StoreError::Truncated { what: "block" }
                    } else if !is_wanted(&head) {
                        self.offset = end;
                        continue;
                    } else {
                        match Block::new(*head, self.read(start, (end - start) as usize)?) {
                            Ok(block) => {
                                self.offset = end;
                                return Ok(Some(block));
                            }
                            Err(error) => error,
                        }
                    }
                }
            };
            match self.resync(length)? {
                Some(next) => {
                    self.note(next, error);
                    self.offset = next;
                }
                None => {
                    let is_cut = matches!(error, StoreError::Truncated { .. });
                    if !is_cut {
                        self.note(length, error);
                        self.offset = length;
                    }
                    return Ok(None);
                }
            }
        }
    }

    fn note(&mut self, end: u64, error: StoreError) {
        self.damages.push(Damage {
            offset: self.offset,
            bytes: end - self.offset,
            error,
        });
    }

    fn read(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(offset))?;
        let mut bytes = vec![0; length];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn head_at(&mut self, offset: u64, length: u64) -> io::Result<Found> {
        let left = length.saturating_sub(offset);
        if left == 0 {
            return Ok(Found::End);
        }
        let front = self.read(offset, left.min(FIXED_BYTES as u64) as usize)?;
        if front.len() < FIXED_BYTES {
            let magic = MAGIC.get(..front.len().min(MAGIC_FRONT)).unwrap_or(&[]);
            return Ok(match front.starts_with(magic) {
                true => Found::End,
                false => Found::Damaged(StoreError::NoBlock),
            });
        }
        let lengths = match head::lengths(&front) {
            Ok(lengths) => lengths,
            Err(error) => return Ok(Found::Damaged(error)),
        };
        if lengths.head as u64 > left {
            return Ok(Found::Damaged(StoreError::Truncated { what: "head" }));
        }
        let bytes = self.read(offset, lengths.head)?;
        Ok(match BlockHead::decode(&bytes) {
            Ok(head) => Found::Block(Box::new(head)),
            Err(error) => Found::Damaged(error),
        })
    }

    /// Searches the next block with a sound head behind the present place.
    fn resync(&mut self, length: u64) -> io::Result<Option<u64>> {
        let mut tries = 0;
        let mut from = self.offset + 1;
        while from + (FIXED_BYTES as u64) <= length {
            let wanted = (length - from).min(RESYNC_READ_BYTES as u64) as usize;
            let bytes = self.read(from, wanted)?;
            for (place, window) in bytes.windows(MAGIC.len()).enumerate() {
                if window.get(..MAGIC_FRONT) != MAGIC.get(..MAGIC_FRONT) {
                    continue;
                }
                tries += 1;
                if tries > RESYNC_TRIES_MAX {
                    return Ok(None);
                }
                let at = from + place as u64;
                if let Found::Block(_) = self.head_at(at, length)? {
                    return Ok(Some(at));
                }
            }
            // The first bytes of a block may stand at the end of what was read.
            from += (wanted - MAGIC.len() + 1) as u64;
        }
        Ok(None)
    }
}
