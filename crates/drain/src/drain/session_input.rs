//! A session input: one session as the drain reads it, with its callsites and what was reported about it.

use crate::client::ClientProcess;
use crate::control::maintenance::{ControlMaintenance, Notice};
use crate::drain::callsite_counter::CallsiteCounter;
use crate::drain::run::RoutedCallsite;
use crate::flight_recorder::{FlightRecorder, RecorderOptions, RecorderPolicy, RecorderRule};
use crate::layout::{Plan, ProcessInfo};
use crate::limits::UNKNOWN_LINES_MAX;
use crate::sink::buffer::SinkBuffer;
use logdrive_ring::{CallsiteCounts, DropReason, Ring, SessionReader, thread_counts};
use logdrive_wire::{Callsite, Level};
use std::cell::Cell;
use std::sync::Arc;

/// Which sinks get the records of a callsite of a process, by number: bit 0 for the first.
pub(crate) type Router = Box<dyn Fn(&ClientProcess, &Callsite) -> u32 + Send>;

/// One session.
#[derive(Debug)]
pub(crate) struct SessionInput {
    pub(crate) source: Arc<SessionReader>,
    /// Callsites by their number.
    pub(crate) sites: Vec<Option<RoutedCallsite>>,
    /// Where the table goes on.
    table_place: usize,
    /// Rings that have a reader.
    pub(crate) rings_seen: usize,
    /// The epoch from which its rings are read on.
    pub(crate) epoch: u64,
    /// Number of the session with the agent that drains it here; none for other sessions.
    pub(crate) client_id: Option<u64>,
    /// Process that it belongs to, where several are drained.
    pub(crate) client: Option<ClientProcess>,
    /// The process writes nothing more: what to say when everything is drained, if anything.
    pub(crate) leaving: Option<Option<String>>,
    reported_drops: [u64; DropReason::COUNT],
    keeper: ControlMaintenance,
    /// Records that no sink takes.
    pub(crate) keep: Option<FlightRecorder>,
    /// How its process wants them kept.
    pub(crate) recorder_request: Option<RecorderOptions>,
    /// Its quotas, by their slots; none for the process's own session.
    pub(crate) quotas: Vec<usize>,
    /// Records whose callsites have not been reported of them.
    has_unreported_counts: Cell<bool>,
    /// Records of unknown callsites since the last look at drops.
    unknown: u64,
}

impl SessionInput {
    pub(crate) fn new(source: Arc<SessionReader>, epoch: u64, client: Option<ClientProcess>) -> Self {
        Self {
            source,
            sites: Vec::new(),
            table_place: 0,
            rings_seen: 0,
            epoch,
            client_id: None,
            client,
            leaving: None,
            reported_drops: [0; DropReason::COUNT],
            keeper: ControlMaintenance::default(),
            keep: None,
            recorder_request: None,
            quotas: Vec::new(),
            has_unreported_counts: Cell::new(false),
            unknown: 0,
        }
    }

    /// Rings that have no reader yet.
    pub(crate) fn fresh_rings(&mut self) -> Vec<Arc<Ring>> {
        let fresh = self.source.rings_from(self.rings_seen);
        self.rings_seen += fresh.len();
        fresh
    }

    /// Reads callsites that were registered since the last look, and compiles their plans.
    #[cold]
    pub(crate) fn load_sites(
        &mut self,
        outlets: &[SinkBuffer],
        router: Option<&Router>,
        recorder: Option<&dyn RecorderPolicy>,
    ) {
        let (found, place) = self.source.callsites_from(self.table_place);
        self.table_place = place;
        let process = self.client.as_ref().map(|client| ProcessInfo {
            app: client.app.clone(),
            pid: client.pid,
            host: String::new(),
        });
        for (id, bytes) in found {
            let id = id as usize;
            if self.sites.len() <= id {
                self.sites.resize_with(id + 1, || None);
            }
            // Whoever says the same number again must not keep us busy.
            if self.sites.get(id).is_some_and(Option::is_some) {
                continue;
            }
            // A callsite that cannot be read stays unknown; its records say so.
            let Ok(callsite) = Callsite::decode(&bytes) else {
                continue;
            };
            let routed = match (router, &self.client) {
                (Some(router), Some(client)) => router(client, &callsite),
                _ => u32::MAX,
            };
            let kept = match (&mut self.keep, recorder, &self.client) {
                // Gap records say what is missing from what the sinks get.
                (Some(keep), _, None) if id != 0 => keep.rule_for(id as u32, &callsite),
                (Some(keep), _, Some(client)) if id != 0 && keep.is_requested => RecorderRule {
                    sinks: requested_dump_sinks(router, client, &callsite),
                    ..keep.rule_for(id as u32, &callsite)
                },
                (Some(_), Some(recorder), Some(client)) if id != 0 => {
                    recorder.rule_for(client, id as u32, &callsite)
                }
                _ => RecorderRule::default(),
            };
            if let Some(keep) = &mut self.keep {
                keep.sinks |= kept.sinks;
            }
            let site = RoutedCallsite {
                level: callsite.level,
                plans: plans(outlets, &callsite, routed | kept.sinks, process.as_ref()),
                counts: CallsiteCounter::resume(self.counts(id as u32)),
                routed,
                dump_sinks: kept.sinks,
                keeps: kept.keep && is_left_out(outlets, routed, callsite.level),
                trigger: kept.triggers.then(|| place_of(&callsite)),
            };
            if let Some(slot) = self.sites.get_mut(id) {
                *slot = Some(site);
            }
        }
    }

