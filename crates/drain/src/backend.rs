//! The backend of one process: its session, its drain thread, and an I/O thread for every sink.

use crate::drain::Drain;
use crate::drain::command::Command;
use crate::drain::counts::DrainCounts;
use crate::drain::pipeline::DrainParts;
use crate::drain::route::Router;
use crate::error::BackendError;
use crate::file::{Disk, Storage};
use crate::flight_recorder::memory::RecorderMemory;
use crate::flight_recorder::{FlightRecorder, RecorderOptions};
use crate::internal_notices::gap_callsite;
use crate::layout::ProcessInfo;
use crate::limits::{BUFFER_BYTES, BUFFERS_PER_SINK, NO_PROGRESS_MS};
use crate::options::{SinkOptions, Target, sinks_to_text};
use crate::recover;
use crate::sink::start::{open, process_info, start_sink};
use crate::sink::writer::IoRequest;
use crate::stats::Stats;
use crate::status::{BackendStatus, Waited};
use logdrive_ring::{KeepToucher, SessionOptions, SessionReader, SessionWriter, control, default_run_dir};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How a backend is started.
#[derive(Debug, Clone)]
pub struct BackendOptions {
    /// The application's name.
    pub app: String,
    /// Where sessions live; `None` for `/dev/shm/logdrive-UID`, then a directory beside the first log file.
    pub run_dir: Option<PathBuf>,
    /// Bytes of each thread's ring, rounded up to a power of two from 64 KiB on.
    pub ring_bytes: usize,
    /// The sinks.
    pub sinks: Vec<SinkOptions>,
    /// What is kept in memory of records below the level of all sinks; `None` for nothing.
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
}

impl BackendOptions {
    /// How the session is made.
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
    pub(crate) session: Arc<SessionWriter>,
    pub(crate) status: Arc<BackendStatus>,
    pub(crate) counts: Arc<DrainCounts>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<Drain>>>,
    /// Touches the memory of the flight recorder, once.
    touching: Mutex<Option<JoinHandle<()>>>,
    /// The ways to the I/O threads, in the order of the sinks; none where one is closed and its place is free.
    pub(crate) writers: Mutex<Vec<Option<Sender<IoRequest>>>>,
    pub(crate) commands: Sender<Command>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) process: ProcessInfo,
}

