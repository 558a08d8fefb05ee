//! The account of one sink in shared memory: records that it dropped, and those that it wrote. Both are exact after a
//! kill at any moment: the drain's part becomes valid with the epoch that covers the records, and the part of the I/O
//! thread names the buffer that it counts last. The bytes are drawn in `spec/session.md`.

use crate::checksum::{Checksum, guarded, unguarded};
use crate::epoch_cells::EpochCells;
use core::sync::atomic::{AtomicU64, Ordering};

/// Reasons for which a sink drops records.
pub const SINK_DROP_REASONS: usize = 8;

/// Index of the reason that the I/O thread counts: the target is gone.
const GONE: usize = 1;

/// Numbers of the drain: those of the fill, and those of [`SinkDrops`].
const DRAIN_NUMBERS: usize = 3 + SINK_DROP_REASONS + 5;

/// Loads of numbers whose writer lives, before they are taken as they are.
const LOOKS: usize = 8;

#[repr(C)]
pub(crate) struct SinkWords {
    /// Length, records and sequence number of the buffer that is being filled; then the drops.
    drained: EpochCells<DRAIN_NUMBERS>,
    /// Sequence number of the buffer that was counted last, then the sums. The cell with the higher epoch, which is a
    /// number of its own, is valid.
    settled: EpochCells<4>,
    errors: AtomicU64,
    last_error: AtomicU64,
    /// Bytes at the start of a buffer that the log has in another place than the rest; guarded with its sequence number.
    done: AtomicU64,
    unused: [AtomicU64; 16],
    /// Never 0, so that a page of zeros is found.
    mark: AtomicU64,
}

/// Bytes of the words of one sink.
pub(crate) const SINK_BYTES: usize = 512;

const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<SinkWords>() == SINK_BYTES);
    assert!(offset_of!(SinkWords, settled) == 272);
    assert!(offset_of!(SinkWords, errors) == 352);
    assert!(offset_of!(SinkWords, done) == 368);
    assert!(offset_of!(SinkWords, mark) == 504);
};

/// Drops of a sink, as its drain counts them: valid with an epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinkDrops {
    /// Records dropped, by the sink's own reasons. Those of a target that is gone are counted elsewhere.
    pub by_reason: [u64; SINK_DROP_REASONS],
    /// Number of records dropped for want of room that no line of this sink tells.
    pub unreported: u64,
    /// Number of calls dropped before they reached the drain whose line had no room in this sink.
    pub unreported_calls: u64,
    /// Times of the first and the last unreported record, in nanoseconds since 1970.
    pub unreported_unix_ns: [u64; 2],
    /// The system's code of the sink's last failure when the last of them was dropped; 0 where the sink was slow.
    pub unreported_cause: u64,
}

/// Length, records and sequence number of the buffer that is being filled.
pub(crate) type Fill = [u64; 3];

/// What the I/O thread has done with buffers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Sequence number of the last buffer in the sums. Where it is not marked as free, its writer was killed in
    /// between.
    pub(crate) sequence: u64,
    pub(crate) written_records: u64,
    pub(crate) written_bytes: u64,
    /// Records for a target that is gone.
    pub(crate) gone: u64,
}

/// A sink's statistics in shared memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Records handed to the kernel.
    pub written_records: u64,
    /// Bytes handed to the kernel.
    pub written_bytes: u64,
    /// Records that the sink dropped, by the sink's own reasons.
    pub dropped: [u64; SINK_DROP_REASONS],
    /// Number of records dropped for want of room that no line of this sink tells.
    pub unreported: u64,
    /// Failed writes.
    pub errors: u64,
    /// The system's code of the last failure, 0 when the last write went well.
    pub last_error: u64,
    /// Records in buffers that are not written yet.
    pub pending_records: u64,
}

/// The mark of a sink.
fn mark_of(sink: usize) -> u64 {
    Checksum::of_words(&[sink as u64]).value()
}

impl SinkWords {
    /// Makes the words those of a sink. For the process that makes the file.
    pub(crate) fn store_mark(&self, sink: usize) {
        // Relaxed: the magic of the file is stored last.
        self.mark.store(mark_of(sink), Ordering::Relaxed);
    }

    /// Returns whether the cells of a sink are damaged, or a page of zeros has taken their place.
    pub(crate) fn is_damaged(&self, sink: usize) -> bool {
        // Relaxed: the writer is dead.
        self.drained.is_damaged()
            || self.settled.is_damaged()
            || self.mark.load(Ordering::Relaxed) != mark_of(sink)
    }

