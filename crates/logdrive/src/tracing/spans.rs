//! The spans that live: a slab of places that are reused, shared by all threads.
//!
//! A span's id holds its place and the place's generation, so that an id that is kept too long finds nothing rather
//! than another span. A span keeps what stood around it when it was made; so it needs no hold on its parent, and its
//! scope can be shown when the parent has gone. Only where fields around it may change does it keep its parent alive.
//! To make, enter and close any other span takes neither a lock nor an atomic step: such a step would wait for all that
//! the thread has just written into its ring.

use super::site;
use crate::dynamic::limits::{
    FREE_SPANS_PER_THREAD_MAX, SPAN_BYTES_KEPT_MAX, SPAN_CHUNKS_MAX, SPAN_WORDS, SPANS_PER_CHUNK,
};
use logdrive_ring::local::{self, Section};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tracing_core::{Metadata, span};

/// A span's identity: the place plus one in the low half, the generation in the high half. 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpanKey(u64);

/// The span that could not be kept: there are too many.
const UNKEPT: u64 = u64::MAX;

impl SpanKey {
    /// Key that stands for no span.
    pub(super) const NONE: SpanKey = SpanKey(0);

    /// The key in an id of `tracing`.
    #[inline]
    pub(super) fn of(id: &span::Id) -> Self {
        Self(id.into_non_zero_u64().get())
    }

    /// The id for `tracing`; of no span, the id of one that is not kept.
    #[inline]
    pub(super) fn to_id(self) -> span::Id {
        span::Id::from_u64(if self.0 == 0 { UNKEPT } else { self.0 })
    }

    #[inline]
    fn new(place: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | (u64::from(place) + 1))
    }

    #[inline]
    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    fn place(self) -> Option<&'static Place> {
        let index = (self.0 as u32).checked_sub(1)? as usize;
        CHUNKS
            .get(index / SPANS_PER_CHUNK)?
            .get()?
            .get(index % SPANS_PER_CHUNK)
    }
}

/// A span as it is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'a> {
    pub(super) parent: SpanKey,
    /// The spans around it when it was made, as a record's scope has them.
    pub(super) around: &'a [u8],
    /// Its own name and fields; empty for a span that is not shown.
    pub(super) own: &'a [u8],
    /// Number of spans in the scope, with itself.
    pub(super) depth: usize,
    /// The state of all spans' fields when it was made.
    pub(super) epoch: u64,
    /// True if it holds its parent.
    pub(super) holds_parent: bool,
    /// True if the spans in it hold it: its fields may change, or those of a span that it holds.
    pub(super) is_held: bool,
}

/// A place for a span. All but the late part is written by the thread that opens the span, while the place is its own.
#[derive(Debug)]
struct Place {
    /// Generation in the high half, number of ids in use in the low half; 0 of them for a free place.
    uses: AtomicU64,
    parent: AtomicU64,
    epoch: AtomicU64,
    /// Address of the span's metadata.
    metadata: AtomicUsize,
    depth: AtomicU32,
    flags: AtomicU32,
    /// Bytes of `around`, and of `own`; the latter [`LATE`] when both are in the late part.
    around_bytes: AtomicU32,
    own_bytes: AtomicU32,
    words: [AtomicU64; SPAN_WORDS],
    late: Mutex<Late>,
}

/// Spans that are too long for the words, and those whose fields have changed.
#[derive(Debug, Default)]
struct Late {
    generation: u32,
    around: Vec<u8>,
    own: Vec<u8>,
}

const LATE: u32 = u32::MAX;
const HOLDS_PARENT: u32 = 1;
const IS_HELD: u32 = 2;

/// Rises whenever fields of a living span change.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// The state of all spans' fields.
#[inline]
pub(super) fn epoch() -> u64 {
    // SYNC(epoch): who sees the new epoch reads the new fields, and at least as new ones if the lock says so.
    EPOCH.load(Ordering::Acquire)
}

/// Fields of a living span have changed.
pub(super) fn raise_epoch() {
    // SYNC(epoch)
    EPOCH.fetch_add(1, Ordering::Release);
}

static CHUNKS: [OnceLock<Box<[Place]>>; SPAN_CHUNKS_MAX] = [const { OnceLock::new() }; SPAN_CHUNKS_MAX];
/// Number of slots that were ever used.
static USED: AtomicU32 = AtomicU32::new(0);
/// Free places that no thread keeps for itself.
static FREE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

