//! `quic://` with quinn: each stream of a connection is a stream of frames of its own, and says hello for itself.
//!
//! Quinn lives in tokio, so this module has a runtime: one for each listener, and one for each connection made. What
//! crosses between a caller's thread and the runtime are whole buffers, which are not copied.

use crate::TransportError;
use crate::address::{Address, Place};
use crate::hello::Reason;
use crate::limits::{CREDIT_BYTES, READ_BYTES};
use crate::link::{Link, millis, tls};
use crate::options::Options;
use crate::serve::Shared;
use crate::session::Server;
use bytes::Bytes;
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{AckFrequencyConfig, RecvStream, SendStream, TokioRuntime, TransportConfig, VarInt};
use rustix::net::sockopt;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How often tasks look whether the server stops.
const LOOK: Duration = Duration::from_millis(100);
/// Streams of one connection.
const STREAMS_MAX: u32 = 256;
/// Packets that a receiver may take before it says so.
const ACK_EVERY: u32 = 20;
/// Buffers on their way to the runtime.
const BUFFERS_MAX: usize = 16;
/// How long the end of a connection waits for the other end to have all of it.
const PARTING: Duration = Duration::from_secs(5);

/// Why an endpoint cannot listen.
pub(crate) enum BindError {
    Io(io::Error),
    Other(TransportError),
}

fn transport(options: &Options) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.max_concurrent_bidi_streams(VarInt::from_u32(STREAMS_MAX));
    config.max_concurrent_uni_streams(VarInt::from_u32(0));
    config.stream_receive_window(VarInt::from_u32(CREDIT_BYTES as u32));
    config.receive_window(VarInt::from_u32(4 * CREDIT_BYTES as u32));
    config.send_window(4 * CREDIT_BYTES);
    config.datagram_receive_buffer_size(None);
    config.congestion_controller_factory(congestion(options));
    // Acks of every second packet cost more than they tell where packets come in bulk.
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(ACK_EVERY));
    config.ack_frequency_config(Some(acks));
    // Frames of one stream behind each other pack better.
    config.send_fairness(false);
    // Its own bound is a 62-bit number of milliseconds, which no such time reaches.
    config.max_idle_timeout(options.idle_timeout.try_into().ok());
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
    if sockopt::set_socket_recv_buffer_size_force(&socket, bytes).is_err() {
        // Without the privilege the system's bound holds.
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
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
    quinn::Endpoint::new(
        quinn::EndpointConfig::default(),
        server,
        socket,
        Arc::new(TokioRuntime),
    )
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// A listener.
pub(crate) struct Endpoint {
    runtime: Runtime,
    endpoint: quinn::Endpoint,
}

impl Endpoint {
    pub(crate) fn bind(place: &Place, options: &Options) -> Result<Self, BindError> {
        let tls = tls::server_config(&options.tls).map_err(BindError::Other)?;
        let crypto =
            QuicServerConfig::try_from(tls).map_err(|error| BindError::Io(io::Error::other(error)))?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(transport(options)));
        config.max_incoming(1_024);
        let address = place.resolve().map_err(BindError::Io)?.first().copied();
        let address = address.ok_or_else(|| BindError::Io(io::ErrorKind::AddrNotAvailable.into()))?;
        let runtime = runtime().map_err(BindError::Io)?;
        let guard = runtime.enter();
        let endpoint = self::endpoint(address, Some(config), options).map_err(BindError::Io)?;
        drop(guard);
        Ok(Self { runtime, endpoint })
    }

    pub(crate) fn place(&self) -> Option<Place> {
        self.endpoint.local_addr().ok().map(Place::from)
    }

    /// Runs until the server stops.
    pub(crate) fn run(self, shared: &Arc<Shared>) {
        let Self { runtime, endpoint } = self;
        runtime.block_on(async {
            while !shared.stops() {
                let Ok(Some(incoming)) = timeout(LOOK, endpoint.accept()).await else {
                    continue;
                };
                // A forged address gets nothing before it has answered, once there is a crowd.
                if !incoming.remote_address_validated() && endpoint.open_connections() > 1_024 {
                    // One that was asked to come again does.
                    let _ = incoming.retry();
                    continue;
                }
                tokio::spawn(converse(incoming, Arc::clone(shared)));
            }
            // The tasks of streams look at the same flag, and say goodbye.
            tokio::time::sleep(LOOK + LOOK / 2).await;
            endpoint.close(VarInt::from_u32(Reason::Ending as u32), b"ending");
            // Whoever is gone is not waited for.
            let _ = timeout(LOOK, endpoint.wait_idle()).await;
        });
    }
}