    /// Plans are made anew with the next record of each callsite.
    pub(crate) fn forget_sites(&mut self) {
        self.report_counts();
        self.sites.clear();
        self.table_place = 0;
    }

    /// Drops of threads without a ring that nobody has reported yet.
    pub(crate) fn take_unreported_drops(&mut self) -> [u64; DropReason::COUNT] {
        let totals = self.source.header().dropped();
        let mut unreported = totals;
        for (count, reported) in unreported.iter_mut().zip(self.reported_drops) {
            *count = count.saturating_sub(reported);
        }
        self.reported_drops = totals;
        unreported
    }

    /// A record of an unknown callsite; whether it is one of the few that have a line each.
    pub(crate) fn meets_unknown(&mut self) -> bool {
        self.unknown += 1;
        self.unknown <= UNKNOWN_LINES_MAX
    }

    /// How many more there were, once.
    pub(crate) fn take_unreported_unknown(&mut self) -> u64 {
        std::mem::take(&mut self.unknown).saturating_sub(UNKNOWN_LINES_MAX)
    }

    /// Records were taken.
    pub(crate) fn note_taken(&self) {
        self.has_unreported_counts.set(true);
    }

    /// Counts of a callsite in the session; none where its process is dead.
    fn counts(&self, id: u32) -> Option<&CallsiteCounts> {
        self.source.counts(id).filter(|_| self.source.is_live())
    }

    /// Tells the counts of callsites to everybody.
    fn report_counts(&mut self) {
        if !self.has_unreported_counts.take() {
            return;
        }
        for (id, site) in self.sites.iter().enumerate() {
            if let Some(site) = site {
                site.counts.tell(self.counts(id as u32));
            }
        }
    }

    /// Looks after live control some times a second, however busy the drain is; lines for the log.
    pub(crate) fn keep_control(&mut self, now_ns: u64, stopping: bool) -> Vec<Notice> {
        if !stopping && !self.keeper.is_due(now_ns) {
            return Vec::new();
        }
        self.report_counts();
        if !self.source.is_live() {
            return Vec::new();
        }
        // Only the threads of this process can be asked for what they have not reported.
        let tell: &dyn Fn() = match self.source.own() {
            Some(_) => &thread_counts::report_all,
            None => &|| {},
        };
        let mut notices = self.keeper.tick(&self.source, now_ns, tell);
        if stopping {
            notices.extend(self.keeper.finish(&self.source, tell));
        }
        notices
    }
}

/// Where a process that wished for a flight recorder has it written: where its fatal records of the same module go.
fn requested_dump_sinks(router: Option<&Router>, client: &ClientProcess, callsite: &Callsite) -> u32 {
    let fatal = Callsite {
        level: Level::Fatal,
        ..callsite.clone()
    };
    router.map_or(u32::MAX, |router| router(client, &fatal))
}

/// Plans for the sinks that may get records of a callsite.
fn plans(
    outlets: &[SinkBuffer],
    callsite: &Callsite,
    sinks: u32,
    process: Option<&ProcessInfo>,
) -> Vec<Option<Plan>> {
    let plan = |(number, outlet): (usize, &SinkBuffer)| {
        let goes = sinks >> number & 1 == 1 && !outlet.is_closed();
        goes.then(|| outlet.compile(callsite, process))
    };
    outlets.iter().enumerate().map(plan).collect()
}

/// Whether none of the sinks that a route gives takes records of this level.
fn is_left_out(outlets: &[SinkBuffer], routed: u32, level: Level) -> bool {
    let mut sinks = outlets.iter().enumerate();
    sinks.all(|(number, outlet)| routed >> number & 1 == 0 || level < outlet.min_level)
}

/// `ERROR at src/net.rs:42`
fn place_of(callsite: &Callsite) -> Box<str> {
    let level = callsite.level.to_string().to_uppercase();
    match callsite.file.as_str() {
        "" => format!("{level} of {}", callsite.target_or_module()),
        file => format!("{level} at {file}:{}", callsite.line),
    }
    .into()
}
