//! Threads for connections that talk much: each waits for one of them alone, in the receive itself, so that a request and
//! its response cost no look at all the others. A connection that falls silent goes back to its poller.

use super::Shared;
use super::connection::{Accepted, Buffer};
use super::poller::{Arrival, Hook};
use crate::hello::Reason;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long one may be silent, and how often a thread looks whether the server stops.
const LOOK: Duration = Duration::from_millis(100);
/// How long a peer may take for what is left for it at the end.
const PARTING: Duration = Duration::from_millis(50);

/// A connection, and the poller that it goes back to.
type Talk = (Box<Accepted>, Hook);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Talk>,
    /// Threads without a connection.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    ends: bool,
}

/// The threads, which start when they are needed first.
pub(crate) struct Talks {
    queue: Mutex<Queue>,
    more: Condvar,
    /// Connections that may still come. Relaxed: a count; the queue hands connections over.
    free: AtomicUsize,
    shared: Arc<Shared>,
}

/// What becomes of a connection.
enum After {
    /// Its poller is to have it.
    Back,
    Over(Reason),
}

impl Talks {
    pub(crate) fn new(threads: usize, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            more: Condvar::new(),
            free: AtomicUsize::new(threads),
            shared,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Whole connections go in and out.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a thread for a connection that [`Talks::push`] brings. `false`: all are taken.
    pub(crate) fn reserve(&self) -> bool {
        let less = |free: usize| free.checked_sub(1);
        self.free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }

    fn release(&self) {
        self.free.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a connection that a thread was reserved for; gives it back where no thread can be had.
    pub(crate) fn push(self: &Arc<Self>, accepted: Box<Accepted>, hook: Hook) -> Result<(), Box<Accepted>> {
        let mut queue = self.lock();
        if queue.idle <= queue.waiting.len() && !queue.ends {
            let theirs = Arc::clone(self);
            let started = std::thread::Builder::new()
                .name(format!("logdrive-talk-{}", queue.threads.len()))
                .spawn(move || theirs.run());
            if let Ok(thread) = started {
                queue.threads.push(thread);
                queue.idle += 1;
            }
        }
        if queue.ends || queue.idle <= queue.waiting.len() {
            drop(queue);
            self.release();
            return Err(accepted);
        }
        queue.waiting.push_back((accepted, hook));
        drop(queue);
        self.more.notify_one();
        Ok(())
    }

    /// The server stops; waits for all threads.
    pub(crate) fn end(&self) {
        let mut queue = self.lock();
        queue.ends = true;
        let threads = std::mem::take(&mut queue.threads);
        drop(queue);
        self.more.notify_all();
        for thread in threads {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }

    fn run(&self) {
        let mut buffer = Buffer::new();
        loop {
            let mut queue = self.lock();
            let (mut accepted, hook) = loop {
                match queue.waiting.pop_front() {
                    Some(talk) => break talk,
                    None if queue.ends => return,
                    None => queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            queue.idle -= 1;
            drop(queue);
            let after = talk(&mut accepted, &mut buffer, &self.shared);
            let back = match after {
                After::Over(reason) => Some((accepted, reason)),
                After::Back => match hook.send(Arrival::Connection(accepted)) {
                    // The poller has ended meanwhile.
                    Some(Arrival::Connection(accepted)) => Some((accepted, Reason::Ending)),
                    _ => None,
                },
            };
            if let Some((mut accepted, reason)) = back {
                accepted.end(reason, &self.shared);
            }
            self.lock().idle += 1;
            self.release();
        }
    }
}

/// Serves a connection while it talks.
fn talk(accepted: &mut Accepted, buffer: &mut Buffer, shared: &Shared) -> After {
    while !shared.stops() {
        match accepted.hear(buffer, shared, LOOK) {
            Ok(true) => {}
            Ok(false) => return After::Back,
            Err(reason) => return After::Over(reason),
        }
        loop {
            match accepted.write(shared) {
                Ok(true) => break,
                Ok(false) => {}
                Err(reason) => return After::Over(reason),
            }
            // The peer may be waiting for us to read before it does.
            let has_turned = accepted.link.wait(true, LOOK);
            if accepted.is_clogged(shared) || accepted.ends.is_some() || !matches!(has_turned, Ok(true)) {
                return After::Back;
            }
            if let Err(reason) = accepted.read(buffer, shared, Instant::now(), None) {
                return After::Over(reason);
            }
        }
        if let Some(reason) = accepted.ends {
            return After::Over(reason);
        }
    }
    // What has come is taken, and what is left is sent, as well as that goes.
    let taken = accepted.read(buffer, shared, Instant::now(), None);
    if let Err(reason) = taken.and_then(|_| accepted.write(shared)) {
        return After::Over(reason);
    }
    if accepted.has_output() {
        // One that does not read gets its answer after it comes back.
        let _ = accepted.link.wait(true, PARTING);
    }
    After::Over(accepted.ends.unwrap_or(Reason::Ending))
}

impl std::fmt::Debug for Talks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Talks")
    }
}
