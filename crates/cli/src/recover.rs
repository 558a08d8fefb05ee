//! `logdrive recover`: what killed programs had logged, into their log files.

use crate::args::RecoverArgs;
use crate::error::CliError;
use crate::output::{Output, note, put_json, safe};
use crate::paint::{ColorChoice, Paint, Style};
use crate::session_finder::SessionFinder;
use crate::sessions::{read, recover_command, select};
use crate::table::{Side, Table, count_text};
use crate::watched_session::{Session, State};
use logdrive_drain::file::FileOptions;
use logdrive_drain::{BackendError, Recovered};
use logdrive_ring::{RingError, is_gone, is_set_aside};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A session as JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    app: &'a str,
    pid: u32,
    path: &'a Path,
    /// Whether its records are in the files now.
    recovered: bool,
    records: u64,
    files: Vec<PathBuf>,
    end: String,
    damage: Vec<String>,
    /// Place of what could not be read, which was kept.
    set_aside: Option<PathBuf>,
    error: Option<String>,
}

/// Runs the command. `false` when something could not be recovered, which has been said.
pub(crate) fn run(args: &RecoverArgs, color: ColorChoice) -> Result<bool, CliError> {
    let mut finder = SessionFinder::of_dirs(&args.run_dir)?;
    let sessions = read(finder.find_in_dirs()?, &mut finder);
    let sessions = select(sessions, &args.sessions, &mut finder)?;
    let sessions = wanted(sessions, !args.sessions.is_empty())?;
    let mut output = Output::stdout()?;
    let only_look = args.dry_run || (args.sessions.is_empty() && !args.all);
    if sessions.is_empty() {
        if !args.json {
            note(format!(
                "nothing to recover: no killed program left a session in {}",
                finder.text()
            ));
        }
        return Ok(true);
    }
    if only_look {
        look(args, &sessions, color, &mut output)?;
        return Ok(true);
    }
    let into = args.into.as_ref().map(FileOptions::new);
    let mut all_well = true;
    for session in &sessions {
        match recover(session, into.as_ref()) {
            Ok(recovered) => put_recovered(args, session, &recovered, color.for_stdout(), &mut output)?,
            // Another recoverer has finished it, or is at work on it, such as in a program that has just started.
            Err(_) if is_gone(&session.at.path) => {}
            Err(CliError::Recover {
                cause: BackendError::Ring(RingError::Alive { pid, .. }),
                ..
            }) => note(format!("{}: process {pid} is recovering it", session.title())),
            Err(error) => {
                all_well = false;
                if args.json {
                    let line = line_of(session, session.files(), Some(error.to_string()));
                    put_json(&mut output, &line)?;
                }
                output.flush()?;
                note(format!(
                    "{} {error}",
                    color.for_stderr().the(Style::Bad, "error:")
                ));
            }
        }
        // Reported before the next session is tried.
        output.flush()?;
    }
    Ok(all_well)
}

/// The sessions whose process is gone. A live one that was asked for by name is an error.
fn wanted(sessions: Vec<Session>, by_name: bool) -> Result<Vec<Session>, CliError> {
    let alive = sessions.iter().find(|session| session.state == State::Alive);
    let alive = alive.map(Session::title);
    let (aside, gone): (Vec<Session>, Vec<Session>) = sessions
        .into_iter()
        .filter(|session| session.state != State::Alive)
        .partition(|session| !by_name && is_set_aside(&session.at.path));
    for session in aside {
        let path = safe(&session.at.path.to_string_lossy());
        note(format!(
            "{path} is kept, because something in it cannot be read: all else is in its log; `rm -r {path}` removes it"
        ));
    }
    match alive {
        Some(process) if by_name && gone.is_empty() => Err(CliError::Alive { process }),
        _ => Ok(gone),
    }
}

fn recover(session: &Session, into: Option<&FileOptions>) -> Result<Recovered, CliError> {
    logdrive_drain::recover(&session.at.path, into).map_err(|cause| match cause {
        BackendError::NoFile => CliError::NowhereToRecover {
            process: session.title(),
        },
        cause => CliError::Recover {
            path: session.at.path.clone(),
            cause,
        },
    })
}

/// Returns the files to which a session's records would go.
fn target_files(args: &RecoverArgs, session: &Session) -> Vec<PathBuf> {
    let mut files = session.files();
    if let Some(into) = &args.into {
        // The first sink writes to that file, others to their own.
        files = session
            .sinks
            .iter()
            .skip(1)
            .filter_map(|sink| Some(sink.file.as_ref()?.path.clone()))
            .collect();
        files.insert(0, into.clone());
    }
    files
}

