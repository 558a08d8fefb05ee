//! Configuration of the running logger, as the builder has put it together.

use logdrive_drain::{BackendOptions, Filter};
use logdrive_ring::FullPolicy;

/// All that a start needs, kept for children of `fork`.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) backend: BackendOptions,
    /// The socket of the agent that is to drain the session.
    pub(crate) agent: Option<std::path::PathBuf>,
    pub(crate) filter: Filter,
    pub(crate) full: FullPolicy,
    pub(crate) note_signals: bool,
    pub(crate) count_disabled: bool,
}