thread_local! {
    static OWN_FREE: RefCell<OwnFree> = const { RefCell::new(OwnFree(Vec::new())) };
}

/// Free places that the thread keeps for itself; the others get them at its end.
struct OwnFree(Vec<u32>);

impl Drop for OwnFree {
    fn drop(&mut self) {
        let _section = Section::masked();
        FREE.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .append(&mut self.0);
    }
}

/// Keeps a span with one id in use; [`SpanKey::NONE`] when there are too many. `bytes` are those around it and its own.
#[inline]
pub(super) fn open(metadata: &'static Metadata<'static>, span: Span<'_>, bytes: &[u8]) -> SpanKey {
    let found = free_place().and_then(|index| Some((index, SpanKey::new(index, 0).place()?)));
    let Some((index, place)) = found else {
        return SpanKey::NONE;
    };
    // Relaxed: the place is ours since the span before was closed, which was ordered before us by the thread that
    // passed the place on.
    let uses = place.uses.load(Ordering::Relaxed) | 1;
    // SYNC(span): who sees any of what follows sees that the span before has been closed. All Relaxed for that reason.
    fence(Ordering::Release);
    place.parent.store(span.parent.0, Ordering::Relaxed);
    place.epoch.store(span.epoch, Ordering::Relaxed);
    let address = std::ptr::from_ref(metadata).addr();
    place.metadata.store(address, Ordering::Relaxed);
    place.depth.store(span.depth as u32, Ordering::Relaxed);
    let flags = u32::from(span.holds_parent) * HOLDS_PARENT + u32::from(span.is_held) * IS_HELD;
    place.flags.store(flags, Ordering::Relaxed);
    place
        .around_bytes
        .store(span.around.len() as u32, Ordering::Relaxed);
    if bytes.len() <= SPAN_WORDS * 8 {
        place.own_bytes.store(span.own.len() as u32, Ordering::Relaxed);
        place.store_words(bytes);
    } else {
        place.store_late(span, (uses >> 32) as u32);
    }
    // SYNC(span): who sees the new generation sees all of the above.
    place.uses.store(uses, Ordering::Release);
    SpanKey::new(index, (uses >> 32) as u32)
}

/// The span around a span; `None` if it has been closed.
pub(super) fn parent_of(key: SpanKey) -> Option<SpanKey> {
    let place = key.place()?;
    // Relaxed: as in `read`.
    place.read_as(key, || SpanKey(place.parent.load(Ordering::Relaxed)))
}

/// The metadata of a span; `None` if it has been closed.
pub(super) fn metadata_of(key: SpanKey) -> Option<&'static Metadata<'static>> {
    let place = key.place()?;
    // Relaxed: as in `read`.
    site::at(place.read_as(key, || place.metadata.load(Ordering::Relaxed))?)
}

