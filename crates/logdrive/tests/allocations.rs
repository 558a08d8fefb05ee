//! No call allocates once its thread is warm: through the macros, `tracing` and `log`.
#![cfg(all(feature = "tracing", feature = "log"))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use tracing::field::Empty;
use tracing::{Span, info_span};

/// Counts what the calling thread allocates.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter any more; it is none of those that are measured.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call goes to the system's allocator, which keeps the contract of `GlobalAlloc`; the counter is a
// thread-local without a destructor, so that counting allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of a call in its thousandth round and later.
fn steady(mut call: impl FnMut(u64)) -> u64 {
    (0..1000).for_each(|round| call(black_box(round)));
    let before = ALLOCATIONS.get();
    (0..1000).for_each(|round| call(black_box(round)));
    ALLOCATIONS.get() - before
}

#[test]
fn a_call_in_a_warm_thread_allocates_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let guard = logdrive::builder("allocations-test")
        .use_env(false)
        .filter("debug")
        .run_dir(dir.path())
        .full(logdrive::Full::Block)
        .discard()
        .init()
        .expect("starts");
    tracing::subscriber::set_global_default(logdrive::tracing::subscriber()).expect("the first");
    logdrive::log::install().expect("the first");
    assert!(
        steady(|_| drop(black_box(vec![1u8]))) >= 1000,
        "the counter counts"
    );

    let customer = black_box("ACME-0000012");
    let by_macros = steady(|order| {
        logdrive::info!(order, price = 9.25, customer, "order filled");
        logdrive::info!("order {order} at {:.2}", 9.25);
        logdrive::trace!(order, "off");
    });
    assert_eq!(by_macros, 0);
    let by_events = steady(|order| {
        tracing::info!(order, price = 9.25, customer, "order filled");
        tracing::info!(shown = %order, told = ?customer, "order {order} filled");
        tracing::trace!(order, "off");
    });
    assert_eq!(by_events, 0);
    let outer = info_span!("outer", id = 3);
    let by_spans = steady(|order| {
        let _outer = outer.enter();
        let inner = info_span!("inner", order, state = Empty).entered();
        tracing::info!("in two spans");
        inner.record("state", "recorded");
        let copy = Span::clone(&inner);
        tracing::info!(parent: &copy, "after a change");
    });
    assert_eq!(by_spans, 0);
    let by_log = steady(|order| {
        log::info!("order filled");
        log::info!("order {order} at {:.2}", 9.25);
        log::info!(order, price = 9.25, customer, shown:% = order; "order filled");
        log::trace!("order {order}: off");
    });
    assert_eq!(by_log, 0);
    drop(guard);
}
