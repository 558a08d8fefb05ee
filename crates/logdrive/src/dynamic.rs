//! Records of dynamic callsites: those whose fields are only known at the call, as `tracing` and `log` have them.
//!
//! The values are encoded into a byte string of the thread ([`with_scratch`]), so that a value's own `Display` runs
//! before the ring is touched, and then copied into the ring in one go ([`commit`]).

mod encode;
pub(crate) mod limits;
mod table;

#[cfg(feature = "tracing")]
pub(crate) use encode::OnePiece;
pub(crate) use encode::{Encoder, Key};
pub(crate) use table::Table;
#[cfg(feature = "tracing")]
pub(crate) use table::hash_address;
#[cfg(feature = "log")]
pub(crate) use table::hash_words;

use crate::site::write_slowly;
use limits::SCRATCH_BYTES;
use logdrive_ring::{Put, local};
use logdrive_wire::Kind;
use logdrive_wire::limits::RECORD_BYTES_MAX;
use logdrive_wire::record::{HEADER_BYTES, align_up};
use std::cell::Cell;

thread_local! {
    static SCRATCH: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// Lends the thread's byte string, whose contents mean nothing. A call inside of `work` gets one of its own: a value's
/// `Display` may log.
#[inline]
pub(crate) fn with_scratch<R>(work: impl FnOnce(&mut [u8]) -> R) -> R {
    // A thread that is ending has none any more, and gets a new one.
    let mut scratch = match SCRATCH.try_with(Cell::take) {
        Ok(Some(scratch)) => scratch,
        _ => new_scratch(),
    };
    let result = work(&mut scratch);
    // In a thread that is ending it is freed, which is all that would be left to do.
    let _ = SCRATCH.try_with(|place| place.set(Some(scratch)));
    result
}

/// Zeros that come from the kernel take no memory until they are written to, which few of them ever are.
#[cold]
fn new_scratch() -> Box<[u8]> {
    vec![0; SCRATCH_BYTES].into_boxed_slice()
}

/// A record that is ready for the ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready<'a> {
    /// The callsite's number.
    pub(crate) id: u32,
    /// Whether it may use the ring's last eighth.
    pub(crate) urgent: bool,
    /// The spans around it, encoded; empty for none.
    pub(crate) scope: &'a [u8],
    /// The values, encoded.
    pub(crate) values: &'a [u8],
    /// Whether something was left out of the values.
    pub(crate) cut: bool,
}

/// Bytes in front of the spans: kind, index, `u32` length.
const SCOPE_HEAD_BYTES: usize = 6;

/// Writes the record into the thread's ring. `again` gives the callsite's number in the session that runs now, where
/// another one ran when the record was made.
#[inline]
pub(crate) fn commit(record: Ready<'_>, again: &dyn Fn() -> Option<u32>) {
    let mut record = record;
    let mut length = length_of(record);
    if length > RECORD_BYTES_MAX {
        // Values keep to the largest record by themselves; it is the spans that do not fit beside them.
        record.scope = &[];
        record.cut = true;
        length = length_of(record);
    }
    let wrote = local::write(record.id, length, record.urgent, |put| fill(put, record));
    if wrote != local::Wrote::Committed {
        write_slowly(wrote, length, record.urgent, &|put| fill(put, record), again);
    }
    if record.cut {
        local::count_cut();
    }
}

#[inline]
fn length_of(record: Ready<'_>) -> usize {
    let scope = if record.scope.is_empty() {
        0
    } else {
        SCOPE_HEAD_BYTES + record.scope.len()
    };
    align_up(HEADER_BYTES + scope + record.values.len())
}

#[inline]
fn fill(put: &mut Put<'_>, record: Ready<'_>) {
    if !record.scope.is_empty() {
        put.u8(Kind::Scope.code());
        // Spans stand alone: the index means nothing.
        put.u8(0);
        put.u32(record.scope.len() as u32);
        put.bytes(record.scope);
    }
    put.bytes(record.values);
}
