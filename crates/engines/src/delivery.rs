//! A delivery: the records of a log of segments, in order, to an engine. One thread reads blocks, hands batches over, tries
//! again with growing pauses, and notes in its state what the engine has.

use crate::address::EngineAddress;
use crate::batch::{BatchBlock, RecordLayouts};
use crate::clients::open;
use crate::dead_letters::DeadLetters;
use crate::engine_writer::{Ended, EngineWriter, NumberedBlocks};
use crate::error::EngineError;
use crate::limits::{PAUSE, RETRY_FIRST, RETRY_LONGEST};
use crate::report::{DeliveryCounts, SharedReport};
use crate::scout::Scout;
use crate::source::{CommittedEnd, SegmentSource};
use crate::state::{DeliveryState, LogPosition, StateFile};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// Records of a log on their way to an engine, on a thread of its own.
///
/// The engine may be away: the log grows meanwhile, and its retention is the limit of the backlog. Each record has an id that
/// stays the same through retries, kills and restarts; what an engine makes of it stands in `docs/engines.md`.
#[derive(Debug)]
pub struct Delivery {
    shared: Arc<SharedReport>,
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
        let shared = Arc::new(SharedReport::default());
        let to = options.to.clone();
        let writer = EngineWriter {
            engine,
            layouts: RecordLayouts::new()?,
            dead: DeadLetters::new(&options.directory.join("dead-letters.jsonl")),
            to: to.clone(),
            shared: Arc::clone(&shared),
        };
        let mut run = DeliveryRun {
            writer,
            backlog: Backlog {
                source: SegmentSource::new(&options.log, state.delivered, options.written.clone()),
                scout: Scout::new(&options.log, options.written.clone(), &state),
                file,
                state,
                shared: Arc::clone(&shared),
            },
            ahead: None,
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
        self.shared.end_within(timeout);
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

/// Blocks of the log that are handed over together.
struct LogBatch {
    blocks: Vec<BatchBlock>,
    /// Number of the first record.
    first: u64,
    /// Place behind them.
    end: LogPosition,
}

impl LogBatch {
    /// Number behind the last record.
    fn next(&self) -> u64 {
        self.blocks
            .iter()
            .fold(self.first, |sum, block| sum + block.records() as u64)
    }
}

/// The log and what the engine has of it.
struct Backlog {
    source: SegmentSource,
    scout: Scout,
    file: StateFile,
    state: DeliveryState,
    shared: Arc<SharedReport>,
}

impl Backlog {
    /// Counts what is in the log, and keeps the numbers of its files.
    fn look(&mut self) -> Result<(), EngineError> {
        if self.scout.look(&self.state)? {
            self.state.starts = self.scout.starts(self.state.number);
            self.state.counted = self.scout.number();
            self.file.save(&self.state)?;
        }
        Ok(())
    }

    /// Tells how much there is that the engine does not have. `blocks` are the next ones of it.
    fn note(&mut self, blocks: &[BatchBlock]) -> Result<(), EngineError> {
        self.look()?;
        let oldest = blocks.first().and_then(BatchBlock::first_ns);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut report = self.shared.lock();
        report.counts.lag_records = self.scout.number().saturating_sub(self.state.number);
        report.counts.lag_bytes = self.source.bytes_behind();
        report.counts.lag_time = oldest.map_or(Duration::ZERO, |oldest| {
            now.saturating_sub(Duration::from_nanos(oldest))
        });
        report.is_idle = blocks.is_empty();
        Ok(())
    }

    /// Writes the state with a batch that is about to be handed over.
    fn begin(&mut self, batch: &LogBatch) -> Result<(), EngineError> {
        if self.state.begun == Some(batch.end) && self.state.number == batch.first {
            return Ok(());
        }
        self.state.number = batch.first;
        self.state.begun = Some(batch.end);
        self.state.counted = self.scout.number();
        self.file.save(&self.state)
    }

    /// Writes the state behind a batch that the engine has, and removes files where that is wanted.
    fn finish(&mut self, batch: &LogBatch, removes: bool) -> Result<(), EngineError> {
        let before = self.state.delivered.replace(batch.end);
        self.state.number = batch.next();
        self.state.begun = None;
        // Where it cannot be written the batch comes again, under the same numbers.
        self.file.save(&self.state)?;
        if removes && before.is_none_or(|before| !before.is_same_file(&batch.end)) {
            // Before a state is lost whose files are gone.
            self.file.sync(&self.state)?;
            self.source.remove_before(batch.end)?;
        }
        Ok(())
    }
}

/// The thread's side.
struct DeliveryRun {
    writer: EngineWriter,
    backlog: Backlog,
    /// Batch behind the one that is being delivered, with which the engine has begun.
    ahead: Option<LogBatch>,
    options: DeliveryOptions,
    shared: Arc<SharedReport>,
}

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
                    let start = (self.backlog.state.delivered, self.options.written.clone());
                    self.backlog.source = SegmentSource::new(&self.options.log, start.0, start.1);
                    self.ahead = None;
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
        self.backlog.look().map_err(Err)?;
        let batch = match self.ahead.take() {
            Some(batch) => Some(batch),
            None => self.gather(None).map_err(Err)?,
        };
        let blocks = batch.as_ref().map_or(&[][..], |batch| &batch.blocks);
        self.backlog.note(blocks).map_err(Err)?;
        let Some(batch) = batch else {
            return Ok(false);
        };
        self.backlog.begin(&batch).map_err(Err)?;
        let delivery = self.backlog.state.delivery.clone();
        let all = NumberedBlocks {
            blocks: &batch.blocks,
            delivery: &delivery,
            first: batch.first,
        };
        if self.writer.engine.limits().works_ahead {
            self.writer.begin(&all);
            self.ahead = self.gather(Some(&batch)).map_err(Err)?;
            if let Some(ahead) = &self.ahead {
                let (blocks, first) = (&ahead.blocks, ahead.first);
                self.writer.begin(&NumberedBlocks { blocks, first, ..all });
            }
        }
        let Self { writer, backlog, .. } = self;
        let mut notes = || backlog.note(&batch.blocks);
        writer.deliver(&all, 0..all.count(), &mut notes)?;
        backlog.finish(&batch, self.options.removes).map_err(Err)?;
        Ok(true)
    }

