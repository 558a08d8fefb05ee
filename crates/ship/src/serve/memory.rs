//! Memory that connections hold for frames that have not come whole and for answers that were not taken: one account for
//! all.
//!
//! A slow or hostile peer must not cost others their connection. So half of the memory is given in the order of
//! requests; of the other half nothing goes to a long frame, which waits unread until there is room for the whole of
//! it, nor the last part to a peer that has not delivered anything yet. And while more than half is taken, no peer has
//! it for long.

use crate::hello::Reason;
use crate::limits::{LONG_BYTES, READ_BYTES, SCARCE_READ_BYTES};
use crate::options::PeerLimits;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Time that a frame may take to come whole, and an answer to be taken, while memory is scarce.
pub(crate) const SCARCE_HOLD_TIMEOUT: Duration = Duration::from_secs(1);

/// The account. Relaxed throughout: numbers that no other memory depends on.
pub(crate) struct MemoryQuota {
    bytes: AtomicUsize,
    bytes_max: usize,
    /// Up to here long frames begin: half, or one of them where half is less.
    long_bytes_max: usize,
    idle_timeout: Duration,
}

/// Share of one connection, which it gives back at its end.
#[derive(Debug, Default)]
pub(crate) struct QuotaShare {
    bytes: usize,
}

impl MemoryQuota {
    pub(crate) fn new(limits: &PeerLimits, idle_timeout: Duration) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            bytes_max: limits.pending_bytes_max,
            long_bytes_max: (limits.pending_bytes_max / 2).max(limits.frame_bytes_max),
            idle_timeout,
        }
    }

    /// More than half is taken.
    pub(crate) fn is_scarce(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.bytes_max / 2
    }

    /// Bytes to read at once.
    pub(crate) fn read_bytes(&self, has_delivered: bool) -> usize {
        match !has_delivered && self.is_scarce() {
            true => SCARCE_READ_BYTES,
            false => READ_BYTES,
        }
    }

    /// Time that a frame may take to come whole, and an answer to be taken, and the reason to close the connection then.
    pub(crate) fn hold_timeout(&self) -> (Duration, Reason) {
        match self.is_scarce() {
            true => (SCARCE_HOLD_TIMEOUT.min(self.idle_timeout), Reason::Memory),
            false => (self.idle_timeout, Reason::Idle),
        }
    }

    /// Reserves memory for all of the frame that begins in `front` and needs `whole_bytes`; a frame that is longer than
    /// `moved_bytes_max` gets its place in `front` at once. Returns `false` where it is to wait unread.
    pub(crate) fn reserve_frame(
        &self,
        share: &mut QuotaShare,
        front: &mut Vec<u8>,
        whole_bytes: usize,
        moved_bytes_max: usize,
    ) -> bool {
        let is_granted = self.reserve(share, whole_bytes, front.capacity());
        if is_granted && whole_bytes > moved_bytes_max {
            front.reserve_exact(whole_bytes.saturating_sub(front.len()));
        }
        is_granted
    }

    /// Takes what a frame of `whole_bytes` needs beyond `there_bytes`. `false`: it is to wait.
    fn reserve(&self, share: &mut QuotaShare, whole_bytes: usize, there_bytes: usize) -> bool {
        if whole_bytes <= LONG_BYTES.max(there_bytes) {
            return true;
        }
        let more = whole_bytes - there_bytes;
        let within = |all: usize| all.checked_add(more).filter(|all| *all <= self.long_bytes_max);
        let is_granted = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .is_ok();
        if is_granted {
            share.bytes += more;
        }
        is_granted
    }

    /// Counts what a connection holds now.
    pub(crate) fn update(
        &self,
        share: &mut QuotaShare,
        bytes: usize,
        has_delivered: bool,
    ) -> Result<(), Reason> {
        let before = std::mem::replace(&mut share.bytes, bytes);
        if bytes == before {
            return Ok(());
        }
        if bytes < before {
            self.bytes.fetch_sub(before - bytes, Ordering::Relaxed);
            return Ok(());
        }
        let all = self.bytes.fetch_add(bytes - before, Ordering::Relaxed) + (bytes - before);
        let most = match has_delivered {
            true => self.bytes_max,
            false => self.bytes_max / 4 * 3,
        };
        match all > most {
            true => Err(Reason::Memory),
            false => Ok(()),
        }
    }

    /// The connection is over.
    pub(crate) fn release(&self, share: &mut QuotaShare) {
        self.bytes
            .fetch_sub(std::mem::take(&mut share.bytes), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_little_a_long_frame_still_begins() {
        let limits = PeerLimits {
            pending_bytes_max: 1 << 20,
            ..PeerLimits::default()
        };
        let memory = MemoryQuota::new(&limits, Duration::from_secs(30));
        let mut long: [QuotaShare; 2] = Default::default();
        assert!(memory.reserve(&mut long[0], 1 << 20, 0));
        assert!(!memory.reserve(&mut long[1], 1 << 20, 0));
    }

    #[test]
    fn long_frames_get_half_and_strangers_three_quarters() {
        let limits = PeerLimits {
            pending_bytes_max: 4 << 20,
            ..PeerLimits::default()
        };
        let memory = MemoryQuota::new(&limits, Duration::from_secs(30));
        let mut long: [QuotaShare; 3] = Default::default();
        assert!(memory.reserve(&mut long[0], 1 << 20, 0));
        assert!(memory.reserve(&mut long[1], 1 << 20, 0));
        assert!(!memory.reserve(&mut long[2], 1 << 20, 0), "half is taken");
        assert!(
            memory.reserve(&mut long[2], LONG_BYTES, 0),
            "a short one needs no leave"
        );
        assert!(
            memory.reserve(&mut long[1], 1 << 20, 1 << 20),
            "it has what it needs"
        );
        assert!(!memory.is_scarce());

        let (mut newcomer, mut known) = (QuotaShare::default(), QuotaShare::default());
        assert_eq!(memory.update(&mut newcomer, 1 << 20, false), Ok(()));
        assert!(memory.is_scarce());
        assert_eq!(memory.hold_timeout(), (SCARCE_HOLD_TIMEOUT, Reason::Memory));
        assert_eq!(memory.read_bytes(false), SCARCE_READ_BYTES);
        assert_eq!(memory.read_bytes(true), READ_BYTES);
        assert_eq!(
            memory.update(&mut newcomer, (1 << 20) + 1, false),
            Err(Reason::Memory)
        );
        memory.release(&mut newcomer);
        assert_eq!(memory.update(&mut known, 2 << 20, true), Ok(()));
        assert_eq!(
            memory.update(&mut known, (2 << 20) + 1, true),
            Err(Reason::Memory)
        );

        memory.release(&mut known);
        memory.release(&mut long[0]);
        assert_eq!(memory.update(&mut long[1], 10, false), Ok(()));
        memory.release(&mut long[1]);
        assert_eq!(memory.bytes.load(Ordering::Relaxed), 0);
    }
}
