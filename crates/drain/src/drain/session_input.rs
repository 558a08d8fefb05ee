//! A session input: one session as the drain reads it, with its callsites and what was reported about it.

use super::callsite::RoutedCallsite;
use super::input_account::InputAccount;
use crate::client::ClientProcess;
use crate::control::maintenance::{ControlMaintenance, Notice};
use crate::flight_recorder::{FlightRecorder, RecorderOptions};
use crate::limits::UNKNOWN_LINES_MAX;
use logdrive_ring::{CallsiteCounts, Ring, SessionReader, thread_counts};
use std::cell::Cell;
use std::sync::Arc;

/// One session.
#[derive(Debug)]
pub(crate) struct SessionInput {
    pub(crate) session: Arc<SessionReader>,
    /// Callsites by their number.
    pub(crate) callsites: Vec<Option<RoutedCallsite>>,
    /// Place in the callsite table from which on nothing was read.
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
    pub(crate) account: InputAccount,
    control: ControlMaintenance,
    /// Holds records that no sink takes.
    pub(crate) recorder: Option<FlightRecorder>,
    /// Flight recorder that its process asks for.
    pub(crate) recorder_request: Option<RecorderOptions>,
    /// Quotas that its process is under, by number; none for the process's own session.
    pub(crate) quotas: Vec<usize>,
    /// Set if records were taken since callsite counts were reported.
    has_unreported_counts: Cell<bool>,
    /// Records of unknown callsites since the last report of drops.
    unknown: u64,
}

impl SessionInput {
    /// Session whose rings and account are those of an epoch, which it keeps for the drain.
    pub(crate) fn new(session: Arc<SessionReader>, epoch: u64, client: Option<ClientProcess>) -> Self {
        Self {
            session,
            callsites: Vec::new(),
            table_place: 0,
            rings_seen: 0,
            epoch,
            client_id: None,
            client,
            leaving: None,
            account: InputAccount::default(),
            control: ControlMaintenance::default(),
            recorder: None,
            recorder_request: None,
            quotas: Vec::new(),
            has_unreported_counts: Cell::new(false),
            unknown: 0,
        }
    }

    /// Returns rings that have no reader yet.
    pub(crate) fn fresh_rings(&mut self) -> Vec<Arc<Ring>> {
        let fresh = self.session.rings_from(self.rings_seen);
        self.rings_seen += fresh.len();
        fresh
    }

    /// Returns callsites that were registered since the last call, with their numbers.
    pub(super) fn take_new_callsites(&mut self) -> Vec<(u32, Vec<u8>)> {
        let (found, place) = self.session.callsites_from(self.table_place);
        self.table_place = place;
        found
    }

    /// Plans are made anew with the next record of each callsite.
    pub(crate) fn forget_callsites(&mut self) {
        self.report_counts();
        self.callsites.clear();
        self.table_place = 0;
    }

    /// Counts a record of an unknown callsite; whether it is one of the few that have a line each.
    pub(crate) fn count_unknown(&mut self) -> bool {
        self.unknown += 1;
        self.unknown <= UNKNOWN_LINES_MAX
    }

    /// Returns how many more there were, once.
    pub(crate) fn take_unreported_unknown(&mut self) -> u64 {
        std::mem::take(&mut self.unknown).saturating_sub(UNKNOWN_LINES_MAX)
    }

    /// Notes that records were taken: so many that count, and so many that stand behind later ones.
    pub(crate) fn note_taken(&self, records: u64, late: u64) {
        self.has_unreported_counts.set(true);
        self.account.take(records, late);
    }

    /// Counts of a callsite in the session; none where its process is dead.
    pub(super) fn counts(&self, id: u32) -> Option<&CallsiteCounts> {
        self.session.counts(id).filter(|_| self.session.is_live())
    }

    /// Stores the counts of callsites in the session.
    fn report_counts(&mut self) {
        if !self.has_unreported_counts.take() {
            return;
        }
        for (id, callsite) in self.callsites.iter().enumerate() {
            if let Some(callsite) = callsite {
                callsite.counter.report(self.counts(id as u32));
            }
        }
    }

    /// Looks after live control where that is due; returns lines for the log.
    pub(crate) fn maintain_control(&mut self, now_ns: u64, stopping: bool) -> Vec<Notice> {
        if !stopping && !self.control.is_due(now_ns) {
            return Vec::new();
        }
        self.report_counts();
        if !self.session.is_live() {
            return Vec::new();
        }
        // Only the threads of this process can be asked for what they have not reported.
        let report: &dyn Fn() = match self.session.own() {
            Some(_) => &thread_counts::report_all,
            None => &|| {},
        };
        let mut notices = self.control.tick(&self.session, now_ns, report);
        if stopping {
            notices.extend(self.control.finish(&self.session, report));
        }
        notices
    }
}
