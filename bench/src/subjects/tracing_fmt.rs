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
use super::{Ended, Full, Subject, Target};
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
        let (writer, events) = Counted::new(file.clone());
        install(writer, Level::TRACE)?;
        Ok(TracingFmt {
            end: End::Buffered(file),
            events: Some(events),
        })
    }

    /// Like [`TracingFmt::appender`], for every event of every level, counted.
    pub fn appender_counted(target: &Target) -> Result<TracingFmt> {
        let (writer, end) = appender_writer(target)?;
        let (writer, events) = Counted::new(writer);
        install(writer, Level::TRACE)?;
        Ok(TracingFmt {
            end,
            events: Some(events),
        })
    }

    /// The events formatted so far, if they are counted, else 0.
    #[must_use]
    pub fn events(&self) -> u64 {
        // Relaxed: read when those that count are idle.
        self.events
            .as_ref()
            .map_or(0, |events| events.load(Ordering::Relaxed))
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

fn appender_writer(target: &Target) -> Result<(NonBlocking, End)> {
    let file = warm::open_in_place(&target.path)?;
    let (file, done) = TellWhenDropped::new(BufWriter::new(file));
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(target.full == Full::Drop)
        .finish(file);
    let errors = writer.error_counter();
    let end = End::Appender {
        guard,
        done: Mutex::new(done),
        errors,
    };
    Ok((writer, end))
}

impl Subject for TracingFmt {
    #[inline]
    fn line(&self, text: &str) {
        tracing::info!("{}", text);
    }

    #[inline]
    fn four(&self, order: u64, price: f64, quantity: i32, customer: &str) {
        tracing::info!(order, price, quantity, customer, "order filled");
    }

    fn finish(self) -> Result<Ended> {
        match self.end {
            End::Buffered(mut file) => {
                file.flush()
                    .map_err(|error| BenchError::subject("tracing-bufwriter", error))?;
                Ok(Ended::default())
            }
            End::Appender { guard, done, errors } => {
                drop(guard);
                done.into_inner()
                    .expect("nobody else has locked it")
                    .recv_timeout(APPENDER_END_TIMEOUT)
                    .map_err(|error| BenchError::subject("tracing-appender", error))?
                    .map_err(|error| BenchError::subject("tracing-appender", error))?;
                Ok(Ended {
                    dropped_counted: errors.dropped_lines() as u64,
                })
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

    fn flush(&mut self) -> io::Result<()> {
        self.lock().flush()
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
