//! Sessions in the descriptor store: stored as they come, taken back after both an agent and processes were killed.

use super::Server;
use super::event::Event;
use super::sessions::ServedSession;
use crate::descriptor_store::{DescriptorStore, StoreOptions};
use crate::error::AgentError;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

impl Server {
    /// Has a store hold all sessions from now on, and takes over those that it has from an earlier agent: of processes
    /// that live, which will come and show them, and of those that are dead, which nobody else could show.
    pub fn keep(&mut self, options: StoreOptions, run_dir: &Path, now: Instant) {
        let (mut store, restored, notices) = DescriptorStore::start(options, run_dir, now);
        self.events.extend(notices.into_iter().map(Event::Notice));
        for kept in restored {
            let id = kept.session.id();
            let session = Arc::new(kept.session);
            if session.header().is_spilled() {
                self.events.push(Event::Notice(format!(
                    "process {} of {} has written its session to files, because there was no agent: `logdrive recover` \
                     brings its records into its own log",
                    session.peer().pid,
                    session.app()
                )));
                store.remove(id);
                continue;
            }
            if self.sessions.contains_key(&id) || self.claim(id, &session.memory_ids()).is_err() {
                store.remove(id);
                continue;
            }
            let journal = session.header().journal();
            self.insert_session(ServedSession::restored(Arc::clone(&session), kept.process, now));
            self.counts.adopted += 1;
            self.events.push(Event::Adopted { session, journal });
        }
        let started = store.connect_at_start();
        self.store = Some(store);
        self.store_all(started);
    }

    /// Stores what is new of a session.
    pub(super) fn store_session(&mut self, session: u64) {
        if let (Some(store), Some(served)) = (&mut self.store, self.sessions.get(&session)) {
            store.store(&served.session, served.process());
        }
    }

    /// All of a session is written: nobody needs its memory any more.
    pub fn release(&mut self, session: u64) {
        if let Some(store) = &mut self.store {
            store.remove(session);
        }
    }

    /// Stores everything again where the store has lost it.
    pub(super) fn retry_store(&mut self, now: Instant) {
        if let Some(store) = &mut self.store {
            let connected = store.reconnect(now);
            self.store_all(connected);
        }
    }

    fn store_all(&mut self, connected: Result<bool, AgentError>) {
        let Some(store) = &mut self.store else { return };
        match connected {
            Ok(false) => {}
            Ok(true) => {
                for served in self.sessions.values() {
                    store.store(&served.session, served.process());
                }
            }
            Err(error) => self.events.push(Event::Notice(format!(
                "nobody holds the memory of sessions: {error}; a process that is killed together with the agent loses what is in its rings"
            ))),
        }
    }
}
