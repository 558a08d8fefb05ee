//! Recovery of a chunk whose writer was killed: the same bytes to the same place again, wherever the
//! file is by now. Nothing that others have written since is ever overwritten, and lines that stand
//! in the file already are not written twice.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::active::Placement;
use super::directory::LogDirectory;
use super::error::{FileError, FileOperation};
use super::limits::{COMPARE_BLOCK_BYTES, LISTED_MAX, MATCHED_BYTES_MIN};
use super::notices::Notices;
use super::options::FileOptions;
use super::storage::{FileKind, LockedFile, OpenMode, Reader, Storage, Writer, existing};

/// Result of a rewrite: the place of the bytes of a recovered chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// All bytes stood in their place already.
    AlreadyThere {
        /// The file, perhaps a rotated one.
        path: PathBuf,
    },
    /// The rest was written in its place.
    InPlace {
        /// The file, perhaps a rotated one.
        path: PathBuf,
        /// Number of bytes that were missing.
        written_bytes: u64,
    },
    /// They cannot be written in place: the caller is to append them to the log.
    Missing {
        /// Bytes of whole lines that the old place holds and that are therefore not to be appended.
        skip_bytes: usize,
        /// Reason why they cannot be written in place.
        why: NotInPlace,
    },
}

/// Reason why a chunk could not be written in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotInPlace {
    /// The file was removed or compressed. Lines that were written before the kill may stand in the
    /// compressed file too.
    FileGone,
    /// Another process has written behind the place, or the file was truncated.
    Changed,
    /// Another process has the file open as its own.
    InUse,
    /// A pipe or a device has no places. Lines that it took before the kill are written again.
    Stream,
}

/// Writes a chunk again after a kill. May be repeated. Chunks of one file have to be given in the
/// order of their offsets, and before this process opens the log itself.
///
/// ```
/// use logdrive_drain::file::{rewrite, Disk, FileOptions, LogFile, Rewrite};
/// use std::sync::Arc;
///
/// let dir = tempfile::tempdir()?;
/// let options = FileOptions::new(dir.path().join("a.log"));
/// let mut file = LogFile::open(&options, Arc::new(Disk), 0)?;
/// let placement = file.place(6, 0)?;
/// drop(file); // killed here
/// let done = rewrite(&options, Arc::new(Disk), placement, b"hello\n")?;
/// assert!(matches!(done, Rewrite::InPlace { written_bytes: 6, .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rewrite(
    options: &FileOptions,
    storage: Arc<dyn Storage>,
    placement: Placement,
    bytes: &[u8],
) -> Result<Rewrite, FileError> {
    let directory = LogDirectory::open(options, storage.clone(), Notices::default())?;
    let (skip_bytes, why) = match find(&directory, placement)? {
        Found::Stream => (0, NotInPlace::Stream),
        Found::Nowhere => (0, NotInPlace::FileGone),
        Found::File { file, name } => {
            let path = directory.path_of(&name);
            // Without the lock another process may be appending, and nothing is written in place.
            let ours = directory.lock(&file, &path)?;
            let file = LockedFile::new(file);
            let mut offset = placement.offset;
            let mut there = compare(&directory, &file, &path, offset, bytes)?;
            if there.is_truncated {
                offset = there.end_offset - find_start(&directory, &file, &path, there.end_offset, bytes)?;
                there = compare(&directory, &file, &path, offset, bytes)?;
            }
            if there.same_bytes == bytes.len() {
                return Ok(Rewrite::AlreadyThere { path });
            }
            // Bytes behind the place are of a later writer and must not be overwritten.
            if ours && there.ends_there && (there.same_bytes > 0 || offset == placement.offset) {
                let rest = &bytes[there.same_bytes..];
                let offset = offset + there.same_bytes as u64;
                Writer {
                    storage: storage.as_ref(),
                    file: &file,
                    offset,
                }
                .write_all(rest)
                .map_err(|cause| FileError::io(FileOperation::Write, &path, cause))?;
                return Ok(Rewrite::InPlace {
                    path,
                    written_bytes: rest.len() as u64,
                });
            }
            let why = if ours {
                NotInPlace::Changed
            } else {
                NotInPlace::InUse
            };
            (lines_bytes(&bytes[..there.same_bytes]), why)
        }
    };
    Ok(Rewrite::Missing { skip_bytes, why })
}

/// Result of the search for the file of a placement.
enum Found {
    File { file: File, name: String },
    Stream,
    Nowhere,
}

