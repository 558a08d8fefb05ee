//! The threads of a server, all of which are waited for at its end.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Threads that were started, without those that have ended.
#[derive(Debug, Default)]
pub(crate) struct ThreadGroup {
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ThreadGroup {
    fn lock(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        // Whole handles go in and out.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread.
    pub(crate) fn spawn(
        &self,
        name: impl Into<String>,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        let mut threads = self.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    /// Waits for all threads, those too that others start meanwhile.
    pub(crate) fn join(&self) {
        loop {
            let Some(thread) = self.lock().pop() else { return };
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}
