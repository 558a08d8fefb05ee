//! Files that only their owner may use: of spools, and the states of senders.

use crate::TransportError;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Options for opening a file that is made with mode 0600, and that no link leads to.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    options
}

/// Reads a small file as text; `None` where there is none. More than `bytes_max` is left out.
///
/// # Errors
/// Fails when it cannot be read or is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<Option<String>> {
    let file = match private().read(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(bytes_max).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Replaces a file, so that it is whole after any end of this process.
///
/// # Errors
/// Fails when it cannot be written.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    let mut file = private().write(true).create(true).truncate(true).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&fresh, path)
}

/// As [`replace`], for bytes; they are on the disk when it returns, and so is the name.
///
/// # Errors
/// Fails when it cannot be written.
pub fn replace_durably(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    let mut file = private().write(true).create(true).truncate(true).open(&fresh)?;
    for part in parts {
        file.write_all(part)?;
    }
    file.sync_data()?;
    std::fs::rename(&fresh, path)?;
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
    std::fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// Makes a directory that only its owner may use, and those above it.
///
/// # Errors
/// Fails when it cannot be made.
pub fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Makes the error of a file from that of the system.
pub(super) fn at(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TransportError {
    let path = path.to_owned();
    move |cause| TransportError::File { doing, path, cause }
}
