//! The spans that live: a slab of places that are reused, shared by all threads.
//!
//! A span's id holds its place and the place's generation, so that an id that is kept too long finds nothing rather
//! than another span. What a place holds lies behind a lock of its own, which is held for some nanoseconds and never
//! while foreign code runs.

use crate::dynamic::limits::{
    FREE_SPANS_PER_THREAD_MAX, SPAN_BYTES_KEPT_MAX, SPAN_CHUNKS_MAX, SPANS_PER_CHUNK,
};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tracing_core::{Metadata, span};

/// A span's identity: the place plus one in the low half, the generation in the high half. 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpanKey(u64);

/// The span that could not be kept: there are too many.
const UNKEPT: u64 = u64::MAX;

impl SpanKey {
    /// No span.
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

/// A place for a span.
#[derive(Debug)]
struct Place {
    /// Generation in the high half, number of ids in use in the low half; 0 of them for a free place.
    uses: AtomicU64,
    /// Key of the span around it. Written while the place is free.
    parent: AtomicU64,
    span: Mutex<Span>,
}

/// What is known of a span.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) metadata: Option<&'static Metadata<'static>>,
    pub(super) parent: SpanKey,
    /// Name and fields as a record's scope has them; empty for a span that is not shown.
    pub(super) bytes: Vec<u8>,
}

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
/// Places that were ever used.
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
        FREE.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .append(&mut self.0);
    }
}

/// Keeps a span with one id in use; [`SpanKey::NONE`] when there are too many. Its parent lives as long as it does.
#[inline]
pub(super) fn open(metadata: &'static Metadata<'static>, parent: SpanKey, bytes: &[u8]) -> SpanKey {
    let Some(index) = free_place() else {
        return SpanKey::NONE;
    };
    let Some(place) = SpanKey::new(index, 0).place() else {
        return SpanKey::NONE;
    };
    let parent = if share(parent) { parent } else { SpanKey::NONE };
    let mut span = lock(place);
    span.metadata = Some(metadata);
    span.parent = parent;
    if span.bytes.capacity() > SPAN_BYTES_KEPT_MAX {
        span.bytes = Vec::new();
    }
    span.bytes.clear();
    span.bytes.extend_from_slice(bytes);
    // Relaxed, here and below: the count and the parent are all that they say, and the lock orders the rest.
    place.parent.store(parent.0, Ordering::Relaxed);
    let uses = place.uses.load(Ordering::Relaxed) | 1;
    place.uses.store(uses, Ordering::Relaxed);
    SpanKey::new(index, (uses >> 32) as u32)
}

/// Looks at a span, or changes it; `None` if it has been closed. `look` runs no foreign code.
#[inline]
pub(super) fn with<R>(key: SpanKey, look: impl FnOnce(&mut Span) -> R) -> Option<R> {
    let place = key.place()?;
    let mut span = lock(place);
    is_current(place, key).then(|| look(&mut span))
}

#[inline]
fn lock(place: &Place) -> MutexGuard<'_, Span> {
    place.span.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline]
fn is_current(place: &Place, key: SpanKey) -> bool {
    let uses = place.uses.load(Ordering::Relaxed);
    (uses >> 32) as u32 == key.generation() && uses as u32 != 0
}

/// One more id in use; `false` if the span has been closed.
#[inline]
pub(super) fn share(key: SpanKey) -> bool {
    key.place()
        .is_some_and(|place| change_uses(place, key, 1).is_some())
}

/// One id less in use. With the last one the span is closed, and its parent has one less; then `true`.
#[inline]
pub(super) fn release(key: SpanKey) -> bool {
    let Some(parent) = release_one(key) else {
        return false;
    };
    let mut above = parent;
    while let Some(parent) = release_one(above) {
        above = parent;
    }
    true
}

/// The parent, if the span is closed now.
#[inline]
fn release_one(key: SpanKey) -> Option<SpanKey> {
    let place = key.place()?;
    if change_uses(place, key, -1)? != 0 {
        return None;
    }
    // Nobody else takes the place before it is returned. Who looks at the span meanwhile sees it as it was.
    let parent = SpanKey(place.parent.load(Ordering::Relaxed));
    return_place(key.0 as u32 - 1);
    Some(parent)
}

