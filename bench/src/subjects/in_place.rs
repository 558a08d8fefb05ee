//! A storage for Logdrive that writes over a file in place.
//!
//! Logdrive appends to a log file; [`crate::warm`] says why a benchmark has to
//! write over one. This storage passes everything on to the real disk and
//! hides only how long that one file is: it says how far it has been written
//! in this process, and does not cut the file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use logdrive_drain::file::{Disk, OpenMode, RenameMode, Stat, Storage};

/// The real disk, with one file that seems to be empty at first.
#[derive(Debug)]
pub struct InPlace {
    file: Stat,
    end_offset: AtomicU64,
}

impl InPlace {
    /// Hides the length of the file that is open as `file`.
    pub fn new(file: &File) -> io::Result<InPlace> {
        Ok(InPlace {
            file: Disk.stat_file(file)?,
            end_offset: AtomicU64::new(0),
        })
    }

    fn shown(&self, mut stat: Stat) -> Stat {
        if stat.same_file(&self.file) {
            // Relaxed: one thread writes the file and asks for its length.
            stat.bytes = self.end_offset.load(Ordering::Relaxed);
        }
        stat
    }
}

impl Storage for InPlace {
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let written = Disk.write_at(file, bytes, offset)?;
        // Relaxed: one thread writes the file and asks for its length.
        self.end_offset
            .fetch_max(offset + written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn stat(&self, dir: &File, name: &Path) -> io::Result<Stat> {
        Disk.stat(dir, name).map(|stat| self.shown(stat))
    }

    fn stat_file(&self, file: &File) -> io::Result<Stat> {
        Disk.stat_file(file).map(|stat| self.shown(stat))
    }

    fn set_len(&self, file: &File, bytes: u64) -> io::Result<()> {
        if !Disk.stat_file(file)?.same_file(&self.file) {
            return Disk.set_len(file, bytes);
        }
        // Relaxed: one thread writes the file and asks for its length.
        self.end_offset.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn open_dir(&self, path: &Path, follow: bool) -> io::Result<File> {
        Disk.open_dir(path, follow)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        Disk.create_dir(path, mode)
    }

    fn list(&self, dir: &File, wanted: &dyn Fn(&OsStr) -> bool, max: usize) -> io::Result<Vec<OsString>> {
        Disk.list(dir, wanted, max)
    }

    fn open(&self, dir: &File, name: &str, how: OpenMode) -> io::Result<File> {
        // Written over, and not appended to.
        let how = match how {
            OpenMode::Append => OpenMode::Existing,
            how => how,
        };
        Disk.open(dir, name, how)
    }

    fn rename(&self, dir: &File, from: &str, to: &str, taken: RenameMode) -> io::Result<()> {
        Disk.rename(dir, from, to, taken)
    }

    fn remove(&self, dir: &File, name: &str) -> io::Result<()> {
        Disk.remove(dir, name)
    }

    fn symlink(&self, dir: &File, target: &Path, name: &str) -> io::Result<()> {
        Disk.symlink(dir, target, name)
    }

    fn read_link(&self, dir: &File, name: &str) -> io::Result<PathBuf> {
        Disk.read_link(dir, name)
    }

    fn sync_dir(&self, dir: &File) -> io::Result<()> {
        Disk.sync_dir(dir)
    }

    fn lock(&self, file: &File) -> io::Result<bool> {
        Disk.lock(file)
    }

    fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        Disk.read_at(file, bytes, offset)
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        Disk.write(file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        Disk.sync(file)
    }
}
