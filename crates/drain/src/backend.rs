//! The backend of one process: its session, its drain thread, and an I/O thread for every sink.

use crate::drain::Drain;
use crate::drain::command::{Command, CommandSender};
use crate::drain::pipeline::DrainParts;
use crate::drain::route::Router;
use crate::drain_thread::DrainThread;
use crate::error::BackendError;
use crate::file::{Disk, Storage};
use crate::flight_recorder::memory::RecorderMemory;
use crate::flight_recorder::{FlightRecorder, RecorderOptions};
use crate::internal_notices::gap_callsite;
use crate::limits::{BUFFER_BYTES, BUFFERS_PER_SINK};
use crate::recover;
use crate::sink::options::{SinkOptions, Target, sinks_to_text};
use crate::sink::start::{SinkStarter, process_info};
use crate::sink::writer::IoRequest;
use crate::sinks::Sinks;
use crate::stats::{Stats, StatsSource};
use crate::status::BackendStatus;
use logdrive_ring::{KeepFile, SessionOptions, SessionReader, SessionWriter, control, default_run_dir};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Options of a backend.
#[derive(Debug, Clone)]
pub struct BackendOptions {
    /// The application's name.
    pub app: String,
    /// Directory of sessions; `None` for `/dev/shm/logdrive-UID`, then a directory beside the first log file.
    pub run_dir: Option<PathBuf>,
    /// Bytes of each thread's ring, rounded up to a power of two from 64 KiB on.
    pub ring_bytes: usize,
    /// The sinks.
    pub sinks: Vec<SinkOptions>,
    /// Flight recorder of records below the level of all sinks; `None` for none.
    pub keep: Option<RecorderOptions>,
    /// Whether producers read the coarse clock, which the drain then renews at every poll.
    pub coarse_clock: bool,
    /// Whether sessions that dead processes of the same application left are drained first.
    pub recover: bool,
    /// The file system, or one that fails on purpose.
    pub storage: Arc<dyn Storage>,
    /// Output buffers of 1 MiB for each sink. Default: 8.
    pub buffers_per_sink: usize,
    /// Places for sinks, those that are added later included; 16 at most. Default: as many as there are sinks.
    pub sink_places: usize,
}

impl BackendOptions {
    /// The defaults: 1 MiB rings, no sinks, recovery on.
    pub fn new(app: impl Into<String>) -> Self {
        Self {
            app: app.into(),
            run_dir: None,
            ring_bytes: logdrive_ring::limits::RING_BYTES_DEFAULT,
            sinks: Vec::new(),
            keep: None,
            coarse_clock: false,
            recover: true,
            storage: Arc::new(Disk),
            buffers_per_sink: BUFFERS_PER_SINK,
            sink_places: 0,
        }
    }

    /// The run directories in the order in which they are tried.
    pub fn run_dirs(&self) -> Vec<PathBuf> {
        if let Some(dir) = &self.run_dir {
            return vec![dir.clone()];
        }
        let mut dirs = vec![default_run_dir()];
        let beside = self.sinks.iter().find_map(|sink| match &sink.target {
            Target::File(file) => file.path.parent(),
            _ => None,
        });
        dirs.push(beside.map_or_else(|| PathBuf::from(".logdrive"), |dir| dir.join(".logdrive")));
        dirs
    }

    /// Options of the session.
    pub fn session_options(&self) -> SessionOptions {
        let keep = self
            .keep
            .as_ref()
            .map_or_else(String::new, RecorderOptions::to_text);
        SessionOptions {
            app: self.app.clone(),
            run_dirs: self.run_dirs(),
            ring_bytes: self.ring_bytes,
            config: format!("{keep}{}", sinks_to_text(&self.sinks)).into_bytes(),
            sink_count: self.sinks.len().max(self.sink_places),
            buffers_per_sink: self.buffers_per_sink,
            buffer_bytes: BUFFER_BYTES,
            keep_bytes: self.keep.as_ref().map_or(0, |keep| keep.bytes),
        }
    }
}

