//! The shared header of a session: who it is, its clock, and the counters that belong to no ring. Drawn in
//! `spec/session.md`.

use crate::clock::{Calibration, ClockSource};
use crate::drop_reason::DropReason;
use crate::end_notes::EndNotes;
use crate::limits::{CALLSITES_MAX, RINGS_MAX, TABLE_BYTES_MAX};
use crate::process_identity::ProcessIdentity;
use crate::session_account::{AccountWords, SessionAccount};
use crate::{RingError, sys};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

mod calibration_words;
mod damage;
mod identity_words;

use calibration_words::CalibrationWords;
pub(crate) use damage::{SessionName, mend};
use identity_words::IdentityWords;

/// Bytes of the session file.
pub(crate) const SESSION_BYTES: usize = 4096;

/// Bytes of its front that say whose session it is.
const IDENTITY_BYTES: usize = 192;

/// `LDSESS` and the format's version.
const MAGIC: u64 = u64::from_le_bytes(*b"LDSESS\x02\x00");

/// Bits by which the word *done* is turned to say *spilled*, *released*, and *stopped*.
const SPILLED_TURN: u32 = 32;
const RELEASED_TURN: u32 = 16;
const STOPPED_TURN: u32 = 48;

/// The session file.
#[repr(C)]
#[derive(Debug)]
pub struct SessionHeader {
    identity: IdentityWords,
    // Line 2: calibration, behind a sequence lock.
    calibration_sequence: AtomicU64,
    calibration: CalibrationWords,
    /// The journal that the epochs in the rings belong to, where another process drains them; 0 elsewhere.
    journal: AtomicU64,
    /// The process has written the session to files: the complement of the checksum with its halves swapped.
    spilled: AtomicU64,
    /// The process has given the session up: the complement of the checksum, turned by another number of bits.
    released: AtomicU64,
    // Line 3: the coarse clock, renewed by the drain at every poll.
    coarse_ticks: AtomicU64,
    /// 1 while a drain in another process sleeps and wants to be woken.
    drain_asleep: AtomicU32,
    coarse_unused: AtomicU32,
    /// The calibration once more, stored before the other.
    second_calibration: CalibrationWords,
    coarse_end: [AtomicU64; 2],
    // Line 4: what there is.
    ring_count: AtomicU32,
    callsite_count: AtomicU32,
    table_bytes: AtomicU64,
    disabled: AtomicU64,
    counts_end: [AtomicU64; 5],
    // Line 5: drops of threads without a ring.
    dropped: [AtomicU64; DropReason::COUNT],
    // Line 6 and on: how the process ended, as far as it could say.
    end: EndNotes,
    /// The process has ended its logger in order, and left what its sinks did not take: as `released`.
    stopped: AtomicU64,
    end_unused: [AtomicU64; 7],
    // The account of the drain.
    account: AccountWords,
}

const _: () = {
    use core::mem::size_of;
    assert!(offset_of!(IdentityWords, done) == 24);
    assert!(offset_of!(IdentityWords, app) == 32);
    assert!(offset_of!(IdentityWords, process_start) == 96);
    assert!(offset_of!(IdentityWords, process_boot) == 112);
    assert!(offset_of!(IdentityWords, checksum) == 120);
    assert!(offset_of!(SessionHeader, calibration_sequence) == 128);
    assert!(offset_of!(SessionHeader, journal) == 168);
    assert!(offset_of!(SessionHeader, released) == 184);
    assert!(offset_of!(SessionHeader, second_calibration) == 208);
    assert!(offset_of!(SessionHeader, coarse_ticks) == 192);
    assert!(offset_of!(SessionHeader, drain_asleep) == 200);
    assert!(offset_of!(SessionHeader, ring_count) == 256);
    assert!(offset_of!(SessionHeader, dropped) == 320);
    assert!(offset_of!(SessionHeader, end) == 384);
    assert!(offset_of!(SessionHeader, stopped) == 1984);
    assert!(offset_of!(SessionHeader, account) == 2048);
    assert!(size_of::<SessionHeader>() == 2496);
    assert!(size_of::<SessionHeader>() <= SESSION_BYTES);
};

impl SessionHeader {
    /// Makes zeroed memory the header of a session of a process.
    pub(crate) fn format(
        &self,
        process: &ProcessIdentity,
        app: &str,
        clock: ClockSource,
        start_unix_ns: u64,
    ) {
        self.identity.format(process, app, clock, start_unix_ns);
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
        self.identity.check()?;
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
        self.identity.check_whole()
    }

    /// Notes that everything has reached the log: what is left of the session may be removed.
    pub(crate) fn mark_done(&self) {
        // SYNC(done): what the word says is so.
        self.identity
            .done
            .store(self.identity.done_word(), Ordering::Release);
    }

    /// Notes that the process has written the session to files, for a recoverer. What is in the memory is there, too,
    /// and not to be drained. For a process whose agent is gone, and that logs no more.
    #[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
    pub(crate) fn mark_spilled(&self) {
        // SYNC(done)
        self.spilled.store(
            self.identity.done_word().rotate_left(SPILLED_TURN),
            Ordering::Release,
        );
    }

    /// Notes that the process has given the session up, and may live on. What is in it is a recoverer's.
    pub(crate) fn mark_released(&self) {
        // SYNC(done)
        self.released.store(
            self.identity.done_word().rotate_left(RELEASED_TURN),
            Ordering::Release,
        );
    }

