//! A search for bytes on all cores: threads look through the logs before a walk, and say of each stretch whether it may have a
//! record that matches, so that the walk reads only those that may.

use super::paged_log::PagedLog;
use super::walk::{Direction, Head, Walk};
use crate::limits::{RECORD_BYTES_MAX, SEARCH_THREADS_MAX};
use crate::times::Times;
use jiff::tz::TimeZone;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};

/// States of a stretch.
const UNSEEN: u8 = 0;
const NOTHING: u8 = 1;
const PERHAPS: u8 = 2;

/// Number of a log that no walk waits for.
const NO_LOG: usize = usize::MAX;

/// Function that says whether bytes match: those of a record, without colours.
type Matches = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Bytes that are searched.
pub struct Pattern {
    /// Returns whether bytes match: those of a record, without colours.
    pub matches: Matches,
    /// Set if bytes with a record that matches match as well, so that records need not be told apart.
    pub is_local: bool,
}

/// A search under way. Dropping it stops its threads soon.
pub struct PageSearch {
    shared: Arc<Shared>,
}

struct Shared {
    pattern: Pattern,
    logs: Vec<SearchedLog>,
    /// The log that the walk cannot go on without.
    waits_for: AtomicUsize,
    is_over: AtomicBool,
}

/// One log in stretches of some pages, from the place where the walk begins.
struct SearchedLog {
    log: Arc<PagedLog>,
    direction: Direction,
    pages_each: u32,
    /// The stretch where the walk begins.
    first: u32,
    /// Number of stretches that are searched.
    count: u32,
    /// Number of those that a thread has taken.
    taken: AtomicU32,
    done: AtomicU32,
    states: Vec<AtomicU8>,
}

/// State of a page, as far as a search has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    NotYet,
    Nothing,
    Perhaps,
}

impl fmt::Debug for PageSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (done, all) = self.progress();
        write!(f, "PageSearch({done} of {all})")
    }
}

