//! Arguments for the places in which sessions are searched.

use clap::Args;
use std::path::PathBuf;

/// Directories in which sessions are looked for.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunDirArgs {
    /// Look for sessions there instead of in the default run directory; may be given several times
    ///
    /// Default: /dev/shm/logdrive-UID, and .logdrive in the current directory. Where shared memory cannot be used,
    /// a program keeps its session in .logdrive beside its log: name that directory, or the one that holds it.
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Vec<PathBuf>,
}

/// Agent that is asked for its sessions.
#[derive(Debug, Clone, Args)]
pub(crate) struct AgentAt {
    /// Ask the agent at this socket, instead of the usual ones; off for none
    ///
    /// Default: the agent that LOGDRIVE_AGENT names, or else the agents of the machine (/run/logdrive/agent.sock) and of
    /// this user (below $XDG_RUNTIME_DIR). Where only --agent or only --run-dir is given, only that place is looked at.
    /// An agent shows the sessions of one's own processes; those of all to root and to its own user.
    #[arg(long = "agent", value_name = "SOCKET")]
    pub(crate) agent: Option<PathBuf>,
}
