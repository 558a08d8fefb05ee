//! The numbered lines of programs that die, and what is known of them besides: the counts of their rings, and the notes
//! that each thread makes of what it has logged.

use crate::Error;
use logdrive_bench::told_drops::ToldDrops;
use logdrive_ring::SessionReader;
use logdrive_testkit::Random;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The splitmix64 step.
pub(crate) fn mix(x: u64) -> u64 {
    Random::new(x).bits()
}

/// A line's checksum, so that a torn or mixed line shows.
fn checksum(program: u64, thread: u64, number: u64) -> u64 {
    mix((program << 8 | thread).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number)
}

/// Logs a line, which [`Lines::check`] understands.
pub(crate) fn log_line(program: u64, thread: u64, number: u64, padding: &str) {
    let sum = checksum(program, thread, number);
    logdrive::info!("{} {} {} {:016x} {}", program, thread, number, sum, padding);
}

/// Numbers of lines that were found, by program and thread.
#[derive(Default)]
pub(crate) struct Lines {
    next: BTreeMap<(u64, u64), u64>,
    /// Lines that were checked so far.
    pub(crate) checked: u64,
    /// Set if numbers may be missing, because the log tells of drops.
    has_drops: bool,
    told: ToldDrops,
}

impl Lines {
    /// Takes a line without its end; an error where it is torn, or not the next of its thread.
    pub(crate) fn check(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split(' ').skip(1);
        let mut number = |radix| u64::from_str_radix(words.next().unwrap_or(""), radix);
        let (Ok(program), Ok(thread), Ok(count), Ok(sum)) = (number(10), number(10), number(10), number(16))
        else {
            return Err("a torn line".to_owned());
        };
        if sum != checksum(program, thread, count) {
            return Err("a torn line".to_owned());
        }
        let next = self.next.entry((program, thread)).or_default();
        if count != *next && !(self.has_drops && count > *next) {
            return Err(match *next {
                u64::MAX => "a line after the program's end".to_owned(),
                next if count < next => format!("a line that stands twice, {next} is next"),
                next => format!("lines are lost before this one, {next} is next"),
            });
        }
        *next = count + 1;
        self.checked += 1;
        Ok(())
    }

    /// Lets numbers be missing from now on; [`Lines::explain`] then counts them.
    pub(crate) fn allow_drops(&mut self) {
        self.has_drops = true;
    }

    /// Takes a line of the drain.
    pub(crate) fn take_notice(&mut self, notice: &str) {
        self.told.take(notice);
    }

    /// Drops that the log tells.
    pub(crate) fn told(&self) -> u64 {
        self.told.sum()
    }

    /// Compares calls with lines and drops that the log tells. As many calls as there were threads may have been in the
    /// middle of being counted.
    pub(crate) fn explain(&self, calls: u64, threads: u64) -> Result<(), String> {
        let explained = self.checked + self.told();
        match explained.abs_diff(calls) <= threads {
            true => Ok(()),
            false => Err(format!(
                "{calls} calls, but {} lines and {} drops that the log tells",
                self.checked,
                self.told()
            )),
        }
    }

    /// The number of lines of a thread; they are forgotten, and none may follow.
    pub(crate) fn take(&mut self, program: u64, thread: u64) -> u64 {
        self.next.insert((program, thread), u64::MAX).unwrap_or(0)
    }

    /// Compares the lines of a program that was killed with what its rings counted as committed, together, because a thread
    /// leaves a ring that is full for a larger one, and with what its threads had noted; returns how many there are.
    pub(crate) fn compare(&mut self, program: u64, rings: &[u64], noted: &[u64]) -> Result<u64, Error> {
        let all = self.compare_notes(program, noted, u64::MAX)?;
        let counted: u64 = rings.iter().sum();
        // The count follows the commit, so a kill in between leaves it one short for each thread.
        if all < counted || all > counted + noted.len() as u64 {
            return Err(format!("program {program}: {all} lines, {counted} counted in the rings").into());
        }
        Ok(all)
    }

    /// Compares the lines of a program that was killed with what its threads had noted, each of them some lines ago at
    /// most; returns how many there are.
    pub(crate) fn compare_notes(&mut self, program: u64, noted: &[u64], most: u64) -> Result<u64, Error> {
        let mut all = 0;
        for (thread, &noted) in (0..).zip(noted) {
            let found = self.take(program, thread);
            if found < noted || found - noted > most {
                return Err(
                    format!("program {program}, thread {thread}: {found} lines, {noted} noted").into(),
                );
            }
            all += found;
        }
        Ok(all)
    }
}

/// Records that the rings of the threads `t0`, `t1` and so on counted as committed; 0 for a thread without a ring.
pub(crate) fn committed<const THREADS: usize>(session: &SessionReader) -> Result<[u64; THREADS], Error> {
    let (rings, broken) = session.rings();
    if let Some(error) = broken.first() {
        return Err(error.to_string().into());
    }
    Ok(std::array::from_fn(|thread| {
        let name = format!("t{thread}");
        let own = rings.iter().filter(|ring| ring.thread_name() == name);
        own.map(|ring| ring.counts().records).sum()
    }))
}

/// The file in which the threads of a program note how many lines they have logged.
pub(crate) struct LineCounts(File);

impl LineCounts {
    /// Makes the file, without notes.
    pub(crate) fn create<const THREADS: usize>(path: &Path) -> Result<(), Error> {
        Ok(std::fs::write(path, [[0u8; 8]; THREADS].as_flattened())?)
    }

    /// Opens the file for notes.
    pub(crate) fn open(path: &Path) -> Result<LineCounts, Error> {
        Ok(LineCounts(OpenOptions::new().write(true).open(path)?))
    }

    /// LineCounts how many lines a thread has logged. They were committed before, so the log must have them.
    pub(crate) fn note(&self, thread: u64, lines: u64) {
        let noted = self.0.write_at(&lines.to_le_bytes(), thread * 8);
        assert!(noted.is_ok_and(|bytes| bytes == 8), "the notes can be written");
    }

    /// Reads the notes of all threads.
    pub(crate) fn read<const THREADS: usize>(path: &Path) -> Result<[u64; THREADS], Error> {
        let bytes = std::fs::read(path)?;
        let words = bytes.as_chunks().0;
        Ok(std::array::from_fn(|thread| {
            words.get(thread).map_or(0, |word| u64::from_le_bytes(*word))
        }))
    }
}
