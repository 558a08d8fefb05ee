//! `shm://`: two rings in shared memory, one for each direction, agreed upon over a Unix socket of packets that then
//! only shows whether the other process lives.

use super::Link;
use super::socket::time_left;
use crate::clock::coarse_now;
use crate::limits::{SHM_DIRECT_BYTES, SHM_SPIN_US};
use crate::options::Options;
use logdrive_ring::channel::{Channel, Received, into_files};
use logdrive_ring::{Consumer, PipeWriter, Ring};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The packet that brings the rings: name and version.
const OFFER: &[u8; 8] = b"LDSHM\x01\x00\x00";
/// Parts of one send, at most: a header, a payload, and what fills it up.
const PARTS_MAX: usize = 4;
/// Time between two looks of a sleeper at whether the other process lives.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(100);

/// One end of a connection in shared memory.
pub(crate) struct ShmLink {
    channel: Channel,
    outgoing: PipeWriter,
    incoming: Consumer,
    /// The ring that is read.
    bell: Arc<Ring>,
    spin: Duration,
    /// Another thread asks the one that waits here to look for something else. Relaxed: ordered by the ring's fences.
    is_called: Arc<AtomicBool>,
    /// Time of the next look at whether the other process lives, on the coarse clock: a ring that has room tells nothing.
    look_at: Duration,
    /// The next send need not wake the other end, and whether the last one did.
    cork_next: bool,
    is_corked: bool,
}

impl ShmLink {
    pub(crate) fn connect(path: &Path, options: &Options, end: Instant) -> io::Result<Self> {
        let channel = Channel::connect(path, time_left(end)?)?;
        let (outgoing, outgoing_file) = Ring::unnamed(options.ring_bytes).map_err(io::Error::other)?;
        let (incoming, incoming_file) = Ring::unnamed(options.ring_bytes).map_err(io::Error::other)?;
        channel.send(OFFER, &[outgoing_file.as_fd(), incoming_file.as_fd()])?;
        Ok(Self::new(channel, outgoing, incoming, options))
    }

    fn new(channel: Channel, outgoing: Ring, incoming: Ring, options: &Options) -> Self {
        let incoming = Arc::new(incoming);
        Self {
            channel,
            outgoing: PipeWriter::new(Arc::new(outgoing)),
            bell: Arc::clone(&incoming),
            incoming: Consumer::new(incoming),
            spin: options.spin.max(Duration::from_micros(SHM_SPIN_US)),
            is_called: Arc::default(),
            look_at: Duration::ZERO,
            cork_next: false,
            is_corked: false,
        }
    }

