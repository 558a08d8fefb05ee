//! The time line: the records of several logs in one order, read page by page in both directions.

use super::index::{PageFacts, PageIndex};
use super::indexer::{Indexer, Task};
use super::page::{Page, PageRecord};
use super::page_search::{PageSearch, Pattern, Seen};
use super::paged_log::{Change, PagedLog};
use super::walk::{Direction, Head, RecordPlace, Step, Walk, WalkFrom};
use crate::filter::{Filter, LineFilter};
use crate::limits::{PAGES_KEPT_BYTES_MAX, SEARCH_STRETCH_BYTES};
use crate::times::Times;
use jiff::tz::TimeZone;
use logdrive_wire::Level;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

/// Records that a walk stops at.
#[derive(Debug, Clone, Copy)]
pub enum Want<'a> {
    /// Each, whether or not it passes the filter.
    All,
    /// Those that pass the filter.
    Passing,
    /// Those that pass the filter and have this level or a higher one.
    Level(Level),
    /// Those that pass the filter and match what is searched.
    Match(&'a PageSearch),
}

/// Bytes of pages that may be read before a step has to come back.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// Returns a budget of so many bytes.
    pub fn bytes(left: u64) -> Self {
        Self { left }
    }

    /// Takes a part; `false` when all is used up.
    fn take(&mut self, bytes: u64) -> bool {
        let has_some = self.left > 0;
        self.left = self.left.saturating_sub(bytes);
        has_some
    }
}

/// A page in memory.
#[derive(Debug)]
struct KeptPage {
    page: Rc<Page>,
    /// Records of it that pass, for the filter of this number.
    passes: Option<(u64, Rc<Vec<bool>>)>,
    used: u64,
}

/// Records of several logs in the order of their times.
#[derive(Debug)]
pub struct TimeLine {
    logs: Vec<Arc<PagedLog>>,
    index: PageIndex,
    indexer: Option<Indexer>,
    kept: HashMap<(u32, u32), KeptPage>,
    kept_bytes: usize,
    uses: u64,
    filter: Option<LineFilter>,
    /// Number of the filter; it counts up with each change.
    filter_number: u64,
    /// First and last time of records that are found.
    range: (u64, u64),
    times: Times,
    failure: Option<String>,
}

impl Default for TimeLine {
    fn default() -> Self {
        Self::new(None, PageIndex::default())
    }
}

impl TimeLine {
    /// Returns a time line without logs. Without an indexer there are no counts.
    pub fn new(indexer: Option<Indexer>, index: PageIndex) -> Self {
        Self {
            logs: Vec::new(),
            index,
            indexer,
            kept: HashMap::new(),
            kept_bytes: 0,
            uses: 0,
            filter: None,
            filter_number: 0,
            range: (0, u64::MAX),
            times: Times::new(TimeZone::system()),
            failure: None,
        }
    }

    /// Adds a log, and returns its number.
    pub fn add(&mut self, log: Arc<PagedLog>) -> u32 {
        let number = self.logs.len();
        self.logs.push(Arc::clone(&log));
        self.tell_indexer(|task| task.logs.push(log));
        self.index.resize(number, self.pages(number as u32), 0);
        number as u32
    }

    /// The logs.
    pub fn logs(&self) -> &[Arc<PagedLog>] {
        &self.logs
    }

    /// The index.
    pub fn index(&self) -> &PageIndex {
        &self.index
    }

    /// Number of the filter: that of the passing records in the index.
    pub fn filter_number(&self) -> u64 {
        self.filter_number
    }

    /// Returns whether there is a filter.
    pub fn is_filtered(&self) -> bool {
        self.filter.is_some()
    }

    /// Returns what could not be read since the last call.
    pub fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Shows only records that pass.
    pub fn set_filter(&mut self, filter: Option<Filter>) {
        self.filter_number += 1;
        self.filter = filter.clone().map(LineFilter::new);
        let number = self.filter_number;
        self.tell_indexer(|task| (task.filter, task.number) = (filter, number));
        self.index.filter(number);
    }

    /// Finds only records from the first of these times to the last.
    pub fn set_range(&mut self, range: (u64, u64)) {
        self.range = range;
    }

