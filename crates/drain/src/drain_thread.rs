//! The drain thread: its start, the flushes that callers wait for, and its orderly end.

use crate::drain::Drain;
use crate::error::BackendError;
use crate::status::{BackendStatus, WaitLimit, Waited};
use logdrive_ring::SessionReader;
use logdrive_wire::Level;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

const NAME: &str = "logdrive-drain";

/// Thread that drains a living session.
#[derive(Debug)]
pub(crate) struct DrainThread {
    session: Arc<SessionReader>,
    status: Arc<BackendStatus>,
    stop: Arc<AtomicBool>,
    /// `None` once it was stopped.
    thread: Mutex<Option<JoinHandle<Drain>>>,
}

impl DrainThread {
    /// Starts the thread; the drain ends when `stop` is set.
    pub(crate) fn start(
        drain: Drain,
        session: Arc<SessionReader>,
        status: Arc<BackendStatus>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, BackendError> {
        let thread = Builder::new().name(NAME.to_owned()).spawn(move || drain.run());
        Ok(Self {
            session,
            status,
            stop,
            thread: Mutex::new(Some(
                thread.map_err(|cause| BackendError::Thread { name: NAME, cause })?,
            )),
        })
    }

    /// Wakes the drain, so that it makes a pass now.
    pub(crate) fn wake(&self) {
        match self.session.own() {
            Some(writer) => writer.waker().wake(),
            None => self.session.header().wake_drain(),
        }
    }

    /// Returns a flush ticket for what was committed before.
    pub(crate) fn request_flush(&self) -> u64 {
        let ticket = self.status.request_flush();
        self.wake();
        ticket
    }

    /// Waits until what was committed before is with the kernel (C1) in all sinks. Ends early with `false` when nothing
    /// moves for five seconds.
    pub(crate) fn flush(&self) -> bool {
        self.flush_until(None)
    }

    fn flush_until(&self, until: Option<Instant>) -> bool {
        self.status
            .wait_flushed(self.request_flush(), WaitLimit::until(until))
            == Waited::Done
    }

    /// Drains what is committed, writes it with a last line, and ends the threads of drain and sinks. Waits as long as
    /// anything moves, and five seconds more, but no longer than `until`. `false`: a sink did not take all of it; `None`
    /// where it was stopped before.
    pub(crate) fn stop(&self, end: Option<(Level, &str)>, until: Option<Instant>) -> Option<bool> {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()?;
        if !self.flush_until(until) {
            self.status.abandon();
        }
        // SYNC(stop)
        self.stop.store(true, Ordering::Release);
        self.wake();
        let closed = thread.join().map(|drain| drain.close(end, until));
        let is_closed = closed.is_ok_and(|closed| closed.is_complete);
        Some(is_closed && !self.status.is_abandoned())
    }
}
