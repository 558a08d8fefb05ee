//! Several outputs at once: each a store with its log and its ledger, of which each record is in those that it is routed to,
//! once. A batch goes to all of them; each knows for itself what it has, also after a kill between two of them.

use crate::routes::{CollectRoute, RecordFilter};
use crate::store::{SessionGap, Store, StoreCounts};
use logdrive_ship::frame::{FrameError, Messages};
use logdrive_ship::hello::Reason;
use logdrive_ship::session::{Peer, Service};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Service of [`logdrive_ship::serve`] that writes records to the outputs that routes name.
///
/// ```
/// use logdrive_collector::{CollectRoute, Outputs, Store, StoreFormat};
/// use logdrive_drain::file::FileOptions;
/// let directory = tempfile::tempdir()?;
/// let open = |name: &str| {
///     let options = FileOptions::new(directory.path().join(name).join("collected.log"));
///     Store::open(&options, StoreFormat::Text, false)
/// };
/// let outputs = Outputs::new(vec![open("all")?, open("errors")?], vec![CollectRoute::to_all(2)]);
/// assert_eq!(outputs.counts().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Outputs {
    stores: Vec<Store>,
    /// Each record goes to an output at least.
    takes_all: bool,
    /// Peers as each store knows them, by connection.
    peers: Mutex<HashMap<u64, Arc<[Peer]>>>,
}

impl Outputs {
    /// Sends records to stores by routes, which name them by their places; without routes all get all.
    pub fn new(stores: Vec<Store>, routes: Vec<CollectRoute>) -> Self {
        let takes_all = routes.is_empty() || routes.iter().any(CollectRoute::takes_all);
        let routes: Arc<[CollectRoute]> = routes.into();
        let filtered = |(index, store): (usize, Store)| match routes.is_empty() {
            true => store,
            false => store.with_filter(RecordFilter::new(Arc::clone(&routes), index)),
        };
        Self {
            stores: stores.into_iter().enumerate().map(filtered).collect(),
            takes_all,
            peers: Mutex::default(),
        }
    }

    /// Stores, in the order that was given.
    pub fn stores(&self) -> &[Store] {
        &self.stores
    }

    /// Counts of all stores together: a record in two outputs counts twice.
    pub fn total(&self) -> StoreCounts {
        StoreCounts::sum(self.counts())
    }

    /// Messages for the operator of the collector, since the last call.
    pub fn notices(&self) -> Vec<String> {
        self.stores.iter().flat_map(Store::notices).collect()
    }

    /// As [`Store::reopen`], of all.
    pub fn reopen(&self) {
        self.stores.iter().for_each(Store::reopen);
    }

    /// As [`Store::close`], of all.
    pub fn close(&self) {
        self.stores.iter().for_each(Store::close);
    }

    /// Counts of each store up to now.
    pub fn counts(&self) -> Vec<StoreCounts> {
        self.stores.iter().map(Store::counts).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<[Peer]>>> {
        // Whole entries go in and out.
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a sender has given up, by what each store knows: none has more of the session than was sent.
    fn lost(&self, gap: &[SessionGap]) -> u64 {
        let exact = gap.iter().filter(|own| !own.is_bound);
        let exact = exact.map(|own| own.records).min();
        // The store that got the last record knows it.
        let bound = || gap.iter().map(|own| own.records).min();
        exact.or_else(|| bound().filter(|_| self.takes_all)).unwrap_or(0)
    }

    fn known(&self, peer: &Peer) -> Result<Arc<[Peer]>, Reason> {
        self.lock().get(&peer.id).cloned().ok_or(Reason::Unexpected)
    }
}

impl Service for Outputs {
    fn hello(&self, peer: &Peer) -> Result<u64, Reason> {
        let (mut known, mut least, mut gap) = (Vec::new(), u64::MAX, Vec::new());
        for (store, acks) in self.stores.iter().zip(peer.acks.split(self.stores.len())) {
            let own = Peer { acks, ..peer.clone() };
            match store.begin(&own) {
                Ok((next, lost)) => {
                    gap.extend(lost);
                    least = least.min(next);
                    own.acks.acknowledge(next);
                    known.push(own);
                }
                Err(reason) => {
                    for (store, own) in self.stores.iter().zip(&known) {
                        store.disconnected(own, reason);
                    }
                    return Err(reason);
                }
            }
        }
        self.lock().insert(peer.id, known.into());
        if let Some(first) = self.stores.first() {
            first.count_lost(self.lost(&gap));
        }
        Ok(least)
    }

    fn batch(&self, _: &Peer, _: u16, _: Messages<'_>) -> Result<(), FrameError> {
        // As for one store.
        Err(FrameError::Refused { what: "messages" })
    }

    fn records(&self, peer: &Peer, first: u64, count: u32, payload: &[u8]) -> Result<u64, Reason> {
        let mut least = u64::MAX;
        for (store, own) in self.stores.iter().zip(self.known(peer)?.iter()) {
            let next = store.records(own, first, count, payload)?;
            if !store.defers_acks() {
                own.acks.acknowledge(next);
            }
            least = least.min(next);
        }
        Ok(least)
    }

    fn defers_acks(&self) -> bool {
        self.stores.iter().any(Store::defers_acks)
    }

    fn is_congested(&self, peer: &Peer) -> bool {
        let known = self.known(peer).ok();
        let mut known = known.iter().flat_map(|known| known.iter()).zip(&self.stores);
        known.any(|(own, store)| store.is_congested(own))
    }

    fn gap(&self, peer: &Peer, lost: u64) {
        // Their routes are not known.
        if let Some(first) = self.stores.first() {
            first.gap(peer, lost);
        }
    }

    fn disconnected(&self, peer: &Peer, reason: Reason) {
        let known = self.lock().remove(&peer.id);
        for (own, store) in known.iter().flat_map(|known| known.iter()).zip(&self.stores) {
            store.disconnected(own, reason);
        }
    }
}
