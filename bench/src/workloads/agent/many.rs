//! Eight processes of three threads each through one agent, against one such process with as many records.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

use logdrive::Full;

use logdrive_testkit::{Process, end_of_input, report, wait_for_input};

use super::quotient;
use crate::harness::{Samples, Scale, runs};
use crate::subjects::agent::AgentProcess;
use crate::subjects::logdrive::{start, stop};
use crate::{BenchError, Result, role, warm};

/// A program that logs lines on command: its agent's socket, and how many lines each thread logs.
pub const LOAD: &str = "--role-load";
/// A program that logs one line, and then nothing: its agent's socket.
pub const QUIET: &str = "--role-quiet";

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
    let log = runs::scratch_file("agent")?;
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
    Ok(quotient(&many, &one)?
        .with("wrong", (wrong.lost + wrong.late) as f64)
        .with("late", wrong.late as f64)
        .with("latest_us", wrong.latest_ns as f64 / 1e3))
}

/// Seconds from the word to start until all that was logged is with the kernel.
fn load(log: &Path, processes: u64, lines: u64) -> Result<f64> {
    let agent = AgentProcess::start(log, true)?;
    let each = (lines / processes / THREADS).to_string();
    let socket = agent.socket();
    let programs = (0..processes).map(|_| role::start(LOAD, &[&socket.to_string_lossy(), &each]));
    let mut programs: Vec<Process> = programs.collect::<Result<_>>()?;
    let begin = Instant::now();
    programs.iter_mut().for_each(|program| program.send("go"));
    programs
        .iter_mut()
        .for_each(|program| drop(program.expect("done")));
    let seconds = begin.elapsed().as_secs_f64();
    programs.into_iter().for_each(Process::end);
    agent.end();
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
pub(super) fn quiet(socket: &Path) -> Result<Process> {
    role::start(QUIET, &[&socket.to_string_lossy()])
}

/// Starts the logger of a program whose agent's socket is the first of its words.
fn program(words: &[String]) -> Result<logdrive::Guard> {
    let builder = logdrive::builder("bench").use_env(false);
    let socket = words.first().map_or("", String::as_str);
    let guard = start(builder.agent(socket).full(Full::Block))?;
    if logdrive::session_path().is_some() {
        return Err(BenchError::subject("logdrive-agent", "no agent has its session"));
    }
    Ok(guard)
}

/// Plays a program that logs lines on command.
pub fn play_load(words: &[String]) -> Result<()> {
    let guard = program(words)?;
    let lines = words.get(1).and_then(|lines| lines.parse().ok());
    let lines = lines.ok_or_else(|| BenchError::new("a socket and a number of lines are wanted"))?;
    report("ready");
    wait_for_input();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || log_lines(thread, lines));
        }
    });
    stop(guard)?;
    report("done");
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

/// Plays a program that logs one line and waits.
pub fn play_quiet(words: &[String]) -> Result<()> {
    let guard = program(words)?;
    logdrive::info!("order {} is looked at", 1);
    report("ready");
    // That the other end is gone is the word to end.
    let _ = end_of_input().recv();
    stop(guard).map(drop)
}
