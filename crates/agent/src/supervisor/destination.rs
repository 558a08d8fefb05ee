//! Destination of a command's records. Everything else in this module asks only this value.

use super::private_agent::PrivateAgent;
use crate::capture::stream::OutputTimeout;
use logdrive_drain::{Backend, BackendError, BackendOptions, Stats, Stopped};
use logdrive_ring::control::OFF_COUNTED;
use logdrive_ring::{SessionWriter, local};
use logdrive_wire::{Callsite, Level};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Variable with the socket of a program's agent.
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

/// A session, and its drain.
#[derive(Debug)]
pub(crate) struct Destination {
    backend: Arc<Backend>,
    private_agent: Option<PrivateAgent>,
}

impl Destination {
    /// Makes the session, and starts what drains it. Records of other processes below the level are left out.
    pub(crate) fn start(options: &DestinationOptions, min_level: Level) -> Result<Self, BackendError> {
        let (backend, private_agent) = match options {
            DestinationOptions::Embedded(options) => (Arc::new(Backend::start(options)?), None),
            DestinationOptions::PrivateAgent(options) => {
                let route = move |_: &_, callsite: &Callsite| {
                    if callsite.level >= min_level { u32::MAX } else { 0 }
                };
                let backend = Arc::new(Backend::start_multi_session(options, route)?);
                let private_agent = PrivateAgent::start(&backend)?;
                (backend, private_agent)
            }
        };
        // What a rule switches off later is counted as what a level left out from the start.
        backend.session().rules().set_off_control(OFF_COUNTED);
        local::start_running();
        Ok(Self {
            backend,
            private_agent,
        })
    }

    /// The session that readers write into.
    pub(crate) fn session(&self) -> &Arc<SessionWriter> {
        self.backend.session()
    }

    /// Variables that the command gets in its environment, so that its own log calls come here too.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let socket = self.private_agent.as_ref().map(PrivateAgent::socket);
        let pair = socket.map(|socket| (VARIABLE.into(), socket.as_os_str().to_owned()));
        pair.into_iter().collect()
    }

    /// Returns whether all processes that log here are over, so far as they are waited for. To be asked once the
    /// command has ended; the bell rings when it may have become true.
    pub(crate) fn has_finished(&self, timeout: OutputTimeout, bell: &Arc<OwnedFd>) -> bool {
        let private_agent = self.private_agent.as_ref();
        private_agent.is_none_or(|private_agent| private_agent.has_finished(timeout, bell))
    }

    /// Processes that log here are not waited for any longer.
    pub(crate) fn abandon(&self) {
        if let Some(private_agent) = &self.private_agent {
            private_agent.abandon();
        }
    }

    /// Writes what is committed, as long as that goes on.
    pub(crate) fn stop(self) -> (Stopped, Stats) {
        local::end_generation();
        local::detach_thread();
        if let Some(private_agent) = self.private_agent {
            private_agent.end();
        }
        (self.backend.stop(), self.backend.stats())
    }
}
