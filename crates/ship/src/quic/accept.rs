//! The end of `quic://` that listens: connections, and their streams, each of which is fed as a connection of its own.

use super::{STOP_CHECK_INTERVAL, STOP_POLL_INTERVAL, WINDOW_BYTES, runtime, transport};
use crate::TransportError;
use crate::address::HostPort;
use crate::hello::Reason;
use crate::identity::Identity;
use crate::limits::PIECE_BYTES;
use crate::link::tls;
use crate::options::Options;
use crate::serve::{RequestQueue, ServedSession, ServerState, TOO_MANY, hand_over};
use crate::session::{FeedResult, awaited_ack, put_deferred_ack};
use bytes::Bytes;
use quinn::crypto::rustls::{NoInitialCipherSuite, QuicServerConfig};
use quinn::{RecvStream, SendStream, VarInt};
use rustls::pki_types::CertificateDer;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Pieces that are taken at once: as many datagrams as the kernel joins.
const CHUNKS_MAX: usize = 64;
/// Fronts of frames up to here are put together with what comes in the common space; longer ones grow where they are.
const MOVED_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a connection that has not delivered anything, which quinn may hold for us: a frame and what is behind it.
const INITIAL_WINDOW_BYTES: u32 = 5 << 18;

/// Configuration of an endpoint.
pub(crate) struct EndpointConfig {
    endpoint: quinn::Endpoint,
    options: Options,
}

impl EndpointConfig {
    /// Gives another one to connections that are made from now on.
    pub(crate) fn replace(&self, tls: &Arc<rustls::ServerConfig>) -> Result<(), TransportError> {
        let config = server_config(Arc::clone(tls), &self.options);
        let config =
            config.map_err(|error| TransportError::system("use a certificate")(io::Error::other(error)))?;
        self.endpoint.set_server_config(Some(config));
        Ok(())
    }
}

fn server_config(
    tls: Arc<rustls::ServerConfig>,
    options: &Options,
) -> Result<quinn::ServerConfig, NoInitialCipherSuite> {
    let crypto = QuicServerConfig::try_from(tls)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let mut transport = transport(options);
    transport.receive_window(VarInt::from_u32(INITIAL_WINDOW_BYTES));
    config.transport_config(Arc::new(transport));
    config.max_incoming(1_024);
    Ok(config)
}

/// Listening QUIC endpoint.
pub(crate) struct Endpoint {
    /// Taken when it runs.
    runtime: Option<Runtime>,
    endpoint: quinn::Endpoint,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A plain drop waits, which panics on the thread of another runtime's task.
            runtime.shutdown_background();
        }
    }
}

impl Endpoint {
    /// Listens; `failed` makes the error of what the system refuses.
    pub(crate) fn bind(
        host_port: &HostPort,
        options: &Options,
        failed: impl Fn(io::Error) -> TransportError,
    ) -> Result<Self, TransportError> {
        let config = server_config(tls::server_config(&options.tls)?, options);
        let config = config.map_err(|error| failed(io::Error::other(error)))?;
        let address = host_port.resolve().map_err(&failed)?.first().copied();
        let address = address.ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
        let runtime = runtime().map_err(&failed)?;
        let guard = runtime.enter();
        let endpoint = super::endpoint(address, Some(config), options);
        drop(guard);
        match endpoint {
            Ok(endpoint) => Ok(Self {
                runtime: Some(runtime),
                endpoint,
            }),
            Err(error) => {
                // As where an endpoint is dropped.
                runtime.shutdown_background();
                Err(failed(error))
            }
        }
    }

    /// The configuration, which can be replaced.
    pub(crate) fn config(&self, options: &Options) -> EndpointConfig {
        EndpointConfig {
            endpoint: self.endpoint.clone(),
            options: options.clone(),
        }
    }

    pub(crate) fn host_port(&self) -> Option<HostPort> {
        self.endpoint.local_addr().ok().map(HostPort::from)
    }

