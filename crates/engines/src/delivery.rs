//! A delivery: the records of a log of segments, in order, to an engine. One thread reads blocks, hands batches over, tries
//! again with growing pauses, and notes in its state what the engine has.

use crate::address::EngineAddress;
use crate::batch::{BatchBlock, EngineBatch, RecordLayouts};
use crate::clients::open;
use crate::dead_letters::{DeadLetters, put_letter};
use crate::engine::Engine;
use crate::error::{EngineError, Refusal};
use crate::limits::{PAUSE, RETRY_FIRST, RETRY_LONGEST};
use crate::source::{CommittedEnd, SegmentSource};
use crate::state::{DeliveryState, StateFile};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Messages for the operator that wait.
const NOTICES_MAX: usize = 100;
/// Interval at which the backlog is measured.
const BACKLOG_INTERVAL: Duration = Duration::from_secs(1);

/// Options of a delivery.
#[derive(Clone)]
pub struct DeliveryOptions {
    /// The engine.
    pub to: EngineAddress,
    /// The log: the path of the file of segments that is being written. Rotated ones stand beside it.
    pub log: PathBuf,
    /// Directory of the state and of the dead letters.
    pub directory: PathBuf,
    /// Remove rotated files when the engine has them.
    pub removes: bool,
    /// Tells how far the file that is being written may be read, where its writer may take back what is behind.
    pub written: Option<CommittedEnd>,
}

impl std::fmt::Debug for DeliveryOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeliveryOptions")
            .field("to", &self.to)
            .field("log", &self.log)
            .field("directory", &self.directory)
            .field("removes", &self.removes)
            .finish_non_exhaustive()
    }
}

/// Counts of a delivery since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Records that the engine has.
    pub records: u64,
    /// Requests, or what an engine has in their place, that it took.
    pub batches: u64,
    /// Times that a batch was handed over again.
    pub retries: u64,
    /// Records that the engine never takes, which are in the file of dead letters.
    pub dead_letters: u64,
    /// Records that were removed before the engine had them.
    pub lost: u64,
    /// Bytes of the log that could not be read.
    pub damaged_bytes: u64,
    /// Records in the log that the engine does not have.
    pub lag_records: u64,
    /// Bytes of the log that it does not have.
    pub lag_bytes: u64,
    /// Age of the oldest record that it does not have.
    pub lag_time: Duration,
    /// Last error in words; empty while all is well.
    pub error: String,
}

#[derive(Debug, Default)]
struct DeliveryReport {
    counts: DeliveryCounts,
    notices: Vec<String>,
    /// Time up to which the thread goes on; `None` for ever.
    ends_at: Option<Instant>,
    /// Set when everything is delivered at the end.
    is_idle: bool,
}

#[derive(Debug, Default)]
struct Shared {
    report: Mutex<DeliveryReport>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, DeliveryReport> {
        // Numbers and texts are whole.
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, and less where the end comes before.
    fn wait(&self, time: Duration) {
        let report = self.lock();
        let time = match report.ends_at {
            Some(end) => end.saturating_duration_since(Instant::now()).min(time),
            None => time,
        };
        let was_ending = report.ends_at.is_some();
        let woken = |report: &mut DeliveryReport| report.ends_at.is_some() == was_ending;
        // As above.
        drop(self.changed.wait_timeout_while(report, time, woken));
    }

    /// Whether the thread is to end though something is left.
    fn is_over(&self) -> bool {
        self.lock().ends_at.is_some_and(|end| Instant::now() >= end)
    }

    fn is_ending(&self) -> bool {
        self.lock().ends_at.is_some()
    }

    fn notice(&self, text: String) {
        let mut report = self.lock();
        if report.notices.len() < NOTICES_MAX {
            report.notices.push(text);
        }
    }

    fn fail(&self, text: &str) {
        let mut report = self.lock();
        if report.counts.error != text {
            text.clone_into(&mut report.counts.error);
            if report.notices.len() < NOTICES_MAX {
                report.notices.push(text.to_owned());
            }
        }
    }
}

/// Records of a log on their way to an engine, on a thread of its own.
///
/// The engine may be away: the log grows meanwhile, and its retention is the limit of the backlog. Each record has an id that
/// stays the same through retries, kills and restarts; what an engine makes of it stands in `docs/engines.md`.
#[derive(Debug)]
pub struct Delivery {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    to: EngineAddress,
}

impl Delivery {
    /// Starts a delivery where the last one of its state ended. Does not wait for the engine.
    ///
    /// # Errors
    /// When the directory or the state cannot be used, another delivery uses them, or the engine's options are wrong.
    pub fn start(options: DeliveryOptions) -> Result<Self, EngineError> {
        std::fs::create_dir_all(&options.directory).map_err(EngineError::file("make", &options.directory))?;
        let (file, state) = StateFile::open(&options.directory.join("delivery.state"))?;
        let engine = open(&options.to)?;
        let shared = Arc::new(Shared::default());
        let to = options.to.clone();
        let mut run = DeliveryRun {
            engine,
            layouts: RecordLayouts::new()?,
            source: SegmentSource::new(&options.log, state.delivered, options.written.clone()),
            scout: Scout::new(&options, &state),
            dead: DeadLetters::new(&options.directory.join("dead-letters.jsonl")),
            file,
            state,
            options,
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new().name("logdrive-deliver".to_owned());
        let thread = thread
            .spawn(move || run.run())
            .map_err(EngineError::file("start a thread for", Path::new("delivery")))?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
            to,
        })
    }

