//! `logdrive dump`: what a flight recorder keeps is written to the log.
//!
//! A program that drains itself finds the request in the file of its recorder's memory and answers there. Where an agent has
//! the session, the agent keeps the records, and is asked.

use crate::dump_args::DumpArgs;
use crate::error::CliError;
use crate::limits::{DUMP_LOOK_MS, DUMP_WAIT_MS_MAX};
use crate::live::live_sessions;
use crate::output::{Output, note, put_json};
use crate::table::count_of;
use crate::watched_session::{WatchedSession, files_of, sinks_of};
use logdrive_agent::{AgentError, Client};
use logdrive_drain::sinks_from_text;
use logdrive_ring::{KeepFile, SessionReader};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A process as JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    app: &'a str,
    pid: u32,
    records: u64,
    files: &'a [PathBuf],
}

/// Owner of the records that are kept, who is asked.
enum Owner<'a> {
    /// The process, in its file.
    Process { file: KeepFile, request: u64 },
    /// The agent at this socket, for the session of this number.
    Agent { socket: &'a Path, session: u64 },
}

/// Outcome of a request.
enum Answer {
    /// So many records are in these files.
    Written(u64, Vec<PathBuf>),
    KeepsNothing,
    None,
}

/// Runs the command. All processes are asked first, so that they work at the same time.
pub(crate) fn run(args: &DumpArgs) -> Result<bool, CliError> {
    let live = live_sessions(&args.live)?;
    let mut asked = Vec::new();
    let mut keeps_nothing = None;
    for session in &live {
        match ask(session, args.span_ns.unwrap_or(0))? {
            Some(owner) => asked.push((session, owner)),
            None => keeps_nothing = Some(session),
        }
    }
    let mut output = Output::stdout()?;
    let (mut all_answered, mut some_keep) = (true, false);
    let is_one_of_many = live.len() > 1;
    for (session, owner) in &asked {
        match wait_for(session, owner, args.span_ns)? {
            Answer::Written(records, files) => {
                some_keep = true;
                put(&mut output, session, records, &files, args.json, is_one_of_many)?;
            }
            Answer::KeepsNothing => keeps_nothing = Some(session),
            Answer::None => {
                (all_answered, some_keep) = (false, true);
                let process = session.title();
                note(CliError::NoDump { process });
            }
        }
    }
    if let Some(session) = keeps_nothing.filter(|_| !some_keep) {
        return Err(CliError::KeepsNothing {
            process: session.title(),
        });
    }
    output.flush()?;
    Ok(all_answered)
}

fn ask(live: &WatchedSession, span_ns: u64) -> Result<Option<Owner<'_>>, CliError> {
    if let (Some(socket), Some(entry)) = (live.at.agent(), &live.at.entry) {
        let session = entry.session;
        return Ok(Some(Owner::Agent { socket, session }));
    }
    let view = &live.view;
    let file = view.keep().map_err(|cause| live.cannot(cause))?;
    Ok(file.map(|file| Owner::Process {
        request: file.request(span_ns),
        file,
    }))
}

fn wait_for(live: &WatchedSession, owner: &Owner<'_>, span_ns: Option<u64>) -> Result<Answer, CliError> {
    match owner {
        Owner::Process { file, request } => Ok(wait_for_process(file, *request, &live.view)),
        Owner::Agent { socket, session } => {
            let answer = wait_for_agent(socket, *session, span_ns.map(Duration::from_nanos));
            match answer {
                Err(AgentError::NoAnswer { .. }) => Ok(Answer::None),
                answer => answer.map_err(|cause| live.cannot(cause)),
            }
        }
    }
}

fn wait_for_process(file: &KeepFile, request: u64, view: &SessionReader) -> Answer {
    let deadline = Instant::now() + Duration::from_millis(DUMP_WAIT_MS_MAX);
    loop {
        let (answered, records) = file.answered();
        // Numbers rise by one and do not come round.
        if answered >= request {
            return Answer::Written(records, files_of(&sinks_of(view)));
        }
        if Instant::now() > deadline {
            return Answer::None;
        }
        std::thread::sleep(Duration::from_millis(DUMP_LOOK_MS));
    }
}

fn wait_for_agent(socket: &Path, session: u64, span: Option<Duration>) -> Result<Answer, AgentError> {
    let mut client = Client::connect(socket, Duration::from_millis(DUMP_WAIT_MS_MAX))?;
    let told = client.dump_session(session, span)?;
    // `SESSION PID RECORDS`, see `spec/agent.md`.
    match told.split_whitespace().nth(2) {
        Some("-") => Ok(Answer::KeepsNothing),
        Some(records) => match records.parse() {
            Ok(records) => Ok(Answer::Written(
                records,
                files_of(&sinks_from_text(&client.files(session, false)?)),
            )),
            Err(_) => Ok(Answer::None),
        },
        None => Ok(Answer::None),
    }
}

fn put(
    output: &mut Output,
    live: &WatchedSession,
    records: u64,
    files: &[PathBuf],
    json: bool,
    is_one_of_many: bool,
) -> Result<(), CliError> {
    if json {
        let line = Line {
            app: &live.app,
            pid: live.pid,
            records,
            files,
        };
        return put_json(output, &line);
    }
    let title = match is_one_of_many {
        true => format!("{}: ", live.title()),
        false => String::new(),
    };
    let files: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let places = match files.as_slice() {
        [] => "its sinks".to_owned(),
        files => files.join(" and "),
    };
    writeln!(
        output,
        "{title}{} written to {places}",
        count_of(records, "record")
    )?;
    Ok(())
}
