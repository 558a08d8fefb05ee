//! Messages one way: collected into batches, which go when they are full or a message has waited long enough.

use crate::backoff::Backoff;
use crate::transport::Transport;
use logdrive_ship::frame::{HEADER_BYTES, Header, Kind};
use logdrive_ship::limits::{BATCH_BYTES, STREAMS_MAX};
use logdrive_ship::session::Reserved;
use logdrive_ship::{Address, Options, TransportError};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Pause of the lingering thread while the link is congested: what was sent before takes as long, and of many streams
/// that are used in turn each has to fill a batch meanwhile.
const CONGESTED_LINGER: Duration = Duration::from_millis(5);

/// Sends messages that want no response.
///
/// A message is with the kernel, or in shared memory, at the latest when `linger` has passed since [`Sender::send`];
/// over `quic://`, while much of what was sent before is still under way, when 10 ms have. A failure is returned by
/// the next call; what was collected then is lost, and [`Sender::lost`] counts it. The call behind that connects again:
/// while the pause after an attempt that failed lasts, calls fail at once. Any thread may use it; calls block
/// while the other end does not read, at most for the response timeout.
///
/// A server that is gone is noticed by what the system or its goodbye says; over `shm://` 100 ms after its end, over
/// `udp://` where the network says nothing, after 2 s without a word of it.
///
/// ```
/// use logdrive_ship::session::{Peer, Service};
/// use logdrive_messaging::Sender;
/// use logdrive_ship::{Address, Options, Threads, serve};
/// # use std::sync::{Arc, mpsc};
/// struct Quotes(mpsc::Sender<Vec<u8>>);
/// impl Service for Quotes {
///     fn message(&self, _: &Peer, stream: u16, message: &[u8]) {
///         let _ = self.0.send([&[stream as u8], message].concat());
///     }
/// }
/// # fn main() -> Result<(), logdrive_ship::TransportError> {
/// let (quotes, came) = mpsc::channel();
/// let options = Options::default();
/// let anywhere: Address = "tcp://127.0.0.1:0".parse()?;
/// let server = serve(&[anywhere], &options, Threads::default(), Arc::new(Quotes(quotes)))?;
/// let sender = Sender::connect(&server.addresses()[0], &options)?;
/// sender.send(b"AAPL 189.25")?;
/// sender.batch_on(1)?.push(b"MSFT 415.10")?;
/// sender.flush()?;
/// assert_eq!(came.recv().unwrap(), b"\x00AAPL 189.25");
/// assert_eq!(came.recv().unwrap(), b"\x01MSFT 415.10");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Sender {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<SenderState>,
    linger: Duration,
    /// Rises with each batch of a sender with one stream. While it does, nothing is late, and the lingering thread
    /// leaves the lock to those who push. Relaxed: a hint; a stale one makes the thread look.
    batches_sent: Arc<AtomicU64>,
    /// The lingering thread sleeps until a batch is begun. Relaxed: written under the lock.
    sleeps: AtomicBool,
    /// Relaxed: the thread is woken after it is set.
    ends: AtomicBool,
    linger_thread: OnceLock<Thread>,
}

/// Messages that one stream has collected.
#[derive(Debug)]
struct StreamBuffer {
    stream: u16,
    /// Frames that are done and wait for others; then room for a header, then messages.
    batch: Vec<u8>,
    /// Offset at which that header is to be.
    frame: usize,
    /// Messages of the frames before it.
    gathered: u64,
    count: u32,
    /// Up to here messages are collected without any other check; 0 while a failure waits to be returned.
    limit_bytes: usize,
    /// Messages of so many bytes go by themselves.
    direct_bytes: usize,
    /// Rises with each batch that is sent.
    generation: u64,
    /// The generation that the lingering thread has seen with messages in it.
    seen: u64,
}

