//! The last records before `tail` began: from the log files, and from the memory of programs that have none.

use super::Known;
use super::pause::ends_within;
use crate::cat::lines::Lines;
use crate::error::CliError;
use crate::session_finder::SessionFinder;
use crate::signals::Signals;
use crate::watched_session::sinks_of;
use logdrive_drain::Stats;
use logdrive_reader::follow::{Follow, FollowedRecord};
use logdrive_reader::{LineFilter, last_records};
use logdrive_ring::SessionReader;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Timeout for files to have what was logged before: twice the default time between two flushes.
const FILES_BEHIND: Duration = Duration::from_millis(450);

/// Time for which a record is kept back for its order, and some: so long nothing that is past can be taken.
const WINDOW: Duration = Duration::from_millis(60);

/// Factor of records that are read of a file to which many processes log, when some of them are named.
const SHARED_FACTOR: usize = 20;

/// Instead of a process: the lines of an agent name theirs.
const NAMED: u64 = u64::MAX;

/// Records of the past, as they are collected.
pub(super) struct Pasts {
    count: usize,
    pub(super) until_ns: u64,
    /// Time, the process, and the record as it stands; `true` where it is laid out already.
    found: VecDeque<(u64, u64, Vec<u8>, bool)>,
    failures: Vec<CliError>,
}

impl Pasts {
    pub(super) fn new(count: usize, until_ns: u64) -> Self {
        Self {
            count,
            until_ns,
            found: VecDeque::new(),
            failures: Vec::new(),
        }
    }

    /// Waits until the files have what was committed until now. Gives those who take too long.
    pub(super) fn wait_for_files(
        &self,
        known: &BTreeMap<u64, Known>,
        follow: &mut Follow,
        finder: &mut SessionFinder,
        signals: &Signals,
    ) -> Vec<String> {
        let began = Instant::now();
        let committed =
            |path: &Path| SessionReader::open(path).map_or(0, |view| Stats::of_view(&view).committed);
        let with_file = || known.values().filter(|known| known.has_file);
        let of_agents = with_file().filter(|known| known.at.entry.is_some());
        // An agent writes at once when it is asked.
        let late: Vec<&Known> = of_agents
            .filter(|known| finder.sinks(&known.at, true).is_err())
            .collect();
        let mut behind: Vec<(&Known, u64)> = with_file()
            .filter(|known| known.at.entry.is_none())
            .map(|known| (known, committed(&known.at.path)))
            .collect();
        loop {
            follow.poll();
            behind.retain(|(known, committed)| !has_written(&known.at.path, *committed));
            let spent = began.elapsed();
            let is_done = behind.is_empty() && spent >= WINDOW;
            if is_done || spent >= FILES_BEHIND || ends_within(signals, Duration::from_millis(5)) {
                let behind = behind.iter().map(|(known, _)| *known);
                return behind.chain(late).map(Known::title).collect();
            }
        }
    }

    /// Reads the ends of the files.
    pub(super) fn read_files(&mut self, known: &BTreeMap<u64, Known>, names: &[String], lines: &Lines) {
        let mut seen = BTreeSet::new();
        for (id, process) in known.iter().filter(|(_, known)| known.has_file) {
            let file = match process.shared_files.first() {
                Some(file) => Some(file.clone()),
                None => SessionReader::open(&process.at.path)
                    .ok()
                    .and_then(|view| files_of(&view, process.pid).into_iter().next()),
            };
            let Some(file) = file.filter(|file| seen.insert(file.clone())) else {
                continue;
            };
            let is_shared = !process.shared_files.is_empty();
            // Where a part of those who log there was named, the others are left out; so more has to be read.
            let is_partly = is_shared && !names.is_empty() && !names.contains(&process.app);
            let count = match is_partly {
                true => self.count.saturating_mul(SHARED_FACTOR),
                false => self.count,
            };
            let filter = match is_shared {
                true => lines.filter.clone(),
                // Its lines do not say whose they are.
                false => lines.filter.clone().of_process(&process.app, process.pid),
            };
            let mut filter = LineFilter::new(filter);
            match last_records(&file, &mut filter, count, self.until_ns) {
                Ok(past) => {
                    let is_theirs = |record: &[u8]| {
                        let mut those = known
                            .values()
                            .filter(|other| other.shared_files.first() == Some(&file));
                        !is_partly || those.any(|other| names_process(record, other.pid))
                    };
                    let kept = past.records.into_iter().filter(|record| is_theirs(&record.bytes));
                    let owner = if is_shared { NAMED } else { *id };
                    self.failures
                        .extend(past.failures.into_iter().map(CliError::from));
                    self.found
                        .extend(kept.map(|record| (record.unix_ns, owner, record.bytes, false)));
                }
                Err(error) => self.failures.push(error.into()),
            }
        }
    }

