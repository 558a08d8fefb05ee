//! Input of the reader: files and standard input, compressed or not. The files of one log come one after the other.

use crate::error::ReadError;
use crate::filter::Filter;
use crate::limits::{CHUNK_BYTES, XZ_MEMORY_KIB_MAX};
use crate::log_files::LogFile;
use crate::segment::{MAGIC, SegmentLines};
use logdrive_drain::layout::Style;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The first bytes of gzip, of zstd, of xz and of bzip2; behind the latter comes a digit.
pub(crate) const GZIP: [u8; 2] = [0x1f, 0x8b];
pub(crate) const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const XZ: [u8; 4] = [0xfd, b'7', b'z', b'X'];
const BZIP2: [u8; 3] = *b"BZh";

/// A file that is open.
struct OpenFile {
    path: PathBuf,
    reader: Box<dyn Read + Send + Sync>,
    is_compressed: bool,
    /// A segment, which is read in place of the reader.
    segment: Option<Box<SegmentLines>>,
    /// Something to wait on, where this is no regular file.
    stream: Option<OwnedFd>,
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path.fmt(f)
    }
}

/// One log: a file, or its rotated files and itself.
#[derive(Debug)]
pub struct Input {
    waiting: VecDeque<LogFile>,
    current: Option<OpenFile>,
    /// Style in which records of segments are laid out.
    style: Style,
}

impl Input {
    /// The parts of a log, the oldest first. They are opened when their turn comes.
    pub fn new(parts: Vec<LogFile>) -> Self {
        Self {
            waiting: parts.into(),
            current: None,
            style: Style::Text,
        }
    }

    /// Lays records of segments out in another style than text.
    #[must_use]
    pub fn style(mut self, style: Style) -> Self {
        self.style = style;
        self
    }

    /// Returns what was damaged in the segment that is open, since the last call.
    pub(crate) fn take_damages(&mut self) -> Vec<ReadError> {
        let Some(OpenFile {
            path,
            segment: Some(segment),
            ..
        }) = &mut self.current
        else {
            return Vec::new();
        };
        let damages = segment.take_damages().into_iter();
        damages
            .map(|damage| ReadError::Damage {
                path: path.clone(),
                damage,
            })
            .collect()
    }

    /// The files that are not opened yet.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &LogFile> {
        self.waiting.iter()
    }

    /// Leaves out what is not opened yet.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Opens the next part that may hold records that pass. `false` when there is none.
    pub(crate) fn open_next(&mut self, filter: &Filter) -> Result<bool, ReadError> {
        self.current = None;
        while let Some(part) = self.waiting.pop_front() {
            if !part.is_before(filter.since_ns) {
                self.current = Some(OpenFile::open(&part.path, &self.style, filter)?);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Closes what is open.
    pub(crate) fn close(&mut self) {
        self.current = None;
    }

    /// Whether the open file is a segment, whose records were asked the filter's query.
    pub(crate) fn is_segment(&self) -> bool {
        self.current.as_ref().is_some_and(|file| file.segment.is_some())
    }

    /// Whether a file is open.
    pub(crate) fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// Reads bytes of the open file; 0 at its end.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ReadError> {
        let Some(file) = &mut self.current else {
            return Ok(0);
        };
        loop {
            let read = match &mut file.segment {
                Some(segment) => segment.read(bytes),
                None => file.reader.read(bytes),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) if file.is_compressed => {
                    let path = file.path.clone();
                    return Err(ReadError::Decompress { path, cause });
                }
                read => return read.map_err(ReadError::read(&file.path)),
            }
        }
    }

    /// Whether reading would wait for a writer. Bytes inside a decoder are not seen: then it may say so too
    /// early, and output is flushed once too often.
    pub(crate) fn would_wait(&self) -> bool {
        let Some(stream) = self.current.as_ref().and_then(|file| file.stream.as_ref()) else {
            return false;
        };
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // Where waiting cannot be asked about, it is not waited for.
        matches!(
            poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&at_once)),
            Ok(0)
        )
    }
}

impl OpenFile {
    /// Opens a file, or standard input for `-`, and finds out how it is compressed.
    fn open(path: &Path, style: &Style, filter: &Filter) -> Result<Self, ReadError> {
        let cannot_read = ReadError::read(path);
        let mut file = match path.as_os_str() == "-" {
            true => File::from(io::stdin().as_fd().try_clone_to_owned().map_err(&cannot_read)?),
            false => File::open(path).map_err(ReadError::open(path))?,
        };
        let kind = file.metadata().map_err(&cannot_read)?.file_type();
        if kind.is_dir() {
            return Err(ReadError::Directory {
                path: path.to_owned(),
            });
        }
        let stream = match kind.is_file() {
            true => None,
            false => Some(file.as_fd().try_clone_to_owned().map_err(&cannot_read)?),
        };
        let first = first_bytes(&mut file).map_err(&cannot_read)?;
        if first == MAGIC {
            if !kind.is_file() {
                return Err(ReadError::SegmentStream);
            }
            file.rewind().map_err(&cannot_read)?;
            let segment = SegmentLines::new(file, style.clone(), filter)?;
            return Ok(Self {
                path: path.to_owned(),
                reader: Box::new(io::empty()),
                is_compressed: false,
                segment: Some(Box::new(segment)),
                stream: None,
            });
        }
        let (reader, is_compressed) = reader_behind(first, file).map_err(&cannot_read)?;
        Ok(Self {
            path: path.to_owned(),
            reader,
            is_compressed,
            segment: None,
            stream,
        })
    }
}

