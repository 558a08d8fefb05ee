//! A delivery of lines that are handed to it, and that stay where they come from until the engine has them.

use crate::address::EngineAddress;
use crate::batch::{BatchBlock, RecordLayouts};
use crate::clients::open;
use crate::dead_letters::DeadLetters;
use crate::engine_writer::{Ended, EngineWriter, NumberedBlocks};
use crate::error::EngineError;
use crate::limits::{RETRY_FIRST, RETRY_LONGEST, WAITING_BYTES};
use crate::report::{DeliveryCounts, SharedReport};
use logdrive_store::RowProcess;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Options of a delivery of lines.
#[derive(Debug, Clone)]
pub struct LineDeliveryOptions {
    /// The engine.
    pub to: EngineAddress,
    /// Id of the delivery: with a record's number it names the record for ever.
    pub delivery: String,
    /// Number of the first record.
    pub first: u64,
    /// Process that the records are of.
    pub process: Option<RowProcess>,
    /// Lines are messages as they are, instead of being taken apart. Kafka's messages are the lines then.
    pub keeps_lines: bool,
    /// File of records that the engine never takes.
    pub dead_letters: PathBuf,
}

/// Blocks that wait, and how far the engine is.
#[derive(Debug, Default)]
struct Waiting {
    blocks: VecDeque<BatchBlock>,
    records: usize,
    bytes: usize,
    /// Number behind the last record that the engine has.
    acknowledged: u64,
    /// Set when the thread has ended.
    has_ended: bool,
}

#[derive(Debug, Default)]
struct LineQueue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl LineQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Whole blocks go in and out.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while something holds, at most for a time.
    fn wait(&self, time: Duration, mut holds: impl FnMut(&Waiting) -> bool) -> MutexGuard<'_, Waiting> {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), time, |waiting| holds(waiting));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Lines on their way to an engine, on a thread of its own.
///
/// They are acknowledged in their order. Who hands them over keeps them until then, and hands those that were not acknowledged
/// over again, under the same numbers, after a restart.
#[derive(Debug)]
pub struct LineDelivery {
    shared: Arc<SharedReport>,
    queue: Arc<LineQueue>,
    thread: Option<JoinHandle<()>>,
    first: u64,
    next: u64,
}

