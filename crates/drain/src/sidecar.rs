//! A sidecar: drains the session of a process that has no drain of its own, such as one that is written in Go, from a
//! process beside it. It is a recovery that begins while the process lives: what an earlier one had taken is
//! finished first, and what this one leaves is in the session for the next.

use crate::backend::Stopped;
use crate::drain::Drain;
use crate::drain::counts::DrainCounts;
use crate::drain::pipeline::DrainParts;
use crate::error::BackendError;
use crate::file::{Disk, Storage};
use crate::layout::ProcessInfo;
use crate::limits::NO_PROGRESS_MS;
use crate::options::{Overflow, RecoverableSink, sinks_from_text};
use crate::process_exit::{END_LEVEL, Process, describe_exit};
use crate::recover::recover_app;
use crate::sink::start::{adopt_sink, process_info};
use crate::sink::writer::IoRequest;
use crate::stats::Stats;
use crate::status::{BackendStatus, Waited};
use logdrive_ring::SessionReader;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

/// Options of a sidecar.
#[derive(Debug, Clone, Copy, Default)]
pub struct SidecarOptions {
    /// Whether the process reads the coarse clock, which is renewed at every pass then.
    pub coarse_clock: bool,
    /// Holds records back when the log is too slow, instead of dropping and counting them.
    pub overflow: Overflow,
}

/// The drain of another process's session.
#[derive(Debug)]
pub struct Sidecar {
    session: Arc<SessionReader>,
    /// Of the process, where it could be had: tells how it ended.
    process: Option<Process>,
    status: Arc<BackendStatus>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Drain>,
    writers: Vec<Sender<IoRequest>>,
}

impl Sidecar {
    /// Recovers what dead processes of the same application left beside the session, then drains the session from where
    /// its last sidecar stopped.
    ///
    /// # Errors
    /// When somebody else drains the session, it is damaged, a log cannot be opened, or a thread cannot be started.
    pub fn start(path: &Path, options: &SidecarOptions) -> Result<Self, BackendError> {
        let session = Arc::new(SessionReader::open_for_drain(path)?);
        // It lives, which its lock shows, so that the number is still its own.
        let process = Process::of(session.header().pid()).filter(|_| session.is_alive());
        let buffers = session.buffers()?;
        let mut sinks = sinks_from_text(&String::from_utf8_lossy(&buffers.config()));
        sinks.resize_with(buffers.sink_count(), RecoverableSink::default);
        let status = Arc::new(BackendStatus::new(sinks.len()));
        let app = session.header().app();
        if let Some(run_dir) = path.parent() {
            recover_app(&[run_dir.to_owned()], &app, &status);
        }
        let info = ProcessInfo {
            pid: session.header().pid(),
            ..process_info(&app)
        };
        let storage = Arc::new(Disk) as Arc<dyn Storage>;
        let (mut sink_buffers, mut writers, mut sequence) = (Vec::new(), Vec::new(), 0);
        for (index, sink) in sinks.iter().enumerate() {
            let sink_buffer = adopt_sink(
                index,
                sink,
                &buffers,
                &storage,
                &status,
                &info,
                options.overflow,
                &mut sequence,
            )?;
            writers.push(sink_buffer.sender());
            sink_buffers.push(sink_buffer);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let drain = Drain::new(
            DrainParts {
                session: Arc::clone(&session),
                buffers,
                sinks: sink_buffers,
                router: None,
                recorder: None,
                status: Arc::clone(&status),
                counts: Arc::new(DrainCounts::default()),
                stop: Arc::clone(&stop),
                coarse: options.coarse_clock,
                sequence,
            },
            None,
        );
        let thread = std::thread::Builder::new()
            .name("logdrive-drain".to_owned())
            .spawn(move || drain.run())
            .map_err(|cause| BackendError::Thread {
                name: "logdrive-drain",
                cause,
            })?;
        Ok(Self {
            session,
            process,
            status,
            stop,
            thread,
            writers,
        })
    }

    /// Whether the process lives.
    pub fn is_alive(&self) -> bool {
        self.session.is_alive()
    }

    /// Waits until all that was committed before is with the kernel (C1), or on disk (C2). Ends early with `false` when
    /// nothing moves for five seconds.
    pub fn flush(&self, durable: bool) -> bool {
        if !self.reach_mark() {
            return false;
        }
        if !durable {
            return true;
        }
        for writer in &self.writers {
            // A sink whose thread has ended has nothing to sync.
            let _ = writer.send(IoRequest::Sync);
        }
        self.reach_mark()
    }

    fn reach_mark(&self) -> bool {
        let mark = self.status.request();
        self.session.header().wake_drain();
        self.status.wait_for(mark, Duration::from_millis(NO_PROGRESS_MS)) == Waited::Reached
    }

    /// Drains what is left and writes it, as long as anything moves, and five seconds more. Where the process is dead,
    /// the log says so, and the session is removed; a process that lives removes it itself.
    pub fn finish(self, in_order: bool) -> Stopped {
        let no_progress = Duration::from_millis(NO_PROGRESS_MS);
        let end = (!in_order).then(|| {
            describe_exit(
                &self.session,
                &Stats::of_view(&self.session),
                self.process.as_ref().and_then(Process::exit),
            )
        });
        if !self.reach_mark() {
            self.status.abandon();
        }
        // SYNC(stop)
        self.stop.store(true, Ordering::Release);
        self.session.header().wake_drain();
        let Ok(mut drain) = self.thread.join() else {
            return Stopped::LeftForRecovery;
        };
        drain.report_drops();
        if let Some(end) = end {
            drain.report(END_LEVEL, &end);
        }
        drain.hand_over_all();
        drain.send_all(|| IoRequest::Close);
        let closed = self.status.wait_closed(no_progress);
        drop(drain);
        let pending = Stats::of_view(&self.session).pending();
        if closed == Waited::NoProgress || self.status.is_abandoned() || pending > 0 {
            return Stopped::LeftForRecovery;
        }
        if in_order {
            return Stopped::Complete;
        }
        match self.session.remove() {
            Ok(()) => Stopped::Complete,
            Err(_) => Stopped::LeftForRecovery,
        }
    }
}