fn files_text(files: &[PathBuf]) -> String {
    let names = files.iter().map(|file| safe(&file.to_string_lossy()));
    names.collect::<Vec<_>>().join(", ")
}

fn end_of(session: &Session) -> String {
    let how = match session.signal {
        Some(signal) => format!("by signal {signal}"),
        None => "without a word".to_owned(),
    };
    match session.panics {
        0 => how,
        count => format!("{how}, after {count} panics"),
    }
}

/// Says what there is to recover, and how.
fn look(
    args: &RecoverArgs,
    sessions: &[Session],
    color: ColorChoice,
    output: &mut Output,
) -> Result<(), CliError> {
    if args.json {
        for session in sessions {
            put_json(output, &line_of(session, target_files(args, session), None))?;
        }
        return Ok(output.flush()?);
    }
    let mut table = Table::new([
        ("APP", Side::Left),
        ("PID", Side::Right),
        ("ENDED", Side::Left),
        ("RECORDS", Side::Right),
        ("WOULD GO TO", Side::Left),
    ]);
    for session in sessions {
        let files = target_files(args, session);
        let (style, files) = match (session.state, files.is_empty()) {
            (State::Damaged, _) => (Style::Bad, "damaged: what is whole goes to its log".to_owned()),
            (_, true) if session.stats.pending() == 0 => {
                (Style::Dim, "nowhere, and there is nothing to write".to_owned())
            }
            (_, true) => (Style::Warning, "it logged to no file: use --into FILE".to_owned()),
            (_, false) => (Style::Plain, files_text(&files)),
        };
        table.push([
            (Style::Title, session.app.clone()),
            (Style::Plain, session.pid.to_string()),
            (Style::Plain, end_of(session)),
            (Style::Plain, count_text(session.stats.pending())),
            (style, files),
        ]);
    }
    output.write_all(table.text(color.for_stdout()).as_bytes())?;
    output.flush()?;
    advise_how(args, sessions, color.for_stderr());
    Ok(())
}

fn advise_how(args: &RecoverArgs, sessions: &[Session], paint: Paint) {
    if args.dry_run {
        return note("nothing was changed: leave out --dry-run to recover");
    }
    let all = paint.the(Style::Key, recover_command(&args.run_dir, " --all"));
    match sessions {
        [only] => note(format!(
            "nothing was changed: {all} recovers it, as the next start of {} does",
            only.app
        )),
        [first, ..] => {
            let one = paint.the(
                Style::Key,
                recover_command(&args.run_dir, &format!(" {}", first.pid)),
            );
            note(format!(
                "nothing was changed: {all} recovers all of them, {one} the first"
            ));
        }
        [] => {}
    }
}

/// A session that is not recovered, with the files to which its records would go.
fn line_of(session: &Session, files: Vec<PathBuf>, error: Option<String>) -> Line<'_> {
    Line {
        app: &session.app,
        pid: session.pid,
        path: &session.at.path,
        recovered: false,
        records: session.stats.pending(),
        files,
        end: end_of(session),
        damage: session.damage.iter().cloned().collect(),
        set_aside: None,
        error,
    }
}

fn put_recovered(
    args: &RecoverArgs,
    session: &Session,
    recovered: &Recovered,
    paint: Paint,
    output: &mut Output,
) -> Result<(), CliError> {
    if args.json {
        let line = Line {
            pid: recovered.pid,
            recovered: true,
            records: recovered.records,
            end: recovered.end.clone(),
            damage: recovered.damage.clone(),
            set_aside: recovered.set_aside.clone(),
            ..line_of(session, recovered.files.clone(), None)
        };
        return put_json(output, &line);
    }
    let into = match recovered.files.as_slice() {
        [] => "no file".to_owned(),
        files => files_text(files),
    };
    writeln!(
        output,
        "{} {} (process {}): {} records into {into}",
        paint.the(Style::Good, "recovered"),
        paint.the(Style::Title, &session.app),
        recovered.pid,
        count_text(recovered.records),
    )?;
    writeln!(output, "  {}", paint.the(Style::Dim, safe(&recovered.end)))?;
    for damage in &recovered.damage {
        writeln!(
            output,
            "  {} {}",
            paint.the(Style::Warning, "damage:"),
            safe(damage)
        )?;
    }
    if let Some(aside) = &recovered.set_aside {
        let aside = safe(&aside.to_string_lossy());
        let kept = paint.the(Style::Warning, "kept:");
        writeln!(
            output,
            "  {kept} what cannot be read stays in {aside}; `rm -r {aside}` removes it"
        )?;
    }
    Ok(())
}
