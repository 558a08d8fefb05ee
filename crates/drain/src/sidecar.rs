//! A sidecar: drains the session of a process that has no drain of its own, such as one that is written in Go, from a
//! process beside it. It is a recovery that begins while the process lives: what an earlier one had taken is
//! finished first, and what this one leaves is in the session for the next.

use crate::adopted_session::AdoptedSession;
use crate::backend::Stopped;
use crate::drain_thread::DrainThread;
use crate::error::BackendError;
use crate::file::{Disk, Storage};
use crate::process_exit::{Process, describe_exit};
use crate::recover::recover_app;
use crate::sink::options::Overflow;
use crate::sink::writer::IoRequest;
use crate::stats::Stats;
use logdrive_ring::SessionReader;
use std::path::Path;
use std::sync::Arc;

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
    adopted: AdoptedSession,
    /// Process of the session, where it could be opened: it gives the exit status.
    process: Option<Process>,
    drain: DrainThread,
}

impl Sidecar {
    /// Recovers what dead processes of the same application left beside the session, then drains the session from where
    /// its last sidecar stopped.
    ///
    /// # Errors
    /// When another process drains the session, it is damaged, it describes no log that can be read, a log cannot be opened,
    /// or a thread cannot be started.
    pub fn start(path: &Path, options: &SidecarOptions) -> Result<Self, BackendError> {
        let mut adopted = AdoptedSession::new(SessionReader::open_for_drain(path)?)?;
        if adopted
            .sinks
            .iter()
            .all(|sink| sink.file.is_none() && sink.ship.is_none())
        {
            // All its records would be discarded, such as with an option of a later version.
            return Err(BackendError::NoFile);
        }
        let session = Arc::clone(&adopted.session);
        // It lives, which its lock shows, so that the number is still its own.
        let process = Process::of(session.header().identity().pid).filter(|_| session.is_alive());
        if let Some(run_dir) = path.parent() {
            recover_app(
                &[run_dir.to_owned()],
                &session.header().identity().app,
                &adopted.status,
            );
        }
        let storage = Arc::new(Disk) as Arc<dyn Storage>;
        let drain = adopted.drain(&storage, options.overflow, options.coarse_clock, None)?;
        let (status, stop) = (Arc::clone(&adopted.status), Arc::clone(&adopted.stop));
        Ok(Self {
            drain: DrainThread::start(drain, session, status, stop)?,
            adopted,
            process,
        })
    }

    /// Whether the process lives.
    pub fn is_alive(&self) -> bool {
        self.adopted.session.is_alive()
    }

    /// Waits until all that was committed before is with the kernel (C1), or on disk (C2). Ends early with `false` when
    /// nothing moves for five seconds.
    pub fn flush(&self, durable: bool) -> bool {
        if !self.drain.flush() {
            return false;
        }
        if !durable {
            return true;
        }
        for writer in &self.adopted.writers {
            // A sink whose thread has ended has nothing to sync.
            let _ = writer.send(IoRequest::Sync);
        }
        self.drain.flush()
    }

    /// Drains what is left and writes it, as long as anything moves, and five seconds more. Where the process is dead,
    /// the log says so, and the session is removed; a process that lives removes it itself.
    pub fn finish(self, in_order: bool) -> Stopped {
        let session = &self.adopted.session;
        let exit = || self.process.as_ref().and_then(Process::exit);
        let end = (!in_order).then(|| describe_exit(session, &Stats::of_view(session), exit()));
        let is_written = self.drain.stop(end.as_deref()) == Some(true);
        if !is_written || Stats::of_view(session).pending() > 0 {
            return Stopped::LeftForRecovery;
        }
        match in_order || session.remove().is_ok() {
            true => Stopped::Complete,
            false => Stopped::LeftForRecovery,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_ring::{BUFFER_BYTES_MIN, SessionOptions, SessionWriter};

    fn start(file: &str) -> Result<Sidecar, BackendError> {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("shop.log");
        let (session, _) = SessionWriter::create(&SessionOptions {
            app: "shop".to_owned(),
            run_dirs: vec![dir.path().join("run")],
            ring_bytes: 1 << 16,
            config: format!("[sink]\nlayout = text\n[file]\npath = {}\n{file}", log.display()).into_bytes(),
            sink_count: 1,
            buffers_per_sink: 2,
            buffer_bytes: BUFFER_BYTES_MIN,
            keep_bytes: 0,
        })
        .expect("a session");
        Sidecar::start(session.path(), &SidecarOptions::default())
    }

    #[test]
    fn a_session_whose_log_cannot_be_read_is_refused_and_not_discarded() {
        let sidecar = start("rotate_bytes = 65536\n").expect("a sidecar");
        assert_eq!(sidecar.finish(true), Stopped::Complete);
        let refused = start("option_of_a_later_version = yes\n");
        assert!(matches!(refused, Err(BackendError::NoFile)), "{refused:?}");
    }
}
