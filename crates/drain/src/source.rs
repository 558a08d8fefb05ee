//! Where the drain takes records from: the session of this process, one that an agent shares with another process, or
//! one that a dead process left.

use crate::control::Switchboard;
use logdrive_ring::{
    Buffers, Calibration, CallsiteCounts, ClockSource, HelpedSession, Ring, Session, SessionHeader,
    SessionView, SharedSession,
};
use std::sync::Arc;

/// A session to drain.
#[derive(Debug)]
pub(crate) enum Source {
    /// This process's own.
    Live(Arc<Session>),
    /// Another process's, which may live or be dead: its memory is ours as well.
    Shared(Arc<SharedSession>),
    /// Another process's in a directory, which has nobody else to drain it.
    Helped(Arc<HelpedSession>),
    /// One whose process is dead, with what was read from it.
    Dead(Box<Dead>),
}

/// What a dead process left.
#[derive(Debug)]
pub(crate) struct Dead {
    pub(crate) view: SessionView,
    pub(crate) rings: Vec<Arc<Ring>>,
    pub(crate) callsites: Vec<(u32, Vec<u8>)>,
    pub(crate) buffers: Arc<Buffers>,
}

impl Source {
    pub(crate) fn header(&self) -> &SessionHeader {
        match self {
            Self::Live(session) => session.header(),
            Self::Shared(session) => session.header(),
            Self::Helped(session) => session.header(),
            Self::Dead(dead) => dead.view.header(),
        }
    }

    /// The number of a shared session with its agent.
    pub(crate) fn shared_id(&self) -> Option<u64> {
        match self {
            Self::Shared(session) => Some(session.id()),
            _ => None,
        }
    }

    /// Whether producers may still write.
    pub(crate) fn is_live(&self) -> bool {
        !matches!(self, Self::Dead(_))
    }

    pub(crate) fn rings_from(&self, first: usize) -> Vec<Arc<Ring>> {
        match self {
            // The count is one load; the lock behind the list is taken only when there is something new.
            Self::Live(session) if session.header().ring_count() as usize <= first => Vec::new(),
            Self::Live(session) => session.rings_from(first),
            Self::Shared(session) if session.ring_count() <= first => Vec::new(),
            Self::Shared(session) => session.rings_from(first),
            Self::Helped(session) if !session.has_rings_from(first) => Vec::new(),
            Self::Helped(session) => session.rings_from(first),
            Self::Dead(dead) => dead.rings.get(first..).unwrap_or(&[]).to_vec(),
        }
    }

    /// Callsites behind the given place of the table, and the place behind them.
    pub(crate) fn callsites_from(&self, place: usize) -> (Vec<(u32, Vec<u8>)>, usize) {
        match self {
            Self::Live(session) => session.callsites_from(place),
            Self::Shared(session) => session.callsites_from(place),
            Self::Helped(session) => session.callsites_from(place),
            Self::Dead(dead) if place == 0 => (dead.callsites.clone(), 1),
            Self::Dead(_) => (Vec::new(), 1),
        }
    }

    /// Gives a finished ring to the next thread.
    pub(crate) fn recycle(&self, ring: &Arc<Ring>) {
        match self {
            Self::Live(session) => session.recycle(ring),
            Self::Shared(session) => session.recycle(ring),
            Self::Helped(session) => session.recycle(ring),
            Self::Dead(_) => {}
        }
    }

    /// Live control of the session, where there is any.
    pub(crate) fn switchboard(&self) -> Option<&dyn Switchboard> {
        match self {
            Self::Live(session) => Some(&**session),
            Self::Shared(session) => Some(&**session),
            Self::Helped(session) => Some(&**session),
            Self::Dead(_) => None,
        }
    }

    /// Where the drain tells what it counts for a callsite.
    pub(crate) fn counts(&self, id: u32) -> Option<&CallsiteCounts> {
        match self {
            Self::Live(session) => session.counters().of(id),
            Self::Shared(session) => session.counts(id),
            Self::Helped(session) => session.counts(id),
            Self::Dead(_) => None,
        }
    }

    pub(crate) fn clock_source(&self) -> ClockSource {
        self.header().clock_source()
    }

    /// The calibration that a dead process left; without one, times count from its start.
    pub(crate) fn last_calibration(&self) -> Calibration {
        self.header().calibration().unwrap_or(Calibration {
            base_ticks: 0,
            base_unix_ns: self.header().start_unix_ns(),
            ns_per_tick_q32: 0,
        })
    }
}
