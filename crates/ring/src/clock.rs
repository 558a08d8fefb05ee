//! The clock of the hot path: raw ticks, and the calibration that turns them into wall nanoseconds.

use crate::sys;

/// Source of ticks. The code is stored in the session header.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockSource {
    /// The processor's time-stamp counter, where it is invariant.
    Tsc = 1,
    /// The virtual counter of aarch64.
    Cntvct = 2,
    /// `clock_gettime(CLOCK_MONOTONIC)` in nanoseconds.
    Monotonic = 3,
}

impl ClockSource {
    /// The best source of this machine.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if has_invariant_tsc() {
            return Self::Tsc;
        }
        #[cfg(target_arch = "aarch64")]
        return Self::Cntvct;
        #[allow(unreachable_code)]
        Self::Monotonic
    }

    /// Reads a code of the session header.
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Tsc),
            2 => Some(Self::Cntvct),
            3 => Some(Self::Monotonic),
            _ => None,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_invariant_tsc() -> bool {
    use core::arch::x86_64::__cpuid;
    // Leaf 0x8000_0007, EDX bit 8: the counter runs at a constant rate in all states.
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

/// Reads the processor's counter; on processors without one, the monotonic clock in nanoseconds.
#[inline(always)]
pub(crate) fn counter_ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let ticks: u64;
        // SAFETY: reads a counter that user mode may read on every system that we support.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
    {
        monotonic_ns()
    }
}

/// Ticks of the given source.
#[inline]
pub fn ticks_of(source: ClockSource) -> u64 {
    match source {
        ClockSource::Monotonic => monotonic_ns(),
        _ => counter_ticks(),
    }
}

/// Nanoseconds since 1970 by the system's clock.
pub fn unix_ns() -> u64 {
    sys::clock_ns(libc::CLOCK_REALTIME)
}

/// Nanoseconds of the monotonic clock.
pub fn monotonic_ns() -> u64 {
    sys::clock_ns(libc::CLOCK_MONOTONIC)
}

/// Turns ticks into nanoseconds since 1970: `unix = base_unix_ns + (ticks - base_ticks) * rate / 2^32`.
///
/// ```
/// use logdrive_ring::Calibration;
/// let clock = Calibration { base_ticks: 1_000, base_unix_ns: 5_000, ns_per_tick_q32: 2 << 32 };
/// assert_eq!(clock.unix_ns(1_010), 5_020);
/// assert_eq!(clock.unix_ns(990), 4_980);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calibration {
    /// Ticks at the anchor.
    pub base_ticks: u64,
    /// Wall clock at the anchor.
    pub base_unix_ns: u64,
    /// Nanoseconds per tick, as a fixed-point number with 32 fractional bits.
    pub ns_per_tick_q32: u64,
}

/// A jump of the wall clock beyond this is followed at once; less is worked off within a second, so that
/// the times of successive records do not run backwards.
const STEP_NS: i64 = 10_000_000;

impl Calibration {
    /// Its three words, as the session header has them.
    #[cfg(not(loom))]
    pub(crate) fn words(&self) -> [u64; 3] {
        [self.base_ticks, self.base_unix_ns, self.ns_per_tick_q32]
    }

    #[cfg(not(loom))]
    pub(crate) fn from_words([base_ticks, base_unix_ns, ns_per_tick_q32]: [u64; 3]) -> Self {
        Self {
            base_ticks,
            base_unix_ns,
            ns_per_tick_q32,
        }
    }

    /// Wall clock of the ticks. Integers only: a double would be off by 256 ns.
    #[inline]
    pub fn unix_ns(&self, ticks: u64) -> u64 {
        let delta = i128::from(ticks.wrapping_sub(self.base_ticks).cast_signed());
        // With a signed rate the product is one instruction; a rate beyond 2^63, 2^31 nanoseconds a tick, is not one.
        let ns = match i64::try_from(self.ns_per_tick_q32) {
            Ok(rate) => (delta * i128::from(rate)) >> 32,
            Err(_) => (delta * i128::from(self.ns_per_tick_q32)) >> 32,
        };
        self.base_unix_ns.wrapping_add_signed(ns as i64)
    }

    /// The anchor for the next second, from a new reading of both clocks. `told_ticks` is the newest time that was
    /// given out so far: what lies behind it goes on from there, and no later record gets an earlier time.
    #[must_use]
    fn next(&self, rate_q32: u64, ticks: u64, unix_ns: u64, told_ticks: u64) -> Self {
        let error = unix_ns.wrapping_sub(self.unix_ns(ticks)).cast_signed();
        if error.unsigned_abs() > STEP_NS.unsigned_abs() {
            return Self {
                base_ticks: ticks,
                base_unix_ns: unix_ns,
                ns_per_tick_q32: rate_q32,
            };
        }
        // A second of ticks is 2^32 * 1e9 / rate; the error is spread over it.
        let slewed = i128::from(rate_q32) + i128::from(rate_q32) * i128::from(error) / 1_000_000_000;
        // An anchor that stayed while nothing is logged would add up the rate's error over hours.
        let base_ticks = match told_ticks > self.base_ticks {
            true => told_ticks.min(ticks),
            false => ticks,
        };
        Self {
            base_ticks,
            base_unix_ns: self.unix_ns(base_ticks),
            ns_per_tick_q32: slewed.max(0) as u64,
        }
    }
}