/// Looks at a span; `None` if it has been closed. `look` runs no foreign code.
pub(super) fn read<R>(key: SpanKey, look: impl FnOnce(Span<'_>) -> R) -> Option<R> {
    let place = key.place()?;
    place.begin_read(key)?;
    // Relaxed, all of these: what belongs to another span is thrown away below.
    let parent = SpanKey(place.parent.load(Ordering::Relaxed));
    let epoch = place.epoch.load(Ordering::Relaxed);
    let depth = place.depth.load(Ordering::Relaxed) as usize;
    let flags = place.flags.load(Ordering::Relaxed);
    let around_bytes = place.around_bytes.load(Ordering::Relaxed) as usize;
    let own_bytes = place.own_bytes.load(Ordering::Relaxed);
    let mut bytes = [0; SPAN_WORDS * 8];
    if own_bytes != LATE {
        place.load_words(&mut bytes, around_bytes + own_bytes as usize);
    }
    place.end_read(key)?;
    let show = |around, own| {
        look(Span {
            parent,
            around,
            own,
            depth,
            epoch,
            holds_parent: flags & HOLDS_PARENT != 0,
            is_held: flags & IS_HELD != 0,
        })
    };
    if own_bytes == LATE {
        let guard = place.lock_late()?;
        let late = &guard.late;
        return (late.generation == key.generation()).then(|| show(&late.around, &late.own));
    }
    let all = bytes.get(..around_bytes + own_bytes as usize)?;
    let (around, own) = all.split_at_checked(around_bytes)?;
    Some(show(around, own))
}

/// Changes a span's own bytes; `change` says whether it did, and runs no foreign code.
pub(super) fn change(key: SpanKey, change: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
    let Some(place) = key.place() else { return false };
    let Some(mut guard) = place.lock_late() else {
        return false;
    };
    let late = &mut guard.late;
    if place.begin_read(key).is_none() {
        return false;
    }
    // Relaxed, both: the lock orders the late part, and the span cannot be closed while an id of it is in use.
    let own_bytes = place.own_bytes.load(Ordering::Relaxed);
    if own_bytes != LATE {
        let around_bytes = place.around_bytes.load(Ordering::Relaxed) as usize;
        let mut bytes = [0; SPAN_WORDS * 8];
        place.load_words(&mut bytes, around_bytes + own_bytes as usize);
        let all = bytes.get(..around_bytes + own_bytes as usize).unwrap_or(&[]);
        let (around, own) = all.split_at_checked(around_bytes).unwrap_or_default();
        late.keep(key.generation(), around, own);
    }
    if !change(&mut late.own) {
        return false;
    }
    place.own_bytes.store(LATE, Ordering::Relaxed);
    true
}

/// One more id in use; `false` if the span has been closed.
#[inline]
pub(super) fn share(key: SpanKey) -> bool {
    key.place()
        .is_some_and(|place| place.change_uses(key, 1).is_some())
}

/// One id less in use. With the last one the span is closed, and lets go of the parent that it holds; then `true`.
#[inline]
pub(super) fn release(key: SpanKey) -> bool {
    let Some(mut held) = release_one(key) else {
        return false;
    };
    while held != SpanKey::NONE
        && let Some(above) = release_one(held)
    {
        held = above;
    }
    true
}

/// The parent that it held, if the span is closed now.
#[inline]
fn release_one(key: SpanKey) -> Option<SpanKey> {
    let place = key.place()?;
    // SYNC(uses): what other threads did with their ids comes before what the next span does with the place.
    let uses = place.uses.load(Ordering::Acquire);
    let last = u64::from(key.generation()) << 32 | 1;
    if uses != last && place.change_uses(key, -1) != Some(0) {
        return None;
    }
    // With one id in use, and that ours, no other thread can change the count: an atomic step is not needed.
    let next = u64::from(key.generation().wrapping_add(1)) << 32;
    // Relaxed, all: the thread that takes the place next gets it from us.
    let holds_parent = place.flags.load(Ordering::Relaxed) & HOLDS_PARENT != 0;
    let parent = SpanKey(place.parent.load(Ordering::Relaxed));
    place.uses.store(next, Ordering::Relaxed);
    return_place(key.0 as u32 - 1);
    Some(if holds_parent { parent } else { SpanKey::NONE })
}

#[inline]
fn free_place() -> Option<u32> {
    let own = OWN_FREE.try_with(|own| own.try_borrow_mut().ok().and_then(|mut own| own.0.pop()));
    own.ok().flatten().or_else(further_place)
}

/// A place that others freed, or a new one.
#[cold]
fn further_place() -> Option<u32> {
    if local::is_busy() {
        return None;
    }
    let _section = Section::masked();
    // Not waited for: the child of a `fork` may find it locked for ever.
    if let Ok(mut free) = FREE.try_lock()
        && let Some(index) = free.pop()
    {
        // Some more, so that this is rare.
        let rest = free.len().saturating_sub(FREE_SPANS_PER_THREAD_MAX / 2);
        let _ = OWN_FREE.try_with(|own| {
            own.try_borrow_mut()
                .map(|mut own| own.0.extend(free.drain(rest..)))
        });
        return Some(index);
    }
    let index = USED.fetch_add(1, Ordering::Relaxed);
    let chunk = CHUNKS.get(index as usize / SPANS_PER_CHUNK);
    let Some(chunk) = chunk else {
        USED.fetch_sub(1, Ordering::Relaxed);
        return None;
    };
    chunk.get_or_init(|| (0..SPANS_PER_CHUNK).map(|_| Place::new()).collect());
    Some(index)
}

#[inline]
fn return_place(index: u32) {
    let kept = OWN_FREE.try_with(|own| {
        own.try_borrow_mut().is_ok_and(|mut own| {
            if own.0.len() >= FREE_SPANS_PER_THREAD_MAX {
                give_half(&mut own.0);
            }
            if own.0.len() == own.0.capacity() {
                let _section = Section::masked();
                own.0.reserve(FREE_SPANS_PER_THREAD_MAX);
            }
            own.0.push(index);
            true
        })
    });
    if kept != Ok(true) {
        let _section = Section::masked();
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(index);
    }
}

/// A thread that closes more spans than it makes gives their places to the others.
#[cold]
fn give_half(own: &mut Vec<u32>) {
    let _section = Section::masked();
    if let Ok(mut free) = FREE.try_lock() {
        free.extend(own.drain(own.len() / 2..));
    }
}

thread_local! {
    /// Set while the thread has the late part of a span.
    static HOLDS_LATE: Cell<bool> = const { Cell::new(false) };
}

/// The late part of a span, for this thread alone. The lock goes first, then the mark.
struct LateGuard<'a> {
    late: MutexGuard<'a, Late>,
    _mark: LateMark,
}

