//! Places of the blocks of a segment: found by their lengths alone, so that many threads can read blocks at once.

use crate::block::Block;
use crate::error::StoreError;
use crate::head::{self, BlockHead, FIXED_BYTES, MAGIC, MAGIC_FRONT};
use crate::limits::{HEAD_READ_BYTES, RESYNC_READ_BYTES, RESYNC_TRIES_MAX};
use crate::reader::Damage;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Place of a block in its file, and what its first bytes say. They are checked when the block is read.
///
/// ```
/// let place = logdrive_store::BlockPlace { offset: 0, head_bytes: 64, body_bytes: 9 };
/// assert_eq!(place.end(), 73);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPlace {
    /// Offset of its first byte.
    pub offset: u64,
    /// Bytes of its head.
    pub head_bytes: usize,
    /// Bytes behind its head.
    pub body_bytes: usize,
}

impl BlockPlace {
    /// Offset behind its last byte.
    pub fn end(&self) -> u64 {
        self.offset + (self.head_bytes + self.body_bytes) as u64
    }

    /// Damage of this block.
    pub fn damage(&self, error: StoreError) -> Damage {
        Damage {
            offset: self.offset,
            bytes: self.end() - self.offset,
            error,
        }
    }

    /// Reads the head.
    ///
    /// # Errors
    /// When the file cannot be read. Damage is the inner error.
    pub fn read_head(&self, file: &File) -> io::Result<Result<BlockHead, StoreError>> {
        let mut bytes = vec![0; self.head_bytes];
        file.read_exact_at(&mut bytes, self.offset)?;
        Ok(BlockHead::decode(&bytes))
    }

    /// Reads the rest of the block whose head was read.
    ///
    /// # Errors
    /// When the file cannot be read. Damage is the inner error.
    pub fn read_body(&self, file: &File, head: BlockHead) -> io::Result<Result<Block, StoreError>> {
        let mut bytes = vec![0; head.body_bytes];
        file.read_exact_at(&mut bytes, self.offset + self.head_bytes as u64)?;
        Ok(Block::new(head, bytes))
    }
}

/// Finds the blocks of a file, one behind the other. At the end it may be asked again.
#[derive(Debug)]
pub struct BlockPlaces {
    offset: u64,
    damages: Vec<Damage>,
    /// Bytes that were read ahead, and their place.
    ahead: (u64, Vec<u8>),
}

impl Default for BlockPlaces {
    fn default() -> Self {
        Self::new()
    }
}

impl BlockPlaces {
    /// Starts at the first byte of a file.
    pub fn new() -> Self {
        Self {
            offset: 0,
            damages: Vec::new(),
            ahead: (0, Vec::new()),
        }
    }

    /// Returns damage between blocks that was found since the last call.
    pub fn take_damages(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.damages)
    }

    /// Finds the next block that ends before `length`. `None`: no whole block follows.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next_place(&mut self, file: &File, length: u64) -> io::Result<Option<BlockPlace>> {
        loop {
            if self.offset >= length {
                return Ok(None);
            }
            let error = match self.place_at(file, self.offset, length)? {
                Ok(place) if place.end() <= length => {
                    // Lengths that are wrong mostly lead to where no block begins; then the next one is searched.
                    if place.end() == length || self.is_block(file, place.end(), length)? {
                        self.offset = place.end();
                        return Ok(Some(place));
                    }
                    match place.read_head(file)? {
                        Ok(_) => {
                            self.offset = place.end();
                            return Ok(Some(place));
                        }
                        Err(error) => error,
                    }
                }
                Ok(_) => StoreError::Truncated { what: "block" },
                Err(error) => error,
            };
            match self.resync(file, length)? {
                Some(next) => self.note(next, error),
                None if matches!(error, StoreError::Truncated { .. }) => return Ok(None),
                None => self.note(length, error),
            }
        }
    }

    fn note(&mut self, end: u64, error: StoreError) {
        self.damages.push(Damage {
            offset: self.offset,
            bytes: end - self.offset,
            error,
        });
        self.offset = end;
    }

    /// The first bytes of a block, perhaps fewer at the end of the file.
    fn front(&mut self, file: &File, offset: u64, length: u64) -> io::Result<&[u8]> {
        let wanted = (length - offset).min(FIXED_BYTES as u64) as usize;
        let (start, bytes) = &self.ahead;
        let is_there = offset >= *start && offset + wanted as u64 <= start + bytes.len() as u64;
        if !is_there {
            let mut bytes = std::mem::take(&mut self.ahead.1);
            bytes.resize((length - offset).min(HEAD_READ_BYTES) as usize, 0);
            file.read_exact_at(&mut bytes, offset)?;
            self.ahead = (offset, bytes);
        }
        let at = (offset - self.ahead.0) as usize;
        Ok(self.ahead.1.get(at..at + wanted).unwrap_or(&[]))
    }

    fn is_block(&mut self, file: &File, offset: u64, length: u64) -> io::Result<bool> {
        let front = self.front(file, offset, length)?;
        Ok(MAGIC.starts_with(front.get(..front.len().min(MAGIC_FRONT)).unwrap_or(&[])))
    }

    fn place_at(
        &mut self,
        file: &File,
        offset: u64,
        length: u64,
    ) -> io::Result<Result<BlockPlace, StoreError>> {
        let front = self.front(file, offset, length)?;
        if front.len() < FIXED_BYTES {
            let magic = MAGIC.get(..front.len().min(MAGIC_FRONT)).unwrap_or(&[]);
            return Ok(Err(match front.starts_with(magic) {
                true => StoreError::Truncated { what: "block" },
                false => StoreError::NoBlock,
            }));
        }
        Ok(head::lengths(front).map(|lengths| BlockPlace {
            offset,
            head_bytes: lengths.head,
            body_bytes: lengths.body,
        }))
    }

    /// Searches the next block with a sound head behind the present place.
    fn resync(&mut self, file: &File, length: u64) -> io::Result<Option<u64>> {
        let mut tries = 0;
        let mut from = self.offset + 1;
        while from + (FIXED_BYTES as u64) <= length {
            let mut bytes = vec![0; (length - from).min(RESYNC_READ_BYTES as u64) as usize];
            file.read_exact_at(&mut bytes, from)?;
            let windows = bytes.windows(MAGIC_FRONT).enumerate();
            for (place, _) in windows.filter(|(_, window)| MAGIC.starts_with(window)) {
                tries += 1;
                if tries > RESYNC_TRIES_MAX {
                    return Ok(None);
                }
                let at = from + place as u64;
                if let Ok(found) = self.place_at(file, at, length)?
                    && at + found.head_bytes as u64 <= length
                    && found.read_head(file)?.is_ok()
                {
                    return Ok(Some(at));
                }
            }
            // The first bytes of a block may stand at the end of what was read.
            from += (bytes.len() - MAGIC.len() + 1) as u64;
        }
        Ok(None)
    }
}
