//! `logdrive ps`: which programs log, and what dead ones left.

use crate::args::PsArgs;
use crate::error::CliError;
use crate::instant::age_text;
use crate::output::{Output, note, put_json};
use crate::paint::{ColorChoice, Paint, Style};
use crate::session_finder::SessionFinder;
use crate::sessions::{Session, State, find_everywhere, recover_command};
use crate::table::{Side, Table, count_text};
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
    damage: Option<String>,
}

impl<'a> Line<'a> {
    fn new(session: &'a Session) -> Self {
        let stats = &session.stats;
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
            dropped: dropped(session),
            pending: stats.pending(),
            files: session.files(),
            path: &session.path,
            agent: session.agent(),
            session: session.entry.as_ref().map(|entry| entry.session),
            uid: session.entry.as_ref().map(|entry| entry.uid),
            connected: session
                .entry
                .as_ref()
                .map(|entry| entry.state == SessionState::Connected),
            damage: session.damage.as_ref().map(ToString::to_string),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &PsArgs, color: ColorChoice) -> Result<(), CliError> {
    let mut finder = SessionFinder::of(&args.run_dir, &args.agent)?;
    let sessions = find_everywhere(&mut finder)?;
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

/// Calls and records that were not kept, at the call or by any sink.
fn dropped(session: &Session) -> u64 {
    session.stats.dropped_calls() + session.stats.sinks.iter().map(lost_by_sink).sum::<u64>()
}

/// Records that a sink should have written and did not.
fn lost_by_sink(sink: &logdrive_drain::SinkStats) -> u64 {
    let below_level = sink
        .counts
        .dropped
        .get(logdrive_drain::SinkDrop::Level as usize)
        .copied()
        .unwrap_or(0);
    sink.dropped() - below_level
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
        let dropped = dropped(session);
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
                if dropped > 0 { Style::Doubt } else { Style::Plain },
                number(count_text(dropped)),
            ),
            (Style::Plain, number(count_text(stats.pending()))),
            (Style::Dim, session.path.display().to_string()),
        ]);
    }
    table
}

/// A state in its colour.
pub(crate) fn state_cell(state: State) -> (Style, String) {
    let (style, text) = match state {
        State::Alive => (Style::Good, "alive"),
        State::Dead => (Style::Doubt, "dead"),
        State::Damaged => (Style::Bad, "damaged"),
    };
    (style, text.to_owned())
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
            note(format!("{}: {damage}", session.path.display()));
        }
    }
}