    /// Runs until the server stops. Requests are answered by a pool where there is one.
    pub(crate) fn run(mut self, shared: &Arc<ServerState>, pool: Option<&RequestQueue>) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        let endpoint = self.endpoint.clone();
        let streams = Arc::new(());
        runtime.block_on(async {
            while !shared.stops() {
                let Ok(Some(incoming)) = timeout(STOP_CHECK_INTERVAL, endpoint.accept()).await else {
                    continue;
                };
                // A forged address gets nothing before it has answered, once there is a crowd.
                if !incoming.remote_address_validated() && endpoint.open_connections() > 1_024 {
                    // One that was asked to come again does.
                    let _ = incoming.retry();
                    continue;
                }
                let serving = Serving {
                    shared: Arc::clone(shared),
                    pool: pool.cloned(),
                    streams: Arc::downgrade(&streams),
                };
                tokio::spawn(serve_connection(incoming, serving));
            }
            // The tasks of streams check the same flag, answer what has come, and send a goodbye.
            while Arc::strong_count(&streams) > 1 && !shared.has_stopped() {
                tokio::time::sleep(STOP_POLL_INTERVAL).await;
            }
            endpoint.close(VarInt::from_u32(Reason::Ending as u32), b"ending");
            // A peer that is gone is not waited for.
            let _ = timeout(STOP_CHECK_INTERVAL, endpoint.wait_idle()).await;
        });
    }
}

/// What the tasks of a listener share.
#[derive(Clone)]
struct Serving {
    shared: Arc<ServerState>,
    pool: Option<RequestQueue>,
    /// Held by each task of a stream, so that the end of the listener sees when all have ended.
    streams: Weak<()>,
}

async fn serve_connection(incoming: quinn::Incoming, serving: Serving) {
    let shared = &serving.shared;
    let address = incoming.remote_address();
    let Ok(Ok(connection)) = timeout(shared.options.timeouts.handshake, async { incoming.await }).await
    else {
        return shared.count(Reason::Forbidden);
    };
    let end = accept_streams(&connection, address, &serving).await;
    if let Err(reason) = end {
        connection.close(VarInt::from_u32(reason as u32), reason.name().as_bytes());
    }
    // A client whose certificate is refused finds out after its own handshake is done.
    if let Some(quinn::ConnectionError::TransportError(_)) = connection.close_reason() {
        shared.count(Reason::Forbidden);
    }
}

/// The streams of a connection that are served.
#[derive(Default)]
struct OpenStreams {
    /// Relaxed: who ends one says so behind it.
    count: AtomicUsize,
    has_ended: Notify,
}

