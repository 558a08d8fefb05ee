//! `quic://` with quinn: each stream of a connection is a stream of frames of its own, and says hello for itself.
//!
//! Quinn lives in tokio, so this module has a runtime: one for each listener, and one for each connection made. What
//! crosses between a caller's thread and the runtime are whole buffers, which are not copied.

mod accept;
mod coalescing;
mod window;

pub(crate) use accept::{Endpoint, EndpointConfig};

use crate::TransportError;
use crate::address::{Address, HostPort};
use crate::hello::Reason;
use crate::limits::{CREDIT_BYTES, READ_BYTES};
use crate::link::{Link, set_receive_buffer, tls};
use crate::options::Options;
use bytes::Bytes;
use coalescing::CoalescingSocket;
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    AckFrequencyConfig, RecvStream, Runtime as _, SendStream, TokioRuntime, TransportConfig, VarInt,
};
use rustix::net::sockopt;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Notify, oneshot};
use tokio::time::{timeout, timeout_at};
use window::InFlightWindow;

/// Time between two checks for the end of the server.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two looks at whether streams have answered what has come, when the server stops.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Streams of one connection.
const STREAMS_MAX: u32 = 256;
/// Bytes that may be under way on a connection.
const WINDOW_BYTES: VarInt = VarInt::from_u32(4 * CREDIT_BYTES as u32);
/// Packets that a receiver may take before it says so.
const ACK_EVERY: u32 = 20;
/// Bytes of all streams on their way to the runtime, which takes all of a stream's at once: so the caller and the
/// runtime wake each other seldom.
const QUEUED_BYTES_MAX: usize = 1 << 20;
/// Time that a closing connection waits for the other end to have all of it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that the goodbye of a connection gets to be sent. Quinn would stay for three of its timeouts, to repeat it.
const GOODBYE_TIMEOUT: Duration = Duration::from_millis(5);

fn transport(options: &Options) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.max_concurrent_bidi_streams(VarInt::from_u32(STREAMS_MAX));
    config.max_concurrent_uni_streams(VarInt::from_u32(0));
    config.stream_receive_window(VarInt::from_u32(CREDIT_BYTES as u32));
    config.receive_window(WINDOW_BYTES);
    config.send_window(4 * CREDIT_BYTES);
    config.datagram_receive_buffer_size(None);
    config.congestion_controller_factory(congestion(options));
    // Acks of every second packet cost more than they are worth where packets come in bulk.
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(ACK_EVERY));
    config.ack_frequency_config(Some(acks));
    // Frames of one stream behind each other pack better.
    config.send_fairness(false);
    // Its own bound is a 62-bit number of milliseconds, which no such time reaches.
    config.max_idle_timeout(options.timeouts.idle.try_into().ok());
    config
}

/// The congestion control of this name; `cubic` where it is not one of quinn's.
fn congestion(options: &Options) -> Arc<dyn ControllerFactory + Send + Sync> {
    match options.congestion.as_deref() {
        Some("bbr") => Arc::new(BbrConfig::default()),
        Some("reno" | "newreno") => Arc::new(NewRenoConfig::default()),
        _ => Arc::new(CubicConfig::default()),
    }
}

/// A socket with buffers that hold a window: the system's own are for a few packets.
fn socket(address: SocketAddr, options: &Options) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    let bytes = options.socket_buffer_bytes;
    set_receive_buffer(&socket, bytes)?;
    // What the system gives is enough to go on with.
    let _ = sockopt::set_socket_send_buffer_size(&socket, bytes);
    Ok(socket)
}

