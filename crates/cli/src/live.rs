//! Live processes that a command of live control is about.

use crate::control_args::LiveArgs;
use crate::error::CliError;
use crate::output::{note, process_title, safe};
use crate::session_finder::{Located, SessionFinder, absolute};
use crate::suggestion::most_similar;
use crate::watched_session::WatchedSession;
use std::path::Path;

/// Returns the live processes that the arguments name, however long that takes.
pub(crate) fn live_sessions(args: &LiveArgs) -> Result<Vec<WatchedSession>, CliError> {
    let (search, mut live) = Search::start(args)?;
    live.extend(search.rest()?);
    Ok(live)
}

/// A search for live processes: those that are found at once come first, so that no one waits for an agent that is
/// slow and perhaps has nothing to do with it.
pub(crate) struct Search<'a> {
    name: &'a str,
    finder: SessionFinder,
    /// Whether a process was found.
    has_found: bool,
    /// No other process can match.
    is_over: bool,
    dead: Option<FoundProcess>,
    others: Vec<FoundProcess>,
}

impl<'a> Search<'a> {
    /// Begins; with those that are found at once.
    pub(crate) fn start(args: &'a LiveArgs) -> Result<(Self, Vec<WatchedSession>), CliError> {
        let mut search = Self {
            name: &args.name,
            finder: SessionFinder::of(&args.run_dir, &args.agent)?,
            has_found: false,
            is_over: false,
            dead: None,
            others: Vec::new(),
        };
        let found = match search.path() {
            None => search.finder.find_in_a_hurry()?,
            Some(path) => {
                search.finder.look_at(path);
                let mut found = search.finder.find_path(path).unwrap_or_default();
                found.retain(|at| is_same(&at.path, path));
                search.is_over = found.iter().any(Located::is_alive);
                match search.is_over {
                    true => found,
                    false => search.finder.find_in_a_hurry()?,
                }
            }
        };
        let live = search.pick(found)?;
        Ok((search, live))
    }

    /// The others, when those that were slow have answered.
    ///
    /// # Errors
    /// Also when no process matches, neither now nor before.
    pub(crate) fn rest(mut self) -> Result<Vec<WatchedSession>, CliError> {
        if self.is_over {
            return Ok(Vec::new());
        }
        let found = self.finder.find_late()?;
        let live = self.pick(found)?;
        if self.has_found {
            // It may have others who are meant.
            self.finder.late().iter().for_each(note);
            return Ok(live);
        }
        self.others.retain(|process| process.at.is_alive());
        Err(no_running_process(
            self.name,
            self.dead,
            &self.others,
            &self.finder,
        ))
    }

    fn path(&self) -> Option<&'a Path> {
        self.name.contains('/').then(|| Path::new(self.name))
    }

    /// Opens those who are meant and live, and remembers the others.
    fn pick(&mut self, found: Vec<Located>) -> Result<Vec<WatchedSession>, CliError> {
        let mut live = Vec::new();
        for at in found {
            // One that cannot be read, or has just gone, matches no name.
            let Some((app, pid)) = self.finder.owner_of(&at) else {
                continue;
            };
            let is_named = match self.path() {
                Some(path) => is_same(&at.path, path),
                None => at.is_named(self.name, &app, pid),
            };
            let process = FoundProcess { at, app, pid };
            match (is_named, process.at.is_alive()) {
                (true, true) => live.push(open(process, &mut self.finder)?),
                (true, false) => self.dead = self.dead.take().or(Some(process)),
                _ => self.others.push(process),
            }
        }
        self.has_found |= !live.is_empty();
        Ok(live)
    }
}

/// A process with a session, before that is opened.
#[derive(Debug, Clone)]
struct FoundProcess {
    at: Located,
    app: String,
    pid: u32,
}

/// Whether two paths lead to the same session, one of them perhaps with a slash or a dot more.
fn is_same(found: &Path, named: &Path) -> bool {
    absolute(found) == absolute(named)
        || (found.file_name() == named.file_name()
            && matches!((found.canonicalize(), named.canonicalize()), (Ok(found), Ok(named)) if found == named))
}

fn open(process: FoundProcess, finder: &mut SessionFinder) -> Result<WatchedSession, CliError> {
    let FoundProcess { at, app, pid } = process;
    let opened = WatchedSession::open_for_control(at, finder);
    let process = process_title(&app, pid);
    opened.map_err(|cause| CliError::Control { process, cause })
}

/// The error that no live process matches, with the names of those that live.
fn no_running_process(
    name: &str,
    dead: Option<FoundProcess>,
    alive: &[FoundProcess],
    finder: &SessionFinder,
) -> CliError {
    let apps: Vec<&str> = alive.iter().map(|process| process.app.as_str()).collect();
    let mut hint = if let Some(FoundProcess { app, pid, .. }) = dead {
        let title = process_title(&app, pid);
        format!(": {title} is dead; `logdrive recover` brings what it had logged into its log")
    } else if alive.is_empty() {
        let places = finder.text();
        format!(
            ": no program of this user logs with Logdrive in {places}; --run-dir and --agent name other places to look"
        )
    } else {
        let names: Vec<String> = alive
            .iter()
            .take(NAMES_SHOWN_MAX)
            .map(|process| format!("{} ({})", process.app, process.pid))
            .collect();
        let more = if alive.len() > names.len() { ", ..." } else { "" };
        let meant = most_similar(name, apps).map_or(String::new(), |app| format!("; did you mean {app}?"));
        format!(": alive are {}{more}{meant}", names.join(", "))
    };
    for silence in finder.silences() {
        hint.push_str(&format!("; {silence}"));
    }
    CliError::NoRunningProcess {
        name: safe(name),
        hint,
    }
}

/// Processes that an error lists.
const NAMES_SHOWN_MAX: usize = 10;
