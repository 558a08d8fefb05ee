//! The shared header of a session: who it is, its clock, and the counters that belong to no ring. Drawn in
//! `spec/session.md`.

use crate::clock::{Calibration, ClockSource};
use crate::drop_reason::DropReason;
use crate::header::{load_text, store_text};
use crate::limits::{APP_NAME_BYTES, CALLSITES_MAX, RINGS_MAX, TABLE_BYTES_MAX};
use crate::{RingError, sys};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Bytes of the session file.
pub(crate) const SESSION_BYTES: usize = 4096;

/// `LDSESS` and the format's version.
const MAGIC: u64 = u64::from_le_bytes(*b"LDSESS\x01\x00");

/// In `flags`: everything has reached the log. What is left of the session may be removed, and nothing of it read.
pub(crate) const FLAG_DONE: u64 = 1;

/// In `flags`: the process has written the session to files, for a recoverer. What is in the memory is
/// there, too, and not to be drained. For a process whose agent is gone, and that logs no more.
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
pub(crate) const FLAG_SPILLED: u64 = 2;

/// The session file.
#[repr(C)]
#[derive(Debug)]
pub struct SessionHeader {
    magic: AtomicU64,
    pid: AtomicU32,
    clock_source: AtomicU32,
    start_unix_ns: AtomicU64,
    flags: AtomicU64,
    app: [AtomicU64; APP_NAME_BYTES / 8],
    unused: [AtomicU64; 4],
    // Line 2: calibration, behind a sequence lock.
    calibration_sequence: AtomicU64,
    base_ticks: AtomicU64,
    base_unix_ns: AtomicU64,
    ns_per_tick_q32: AtomicU64,
    /// The journal that the epochs in the rings belong to, where another process drains them; 0 elsewhere.
    journal: AtomicU64,
    calibration_end: [AtomicU64; 3],
    // Line 3: the coarse clock, renewed by the drain at every poll.
    coarse_ticks: AtomicU64,
    /// 1 while a drain in another process sleeps and wants to be woken.
    drain_asleep: AtomicU32,
    coarse_unused: AtomicU32,
    coarse_end: [AtomicU64; 6],
    // Line 4: what there is.
    ring_count: AtomicU32,
    callsite_count: AtomicU32,
    table_bytes: AtomicU64,
    disabled: AtomicU64,
    counts_end: [AtomicU64; 5],
    // Line 5: drops of threads without a ring.
    dropped: [AtomicU64; DropReason::COUNT],
    // Line 6: how the process ended, as far as it could say.
    end_signal: AtomicU32,
    end_panics: AtomicU32,
    end_thread: AtomicU64,
    end_unix_ns: AtomicU64,
    end_rest: [AtomicU64; 5],
}

const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(offset_of!(SessionHeader, app) == 32);
    assert!(offset_of!(SessionHeader, calibration_sequence) == 128);
    assert!(offset_of!(SessionHeader, journal) == 160);
    assert!(offset_of!(SessionHeader, coarse_ticks) == 192);
    assert!(offset_of!(SessionHeader, drain_asleep) == 200);
    assert!(offset_of!(SessionHeader, ring_count) == 256);
    assert!(offset_of!(SessionHeader, dropped) == 320);
    assert!(offset_of!(SessionHeader, end_signal) == 384);
    assert!(size_of::<SessionHeader>() == 448);
};

