//! Compresses one rotated file so that a crash at any moment leaves its bytes once and whole: they
//! go to a temporary name, are synced, get their final name, and only then the original is removed.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::limits::COPY_BLOCK_BYTES;
use super::names::Form;
use super::options::Compress;
use super::storage::{
    FileKind, LockedFile, OpenMode, Reader, RenameMode, Stat, Storage, Writer, existing, is_named,
};
use super::unsynced::UnsyncedFiles;

/// Result of an attempt to compress a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Only the compressed file is left.
    Done,
    /// Another process holds the file, or has dealt with it.
    InUse,
    /// The owner closes: the next open takes it up again.
    Stopped,
    /// There is nothing to do.
    AsItIs,
    /// It cannot be read to its end, and is as it was.
    Damaged,
}

/// Compresses the file `name`. After an error or a stop the original is as it was.
pub(crate) fn compress(
    storage: &dyn Storage,
    dir: &File,
    name: &str,
    how: Compress,
    stop: &AtomicBool,
    unsynced: &UnsyncedFiles,
) -> io::Result<Outcome> {
    let ending = match how {
        Compress::None => return Ok(Outcome::InUse),
        Compress::Gzip => ".gz",
        Compress::Zstd => ".zst",
    };
    let Some((source, stat)) = lock_file(storage, dir, name, OpenMode::ReadOnly)? else {
        return Ok(Outcome::InUse);
    };
    let target = format!("{name}{ending}");
    if existing(storage.stat(dir, Path::new(&target)))?.is_some() {
        // Another process is about to remove the plain one, or was killed before; then the next pass decides.
        return Ok(Outcome::InUse);
    }
    let temporary = format!("{target}.tmp");
    let Some(copy) = create_temporary(storage, dir, &temporary, stat.mode)? else {
        return Ok(Outcome::InUse);
    };
    let finished = encode(storage, &source, &copy, how, stop).and_then(|complete| {
        if complete {
            if unsynced.is_asked() {
                // Bytes that the disk did not take may have been read back wrong.
                storage
                    .sync(&source)
                    .inspect_err(|cause| unsynced.fail(&stat, copy_of(cause)))?;
            }
            storage.sync(&copy)?;
            keep_time(&source, &copy);
            storage.rename(dir, &temporary, &target, RenameMode::NoReplace)?;
        }
        Ok(complete)
    });
    match finished {
        Ok(true) => {}
        Ok(false) => {
            storage.remove(dir, &temporary)?;
            return Ok(Outcome::Stopped);
        }
        Err(cause) => {
            // The first error has the cause; the next open removes the left-over.
            let _ = storage.remove(dir, &temporary);
            return Err(cause);
        }
    }
    storage.sync_dir(dir)?;
    unsynced.settle(&stat);
    storage.remove(dir, name)?;
    Ok(Outcome::Done)
}

/// Copy of an error, which cannot be cloned.
pub(crate) fn copy_of(cause: &io::Error) -> io::Error {
    cause
        .raw_os_error()
        .map_or_else(|| cause.kind().into(), io::Error::from_raw_os_error)
}

/// Of a plain file and its compressed twin removes one: the plain one where the other holds the same bytes, else the
/// other. Returns the name that is gone; `None` where another process holds the plain one, or this build cannot
/// decompress the twin.
pub(crate) fn drop_twin(
    storage: &dyn Storage,
    dir: &File,
    plain: &str,
    (twin, form): (&str, Form),
    unsynced: &UnsyncedFiles,
) -> io::Result<Option<String>> {
    let Some((source, stat)) = lock_file(storage, dir, plain, OpenMode::ReadOnly)? else {
        return Ok(None);
    };
    let Some(copy) = existing(storage.open(dir, twin, OpenMode::ReadOnly))? else {
        return Ok(None);
    };
    let Some(is_same) = holds_same(storage, &source, &copy, form)? else {
        return Ok(None);
    };
    let gone = if is_same { plain } else { twin };
    if is_same {
        storage.sync_dir(dir)?;
        unsynced.settle(&stat);
    }
    storage.remove(dir, gone)?;
    Ok(Some(gone.to_owned()))
}

/// Returns whether a plain file and a compressed one hold the same bytes; `None` where this build cannot decompress it.
fn holds_same(storage: &dyn Storage, plain: &File, copy: &File, form: Form) -> io::Result<Option<bool>> {
    let reader = |file| {
        io::BufReader::new(Reader {
            storage,
            file,
            offset: 0,
        })
    };
    let (plain, copy) = (reader(plain), reader(copy));
    match form {
        #[cfg(feature = "gzip")]
        Form::Gzip => is_same(plain, flate2::bufread::MultiGzDecoder::new(copy)).map(Some),
        #[cfg(feature = "zstd")]
        Form::Zstd => is_same(plain, zstd::stream::read::Decoder::with_buffer(copy)?).map(Some),
        _ => {
            let _ = (plain, copy); // used by the arms that a feature adds
            Ok(None)
        }
    }
}