#[derive(Debug)]
struct SenderState {
    transport: Transport,
    /// One for each stream that was used; the first is stream 0.
    streams: Vec<StreamBuffer>,
    next: u64,
    lost: u64,
    batch_bytes: usize,
    /// Small frames of a single stream wait for each other up to so many bytes, where that spares system calls; 0 does
    /// not.
    gather_bytes: usize,
    message_bytes_max: usize,
    /// Messages of so many bytes go by themselves; 0 where nothing may wait for others.
    direct_bytes: usize,
    flushes_cheaply: bool,
    failure: Option<TransportError>,
    /// Nothing goes over the transport any more.
    is_lost: bool,
    reconnect: Option<Box<Reconnect>>,
    batches_sent: Arc<AtomicU64>,
}

/// How a sender connects again.
#[derive(Debug)]
struct Reconnect {
    address: Address,
    options: Options,
    backoff: Backoff,
}

/// The right to push messages, held for as long as it lives: other threads of the same sender wait.
#[derive(Debug)]
pub struct Batch<'a> {
    state: MutexGuard<'a, SenderState>,
    buffer: usize,
    shared: &'a Shared,
}

impl Sender {
    /// Connects. Blocks until the other end has said hello. Starts a thread where messages may linger.
    ///
    /// # Errors
    /// Fails when no server answers there, or it refuses the client.
    pub fn connect(address: &Address, options: &Options) -> Result<Self, TransportError> {
        let reconnect = Reconnect {
            address: address.clone(),
            options: options.clone(),
            backoff: Backoff::default(),
        };
        Self::start(address, options, Some(Box::new(reconnect)))
    }

    /// As [`Sender::connect`], for one connection.
    pub(crate) fn connect_once(address: &Address, options: &Options) -> Result<Self, TransportError> {
        Self::start(address, options, None)
    }

    fn start(
        address: &Address,
        options: &Options,
        reconnect: Option<Box<Reconnect>>,
    ) -> Result<Self, TransportError> {
        let (transport, frame_bytes) = Transport::connect(address, options)?;
        let batch_bytes = options.batch_bytes.min(frame_bytes);
        let direct_bytes = match options.linger.is_zero() {
            true => 0,
            false => transport.direct_bytes(),
        };
        let gathers = batch_bytes < BATCH_BYTES && !options.linger.is_zero() && transport.gathers();
        let state = SenderState {
            gather_bytes: if gathers { BATCH_BYTES } else { 0 },
            flushes_cheaply: transport.flushes_cheaply(),
            transport,
            streams: vec![StreamBuffer::new(0, batch_bytes, direct_bytes)],
            next: 0,
            lost: 0,
            batch_bytes,
            message_bytes_max: frame_bytes - HEADER_BYTES - 4,
            direct_bytes,
            failure: None,
            is_lost: false,
            reconnect,
            batches_sent: Arc::default(),
        };
        let shared = Arc::new(Shared {
            batches_sent: Arc::clone(&state.batches_sent),
            state: Mutex::new(state),
            linger: options.linger,
            sleeps: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            linger_thread: OnceLock::new(),
        });
        let thread = match options.linger.is_zero() {
            true => None,
            false => Some(start_linger(&shared)?),
        };
        Ok(Self { shared, thread })
    }

    /// Sends one message, with those that others send.
    ///
    /// # Errors
    /// Fails when it is too long, or the connection is lost: by this or an earlier message.
    pub fn send(&self, message: &[u8]) -> Result<(), TransportError> {
        self.batch().push(message)
    }