/// Serves the streams of a connection until it ends. While it has none it has a place among the connections itself, and a time
/// limit: that of a hello before the first stream, and that of silence behind it. `Err`: the reason to end it for.
async fn accept_streams(
    connection: &quinn::Connection,
    address: SocketAddr,
    serving: &Serving,
) -> Result<(), Reason> {
    let shared = &serving.shared;
    let certificates = connection
        .peer_identity()
        .and_then(|found| found.downcast::<Vec<CertificateDer<'static>>>().ok());
    let identity = certificates.and_then(|found| Identity::of_certificate(found.first()?));
    let streams = Arc::new(OpenStreams::default());
    let timeouts = &shared.options.timeouts;
    let (mut limit, mut reason) = (timeouts.handshake, Reason::Handshake);
    loop {
        if streams.count.load(Ordering::Relaxed) > 0 {
            let mut accepting = std::pin::pin!(connection.accept_bi());
            let mut ending = std::pin::pin!(streams.has_ended.notified());
            let next = std::future::poll_fn(|context| match accepting.as_mut().poll(context) {
                Poll::Ready(stream) => Poll::Ready(Some(stream)),
                Poll::Pending => ending.as_mut().poll(context).map(|()| None),
            });
            match next.await {
                Some(Ok(stream)) => {
                    serve_stream(connection, stream, (address, &identity), &streams, serving)?
                }
                Some(Err(_)) => return Ok(()),
                None => {}
            }
            continue;
        }
        if !shared.hold_place() {
            return Err(Reason::Connections);
        }
        let accepted = timeout(limit, connection.accept_bi()).await;
        shared.release_place();
        match accepted {
            Ok(Ok(stream)) => serve_stream(connection, stream, (address, &identity), &streams, serving)?,
            Ok(Err(_)) => return Ok(()),
            Err(_) => {
                shared.count(reason);
                return Err(reason);
            }
        }
        (limit, reason) = (timeouts.idle, Reason::Idle);
    }
}

fn serve_stream(
    connection: &quinn::Connection,
    stream: (SendStream, RecvStream),
    (address, identity): (SocketAddr, &Option<Identity>),
    streams: &Arc<OpenStreams>,
    serving: &Serving,
) -> Result<(), Reason> {
    let shared = &serving.shared;
    let peer = shared.admit(format!("quic://{address}"), None);
    let mut peer = peer.ok_or(Reason::Connections)?;
    peer.identity.clone_from(identity);
    let session = ServedSession::of_peer(peer, true, 1, shared);
    let (connection, serving, streams) = (connection.clone(), serving.clone(), Arc::clone(streams));
    streams.count.fetch_add(1, Ordering::Relaxed);
    tokio::spawn(async move {
        serve(connection, stream, session, serving).await;
        streams.count.fetch_sub(1, Ordering::Relaxed);
        streams.has_ended.notify_one();
    });
    Ok(())
}

async fn serve(
    connection: quinn::Connection,
    (mut send, mut recv): (SendStream, RecvStream),
    mut session: ServedSession,
    serving: Serving,
) {
    let shared = &serving.shared;
    let held = serving.streams.upgrade();
    let streams = (&mut send, &mut recv);
    let end = exchange(&connection, streams, &mut session, &serving).await;
    let (Ok(reason) | Err(reason)) = end;
    if end.is_err() {
        let mut out = Vec::new();
        session.server.goodbye(reason, &mut out);
        // A peer that is gone needs no goodbye.
        let _ = timeout(STOP_CHECK_INTERVAL, send.write_all(&out)).await;
    }
    // The same holds for the end of the stream.
    let _ = send.finish();
    session.closed(reason, shared);
    if shared.stops() {
        // The end of the endpoint discards what the peer has not got.
        let _ = timeout(STOP_CHECK_INTERVAL, send.stopped()).await;
    }
    drop(held);
}

/// `Ok`: nothing is left to be said; `Err`: a goodbye is.
async fn exchange(
    connection: &quinn::Connection,
    (send, recv): (&mut SendStream, &mut RecvStream),
    session: &mut ServedSession,
    serving: &Serving,
) -> Result<Reason, Reason> {
    let shared = &serving.shared;
    let mut has_full_window = false;
    let mut chunks = vec![Bytes::new(); CHUNKS_MAX];
    let mut out = Vec::new();
    let notify = Arc::new(Notify::new());
    let bell = Arc::clone(&notify);
    session.outbox().set_waker(Box::new(move || bell.notify_one()));
    if shared.service.defers_acks() {
        let bell = Arc::clone(&notify);
        session.server.peer.acks.set_waker(move || bell.notify_one());
    }
    loop {
        if shared.stops() {
            return answer_late((send, recv), session, serving, &notify).await;
        }
        let refused = put_deferred_ack(&mut session.server, &mut out);
        let sent = send_all(send, &mut out, shared).await;
        if let Some(reason) = refused.or(sent.err()) {
            return Ok(reason);
        }
        if !session.has_memory(shared, MOVED_BYTES_MAX) {
            // Where there is memory the service may have room.
            let _ = timeout(STOP_CHECK_INTERVAL, notify.notified()).await;
            let overdue = session.overdue(!session.input.is_empty(), shared, Instant::now());
            overdue.map_or(Ok(()), Err)?;
            continue;
        }
        let received = match receive(recv, &mut chunks, &notify, STOP_CHECK_INTERVAL).await {
            Received::Chunks(count) => chunks.get_mut(..count).unwrap_or(&mut []),
            Received::End => return Ok(Reason::Lost),
            Received::Nothing => {
                send_outbox(send, session, &mut out, shared).await?;
                let expired = session.expired(!session.input.is_empty(), shared, Instant::now());
                expired.map_or(Ok(()), Err)?;
                continue;
            }
        };
        session.last_received = Instant::now();
        let fed = feed(session, received, serving, &mut out)?;
        // A hello that comes slowly is late, too.
        let expired = session.expired(!session.input.is_empty(), shared, session.last_received);
        let ends = expired.filter(|_| fed.close_reason.is_none());
        ends.map_or(Ok(()), Err)?;
        if !has_full_window && session.server.has_delivered() {
            has_full_window = true;
            connection.set_receive_window(WINDOW_BYTES);
        }
        let sent = send_all(send, &mut out, shared).await;
        if let Some(reason) = fed.close_reason.or(sent.err()) {
            // Its goodbye has been sent.
            return Ok(reason);
        }
        send_outbox(send, session, &mut out, shared).await?;
    }
}

/// Outcome of a wait for bytes.
enum Received {
    /// So many pieces.
    Chunks(usize),
    /// The stream has ended.
    End,
    /// None came in time, or another thread has something for the peer.
    Nothing,
}

/// Waits for bytes, and for what other threads have for the peer.
async fn receive(recv: &mut RecvStream, chunks: &mut [Bytes], notify: &Notify, time: Duration) -> Received {
    let mut received = pin!(timeout(time, recv.read_chunks(chunks)));
    let mut notified = pin!(notify.notified());
    poll_fn(|context| {
        if let Poll::Ready(received) = received.as_mut().poll(context) {
            return Poll::Ready(match received {
                Ok(Ok(Some(count))) => Received::Chunks(count),
                Ok(Ok(None) | Err(_)) => Received::End,
                Err(_) => Received::Nothing,
            });
        }
        notified.as_mut().poll(context).map(|()| Received::Nothing)
    })
    .await
}

async fn send_all(send: &mut SendStream, out: &mut Vec<u8>, shared: &ServerState) -> Result<(), Reason> {
    if out.is_empty() {
        return Ok(());
    }
    let bytes = Bytes::from(std::mem::take(out));
    match timeout(shared.options.timeouts.idle, send.write_chunk(bytes)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Reason::Lost),
        Err(_) => Err(Reason::Idle),
    }
}