async fn converse(incoming: quinn::Incoming, shared: Arc<Shared>) {
    let address = incoming.remote_address();
    let Ok(Ok(connection)) = timeout(shared.options.handshake_timeout, async { incoming.await }).await else {
        return shared.count(Reason::Forbidden);
    };
    let is_certified = connection.peer_identity().is_some();
    while let Ok((send, recv)) = connection.accept_bi().await {
        let Some(mut peer) = shared.admit(format!("quic://{address}"), None) else {
            return;
        };
        peer.is_certified = is_certified;
        let server = shared.session(peer, true);
        tokio::spawn(serve(send, recv, server, Arc::clone(&shared)));
    }
    // A client whose certificate is refused finds out after its own handshake is done.
    if let Some(quinn::ConnectionError::TransportError(_)) = connection.close_reason() {
        shared.count(Reason::Forbidden);
    }
}

async fn serve(mut send: SendStream, mut recv: RecvStream, mut server: Server, shared: Arc<Shared>) {
    let mut is_met = false;
    let end = talk(&mut send, &mut recv, &mut server, &shared, &mut is_met).await;
    let (Ok(reason) | Err(reason)) = end;
    if end.is_err() {
        let mut out = Vec::new();
        server.part(reason, &mut out);
        // Whoever is gone needs no goodbye.
        let _ = timeout(LOOK, send.write_all(&out)).await;
    }
    // The same holds for the end of the stream.
    let _ = send.finish();
    shared.leave(reason, !is_met);
    if is_met {
        shared.service.left(&server.peer, reason);
    }
}

/// `Ok`: nothing is left to be said; `Err`: a goodbye is.
async fn talk(
    send: &mut SendStream,
    recv: &mut RecvStream,
    server: &mut Server,
    shared: &Shared,
    is_met: &mut bool,
) -> Result<Reason, Reason> {
    let mut input = vec![0; READ_BYTES];
    let (mut start, mut end) = (0, 0);
    let mut out = Vec::new();
    let mut heard = Instant::now();
    loop {
        if shared.stops() {
            return Err(Reason::Ending);
        }
        let space = input.get_mut(end..).unwrap_or(&mut []);
        let length = match timeout(LOOK, recv.read(space)).await {
            Ok(Ok(Some(length))) => length,
            Ok(Ok(None) | Err(_)) => return Ok(Reason::Lost),
            Err(_) => {
                let (limit, reason) = match is_met {
                    true => (shared.options.idle_timeout, Reason::Idle),
                    false => (shared.options.handshake_timeout, Reason::Handshake),
                };
                if heard.elapsed() >= limit {
                    return Err(reason);
                }
                continue;
            }
        };
        heard = Instant::now();
        shared.bytes.fetch_add(length as u64, Ordering::Relaxed);
        end += length;
        let fed = server.feed(
            input.get(start..end).unwrap_or(&[]),
            shared.service.as_ref(),
            &mut out,
            None,
        );
        start += fed.used_bytes;
        if !*is_met && server.is_open() {
            *is_met = true;
            shared.met();
        }
        if !out.is_empty() {
            let bytes = Bytes::from(std::mem::take(&mut out));
            match timeout(shared.options.idle_timeout, send.write_chunk(bytes)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Ok(fed.ends.unwrap_or(Reason::Lost)),
                Err(_) => return Ok(fed.ends.unwrap_or(Reason::Idle)),
            }
        }
        if let Some(reason) = fed.ends {
            // Its goodbye has been sent.
            return Ok(reason);
        }
        if start == end {
            (start, end) = (0, 0);
        } else if input.len() - end < READ_BYTES / 2 {
            input.copy_within(start..end, 0);
            (start, end) = (0, end - start);
            if input.len() - end < READ_BYTES / 2 {
                // A frame is 1 MiB at most, which the session has checked by then.
                input.resize(input.len() * 2, 0);
            }
        }
    }
}

/// What the runtime and the caller's thread share.
#[derive(Default)]
struct Meeting {
    incoming: VecDeque<Bytes>,
    incoming_bytes: usize,
    has_ended: bool,
    /// The stream's task has nothing left to do.
    has_finished: bool,
    failure: Option<io::Error>,
}