impl LineDelivery {
    /// Starts a delivery. Does not wait for the engine.
    ///
    /// # Errors
    /// When the engine's options are wrong, or it is one that takes batches only as they were begun.
    pub fn start(options: LineDeliveryOptions) -> Result<Self, EngineError> {
        let LineDeliveryOptions { to, first, .. } = options;
        if !to.is_by_record() {
            return Err(
                to.wrong("it needs batches that come again as they were: use `logdrive collect --to`")
            );
        }
        let shared = Arc::new(SharedReport::default());
        let queue = Arc::new(LineQueue::default());
        queue.lock().acknowledged = first;
        let writer = EngineWriter {
            engine: open(&to)?,
            layouts: RecordLayouts::new()?.of_lines(options.process, options.keeps_lines),
            dead: DeadLetters::new(&options.dead_letters),
            to,
            shared: Arc::clone(&shared),
        };
        let mut run = LineRun {
            writer,
            delivery: options.delivery,
            next: first,
            ahead: None,
            queue: Arc::clone(&queue),
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new().name("logdrive-deliver".to_owned());
        let thread = thread.spawn(move || run.run());
        Ok(Self {
            shared,
            queue,
            thread: Some(thread.map_err(EngineError::file("start a thread for", Path::new("delivery")))?),
            first,
            next: first,
        })
    }

    /// Number of the first record.
    pub fn first_number(&self) -> u64 {
        self.first
    }

    /// Number of the record that is pushed next.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Number behind the last record that the engine has.
    pub fn acknowledged(&self) -> u64 {
        self.queue.lock().acknowledged
    }

    /// Counts up to now.
    pub fn counts(&self) -> DeliveryCounts {
        self.shared.lock().counts.clone()
    }

    /// Hands lines over, with the start of each record in them. Waits for room, at most for the timeout.
    ///
    /// # Errors
    /// When there is no room; returns the lines then.
    pub fn push(
        &mut self,
        lines: Vec<u8>,
        starts: Vec<u32>,
        timeout: Duration,
    ) -> Result<(), (Vec<u8>, Vec<u32>)> {
        let mut waiting = self.queue.wait(timeout, |waiting| {
            waiting.bytes >= WAITING_BYTES && !waiting.has_ended
        });
        if waiting.bytes >= WAITING_BYTES || waiting.has_ended {
            return Err((lines, starts));
        }
        self.next += starts.len() as u64;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let block = BatchBlock::of_lines(lines, starts, u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        waiting.bytes += block.bytes();
        waiting.records += block.records();
        waiting.blocks.push_back(block);
        drop(waiting);
        self.queue.changed.notify_all();
        Ok(())
    }

    /// Waits until the engine has all, at most for the timeout, and ends.
    pub fn stop(&mut self, timeout: Duration) {
        self.shared.end_within(timeout);
        self.queue.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for LineDelivery {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

/// The thread's side.
struct LineRun {
    writer: EngineWriter,
    delivery: String,
    /// Number of the first record that is not delivered.
    next: u64,
    /// Blocks behind those that are being delivered, with which the engine has begun.
    ahead: Option<Vec<BatchBlock>>,
    queue: Arc<LineQueue>,
    shared: Arc<SharedReport>,
}

impl LineRun {
    fn run(&mut self) {
        while let Some(blocks) = self.ahead.take().or_else(|| self.gather()) {
            if self.shared.is_over() || self.turn(&blocks).is_err() {
                break;
            }
        }
        self.queue.lock().has_ended = true;
        self.queue.changed.notify_all();
    }

    /// Delivers blocks.
    fn turn(&mut self, blocks: &[BatchBlock]) -> Result<(), Ended> {
        let all = NumberedBlocks {
            blocks,
            delivery: &self.delivery,
            first: self.next,
        };
        let next = self.next + all.count() as u64;
        if self.writer.engine.limits().works_ahead {
            self.writer.begin(&all);
            self.ahead = take(&mut self.queue.lock(), self.writer.engine.limits().into());
            self.queue.changed.notify_all();
            if let Some(ahead) = &self.ahead {
                self.writer.begin(&NumberedBlocks {
                    blocks: ahead,
                    first: next,
                    ..all
                });
            }
        }
        let mut pause = RETRY_FIRST;
        loop {
            // The file of dead letters cannot be written: the engine knows records that come again by their ids.
            match self.writer.deliver(&all, 0..all.count(), &mut || Ok(())) {
                Ok(()) => break,
                Err(Ok(ended)) => return Err(ended),
                Err(Err(error)) => self.shared.fail(&error.to_string()),
            }
            self.shared.wait(pause);
            pause = (pause * 2).min(RETRY_LONGEST);
            if self.shared.is_over() {
                return Err(Ended);
            }
        }
        self.next = next;
        self.queue.lock().acknowledged = next;
        self.queue.changed.notify_all();
        Ok(())
    }

    /// Waits for blocks: until there are as many as a batch takes, or for some time behind the first. `None` at the end.
    fn gather(&self) -> Option<Vec<BatchBlock>> {
        let limits = self.writer.engine.limits();
        let most = BatchSize::from(limits);
        let is_ending = || self.shared.is_ending();
        loop {
            let waiting = self
                .queue
                .wait(limits.linger, |waiting| waiting.blocks.is_empty() && !is_ending());
            if !waiting.blocks.is_empty() {
                break;
            }
            if is_ending() {
                return None;
            }
        }
        let began = Instant::now();
        loop {
            let left = limits.linger.saturating_sub(began.elapsed());
            let mut waiting = self
                .queue
                .wait(left, |waiting| !most.is_reached(waiting) && !is_ending());
            if most.is_reached(&waiting) || is_ending() || began.elapsed() >= limits.linger {
                let taken = take(&mut waiting, most);
                drop(waiting);
                self.queue.changed.notify_all();
                return taken;
            }
        }
    }
}

/// Records and bytes that are taken at once.
#[derive(Debug, Clone, Copy)]
struct BatchSize {
    records: usize,
    bytes: usize,
}

impl BatchSize {
    fn is_reached(self, waiting: &Waiting) -> bool {
        waiting.records >= self.records || waiting.bytes >= self.bytes
    }
}

impl From<crate::engine::BatchLimits> for BatchSize {
    fn from(limits: crate::engine::BatchLimits) -> Self {
        Self {
            records: limits.records,
            bytes: limits.rows_bytes.min(WAITING_BYTES),
        }
    }
}

/// Takes as many blocks as make a batch; `None` where there are none.
fn take(waiting: &mut Waiting, most: BatchSize) -> Option<Vec<BatchBlock>> {
    let (mut taken, mut records, mut bytes) = (Vec::new(), 0, 0);
    while records < most.records
        && bytes < most.bytes
        && let Some(block) = waiting.blocks.pop_front()
    {
        records += block.records();
        bytes += block.bytes();
        taken.push(block);
    }
    waiting.bytes -= bytes;
    waiting.records -= records;
    (!taken.is_empty()).then_some(taken)
}