/// Sends what other threads have for the peer. `Err`: the reason to end the stream for.
async fn send_outbox(
    send: &mut SendStream,
    session: &ServedSession,
    out: &mut Vec<u8>,
    shared: &ServerState,
) -> Result<(), Reason> {
    while session.outbox().bytes() > 0 {
        let closing = session.server.send_outbox(out, PIECE_BYTES);
        send_all(send, out, shared).await?;
        closing.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Answers what has come when the server stops, as far as the time for that reaches.
async fn answer_late(
    (send, recv): (&mut SendStream, &mut RecvStream),
    session: &mut ServedSession,
    serving: &Serving,
    notify: &Notify,
) -> Result<Reason, Reason> {
    let shared = &serving.shared;
    let mut chunks = vec![Bytes::new(); CHUNKS_MAX];
    let mut out = Vec::new();
    if let Received::Chunks(count) = receive(recv, &mut chunks, notify, Duration::ZERO).await {
        let received = chunks.get_mut(..count).unwrap_or(&mut []);
        let fed = feed(session, received, serving, &mut out)?;
        send_all(send, &mut out, shared).await?;
        if let Some(reason) = fed.close_reason {
            // Its goodbye has been sent.
            return Ok(reason);
        }
    }
    loop {
        send_outbox(send, session, &mut out, shared).await?;
        let refused = put_deferred_ack(&mut session.server, &mut out);
        send_all(send, &mut out, shared).await?;
        refused.map_or(Ok(()), Err)?;
        let is_owed = session.outbox().awaited() > 0 || awaited_ack(&session.server).is_some();
        if !is_owed || shared.has_stopped() {
            return Err(Reason::Ending);
        }
        // Its time limit only makes us look.
        let _ = timeout(STOP_POLL_INTERVAL, notify.notified()).await;
    }
}

thread_local! {
    /// Buffer in which received pieces are put together, of all streams of a thread in turn: it stays in the cache.
    static ASSEMBLY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Feeds what has come, and keeps what is left.
fn feed(
    session: &mut ServedSession,
    received: &mut [Bytes],
    serving: &Serving,
    out: &mut Vec<u8>,
) -> Result<FeedResult, Reason> {
    let shared = &serving.shared;
    let mut requests = Vec::new();
    let mut jobs = serving.pool.as_ref().map(|_| &mut requests);
    let length: usize = received.iter().map(Bytes::len).sum();
    shared.bytes.fetch_add(length as u64, Ordering::Relaxed);
    let is_front = session.input.is_empty();
    let fed = if session.input.len() > MOVED_BYTES_MAX {
        let input = &mut session.input;
        received.iter().for_each(|chunk| input.extend_from_slice(chunk));
        let fed = session.feed(None, 0, shared, out, jobs);
        session.input.drain(..fed.used_bytes);
        fed
    } else {
        ASSEMBLY.with_borrow_mut(|space| {
            space.clear();
            space.extend_from_slice(&session.input);
            received.iter().for_each(|chunk| space.extend_from_slice(chunk));
            let fed = session.feed(Some(space), 0, shared, out, jobs.take());
            session.input.clear();
            session
                .input
                .extend_from_slice(space.get(fed.used_bytes..).unwrap_or(&[]));
            fed
        })
    };
    for job in requests {
        let peer = &session.server.peer;
        if let Some(Err(refused)) = serving.pool.as_ref().map(|pool| hand_over(pool, peer, job)) {
            let (stream, sequence) = (refused.stream, refused.sequence);
            session.server.respond(stream, sequence, Err(TOO_MANY), out);
        }
    }
    // Each holds a whole datagram.
    received.fill(Bytes::new());
    if fed.used_bytes > 0 || is_front {
        session.frame_began = Instant::now();
    }
    session.update_memory(0, shared)?;
    Ok(fed)
}
