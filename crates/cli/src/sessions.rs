//! Sessions: the facts about each, and the choice of those that somebody names.

use crate::error::CliError;
use crate::instant::now_unix_ns;
use crate::output::safe;
use crate::run_dirs::find_all;
use crate::session_args::RunDirArgs;
use crate::session_finder::{Located, SessionFinder, absolute};
use crate::suggestion::most_similar;
use logdrive_agent::AgentError;
use logdrive_drain::{RecoverableSink, Stats, sinks_from_text};
use logdrive_ring::FoundSession;
use logdrive_ring::{SessionReader, find_sessions};
use logdrive_wire::agent::{RefusedCode, SessionEntry};
use std::path::{Path, PathBuf};

/// Whether a session's process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Its process logs.
    Alive,
    /// Its process is gone, and what it logged waits to be recovered.
    Dead,
    /// It cannot be read.
    Damaged,
}

/// Facts about a session.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its directory; or its number below the socket of its agent.
    pub(crate) path: PathBuf,
    /// Entry in its agent's list, for a session that an agent has.
    pub(crate) entry: Option<SessionEntry>,
    pub(crate) state: State,
    pub(crate) app: String,
    pub(crate) pid: u32,
    /// When the process began to log; 0 where that is not known.
    pub(crate) start_unix_ns: u64,
    /// The signal that ended the process, where it could note it.
    pub(crate) signal: Option<u32>,
    pub(crate) panics: u32,
    pub(crate) stats: Stats,
    pub(crate) sinks: Vec<RecoverableSink>,
    /// Why it cannot be read.
    pub(crate) damage: Option<AgentError>,
}

impl Session {
    /// Looks at a session; `None` when it has gone, because its process has just ended well.
    fn read(found: FoundSession) -> Option<Self> {
        let located = Located::from(found);
        match SessionReader::open(&located.path) {
            Ok(view) => {
                let config = view.buffers().map(|buffers| buffers.config()).unwrap_or_default();
                let sinks = sinks_from_text(&String::from_utf8_lossy(&config));
                Some(Self::of_view(located, &view, sinks))
            }
            Err(_) if !located.path.join("session").exists() => None,
            Err(error) => Some(Self::damaged(located, error.into())),
        }
    }

    /// Looks at a session that an agent has; `None` when it has gone.
    fn ask(located: Located, finder: &mut SessionFinder) -> Option<Self> {
        match finder.view(&located) {
            Ok(view) => {
                // Where they are not told, there is nothing to be said of them.
                let sinks = finder.sinks(&located, false).unwrap_or_default();
                Some(Self::of_view(located, &view, sinks))
            }
            Err(AgentError::Refused {
                code: RefusedCode::UnknownSession,
                ..
            }) => None,
            Err(error) => Some(Self::damaged(located, error)),
        }
    }

    fn of_view(located: Located, view: &SessionReader, sinks: Vec<RecoverableSink>) -> Self {
        let header = view.header();
        // What an agent knows from the kernel counts more than what the process has written.
        let entry = located.entry.as_ref();
        Self {
            state: if located.is_alive() {
                State::Alive
            } else {
                State::Dead
            },
            app: safe(&entry.map_or_else(|| header.app(), |entry| entry.app.clone())),
            pid: entry.map_or_else(|| header.pid(), |entry| entry.pid),
            start_unix_ns: header.start_unix_ns(),
            signal: header.end().signal.map(|(signal, _, _)| signal),
            panics: header.end().panics,
            stats: Stats::of_view(view),
            sinks,
            damage: None,
            path: located.path,
            entry: located.entry,
        }
    }

    fn damaged(located: Located, error: AgentError) -> Self {
        let name = located
            .path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        // A session's directory is named APP-PID-NUMBER.
        let mut parts = name.rsplitn(3, '-').skip(1);
        let pid = parts.next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
        let app = parts.next().unwrap_or(&name);
        let entry = located.entry.as_ref();
        Self {
            state: State::Damaged,
            app: safe(entry.map_or(app, |entry| &entry.app)),
            pid: entry.map_or(pid, |entry| entry.pid),
            start_unix_ns: 0,
            signal: None,
            panics: 0,
            stats: Stats::default(),
            sinks: Vec::new(),
            damage: Some(error),
            path: located.path,
            entry: located.entry,
        }
    }

