//! The two probes that safe Rust does not offer: the processor's counter, and a
//! global allocator that counts the allocations of each thread.
//!
//! The counter is read without a fence, like a logger would read it: a fence
//! would add to every subject what none of them pays.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Reads the processor's time counter.
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC has no preconditions: it reads no memory, and every
        // x86-64 processor and the Linux kernel allow it in user mode.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: the instruction writes only the named output register, and
        // Linux allows CNTVCT_EL0 at exception level 0.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack));
        }
        count
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        use std::sync::OnceLock;
        static START: OnceLock<Instant> = OnceLock::new();
        let elapsed = START.get_or_init(Instant::now).elapsed();
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Length of a tick of [`ticks`] lasts.
#[derive(Clone, Copy, Debug)]
pub struct TickLength {
    nanos_per_tick: f64,
}

impl TickLength {
    /// Compares the counter with the monotonic clock for a tenth of a second.
    #[must_use]
    pub fn measure() -> TickLength {
        let (start, first_tick) = (Instant::now(), ticks());
        while start.elapsed() < Duration::from_millis(100) {
            std::hint::spin_loop();
        }
        let (elapsed, ticks_passed) = (start.elapsed(), ticks() - first_tick);
        TickLength {
            nanos_per_tick: elapsed.as_nanos() as f64 / ticks_passed.max(1) as f64,
        }
    }

    /// Converts a difference of two readings to nanoseconds.
    #[must_use]
    pub fn nanos(self, tick_count: u64) -> f64 {
        tick_count as f64 * self.nanos_per_tick
    }

    /// Converts nanoseconds to a difference of two readings.
    #[must_use]
    pub fn ticks_in(self, nanos: f64) -> u64 {
        (nanos / self.nanos_per_tick) as u64
    }
}

thread_local! {
    // Const-initialised and without a destructor, so that reading it from
    // inside the allocator can neither allocate nor fail.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Number of times that the calling thread has allocated or reallocated so far.
#[must_use]
pub fn thread_allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[inline]
fn count_one() {
    ALLOCATIONS.with(|count| count.set(count.get() + 1));
}

// SAFETY: every method hands its arguments unchanged to `System`, which meets
// the contract of `GlobalAlloc`; counting touches no memory but a thread-local
// integer.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_of_this_thread_is_counted_once() {
        let before = thread_allocations();
        let block = std::hint::black_box(Box::new(17_u64));
        assert_eq!(thread_allocations() - before, 1);
        assert_eq!(*block, 17);
    }

    #[test]
    fn the_counter_does_not_run_backwards_on_one_thread() {
        let first = ticks();
        let second = ticks();
        assert!(second >= first);
    }

    #[test]
    fn ticks_and_nanoseconds_convert_back() {
        let length = TickLength { nanos_per_tick: 0.5 };
        assert_eq!(length.ticks_in(length.nanos(1_000)), 1_000);
    }
}
