//! Run of a row: the program's phases with the row's steps between them, then the comparison of its calls with its log.

use crate::account::Account;
use crate::halt::{Halt, skip};
use crate::language::Language;
use crate::plan::Plan;
use crate::program_end::End;
use crate::row::{Promise, Row};
use crate::stage::{Programs, Stage};
use nix::sys::signal::Signal;
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Words of every plan; those of the row go before them.
const USUAL: &str = "threads=2 records=2000";
/// Time after which the programs of a row are killed.
const LIMIT: Duration = Duration::from_secs(40);

/// Result of a row.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowResult {
    Passed,
    Failed(String),
    /// The machine lacks what the row takes.
    Skipped(String),
}

/// Row of the table with its numbers.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) fault: &'static str,
    pub(crate) language: &'static str,
    /// Calls that the log has to explain.
    pub(crate) calls: u64,
    /// Records in rings when the calls were made; `None` where no session was to be seen.
    pub(crate) committed: Option<u64>,
    /// Distinct records in the log.
    pub(crate) written: u64,
    /// Drops that the log tells.
    pub(crate) told: u64,
    pub(crate) told_by_reason: BTreeMap<String, u64>,
    pub(crate) twice: u64,
    pub(crate) torn: u64,
    /// Calls that the log does not explain; below 0, lines that no call made.
    pub(crate) difference: i64,
    /// The longest first call of a thread, which makes its ring.
    pub(crate) first_us: u64,
    /// The longest other call.
    pub(crate) worst_us: u64,
    /// The longest of these in which the kernel did not take the processor from the thread.
    pub(crate) own_us: u64,
    /// The machine's own longest stall meanwhile.
    pub(crate) stall_us: u64,
    /// The most memory of all programs of the row (PSS).
    pub(crate) memory_mib: f64,
    pub(crate) seconds: f64,
    pub(crate) verdict: RowResult,
}

/// Runs a row for a language in an empty directory.
pub(crate) fn run(row: &Row, language: Language, programs: &Programs, dir: &Path) -> Outcome {
    let started = Instant::now();
    let mut outcome = Outcome {
        fault: row.name,
        language: language.name(),
        calls: 0,
        committed: None,
        written: 0,
        told: 0,
        told_by_reason: BTreeMap::new(),
        twice: 0,
        torn: 0,
        difference: 0,
        first_us: 0,
        worst_us: 0,
        own_us: 0,
        stall_us: 0,
        memory_mib: 0.0,
        seconds: 0.0,
        verdict: RowResult::Passed,
    };
    let halted = Stage::new(dir, programs, language, LIMIT).and_then(|mut stage| {
        let played = play(row, &mut stage, &mut outcome);
        let seen = stage.end_watch();
        outcome.stall_us = seen.stall_ns / 1000;
        outcome.memory_mib = seen.peak_kib as f64 / 1024.0;
        match seen.hung {
            true => Err(Halt::Fail(format!("still ran after {} s", LIMIT.as_secs()))),
            false => played,
        }
    });
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome.verdict = judge(row, &outcome, halted.err());
    outcome
}

/// Plays the row; the numbers go to `outcome` as far as it comes.
fn play(row: &Row, stage: &mut Stage, outcome: &mut Outcome) -> Result<(), Halt> {
    if let End::Signal(signal) = row.end
        && is_ignored(signal)
    {
        return Err(skip(format!(
            "{signal} is ignored here, as under nohup or in the background of a shell, and so in the programs"
        )));
    }
    stage.plan(USUAL);
    stage.plan(row.plan);
    (row.steps.setup)(stage)?;
    for _ in 0..row.processes {
        stage.start(row.end)?;
    }
    stage.expect("half")?;
    let at_half = stage.noted();
    (row.steps.half)(stage)?;
    stage.go_on();
    stage.expect("done")?;
    let committed = stage.committed();
    outcome.committed = (committed.sessions > 0).then_some(committed.records);
    (row.steps.done)(stage)?;
    let ended = stage.end(row.end);
    (row.steps.dead)(stage)?;
    let noted = stage.noted();
    outcome.calls = noted.calls;
    outcome.first_us = noted.first_ns / 1000;
    outcome.worst_us = noted.worst_ns / 1000;
    outcome.own_us = noted.own_ns / 1000;
    let settled = match row.promise {
        Promise::Every | Promise::SecondHalf => stage.settle(),
        Promise::Synced => Ok(()),
    };
    stage.end_beside();
    let account = stage.account()?;
    outcome.twice = account.twice;
    outcome.torn = account.torn;
    outcome.told_by_reason.clone_from(&account.told.gaps);
    outcome.told = account.told.sum() + account.damaged;
    outcome.written = account.written();
    let half = stage.half_of_records();
    match row.promise {
        Promise::Every => {}
        Promise::Synced if !stage.is_synced() => {
            return Err(Halt::Fail("`sync()` answered false".to_owned()));
        }
        Promise::Synced => {
            outcome.calls = at_half.calls;
            outcome.written = account.written_in(0..half);
        }
        Promise::SecondHalf => {
            outcome.calls -= at_half.calls;
            outcome.written = account.written_in(half..u64::MAX);
        }
    }
    outcome.difference = outcome.calls as i64 - (outcome.written + outcome.told) as i64;
    settled?;
    check(row, stage, &account, &ended)
}