    /// Locks the sender for many messages: cheaper for each than [`Sender::send`].
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            state: self.shared.lock(),
            buffer: 0,
            shared: &self.shared,
        }
    }

    /// As [`Sender::batch`], for messages of a stream of the connection. Messages of one stream arrive in order, and one
    /// stream's say nothing about another's: over `quic://` a packet that is lost holds up only the streams that had a
    /// part in it. The first use of a stream costs `batch_bytes` of memory, and over QUIC a round trip.
    ///
    /// # Errors
    /// Fails when the stream cannot be opened, or is above [`STREAMS_MAX`](logdrive_ship::limits::STREAMS_MAX).
    pub fn batch_on(&self, stream: u16) -> Result<Batch<'_>, TransportError> {
        let mut state = self.shared.lock();
        let buffer = state.stream_index(stream)?;
        Ok(Batch {
            state,
            buffer,
            shared: &self.shared,
        })
    }

    /// Sends what has been collected, and waits until the system has taken it.
    ///
    /// # Errors
    /// Fails when the connection is lost.
    pub fn flush(&self) -> Result<(), TransportError> {
        self.shared.lock().flush()
    }

    /// Number of messages that were taken and are lost with the connection.
    pub fn lost(&self) -> u64 {
        self.shared.lock().lost
    }
}

