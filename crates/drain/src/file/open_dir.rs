//! Directories of logs: opened, made where they are missing, and refused where others may play tricks with them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{FileError, FileOperation};
use super::limits::OPEN_RACES_MAX;
use super::options::FileOptions;
use super::storage::Storage;

/// Opens a directory for logs, makes it where it is missing and refuses it where others may play
/// tricks with it. Returns the directories, too, in which others were made.
pub(crate) fn open_dir(
    storage: &dyn Storage,
    path: &Path,
    options: &FileOptions,
) -> Result<(File, Vec<PathBuf>), FileError> {
    let trusted = options.trust_directory;
    let mut made_in = Vec::new();
    let mut dir = storage.open_dir(path, trusted);
    if dir
        .as_ref()
        .is_err_and(|cause| cause.kind() == io::ErrorKind::NotFound)
    {
        make_dirs(storage, path, options.dir_mode, &mut made_in)?;
        dir = storage.open_dir(path, trusted);
    }
    let dir = dir.map_err(|cause| {
        // The system says "no directory" for a link that it may not follow. This look is for the
        // message alone.
        let link = path
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_symlink());
        match link && !trusted {
            true => FileError::DirectoryIsLink {
                path: path.to_path_buf(),
            },
            false => FileError::io(FileOperation::OpenDirectory, path, cause),
        }
    })?;
    let stat = storage
        .stat_file(&dir)
        .map_err(|cause| FileError::io(FileOperation::Inspect, path, cause))?;
    let (user, path) = (logdrive_ring::user_id(), path.to_path_buf());
    if trusted {
        return Ok((dir, made_in));
    }
    if stat.mode & 0o1002 == 0o002 {
        return Err(FileError::DirectoryOpenToAll {
            path,
            mode: stat.mode,
        });
    }
    if stat.uid != user && stat.uid != 0 {
        return Err(FileError::DirectoryOfOther {
            path,
            owner: stat.uid,
            user,
        });
    }
    Ok((dir, made_in))
}

/// Makes a directory and those above it that are missing.
fn make_dirs(
    storage: &dyn Storage,
    path: &Path,
    mode: u32,
    made_in: &mut Vec<PathBuf>,
) -> Result<(), FileError> {
    let mut missing = vec![path];
    let mut tries_left = OPEN_RACES_MAX as usize + 2 * path.components().count();
    while let Some(&deepest) = missing.last() {
        let made = storage.create_dir(deepest, mode);
        if made.is_ok() {
            made_in.extend(deepest.parent().map(Path::to_path_buf));
        }
        tries_left = tries_left.saturating_sub(1);
        match made.map_err(|cause| (cause.kind(), cause)) {
            Ok(()) | Err((io::ErrorKind::AlreadyExists, _)) => {
                missing.pop();
            }
            // Another program that removes these directories must not cause an endless loop.
            Err((io::ErrorKind::NotFound, cause)) => match deepest.parent() {
                Some(parent) if tries_left > 0 => missing.push(parent),
                _ => return Err(FileError::io(FileOperation::CreateDirectory, deepest, cause)),
            },
            Err((_, cause)) => return Err(FileError::io(FileOperation::CreateDirectory, deepest, cause)),
        }
    }
    Ok(())
}
