//! Configuration of the running logger, as the builder has put it together.

use logdrive_drain::{BackendOptions, Filter};
use logdrive_ring::FullPolicy;

/// All that a start needs, kept for children of `fork`.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) backend: BackendOptions,
    /// The socket of the agent that is to drain the session.
    pub(crate) agent: Option<std::path::PathBuf>,
    /// Longest wait of a start for the agent.
    #[cfg_attr(
        not(any(target_os = "linux", target_os = "android")),
        allow(dead_code, reason = "there are no agents")
    )]
    pub(crate) agent_timeout: std::time::Duration,
    pub(crate) filter: Filter,
    pub(crate) full: FullPolicy,
    pub(crate) note_signals: bool,
    pub(crate) count_disabled: bool,
    /// First lines of the log: parts of `LOGDRIVE` that cannot be read.
    pub(crate) notices: Vec<String>,
    /// First line on a terminal that shows the log.
    pub(crate) first_line: Option<String>,
    /// Time that an ordinary end may take; zero where such ends are not taken.
    pub(crate) shutdown_timeout: std::time::Duration,
}
