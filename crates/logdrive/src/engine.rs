//! The drain of this process's session: a backend of its own, or an agent.

use crate::config::Config;
use logdrive_drain::{Backend, BackendError, Stats, Stopped};
use logdrive_ring::SessionWriter;
use std::sync::Arc;

#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::agent::AgentSession;

/// A running drain, here or elsewhere.
#[derive(Debug)]
pub(crate) enum Engine {
    /// A backend in this process.
    Own(Backend),
    /// An agent, over a connection.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Agent(AgentSession),
}

impl Engine {
    /// Joins the agent that is configured; where that cannot be, starts a backend, which says why in the log.
    pub(crate) fn start(config: &Config) -> Result<Self, BackendError> {
        let Some(socket) = &config.agent else {
            return Ok(Self::Own(Backend::start(&config.backend)?));
        };
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let why = match AgentSession::start(socket, config) {
            Ok(session) => return Ok(Self::Agent(session)),
            Err(why) => why.to_string(),
        };
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let why = format!(
            "there are no agents on this system, so that {} cannot be one",
            socket.display()
        );
        let backend = Backend::start(&config.backend)?;
        backend.notice(format!("{why}; so this process writes its log itself"));
        Ok(Self::Own(backend))
    }

    pub(crate) fn session(&self) -> &Arc<SessionWriter> {
        match self {
            Self::Own(backend) => backend.session(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Agent(session) => session.session(),
        }
    }

    /// The session's directory; a session of an agent has none.
    pub(crate) fn session_path(&self) -> Option<std::path::PathBuf> {
        match self {
            Self::Own(backend) => Some(backend.session().path().to_owned()),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Agent(_) => None,
        }
    }

    pub(crate) fn flush(&self) -> bool {
        match self {
            Self::Own(backend) => backend.flush(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Agent(session) => session.flush(false),
        }
    }

    #[cfg(all(feature = "ship", target_os = "linux"))]
    pub(crate) fn deliver(&self, timeout: std::time::Duration) -> bool {
        match self {
            Self::Own(backend) => backend.deliver(timeout),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Agent(session) => session.flush(false),
        }
    }

    #[cfg(all(feature = "ship", target_os = "linux"))]
    pub(crate) fn shipping(&self) -> Vec<(usize, logdrive_drain::ship::ForwardState)> {
        match self {
            Self::Own(backend) => backend.shipping(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Agent(_) => Vec::new(),
        }
    }

    pub(crate) fn dump(&self, span: Option<std::time::Duration>) -> bool {
        match self {
            Self::Own(backend) => backend.dump(span),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Agent(session) => session.dump(span),
        }
    }

    pub(crate) fn sync(&self) -> bool {
        match self {
            Self::Own(backend) => backend.sync(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Agent(session) => session.flush(true),
        }
    }

    pub(crate) fn reopen(&self) {
        match self {
            Self::Own(backend) => backend.reopen(),
            // The files are the agent's, and so is what happens to them.
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Agent(_) => {}
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        match self {
            Self::Own(backend) => backend.stats(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Agent(session) => session.stats(),
        }
    }

    pub(crate) fn stop(&self) -> Stopped {
        match self {
            Self::Own(backend) => backend.stop(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Agent(session) => session.stop(),
        }
    }
}
