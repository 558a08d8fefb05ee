//! One session that is followed: its rings, and the callsites that it has registered so far.

use super::record::{FollowedRecord, Layouts, Site};
use super::ring::{Start, WatchedRing};
use logdrive_drain::layout::{ProcessInfo, Record, Thread};
use logdrive_ring::clock::ticks_of;
use logdrive_ring::{Calibration, SessionReader};
use logdrive_wire::{Callsite, Level};

/// A session.
#[derive(Debug)]
pub(crate) struct FollowedSession {
    pub(crate) id: u64,
    pub(crate) view: SessionReader,
    pub(crate) info: ProcessInfo,
    layouts: Layouts,
    pub(crate) rings: Vec<WatchedRing>,
    /// Rings below this number are watched, or cannot be opened.
    rings_known: u32,
    /// Callsites by their number; those that no record has named are not compiled.
    sites: Vec<Option<Site>>,
    /// Callsites and bytes of the table that was read.
    table: (u32, u64),
    pub(crate) calibration: Calibration,
    pub(crate) has_ended: bool,
    pub(crate) damaged: u64,
}

impl FollowedSession {
    pub(crate) fn new(
        id: u64,
        view: SessionReader,
        info: ProcessInfo,
        layouts: Layouts,
        start: Start,
    ) -> Self {
        let calibration = Calibration {
            base_ticks: 0,
            base_unix_ns: view.header().identity().start_unix_ns,
            ns_per_tick_q32: 0,
        };
        let mut session = Self {
            id,
            view,
            info,
            layouts,
            rings: Vec::new(),
            rings_known: 0,
            sites: Vec::new(),
            table: (0, 0),
            calibration,
            has_ended: false,
            damaged: 0,
        };
        session.open_rings(start);
        session
    }

    fn open_rings(&mut self, start: Start) {
        let count = self.view.ring_total();
        if count <= self.rings_known {
            return;
        }
        let (rings, broken) = self.view.rings_in(self.rings_known..count);
        self.rings_known = count;
        self.rings.extend(
            rings
                .into_iter()
                .map(|ring| WatchedRing::new(ring, start, self.calibration)),
        );
        self.damaged += broken.len() as u64;
    }

    /// Whether the process has rings that the view does not have.
    pub(crate) fn lacks_rings(&self) -> bool {
        !self.has_ended && self.view.header().totals().rings > self.rings_known
    }

    /// Goes on with another view of the same session.
    pub(crate) fn extend(&mut self, view: SessionReader) {
        self.view = view;
        self.open_rings(Start::Oldest);
    }

    /// Looks at what the process and its drain have changed.
    pub(crate) fn renew(&mut self) {
        // Without one the last serves; a new session has none for a moment.
        self.calibration = self.view.header().calibration().unwrap_or(self.calibration);
        // Rings that were made while the session was followed are followed from their first record on.
        if !self.has_ended {
            self.open_rings(Start::Oldest);
        }
    }

    pub(crate) fn now_ticks(&self) -> u64 {
        ticks_of(self.view.header().clock_source())
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.rings.iter().all(WatchedRing::is_taken)
    }

    pub(crate) fn missed(&self) -> u64 {
        self.rings
            .iter()
            .fold(0, |sum: u64, ring| sum.saturating_add(ring.missed()))
    }

    /// Gives the record at the front of a ring away, unless its level is too low.
    pub(crate) fn take_front<E>(
        &mut self,
        ring: usize,
        min_level: Level,
        space: &mut [u8],
        each: &mut impl FnMut(&mut FollowedRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(id) = self
            .rings
            .get(ring)
            .and_then(WatchedRing::front)
            .map(|(_, id, _)| id as usize)
        else {
            return Ok(());
        };
        // The callsite may have been registered after the last read of the table.
        if !matches!(self.sites.get(id), Some(Some(_))) {
            self.load_sites();
        }
        let mut outcome = Ok(());
        let watched = self.rings.get(ring);
        match (self.sites.get(id), watched, watched.and_then(WatchedRing::front)) {
            (Some(Some(site)), Some(watched), Some((unix_ns, _, payload)))
                if site.callsite.level >= min_level =>
            {
                outcome = each(&mut FollowedRecord {
                    process: &self.info,
                    id: self.id,
                    level: site.callsite.level,
                    unix_ns,
                    thread: &watched.thread_name,
                    line: Record {
                        unix_ns,
                        thread: Thread {
                            name: &watched.thread_name,
                            id: watched.thread_id,
                        },
                        payload,
                    },
                    site,
                    layouts: &mut self.layouts,
                    space,
                });
            }
            (Some(Some(_)), ..) => {}
            _ => self.damaged += 1,
        }
        if let Some(watched) = self.rings.get_mut(ring) {
            watched.advance();
        }
        outcome
    }

    /// Reads callsites that were registered since the last time. A ring full of rubbish does not make it read again.
    #[cold]
    fn load_sites(&mut self) {
        let totals = self.view.header().totals();
        let table = (totals.callsites, totals.table_bytes);
        if table == self.table {
            return;
        }
        // A table that cannot be read now is tried again when it has grown.
        self.table = table;
        for (id, bytes) in self.view.callsites().unwrap_or_default() {
            let id = id as usize;
            if self.sites.len() <= id {
                self.sites.resize_with(id + 1, || None);
            }
            if let Some(slot @ None) = self.sites.get_mut(id)
                && let Ok(callsite) = Callsite::decode(&bytes)
            {
                *slot = Some(Site {
                    plain: self.layouts.lines.compile(&callsite),
                    named: self.layouts.lines.compile_for(&callsite, &self.info),
                    message: self.layouts.messages.compile(&callsite),
                    callsite,
                });
            }
        }
    }
}
