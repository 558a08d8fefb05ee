//! The end of `quic://` that listens: connections, and their streams, each of which is fed as a connection of its own.

use super::{BindError, STOP_CHECK_INTERVAL, WINDOW_BYTES, runtime, transport};
use crate::address::HostPort;
use crate::hello::Reason;
use crate::link::tls;
use crate::options::Options;
use crate::serve::{QuotaShare, ServerState};
use crate::session::{FeedResult, Server};
use bytes::Bytes;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{RecvStream, SendStream, VarInt};
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// Pieces that are taken at once: as many datagrams as the kernel joins.
const CHUNKS_MAX: usize = 64;
/// Fronts of frames up to here are put together with what comes in the common space; longer ones grow where they are.
const MOVED_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a connection that has not delivered anything, which quinn may hold for us: a frame and what is behind it.
const INITIAL_WINDOW_BYTES: u32 = 5 << 18;

/// Listening QUIC endpoint.
pub(crate) struct Endpoint {
    runtime: Runtime,
    endpoint: quinn::Endpoint,
}

impl Endpoint {
    pub(crate) fn bind(host_port: &HostPort, options: &Options) -> Result<Self, BindError> {
        let tls = tls::server_config(&options.tls).map_err(BindError::Other)?;
        let crypto =
            QuicServerConfig::try_from(tls).map_err(|error| BindError::Io(io::Error::other(error)))?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        let mut transport = transport(options);
        transport.receive_window(VarInt::from_u32(INITIAL_WINDOW_BYTES));
        config.transport_config(Arc::new(transport));
        config.max_incoming(1_024);
        let address = host_port.resolve().map_err(BindError::Io)?.first().copied();
        let address = address.ok_or_else(|| BindError::Io(io::ErrorKind::AddrNotAvailable.into()))?;
        let runtime = runtime().map_err(BindError::Io)?;
        let guard = runtime.enter();
        let endpoint = super::endpoint(address, Some(config), options).map_err(BindError::Io)?;
        drop(guard);
        Ok(Self { runtime, endpoint })
    }

    pub(crate) fn host_port(&self) -> Option<HostPort> {
        self.endpoint.local_addr().ok().map(HostPort::from)
    }

    /// Runs until the server stops.
    pub(crate) fn run(self, shared: &Arc<ServerState>) {
        let Self { runtime, endpoint } = self;
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
                tokio::spawn(serve_connection(incoming, Arc::clone(shared)));
            }
            // The tasks of streams look at the same flag, and say goodbye.
            tokio::time::sleep(STOP_CHECK_INTERVAL + STOP_CHECK_INTERVAL / 2).await;
            endpoint.close(VarInt::from_u32(Reason::Ending as u32), b"ending");
            // A peer that is gone is not waited for.
            let _ = timeout(STOP_CHECK_INTERVAL, endpoint.wait_idle()).await;
        });
    }
}

async fn serve_connection(incoming: quinn::Incoming, shared: Arc<ServerState>) {
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
        tokio::spawn(serve(
            connection.clone(),
            (send, recv),
            server,
            Arc::clone(&shared),
        ));
    }
    // A client whose certificate is refused finds out after its own handshake is done.
    if let Some(quinn::ConnectionError::TransportError(_)) = connection.close_reason() {
        shared.count(Reason::Forbidden);
    }
}

async fn serve(
    connection: quinn::Connection,
    (mut send, mut recv): (SendStream, RecvStream),
    mut server: Server,
    shared: Arc<ServerState>,
) {
    let mut is_established = false;
    let streams = (&mut send, &mut recv);
    let end = exchange(&connection, streams, &mut server, &shared, &mut is_established).await;
    let (Ok(reason) | Err(reason)) = end;
    if end.is_err() {
        let mut out = Vec::new();
        server.goodbye(reason, &mut out);
        // A peer that is gone needs no goodbye.
        let _ = timeout(STOP_CHECK_INTERVAL, send.write_all(&out)).await;
    }
    // The same holds for the end of the stream.
    let _ = send.finish();
    shared.connection_closed(reason, !is_established);
    if is_established {
        shared.service.disconnected(&server.peer, reason);
    }
}

