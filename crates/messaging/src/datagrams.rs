//! The sending end of `udp://`: frames of a datagram each, many to a system call, and never more under way than the
//! receiver has room for.

use logdrive_ship::connection::wait_for_socket;
use logdrive_ship::frame::{Header, Kind, next_frame};
use logdrive_ship::hello::{
    HELLO_UNCHECKED, Hello, Reason, Role, decode_goodbye, decode_number, encode_goodbye,
};
use logdrive_ship::limits::{DATAGRAM_BYTES_MAX, UDP_CREDIT_WAIT_MS, UDP_SILENCE_MS, UDP_WINDOW_BYTES};
use logdrive_ship::{Address, Checksum, HostPort, Options, TransportError};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg};
use quinn_udp::{Transmit, UdpSocketState};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// Bytes that the kernel takes at once, at most.
const BULK_BYTES_MAX: usize = 65_000;
/// Time that a sender waits for a word of the receiver.
const CREDIT_WAIT: Duration = Duration::from_millis(UDP_CREDIT_WAIT_MS);
/// Time that a receiver may be silent.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(UDP_SILENCE_MS);
/// Datagrams of a bulk without help of the kernel.
const MANY_MAX: usize = 64;

/// Datagrams that were sent and that the receiver has not acknowledged, and the bound for them.
struct InFlight {
    /// Number behind the last message of each bulk, and its bytes.
    bulks: VecDeque<(u64, usize)>,
    bytes: u64,
    window_bytes: u64,
}

pub(crate) struct Datagrams {
    socket: UdpSocket,
    state: UdpSocketState,
    peer: SocketAddr,
    address: String,
    pub(crate) checked: bool,
    offload: bool,
    segments: Vec<u8>,
    segment_bytes: usize,
    count: usize,
    count_max: usize,
    /// The number of the message behind the last one in `segments`.
    next: u64,
    in_flight: InFlight,
    /// The receiver has acknowledged all before this number.
    acknowledged: u64,
    silence: Silence,
    inbox: Vec<u8>,
}

/// Silence of the receiver. Each bulk that it gets it acknowledges; and one that has gone, or has come anew and does not
/// know this sender, says nothing.
#[derive(Debug, Default)]
struct Silence {
    /// Time of the first bulk that was sent since its last word.
    since: Option<Instant>,
    /// Time of the last hello that asked whether it is there.
    asked_at: Option<Instant>,
    hello: Vec<u8>,
}

impl Silence {
    fn end(&mut self) {
        (self.since, self.asked_at) = (None, None);
    }
}

