//! The index of logs in pages: how many records of which level each page has, and how many of them pass the filter.

use crate::limits::PAGES_INDEXED_MAX;
use logdrive_wire::Level;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Number of levels, and of records without one.
pub(crate) const LEVELS: usize = 7;

/// Counts of the records of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageFacts {
    /// Time of its first record, in nanoseconds since 1970.
    pub first_ns: u64,
    /// Time of its last record.
    pub last_ns: u64,
    /// Its records by level, from trace to fatal; those without a level come last.
    pub levels: [u32; LEVELS],
}

impl PageFacts {
    /// Number of records.
    pub fn records(&self) -> u64 {
        self.levels.iter().map(|count| u64::from(*count)).sum()
    }

    /// Number of records of a level or above.
    pub fn records_from(&self, least: Level) -> u64 {
        let counts = Level::ALL.into_iter().zip(self.levels);
        let counts = counts.filter(|(level, _)| *level >= least);
        counts.map(|(_, count)| u64::from(count)).sum()
    }

    /// Counts a record.
    pub(crate) fn count(&mut self, level: Option<Level>) {
        let place = level.map_or(LEVELS - 1, |level| usize::from(level.code()));
        if let Some(count) = self.levels.get_mut(place) {
            *count += 1;
        }
    }
}

/// Entries of one log.
#[derive(Debug, Default)]
pub(crate) struct LogEntries {
    /// Of all its records.
    pub(crate) all: Vec<Option<PageFacts>>,
    /// Of those that pass the filter.
    pub(crate) passing: Vec<Option<PageFacts>>,
}

/// What the index has, behind its lock.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) logs: Vec<LogEntries>,
    /// Number of the filter of which the passing records are.
    pub(crate) filter: u64,
    /// Counts up with each change that brings work for the indexer.
    pub(crate) changes: u64,
    pub(crate) is_over: bool,
}

/// Index of logs in pages, which one thread makes and another reads.
#[derive(Debug, Clone, Default)]
pub struct PageIndex {
    shared: Arc<(Mutex<Entries>, Condvar)>,
}

impl PageIndex {
    /// Counts of all records of a page, where they are known.
    pub fn facts(&self, log: u32, page: u32) -> Option<PageFacts> {
        let entries = self.entries();
        *entries.logs.get(log as usize)?.all.get(page as usize)?
    }

    /// Counts of the records of a page that pass the filter of this number, where they are known.
    pub fn passing(&self, log: u32, page: u32, filter: u64) -> Option<PageFacts> {
        let entries = self.entries();
        match entries.filter == filter {
            true => *entries.logs.get(log as usize)?.passing.get(page as usize)?,
            false => None,
        }
    }

    /// Calls a function with the counts of each page of a log that are known: of all records, or of those that pass.
    pub fn each(&self, log: u32, is_passing: bool, mut each: impl FnMut(u32, &PageFacts)) {
        let entries = self.entries();
        let Some(of_log) = entries.logs.get(log as usize) else {
            return;
        };
        let facts = if is_passing { &of_log.passing } else { &of_log.all };
        for (page, facts) in facts.iter().enumerate() {
            if let Some(facts) = facts {
                each(page as u32, facts);
            }
        }
    }

    /// Number of pages with an entry, and of pages that are to get one.
    pub fn progress(&self, is_filtered: bool) -> (u64, u64) {
        let entries = self.entries();
        let mut progress = (0, 0);
        for log in &entries.logs {
            let facts = if is_filtered { &log.passing } else { &log.all };
            progress.0 += facts.iter().flatten().count() as u64;
            progress.1 += facts.len() as u64;
        }
        progress
    }

    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        // Entries are whole between two statements, whoever panicked.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is changed, or nobody needs the index.
    pub(crate) fn wait(&self, changes: u64) {
        let entries = self.entries();
        let is_idle = |entries: &mut Entries| entries.changes == changes && !entries.is_over;
        // The lock is released at once.
        drop(self.shared.1.wait_while(entries, is_idle));
    }

    /// Lets the indexer go on.
    pub(crate) fn notify(&self, entries: &mut Entries) {
        entries.changes += 1;
        self.shared.1.notify_all();
    }

    /// Makes room for the pages of a log, and forgets those from `first_changed` on.
    pub(crate) fn resize(&self, log: usize, pages: u32, first_changed: u32) {
        let mut entries = self.entries();
        let pages = pages.min(PAGES_INDEXED_MAX) as usize;
        if entries.logs.len() <= log {
            entries.logs.resize_with(log + 1, LogEntries::default);
        }
        if let Some(log) = entries.logs.get_mut(log) {
            for facts in [&mut log.all, &mut log.passing] {
                facts.truncate(first_changed as usize);
                facts.resize(pages, None);
            }
        }
        self.notify(&mut entries);
    }

    /// Forgets which records pass: the filter is another one.
    pub(crate) fn filter(&self, number: u64) {
        let mut entries = self.entries();
        entries.filter = number;
        for log in &mut entries.logs {
            log.passing.fill(None);
        }
        self.notify(&mut entries);
    }

    /// Tells the indexer that nobody needs the index.
    pub(crate) fn end(&self) {
        let mut entries = self.entries();
        entries.is_over = true;
        self.notify(&mut entries);
    }
}