/// `Ok`: nothing is left to be said; `Err`: a goodbye is.
async fn exchange(
    connection: &quinn::Connection,
    (send, recv): (&mut SendStream, &mut RecvStream),
    server: &mut Server,
    shared: &ServerState,
    is_established: &mut bool,
) -> Result<Reason, Reason> {
    let mut partial = PartialFrame {
        bytes: Vec::new(),
        memory: QuotaShare::default(),
        frame_began: Instant::now(),
        shared,
    };
    let mut has_full_window = false;
    let mut chunks = vec![Bytes::new(); CHUNKS_MAX];
    let mut out = Vec::new();
    let mut last_received = Instant::now();
    loop {
        if shared.stops() {
            return Err(Reason::Ending);
        }
        if !partial.has_memory(server) {
            tokio::time::sleep(STOP_CHECK_INTERVAL).await;
            partial.check_deadline()?;
            continue;
        }
        let received = match timeout(STOP_CHECK_INTERVAL, recv.read_chunks(&mut chunks)).await {
            Ok(Ok(Some(count))) => chunks.get_mut(..count).unwrap_or(&mut []),
            Ok(Ok(None) | Err(_)) => return Ok(Reason::Lost),
            Err(_) => {
                let (limit, reason) = shared.options.silence(*is_established);
                if last_received.elapsed() >= limit {
                    return Err(reason);
                }
                partial.check_deadline()?;
                continue;
            }
        };
        last_received = Instant::now();
        let fed = partial.feed(received, server, &mut out);
        // Before an error ends it: a service that has had a hello gets the end of its connection, too.
        if !*is_established && server.is_established() {
            *is_established = true;
            shared.established();
        }
        let fed = fed?;
        partial.check_deadline()?;
        if !has_full_window && server.has_delivered() {
            has_full_window = true;
            connection.set_receive_window(WINDOW_BYTES);
        }
        if !out.is_empty() {
            let bytes = Bytes::from(std::mem::take(&mut out));
            match timeout(shared.options.idle_timeout, send.write_chunk(bytes)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Ok(fed.close_reason.unwrap_or(Reason::Lost)),
                Err(_) => return Ok(fed.close_reason.unwrap_or(Reason::Idle)),
            }
        }
        if let Some(reason) = fed.close_reason {
            // Its goodbye has been sent.
            return Ok(reason);
        }
    }
}

thread_local! {
    /// Buffer in which received pieces are put together, of all streams of a thread in turn: it stays in the cache.
    static ASSEMBLY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The front of a frame that has not come whole, which counts in the memory of all connections.
struct PartialFrame<'a> {
    bytes: Vec<u8>,
    memory: QuotaShare,
    /// When it began to come.
    frame_began: Instant,
    shared: &'a ServerState,
}

impl PartialFrame<'_> {
    /// Feeds what has come, and keeps what is left.
    fn feed(
        &mut self,
        received: &mut [Bytes],
        server: &mut Server,
        out: &mut Vec<u8>,
    ) -> Result<FeedResult, Reason> {
        let service = self.shared.service.as_ref();
        let length: usize = received.iter().map(Bytes::len).sum();
        self.shared.bytes.fetch_add(length as u64, Ordering::Relaxed);
        let is_front = self.bytes.is_empty();
        let fed = if self.bytes.len() > MOVED_BYTES_MAX {
            received
                .iter()
                .for_each(|chunk| self.bytes.extend_from_slice(chunk));
            let fed = server.feed(&self.bytes, service, out, None);
            self.bytes.drain(..fed.used_bytes);
            fed
        } else {
            ASSEMBLY.with_borrow_mut(|space| {
                space.clear();
                space.extend_from_slice(&self.bytes);
                received.iter().for_each(|chunk| space.extend_from_slice(chunk));
                let fed = server.feed(space, service, out, None);
                let rest = space.get(fed.used_bytes..).unwrap_or(&[]);
                self.bytes.clear();
                self.bytes.extend_from_slice(rest);
                fed
            })
        };
        // Each holds a whole datagram.
        received.fill(Bytes::new());
        if fed.used_bytes > 0 || is_front {
            self.frame_began = Instant::now();
        }
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
        self.update_memory(server.has_delivered())?;
        Ok(fed)
    }

    /// The stream ends if it holds memory for too long.
    fn check_deadline(&self) -> Result<(), Reason> {
        let (timeout, reason) = self.shared.memory.hold_timeout();
        match !self.bytes.is_empty() && self.frame_began.elapsed() >= timeout {
            true => Err(reason),
            false => Ok(()),
        }
    }

    /// Returns whether what comes next may be read: the rest of a long frame waits until there is memory for all of it.
    fn has_memory(&mut self, server: &Server) -> bool {
        let whole = match self.bytes.is_empty() {
            true => 0,
            false => server.needed_bytes(&self.bytes),
        };
        let quota = &self.shared.memory;
        quota.reserve_frame(&mut self.memory, &mut self.bytes, whole, MOVED_BYTES_MAX)
    }

    fn update_memory(&mut self, has_delivered: bool) -> Result<(), Reason> {
        self.shared
            .memory
            .update(&mut self.memory, self.bytes.capacity(), has_delivered)
    }
}

impl Drop for PartialFrame<'_> {
    fn drop(&mut self) {
        self.shared.memory.release(&mut self.memory);
    }
}
