//! The circuit breaker of one member: after some failures in a row nothing is sent there for a while, then a few calls
//! try it.

use std::time::Duration;

/// Options of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerOptions {
    /// Failures in a row that open it. Default: 5.
    pub failures: u32,
    /// Time that it stays open. Default: 5 s.
    pub open: Duration,
    /// Number of attempts at once when that time is over. Default: 1.
    pub probes: u32,
    /// Number of those that must succeed to close it. Default: 1.
    pub successes: u32,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self {
            failures: 5,
            open: Duration::from_secs(5),
            probes: 1,
            successes: 1,
        }
    }
}

/// State of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Attempts pass.
    Closed {
        /// Failures in a row so far.
        failures: u32,
    },
    /// No attempt passes before this time.
    Open {
        /// On the caller's clock.
        until_ns: u64,
    },
    /// A few attempts are made to learn whether the member is back.
    HalfOpen {
        /// Attempts that are being made.
        probes: u32,
        /// Attempts that have succeeded.
        successes: u32,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Breaker {
    options: BreakerOptions,
    state: BreakerState,
    /// Times that it has opened.
    pub(super) opened: u64,
}

impl Breaker {
    pub(super) fn new(options: BreakerOptions) -> Self {
        Self {
            options,
            state: BreakerState::Closed { failures: 0 },
            opened: 0,
        }
    }

    pub(super) fn state(&self) -> BreakerState {
        self.state
    }

    /// Returns whether a call may use the member now.
    pub(super) fn lets_pass(&self, now_ns: u64) -> bool {
        match self.state {
            BreakerState::Closed { .. } => true,
            BreakerState::Open { until_ns } => now_ns >= until_ns,
            BreakerState::HalfOpen { probes, .. } => probes < self.options.probes.max(1),
        }
    }

    /// A call uses the member, and will report its outcome.
    pub(super) fn pass(&mut self) {
        self.state = match self.state {
            BreakerState::Open { .. } => BreakerState::HalfOpen {
                probes: 1,
                successes: 0,
            },
            BreakerState::HalfOpen { probes, successes } => BreakerState::HalfOpen {
                probes: probes + 1,
                successes,
            },
            closed => closed,
        };
    }

    pub(super) fn succeeded(&mut self) {
        self.state = match self.state {
            BreakerState::Closed { .. } => BreakerState::Closed { failures: 0 },
            BreakerState::HalfOpen { probes, successes } if successes + 1 < self.options.successes => {
                BreakerState::HalfOpen {
                    probes: probes.saturating_sub(1),
                    successes: successes + 1,
                }
            }
            BreakerState::HalfOpen { .. } => BreakerState::Closed { failures: 0 },
            // A call that began before the breaker opened: one success does not close it.
            open @ BreakerState::Open { .. } => open,
        };
    }

    pub(super) fn failed(&mut self, now_ns: u64) {
        let opens = match self.state {
            BreakerState::Closed { failures } if failures + 1 < self.options.failures => {
                self.state = BreakerState::Closed {
                    failures: failures + 1,
                };
                false
            }
            BreakerState::Open { .. } => false,
            _ => true,
        };
        if opens {
            let open_ns = u64::try_from(self.options.open.as_nanos()).unwrap_or(u64::MAX);
            self.state = BreakerState::Open {
                until_ns: now_ns.saturating_add(open_ns),
            };
            self.opened += 1;
        }
    }

    /// A call that was admitted has not used the member after all.
    pub(super) fn withdrawn(&mut self) {
        if let BreakerState::HalfOpen { probes, .. } = &mut self.state {
            *probes = probes.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_by_successful_probes() {
        let mut breaker = Breaker::new(BreakerOptions {
            failures: 3,
            open: Duration::from_secs(10),
            probes: 2,
            successes: 2,
        });
        breaker.failed(0);
        breaker.failed(0);
        breaker.succeeded();
        breaker.failed(S);
        breaker.failed(S);
        assert!(breaker.lets_pass(S), "not in a row");
        breaker.failed(S);
        assert!(!breaker.lets_pass(10 * S) && breaker.lets_pass(11 * S));
        breaker.pass();
        assert!(breaker.lets_pass(11 * S), "a second probe");
        breaker.pass();
        assert!(!breaker.lets_pass(99 * S), "and no third");
        breaker.succeeded();
        assert!(matches!(
            breaker.state(),
            BreakerState::HalfOpen { successes: 1, .. }
        ));
        breaker.succeeded();
        assert_eq!(breaker.state(), BreakerState::Closed { failures: 0 });
        assert_eq!(breaker.opened, 1);
    }

    #[test]
    fn a_probe_that_fails_opens_it_again_and_one_that_did_not_go_gives_its_place_back() {
        let mut breaker = Breaker::new(BreakerOptions {
            failures: 1,
            open: Duration::from_secs(1),
            ..BreakerOptions::default()
        });
        breaker.failed(0);
        breaker.pass();
        assert!(!breaker.lets_pass(2 * S));
        breaker.withdrawn();
        assert!(breaker.lets_pass(2 * S));
        breaker.pass();
        breaker.failed(2 * S);
        assert_eq!(breaker.state(), BreakerState::Open { until_ns: 3 * S });
        breaker.succeeded();
        assert!(!breaker.lets_pass(2 * S), "a late word of before changes nothing");
        assert_eq!(breaker.opened, 2);
    }
}
