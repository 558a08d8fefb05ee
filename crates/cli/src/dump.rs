//! `logdrive dump`: what a flight recorder keeps is written to the log.
//!
//! The request lies in the file of the recorder's memory; the program's drain answers there when it is done.

use crate::dump_args::DumpArgs;
use crate::error::CliError;
use crate::limits::{DUMP_LOOK_MS, DUMP_WAIT_MS_MAX};
use crate::live::{Live, live_sessions};
use crate::output::Output;
use crate::ps::{put_json, tell};
use crate::table::count_text;
use logdrive_backend::sinks_from_text;
use logdrive_ring::{KeepFile, SessionView};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A process as JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    app: &'a str,
    pid: u32,
    records: u64,
    files: &'a [PathBuf],
}

/// A request on its way.
struct Asked<'a> {
    live: &'a Live,
    file: KeepFile,
    request: u64,
    files: Vec<PathBuf>,
}

/// Runs the command. All processes are asked first, so that they work at the same time.
pub(crate) fn run(args: &DumpArgs) -> Result<bool, CliError> {
    let live = live_sessions(&args.live)?;
    let mut asked = Vec::new();
    let mut keeps_nothing = None;
    for session in &live {
        match ask(session, args.span_ns.unwrap_or(0))? {
            Some(request) => asked.push(request),
            None => keeps_nothing = Some(session),
        }
    }
    if let Some(session) = keeps_nothing.filter(|_| asked.is_empty()) {
        return Err(CliError::KeepsNothing {
            app: session.app.clone(),
            pid: session.pid,
        });
    }
    let mut output = Output::stdout()?;
    let mut all_answered = true;
    for request in &asked {
        match wait_for(request) {
            Some(records) => put(&mut output, request, records, args.json, live.len() > 1)?,
            None => {
                all_answered = false;
                let (app, pid) = (request.live.app.clone(), request.live.pid);
                tell(&CliError::NoDump { app, pid }.to_string());
            }
        }
    }
    output.flush()?;
    Ok(all_answered)
}

fn ask(live: &Live, span_ns: u64) -> Result<Option<Asked<'_>>, CliError> {
    let view = SessionView::open(&live.path).map_err(|cause| live.cannot(cause))?;
    let Some(file) = view.keep().map_err(|cause| live.cannot(cause))? else {
        return Ok(None);
    };
    let config = view.buffers().map(|buffers| buffers.config()).unwrap_or_default();
    let sinks = sinks_from_text(&String::from_utf8_lossy(&config));
    Ok(Some(Asked {
        live,
        request: file.request(span_ns),
        file,
        files: sinks
            .into_iter()
            .filter_map(|sink| Some(sink.file?.path))
            .collect(),
    }))
}

/// The number of records that were written; `None` when there is no answer.
fn wait_for(asked: &Asked<'_>) -> Option<u64> {
    let deadline = Instant::now() + Duration::from_millis(DUMP_WAIT_MS_MAX);
    loop {
        let (answered, records) = asked.file.answered();
        // Numbers rise by one and do not come round.
        if answered >= asked.request {
            return Some(records);
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(DUMP_LOOK_MS));
    }
}

fn put(
    output: &mut Output,
    asked: &Asked<'_>,
    records: u64,
    json: bool,
    is_one_of_many: bool,
) -> Result<(), CliError> {
    if json {
        let line = Line {
            app: &asked.live.app,
            pid: asked.live.pid,
            records,
            files: &asked.files,
        };
        return put_json(output, &line);
    }
    let title = match is_one_of_many {
        true => format!("{}: ", asked.live.title()),
        false => String::new(),
    };
    let plural = if records == 1 { "" } else { "s" };
    let files: Vec<String> = asked
        .files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let places = match files.as_slice() {
        [] => "its sinks".to_owned(),
        files => files.join(" and "),
    };
    writeln!(
        output,
        "{title}{} record{plural} written to {places}",
        count_text(records)
    )?;
    Ok(())
}
