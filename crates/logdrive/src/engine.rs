//! The drain of this process's session: a backend of its own, or an agent.

#[cfg(all(feature = "ship", target_os = "linux"))]
use logdrive_drain::ship::ForwardState;
use logdrive_drain::{Backend, Stats, Stopped};
use logdrive_ring::SessionWriter;
use logdrive_wire::Level;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A running drain, here or elsewhere. What it waits for is described where a program asks for it, in the crate's root.
pub(crate) trait Engine: std::fmt::Debug + Send + Sync {
    fn session(&self) -> &Arc<SessionWriter>;

    /// The session's directory; a session of an agent has none.
    fn session_path(&self) -> Option<PathBuf> {
        None
    }

    /// Waits until what was committed is with the kernel, or `durable`, on disk.
    fn flush(&self, durable: bool) -> bool;

    fn dump(&self, span: Option<Duration>) -> bool;

    #[cfg(all(feature = "ship", target_os = "linux"))]
    fn deliver(&self, _timeout: Duration) -> bool {
        self.flush(false)
    }

    #[cfg(all(feature = "ship", target_os = "linux"))]
    fn shipping(&self) -> Vec<(usize, ForwardState)> {
        Vec::new()
    }

    /// Opens files anew. Those of an agent are the agent's, and so is what happens to them.
    fn reopen(&self) {}

    fn stats(&self) -> Stats;

    /// Drains what is committed and ends, with a last line; at the latest at the given moment.
    fn stop(&self, until: Option<Instant>, end: Option<(Level, &str)>) -> Stopped;

    /// Returns whether this process has to drain what is committed; otherwise an agent does that when it has died.
    fn is_own(&self) -> bool;

    /// As [`Engine::stop`], where the process is about to die of a crash.
    fn stop_crashed(&self, until: Instant, end: (Level, &str)) -> Stopped {
        self.stop(Some(until), Some(end))
    }
}

impl Engine for Backend {
    fn session(&self) -> &Arc<SessionWriter> {
        self.session()
    }

    fn session_path(&self) -> Option<PathBuf> {
        let session = self.session();
        session.is_found().then(|| session.path().to_owned())
    }

    fn flush(&self, durable: bool) -> bool {
        if durable { self.sync() } else { self.flush() }
    }

    fn dump(&self, span: Option<Duration>) -> bool {
        self.dump(span)
    }

    #[cfg(all(feature = "ship", target_os = "linux"))]
    fn deliver(&self, timeout: Duration) -> bool {
        self.deliver(timeout)
    }

    #[cfg(all(feature = "ship", target_os = "linux"))]
    fn shipping(&self) -> Vec<(usize, ForwardState)> {
        self.shipping()
    }

    fn reopen(&self) {
        self.reopen();
    }

    fn stats(&self) -> Stats {
        self.stats()
    }

    fn stop(&self, until: Option<Instant>, end: Option<(Level, &str)>) -> Stopped {
        self.stop_until(until, end)
    }

    fn is_own(&self) -> bool {
        true
    }

    fn stop_crashed(&self, until: Instant, end: (Level, &str)) -> Stopped {
        self.stop_crashed(until, end)
    }
}