struct LateMark;

impl Drop for LateMark {
    fn drop(&mut self) {
        HOLDS_LATE.set(false);
    }
}

impl Place {
    fn new() -> Self {
        Self {
            uses: AtomicU64::new(0),
            parent: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            metadata: AtomicUsize::new(0),
            depth: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            around_bytes: AtomicU32::new(0),
            own_bytes: AtomicU32::new(0),
            words: [const { AtomicU64::new(0) }; SPAN_WORDS],
            late: Mutex::default(),
        }
    }

    /// Returns true if the place holds the span.
    #[inline]
    fn begin_read(&self, key: SpanKey) -> Option<&Self> {
        // SYNC(span)
        let uses = self.uses.load(Ordering::Acquire);
        ((uses >> 32) as u32 == key.generation() && uses as u32 != 0).then_some(self)
    }

    /// Returns what `read` reads, if it belongs to the span.
    fn read_as<R>(&self, key: SpanKey, read: impl FnOnce() -> R) -> Option<R> {
        self.begin_read(key)?;
        let value = read();
        self.end_read(key)?;
        Some(value)
    }

    /// Returns true if all that was read since the begin belongs to the span.
    #[inline]
    fn end_read(&self, key: SpanKey) -> Option<()> {
        // SYNC(span): who has read something of a later span sees that this one has been closed.
        fence(Ordering::Acquire);
        let uses = self.uses.load(Ordering::Relaxed);
        ((uses >> 32) as u32 == key.generation()).then_some(())
    }