/// Looks for the file under every name that a file of this log may have.
fn find(directory: &LogDirectory, placement: Placement) -> Result<Found, FileError> {
    let names = &directory.names;
    let list = |cause| FileError::io(FileOperation::List, &names.dir, cause);
    let wanted = |name: &std::ffi::OsStr| names.may_hold_placements(name);
    let mut found = directory
        .storage
        .list(&directory.dir, &wanted, LISTED_MAX)
        .map_err(list)?;
    // The configured name first: mostly it is that.
    found.sort_by_key(|name| name.as_bytes() != names.active().as_bytes());
    for name in found.iter().filter_map(|name| name.to_str()) {
        let path = directory.path_of(name);
        let stat = existing(directory.storage.stat(&directory.dir, name.as_ref()));
        let Some(stat) = stat.map_err(|cause| FileError::io(FileOperation::Inspect, &path, cause))? else {
            continue;
        };
        if matches!(stat.kind, FileKind::Fifo | FileKind::CharDevice) && name == names.active() {
            return Ok(Found::Stream);
        }
        if stat.kind != FileKind::Regular || (stat.dev, stat.ino) != (placement.dev, placement.ino) {
            continue;
        }
        let file = existing(directory.storage.open(&directory.dir, name, OpenMode::Existing));
        let Some(file) = file.map_err(|cause| FileError::io(FileOperation::Open, &path, cause))? else {
            continue;
        };
        if directory.stat_file(&file, name)?.same_file(&stat) {
            return Ok(Found::File {
                file,
                name: name.to_owned(),
            });
        }
    }
    Ok(Found::Nowhere)
}

/// Comparison of a chunk with the bytes at its place.
struct There {
    /// So many bytes are those of the chunk.
    same_bytes: usize,
    /// The file ends right behind them.
    ends_there: bool,
    /// It ends before the place: it was truncated since, as `copytruncate` does.
    is_truncated: bool,
    end_offset: u64,
}

/// Compares a file with a chunk.
fn compare(
    directory: &LogDirectory,
    file: &File,
    path: &std::path::Path,
    offset: u64,
    bytes: &[u8],
) -> Result<There, FileError> {
    let read = |cause| FileError::io(FileOperation::Read, path, cause);
    let mut reader = Reader {
        storage: directory.storage.as_ref(),
        file,
        offset,
    };
    let mut block = vec![0; COMPARE_BLOCK_BYTES];
    let mut same_bytes = 0;
    for part in bytes.chunks(COMPARE_BLOCK_BYTES) {
        let filled = reader.fill(&mut block[..part.len()]).map_err(read)?;
        let same = part
            .iter()
            .zip(&block[..filled])
            .take_while(|(a, b)| a == b)
            .count();
        same_bytes += same;
        if same < part.len() {
            break;
        }
    }
    let stat = directory.storage.stat_file(file).map_err(read)?;
    Ok(There {
        same_bytes,
        ends_there: stat.bytes == offset + same_bytes as u64,
        is_truncated: stat.bytes < offset,
        end_offset: stat.bytes,
    })
}

/// Length of the start of a chunk with which a file ends, of which the end has moved; 0 where it does not, or where that
/// may be chance.
fn find_start(
    directory: &LogDirectory,
    file: &File,
    path: &std::path::Path,
    end_offset: u64,
    bytes: &[u8],
) -> Result<u64, FileError> {
    let read = |cause| FileError::io(FileOperation::Read, path, cause);
    let borders = borders(bytes);
    let length = end_offset.min(bytes.len() as u64);
    let mut reader = Reader {
        storage: directory.storage.as_ref(),
        file,
        offset: end_offset - length,
    };
    let (mut block, mut matched) = (vec![0; COMPARE_BLOCK_BYTES], 0);
    while reader.offset < end_offset {
        let filled = reader.fill(&mut block).map_err(read)?;
        if filled == 0 {
            break;
        }
        for byte in &block[..filled] {
            matched = extend(bytes, &borders, matched, *byte);
        }
    }
    Ok(if matched < MATCHED_BYTES_MIN {
        0
    } else {
        matched as u64
    })
}

/// For each start of a chunk, the length of the longest shorter start with which it ends.
fn borders(bytes: &[u8]) -> Vec<usize> {
    let mut borders = vec![0; bytes.len() + 1];
    let mut matched = 0;
    for at in 1..bytes.len() {
        matched = extend(bytes, &borders, matched, bytes[at]);
        borders[at + 1] = matched;
    }
    borders
}

/// Length of the start of a chunk with which a text ends, one byte later.
fn extend(bytes: &[u8], borders: &[usize], mut matched: usize, byte: u8) -> usize {
    while matched > 0 && bytes.get(matched) != Some(&byte) {
        matched = borders[matched];
    }
    matched + usize::from(bytes.get(matched) == Some(&byte))
}

/// Length of the whole lines at the start of `bytes`.
pub(crate) fn lines_bytes(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |last| last + 1)
}