impl SessionHeader {
    /// Makes zeroed memory the header of a session of a process.
    pub(crate) fn format(&self, pid: u32, app: &str, clock: ClockSource, start_unix_ns: u64) {
        // Relaxed: the magic is stored last.
        self.pid.store(pid, Ordering::Relaxed);
        self.clock_source.store(clock as u32, Ordering::Relaxed);
        self.start_unix_ns.store(start_unix_ns, Ordering::Relaxed);
        store_text(&self.app, app);
        // SYNC(session): the rest of the header is visible to a thread that sees the magic.
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// The journal that the epochs in the rings belong to, where another process drains them; 0 elsewhere.
    pub fn journal(&self) -> u64 {
        // SYNC(journal of a session): what the drain stored in the rings before is visible.
        self.journal.load(Ordering::Acquire)
    }

    /// From now on the epochs in the rings belong to this journal. For the drain, once all rings are settled.
    pub fn store_journal(&self, id: u64) {
        // SYNC(journal of a session)
        self.journal.store(id, Ordering::Release);
    }

    pub(crate) fn check(&self) -> Result<(), RingError> {
        // SYNC(session)
        let magic = self.magic.load(Ordering::Acquire);
        if magic != MAGIC {
            return Err(damaged("magic", magic, "LDSESS and version 1"));
        }
        let source = self.clock_source.load(Ordering::Relaxed);
        if ClockSource::from_code(source).is_none() {
            return Err(damaged("clock source", u64::from(source), "1, 2 or 3"));
        }
        for (field, found, limit) in [
            ("ring count", u64::from(self.ring_count()), RINGS_MAX as u64),
            (
                "callsite count",
                u64::from(self.callsite_count()),
                CALLSITES_MAX as u64,
            ),
            ("table bytes", self.table_bytes(), TABLE_BYTES_MAX as u64),
        ] {
            if found > limit {
                return Err(damaged(field, found, "a number within the format's limit"));
            }
        }
        Ok(())
    }

    /// Sets [`FLAG_DONE`] or [`FLAG_SPILLED`].
    pub(crate) fn mark(&self, flag: u64) {
        // SYNC(done): what the flag says is so.
        self.flags.fetch_or(flag, Ordering::Release);
    }

    /// Identity of the session. Allocates.
    pub fn identity(&self) -> SessionIdentity {
        SessionIdentity {
            pid: self.pid.load(Ordering::Relaxed),
            start_unix_ns: self.start_unix_ns.load(Ordering::Relaxed),
            app: load_text(&self.app),
        }
    }

    /// Numbers of the session as they are now; they may change at any time. Some twenty loads.
    pub fn totals(&self) -> SessionTotals {
        // SYNC(done)
        let flags = self.flags.load(Ordering::Acquire);
        // SYNC(end)
        let signal = self.end_signal.load(Ordering::Acquire);
        SessionTotals {
            is_done: flags & FLAG_DONE != 0,
            is_spilled: flags & FLAG_SPILLED != 0,
            rings: self.ring_count(),
            callsites: self.callsite_count(),
            table_bytes: self.table_bytes(),
            dropped: core::array::from_fn(|reason| self.dropped[reason].load(Ordering::Relaxed)),
            disabled: self.disabled.load(Ordering::Relaxed),
            signal: (signal != 0).then(|| {
                (
                    signal,
                    self.end_thread.load(Ordering::Relaxed),
                    self.end_unix_ns.load(Ordering::Relaxed),
                )
            }),
            panics: self.end_panics.load(Ordering::Relaxed),
        }
    }

    /// Source of its ticks.
    pub fn clock_source(&self) -> ClockSource {
        ClockSource::from_code(self.clock_source.load(Ordering::Relaxed)).unwrap_or(ClockSource::Monotonic)
    }

    /// Publishes a calibration.
    pub fn store_calibration(&self, calibration: &Calibration) {
        // One writer. Odd while the words change.
        let sequence = self.calibration_sequence.load(Ordering::Relaxed) | 1;
        self.calibration_sequence.store(sequence, Ordering::Relaxed);
        // SYNC(calibration)
        fence(Ordering::Release);
        self.base_ticks.store(calibration.base_ticks, Ordering::Relaxed);
        self.base_unix_ns
            .store(calibration.base_unix_ns, Ordering::Relaxed);
        self.ns_per_tick_q32
            .store(calibration.ns_per_tick_q32, Ordering::Relaxed);
        // SYNC(calibration)
        self.calibration_sequence
            .store(sequence.wrapping_add(1), Ordering::Release);
    }

    /// The calibration now in force; `None` before the first, or when its writer died while it wrote.
    pub fn calibration(&self) -> Option<Calibration> {
        for _ in 0..1000 {
            // SYNC(calibration)
            let before = self.calibration_sequence.load(Ordering::Acquire);
            let calibration = Calibration {
                base_ticks: self.base_ticks.load(Ordering::Relaxed),
                base_unix_ns: self.base_unix_ns.load(Ordering::Relaxed),
                ns_per_tick_q32: self.ns_per_tick_q32.load(Ordering::Relaxed),
            };
            // SYNC(calibration)
            fence(Ordering::Acquire);
            let after = self.calibration_sequence.load(Ordering::Relaxed);
            if before == after && before.is_multiple_of(2) {
                return (before != 0).then_some(calibration);
            }
            core::hint::spin_loop();
        }
        None
    }

    /// The word of the coarse clock.
    pub fn coarse_clock(&self) -> &AtomicU64 {
        &self.coarse_ticks
    }

    /// Notes whether the drain, in another process, sleeps.
    pub fn set_drain_asleep(&self, asleep: bool) {
        // SYNC(wake): a producer that sees the 1 has work that the drain sees after its wake.
        self.drain_asleep.store(u32::from(asleep), Ordering::SeqCst);
    }

    /// Returns whether the drain sleeps; `true` for one of several callers, which wakes it.
    pub(crate) fn take_drain_asleep(&self) -> bool {
        // SYNC(wake)
        self.drain_asleep.load(Ordering::SeqCst) == 1 && self.drain_asleep.swap(0, Ordering::SeqCst) == 1
    }

    /// Sleeps on the word that says so, until a producer takes it away and wakes the drain; at most this long. For the
    /// drain, in a process of its own.
    pub fn sleep_drain(&self, timeout_ns: u64) {
        // SYNC(wake): a producer that sees the 1 has work that we shall see after its wake.
        self.set_drain_asleep(true);
        sys::futex_wait(&self.drain_asleep, 1, timeout_ns);
        // Relaxed: only a hint for the next one who would wake us.
        self.drain_asleep.store(0, Ordering::Relaxed);
    }

    /// Wakes a drain that sleeps in [`SessionHeader::sleep_drain`].
    pub fn wake_drain(&self) {
        if self.take_drain_asleep() {
            sys::futex_wake(&self.drain_asleep);
        }
    }

    /// Rings made so far.
    pub(crate) fn ring_count(&self) -> u32 {
        // SYNC(ring count): the rings below the count are formatted.
        self.ring_count.load(Ordering::Acquire)
    }

    pub(crate) fn publish_ring_count(&self, count: u32) {
        // SYNC(ring count)
        self.ring_count.store(count, Ordering::Release);
    }

    /// Callsites registered so far.
    pub(crate) fn callsite_count(&self) -> u32 {
        // SYNC(callsite): table and control words below the count are visible.
        self.callsite_count.load(Ordering::Acquire)
    }

    /// Bytes of the table that are valid.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.table_bytes.load(Ordering::Acquire)
    }

