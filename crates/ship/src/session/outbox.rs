//! Outbox of a connection: responses that are given after their handler has returned, and messages to the peer. Any
//! thread puts them in; the thread that serves the connection takes them out and sends them.

use crate::frame::HEADER_BYTES;
use crate::limits::{PUSHED_BYTES_MAX, REQUESTS_MAX};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Way to the peer of a connection, from any thread and at any time: [`Outbox::push`] sends it a message. Clones lead to
/// the same peer. The default leads nowhere, as that of a peer that sends datagrams does.
///
/// ```
/// use logdrive_messaging::Client;
/// use logdrive_ship::session::{Outbox, Peer, Service};
/// use logdrive_ship::{Address, Options, Threads, serve};
/// # use std::sync::{Arc, Mutex, mpsc};
/// # use std::time::Duration;
/// /// Passes on the way to each peer that says hello.
/// struct Subscribers(Mutex<mpsc::Sender<Outbox>>);
/// impl Service for Subscribers {
///     fn hello(&self, peer: &Peer) -> Result<u64, logdrive_ship::hello::Reason> {
///         let _ = self.0.lock().unwrap().send(peer.outbox.clone());
///         Ok(0)
///     }
/// }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (sender, subscribers) = mpsc::channel();
/// let (options, service) = (Options::default(), Arc::new(Subscribers(Mutex::new(sender))));
/// let anywhere: Address = "tcp://127.0.0.1:0".parse()?;
/// let server = serve(&[anywhere], &options, Threads::default(), service)?;
/// let mut client = Client::connect(&server.addresses()[0], &options)?;
/// subscribers.recv()?.push(0, b"AAPL 189.25")?;
/// let pushed = client.next_pushed(Duration::from_secs(10))?.expect("it came");
/// assert_eq!(pushed.message, b"AAPL 189.25");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Outbox {
    shared: Option<Arc<Shared>>,
}

/// Reason for which a message is not pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The connection has ended.
    #[error("the connection has ended")]
    Closed,
    /// The peer does not read messages.
    #[error("the peer reads no messages: it only sends, or it sends datagrams")]
    Unwanted,
    /// The peer does not take what was pushed before.
    #[error("{bytes} bytes wait for the peer, which does not take them; {bytes_max} are allowed")]
    Full {
        /// Bytes that wait.
        bytes: usize,
        /// Bytes that may.
        bytes_max: usize,
    },
    /// The message is longer than the peer accepts.
    #[error("a message of {bytes} bytes is too long: {bytes_max} are allowed")]
    TooLong {
        /// Length of the message in bytes.
        bytes: usize,
        /// Bytes that are allowed.
        bytes_max: usize,
    },
}

/// Makes the thread that serves a connection look at its outbox.
type Waker = Box<dyn Fn() + Send>;
/// Ends work that nobody waits for.
type Canceler = Box<dyn FnOnce() + Send>;

struct Shared {
    state: Mutex<OutboxState>,
    /// Responses that are due and were not taken. Relaxed: a count that orders nothing.
    awaited: AtomicUsize,
    /// Bytes of all entries with their headers: 0 where there are none. Relaxed: a hint, whoever puts an entry in wakes
    /// the thread behind it.
    bytes: AtomicUsize,
    /// Something was put in, or a reply was deferred. Relaxed: a hint.
    is_used: AtomicBool,
}

#[derive(Default)]
struct OutboxState {
    entries: VecDeque<Entry>,
    /// Bytes of a message that the peer accepts; `None`: it accepts none.
    message_bytes_max: Option<usize>,
    /// Messages that were taken out.
    messages_taken: u64,
    waker: Option<Waker>,
    /// The waker has been called since the last look.
    is_notified: bool,
    /// Requests that the peer has given up, and that are not answered so far.
    canceled: VecDeque<u64>,
    /// Work that ends with its request, by the request's number.
    cancelers: HashMap<u64, Canceler>,
    is_closed: bool,
}

/// What goes to the peer.
pub(super) struct Entry {
    pub(super) stream: u16,
    pub(super) content: Content,
}

