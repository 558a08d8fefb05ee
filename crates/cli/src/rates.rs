//! Rates of processes and callsites, from what was seen of them at two moments.

use crate::control_args::SortBy;
use crate::error::CliError;
use crate::watched_session::{Session, Site, WatchedSession};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Rates of the past that are kept of each process, for a small curve.
pub(crate) const HISTORY: usize = 120;

/// Rates, per second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct Rates {
    pub(crate) records_per_s: f64,
    pub(crate) bytes_per_s: f64,
    pub(crate) drops_per_s: f64,
    pub(crate) sampled_out_per_s: f64,
}

/// A process with its rates.
#[derive(Debug, Clone)]
pub(crate) struct ProcessRow {
    pub(crate) session: Session,
    pub(crate) rates: Rates,
    /// Seconds that the slowest sink needs for what is on its way; `None` where its speed is not known.
    pub(crate) lag_s: Option<f64>,
    /// Records a second of the past, the newest last.
    pub(crate) past: VecDeque<u64>,
}

/// A callsite with its rates.
#[derive(Debug, Clone)]
pub(crate) struct SiteRow {
    pub(crate) site: Site,
    pub(crate) rates: Rates,
}

impl SiteRow {
    /// Order of callsites, the loudest first, then those that ever did most.
    pub(crate) fn compare(&self, other: &Self, by: SortBy) -> Ordering {
        let key = |row: &Self| {
            let (rates, totals) = (&row.rates, &row.site.totals);
            match by {
                SortBy::Records => (rates.records_per_s, totals.records),
                SortBy::Bytes => (rates.bytes_per_s, totals.bytes),
                SortBy::Drops => (rates.drops_per_s, totals.dropped),
                SortBy::Sampled => (rates.sampled_out_per_s, totals.sampled_out),
                SortBy::Id => (0.0, 0),
            }
        };
        let ((own_rate, own_total), (rate, total)) = (key(self), key(other));
        rate.total_cmp(&own_rate).then(total.cmp(&own_total))
    }
}

/// Returns processes with what they did since they were seen before, so many seconds ago. One that was not there before,
/// or has begun anew, has no rates yet.
pub(crate) fn process_rows(before: Vec<ProcessRow>, now: Vec<Session>, seconds: f64) -> Vec<ProcessRow> {
    let before = before.into_iter();
    let mut known: HashMap<PathBuf, ProcessRow> =
        before.map(|row| (row.session.at.path.clone(), row)).collect();
    let row = |session: Session| match known.remove(&session.at.path) {
        Some(before) => process_row(before, session, seconds),
        None => ProcessRow {
            lag_s: (session.stats.pending() == 0).then_some(0.0),
            session,
            rates: Rates::default(),
            past: VecDeque::new(),
        },
    };
    now.into_iter().map(row).collect()
}

fn process_row(before: ProcessRow, session: Session, seconds: f64) -> ProcessRow {
    let old = &before.session;
    let written_per_s = rate(old.accounted(), session.accounted(), seconds);
    let rates = Rates {
        records_per_s: rate(old.stats.committed, session.stats.committed, seconds),
        bytes_per_s: rate(old.bytes, session.bytes, seconds),
        drops_per_s: rate(old.dropped(), session.dropped(), seconds),
        sampled_out_per_s: rate(old.stats.sampled_out, session.stats.sampled_out, seconds),
    };
    let mut past = before.past;
    past.push_back(rates.records_per_s.round() as u64);
    if past.len() > HISTORY {
        past.pop_front();
    }
    ProcessRow {
        rates,
        lag_s: match session.stats.pending() {
            0 => Some(0.0),
            pending => (written_per_s > 0.0).then(|| pending as f64 / written_per_s),
        },
        past,
        session,
    }
}

/// Callsites of a process as they were seen last.
#[derive(Debug)]
pub(crate) struct SeenSites {
    at: Instant,
    /// Number of rules that held.
    pub(crate) rules: usize,
    pub(crate) rows: Vec<SiteRow>,
}

impl SeenSites {
    /// Looks at the callsites of a process. Without an earlier look they have no rates.
    pub(crate) fn look(session: &WatchedSession, before: Option<&Self>) -> Result<Self, CliError> {
        let (at, sites) = (Instant::now(), session.sites()?);
        let rules = sites.rules.len();
        let rows = match before {
            Some(before) => site_rows(&before.rows, sites.sites, (at - before.at).as_secs_f64()),
            None => site_rows(&[], sites.sites, 0.0),
        };
        Ok(Self { at, rules, rows })
    }

