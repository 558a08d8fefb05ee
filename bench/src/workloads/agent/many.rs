//! Eight processes of three threads each through one agent, against one such process with as many records.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use logdrive::Full;

use super::median;
use crate::harness::{Samples, Scale, runs};
use crate::subjects::agent::{AgentProcess, Player, end_of_input, ready};
use crate::subjects::logdrive::{start, stop};
use crate::{BenchError, Result, warm};

/// A program that logs lines when it is told to: its agent's socket, and how many lines each thread logs.
const LOAD: &str = "--role-load";
/// A program that logs one line, and then nothing: its agent's socket.
const QUIET: &str = "--role-quiet";

const PROCESSES: u64 = 8;
const THREADS: u64 = 3;
const FULL_LINES: u64 = 6_000_000;
const QUICK_LINES: u64 = 600_000;
/// Longest line of the load.
const LINE_BYTES_MAX: u64 = 140;
/// Number of measurements of each in one row.
const PAIRS: usize = 3;

/// The sum of what all processes log, against what one logs.
pub(super) fn eight_processes(scale: Scale) -> Result<Samples> {
    let lines = scale.pick(FULL_LINES, QUICK_LINES);
    let log = runs::scratch_dir()?.join(format!("agent-{}.log", std::process::id()));
    let (mut many, mut one) = (Vec::new(), Vec::new());
    let mut wrong = Wrong::default();
    let run = |processes: u64, wrong: &mut Wrong| -> Result<f64> {
        warm::blank(&log, lines * LINE_BYTES_MAX)?;
        let seconds = load(&log, processes, lines)?;
        check(&log, lines, wrong)?;
        Ok(lines as f64 / 1e6 / seconds)
    };
    for _ in 0..PAIRS {
        many.push(run(PROCESSES, &mut wrong)?);
        one.push(run(1, &mut wrong)?);
    }
    std::fs::remove_file(&log).map_err(BenchError::io("remove", &log))?;
    let (measured, base) = (median(many)?, median(one)?);
    Ok(Samples::default()
        .with("measured", measured)
        .with("base", base)
        .with("compared", measured / base)
        .with("wrong", (wrong.lost + wrong.late) as f64)
        .with("late", wrong.late as f64)
        .with("latest_us", wrong.latest_ns as f64 / 1e3))
}

/// Seconds from the word to start until all that was logged is with the kernel.
fn load(log: &Path, processes: u64, lines: u64) -> Result<f64> {
    let agent = AgentProcess::start(log, true)?;
    let each = (lines / processes / THREADS).to_string();
    let socket = agent.socket();
    let words: [&OsStr; 3] = [LOAD.as_ref(), socket.as_os_str(), each.as_ref()];
    let mut players = (0..processes)
        .map(|_| Player::start(&words))
        .collect::<Result<Vec<_>>>()?;
    let begin = Instant::now();
    players.iter_mut().try_for_each(Player::say)?;
    players.iter_mut().try_for_each(|player| player.hear("done"))?;
    let seconds = begin.elapsed().as_secs_f64();
    players.into_iter().try_for_each(Player::end)?;
    agent.end()?;
    Ok(seconds)
}

/// Lines that are lost or out of order.
#[derive(Default)]
struct Wrong {
    /// Lines that are missing, or there twice.
    lost: u64,
    /// Lines that are older than one before them: their thread was stopped between reading its clock and its commit.
    late: u64,
    /// By how much, at most.
    latest_ns: u64,
}

/// Counts what is wrong with a log.
fn check(log: &Path, lines: u64, wrong: &mut Wrong) -> Result<()> {
    let file = std::fs::File::open(log).map_err(BenchError::io("read", log))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let (mut line, mut found, mut newest_ns) = (Vec::new(), 0, 0);
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        // Behind the last line are zeros.
        if read.map_err(BenchError::io("read", log))? == 0 || !line.ends_with(b"\n") {
            break;
        }
        if memchr::memmem::find(&line, b"order ").is_none() {
            continue;
        }
        found += 1;
        let time_ns = time_of_day_ns(&line);
        wrong.late += u64::from(time_ns < newest_ns);
        wrong.latest_ns = wrong.latest_ns.max(newest_ns.saturating_sub(time_ns));
        newest_ns = newest_ns.max(time_ns);
    }
    wrong.lost += (lines - lines % (PROCESSES * THREADS)).abs_diff(found);
    Ok(())
}

/// The digits of the time at a line's front, `2026-11-21T12:34:56.123456789Z`, but for the date.
fn time_of_day_ns(line: &[u8]) -> u64 {
    let number = |from: usize, digits: usize| {
        let digits = line.get(from..from + digits).unwrap_or_default();
        digits.iter().fold(0, |number, digit| {
            number * 10 + u64::from(digit.wrapping_sub(b'0'))
        })
    };
    let seconds = (number(11, 2) * 60 + number(14, 2)) * 60 + number(17, 2);
    seconds * 1_000_000_000 + number(20, 9)
}

/// A program that logs one line and waits.
pub(super) fn quiet(socket: &Path) -> Result<Player> {
    Player::start(&[QUIET.as_ref(), socket.as_os_str()])
}

/// Takes the role of a program, if the command line says so. Called first in `main`.
#[must_use]
pub fn serve_role() -> Option<ExitCode> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let outcome = match words.as_slice() {
        [role, socket, lines] if role == LOAD => play_load(socket.as_ref(), lines.to_str()?.parse().ok()?),
        [role, socket] if role == QUIET => play_quiet(socket.as_ref()),
        _ => return None,
    };
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error.full_message());
            ExitCode::FAILURE
        }
    })
}

fn program(socket: &Path) -> Result<logdrive::Guard> {
    let guard = start(
        logdrive::builder("bench")
            .use_env(false)
            .agent(socket)
            .full(Full::Block),
    )?;
    if logdrive::session_path().is_some() {
        return Err(BenchError::subject("logdrive-agent", "no agent has its session"));
    }
    Ok(guard)
}

fn play_load(socket: &Path, lines: u64) -> Result<()> {
    let io = |error| BenchError::io("talk to", Path::new("the bench"))(error);
    let guard = program(socket)?;
    ready().map_err(io)?;
    std::io::stdin().read_exact(&mut [0; 1]).map_err(io)?;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || log_lines(thread, lines));
        }
    });
    stop(guard)?;
    println!("done");
    Ok(())
}

fn log_lines(thread: u64, lines: u64) {
    for index in 0..lines {
        let order = 10_000 + (thread + index) % 90_000;
        let price = 100.0 + (index % 1_000) as f64 * 0.25;
        let quantity = i32::try_from(index % 900).unwrap_or(0) + 100;
        logdrive::info!(
            "order {} at {:.2} x {} for {}",
            order,
            price,
            quantity,
            "cust-042"
        );
    }
}

fn play_quiet(socket: &Path) -> Result<()> {
    let guard = program(socket)?;
    logdrive::info!("order {} is looked at", 1);
    ready().map_err(BenchError::io("talk to", Path::new("the bench")))?;
    // That the other end is gone is the word to end.
    let _ = end_of_input().recv();
    stop(guard).map(drop)
}
