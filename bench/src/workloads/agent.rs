//! `agent`: what live control costs and how soon it holds, and what an agent
//! does for other processes.
//!
//! A thread calls 64 log statements in turn, all of them off. A person's
//! command, `logdrive level bench debug`, is run as a process; the clock stops
//! when each of the 64 has logged, and starts before the command does. Then the
//! calls of one statement are timed back to back, 1,000 at a time: off, left
//! out of one of so many, left out of so many a second.

use std::cell::Cell;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use logdrive::{Guard, SinkOptions, Target};
use logdrive_backend::control::{Action, ControlView, Selector, change, put_rule};

use crate::harness::{Case, Job, Metric, Ratio, Samples, Scale, Workload};
use crate::probe::{TickLength, ticks};
use crate::subjects::logdrive::{start, stop};
use crate::{BenchError, Result};

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

const METRICS: &[Metric] = &[
    Metric::new("level_change_ms", "ms", 2),
    Metric::new("level_change_max_ms", "ms", 2),
    Metric::new("rule_change_ms", "ms", 3),
    Metric::new("disabled_ns", "ns", 2),
    Metric::new("sampled_out_ns", "ns", 2),
    Metric::new("sampled_out_second_ns", "ns", 2),
];

/// The workload.
pub struct Agent;

impl Workload for Agent {
    fn name(&self) -> &'static str {
        "agent"
    }

    fn title(&self, scale: Scale) -> String {
        format!(
            "live control: {} changes of {SITES} statements by a command, then batches of {BATCH_CALLS} calls",
            scale.pick(FULL_CHANGES, QUICK_CHANGES)
        )
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn ratio(&self) -> Option<Ratio> {
        None
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        vec![
            Case::new("live-control")
                .setting("changes", scale.pick(FULL_CHANGES, QUICK_CHANGES))
                .setting("batches", scale.pick(FULL_BATCHES, QUICK_BATCHES)),
        ]
    }

    fn prepare(
        &self,
        _scale: Scale,
        _cases: &mut Vec<Case>,
        _run: &dyn Fn(&Case) -> Result<Samples>,
    ) -> Result<()> {
        build_command()
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let guard = start(
            logdrive::builder(APP)
                .use_env(false)
                .filter("info")
                .full(logdrive::Full::Block)
                .sink(SinkOptions::new(Target::Discard)),
        )?;
        let samples = live_control(job, &guard);
        stop(guard)?;
        samples
    }
}

/// The command as people use it, built as this program was. Beside it, so that a run never takes another version.
fn build_command() -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(&cargo)
        .args(["build", "--quiet", "--release", "--package", "logdrive-cli"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .status()
        .map_err(BenchError::io("run", Path::new(&cargo)))?;
    if status.success() && command_path()?.exists() {
        return Ok(());
    }
    Err(BenchError::Usage(
        "the command `logdrive` cannot be built; try `cargo build --release --package logdrive-cli`"
            .to_owned(),
    ))
}

fn command_path() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(BenchError::io("find", Path::new("this program")))?;
    Ok(own.with_file_name("logdrive"))
}

fn live_control(job: &Job, _guard: &Guard) -> Result<Samples> {
    let session = logdrive::session_path().ok_or_else(|| BenchError::subject(APP, "no session"))?;
    let board = ControlView::open(&session).map_err(|error| BenchError::subject(APP, error))?;
    let mut changes_ms = Vec::new();
    let mut rules_ms = Vec::new();
    for _ in 0..job.number("changes") {
        changes_ms.push(change_by_command(&session)?);
        reset(&board)?;
        until(|passed| passed == 0)?;
        rules_ms.push(change_in_place(&board)?);
        reset(&board)?;
        until(|passed| passed == 0)?;
    }
    changes_ms.sort_by(f64::total_cmp);
    rules_ms.sort_by(f64::total_cmp);
    let tick = TickLength::measure();
    let batches = job.number("batches");
    let disabled_ns = call_ns(batches, tick);
    set(&board, Action::Level(Some(0)))?;
    set(&board, Action::Every(u32::MAX))?;
    let sampled_out_ns = call_ns(batches, tick);
    set(&board, Action::PerSecond(0))?;
    let second_ns = call_ns(batches, tick);
    Ok(Samples::default()
        .with("level_change_ms", median(&changes_ms))
        .with(
            "level_change_max_ms",
            changes_ms.last().copied().unwrap_or_default(),
        )
        .with("rule_change_ms", median(&rules_ms))
        .with("disabled_ns", disabled_ns)
        .with("sampled_out_ns", sampled_out_ns)
        .with("sampled_out_second_ns", second_ns))
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// From before the start of a process to the moment when all statements log, in milliseconds.
fn change_by_command(session: &Path) -> Result<f64> {
    let path = command_path()?;
    let begin = Instant::now();
    let mut command = Command::new(&path)
        .arg("level")
        .arg(session)
        .arg("debug")
        .stdout(Stdio::null())
        .spawn()
        .map_err(BenchError::io("run", &path))?;
    let seen = until(|passed| passed == SITES)?;
    let status = command.wait().map_err(BenchError::io("wait for", &path))?;
    if !status.success() {
        return Err(BenchError::subject("logdrive level", status));
    }
    Ok((seen - begin).as_secs_f64() * 1e3)
}

/// The same for the change alone, by a tool that runs already.
fn change_in_place(board: &ControlView) -> Result<f64> {
    let begin = Instant::now();
    set(board, Action::Level(Some(1)))?;
    Ok((until(|passed| passed == SITES)? - begin).as_secs_f64() * 1e3)
}

fn set(board: &ControlView, action: Action) -> Result<()> {
    let put = |rules: &mut Vec<_>, now| put_rule(rules, action, Selector::All, 0, now);
    change(board, put).map_err(|error| BenchError::subject(APP, error))?;
    Ok(())
}

fn reset(board: &ControlView) -> Result<()> {
    change(board, |rules, _| rules.clear()).map_err(|error| BenchError::subject(APP, error))?;
    Ok(())
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

/// What a call costs, the median of batches.
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

#[inline(never)]
fn batch(number: u64) -> u64 {
    let start = ticks();
    for index in 0..BATCH_CALLS {
        let order = number + index;
        logdrive::debug!(order, price = order as f64 * 0.25, "order filled");
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
