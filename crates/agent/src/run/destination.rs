//! Where the records of a command go. Everything else in this module asks only this value.

use logdrive_backend::{Backend, BackendError, BackendOptions, Stats, Stopped};
use logdrive_ring::{Session, local};
use std::ffi::OsString;
use std::sync::Arc;

/// What is known before the start.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum DestinationOptions {
    /// A backend in this process, with a session of its own.
    Embedded(BackendOptions),
}

/// A session, and whoever drains it.
#[derive(Debug)]
pub(crate) struct Destination {
    session: Arc<Session>,
    drain: Drain,
}

#[derive(Debug)]
enum Drain {
    Embedded(Backend),
}

impl Destination {
    /// Makes the session, and starts what drains it.
    pub(crate) fn start(options: &DestinationOptions) -> Result<Self, BackendError> {
        let DestinationOptions::Embedded(options) = options;
        let backend = Backend::start(options)?;
        local::start_running();
        Ok(Self {
            session: Arc::clone(backend.session()),
            drain: Drain::Embedded(backend),
        })
    }

    /// The session that readers write into.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// What the command finds in its environment, so that its own log calls come here too: nothing, as the session of
    /// one process cannot be shared.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let Drain::Embedded(_) = &self.drain;
        Vec::new()
    }

    /// Writes what is committed, as long as that goes on.
    pub(crate) fn stop(self) -> (Stopped, Stats) {
        let Drain::Embedded(backend) = &self.drain;
        local::end_generation();
        local::detach_thread();
        (backend.stop(), backend.stats())
    }
}
