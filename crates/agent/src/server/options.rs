//! Options and counts of a server.

use crate::config::{AgentConfig, LevelRule, Limits, Recorder};
use std::path::PathBuf;
use std::time::Duration;

/// Options of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The path of the socket.
    pub socket: PathBuf,
    /// The group of the socket; `None` for the agent's own.
    pub group: Option<u32>,
    /// The permissions of the socket.
    pub mode: u32,
    /// Connections at once.
    pub connections: u32,
    /// Longest time that a connection without a session may send nothing.
    pub idle_timeout: Duration,
    /// Names the journal of this agent's epochs.
    pub journal: u64,
    /// Limits of processes.
    pub limits: Limits,
    /// The levels that processes begin with.
    pub levels: Vec<LevelRule>,
    /// Flight recorders, whose memory counts as that of their processes.
    pub recorders: Vec<Recorder>,
}

impl ServerOptions {
    /// As a configuration says.
    pub fn of(config: &AgentConfig, journal: u64) -> Self {
        Self {
            socket: config.socket.clone(),
            group: config.group.as_ref().map(|group| group.id),
            mode: config.mode,
            connections: config.connections,
            idle_timeout: config.idle_timeout,
            journal,
            limits: config.limits.clone(),
            levels: config.levels.clone(),
            recorders: config.recorders.clone(),
        }
    }
}

/// Counts of a server since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerCounts {
    /// Connections that were taken.
    pub accepted: u64,
    /// Connections and requests that were refused in words.
    pub refused: u64,
    /// Connections that were closed because their peer was silent, slow, or not understood, or gave way to a new one.
    pub closed: u64,
    /// Sessions that were made.
    pub joined: u64,
    /// Sessions that were adopted.
    pub adopted: u64,
    /// Times that the system had no descriptor for a new connection.
    pub out_of_descriptors: u64,
    /// Descriptors of sessions that the service manager or the keeper holds now.
    pub stored_descriptors: u64,
    /// Sessions now that the store has no room for, at least not for all of them.
    pub unstored_sessions: u64,
    /// Connections now.
    pub connections: u64,
    /// Sessions now.
    pub sessions: u64,
}