/// A running backend. Dropping it without [`Backend::stop`] leaves the session for recovery.
#[derive(Debug)]
pub struct Backend {
    source: StatsSource,
    drain: DrainThread,
    /// Touches the memory of the flight recorder, once.
    touching: Mutex<Option<JoinHandle<()>>>,
    sinks: Sinks,
    pub(crate) commands: CommandSender,
    status: Arc<BackendStatus>,
}

/// Outcome of the end of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Everything committed is with the kernel; the session is removed.
    Complete,
    /// A target made no progress; what it did not take stays in the session, for `logdrive recover`.
    LeftForRecovery,
}

impl Backend {
    /// Makes the session, recovers what dead processes of the same name left, opens the sinks, starts the threads.
    ///
    /// # Errors
    /// When no run directory can be used, a sink cannot be opened, or a thread cannot be started.
    pub fn start(options: &BackendOptions) -> Result<Self, BackendError> {
        let status = Arc::new(BackendStatus::new(options.sinks.len()));
        if options.recover {
            recover::recover_app(&options.run_dirs(), &options.app, &status);
        }
        let session = make_session(options, &status)?;
        Self::start_in(options, session, status, None)
    }

    pub(crate) fn start_in(
        options: &BackendOptions,
        session: Arc<SessionWriter>,
        status: Arc<BackendStatus>,
        router: Option<Router>,
    ) -> Result<Self, BackendError> {
        let started = Self::start_threads(options, &session, status, router);
        if started.is_err() {
            // The session holds nothing yet; the error that ended the start is the one to report.
            let _ = session.remove();
        }
        started
    }

    fn start_threads(
        options: &BackendOptions,
        session: &Arc<SessionWriter>,
        status: Arc<BackendStatus>,
        router: Option<Router>,
    ) -> Result<Self, BackendError> {
        // First, because id 0 is the gap callsite of every session.
        let gap = gap_callsite().encode().unwrap_or_default();
        session.register(&gap, control::ON)?;
        // A thread that starts takes one of these and does not wait for the file of a new ring.
        for _ in 0..crate::limits::SPARE_RINGS {
            session.make_spare_ring(crate::limits::SPARE_RINGS)?;
        }
        let starter = SinkStarter {
            buffers: Arc::clone(session.buffers()),
            storage: Arc::clone(&options.storage),
            status: Arc::clone(&status),
            process: process_info(&options.app),
        };
        let mut sink_buffers = Vec::new();
        for (index, sink) in options.sinks.iter().enumerate() {
            let spare = session.buffers().take_all(index)?;
            sink_buffers.push(starter.start(index, sink, starter.open(&sink.target)?, spare)?);
        }
        let writers = sink_buffers.iter().map(|sink| Some(sink.sender())).collect();
        let (sender, inbox) = channel();
        let commands = CommandSender::new(sender, session);
        let source = StatsSource::new(session);
        let stop = Arc::new(AtomicBool::new(false));
        let file = options.keep.as_ref().and_then(|_| session.take_keep());
        let touching = file.as_ref().and_then(|file| touch_keep(file, &stop));
        let keep = options.keep.clone().zip(file);
        let own = Arc::new(SessionReader::open_own(session)?);
        let drain = Drain::new(
            DrainParts {
                session: Arc::clone(&own),
                buffers: Arc::clone(session.buffers()),
                sinks: sink_buffers,
                router,
                recorder: keep
                    .map(|(options, file)| FlightRecorder::new(RecorderMemory::shared(file), options)),
                status: Arc::clone(&status),
                counts: Arc::clone(source.counts()),
                stop: Arc::clone(&stop),
                coarse: options.coarse_clock,
            },
            Some(inbox),
        );
        Ok(Self {
            source,
            drain: DrainThread::start(drain, own, Arc::clone(&status), stop)?,
            touching: Mutex::new(touching),
            sinks: Sinks::new(starter, writers, commands.clone()),
            commands,
            status,
        })
    }

    /// The session.
    pub fn session(&self) -> &Arc<SessionWriter> {
        self.source.session()
    }

    /// The sinks, which may be added, changed and closed while the backend runs.
    pub fn sinks(&self) -> &Sinks {
        &self.sinks
    }