    pub(crate) fn publish_callsite(&self, count: u32, table_bytes: u64) {
        // SYNC(callsite)
        self.table_bytes.store(table_bytes, Ordering::Release);
        self.callsite_count.store(count, Ordering::Release);
    }

    /// Counts a call that was dropped without a ring.
    pub fn count_drop(&self, reason: DropReason, calls: u64) {
        self.dropped[reason as usize].fetch_add(calls, Ordering::Relaxed);
    }

    /// Stores the number of calls that their level switched off.
    pub fn store_disabled(&self, calls: u64) {
        self.disabled.store(calls, Ordering::Relaxed);
    }

    /// Notes a fatal signal. Safe to call from a signal handler: plain stores.
    pub(crate) fn note_signal(&self, signal: u32, thread_id: u64, unix_ns: u64) {
        self.end_thread.store(thread_id, Ordering::Relaxed);
        self.end_unix_ns.store(unix_ns, Ordering::Relaxed);
        // SYNC(end): thread and time are visible to a process that sees the signal.
        self.end_signal.store(signal, Ordering::Release);
    }

    /// Counts a panic.
    pub fn note_panic(&self) {
        self.end_panics.fetch_add(1, Ordering::Relaxed);
    }
}

/// Identity of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionIdentity {
    /// Number of the process that made it.
    pub pid: u32,
    /// Time at which it was made, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Name of the application.
    pub app: String,
}

/// Numbers of a session at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTotals {
    /// Set if everything has reached the log: the process died while it removed the session.
    pub is_done: bool,
    /// Set if the process has written the session to files, from which its records reach the log.
    pub is_spilled: bool,
    /// Rings made so far.
    pub rings: u32,
    /// Callsites registered so far.
    pub callsites: u32,
    /// Bytes of the callsite table that are valid.
    pub table_bytes: u64,
    /// Calls dropped without a ring, by reason.
    pub dropped: [u64; DropReason::COUNT],
    /// Calls that their level switched off, as last reported by the process.
    pub disabled: u64,
    /// Fatal signal of the process, as far as it could say: its number, the thread, and the time in nanoseconds since
    /// 1970.
    pub signal: Option<(u32, u64, u64)>,
    /// Number of panics of the process so far.
    pub panics: u32,
}

fn damaged(field: &'static str, found: u64, expected: &'static str) -> RingError {
    RingError::damaged("session header", field, found, expected)
}
