//! One log that is read in pages, while it may grow, shrink or be replaced.

use super::blocks::Blocks;
use super::page::{Page, PageBytes};
use crate::error::ReadError;
use crate::limits::{BLOCK_PAGE_BYTES, PAGE_BYTES_MAX, PAGE_BYTES_MIN, PAGES_WANTED, RECORD_BYTES_MAX};
use crate::times::Times;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes behind a page that are read with it, at first and then.
const BEHIND_BYTES: [usize; 3] = [16 * 1024, 256 * 1024, RECORD_BYTES_MAX];

/// Change of a log since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// None.
    Nothing,
    /// More bytes: the last page and those behind it are new.
    Grown,
    /// Fewer bytes than before: all pages are new.
    Cut,
    /// Another file has its name, as after a rotation.
    Replaced,
}

/// A log in pages. Threads may share it.
#[derive(Debug)]
pub struct PagedLog {
    name: String,
    /// Path under which it is looked for again; none for a file without a name.
    path: Option<PathBuf>,
    file: File,
    /// Blocks of a segment, which are its pages.
    blocks: Option<Blocks>,
    page_bytes: u64,
    length: AtomicU64,
    /// Set if no record of it begins with a time, as far as its first page shows.
    is_lines: AtomicBool,
}

impl PagedLog {
    /// Opens a file that is a segment or a text log, and not compressed. `share` is the number of logs that are read together: the more
    /// there are, the smaller are their pages.
    ///
    /// # Errors
    /// When it cannot be opened, or is a directory.
    pub fn open(path: &Path, share: usize) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(ReadError::open(path))?;
        let metadata = file.metadata().map_err(ReadError::read(path))?;
        if metadata.is_dir() {
            return Err(ReadError::Directory {
                path: path.to_owned(),
            });
        }
        let name = path.display().to_string();
        let blocks = Blocks::of(&file, metadata.len()).map_err(ReadError::read(path))?;
        let mut log = Self::new(name, Some(path.to_owned()), file, metadata.len(), share);
        if blocks.is_some() {
            // As many bytes as a block has in about.
            log.page_bytes = BLOCK_PAGE_BYTES;
            log.blocks = blocks;
        }
        Ok(log)
    }

    /// Reads a file that has no name, and to which something else writes.
    pub(crate) fn unnamed(name: String, file: File, share: usize) -> Self {
        Self::new(name, None, file, 0, share)
    }

    fn new(name: String, path: Option<PathBuf>, file: File, length: u64, share: usize) -> Self {
        let least = (PAGE_BYTES_MAX / share.max(1) as u64 / 64).clamp(PAGE_BYTES_MIN, 4 * PAGE_BYTES_MIN);
        let wanted = (length / PAGES_WANTED).next_power_of_two();
        Self {
            name,
            path,
            file,
            blocks: None,
            page_bytes: wanted.clamp(least, PAGE_BYTES_MAX),
            length: AtomicU64::new(length),
            is_lines: AtomicBool::new(false),
        }
    }

    /// Name of the log, as its records bear it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path of the log, if it has one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Bytes of the log that are known.
    pub fn length(&self) -> u64 {
        // Relaxed: the bytes are read from the file itself, and the length only says how far to look.
        self.length.load(Ordering::Relaxed)
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        if let Some(blocks) = &self.blocks {
            return blocks.count();
        }
        u32::try_from(self.length().div_ceil(self.page_bytes)).unwrap_or(u32::MAX)
    }

    /// Bytes of one page; of a segment, about those of the lines of a block.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Returns whether the log is a segment, whose pages are its blocks.
    pub(crate) fn is_segment(&self) -> bool {
        self.blocks.is_some()
    }

    /// Looks whether the log has changed.
    ///
    /// # Errors
    /// When the file cannot be asked. A name that is gone is no change: its file is read on.
    pub fn look(&self) -> io::Result<Change> {
        let now = self.file.metadata()?;
        if let Some(path) = &self.path
            && let Ok(named) = std::fs::metadata(path)
            && (named.dev(), named.ino()) != (now.dev(), now.ino())
            && now.len() == self.length()
        {
            return Ok(Change::Replaced);
        }
        // Relaxed: see `length`.
        let before = self.length.swap(now.len(), Ordering::Relaxed);
        if let Some(blocks) = self.blocks.as_ref().filter(|_| before != now.len()) {
            blocks.find(&self.file, now.len())?;
        }
        Ok(match now.len().cmp(&before) {
            std::cmp::Ordering::Equal => Change::Nothing,
            std::cmp::Ordering::Greater => Change::Grown,
            std::cmp::Ordering::Less => Change::Cut,
        })
    }

    /// Reads a page. One that is not there is empty.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn page(&self, number: u32, times: &mut Times) -> io::Result<Page> {
        if let Some(blocks) = &self.blocks {
            return blocks.page(number, &self.file, times);
        }
        let length = self.length();
        let start = u64::from(number) * self.page_bytes;
        if start >= length {
            return Ok(Page::default());
        }
        let own = self.page_bytes.min(length - start) as usize;
        let before = u64::from(number > 0);
        for behind in BEHIND_BYTES {
            // Up to the limit of a record and a little more, so that a page knows that it has all it needs.
            let wanted = before + own as u64 + behind as u64 + 1;
            let wanted = wanted.min(length - start + before) as usize;
            let bytes = self.bytes(start - before, wanted)?;
            let is_end = start - before + wanted as u64 >= length || bytes.len() < wanted;
            let source = PageBytes {
                bytes,
                own,
                is_first: number == 0,
                is_end,
                // Relaxed: a page that was read before the first one is read again when that shows it.
                is_lines: self.is_lines.load(Ordering::Relaxed),
            };
            if let Ok(page) = Page::read(source, times) {
                if number == 0 {
                    let is_lines = !page.records().iter().any(|record| record.has_head);
                    self.is_lines.store(is_lines, Ordering::Relaxed);
                }
                return Ok(page);
            }
        }
        Ok(Page::default())
    }

    /// Reads so many bytes, or those up to the end of the file.
    fn bytes(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.bytes_into(offset, length, &mut bytes)?;
        Ok(bytes)
    }

    /// The same, into memory that is used again.
    pub(crate) fn bytes_into(&self, offset: u64, length: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.resize(length, 0);
        let mut filled = 0;
        while filled < length {
            let room = bytes.get_mut(filled..).unwrap_or_default();
            match self.file.read_at(room, offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;
    use std::io::Write;

    fn all(log: &PagedLog) -> Vec<u8> {
        let mut times = Times::new(TimeZone::UTC);
        let mut bytes = Vec::new();
        for number in 0..log.pages() {
            let page = log.page(number, &mut times).expect("readable");
            for record in page.records() {
                bytes.extend_from_slice(page.bytes(record));
            }
        }
        bytes
    }

    #[test]
    fn the_pages_of_a_log_have_each_byte_once() {
        let mut text = String::new();
        let mut second = 0;
        while text.len() < 3 * PAGE_BYTES_MIN as usize + 777 {
            text.push_str(&format!(
                "2026-11-21T08:{:02}:{:02}.000Z INFO  record {second}\n",
                second / 60 % 60,
                second % 60
            ));
            text.push_str(&"  a line of it\n".repeat(second * 7 % 30));
            second += 1;
        }
        for text in [
            text.clone(),
            "no time at all\n".repeat(20_000),
            text.replace("  a", "\u{1b}[1m a"),
        ] {
            let mut file = tempfile::NamedTempFile::new().expect("a file");
            file.write_all(text.as_bytes()).expect("written");
            let log = PagedLog::open(file.path(), 1000).expect("opened");
            assert!(log.pages() >= 3, "{}", log.pages());
            assert_eq!(String::from_utf8_lossy(&all(&log)), text);
        }
    }

    fn put_block(segment: &mut Vec<u8>, numbers: std::ops::Range<u64>) {
        let callsite = logdrive_wire::Callsite {
            message: "order filled".to_owned(),
            ..Default::default()
        };
        let callsite = logdrive_store::RowCallsite::new(&callsite, None).expect("names are short");
        let mut writer = logdrive_store::SegmentWriter::new(segment);
        let thread = logdrive_store::RowThread { id: 1, name: "main" };
        for number in numbers {
            let time = 1_795_000_000_000_000_000 + number;
            writer.record(&callsite, thread, time, &[]).expect("memory");
        }
        writer.flush().expect("memory");
    }

    #[test]
    fn the_pages_of_a_segment_are_its_blocks_also_those_that_come() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.segment");
        let mut segment = Vec::new();
        put_block(&mut segment, 0..10);
        let one = segment.len();
        put_block(&mut segment, 10..20);
        std::fs::write(&path, &segment).expect("written");
        let log = PagedLog::open(&path, 1).expect("opened");
        let count = |log: &PagedLog| String::from_utf8_lossy(&all(log)).matches("order filled").count();
        assert_eq!((log.pages(), count(&log)), (2, 20));
        put_block(&mut segment, 20..25);
        std::fs::write(&path, &segment).expect("written");
        assert_eq!(log.look().expect("looked"), Change::Grown);
        assert_eq!((log.pages(), count(&log)), (3, 25));
        // A flipped bit costs its block, which is told.
        segment[one - 2] ^= 1;
        std::fs::write(&path, &segment).expect("written");
        let mut times = Times::new(TimeZone::UTC);
        let error = log.page(0, &mut times).expect_err("it is damaged");
        assert!(error.to_string().contains("checksum"), "{error}");
        assert_eq!(log.page(1, &mut times).expect("it is sound").records().len(), 10);
        std::fs::write(&path, &segment[..one]).expect("written");
        assert_eq!(log.look().expect("looked"), Change::Cut);
        assert_eq!(log.pages(), 1);
    }

    #[test]
    fn growth_cuts_and_rotation_are_seen() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.log");
        std::fs::write(&path, "2026-11-21T08:00:00Z INFO a\n").expect("written");
        let log = PagedLog::open(&path, 1).expect("opened");
        assert_eq!(log.look().expect("looked"), Change::Nothing);
        let mut file = File::options().append(true).open(&path).expect("opened");
        file.write_all(b"2026-11-21T08:00:01Z INFO b\n").expect("written");
        assert_eq!(log.look().expect("looked"), Change::Grown);
        assert_eq!(all(&log).len(), 56);
        file.set_len(28).expect("cut");
        assert_eq!(log.look().expect("looked"), Change::Cut);
        std::fs::rename(&path, dir.path().join("b.log")).expect("renamed");
        assert_eq!(log.look().expect("looked"), Change::Nothing);
        std::fs::write(&path, "").expect("written");
        assert_eq!(log.look().expect("looked"), Change::Replaced);
    }
}
