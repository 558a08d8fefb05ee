//! Health probes of the addresses that records may go to, by a thread of their own: a connection that hangs must not hold
//! up records.

use crate::TransportError;
use crate::address::Address;
use crate::connection::probe;
use crate::options::Options;
use crate::upstream::{Group, HealthOptions, MemberId};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::Duration;

/// Results of probes that wait to be taken, at most: later ones are left out.
const PENDING_EVENTS_MAX: usize = 4096;

/// Thread that probes members, and what its results say.
#[derive(Debug)]
pub(super) struct HealthProber {
    results: Receiver<(MemberId, bool)>,
    /// The thread ends when this is dropped.
    _ends: Sender<()>,
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
        let (sender, results) = sync_channel(PENDING_EVENTS_MAX);
        let (ends, ended) = channel();
        let options = options.clone();
        // It is not waited for at the end: the time limits of a connection bound how long it is still there.
        std::thread::Builder::new()
            .name("logdrive-health".to_owned())
            .spawn(move || {
                logdrive_ring::signals::block_in_thread();
                probe_members(&members, health.every, &options, &sender, &ended);
            })
            .map_err(TransportError::system("start a thread"))?;
        Ok(Self {
            results,
            _ends: ends,
            successes: HashMap::new(),
            successes_needed: health.successes.max(1),
        })
    }

    /// Takes the results of probes since the last call.
    pub(super) fn events(&mut self) -> Vec<(MemberId, bool)> {
        let events: Vec<_> = self.results.try_iter().collect();
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

/// Probes each member again and again.
fn probe_members(
    members: &[(MemberId, Address)],
    every: Duration,
    options: &Options,
    results: &SyncSender<(MemberId, bool)>,
    ended: &Receiver<()>,
) {
    // As the thread that forwards.
    logdrive_ring::local::deny_thread();
    loop {
        for (id, address) in members {
            let is_healthy = probe(address, options).is_ok();
            if let Err(TrySendError::Disconnected(_)) = results.try_send((*id, is_healthy)) {
                return;
            }
        }
        if ended.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}
