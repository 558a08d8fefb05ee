//! The connecting end of a connection: handshake, frames out, frames in.

use crate::TransportError;
use crate::address::Address;
use crate::frame::{Frame, HEADER_BYTES, Header, Kind, next_frame};
use crate::hello::{HELLO_ACKS, HELLO_UNCHECKED, Hello, Role, decode_goodbye};
use crate::limits::{BUSY_SPIN_US, BUSY_WAIT_US, FRAME_BYTES_MAX, SOCKET_BUFFER_BYTES};
use crate::link::Link;
pub use crate::link::wait_for_socket;
use crate::nonblocking::NonBlocking;
use crate::open_link::open_link;
use crate::options::{Checksum, Options};
use crate::receive_buffer::ReceiveBuffer;
use logdrive_ring::{InPlace, PipeWriter};
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

/// A connection whose other end has said hello, or is about to.
pub struct Connection {
    link: Box<dyn Link>,
    pub(crate) address: String,
    /// For further streams.
    options: Box<Options>,
    checked: bool,
    alignment: usize,
    spin: Spin,
    send_timeout: Duration,
    inbox: ReceiveBuffer,
}

/// Time that a wait for a frame spins before it sleeps.
struct Spin {
    always: Duration,
    /// Several responses are due.
    is_busy: bool,
    /// The last wait was short.
    waits_are_short: bool,
}

impl Spin {
    fn limit(&self) -> Duration {
        match self.is_busy && self.waits_are_short {
            true => self.always.max(Duration::from_micros(BUSY_SPIN_US)),
            false => self.always,
        }
    }
}

/// Properties of a link that do not change while it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkProperties {
    /// Number of bytes of which the start of each frame is a multiple, as in a ring; else 1.
    pub alignment: usize,
    /// Length in bytes from where on a message is better sent by itself than copied into a batch.
    pub direct_bytes: usize,
    /// [`Connection::open_stream`] opens streams.
    pub has_streams: bool,
    /// [`Connection::uncork`] is no system call, so that nothing need be held back for long.
    pub uncorks_cheaply: bool,
}

