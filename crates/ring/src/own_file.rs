//! A file that stays open while the logger runs, in a program that may close descriptors that are not its own.
#![allow(unsafe_code)]

use crate::RingError;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Identity of a file, under whatever path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// Number of its device.
    pub dev: u64,
    /// Number of its inode.
    pub ino: u64,
}

impl FileId {
    /// Identity of the file that this describes.
    pub fn of(found: &Metadata) -> Self {
        Self {
            dev: found.dev(),
            ino: found.ino(),
        }
    }
}

/// An open file whose descriptor a program may close and use again for a file of its own, as `daemon` and `closefrom`
/// do. Each use checks that the descriptor is still this file; one that is not is neither used nor closed.
///
/// ```
/// use logdrive_ring::OwnFile;
/// # fn main() -> std::io::Result<()> {
/// let path = std::env::temp_dir().join(format!("logdrive-own-{}", std::process::id()));
/// let file = OwnFile::new(std::fs::File::create(&path)?)?;
/// assert_eq!(file.checked()?.metadata()?.len(), 0);
/// # std::fs::remove_file(path)
/// # }
/// ```
#[derive(Debug)]
pub struct OwnFile {
    file: ManuallyDrop<File>,
    id: FileId,
}

impl OwnFile {
    /// Takes an open file. One system call.
    ///
    /// # Errors
    /// When the system does not say which file it is.
    pub fn new(file: File) -> io::Result<Self> {
        let id = FileId::of(&file.metadata()?);
        let file = ManuallyDrop::new(file);
        Ok(Self { file, id })
    }

    /// Identity of the file.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// The file, if the descriptor is still the one. One system call, which waits for no disk.
    ///
    /// # Errors
    /// When the program has closed the descriptor.
    pub fn checked(&self) -> io::Result<&File> {
        match self.file.metadata() {
            Ok(found) if FileId::of(&found) == self.id => Ok(&self.file),
            _ => Err(io::Error::other("the program has closed its descriptor")),
        }
    }

    /// The file under the descriptor, whatever that is by now: for processes that close no descriptors but their own.
    pub fn unchecked(&self) -> &File {
        &self.file
    }

    /// The file, which is opened anew at its path where the program has closed the descriptor.
    ///
    /// # Errors
    /// When the file at the path cannot be opened, or is another one.
    pub fn opened(&self, path: &Path) -> Result<Opened<'_>, RingError> {
        if let Ok(file) = self.checked() {
            return Ok(Opened::Own(file));
        }
        let file = open_existing(path)?;
        let found = file.metadata();
        if found.is_ok_and(|found| FileId::of(&found) == self.id) {
            Ok(Opened::Anew(file))
        } else {
            Err(RingError::io("find", path, io::ErrorKind::NotFound.into()))
        }
    }
}

/// A file of ours that is open for sure.
#[derive(Debug)]
pub enum Opened<'a> {
    /// Under the descriptor that it had.
    Own(&'a File),
    /// Under another one, which is closed with this value.
    Anew(File),
}

impl Deref for Opened<'_> {
    type Target = File;

    fn deref(&self) -> &File {
        match self {
            Self::Own(file) => file,
            Self::Anew(file) => file,
        }
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        // Otherwise the number is the program's, or nobody's.
        if self.checked().is_ok() {
            // SAFETY: the file is not used again: this is the only place that drops it.
            unsafe { ManuallyDrop::drop(&mut self.file) }
        }
    }
}

/// Opens a file of a session for reading and writing: never through a link, and nothing but a file, because a pipe or
/// a device would keep its reader waiting.
pub(crate) fn open_existing(path: &Path) -> Result<File, RingError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|cause| RingError::io("open", path, cause))?;
    let found = file
        .metadata()
        .map_err(|cause| RingError::io("look at", path, cause))?;
    if found.is_file() {
        Ok(file)
    } else {
        Err(RingError::NotAFile {
            path: path.to_owned(),
        })
    }
}
