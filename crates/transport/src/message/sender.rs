//! Messages one way: collected into batches, which go when they are full or a message has waited long enough.

use super::outlet::Outlet;
use crate::TransportError;
use crate::address::Address;
use crate::frame::{HEADER_BYTES, Header, Kind};
use crate::options::Options;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Sends messages that want no response.
///
/// A message is with the kernel, or in shared memory, at the latest when `linger` has passed since [`Sender::send`]. A
/// failure is told by the next call; what was collected then is lost, and [`Sender::lost`] counts it.
#[derive(Debug)]
pub struct Sender {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    core: Mutex<Core>,
    work: Condvar,
    /// The thread sleeps until somebody begins a batch.
    sleeps: AtomicBool,
    linger: Duration,
}

#[derive(Debug)]
struct Core {
    outlet: Outlet,
    /// Room for the header, then messages.
    batch: Vec<u8>,
    count: u32,
    /// Rises with each batch that is sent.
    generation: u64,
    next: u64,
    lost: u64,
    batch_bytes: usize,
    message_bytes_max: usize,
    at_once: bool,
    failure: Option<TransportError>,
    ends: bool,
}

/// The right to push messages, held for as long as it lives: other threads of the same sender wait.
#[derive(Debug)]
pub struct Batch<'a> {
    core: MutexGuard<'a, Core>,
    shared: &'a Shared,
}

impl Sender {
    /// Connects. Blocks until the other end has said hello. Starts a thread where messages may linger.
    ///
    /// # Errors
    /// When nobody answers there, or will not serve us.
    pub fn connect(address: &Address, options: &Options) -> Result<Self, TransportError> {
        let (outlet, frame_bytes) = Outlet::connect(address, options)?;
        let batch_bytes = options.batch_bytes.min(frame_bytes);
        let core = Core {
            outlet,
            batch: Vec::with_capacity(batch_bytes + 8),
            count: 0,
            generation: 0,
            next: 0,
            lost: 0,
            batch_bytes,
            message_bytes_max: frame_bytes - HEADER_BYTES - 4,
            at_once: options.linger.is_zero(),
            failure: None,
            ends: false,
        };
        let shared = Arc::new(Shared {
            core: Mutex::new(core),
            work: Condvar::new(),
            sleeps: AtomicBool::new(false),
            linger: options.linger,
        });
        shared.lock().begin();
        let thread = match options.linger.is_zero() {
            true => None,
            false => Some(start_linger(&shared)?),
        };
        Ok(Self { shared, thread })
    }

    /// Sends one message, with those that others send.
    ///
    /// # Errors
    /// When it is too long, or the connection is lost: by this or an earlier message.
    pub fn send(&self, message: &[u8]) -> Result<(), TransportError> {
        self.batch().push(message)
    }

    /// Locks the sender for many messages: cheaper for each than [`Sender::send`].
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            core: self.shared.lock(),
            shared: &self.shared,
        }
    }

    /// Sends what has been collected, and waits until the system has taken it.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn flush(&self) -> Result<(), TransportError> {
        self.shared.lock().flush()
    }

    /// Messages that were taken and are lost with the connection.
    pub fn lost(&self) -> u64 {
        self.shared.lock().lost
    }
}

fn start_linger(shared: &Arc<Shared>) -> Result<JoinHandle<()>, TransportError> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new()
        .name("logdrive-linger".to_owned())
        .spawn(move || shared.linger())
        .map_err(|cause| TransportError::System {
            doing: "start a thread",
            cause,
        })
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Core> {
        // A thread that panicked while it pushed left at most an unfinished message behind the last counted one.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends batches that have waited for one period. Looks twice in the time that a message may wait.
    fn linger(&self) {
        let mut core = self.lock();
        let mut seen = core.generation;
        while !core.ends {
            if !core.waits() {
                // Relaxed: read and written under the lock, but for the look that decides about a wake.
                self.sleeps.store(true, Ordering::Relaxed);
                core = self.work.wait(core).unwrap_or_else(PoisonError::into_inner);
                self.sleeps.store(false, Ordering::Relaxed);
                seen = core.generation;
            }
            let (next, _) = self
                .work
                .wait_timeout_while(core, self.linger / 2, |core| !core.ends)
                .unwrap_or_else(PoisonError::into_inner);
            core = next;
            if core.waits() && core.generation == seen {
                // The failure is kept for the next call.
                let sent = core.flush();
                core.failure = core.failure.take().or(sent.err());
            }
            seen = core.generation;
        }
    }
}

