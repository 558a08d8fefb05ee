//! `callsite`: what one log call costs the thread that makes it.
//!
//! Threads log in bursts of 20 calls and then are busy for a millisecond, as a
//! program with other work would be. Of every two bursts one is timed as a
//! whole (`mean20`) and one call by call. Nothing is subtracted: the floor
//! `clock` shows what the measurement itself and one reading of the clock cost,
//! and the floor `stores` what it costs to keep the values besides; `std-fmt` is
//! what `std` takes to make the message's text, the floor of `log`, and
//! `tracing-visit` what `tracing` takes to show the values to anybody. On a shared
//! machine a neighbour empties the caches in that millisecond, and then every
//! line touched counts: `stores` says how much.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Duration;

use crate::harness::{About, Case, Job, Measure, Metric, Samples, Scale, Workload, runs};
use crate::probe::{TickLength, thread_allocations, ticks};
use crate::subjects::foreign::{Language, report_missing};
use crate::subjects::{self, Full, Subject, Target, Visitor};
use crate::{BenchError, Result};

const BURST_CALLS: usize = 20;
const BUSY_NANOS: f64 = 1e6;
const FULL_BURSTS: u64 = 4_000;
const QUICK_BURSTS: u64 = 300;

/// Bursts before the first one that counts.
const WARM_BURSTS: u64 = 50;

/// A batch of back-to-back calls is short enough for every queue: 4 threads
/// fill half of the 8,192 places of the smallest.
const TIGHT_CALLS: u64 = 1_000;

/// The pause in which a logger's thread empties what a batch has filled.
const TIGHT_PAUSE: Duration = Duration::from_millis(10);

const FULL_BATCHES: u64 = 100;
const QUICK_BATCHES: u64 = 20;

const CUSTOMERS: [&str; 8] = [
    "acme-ltd",
    "globex-42",
    "initech-uk",
    "umbrella-de",
    "soylent-corp",
    "hooli-limited",
    "stark-industry",
    "wayne-holdings7",
];

const RIVALS: [&str; 8] = [
    "clock",
    "stores",
    "std-fmt",
    "tracing-visit",
    "spdlog-rs-sync",
    "spdlog-rs-async",
    "tracing-bufwriter",
    "tracing-appender",
];
const OURS: [&str; 7] = [
    "logdrive",
    "logdrive-agent",
    "logdrive-coarse",
    "logdrive-disabled",
    "logdrive-sampled",
    "logdrive-tracing",
    "logdrive-log",
];

/// Programs in C++, which measure themselves in the same way. Those with
/// `-two` have two values, a u64 and an f64.
const CPP: [&str; 8] = [
    "glog",
    "glog-two",
    "spdlog-sync",
    "spdlog-async",
    "logdrive-cpp",
    "logdrive-cpp-glog",
    "logdrive-cpp-glog-two",
    "logdrive-cpp-vlog-off",
];

/// Loggers of Go, which measure themselves in the same way.
const GO: [&str; 9] = [
    "slog-noop",
    "slog",
    "zap-buffered",
    "zerolog-buffered",
    "phuslu-async",
    "logdrive-go",
    "logdrive-go-coarse",
    "logdrive-go-disabled",
    "logdrive-go-slog",
];

const METRICS: &[Metric] = &[
    Metric::new("mean20_p50_ns", "ns", 1),
    Metric::new("mean20_p99_ns", "ns", 1),
    Metric::new("call_p99_ns", "ns", 0),
    Metric::new("call_p999_ns", "ns", 0),
    Metric::new("call_max_ns", "ns", 0),
    Metric::new("tight_ns", "ns", 1),
    Metric::new("allocs", "allocations per call", 2),
];

/// The workload.
pub struct Callsite;

impl Workload for Callsite {
    fn about(&self) -> About {
        About::new("callsite", METRICS).with_floor("mean20_p50_ns", "clock")
    }

    fn title(&self, scale: Scale) -> String {
        format!(
            "a call with a u64, f64, i32 and string, {} bursts of {BURST_CALLS}, then 1 ms busy",
            scale.pick(FULL_BURSTS, QUICK_BURSTS)
        )
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        let cpp = CPP.iter().filter(|name| Language::Cpp.is_built(name));
        let go = GO.iter().filter(|name| Language::Go.is_built(name));
        let subjects: Vec<_> = RIVALS.iter().chain(&OURS).chain(cpp).chain(go).collect();
        let case = |threads: u64, subject: &'static str| {
            Case::new(subject)
                .param("threads", threads)
                .setting("bursts", scale.pick(FULL_BURSTS, QUICK_BURSTS))
                .setting("batches", scale.pick(FULL_BATCHES, QUICK_BATCHES))
        };
        let with = |threads| subjects.iter().map(move |subject| case(threads, subject));
        with(1).chain(with(4)).collect()
    }

    fn prepare(&self, _: Scale, _: &mut Vec<Case>, _: Measure<'_>) -> Result<()> {
        report_missing(&CPP);
        Ok(())
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let path = runs::scratch_file("callsite")?;
        let setting = |key| (key, job.number(key).to_string());
        let full = ("full", "block".to_owned());
        let settings = [full, setting("threads"), setting("bursts"), setting("batches")];
        let samples = match job.subject.as_str() {
            name if GO.contains(&name) => Language::Go.measure(name, "callsite", &path, &settings),
            name if CPP.contains(&name) => Language::Cpp.measure(name, "callsite", &path, &settings),
            name => subjects::visit(name, &Target::new(&path, Full::Block), Plan::of(job)),
        };
        // The floor writes no file.
        let _ = std::fs::remove_file(&path);
        samples
    }
}