    /// Returns whether the fill at an epoch is known although the words are damaged: its cell is that of the epoch itself, or
    /// no cell is damaged, nor a page of zeros.
    pub(crate) fn is_fill_certain(&self, epoch: u64) -> bool {
        let newest = self.drained.newest_epoch();
        newest == epoch || newest != 0 && !self.drained.is_damaged()
    }

    /// Notes what is valid once `epoch` is published; `committed` is the epoch that was published last.
    pub(crate) fn note(&self, fill: Fill, drops: &SinkDrops, epoch: u64, committed: u64) {
        let mut numbers = [0; DRAIN_NUMBERS];
        let (front, back) = numbers.split_at_mut(3);
        front.copy_from_slice(&fill);
        let (by_reason, rest) = back.split_at_mut(SINK_DROP_REASONS);
        by_reason.copy_from_slice(&drops.by_reason);
        let [since, until] = drops.unreported_unix_ns;
        rest.copy_from_slice(&[
            drops.unreported,
            drops.unreported_calls,
            since,
            until,
            drops.unreported_cause,
        ]);
        self.drained.note(numbers, epoch, committed);
    }

    /// Strikes out what was noted for epochs that were never published.
    pub(crate) fn strike_after(&self, epoch: u64) {
        self.drained.strike_after(epoch);
    }

    /// Fill and drops that count at an epoch; zeros before the first.
    pub(crate) fn drained(&self, epoch: u64) -> (Fill, SinkDrops) {
        let numbers = self.drained.newest(epoch, |_| true).unwrap_or([0; DRAIN_NUMBERS]);
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        let drops = SinkDrops {
            by_reason: core::array::from_fn(|reason| at(3 + reason)),
            unreported: at(11),
            unreported_calls: at(12),
            unreported_unix_ns: [at(13), at(14)],
            unreported_cause: at(15),
        };
        ([at(0), at(1), at(2)], drops)
    }

    /// What the I/O thread has counted. It may be at work meanwhile: then the numbers of one moment are found by loading
    /// them again.
    pub(crate) fn settled(&self) -> Settled {
        let mut found = self.load_settled();
        for _ in 0..LOOKS {
            let again = self.load_settled();
            if again == found {
                break;
            }
            found = again;
        }
        found
    }

    fn load_settled(&self) -> Settled {
        let [sequence, written_records, written_bytes, gone] =
            self.settled.newest(u64::MAX, |_| true).unwrap_or_default();
        Settled {
            sequence,
            written_records,
            written_bytes,
            gone,
        }
    }

    /// Counts a buffer as done with. For its one writer, which gives the buffer free behind this.
    pub(crate) fn settle(&self, sums: Settled) {
        let numbers = [sums.sequence, sums.written_records, sums.written_bytes, sums.gone];
        let newest = self.settled.newest_epoch();
        self.settled.note(numbers, newest.wrapping_add(1), newest);
    }

    /// Notes how many bytes at the start of a buffer are in the log already.
    pub(crate) fn note_done(&self, sequence: u64, bytes: u64) {
        // Relaxed: a word that is whole by itself, for a reader after our death.
        self.done.store(guarded(bytes, &[sequence]), Ordering::Relaxed);
    }

    /// Number of bytes at the start of a buffer that are in the log already.
    pub(crate) fn done(&self, sequence: u64) -> u64 {
        // Relaxed: as above. The word of another buffer has another check.
        unguarded(self.done.load(Ordering::Relaxed), &[sequence]).unwrap_or(0)
    }

    /// Counts a failed write; code 0 means that writes succeed again.
    pub(crate) fn note_error(&self, code: u64) {
        // Relaxed: statistics.
        if code != 0 {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        self.last_error.store(code, Ordering::Relaxed);
    }

    /// The system's code of the last failure.
    pub(crate) fn last_error(&self) -> u64 {
        // Relaxed: a statistic.
        self.last_error.load(Ordering::Relaxed)
    }

    /// Statistics as of an epoch, with the records that are in buffers.
    pub(crate) fn counts(&self, epoch: u64, pending_records: u64) -> SinkCounts {
        let (_, drops) = self.drained(epoch);
        let settled = self.settled();
        let mut dropped = drops.by_reason;
        dropped[GONE] = dropped[GONE].wrapping_add(settled.gone);
        SinkCounts {
            written_records: settled.written_records,
            written_bytes: settled.written_bytes,
            dropped,
            unreported: drops.unreported,
            // Relaxed: a statistic.
            errors: self.errors.load(Ordering::Relaxed),
            last_error: self.last_error(),
            pending_records,
        }
    }
}
