//! The rings of a session as its process has them: all of them, and those that no thread has.

use crate::RingError;
use crate::clock::monotonic_ns;
use crate::files::{RingFileName, SessionDir};
use crate::header::RingState;
use crate::limits::{
    ENDED_RINGS_MAX, FIRST_RING_BYTES, FREE_RING_ATTEMPTS, FREE_RING_PAUSE_US, PREPARED_RINGS,
    RING_BYTES_MIN, RING_GROWTH, RING_ROOM_RETRY_MS, RINGS_MAX, ROOMY_RINGS_BYTES, SMALL_FILE_SYSTEM_BYTES,
};
use crate::ring::{Ring, capacity_for, is_half_full, number, touch, unnamed_file};
use crate::session_header::SessionHeader;
use crate::waker::DrainWaker;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rings of this process's threads.
#[derive(Debug)]
pub(super) struct RingPool {
    rings: Mutex<Rings>,
    /// Held while a thread's first ring is made.
    creating: Mutex<()>,
    /// Capacity of the largest ring of a thread.
    pub(super) ring_bytes: usize,
    /// While the rings take no more than this, a small ring is replaced by one of the largest at once.
    roomy_bytes: usize,
    /// Wakes the drain of the rings.
    pub(super) waker: &'static DrainWaker,
    room: Room,
}

/// Rings of a session of an agent.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug, Default)]
pub(super) struct SpareRings {
    /// All of them.
    pub(super) all: usize,
    /// Small ones that no thread has.
    pub(super) small: usize,
    /// Such of the largest size.
    pub(super) largest: usize,
    /// Of these, those that any thread with a small ring may go on in.
    pub(super) for_newest: usize,
}

/// A ring without a number, and the name of its file.
struct NewRing {
    ring: Ring,
    name: Option<RingFileName>,
}

/// Tries to make a ring that failed: the next ones are left out for a while, so that a call that gets no ring costs little.
#[derive(Debug, Default)]
struct Room {
    /// Until then no ring is made in the session's directory.
    none_in_directory_until_ns: AtomicU64,
    /// Until then no ring is made at all.
    none_until_ns: AtomicU64,
    /// Set if a ring lies in memory of the process alone, and nobody was told.
    is_untold: AtomicBool,
    is_told: AtomicBool,
}

impl Room {
    fn is_over(until_ns: &AtomicU64) -> bool {
        // Relaxed: a hint, here and below.
        monotonic_ns() >= until_ns.load(Ordering::Relaxed)
    }

