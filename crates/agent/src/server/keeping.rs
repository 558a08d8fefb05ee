//! What a process may have kept in memory, of what it wishes: its flight recorder counts as its memory.

use super::Server;
use super::event::Event;
use super::quota::memory_bytes;
use super::sessions::Held;
use crate::config::{Process, Quota};
use logdrive_drain::KeepOptions;
use logdrive_drain::control::read_selector;
use logdrive_ring::SharedSession;
use logdrive_wire::agent::Keep;
use std::time::Duration;

/// The least that a flight recorder can have.
const KEEP_BYTES_MIN: u64 = 1 << 20;

impl Server {
    /// Grants the flight recorder that a process has wished for before it got its session. The owner hears of it before it
    /// hears of the session.
    pub(super) fn wish_to_keep(&mut self, key: u64, session: &SharedSession) {
        let session = session.id();
        let wish = self.connections.get_mut(&key);
        let Some(wish) = wish.and_then(|connection| connection.keep.take()) else {
            return;
        };
        let Some(held) = self.sessions.get(&session) else {
            return;
        };
        let wanted = wish
            .bytes
            .clamp(KEEP_BYTES_MIN, logdrive_ring::limits::KEEP_BYTES_MAX as u64);
        let granted = self.keep_bytes(session, held, wanted);
        let whose = format!("process {} of {}", held.session.peer().pid, held.session.app());
        if granted < wanted {
            let text = match granted {
                0 => format!("{whose} has no flight recorder"),
                bytes => format!("{whose} has a flight recorder of {bytes} bytes"),
            };
            self.events.push(Event::Notice(format!(
                "{text}, because its limit of memory leaves no more of the {wanted} that it wants: raise `memory_bytes` in \
                 the agent's configuration"
            )));
        }
        if let Some(held) = self.sessions.get_mut(&session) {
            held.keep_bytes = granted;
        }
        if granted > 0 {
            let keep = options(&wish, granted);
            self.events.push(Event::Keep { session, keep });
        }
    }

    /// How much of a wish all limits leave; 0 where that is less than the least.
    fn keep_bytes(&self, session: u64, held: &Held, wanted: u64) -> u64 {
        let peer = held.session.peer();
        let process = Process {
            app: held.session.app(),
            pid: peer.pid,
            uid: peer.uid,
        };
        let allowance = self.options.limits.of(&process);
        let left = |quota: &Quota, is_in: &dyn Fn(&Held) -> bool| {
            let Some(limit) = quota.memory_bytes else {
                return u64::MAX;
            };
            // What it had wished for before is no more when it wishes anew.
            let used = self.sessions.iter().filter(|(_, other)| is_in(other));
            let used = used.fold(0u64, |sum, (id, other)| {
                let rings = memory_bytes(other.session.ring_count(), other.session.ring_bytes());
                let kept = if *id == session { 0 } else { other.keep_bytes };
                sum.saturating_add(rings).saturating_add(kept)
            });
            limit.saturating_sub(used)
        };
        let own = |other: &Held| other.session.id() == session;
        let of_user = |other: &Held| other.session.peer().uid == peer.uid;
        let of_app = |other: &Held| other.session.app() == held.session.app();
        let granted = wanted
            .min(left(allowance.process, &own))
            .min(allowance.user.map_or(u64::MAX, |quota| left(quota, &of_user)))
            .min(allowance.app.map_or(u64::MAX, |quota| left(quota, &of_app)))
            .min(left(allowance.total, &|_| true));
        if granted < KEEP_BYTES_MIN { 0 } else { granted }
    }
}

fn options(wish: &Keep, bytes: u64) -> KeepOptions {
    // A callsite that cannot be read is none that a record could be of.
    let callsites = wish.trigger_callsites.iter();
    KeepOptions {
        trigger_level: wish.trigger_level,
        trigger_callsites: callsites.filter_map(|text| read_selector(text).ok()).collect(),
        on_crash: wish.on_crash,
        before: (wish.before_ns > 0).then(|| Duration::from_nanos(wish.before_ns)),
        pause: Duration::from_nanos(wish.pause_ns),
        ..KeepOptions::new(bytes)
    }
}
