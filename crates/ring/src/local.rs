//! The calling thread's state: its producer, its reentrancy flag, its count of disabled calls.
//!
//! The state is a thread-local without a destructor, so that the hot path reaches it by one address. A second
//! thread-local with a destructor gives the ring back when the thread ends. All states are listed, so that the end
//! of a session can send every thread to its slow path.
#![allow(unsafe_code)]

use crate::clock::{counter_ticks, monotonic_ns};
use crate::drop_reason::{DropReason, FullPolicy};
use crate::limits::{CALL_PAUSE_US, CALL_PAUSES_MAX};
use crate::producer::{Admission, Hot, Producer};
use crate::record_writer::RecordWriter;
use crate::ring::Ring;
use crate::thread_counts::slots::{self, ThreadCounts};
use crate::thread_sanitizer::Unseen;
use crate::{signals, sys};
use core::cell::{Cell, UnsafeCell};
use core::mem::{ManuallyDrop, offset_of};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrote {
    /// It is committed: it survives SIGKILL.
    Committed,
    /// It was dropped, and counted in the ring.
    Dropped,
    /// Nothing happened, and nothing is counted: the thread has no ring of the running session.
    NoRing,
    /// Nothing happened: earlier drops have to be reported first, with [`take_gap`].
    GapDue,
    /// Nothing happened: the ring has no room, and a larger one may be had, see [`replace_ring`].
    RingFull,
}

/// Source of a thread's times. A code of 8 bytes, then the address of the word, see [`thread_state`].
#[derive(Debug, Clone, Copy)]
#[repr(C, u64)]
pub enum Clock {
    /// The processor's counter.
    Counter,
    /// `clock_gettime(CLOCK_MONOTONIC)`.
    Monotonic,
    /// A word of shared memory that the drain renews at every poll.
    Coarse(&'static AtomicU64),
}

/// State of a thread. The hot path reads and writes one cache line of it, the first.
#[repr(C, align(64))]
struct Local {
    /// Set while a log call of this thread is under way; a signal handler that logs sees it, and so does the end of a
    /// session, which waits for the call.
    busy: AtomicBool,
    /// Set if the thread is one of the logger's own, which must not log.
    denied: Cell<bool>,
    policy: Cell<FullPolicy>,
    /// Set while the thread is in a [`Section`] of the logger.
    inside: Cell<bool>,
    generation: Cell<u32>,
    clock: Cell<Clock>,
    producer: UnsafeCell<ManuallyDrop<Producer>>,
    /// Calls that their level switched off, minus one: the first of them overflows to zero and lists the thread.
    disabled: AtomicU64,
    listing: Cell<Listing>,
}

/// Place of a thread in the list of all states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    /// Not yet.
    None,
    Listed,
    /// The thread is ending and has given its ring back.
    Ended,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(offset_of!(Local, producer) + size_of::<Hot>() == 64);

// What front ends in other languages rely on, see `thread_state`.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(offset_of!(Local, busy) == 0);
    assert!(offset_of!(Local, clock) == 8 && size_of::<Clock>() == 16);
    assert!(offset_of!(Local, producer) == 24);
    assert!(offset_of!(Hot, position) == 0 && offset_of!(Hot, limit) == 8 && offset_of!(Hot, mask) == 16);
    assert!(offset_of!(Hot, data) == 24 && offset_of!(Hot, header) == 32);
};

impl Local {
    const fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            denied: Cell::new(false),
            policy: Cell::new(FullPolicy::Wait),
            inside: Cell::new(false),
            generation: Cell::new(0),
            clock: Cell::new(Clock::Counter),
            producer: UnsafeCell::new(ManuallyDrop::new(Producer::detached())),
            disabled: AtomicU64::new(u64::MAX),
            listing: Cell::new(Listing::None),
        }
    }

    /// Marks a call as under way; returns whether one is, which this one interrupts.
    #[inline(always)]
    fn set_busy(&self) -> bool {
        // SAFETY: only this thread writes the word, so that a plain read of it races with no store. It takes an instruction
        // less than an atomic one, which compilers do not join with the compare.
        let is_busy = unsafe { self.busy.as_ptr().read() };
        // Relaxed, here and below: for handlers of this thread; `wait_for_calls` says what it has to others. And not one
        // atomic step, because only this thread writes: a handler in between leaves the mark as it was.
        self.busy.store(true, Ordering::Relaxed);
        is_busy
    }

    #[inline(always)]
    fn clear_busy(&self) {
        self.busy.store(false, Ordering::Relaxed);
    }

    #[inline(always)]
    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }
}

