//! The way of records that can be read again from their source: groups of them go to the collector each once, whatever ends
//! in between.

use super::checkpoint::{Checkpoint, CheckpointFile};
use super::intake::{Shared, forward_options, sender_options};
use crate::error::CollectorError;
use crate::limits::INTAKE_ACK_TIMEOUT;
use crate::send::RecordEncoder;
use logdrive_reader::foreign::ForeignRecord;
use logdrive_ship::Address;
use logdrive_ship::forward::{ForwardOptions, Forwarder};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which a thread that waits sees that it is to end.
const TURN: Duration = Duration::from_millis(100);
/// Pause before a source that failed is read again.
const PAUSE: Duration = Duration::from_secs(1);

/// Records that were read, and the place behind them.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) records: Vec<ForeignRecord>,
    /// Place as the source writes it into the checkpoint.
    pub(crate) position: Value,
}

/// A source that can be read again from a place.
pub(crate) trait Source: Send {
    /// Returns the records that come next; `None` when none came within the time.
    ///
    /// # Errors
    /// In words, when it cannot be read now. It is read again after a pause.
    fn read(&mut self, timeout: Duration) -> Result<Option<Group>, String>;

    /// Takes note that all before a place is with the collector.
    fn kept(&mut self, position: &Value);
}

/// What passes records of a source on.
#[derive(Debug)]
struct Feed {
    forwarder: Forwarder,
    encoder: RecordEncoder,
    file: CheckpointFile,
    checkpoint: Checkpoint,
    stops: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

/// Starts the thread of a source, which is made from the place in its checkpoint. The thread ends soon after `stops` is set.
///
/// # Errors
/// When the checkpoint cannot be used, or the source not be made.
pub(crate) fn start<S: Source + 'static>(
    address: &str,
    (to, directory): (&Address, &Path),
    stops: &Arc<AtomicBool>,
    shared: &Arc<Shared>,
    make: impl FnOnce(&Checkpoint) -> Result<S, CollectorError>,
) -> Result<JoinHandle<()>, CollectorError> {
    let (file, checkpoint) = CheckpointFile::open(directory, address)?;
    let source = make(&checkpoint)?;
    let options = ForwardOptions {
        epoch: checkpoint.epoch,
        next: checkpoint.number,
        sent_until: Some(checkpoint.number + checkpoint.records()),
        ..forward_options(checkpoint.session)
    };
    let feed = Feed {
        forwarder: Forwarder::start(std::slice::from_ref(to), &sender_options(), &options)?,
        encoder: RecordEncoder::default(),
        file,
        checkpoint,
        stops: Arc::clone(stops),
        shared: Arc::clone(shared),
    };
    let thread = std::thread::Builder::new().name("logdrive-intake".to_owned());
    thread
        .spawn(move || feed.run(source))
        .map_err(|cause| CollectorError::Thread { cause })
}

impl Feed {
    fn run(mut self, mut source: impl Source) {
        // Batches that an earlier process may have sent in part.
        if !self.send() {
            return;
        }
        source.kept(&self.checkpoint.position);
        while !self.stops() {
            match source.read(TURN) {
                Ok(None) => self.shared.set_error(""),
                Ok(Some(group)) => {
                    self.shared.set_error("");
                    match self.keep(group) {
                        true => source.kept(&self.checkpoint.position),
                        false => return,
                    }
                }
                Err(why) => {
                    self.shared.set_error(&why);
                    self.pause();
                }
            }
        }
    }

    fn stops(&self) -> bool {
        // Relaxed: the flag stands for itself.
        self.stops.load(Ordering::Relaxed)
    }

    fn pause(&self) {
        let until = Instant::now() + PAUSE;
        while !self.stops() && Instant::now() < until {
            std::thread::sleep(TURN);
        }
    }

    /// Passes a group on. `false`: it is to end first; the next process goes on from the checkpoint.
    fn keep(&mut self, mut group: Group) -> bool {
        self.checkpoint.number += self.checkpoint.records();
        self.checkpoint.batches = self.encoder.encode_records(group.records.iter_mut());
        self.checkpoint.position = group.position;
        while let Err(error) = self.file.save(&self.checkpoint) {
            self.shared.set_error(&error.to_string());
            if self.stops() {
                return false;
            }
            self.pause();
        }
        self.send()
    }

    /// Sends the batches of the checkpoint, and waits until the collector has them. `false`: it is to end first.
    fn send(&mut self) -> bool {
        for batch in &self.checkpoint.batches {
            let mut bytes = batch.bytes.clone();
            while let Err(refusal) = self.forwarder.push(batch.count, bytes, TURN) {
                bytes = refusal.0;
                if self.stops() || self.forwarder.state().is_over {
                    return false;
                }
            }
        }
        let records = self.checkpoint.records();
        let next = self.checkpoint.number + records;
        let stopped_at = |feed: &Self| feed.stops().then(Instant::now);
        let mut stopping = None;
        while !self.forwarder.wait_acknowledged(next, TURN) {
            stopping = stopping.or_else(|| stopped_at(self));
            let is_late = stopping.is_some_and(|since: Instant| since.elapsed() >= INTAKE_ACK_TIMEOUT);
            if is_late || self.forwarder.state().is_over {
                return false;
            }
        }
        self.shared.add_records(records);
        true
    }
}