pub(super) enum Content {
    Message(Vec<u8>),
    Response {
        sequence: u64,
        result: Result<Vec<u8>, String>,
        /// The handler panicked, for which the connection ends.
        has_panicked: bool,
    },
}

impl Entry {
    fn bytes(&self) -> usize {
        let content = match &self.content {
            Content::Message(message) => 4 + message.len(),
            Content::Response {
                result: Ok(reply), ..
            } => reply.len(),
            Content::Response {
                result: Err(words), ..
            } => words.len(),
        };
        HEADER_BYTES + content
    }
}

impl Shared {
    fn is_wanted(&self, sequence: u64) -> bool {
        let state = self.lock();
        !state.is_closed && !state.canceled.contains(&sequence)
    }

    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        // Whole entries go in and out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, mut state: MutexGuard<'_, OutboxState>, entry: Entry) {
        self.is_used.store(true, Ordering::Relaxed);
        self.bytes.fetch_add(entry.bytes(), Ordering::Relaxed);
        state.entries.push_back(entry);
        if !std::mem::replace(&mut state.is_notified, true)
            && let Some(wake) = &state.waker
        {
            wake();
        }
    }

    fn respond(&self, stream: u16, sequence: u64, result: Result<Vec<u8>, String>, has_panicked: bool) {
        let mut state = self.lock();
        let canceler = state.cancelers.remove(&sequence);
        let canceled = state.canceled.iter().position(|number| *number == sequence);
        if let Some(index) = canceled.filter(|_| !has_panicked) {
            state.canceled.remove(index);
            forgo(self);
        } else if !state.is_closed {
            let content = Content::Response {
                sequence,
                result,
                has_panicked,
            };
            self.put(state, Entry { stream, content });
        }
        // Outside of the lock, as it may have anything in it.
        drop(canceler);
    }
}

impl Outbox {
    /// The outbox of a new connection.
    pub(crate) fn open() -> Self {
        let shared = Shared {
            state: Mutex::default(),
            awaited: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            is_used: AtomicBool::new(false),
        };
        Self {
            shared: Some(Arc::new(shared)),
        }
    }

    /// Sends the peer a message, of a stream of the connection: a `Client` of `logdrive-messaging`, or any peer that
    /// asks for acknowledgements in its hello. It goes behind what was sent before. Does not block: messages wait
    /// here while the peer does not read, 4 MiB at most; those that wait at the end of the connection are lost.
    ///
    /// # Errors
    /// Fails when the connection has ended, too much waits already, or the peer takes no messages, or none so long.
    pub fn push(&self, stream: u16, message: &[u8]) -> Result<(), PushError> {
        let shared = self.shared.as_ref().ok_or(PushError::Unwanted)?;
        let state = shared.lock();
        if state.is_closed {
            return Err(PushError::Closed);
        }
        let bytes_max = state.message_bytes_max.ok_or(PushError::Unwanted)?;
        if message.len() > bytes_max {
            let bytes = message.len();
            return Err(PushError::TooLong { bytes, bytes_max });
        }
        let bytes = shared.bytes.load(Ordering::Relaxed);
        if bytes + message.len() > PUSHED_BYTES_MAX {
            let bytes_max = PUSHED_BYTES_MAX;
            return Err(PushError::Full { bytes, bytes_max });
        }
        let content = Content::Message(message.to_vec());
        shared.put(state, Entry { stream, content });
        Ok(())
    }

    /// The peer has given a request up: its response is left out, and work for it that asks is told. Nothing happens where
    /// no response is due.
    pub(super) fn cancel(&self, sequence: u64) {
        let Some(shared) = self.shared.as_ref().filter(|_| self.awaited() > 0) else {
            return;
        };
        let mut state = shared.lock();
        if state.canceled.contains(&sequence) {
            return;
        }
        if state.canceled.len() >= REQUESTS_MAX {
            // Of those that were answered already.
            state.canceled.pop_front();
        }
        state.canceled.push_back(sequence);
        let canceler = state.cancelers.remove(&sequence);
        drop(state);
        if let Some(cancel) = canceler {
            cancel();
        }
    }