/// Reads both clocks close together and keeps the rate between them.
#[derive(Debug)]
pub struct Calibrator {
    source: ClockSource,
    first_ticks: u64,
    first_monotonic_ns: u64,
    current: Calibration,
    last_monotonic_ns: u64,
}

/// Time between two anchors, in nanoseconds.
const RENEW_NS: u64 = 1_000_000_000;

impl Calibrator {
    /// Measures the rate for 2 ms, unless the source counts nanoseconds already.
    pub fn start(source: ClockSource) -> Self {
        let (first_ticks, first_monotonic_ns) = pair(source, monotonic_ns);
        let mut calibrator = Self {
            source,
            first_ticks,
            first_monotonic_ns,
            current: Calibration {
                base_ticks: 0,
                base_unix_ns: 0,
                ns_per_tick_q32: 1 << 32,
            },
            last_monotonic_ns: first_monotonic_ns,
        };
        if source != ClockSource::Monotonic {
            while monotonic_ns() < first_monotonic_ns + 2_000_000 {
                core::hint::spin_loop();
            }
        }
        let (base_ticks, base_unix_ns) = pair(source, unix_ns);
        calibrator.current = Calibration {
            base_ticks,
            base_unix_ns,
            ns_per_tick_q32: calibrator.rate_q32(),
        };
        calibrator
    }

    /// The calibration now in force.
    pub fn current(&self) -> Calibration {
        self.current
    }

    /// Renews the anchor when a second is over; `true` when it changed. `told_ticks` is the newest time that
    /// was given out so far: no later record gets an earlier one.
    pub fn renew(&mut self, told_ticks: u64) -> bool {
        let now = monotonic_ns();
        if now.saturating_sub(self.last_monotonic_ns) < RENEW_NS {
            return false;
        }
        self.last_monotonic_ns = now;
        let rate = self.rate_q32();
        let (ticks, unix) = pair(self.source, unix_ns);
        self.current = self.current.next(rate, ticks, unix, told_ticks);
        true
    }

    fn rate_q32(&self) -> u64 {
        if self.source == ClockSource::Monotonic {
            return 1 << 32;
        }
        let (ticks, ns) = pair(self.source, monotonic_ns);
        let ticks = u128::from(ticks.wrapping_sub(self.first_ticks).max(1));
        let ns = u128::from(ns.saturating_sub(self.first_monotonic_ns));
        ((ns << 32) / ticks) as u64
    }
}

/// The tightest of several readings of ticks around a reading of a system clock.
fn pair(source: ClockSource, clock: fn() -> u64) -> (u64, u64) {
    let mut best = (0, 0);
    let mut width = u64::MAX;
    for _ in 0..5 {
        let before = ticks_of(source);
        let ns = clock();
        let after = ticks_of(source);
        let gap = after.wrapping_sub(before);
        if gap < width {
            width = gap;
            best = (before.wrapping_add(gap / 2), ns);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_errors_are_worked_off_and_never_run_backwards() {
        let old = Calibration {
            base_ticks: 0,
            base_unix_ns: 1_000_000_000,
            ns_per_tick_q32: 1 << 32,
        };
        let new = old.next(1 << 32, 1_000_000_000, 2_000_000_000 - 5_000, 0);
        assert_eq!(new.unix_ns(1_000_000_000), old.unix_ns(1_000_000_000));
        assert!(new.unix_ns(1_000_000_001) >= old.unix_ns(1_000_000_000));
        let caught_up = new.unix_ns(2_000_000_000).abs_diff(3_000_000_000 - 5_000);
        assert!(caught_up <= 2, "{caught_up}");
    }

    #[test]
    fn what_is_told_behind_a_new_anchor_is_never_earlier_than_what_was_told_before() {
        let old = Calibration {
            base_ticks: 7,
            base_unix_ns: 1_000_000_000,
            ns_per_tick_q32: 1 << 32,
        };
        let now = 1_000_000_000;
        // The clock was slow, or fast, and records of the last 60 ms are still to be logged.
        for unix_ns in [2_009_000_000, 1_991_000_000] {
            let told = now - 60_000_000;
            let new = old.next(1 << 32, now, unix_ns, told);
            assert_eq!(new.unix_ns(told), old.unix_ns(told));
            assert!(new.unix_ns(told + 1) >= old.unix_ns(told));
            assert!(new.unix_ns(now).abs_diff(old.unix_ns(now)) < 1_000_000);
        }
        // Where nothing was logged, and where a time of the future was, the anchor is of this moment.
        for told in [0, 7, u64::MAX] {
            assert_eq!(old.next(1 << 32, now, 2_000_000_000, told).base_ticks, now);
        }
    }

    #[test]
    fn a_jump_of_the_wall_clock_is_followed_at_once() {
        let old = Calibration {
            base_ticks: 0,
            base_unix_ns: 1_000_000_000,
            ns_per_tick_q32: 1 << 32,
        };
        let new = old.next(1 << 32, 1_000_000_000, 90_000_000_000, 0);
        assert_eq!(new.unix_ns(1_000_000_000), 90_000_000_000);
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads the time-stamp counter")]
    fn calibrated_ticks_agree_with_the_wall_clock() {
        let calibrator = Calibrator::start(ClockSource::detect());
        let (ticks, unix) = pair(ClockSource::detect(), unix_ns);
        // A descheduled thread can widen any reading; a millisecond still distinguishes a wrong rate.
        assert!(calibrator.current().unix_ns(ticks).abs_diff(unix) < 1_000_000);
    }
}
