//! The way of an input's records to the collector: a bounded queue, and a thread that makes batches of all that waits, hands
//! them to a forwarder and answers when they are acknowledged.

use crate::error::CollectorError;
use crate::limits::{INTAKE_ACK_TIMEOUT, INTAKE_QUEUE};
use crate::send::RecordEncoder;
use logdrive_reader::foreign::ForeignRecord;
use logdrive_ring::clock::unix_ns;
use logdrive_ship::forward::{ForwardOptions, Forwarder, new_session};
use logdrive_ship::hello::Format;
use logdrive_ship::{Address, Options};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Records that are taken at once.
const GROUP_RECORDS: usize = 20_000;
/// Pause before a queue of the forwarder that is full is tried again.
const PUSH_TIMEOUT: Duration = Duration::from_millis(100);

/// Records of one message or request, and who waits for them.
#[derive(Debug)]
struct Job {
    records: Vec<ForeignRecord>,
    done: Option<oneshot::Sender<bool>>,
}

/// Counts of an input since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputCounts {
    /// Records that the collector has.
    pub records: u64,
    /// Records that came by datagrams while the queue was full, and are lost.
    pub dropped: u64,
    /// Requests that could not be read.
    pub malformed: u64,
    /// Records that came again under the id of one before, and were left out.
    pub duplicates: u64,
    /// Records that their source removed before they were read.
    pub lost: u64,
    /// Cause in words while the source cannot be read; else empty.
    pub error: String,
}

/// Counts that threads share. Relaxed: each stands for itself.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    records: AtomicU64,
    dropped: AtomicU64,
    malformed: AtomicU64,
    duplicates: AtomicU64,
    lost: AtomicU64,
    error: Mutex<String>,
}

impl Shared {
    pub(crate) fn add_records(&self, count: u64) {
        self.records.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn add_malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(feature = "kafka")]
    pub(crate) fn add_duplicate(&self) {
        self.duplicates.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    /// Notes why the source cannot be read; empty where it can.
    pub(crate) fn set_error(&self, why: &str) {
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if *error != why {
            why.clone_into(&mut error);
        }
    }

    /// Counts up to now.
    pub(crate) fn counts(&self) -> InputCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        InputCounts {
            records: read(&self.records),
            dropped: read(&self.dropped),
            malformed: read(&self.malformed),
            duplicates: read(&self.duplicates),
            lost: read(&self.lost),
            error: self.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// Options of the transport: records name their hosts and programs themselves.
pub(crate) fn sender_options() -> Options {
    Options {
        app: String::new(),
        host: String::new(),
        ..Options::default()
    }
}

/// Options of the forwarder of an input.
pub(crate) fn forward_options(session: u128) -> ForwardOptions {
    ForwardOptions {
        format: Format::Records,
        persists: true,
        ..ForwardOptions::new(session, unix_ns())
    }
}

/// Entrance for records of an input; clones are of the same one.
#[derive(Debug, Clone)]
pub(crate) struct Intake {
    queue: mpsc::Sender<Job>,
    shared: Arc<Shared>,
}

impl Intake {
    /// Starts the thread that passes records to a collector.
    pub(crate) fn start(
        to: &Address,
        shared: &Arc<Shared>,
    ) -> Result<(Self, JoinHandle<()>), CollectorError> {
        let session = new_session().map_err(|cause| CollectorError::Random { cause })?;
        let forwarder = Forwarder::start(
            std::slice::from_ref(to),
            &sender_options(),
            &forward_options(session),
        )?;
        let (queue, jobs) = mpsc::channel(INTAKE_QUEUE);
        let own = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("logdrive-intake".to_owned());
        let thread = thread
            .spawn(move || run(forwarder, jobs, &own))
            .map_err(|cause| CollectorError::Thread { cause })?;
        let shared = Arc::clone(shared);
        Ok((Self { queue, shared }, thread))
    }

    /// Hands records over, and waits until the collector has them. `false`: it does not take them now.
    pub(crate) async fn keep(&self, records: Vec<ForeignRecord>) -> bool {
        if records.is_empty() {
            return true;
        }
        let (done, answer) = oneshot::channel();
        let job = Job {
            records,
            done: Some(done),
        };
        self.queue.send(job).await.is_ok() && answer.await.unwrap_or(false)
    }

    /// Hands records over as soon as there is room.
    pub(crate) async fn push(&self, records: Vec<ForeignRecord>) {
        let count = records.len() as u64;
        if self.queue.send(Job { records, done: None }).await.is_err() {
            self.shared.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Hands records over where there is room; else they are counted as dropped.
    pub(crate) fn offer(&self, records: Vec<ForeignRecord>) {
        let count = records.len() as u64;
        if self.queue.try_send(Job { records, done: None }).is_err() {
            self.shared.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Counts a request that could not be read.
    pub(crate) fn malformed(&self) {
        self.shared.add_malformed();
    }
}

fn run(mut forwarder: Forwarder, mut jobs: mpsc::Receiver<Job>, shared: &Shared) {
    let mut encoder = RecordEncoder::default();
    let mut group: Vec<Job> = Vec::new();
    while let Some(first) = jobs.blocking_recv() {
        let mut count = first.records.len();
        group.push(first);
        while count < GROUP_RECORDS
            && let Ok(job) = jobs.try_recv()
        {
            count += job.records.len();
            group.push(job);
        }
        let payloads = encoder.encode_records(group.iter_mut().flat_map(|job| job.records.iter_mut()));
        let waits = group.iter().any(|job| job.done.is_some());
        let mut next = None;
        for payload in payloads {
            let mut bytes = payload.bytes;
            while let Err(refusal) = forwarder.push(payload.count, bytes, PUSH_TIMEOUT) {
                bytes = refusal.0;
                if forwarder.state().is_over {
                    return;
                }
            }
            next = Some(forwarder.watch().next_number());
        }
        let is_kept = match next {
            Some(next) if waits => forwarder.wait_acknowledged(next, INTAKE_ACK_TIMEOUT),
            _ => true,
        };
        if is_kept {
            shared.add_records(count as u64);
        }
        for job in group.drain(..) {
            if let Some(done) = job.done {
                // The peer may be gone.
                let _ = done.send(is_kept);
            }
        }
    }
    // Records that were pushed and are not acknowledged yet.
    forwarder.stop(INTAKE_ACK_TIMEOUT);
}
