//! Destination of a command's records. Everything else in this module asks only this value.

use super::private_agent::PrivateAgent;
use crate::capture::stream::OutputTimeout;
use logdrive_drain::{Backend, BackendError, BackendOptions, Stats, Stopped};
use logdrive_ring::control::OFF_COUNTED;
use logdrive_ring::{SessionWriter, local};
use logdrive_wire::Level;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Variable that tells programs the socket of their agent.
const VARIABLE: &str = "LOGDRIVE_AGENT";

/// Options that are known before the start.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum DestinationOptions {
    /// A backend in this process, with a session of its own. Programs that log with Logdrive log for themselves.
    Embedded(BackendOptions),
    /// The same, with a private agent: programs of the command that log with Logdrive find it in their environment, and
    /// their records come into the same log.
    PrivateAgent(BackendOptions),
}

/// A session, and whoever drains it.
#[derive(Debug)]
pub(crate) struct Destination {
    session: Arc<SessionWriter>,
    drain: Drain,
}

#[derive(Debug)]
enum Drain {
    Embedded(Backend),
    PrivateAgent(PrivateAgent),
}

impl Destination {
    /// Makes the session, and starts what drains it. Records of other processes below the level are left out.
    pub(crate) fn start(options: &DestinationOptions, min_level: Level) -> Result<Self, BackendError> {
        let drain = match options {
            DestinationOptions::Embedded(options) => Drain::Embedded(Backend::start(options)?),
            DestinationOptions::PrivateAgent(options) => {
                Drain::PrivateAgent(PrivateAgent::start(options, min_level)?)
            }
        };
        // What a rule switches off later is counted as what a level left out from the start.
        drain.backend().session().rules().set_off_control(OFF_COUNTED);
        local::start_running();
        Ok(Self {
            session: Arc::clone(drain.backend().session()),
            drain,
        })
    }

    /// The session that readers write into.
    pub(crate) fn session(&self) -> &Arc<SessionWriter> {
        &self.session
    }

    /// Variables that the command gets in its environment, so that its own log calls come here too.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let socket = match &self.drain {
            Drain::Embedded(_) => None,
            Drain::PrivateAgent(private) => private.socket(),
        };
        let pair = socket.map(|socket| (VARIABLE.into(), socket.as_os_str().to_owned()));
        pair.into_iter().collect()
    }

    /// Returns whether all processes that log here are over, so far as they are waited for. To be asked once the command has
    /// ended; the bell rings when it may have become true.
    pub(crate) fn has_finished(&self, timeout: OutputTimeout, bell: &Arc<OwnedFd>) -> bool {
        match &self.drain {
            Drain::Embedded(_) => true,
            Drain::PrivateAgent(private) => private.has_finished(timeout, bell),
        }
    }

    /// Processes that log here are not waited for any longer.
    pub(crate) fn abandon(&self) {
        if let Drain::PrivateAgent(private) = &self.drain {
            private.abandon();
        }
    }

    /// Writes what is committed, as long as that goes on.
    pub(crate) fn stop(mut self) -> (Stopped, Stats) {
        local::end_generation();
        local::detach_thread();
        if let Drain::PrivateAgent(private) = &mut self.drain {
            private.end_server();
        }
        let backend = self.drain.backend();
        (backend.stop(), backend.stats())
    }
}

impl Drain {
    fn backend(&self) -> &Backend {
        match self {
            Self::Embedded(backend) => backend,
            Self::PrivateAgent(private) => private.backend(),
        }
    }
}