/// Connects, says hello and goodbye: whether the other end serves. Blocks at most for the options' timeouts.
///
/// # Errors
/// Fails when no server answers there, or it refuses the client.
pub fn probe(address: &Address, options: &Options) -> Result<(), TransportError> {
    let (mut connection, _) = Connection::connect(address, options, HELLO_ACKS)?;
    connection.close();
    Ok(())
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Connects as [`Connection::open`] does, in a program that may close descriptors that are not its own: each use of a socket
/// checks that the program has not closed it, and has no file of its own under the same number.
pub(crate) fn open_guarded(
    address: &Address,
    options: &Options,
    end: Instant,
) -> Result<Connection, TransportError> {
    let mut link = open_link(address, options, end)?;
    link.guard();
    Ok(Connection::on(link, address.to_string(), options))
}

impl Connection {
    fn on(link: Box<dyn Link>, address: String, options: &Options) -> Self {
        Self {
            checked: options.checksum == Checksum::Always || !link.is_integrity_protected(),
            alignment: link.alignment(),
            link,
            address,
            options: Box::new(options.clone()),
            spin: Spin {
                always: options.spin,
                is_busy: false,
                waits_are_short: true,
            },
            send_timeout: options.timeouts.response,
            inbox: ReceiveBuffer::default(),
        }
    }

    /// Connects and exchanges hellos, of which ours has these flags (`HELLO_...`). All of it together blocks at most for
    /// `timeouts.connect`.
    ///
    /// # Errors
    /// Fails when no server answers there, or it refuses the client.
    pub fn connect(address: &Address, options: &Options, flags: u8) -> Result<(Self, Hello), TransportError> {
        let end = Instant::now() + options.timeouts.connect;
        let link = open_link(address, options, end)?;
        Self::on(link, address.to_string(), options).handshake(options, flags, end)
    }

    /// Address of the other end, for people.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns whether payloads are covered by the frames' checksums: one of both ends wants that.
    #[inline]
    pub fn is_checked(&self) -> bool {
        self.checked
    }

    /// Fixed properties of the link.
    pub fn properties(&self) -> LinkProperties {
        LinkProperties {
            alignment: self.alignment,
            direct_bytes: self.link.direct_bytes(),
            has_streams: self.link.has_streams(),
            uncorks_cheaply: self.link.uncorks_cheaply(),
        }
    }

    /// Notes that several responses are due, so that a wait for one spins for up to 50 µs before it sleeps.
    pub fn set_busy(&mut self, is_busy: bool) {
        self.spin.is_busy = is_busy;
    }

    /// Returns true if a send now waits behind earlier data, so that collecting it first costs no delay.
    pub fn is_congested(&self) -> bool {
        self.link.is_congested()
    }

    /// Another stream of the same connection, on a link that has streams of its own.
    pub fn open_stream(&mut self) -> Result<Self, TransportError> {
        let end = Instant::now() + self.options.timeouts.connect;
        let link = self
            .link
            .open_stream()
            .map_err(TransportError::lost(&self.address))?;
        let options = Options::clone(&self.options);
        let stream = Self::on(link, self.address.clone(), &options);
        Ok(stream.handshake(&options, 0, end)?.0)
    }

    fn handshake(self, options: &Options, flags: u8, end: Instant) -> Result<(Self, Hello), TransportError> {
        let mut connection = self;
        let answer = connection.exchange_hellos(options, flags, end);
        let answer = answer.inspect_err(|_| connection.link.abandon())?;
        // Both have to leave the payloads out.
        connection.checked |= answer.flags & HELLO_UNCHECKED == 0;
        Ok((connection, answer))
    }

    fn exchange_hellos(
        &mut self,
        options: &Options,
        flags: u8,
        end: Instant,
    ) -> Result<Hello, TransportError> {
        let connection = self;
        let left = || end.saturating_duration_since(Instant::now());
        let mut hello = options.hello(Role::Client, connection.checked);
        hello.flags |= flags;
        let send_timeout = std::mem::replace(&mut connection.send_timeout, left());
        connection.send(Header::new(Kind::Hello, 0), &hello.encode())?;
        connection.send_timeout = send_timeout;
        let spin = std::mem::take(&mut connection.spin.always);
        let frame = connection.next(left())?;
        let answer = match frame {
            Some(frame) if frame.header.kind == Kind::Hello => Hello::decode(frame.payload),
            Some(frame) => Err(crate::frame::FrameError::Unknown {
                field: "kind of the first frame",
                found: frame.header.kind as u64,
            }),
            None => {
                let (address, limit) = (&connection.address, options.timeouts.connect);
                return Err(TransportError::timeout(address, "say hello", limit));
            }
        };
        let answer = answer.map_err(TransportError::malformed(&connection.address))?;
        connection.spin.always = spin;
        Ok(answer)
    }

    /// Sends one frame. Waits for room, and takes what comes meanwhile.
    pub fn send(&mut self, header: Header, payload: &[u8]) -> Result<(), TransportError> {
        let head = header.seal(&[payload], self.checked);
        self.send_sealed(&head, [payload, &[]])
    }

    /// Sends a header that has been made and its payload, filled up to the alignment.
    pub(crate) fn send_sealed(&mut self, head: &[u8], payload: [&[u8]; 2]) -> Result<(), TransportError> {
        let [front, rest] = payload;
        let zeros = padding(head.len() + front.len() + rest.len(), self.alignment);
        self.send_parts(&mut [head, front, rest, zeros].map(IoSlice::new))
    }

    /// Sends what the link takes now of these bytes, and returns how many that are.
    ///
    /// # Errors
    /// Fails when it takes none.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.link.try_send(&[IoSlice::new(bytes)])?;
        // What the link holds back goes with what is sent next.
        let _ = self.link.flush();
        Ok(sent)
    }

    /// Sends all bytes of the parts. What the other end sends meanwhile is taken in, so that both go on.
    pub fn send_parts(&mut self, mut parts: &mut [IoSlice<'_>]) -> Result<(), TransportError> {
        let mut end = None;
        while !parts.is_empty() {
            match self.link.try_send(parts) {
                Ok(sent) => IoSlice::advance_slices(&mut parts, sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let end = *end.get_or_insert_with(|| Instant::now() + self.send_timeout);
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(not_sent(
                            &self.address,
                            self.send_timeout,
                            io::ErrorKind::TimedOut.into(),
                        ));
                    }
                    wait_for_room(self, left)?;
                }
                Err(cause) => return Err(lost(&self.address, cause)),
            }
        }
        while self.link.has_unsent() {
            match self.link.flush() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_for_room(self, self.send_timeout)?;
                }
                Err(cause) => return Err(lost(&self.address, cause)),
            }
        }
        Ok(())
    }

    /// Sends one frame in two parts to a peer that sends nothing back that matters: sleeps in the call itself. With
    /// `more`, others come behind it soon.
    pub fn send_one_way(&mut self, head: &[u8], payload: &[u8], more: bool) -> Result<(), TransportError> {
        let zeros = padding(head.len() + payload.len(), self.alignment);
        let mut parts: &mut [IoSlice<'_>] = &mut [head, payload, zeros].map(IoSlice::new);
        while !parts.is_empty() {
            if more {
                self.link.cork(parts.iter().map(|part| part.len()).sum());
            }
            match self.link.send(parts, self.send_timeout) {
                Ok(sent) => IoSlice::advance_slices(&mut parts, sent),
                Err(cause) => return Err(self.explained(not_sent(&self.address, self.send_timeout, cause))),
            }
        }
        self.send_parts(&mut [])
    }

    /// As [`Connection::send_one_way`], a buffer that may be taken.
    pub fn send_batch(&mut self, buffer: &mut Vec<u8>, more: bool) -> Result<(), TransportError> {
        buffer.extend_from_slice(padding(buffer.len(), self.alignment));
        if more {
            self.link.cork(buffer.len());
        }
        match self.link.send_buffer(buffer, self.send_timeout) {
            Ok(()) => self.send_parts(&mut []),
            Err(cause) => Err(self.explained(not_sent(&self.address, self.send_timeout, cause))),
        }
    }

    /// Replaces the error of a lost connection by the goodbye of the other end, where one came: it says more.
    pub fn explained(&mut self, error: TransportError) -> TransportError {
        if !matches!(error, TransportError::Lost { .. }) {
            return error;
        }
        // Frames that are there besides were sent before the goodbye.
        while self.receive_available().is_ok() {
            match self.next(Duration::ZERO) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(refused) => return refused,
            }
        }
        error
    }

    /// Looks, without waiting, whether the other end has closed the connection. Frames that have come stay for
    /// [`Connection::next`].
    ///
    /// # Errors
    /// Fails when it has.
    pub fn look(&mut self) -> Result<(), TransportError> {
        // A goodbye, and the end behind it.
        for _ in 0..2 {
            self.receive_available()?;
        }
        let front = next_frame(self.inbox.unread(), FRAME_BYTES_MAX);
        let is_goodbye = |frame: Frame<'_>| frame.header.kind == Kind::Goodbye;
        if front.is_ok_and(|frame| frame.is_some_and(is_goodbye)) {
            self.next(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Takes what is there, without waiting.
    fn receive_available(&mut self) -> Result<(), TransportError> {
        if self.inbox.unread().len() > FRAME_BYTES_MAX + SOCKET_BUFFER_BYTES {
            // Answers to requests that were not read yet.
            return Ok(());
        }
        match self.link.try_receive(self.inbox.space()) {
            Ok(0) => Err(lost(&self.address, io::ErrorKind::UnexpectedEof.into())),
            Ok(length) => {
                self.inbox.filled(length);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(cause) => Err(lost(&self.address, cause)),
        }
    }

    /// The next frame; `None` when none came in time. A goodbye is an error.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Frame<'_>>, TransportError> {
        if !self.has_frame()? {
            let start = Instant::now();
            let found = self.wait_for_frame(start, timeout);
            self.spin.waits_are_short = start.elapsed() < Duration::from_micros(BUSY_WAIT_US);
            if !found? {
                return Ok(None);
            }
        }
        let address = &self.address;
        let frame = self.inbox.take_frame(self.alignment);
        let Some(goodbye) = frame.filter(|frame| frame.header.kind == Kind::Goodbye) else {
            return Ok(frame);
        };
        let (reason, words) = decode_goodbye(goodbye.payload).map_err(TransportError::malformed(address))?;
        Err(TransportError::Refused {
            address: address.clone(),
            reason,
            words: words.chars().filter(|c| !c.is_control()).collect(),
        })
    }

    /// The response at the front of a ring is handed over where it lies, and then released; `None` where the next
    /// frame has to be taken with [`Connection::next`], because it is another one, or not whole, or does not lie in a
    /// ring.
    pub fn next_in_place<R>(
        &mut self,
        timeout: Duration,
        read: impl FnOnce(Header, InPlace<'_>) -> R,
    ) -> Result<Option<R>, TransportError> {
        if !self.inbox.is_empty() || self.link.rings().is_none() {
            return Ok(None);
        }
        // Over time, or at its end, there is nothing in the ring.
        self.link
            .wait(false, timeout)
            .map_err(TransportError::lost(&self.address))?;
        let alignment = self.alignment;
        let Some((back, _)) = self.link.rings() else {
            return Ok(None);
        };
        let ring = back
            .in_place()
            .map_err(|error| TransportError::lost(&self.address)(io::Error::other(error)))?;
        let Some(head) = ring.array::<HEADER_BYTES>(0) else {
            return Ok(None);
        };
        // What is no header is found out when it is copied.
        let header = Header::decode(&head, FRAME_BYTES_MAX).and_then(|header| {
            header.verify(&head, &[])?;
            Ok(header)
        });
        let Ok(header) = header else { return Ok(None) };
        let is_plain = header.kind == Kind::Response && header.flags == 0;
        let length = (header.length_bytes as usize).next_multiple_of(alignment);
        let payload = ring.slice(HEADER_BYTES, header.payload_bytes());
        let Some(payload) = payload.filter(|_| is_plain && length <= ring.len()) else {
            return Ok(None);
        };
        let result = read(header, payload);
        back.release(length);
        Ok(Some(result))
    }

    /// The ring that is written, of a link in shared memory.
    ///
    /// # Errors
    /// Fails when the other end has gone.
    pub fn writer(&mut self) -> Result<Option<&mut PipeWriter>, TransportError> {
        if let Err(cause) = self.link.check_peer() {
            return Err(self.explained(lost(&self.address, cause)));
        }
        Ok(self.link.rings().map(|(_, writer)| writer))
    }

    /// Sends what was held back.
    ///
    /// # Errors
    /// Fails when the connection is lost.
    pub fn uncork(&mut self) -> Result<(), TransportError> {
        self.link.uncork().map_err(TransportError::lost(&self.address))
    }

    /// Returns whether something may be held.
    pub fn is_corked(&self) -> bool {
        self.link.is_corked()
    }

    /// The frame that [`Connection::next`] gave last.
    #[inline]
    pub fn last(&self) -> Option<Frame<'_>> {
        self.inbox.last_frame()
    }

    /// Returns whether a whole frame is there already.
    #[inline]
    pub fn has_frame(&mut self) -> Result<bool, TransportError> {
        match self.inbox.has_frame(self.alignment) {
            Ok(is_there) => Ok(is_there),
            Err(error) => Err(TransportError::malformed(&self.address)(error)),
        }
    }

    /// Returns whether a frame came in time.
    fn wait_for_frame(&mut self, start: Instant, timeout: Duration) -> Result<bool, TransportError> {
        let spin = self.spin.limit();
        loop {
            let spins = !self.link.spins() && start.elapsed() < spin;
            let space = self.inbox.space();
            let got = if spins || timeout.is_zero() {
                self.link.try_receive(space)
            } else {
                self.link.receive(space, timeout.saturating_sub(start.elapsed()))
            };
            match got {
                Ok(0) => return Err(lost(&self.address, io::ErrorKind::UnexpectedEof.into())),
                Ok(length) => {
                    self.inbox.filled(length);
                    if self.has_frame()? {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if timeout.is_zero() {
                        return Ok(false);
                    }
                    match self.spin.is_busy {
                        // The peer that is to answer may have been scheduled on this processor.
                        true => std::thread::yield_now(),
                        false => std::hint::spin_loop(),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(false),
                Err(cause) => return Err(lost(&self.address, cause)),
            }
            if !spins && start.elapsed() >= timeout {
                return Ok(false);
            }
        }
    }

    /// Hands the connection to a caller that may not block.
    pub fn into_nonblocking(self) -> NonBlocking {
        NonBlocking::new(self.link, self.address, self.checked, self.inbox)
    }

    /// See [`Link::abandon`].
    pub(crate) fn abandon(&mut self) {
        self.link.abandon();
    }

    /// Says goodbye, as far as that is possible without an error.
    pub fn close(&mut self) {
        let payload = crate::hello::encode_goodbye(crate::hello::Reason::Done, "");
        // A peer that is gone needs no goodbye.
        let _ = self.send(Header::new(Kind::Goodbye, 0), &payload);
        self.link.finish();
    }
}

/// Waits for room, and takes what comes meanwhile, so that both ends go on.
fn wait_for_room(connection: &mut Connection, timeout: Duration) -> Result<(), TransportError> {
    let waited = connection.link.wait(true, timeout);
    waited.map_err(|cause| lost(&connection.address, cause))?;
    connection.receive_available()
}

fn lost(address: &str, cause: io::Error) -> TransportError {
    TransportError::lost(address)(cause)
}

/// The error of a send: the other end is gone, or has taken nothing for too long.
fn not_sent(address: &str, limit: Duration, cause: io::Error) -> TransportError {
    match cause.kind() {
        io::ErrorKind::TimedOut => TransportError::timeout(address, "take what was sent", limit),
        _ => lost(address, cause),
    }
}

/// Zeros that fill so many bytes up to the alignment, which is a ring's eight at most.
fn padding(length: usize, alignment: usize) -> &'static [u8] {
    const ZEROS: [u8; 8] = [0; 8];
    ZEROS
        .get(..length.next_multiple_of(alignment) - length)
        .unwrap_or(&ZEROS)
}
