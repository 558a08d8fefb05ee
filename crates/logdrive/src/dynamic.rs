//! Records of dynamic callsites: those whose fields are only known at the call, as `tracing` and `log` have them.
//!
//! The values are encoded into a byte string of the thread ([`with_scratch`]), so that a value's own `Display` runs
//! before the ring is touched, and then copied into the ring in one go ([`commit`]).

mod encode;
pub(crate) mod limits;
mod table;

pub(crate) use encode::{Encoder, Key};
#[cfg(feature = "tracing")]
pub(crate) use table::hash_address;
pub(crate) use table::{Table, hash_words};

use crate::statement::{RecordDraft, Statement};
use crate::{runtime, sampling};
use limits::SCRATCH_BYTES;
use logdrive_drain::control::SAMPLE_FIELD;
use logdrive_ring::control::{ControlRef, KeyField, KeyedLimit};
use logdrive_ring::limits::RECORD_BYTES_SURE;
use logdrive_ring::{RecordWriter, local};
use logdrive_wire::record::{HEADER_BYTES, align_up};
use logdrive_wire::value::DynamicFields;
use logdrive_wire::{Kind, Named, Value};
use std::cell::Cell;

thread_local! {
    static SCRATCH: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// Lends the thread's byte string, whose contents mean nothing: as much of it as a record's values may take in the
/// rings of the running session. A call inside of `work` gets one of its own: a value's `Display` may log.
#[inline]
pub(crate) fn with_scratch<R>(work: impl FnOnce(&mut [u8]) -> R) -> R {
    // A thread that is ending has none any more, and gets a new one.
    let mut scratch = match SCRATCH.try_with(Cell::take) {
        Ok(Some(scratch)) => scratch,
        _ => new_scratch(),
    };
    let length = scratch.len().min(runtime::record_bytes_max() - HEADER_BYTES);
    let result = work(scratch.get_mut(..length).unwrap_or_default());
    // In a thread that is ending it is freed, which is all that would be left to do.
    let _ = SCRATCH.try_with(|place| place.set(Some(scratch)));
    result
}

/// Zeros from the kernel take no memory until they are written, and most of them never are.
#[cold]
fn new_scratch() -> Box<[u8]> {
    vec![0; SCRATCH_BYTES].into_boxed_slice()
}

/// Bytes in front of the spans: kind, index, `u32` length.
const SCOPE_HEAD_BYTES: usize = 6;

/// Writes a record into the thread's ring: the spans around it, encoded, and its values, encoded. `marked` is the number
/// of its callsite; `cut` says that something was left out of the values.
#[inline(always)]
pub(crate) fn commit<S: Statement>(statement: S, marked: u32, scope: &[u8], values: &[u8], cut: bool) {
    let length = length_of(scope, values);
    if length > RECORD_BYTES_SURE || cut {
        return commit_long(statement, marked, scope, values, cut);
    }
    let id = sampling::number(marked);
    let wrote = local::write(id, length, statement.is_urgent(), |put| fill(put, scope, values));
    if wrote != local::Wrote::Committed {
        commit_again(statement, wrote, scope, values);
    }
}

/// Writes a record that is cut, or that not every ring takes. Values keep to the longest record by themselves; it is
/// the spans that may not fit beside them.
#[cold]
#[inline(never)]
fn commit_long<S: Statement>(statement: S, marked: u32, scope: &[u8], values: &[u8], cut: bool) {
    let fits = length_of(scope, values) <= runtime::record_bytes_max();
    let scope = if fits { scope } else { &[] };
    let draft = RecordDraft::new(&statement, marked);
    let committed = draft.put(length_of(scope, values), &|put| fill(put, scope, values));
    if committed && (cut || !fits) {
        local::count_cut();
    }
}

#[cold]
#[inline(never)]
fn commit_again<S: Statement>(statement: S, wrote: local::Wrote, scope: &[u8], values: &[u8]) {
    let length = length_of(scope, values);
    RecordDraft::unnumbered(&statement).put_again(wrote, length, &|put| fill(put, scope, values));
}

/// Returns true if a record of a sample passes, whose number in the session bears marks and whose values are encoded. Adds of
/// how many calls it is one.
#[cold]
#[inline(never)]
pub(crate) fn pass_sample(control: &'static ControlRef, marked: u32, out: &mut Encoder<'_>) -> bool {
    let entry = control.entry();
    if sampling::is_one_of_many(marked) {
        let calls = sampling::one_of(entry).to_le_bytes();
        out.number(Kind::U64, Key::Inline(SAMPLE_FIELD), calls);
    }
    if !sampling::is_keyed(marked) {
        return true;
    }
    let key = sampling::key_of(entry);
    let is_key = |named: &Named<'_>| match key {
        _ if matches!(named.value, Value::Message(_) | Value::Scope(_)) => false,
        KeyField::Index(index) => named.index == Some(index),
        by_name => named.index.is_none() && KeyedLimit::named(named.key) == by_name,
    };
    let mut values = DynamicFields::new(out.written().0);
    let mut values = std::iter::from_fn(|| values.next_value().ok().flatten());
    let found = values.find(is_key).map(|named| named.value);
    sampling::pass_key(entry, found.as_ref())
}

#[inline(always)]
fn length_of(scope: &[u8], values: &[u8]) -> usize {
    let scope_bytes = if scope.is_empty() {
        0
    } else {
        SCOPE_HEAD_BYTES + scope.len()
    };
    align_up(HEADER_BYTES + scope_bytes + values.len())
}

#[inline(always)]
fn fill(put: &mut RecordWriter<'_>, scope: &[u8], values: &[u8]) {
    if !scope.is_empty() {
        put.u8(Kind::Scope.code());
        // Spans stand alone: the index means nothing.
        put.u8(0);
        put.u32(scope.len() as u32);
        put.bytes(scope);
    }
    put.bytes(values);
}