    /// Returns whether the response to a request can still be of use.
    pub(crate) fn is_wanted(&self, sequence: u64) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.is_wanted(sequence))
    }

    /// Returns whether the connection has not ended.
    pub fn is_open(&self) -> bool {
        self.shared
            .as_ref()
            .is_some_and(|shared| !shared.lock().is_closed)
    }

    /// From now on messages up to so many bytes are accepted; `None`: none are.
    pub(super) fn accept_messages(&self, bytes_max: Option<usize>) {
        if let Some(shared) = &self.shared {
            shared.lock().message_bytes_max = bytes_max;
        }
    }

    /// Sets whom to wake, at once if something waits.
    pub(crate) fn set_waker(&self, wake: Box<dyn Fn() + Send>) {
        if let Some(shared) = &self.shared {
            let mut state = shared.lock();
            if state.is_notified {
                wake();
            }
            state.waker = Some(wake);
        }
    }

    /// Takes nothing more, and drops what waits.
    pub(crate) fn close(&self) {
        if let Some(shared) = &self.shared {
            let mut state = shared.lock();
            state.is_closed = true;
            let dropped = (std::mem::take(&mut state.entries), state.waker.take());
            let cancelers = std::mem::take(&mut state.cancelers);
            drop(state);
            drop(dropped);
            cancelers.into_values().for_each(|cancel| cancel());
            shared.bytes.store(0, Ordering::Relaxed);
            shared.awaited.store(0, Ordering::Relaxed);
        }
    }

    fn load(&self, field: impl FnOnce(&Shared) -> &AtomicUsize) -> usize {
        let shared = self.shared.as_deref();
        shared.map_or(0, |shared| field(shared).load(Ordering::Relaxed))
    }

    /// Responses that are due from other threads and were not taken.
    pub(crate) fn awaited(&self) -> usize {
        self.load(|shared| &shared.awaited)
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.load(|shared| &shared.bytes)
    }

    /// Returns whether anything was ever put in or deferred.
    pub(crate) fn is_used(&self) -> bool {
        let shared = self.shared.as_deref();
        shared.is_some_and(|shared| shared.is_used.load(Ordering::Relaxed))
    }

    /// Notes that a response comes later. `false`: too many do already, or there is no way for it.
    pub(crate) fn expect_response(&self) -> bool {
        let more = |awaited: usize| Some(awaited + 1).filter(|awaited| *awaited <= REQUESTS_MAX);
        self.shared.as_ref().is_some_and(|shared| {
            let relaxed = Ordering::Relaxed;
            shared.awaited.fetch_update(relaxed, relaxed, more).is_ok()
        })
    }

    /// A response that was expected does not come after all.
    pub(crate) fn forgo_response(&self) {
        if let Some(shared) = &self.shared {
            forgo(shared);
        }
    }

    /// Puts in a response that was expected.
    pub(crate) fn respond(
        &self,
        stream: u16,
        sequence: u64,
        result: Result<Vec<u8>, String>,
        has_panicked: bool,
    ) {
        if let Some(shared) = &self.shared {
            shared.respond(stream, sequence, result, has_panicked);
        }
    }

    /// Takes entries of at least so many bytes together, or all; and the number of the first message among them.
    pub(super) fn take(&self, enough_bytes: usize) -> (Vec<Entry>, u64) {
        let Some(shared) = &self.shared else {
            return Default::default();
        };
        let mut state = shared.lock();
        state.is_notified = false;
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let first_message = state.messages_taken;
        while bytes < enough_bytes
            && let Some(entry) = state.entries.pop_front()
        {
            bytes += entry.bytes();
            match entry.content {
                Content::Message(_) => state.messages_taken += 1,
                Content::Response { .. } => forgo(shared),
            }
            taken.push(entry);
        }
        shared.bytes.fetch_sub(bytes, Ordering::Relaxed);
        (taken, first_message)
    }
}