impl Core {
    fn begin(&mut self) {
        self.batch.clear();
        self.batch.resize(HEADER_BYTES, 0);
        self.count = 0;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Whether messages wait for others.
    fn waits(&self) -> bool {
        self.count > 0 || self.outlet.waits()
    }

    #[inline]
    fn push(&mut self, message: &[u8]) -> Result<(), TransportError> {
        let room = self.batch_bytes.saturating_sub(self.batch.len());
        if message.len() + 4 <= room && !self.at_once && self.failure.is_none() {
            self.batch
                .extend_from_slice(&(message.len() as u32).to_le_bytes());
            self.batch.extend_from_slice(message);
            self.count += 1;
            return Ok(());
        }
        self.push_slow(message)
    }

    #[cold]
    fn push_slow(&mut self, message: &[u8]) -> Result<(), TransportError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if message.len() > self.message_bytes_max {
            return Err(TransportError::TooLong {
                bytes: message.len(),
                bytes_max: self.message_bytes_max,
            });
        }
        self.close_batch()?;
        if !self.at_once && message.len() + 4 + HEADER_BYTES <= self.batch_bytes {
            return self.push(message);
        }
        self.send_alone(message)
    }

    /// Without a copy.
    fn send_alone(&mut self, message: &[u8]) -> Result<(), TransportError> {
        let length = (message.len() as u32).to_le_bytes();
        let mut header = Header::new(Kind::Batch, self.next);
        header.count = 1;
        let mut head = [0; HEADER_BYTES + 4];
        let sealed = header.seal(&[&length, message], self.outlet.is_checked());
        head[..HEADER_BYTES].copy_from_slice(&sealed);
        head[HEADER_BYTES..].copy_from_slice(&length);
        self.next += 1;
        let sent = self.outlet.send_alone(&head, message, self.next);
        self.lost += u64::from(sent.is_err());
        sent
    }

    /// Gives the batch to the outlet, which may wait for more.
    fn close_batch(&mut self) -> Result<(), TransportError> {
        if self.count == 0 {
            return Ok(());
        }
        let mut header = Header::new(Kind::Batch, self.next);
        header.count = self.count;
        let payload = self.batch.get(HEADER_BYTES..).unwrap_or(&[]);
        let head = header.seal(&[payload], self.outlet.is_checked());
        if let Some(place) = self.batch.first_chunk_mut::<HEADER_BYTES>() {
            *place = head;
        }
        self.next += u64::from(self.count);
        let sent = self.outlet.send(&mut self.batch, self.next);
        if sent.is_err() {
            self.lost += u64::from(self.count);
        }
        self.begin();
        sent
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        self.close_batch()?;
        self.outlet.flush()
    }
}

impl Batch<'_> {
    /// As [`Sender::send`].
    ///
    /// # Errors
    /// As [`Sender::send`].
    #[inline]
    pub fn push(&mut self, message: &[u8]) -> Result<(), TransportError> {
        self.core.push(message)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // Relaxed: see `linger`; we have the lock.
        if self.core.waits() && self.shared.sleeps.load(Ordering::Relaxed) {
            self.shared.work.notify_one();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut core = self.shared.lock();
        // There is nobody left to be told.
        let _ = core.flush();
        let next = core.next;
        core.outlet.part(next);
        core.ends = true;
        drop(core);
        self.shared.work.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, it has said so itself.
            let _ = thread.join();
        }
    }
}
