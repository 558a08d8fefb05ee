//! Grants of flight recorders to processes that ask for one: its memory counts as theirs.

use super::Server;
use super::admission::memory_bytes;
use super::event::Event;
use super::sessions::ServedSession;
use crate::config::{Process, Quota};
use logdrive_drain::RecorderOptions;
use logdrive_drain::control::read_selector;
use logdrive_ring::HostedSession;
use logdrive_wire::agent::Keep;
use std::time::Duration;

/// The least that a flight recorder can have.
const KEEP_BYTES_MIN: u64 = 1 << 20;

impl Server {
    /// Grants the flight recorder that a process has wished for before it got its session. The owner hears of it before it
    /// hears of the session.
    pub(super) fn grant_recorder(&mut self, key: u64, session: &HostedSession) {
        let session = session.id();
        let request = self.connections.get_mut(&key);
        let Some(request) = request.and_then(|connection| connection.keep.take()) else {
            return;
        };
        let Some(served) = self.sessions.get(&session) else {
            return;
        };
        let wanted = request
            .bytes
            .clamp(KEEP_BYTES_MIN, logdrive_ring::limits::KEEP_BYTES_MAX as u64);
        let granted = self.keep_bytes(session, served, wanted);
        let owner = format!(
            "process {} of {}",
            served.session.peer().pid,
            served.session.app()
        );
        if granted < wanted {
            let text = match granted {
                0 => format!("{owner} has no flight recorder"),
                bytes => format!("{owner} has a flight recorder of {bytes} bytes"),
            };
            self.events.push(Event::Notice(format!(
                "{text}, because its limit of memory leaves no more of the {wanted} that it wants: raise `memory_bytes` in \
                 the agent's configuration"
            )));
        }
        if let Some(served) = self.sessions.get_mut(&session) {
            served.keep_bytes = granted;
        }
        if granted > 0 {
            let keep = options(&request, granted);
            self.events.push(Event::Keep { session, keep });
        }
    }

    /// Returns the bytes of a request that all limits leave; 0 where that is less than the least.
    fn keep_bytes(&self, session: u64, served: &ServedSession, wanted: u64) -> u64 {
        let peer = served.session.peer();
        let process = Process {
            app: served.session.app(),
            pid: peer.pid,
            uid: peer.uid,
        };
        let limits = self.options.limits.of(&process);
        let left = |quota: &Quota, belongs: &dyn Fn(&ServedSession) -> bool| {
            let Some(limit) = quota.memory_bytes else {
                return u64::MAX;
            };
            // A new request replaces the earlier one.
            let used = self.sessions.iter().filter(|(_, other)| belongs(other));
            let used = used.fold(0u64, |sum, (id, other)| {
                let rings = memory_bytes(other.session.ring_count(), other.session.options().ring_bytes);
                let kept = if *id == session { 0 } else { other.keep_bytes };
                sum.saturating_add(rings).saturating_add(kept)
            });
            limit.saturating_sub(used)
        };
        let own = |other: &ServedSession| other.session.id() == session;
        let of_user = |other: &ServedSession| other.session.peer().uid == peer.uid;
        let of_app = |other: &ServedSession| other.session.app() == served.session.app();
        let granted = wanted
            .min(left(limits.process, &own))
            .min(limits.user.map_or(u64::MAX, |quota| left(quota, &of_user)))
            .min(limits.app.map_or(u64::MAX, |quota| left(quota, &of_app)))
            .min(left(limits.total, &|_| true));
        if granted < KEEP_BYTES_MIN { 0 } else { granted }
    }
}

fn options(request: &Keep, bytes: u64) -> RecorderOptions {
    // A callsite that cannot be read is none that a record could be of.
    let callsites = request.trigger_callsites.iter();
    RecorderOptions {
        trigger_level: request.trigger_level,
        trigger_callsites: callsites.filter_map(|text| read_selector(text).ok()).collect(),
        on_crash: request.on_crash,
        before: (request.before_ns > 0).then(|| Duration::from_nanos(request.before_ns)),
        pause: Duration::from_nanos(request.pause_ns),
        ..RecorderOptions::new(bytes)
    }
}
