//! The file that is written: its descriptor, how far it is known to be ours and whole, and what has
//! to be mended before the next chunk.

use std::fs::File;
use std::io::{self, Write as _};

use super::error::{Doing, FileError};
use super::home::Home;
use super::log_file::Placement;
use super::storage::{Held, Reader, Stat, Writer};

/// An open file of which this process is the owner.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) file: Held,
    pub(crate) name: String,
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    /// Pipes and devices have no offsets, no rotation and no lock.
    pub(crate) regular: bool,
    /// End of what is written without a gap: the offset of the next chunk.
    pub(crate) end_offset: u64,
    /// Where records begin: behind the header that was put there, else 0.
    pub(crate) start_offset: u64,
    /// Behind the last byte that a sync has brought to the disk, or that was there before us.
    pub(crate) synced_offset: u64,
    /// The period of rotation by time that the file belongs to.
    pub(crate) period: i64,
    /// A truncation that has failed and comes first.
    pub(crate) cut_to: Option<u64>,
    /// The last line has no end: somebody was killed in the middle of it, or wrote it by hand.
    pub(crate) torn: bool,
    /// A sync has failed: the next chunk goes to another file.
    pub(crate) sealed: bool,
}

impl Active {
    /// A regular file that is locked.
    pub(crate) fn regular(file: File, name: &str, stat: &Stat, period: i64) -> Active {
        Active {
            file: Held::new(file),
            name: name.to_owned(),
            dev: stat.dev,
            ino: stat.ino,
            regular: true,
            end_offset: stat.bytes,
            start_offset: 0,
            synced_offset: stat.bytes,
            period,
            cut_to: None,
            torn: false,
            sealed: false,
        }
    }

    /// A pipe or a character device.
    pub(crate) fn stream(file: File, name: &str, stat: &Stat) -> Active {
        let mut active = Active::regular(file, name, stat, 0);
        active.regular = false;
        active.end_offset = 0;
        active.synced_offset = 0;
        active
    }

    /// Where the next chunk goes.
    pub(crate) fn placement(&self) -> Placement {
        Placement {
            dev: self.dev,
            ino: self.ino,
            offset: self.end_offset,
        }
    }

    /// Whether no record is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.end_offset <= self.start_offset
    }

    /// Finds the true end of the file: finishes a truncation that has failed, and follows whoever has
    /// truncated it or appended to it from outside.
    pub(crate) fn find_end(&mut self, home: &Home) -> Result<(), FileError> {
        self.finish_cut(home)?;
        let stat = home.stat_file(&self.file, &self.name)?;
        if stat.bytes != self.end_offset {
            self.end_offset = stat.bytes;
            self.synced_offset = self.synced_offset.min(stat.bytes);
            self.start_offset = self.start_offset.min(stat.bytes);
            self.look_at_last_line(home)?;
        }
        Ok(())
    }

    /// Looks whether the last line has an end.
    pub(crate) fn look_at_last_line(&mut self, home: &Home) -> Result<(), FileError> {
        let mut last = [b'\n'];
        if let Some(last_offset) = self.end_offset.checked_sub(1) {
            home.storage
                .read_at(&self.file, &mut last, last_offset)
                .map_err(|cause| FileError::io(Doing::Read, home.path_of(&self.name), cause))?;
        }
        self.torn = last != *b"\n";
        Ok(())
    }

    /// Recognises a header without records, and takes away one that a kill has cut short.
    pub(crate) fn look_at_header(&mut self, home: &Home) -> Result<(), FileError> {
        let header = home.options.header_bytes();
        let Ok(length) = usize::try_from(self.end_offset) else {
            return Ok(());
        };
        let Some(expected) = header.get(..length).filter(|expected| !expected.is_empty()) else {
            return Ok(());
        };
        let mut found = vec![0; length];
        let mut reader = Reader {
            storage: home.storage.as_ref(),
            file: &self.file,
            offset: 0,
        };
        let filled = reader
            .fill(&mut found)
            .map_err(|cause| FileError::io(Doing::Read, home.path_of(&self.name), cause))?;
        if filled == length && found == expected {
            self.start_offset = self.end_offset;
            if length < header.len() {
                self.start_offset = 0;
                self.torn = false;
                self.cut(home, 0)?;
            }
        }
        Ok(())
    }

    /// Truncates, and remembers to do so later where it fails now.
    pub(crate) fn cut(&mut self, home: &Home, end_offset: u64) -> Result<(), FileError> {
        self.cut_to = Some(end_offset);
        self.end_offset = end_offset;
        self.synced_offset = self.synced_offset.min(end_offset);
        self.finish_cut(home)
    }

    /// Does what `cut` could not.
    pub(crate) fn finish_cut(&mut self, home: &Home) -> Result<(), FileError> {
        let Some(end_offset) = self.cut_to else {
            return Ok(());
        };
        let stat = home.stat_file(&self.file, &self.name)?;
        // Somebody may have truncated it further: to set the size then would add zeros.
        if stat.bytes > end_offset {
            home.storage
                .set_len(&self.file, end_offset)
                .map_err(|cause| FileError::io(Doing::Truncate, home.path_of(&self.name), cause))?;
        }
        self.cut_to = None;
        Ok(())
    }

    /// Gives an end to a line without one, before anything else is done with the file.
    pub(crate) fn mend(&mut self, home: &Home) -> Result<(), FileError> {
        if self.torn {
            self.append(home, b"\n")?;
            self.torn = false;
        }
        Ok(())
    }

    /// Puts the header into an empty file.
    pub(crate) fn begin(&mut self, home: &Home) -> Result<(), FileError> {
        let header = home.options.header_bytes();
        if header.is_empty() || !self.regular || self.end_offset != 0 {
            return Ok(());
        }
        self.append(home, &header)?;
        self.start_offset = self.end_offset;
        Ok(())
    }

    /// Writes all or, as far as the disk allows, nothing.
    fn append(&mut self, home: &Home, text: &[u8]) -> Result<(), FileError> {
        let offset = self.end_offset;
        let written = match self.regular {
            true => {
                let (storage, file) = (home.storage.as_ref(), &*self.file);
                Writer {
                    storage,
                    file,
                    offset,
                }
                .write_all(text)
            }
            false => home.storage.write(&self.file, text).map(|_| ()),
        };
        if let Err(cause) = written {
            if self.regular {
                // If this fails too, it is done before the next try; the first error tells why.
                let _ = self.cut(home, offset);
            }
            return Err(FileError::io(Doing::Write, home.path_of(&self.name), cause));
        }
        self.end_offset += text.len() as u64;
        Ok(())
    }

    /// Writes a part of a chunk that begins at `offset`; returns how much was taken.
    pub(crate) fn write(&self, home: &Home, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let written = match self.regular {
            true => home.storage.write_at(&self.file, bytes, offset)?,
            false => home.storage.write(&self.file, bytes)?,
        };
        if written == 0 {
            Err(io::ErrorKind::WriteZero.into())
        } else {
            Ok(written)
        }
    }
}
