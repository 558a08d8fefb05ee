//! Cost of live control, and the time until it holds.
//!
//! A thread calls 64 log statements in turn, all of them off. A person's
//! command, `logdrive level bench debug`, is run as a process; the clock stops
//! when each of the 64 has logged, and starts before the command does. Then the
//! calls of eight statements that stand one behind the other are timed in a
//! loop, 1,000 calls at a time: off, left out of one of so many, left out of so
//! many a second. Eight, because the instructions of a loop around one call are
//! as many as those of a call that is off.

use std::cell::Cell;
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use logdrive::{SinkOptions, Target};
use logdrive_drain::control::{self, Action};
use logdrive_ring::SessionReader;

use super::alone;
use crate::harness::{Samples, Scale};
use crate::probe::{TickLength, ticks};
use crate::subjects::logdrive::{own_session, put, start, stop};
use crate::{BenchError, Result, command};

/// The application's name in the session.
const APP: &str = "bench-control";

const FULL_CHANGES: u64 = 50;
const QUICK_CHANGES: u64 = 5;

const FULL_BATCHES: u64 = 300;
const QUICK_BATCHES: u64 = 30;
const BATCH_CALLS: u64 = 1_000;

/// Between two batches, so that the drain's own work is not what is measured.
const BATCH_PAUSE: Duration = Duration::from_millis(2);

/// A change that is not seen by then never will be.
const CHANGE_WAIT: Duration = Duration::from_secs(10);

/// One of the rows that are about live control.
pub(super) fn measure(subject: &str, scale: Scale) -> Result<Samples> {
    let guard = start(
        logdrive::builder(APP)
            .use_env(false)
            .filter("info")
            .full(logdrive::Full::Block)
            .sink(SinkOptions::new(Target::Discard)),
    )?;
    let value = live_control(subject, scale);
    stop(guard)?;
    value.map(alone)
}

fn live_control(subject: &str, scale: Scale) -> Result<f64> {
    let reader = own_session(APP)?;
    let cost = || call_ns(scale.pick(FULL_BATCHES, QUICK_BATCHES), TickLength::measure());
    match subject {
        "level-change" => longest(scale, &reader, change_by_command),
        "rule-change" => longest(scale, &reader, || change_in_place(&reader)),
        "disabled" => Ok(cost()),
        "sampled-out" => {
            put(&reader, Action::Level(Some(0)))?;
            put(&reader, Action::Every(u32::MAX))?;
            Ok(cost())
        }
        "sampled-out-second" => {
            put(&reader, Action::Level(Some(0)))?;
            put(&reader, Action::PerSecond(0))?;
            Ok(cost())
        }
        other => Err(BenchError::new(format!("there is no row '{other}'"))),
    }
}

/// The longest of many changes, in milliseconds.
fn longest(scale: Scale, reader: &SessionReader, change: impl Fn() -> Result<f64>) -> Result<f64> {
    let mut longest = 0.0_f64;
    for _ in 0..scale.pick(FULL_CHANGES, QUICK_CHANGES) {
        longest = longest.max(change()?);
        control::change(reader, |rules, _| rules.clear()).map_err(|error| BenchError::subject(APP, error))?;
        until(|passed| passed == 0)?;
    }
    Ok(longest)
}

/// From before the start of a process to the moment when all statements log, in milliseconds.
fn change_by_command() -> Result<f64> {
    let path = command::path()?;
    let session = logdrive::session_path().ok_or_else(|| BenchError::subject(APP, "no session"))?;
    let begin = Instant::now();
    let mut command = Command::new(&path)
        .arg("level")
        .arg(session)
        .arg("debug")
        .stdout(Stdio::null())
        .spawn()
        .map_err(BenchError::io("run", &path))?;
    let seen = until(|passed| passed == SITES)?;
    let status = command.wait()?;
    if !status.success() {
        return Err(BenchError::subject("logdrive level", status));
    }
    Ok((seen - begin).as_secs_f64() * 1e3)
}

/// The same for the change alone, by a tool that runs already.
fn change_in_place(reader: &SessionReader) -> Result<f64> {
    let begin = Instant::now();
    put(reader, Action::Level(Some(1)))?;
    Ok((until(|passed| passed == SITES)? - begin).as_secs_f64() * 1e3)
}

/// Calls all statements in turn until as many of them pass as is wanted; when that was.
fn until(is_enough: impl Fn(usize) -> bool) -> Result<Instant> {
    let deadline = Instant::now() + CHANGE_WAIT;
    loop {
        PASSED.set(0);
        call_all();
        let now = Instant::now();
        if is_enough(PASSED.get()) {
            return Ok(now);
        }
        if now > deadline {
            return Err(BenchError::subject(APP, "a change of levels was not seen"));
        }
    }
}

thread_local! {
    /// Statements that have logged in this round.
    static PASSED: Cell<usize> = const { Cell::new(0) };
}

/// A value that is looked at only when its call goes on.
fn note() -> usize {
    PASSED.set(PASSED.get() + 1);
    PASSED.get()
}

/// Statements that are called in turn.
const SITES: usize = 64;

macro_rules! eight {
    ($($again:ident)*) => {
        $(logdrive::debug!(passed = note(), "statement of {}", stringify!($again));)*
    };
}

/// Each statement is a callsite of its own.
fn call_all() {
    eight!(a b c d e f g h);
    eight!(a b c d e f g h);
    eight!(a b c d e f g h);
    eight!(a b c d e f g h);
    eight!(a b c d e f g h);
    eight!(a b c d e f g h);
    eight!(a b c d e f g h);
    eight!(a b c d e f g h);
}

/// Cost of a call, the median of batches.
fn call_ns(batches: u64, tick: TickLength) -> f64 {
    let mut times: Vec<u64> = (0..batches)
        .map(|_| {
            std::thread::sleep(BATCH_PAUSE);
            batch(black_box(0));
            batch(black_box(0))
        })
        .collect();
    times.sort_unstable();
    let middle = times.get(times.len() / 2).copied().unwrap_or_default();
    tick.nanos(middle) / BATCH_CALLS as f64
}

/// Calls in one turn of the loop.
const TURN_CALLS: u64 = 8;

/// Each is a callsite of its own.
macro_rules! orders {
    ($order:ident: $($again:ident)*) => {
        $(logdrive::debug!($order, price = $order as f64 * 0.25, "order filled {}", stringify!($again));)*
    };
}

#[inline(never)]
fn batch(number: u64) -> u64 {
    let start = ticks();
    for turn in 0..BATCH_CALLS / TURN_CALLS {
        let order = number + turn;
        orders!(order: a b c d e f g h);
    }
    ticks() - start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_calls_as_many_statements_as_it_says() {
        let log = logdrive::testing::capture();
        PASSED.set(0);
        call_all();
        assert_eq!((PASSED.get(), log.lines().len()), (SITES, SITES));
    }
}