#[derive(Default)]
struct Room {
    meeting: Mutex<Meeting>,
    changed: Condvar,
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, Meeting> {
        // Whole buffers go in and out.
        self.meeting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what came; whether the caller should read first.
    fn put(&self, bytes: Bytes) -> bool {
        let mut meeting = self.lock();
        meeting.incoming_bytes += bytes.len();
        let is_full = meeting.incoming_bytes > CREDIT_BYTES as usize;
        meeting.incoming.push_back(bytes);
        drop(meeting);
        self.changed.notify_all();
        is_full
    }

    fn fail(&self, error: io::Error) {
        let mut meeting = self.lock();
        meeting.has_ended = true;
        meeting.failure.get_or_insert(error);
        drop(meeting);
        self.changed.notify_all();
    }
}

/// A connection, and the thread of its runtime: shared by its streams, ends with the last of them.
struct Engine {
    handle: Handle,
    connection: quinn::Connection,
    connect_timeout: Duration,
    done: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The thread has ended already if nobody hears it.
        let _ = self.done.take().map(|done| done.send(()));
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, it has said so itself.
            let _ = thread.join();
        }
    }
}

/// One stream.
pub(crate) struct QuicLink {
    room: Arc<Room>,
    out: Option<mpsc::Sender<Bytes>>,
    front: Bytes,
    engine: Arc<Engine>,
}

/// Connects, and opens a stream.
pub(crate) fn connect(
    address: &Address,
    place: &Place,
    options: &Options,
) -> Result<QuicLink, TransportError> {
    let failed = |cause: io::Error| TransportError::Connect {
        address: address.to_string(),
        cause,
    };
    let tls = tls::client_config(&options.tls)?;
    let crypto = QuicClientConfig::try_from(tls).map_err(|error| failed(io::Error::other(error)))?;
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    let mut transport = transport(options);
    transport.keep_alive_interval(Some(options.idle_timeout / 3));
    config.transport_config(Arc::new(transport));
    let peer = place.resolve().map_err(failed)?.first().copied();
    let peer = peer.ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
    let name = options.tls.name.clone().unwrap_or_else(|| place.host.clone());
    let runtime = runtime().map_err(failed)?;
    // The time limit is made within the runtime, whose clock it uses.
    let connected = runtime
        .block_on(async { timeout(options.connect_timeout, open(config, peer, &name, options)).await });
    let (endpoint, connection) = match connected {
        Ok(found) => found.map_err(failed)?,
        Err(_) => {
            return Err(TransportError::Timeout {
                address: address.to_string(),
                what: "finish the QUIC handshake",
                ms: millis(options.connect_timeout),
            });
        }
    };
    let handle = runtime.handle().clone();
    let (done, ended) = oneshot::channel();
    // Quinn has things to say, too: what a thread may not log, the one that works for it may not either.
    let is_denied = logdrive_ring::local::is_denied();
    let thread = std::thread::Builder::new()
        .name("logdrive-quic".to_owned())
        .spawn(move || {
            if is_denied {
                logdrive_ring::local::deny_thread();
            }
            runtime.block_on(async {
                // Its sender is gone only when all streams are.
                let _ = ended.await;
                endpoint.close(VarInt::from_u32(0), b"done");
                // What is lost of the goodbye, the idle time replaces.
                let _ = timeout(PARTING, endpoint.wait_idle()).await;
            });
        })
        .map_err(failed)?;
    let engine = Engine {
        handle,
        connection,
        connect_timeout: options.connect_timeout,
        done: Some(done),
        thread: Some(thread),
    };
    QuicLink::open(&Arc::new(engine)).map_err(failed)
}

async fn open(
    config: quinn::ClientConfig,
    peer: SocketAddr,
    name: &str,
    options: &Options,
) -> io::Result<(quinn::Endpoint, quinn::Connection)> {
    let any: SocketAddr = if peer.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0_u16; 8], 0).into()
    };
    let endpoint = self::endpoint(any, None, options)?;
    let connecting = endpoint
        .connect_with(config, peer, name)
        .map_err(io::Error::other)?;
    let connection = connecting.await.map_err(io::Error::other)?;
    Ok((endpoint, connection))
}