thread_local! {
    static LOCAL: Local = const { Local::new() };
    static OWNER: Owner = Owner::of_thread();
}

/// The calling thread is inside of the logger until this is dropped, and may hold its locks. A call that interrupts it, in
/// a signal handler, sees so by [`is_busy`] and takes none of them: it may only write to the ring that the thread has.
///
/// Sections are never entered on the way of a record whose callsite and thread are known.
#[derive(Debug)]
pub struct Section {
    was_inside: bool,
    _held: Option<signals::Held>,
}

impl Section {
    /// A section of microseconds: signals wait for its end, so that no handler finds a lock of the logger or of the
    /// allocator held by the thread. Two system calls.
    pub fn masked() -> Self {
        Self::enter(Some(signals::Held::new()))
    }

    /// Returns true if the calling thread is in a section, which a handler then has interrupted.
    pub fn is_open() -> bool {
        with_local(|local| local.inside.get())
    }

    /// A section that may last, such as a flush: handlers run meanwhile.
    pub fn open() -> Self {
        Self::enter(None)
    }

    fn enter(held: Option<signals::Held>) -> Self {
        let was_inside = with_local(|local| local.inside.replace(true));
        compiler_fence(Ordering::SeqCst);
        Self {
            was_inside,
            _held: held,
        }
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        with_local(|local| local.inside.set(self.was_inside));
    }
}

/// The calling thread's state. `LocalKey::with` is a call of its own where its closure is large; with this one, which
/// only takes the address, the address is all that is left.
#[inline(always)]
fn with_local<T>(work: impl FnOnce(&Local) -> T) -> T {
    let state = LOCAL.with(core::ptr::from_ref);
    // SAFETY: the state lives as long as the thread, without a destructor, and `work` ends before its thread does.
    work(unsafe { &*state })
}

/// Rises when a session starts or ends; a state of an older generation has to attach anew.
static GENERATION: AtomicU32 = AtomicU32::new(1);
/// 1 while a drain is at work.
static RUNNING: AtomicU32 = AtomicU32::new(0);
/// Disabled calls of threads that have ended.
static DISABLED_BY_ENDED_THREADS: AtomicU64 = AtomicU64::new(0);

/// The list of all states. Behind a pointer because the child of a `fork` may find it locked for ever.
static THREAD_STATES: AtomicPtr<Mutex<Vec<ThreadState>>> = AtomicPtr::new(core::ptr::null_mut());

#[derive(PartialEq, Clone, Copy)]
struct ThreadState(*const Local, *const ThreadCounts);
// SAFETY: a state is listed only while its thread lives, and others touch nothing of it but its atomics.
unsafe impl Send for ThreadState {}

fn thread_states() -> &'static Mutex<Vec<ThreadState>> {
    // SYNC(thread states): the list is initialised before its address is published.
    let mut list = THREAD_STATES.load(Ordering::Acquire);
    if list.is_null() {
        let fresh = Box::into_raw(Box::default());
        match THREAD_STATES.compare_exchange(
            core::ptr::null_mut(),
            fresh,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => list = fresh,
            Err(other) => {
                // SAFETY: `fresh` came from a box and was not published.
                drop(unsafe { Box::from_raw(fresh) });
                list = other;
            }
        }
    }
    // SAFETY: published lists are never freed.
    unsafe { &*list }
}

/// Gives the thread's ring back at the thread's end.
struct Owner(ThreadState);

impl Owner {
    fn of_thread() -> Self {
        Owner(LOCAL.with(|local| ThreadState(local, slots::address())))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _section = Section::masked();
        let _unseen = Unseen::new();
        thread_states()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|state| *state != self.0);
        LOCAL.with(|local| {
            local.listing.set(Listing::Ended);
            // Relaxed: statistics.
            let disabled = local.disabled.swap(u64::MAX, Ordering::Relaxed).wrapping_add(1);
            DISABLED_BY_ENDED_THREADS.fetch_add(disabled, Ordering::Relaxed);
            detach(local);
        });
        // SAFETY: the state is the calling thread's own.
        unsafe { &*self.0.1 }.close();
    }
}

