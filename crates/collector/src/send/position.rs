//! Positions in the content of a log file, which hold whatever the file is called, and wherever the content is copied to.
//!
//! The same inode may get other content (`copytruncate`, or an inode that is used again), and the same content may get
//! another inode (a copy, a compressed file). So a position bears checksums of the first bytes and of those just before it.

use super::content::LogContent;
use std::io;

/// Bytes at the start of a file that its fingerprint covers: the first lines, which have times of their own.
pub(crate) const HEAD_BYTES: usize = 1_024;

/// Bytes before a position that are compared before more is read: they show a file that was truncated and has grown
/// beyond the position since.
pub(crate) const TAIL_BYTES: usize = 256;

/// Position in the content of a file; of a compressed file in what it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilePosition {
    /// Bytes before the position.
    pub offset: u64,
    /// Bytes at the start that were read, at most 1,024; those before the position, or more.
    pub head_bytes: usize,
    /// Checksum (CRC32C) of them.
    pub head_crc: u32,
    /// Checksum of the last bytes before the position, at most 256; `None` where it is not known, as in states
    /// of earlier versions.
    pub tail_crc: Option<u32>,
}

impl FilePosition {
    /// A position in a file that is never read: one that was there, rotated and compressed, before the first start.
    pub(crate) const UNREAD: Self = Self {
        offset: u64::MAX,
        head_bytes: 0,
        head_crc: 0,
        tail_crc: None,
    };

    /// Number of bytes before the position that `tail_crc` covers; 0 where it is not known.
    pub(crate) fn tail_bytes(&self) -> usize {
        match (self.tail_crc, usize::try_from(self.offset)) {
            (None, _) => 0,
            (_, offset) => offset.map_or(TAIL_BYTES, |offset| offset.min(TAIL_BYTES)),
        }
    }

    /// Whether the content is that in which the position was noted.
    ///
    /// # Errors
    /// Fails when the content cannot be read.
    pub(crate) fn is_in(&self, content: &mut LogContent) -> io::Result<bool> {
        if self.offset == u64::MAX {
            return Ok(false);
        }
        if let Some(size) = content.plain_size()?
            && size < self.offset
        {
            return Ok(false);
        }
        // Of earlier versions only the offset is known.
        let Some(tail_crc) = self.tail_crc else {
            return Ok(true);
        };
        let tail_bytes = self.tail_bytes();
        Ok(content.crc_at(0, self.head_bytes)? == Some(self.head_crc)
            && content.crc_at(self.offset - tail_bytes as u64, tail_bytes)? == Some(tail_crc))
    }

    /// Whether the content has the same first bytes, all that the fingerprint covers.
    pub(crate) fn begins(&self, content: &mut LogContent) -> io::Result<bool> {
        Ok(self.head_bytes > 0 && content.crc_at(0, self.head_bytes)? == Some(self.head_crc))
    }

    /// Notes the position at this offset.
    ///
    /// # Errors
    /// Fails when the content cannot be read, or ends before it.
    pub(crate) fn note(content: &mut LogContent, offset: u64) -> io::Result<Self> {
        let mut position = Self {
            offset,
            head_bytes: usize::try_from(offset).map_or(HEAD_BYTES, |offset| offset.min(HEAD_BYTES)),
            head_crc: 0,
            tail_crc: Some(0),
        };
        let (head, tail) = (position.head_bytes, position.tail_bytes());
        let crc = |found: Option<u32>| found.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof));
        position.head_crc = crc(content.crc_at(0, head)?)?;
        position.tail_crc = Some(crc(content.crc_at(offset - tail as u64, tail)?)?);
        Ok(position)
    }

    /// Moves behind bytes that were read from here; `before` are those before the position that `tail_crc` covers.
    pub(crate) fn advance(&mut self, before: &[u8], bytes: &[u8]) {
        // Of bytes that are read again the first ones are in the checksum.
        let known = (self.head_bytes as u64).saturating_sub(self.offset);
        let fresh = usize::try_from(known)
            .ok()
            .and_then(|known| bytes.get(known..))
            .unwrap_or(&[]);
        let head = fresh
            .get(..HEAD_BYTES.saturating_sub(self.head_bytes))
            .unwrap_or(fresh);
        self.head_crc = crc32c::crc32c_append(self.head_crc, head);
        self.head_bytes += head.len();
        self.offset = self.offset.saturating_add(bytes.len() as u64);
        let from_before = TAIL_BYTES.saturating_sub(bytes.len());
        let before = before
            .get(before.len().saturating_sub(from_before)..)
            .unwrap_or(&[]);
        let tail = bytes
            .get(bytes.len().saturating_sub(TAIL_BYTES)..)
            .unwrap_or(bytes);
        self.tail_crc = Some(crc32c::crc32c_append(crc32c::crc32c(before), tail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_that_advances_is_the_one_that_is_noted() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a");
        let bytes: Vec<u8> = (0..5_000u32).map(|n| (n * 7 % 251) as u8).collect();
        std::fs::write(&path, &bytes).expect("written");
        let mut content = LogContent::open(&path).expect("opened");
        for step in [1, 100, 255, 256, 257, 1_024, 1_500, 5_000] {
            let mut position = FilePosition::note(&mut content, 0).expect("noted");
            for (count, part) in bytes.chunks(step).enumerate() {
                let at = count * step;
                let before = &bytes[at.saturating_sub(TAIL_BYTES)..at];
                position.advance(before, part);
                let noted = FilePosition::note(&mut content, (at + part.len()) as u64).expect("noted");
                assert_eq!(position, noted, "step {step}");
                assert!(position.is_in(&mut content).expect("read"));
            }
        }
    }

    #[test]
    fn other_content_is_seen() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a");
        let text = "the first line\n".repeat(200);
        std::fs::write(&path, &text).expect("written");
        let mut content = LogContent::open(&path).expect("opened");
        let position = FilePosition::note(&mut content, 2_000).expect("noted");
        for (change, is_same) in [(10, false), (1_900, false), (1_500, true), (2_500, true)] {
            let mut other = text.clone().into_bytes();
            other[change] = b'X';
            std::fs::write(&path, other).expect("written");
            let mut content = LogContent::open(&path).expect("opened");
            assert_eq!(position.is_in(&mut content).expect("read"), is_same, "{change}");
        }
        std::fs::write(&path, &text[..1_999]).expect("written");
        let mut content = LogContent::open(&path).expect("opened");
        assert!(!position.is_in(&mut content).expect("read"));
    }
}
