//! The list of sessions, and the choice of those that the user names.

use crate::error::CliError;
use crate::paint::Style;
use crate::session_args::RunDirArgs;
use crate::session_finder::{Located, SessionFinder, absolute};
use crate::suggestion::most_similar;
use crate::watched_session::{Session, State, WatchedSession};
use logdrive_agent::AgentError;
use logdrive_wire::agent::RefusedCode;
use std::path::Path;

/// Returns the facts about sessions that were found. Those that have gone meanwhile, because their processes have ended
/// well, are left out.
pub(crate) fn read(found: Vec<Located>, finder: &mut SessionFinder) -> Vec<Session> {
    let found = found.into_iter();
    let read = |at: Located| match WatchedSession::open(at.clone(), finder) {
        Ok(session) => Some(session.with_sinks(finder).snapshot()),
        Err(error) if has_gone(&at, &error) => None,
        Err(error) => Some(Session::damaged(at, &error)),
    };
    found.filter_map(read).collect()
}

/// Whether a session cannot be opened because it is no more.
pub(crate) fn has_gone(at: &Located, error: &AgentError) -> bool {
    match at.entry {
        None => !at.path.join("session").exists(),
        Some(_) => matches!(
            error,
            AgentError::Refused {
                code: RefusedCode::UnknownSession,
                ..
            }
        ),
    }
}

/// A state in its colour.
pub(crate) fn state_cell(state: State) -> (Style, String) {
    let style = match state {
        State::Alive => Style::Good,
        State::Away | State::Dead => Style::Warning,
        State::Damaged => Style::Bad,
    };
    (style, state.name().to_owned())
}

/// The sessions that the names mean: applications, process ids, names of session directories or paths to them.
pub(crate) fn select(
    sessions: Vec<Session>,
    names: &[String],
    finder: &mut SessionFinder,
) -> Result<Vec<Session>, CliError> {
    if names.is_empty() {
        return Ok(sessions);
    }
    let mut known = sessions;
    let mut selected: Vec<Session> = Vec::new();
    for name in names {
        let is_of_agent =
            |session: &Session| session.at.entry.is_some() && session.at.path == absolute(Path::new(name));
        if is_path(name) && !known.iter().any(is_of_agent) {
            selected.push(at_path(Path::new(name), finder)?);
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
fn at_path(path: &Path, finder: &mut SessionFinder) -> Result<Session, CliError> {
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
    let mut found = finder.find_path(path)?;
    found.retain(|found| found.path.file_name() == path.file_name());
    let mut sessions = read(found, finder).into_iter();
    sessions
        .next()
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