fn start_linger(shared: &Arc<Shared>) -> Result<JoinHandle<()>, TransportError> {
    let theirs = Arc::clone(shared);
    let thread = std::thread::Builder::new()
        .name("logdrive-linger".to_owned())
        .spawn(move || theirs.linger())
        .map_err(TransportError::system("start a thread"))?;
    // It is the first; no other thread has the sender yet.
    let _ = shared.linger_thread.set(thread.thread().clone());
    Ok(thread)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, SenderState> {
        // A thread that panicked while it pushed left at most an unfinished message behind the last counted one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends batches that have waited for one period. Looks twice in the time that a message may wait.
    fn linger(&self) {
        let mut batches_sent = None;
        while !self.ends.load(Ordering::Relaxed) {
            let now = Some(self.batches_sent.load(Ordering::Relaxed));
            let mut pause = self.linger / 2;
            if now == batches_sent {
                let mut state = self.lock();
                if state.transport.is_congested() {
                    pause = pause.max(CONGESTED_LINGER);
                }
                if state.has_pending() {
                    if let Err(error) = state.flush_overdue() {
                        state.fail(error);
                    }
                } else {
                    self.sleeps.store(true, Ordering::Relaxed);
                    drop(state);
                    std::thread::park();
                    state = self.lock();
                }
                state.mark_seen();
            }
            batches_sent = now;
            std::thread::park_timeout(pause);
        }
    }

    fn wake(&self) {
        if let Some(thread) = self.linger_thread.get() {
            thread.unpark();
        }
    }
}

impl StreamBuffer {
    fn new(stream: u16, batch_bytes: usize, direct_bytes: usize) -> Self {
        Self {
            stream,
            batch: vec![0; HEADER_BYTES],
            frame: 0,
            gathered: 0,
            count: 0,
            limit_bytes: batch_bytes,
            direct_bytes,
            generation: 1,
            seen: 0,
        }
    }

    /// Takes a message if that needs nothing but a copy.
    #[inline(always)]
    fn put(&mut self, message: &[u8]) -> bool {
        let room = self.limit_bytes.saturating_sub(self.batch.len());
        if message.len() >= self.direct_bytes || message.len() + 4 > room {
            return false;
        }
        self.batch
            .extend_from_slice(&(message.len() as u32).to_le_bytes());
        self.batch.extend_from_slice(message);
        self.count += 1;
        true
    }

    fn begin(&mut self, batch_bytes: usize) {
        self.batch.clear();
        self.count = 0;
        self.begin_frame(batch_bytes);
        self.gathered = 0;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Another frame behind those that are done.
    fn begin_frame(&mut self, batch_bytes: usize) {
        self.frame = self.batch.len();
        self.batch.resize(self.frame + HEADER_BYTES, 0);
        self.gathered += u64::from(std::mem::take(&mut self.count));
        self.limit_bytes = self.frame + batch_bytes;
    }

    /// Returns whether there is anything to send.
    fn has_pending(&self) -> bool {
        self.count > 0 || self.frame > 0
    }

    /// Makes the header of the frame that is done; without messages there is none.
    fn seal(&mut self, first: u64, is_checked: bool) {
        if self.count == 0 {
            return self.batch.truncate(self.frame);
        }
        let mut header = Header::new(Kind::Batch, first);
        header.count = self.count;
        header.stream = self.stream;
        let payload = self.batch.get(self.frame + HEADER_BYTES..).unwrap_or(&[]);
        let head = header.seal(&[payload], is_checked);
        let place = self.batch.get_mut(self.frame..);
        if let Some(place) = place.and_then(|frame| frame.first_chunk_mut::<HEADER_BYTES>()) {
            *place = head;
        }
    }
}

impl SenderState {
    fn stream_index(&mut self, stream: u16) -> Result<usize, TransportError> {
        if let Some(found) = self.streams.iter().position(|buffer| buffer.stream == stream) {
            return Ok(found);
        }
        if usize::from(stream) >= STREAMS_MAX {
            return Err(TransportError::Option {
                option: "stream",
                found: stream.to_string(),
                allowed: "0 to 255",
            });
        }
        self.ensure_connected()?;
        // Numbers of several streams go out as they are given.
        self.gather_bytes = 0;
        for index in 0..self.streams.len() {
            self.close_batch(index, false)?;
        }
        self.transport.open(stream)?;
        self.streams
            .push(StreamBuffer::new(stream, self.batch_bytes, self.direct_bytes));
        Ok(self.streams.len() - 1)
    }

    /// Returns whether messages wait for others.
    fn has_pending(&self) -> bool {
        self.streams.iter().any(StreamBuffer::has_pending) || self.transport.has_pending()
    }

    /// Notes which batches there are, so that the next look finds those that are still there.
    fn mark_seen(&mut self) {
        for buffer in &mut self.streams {
            buffer.seen = buffer.generation;
        }
    }

    /// Sends what has been there at the last look.
    fn flush_overdue(&mut self) -> Result<(), TransportError> {
        let mut sent_any = false;
        for index in 0..self.streams.len() {
            let buffer = self.streams.get(index);
            if buffer.is_some_and(|buffer| buffer.seen == buffer.generation) {
                self.close_batch(index, false)?;
                sent_any = true;
            }
        }
        match sent_any {
            true => {
                let flushed = self.transport.flush();
                self.noted(flushed)
            }
            false => Ok(()),
        }
    }

    #[inline(always)]
    fn push(&mut self, index: usize, message: &[u8]) -> Result<(), TransportError> {
        if self
            .streams
            .get_mut(index)
            .is_some_and(|buffer| buffer.put(message))
        {
            return Ok(());
        }
        self.push_slow(index, message)
    }

    /// Keeps a failure for the next call.
    fn fail(&mut self, error: TransportError) {
        self.failure.get_or_insert(error);
        self.set_limits(0);
    }

    /// Messages are collected up to so many bytes without any other check.
    fn set_limits(&mut self, batch_bytes: usize) {
        for buffer in &mut self.streams {
            buffer.limit_bytes = match batch_bytes {
                0 => 0,
                bytes => buffer.frame + bytes,
            };
        }
    }

    /// Notes that nothing goes any more, where a send has failed.
    fn noted(&mut self, sent: Result<(), TransportError>) -> Result<(), TransportError> {
        if sent.is_err() {
            self.is_lost = true;
            self.set_limits(0);
        }
        sent
    }

    /// Returns a failure that was kept; connects again after one that was returned.
    fn ensure_connected(&mut self) -> Result<(), TransportError> {
        if let Some(failure) = self.failure.take() {
            if !self.is_lost {
                self.set_limits(self.batch_bytes);
            }
            return Err(failure);
        }
        match self.is_lost {
            true => self.connect_again(),
            false => Ok(()),
        }
    }

    #[cold]
    fn connect_again(&mut self) -> Result<(), TransportError> {
        let Some(reconnect) = &mut self.reconnect else {
            return Err(TransportError::lost("the server")(
                io::ErrorKind::BrokenPipe.into(),
            ));
        };
        let pause = reconnect.backoff.left(Instant::now());
        if !pause.is_zero() {
            let why = format!("the next attempt is made in {} ms", pause.as_millis());
            return Err(TransportError::connect(&reconnect.address)(io::Error::other(why)));
        }
        let connected = Transport::connect(&reconnect.address, &reconnect.options);
        let (mut transport, frame_bytes) = connected.inspect_err(|_| {
            reconnect.backoff.failed(Instant::now());
        })?;
        for buffer in &mut self.streams {
            // Collected for the connection that is lost, and lost with it.
            self.lost += buffer.gathered + u64::from(buffer.count);
            transport.open(buffer.stream)?;
        }
        reconnect.backoff.succeeded();
        self.transport = transport;
        self.batch_bytes = self.batch_bytes.min(frame_bytes);
        self.message_bytes_max = frame_bytes - HEADER_BYTES - 4;
        for buffer in &mut self.streams {
            buffer.begin(self.batch_bytes);
        }
        (self.next, self.is_lost) = (0, false);
        Ok(())
    }

    #[cold]
    fn push_slow(&mut self, index: usize, message: &[u8]) -> Result<(), TransportError> {
        self.ensure_connected()?;
        if message.len() > self.message_bytes_max {
            return Err(TransportError::TooLong {
                bytes: message.len(),
                bytes_max: self.message_bytes_max,
            });
        }
        self.close_batch(index, self.direct_bytes > 0)?;
        let Some(buffer) = self.streams.get_mut(index) else {
            return Ok(());
        };
        if message.len() < self.direct_bytes && message.len() + 4 + HEADER_BYTES <= self.batch_bytes {
            if buffer.frame == 0 {
                let bytes = self.batch_bytes.max(self.gather_bytes);
                buffer.batch.reserve_exact(bytes + 8 - HEADER_BYTES);
            }
            return self.push(index, message);
        }
        let stream = buffer.stream;
        // What was gathered goes before it.
        self.close_batch(index, false)?;
        self.send_alone(stream, message)
    }

    /// Header of a frame with the next message alone.
    fn header_of_one(&self, stream: u16) -> Header {
        Header {
            count: 1,
            stream,
            ..Header::new(Kind::Batch, self.next)
        }
    }

    /// Without a copy.
    fn send_alone(&mut self, stream: u16, message: &[u8]) -> Result<(), TransportError> {
        let length = (message.len() as u32).to_le_bytes();
        let sealed = self
            .header_of_one(stream)
            .seal(&[&length, message], self.transport.is_checked());
        let head = head_of_one(sealed, length);
        self.next += 1;
        // Where nothing may linger, nothing is held.
        let more = self.direct_bytes > 0;
        let sent = self.transport.send_alone(stream, &head, message, self.next, more);
        self.lost += u64::from(sent.is_err());
        self.noted(sent)
    }

    /// A message that is written into the ring that it is read from, where there is one.
    fn push_in_place(
        &mut self,
        index: usize,
        write: impl FnOnce(&mut Reserved<'_>),
    ) -> Result<(), TransportError> {
        self.ensure_connected()?;
        let bytes_max = self.message_bytes_max;
        let stream = self.streams.get(index).map_or(0, |buffer| buffer.stream);
        // What was collected before goes before.
        self.close_batch(index, false)?;
        let header = self.header_of_one(stream);
        let writer = match self.transport.writer() {
            Ok(writer) => writer,
            Err(error) => {
                self.is_lost = true;
                return Err(error);
            }
        };
        let mut space = writer.map_or_else(Reserved::new, Reserved::begin::<{ HEADER_BYTES + 4 }>);
        write(&mut space);
        let bytes = space.len();
        if bytes > bytes_max {
            return Err(TransportError::TooLong { bytes, bytes_max });
        }
        let head = head_of_one(header.seal_unchecked(4 + bytes), (bytes as u32).to_le_bytes());
        match space.finish(&head) {
            Some(message) => self.push(index, &message),
            None => {
                self.next += 1;
                Ok(())
            }
        }
    }

    /// Gives the batch to the transport, which may wait for more; with `more`, others follow.
    fn close_batch(&mut self, index: usize, more: bool) -> Result<(), TransportError> {
        let Some(buffer) = self.streams.get_mut(index).filter(|buffer| buffer.has_pending()) else {
            return Ok(());
        };
        buffer.seal(self.next, self.transport.is_checked());
        self.next += u64::from(buffer.count);
        if more && buffer.batch.len() + self.batch_bytes <= self.gather_bytes {
            buffer.begin_frame(self.batch_bytes);
            return Ok(());
        }
        let sent = self
            .transport
            .send(buffer.stream, &mut buffer.batch, self.next, more);
        if sent.is_err() {
            self.lost += buffer.gathered + u64::from(buffer.count);
        }
        buffer.begin(self.batch_bytes);
        if self.streams.len() == 1 {
            // Only written under the lock.
            self.batches_sent.store(
                self.batches_sent.load(Ordering::Relaxed).wrapping_add(1),
                Ordering::Relaxed,
            );
        }
        self.noted(sent)
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        self.ensure_connected()?;
        for index in 0..self.streams.len() {
            self.close_batch(index, false)?;
        }
        let flushed = self.transport.flush();
        self.noted(flushed)
    }
}

/// Sealed header of a frame with one message, and the length of that.
fn head_of_one(header: [u8; HEADER_BYTES], length: [u8; 4]) -> [u8; HEADER_BYTES + 4] {
    let mut head = [0; HEADER_BYTES + 4];
    head[..HEADER_BYTES].copy_from_slice(&header);
    head[HEADER_BYTES..].copy_from_slice(&length);
    head
}

impl Batch<'_> {
    /// As [`Sender::send`].
    ///
    /// # Errors
    /// As [`Sender::send`].
    #[inline]
    pub fn push(&mut self, message: &[u8]) -> Result<(), TransportError> {
        let buffer = self.buffer;
        self.state.push(buffer, message)
    }

    /// As [`Batch::push`], of a message that `write` makes: over `shm://` it writes straight into the memory from
    /// which the message is read, which spares a copy. For large messages: each goes by itself. `write` is called once.
    ///
    /// ```no_run
    /// # use logdrive_messaging::Sender;
    /// # use logdrive_ship::{Options, TransportError};
    /// # fn main() -> Result<(), TransportError> {
    /// let sender = Sender::connect(&"shm:///run/camera.sock".parse()?, &Options::default())?;
    /// # let (header, pixels) = ([0; 16], [0; 10_000]);
    /// sender.batch().push_in_place(|space| {
    ///     space.extend_from_slice(&header);
    ///     space.extend_from_slice(&pixels);
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub fn push_in_place(&mut self, write: impl FnOnce(&mut Reserved<'_>)) -> Result<(), TransportError> {
        let buffer = self.buffer;
        self.state.push_in_place(buffer, write)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if self.state.flushes_cheaply
            && let Err(error) = self.state.transport.flush()
        {
            self.state.is_lost = true;
            self.state.fail(error);
        }
        let sleeps = &self.shared.sleeps;
        if sleeps.load(Ordering::Relaxed) && self.state.has_pending() {
            sleeps.store(false, Ordering::Relaxed);
            self.shared.wake();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        // Nothing is connected for that any more, and there is no caller left for an error.
        state.reconnect = None;
        let _ = state.flush();
        let next = state.next;
        state.transport.close(next);
        drop(state);
        self.shared.ends.store(true, Ordering::Relaxed);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, it has said so itself.
            let _ = thread.join();
        }
    }
}