impl std::fmt::Debug for Datagrams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Datagrams")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Datagrams {
    pub(crate) fn connect(
        address: &Address,
        host_port: &HostPort,
        options: &Options,
    ) -> Result<Self, TransportError> {
        address.check(options.insecure)?;
        options.check()?;
        let failed = TransportError::connect(address);
        let peer = host_port.resolve().map_err(&failed)?.first().copied();
        let peer = peer.ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).map_err(&failed)?;
        socket.connect(peer).map_err(&failed)?;
        let state = UdpSocketState::new((&socket).into()).map_err(&failed)?;
        // What the system gives is enough to go on with.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, options.socket_buffer_bytes);
        let count_max = if options.offload {
            state.max_gso_segments()
        } else {
            MANY_MAX
        };
        let mut datagrams = Self {
            socket,
            peer,
            address: address.to_string(),
            checked: options.checksum == Checksum::Always || !peer.ip().is_loopback(),
            offload: options.offload,
            segments: Vec::with_capacity(BULK_BYTES_MAX + DATAGRAM_BYTES_MAX),
            segment_bytes: 0,
            count: 0,
            count_max,
            next: 0,
            in_flight: InFlight {
                bulks: VecDeque::new(),
                bytes: 0,
                window_bytes: UDP_WINDOW_BYTES,
            },
            acknowledged: 0,
            silence: Silence::default(),
            inbox: vec![0; 4096],
            state,
        };
        let hello = options.hello(Role::Client, datagrams.checked);
        Header::new(Kind::Hello, 0).put(&[&hello.encode()], true, &mut datagrams.silence.hello);
        datagrams.handshake(options)?;
        Ok(datagrams)
    }

    /// Says hello until it is answered.
    fn handshake(&mut self, options: &Options) -> Result<(), TransportError> {
        let end = Instant::now() + options.timeouts.connect;
        loop {
            // A receiver that is not there yet gets the hello again.
            let _ = self.socket.send(&self.silence.hello);
            match self.receive(CREDIT_WAIT) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // It may be there soon: the pause between two hellos.
                Err(TransportError::Lost { .. }) => {
                    self.wait(false, CREDIT_WAIT)?;
                }
                Err(error) => return Err(error),
            }
            if Instant::now() >= end {
                let limit = options.timeouts.connect;
                return Err(TransportError::timeout(&self.address, "say hello", limit));
            }
        }
    }

    /// Waits for the socket. `false`: the time is over.
    fn wait(&self, for_room: bool, timeout: Duration) -> Result<bool, TransportError> {
        let ready = wait_for_socket(self.socket.as_fd(), for_room, timeout);
        ready.map_err(TransportError::lost(&self.address))
    }

    /// Takes what the receiver says, and waits for it. `false`: nothing came.
    fn receive(&mut self, timeout: Duration) -> Result<bool, TransportError> {
        let mut received = false;
        loop {
            let length = match self.socket.recv(&mut self.inbox) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if received || timeout.is_zero() || !self.wait(false, timeout)? {
                        return Ok(received);
                    }
                    continue;
                }
                // No receiver listens there at this moment, and none that comes later knows this sender.
                Err(cause) => return Err(TransportError::lost(&self.address)(cause)),
            };
            received |= self.take(length)?;
        }
    }

    fn take(&mut self, length: usize) -> Result<bool, TransportError> {
        let bytes = self.inbox.get(..length).unwrap_or(&[]);
        // What is no frame is as good as lost.
        let Ok(Some(frame)) = next_frame(bytes, DATAGRAM_BYTES_MAX) else {
            return Ok(false);
        };
        self.silence.end();
        match frame.header.kind {
            Kind::Hello => {
                let Ok(hello) = Hello::decode(frame.payload) else {
                    return Ok(false);
                };
                self.in_flight.window_bytes = hello.credit_bytes.max(1);
                self.checked |= hello.flags & HELLO_UNCHECKED == 0;
            }
            Kind::Ack => self.acknowledge(frame.header.sequence),
            Kind::Credit => {
                self.in_flight.window_bytes = decode_number(frame.payload)
                    .unwrap_or(self.in_flight.window_bytes)
                    .max(1)
            }
            Kind::Goodbye => {
                let (reason, words) = decode_goodbye(frame.payload).unwrap_or((Reason::Ending, ""));
                return Err(TransportError::Refused {
                    address: self.address.clone(),
                    reason,
                    words: words.chars().filter(|c| !c.is_control()).collect(),
                });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn acknowledge(&mut self, next: u64) {
        self.acknowledged = self.acknowledged.max(next);
        while let Some((_, bytes)) = self.in_flight.bulks.pop_front_if(|(end, _)| *end <= next) {
            self.in_flight.bytes = self.in_flight.bytes.saturating_sub(bytes as u64);
        }
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.count > 0
    }

    /// Takes one frame; sends when no more go with it.
    pub(crate) fn put(&mut self, parts: &[&[u8]], next: u64) -> Result<(), TransportError> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if self.count > 0 && length > self.segment_bytes {
            self.flush()?;
        }
        if self.count == 0 {
            self.segment_bytes = length;
        }
        parts
            .iter()
            .for_each(|part| self.segments.extend_from_slice(part));
        self.count += 1;
        self.next = next;
        if length < self.segment_bytes {
            // The kernel cuts at equal lengths.
            self.segments.resize(self.count * self.segment_bytes, 0);
        }
        if self.count >= self.count_max || self.segments.len() + self.segment_bytes > BULK_BYTES_MAX {
            return self.flush();
        }
        Ok(())
    }

    /// Sends what was put, once there is room for it at the other end.
    pub(crate) fn flush(&mut self) -> Result<(), TransportError> {
        if self.count == 0 {
            return Ok(());
        }
        if self.in_flight.bytes + self.segments.len() as u64 > self.in_flight.window_bytes / 2 {
            // Before there is need to wait for it.
            self.receive(Duration::ZERO)?;
        }
        self.check_receiver()?;
        while self.in_flight.bytes > 0
            && self.in_flight.bytes + self.segments.len() as u64 > self.in_flight.window_bytes
        {
            if !self.receive(CREDIT_WAIT)? {
                self.check_receiver()?;
                // Lost, or the word about it was: the receiver counts the gap when it sees what comes next.
                self.in_flight.bulks.clear();
                self.in_flight.bytes = 0;
            }
        }
        self.transmit()?;
        self.in_flight.bulks.push_back((self.next, self.segments.len()));
        self.in_flight.bytes += self.segments.len() as u64;
        self.segments.clear();
        self.count = 0;
        Ok(())
    }

    /// Asks a receiver that has been silent whether it is there. Fails when it does not answer for too long.
    fn check_receiver(&mut self) -> Result<(), TransportError> {
        let now = Instant::now();
        let Some(since) = self.silence.since else {
            self.silence.since = Some(now);
            return Ok(());
        };
        if now.saturating_duration_since(since) < CREDIT_WAIT || self.receive(Duration::ZERO)? {
            return Ok(());
        }
        let asked_at = self.silence.asked_at;
        if asked_at.is_none_or(|at| now.saturating_duration_since(at) >= CREDIT_WAIT) {
            // What the system says about it comes with the next receive.
            let _ = self.socket.send(&self.silence.hello);
            if asked_at.is_none() {
                // The time that it has to answer begins now: this sender may have been silent, too.
                self.silence.since = Some(now);
            }
            self.silence.asked_at = Some(now);
        }
        match asked_at.is_some() && now.saturating_duration_since(since) >= SILENCE_TIMEOUT {
            true => Err(TransportError::timeout(
                &self.address,
                "say a word",
                SILENCE_TIMEOUT,
            )),
            false => Ok(()),
        }
    }

    fn transmit(&mut self) -> Result<(), TransportError> {
        if !self.offload {
            return self.transmit_many();
        }
        let transmit = Transmit {
            destination: self.peer,
            ecn: None,
            contents: &self.segments,
            segment_size: (self.count > 1).then_some(self.segment_bytes),
            src_ip: None,
        };
        loop {
            match self.state.try_send((&self.socket).into(), &transmit) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(true, CREDIT_WAIT)?;
                }
                Err(_) if self.count_max > 1 && self.state.max_gso_segments() == 1 => {
                    // The kernel or its device cannot cut.
                    self.offload = false;
                    return self.transmit_many();
                }
                Err(cause) => return Err(TransportError::lost(&self.address)(cause)),
            }
        }
    }

    /// One datagram each, many to a call.
    fn transmit_many(&mut self) -> Result<(), TransportError> {
        let mut rest: Vec<[IoSlice<'_>; 1]> = self
            .segments
            .chunks(self.segment_bytes.max(1))
            .map(|one| [IoSlice::new(one)])
            .collect();
        let addresses = vec![None::<SockaddrStorage>; rest.len()];
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(rest.len(), None);
        while !rest.is_empty() {
            let flags = MsgFlags::MSG_NOSIGNAL;
            let sent = sendmmsg(
                self.socket.as_raw_fd(),
                &mut headers,
                &rest,
                &addresses[..rest.len()],
                [],
                flags,
            );
            match sent.map(Iterator::count) {
                Ok(count) => drop(rest.drain(..count.max(1).min(rest.len()))),
                Err(nix::Error::EAGAIN) => {
                    self.wait(true, CREDIT_WAIT)?;
                }
                Err(nix::Error::EINTR) => {}
                Err(error) => return Err(TransportError::lost(&self.address)(error.into())),
            }
        }
        Ok(())
    }

    /// Says goodbye, and of how many messages, so that the receiver can count those at the end that never came.
    pub(crate) fn close(&mut self, next: u64) {
        // There is no caller left for errors of this call.
        let _ = self.flush();
        let mut bytes = Vec::new();
        let payload = encode_goodbye(Reason::Done, "");
        Header::new(Kind::Goodbye, next).put(&[&payload], true, &mut bytes);
        let end = Instant::now() + CREDIT_WAIT;
        while self.acknowledged < next && Instant::now() < end {
            if self.receive(Duration::from_millis(10)).is_err() {
                break;
            }
        }
        let _ = self.socket.send(&bytes);
    }
}
