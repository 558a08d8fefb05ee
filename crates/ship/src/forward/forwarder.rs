//! The forwarder as its callers see it: they push records, watch its state, and stop it.

use super::batch_source::BatchSource;
use super::health::HealthProber;
use super::options::{ForwardOptions, group_of};
use super::runner::Runner;
use super::state::{ForwardQueue, ForwardState, ForwardWatch, QueuedBatch, Refusal, SharedState};
use crate::TransportError;
use crate::address::Address;
use crate::options::Options;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Forwards records, with a thread of its own.
#[derive(Debug)]
pub struct Forwarder {
    shared: Arc<SharedState>,
    thread: Option<JoinHandle<()>>,
    first: u64,
    session: u128,
    notices: Vec<String>,
}

impl Forwarder {
    /// Starts. Tries the addresses in turn until one takes records; a failure that cannot pass ends it, which
    /// [`Forwarder::state`] reports.
    ///
    /// # Errors
    /// Fails when the spool cannot be opened or the thread not be started, or an address may not be used.
    pub fn start(
        addresses: &[Address],
        options: &Options,
        forward: &ForwardOptions,
    ) -> Result<Self, TransportError> {
        options.check()?;
        let group = group_of(addresses, options, forward)?;
        let mut source = BatchSource::open(forward, &options.app)?;
        let notices = std::mem::take(&mut source.notices);
        let first = source.own_first;
        let state = ForwardState {
            acknowledged: first,
            secured: first,
            sessions_left: source.sessions_left(),
            ..ForwardState::default()
        };
        let inner = ForwardQueue {
            queue: VecDeque::new(),
            queued_bytes: 0,
            next: first,
            state,
            ends: false,
            members: group.members().map(|member| member.options).collect(),
            members_changed: false,
            deadline: None,
            opened: None,
        };
        let shared = Arc::new(SharedState {
            inner: Mutex::new(inner),
            work: Condvar::new(),
            progress: Condvar::new(),
            queue_bytes: forward.queue_bytes,
        });
        let health = forward.group.health;
        let health = health.map(|health| HealthProber::start(&group, health, options));
        let runner = Runner::new((group, health.transpose()?), options, forward, source, &shared);
        let thread = std::thread::Builder::new()
            .name("logdrive-forward".to_owned())
            .spawn(move || {
                // Signals are for the program's own threads; a limit of file sizes is an error of a write here.
                logdrive_ring::signals::block_in_thread();
                runner.run();
            })
            .map_err(TransportError::system("start a thread"))?;
        Ok(Self {
            shared,
            thread: Some(thread),
            first,
            session: forward.session,
            notices,
        })
    }

    /// Returns what a person should know of its spool: one that another process has, or parts that could not be read.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Returns a handle to its state, which stays valid when the forwarder has ended.
    pub fn watch(&self) -> ForwardWatch {
        ForwardWatch(Arc::clone(&self.shared))
    }

    /// The number of the first record that will be pushed.
    pub fn first_number(&self) -> u64 {
        self.first
    }

    /// Session that the records belong to.
    pub fn session(&self) -> u128 {
        self.session
    }

    /// Takes `count` lines, each with its line break, and gives the number of the first. Waits for room as long as
    /// `timeout` allows: 0 never blocks.
    ///
    /// # Errors
    /// Fails when there was no room, or it is over; the lines are given back, and their number is counted.
    pub fn push(&self, count: u32, lines: Vec<u8>, timeout: Duration) -> Result<u64, Refusal> {
        let mut inner = self.shared.lock();
        let length = lines.len();
        let fits = |inner: &ForwardQueue| {
            inner.queue.is_empty() || inner.queued_bytes + length <= self.shared.queue_bytes
        };
        if !fits(&inner) && !timeout.is_zero() {
            let (waited, _) = self
                .shared
                .progress
                .wait_timeout_while(inner, timeout, |inner| !fits(inner) && !inner.state.is_over)
                .unwrap_or_else(PoisonError::into_inner);
            inner = waited;
        }
        if !fits(&inner) || inner.state.is_over {
            inner.state.refused += u64::from(count);
            return Err(Refusal(lines));
        }
        let first = inner.next;
        inner.next = first.saturating_add(count.into());
        inner.state.pushed += u64::from(count);
        inner.queued_bytes += length;
        inner.queue.push_back(QueuedBatch { count, lines });
        drop(inner);
        self.shared.work.notify_one();
        Ok(first)
    }

    /// Returns the state at this moment.
    pub fn state(&self) -> ForwardState {
        self.shared.lock().state.clone()
    }

    /// Waits until all before this number is kept at the other end, with what earlier sessions left in the spool;
    /// `false` when the time is over, or all is.
    pub fn wait_acknowledged(&self, next: u64, timeout: Duration) -> bool {
        self.watch().wait_acknowledged(next, timeout)
    }

    /// Sends what was pushed, waits at most so long until it is kept, and ends. What is not kept then is in the spool,
    /// where there is one.
    pub fn stop(&mut self, timeout: Duration) -> ForwardState {
        self.end(timeout);
        self.state()
    }

    fn end(&mut self, timeout: Duration) {
        let mut inner = self.shared.lock();
        inner.ends = true;
        inner.deadline = Some(Instant::now() + timeout);
        drop(inner);
        self.shared.work.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, it has said so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end(Duration::ZERO);
        }
    }
}