    /// Lets the indexer begin with what is on the screen.
    pub fn show(&mut self, places: &[RecordPlace]) {
        let mut shown = vec![0; self.logs.len()];
        for place in places.iter().rev() {
            if let Some(page) = shown.get_mut(place.log as usize) {
                *page = place.page;
            }
        }
        self.tell_indexer(|task| task.shown = shown);
    }

    fn tell_indexer(&self, tell: impl FnOnce(&mut Task)) {
        if let Some(indexer) = &self.indexer {
            tell(&mut indexer.task.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Looks whether logs have changed, and returns those that did.
    pub fn look(&mut self) -> Vec<(u32, Change)> {
        let mut changes = Vec::new();
        for number in 0..self.logs.len() as u32 {
            let Some(log) = self.logs.get(number as usize) else {
                continue;
            };
            let before = self.pages(number);
            let change = match log.look() {
                Ok(change) => change,
                Err(error) => {
                    self.failure = Some(format!("{}: {}", log.name(), crate::error::io_text(&error)));
                    continue;
                }
            };
            let first_changed = match change {
                Change::Nothing => continue,
                Change::Replaced => {
                    changes.push((number, change));
                    continue;
                }
                // The last record of a page may go on in what came, which is at most one page back.
                Change::Grown => before.saturating_sub(2),
                Change::Cut => 0,
            };
            self.kept.retain(|(log, page), kept| {
                let stays = *log != number || *page < first_changed;
                if !stays {
                    self.kept_bytes -= kept.page.memory_bytes();
                }
                stays
            });
            self.index
                .resize(number as usize, self.pages(number), first_changed);
            changes.push((number, change));
        }
        changes
    }

    fn pages(&self, log: u32) -> u32 {
        self.logs.get(log as usize).map_or(0, |log| log.pages())
    }

    /// Returns a page, from memory where it is kept.
    fn page(&mut self, log: u32, page: u32) -> Rc<Page> {
        self.uses += 1;
        if let Some(kept) = self.kept.get_mut(&(log, page)) {
            kept.used = self.uses;
            return Rc::clone(&kept.page);
        }
        let Some(paged) = self.logs.get(log as usize) else {
            return Rc::default();
        };
        let read = paged.page(page, &mut self.times).unwrap_or_else(|error| {
            self.failure = Some(format!("{}: {}", paged.name(), crate::error::io_text(&error)));
            Page::default()
        });
        let read = Rc::new(read);
        self.kept_bytes += read.memory_bytes();
        while self.kept_bytes > PAGES_KEPT_BYTES_MAX
            && let Some(oldest) = self.kept.iter().min_by_key(|(_, kept)| kept.used)
        {
            let place = *oldest.0;
            if let Some(gone) = self.kept.remove(&place) {
                self.kept_bytes -= gone.page.memory_bytes();
            }
        }
        self.kept.insert(
            (log, page),
            KeptPage {
                page: Rc::clone(&read),
                passes: None,
                used: self.uses,
            },
        );
        read
    }

    /// Finds the records of a page that pass.
    fn passes(&mut self, log: u32, number: u32) -> Option<Rc<Vec<bool>>> {
        self.filter.as_ref()?;
        let page = self.page(log, number);
        let kept = self.kept.get_mut(&(log, number))?;
        if let Some((filter, passes)) = &kept.passes
            && *filter == self.filter_number
        {
            return Some(Rc::clone(passes));
        }
        let filter = self.filter.as_mut()?;
        let records = page.records().iter();
        let passes = records.map(|record| filter.passes(&page.plain(record))).collect();
        let passes = Rc::new(passes);
        kept.passes = Some((self.filter_number, Rc::clone(&passes)));
        Some(passes)
    }

    /// Gives a record and its bytes, without colours; `None` when it is not there any more.
    pub fn record<T>(&mut self, place: RecordPlace, read: impl FnOnce(&PageRecord, &[u8]) -> T) -> Option<T> {
        let page = self.page(place.log, place.page);
        let record = page.records().get(place.record as usize)?;
        Some(read(record, &page.plain(record)))
    }

    /// Returns whether a record passes the filter.
    pub fn record_passes(&mut self, place: RecordPlace) -> bool {
        self.passes(place.log, place.page)
            .is_none_or(|passes| passes.get(place.record as usize).copied().unwrap_or(false))
    }

    /// Gives the records of a page: time, level, and whether it passes the filter.
    pub fn each_of_page(&mut self, log: u32, page: u32, mut each: impl FnMut(&PageRecord, bool)) {
        let passes = self.passes(log, page);
        for (number, record) in self.page(log, page).records().iter().enumerate() {
            let passes = passes
                .as_ref()
                .is_none_or(|passes| passes.get(number) == Some(&true));
            each(record, passes);
        }
    }

    /// First and last time of all records.
    pub fn times(&mut self) -> Option<(u64, u64)> {
        let mut times: Option<(u64, u64)> = None;
        for log in 0..self.logs.len() as u32 {
            let first = self.first_time(log, 0);
            let last = (0..self.pages(log)).rev().take(8).find_map(|page| {
                let page = self.page(log, page);
                page.records().last().map(|record| record.unix_ns)
            });
            let (Some(first), Some(last)) = (first, last) else {
                continue;
            };
            if last > 0 {
                let (start, end) = times.unwrap_or((first, last));
                times = Some((start.min(first), end.max(last)));
            }
        }
        times
    }

    /// Time of the first record of a page, or of a page behind it.
    fn first_time(&mut self, log: u32, page: u32) -> Option<u64> {
        for page in page..self.pages(log) {
            if let Some(facts) = self.index.facts(log, page) {
                if facts.records() == 0 {
                    continue;
                }
                return Some(facts.first_ns);
            }
            if let Some(record) = self.page(log, page).records().first() {
                return Some(record.unix_ns);
            }
        }
        None
    }

    /// Page and record of the first record of a log for which `is_before` does not hold.
    fn boundary(&mut self, log: u32, is_before: impl Fn(u64) -> bool) -> (u32, u32) {
        let (mut low, mut high) = (0, self.pages(log));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.first_time(log, middle).is_some_and(&is_before) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let Some(page) = low.checked_sub(1) else {
            return (0, 0);
        };
        let records = self.page(log, page);
        let record = records
            .records()
            .partition_point(|record| is_before(record.unix_ns));
        (page, record as u32)
    }

    /// Begins a walk.
    pub fn walk(&mut self, from: WalkFrom, direction: Direction) -> Walk {
        let from = match (from, self.range) {
            (WalkFrom::Start, (first @ 1.., _)) => WalkFrom::Time(first),
            (WalkFrom::End, (_, last)) if last < u64::MAX => WalkFrom::Time(last + 1),
            (from, _) => from,
        };
        let heads = (0..self.logs.len() as u32).map(|log| {
            let (page, record) = match from {
                WalkFrom::Start => (0, 0),
                WalkFrom::End => (self.pages(log), 0),
                WalkFrom::Time(unix_ns) => self.boundary(log, |time| time < unix_ns),
                WalkFrom::At(place) if place.log == log => (place.page, place.record),
                WalkFrom::Behind(place) if place.log == log => (place.page, place.record + 1),
                WalkFrom::At(place) | WalkFrom::Behind(place) => {
                    self.boundary(log, |time| (time, log) < (place.unix_ns, place.log))
                }
            };
            Head::From(page, record)
        });
        let heads = heads.collect();
        Walk { direction, heads }
    }

    /// Begins to search for what matches, from the place of a walk on.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn search(&self, walk: &Walk, pattern: Pattern) -> std::io::Result<PageSearch> {
        PageSearch::start(&self.logs, walk, pattern, SEARCH_STRETCH_BYTES)
    }

    /// Goes on to the next record that is wanted.
    pub fn step(&mut self, walk: &mut Walk, want: Want<'_>, budget: &mut Budget) -> Step {
        let mut is_whole = true;
        for log in 0..walk.heads.len() as u32 {
            let limit = walk.first_found();
            let Some(Head::From(page, record)) = walk.heads.get(log as usize).copied() else {
                continue;
            };
            let found = match walk.direction {
                Direction::Forwards => self.find_forwards(log, (page, record), want, limit, budget),
                Direction::Backwards => self.find_backwards(log, (page, record), want, limit, budget),
            };
            let (head, is_done) = found;
            is_whole &= is_done;
            if let Some(place) = walk.heads.get_mut(log as usize) {
                *place = head;
            }
        }
        match walk.first_found() {
            _ if !is_whole => Step::NotYet,
            None => Step::End,
            Some(place) => {
                walk.take(place);
                Step::Found(place)
            }
        }
    }

    /// The next record of one log, unless another log has one before it. `false`: the budget is used up.
    fn find_forwards(
        &mut self,
        log: u32,
        from: (u32, u32),
        want: Want<'_>,
        limit: Option<RecordPlace>,
        budget: &mut Budget,
    ) -> (Head, bool) {
        let (mut number, mut record) = from;
        // Records that come to the last page stand behind those that it has now.
        let mut end = from;
        let last_ns = self.range.1;
        while number < self.pages(log) {
            if let Some(facts) = self.index.facts(log, number) {
                if record == 0 && facts.records() > 0 && facts.first_ns > last_ns {
                    return (Head::End, true);
                }
                if record == 0 && limit.is_some_and(|limit| facts.first_ns > limit.unix_ns) {
                    return (Head::From(number, record), true);
                }
                if !self.may_have(log, number, &facts, want) || facts.last_ns < self.range.0 {
                    end = (number, facts.records() as u32);
                    (number, record) = (number + 1, 0);
                    continue;
                }
            }
            match self.sought(log, number, want, limit) {
                Sought::Read => {}
                Sought::LeaveOut => {
                    end = (number, 0);
                    (number, record) = (number + 1, 0);
                    continue;
                }
                Sought::Wait => return (Head::From(number, record), false),
                Sought::Behind => return (Head::From(number, record), true),
            }
            if !self.is_ready(log, number, want, budget) {
                return (Head::From(number, record), false);
            }
            let page = self.page(log, number);
            let passes = self.passes_for(log, number, want);
            for (place, found) in page.records().iter().enumerate().skip(record as usize) {
                if found.unix_ns > last_ns {
                    return (Head::End, true);
                }
                if limit.is_some_and(|limit| found.unix_ns > limit.unix_ns) {
                    return (Head::From(number, place as u32), true);
                }
                if found.unix_ns >= self.range.0 && is_wanted(&page, place, passes.as_deref(), want) {
                    return (Head::Found(place_of(found, log, number, place)), true);
                }
            }
            end = (number, page.records().len() as u32);
            (number, record) = (number + 1, 0);
        }
        (Head::Ended(end.0, end.1), true)
    }

    /// The same, backwards.
    fn find_backwards(
        &mut self,
        log: u32,
        from: (u32, u32),
        want: Want<'_>,
        limit: Option<RecordPlace>,
        budget: &mut Budget,
    ) -> (Head, bool) {
        let (mut number, mut record) = from;
        let first_ns = self.range.0;
        loop {
            if record == 0 {
                match number.checked_sub(1) {
                    Some(before) => (number, record) = (before, u32::MAX),
                    None => return (Head::End, true),
                }
            }
            if let Some(facts) = self.index.facts(log, number) {
                if record == u32::MAX && facts.records() > 0 && facts.last_ns < first_ns {
                    return (Head::End, true);
                }
                if record == u32::MAX && limit.is_some_and(|limit| facts.last_ns < limit.unix_ns) {
                    return (Head::From(number, record), true);
                }
                if !self.may_have(log, number, &facts, want) || facts.first_ns > self.range.1 {
                    record = 0;
                    continue;
                }
            }
            match self.sought(log, number, want, limit) {
                Sought::Read => {}
                Sought::LeaveOut => {
                    record = 0;
                    continue;
                }
                Sought::Wait => return (Head::From(number, record), false),
                Sought::Behind => return (Head::From(number, record), true),
            }
            if !self.is_ready(log, number, want, budget) {
                return (Head::From(number, record), false);
            }
            let page = self.page(log, number);
            let passes = self.passes_for(log, number, want);
            let records = page.records().get(..(record as usize).min(page.records().len()));
            for (place, found) in records.unwrap_or_default().iter().enumerate().rev() {
                if found.unix_ns < first_ns {
                    return (Head::End, true);
                }
                if limit.is_some_and(|limit| found.unix_ns < limit.unix_ns) {
                    return (Head::From(number, place as u32 + 1), true);
                }
                if found.unix_ns <= self.range.1 && is_wanted(&page, place, passes.as_deref(), want) {
                    return (Head::Found(place_of(found, log, number, place)), true);
                }
            }
            record = 0;
        }
    }

    /// What to do with a page, by what a search has seen of it. `limit` is a record of another log that was found.
    fn sought(&mut self, log: u32, page: u32, want: Want<'_>, limit: Option<RecordPlace>) -> Sought {
        let Want::Match(search) = want else {
            return Sought::Read;
        };
        let seen = search.seen(log, page);
        if seen != Seen::Perhaps
            && let Some(limit) = limit.filter(|_| search.begins_stretch(log, page))
        {
            let kept = self.page(log, page);
            let records = kept.records();
            let is_behind = match search.direction(log) {
                Direction::Forwards => records.first().is_some_and(|first| first.unix_ns > limit.unix_ns),
                Direction::Backwards => records.last().is_some_and(|last| last.unix_ns < limit.unix_ns),
            };
            if is_behind {
                return Sought::Behind;
            }
        }
        match seen {
            Seen::Perhaps => Sought::Read,
            Seen::Nothing => Sought::LeaveOut,
            Seen::NotYet => Sought::Wait,
        }
    }

    /// Returns whether a page may have a record that is wanted, by its counts.
    fn may_have(&self, log: u32, page: u32, facts: &PageFacts, want: Want<'_>) -> bool {
        let passing = match (want, &self.filter) {
            (Want::All, _) | (_, None) => Some(*facts),
            _ => self.index.passing(log, page, self.filter_number),
        };
        match want {
            Want::Level(least) => passing.unwrap_or(*facts).records_from(least) > 0,
            _ => passing.is_none_or(|passing| passing.records() > 0),
        }
    }

    /// Returns whether a page is in memory and judged, or the budget allows that.
    fn is_ready(&mut self, log: u32, page: u32, want: Want<'_>, budget: &mut Budget) -> bool {
        let is_ready = self.kept.get(&(log, page)).is_some_and(|kept| {
            let is_judged = self.filter.is_none()
                || kept
                    .passes
                    .as_ref()
                    .is_some_and(|(filter, _)| *filter == self.filter_number);
            match want {
                Want::All => true,
                Want::Match(_) => false,
                Want::Passing | Want::Level(_) => is_judged,
            }
        });
        let bytes = self.logs.get(log as usize).map_or(0, |log| log.page_bytes());
        is_ready || budget.take(bytes)
    }

    fn passes_for(&mut self, log: u32, page: u32, want: Want<'_>) -> Option<Rc<Vec<bool>>> {
        match want {
            Want::All => None,
            _ => self.passes(log, page),
        }
    }
}

/// Treatment of a page that a search has seen, or not.
enum Sought {
    /// It may have what is searched.
    Read,
    /// It has nothing.
    LeaveOut,
    /// It was not seen yet.
    Wait,
    /// It lies behind a record of another log that was found.
    Behind,
}

fn place_of(record: &PageRecord, log: u32, page: u32, number: usize) -> RecordPlace {
    RecordPlace {
        unix_ns: record.unix_ns,
        log,
        page,
        record: number as u32,
    }
}

fn is_wanted(page: &Page, number: usize, passes: Option<&Vec<bool>>, want: Want<'_>) -> bool {
    let Some(record) = page.records().get(number) else {
        return false;
    };
    if passes.is_some_and(|passes| passes.get(number) != Some(&true)) {
        return false;
    }
    match want {
        Want::All | Want::Passing => true,
        Want::Level(least) => record.level.is_some_and(|level| level >= least),
        Want::Match(search) => search.matches(&page.plain(record)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_query::Query;
    use std::io::Write;

    /// Two logs: one of even, one of odd seconds, and every tenth second an error, with the numbers of the seconds.
    fn logs(records: u64) -> (TimeLine, Vec<tempfile::NamedTempFile>) {
        let mut files = vec![
            tempfile::NamedTempFile::new().expect("a file"),
            tempfile::NamedTempFile::new().expect("a file"),
        ];
        for number in 0..records {
            let level = if number % 10 == 3 { "ERROR" } else { "INFO " };
            let time = crate::times::iso_text((1_795_264_496 + number) * 1_000_000_000);
            let file = &mut files[(number % 2) as usize];
            writeln!(file, "{time} {level} main app a.rs:1 record id={number}").expect("written");
        }
        let mut line = TimeLine::default();
        for file in &files {
            line.add(Arc::new(PagedLog::open(file.path(), 1000).expect("opened")));
        }
        (line, files)
    }

    fn ids(
        line: &mut TimeLine,
        from: WalkFrom,
        direction: Direction,
        want: Want<'_>,
        most: usize,
    ) -> Vec<u64> {
        let mut walk = line.walk(from, direction);
        let mut budget = Budget::bytes(u64::MAX);
        let mut ids = Vec::new();
        while ids.len() < most
            && let Step::Found(place) = line.step(&mut walk, want, &mut budget)
        {
            ids.push(id(line, place));
        }
        ids
    }

    fn id(line: &mut TimeLine, place: RecordPlace) -> u64 {
        let text = line.record(place, |_, bytes| String::from_utf8_lossy(bytes).into_owned());
        let text = text.expect("a record");
        text.trim()
            .rsplit('=')
            .next()
            .and_then(|id| id.parse().ok())
            .expect("an id")
    }

    #[test]
    fn both_ways_the_records_of_all_logs_come_in_order() {
        let (mut line, _files) = logs(5_000);
        let all: Vec<u64> = (0..5_000).collect();
        let forwards = ids(
            &mut line,
            WalkFrom::Start,
            Direction::Forwards,
            Want::All,
            usize::MAX,
        );
        assert_eq!(forwards, all);
        let mut backwards = ids(
            &mut line,
            WalkFrom::End,
            Direction::Backwards,
            Want::All,
            usize::MAX,
        );
        backwards.reverse();
        assert_eq!(backwards, all);
    }

    #[test]
    fn a_walk_begins_at_any_record_and_time() {
        let (mut line, _files) = logs(5_000);
        let mut walk = line.walk(
            WalkFrom::Time((1_795_264_496 + 2_345) * 1_000_000_000),
            Direction::Forwards,
        );
        let mut budget = Budget::bytes(u64::MAX);
        let Step::Found(place) = line.step(&mut walk, Want::All, &mut budget) else {
            panic!("no record");
        };
        assert_eq!(id(&mut line, place), 2_345);
        let at = |line: &mut TimeLine, from, direction| ids(line, from, direction, Want::All, 2);
        assert_eq!(
            at(&mut line, WalkFrom::At(place), Direction::Forwards),
            [2_345, 2_346]
        );
        assert_eq!(
            at(&mut line, WalkFrom::Behind(place), Direction::Forwards),
            [2_346, 2_347]
        );
        assert_eq!(
            at(&mut line, WalkFrom::At(place), Direction::Backwards),
            [2_344, 2_343]
        );
        assert_eq!(
            at(&mut line, WalkFrom::Behind(place), Direction::Backwards),
            [2_345, 2_344]
        );
        line.set_range((place.unix_ns, place.unix_ns + 3_000_000_000));
        let range = ids(&mut line, WalkFrom::Start, Direction::Forwards, Want::All, 99);
        assert_eq!(range, [2_345, 2_346, 2_347, 2_348]);
        let range = ids(&mut line, WalkFrom::End, Direction::Backwards, Want::All, 99);
        assert_eq!(range, [2_348, 2_347, 2_346, 2_345]);
    }

    #[test]
    fn levels_texts_and_filters_choose_records() {
        let (mut line, _files) = logs(5_000);
        let errors = ids(
            &mut line,
            WalkFrom::Start,
            Direction::Forwards,
            Want::Level(Level::Warn),
            3,
        );
        assert_eq!(errors, [3, 13, 23]);
        let query = Query::parse_filter("id:range[100,110) -level:error").expect("a query");
        line.set_filter(Some(Filter::default().asking(query.plan(0))));
        let passing = ids(&mut line, WalkFrom::Start, Direction::Forwards, Want::Passing, 99);
        assert_eq!(passing, [100, 101, 102, 104, 105, 106, 107, 108, 109]);
    }

    /// A search of a page at a time, as far as a page has a stretch of its own.
    fn search(line: &TimeLine, walk: &Walk, text: &'static str, is_local: bool) -> PageSearch {
        let finder = memchr::memmem::Finder::new(text);
        let pattern = Pattern {
            matches: Box::new(move |bytes| finder.find(bytes).is_some()),
            is_local,
        };
        PageSearch::start(&line.logs, walk, pattern, 1).expect("threads")
    }

    #[test]
    fn a_search_finds_what_reading_all_records_finds() {
        let (mut line, mut files) = logs(20_000);
        // Its second line lies in another page than its first one.
        let long = format!("{}\nlast id=7770000\n", "x".repeat(200_000));
        write!(
            files[0],
            "{} INFO  main app a.rs:1 {long}",
            crate::times::iso_text(1_795_300_000_000_000_000)
        )
        .expect("written");
        line.look();
        for text in ["id=1999", "id=777", "INFO", "x id", "absent"] {
            for (from, direction) in [
                (WalkFrom::Start, Direction::Forwards),
                (WalkFrom::End, Direction::Backwards),
            ] {
                let mut expected = Vec::new();
                let mut walk = line.walk(from, direction);
                let mut budget = Budget::bytes(u64::MAX);
                while let Step::Found(place) = line.step(&mut walk, Want::All, &mut budget) {
                    let has =
                        |_: &PageRecord, bytes: &[u8]| memchr::memmem::find(bytes, text.as_bytes()).is_some();
                    if line.record(place, has) == Some(true) {
                        expected.push(place);
                    }
                }
                assert_eq!(expected.is_empty(), ["absent", "x id"].contains(&text), "{text}");
                for is_local in [true, false] {
                    let mut walk = line.walk(from, direction);
                    let search = search(&line, &walk, text, is_local);
                    let mut found = Vec::new();
                    // A step comes back while threads look, and when its budget is used up.
                    loop {
                        match line.step(&mut walk, Want::Match(&search), &mut Budget::bytes(1)) {
                            Step::Found(place) => found.push(place),
                            Step::NotYet => std::thread::yield_now(),
                            Step::End => break,
                        }
                    }
                    assert_eq!(found, expected, "{text} {direction:?} {is_local}");
                }
            }
        }
    }

    #[test]
    fn a_search_reads_no_page_that_has_nothing() {
        let (_, files) = logs(80_000);
        let mut line = TimeLine::default();
        line.add(Arc::new(PagedLog::open(files[1].path(), 1000).expect("opened")));
        let mut walk = line.walk(WalkFrom::Start, Direction::Forwards);
        let search = search(&line, &walk, "id=79999", true);
        let found = loop {
            match line.step(&mut walk, Want::Match(&search), &mut Budget::bytes(u64::MAX)) {
                Step::NotYet => std::thread::yield_now(),
                other => break other,
            }
        };
        assert!(matches!(found, Step::Found(_)), "{found:?}");
        let (done, all) = search.progress();
        assert!(done > 0 && done <= all && all > 10, "{done} of {all}");
        // The last stretch of each log is read, since it may grow, and those before the match, whose records might go on.
        assert!((line.kept.len() as u64) < all / 2, "{} of {all}", line.kept.len());
    }

    #[test]
    fn the_index_changes_nothing_but_the_cost() {
        let (mut plain, files) = logs(20_000);
        let index = PageIndex::default();
        let mut line = TimeLine::new(Some(Indexer::start(index.clone()).expect("started")), index);
        for file in &files {
            line.add(Arc::new(PagedLog::open(file.path(), 1000).expect("opened")));
        }
        let query = Query::parse_filter("id:>19990 or id:<5").expect("a query");
        for line in [&mut plain, &mut line] {
            line.set_filter(Some(Filter::default().asking(query.plan(0))));
        }
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while line.index().progress(true).0 < line.index().progress(true).1 {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
        for (from, direction) in [
            (WalkFrom::Start, Direction::Forwards),
            (WalkFrom::End, Direction::Backwards),
        ] {
            let expected = ids(&mut plain, from, direction, Want::Passing, 99);
            assert_eq!(ids(&mut line, from, direction, Want::Passing, 99), expected);
            assert_eq!(expected.len(), 14);
        }
    }

    #[test]
    fn what_is_added_to_a_log_is_found() {
        let (mut line, mut files) = logs(100);
        let last = ids(&mut line, WalkFrom::End, Direction::Backwards, Want::All, 1);
        assert_eq!(last, [99]);
        writeln!(
            files[0],
            "2030-01-01T00:00:00Z INFO  main app a.rs:1 record id=100"
        )
        .expect("written");
        assert_eq!(line.look(), [(0, Change::Grown)]);
        let last = ids(&mut line, WalkFrom::End, Direction::Backwards, Want::All, 1);
        assert_eq!(last, [100]);
    }
}