/// Carries buffers between the stream and the caller until the caller is done and the other end has all.
async fn carry(
    mut send: SendStream,
    mut recv: RecvStream,
    mut outgoing: mpsc::Receiver<Bytes>,
    room: Arc<Room>,
) {
    let theirs = Arc::clone(&room);
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
    while let Some(bytes) = outgoing.recv().await {
        if let Err(error) = send.write_chunk(bytes).await {
            room.fail(io::Error::new(io::ErrorKind::ConnectionReset, error));
            break;
        }
        room.changed.notify_all();
    }
    // A stream that was reset has nothing left to finish.
    let _ = send.finish();
    let _ = timeout(PARTING, send.stopped()).await;
    reader.abort();
    room.lock().has_finished = true;
    room.changed.notify_all();
}

impl QuicLink {
    fn open(engine: &Arc<Engine>) -> io::Result<Self> {
        let opening = async { timeout(engine.connect_timeout, engine.connection.open_bi()).await };
        let opened = engine.handle.block_on(opening);
        let (send, recv) = opened
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
            .map_err(|error| io::Error::new(io::ErrorKind::ConnectionReset, error))?;
        let room = Arc::new(Room::default());
        let (out, outgoing) = mpsc::channel(BUFFERS_MAX);
        engine
            .handle
            .spawn(carry(send, recv, outgoing, Arc::clone(&room)));
        Ok(Self {
            room,
            out: Some(out),
            front: Bytes::new(),
            engine: Arc::clone(engine),
        })
    }

    fn gone(&self) -> io::Error {
        let mut meeting = self.room.lock();
        let kind = meeting
            .failure
            .as_ref()
            .map_or(io::ErrorKind::BrokenPipe, io::Error::kind);
        meeting
            .failure
            .replace(kind.into())
            .unwrap_or_else(|| kind.into())
    }
}

impl Link for QuicLink {
    fn try_send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(out) = &self.out else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let permit = match out.try_reserve() {
            Ok(permit) => permit,
            Err(mpsc::error::TrySendError::Full(())) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(mpsc::error::TrySendError::Closed(())) => return Err(self.gone()),
        };
        let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        let length = bytes.len();
        permit.send(Bytes::from(bytes));
        Ok(length)
    }

    fn send_buffer(&mut self, buffer: &mut Vec<u8>, _: Duration) -> io::Result<()> {
        let Some(out) = &self.out else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let fresh = Vec::with_capacity(buffer.capacity());
        // The connection's own idle time bounds the wait.
        out.blocking_send(Bytes::from(std::mem::replace(buffer, fresh)))
            .map_err(|_| self.gone())
    }

    fn try_receive(&mut self, space: &mut [u8]) -> io::Result<usize> {
        if self.front.is_empty() {
            let mut meeting = self.room.lock();
            match meeting.incoming.pop_front() {
                Some(bytes) => {
                    meeting.incoming_bytes -= bytes.len();
                    self.front = bytes;
                }
                None if meeting.has_ended => return Ok(0),
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

    fn wait(&mut self, for_room: bool, patience: Duration) -> io::Result<bool> {
        if !self.front.is_empty() {
            return Ok(true);
        }
        let out = self.out.clone();
        let has_room = || for_room && out.as_ref().is_some_and(|out| out.capacity() > 0);
        let meeting = self.room.lock();
        let waits = |meeting: &mut Meeting| meeting.incoming.is_empty() && !meeting.has_ended && !has_room();
        // Room is made without the lock, so that a wake may be missed: then a short time limit helps.
        let patience = if for_room {
            patience.min(Duration::from_millis(5))
        } else {
            patience
        };
        let waited = self.room.changed.wait_timeout_while(meeting, patience, waits);
        let over = waited.unwrap_or_else(PoisonError::into_inner).1;
        Ok(!over.timed_out())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn is_safe(&self) -> bool {
        true
    }

    fn is_certified(&self) -> bool {
        true
    }

    fn abandon(&mut self) {
        let code = VarInt::from_u32(Reason::Ending as u32);
        self.engine.connection.close(code, b"given up");
    }

    fn has_streams(&self) -> bool {
        true
    }

    fn another(&mut self) -> io::Result<Box<dyn Link>> {
        Ok(Box::new(Self::open(&self.engine)?))
    }
}

impl Drop for QuicLink {
    fn drop(&mut self) {
        self.out = None;
        let meeting = self.room.lock();
        // Bounded by the time limits of the task, but for a runtime that has ended.
        let waited = self
            .room
            .changed
            .wait_timeout_while(meeting, PARTING + LOOK, |meeting| !meeting.has_finished);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