    fn note_damages(&mut self) {
        let path = self.options.log.display();
        for damage in self.backlog.source.take_damages() {
            self.shared.lock().counts.damaged_bytes += damage.bytes;
            self.shared.notice(format!("{path}: {damage}"));
        }
        if self.backlog.source.take_torn() {
            let text = "the file that was delivered last is gone, with records that were not delivered";
            self.shared.notice(format!("{path}: {text}"));
        }
    }

    /// The next batch: that which was begun before a restart, or as many blocks as there are and it takes. One that is not full
    /// waits for more, but behind a batch that is under way.
    fn gather(&mut self, behind: Option<&LogBatch>) -> Result<Option<LogBatch>, EngineError> {
        let (mut blocks, mut records, mut bytes) = (Vec::new(), 0, 0);
        let (started, limits) = (Instant::now(), self.writer.engine.limits());
        let state = &self.backlog.state;
        let (begun, mut first, before) = match behind {
            None => (state.begun, state.number, state.delivered),
            Some(batch) => (None, batch.next(), Some(batch.end)),
        };
        let waits = behind.is_none() && begun.is_none();
        loop {
            let block = self.backlog.source.next_block(|_, _| true)?;
            self.note_damages();
            let Some(block) = block else {
                let waits = waits && !blocks.is_empty() && !self.shared.is_ending();
                if waits && started.elapsed() < limits.linger {
                    self.shared.wait(PAUSE);
                    continue;
                }
                break;
            };
            if blocks.is_empty() {
                first = self.after_lost(first, before);
            }
            match self.writer.layouts.read(&block) {
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
            let is_whole = match begun {
                Some(end) if self.backlog.source.position() == Some(end) => true,
                // A batch that was begun has its own end, unless that is gone.
                Some(_) => records >= 4 * limits.records,
                None => is_full,
            };
            if is_whole {
                break;
            }
        }
        let end = self.backlog.source.position();
        Ok(end
            .filter(|_| !blocks.is_empty())
            .map(|end| LogBatch { blocks, first, end }))
    }

    /// Number of the record that is read next: where files were removed before they were read, that behind theirs, which are
    /// lost. `before` is the place of the record before.
    fn after_lost(&mut self, first: u64, before: Option<LogPosition>) -> u64 {
        let Some(position) = self.backlog.source.position() else {
            return first;
        };
        if before.is_some_and(|before| before.is_same_file(&position)) {
            return first;
        }
        let start = self.backlog.scout.start_of(position).unwrap_or(first);
        if start > first {
            let lost = start - first;
            self.shared.lock().counts.lost += lost;
            self.shared.notice(format!(
                "{}: {lost} records were removed before {} had them",
                self.options.log.display(),
                self.options.to
            ));
        }
        start.max(first)
    }
}
