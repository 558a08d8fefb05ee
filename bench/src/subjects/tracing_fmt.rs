//! `tracing` with the text formatter of `tracing-subscriber`, into a buffered
//! file and through `tracing-appender`.
//!
//! As their authors advise: the default format with targets, no colours in a
//! file. `tracing-appender` gets a buffered file too, which serves it better
//! than its own rolling file with one system call a line.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tracing::Level;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::MakeWriter;

use super::counted::{Counted, TellWhenDropped};
use super::{Ended, Full, Subject, Target, tracing_calls};
use crate::{BenchError, Result, warm};

/// The guard of `tracing-appender` waits about a second at most and then
/// leaves its thread behind; this is how long we wait for that thread.
const APPENDER_END_TIMEOUT: Duration = Duration::from_secs(60);

/// The process-wide subscriber of `tracing`, writing text.
pub struct TracingFmt {
    end: End,
    events: Option<Arc<AtomicU64>>,
}

enum End {
    Buffered(SharedFile),
    Appender {
        guard: WorkerGuard,
        // Behind a mutex only because a receiver is not `Sync`.
        done: Mutex<Receiver<io::Result<()>>>,
        errors: ErrorCounter,
    },
}

impl TracingFmt {
    /// The calling thread formats, and writes into a buffer under a mutex.
    pub fn buffered(target: &Target) -> Result<TracingFmt> {
        let file = SharedFile::create(target)?;
        install(file.clone(), Level::INFO)?;
        Ok(TracingFmt {
            end: End::Buffered(file),
            events: None,
        })
    }

    /// The calling thread formats, and a thread of `tracing-appender` writes.
    pub fn appender(target: &Target) -> Result<TracingFmt> {
        let (writer, end) = appender_writer(target)?;
        install(writer, Level::INFO)?;
        Ok(TracingFmt { end, events: None })
    }

    /// Like [`TracingFmt::buffered`], for every event of every level, counted.
    pub fn buffered_counted(target: &Target) -> Result<TracingFmt> {
        let file = SharedFile::create(target)?;
        let events = Some(install_counted(file.clone())?);
        Ok(TracingFmt {
            end: End::Buffered(file),
            events,
        })
    }

    /// Like [`TracingFmt::appender`], for every event of every level, counted.
    pub fn appender_counted(target: &Target) -> Result<TracingFmt> {
        let (writer, end) = appender_writer(target)?;
        let events = Some(install_counted(writer)?);
        Ok(TracingFmt { end, events })
    }

    /// The events formatted so far, if they are counted, else 0.
    #[must_use]
    pub fn events(&self) -> u64 {
        // Relaxed: read when those that count are idle.
        let counted = self.events.as_ref();
        counted.map_or(0, |events| events.load(Ordering::Relaxed))
    }
}

fn install<M>(writer: M, level: Level) -> Result<()>
where
    M: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(writer)
        .finish();
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| BenchError::subject("tracing-subscriber", error))
}

fn install_counted<M>(writer: M) -> Result<Arc<AtomicU64>>
where
    M: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (writer, events) = Counted::new(writer);
    install(writer, Level::TRACE)?;
    Ok(events)
}

fn appender_writer(target: &Target) -> Result<(NonBlocking, End)> {
    let file = warm::open_in_place(&target.path)?;
    let (file, done) = TellWhenDropped::new(BufWriter::new(file));
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(target.full == Full::Drop)
        .finish(file);
    let errors = writer.error_counter();
    let done = Mutex::new(done);
    Ok((writer, End::Appender { guard, done, errors }))
}

impl Subject for TracingFmt {
    tracing_calls!();

    fn finish(self) -> Result<Ended> {
        match self.end {
            End::Buffered(file) => {
                file.lock().flush()?;
                Ok(Ended::default())
            }
            End::Appender { guard, done, errors } => {
                drop(guard);
                let done = done.into_inner().expect("nobody else has locked it");
                done.recv_timeout(APPENDER_END_TIMEOUT)
                    .map_err(|error| BenchError::subject("tracing-appender", error))??;
                let dropped_counted = errors.dropped_lines() as u64;
                Ok(Ended { dropped_counted })
            }
        }
    }
}

/// Counterpart of `Mutex<BufWriter<File>>` for `tracing-subscriber`, with a second
/// owner that can flush it at the end.
#[derive(Clone, Debug)]
struct SharedFile(Arc<Mutex<BufWriter<File>>>);

impl SharedFile {
    fn create(target: &Target) -> Result<SharedFile> {
        let file = warm::open_in_place(&target.path)?;
        Ok(SharedFile(Arc::new(Mutex::new(BufWriter::new(file)))))
    }

    fn lock(&self) -> MutexGuard<'_, BufWriter<File>> {
        self.0.lock().expect("no writer panics")
    }
}

impl<'a> MakeWriter<'a> for SharedFile {
    type Writer = LockedFile<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LockedFile(self.lock())
    }
}

/// The file while one event is written to it.
struct LockedFile<'a>(MutexGuard<'a, BufWriter<File>>);

impl Write for LockedFile<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