    /// Returns whether the other process still has its end.
    fn is_peer_alive(channel: &Channel) -> bool {
        let mut nothing = [0; 8];
        match channel.receive(&mut nothing, &mut Vec::new(), false) {
            Ok(found) => found != Received::Closed,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Bytes that are there, without copying them.
    pub(crate) fn pending_bytes(&self) -> io::Result<usize> {
        self.incoming.pending_bytes().map_err(io::Error::other)
    }

    /// Puts the first so many bytes of the parts into the ring. Where there is no room, waits until the end.
    fn push(&mut self, parts: &[IoSlice<'_>], piece: usize, end: Option<Instant>) -> io::Result<usize> {
        self.check_peer()?;
        let (outgoing, channel) = (&mut self.outgoing, &self.channel);
        let in_time = || end.is_none_or(|end| Instant::now() < end);
        let alive = || in_time() && Self::is_peer_alive(channel);
        let mut cut: [&[u8]; PARTS_MAX] = [&[]; PARTS_MAX];
        let mut room = piece;
        for (place, part) in cut.iter_mut().zip(parts) {
            *place = part.get(..room.min(part.len())).unwrap_or(&[]);
            room -= place.len();
        }
        debug_assert_eq!(room, 0, "four parts at most");
        self.is_corked = std::mem::take(&mut self.cork_next);
        let is_in = match self.is_corked {
            true => outgoing.push_quietly(&cut, &alive),
            false => outgoing.push(&cut, &alive),
        };
        match is_in {
            true => Ok(piece),
            false if in_time() => Err(io::ErrorKind::BrokenPipe.into()),
            false => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Looks for a short while whether something is so.
    fn spin_until(&self, is_so: impl Fn(&Self) -> io::Result<bool>) -> io::Result<bool> {
        let start = Instant::now();
        loop {
            for _ in 0..64 {
                if is_so(self)? {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            if start.elapsed() >= self.spin {
                return Ok(false);
            }
        }
    }

    /// Waits until there is something to read; `false` when the time is over.
    fn wait_readable(&mut self, timeout: Duration) -> io::Result<bool> {
        let start = Instant::now();
        let is_called = |link: &Self| link.is_called.load(Ordering::Relaxed);
        if self.spin_until(|link| Ok(link.pending_bytes()? > 0 || is_called(link)))? && !is_called(self) {
            return Ok(true);
        }
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            self.incoming
                .sleep_unless(left.min(LIVENESS_INTERVAL), || is_called(self))
                .map_err(io::Error::other)?;
            if self.pending_bytes()? > 0 {
                return Ok(true);
            }
            if self.is_called.swap(false, Ordering::Relaxed) {
                return Ok(false);
            }
            if !Self::is_peer_alive(&self.channel) {
                // Bytes that it committed before it ended have just been checked for.
                return Ok(true);
            }
            if start.elapsed() >= timeout {
                return Ok(false);
            }
        }
    }
}

impl Link for ShmLink {
    fn try_send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let piece = length.min(self.outgoing.piece_bytes_max());
        if self.outgoing.free_bytes() < piece + 8 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.push(parts, piece, None)
    }

    fn send(&mut self, parts: &[IoSlice<'_>], timeout: Duration) -> io::Result<usize> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let piece = length.min(self.outgoing.piece_bytes_max());
        if self.outgoing.free_bytes() < piece + 8 {
            let end = Instant::now() + timeout;
            self.uncork()?;
            self.spin_until(|link| Ok(link.outgoing.free_bytes() >= piece + 8))?;
            return self.push(parts, piece, Some(end));
        }
        self.push(parts, piece, None)
    }

    fn try_receive(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let mut pending = self.pending_bytes()?;
        if pending == 0 {
            if Self::is_peer_alive(&self.channel) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            // What it committed last may have come between the two looks.
            pending = self.pending_bytes()?;
        }
        let pending = pending.min(space.len()) & !7;
        if let Some(space) = space.get_mut(..pending) {
            self.incoming.copy_out(0, space);
        }
        self.incoming.release(pending);
        Ok(pending)
    }

    fn receive(&mut self, space: &mut [u8], timeout: Duration) -> io::Result<usize> {
        if self.pending_bytes()? == 0 && !self.wait_readable(timeout)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.try_receive(space)
    }

    fn wait(&mut self, for_room: bool, timeout: Duration) -> io::Result<bool> {
        if !for_room {
            return self.wait_readable(timeout);
        }
        // An end that waits for room also reads, so that two ends that send to each other both make progress.
        let start = Instant::now();
        let piece = self.outgoing.piece_bytes_max() + 8;
        while start.elapsed() < timeout {
            if self.spin_until(|link| Ok(link.pending_bytes()? > 0 || link.outgoing.free_bytes() >= piece))? {
                return Ok(true);
            }
            self.incoming
                .sleep(Duration::from_micros(50).min(timeout))
                .map_err(io::Error::other)?;
            if start.elapsed() > LIVENESS_INTERVAL && !Self::is_peer_alive(&self.channel) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(false)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn waker(&self) -> Option<Box<dyn Fn() + Send>> {
        let (is_called, bell) = (Arc::clone(&self.is_called), Consumer::new(Arc::clone(&self.bell)));
        Some(Box::new(move || {
            is_called.store(true, Ordering::Relaxed);
            bell.wake_all();
        }))
    }

    fn rings(&mut self) -> Option<(&mut Consumer, &mut PipeWriter)> {
        Some((&mut self.incoming, &mut self.outgoing))
    }

    #[inline]
    fn check_peer(&mut self) -> io::Result<()> {
        let now = coarse_now();
        if now < self.look_at {
            return Ok(());
        }
        if !Self::is_peer_alive(&self.channel) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.look_at = now + LIVENESS_INTERVAL;
        Ok(())
    }

    fn spins(&self) -> bool {
        true
    }

    fn cork(&mut self, _: usize) {
        self.cork_next = true;
    }

    fn is_corked(&self) -> bool {
        self.is_corked
    }

    fn uncork(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_corked) {
            self.outgoing.wake_reader();
        }
        Ok(())
    }

    fn uncorks_cheaply(&self) -> bool {
        true
    }

    fn alignment(&self) -> usize {
        8
    }

    fn direct_bytes(&self) -> usize {
        SHM_DIRECT_BYTES
    }

    fn is_integrity_protected(&self) -> bool {
        true
    }

    fn uid(&self) -> Option<u32> {
        self.channel.peer().ok().map(|peer| peer.uid)
    }
}

impl Drop for ShmLink {
    fn drop(&mut self) {
        self.channel.shut();
        // A writer that waits for room at the other end would wait for a reader that has ended.
        self.incoming.quarantine();
        self.incoming.wake_all();
        if let Some(ring) = self.outgoing.ring() {
            // And a reader that sleeps checks the channel.
            Consumer::new(Arc::clone(ring)).wake_all();
        }
    }
}

impl ShmLink {
    /// Waits for the rings of a connection that was accepted, and checks them. Only the same user's, or root's, are
    /// taken: memory that another user can write is not worth the risk. Waits no longer once `ends` says so.
    pub(crate) fn join(channel: Channel, options: &Options, ends: impl Fn() -> bool) -> io::Result<Self> {
        let uid = channel.peer()?.uid;
        if uid != 0 && uid != logdrive_ring::user_id() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user"));
        }
        let start = Instant::now();
        loop {
            let left = options.timeouts.handshake.saturating_sub(start.elapsed());
            if channel.wait(left.min(LIVENESS_INTERVAL))? {
                break;
            }
            if left.is_zero() || ends() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        let mut bytes = [0; 64];
        let mut descriptors = Vec::new();
        let found = channel.receive(&mut bytes, &mut descriptors, true)?;
        let is_offer = found == Received::Packet(OFFER.len()) && bytes.starts_with(OFFER);
        let mut files = into_files(descriptors).into_iter();
        let (Some(outgoing), Some(incoming), true) = (files.next(), files.next(), is_offer) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "no rings were offered",
            ));
        };
        let open = |file| Ring::open_sealed(&file, 0).map_err(io::Error::other);
        // What is there for the one who connects is the way back for us.
        let (incoming, outgoing) = (open(incoming)?, open(outgoing)?);
        Ok(Self::new(channel, incoming, outgoing, options))
    }
}