    /// Errors of what could not be read.
    pub(super) fn take_failures(&mut self) -> Vec<CliError> {
        std::mem::take(&mut self.failures)
    }

    /// Keeps a record that was found in memory, if it passes.
    pub(super) fn keep(&mut self, record: &mut FollowedRecord<'_>, lines: &mut Lines, names_process: bool) {
        if !record.passes(&lines.filter) {
            return;
        }
        let (unix_ns, id) = (record.unix_ns, record.id);
        let line = match names_process {
            true => record.line_with_process().to_vec(),
            false => record.line().to_vec(),
        };
        self.found.push_back((unix_ns, id, line, true));
        // Of one source so many are enough, and files are read first.
        if self.found.len() > self.count.saturating_mul(2).saturating_add(1_000_000) {
            self.sort();
        }
    }

    /// In order of time, and no more than were asked for.
    fn sort(&mut self) {
        self.found.make_contiguous().sort_by_key(|(unix_ns, ..)| *unix_ns);
        let surplus = self.found.len().saturating_sub(self.count);
        self.found.drain(..surplus);
    }

    /// Prints all, and keeps nothing.
    pub(super) fn print(
        &mut self,
        known: &BTreeMap<u64, Known>,
        lines: &mut Lines,
        names_process: bool,
    ) -> Result<(), CliError> {
        self.sort();
        for (_, id, record, is_laid_out) in self.found.drain(..) {
            if is_laid_out {
                lines.print(&record)?;
                continue;
            }
            let process = known.get(&id).filter(|_| names_process);
            lines.print_past(&record, process.map(|known| (known.app.as_str(), known.pid)))?;
        }
        Ok(())
    }
}

/// Whether a line of an agent's log names this process, in any of its layouts.
fn names_process(record: &[u8], pid: u32) -> bool {
    let ends_well = |rest: Option<&u8>| rest.is_none_or(|byte| !byte.is_ascii_digit());
    [
        format!("[{pid}]"),
        format!("\"pid\":{pid}"),
        format!(" pid={pid}"),
    ]
    .iter()
    .any(|name| {
        let mut places = memchr::memmem::find_iter(record, name.as_bytes());
        places.any(|at| ends_well(record.get(at + name.len())))
    })
}

/// Whether the log file of a session has so many of its records.
pub(crate) fn has_written(path: &Path, committed: u64) -> bool {
    let Ok(view) = SessionReader::open(path) else {
        // It has ended, and its drain wrote everything before.
        return true;
    };
    let stats = Stats::of_view(&view);
    let Some(first) = file_sinks(&view).first().map(|(sink, _)| *sink) else {
        return true;
    };
    stats.sinks.get(first).is_none_or(|sink| {
        let told = sink.counts.written_records.saturating_add(sink.dropped());
        told >= committed
    })
}

/// The log files of a session, the one with the most records first. Those that do not exist are left out.
pub(crate) fn files_of(view: &SessionReader, pid: u32) -> Vec<PathBuf> {
    file_sinks(view)
        .into_iter()
        .map(|(_, path)| of_process(&path, pid).unwrap_or(path))
        .filter(|path| path.is_file())
        .collect()
}

/// The sinks that are files, by the number of the sink; those that leave out the fewest levels first.
fn file_sinks(view: &SessionReader) -> Vec<(usize, PathBuf)> {
    let mut sinks: Vec<_> = sinks_of(view)
        .into_iter()
        .enumerate()
        .filter_map(|(number, sink)| Some((sink.min_level, number, sink.file?.path)))
        .collect();
    sinks.sort_by_key(|(level, number, _)| (*level, *number));
    sinks
        .into_iter()
        .map(|(_, number, path)| (number, path))
        .collect()
}

/// `app.4711.log` beside `app.log`: where a further process with the same configuration writes.
fn of_process(path: &Path, pid: u32) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let own = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => format!("{stem}.{pid}.{extension}"),
        _ => format!("{name}.{pid}"),
    };
    let own = path.with_file_name(own);
    own.is_file().then_some(own)
}
