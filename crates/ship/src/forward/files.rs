//! Files of a spool: only their owner may use them, and errors name them.

use crate::TransportError;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Options of files that only their owner may use, and that no link leads to.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    options
}

/// Makes a directory that only its owner may use, and those above it.
pub(super) fn make_directory(path: &Path) -> Result<(), TransportError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(at("make", path))
}

/// Makes the error of a file from that of the system.
pub(super) fn at(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TransportError {
    let path = path.to_owned();
    move |cause| TransportError::File { doing, path, cause }
}