    /// Writes what the flight recorder keeps, so far back or all, with everything that was committed before, and waits for
    /// it as [`Backend::flush`] does.
    pub fn dump(&self, span: Option<Duration>) -> bool {
        let reason = "the program asked for it".to_owned();
        self.commands.send(Command::Dump(None, span, reason));
        self.flush()
    }

    /// Waits until every record that was committed before the call is with the kernel (C1) in all sinks. Ends early
    /// with `false` when nothing moves for five seconds.
    pub fn flush(&self) -> bool {
        self.drain.flush()
    }

    /// As [`Backend::flush`], then makes all files durable (C2); `false` also when the system says that this failed.
    pub fn sync(&self) -> bool {
        let lost_before = self.status.lost();
        if !self.flush() {
            return false;
        }
        self.sinks.send_all(|| IoRequest::Sync);
        self.flush() && self.status.lost() == lost_before
    }

    /// Asks for a flush without waiting for it: a flush ticket for [`Sinks::flush_status`].
    pub fn request_flush(&self) -> u64 {
        self.drain.request_flush()
    }

    /// Returns the state of the sinks that send to collectors, by their numbers.
    #[cfg(all(feature = "ship", target_os = "linux"))]
    pub fn shipping(&self) -> Vec<(usize, crate::ship::ForwardState)> {
        let watched = self.status.watched().into_iter();
        watched.map(|(sink, watch)| (sink, watch.state())).collect()
    }

    /// As [`Backend::flush`], then waits until collectors keep all of it (C3), at most so long in all. `false`: something is
    /// still on its way, in memory or in a spool.
    #[cfg(all(feature = "ship", target_os = "linux"))]
    pub fn deliver(&self, timeout: Duration) -> bool {
        let end = std::time::Instant::now() + timeout;
        let is_flushed = self.flush();
        let mut watched = self.status.watched().into_iter();
        is_flushed
            && watched.all(|(_, watch)| {
                let left = end.saturating_duration_since(std::time::Instant::now());
                watch.wait_acknowledged(watch.next_number(), left)
            })
    }

    /// Opens all files anew, as after a rotation from outside.
    pub fn reopen(&self) {
        self.sinks.send_all(|| IoRequest::Reopen);
    }

    /// Returns the statistics of the session.
    pub fn stats(&self) -> Stats {
        self.source.stats()
    }

    /// Returns a source of statistics for another thread.
    pub fn stats_source(&self) -> StatsSource {
        self.source.clone()
    }

    /// Leaves a line about the logger itself in the log.
    pub fn notice(&self, text: String) {
        self.status.notice(text);
    }

    /// Wakes the drain: a process needs it.
    pub fn wake(&self) {
        self.drain.wake();
    }

    /// Drains what is committed, writes it, and ends the threads. Waits as long as anything moves, and five seconds
    /// more.
    pub fn stop(&self) -> Stopped {
        let Some(is_written) = self.drain.stop(None) else {
            return Stopped::Complete;
        };
        let touching = self
            .touching
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(touching) = touching {
            // It does nothing that could fail.
            let _ = touching.join();
        }
        match is_written && self.stats().pending() == 0 && self.session().remove().is_ok() {
            true => Stopped::Complete,
            false => Stopped::LeftForRecovery,
        }
    }
}

/// Has the memory of the flight recorder touched by a thread of its own: a virtual machine may take tens of milliseconds to
/// find some of it, in which the drain would stand still. Without the thread it does.
fn touch_keep(memory: &KeepFile, stop: &Arc<AtomicBool>) -> Option<JoinHandle<()>> {
    let (touch_all, stop) = (memory.toucher(), Arc::clone(stop));
    let thread = std::thread::Builder::new().name("logdrive-touch".to_owned());
    let touch = move || {
        logdrive_ring::local::deny_thread();
        logdrive_ring::signals::block_in_thread();
        touch_all(&stop);
    };
    thread.spawn(touch).ok()
}

pub(crate) fn make_session(
    options: &BackendOptions,
    status: &BackendStatus,
) -> Result<Arc<SessionWriter>, BackendError> {
    let (session, failed) = SessionWriter::create(&options.session_options())?;
    for error in failed {
        status.notice(format!(
            "{error}; the session is in {} instead",
            session.path().display()
        ));
    }
    Ok(Arc::new(session))
}
