//! Sessions that the keeper holds: shown as they come, taken back after both an agent and processes were killed.

use super::Server;
use super::event::Event;
use super::sessions::Held;
use crate::error::AgentError;
use crate::keeper::{KeeperCommand, KeeperLine};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

impl Server {
    /// Has a keeper hold all sessions from now on, and takes over those that it has from an earlier agent: of processes
    /// that live, which will come and show them, and of those that are dead, which nobody else could show.
    pub fn keep(&mut self, command: KeeperCommand, run_dir: &Path, now: Instant) {
        let (mut line, restored, notices) = KeeperLine::start(command, run_dir, now);
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
                line.drop_session(id);
                continue;
            }
            if self.sessions.contains_key(&id) || self.claim(id, &session.memory_ids()).is_err() {
                line.drop_session(id);
                continue;
            }
            let journal = session.header().journal();
            self.hold(Held::restored(Arc::clone(&session), kept.process, now));
            self.counts.adopted += 1;
            self.events.push(Event::Adopted { session, journal });
        }
        let started = line.mend_at_start();
        self.keeper = Some(line);
        self.show_keeper(started);
    }

    /// Shows the keeper what is new of a session.
    pub(super) fn keep_session(&mut self, session: u64) {
        if let (Some(keeper), Some(held)) = (&mut self.keeper, self.sessions.get(&session)) {
            keeper.show(&held.session, held.process());
        }
    }

    /// All of a session is written: nobody needs its memory any more.
    pub fn release(&mut self, session: u64) {
        if let Some(keeper) = &mut self.keeper {
            keeper.drop_session(session);
        }
    }

    /// Starts a keeper where there is none, and shows it everything.
    pub(super) fn mend_keeper(&mut self, now: Instant) {
        if let Some(keeper) = &mut self.keeper {
            let mended = keeper.mend(now);
            self.show_keeper(mended);
        }
    }

    fn show_keeper(&mut self, mended: Result<bool, AgentError>) {
        let Some(keeper) = &mut self.keeper else { return };
        match mended {
            Ok(false) => {}
            Ok(true) => {
                for held in self.sessions.values() {
                    keeper.show(&held.session, held.process());
                }
            }
            Err(error) => self.events.push(Event::Notice(format!(
                "there is no keeper: {error}; a process that is killed together with the agent loses what is in its rings"
            ))),
        }
    }
}
