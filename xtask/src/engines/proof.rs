//! A proof: records from a file through sender, collector and engine while each of them is killed and halted at random, and
//! then a count of what the engine has.

use super::load::Load;
use super::process::{Process, wait_until};
use super::server::{Row, Server};
use crate::paint;
use crate::shell::{Failure, Outcome};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time for all that is under way to arrive at the end.
const END_TIMEOUT: Duration = Duration::from_secs(600);
/// Time for a program to end that was asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of a proof.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProofOptions {
    pub(super) records: u64,
    pub(super) cycles: u64,
    /// Time for which the engine is cut off once.
    pub(super) cut: Duration,
}

/// Counts of a proof.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) records: u64,
    pub(super) cycles: u64,
    pub(super) lost: u64,
    /// Rows beyond the first of a number.
    pub(super) twins: u64,
    /// The same, where of rows with one id only one counts.
    pub(super) twins_by_id: u64,
    pub(super) dead_letters: u64,
    /// Set where the way to the engine, or from a program, has no acknowledgements.
    pub(super) may_lose: bool,
    /// Set where records may be twice, since they have no ids.
    pub(super) may_repeat: bool,
    /// Dead letters that were asked for.
    pub(super) poison: u64,
    /// Records a second at the end, when nothing is disturbed.
    pub(super) rate: u64,
    /// Microseconds of the collector's processor time for each of these records, times 1,000.
    pub(super) cpu_nanos: u64,
}

/// A proof that is under way.
struct Proof<'a> {
    server: &'a mut dyn Server,
    collector: Process,
    sender: Process,
    load: Load,
    spool: PathBuf,
}

/// Runs a proof in a directory that has nothing of an earlier one.
pub(super) fn run(
    server: &mut dyn Server,
    directory: &Path,
    program: &Path,
    options: ProofOptions,
) -> Result<Counts, Failure> {
    let (socket, spool) = (
        format!("unix://{}/collect.sock", directory.display()),
        directory.join("spool"),
    );
    let log = directory.join("load.json");
    let word = |text: &str| text.to_owned();
    let program = program.display().to_string();
    let collect = [
        "collect",
        "--json",
        "--listen",
        &socket,
        "--out",
        &spool.display().to_string(),
        "--to",
    ];
    let collect = collect.map(word).into_iter().chain([server.address()]);
    let collect = std::iter::once(program.clone()).chain(collect);
    let state = directory.join("send.state").display().to_string();
    let send = [
        "send",
        &log.display().to_string(),
        "--follow",
        "--to",
        &socket,
        "--state",
        &state,
    ];
    let send = std::iter::once(program).chain(send.map(word));
    let mut proof = Proof {
        server,
        collector: Process::new(directory, "collector", collect),
        sender: Process::new(directory, "sender", send),
        load: Load::new(&log)?,
        spool,
    };
    proof.collector.start()?;
    proof.sender.start()?;
    let poison = proof.disturb(options)?;
    let (rate, cpu_nanos) = proof.finish(options.records)?;
    let rows = proof.server.rows()?;
    let dead = dead_letters(&proof.spool);
    let mut counts = count(rows, proof.load.next, &dead);
    counts.cycles = options.cycles;
    counts.poison = poison;
    counts.may_lose = proof.server.may_lose();
    counts.may_repeat = proof.server.may_repeat();
    counts.rate = rate;
    counts.cpu_nanos = cpu_nanos;
    Ok(counts)
}