/// Checks what a log has to show beside the sums.
fn check(row: &Row, stage: &Stage, account: &Account, ended: &[ExitStatus]) -> Result<(), Halt> {
    if let Some(line) = &account.first_torn {
        return Err(Halt::Fail(format!(
            "{} torn lines, such as {line:?}",
            account.torn
        )));
    }
    // The last block may have been cut by the power, or have bytes that were never written.
    if account.damages.len() != row.damages && row.promise != Promise::Synced {
        return Err(Halt::Fail(format!(
            "{} damages of segments are told, expected {}: {:?}",
            account.damages.len(),
            row.damages,
            account.damages.first()
        )));
    }
    check_ends(row.end, ended)?;
    check_urgent(&stage.words, row.processes, account)?;
    if Plan::of(&stage.words).has("order") && account.late > stage.late() {
        let (found, told) = (account.late, stage.late());
        return Err(Halt::Fail(format!(
            "{found} records are late, and {told} are counted as such"
        )));
    }
    match row.end.cause(stage.language()) {
        Some(cause) if row.names_end => check_cause(cause, account),
        _ => Ok(()),
    }
}

/// Warnings have room of their own: none of them may be dropped.
fn check_urgent(words: &[String], processes: u64, account: &Account) -> Result<(), Halt> {
    let plan = Plan::of(words);
    let number = |key| plan.number::<u64>(key).unwrap_or(0);
    let every = number("warn_every");
    if every == 0 {
        return Ok(());
    }
    let (made, written) = (
        processes * number("threads") * (number("records") / every),
        account.urgent(every),
    );
    match made == written {
        true => Ok(()),
        false => Err(Halt::Fail(format!("{written} of {made} warnings are in the log"))),
    }
}

/// The log has to name the end of the program.
fn check_cause(cause: &str, account: &Account) -> Result<(), Halt> {
    if account.notices.iter().any(|line| line.contains(cause)) {
        return Ok(());
    }
    let ends = account.notices.iter().rev();
    let found = ends
        .clone()
        .find(|line| line.contains(" process "))
        .or(ends.clone().next());
    let found = found.map_or("nothing", String::as_str);
    Err(Halt::Fail(format!(
        "the log does not say {cause:?}, but {found:?}"
    )))
}

/// Returns whether this process ignores a signal, which its children inherit.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal as u32 - 1) & 1 == 1)
}

/// A signal that was sent has to be that of which the program died.
fn check_ends(end: End, ended: &[ExitStatus]) -> Result<(), Halt> {
    let wrong = match end {
        End::Signal(signal) => ended.iter().find(|status| {
            // In an enclosure with process numbers of its own, the status is that of the enclosure.
            status.signal().is_some_and(|found| found != signal as i32)
        }),
        End::Orderly => ended.iter().find(|status| !status.success()),
        End::Own(_) => None,
    };
    wrong.map_or(Ok(()), |status| {
        Err(Halt::Fail(format!("a program ended with {status}")))
    })
}

fn judge(row: &Row, outcome: &Outcome, halted: Option<Halt>) -> RowResult {
    let failed = match halted {
        Some(Halt::Skip(why)) => return RowResult::Skipped(why),
        Some(Halt::Fail(why)) => Some(why),
        None if outcome.calls == 0 => Some("no calls were made".to_owned()),
        None if !(-row.lost_notices..=0).contains(&outcome.difference) => {
            Some(format!("{} calls are not explained", outcome.difference))
        }
        None if outcome.twice > 0 => Some(format!("{} records twice", outcome.twice)),
        None => None,
    };
    failed.map_or(RowResult::Passed, RowResult::Failed)
}