    fn wait(until_ns: &AtomicU64) {
        until_ns.store(monotonic_ns() + RING_ROOM_RETRY_MS * 1_000_000, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
pub(super) struct Rings {
    pub(super) all: Vec<Arc<Ring>>,
    /// Capacity of these together.
    bytes: usize,
    /// Rings that no thread has. Used where this process drains the session itself.
    pub(super) free: Vec<Arc<Ring>>,
    /// Places for rings that replace others.
    prepared: Vec<Arc<Ring>>,
    /// Rings that have replaced others, with the bytes of them that were touched.
    untouched: Vec<(Arc<Ring>, usize)>,
}

impl Rings {
    /// Adds a ring; while all take no more than `roomy_bytes`, one whose thread keeps logging is replaced early.
    fn add(&mut self, ring: Arc<Ring>, header: &SessionHeader, roomy_bytes: usize) {
        self.bytes += ring.capacity_bytes();
        ring.growth().set_early(self.bytes <= roomy_bytes);
        self.all.push(ring);
        header.publish_ring_count(self.all.len() as u32);
    }
}

impl RingPool {
    /// A pool without rings. `ring_bytes` is rounded up to a capacity. Rings grow step by step where their file system, which
    /// has this size, is small.
    pub(super) fn new(ring_bytes: usize, waker: DrainWaker, file_system_bytes: u64) -> Self {
        let is_small = file_system_bytes <= SMALL_FILE_SYSTEM_BYTES;
        Self {
            roomy_bytes: if is_small { 0 } else { ROOMY_RINGS_BYTES },
            rings: Mutex::default(),
            creating: Mutex::new(()),
            ring_bytes: capacity_for(ring_bytes),
            waker: crate::static_cell::keep(waker),
            room: Room::default(),
        }
    }

    /// A free ring of a session that this process drains: a small one, where there is one.
    pub(super) fn take_free(&self) -> Option<Arc<Ring>> {
        let mut rings = self.lock();
        let by_bytes = |(_, ring): &(usize, &Arc<Ring>)| ring.capacity_bytes();
        let (at, _) = rings.free.iter().enumerate().min_by_key(by_bytes)?;
        Some(rings.free.swap_remove(at))
    }

    /// As [`RingPool::take_free`], one of the largest.
    pub(super) fn take_largest(&self) -> Option<Arc<Ring>> {
        let mut rings = self.lock();
        let is_largest = |ring: &Arc<Ring>| ring.capacity_bytes() == self.ring_bytes;
        let at = rings.free.iter().position(is_largest)?;
        Some(rings.free.swap_remove(at))
    }

    /// A ring that is free by the agent's word, and that no producer of this process has by ours: a small one, where there
    /// is one.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn take_unclaimed(&self) -> Option<Arc<Ring>> {
        let rings = self.lock();
        let unclaimed = || rings.all.iter().filter(|ring| is_unclaimed(ring));
        let small = unclaimed().find(|ring| ring.capacity_bytes() < self.ring_bytes && ring.hold());
        let ring = small.or_else(|| unclaimed().find(|ring| ring.hold()))?;
        ring.set_overloaded(false);
        Some(Arc::clone(ring))
    }

    /// As [`RingPool::take_unclaimed`], one for a thread to go on in.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn take_better(&self, before: &Ring) -> Option<Arc<Ring>> {
        let rings = self.lock();
        let mut better = rings.all.iter().filter(|ring| is_better(ring, before));
        let ring = better.find(|ring| is_unclaimed(ring) && ring.hold())?;
        ring.set_overloaded(false);
        Some(Arc::clone(ring))
    }

    /// Counts the rings of a session of an agent.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn stock(&self) -> SpareRings {
        let rings = self.lock();
        let is_small = |ring: &Arc<Ring>| ring.capacity_bytes() < self.ring_bytes;
        let newest = rings
            .all
            .iter()
            .rposition(|ring| is_small(ring) && ring.is_held());
        let mut stock = SpareRings {
            all: rings.all.len(),
            ..SpareRings::default()
        };
        for (index, ring) in rings
            .all
            .iter()
            .enumerate()
            .filter(|(_, ring)| is_unclaimed(ring))
        {
            match is_small(ring) {
                true => stock.small += 1,
                false => {
                    stock.largest += 1;
                    stock.for_newest += usize::from(newest.is_none_or(|newest| index > newest));
                }
            }
        }
        stock
    }

    /// Waits for a ring of an ended thread. After many have ended, their rings will be free as soon as the drain has
    /// drained them: that is worth a short wait, because memory for a ring of every short thread is not.
    pub(super) fn wait_for_ended(&self, take: impl Fn() -> Option<Arc<Ring>>) -> Option<Arc<Ring>> {
        for _ in 0..FREE_RING_ATTEMPTS {
            let ended = |rings: &Rings| {
                let ended = |ring: &&Arc<Ring>| ring.header().state() == RingState::Ended;
                rings.all.iter().filter(ended).nth(ENDED_RINGS_MAX).is_some()
            };
            if !ended(&self.lock()) {
                return None;
            }
            self.waker.wake();
            std::thread::sleep(std::time::Duration::from_micros(FREE_RING_PAUSE_US));
            if let Some(ring) = take() {
                return Some(ring);
            }
        }
        None
    }

    /// Makes a ring in the session's directory; where there is no room for it, in memory of the process alone,
    /// if it may be.
    pub(super) fn make(
        &self,
        dir: Option<&SessionDir>,
        header: &SessionHeader,
        ring_bytes: usize,
        may_be_private: bool,
    ) -> Result<Arc<Ring>, RingError> {
        self.check_room()?;
        // One at a time, but without the list's lock: who finds a ring in stock does not wait for others' files.
        let _making = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_room()?;
        check_count(self.lock().all.len())?;
        let made = match dir.and_then(|dir| self.make_in_directory(dir, ring_bytes)) {
            Some(made) => made,
            None if !may_be_private => return Err(no_room()),
            None => self
                .make_private(dir, ring_bytes, true)
                .inspect_err(|_| Room::wait(&self.room.none_until_ns))?,
        };
        let mut ring = Arc::new(made.ring);
        match self.enter_new(dir, header, &mut ring, made.name, true) {
            true => Ok(ring),
            false => Err(no_room()),
        }
    }

    fn check_room(&self) -> Result<(), RingError> {
        match Room::is_over(&self.room.none_until_ns) {
            true => Ok(()),
            false => Err(no_room()),
        }
    }

