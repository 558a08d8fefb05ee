//! The thread that makes the index: page after page, first those that a filter needs, from the place that is shown on.

use super::index::{Entries, PageFacts, PageIndex};
use super::page::Page;
use super::paged_log::PagedLog;
use crate::filter::{Filter, LineFilter};
use crate::times::Times;
use jiff::tz::TimeZone;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Task for the thread, as the screen sets it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Task {
    pub(crate) logs: Vec<Arc<PagedLog>>,
    pub(crate) filter: Option<Filter>,
    /// Number of the filter.
    pub(crate) number: u64,
    /// First page of the screen of each log.
    pub(crate) shown: Vec<u32>,
}

/// A thread that indexes logs. Dropping it ends the thread.
#[derive(Debug)]
pub struct Indexer {
    index: PageIndex,
    pub(crate) task: Arc<Mutex<Task>>,
    thread: Option<JoinHandle<()>>,
}

impl Indexer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(index: PageIndex) -> std::io::Result<Self> {
        let task = Arc::new(Mutex::new(Task::default()));
        let (own_index, own_task) = (index.clone(), Arc::clone(&task));
        let thread = std::thread::Builder::new()
            .name("logdrive-index".to_owned())
            .spawn(move || run(&own_index, &own_task))?;
        Ok(Self {
            index,
            task,
            thread: Some(thread),
        })
    }
}

impl Drop for Indexer {
    fn drop(&mut self) {
        self.index.end();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so, and has nothing left to do.
            let _ = thread.join();
        }
    }
}

fn run(index: &PageIndex, task: &Mutex<Task>) {
    let mut times = Times::new(TimeZone::system());
    let mut filter: Option<(u64, LineFilter)> = None;
    let mut next = Next::default();
    loop {
        let now = task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let changes = {
            let entries = index.entries();
            if entries.is_over {
                return;
            }
            entries.changes
        };
        if filter.as_ref().map(|(number, _)| *number) != now.filter.as_ref().map(|_| now.number) {
            let made = now.filter.clone();
            filter = made.map(|filter| (now.number, LineFilter::new(filter)));
        }
        next.restart();
        loop {
            let found = {
                let entries = index.entries();
                match entries.changes == changes {
                    true => next.find(&entries, &now),
                    false => break,
                }
            };
            let Some((log, page)) = found else {
                index.wait(changes);
                break;
            };
            let Some(paged) = now.logs.get(log) else { break };
            // What cannot be read has no records; the screen tells why when it gets there.
            let read = paged.page(page, &mut times).unwrap_or_default();
            let (all, passing) = facts(&read, filter.as_mut().map(|(_, filter)| filter));
            let mut entries = index.entries();
            let is_same = entries.filter == now.number;
            // Pages that changed meanwhile are read again.
            if entries.changes != changes {
                break;
            }
            if let Some(of_log) = entries.logs.get_mut(log) {
                if let Some(place) = of_log.all.get_mut(page as usize) {
                    *place = Some(all);
                }
                if let Some(place) = of_log.passing.get_mut(page as usize).filter(|_| is_same) {
                    *place = Some(passing);
                }
            }
        }
    }
}

/// Counts the records of a page, and those that pass.
pub(crate) fn facts(page: &Page, mut filter: Option<&mut LineFilter>) -> (PageFacts, PageFacts) {
    let records = page.records();
    let mut all = PageFacts {
        first_ns: records.first().map_or(0, |record| record.unix_ns),
        last_ns: records.last().map_or(0, |record| record.unix_ns),
        ..PageFacts::default()
    };
    let mut passing = all;
    for record in records {
        all.count(record.level);
        let passes = filter
            .as_mut()
            .is_none_or(|filter| filter.passes(&page.plain(record)));
        if passes {
            passing.count(record.level);
        }
    }
    (all, passing)
}

/// The pages that were looked at for work, so that those that are done are not looked at again and again.
#[derive(Debug, Default)]
struct Next {
    /// Pages of each log that are done, counted from the one that is shown.
    done: Vec<u32>,
    log: usize,
}

impl Next {
    fn restart(&mut self) {
        self.done.clear();
        self.log = 0;
    }

    /// Returns the next page without an entry: the logs in turn, each from the page that is shown to its end, then from its
    /// start on.
    fn find(&mut self, entries: &Entries, task: &Task) -> Option<(usize, u32)> {
        let count = entries.logs.len();
        self.done.resize(count, 0);
        for _ in 0..count {
            let log = self.log % count;
            self.log += 1;
            let (Some(of_log), Some(done)) = (entries.logs.get(log), self.done.get_mut(log)) else {
                continue;
            };
            let facts = match task.filter.is_some() {
                true => &of_log.passing,
                false => &of_log.all,
            };
            let pages = facts.len() as u32;
            let shown = task
                .shown
                .get(log)
                .copied()
                .unwrap_or(0)
                .min(pages.saturating_sub(1));
            while *done < pages {
                let page = (shown + *done) % pages;
                if facts.get(page as usize).is_some_and(Option::is_none) {
                    return Some((log, page));
                }
                *done += 1;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::{Duration, Instant};

    #[test]
    fn the_index_counts_levels_and_what_passes() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        for number in 0..10_000 {
            let level = if number % 100 == 0 { "ERROR" } else { "INFO " };
            writeln!(file, "2026-11-21T08:00:00.000Z {level} record {number}").expect("written");
        }
        let log = Arc::new(PagedLog::open(file.path(), 1000).expect("opened"));
        let index = PageIndex::default();
        let indexer = Indexer::start(index.clone()).expect("started");
        *indexer.task.lock().expect("whole") = Task {
            logs: vec![Arc::clone(&log)],
            filter: Some(Filter {
                level: Some(logdrive_wire::Level::Error),
                ..Filter::default()
            }),
            number: 1,
            shown: vec![2],
        };
        index.filter(1);
        index.resize(0, log.pages(), 0);
        let deadline = Instant::now() + Duration::from_secs(10);
        while index.progress(true).0 < u64::from(log.pages()) {
            assert!(Instant::now() < deadline, "{:?}", index.progress(true));
            std::thread::yield_now();
        }
        let (mut all, mut errors, mut passing) = (0, 0, 0);
        index.each(0, false, |_, facts| {
            all += facts.records();
            errors += facts.records_from(logdrive_wire::Level::Warn);
        });
        index.each(0, true, |_, facts| passing += facts.records());
        assert_eq!((all, errors, passing), (10_000, 100, 100));
    }
}
