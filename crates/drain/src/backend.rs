//! The backend of one process: its session, its drain thread, and an I/O thread for every sink.

use crate::drain::Drain;
use crate::drain::command::{Command, CommandSender};
use crate::drain::pipeline::DrainParts;
use crate::drain::route::Router;
use crate::drain_thread::DrainThread;
use crate::error::BackendError;
use crate::file::{BESIDE_LOG, Disk, Storage};
use crate::flight_recorder::memory::RecorderMemory;
use crate::flight_recorder::{FlightRecorder, RecorderOptions};
use crate::internal_notices::gap_callsite;
use crate::limits::{BUFFER_BYTES, BUFFERS_PER_SINK, HELD_BYTES, HELD_SESSIONS, OPEN_WAIT_MS, THREAD_WAIT_S};
use crate::recover;
use crate::recovery_state::RecoveryState;
use crate::session_place::describe_place;
use crate::sink::buffer::SinkBuffer;
use crate::sink::options::{SinkOptions, Target, sinks_to_text};
use crate::sink::start::{SinkStarter, process_info};
use crate::sink::writer::{IoRequest, OpenAttempt};
use crate::sinks::Sinks;
use crate::stats::{Stats, StatsSource};
use crate::status::BackendStatus;
use crate::target_user::{prepare, work_as};
use logdrive_ring::{KeepFile, SessionOptions, SessionReader, SessionWriter, User, control, default_run_dir};
use logdrive_wire::Level;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
    /// Set if producers read the coarse clock, which the drain then renews at every poll.
    pub coarse_clock: bool,
    /// Set if sessions that dead processes of the same application left are drained first.
    pub recover: bool,
    /// Sessions of dead processes that are kept where they cannot be recovered. Default: 64.
    pub held_sessions: u64,
    /// Bytes that they take together, and no more than half of their file system. Default: 256 MiB.
    pub held_bytes: u64,
    /// The file system, or one that fails on purpose.
    pub storage: Arc<dyn Storage>,
    /// Output buffers of 1 MiB for each sink. Default: 8.
    pub buffers_per_sink: usize,
    /// Places for sinks, those that are added later included; 16 at most. Default: as many as there are sinks.
    pub sink_places: usize,
    /// User that the process becomes after the start, if it starts as another one.
    pub run_as: Option<User>,
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
            held_sessions: HELD_SESSIONS,
            held_bytes: HELD_BYTES,
            storage: Arc::new(Disk),
            buffers_per_sink: BUFFERS_PER_SINK,
            sink_places: 0,
            run_as: None,
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
        dirs.push(beside.map_or_else(|| PathBuf::from(BESIDE_LOG), |dir| dir.join(BESIDE_LOG)));
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
            sinks_at_start: self.sinks.len(),
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
    recovery: Arc<RecoveryState>,
    /// Set if a flight recorder is written when the process crashes.
    keeps_for_crash: bool,
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
    /// Starts to recover what dead processes of the same name left, makes the session, opens the sinks, starts the
    /// threads. Goes on after a moment where disks do not answer, or there is much to recover: then files are opened
    /// when that is done, and lines wait in memory.
    ///
    /// # Errors
    /// When no run directory can be used, a sink cannot be opened, or a thread cannot be started.
    pub fn start(options: &BackendOptions) -> Result<Self, BackendError> {
        let Some(user) = options.run_as.filter(|user| user.is_other()) else {
            return start_here(options);
        };
        prepare(user, options.run_dir.as_deref(), &options.sinks);
        work_as(user, || start_here(options))?.unwrap_or_else(|cause| {
            let backend = start_here(options)?;
            backend.notice(format!(
                "files cannot be made as user {} (run_as): {cause}; they are made as user {}",
                user.uid,
                logdrive_ring::user_id()
            ));
            Ok(backend)
        })
    }

    pub(crate) fn start_in(
        options: &BackendOptions,
        session: Arc<SessionWriter>,
        status: Arc<BackendStatus>,
        recovery: Arc<RecoveryState>,
        router: Option<Router>,
    ) -> Result<Self, BackendError> {
        let started = Self::start_threads(options, &session, status, recovery, router);
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
        recovery: Arc<RecoveryState>,
        router: Option<Router>,
    ) -> Result<Self, BackendError> {
        // First, because id 0 is the gap callsite of every session.
        let gap = gap_callsite().encode().unwrap_or_default();
        session.register(&gap, control::ON)?;
        // A thread that starts takes one of these and does not wait for the file of a new ring.
        for _ in 0..crate::limits::SPARE_RINGS {
            // If this fails, the thread that needs the ring finds out by itself.
            let _ = session.make_spare_ring(crate::limits::SPARE_RINGS, true);
        }
        let starter = SinkStarter {
            buffers: Arc::clone(session.buffers()),
            storage: Arc::clone(&options.storage),
            status: Arc::clone(&status),
            process: process_info(&options.app),
            recovery: Arc::clone(&recovery),
            run_dirs: options.run_dirs().into(),
        };
        let sink_buffers = start_sinks(options, session, &starter)?;
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
            recovery,
            commands,
            status,
            keeps_for_crash: options.keep.as_ref().is_some_and(|keep| keep.on_crash),
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

    /// As [`Backend::flush`], then makes all files durable (C2), with those that were rotated, and their names.
    ///
    /// `false` also when something that was logged since the last answer may not be on disk, whoever found that out: a
    /// disk flush in time that failed, a file that was deleted before it was durable. The log says which. A later
    /// `true` is about what was logged after that.
    pub fn sync(&self) -> bool {
        let told_before = self.status.lost_told();
        if !self.flush() {
            return false;
        }
        self.sinks.send_all(|| IoRequest::Sync);
        self.flush() && self.status.tell_lost(&told_before)
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
        let end = Instant::now() + timeout;
        let is_flushed = self.flush();
        let mut watched = self.status.watched().into_iter();
        is_flushed
            && watched.all(|(_, watch)| {
                let left = end.saturating_duration_since(Instant::now());
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

    /// As [`Backend::stop_until`], where the process is about to die of a crash: what a flight recorder keeps is written
    /// before the last line.
    pub fn stop_crashed(&self, until: Instant, end: (Level, &str)) -> Stopped {
        if self.keeps_for_crash {
            let reason = "the process has crashed".to_owned();
            self.commands.send(Command::Dump(None, None, reason));
        }
        self.stop_until(Some(until), Some(end))
    }

    /// Drains what is committed, writes it, and ends the threads. Waits as long as anything moves, and five seconds
    /// more.
    pub fn stop(&self) -> Stopped {
        self.stop_until(None, None)
    }

    /// As [`Backend::stop`], with a last line about the logger itself, and no longer than until then.
    pub fn stop_until(&self, until: Option<Instant>, end: Option<(Level, &str)>) -> Stopped {
        self.recovery.stop(until);
        let Some(is_written) = self.drain.stop(end, until) else {
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
            false => {
                self.session().header().mark_stopped();
                Stopped::LeftForRecovery
            }
        }
    }
}

/// Starts a backend, with threads that have the rights of the calling one.
fn start_here(options: &BackendOptions) -> Result<Backend, BackendError> {
    let status = Arc::new(BackendStatus::new(options.sinks.len()));
    let recovery = recover::start_recovery(options, &status);
    let session = make_session(options, &status)?;
    // Who keeps lines in this process has no log to read them in later.
    let is_kept = |sink: &SinkOptions| {
        !matches!(
            sink.target,
            Target::Memory(_) | Target::Callback(_) | Target::Discard
        )
    };
    if options.sinks.iter().any(is_kept)
        && let Some(place) = describe_place(session.path())
    {
        status.inform(place);
    }
    Backend::start_in(options, session, status, recovery, None)
}

/// Starts the sinks. Their threads open files, which a disk that does not answer keeps from the program for a moment
/// only: then they are opened when it does.
fn start_sinks(
    options: &BackendOptions,
    session: &SessionWriter,
    starter: &SinkStarter,
) -> Result<Vec<SinkBuffer>, BackendError> {
    let (mut sink_buffers, mut tries) = (Vec::new(), Vec::new());
    for (index, sink) in options.sinks.iter().enumerate() {
        let spare = session.buffers().take_all(index)?;
        let (output, attempt) = starter.open_at_start(sink)?;
        sink_buffers.push(starter.start(index, sink, output, spare)?);
        tries.extend(attempt);
    }
    let mut until = None;
    for attempt in tries {
        let mut timeout = Duration::from_secs(THREAD_WAIT_S);
        while let Ok(tried) = attempt.recv_timeout(timeout) {
            match tried {
                OpenAttempt::Begun => {
                    let open_wait = Duration::from_millis(OPEN_WAIT_MS);
                    let until = *until.get_or_insert_with(|| Instant::now() + open_wait);
                    timeout = until.saturating_duration_since(Instant::now());
                }
                OpenAttempt::Settled => break,
                OpenAttempt::Failed(error) => return Err(error),
            }
        }
    }
    Ok(sink_buffers)
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
            "{error}; instead the session is in {}",
            session.path().display()
        ));
    }
    Ok(Arc::new(session))
}