fn endpoint(
    address: SocketAddr,
    server: Option<quinn::ServerConfig>,
    options: &Options,
) -> io::Result<quinn::Endpoint> {
    let socket = socket(address, options)?;
    let socket = CoalescingSocket::wrap(TokioRuntime.wrap_udp_socket(socket)?);
    quinn::Endpoint::new_with_abstract_socket(
        quinn::EndpointConfig::default(),
        server,
        socket,
        Arc::new(TokioRuntime),
    )
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// State of a stream that the runtime and the caller's thread share.
#[derive(Default)]
struct StreamState {
    incoming: VecDeque<Bytes>,
    incoming_bytes: usize,
    has_ended: bool,
    outgoing: Vec<Bytes>,
    outgoing_bytes: usize,
    /// The caller sends no more, and waits so long for the other end to have all of it.
    waits_until: Option<Instant>,
    /// Nothing can be sent any more.
    is_broken: bool,
    /// The stream's task has nothing left to do.
    has_finished: bool,
    failure: Option<io::Error>,
}

impl StreamState {
    /// Each of so many streams has its share of the room, and one buffer at least.
    fn has_room(&self, streams: usize) -> bool {
        self.is_broken || self.outgoing_bytes < QUEUED_BYTES_MAX / streams.max(1)
    }
}

struct StreamQueue {
    window: Arc<InFlightWindow>,
    state: Mutex<StreamState>,
    changed: Condvar,
    /// The runtime has something to send.
    send_requested: Notify,
    /// As `changed`, for a caller that is a task.
    notify: Arc<Notify>,
}

impl StreamQueue {
    fn new(window: Arc<InFlightWindow>) -> Arc<Self> {
        Arc::new(Self {
            window,
            state: Mutex::default(),
            changed: Condvar::new(),
            send_requested: Notify::new(),
            notify: Arc::default(),
        })
    }

    /// Something has come, or there is room again, or the stream has ended.
    fn notify_change(&self) {
        self.changed.notify_all();
        self.notify.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, StreamState> {
        // Whole buffers go in and out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what came; whether the caller should read first.
    fn put(&self, bytes: Bytes) -> bool {
        let mut state = self.lock();
        state.incoming_bytes += bytes.len();
        let is_full = state.incoming_bytes > CREDIT_BYTES as usize;
        state.incoming.push_back(bytes);
        drop(state);
        self.notify_change();
        is_full
    }

    /// Brings a buffer to the runtime; the caller has seen that there is room.
    fn send(&self, mut state: MutexGuard<'_, StreamState>, bytes: Bytes) {
        let is_first = state.outgoing.is_empty();
        state.outgoing_bytes += bytes.len();
        state.outgoing.push(bytes);
        drop(state);
        if is_first {
            self.send_requested.notify_one();
        }
    }

    /// All that is to be sent, and whether the caller is done.
    fn take_outgoing(&self) -> (Vec<Bytes>, bool) {
        let mut state = self.lock();
        state.outgoing_bytes = 0;
        (std::mem::take(&mut state.outgoing), state.waits_until.is_some())
    }

    /// All that is to be sent, once there is something; `None`: the caller is done.
    async fn take(&self) -> Option<Vec<Bytes>> {
        loop {
            let (bytes, is_done) = self.take_outgoing();
            if !bytes.is_empty() {
                self.notify_change();
                return Some(bytes);
            }
            if is_done {
                return None;
            }
            self.send_requested.notified().await;
        }
    }

    fn fail(&self, error: io::Error) {
        let mut state = self.lock();
        state.has_ended = true;
        state.failure.get_or_insert(error);
        drop(state);
        self.notify_change();
        self.window.wake();
    }
}

/// A connection, and the thread of its runtime: shared by its streams, ends with the last of them.
struct QuicConnection {
    handle: Handle,
    connection: quinn::Connection,
    connect_timeout: Duration,
    /// Relaxed: a hint for how much each may queue.
    streams: AtomicUsize,
    window: Arc<InFlightWindow>,
    done: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for QuicConnection {
    fn drop(&mut self) {
        // The thread has ended already if there is no receiver.
        let _ = self.done.take().map(|done| done.send(()));
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, it has said so itself.
            let _ = thread.join();
        }
    }
}

/// One stream of a QUIC connection.
pub(crate) struct QuicLink {
    queue: Arc<StreamQueue>,
    front: Bytes,
    connection_handle: Arc<QuicConnection>,
}

/// Connects, and opens a stream.
pub(crate) fn connect(
    address: &Address,
    host_port: &HostPort,
    options: &Options,
    end: Instant,
) -> Result<QuicLink, TransportError> {
    let failed = |cause: io::Error| match cause.kind() {
        io::ErrorKind::TimedOut => {
            TransportError::timeout(address, "finish the QUIC handshake", options.timeouts.connect)
        }
        _ => TransportError::connect(address)(cause),
    };
    let tls = tls::client_config(&options.tls)?;
    let crypto = QuicClientConfig::try_from(tls).map_err(|error| failed(io::Error::other(error)))?;
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    let mut transport = transport(options);
    transport.keep_alive_interval(Some(options.timeouts.idle / 3));
    let peer = host_port.resolve_until(end).map_err(&failed)?.first().copied();
    let peer = peer.ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
    config.transport_config(Arc::new(transport));
    let name = options.tls.name.clone().unwrap_or_else(|| host_port.host.clone());
    let (done, ended) = oneshot::channel();
    // Quinn has things to say, too: what a thread may not log, the one that works for it may not either.
    let is_denied = logdrive_ring::local::is_denied();
    let (report, reported) = sync_channel(1);
    let theirs = options.clone();
    // All of it runs there, the handshake too: the caller may be a task, whose thread cannot enter a second runtime.
    let thread = std::thread::Builder::new()
        .name("logdrive-quic".to_owned())
        .spawn(move || {
            logdrive_ring::signals::block_in_thread();
            if is_denied {
                logdrive_ring::local::deny_thread();
            }
            let opening = open(config, peer, &name, &theirs);
            match runtime() {
                Ok(runtime) => runtime.block_on(run_connection(opening, end, &report, ended)),
                // The caller waits for the report.
                Err(error) => drop(report.send(Err(error))),
            }
        })
        .map_err(&failed)?;
    let connected = match reported.recv() {
        Ok(report) => report.map_err(&failed)?,
        Err(_) => return Err(failed(io::Error::other("the thread of the connection has ended"))),
    };
    let Some((handle, connection)) = connected else {
        let (what, limit) = ("finish the QUIC handshake", options.timeouts.connect);
        return Err(TransportError::timeout(address, what, limit));
    };
    let connection_handle = QuicConnection {
        handle,
        connection,
        connect_timeout: options.timeouts.connect,
        streams: AtomicUsize::new(0),
        window: InFlightWindow::new(),
        done: Some(done),
        thread: Some(thread),
    };
    QuicLink::open(&Arc::new(connection_handle), end).map_err(&failed)
}

/// A connection that was made, with the runtime that it lives in; `None` when there was no time left for it.
type Report = io::Result<Option<(Handle, quinn::Connection)>>;

/// Connects, reports that, and serves the connection until its streams have ended.
async fn run_connection(
    opening: impl Future<Output = io::Result<(quinn::Endpoint, quinn::Connection)>>,
    end: Instant,
    report: &SyncSender<Report>,
    ended: oneshot::Receiver<()>,
) {
    let endpoint = match timeout_at(end.into(), opening).await {
        Ok(Ok((endpoint, connection))) => {
            // A caller that has gone has dropped the other end of `ended`, too.
            let _ = report.send(Ok(Some((Handle::current(), connection))));
            endpoint
        }
        // As above.
        Ok(Err(error)) => return drop(report.send(Err(error))),
        Err(_) => return drop(report.send(Ok(None))),
    };
    // Its sender is gone only when all streams are.
    let _ = ended.await;
    endpoint.close(VarInt::from_u32(0), b"done");
    // The streams have said theirs. What is lost of the goodbye, the idle time replaces.
    let _ = timeout(GOODBYE_TIMEOUT, endpoint.wait_idle()).await;
}

async fn open(
    config: quinn::ClientConfig,
    peer: SocketAddr,
    name: &str,
    options: &Options,
) -> io::Result<(quinn::Endpoint, quinn::Connection)> {
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let endpoint = self::endpoint((any, 0).into(), None, options)?;
    let connecting = endpoint
        .connect_with(config, peer, name)
        .map_err(io::Error::other)?;
    let connection = connecting.await.map_err(io::Error::other)?;
    Ok((endpoint, connection))
}

/// Carries buffers between the stream and the caller until the caller is done and the other end has all.
async fn run_stream(
    mut send: SendStream,
    mut recv: RecvStream,
    queue: Arc<StreamQueue>,
    connection: quinn::Connection,
) {
    let theirs = Arc::clone(&queue);
    let reader = tokio::spawn(async move {
        loop {
            match recv.read_chunk(READ_BYTES, true).await {
                Ok(Some(chunk)) => {
                    if theirs.put(chunk.bytes) {
                        // The caller does not read; the stream's own window holds the sender back meanwhile.
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                Ok(None) => return theirs.fail(io::ErrorKind::UnexpectedEof.into()),
                Err(error) => return theirs.fail(io::Error::new(io::ErrorKind::ConnectionReset, error)),
            }
        }
    });
    while let Some(mut bytes) = queue.take().await {
        queue.window.set_round_trip(connection.stats().path.min_rtt);
        if let Err(error) = send.write_all_chunks(&mut bytes).await {
            queue.lock().is_broken = true;
            queue.fail(io::Error::new(io::ErrorKind::ConnectionReset, error));
            break;
        }
    }
    // A stream that was reset has nothing left to finish.
    let _ = send.finish();
    let _ = timeout(CLOSE_TIMEOUT, send.stopped()).await;
    reader.abort();
    queue.lock().has_finished = true;
    queue.changed.notify_all();
}

impl QuicLink {
    fn open(connection_handle: &Arc<QuicConnection>, end: Instant) -> io::Result<Self> {
        let (report, opened) = sync_channel(1);
        let connection = connection_handle.connection.clone();
        connection_handle.handle.spawn(async move {
            // The caller waits for it.
            let _ = report.send(timeout_at(end.into(), connection.open_bi()).await);
        });
        // Its end is dropped unsent when the runtime has ended.
        let opened = opened.recv().map_err(|_| io::ErrorKind::ConnectionReset)?;
        let (send, recv) = opened
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
            .map_err(|error| io::Error::new(io::ErrorKind::ConnectionReset, error))?;
        let queue = StreamQueue::new(Arc::clone(&connection_handle.window));
        let task = run_stream(
            send,
            recv,
            Arc::clone(&queue),
            connection_handle.connection.clone(),
        );
        connection_handle.handle.spawn(task);
        connection_handle.streams.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            queue,
            front: Bytes::new(),
            connection_handle: Arc::clone(connection_handle),
        })
    }

    fn streams(&self) -> usize {
        self.connection_handle.streams.load(Ordering::Relaxed)
    }

    fn lost(state: &mut StreamState) -> io::Error {
        let kind = state
            .failure
            .as_ref()
            .map_or(io::ErrorKind::BrokenPipe, io::Error::kind);
        state.failure.replace(kind.into()).unwrap_or_else(|| kind.into())
    }
}

impl Link for QuicLink {
    fn try_send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.queue.lock();
        if state.is_broken {
            return Err(Self::lost(&mut state));
        }
        if !state.has_room(self.streams()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        let length = bytes.len();
        self.queue.send(state, Bytes::from(bytes));
        Ok(length)
    }

    fn send_buffer(&mut self, buffer: &mut Vec<u8>, timeout: Duration) -> io::Result<()> {
        let queue = &self.queue;
        let has_ended = || queue.lock().has_ended;
        let owned = queue.window.exchange(buffer, self.streams(), timeout, has_ended);
        let owned = owned.ok_or(io::ErrorKind::TimedOut)?;
        let mut state = queue.lock();
        // A peer that has ended its half takes no more.
        if state.has_ended {
            return Err(Self::lost(&mut state));
        }
        self.queue.send(state, Bytes::from_owner(owned));
        Ok(())
    }

    fn try_receive(&mut self, space: &mut [u8]) -> io::Result<usize> {
        if self.front.is_empty() {
            let mut state = self.queue.lock();
            match state.incoming.pop_front() {
                Some(bytes) => {
                    state.incoming_bytes -= bytes.len();
                    self.front = bytes;
                }
                None if state.has_ended => return Ok(0),
                None => return Err(io::ErrorKind::WouldBlock.into()),
            }
        }
        let length = self.front.len().min(space.len());
        let taken = self.front.split_to(length);
        if let Some(space) = space.get_mut(..length) {
            space.copy_from_slice(&taken);
        }
        Ok(length)
    }

    fn wait(&mut self, for_room: bool, timeout: Duration) -> io::Result<bool> {
        if !self.front.is_empty() {
            return Ok(true);
        }
        let streams = self.streams();
        let state = self.queue.lock();
        let waits = |state: &mut StreamState| {
            state.incoming.is_empty() && !state.has_ended && !(for_room && state.has_room(streams))
        };
        let waited = self.queue.changed.wait_timeout_while(state, timeout, waits);
        let over = waited.unwrap_or_else(PoisonError::into_inner).1;
        Ok(!over.timed_out())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn notify(&self) -> Option<Arc<Notify>> {
        Some(Arc::clone(&self.queue.notify))
    }

    fn is_integrity_protected(&self) -> bool {
        true
    }

    fn abandon(&mut self) {
        let code = VarInt::from_u32(Reason::Ending as u32);
        self.connection_handle.connection.close(code, b"given up");
    }

    fn finish(&mut self) {
        let mut state = self.queue.lock();
        state
            .waits_until
            .get_or_insert_with(|| Instant::now() + CLOSE_TIMEOUT + STOP_CHECK_INTERVAL);
        drop(state);
        self.queue.send_requested.notify_one();
    }

    fn is_congested(&self) -> bool {
        self.connection_handle.window.is_congested()
    }

    fn has_streams(&self) -> bool {
        true
    }

    fn open_stream(&mut self) -> io::Result<Box<dyn Link>> {
        Ok(Box::new(Self::open(
            &self.connection_handle,
            Instant::now() + self.connection_handle.connect_timeout,
        )?))
    }
}

impl Drop for QuicLink {
    fn drop(&mut self) {
        self.finish();
        self.connection_handle.streams.fetch_sub(1, Ordering::Relaxed);
        let state = self.queue.lock();
        let until = state.waits_until;
        let left = until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        });
        // Bounded by the time limits of the task, but for a runtime that has ended.
        let waited = self
            .queue
            .changed
            .wait_timeout_while(state, left, |state| !state.has_finished);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
