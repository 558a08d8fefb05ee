//! Holder of the descriptors of all sessions beyond the death of the agent: the service manager, where it offers a store,
//! else a keeper.

mod service_manager;

pub use service_manager::ServiceManager;

use crate::error::AgentError;
use crate::keeper::packet::Restored;
use crate::keeper::{KeeperClient, KeeperCommand};
use logdrive_ring::HostedSession;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

/// Choice of the holder.
///
/// ```
/// use logdrive_agent::{KeeperCommand, StoreOptions};
/// let keeper = KeeperCommand::new("/usr/bin/logdrive", ["keeper"]);
/// assert!(matches!(StoreOptions::from_environment(keeper), StoreOptions::Keeper(_)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreOptions {
    /// The descriptor store of the service manager.
    ServiceManager(ServiceManager),
    /// A process of its own.
    Keeper(KeeperCommand),
}

impl StoreOptions {
    /// Returns the service manager that has started this process, if it offers a store, else the keeper. To be called
    /// once, before descriptors are opened.
    pub fn from_environment(keeper: KeeperCommand) -> Self {
        match ServiceManager::from_environment() {
            Some(manager) => Self::ServiceManager(manager),
            None => Self::Keeper(keeper),
        }
    }
}

/// The holder, as the agent uses it.
#[derive(Debug)]
pub(crate) enum DescriptorStore {
    ServiceManager(ServiceManager),
    Keeper(KeeperClient),
}

impl DescriptorStore {
    /// Takes what the holder has from an earlier agent. Returns the sessions, and what is wrong with others.
    pub(crate) fn start(
        options: StoreOptions,
        run_dir: &Path,
        now: Instant,
    ) -> (Self, Vec<Restored>, Vec<String>) {
        match options {
            StoreOptions::ServiceManager(mut manager) => {
                let (restored, notices) = manager.restore();
                (Self::ServiceManager(manager), restored, notices)
            }
            StoreOptions::Keeper(command) => {
                let (client, restored, notices) = KeeperClient::start(command, run_dir, now);
                (Self::Keeper(client), restored, notices)
            }
        }
    }

    /// Stores a session, or what has come to it.
    pub(crate) fn store(&mut self, session: &HostedSession, process: Option<&OwnedFd>) {
        match self {
            Self::ServiceManager(manager) => manager.store(session, process),
            Self::Keeper(client) => client.store(session, process),
        }
    }

    /// Removes a session that is over, and all of which is written.
    pub(crate) fn remove(&mut self, session: u64) {
        match self {
            Self::ServiceManager(manager) => manager.remove(session),
            Self::Keeper(client) => client.remove(session),
        }
    }

    /// Makes sure that there is a holder; `true` when all sessions have to be stored (again).
    pub(crate) fn reconnect(&mut self, now: Instant) -> Result<bool, AgentError> {
        match self {
            Self::ServiceManager(manager) => manager.retry(),
            Self::Keeper(client) => client.reconnect(now),
        }
    }

    /// As [`DescriptorStore::reconnect`], for an agent that starts: waits a moment for a keeper.
    pub(crate) fn connect_at_start(&mut self) -> Result<bool, AgentError> {
        match self {
            Self::ServiceManager(manager) => manager.retry(),
            Self::Keeper(client) => client.connect_at_start(),
        }
    }
}