impl Proof<'_> {
    /// Lets the first half of the records through faults. Returns the number of records that the engine never takes.
    fn disturb(&mut self, options: ProofOptions) -> Result<u64, Failure> {
        let share = (options.records / 2).checked_div(options.cycles).unwrap_or(0);
        let mut poison = 0;
        for cycle in 0..options.cycles {
            self.load.append(share)?;
            if cycle == options.cycles / 3
                && let Some(members) = self.server.poison()
            {
                self.load.append_poison(&members)?;
                poison += 1;
            }
            sleep(Duration::from_millis(fastrand::u64(50..1000)));
            if cycle == options.cycles / 2 {
                self.note(cycle, "engine cut off");
                self.halt_all(options.cut);
            } else {
                self.fault(cycle)?;
            }
        }
        Ok(poison)
    }

    fn note(&self, cycle: u64, what: &str) {
        eprintln!("{}", paint::faint(&format!("  {cycle}: {what}")));
    }

    fn halt_all(&mut self, time: Duration) {
        let processes = self.server.processes();
        processes.iter().for_each(|process| process.signal("STOP"));
        sleep(time);
        processes.iter().for_each(|process| process.signal("CONT"));
    }

    fn fault(&mut self, cycle: u64) -> Outcome {
        let is_durable = self.server.is_durable();
        let chosen = fastrand::usize(..self.server.processes().len());
        match fastrand::u8(..10) {
            0..3 => {
                self.note(cycle, "collector killed");
                self.collector.kill();
                sleep(Duration::from_millis(fastrand::u64(0..500)));
                self.collector.start()
            }
            3..5 => {
                self.note(cycle, "sender killed");
                self.sender.kill();
                sleep(Duration::from_millis(fastrand::u64(0..500)));
                self.sender.start()
            }
            5..7 => {
                self.note(cycle, "engine halted");
                let process = &self.server.processes()[chosen];
                process.signal("STOP");
                sleep(Duration::from_millis(fastrand::u64(100..3000)));
                process.signal("CONT");
                Ok(())
            }
            7..9 => {
                self.note(cycle, "engine killed");
                let process = &mut self.server.processes()[chosen];
                end_engine(process, is_durable);
                sleep(Duration::from_millis(fastrand::u64(0..1500)));
                process.start()?;
                self.server.wait()
            }
            _ => {
                self.note(cycle, "engine, collector and sender killed");
                self.collector.kill();
                self.sender.kill();
                for process in self.server.processes() {
                    end_engine(process, is_durable);
                }
                for process in self.server.processes() {
                    process.start()?;
                }
                self.collector.start()?;
                self.sender.start()?;
                self.server.wait()
            }
        }
    }

    /// Lets the other half through undisturbed, until the engine has all. Returns records a second, and nanoseconds of the
    /// collector's processor time a record.
    fn finish(&mut self, records: u64) -> Result<(u64, u64), Failure> {
        self.settle()?;
        let (start, cpu) = (Instant::now(), self.collector.cpu_seconds());
        let rest = records.saturating_sub(self.load.next);
        self.load.append(rest)?;
        self.settle()?;
        let seconds = start.elapsed().as_secs_f64();
        let cpu = self.collector.cpu_seconds() - cpu;
        let was_well = self.sender.end(STOP_TIMEOUT);
        if !self.collector.end(STOP_TIMEOUT) || !was_well {
            eprintln!(
                "{}",
                paint::bad("collector or sender did not end well: see their logs")
            );
        }
        Ok((
            (rest as f64 / seconds) as u64,
            (cpu * 1e9 / rest.max(1) as f64) as u64,
        ))
    }

    /// Waits until the delivery has handed over all that was written.
    fn settle(&mut self) -> Outcome {
        let path = self.spool.join("delivery.state");
        let (collector, sender, expected) = (&mut self.collector, &mut self.sender, self.load.next);
        let waited = wait_until("all records are with the engine", END_TIMEOUT, || {
            let ended = collector.has_ended() || sender.has_ended();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let state: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            ended || state["number"].as_u64().unwrap_or(0) >= expected
        });
        if self.collector.has_ended() || self.sender.has_ended() {
            return Err(Failure::new(
                "collector or sender ended by itself: see its log",
                "",
            ));
        }
        if let Err(failure) = waited {
            eprintln!("{}", paint::bad(&failure.message));
        }
        Ok(())
    }
}

/// Ends a process of an engine: at once, or with the time to write what it has acknowledged where it needs that.
pub(super) fn end_engine(process: &mut Process, is_durable: bool) {
    match is_durable {
        true => process.kill(),
        false => {
            process.end(STOP_TIMEOUT);
        }
    }
}

/// Numbers and ids of dead letters.
fn dead_letters(spool: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(spool.join("dead-letters.jsonl")).unwrap_or_default();
    let row = |line: &str| {
        let letter: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(Row {
            number: letter["record"]["n"].as_u64()?,
            id: letter["id"].as_str()?.to_owned(),
        })
    };
    text.lines().filter_map(row).collect()
}

/// Counts rows of an engine and dead letters against the numbers that were written.
fn count(mut rows: Vec<Row>, written: u64, dead: &[Row]) -> Counts {
    let all = rows.len() as u64;
    rows.sort();
    let mut by_id = rows.clone();
    by_id.dedup_by(|one, other| one.id == other.id);
    rows.dedup_by_key(|row| row.number);
    let there = rows.len() as u64;
    let mut ids: Vec<&str> = dead.iter().map(|row| row.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    let is_missing = |row: &&Row| rows.binary_search_by_key(&row.number, |row| row.number).is_err();
    let mut buried: Vec<u64> = dead.iter().filter(is_missing).map(|row| row.number).collect();
    buried.sort_unstable();
    buried.dedup();
    Counts {
        records: written,
        lost: written.saturating_sub(there + buried.len() as u64),
        twins: all - there,
        twins_by_id: by_id.len() as u64 - there,
        dead_letters: ids.len() as u64,
        ..Counts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_records_twins_and_dead_letters_are_told_apart() {
        let row = |number: u64, id: &str| Row {
            number,
            id: id.to_owned(),
        };
        let rows = vec![
            row(0, "x-0"),
            row(1, "x-1"),
            row(1, "x-1"),
            row(2, "x-2"),
            row(2, "y-9"),
        ];
        let dead = [row(3, "x-3"), row(3, "x-3")];
        let counts = count(rows, 5, &dead);
        let expected = Counts {
            records: 5,
            lost: 1,
            twins: 2,
            twins_by_id: 1,
            dead_letters: 1,
            ..Counts::default()
        };
        assert_eq!(counts, expected);
    }
}
