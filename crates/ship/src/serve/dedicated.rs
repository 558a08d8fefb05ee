//! Threads for connections that talk much: each waits for one of them alone, in the receive itself, so that a request and
//! its response cost no look at all the others. A connection that falls silent goes back to its poller.

use super::ServerState;
use super::connection::{Buffer, ServerConnection};
use super::inbox::{Inbox, InboxItem};
use crate::hello::Reason;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time that a connection may be silent before it goes back, and between two looks at whether the server stops.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(100);
/// Time that a peer gets at the end to take what is left for it.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(50);

/// A connection, and the poller that it goes back to.
type Handover = (Box<ServerConnection>, Inbox);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Handover>,
    /// Threads without a connection.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    ends: bool,
}

/// The threads, which start when they are needed first.
pub(crate) struct DedicatedThreads {
    queue: Mutex<Queue>,
    more: Condvar,
    /// Connections that may still come. Relaxed: a count; the queue hands connections over.
    free: AtomicUsize,
    shared: Arc<ServerState>,
}

/// Outcome of a connection's time on a dedicated thread.
enum Outcome {
    /// Its poller is to have it.
    ReturnToPoller,
    Closed(Reason),
}

impl DedicatedThreads {
    pub(crate) fn new(threads: usize, shared: Arc<ServerState>) -> Arc<Self> {
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

    /// Keeps a thread for a connection that [`DedicatedThreads::push`] brings. `false`: all are taken.
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
    pub(crate) fn push(
        self: &Arc<Self>,
        connection: Box<ServerConnection>,
        inbox: Inbox,
    ) -> Result<(), Box<ServerConnection>> {
        let mut queue = self.lock();
        if queue.idle <= queue.waiting.len() && !queue.ends {
            let theirs = Arc::clone(self);
            let started = std::thread::Builder::new()
                .name(format!("logdrive-dedicated-{}", queue.threads.len()))
                .spawn(move || theirs.run());
            if let Ok(thread) = started {
                queue.threads.push(thread);
                queue.idle += 1;
            }
        }
        if queue.ends || queue.idle <= queue.waiting.len() {
            drop(queue);
            self.release();
            return Err(connection);
        }
        queue.waiting.push_back((connection, inbox));
        drop(queue);
        self.more.notify_one();
        Ok(())
    }

    /// Ends all threads and waits for them.
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
            let (mut connection, inbox) = loop {
                match queue.waiting.pop_front() {
                    Some(handover) => break handover,
                    None if queue.ends => return,
                    None => queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            queue.idle -= 1;
            drop(queue);
            let outcome = serve(&mut connection, &mut buffer, &self.shared);
            let back = match outcome {
                Outcome::Closed(reason) => Some((connection, reason)),
                Outcome::ReturnToPoller => match inbox.send(InboxItem::Connection(connection)) {
                    // The poller has ended meanwhile.
                    Some(InboxItem::Connection(connection)) => Some((connection, Reason::Ending)),
                    _ => None,
                },
            };
            if let Some((mut connection, reason)) = back {
                connection.close(reason, &self.shared);
            }
            self.lock().idle += 1;
            self.release();
        }
    }
}

/// Serves a connection while it talks.
fn serve(connection: &mut ServerConnection, buffer: &mut Buffer, shared: &ServerState) -> Outcome {
    while !shared.stops() {
        match connection.receive_blocking(buffer, shared, SILENCE_TIMEOUT) {
            Ok(true) => {}
            Ok(false) => return Outcome::ReturnToPoller,
            Err(reason) => return Outcome::Closed(reason),
        }
        loop {
            match connection.write(shared) {
                Ok(true) => break,
                Ok(false) => {}
                Err(reason) => return Outcome::Closed(reason),
            }
            // The peer may be waiting for us to read before it does.
            let has_turned = connection.link.wait(true, SILENCE_TIMEOUT);
            if connection.is_backpressured(shared)
                || connection.closing.is_some()
                || !matches!(has_turned, Ok(true))
            {
                return Outcome::ReturnToPoller;
            }
            if let Err(reason) = connection.read(buffer, shared, Instant::now(), false, None) {
                return Outcome::Closed(reason);
            }
        }
        if let Some(reason) = connection.closing {
            return Outcome::Closed(reason);
        }
    }
    // What has come is taken, and what is left is sent, as well as that goes.
    let taken = connection.read(buffer, shared, Instant::now(), false, None);
    if let Err(reason) = taken.and_then(|_| connection.write(shared)) {
        return Outcome::Closed(reason);
    }
    if connection.has_output() {
        // One that does not read gets its answer after it comes back.
        let _ = connection.link.wait(true, CLOSE_TIMEOUT);
    }
    Outcome::Closed(connection.closing.unwrap_or(Reason::Ending))
}

impl std::fmt::Debug for DedicatedThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DedicatedThreads")
    }
}
