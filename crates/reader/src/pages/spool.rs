//! A spool: what can be read only once and in order, as lines in a file without a name that is read in pages.

use super::paged_log::PagedLog;
use crate::error::ReadError;
use crate::filter::Filter;
use crate::input::Input;
use crate::limits::CHUNK_BYTES;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// State of a spool, which its thread and the screen share.
#[derive(Debug, Default)]
struct Shared {
    is_done: AtomicBool,
    /// Set if nobody needs the rest.
    is_over: AtomicBool,
    failures: Mutex<Vec<String>>,
}

/// A log that is being copied. Dropping it ends the copying; a thread that waits for a pipe ends with the process.
#[derive(Debug)]
pub struct Spool {
    shared: Arc<Shared>,
    log: Arc<PagedLog>,
}

impl Spool {
    /// Copies what an input gives, in a thread of its own: standard input, a compressed file, a segment.
    ///
    /// # Errors
    /// When no file or thread can be made.
    pub fn of_input(name: String, mut input: Input, share: usize) -> Result<Self, ReadError> {
        let (mut file, spool) = Self::new(name, share)?;
        let shared = Arc::clone(&spool.shared);
        let copy = move || {
            let mut chunk = vec![0; CHUNK_BYTES];
            loop {
                let copied = copy_next(&mut input, &mut chunk, &mut file, &shared);
                for damage in input.take_damages() {
                    shared.fail(&damage.to_string());
                }
                match copied {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => shared.fail(&error),
                }
                // Relaxed: the thread ends a chunk sooner or later.
                if shared.is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
            shared.is_done.store(true, Ordering::Relaxed);
        };
        std::thread::Builder::new()
            .name("logdrive-spool".to_owned())
            .spawn(copy)
            .map_err(ReadError::open(&spool_dir()))?;
        Ok(spool)
    }

    /// Returns a file to which the caller writes lines, and the log that they become.
    ///
    /// # Errors
    /// When no file can be made.
    pub fn of_writer(name: String, share: usize) -> Result<(File, Self), ReadError> {
        Self::new(name, share)
    }

    fn new(name: String, share: usize) -> Result<(File, Self), ReadError> {
        let dir = spool_dir();
        let file = unnamed_file(&dir).map_err(ReadError::open(&dir))?;
        let reading = file.try_clone().map_err(ReadError::open(&dir))?;
        let spool = Self {
            shared: Arc::default(),
            log: Arc::new(PagedLog::unnamed(name, reading, share)),
        };
        Ok((file, spool))
    }

    /// The log that is read.
    pub fn log(&self) -> Arc<PagedLog> {
        Arc::clone(&self.log)
    }

    /// Returns whether all was copied.
    pub fn is_done(&self) -> bool {
        // Relaxed: only shown.
        self.shared.is_done.load(Ordering::Relaxed)
    }

    /// Returns what could not be read since the last call.
    pub fn take_failures(&self) -> Vec<String> {
        std::mem::take(
            &mut *self
                .shared
                .failures
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // Relaxed: see the thread.
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn fail(&self, text: &str) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        // One is enough to know; a thousand would fill the memory.
        if failures.len() < 16 {
            failures.push(text.to_owned());
        }
    }
}

/// Copies a chunk; `false` at the end.
fn copy_next(input: &mut Input, chunk: &mut [u8], file: &mut File, shared: &Shared) -> Result<bool, String> {
    if !input.is_open() {
        return input
            .open_next(&Filter::default())
            .map_err(|error| error.to_string());
    }
    let length = input.read(chunk).unwrap_or_else(|error| {
        shared.fail(&error.to_string());
        0
    });
    if length == 0 {
        input.close();
        return Ok(true);
    }
    match file.write_all(chunk.get(..length).unwrap_or_default()) {
        Ok(()) => Ok(true),
        Err(error) => {
            let dir = spool_dir();
            shared.fail(&format!(
                "cannot copy it to {}: {}; TMPDIR names another directory",
                dir.display(),
                crate::error::io_text(&error)
            ));
            Ok(false)
        }
    }
}

/// Directory of spools: a log may be large, so it is not in memory as `/tmp` often is.
fn spool_dir() -> PathBuf {
    std::env::var_os("TMPDIR")
        .filter(|dir| !dir.is_empty())
        .map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

/// Makes a file that has no name, and so goes with its last descriptor.
fn unnamed_file(dir: &Path) -> std::io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(File::from(file)),
        // Where the file system has no such files, one is made and its name taken away at once.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
            let name = format!(".logdrive-view-{}", std::process::id());
            let path = dir.join(name);
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
            let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?;
            std::fs::remove_file(&path)?;
            Ok(File::from(file))
        }
        Err(errno) => Err(errno.into()),
    }
}