    /// The engine.
    pub fn to(&self) -> &EngineAddress {
        &self.to
    }

    /// Counts up to now.
    pub fn counts(&self) -> DeliveryCounts {
        self.shared.lock().counts.clone()
    }

    /// Takes messages for the operator.
    pub fn notices(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().notices)
    }

    /// Whether the engine has all that was in the log when it was last looked at.
    pub fn is_idle(&self) -> bool {
        self.shared.lock().is_idle
    }

    /// Lets it deliver what is in the log, for this time at most, and end. The rest is delivered after the next start.
    pub fn begin_stop(&self, timeout: Duration) {
        self.shared.lock().ends_at = Some(Instant::now() + timeout);
        self.shared.changed.notify_all();
    }

    /// Waits for its end. Blocks until then, which is for ever where nobody asked for it.
    pub fn wait(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // One that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.begin_stop(Duration::ZERO);
        self.wait();
    }
}

/// A look ahead: counts the records of the log by the heads of their blocks.
#[derive(Debug)]
struct Scout {
    source: SegmentSource,
    /// Number behind the last record that was counted.
    number: u64,
    /// Numbers of the first records of files, by inode.
    starts: Vec<(u64, u64)>,
    looked: Option<Instant>,
}

impl Scout {
    fn new(options: &DeliveryOptions, state: &DeliveryState) -> Self {
        Self {
            source: SegmentSource::new(&options.log, state.delivered, options.written.clone()),
            number: state.number,
            starts: Vec::new(),
            looked: None,
        }
    }

    fn look(&mut self) -> Result<(), EngineError> {
        if self.looked.is_some_and(|at| at.elapsed() < BACKLOG_INTERVAL) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        loop {
            let before = self.source.position();
            let mut counted = 0;
            // One block at a time is enough to see where files begin.
            let found = self.source.next_block(|records| {
                counted += records as u64;
                false
            })?;
            let after = self.source.position();
            if let Some(after) = after
                && before.is_none_or(|before| before.ino != after.ino)
            {
                self.starts.push((after.ino, self.number));
            }
            self.number += counted;
            if found.is_none() && before == after {
                break;
            }
        }
        self.source.take_damages();
        self.source.take_torn();
        Ok(())
    }

    /// Number of the first record of a file.
    fn start_of(&self, ino: u64) -> Option<u64> {
        let found = self.starts.iter().rev().find(|(known, _)| *known == ino);
        found.map(|(_, number)| *number)
    }
}

/// The thread's side.
struct DeliveryRun {
    engine: Box<dyn Engine>,
    layouts: RecordLayouts,
    source: SegmentSource,
    scout: Scout,
    dead: DeadLetters,
    file: StateFile,
    state: DeliveryState,
    options: DeliveryOptions,
    shared: Arc<Shared>,
}

/// The end of a delivery before its log's.
struct Ended;

