//! The receiving end of `udp://`: one thread for a socket and all its peers. It reports its position to each sender,
//! so that none sends more than there is room for.

use super::{ServedSession, ServerState};
use crate::address::HostPort;
use crate::frame::{Header, Kind, next_frame};
use crate::hello::Reason;
use crate::limits::DATAGRAM_BYTES_MAX;
use crate::link::{set_receive_buffer, wait_for_socket};
use crate::options::Options;
use crate::session::{Outbox, awaited_ack, put_deferred_ack};
use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::{RecvMeta, UdpSocketState};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes that one receive may bring in one buffer.
const BUFFER_BYTES: usize = 64 * 1024;
/// Buffers of one receive where the kernel joins datagrams: what they hold stays in the cache of a processor until it is
/// looked at.
const BUFFERS: usize = 8;
/// Buffers of one receive where each holds one datagram.
const BUFFERS_SINGLE: usize = quinn_udp::BATCH_SIZE;
/// Time between two checks for acknowledgements of a service that gives them later.
const ACK_CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Time between two checks of deadlines.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    window_bytes: u64,
}

struct UdpPeer {
    session: ServedSession,
    ack_due: bool,
}

impl Socket {
    pub(crate) fn bind(host_port: &HostPort, options: &Options) -> io::Result<Self> {
        let socket = UdpSocket::bind(host_port.resolve()?.as_slice())?;
        let state = UdpSocketState::new((&socket).into())?;
        if !options.offload {
            setsockopt(&socket, sockopt::UdpGroSegment, &false)?;
        }
        set_receive_buffer(&socket, options.socket_buffer_bytes)?;
        let room = rustix::net::sockopt::socket_recv_buffer_size(&socket)?;
        Ok(Self {
            socket,
            state,
            // The kernel counts its own bookkeeping too, which for small datagrams is as much again.
            window_bytes: (room / 4) as u64,
        })
    }

    pub(crate) fn host_port(&self) -> Option<HostPort> {
        self.socket.local_addr().ok().map(HostPort::from)
    }

    /// Runs until the server stops.
    pub(crate) fn run(self, shared: &ServerState) {
        let mut peers: HashMap<SocketAddr, UdpPeer> = HashMap::new();
        let count = match shared.options.offload && self.state.gro_segments() > 1 {
            true => BUFFERS,
            false => BUFFERS_SINGLE,
        };
        let mut space = vec![0; count * BUFFER_BYTES];
        let mut meta = vec![RecvMeta::default(); count];
        let mut out = Vec::new();
        let mut last_sweep = Instant::now();
        let mut active = Instant::now();
        while !shared.stops() {
            let mut buffers: Vec<IoSliceMut<'_>> =
                space.chunks_mut(BUFFER_BYTES).map(IoSliceMut::new).collect();
            match self.state.recv((&self.socket).into(), &mut buffers, &mut meta) {
                Ok(count) => {
                    active = Instant::now();
                    for (bytes, meta) in space.chunks(BUFFER_BYTES).zip(meta.iter().take(count)) {
                        let bytes = bytes.get(..meta.len).unwrap_or(&[]);
                        shared.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                        self.take(bytes, meta, &mut peers, shared, &mut out, active);
                    }
                    self.send_acks(&mut peers, &mut out);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if active.elapsed() >= shared.options.spin {
                        let awaits = peers
                            .values()
                            .any(|peer| awaited_ack(&peer.session.server).is_some());
                        let timeout = if awaits {
                            ACK_CHECK_INTERVAL
                        } else {
                            SWEEP_INTERVAL
                        };
                        // An interruption or a failure only makes us look once more.
                        let _ = wait_for_socket(self.socket.as_fd(), false, timeout);
                    }
                }
                // About a datagram that we sent to a peer that has gone.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                // What lasts must not keep the thread busy.
                Err(_) => std::thread::sleep(SWEEP_INTERVAL),
            }
            if shared.service.defers_acks() {
                self.send_deferred_acks(&mut peers, &mut out, shared);
            }
            if last_sweep.elapsed() >= SWEEP_INTERVAL {
                last_sweep = Instant::now();
                self.sweep(&mut peers, shared, last_sweep);
            }
        }
        for (address, mut peer) in peers {
            self.close(&mut peer, address, Reason::Ending, shared);
        }
    }

