//! The file that is written: its descriptor, how far it is known to be ours and whole, and what has
//! to be mended before the next chunk.

use std::fs::File;
use std::io::{self, Write as _};

use rustix::io::Errno;

use super::directory::LogDirectory;
use super::error::{FileError, FileOperation, UnsyncedRange};
use super::storage::{LockedFile, Reader, Stat, Writer};
use super::unsynced::UnsyncedFiles;

/// Location of a chunk: a file, which keeps its identity when it is renamed, and an offset in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Placement {
    /// Number of the device that holds the file.
    pub dev: u64,
    /// Number of the file's inode on that device.
    pub ino: u64,
    /// First byte of the chunk; for a pipe or a device the count of bytes before it.
    pub offset: u64,
}

/// An open file of which this process is the owner.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) file: LockedFile,
    pub(crate) name: String,
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    /// Pipes and devices have no offsets, no rotation and no lock.
    pub(crate) regular: bool,
    /// End of what is written without a gap: the offset of the next chunk.
    pub(crate) end_offset: u64,
    /// Offset at which records begin: behind the header that was put there, else 0.
    pub(crate) start_offset: u64,
    /// Behind the last byte that a sync has brought to the disk. What was there before us may not be on disk either.
    pub(crate) synced_offset: u64,
    /// The period of rotation by time that the file belongs to.
    pub(crate) period: i64,
    /// A truncation that has failed and comes first.
    pub(crate) truncate_to: Option<u64>,
    /// The last line has no end: its writer was killed in the middle of it, or it was edited by hand.
    pub(crate) torn: bool,
    /// A sync has failed: the next chunk goes to another file.
    pub(crate) sealed: bool,
}

impl Active {
    /// A regular file that is locked.
    pub(crate) fn regular(file: File, name: &str, stat: &Stat, period: i64) -> Active {
        Active {
            file: LockedFile::new(file),
            name: name.to_owned(),
            dev: stat.dev,
            ino: stat.ino,
            regular: true,
            end_offset: stat.bytes,
            start_offset: 0,
            synced_offset: 0,
            period,
            truncate_to: None,
            torn: false,
            sealed: false,
        }
    }

    /// A pipe or a character device.
    pub(crate) fn stream(file: File, name: &str, stat: &Stat) -> Active {
        let mut active = Active::regular(file, name, stat, 0);
        active.regular = false;
        active.end_offset = 0;
        active
    }

    /// Goes on in the file that has been opened for it anew, behind what is known of it: it is the same one.
    pub(crate) fn continue_in(&mut self, fresh: Active) {
        let Active { file, name, .. } = fresh;
        (self.file, self.name) = (file, name);
    }

    /// Returns the location of the next chunk.
    pub(crate) fn placement(&self) -> Placement {
        Placement {
            dev: self.dev,
            ino: self.ino,
            offset: self.end_offset,
        }
    }

