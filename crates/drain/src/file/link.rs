//! The symbolic link to the file that is written: set by making a new link beside it and renaming
//! that over the old one, so that at no moment there is none.

use std::path::{Path, PathBuf};

use super::error::{FileError, FileOperation};
use super::names::Names;
use super::open_dir::open_dir;
use super::options::FileOptions;
use super::storage::{FileKind, RenameMode, Storage, existing};

/// Makes `link` point to `file`; both are absolute. Does nothing where it does so already.
pub(crate) fn point_link(
    storage: &dyn Storage,
    options: &FileOptions,
    link: &Path,
    file: &Path,
) -> Result<(), FileError> {
    let names = Names::new(link)?;
    let name = names.active();
    let failed = |cause| FileError::io(FileOperation::Link, link, cause);
    if link == file || link == options.path {
        let why = "it is the log itself: give the link another name";
        return Err(FileError::Name {
            path: link.to_path_buf(),
            why,
        });
    }
    let (dir, _) = open_dir(storage, &names.dir, options)?;
    // Relative within one directory, so that the link stays right when the directory is moved.
    let target = match file.parent() == Some(names.dir.as_path()) {
        true => file.file_name().map(PathBuf::from).unwrap_or_default(),
        false => file.to_path_buf(),
    };
    if let Some(stat) = existing(storage.stat(&dir, Path::new(&name))).map_err(failed)? {
        if stat.kind != FileKind::Link {
            let why = "a file that is no link stands where the link should: move it away";
            return Err(FileError::Name {
                path: link.to_path_buf(),
                why,
            });
        }
        if storage.read_link(&dir, &name).map_err(failed)? == target {
            return Ok(());
        }
    }
    let temporary = format!("{name}.{}.tmp", std::process::id());
    existing(storage.remove(&dir, &temporary)).map_err(failed)?;
    storage.symlink(&dir, &target, &temporary).map_err(failed)?;
    storage
        .rename(&dir, &temporary, &name, RenameMode::Replace)
        .map_err(failed)
}