/// Adds to the count of a span that lives; gives the new count. With 0 the next generation begins.
#[inline]
fn change_uses(place: &Place, key: SpanKey, change: i32) -> Option<u32> {
    let mut uses = place.uses.load(Ordering::Relaxed);
    loop {
        if (uses >> 32) as u32 != key.generation() || uses as u32 == 0 {
            return None;
        }
        let count = (uses as u32).checked_add_signed(change)?;
        let generation = key.generation().wrapping_add(u32::from(count == 0));
        let changed = u64::from(generation) << 32 | u64::from(count);
        match place
            .uses
            .compare_exchange_weak(uses, changed, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => return Some(count),
            Err(other) => uses = other,
        }
    }
}

#[inline]
fn free_place() -> Option<u32> {
    let own = OWN_FREE
        .try_with(|own| own.try_borrow_mut().ok().and_then(|mut own| own.0.pop()))
        .ok();
    own.flatten().or_else(further_place)
}

/// A place that others freed, or a new one.
#[cold]
fn further_place() -> Option<u32> {
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
            own.0.push(index);
            true
        })
    });
    if kept != Ok(true) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(index);
    }
}

/// A thread that closes more spans than it makes gives their places to the others.
#[cold]
fn give_half(own: &mut Vec<u32>) {
    if let Ok(mut free) = FREE.try_lock() {
        free.extend(own.drain(own.len() / 2..));
    }
}

impl Place {
    fn new() -> Self {
        let span = Span {
            metadata: None,
            parent: SpanKey::NONE,
            bytes: Vec::new(),
        };
        Self {
            uses: AtomicU64::new(0),
            parent: AtomicU64::new(0),
            span: Mutex::new(span),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Some metadata.
    fn metadata() -> &'static Metadata<'static> {
        tracing::span!(tracing::Level::INFO, "a span")
            .metadata()
            .expect("a subscriber is set")
    }

    fn name_of(key: SpanKey) -> Option<&'static str> {
        with(key, |span| span.metadata.map(Metadata::name)).flatten()
    }

    #[test]
    fn an_id_that_is_kept_too_long_finds_nothing() {
        let _capture = crate::testing::capture();
        let metadata = metadata();
        let old = open(metadata, SpanKey::NONE, b"old");
        assert_eq!(name_of(old), Some("a span"));
        assert!(share(old));
        assert!(!release(old));
        assert!(release(old));
        assert!(!release(old), "it has been closed");
        assert!(!share(old));
        // The same thread takes the same place again.
        let new = open(metadata, SpanKey::NONE, b"new");
        assert_eq!((new.0 as u32, name_of(old)), (old.0 as u32, None));
        assert_ne!(new, old);
        assert_eq!(with(new, |span| span.bytes.clone()).as_deref(), Some(&b"new"[..]));
        assert!(release(new));
    }

    #[test]
    fn the_last_child_closes_its_parents() {
        let _capture = crate::testing::capture();
        let metadata = metadata();
        let mut chain = vec![open(metadata, SpanKey::NONE, b"")];
        for _ in 0..10_000 {
            let parent = chain[chain.len() - 1];
            chain.push(open(metadata, parent, b""));
        }
        let last = chain[chain.len() - 1];
        assert!(chain[..10_000].iter().all(|key| !release(*key)));
        assert!(chain.iter().all(|key| name_of(*key).is_some()));
        assert!(release(last));
        assert!(chain.iter().all(|key| name_of(*key).is_none()));
    }

    #[test]
    fn places_wander_between_threads() {
        let _capture = crate::testing::capture();
        let metadata = metadata();
        // Made here, closed there: their places come back rather than being lost with the thread.
        let mut places = BTreeSet::new();
        for _ in 0..20 {
            let keys: Vec<SpanKey> = (0..1000).map(|_| open(metadata, SpanKey::NONE, b"x")).collect();
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
            assert!(!share(key) && !release(key) && with(key, |_| ()).is_none());
            assert_eq!(name_of(SpanKey::of(&key.to_id())), None);
        }
    }
}