    /// Returns true if no record is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.end_offset <= self.start_offset
    }

    /// Finds the true end of the file: finishes a truncation that has failed, and follows a program that has
    /// truncated it or appended to it from outside. Returns whether the file has a name.
    pub(crate) fn find_end(&mut self, directory: &LogDirectory) -> Result<bool, FileError> {
        self.finish_truncation(directory)?;
        let stat = directory.stat_file(&self.file, &self.name)?;
        if stat.bytes != self.end_offset {
            self.end_offset = stat.bytes;
            self.synced_offset = self.synced_offset.min(stat.bytes);
            self.start_offset = self.start_offset.min(stat.bytes);
            self.check_last_line(directory)?;
        }
        Ok(stat.links > 0)
    }

    /// Returns what is written and not synced, in a file that has this name by now.
    pub(crate) fn unsynced_range(&self, directory: &LogDirectory, name: &str) -> Option<UnsyncedRange> {
        (self.regular && self.end_offset > self.synced_offset).then(|| UnsyncedRange {
            path: directory.path_of(name),
            dev: self.dev,
            ino: self.ino,
            from_offset: self.synced_offset,
            to_offset: self.end_offset,
        })
    }

    /// Syncs once. A failure seals the file, and its bytes may not be on disk; what is still written to a sealed file
    /// counts as not on disk from the start.
    pub(crate) fn sync(&mut self, directory: &LogDirectory, unsynced: &UnsyncedFiles) {
        let Some(range) = self.unsynced_range(directory, &self.name) else {
            return;
        };
        let synced = match self.sealed {
            true => Err(Errno::IO.into()),
            false => directory.storage.sync(&self.file),
        };
        self.synced_offset = self.end_offset;
        if let Err(cause) = synced {
            self.sealed = true;
            let error = FileError::io(FileOperation::Sync, &range.path, cause);
            unsynced.doubt(range, error);
        }
    }

    /// Leaves the file, which has this name by now: what it has unsynced is a matter of the account.
    pub(crate) fn leave(mut self, directory: &LogDirectory, name: &str, unsynced: &UnsyncedFiles) {
        if self.sealed {
            name.clone_into(&mut self.name);
            return self.sync(directory, unsynced);
        }
        if let Some(range) = self.unsynced_range(directory, name) {
            unsynced.leave(directory.storage.as_ref(), &directory.dir, range, self.file);
        }
    }

    /// Notes what is not synced as lost: the file has no name any more.
    pub(crate) fn doubt(&mut self, directory: &LogDirectory, unsynced: &UnsyncedFiles) {
        if let Some(range) = self.unsynced_range(directory, &self.name) {
            let error = FileError::io(FileOperation::Sync, &range.path, Errno::NOENT.into());
            unsynced.doubt(range, error);
        }
        self.synced_offset = self.end_offset;
    }

    /// Looks whether the last line has an end.
    pub(crate) fn check_last_line(&mut self, directory: &LogDirectory) -> Result<(), FileError> {
        let mut last = [b'\n'];
        if let Some(last_offset) = self.end_offset.checked_sub(1) {
            directory
                .storage
                .read_at(&self.file, &mut last, last_offset)
                .map_err(|cause| FileError::io(FileOperation::Read, directory.path_of(&self.name), cause))?;
        }
        self.torn = last != *b"\n";
        Ok(())
    }

    /// Recognises a header without records, and takes away one that a kill has cut short.
    pub(crate) fn check_header(&mut self, directory: &LogDirectory) -> Result<(), FileError> {
        let header = directory.options.header_bytes();
        let Ok(length) = usize::try_from(self.end_offset) else {
            return Ok(());
        };
        let Some(expected) = header.get(..length).filter(|expected| !expected.is_empty()) else {
            return Ok(());
        };
        let mut found = vec![0; length];
        let mut reader = Reader {
            storage: directory.storage.as_ref(),
            file: &self.file,
            offset: 0,
        };
        let filled = reader
            .fill(&mut found)
            .map_err(|cause| FileError::io(FileOperation::Read, directory.path_of(&self.name), cause))?;
        if filled == length && found == expected {
            self.start_offset = self.end_offset;
            if length < header.len() {
                self.start_offset = 0;
                self.torn = false;
                self.truncate(directory, 0)?;
            }
        }
        Ok(())
    }

    /// Truncates, and remembers to do so later where it fails now.
    pub(crate) fn truncate(&mut self, directory: &LogDirectory, end_offset: u64) -> Result<(), FileError> {
        self.truncate_to = Some(end_offset);
        self.end_offset = end_offset;
        self.synced_offset = self.synced_offset.min(end_offset);
        self.finish_truncation(directory)
    }

    /// Finishes a truncation that has failed before.
    pub(crate) fn finish_truncation(&mut self, directory: &LogDirectory) -> Result<(), FileError> {
        let Some(end_offset) = self.truncate_to else {
            return Ok(());
        };
        let stat = directory.stat_file(&self.file, &self.name)?;
        if (stat.dev, stat.ino) != (self.dev, self.ino) {
            let path = directory.path_of(&self.name);
            return Err(FileError::io(FileOperation::Truncate, path, Errno::BADF.into()));
        }
        // Another program may have truncated it further: to set the size then would add zeros.
        if stat.bytes > end_offset {
            directory
                .storage
                .set_len(&self.file, end_offset)
                .map_err(|cause| {
                    FileError::io(FileOperation::Truncate, directory.path_of(&self.name), cause)
                })?;
        }
        self.truncate_to = None;
        Ok(())
    }

    /// Gives an end to a line without one, before anything else is done with the file.
    pub(crate) fn end_torn_line(&mut self, directory: &LogDirectory) -> Result<(), FileError> {
        if self.torn {
            self.append(directory, b"\n")?;
            self.torn = false;
        }
        Ok(())
    }

    /// Puts the header into an empty file.
    pub(crate) fn write_header(&mut self, directory: &LogDirectory) -> Result<(), FileError> {
        let header = directory.options.header_bytes();
        if header.is_empty() || !self.regular || self.end_offset != 0 {
            return Ok(());
        }
        self.append(directory, &header)?;
        self.start_offset = self.end_offset;
        Ok(())
    }

    /// Writes all or, as far as the disk allows, nothing.
    fn append(&mut self, directory: &LogDirectory, text: &[u8]) -> Result<(), FileError> {
        let offset = self.end_offset;
        let written = match self.regular {
            true => {
                let (storage, file) = (directory.storage.as_ref(), &*self.file);
                Writer {
                    storage,
                    file,
                    offset,
                }
                .write_all(text)
            }
            false => directory.storage.write(&self.file, text).map(|_| ()),
        };
        if let Err(cause) = written {
            if self.regular {
                // If this fails too, it is done before the next try; the first error has the cause.
                let _ = self.truncate(directory, offset);
            }
            return Err(FileError::io(
                FileOperation::Write,
                directory.path_of(&self.name),
                cause,
            ));
        }
        self.end_offset += text.len() as u64;
        Ok(())
    }

    /// Writes a part of a chunk that begins at `offset`; returns how much was taken.
    pub(crate) fn write(&self, directory: &LogDirectory, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let written = match self.regular {
            true => directory.storage.write_at(&self.file, bytes, offset)?,
            false => directory.storage.write(&self.file, bytes)?,
        };
        if written == 0 {
            Err(io::ErrorKind::WriteZero.into())
        } else {
            Ok(written)
        }
    }
}