/// Work of each thread.
#[derive(Clone, Copy)]
struct Plan {
    threads: u64,
    bursts: u64,
    batches: u64,
    tick: TickLength,
}

impl Plan {
    fn of(job: &Job) -> Plan {
        Plan {
            threads: job.number("threads").max(1),
            bursts: job.number("bursts"),
            batches: job.number("batches"),
            tick: TickLength::measure(),
        }
    }
}

/// Measurements of one thread, in ticks.
#[derive(Default)]
struct Measured {
    bursts: Vec<u64>,
    calls: Vec<u64>,
    tight: Vec<u64>,
    allocations: u64,
    allocation_calls: u64,
}

impl Visitor for Plan {
    type Output = Samples;

    fn visit<S: Subject>(self, subject: S) -> Result<Samples> {
        let ready = Barrier::new(usize::try_from(self.threads).unwrap_or(1));
        let measured: Vec<Measured> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|_| scope.spawn(|| self.measure_thread(&subject, &ready)))
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.filter_map(std::thread::Result::ok).collect()
        });
        subject.finish()?;
        if measured.len() as u64 != self.threads {
            return Err(BenchError::subject("callsite", "a thread panicked"));
        }
        Ok(self.summarise(measured))
    }
}

impl Plan {
    fn measure_thread<S: Subject>(&self, subject: &S, ready: &Barrier) -> Measured {
        let half = usize::try_from(self.bursts / 2).unwrap_or(0) + 1;
        let mut measured = Measured {
            bursts: Vec::with_capacity(half),
            calls: Vec::with_capacity(half * BURST_CALLS),
            ..Measured::default()
        };
        ready.wait();
        for number in 0..WARM_BURSTS {
            timed_burst(subject, number);
            timed_calls(subject, number);
            self.stay_busy();
        }
        for number in 0..self.bursts {
            if number % 2 == 0 {
                let before = thread_allocations();
                let burst = timed_burst(subject, number);
                measured.allocations += thread_allocations() - before;
                measured.allocation_calls += BURST_CALLS as u64;
                measured.bursts.push(burst);
            } else {
                measured.calls.extend(timed_calls(subject, number));
            }
            self.stay_busy();
        }
        for _ in 0..self.batches {
            std::thread::sleep(TIGHT_PAUSE);
            measured.tight.push(timed_batch(subject));
        }
        measured
    }

    fn stay_busy(&self) {
        let end = ticks() + self.tick.ticks_in(BUSY_NANOS);
        while ticks() < end {
            std::hint::spin_loop();
        }
    }

    fn summarise(&self, threads: Vec<Measured>) -> Samples {
        let mut all = Measured::default();
        for thread in threads {
            all.bursts.extend(thread.bursts);
            all.calls.extend(thread.calls);
            all.tight.extend(thread.tight);
            all.allocations += thread.allocations;
            all.allocation_calls += thread.allocation_calls;
        }
        all.bursts.sort_unstable();
        all.calls.sort_unstable();
        all.tight.sort_unstable();
        let nanos = |sorted: &[u64], share: f64| self.tick.nanos(quantile(sorted, share));
        let burst_calls = BURST_CALLS as f64;
        Samples::default()
            .with("mean20_p50_ns", nanos(&all.bursts, 0.5) / burst_calls)
            .with("mean20_p99_ns", nanos(&all.bursts, 0.99) / burst_calls)
            .with("call_p99_ns", nanos(&all.calls, 0.99))
            .with("call_p999_ns", nanos(&all.calls, 0.999))
            .with("call_max_ns", nanos(&all.calls, 1.0))
            .with("tight_ns", nanos(&all.tight, 0.5) / TIGHT_CALLS as f64)
            .with(
                "allocs",
                all.allocations as f64 / all.allocation_calls.max(1) as f64,
            )
    }
}

/// The value that the given share of the sorted values does not exceed.
fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[inline]
fn call<S: Subject>(subject: &S, number: u64) {
    let customer = CUSTOMERS[(number % CUSTOMERS.len() as u64) as usize];
    // The values depend on a number that the compiler does not know; hiding
    // each of them would cost more than a call that is switched off.
    subject.four(number, number as f64 * 0.25, number as i32, customer);
}

#[inline(never)]
fn timed_burst<S: Subject>(subject: &S, number: u64) -> u64 {
    let number = black_box(number);
    let start = ticks();
    for index in 0..BURST_CALLS as u64 {
        call(subject, number + index);
    }
    ticks() - start
}

#[inline(never)]
fn timed_calls<S: Subject>(subject: &S, number: u64) -> [u64; BURST_CALLS] {
    let number = black_box(number);
    let mut times = [0; BURST_CALLS];
    let mut last = ticks();
    for (index, time) in times.iter_mut().enumerate() {
        call(subject, number + index as u64);
        let now = ticks();
        *time = now - last;
        last = now;
    }
    times
}

#[inline(never)]
fn timed_batch<S: Subject>(subject: &S) -> u64 {
    let number = black_box(0);
    let start = ticks();
    for index in 0..TIGHT_CALLS {
        call(subject, number + index);
    }
    ticks() - start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<u64> = (1..=100).collect();
        assert_eq!(quantile(&values, 0.5), 50);
        assert_eq!(quantile(&values, 0.99), 99);
        assert_eq!(quantile(&values, 1.0), 100);
        assert_eq!(quantile(&[], 0.5), 0);
    }

    #[test]
    fn customers_have_8_to_15_bytes() {
        assert!(CUSTOMERS.iter().all(|name| (8..=15).contains(&name.len())));
    }
}