/// How a backend ended.
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
        Self::start_in(options, session, &status, None)
    }

    pub(crate) fn start_in(
        options: &BackendOptions,
        session: Arc<SessionWriter>,
        status: &Arc<BackendStatus>,
        router: Option<Router>,
    ) -> Result<Self, BackendError> {
        let started = Self::threads(options, &session, status, router);
        if started.is_err() {
            // The session holds nothing yet; the error that ended the start is the one to tell.
            let _ = session.remove();
        }
        started
    }

    fn threads(
        options: &BackendOptions,
        session: &Arc<SessionWriter>,
        status: &Arc<BackendStatus>,
        router: Option<Router>,
    ) -> Result<Self, BackendError> {
        let gap = gap_callsite().encode().unwrap_or_default();
        session.register(&gap, control::ON)?;
        for _ in 0..crate::limits::SPARE_RINGS {
            session.make_spare_ring(crate::limits::SPARE_RINGS)?;
        }
        let process = process_info(&options.app);
        let mut sink_buffers = Vec::new();
        let mut writers = Vec::new();
        for (index, sink) in options.sinks.iter().enumerate() {
            let spare = session.buffers().take_all(index)?;
            let output = open(&sink.target, &options.storage, status)?;
            let sink_buffer = start_sink(index, sink, output, spare, session.buffers(), status, &process)?;
            writers.push(Some(sink_buffer.sender()));
            sink_buffers.push(sink_buffer);
        }
        let counts = Arc::new(DrainCounts::start());
        let stop = Arc::new(AtomicBool::new(false));
        let (commands, inbox) = channel();
        let file = options.keep.as_ref().and_then(|_| session.take_keep());
        let touching = file.as_ref().and_then(|file| touch_keep(file.toucher(), &stop));
        let keep = options.keep.clone().zip(file);
        let keep = keep.map(|(options, file)| FlightRecorder::new(RecorderMemory::shared(file), options));
        let drain = Drain::new(
            DrainParts {
                session: Arc::new(SessionReader::open_own(session)?),
                buffers: Arc::clone(session.buffers()),
                sinks: sink_buffers,
                router,
                recorder: keep,
                status: Arc::clone(status),
                counts: Arc::clone(&counts),
                stop: Arc::clone(&stop),
                coarse: options.coarse_clock,
                sequence: 0,
            },
            Some(inbox),
        );
        let thread = std::thread::Builder::new()
            .name("logdrive-drain".to_owned())
            .spawn(move || drain.run())
            .map_err(|cause| BackendError::Thread {
                name: "logdrive-drain",
                cause,
            })?;
        Ok(Self {
            session: Arc::clone(session),
            status: Arc::clone(status),
            counts,
            touching: Mutex::new(touching),
            stop,
            thread: Mutex::new(Some(thread)),
            writers: Mutex::new(writers),
            commands,
            storage: Arc::clone(&options.storage),
            process,
        })
    }

    /// Writes what the flight recorder keeps, so far back or all, with everything that was committed before, and waits for
    /// it as [`Backend::flush`] does.
    pub fn dump(&self, span: Option<Duration>) -> bool {
        let reason = "the program asked for it".to_owned();
        self.send_command(Command::Dump(None, span, reason));
        self.flush()
    }

    /// The session.
    pub fn session(&self) -> &Arc<SessionWriter> {
        &self.session
    }

    /// Waits until every record that was committed before the call is with the kernel (C1) in all sinks. Ends early
    /// with `false` when nothing moves for five seconds.
    pub fn flush(&self) -> bool {
        let mark = self.status.request();
        self.session.waker().wake();
        self.status.wait_for(mark, Duration::from_millis(NO_PROGRESS_MS)) == Waited::Reached
    }

    /// As [`Backend::flush`], then makes all files durable (C2); `false` also when the system says that this failed.
    pub fn sync(&self) -> bool {
        let lost_before = self.status.lost();
        if !self.flush() {
            return false;
        }
        self.send_all(|| IoRequest::Sync);
        self.flush() && self.status.lost() == lost_before
    }

    /// How the sinks that send to collectors stand, by their numbers.
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
        self.send_all(|| IoRequest::Reopen);
    }

    pub(crate) fn send_all(&self, message: impl Fn() -> IoRequest) {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        for sender in writers.iter().flatten() {
            // A sink whose thread has ended has nothing to open.
            let _ = sender.send(message());
        }
    }

    /// The statistics of the session.
    pub fn stats(&self) -> Stats {
        self.session.header().store_disabled(self.counts.disabled_calls());
        Stats::of_live(&self.session, &self.counts)
    }

    /// Leaves a line about the logger itself in the log.
    pub fn notice(&self, text: String) {
        self.status.notice(text);
    }

    /// Drains what is committed, writes it, and ends the threads. Waits as long as anything moves, and five seconds
    /// more.
    pub fn stop(&self) -> Stopped {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else {
            return Stopped::Complete;
        };
        let no_progress = Duration::from_millis(NO_PROGRESS_MS);
        let mark = self.status.request();
        self.session.waker().wake();
        if self.status.wait_for(mark, no_progress) == Waited::NoProgress {
            self.status.abandon();
        }
        // SYNC(stop)
        self.stop.store(true, Ordering::Release);
        self.session.waker().wake();
        let touching = self
            .touching
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(touching) = touching {
            // It does nothing that could fail.
            let _ = touching.join();
        }
        let Ok(mut drain) = thread.join() else {
            return Stopped::LeftForRecovery;
        };
        drain.report_drops();
        drain.hand_over_all();
        drain.send_all(|| IoRequest::Close);
        let closed = self.status.wait_closed(no_progress);
        drop(drain);
        if closed == Waited::NoProgress || self.status.is_abandoned() || self.stats().pending() > 0 {
            return Stopped::LeftForRecovery;
        }
        match self.session.remove() {
            Ok(()) => Stopped::Complete,
            Err(_) => Stopped::LeftForRecovery,
        }
    }
}

/// Has the memory of the flight recorder touched by a thread of its own: a virtual machine may take tens of milliseconds to
/// find some of it, in which the drain would stand still. Without the thread it does.
fn touch_keep(memory: KeepToucher, stop: &Arc<AtomicBool>) -> Option<JoinHandle<()>> {
    let stop = Arc::clone(stop);
    let thread = std::thread::Builder::new().name("logdrive-touch".to_owned());
    let touch = move || {
        logdrive_ring::local::deny_thread();
        logdrive_ring::signals::block_in_thread();
        memory.touch(&stop);
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
