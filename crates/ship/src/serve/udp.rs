//! The receiving end of `udp://`: one thread for a socket and all its peers. It tells each sender how far it has come,
//! so that nobody sends more than there is room for.

use super::Shared;
use crate::address::Place;
use crate::frame::{Header, Kind, next_frame};
use crate::hello::Reason;
use crate::limits::DATAGRAM_BYTES_MAX;
use crate::link::wait_for;
use crate::options::Options;
use crate::session::Server;
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
/// How often the thread looks at deadlines.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    window_bytes: u64,
}

struct Known {
    server: Server,
    heard: Instant,
    is_met: bool,
    is_touched: bool,
}

impl Socket {
    pub(crate) fn bind(place: &Place, options: &Options) -> io::Result<Self> {
        let socket = UdpSocket::bind(place.resolve()?.as_slice())?;
        let state = UdpSocketState::new((&socket).into())?;
        if !options.offload {
            setsockopt(&socket, sockopt::UdpGroSegment, &false)?;
        }
        let wanted = options.socket_buffer_bytes;
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, wanted).is_err() {
            // Without the privilege the system's bound holds.
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, wanted)?;
        }
        let room = rustix::net::sockopt::socket_recv_buffer_size(&socket)?;
        Ok(Self {
            socket,
            state,
            // The kernel counts its own bookkeeping too, which for small datagrams is as much again.
            window_bytes: (room / 4) as u64,
        })
    }

    pub(crate) fn place(&self) -> Option<Place> {
        self.socket.local_addr().ok().map(Place::from)
    }

    /// Runs until the server stops.
    pub(crate) fn run(self, shared: &Shared) {
        let mut known: HashMap<SocketAddr, Known> = HashMap::new();
        let count = match shared.options.offload && self.state.gro_segments() > 1 {
            true => BUFFERS,
            false => BUFFERS_SINGLE,
        };
        let mut space = vec![0; count * BUFFER_BYTES];
        let mut meta = vec![RecvMeta::default(); count];
        let mut out = Vec::new();
        let mut looked = Instant::now();
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
                        self.take(bytes, meta, &mut known, shared, &mut out, active);
                    }
                    self.tell(&mut known, &mut out);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if active.elapsed() >= shared.options.spin {
                        // An interruption or a failure only makes us look once more.
                        let _ = wait_for(self.socket.as_fd(), false, LOOK);
                    }
                }
                // About a datagram that we sent to somebody who has gone.
                Err(_) => {}
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.sweep(&mut known, shared, looked);
            }
        }
        for (address, one) in known {
            self.part(&one.server, address, Reason::Ending);
            leave(one, Reason::Ending, shared);
        }
    }

    fn take(
        &self,
        bytes: &[u8],
        meta: &RecvMeta,
        known: &mut HashMap<SocketAddr, Known>,
        shared: &Shared,
        out: &mut Vec<u8>,
        now: Instant,
    ) {
        let one = match known.entry(meta.addr) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => match stranger(bytes, meta.addr, self.window_bytes, shared, now) {
                Some(one) => entry.insert(one),
                None => return,
            },
        };
        one.heard = now;
        one.is_touched = true;
        for datagram in bytes.chunks(meta.stride.max(1)) {
            let fed = one.server.feed(datagram, shared.service.as_ref(), out, None);
            if !out.is_empty() {
                // Full buffers lose it, which is what datagrams do.
                let _ = self.socket.send_to(out, meta.addr);
                out.clear();
            }
            if !one.is_met && one.server.is_open() {
                one.is_met = true;
                shared.met();
            }
            if let Some(reason) = fed.ends {
                if let Some(one) = known.remove(&meta.addr) {
                    leave(one, reason, shared);
                }
                return;
            }
        }
    }

    /// Tells all who sent something how far it has come.
    fn tell(&self, known: &mut HashMap<SocketAddr, Known>, out: &mut Vec<u8>) {
        for (address, one) in known.iter_mut().filter(|(_, one)| one.is_touched) {
            one.is_touched = false;
            one.server.put_ack(out);
            if !out.is_empty() {
                // As above.
                let _ = self.socket.send_to(out, address);
                out.clear();
            }
        }
    }

    fn sweep(&self, known: &mut HashMap<SocketAddr, Known>, shared: &Shared, now: Instant) {
        let idle = shared.options.idle_timeout;
        let silent: Vec<SocketAddr> = known
            .iter()
            .filter(|(_, one)| now.saturating_duration_since(one.heard) >= idle)
            .map(|(address, _)| *address)
            .collect();
        for address in silent {
            if let Some(one) = known.remove(&address) {
                self.part(&one.server, address, Reason::Idle);
                leave(one, Reason::Idle, shared);
            }
        }
    }

    fn part(&self, server: &Server, address: SocketAddr, reason: Reason) {
        let mut out = Vec::new();
        server.part(reason, &mut out);
        // Whoever does not hear it finds out by itself.
        let _ = self.socket.send_to(&out, address);
    }
}

/// A peer that was not known: only a hello makes it one, so that forged addresses cost nothing.
fn stranger(
    bytes: &[u8],
    address: SocketAddr,
    window_bytes: u64,
    shared: &Shared,
    now: Instant,
) -> Option<Known> {
    let is_hello = matches!(
        next_frame(bytes, DATAGRAM_BYTES_MAX),
        Ok(Some(frame)) if frame.header == Header { length_bytes: frame.header.length_bytes, flags: frame.header.flags, ..Header::new(Kind::Hello, 0) }
    );
    if !is_hello {
        return None;
    }
    let peer = shared.admit(format!("udp://{address}"), None)?;
    let mut server = shared.session(peer, address.ip().is_loopback()).lossy();
    server.set_window(window_bytes);
    Some(Known {
        server,
        heard: now,
        is_met: false,
        is_touched: false,
    })
}

fn leave(one: Known, reason: Reason, shared: &Shared) {
    shared.leave(reason, !one.is_met);
    if one.is_met {
        shared.service.left(&one.server.peer, reason);
    }
}