impl PageSearch {
    /// Begins to search the logs from the place of a walk on, with a thread for each core, so many bytes at a time.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(
        logs: &[Arc<PagedLog>],
        walk: &Walk,
        pattern: Pattern,
        stretch_bytes: u64,
    ) -> io::Result<Self> {
        let heads = logs.iter().zip(&walk.heads);
        let logs = heads.map(|(log, head)| SearchedLog::new(log, *head, walk.direction, stretch_bytes));
        let search = Self {
            shared: Arc::new(Shared {
                pattern,
                logs: logs.collect(),
                waits_for: AtomicUsize::new(NO_LOG),
                is_over: AtomicBool::new(false),
            }),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for number in 0..cores.min(SEARCH_THREADS_MAX) {
            let shared = Arc::clone(&search.shared);
            let thread = std::thread::Builder::new().name("logdrive-search".to_owned());
            match thread.spawn(move || shared.work()) {
                Ok(_) => {}
                // The others do.
                Err(_) if number > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(search)
    }

    /// Returns whether a record matches.
    pub(crate) fn matches(&self, record: &[u8]) -> bool {
        (self.shared.pattern.matches)(record)
    }

    /// Returns the state of a page; where that is nothing yet, the threads go on with its log.
    pub(crate) fn seen(&self, log: u32, page: u32) -> Seen {
        let Some(searched) = self.shared.logs.get(log as usize) else {
            return Seen::Perhaps;
        };
        let seen = searched.seen(page);
        if seen == Seen::NotYet {
            // Relaxed: it only says which log is more urgent.
            self.shared.waits_for.store(log as usize, Ordering::Relaxed);
        }
        seen
    }

    /// Direction of the walk.
    pub(crate) fn direction(&self, log: u32) -> Direction {
        let searched = self.shared.logs.get(log as usize);
        searched.map_or(Direction::Forwards, |searched| searched.direction)
    }

    /// Returns whether a page is the first of its stretch, in the direction of the walk.
    pub(crate) fn begins_stretch(&self, log: u32, page: u32) -> bool {
        let searched = self.shared.logs.get(log as usize);
        searched.is_none_or(|searched| match searched.direction {
            Direction::Forwards => page.is_multiple_of(searched.pages_each),
            Direction::Backwards => (page + 1).is_multiple_of(searched.pages_each),
        })
    }

    /// Number of stretches that were searched, and of all that may have to be.
    pub fn progress(&self) -> (u64, u64) {
        let logs = self.shared.logs.iter();
        // Relaxed: the counts are shown, and say nothing of the states.
        logs.fold((0, 0), |(done, all), log| {
            (
                done + u64::from(log.done.load(Ordering::Relaxed)),
                all + u64::from(log.count),
            )
        })
    }
}

impl Drop for PageSearch {
    fn drop(&mut self) {
        // Relaxed: the flag carries no data, and a stretch more or less does not matter.
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn work(&self) {
        let (mut times, mut bytes) = (Times::new(TimeZone::system()), Vec::new());
        let mut turn = 0;
        // Relaxed: as where it is set.
        while !self.is_over.load(Ordering::Relaxed) {
            // Relaxed: as where it is set.
            let urgent = self.waits_for.load(Ordering::Relaxed);
            let taken = self.logs.get(urgent).and_then(SearchedLog::take).or_else(|| {
                self.waits_for.store(NO_LOG, Ordering::Relaxed);
                (0..self.logs.len()).find_map(|_| {
                    turn += 1;
                    self.logs.get(turn % self.logs.len())?.take()
                })
            });
            let Some((log, stretch)) = taken else { return };
            // What cannot be read is left to the walk, which says why.
            let is_perhaps = log
                .has_match(stretch, &self.pattern, &mut times, &mut bytes)
                .unwrap_or(true);
            log.set(stretch, is_perhaps);
        }
    }
}

impl SearchedLog {
    fn new(log: &Arc<PagedLog>, head: Head, direction: Direction, stretch_bytes: u64) -> Self {
        let pages = log.pages();
        let pages_each = match log.is_segment() {
            true => 1,
            false => u32::try_from(stretch_bytes / log.page_bytes())
                .unwrap_or(1)
                .max(1),
        };
        let stretches = pages.div_ceil(pages_each);
        let (first, count) = match (head, direction) {
            (Head::From(page, _), Direction::Forwards) => {
                let first = (page / pages_each).min(stretches);
                (first, stretches - first)
            }
            (Head::From(page, _), Direction::Backwards) => {
                let first = (page / pages_each).min(stretches.saturating_sub(1));
                (first, (first + 1).min(stretches))
            }
            _ => (0, 0),
        };
        Self {
            log: Arc::clone(log),
            direction,
            pages_each,
            first,
            count,
            taken: AtomicU32::new(0),
            done: AtomicU32::new(0),
            states: (0..stretches).map(|_| AtomicU8::new(UNSEEN)).collect(),
        }
    }

    /// Takes the next stretch.
    fn take(&self) -> Option<(&Self, u32)> {
        // Relaxed: each number is taken once, and what it is of does not change.
        if self.taken.load(Ordering::Relaxed) >= self.count {
            return None;
        }
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        (number < self.count).then(|| match self.direction {
            Direction::Forwards => (self, self.first + number),
            Direction::Backwards => (self, self.first - number),
        })
    }

    fn set(&self, stretch: u32, is_perhaps: bool) {
        if let Some(state) = self.states.get(stretch as usize) {
            // Relaxed: the walk reads the log itself, and needs nothing that the thread has written.
            state.store(if is_perhaps { PERHAPS } else { NOTHING }, Ordering::Relaxed);
        }
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn seen(&self, page: u32) -> Seen {
        let stretch = page / self.pages_each;
        // The log may have grown behind the last stretch, or within it.
        if stretch as usize + 1 >= self.states.len() {
            return Seen::Perhaps;
        }
        let state = self.states.get(stretch as usize);
        // Relaxed: as where it is set.
        match state.map_or(PERHAPS, |state| state.load(Ordering::Relaxed)) {
            UNSEEN => Seen::NotYet,
            NOTHING => Seen::Nothing,
            _ => Seen::Perhaps,
        }
    }

    /// Returns whether a record that begins in a stretch may match.
    fn has_match(
        &self,
        stretch: u32,
        pattern: &Pattern,
        times: &mut Times,
        bytes: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let first = stretch * self.pages_each;
        if pattern.is_local && !self.log.is_segment() {
            // A record goes on behind its page for so many bytes at most.
            let length = u64::from(self.pages_each) * self.log.page_bytes() + RECORD_BYTES_MAX as u64 + 2;
            self.log
                .bytes_into(u64::from(first) * self.log.page_bytes(), length as usize, bytes)?;
            // Colours may stand within what matches without them.
            return Ok(memchr::memchr(0x1b, bytes).is_some() || (pattern.matches)(bytes));
        }
        for number in first..first + self.pages_each {
            let page = self.log.page(number, times)?;
            let mut records = page.records().iter();
            if records.any(|record| (pattern.matches)(&page.plain(record))) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
