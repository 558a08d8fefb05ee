//! Health probes of the addresses that records may go to, by a thread of their own: a connection that hangs must not hold
//! up records.

use crate::TransportError;
use crate::address::Address;
use crate::connection::probe;
use crate::options::Options;
use crate::upstream::{Group, HealthOptions, MemberId};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Results of probes that wait to be taken, at most: later ones are left out.
const PENDING_EVENTS_MAX: usize = 4096;

#[derive(Debug, Default)]
struct ProbeResults {
    events: Vec<(MemberId, bool)>,
    ends: bool,
}

#[derive(Debug, Default)]
struct Shared {
    results: Mutex<ProbeResults>,
    /// The owner has ended.
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ProbeResults> {
        // A thread that panicked has left whole lists.
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Thread that probes members, and what its results say.
#[derive(Debug)]
pub(super) struct HealthProber {
    shared: Arc<Shared>,
    /// Good probes in a row, of members without a failure since.
    successes: HashMap<MemberId, u32>,
    successes_needed: u32,
}

impl HealthProber {
    pub(super) fn start(
        group: &Group,
        health: HealthOptions,
        options: &Options,
    ) -> Result<Self, TransportError> {
        let members = group.members().map(|member| (member.id, member.options.address));
        let members: Vec<(MemberId, Address)> = members.collect();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let options = options.clone();
        // It is not waited for at the end: the time limits of a connection bound how long it is still there.
        std::thread::Builder::new()
            .name("logdrive-health".to_owned())
            .spawn(move || probe_members(&members, health.every, &options, &theirs))
            .map_err(|cause| TransportError::System {
                doing: "start a thread",
                cause,
            })?;
        Ok(Self {
            shared,
            successes: HashMap::new(),
            successes_needed: health.successes.max(1),
        })
    }

    /// Takes the results of probes since the last call.
    pub(super) fn events(&mut self) -> Vec<(MemberId, bool)> {
        let events = std::mem::take(&mut self.shared.lock().events);
        for (id, is_healthy) in &events {
            match is_healthy {
                true => *self.successes.entry(*id).or_default() += 1,
                false => self.suspect(*id),
            }
        }
        events
    }

    /// Forgets good probes of a member that has failed.
    pub(super) fn suspect(&mut self, id: MemberId) {
        self.successes.remove(&id);
    }

    /// Returns whether the last probes of a member were good, and enough of them; without a probe it is not known.
    pub(super) fn is_confirmed_healthy(&self, id: MemberId) -> bool {
        self.successes
            .get(&id)
            .is_some_and(|successes| *successes >= self.successes_needed)
    }
}

impl Drop for HealthProber {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.changed.notify_all();
    }
}

/// Probes each member again and again.
fn probe_members(members: &[(MemberId, Address)], every: Duration, options: &Options, shared: &Shared) {
    // As the thread that forwards.
    logdrive_ring::local::deny_thread();
    loop {
        for (id, address) in members {
            let is_healthy = probe(address, options).is_ok();
            let mut results = shared.lock();
            if results.ends {
                return;
            }
            if results.events.len() < PENDING_EVENTS_MAX {
                results.events.push((*id, is_healthy));
            }
        }
        let waited = shared
            .changed
            .wait_timeout_while(shared.lock(), every, |results| !results.ends);
        if waited.unwrap_or_else(PoisonError::into_inner).0.ends {
            return;
        }
    }
}
