//! Input of the reader: files and standard input, compressed or not. The files of one log come one after the other.

use crate::error::ReadError;
use crate::log_files::LogFile;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The first bytes of gzip and of zstd.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Bytes that were looked at, then the rest of the file.
type Raw = Chain<Cursor<Vec<u8>>, File>;

enum Reader {
    Plain(Raw),
    Gzip(Box<flate2::read::MultiGzDecoder<Raw>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, io::BufReader<Raw>>>),
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "plain",
            Self::Gzip(_) => "gzip",
            Self::Zstd(_) => "zstd",
        })
    }
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(raw) => raw.read(bytes),
            Self::Gzip(decoder) => decoder.read(bytes),
            Self::Zstd(decoder) => decoder.read(bytes),
        }
    }
}

/// One log: a file, or its rotated files and itself.
#[derive(Debug)]
pub struct Input {
    waiting: VecDeque<LogFile>,
    /// The file that is open now.
    current: Option<(Reader, PathBuf)>,
    /// Something to wait on, when what is open is no regular file.
    stream: Option<OwnedFd>,
}

impl Input {
    /// The parts of a log, the oldest first. They are opened when their turn comes.
    pub fn new(parts: Vec<LogFile>) -> Self {
        Self {
            waiting: parts.into(),
            current: None,
            stream: None,
        }
    }

    /// Opens the next part that may hold records from `since_ns` on. `false` when there is none.
    pub(crate) fn open_next(&mut self, since_ns: Option<u64>) -> Result<bool, ReadError> {
        self.current = None;
        self.stream = None;
        while let Some(part) = self.waiting.pop_front() {
            if part.is_before(since_ns) {
                continue;
            }
            let file = open(&part.path)?;
            let cannot_read = |cause| ReadError::Read {
                path: part.path.clone(),
                cause,
            };
            let kind = file.metadata().map_err(cannot_read)?.file_type();
            if kind.is_dir() {
                return Err(ReadError::Directory { path: part.path });
            }
            if !kind.is_file() {
                self.stream = Some(file.as_fd().try_clone_to_owned().map_err(cannot_read)?);
            }
            let reader = decoder(file).map_err(cannot_read)?;
            self.current = Some((reader, part.path));
            return Ok(true);
        }
        Ok(false)
    }

    /// Closes what is open.
    pub(crate) fn close(&mut self) {
        self.current = None;
        self.stream = None;
    }

    /// Whether a file is open.
    pub(crate) fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// Reads bytes of the open file; 0 at its end.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ReadError> {
        let Some((reader, path)) = &mut self.current else {
            return Ok(0);
        };
        loop {
            match reader.read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) if !matches!(reader, Reader::Plain(_)) => {
                    return Err(ReadError::Decompress {
                        path: path.clone(),
                        cause,
                    });
                }
                Err(cause) => {
                    return Err(ReadError::Read {
                        path: path.clone(),
                        cause,
                    });
                }
                Ok(length) => return Ok(length),
            }
        }
    }

    /// Whether reading would wait for somebody to write. Bytes inside a decoder are not seen: then it may say so too
    /// early, and output is flushed once too often.
    pub(crate) fn would_wait(&self) -> bool {
        let Some(stream) = &self.stream else { return false };
        let mut polled = [PollFd::new(stream, PollFlags::IN)];
        // Where waiting cannot be asked about, it is not waited for.
        matches!(
            poll(
                &mut polled,
                Some(&Timespec {
                    tv_sec: 0,
                    tv_nsec: 0
                })
            ),
            Ok(0)
        )
    }
}

fn open(path: &Path) -> Result<File, ReadError> {
    if path == Path::new("-") {
        let stdin = io::stdin().as_fd().try_clone_to_owned();
        return Ok(File::from(stdin.map_err(|cause| ReadError::Read {
            path: path.to_owned(),
            cause,
        })?));
    }
    File::open(path).map_err(|cause| ReadError::Open {
        path: path.to_owned(),
        cause,
    })
}

/// Looks at the first bytes, whatever the file's name, as standard input has none.
fn decoder(mut file: File) -> io::Result<Reader> {
    let mut first = Vec::with_capacity(ZSTD.len());
    while first.len() < ZSTD.len() {
        let mut byte = [0; ZSTD.len()];
        let room = byte.get_mut(..ZSTD.len() - first.len()).unwrap_or_default();
        match file.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(0) => break,
            Ok(length) => first.extend(room.iter().take(length)),
        }
        // A log that is not compressed must not wait for its next byte.
        if !ZSTD.starts_with(&first) && !GZIP.starts_with(first.get(..GZIP.len()).unwrap_or(&first)) {
            break;
        }
        if first.starts_with(&GZIP) {
            break;
        }
    }
    let is_gzip = first.starts_with(&GZIP);
    let is_zstd = first == ZSTD;
    let raw = Cursor::new(first).chain(file);
    Ok(match (is_gzip, is_zstd) {
        (true, _) => Reader::Gzip(Box::new(flate2::read::MultiGzDecoder::new(raw))),
        (_, true) => Reader::Zstd(Box::new(zstd::stream::read::Decoder::new(raw)?)),
        _ => Reader::Plain(raw),
    })
}