/// Lists the calling thread, so that others find its counters and its end gives them away; `false` when it is ending.
pub(crate) fn list_thread() -> bool {
    match with_local(|local| local.listing.get()) {
        Listing::Listed => true,
        Listing::Ended => false,
        Listing::None => {
            let _section = Section::masked();
            let state = OWNER.try_with(|owner| owner.0);
            if let Ok(state) = state {
                thread_states()
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(state);
            }
            let listing = if state.is_ok() {
                Listing::Listed
            } else {
                Listing::Ended
            };
            with_local(|local| local.listing.set(listing));
            state.is_ok()
        }
    }
}

/// Writes one record of the given length, a multiple of 8 and at least 16, into the calling thread's ring.
///
/// `fill` writes the values behind the header. Never blocks unless the ring is full and its policy parks; never
/// allocates; makes no system call but that park.
#[inline(always)]
pub fn write(
    callsite_id: u32,
    length: usize,
    urgent: bool,
    fill: impl FnOnce(&mut RecordWriter<'_>),
) -> Wrote {
    write_as::<true>(callsite_id, length, urgent, fill)
}

/// As [`write()`], for gap records, which do not count as records.
pub fn write_uncounted(
    callsite_id: u32,
    length: usize,
    urgent: bool,
    fill: impl FnOnce(&mut RecordWriter<'_>),
) -> Wrote {
    write_as::<false>(callsite_id, length, urgent, fill)
}

#[inline(always)]
fn write_as<const COUNTED: bool>(
    callsite_id: u32,
    length: usize,
    urgent: bool,
    fill: impl FnOnce(&mut RecordWriter<'_>),
) -> Wrote {
    // No closure around the body: it would be a call of its own, with its captures on the stack.
    let state = LOCAL.with(core::ptr::from_ref);
    // SAFETY: the state lives as long as the thread, without a destructor, and the reference ends with this call.
    let local = unsafe { &*state };
    if local.set_busy() {
        return reentrant(local);
    }
    compiler_fence(Ordering::SeqCst);
    // SAFETY: the state is this thread's, and only `attach` and `detach` put another producer there, which the busy flag
    // turns away. What changes meanwhile are cells of this thread and one atomic.
    let producer = unsafe { &*local.producer.get() };
    if !producer.hot.fits(length) {
        let admission = slow(local, producer, length, urgent);
        if admission != Wrote::Committed {
            local.clear_busy();
            return admission;
        }
    }
    let ticks = match local.clock.get() {
        Clock::Counter => counter_ticks(),
        // Relaxed: a time, valid by itself.
        Clock::Coarse(word) => word.load(Ordering::Relaxed),
        Clock::Monotonic => monotonic_ns(),
    };
    // SAFETY: `fits`, or the slow path, admitted `length` bytes of an attached ring.
    unsafe {
        let mut put = producer.hot.space(length);
        put.zero_tail();
        // Length and callsite id in one store.
        put.u64(length as u64 | u64::from(callsite_id) << 32);
        put.u64(ticks);
        fill(&mut put);
        producer.hot.commit::<COUNTED>(length);
    }
    compiler_fence(Ordering::SeqCst);
    local.clear_busy();
    Wrote::Committed
}

/// `Committed` stands for "go on and write".
#[cold]
#[inline(never)]
fn slow(local: &Local, producer: &Producer, length: usize, urgent: bool) -> Wrote {
    // SYNC(generation): pairs with the fence of `end_generation`: either it sees our new limit and resets it, or we
    // see its generation.
    let generation = GENERATION.load(Ordering::SeqCst);
    if producer.ring().is_none() || local.generation.get() != generation {
        return Wrote::NoRing;
    }
    if producer.wants_larger(length, urgent) {
        return Wrote::RingFull;
    }
    // Relaxed: a stale value is corrected by the next look, 100 ms later. The child of a `fork` in a handler that
    // interrupts the wait has another generation.
    let admission = producer.admit(length, urgent, local.policy.get(), &|| {
        RUNNING.load(Ordering::Relaxed) != 0 && GENERATION.load(Ordering::Relaxed) == generation
    });
    // SYNC(generation)
    fence(Ordering::SeqCst);
    if local.generation.get() != GENERATION.load(Ordering::SeqCst) {
        // Relaxed: our own word.
        producer.hot.limit.store(0, Ordering::Relaxed);
    }
    match admission {
        Admission::Granted => Wrote::Committed,
        Admission::GapDue => Wrote::GapDue,
        Admission::Dropped => Wrote::Dropped,
    }
}

#[cold]
#[inline(never)]
fn reentrant(local: &Local) -> Wrote {
    // SAFETY: no reference to the whole producer is made, only to its ring, which stays as it is: the call that we
    // interrupt may be putting another producer there, and then has that one, or this one, or none.
    let ring = unsafe { &*Producer::ring_of(local.producer.get().cast()) };
    if let Some(ring) = ring {
        ring.header().count_drop(DropReason::Reentrant);
        Wrote::Dropped
    } else {
        Wrote::NoRing
    }
}

/// Counts a call of a signal handler inside of another one in the thread's ring; `false` when it has none.
pub fn count_reentrant() -> bool {
    with_local(|local| reentrant(local) == Wrote::Dropped)
}

/// Takes the drops of the calling thread that no gap record has reported yet.
pub fn take_gap() -> [u64; DropReason::COUNT] {
    with_producer(|producer| producer.ring().map(|ring| ring.header().take_unreported()))
        .flatten()
        .unwrap_or_default()
}

/// Adds drops back that could not be reported.
pub fn return_gap(counts: &[u64; DropReason::COUNT]) {
    with_producer(|producer| {
        producer
            .ring()
            .map(|ring| ring.header().return_unreported(counts))
    });
}

/// Counts a drop of the calling thread in its ring; `false` when it has none.
pub fn count_drop(reason: DropReason) -> bool {
    with_producer(|producer| producer.count_drop(reason)).unwrap_or(false)
}

/// Counts a record whose values were cut.
pub fn count_cut() {
    with_producer(|producer| producer.count_cut());
}

fn with_producer<T>(work: impl FnOnce(&Producer) -> T) -> Option<T> {
    with_local(|local| {
        if local.set_busy() {
            return None;
        }
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as in `write`.
        let result = work(unsafe { &*local.producer.get() });
        compiler_fence(Ordering::SeqCst);
        local.clear_busy();
        Some(result)
    })
}

/// Gives the calling thread a ring of the session of `generation`. `false` when the thread is ending, or inside of a
/// log call: then the ring is given back at once.
pub fn attach(producer: Producer, policy: FullPolicy, clock: Clock, generation: u32) -> bool {
    !is_denied() && list_thread() && put_producer(producer, policy, clock, generation)
}

fn put_producer(producer: Producer, policy: FullPolicy, clock: Clock, generation: u32) -> bool {
    with_local(|local| {
        if local.set_busy() {
            return false;
        }
        // SAFETY: the state is this thread's, and the busy flag keeps all its other users out.
        drop(unsafe { Producer::replace(local.producer.get().cast(), producer) });
        local.policy.set(policy);
        local.clock.set(clock);
        local.generation.set(generation);
        local.clear_busy();
        true
    })
}

/// The calling thread's ring is not to be replaced for a moment, so that its calls do what the policy says.
pub fn keep_ring() {
    with_producer(Producer::keep_ring);
}

/// Replaces the ring of the calling thread by the one that `find` returns for it, in the session of `generation`. Allocates
/// nothing. `find` returns none where there is none now.
pub fn replace_ring(
    generation: u32,
    find: impl FnOnce(&std::sync::Arc<Ring>, FullPolicy) -> Option<std::sync::Arc<Ring>>,
) -> bool {
    with_local(|local| {
        if local.generation.get() != generation || local.set_busy() {
            return false;
        }
        let place: *mut Producer = local.producer.get().cast();
        // SAFETY: the state is this thread's, and the busy flag keeps all its other users out.
        let before = unsafe { &*Producer::ring_of(place) }.clone();
        let ring = before
            .as_ref()
            .and_then(|before| find(before, local.policy.get()));
        let is_replaced = ring.is_some();
        if let (Some(ring), Some(before)) = (ring, &before) {
            // SAFETY: as above. The former producer gives its ring back when it is dropped.
            drop(unsafe { Producer::replace(place, Producer::attach_as(ring, before)) });
        }
        local.clear_busy();
        is_replaced
    })
}

/// As [`attach`], for one call of a thread that is ending and has given its ring back already: whoever attaches this way
/// calls [`detach_thread`] before the thread goes on.
pub fn attach_for_one_call(producer: Producer, policy: FullPolicy, clock: Clock, generation: u32) -> bool {
    !is_denied() && put_producer(producer, policy, clock, generation)
}

/// Returns whether the calling thread is ending and has given its ring back already.
pub fn is_ending() -> bool {
    !list_thread()
}

/// The address of the calling thread's state, for a front end in another language, which writes records as
/// [`write()`] does. It is valid until the thread ends. On systems with 64 bits it begins with these words:
///
/// | offset | bytes | what |
/// |---|---|---|
/// | 0 | 1 | whether a call is under way: set it first, check its former value, clear it last |
/// | 8 | 8 | where times come from: 0 the processor's counter, 1 `CLOCK_MONOTONIC`, 2 a word |
/// | 16 | 8 | the address of that word |
/// | 24 | 8 | position of the ring's producer |
/// | 32 | 8 | the limit up to which it may write; other threads store 0 there (relaxed) |
/// | 40 | 8 | capacity of the ring less 1 |
/// | 48 | 8 | address of the ring's data area |
/// | 56 | 8 | address of the ring's header |
///
/// Whatever does not fit below the limit goes through this crate.
pub fn thread_state() -> *mut u8 {
    LOCAL.with(|local| core::ptr::from_ref(local).cast_mut().cast())
}

/// The calling thread is one of the logger's own: it never gets a ring, so that it can never wait for itself.
pub fn deny_thread() {
    with_local(|local| local.denied.set(true));
}

/// Returns whether [`deny_thread`] was called in this thread.
pub fn is_denied() -> bool {
    with_local(|local| local.denied.get())
}

/// Gives the calling thread's ring back, if it has one.
pub fn detach_thread() {
    let _section = Section::masked();
    with_local(detach);
}

fn detach(local: &Local) {
    if local.set_busy() {
        return;
    }
    // SAFETY: the state is this thread's, and the busy flag keeps all its other users out.
    drop(unsafe { Producer::replace(local.producer.get().cast(), Producer::detached()) });
    local.clear_busy();
}

/// Returns whether the calling thread is inside of a log call or of a [`Section`], which a signal handler has interrupted;
/// then it must not take locks of the logger.
pub fn is_busy() -> bool {
    with_local(|local| local.is_busy() || local.inside.get())
}

/// Counts a call that its level switched off.
#[inline(always)]
pub fn count_disabled() {
    with_local(|local| {
        // Relaxed, and not one atomic step: only this thread writes; a signal handler in between may cost one count.
        let count = local.disabled.load(Ordering::Relaxed).wrapping_add(1);
        local.disabled.store(count, Ordering::Relaxed);
        if count == 0 {
            first_disabled();
        }
    });
}

#[cold]
#[inline(never)]
fn first_disabled() {
    // A thread that is ending is not listed any more; its calls are added at once. So are those of a handler that
    // interrupts the logger in a thread that is not listed yet.
    if (is_busy() && with_local(|local| local.listing.get()) == Listing::None) || !list_thread() {
        with_local(|local| local.disabled.store(u64::MAX, Ordering::Relaxed));
        DISABLED_BY_ENDED_THREADS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Works on the list of all states, under its lock: what is listed lives, because a thread takes itself off the list
/// before it ends.
fn with_listed<T>(work: impl FnOnce(&[ThreadState]) -> T) -> T {
    let _section = Section::masked();
    work(&thread_states().lock().unwrap_or_else(PoisonError::into_inner))
}

/// Calls that their level switched off, in all threads since the start of the program.
pub fn disabled_calls() -> u64 {
    with_listed(|list| {
        // Relaxed: statistics.
        let living = list.iter().fold(0u64, |sum, state| {
            // SAFETY: listed states live, see `with_listed`.
            let count = unsafe { &(*state.0).disabled }.load(Ordering::Relaxed);
            sum.wrapping_add(count.wrapping_add(1))
        });
        living.wrapping_add(DISABLED_BY_ENDED_THREADS.load(Ordering::Relaxed))
    })
}

/// The counters of all listed threads.
pub(crate) fn for_each_thread_counts(work: impl Fn(&ThreadCounts)) {
    with_listed(|list| {
        for state in list {
            // SAFETY: listed states live, see `with_listed`, and all in its counts is atomic.
            work(unsafe { &*state.1 });
        }
    });
}

/// The generation that [`attach`] takes.
pub fn generation() -> u32 {
    // SYNC(generation)
    GENERATION.load(Ordering::SeqCst)
}

/// A session starts: threads may attach to its rings.
pub fn start_running() {
    // SYNC(running): pairs with the store of `end_generation`; the order between starts and ends is kept.
    RUNNING.store(1, Ordering::SeqCst);
}

/// A session ends: every thread's next call takes its slow path and finds that it has no ring. Calls that are under way in
/// other threads are waited for, so that a drain that looks into the rings afterwards finds their records. A thread that is
/// kept from going on inside of its call is given up after a quarter of a second.
pub fn end_generation() {
    RUNNING.store(0, Ordering::SeqCst);
    // SYNC(generation)
    GENERATION.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    with_listed(|list| {
        for state in list {
            // SAFETY: listed states live, see `with_listed`; `limit` is atomic, and reading its address through the
            // cell makes no reference to the rest of the producer.
            let producer = unsafe { (*state.0).producer.get() }.cast::<Producer>();
            // SAFETY: as above; a field address only.
            let limit = unsafe { &(*producer).hot.limit };
            limit.store(0, Ordering::Relaxed);
        }
    });
    wait_for_calls();
}

/// Waits for calls that other threads have begun before they could see that their limit is 0.
///
/// A thread marks its call, and reads its limit then, without a fence between the two, which would cost more than the rest
/// of the call. So the mark may be seen late here; but not later than a store takes to another core, which is far less than
/// a pause. The same goes for a commit and the end of its mark: the drain's last look comes later still.
fn wait_for_calls() {
    let own = LOCAL.with(core::ptr::from_ref);
    let is_other = |state: &&ThreadState| state.0 != own;
    let mut calling: Vec<_> = with_listed(|list| list.iter().filter(is_other).copied().collect());
    for _ in 0..CALL_PAUSES_MAX {
        if calling.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_micros(CALL_PAUSE_US));
        with_listed(|list| {
            // SAFETY: listed states live, see `with_listed`, and the mark is atomic.
            let is_busy = |state: &&ThreadState| unsafe { &(*state.0).busy }.load(Ordering::Relaxed);
            let busy: Vec<_> = list.iter().filter(is_busy).collect();
            calling.retain(|state| busy.contains(&state));
        });
    }
}

static AFTER_FORK: OnceLock<fn()> = OnceLock::new();

/// Makes every child of a `fork` start without rings, and calls `handler` in it. The first handler stays.
pub fn on_fork(handler: fn()) {
    if AFTER_FORK.set(handler).is_ok() {
        sys::at_fork_child(in_child);
    }
}

extern "C" fn in_child() {
    // SYNC(generation)
    GENERATION.fetch_add(1, Ordering::SeqCst);
    // SYNC(running)
    RUNNING.store(0, Ordering::SeqCst);
    DISABLED_BY_ENDED_THREADS.store(0, Ordering::Relaxed);
    // The list may be locked by a thread that does not exist here; the child starts a list of its own.
    // SYNC(thread states)
    THREAD_STATES.store(core::ptr::null_mut(), Ordering::SeqCst);
    with_local(|local| {
        let place = local.producer.get().cast();
        // A handler has forked inside of a log call, which goes on when the handler returns, and then clears the mark. Its
        // record is the parent's: what it still stores goes to memory of the child's own.
        let is_interrupted = local.is_busy();
        // SAFETY: the child has this thread only. A call that goes on has its ring's memory where it was.
        unsafe { Producer::abandon(place, is_interrupted) };
        local.disabled.store(u64::MAX, Ordering::Relaxed);
        // It is listed with its next ring: nothing is allocated here.
        if local.listing.get() == Listing::Listed {
            local.listing.set(Listing::None);
        }
    });
    // SAFETY: the state is the calling thread's own.
    unsafe { &*slots::address() }.forget();
    if let Some(handler) = AFTER_FORK.get() {
        handler();
    }
}
