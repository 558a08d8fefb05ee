//! Looks at sessions again and again: those of run directories, and those that agents hold.

use super::limits::PROCESSES_MAX;
use crate::descriptors::raise_descriptor_limit;
use crate::edit::Edit;
use crate::error::CliError;
use crate::output::safe;
use crate::session_finder::{Located, SessionFinder};
use crate::sessions::has_gone;
use crate::top::args::TopArgs;
use crate::watched_session::{Session, Sites, WatchedSession};
use logdrive_agent::AgentError;
use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Everything that was seen in one look.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    /// When, by a clock that only goes forward.
    pub(super) at_ns: u64,
    pub(super) processes: Vec<Session>,
    /// Places that could not be searched, in words.
    pub(super) troubles: Vec<String>,
}

/// Looks at sessions, again and again.
#[derive(Debug)]
pub(super) struct Source {
    finder: SessionFinder,
    /// Sessions that can be read, by their paths.
    watched: HashMap<PathBuf, WatchedSession>,
    start: Instant,
}

impl Source {
    /// Sources that the arguments name.
    pub(super) fn new(args: &TopArgs) -> Result<Self, CliError> {
        // Agents show sessions as descriptors. Where no more are allowed, fewer sessions are shown, which the screen
        // says.
        raise_descriptor_limit();
        Ok(Self {
            finder: SessionFinder::going_on(&args.run_dir, &args.socket)?,
            watched: HashMap::new(),
            start: Instant::now(),
        })
    }

    /// Places that are searched, in words.
    pub(super) fn places(&self) -> Vec<String> {
        self.finder.places()
    }

    fn at_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Looks at all processes.
    pub(super) fn look(&mut self) -> Sample {
        let at_ns = self.at_ns();
        let (mut found, troubles) = self.finder.look();
        found.truncate(PROCESSES_MAX);
        let seen: HashSet<PathBuf> = found.iter().map(|at| at.path.clone()).collect();
        self.watched.retain(|path, _| seen.contains(path));
        let look_into = |at: Located| match self.watch(at.clone()) {
            Ok(session) => Some(session.snapshot()),
            Err(error) if has_gone(&at, &error) => None,
            Err(error) => Some(Session::damaged(at, &error)),
        };
        Sample {
            at_ns,
            processes: found.into_iter().filter_map(look_into).collect(),
            troubles: troubles.iter().map(|trouble| safe(trouble)).collect(),
        }
    }

    /// Returns the open session of a place. It is opened again when it has grown beyond what was mapped.
    fn watch(&mut self, at: Located) -> Result<&WatchedSession, AgentError> {
        match self.watched.entry(at.path.clone()) {
            Entry::Occupied(mut known) if !known.get().is_behind() => {
                known.get_mut().at = at;
                Ok(known.into_mut())
            }
            place => {
                let session = WatchedSession::open_for_control(at, &mut self.finder)?;
                let session = session.with_sinks(&mut self.finder);
                Ok(place.insert_entry(session).into_mut())
            }
        }
    }

    /// Returns an open session; `None` when it has gone.
    pub(super) fn session(&self, path: &Path) -> Option<&WatchedSession> {
        self.watched.get(path)
    }

    /// Looks at the callsites of a process, and when; `None` when it has gone.
    pub(super) fn sites(&self, path: &Path) -> Option<(u64, Sites)> {
        Some((self.at_ns(), self.session(path)?.sites().ok()?))
    }

    /// Makes a change in a session; what it did, or why it could not be done.
    pub(super) fn change(&self, session: &Path, edit: &Edit) -> Result<String, String> {
        let session = self.session(session).ok_or("the process has ended")?;
        let made = edit.make(session).map_err(|error| error.to_string())?;
        Ok(made.text)
    }
}
