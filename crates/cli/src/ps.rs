//! `logdrive ps`: which programs log, and what dead ones left.

use crate::args::PsArgs;
use crate::error::CliError;
use crate::instant::age_text;
use crate::output::{Output, note, put_json};
use crate::paint::{ColorChoice, Paint, Style};
use crate::session_finder::SessionFinder;
use crate::sessions::{read, recover_command, state_cell};
use crate::table::{Side, Table, count_text};
use crate::watched_session::{Session, State};
use logdrive_reader::iso_text;
use logdrive_wire::agent::SessionState;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A session as JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    app: &'a str,
    pid: u32,
    state: State,
    started: Option<String>,
    age_s: Option<u64>,
    rings: u32,
    rings_in_use: u32,
    callsites: u32,
    committed: u64,
    dropped: u64,
    pending: u64,
    files: Vec<PathBuf>,
    path: &'a Path,
    /// The socket of the agent that has the session.
    agent: Option<&'a Path>,
    /// Its number there, and the process's user.
    session: Option<u64>,
    uid: Option<u32>,
    connected: Option<bool>,
    damage: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn new(session: &'a Session) -> Self {
        let (stats, entry) = (&session.stats, session.at.entry.as_ref());
        Self {
            app: &session.app,
            pid: session.pid,
            state: session.state,
            started: (session.start_unix_ns != 0).then(|| iso_text(session.start_unix_ns)),
            age_s: session.age_seconds(),
            rings: stats.rings.0,
            rings_in_use: stats.rings.1,
            callsites: stats.callsites,
            committed: stats.committed,
            dropped: session.dropped(),
            pending: stats.pending(),
            files: session.files(),
            path: &session.at.path,
            agent: session.at.agent(),
            session: entry.map(|entry| entry.session),
            uid: entry.map(|entry| entry.uid),
            connected: entry.map(|entry| entry.state == SessionState::Connected),
            damage: session.damage.as_deref(),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &PsArgs, color: ColorChoice) -> Result<(), CliError> {
    let mut finder = SessionFinder::of(&args.run_dir, &args.agent)?;
    let sessions = read(finder.find()?, &mut finder);
    for silence in finder.silences() {
        note(&silence);
    }
    let mut output = Output::stdout()?;
    if args.json {
        for session in &sessions {
            put_json(&mut output, &Line::new(session))?;
        }
        return Ok(output.flush()?);
    }
    if sessions.is_empty() {
        note(format!(
            "no sessions in {}: no program of this user logs with Logdrive there",
            finder.text()
        ));
        return Ok(());
    }
    output.write_all(table_of(&sessions).text(color.for_stdout()).as_bytes())?;
    output.flush()?;
    advise(args, &sessions, color.for_stderr());
    Ok(())
}

fn table_of(sessions: &[Session]) -> Table {
    let mut table = Table::new([
        ("APP", Side::Left),
        ("PID", Side::Right),
        ("STATE", Side::Left),
        ("AGE", Side::Right),
        ("RINGS", Side::Right),
        ("CALLSITES", Side::Right),
        ("COMMITTED", Side::Right),
        ("DROPPED", Side::Right),
        ("PENDING", Side::Right),
        ("PATH", Side::Left),
    ]);
    for session in sessions {
        let stats = &session.stats;
        let is_known = session.state != State::Damaged;
        let number = |text: String| if is_known { text } else { "-".to_owned() };
        let dropped = session.dropped();
        table.push([
            (Style::Title, session.app.clone()),
            (Style::Plain, session.pid.to_string()),
            state_cell(session.state),
            (
                Style::Plain,
                session.age_seconds().map_or("-".to_owned(), age_text),
            ),
            (
                Style::Plain,
                number(format!("{}/{}", stats.rings.1, stats.rings.0)),
            ),
            (Style::Plain, number(stats.callsites.to_string())),
            (Style::Plain, number(count_text(stats.committed))),
            (
                if dropped > 0 { Style::Warning } else { Style::Plain },
                number(count_text(dropped)),
            ),
            (Style::Plain, number(count_text(stats.pending()))),
            (Style::Dim, session.at.path.display().to_string()),
        ]);
    }
    table
}

fn advise(args: &PsArgs, sessions: &[Session], paint: Paint) {
    let dead = sessions
        .iter()
        .filter(|session| session.state == State::Dead)
        .count();
    if dead > 0 {
        let command = paint.the(Style::Key, recover_command(&args.run_dir, ""));
        note(format!("{dead} dead: what they had logged waits for {command}"));
    }
    for session in sessions {
        if let Some(damage) = &session.damage {
            note(format!("{}: {damage}", session.at.path.display()));
        }
    }
}
