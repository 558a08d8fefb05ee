//! A sidecar: drains the session of a process that has no drain of its own, such as one that is written in Go, from a
//! process beside it. It is a recovery that begins while the process lives: what an earlier one had taken is
//! finished first, and what this one leaves is in the session for the next.

use crate::adopted_session::AdoptedSession;
use crate::backend::Stopped;
use crate::drain_thread::DrainThread;
use crate::error::BackendError;
use crate::file::{Disk, Storage};
use crate::process_exit::{END_LEVEL, Exit, Process, describe_exit};
use crate::recover::{ApplicationRecovery, recover_ended};
use crate::session_place::describe_place;
use crate::sink::options::Overflow;
use crate::sink::writer::IoRequest;
use crate::stats::Stats;
use logdrive_ring::SessionReader;
use std::path::Path;
use std::sync::Arc;

/// Options of a sidecar.
#[derive(Debug, Clone, Copy, Default)]
pub struct SidecarOptions {
    /// Set if the process reads the coarse clock, which is renewed at every pass then.
    pub coarse_clock: bool,
    /// Holds records back when the log is too slow, instead of dropping and counting them.
    pub overflow: Overflow,
    /// Number of a sink without a file whose lines go to standard output. What an earlier sidecar had begun to write there
    /// comes again.
    pub console: Option<usize>,
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
        if let Some(sink) = options.console.and_then(|index| adopted.sinks.get_mut(index)) {
            sink.is_console = sink.file.is_none() && sink.ship.is_none();
        }
        if adopted
            .sinks
            .iter()
            .all(|sink| sink.file.is_none() && sink.ship.is_none() && !sink.is_console)
        {
            // All its records would be discarded, such as with an option of a later version.
            return Err(BackendError::NoFile);
        }
        let session = Arc::clone(&adopted.session);
        // It lives, which its lock shows, so that the number is still its own.
        let process = Process::of(session.header().identity().pid).filter(|_| session.is_alive());
        if let Some(run_dir) = path.parent() {
            let app = session.header().identity().app;
            let own = adopted.sinks.iter().find_map(|sink| sink.file.clone());
            let recovery = ApplicationRecovery::new(vec![run_dir.to_owned()], app, own);
            adopted.recovery = recovery.start(&adopted.status);
        }
        // An earlier sidecar of the process has said so.
        let is_first = adopted.buffers.epoch() == 0;
        if let Some(place) = describe_place(path).filter(|_| is_first) {
            adopted.status.inform(place);
        }
        let storage = Arc::new(Disk) as Arc<dyn Storage>;
        let mut drain = adopted.drain(&storage, options.overflow, options.coarse_clock, None)?;
        drain.tell_damage(adopted.notes.lines());
        let (status, stop) = (Arc::clone(&adopted.status), Arc::clone(&adopted.stop));
        Ok(Self {
            drain: DrainThread::start(drain, session, status, stop)?,
            adopted,
            process,
        })
    }

    /// Returns whether the process lives.
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
    /// the log says so, and the session is removed, or set aside where something in it cannot be read; a process that lives
    /// removes it itself.
    pub fn finish(self, in_order: bool) -> Stopped {
        let session = &self.adopted.session;
        let exit = self
            .process
            .as_ref()
            .filter(|_| !in_order)
            .and_then(Process::exit);
        self.adopted.recovery.stop(None);
        if !in_order && self.is_damaged() {
            return self.recover(exit);
        }
        let end = (!in_order).then(|| describe_exit(session, &Stats::of_view(session), exit));
        let end = end.as_deref().map(|end| (END_LEVEL, end));
        let is_written = self.drain.stop(end, None) == Some(true);
        if !is_written || Stats::of_view(session).pending() > 0 {
            return Stopped::LeftForRecovery;
        }
        match in_order || self.adopted.end().is_ok() {
            true => Stopped::Complete,
            false => Stopped::LeftForRecovery,
        }
    }

    /// Returns whether anything in the session of a dead process cannot be read, when all else is drained.
    fn is_damaged(&self) -> bool {
        self.drain.flush() && (self.adopted.has_unread() || !self.adopted.session.rings().1.is_empty())
    }

    /// Leaves the rest to a recovery, which mends what it can.
    fn recover(self, exit: Option<Exit>) -> Stopped {
        let path = self.adopted.session.path().to_owned();
        let is_written = self.drain.stop(None, None) == Some(true);
        // With the right to drain the session.
        drop(self);
        match is_written && recover_ended(&path, exit).is_ok() {
            true => Stopped::Complete,
            false => Stopped::LeftForRecovery,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internal_notices::{gap_callsite, gap_payload};
    use logdrive_ring::{BUFFER_BYTES_MIN, FullPolicy, SessionOptions, SessionWriter, control};
    use logdrive_wire::{Callsite, RecordHeader};

    fn session(dir: &Path, file: &str) -> SessionWriter {
        let log = dir.join("shop.log");
        let (session, _) = SessionWriter::create(&SessionOptions {
            app: "shop".to_owned(),
            run_dirs: vec![dir.join("run")],
            ring_bytes: 1 << 16,
            config: format!("[sink]\nlayout = text\n[file]\npath = {}\n{file}", log.display()).into_bytes(),
            sink_count: 1,
            buffers_per_sink: 2,
            buffer_bytes: BUFFER_BYTES_MIN,
            sinks_at_start: 0,
            keep_bytes: 0,
        })
        .expect("a session");
        session
    }

    fn start(file: &str) -> Result<Sidecar, BackendError> {
        let dir = tempfile::tempdir().expect("a directory");
        Sidecar::start(session(dir.path(), file).path(), &SidecarOptions::default())
    }

    #[test]
    fn a_session_whose_log_cannot_be_read_is_refused_and_not_discarded() {
        let sidecar = start("rotate_bytes = 65536\n").expect("a sidecar");
        assert_eq!(sidecar.finish(true), Stopped::Complete);
        let refused = start("option_of_a_later_version = yes\n");
        assert!(matches!(refused, Err(BackendError::NoFile)), "{refused:?}");
    }

    /// A ring that the sidecar could not read on was left behind with all of its records, and nothing said where.
    #[test]
    fn a_damaged_session_is_mended_set_aside_and_told_when_its_process_is_dead() {
        let dir = tempfile::tempdir().expect("a directory");
        let session = session(dir.path(), "");
        let path = session.path().to_owned();
        let number = Callsite {
            message: "number {0} of {1}".to_owned(),
            ..gap_callsite()
        };
        for callsite in [gap_callsite(), number] {
            let bytes = callsite.encode().expect("a callsite");
            session.register(&bytes, control::ON).expect("registered");
        }
        let mut producer = session.acquire("main").expect("a ring");
        let mut record_bytes = 0;
        for number in 0..20 {
            let payload = gap_payload(100 + number, "a test");
            record_bytes = (16 + payload.len()).next_multiple_of(8);
            let header = RecordHeader {
                length_bytes: record_bytes as u32,
                callsite_id: 1,
                time_ticks: 1_000 + number,
            };
            let mut record = [&header.encode()[..], &payload].concat();
            record.resize(record_bytes, 0);
            let _ = producer.push(&record, true, FullPolicy::Drop);
        }
        // A header in the middle.
        let ring = path.join("ring-00000");
        let mut bytes = std::fs::read(&ring).expect("a ring");
        bytes[5 * record_bytes..][..16].fill(0);
        std::fs::write(&ring, bytes).expect("a ring");

        let sidecar = Sidecar::start(&path, &SidecarOptions::default()).expect("a sidecar");
        assert!(sidecar.flush(false));
        drop(producer);
        drop(session);
        assert_eq!(sidecar.finish(false), Stopped::Complete);
        let mut aside = path.clone().into_os_string();
        aside.push(".damaged");
        let text = std::fs::read_to_string(dir.path().join("shop.log")).expect("the log");
        assert!(Path::new(&aside).exists() && !path.exists(), "{text}");
        assert!(text.contains(&*aside.to_string_lossy()), "{text}");
        for number in (100..120).filter(|number| *number != 105) {
            let line = format!("number {number} of a test");
            assert_eq!(text.matches(&line).count(), 1, "{text}");
        }
        assert!(text.contains("1 records in rings, with "), "{text}");
    }
}
