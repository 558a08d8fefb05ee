//! Batches on their way into an engine: tried again with growing pauses, taken in halves, and buried where the engine never
//! takes them.

use crate::address::EngineAddress;
use crate::batch::{BatchBlock, EngineBatch, RecordLayouts};
use crate::dead_letters::{DeadLetters, put_letter};
use crate::engine::Engine;
use crate::error::{EngineError, Refusal};
use crate::limits::{RETRY_FIRST, RETRY_LONGEST};
use crate::report::SharedReport;
use std::ops::Range;
use std::sync::Arc;

/// The end of a delivery before its log's.
pub(crate) struct Ended;

/// Records that are handed over together, and their numbers.
pub(crate) struct NumberedBlocks<'a> {
    pub(crate) blocks: &'a [BatchBlock],
    /// Id of the delivery.
    pub(crate) delivery: &'a str,
    /// Number of the first record.
    pub(crate) first: u64,
}

impl NumberedBlocks<'_> {
    /// Number of the records.
    pub(crate) fn count(&self) -> usize {
        self.blocks.iter().map(BatchBlock::records).sum()
    }
}

/// An engine, and what is done with its refusals.
pub(crate) struct EngineWriter {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) layouts: RecordLayouts,
    pub(crate) dead: DeadLetters,
    pub(crate) to: EngineAddress,
    pub(crate) shared: Arc<SharedReport>,
}

impl EngineWriter {
    /// Lets the engine begin with records whose delivery follows, where it works on several batches.
    pub(crate) fn begin(&mut self, all: &NumberedBlocks<'_>) {
        let mut batch = EngineBatch::new(all.blocks, &mut self.layouts, all.delivery, all.first);
        self.engine.begin(&mut batch);
    }

    /// Hands records over until the engine has each, or it is a dead letter. `retries` is called before each further try.
    pub(crate) fn deliver(
        &mut self,
        all: &NumberedBlocks<'_>,
        range: Range<usize>,
        retries: &mut dyn FnMut() -> Result<(), EngineError>,
    ) -> Result<(), Result<Ended, EngineError>> {
        let mut pause = RETRY_FIRST;
        loop {
            let mut whole = EngineBatch::new(all.blocks, &mut self.layouts, all.delivery, all.first);
            let Err(refusal) = self.engine.deliver(&mut whole.part(range.clone())) else {
                let mut report = self.shared.lock();
                report.counts.records += range.len() as u64;
                report.counts.batches += 1;
                report.counts.error.clear();
                return Ok(());
            };
            let (why, after) = match refusal {
                Refusal::Records(records) if self.dead.has_room() => {
                    self.bury(all, &records).map_err(Err)?;
                    let mut report = self.shared.lock();
                    report.counts.records += (range.len() - records.len().min(range.len())) as u64;
                    report.counts.batches += 1;
                    return Ok(());
                }
                Refusal::Unnamed { count, why } if self.dead.has_room() => {
                    // Sent again, those that were taken would be there twice: the whole batch is kept with the answer.
                    let letters: Vec<_> = range.clone().map(|place| (place, why.clone())).collect();
                    self.bury(all, &letters).map_err(Err)?;
                    let mut report = self.shared.lock();
                    report.counts.dead_letters -= (range.len() - count) as u64;
                    report.counts.records += (range.len() - count) as u64;
                    return Ok(());
                }
                Refusal::TooLarge { .. } | Refusal::Invalid { .. } if range.len() > 1 => {
                    // Halves of it, so that only the record that it does not take is left out.
                    let middle = range.start + range.len() / 2;
                    self.deliver(all, range.start..middle, retries)?;
                    return self.deliver(all, middle..range.end, retries);
                }
                Refusal::TooLarge { why } | Refusal::Invalid { why } if self.dead.has_room() => {
                    return self.bury(all, &[(range.start, why)]).map_err(Err);
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
            self.shared.fail(&format!("{}: {why}", self.to));
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
            retries().map_err(Err)?;
        }
    }

    /// Writes records that the engine never takes to the file of dead letters.
    fn bury(&mut self, all: &NumberedBlocks<'_>, records: &[(usize, String)]) -> Result<(), EngineError> {
        let mut lines = Vec::new();
        for (place, why) in records {
            let mut whole = EngineBatch::new(all.blocks, &mut self.layouts, all.delivery, all.first);
            let mut one = whole.part(*place..*place + 1);
            one.each(&mut |record| put_letter(record, all.delivery, why, &mut lines));
        }
        self.dead.append(&lines)?;
        self.shared.lock().counts.dead_letters += records.len() as u64;
        if let Some((_, why)) = records.first() {
            let text = format!("{}: {} records are dead letters: {why}", self.to, records.len());
            self.shared.notice(text);
        }
        Ok(())
    }
}
