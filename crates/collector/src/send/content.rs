//! Content of a log file: its bytes, or what a compressed file holds, read at any offset.

use logdrive_reader::decoder;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bytes that are decompressed at a time where they are passed over.
const SKIP_BYTES: usize = 64 * 1024;

/// Content of an open log file.
pub(crate) struct LogContent {
    file: File,
    /// `None` for a file that is not compressed.
    decompressed: Option<Decompressed>,
}

/// Content of a compressed file, which is decompressed from the start on.
struct Decompressed {
    decoder: Box<dyn Read + Send + Sync>,
    /// Bytes that came last: those before an offset are read with the next ones.
    last: Vec<u8>,
    /// Offset behind them.
    end: u64,
}

impl std::fmt::Debug for LogContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

impl LogContent {
    /// Opens a regular file. Never waits, as opening a FIFO would.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(path)?;
        let kind = file.metadata()?.file_type();
        if !kind.is_file() {
            let why = match kind.is_dir() {
                true => "it is a directory",
                false => "it is no regular file",
            };
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let decompressed = Decompressed::start(&file)?;
        Ok(Self { file, decompressed })
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    pub(crate) fn is_compressed(&self) -> bool {
        self.decompressed.is_some()
    }

    /// Returns the bytes of the content where they are known without reading it: where it is not compressed.
    pub(crate) fn plain_size(&self) -> io::Result<Option<u64>> {
        match self.decompressed {
            Some(_) => Ok(None),
            None => Ok(Some(self.file.metadata()?.size())),
        }
    }

    /// Fills the buffer from this offset on, as far as the content goes, and returns the number of bytes. Of a compressed
    /// file a smaller offset than the last one is read from the start.
    pub(crate) fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(decompressed) = &mut self.decompressed else {
            return fill(bytes, |rest, filled| self.file.read_at(rest, offset + filled));
        };
        if offset < decompressed.start_of_last() {
            *decompressed = Decompressed::start(&self.file)?.ok_or(io::ErrorKind::InvalidData)?;
        }
        decompressed.read_at(bytes, offset)
    }

    /// Returns the checksum of so many bytes at an offset; `None` where the content ends before them.
    pub(crate) fn crc_at(&mut self, offset: u64, count: usize) -> io::Result<Option<u32>> {
        let mut bytes = vec![0; count];
        let length = self.read_at(&mut bytes, offset)?;
        Ok((length == count).then(|| crc32c::crc32c(&bytes)))
    }
}

impl Decompressed {
    fn start(file: &File) -> io::Result<Option<Self>> {
        let found = decoder(file.try_clone()?)?;
        Ok(found.map(|decoder| Self {
            decoder,
            last: Vec::new(),
            end: 0,
        }))
    }

    fn start_of_last(&self) -> u64 {
        self.end - self.last.len() as u64
    }

    fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        while self.end < offset {
            let wanted = usize::try_from(offset - self.end).map_or(SKIP_BYTES, |left| left.min(SKIP_BYTES));
            if self.more(wanted)? == 0 {
                return Ok(0);
            }
        }
        let kept = usize::try_from(offset - self.start_of_last()).unwrap_or(usize::MAX);
        self.last.drain(..kept.min(self.last.len()));
        if let Some(missing) = bytes.len().checked_sub(self.last.len()) {
            let (kept, start) = (std::mem::take(&mut self.last), offset);
            self.more(missing)?;
            self.last.splice(..0, kept);
            debug_assert_eq!(self.start_of_last(), start, "the last bytes begin at the offset");
        }
        let length = bytes.len().min(self.last.len());
        for (to, from) in bytes.iter_mut().zip(&self.last) {
            *to = *from;
        }
        Ok(length)
    }

    /// Decompresses so many bytes, and keeps them as the last ones.
    fn more(&mut self, count: usize) -> io::Result<usize> {
        self.last.resize(count, 0);
        let length = fill(&mut self.last, |rest, _| self.decoder.read(rest))?;
        self.last.truncate(length);
        self.end += length as u64;
        Ok(length)
    }
}

/// Reads until the buffer is full or nothing comes.
fn fill(bytes: &mut [u8], mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match read(rest, filled as u64) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_testkit::Random;

    #[test]
    fn a_compressed_file_is_read_at_any_offset() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.zst");
        let bytes: Vec<u8> = (0..300_000u32)
            .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        std::fs::write(&path, zstd::encode_all(bytes.as_slice(), 1).expect("compressed")).expect("written");
        let mut content = LogContent::open(&path).expect("opened");
        assert!(content.is_compressed());
        let mut random = Random::new(7);
        let mut offset = 0;
        for step in 0..300 {
            offset = match step % 50 {
                49 => random.below(bytes.len() as u64),
                _ => (offset + random.below(9_000)).saturating_sub(random.below(2_000)),
            };
            let mut found = vec![0; random.index(20_000)];
            let length = content.read_at(&mut found, offset).expect("read");
            let from = (offset as usize).min(bytes.len());
            let expected = &bytes[from..(from + found.len()).min(bytes.len())];
            assert_eq!(&found[..length], expected, "step {step}, offset {offset}");
        }
    }
}