    /// Time since then.
    pub(crate) fn age(&self) -> Duration {
        self.at.elapsed()
    }
}

/// Returns the callsites of a process with what they did since they were seen before, so many seconds ago. A callsite that
/// is new has done all that it did since then.
pub(crate) fn site_rows(before: &[SiteRow], now: Vec<Site>, seconds: f64) -> Vec<SiteRow> {
    let known: HashMap<u32, &Site> = before.iter().map(|row| (row.site.id, &row.site)).collect();
    let row = |site: Site| {
        let old = known.get(&site.id).map(|site| site.totals).unwrap_or_default();
        let now = site.totals;
        let rates = Rates {
            records_per_s: rate(old.records, now.records, seconds),
            bytes_per_s: rate(old.bytes, now.bytes, seconds),
            drops_per_s: rate(old.dropped, now.dropped, seconds),
            sampled_out_per_s: rate(old.sampled_out, now.sampled_out, seconds),
        };
        SiteRow { site, rates }
    };
    now.into_iter().map(row).collect()
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
    use super::*;
    use crate::top::testing::{process, site};

    #[test]
    fn rates_are_what_grew_in_a_second() {
        let mut now = process("shop", 1);
        now.stats.committed = 3_000;
        now.bytes = 500_000;
        now.stats.dropped[0] = 4;
        now.stats.sinks[0].counts.written_records = 2_000;
        now.stats.sinks[0].pending = 500;
        let mut old = process("shop", 1);
        old.stats.committed = 1_000;
        let rows = process_rows(process_rows(Vec::new(), vec![old], 0.0), vec![now], 2.0);
        assert_eq!(
            rows[0].rates,
            Rates {
                records_per_s: 1_000.0,
                bytes_per_s: 250_000.0,
                drops_per_s: 2.0,
                sampled_out_per_s: 0.0,
            }
        );
        assert_eq!(rows[0].lag_s, Some(0.5));
    }

    #[test]
    fn what_was_not_seen_before_has_no_rate_and_what_began_anew_has_none_below_zero() {
        let mut now = process("shop", 1);
        now.stats.committed = 10;
        let rows = process_rows(Vec::new(), vec![now.clone()], 1.0);
        assert_eq!(rows[0].rates.records_per_s, 0.0);
        let mut old = process("shop", 1);
        old.stats.committed = 1_000;
        let rows = process_rows(process_rows(Vec::new(), vec![old], 0.0), vec![now], 1.0);
        assert_eq!(rows[0].rates.records_per_s, 0.0);
    }

    #[test]
    fn a_sink_that_stands_still_has_a_lag_that_nobody_knows() {
        let mut now = process("shop", 1);
        now.stats.sinks[0].pending = 7;
        let before = process_rows(Vec::new(), vec![process("shop", 1)], 0.0);
        let rows = process_rows(before, vec![now], 1.0);
        assert_eq!(rows[0].lag_s, None);
    }

    #[test]
    fn callsites_have_the_rates_of_what_they_did_since_they_were_seen() {
        let before = site_rows(&[], vec![site(7, 10)], 0.0);
        assert_eq!(before[0].rates, Rates::default());
        let rows = site_rows(&before, vec![site(7, 30), site(8, 4)], 2.0);
        assert_eq!(
            [0, 1].map(|row: usize| rows[row].rates.records_per_s),
            [10.0, 2.0]
        );
    }

    #[test]
    fn the_loudest_come_first_and_the_rest_by_what_they_ever_did() {
        let mut rows =
            [(3, 1.0, 9), (2, 5.0, 1), (1, 0.0, 9), (4, 5.0, 2)].map(|(id, records_per_s, bytes)| {
                let mut site = site(id, 0);
                site.totals.bytes = bytes;
                let rates = Rates {
                    records_per_s,
                    ..Rates::default()
                };
                SiteRow { site, rates }
            });
        let mut ids = |by| {
            rows.sort_by(|a, b| a.compare(b, by).then(a.site.id.cmp(&b.site.id)));
            rows.each_ref().map(|row| row.site.id)
        };
        assert_eq!(ids(SortBy::Records), [2, 4, 3, 1]);
        assert_eq!(ids(SortBy::Bytes), [1, 3, 4, 2]);
        assert_eq!(ids(SortBy::Id), [1, 2, 3, 4]);
    }
}
