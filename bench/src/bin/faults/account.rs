//! Account of a log: the numbered records that it has, and the drops that it tells. The log alone has to explain every
//! call.

use crate::halt::{self, Halt};
use logdrive_bench::segment_lines::SegmentLines;
use logdrive_bench::told_drops::ToldDrops;
use logdrive_drain::layout::Style;
use logdrive_store::is_segment;
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Marker in front of the numbers of a record.
pub(crate) const MARKER: &str = "F p";

/// Checksum that stands in a record, so that a torn or mixed line shows.
pub(crate) fn checksum(program: u64, thread: u64, number: u64) -> u64 {
    (program << 48 ^ thread << 32 ^ number)
        .wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns whether a call is a warning, where one of so many is.
pub(crate) fn is_urgent(warn_every: Option<u64>, number: u64) -> bool {
    warn_every.is_some_and(|every| number % every == every - 1)
}

/// The records and drops of a log.
#[derive(Debug, Default)]
pub(crate) struct Account {
    found: HashSet<(u64, u64, u64)>,
    pub(crate) twice: u64,
    pub(crate) torn: u64,
    /// The first torn line.
    pub(crate) first_torn: Option<String>,
    /// Drops that the log tells.
    pub(crate) told: ToldDrops,
    /// Records that stand behind a later one of their file.
    pub(crate) late: u64,
    /// Records of damaged blocks of segments, and what the reader says of these.
    pub(crate) damaged: u64,
    pub(crate) damages: Vec<String>,
    /// Lines of the logger about itself, and of others.
    pub(crate) notices: Vec<String>,
}

/// Lines about itself that are kept of a log.
const NOTICES_MAX: usize = 10_000;

impl Account {
    /// Reads files, those of zstd and gzip too.
    pub(crate) fn of(paths: &[PathBuf]) -> Result<Account, Halt> {
        let mut account = Account::default();
        for path in paths {
            let bytes = bytes_of(path)?;
            match is_segment(&bytes) {
                true => account.take_segment(&bytes)?,
                false => account.take(&bytes),
            }
        }
        Ok(account)
    }

    /// Adds the records of a segment. Those of a damaged block are told by whoever reads it.
    fn take_segment(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        let found = SegmentLines::read(bytes, Style::Text).map_err(|error| halt::fail(error.to_string()))?;
        self.take(&found.lines);
        self.damaged += found.damaged_records;
        self.damages.extend(found.damages);
        Ok(())
    }

    /// Adds the lines of a file.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        if !text.is_empty() && !text.ends_with('\n') {
            self.take_torn(text.lines().last().unwrap_or(""));
        }
        text.lines().for_each(|line| self.take_line(line));
        let times = text.lines().filter(|line| line.contains(MARKER));
        let times = times.filter_map(|line| line.split_once(' ').map(|(time, _)| time));
        let mut latest = "";
        for time in times {
            self.late += u64::from(time < latest);
            latest = latest.max(time);
        }
    }

    fn take_torn(&mut self, line: &str) {
        self.torn += 1;
        let shown = line.chars().take(160).collect();
        self.first_torn.get_or_insert(shown);
    }

    fn take_line(&mut self, line: &str) {
        if let Some((_, numbers)) = line.split_once(MARKER) {
            return match record(numbers) {
                Some(record) if self.found.insert(record) => {}
                Some(_) => self.twice += 1,
                None => self.take_torn(line),
            };
        }
        if line.contains('\0') {
            return self.take_torn(line);
        }
        self.told.take(line);
        if self.notices.len() < NOTICES_MAX {
            self.notices.push(line.to_owned());
        }
    }

    /// Warnings among the records, where one of so many calls is one.
    pub(crate) fn urgent(&self, warn_every: u64) -> u64 {
        let is_urgent = |(_, _, number): &&(u64, u64, u64)| is_urgent(Some(warn_every), *number);
        self.found.iter().filter(is_urgent).count() as u64
    }

    /// Distinct records.
    pub(crate) fn written(&self) -> u64 {
        self.found.len() as u64
    }

    /// Records whose numbers lie in a range.
    pub(crate) fn written_in(&self, numbers: Range<u64>) -> u64 {
        let is_in = |(_, _, number): &&(u64, u64, u64)| numbers.contains(number);
        self.found.iter().filter(is_in).count() as u64
    }
}

/// Program, thread and number behind the marker; `None` where they are torn.
fn record(text: &str) -> Option<(u64, u64, u64)> {
    let mut words = text.split(' ');
    let mut number = |prefix: &str| words.next()?.strip_prefix(prefix)?.parse::<u64>().ok();
    let (program, thread, number) = (number("")?, number("t")?, number("n")?);
    let sum = words.next()?.strip_prefix('c')?;
    let whole =
        sum.parse() == Ok(checksum(program, thread, number)) && words.any(|word| word.starts_with("end"));
    whole.then_some((program, thread, number))
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, Halt> {
    let bytes = std::fs::read(path).map_err(halt::file("read", path))?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("zst") => zstd::decode_all(&bytes[..]).map_err(halt::file("decompress", path)),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_behind_a_later_one_is_late() {
        let mut account = Account::default();
        let lines = [3, 4, 2, 5].map(|second| format!("2026-11-21T12:34:5{second}Z INFO {MARKER}0 t0\n"));
        account.take(lines.concat().as_bytes());
        account.take(lines[0].as_bytes());
        assert_eq!(account.late, 1);
    }

    fn line(program: u64, thread: u64, number: u64) -> String {
        let sum = checksum(program, thread, number);
        format!("2026 INFO main F p{program} t{thread} n{number} c{sum} end\n")
    }

    #[test]
    fn records_are_counted_once_and_torn_ones_are_told_apart() {
        let mut account = Account::default();
        account.take([line(0, 1, 2), line(0, 1, 3), line(0, 1, 2)].concat().as_bytes());
        account.take(line(0, 1, 4).replace(" end", "").as_bytes());
        account.take(line(0, 1, 5).trim_end().as_bytes());
        assert_eq!((account.written(), account.twice, account.torn), (3, 1, 2));
        assert_eq!(account.written_in(0..3), 1);
    }
}
