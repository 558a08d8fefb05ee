//! From two looks to rates: what grew between them, a second.

use super::sample::{Process, Sample, Site, Sites};
use logdrive_ring::CallsiteTotals;
use serde::Serialize;
use std::collections::HashMap;

/// A process with its rates.
#[derive(Debug, Clone)]
pub(super) struct ProcessRow {
    pub(super) process: Process,
    pub(super) rates: Rates,
}

/// Rates of a process, per second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(super) struct Rates {
    pub(super) records_per_s: f64,
    pub(super) bytes_per_s: f64,
    pub(super) drops_per_s: f64,
    pub(super) sampled_out_per_s: f64,
    /// Seconds that the slowest sink needs for what is on its way; `None` where its speed is not known.
    pub(super) lag_s: Option<f64>,
}

/// A callsite with its rates.
#[derive(Debug, Clone)]
pub(super) struct SiteRow {
    pub(super) site: Site,
    pub(super) rates: Rates,
}

/// The rates of all processes. One that was not there before, or has begun anew, has none yet.
pub(super) fn of_processes(before: Option<&Sample>, now: Sample) -> Vec<ProcessRow> {
    let known: HashMap<&str, &Process> = before.map_or_else(HashMap::new, |before| {
        let by_key = before.processes.iter();
        by_key.map(|process| (process.key.as_str(), process)).collect()
    });
    let seconds = before.map_or(0.0, |before| seconds_between(before.at_ns, now.at_ns));
    now.processes
        .into_iter()
        .map(|process| {
            let rates = match known.get(process.key.as_str()) {
                Some(before) => between(before, &process, seconds),
                None => Rates {
                    lag_s: (process.pending == 0).then_some(0.0),
                    ..Rates::default()
                },
            };
            ProcessRow { process, rates }
        })
        .collect()
}

fn between(before: &Process, now: &Process, seconds: f64) -> Rates {
    let written_per_s = rate(before.written, now.written, seconds);
    Rates {
        records_per_s: rate(before.committed, now.committed, seconds),
        bytes_per_s: rate(before.bytes, now.bytes, seconds),
        drops_per_s: rate(before.dropped, now.dropped, seconds),
        sampled_out_per_s: rate(before.sampled_out, now.sampled_out, seconds),
        lag_s: match now.pending {
            0 => Some(0.0),
            pending => (written_per_s > 0.0).then(|| pending as f64 / written_per_s),
        },
    }
}

/// The rates of the callsites of a process; without an earlier look at the same process there are none.
pub(super) fn of_sites(before: Option<&Sites>, now: Sites) -> Vec<SiteRow> {
    let before = before.filter(|before| before.key == now.key);
    let known: HashMap<u32, CallsiteTotals> = before.map_or_else(HashMap::new, |before| {
        before.sites.iter().map(|site| (site.id, site.totals)).collect()
    });
    let seconds = before.map_or(0.0, |before| seconds_between(before.at_ns, now.at_ns));
    now.sites
        .into_iter()
        .map(|site| {
            // A callsite that is new has done all that it did since the last look.
            let old = known.get(&site.id).copied().unwrap_or_default();
            let totals = site.totals;
            let rates = Rates {
                records_per_s: rate(old.records, totals.records, seconds),
                bytes_per_s: rate(old.bytes, totals.bytes, seconds),
                drops_per_s: rate(old.dropped, totals.dropped, seconds),
                sampled_out_per_s: rate(old.sampled_out, totals.sampled_out, seconds),
                lag_s: None,
            };
            SiteRow { site, rates }
        })
        .collect()
}

fn seconds_between(before_ns: u64, now_ns: u64) -> f64 {
    now_ns.saturating_sub(before_ns) as f64 / 1e9
}

/// Nothing where no time has passed, or where a number has begun anew.
fn rate(before: u64, now: u64, seconds: f64) -> f64 {
    if seconds <= 0.0 {
        return 0.0;
    }
    now.saturating_sub(before) as f64 / seconds
}

#[cfg(test)]
mod tests {
    use super::super::testing::{process, site};
    use super::*;

    fn sample(at_ns: u64, processes: Vec<Process>) -> Sample {
        Sample {
            at_ns,
            processes,
            troubles: Vec::new(),
        }
    }

    #[test]
    fn rates_are_what_grew_in_a_second() {
        let mut now = process("shop", 1);
        now.committed = 3_000;
        now.bytes = 500_000;
        now.dropped = 4;
        now.written = 2_000;
        now.pending = 500;
        let mut old = process("shop", 1);
        old.committed = 1_000;
        let before = sample(1_000_000_000, vec![old]);
        let rows = of_processes(Some(&before), sample(3_000_000_000, vec![now]));
        assert_eq!(
            rows[0].rates,
            Rates {
                records_per_s: 1_000.0,
                bytes_per_s: 250_000.0,
                drops_per_s: 2.0,
                sampled_out_per_s: 0.0,
                lag_s: Some(0.5),
            }
        );
    }

    #[test]
    fn what_was_not_seen_before_has_no_rate_and_what_began_anew_has_none_below_zero() {
        let mut now = process("shop", 1);
        now.committed = 10;
        let rows = of_processes(None, sample(5, vec![now.clone()]));
        assert_eq!(rows[0].rates.records_per_s, 0.0);
        let mut old = process("shop", 1);
        old.committed = 1_000;
        let rows = of_processes(Some(&sample(0, vec![old])), sample(1_000_000_000, vec![now]));
        assert_eq!(rows[0].rates.records_per_s, 0.0);
    }

    #[test]
    fn a_sink_that_stands_still_has_a_lag_that_nobody_knows() {
        let mut now = process("shop", 1);
        now.pending = 7;
        let before = sample(0, vec![process("shop", 1)]);
        let rows = of_processes(Some(&before), sample(1_000_000_000, vec![now]));
        assert_eq!(rows[0].rates.lag_s, None);
    }

    #[test]
    fn callsites_of_another_process_say_nothing() {
        let sites = |key: &str, at_ns, records| Sites {
            key: key.to_owned(),
            at_ns,
            sites: vec![site(7, records)],
            rules: Vec::new(),
        };
        let before = sites("a", 0, 10);
        let same = of_sites(Some(&before), sites("a", 2_000_000_000, 30));
        assert_eq!(same[0].rates.records_per_s, 10.0);
        let other = of_sites(Some(&before), sites("b", 2_000_000_000, 30));
        assert_eq!(other[0].rates.records_per_s, 0.0);
    }
}
