//! Looks at those that records may be sent to, by a thread of its own: a connection that hangs must not hold up records.

use crate::TransportError;
use crate::address::Address;
use crate::message::Client;
use crate::options::Options;
use crate::upstream::{Group, HealthOptions, MemberId};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Looks whose news nobody has heard yet, at most: whoever does not hear them has other things to do.
const NEWS_MAX: usize = 4096;

#[derive(Debug, Default)]
struct Found {
    news: Vec<(MemberId, bool)>,
    ends: bool,
}

#[derive(Debug, Default)]
struct Shared {
    found: Mutex<Found>,
    /// It ends.
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Found> {
        // Whoever panicked has left whole lists.
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that looks, and what is made of its news.
#[derive(Debug)]
pub(super) struct Health {
    shared: Arc<Shared>,
    /// Good looks in a row, of those without a failure since.
    good: HashMap<MemberId, u32>,
    enough: u32,
}

impl Health {
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
            .spawn(move || look(&members, health.every, &options, &theirs))
            .map_err(|cause| TransportError::System {
                doing: "start a thread",
                cause,
            })?;
        Ok(Self {
            shared,
            good: HashMap::new(),
            enough: health.successes.max(1),
        })
    }

    /// What has been found since the last time.
    pub(super) fn news(&mut self) -> Vec<(MemberId, bool)> {
        let news = std::mem::take(&mut self.shared.lock().news);
        for (id, is_well) in &news {
            match is_well {
                true => *self.good.entry(*id).or_default() += 1,
                false => self.doubt(*id),
            }
        }
        news
    }

    /// A member has failed, whatever looks have said before.
    pub(super) fn doubt(&mut self, id: MemberId) {
        self.good.remove(&id);
    }

    /// Whether the last looks at a member were good, and enough of them; without a look it is not known.
    pub(super) fn is_surely_well(&self, id: MemberId) -> bool {
        self.good.get(&id).is_some_and(|good| *good >= self.enough)
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.changed.notify_all();
    }
}

/// Says hello to each, and goodbye, again and again.
fn look(members: &[(MemberId, Address)], every: Duration, options: &Options, shared: &Shared) {
    // As the thread that forwards.
    logdrive_ring::local::deny_thread();
    loop {
        for (id, address) in members {
            let is_well = Client::connect(address, options).is_ok();
            let mut found = shared.lock();
            if found.ends {
                return;
            }
            if found.news.len() < NEWS_MAX {
                found.news.push((*id, is_well));
            }
        }
        let waited = shared
            .changed
            .wait_timeout_while(shared.lock(), every, |found| !found.ends);
        if waited.unwrap_or_else(PoisonError::into_inner).0.ends {
            return;
        }
    }
}