    fn take(
        &self,
        bytes: &[u8],
        meta: &RecvMeta,
        peers: &mut HashMap<SocketAddr, UdpPeer>,
        shared: &ServerState,
        out: &mut Vec<u8>,
        now: Instant,
    ) {
        let peer = match peers.entry(meta.addr) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => match accept_hello(bytes, meta.addr, self.window_bytes, shared, now) {
                Some(peer) => entry.insert(peer),
                None => return,
            },
        };
        peer.session.last_received = now;
        peer.ack_due = true;
        for datagram in bytes.chunks(meta.stride.max(1)) {
            let fed = peer.session.feed(Some(datagram), 0, shared, out, None);
            if !out.is_empty() {
                // Full buffers lose it, which is what datagrams do.
                let _ = self.socket.send_to(out, meta.addr);
                out.clear();
            }
            if let Some(reason) = fed.close_reason {
                if let Some(mut peer) = peers.remove(&meta.addr) {
                    peer.session.closed(reason, shared);
                }
                return;
            }
        }
    }

    /// Sends the receiver's position to all peers that sent something.
    fn send_acks(&self, peers: &mut HashMap<SocketAddr, UdpPeer>, out: &mut Vec<u8>) {
        for (address, peer) in peers.iter_mut().filter(|(_, peer)| peer.ack_due) {
            peer.ack_due = false;
            peer.session.server.put_ack(out);
            if !out.is_empty() {
                // As above.
                let _ = self.socket.send_to(out, address);
                out.clear();
            }
        }
    }

    /// Sends what the service has acknowledged meanwhile, and ends peers whose records it cannot keep.
    fn send_deferred_acks(
        &self,
        peers: &mut HashMap<SocketAddr, UdpPeer>,
        out: &mut Vec<u8>,
        shared: &ServerState,
    ) {
        let mut refused = Vec::new();
        for (address, peer) in peers.iter_mut() {
            let reason = put_deferred_ack(&mut peer.session.server, out);
            refused.extend(reason.map(|reason| (*address, reason)));
            if !out.is_empty() {
                // Full buffers lose it, which is what datagrams do.
                let _ = self.socket.send_to(out, address);
                out.clear();
            }
        }
        for (address, reason) in refused {
            if let Some(mut peer) = peers.remove(&address) {
                peer.session.closed(reason, shared);
            }
        }
    }

    fn sweep(&self, peers: &mut HashMap<SocketAddr, UdpPeer>, shared: &ServerState, now: Instant) {
        let overdue =
            |(address, peer): (&SocketAddr, &UdpPeer)| Some((*address, peer.session.silent(shared, now)?));
        let silent: Vec<(SocketAddr, Reason)> = peers.iter().filter_map(overdue).collect();
        for (address, reason) in silent {
            if let Some(mut peer) = peers.remove(&address) {
                self.close(&mut peer, address, reason, shared);
            }
        }
    }

    fn close(&self, peer: &mut UdpPeer, address: SocketAddr, reason: Reason, shared: &ServerState) {
        let mut out = Vec::new();
        peer.session.server.goodbye(reason, &mut out);
        // A peer that misses it runs into its timeout.
        let _ = self.socket.send_to(&out, address);
        peer.session.closed(reason, shared);
    }
}

/// A peer that was not known: only a hello makes it one, so that forged addresses cost nothing.
fn accept_hello(
    bytes: &[u8],
    address: SocketAddr,
    window_bytes: u64,
    shared: &ServerState,
    now: Instant,
) -> Option<UdpPeer> {
    let header = next_frame(bytes, DATAGRAM_BYTES_MAX).ok().flatten()?.header;
    let plain = Header::new(Kind::Hello, 0);
    let rest = (header.kind, header.stream, header.sequence, header.count);
    if rest != (plain.kind, plain.stream, plain.sequence, plain.count) {
        return None;
    }
    let mut peer = shared.admit(format!("udp://{address}"), None)?;
    // Datagrams go one way.
    peer.outbox = Outbox::default();
    let mut server = shared.server(peer, address.ip().is_loopback()).lossy();
    server.set_window(window_bytes);
    Some(UdpPeer {
        session: ServedSession::new(server, now),
        ack_due: false,
    })
}