    /// The socket of the agent that has it.
    pub(crate) fn agent(&self) -> Option<&Path> {
        self.entry.as_ref().and_then(|_| self.path.parent())
    }

    /// Seconds since the process began to log; `None` where that is not known.
    pub(crate) fn age_seconds(&self) -> Option<u64> {
        (self.start_unix_ns != 0).then(|| now_unix_ns().saturating_sub(self.start_unix_ns) / 1_000_000_000)
    }

    /// The files that it logs to.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.sinks
            .iter()
            .filter_map(|sink| Some(sink.file.as_ref()?.path.clone()))
            .collect()
    }

    fn is_named(&self, name: &str) -> bool {
        let directory = self.path.file_name().is_some_and(|directory| directory == name);
        let is_path = self.path == absolute(Path::new(name));
        self.app == name || directory || is_path || name.parse() == Ok(self.pid)
    }
}

/// All sessions of these directories.
pub(crate) fn find(dirs: &[PathBuf]) -> Result<Vec<Session>, CliError> {
    Ok(find_all(dirs)?.into_iter().filter_map(Session::read).collect())
}

/// All sessions of these places.
pub(crate) fn find_everywhere(finder: &mut SessionFinder) -> Result<Vec<Session>, CliError> {
    let found = finder.find()?.into_iter();
    let read = |located: Located| match located.entry {
        None => Session::read(FoundSession {
            path: located.path,
            holder: located.holder,
        }),
        Some(_) => Session::ask(located, finder),
    };
    Ok(found.filter_map(read).collect())
}

/// The sessions that the names mean: applications, process ids, names of session directories or paths to them.
pub(crate) fn select(sessions: Vec<Session>, names: &[String]) -> Result<Vec<Session>, CliError> {
    if names.is_empty() {
        return Ok(sessions);
    }
    let mut known = sessions;
    let mut selected: Vec<Session> = Vec::new();
    for name in names {
        let is_of_agent =
            |session: &Session| session.agent().is_some() && session.path == absolute(Path::new(name));
        if is_path(name) && !known.iter().any(is_of_agent) {
            selected.push(at_path(Path::new(name))?);
            continue;
        }
        let (named, others): (Vec<Session>, Vec<Session>) =
            known.into_iter().partition(|session| session.is_named(name));
        known = others;
        if named.is_empty() && !selected.iter().any(|session| session.is_named(name)) {
            return Err(unknown(name, &known, &selected));
        }
        selected.extend(named);
    }
    Ok(selected)
}

fn is_path(name: &str) -> bool {
    name.contains('/') || Path::new(name).join("session").exists()
}

/// The session at a path.
fn at_path(path: &Path) -> Result<Session, CliError> {
    let unknown = |hint: &str| CliError::UnknownSession {
        name: path.display().to_string(),
        hint: hint.to_owned(),
    };
    if !path.join("session").exists() {
        return Err(unknown(if path.is_dir() {
            ": the directory is none itself; to look for sessions in it, name it with --run-dir"
        } else {
            ": there is no such directory; `logdrive ps` lists the sessions there are"
        }));
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let sessions = find_sessions(parent).map_err(|cause| CliError::RunDir {
        path: parent.to_owned(),
        cause,
    })?;
    let found = sessions
        .into_iter()
        .find(|found| found.path.file_name() == path.file_name());
    found
        .and_then(Session::read)
        .ok_or_else(|| unknown(": it has just ended; `logdrive ps` lists those there are"))
}

fn unknown(name: &str, known: &[Session], selected: &[Session]) -> CliError {
    let apps: Vec<&str> = known
        .iter()
        .chain(selected)
        .map(|session| session.app.as_str())
        .collect();
    let hint = match most_similar(name, apps.iter().copied()) {
        Some(similar) => format!("; did you mean {similar}?"),
        None if apps.is_empty() => {
            ": there are no sessions at all; --run-dir names another place to look".to_owned()
        }
        None => "; `logdrive ps` lists those there are, --run-dir names another place to look".to_owned(),
    };
    CliError::UnknownSession {
        name: name.to_owned(),
        hint,
    }
}

/// `logdrive recover`, with the options that make it look into the same directories.
pub(crate) fn recover_command(args: &RunDirArgs, what: &str) -> String {
    let dirs = args
        .run_dir
        .iter()
        .map(|dir| format!(" --run-dir {}", dir.display()));
    format!("logdrive recover{what}{}", dirs.collect::<String>())
}