    #[inline]
    fn store_words(&self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut places = self.words.iter();
        // Relaxed, all of these: see `open` and `read`.
        for (word, place) in words.iter().zip(&mut places) {
            place.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        if !rest.is_empty()
            && let Some(place) = places.next()
        {
            let mut word = [0; 8];
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            place.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }

    fn load_words(&self, bytes: &mut [u8; SPAN_WORDS * 8], length: usize) {
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (word, place) in words.iter_mut().zip(&self.words).take(length.div_ceil(8)) {
            *word = place.load(Ordering::Relaxed).to_le_bytes();
        }
    }

    #[cold]
    fn store_late(&self, span: Span<'_>, generation: u32) {
        if let Some(mut guard) = self.lock_late() {
            guard.late.keep(generation, span.around, span.own);
        }
        // Relaxed: as in `open`.
        self.own_bytes.store(LATE, Ordering::Relaxed);
    }

    /// `None` in a signal handler that has interrupted a thread which holds such a lock.
    fn lock_late(&self) -> Option<LateGuard<'_>> {
        if HOLDS_LATE.replace(true) {
            return None;
        }
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let _mark = LateMark;
        Some(LateGuard { late, _mark })
    }

    /// Adds to the count of a span that lives; gives the new count.
    fn change_uses(&self, key: SpanKey, change: i32) -> Option<u32> {
        // Relaxed: only the exchange below counts.
        let mut uses = self.uses.load(Ordering::Relaxed);
        loop {
            if (uses >> 32) as u32 != key.generation() || uses as u32 == 0 {
                return None;
            }
            let count = (uses as u32).checked_add_signed(change)?;
            let changed = u64::from(key.generation()) << 32 | u64::from(count);
            // SYNC(uses)
            let exchanged =
                self.uses
                    .compare_exchange_weak(uses, changed, Ordering::AcqRel, Ordering::Relaxed);
            match exchanged {
                Ok(_) => return Some(count),
                Err(other) => uses = other,
            }
        }
    }
}

impl Late {
    fn keep(&mut self, generation: u32, around: &[u8], own: &[u8]) {
        self.generation = generation;
        for (kept, bytes) in [(&mut self.around, around), (&mut self.own, own)] {
            if kept.capacity() > SPAN_BYTES_KEPT_MAX {
                *kept = Vec::new();
            }
            kept.clear();
            kept.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns metadata for tests.
    fn metadata() -> &'static Metadata<'static> {
        tracing::span!(tracing::Level::INFO, "a span")
            .metadata()
            .expect("a subscriber is set")
    }

    fn name_of(key: SpanKey) -> Option<&'static str> {
        metadata_of(key).map(Metadata::name)
    }

    fn open_with(metadata: &'static Metadata<'static>, around: &[u8], own: &[u8]) -> SpanKey {
        let span = Span {
            parent: SpanKey::NONE,
            around,
            own,
            depth: 1,
            epoch: 0,
            holds_parent: false,
            is_held: false,
        };
        open(metadata, span, &[around, own].concat())
    }

    fn bytes_of(key: SpanKey) -> Option<(Vec<u8>, Vec<u8>)> {
        read(key, |span| (span.around.to_vec(), span.own.to_vec()))
    }

    #[test]
    fn an_id_that_is_kept_too_long_finds_nothing() {
        let _capture = crate::testing::capture();
        let metadata = metadata();
        let old = open_with(metadata, b"", b"old");
        assert_eq!(name_of(old), Some("a span"));
        assert!(share(old));
        assert!(!release(old));
        assert!(release(old));
        assert!(!release(old), "it has been closed");
        assert!(!share(old) && !change(old, |_| true));
        // The same thread takes the same place again.
        let new = open_with(metadata, b"around", b"new");
        assert_eq!((new.0 as u32, name_of(old)), (old.0 as u32, None));
        assert_ne!(new, old);
        assert_eq!(bytes_of(new), Some((b"around".to_vec(), b"new".to_vec())));
        assert!(release(new));
    }

    #[test]
    fn bytes_of_every_length_are_kept_and_may_change() {
        let _capture = crate::testing::capture();
        let metadata = metadata();
        let bytes: Vec<u8> = (0..5000u32).map(|number| number as u8).collect();
        for length in (0..300).chain([1000, 5000]) {
            let (around, own) = bytes[..length].split_at(length / 3);
            let key = open_with(metadata, around, own);
            assert_eq!(bytes_of(key), Some((around.to_vec(), own.to_vec())));
            assert!(!change(key, |_| false));
            assert!(change(key, |own| {
                own.push(7);
                true
            }));
            assert_eq!(bytes_of(key), Some((around.to_vec(), [own, &[7]].concat())));
            assert!(release(key));
            assert_eq!(bytes_of(key), None);
        }
    }

    #[test]
    fn readers_see_whole_spans_or_none() {
        let _capture = crate::testing::capture();
        let metadata = metadata();
        let stop = AtomicU32::new(0);
        let shared = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while stop.load(Ordering::Relaxed) == 0 {
                        let key = SpanKey(shared.load(Ordering::Acquire));
                        let Some((around, own)) = bytes_of(key) else {
                            continue;
                        };
                        assert_eq!((around.len(), own.len()), (40, 100));
                        assert!(
                            around.iter().chain(&own).all(|byte| *byte == own[0]),
                            "{around:?} {own:?}"
                        );
                    }
                });
            }
            for round in 0..20_000u32 {
                let key = open_with(metadata, &[round as u8; 40], &[round as u8; 100]);
                shared.store(key.0, Ordering::Release);
                assert!(release(key));
            }
            stop.store(1, Ordering::Relaxed);
        });
    }

    #[test]
    fn places_wander_between_threads() {
        let _capture = crate::testing::capture();
        let metadata = metadata();
        // Made here, closed there: their places come back rather than being lost with the thread.
        let mut places = BTreeSet::new();
        for _ in 0..20 {
            let keys: Vec<SpanKey> = (0..1000).map(|_| open_with(metadata, b"", b"x")).collect();
            places.extend(keys.iter().map(|key| key.0 as u32));
            let closer = std::thread::spawn(move || keys.into_iter().filter(|key| release(*key)).count());
            assert_eq!(closer.join().unwrap(), 1000);
        }
        assert!(places.len() < 4000, "{}", places.len());
    }

    #[test]
    fn ids_of_nothing_are_harmless() {
        for key in [
            SpanKey::NONE,
            SpanKey(UNKEPT),
            SpanKey::new(u32::MAX - 1, 7),
            SpanKey::new(5_000_000, 0),
        ] {
            assert!(!share(key) && !release(key) && read(key, |_| ()).is_none());
            assert_eq!(name_of(SpanKey::of(&key.to_id())), None);
        }
    }
}