impl DeliveryRun {
    fn run(&mut self) {
        let mut pause = RETRY_FIRST;
        loop {
            match self.turn() {
                Ok(true) => pause = RETRY_FIRST,
                Ok(false) => {
                    if self.shared.is_ending() {
                        return;
                    }
                    self.shared.wait(PAUSE);
                }
                Err(Ok(Ended)) => return,
                Err(Err(error)) => {
                    self.shared.fail(&error.to_string());
                    // What was read and not delivered is read again.
                    let Self { options, state, .. } = self;
                    let start = (state.delivered, options.written.clone());
                    self.source = SegmentSource::new(&options.log, start.0, start.1);
                    if self.shared.is_over() {
                        return;
                    }
                    self.shared.wait(pause);
                    pause = (pause * 2).min(RETRY_LONGEST);
                }
            }
            if self.shared.is_over() {
                return;
            }
        }
    }

    /// Delivers a batch. `false`: there is none.
    fn turn(&mut self) -> Result<bool, Result<Ended, EngineError>> {
        let blocks = self.gather().map_err(Err)?;
        self.note_backlog(&blocks).map_err(Err)?;
        let Some(end) = self.source.position().filter(|_| !blocks.is_empty()) else {
            return Ok(false);
        };
        if self.state.begun != Some(end) {
            self.state.begun = Some(end);
            self.file.save(&self.state).map_err(Err)?;
        }
        let count: usize = blocks.iter().map(BatchBlock::records).sum();
        self.deliver(&blocks, 0..count)?;
        let has_moved = self.state.delivered.is_none_or(|before| before.ino != end.ino);
        self.state.delivered = Some(end);
        self.state.number += count as u64;
        self.state.begun = None;
        // Where it cannot be written the batch comes again, under the same numbers.
        self.file.save(&self.state).map_err(Err)?;
        if self.options.removes && has_moved {
            self.source.remove_before(end).map_err(Err)?;
        }
        Ok(true)
    }

    /// Blocks of the next batch: those of the batch that was begun before a restart, or as many as there are and it takes.
    fn gather(&mut self) -> Result<Vec<BatchBlock>, EngineError> {
        let (mut blocks, mut records, mut bytes) = (Vec::new(), 0, 0);
        let (began, limits) = (Instant::now(), self.engine.limits());
        loop {
            let block = self.source.next_block(|_| true)?;
            for damage in self.source.take_damages() {
                self.shared.lock().counts.damaged_bytes += damage.bytes;
                self.shared
                    .notice(format!("{}: {damage}", self.options.log.display()));
            }
            if self.source.take_torn() {
                let text = "the file that was delivered last is gone: records between it and the oldest one are lost";
                self.shared
                    .notice(format!("{}: {text}", self.options.log.display()));
            }
            let Some(block) = block else {
                let waits = !blocks.is_empty() && self.state.begun.is_none() && !self.shared.is_ending();
                if waits && began.elapsed() < limits.linger {
                    self.shared.wait(PAUSE);
                    continue;
                }
                return Ok(blocks);
            };
            self.count_lost(&blocks);
            match self.layouts.read(&block) {
                Ok(read) => {
                    records += read.records();
                    bytes += read.bytes();
                    blocks.push(read);
                }
                Err(error) => {
                    self.shared.lock().counts.lost += block.head().records as u64;
                    let path = self.options.log.display();
                    self.shared.notice(format!(
                        "{path}: a block of {} records is lost: {error}",
                        block.head().records
                    ));
                }
            }
            let is_full = records >= limits.records || bytes >= limits.rows_bytes;
            match self.state.begun {
                Some(end) if self.source.position() == Some(end) => return Ok(blocks),
                // A batch that was begun has its own end, unless that is gone.
                Some(_) if records < 4 * limits.records => {}
                Some(_) => return Ok(blocks),
                None if is_full => return Ok(blocks),
                None => {}
            }
        }
    }

    /// Counts records of files that were removed before they were read.
    fn count_lost(&mut self, blocks: &[BatchBlock]) {
        let before = self.state.delivered.map(|position| position.ino);
        let (Some(position), true) = (self.source.position(), blocks.is_empty()) else {
            return;
        };
        if before == Some(position.ino) {
            return;
        }
        if let Some(start) = self.scout.start_of(position.ino)
            && start > self.state.number
        {
            let lost = start - self.state.number;
            self.state.number = start;
            self.shared.lock().counts.lost += lost;
            let path = self.options.log.display();
            self.shared.notice(format!(
                "{path}: {lost} records were removed before {} had them",
                self.options.to
            ));
        }
    }

