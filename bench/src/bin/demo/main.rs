//! The demo: a real program that logs millions of events, with and without
//! Logdrive, and killed half-way.
//!
//! `quinn` sends a stream over QUIC on the loopback interface, and its own
//! TRACE events are logged: first to no subscriber, then by `tracing-subscriber` to a
//! file, then by Logdrive to a file. A fourth run is killed by SIGKILL and its
//! log recovered. Every run is a process of its own.

#![forbid(unsafe_code)]

mod child;
mod killed;
mod logs;
mod summary;

use std::path::Path;
use std::process::ExitCode;

use logdrive_bench::harness::runs;
use logdrive_bench::{BenchError, Result, warm};

use summary::Row;

const USAGE: &str = "\
Usage: cargo xtask demo [--mb N]

  --mb N      send N megabytes in each run (1000 when not given)
";

/// Size of one transfer, in megabytes of 1,000,000 bytes.
const DEFAULT_MB: u64 = 1_000;
const MAX_MB: u64 = 100_000;

/// Room for the log of a run, as a share of what is sent: both loggers need
/// about half a byte of text for each byte sent.
const LOG_SHARE: f64 = 0.6;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some((child::CHILD, request)) = words.split_first().map(|(word, rest)| (word.as_str(), rest)) {
        return serve(&child::Request::read(request)?);
    }
    let mut parser = lexopt::Parser::from_env();
    let mut megabytes = DEFAULT_MB;
    while let Some(argument) = parser.next().map_err(usage)? {
        use lexopt::prelude::*;
        match argument {
            Long("mb") => megabytes = read_megabytes(&mut parser)?,
            Long("help") | Short('h') => {
                print!("{USAGE}");
                return Ok(());
            }
            other => return Err(usage(other.unexpected())),
        }
    }
    let dir = runs::scratch_dir()?.with_file_name("demo");
    std::fs::create_dir_all(&dir).map_err(BenchError::io("create", &dir))?;
    demonstrate(&dir, megabytes * 1_000_000)
}

fn serve(request: &child::Request) -> Result<()> {
    if request.logger == killed::LOGGER {
        return killed::serve(request);
    }
    child::serve(request)
}

fn usage(error: lexopt::Error) -> BenchError {
    BenchError::new(format!("{error}\n\n{USAGE}"))
}

fn read_megabytes(parser: &mut lexopt::Parser) -> Result<u64> {
    use lexopt::ValueExt;
    let word = parser.value().and_then(|word| word.string()).map_err(usage)?;
    match word.parse() {
        Ok(megabytes) if (1..=MAX_MB).contains(&megabytes) => Ok(megabytes),
        _ => Err(BenchError::new(format!(
            "--mb takes a number from 1 to {MAX_MB}, not '{word}'"
        ))),
    }
}

fn demonstrate(dir: &Path, bytes: u64) -> Result<()> {
    println!(
        "A QUIC transfer of {} MB over loopback by quinn; every TRACE event of quinn is logged.\n",
        bytes / 1_000_000
    );
    let log = dir.join("transfer.log");
    let mut rows = vec![
        logged_run("logging off", "none", None, bytes)?,
        logged_run("tracing-subscriber", "tracing-subscriber", Some(&log), bytes)?,
    ];
    rows.push(logged_run("logdrive", "logdrive", Some(&log), bytes)?);
    let killed_log = dir.join("killed.log");
    rows.push(killed::run(&killed_log, bytes)?);
    summary::print(&rows);
    logs::print(&[log, killed_log])
}

/// Runs a transfer to its end in a process of its own. The log is written over
/// old pages, as in the benchmarks, and cut to its length afterwards.
fn logged_run(title: &'static str, logger: &str, log: Option<&Path>, bytes: u64) -> Result<Row> {
    if let Some(log) = log {
        warm::blank(log, (bytes as f64 * LOG_SHARE) as u64)?;
    }
    let request = child::Request {
        logger: logger.to_string(),
        log: log.map(Path::to_path_buf).unwrap_or_default(),
        bytes,
    };
    let outcome = child::run_to_the_end(title, &request)?;
    if let Some(log) = log {
        let file = std::fs::File::options().write(true).open(log);
        file.and_then(|file| file.set_len(outcome.log_bytes))
            .map_err(BenchError::io("cut", log))?;
    }
    Ok(Row::of_run(title, &outcome))
}