    fn make_in_directory(&self, dir: &SessionDir, ring_bytes: usize) -> Option<NewRing> {
        if !Room::is_over(&self.room.none_in_directory_until_ns) {
            return None;
        }
        let made = self.make_file_ring(dir, ring_bytes, true);
        if made.is_none() {
            Room::wait(&self.room.none_in_directory_until_ns);
        }
        made
    }

    fn make_file_ring(&self, dir: &SessionDir, ring_bytes: usize, populate: bool) -> Option<NewRing> {
        let (file, name) = dir.create_ring_file(Ring::file_bytes(ring_bytes)).ok()?;
        let made = Ring::create(&file, Path::new("ring"), ring_bytes, populate, Some(self.waker));
        if made.is_err() {
            dir.remove_ring_file(name);
        }
        Some(NewRing {
            ring: made.ok()?,
            name: Some(name),
        })
    }

    /// Makes a ring in memory that ends with the process. An empty file has its place in the directory.
    fn make_private(
        &self,
        dir: Option<&SessionDir>,
        ring_bytes: usize,
        populate: bool,
    ) -> Result<NewRing, RingError> {
        let file = unnamed_file(ring_bytes)?;
        let ring = Ring::create(&file, Path::new("ring"), ring_bytes, populate, Some(self.waker))?;
        ring.growth().set_private();
        // Relaxed: a flag.
        if !self.room.is_told.swap(true, Ordering::Relaxed) {
            self.room.is_untold.store(true, Ordering::Relaxed);
        }
        // A file that is missing is reported by a recoverer as one that cannot be opened.
        let name = dir
            .and_then(|dir| dir.create_ring_file(0).ok())
            .map(|(_, name)| name);
        Ok(NewRing { ring, name })
    }

    /// Gives a new ring its number, adds it, and publishes it to other processes. Returns false where there is no place for
    /// it; then nothing is left of its file. The lists stay where they are on the heap, unless `may_allocate`.
    fn enter_new(
        &self,
        dir: Option<&SessionDir>,
        header: &SessionHeader,
        ring: &mut Arc<Ring>,
        name: Option<RingFileName>,
        may_allocate: bool,
    ) -> bool {
        self.set_growth(ring);
        let mut rings = self.lock();
        let index = rings.all.len();
        let has_place = index < RINGS_MAX && (may_allocate || index < rings.all.capacity());
        let named = |name| dir.is_some_and(|dir| dir.number_ring_file(name, index as u32).is_ok());
        // A private ring does without a file.
        let is_numbered = has_place
            && (name.is_none_or(named) || ring.growth().is_private())
            && Arc::get_mut(ring)
                .map(|ring| number(ring, index as u32))
                .is_some();
        if is_numbered {
            rings.add(Arc::clone(ring), header, self.roomy_bytes);
        } else if let (Some(dir), Some(name)) = (dir, name) {
            dir.remove_ring_file(name);
        }
        is_numbered
    }

    /// Capacity of a thread's first ring.
    pub(super) fn first_bytes(&self) -> usize {
        self.ring_bytes.min(FIRST_RING_BYTES)
    }

    /// A larger ring for a thread in the place of the one that it has, with a higher number, so that of records of the same
    /// time those of the smaller ring come first. Allocates nothing on the heap, because a handler may have interrupted
    /// the program's allocator. Without room the thread keeps its ring, and asks again after a while.
    pub(super) fn replace(
        &self,
        dir: Option<&SessionDir>,
        header: &SessionHeader,
        before: &Ring,
    ) -> Option<Arc<Ring>> {
        let mut rings = self.lock();
        if rings.bytes > self.roomy_bytes && before.growth().is_early() {
            before.growth().set_early(false);
            if !is_half_full(before) {
                return None;
            }
        }
        if let Some(at) = rings.free.iter().position(|ring| is_better(ring, before)) {
            return Some(rings.free.swap_remove(at));
        }
        drop(rings);
        let larger = self.make_larger(dir, header, before);
        if larger.is_none() {
            before
                .growth()
                .set_at(monotonic_ns() + RING_ROOM_RETRY_MS * 1_000_000);
        }
        larger
    }