/// Returns whether both hold the same bytes; an end that is missing or damaged makes them different.
#[cfg_attr(
    not(any(feature = "gzip", feature = "zstd", feature = "segments")),
    allow(dead_code)
)]
pub(crate) fn is_same(mut plain: impl io::Read, mut decoded: impl io::Read) -> io::Result<bool> {
    let (mut one, mut other) = (vec![0; COPY_BLOCK_BYTES], vec![0; COPY_BLOCK_BYTES]);
    loop {
        let length = fill(&mut plain, &mut one)?;
        let found = match fill(&mut decoded, &mut other) {
            // The disk failed, and not what is on it.
            Err(cause) if cause.raw_os_error().is_some() => return Err(cause),
            Err(_) => return Ok(false),
            Ok(found) => found,
        };
        if one[..length] != other[..found] {
            return Ok(false);
        }
        if length == 0 {
            return Ok(true);
        }
    }
}

/// Fills a block as far as there are bytes.
fn fill(reader: &mut impl io::Read, block: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        match reader.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(filled)
}

/// Opens and locks a regular file, and looks at it under the lock; nothing when it is gone or another process holds it.
pub(crate) fn lock_file(
    storage: &dyn Storage,
    dir: &File,
    name: &str,
    how: OpenMode,
) -> io::Result<Option<(LockedFile, Stat)>> {
    let Some(file) = existing(storage.open(dir, name, how))? else {
        return Ok(None);
    };
    let stat = storage.stat_file(&file)?;
    if stat.kind != FileKind::Regular || !storage.lock(&file)? {
        return Ok(None);
    }
    let file = LockedFile::new(file);
    // Between open and lock another process may have finished with the file and removed it.
    let named = existing(storage.stat(dir, Path::new(name)))?;
    let named = named.filter(|named| named.same_file(&stat));
    Ok(named.map(|named| (file, named)))
}

/// A new temporary file that is locked, in place of one that a crash has left.
pub(crate) fn create_temporary(
    storage: &dyn Storage,
    dir: &File,
    name: &str,
    mode: u32,
) -> io::Result<Option<File>> {
    let create = || storage.open(dir, name, OpenMode::New(mode & 0o777 | 0o600));
    let file = match create() {
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {
            if lock_file(storage, dir, name, OpenMode::ReadOnly)?.is_none() {
                return Ok(None);
            }
            storage.remove(dir, name)?;
            create()?
        }
        other => other?,
    };
    // Before the lock, another process may take it for what a crash has left, and remove it.
    let is_ours = storage.lock(&file)? && is_named(storage, dir, name, &file)?;
    Ok(is_ours.then_some(file))
}

/// The compressed file shows when its last record was written, not when it was compressed.
pub(crate) fn keep_time(source: &File, copy: &File) {
    if let Ok(modified) = source.metadata().and_then(|metadata| metadata.modified()) {
        // Nothing depends on it: the age of a file is in its name.
        let _ = copy.set_modified(modified);
    }
}

/// Writes the compressed bytes; `false` when it was stopped before the end.
fn encode(
    storage: &dyn Storage,
    source: &File,
    copy: &File,
    how: Compress,
    stop: &AtomicBool,
) -> io::Result<bool> {
    let reader = Reader {
        storage,
        file: source,
        offset: 0,
    };
    let writer = Writer {
        storage,
        file: copy,
        offset: 0,
    };
    match how {
        #[cfg(feature = "gzip")]
        Compress::Gzip => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::GzEncoder::new(writer, level);
            let complete = copy_all(reader, &mut encoder, stop)?;
            encoder.finish()?;
            Ok(complete)
        }
        #[cfg(feature = "zstd")]
        Compress::Zstd => {
            let mut encoder = zstd::stream::write::Encoder::new(writer, 3)?;
            encoder.include_checksum(true)?;
            let complete = copy_all(reader, &mut encoder, stop)?;
            encoder.finish()?;
            Ok(complete)
        }
        // Options that name what this build lacks were refused at open.
        #[allow(unreachable_patterns)]
        _ => {
            let _ = (reader, writer, stop); // used by the arms that a feature adds
            Ok(false)
        }
    }
}

/// Copies to the end of the source, or until the flag to stop is set.
#[cfg_attr(not(any(feature = "gzip", feature = "zstd")), allow(dead_code))]
fn copy_all(mut reader: Reader<'_>, encoder: &mut dyn io::Write, stop: &AtomicBool) -> io::Result<bool> {
    let mut block = vec![0; COPY_BLOCK_BYTES];
    // Relaxed: the flag carries no data, and one block more or less does not matter.
    while !stop.load(Ordering::Relaxed) {
        match reader.read(&mut block) {
            Ok(0) => return Ok(true),
            Ok(read) => encoder.write_all(&block[..read])?,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(false)
}