    /// Notes the account of the session for an epoch; `committed` is the one that was published last. For the drain.
    pub fn note_account(&self, account: SessionAccount, epoch: u64, committed: u64) {
        self.account.note(account, epoch, committed);
    }

    /// The account of the session as of an epoch of its drain.
    pub fn account(&self, epoch: u64) -> SessionAccount {
        self.account.load(epoch)
    }

    /// As [`SessionHeader::account`], for a new drain: what was noted for other epochs does not count any more.
    pub fn settle_account(&self, epoch: u64) -> SessionAccount {
        self.account.settle(epoch)
    }

    /// Notes that the process has ended its logger in order, and left what its sinks did not take.
    pub fn mark_stopped(&self) {
        // SYNC(done)
        self.stopped.store(
            self.identity.done_word().rotate_left(STOPPED_TURN),
            Ordering::Release,
        );
    }

    /// Identity of the session. Allocates.
    pub fn identity(&self) -> SessionIdentity {
        SessionIdentity {
            pid: self.identity.pid.load(Ordering::Relaxed),
            start_unix_ns: self.identity.start_unix_ns.load(Ordering::Relaxed),
            app: self.identity.app(),
        }
    }

    /// Numbers of the session as they are now; they may change at any time. Some twenty loads.
    pub fn totals(&self) -> SessionTotals {
        let done = self.identity.done_word();
        SessionTotals {
            // SYNC(done)
            is_done: self.identity.done.load(Ordering::Acquire) == done,
            is_spilled: self.spilled.load(Ordering::Acquire) == done.rotate_left(SPILLED_TURN),
            is_stopped: self.stopped.load(Ordering::Acquire) == done.rotate_left(STOPPED_TURN),
            rings: self.ring_count(),
            callsites: self.callsite_count(),
            table_bytes: self.table_bytes(),
            dropped: core::array::from_fn(|reason| self.dropped[reason].load(Ordering::Relaxed)),
            disabled: self.disabled.load(Ordering::Relaxed),
            signal: self.end.signal(),
            panics: self.end.panics(),
        }
    }

    /// Source of its ticks.
    pub fn clock_source(&self) -> ClockSource {
        ClockSource::from_code(self.identity.clock_source.load(Ordering::Relaxed))
            .unwrap_or(ClockSource::Monotonic)
    }

    /// Publishes a calibration.
    pub fn store_calibration(&self, calibration: &Calibration) {
        // For a reader after our death.
        self.second_calibration.store(calibration);
        // One writer. Odd while the words change.
        let sequence = self.calibration_sequence.load(Ordering::Relaxed) | 1;
        self.calibration_sequence.store(sequence, Ordering::Relaxed);
        // SYNC(calibration)
        fence(Ordering::Release);
        self.calibration.store(calibration);
        // SYNC(calibration)
        self.calibration_sequence
            .store(sequence.wrapping_add(1), Ordering::Release);
    }

    /// The calibration now in force; the second copy of it where the first is damaged or its writer died while it wrote.
    /// `None` before the first, and where both are damaged.
    pub fn calibration(&self) -> Option<Calibration> {
        for _ in 0..1000 {
            // SYNC(calibration)
            let before = self.calibration_sequence.load(Ordering::Acquire);
            let found = self.calibration.load();
            // SYNC(calibration)
            fence(Ordering::Acquire);
            let after = self.calibration_sequence.load(Ordering::Relaxed);
            if before == after && before.is_multiple_of(2) {
                return found.or_else(|| self.second_calibration.load());
            }
            core::hint::spin_loop();
        }
        self.second_calibration.load()
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

    /// Notes about the end of the process.
    pub fn end(&self) -> &EndNotes {
        &self.end
    }

    /// Returns true if the process that made the session lives on, with another program (`exec`): only for a session
    /// that it has left.
    pub fn has_executed(&self) -> bool {
        self.identity.process().is_there()
    }
}

/// The process that made the session of this file, if it lives and has it although its lock is free: something in it
/// has closed all descriptors. Reads the file, and `/proc`. To be asked where the file is not held by the caller.
pub(crate) fn living_process(file: &File, path: &Path) -> Option<u32> {
    let mut bytes = [0; IDENTITY_BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let word = |offset: usize| {
        let word = bytes.get(offset..).and_then(<[u8]>::first_chunk);
        word.map_or(0, |word| u64::from_le_bytes(*word))
    };
    let done = !word(offset_of!(IdentityWords, checksum));
    let is_given_up = word(offset_of!(IdentityWords, done)) == done
        || word(offset_of!(SessionHeader, released)) == done.rotate_left(RELEASED_TURN);
    if is_given_up {
        return None;
    }
    if word(offset_of!(IdentityWords, magic)) != MAGIC {
        // Of a damaged header the name of the directory and the mappings are left.
        let pid = SessionName::of(path.parent()?).pid;
        return ProcessIdentity::of_number(pid)
            .has_mapped(file, path)
            .then_some(pid);
    }
    let process = ProcessIdentity {
        pid: word(offset_of!(IdentityWords, pid)) as u32,
        start_ticks: word(offset_of!(IdentityWords, process_start)),
        namespace: word(offset_of!(IdentityWords, process_namespace)),
        boot: word(offset_of!(IdentityWords, process_boot)),
    };
    process.lives_with(file, path).then_some(process.pid)
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
    /// Set if the process has ended its logger in order, and left what its sinks did not take.
    pub is_stopped: bool,
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