    fn note_backlog(&mut self, blocks: &[BatchBlock]) -> Result<(), EngineError> {
        self.scout.look()?;
        let oldest = blocks.first().and_then(BatchBlock::first_ns);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut report = self.shared.lock();
        report.counts.lag_records = self.scout.number.saturating_sub(self.state.number);
        report.counts.lag_bytes = self.source.bytes_behind();
        report.counts.lag_time = oldest.map_or(Duration::ZERO, |oldest| {
            now.saturating_sub(Duration::from_nanos(oldest))
        });
        report.is_idle = blocks.is_empty();
        Ok(())
    }

    /// Hands records over until the engine has each, or it is a dead letter.
    fn deliver(
        &mut self,
        blocks: &[BatchBlock],
        range: Range<usize>,
    ) -> Result<(), Result<Ended, EngineError>> {
        let mut pause = RETRY_FIRST;
        loop {
            let mut whole =
                EngineBatch::new(blocks, &mut self.layouts, &self.state.delivery, self.state.number);
            let refusal = match self.engine.deliver(&mut whole.part(range.clone())) {
                Ok(()) => {
                    let mut report = self.shared.lock();
                    report.counts.records += range.len() as u64;
                    report.counts.batches += 1;
                    report.counts.error.clear();
                    return Ok(());
                }
                Err(refusal) => refusal,
            };
            let (why, after) = match refusal {
                Refusal::Records(records) if self.dead.has_room() => {
                    self.bury(blocks, &records).map_err(Err)?;
                    let mut report = self.shared.lock();
                    report.counts.records += (range.len() - records.len().min(range.len())) as u64;
                    report.counts.batches += 1;
                    return Ok(());
                }
                Refusal::Unnamed { count, why } if self.dead.has_room() => {
                    // Sent again, those that were taken would be there twice: the whole batch is kept with the answer.
                    let all: Vec<_> = range.clone().map(|place| (place, why.clone())).collect();
                    self.bury(blocks, &all).map_err(Err)?;
                    let mut report = self.shared.lock();
                    report.counts.dead_letters -= (range.len() - count) as u64;
                    report.counts.records += (range.len() - count) as u64;
                    return Ok(());
                }
                Refusal::TooLarge { .. } | Refusal::Invalid { .. } if range.len() > 1 => {
                    // Halves of it, so that only the record that it does not take is left out.
                    let middle = range.start + range.len() / 2;
                    self.deliver(blocks, range.start..middle)?;
                    return self.deliver(blocks, middle..range.end);
                }
                Refusal::TooLarge { why } | Refusal::Invalid { why } if self.dead.has_room() => {
                    self.bury(blocks, &[(range.start, why)]).map_err(Err)?;
                    return Ok(());
                }
                Refusal::Records(records) => {
                    let why = records.into_iter().next().map_or(String::new(), |(_, why)| why);
                    (format!("the file of dead letters is full: {why}"), None)
                }
                Refusal::TooLarge { why } | Refusal::Invalid { why } | Refusal::Unnamed { why, .. } => {
                    (format!("the file of dead letters is full: {why}"), None)
                }
                Refusal::Retry { why, after } => (why, after),
            };
            self.shared.fail(&format!("{}: {why}", self.options.to));
            if self.shared.is_over() {
                return Err(Ok(Ended));
            }
            // Half of it by chance, so that many that wait do not come at once.
            let jittered = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
            self.shared.wait(after.unwrap_or(jittered));
            if self.shared.is_over() {
                return Err(Ok(Ended));
            }
            pause = (pause * 2).min(RETRY_LONGEST);
            self.shared.lock().counts.retries += 1;
            self.note_backlog(blocks).map_err(Err)?;
        }
    }

    /// Writes records that the engine never takes to the file of dead letters.
    fn bury(&mut self, blocks: &[BatchBlock], records: &[(usize, String)]) -> Result<(), EngineError> {
        let mut lines = Vec::new();
        for (place, why) in records {
            let delivery = &self.state.delivery;
            let mut whole = EngineBatch::new(blocks, &mut self.layouts, delivery, self.state.number);
            let mut one = whole.part(*place..*place + 1);
            one.each(&mut |record| put_letter(record, delivery, why, &mut lines));
        }
        self.dead.append(&lines)?;
        self.shared.lock().counts.dead_letters += records.len() as u64;
        if let Some((_, why)) = records.first() {
            let text = format!(
                "{}: {} records are dead letters: {why}",
                self.options.to,
                records.len()
            );
            self.shared.notice(text);
        }
        Ok(())
    }
}