/// Opens the decoder of a compressed file, from the file's start; `None` for a file that is not compressed.
///
/// # Errors
/// Fails when the file cannot be read.
pub fn decoder(mut file: File) -> io::Result<Option<Box<dyn Read + Send + Sync>>> {
    file.rewind()?;
    let first = first_bytes(&mut file)?;
    let (reader, is_compressed) = reader_behind(first, file)?;
    Ok(is_compressed.then_some(reader))
}

/// Returns the reader of a file whose first bytes have been read, and whether it decompresses.
fn reader_behind(first: Vec<u8>, file: File) -> io::Result<(Box<dyn Read + Send + Sync>, bool)> {
    let compression = Compression::of(&first);
    let raw = Cursor::new(first).chain(file);
    let reader: Box<dyn Read + Send + Sync> = match compression {
        None => Box::new(raw),
        Some(Compression::Gzip) => Box::new(flate2::read::MultiGzDecoder::new(raw)),
        Some(Compression::Zstd) => Box::new(zstd::stream::read::Decoder::new(raw)?),
        Some(Compression::Xz) => {
            // Its decoder reads single bytes.
            let raw = io::BufReader::with_capacity(CHUNK_BYTES, raw);
            Box::new(lzma_rust2::XzReader::new_mem_limit(raw, true, XZ_MEMORY_KIB_MAX))
        }
        Some(Compression::Bzip2) => Box::new(bzip2::read::MultiBzDecoder::new(raw)),
    };
    Ok((reader, compression.is_some()))
}

/// Returns whether a file is read as it stands, in any order: it is a regular one, not compressed, and no segment.
///
/// # Errors
/// When it cannot be opened or read.
pub fn is_plain_text(path: &Path) -> Result<bool, ReadError> {
    let first = first_of_file(path)?;
    Ok(first.is_some_and(|first| Compression::of(&first).is_none() && first != MAGIC))
}

/// Returns whether a file is read in pages, in any order: it is a regular one, and not compressed.
///
/// # Errors
/// When it cannot be opened or read.
pub fn is_paged(path: &Path) -> Result<bool, ReadError> {
    let first = first_of_file(path)?;
    Ok(first.is_some_and(|first| Compression::of(&first).is_none()))
}

/// First bytes of a regular file; none of anything else.
fn first_of_file(path: &Path) -> Result<Option<Vec<u8>>, ReadError> {
    if path.as_os_str() == "-" {
        return Ok(None);
    }
    let kind = std::fs::metadata(path)
        .map_err(ReadError::open(path))?
        .file_type();
    if kind.is_dir() {
        return Err(ReadError::Directory {
            path: path.to_owned(),
        });
    }
    if !kind.is_file() {
        return Ok(None);
    }
    let mut file = File::open(path).map_err(ReadError::open(path))?;
    first_bytes(&mut file).map(Some).map_err(ReadError::read(path))
}

/// Compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

impl Compression {
    /// Reads the first bytes of a file.
    fn of(first: &[u8]) -> Option<Self> {
        match first {
            first if first.starts_with(&GZIP) => Some(Self::Gzip),
            first if first == ZSTD => Some(Self::Zstd),
            first if first == XZ => Some(Self::Xz),
            [.., b'1'..=b'9'] if first.starts_with(&BZIP2) => Some(Self::Bzip2),
            _ => None,
        }
    }
}

/// Reads the bytes that say how a file is compressed, whatever its name, as standard input has none.
fn first_bytes(file: &mut File) -> io::Result<Vec<u8>> {
    let mut first = Vec::with_capacity(ZSTD.len());
    // A log that is not compressed must not wait for its next byte.
    let may_be = |first: &[u8]| {
        let mut magics = [&GZIP[..], &ZSTD, &XZ, &BZIP2, &MAGIC].into_iter();
        magics.any(|magic| magic.starts_with(first) || (magic == BZIP2 && first == BZIP2))
    };
    while first.len() < ZSTD.len() && !first.starts_with(&GZIP) && may_be(&first) {
        let mut bytes = [0; ZSTD.len()];
        let room = bytes.get_mut(first.len()..).unwrap_or_default();
        match file.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(0) => break,
            Ok(length) => first.extend(room.iter().take(length)),
        }
    }
    Ok(first)
}
