//! A session that is watched: its numbers, its callsites and its rules, wherever its memory comes from.

use super::sample::{Life, Process, Site, Sites, Via};
use crate::callsites::{rules_of, state_of, with_sampled_variant};
use crate::output::safe;
use logdrive_drain::control::sampled_variants;
use logdrive_drain::{SinkDrop, SinkStats, Stats, sinks_from_text};
use logdrive_ring::{Consumer, Ring, RingError, SessionReader};
use logdrive_wire::Callsite;
use std::path::PathBuf;
use std::sync::Arc;

/// A session as this command sees it. Its mappings stay from look to look.
#[derive(Debug)]
pub(super) struct WatchedSession {
    view: SessionReader,
    rings: Vec<Arc<Ring>>,
    /// The log file, as an agent tells it.
    log: Option<PathBuf>,
}

impl WatchedSession {
    /// Opens what live control needs of a session.
    pub(super) fn of(view: SessionReader) -> Result<Self, RingError> {
        view.rules()?;
        Ok(Self {
            rings: view.rings().0,
            log: None,
            view,
        })
    }

    /// The same of a session that an agent has, with what the agent says of its sinks.
    pub(super) fn of_agent(view: SessionReader, sinks: &str) -> Result<Self, RingError> {
        let log = first_file(sinks);
        Ok(Self {
            log,
            ..Self::of(view)?
        })
    }

    /// The session.
    pub(super) fn session(&self) -> &SessionReader {
        &self.view
    }

    /// Whether the process has made rings that are not seen here.
    pub(super) fn misses_rings(&self) -> bool {
        self.view.header().ring_count() as usize > self.rings.len()
    }

    /// Looks for rings that are new, where they can be found without help.
    pub(super) fn find_rings(&mut self) {
        if self.misses_rings() {
            self.rings = self.view.rings().0;
        }
    }

    /// The process, by what its session says of itself now.
    pub(super) fn process(&self, key: &str, via: Via, life: Life, now_unix_ns: u64) -> Process {
        let header = self.view.header();
        let stats = Stats::of_view(&self.view);
        // As far as counts are mapped: what the header says may be hostile.
        let bytes = (0..header.callsite_count())
            .map_while(|id| Some(self.view.counts(id)?.totals().bytes))
            .fold(0u64, u64::saturating_add);
        let start_unix_ns = header.start_unix_ns();
        let drained = stats.committed.saturating_sub(stats.in_rings);
        let sinks = &stats.sinks;
        let sum = |of: fn(&SinkStats) -> u64| sinks.iter().map(of).fold(0u64, u64::saturating_add);
        Process {
            key: key.to_owned(),
            app: safe(&header.app()),
            pid: header.pid(),
            via,
            life,
            age_s: (start_unix_ns != 0).then(|| now_unix_ns.saturating_sub(start_unix_ns) / 1_000_000_000),
            rings: stats.rings.0,
            rings_in_use: stats.rings.1,
            // Callsite 0 is the logger's own.
            callsites: stats.callsites.saturating_sub(1),
            committed: stats.committed,
            // An agent's own session lays out what others committed.
            bytes: bytes.max(sum(|sink| sink.counts.written_bytes)),
            dropped: stats.dropped_calls().saturating_add(sum(lost)),
            sampled_out: stats.sampled_out,
            fill: fullest(&self.rings),
            pending: stats.pending(),
            written: sinks.iter().map(accounted).min().unwrap_or(drained),
            errors: sum(|sink| sink.counts.errors),
            panics: header.end().panics,
            place: self.place(),
            damage: None,
        }
    }

    /// Its first log file, or where the session is.
    fn place(&self) -> String {
        let own = || {
            let config = self.view.buffers().ok()?.config();
            first_file(&String::from_utf8_lossy(&config))
        };
        let file = self.log.clone().or_else(own);
        safe(&file.as_deref().unwrap_or(self.view.path()).to_string_lossy())
    }

    /// Its callsites, the program's own statements.
    pub(super) fn sites(&self, key: &str, at_ns: u64) -> Result<Sites, RingError> {
        let rules = rules_of(&self.view);
        let table = self.view.callsites()?;
        let sampled_variants = sampled_variants(&table, |id| self.view.control(id));
        let own = table
            .iter()
            .filter(|(id, _)| *id != 0 && !sampled_variants.contains(id));
        let sites = own.filter_map(|(id, bytes)| {
            let callsite = Callsite::decode(bytes).ok()?;
            let entry = self.view.control(*id)?;
            let (state, by_rule) = state_of(entry, &callsite, &rules);
            Some(Site {
                id: *id,
                state,
                by_rule,
                totals: with_sampled_variant(&self.view, *id, entry.sampled_variant()),
                callsite,
            })
        });
        Ok(Sites {
            key: key.to_owned(),
            at_ns,
            sites: sites.collect(),
            rules,
        })
    }
}

/// The first log file of a list of sinks.
fn first_file(sinks: &str) -> Option<PathBuf> {
    let mut sinks = sinks_from_text(sinks).into_iter();
    sinks.find_map(|sink| Some(sink.file?.path))
}

/// Returns the fill of the fullest ring, from 0 to 1. One that breaks the rules says nothing.
fn fullest(rings: &[Arc<Ring>]) -> f64 {
    let fill = |ring: &Arc<Ring>| {
        let pending = Consumer::new(Arc::clone(ring)).pending_bytes().unwrap_or(0);
        pending as f64 / ring.capacity_bytes() as f64
    };
    rings.iter().map(fill).fold(0.0, f64::max)
}

/// Records that a sink should have written and did not.
fn lost(sink: &SinkStats) -> u64 {
    let count = |reason: SinkDrop| sink.counts.dropped.get(reason as usize).copied().unwrap_or(0);
    let meant = count(SinkDrop::Level).saturating_add(count(SinkDrop::NotRouted));
    sink.dropped().saturating_sub(meant)
}

/// Records that a sink is done with.
fn accounted(sink: &SinkStats) -> u64 {
    sink.counts.written_records.saturating_add(sink.dropped())
}