fn forgo(shared: &Shared) {
    let less = |awaited: usize| awaited.checked_sub(1);
    // At 0 the outbox has been closed meanwhile.
    let _ = shared
        .awaited
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox")
            .field("bytes", &self.bytes())
            .field("awaited", &self.awaited())
            .finish_non_exhaustive()
    }
}

/// Right of a handler to answer its request later.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deferral<'a> {
    outbox: &'a Outbox,
    stream: u16,
    sequence: u64,
    /// It has been used; known to whoever calls the handler, also where that panics.
    is_taken: &'a Cell<bool>,
}

impl<'a> Deferral<'a> {
    #[inline]
    pub(crate) fn new(outbox: &'a Outbox, is_taken: &'a Cell<bool>, stream: u16, sequence: u64) -> Self {
        Self {
            outbox,
            stream,
            sequence,
            is_taken,
        }
    }

    pub(crate) fn take(&self) -> Result<DeferredReply, String> {
        let shared = self.outbox.shared.as_ref().filter(|_| !self.is_taken.get());
        let shared = shared.ok_or("this request is answered at once")?;
        if !self.outbox.expect_response() {
            return Err("too many requests wait for their answers".to_owned());
        }
        shared.is_used.store(true, Ordering::Relaxed);
        self.is_taken.set(true);
        Ok(DeferredReply {
            shared: Some(Arc::clone(shared)),
            stream: self.stream,
            sequence: self.sequence,
        })
    }
}

/// Reply that a handler gives after it has returned, from any thread. Dropped without a reply it fails the request, so
/// that nobody waits for it.
///
/// ```
/// use logdrive_messaging::Client;
/// use logdrive_ship::session::{Peer, ReplyBuffer, Service};
/// use logdrive_ship::{Address, Options, Threads, serve};
/// # use std::sync::Arc;
/// struct Slow;
/// impl Service for Slow {
///     fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
///         let (later, body) = (reply.defer()?, body.to_vec());
///         std::thread::spawn(move || later.reply(body));
///         Ok(())
///     }
/// }
/// # fn main() -> Result<(), logdrive_ship::TransportError> {
/// # let options = Options::default();
/// # let anywhere: Address = "tcp://127.0.0.1:0".parse()?;
/// let server = serve(&[anywhere], &options, Threads::default(), Arc::new(Slow))?;
/// let mut client = Client::connect(&server.addresses()[0], &options)?;
/// assert_eq!(client.call(b"one")?, b"one");
/// # Ok(())
/// # }
/// ```
pub struct DeferredReply {
    /// Taken with the reply.
    shared: Option<Arc<Shared>>,
    stream: u16,
    sequence: u64,
}

impl DeferredReply {
    /// Answers the request.
    pub fn reply(mut self, reply: impl Into<Vec<u8>>) {
        self.respond(Ok(reply.into()));
    }

    /// Fails the request, with an error in words.
    pub fn fail(mut self, words: impl Into<String>) {
        self.respond(Err(words.into()));
    }

    /// Returns whether the client is still connected and has not given the request up: else nobody gets the reply, and the
    /// work for it can end.
    pub fn is_wanted(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.is_wanted(self.sequence))
    }

    /// Calls this once nobody wants the reply any more, at once where that is so already; never after the reply. It runs on the
    /// thread that serves the connection, and may not block.
    pub fn on_cancel(&self, cancel: impl FnOnce() + Send + 'static) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.lock();
        if !state.is_closed && !state.canceled.contains(&self.sequence) {
            state.cancelers.insert(self.sequence, Box::new(cancel));
            return;
        }
        drop(state);
        cancel();
    }

    fn respond(&mut self, result: Result<Vec<u8>, String>) {
        if let Some(shared) = self.shared.take() {
            shared.respond(self.stream, self.sequence, result, false);
        }
    }
}

impl Drop for DeferredReply {
    fn drop(&mut self) {
        self.respond(Err("the service gave no answer".to_owned()));
    }
}

impl std::fmt::Debug for DeferredReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeferredReply")
            .field("request", &self.sequence)
            .finish_non_exhaustive()
    }
}