    fn make_larger(
        &self,
        dir: Option<&SessionDir>,
        header: &SessionHeader,
        before: &Ring,
    ) -> Option<Arc<Ring>> {
        let stepped_bytes = (before.capacity_bytes() * RING_GROWTH).min(self.ring_bytes);
        let mut rings = self.lock();
        let ring_bytes = match rings.bytes <= self.roomy_bytes {
            true => self.ring_bytes,
            false => stepped_bytes,
        };
        let mut place = rings.prepared.pop()?;
        drop(rings);
        // Records of a ring of the directory survive the process; they are not exchanged for more room. The pages are
        // touched one by one: the lock of the process's addresses is held while a call touches all, and others wait for it.
        let make = |ring_bytes| match before.growth().is_private() {
            true => self.make_private(dir, ring_bytes, false).ok(),
            false => dir.and_then(|dir| self.make_file_ring(dir, ring_bytes, false)),
        };
        let is_smaller = stepped_bytes < ring_bytes;
        let made = make(ring_bytes).or_else(|| is_smaller.then(|| make(stepped_bytes)).flatten());
        if let (Some(made), Some(to)) = (made, Arc::get_mut(&mut place)) {
            *to = made.ring;
            if self.enter_new(dir, header, &mut place, made.name, false) {
                let mut rings = self.lock();
                if rings.untouched.len() < rings.untouched.capacity() {
                    rings.untouched.push((Arc::clone(&place), 0));
                }
                return Some(place);
            }
        }
        if let Some(to) = Arc::get_mut(&mut place) {
            *to = Ring::prepared();
        }
        self.lock().prepared.push(place);
        None
    }

    /// Touches pages of a ring that has replaced a smaller one: the call that made it took none of the time for that.
    pub(super) fn touch(&self, bytes: usize) {
        let Some((ring, touched)) = self.lock().untouched.pop() else {
            return;
        };
        touch(&ring, touched, bytes);
        let touched = touched + bytes;
        if touched < ring.capacity_bytes() {
            self.lock().untouched.push((ring, touched));
        }
    }

    /// Has a ring replaced when it fills, if there are larger ones.
    pub(super) fn set_growth(&self, ring: &Ring) {
        if ring.capacity_bytes() < self.ring_bytes {
            ring.growth().set_at(0);
        }
    }

    /// Makes places for rings that may replace others. For a thread that gets its first ring, and may allocate.
    pub(super) fn prepare(&self) {
        if self.ring_bytes <= self.first_bytes() {
            return;
        }
        let mut rings = self.lock();
        let wanted = PREPARED_RINGS * (rings.all.len() - rings.free.len() + 1);
        while rings.prepared.len() < wanted {
            rings.prepared.push(Arc::new(Ring::prepared()));
        }
        // Room for these in both lists.
        let (all, free) = (wanted, rings.all.len() + wanted - rings.free.len());
        rings.all.reserve(all);
        rings.free.reserve(free);
        rings.untouched.reserve(wanted);
    }

    /// Returns once whether a ring lies in memory of the process alone.
    pub(super) fn take_is_private(&self) -> bool {
        // Relaxed: a flag.
        self.room.is_untold.swap(false, Ordering::Relaxed)
    }

    /// Adds a ring, and publishes it to other processes. Returns the lock under which that was done.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn enter(
        &self,
        ring: Arc<Ring>,
        header: &SessionHeader,
    ) -> Result<MutexGuard<'_, Rings>, RingError> {
        let mut rings = self.lock();
        check_count(rings.all.len())?;
        // An agent has few larger rings in stock: for threads whose rings fill.
        rings.add(ring, header, 0);
        Ok(rings)
    }

    /// Rings with numbers from `first` on.
    pub(super) fn from(&self, first: usize) -> Vec<Arc<Ring>> {
        self.lock().all.get(first..).unwrap_or(&[]).to_vec()
    }

    /// Takes a finished ring back, for the next thread.
    pub(super) fn recycle(&self, ring: &Arc<Ring>) {
        ring.set_overloaded(false);
        self.set_growth(ring);
        ring.header().store_state(RingState::Free);
        self.lock().free.push(Arc::clone(ring));
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the agent has freed a ring that no producer of this process has.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn is_unclaimed(ring: &Ring) -> bool {
    ring.header().state() == RingState::Free && !ring.is_held()
}

/// Returns whether a thread may go on in a ring after another one: what it holds survives as long, and its number is higher.
fn is_better(ring: &Ring, before: &Ring) -> bool {
    ring.index() > before.index()
        && ring.capacity_bytes() > before.capacity_bytes()
        && ring.growth().is_private() <= before.growth().is_private()
}

fn no_room() -> RingError {
    RingError::NoRoom {
        path: "ring".into(),
        bytes: RING_BYTES_MIN as u64,
    }
}

fn check_count(rings: usize) -> Result<(), RingError> {
    if rings < RINGS_MAX {
        return Ok(());
    }
    Err(RingError::Limit {
        what: "rings of a session",
        limit: RINGS_MAX as u64,
    })
}
