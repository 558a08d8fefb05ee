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
    /// With the keeper of an earlier agent, which had no store, until all that it holds is stored.
    ServiceManager(ServiceManager, Option<KeeperClient>),
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
                let (mut restored, mut notices) = manager.restore();
                let (keeper, kept, kept_notices) = KeeperClient::start(None, run_dir, now);
                restored.extend(kept.into_iter().filter(|kept| !manager.has(kept.session.id())));
                notices.extend(kept_notices);
                let keeper = Some(keeper).filter(KeeperClient::is_connected);
                (Self::ServiceManager(manager, keeper), restored, notices)
            }
            StoreOptions::Keeper(command) => {
                let (client, restored, notices) = KeeperClient::start(Some(command), run_dir, now);
                (Self::Keeper(client), restored, notices)
            }
        }
    }

    /// Stores a session, or what has come to it.
    pub(crate) fn store(&mut self, session: &HostedSession, process: Option<&OwnedFd>) {
        match self {
            Self::ServiceManager(manager, _) => manager.store(session, process),
            Self::Keeper(client) => client.store(session, process),
        }
    }

    /// Removes a session that is over, and all of which is written.
    pub(crate) fn remove(&mut self, session: u64) {
        match self {
            Self::ServiceManager(manager, keeper) => {
                manager.remove(session);
                if let Some(keeper) = keeper {
                    keeper.remove(session);
                }
            }
            Self::Keeper(client) => client.remove(session),
        }
    }

    /// Makes sure that there is a holder; `true` when all sessions have to be stored (again).
    ///
    /// # Errors
    /// Fails with a notice for the log, once, while sessions are not held.
    pub(crate) fn reconnect(&mut self, now: Instant) -> Result<bool, String> {
        match self {
            Self::ServiceManager(manager, keeper) => {
                if let Some(client) = keeper {
                    client.remove_all(|session| manager.has(session));
                    // With nothing to hold and no agent it ends.
                    *keeper = keeper.take().filter(|client| client.counts() > 0);
                }
                manager.retry()
            }
            Self::Keeper(client) => client.reconnect(now).map_err(|error| nobody_holds(&error)),
        }
    }

    /// As [`DescriptorStore::reconnect`], for an agent that starts: waits a moment for a keeper.
    pub(crate) fn connect_at_start(&mut self) -> Result<bool, String> {
        match self {
            Self::ServiceManager(manager, keeper) => Ok(manager.retry()? || keeper.is_some()),
            Self::Keeper(client) => client.connect_at_start().map_err(|error| nobody_holds(&error)),
        }
    }

    /// Returns the descriptors that are held, and the sessions for which there is no room.
    pub(crate) fn counts(&self) -> (u64, u64) {
        match self {
            Self::ServiceManager(manager, _) => manager.counts(),
            Self::Keeper(client) => (client.counts(), 0),
        }
    }
}

fn nobody_holds(error: &AgentError) -> String {
    format!(
        "nobody holds the memory of sessions: {error}; a process that is killed together with the agent loses what is in its rings"
    )
}
