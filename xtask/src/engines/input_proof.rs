//! A proof of an input: records with numbers from a program to a collector, while both are killed and halted at random, and
//! then a count of what the collector's log has.

use super::load::number;
use super::process::Process;
use super::proof::{Counts, ProofOptions, end_engine};
use super::server::Origin;
use crate::paint;
use crate::shell::{Failure, Outcome};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time without a further record after which those that are missing are lost.
const SILENCE: Duration = Duration::from_secs(60);
/// Records before the first fault.
const FIRST_RECORDS: u64 = 100;
/// Time for the collector to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A proof that is under way.
struct InputProof<'a> {
    origin: &'a mut dyn Origin,
    collector: Process,
    log: PathBuf,
    next: u64,
}

/// Runs a proof in a directory that has nothing of an earlier one.
pub(super) fn run(
    origin: &mut dyn Origin,
    directory: &Path,
    program: &Path,
    options: ProofOptions,
) -> Result<Counts, Failure> {
    let (out, address, more) = (directory.join("collected"), origin.address(), origin.arguments());
    let words = [
        "collect",
        "--json",
        "--out",
        &out.display().to_string(),
        "--input",
        &address,
    ]
    .map(str::to_owned)
    .into_iter()
    .chain(more);
    let words = std::iter::once(program.display().to_string()).chain(words);
    let mut proof = InputProof {
        origin,
        collector: Process::new(directory, "collector", words),
        log: out.join("collected.log"),
        next: 0,
    };
    proof.collector.start()?;
    // A group of consumers, for one, needs some seconds before its first record.
    proof.append(FIRST_RECORDS)?;
    proof.wait(SILENCE);
    let share = (options.records / 2).checked_div(options.cycles).unwrap_or(0);
    for cycle in 0..options.cycles {
        proof.append(share)?;
        sleep(Duration::from_millis(fastrand::u64(50..2000)));
        match cycle == options.cycles / 2 {
            true => proof.halt(cycle, options.cut),
            false => proof.fault(cycle)?,
        }
    }
    proof.wait(SILENCE);
    let (start, cpu) = (Instant::now(), proof.collector.cpu_seconds());
    let rest = options.records.saturating_sub(proof.next);
    proof.append(rest)?;
    let quiet = proof.wait(SILENCE);
    let seconds = start.elapsed().saturating_sub(quiet).as_secs_f64();
    let cpu = proof.collector.cpu_seconds() - cpu;
    if !proof.collector.end(STOP_TIMEOUT) {
        eprintln!("{}", paint::bad("the collector did not end well: see its log"));
    }
    let is_durable = proof.origin.is_durable();
    let found = numbers(&proof.log)?;
    let all: u64 = found.values().sum();
    let twins = all - found.len() as u64;
    Ok(Counts {
        records: proof.next,
        cycles: options.cycles,
        lost: proof.next.saturating_sub(found.len() as u64),
        twins,
        twins_by_id: twins,
        may_lose: !is_durable,
        may_repeat: !is_durable,
        rate: (rest as f64 / seconds) as u64,
        cpu_nanos: (cpu * 1e9 / rest.max(1) as f64) as u64,
        ..Counts::default()
    })
}

impl InputProof<'_> {
    fn append(&mut self, count: u64) -> Outcome {
        let numbers = self.next..self.next + count;
        self.next = numbers.end;
        self.origin.append(numbers)
    }

    fn note(&self, cycle: u64, what: &str) {
        eprintln!("{}", paint::faint(&format!("  {cycle}: {what}")));
    }

    fn halt(&mut self, cycle: u64, time: Duration) {
        self.note(cycle, "collector halted");
        self.collector.signal("STOP");
        sleep(time);
        self.collector.signal("CONT");
    }

    fn fault(&mut self, cycle: u64) -> Outcome {
        let is_durable = self.origin.is_durable();
        let choice = fastrand::u8(..10);
        if choice < 7 || self.origin.processes().is_empty() {
            self.note(cycle, "collector ended");
            end_engine(&mut self.collector, is_durable);
            sleep(Duration::from_millis(fastrand::u64(0..500)));
            return self.collector.start();
        }
        let chosen = fastrand::usize(..self.origin.processes().len());
        if choice < 8 {
            self.note(cycle, "program halted");
            let process = &self.origin.processes()[chosen];
            process.signal("STOP");
            sleep(Duration::from_millis(fastrand::u64(100..3000)));
            process.signal("CONT");
            return Ok(());
        }
        self.note(cycle, "program ended");
        let process = &mut self.origin.processes()[chosen];
        end_engine(process, is_durable);
        sleep(Duration::from_millis(fastrand::u64(0..1500)));
        process.start()?;
        self.origin.wait()
    }

    /// Waits until the log has all, or nothing has come for a time. Returns the time without records at the end.
    fn wait(&mut self, silence: Duration) -> Duration {
        let (mut bytes, mut since) = (0, Instant::now());
        let mut counted = 0;
        loop {
            let now = std::fs::metadata(&self.log).map_or(0, |file| file.len());
            if now != bytes {
                (bytes, since) = (now, Instant::now());
            } else if since.elapsed() > Duration::from_secs(1) && counted != bytes {
                // It has come to rest: perhaps all are there.
                counted = bytes;
                if numbers(&self.log).is_ok_and(|found| found.len() as u64 >= self.next) {
                    return since.elapsed();
                }
            } else if since.elapsed() >= silence {
                return since.elapsed();
            }
            sleep(Duration::from_millis(100));
        }
    }
}

/// Numbers of the records of a log, and how often each is there.
fn numbers(log: &Path) -> Result<BTreeMap<u64, u64>, Failure> {
    let failed = |cause| Failure::new(format!("{} is unreadable: {cause}", log.display()), "");
    let mut found = BTreeMap::new();
    for line in BufReader::new(File::open(log).map_err(failed)?).split(b'\n') {
        let line = line.map_err(failed)?;
        // An object within a message has its quotes escaped.
        let line = String::from_utf8_lossy(&line).replace("\\\"", "\"");
        if let Some(number) = number(&line) {
            *found.entry(number).or_default() += 1;
        }
    }
    Ok(found)
}
