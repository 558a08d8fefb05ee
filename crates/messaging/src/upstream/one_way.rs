//! Messages one way and without acknowledgement through a group: a sender for each member, which all threads share.

use super::chooser::Wanted;
use super::member_sender::{CachedSender, MemberSender};
use super::pool::{PoolState, Shared, Upstream};
use crate::{Client, Sender};
use logdrive_ship::upstream::MemberId;
use logdrive_ship::{Address, TransportError};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Member that is sent to now.
enum Picked {
    /// Its sender is there.
    Open(MemberId, Arc<MemberSender>),
    /// It has none yet; what had to go for it says goodbye when it is dropped.
    New(MemberId, Address, Option<Box<Client>>),
}

impl PoolState {
    fn pick_sender(&mut self, wanted: Wanted<'_>, now_ns: u64, tried: &[MemberId]) -> Option<Picked> {
        let mut free: Vec<MemberId> = self.senders.keys().copied().collect();
        free.extend(self.idle_members().filter(|id| !self.senders.contains_key(id)));
        let id = self.pick_beside(&free, wanted, now_ns, tried)?;
        if let Some(used) = self.senders.get_mut(&id) {
            used.used = Instant::now();
            let sender_for = Arc::clone(&used.sender_for);
            // Only the transfer to the sender is known; later failures are reported then.
            self.group.succeeded(id);
            return Some(Picked::Open(id, sender_for));
        }
        let address = self.group.address(id)?.clone();
        let gone = self
            .group
            .is_full(id)
            .then(|| self.take_free(id).map(Box::new))
            .flatten();
        self.group.connected(id, true);
        Some(Picked::New(id, address, gone))
    }

    /// Takes out the lanes that were unused for so long, for the caller to drop.
    pub(super) fn remove_idle_senders(
        &mut self,
        now: Instant,
        idle_timeout: Duration,
    ) -> Vec<Arc<MemberSender>> {
        let silent: Vec<MemberId> = self
            .senders
            .iter()
            .filter(|(_, used)| now.saturating_duration_since(used.used) >= idle_timeout)
            .map(|(id, _)| *id)
            .collect();
        let senders = silent.into_iter().filter_map(|id| {
            self.group.connected(id, false);
            self.senders.remove(&id)
        });
        senders.map(|used| used.sender_for).collect()
    }
}

impl Shared {
    /// A member and its sender, and whether that was there already.
    fn sender_for(
        &self,
        wanted: Wanted<'_>,
        tried: &[MemberId],
    ) -> Result<(MemberId, bool, SenderResult), TransportError> {
        let picked = self.acquire(tried, |inner, now_ns| inner.pick_sender(wanted, now_ns, tried))?;
        let (id, address) = match picked {
            Picked::Open(id, sender_for) => return Ok((id, true, Ok(sender_for))),
            Picked::New(id, address, gone) => {
                drop(gone);
                (id, address)
            }
        };
        let made = Sender::connect_once(&address, &self.options_for(id));
        let sender_for = match made {
            Ok(sender) => Arc::new(MemberSender {
                sender,
                lost: Arc::clone(&self.lost),
            }),
            Err(error) => {
                self.return_connection(id, None);
                return Ok((id, false, Err(error)));
            }
        };
        let mut inner = self.lock();
        inner.group.succeeded(id);
        let is_member = inner.group.address(id).is_some();
        let is_first = !inner.senders.contains_key(&id);
        if is_member && is_first {
            let used = CachedSender {
                sender_for: Arc::clone(&sender_for),
                used: Instant::now(),
            };
            inner.senders.insert(id, used);
        } else {
            // Another thread was faster, or the member has gone: this one is used once.
            inner.group.connected(id, false);
            self.notify_room();
        }
        Ok((id, false, Ok(sender_for)))
    }

    /// A member's sender has failed: the next call connects anew.
    fn sender_failed(
        &self,
        id: MemberId,
        sender_for: &Arc<MemberSender>,
        counts: bool,
        error: &TransportError,
    ) {
        let mut inner = self.lock();
        let is_listed = inner
            .senders
            .get(&id)
            .is_some_and(|used| Arc::ptr_eq(&used.sender_for, sender_for));
        let gone = is_listed.then(|| inner.senders.remove(&id));
        if gone.is_some() {
            inner.group.connected(id, false);
        }
        if counts {
            inner.group.failed(id, &error.to_string(), self.now_ns());
        }
        drop(inner);
        drop(gone);
        self.notify_room();
    }
}

type SenderResult = Result<Arc<MemberSender>, TransportError>;

/// Pushes messages, and takes those that were pushed off the list.
fn push_all<M: AsRef<[u8]>>(sender_for: &MemberSender, rest: &mut &[M]) -> Result<(), TransportError> {
    let mut batch = sender_for.sender.batch();
    while let Some((message, others)) = rest.split_first() {
        batch.push(message.as_ref())?;
        *rest = others;
    }
    Ok(())
}

impl Upstream {
    /// Sends one message one way to a member, with those that others send; without a confirmation that it has come. It
    /// is with the system at the latest when `linger` has passed, as with [`Sender::send`]. Blocks while a connection
    /// is made, and while the member does not read.
    ///
    /// # Errors
    /// Fails when it is too long, or no member takes it.
    pub fn send(&self, key: u64, message: &[u8]) -> Result<(), TransportError> {
        self.send_all(key, &[message])
    }

    /// As [`Upstream::send`], many messages to one member: cheaper for each. Where its connection is lost, those that
    /// are left go to another one.
    ///
    /// # Errors
    /// As [`Upstream::send`]; those before the one that failed have been handed over.
    pub fn send_all<M: AsRef<[u8]>>(&self, key: u64, messages: &[M]) -> Result<(), TransportError> {
        let mut rest = messages;
        let mut tried = Vec::new();
        let mut was_stale = false;
        loop {
            let (id, was_there, sender_for) = self.shared.sender_for(Wanted::of(key, rest), &tried)?;
            let error = match sender_for {
                Ok(sender_for) => match push_all(&sender_for, &mut rest) {
                    Ok(()) => return Ok(()),
                    Err(error @ TransportError::TooLong { .. }) => return Err(error),
                    Err(error) => {
                        // A connection that was lost while idle says nothing about the member, the first time.
                        let is_stale = was_there && !was_stale;
                        self.shared.sender_failed(id, &sender_for, !is_stale, &error);
                        if is_stale {
                            was_stale = true;
                            continue;
                        }
                        error
                    }
                },
                Err(error) => {
                    self.shared.member_failed(id, &error);
                    error
                }
            };
            tried.push(id);
            if tried.len() > self.shared.options.retries as usize {
                return Err(error);
            }
        }
    }

    /// Sends what [`Upstream::send`] has collected, and waits until the system has taken it.
    ///
    /// # Errors
    /// Fails when a connection is lost, and with it what it had collected; the others have sent theirs.
    pub fn flush(&self) -> Result<(), TransportError> {
        let inner = self.shared.lock();
        let senders = inner
            .senders
            .iter()
            .map(|(id, used)| (*id, Arc::clone(&used.sender_for)));
        let senders: Vec<(MemberId, Arc<MemberSender>)> = senders.collect();
        drop(inner);
        let mut result = Ok(());
        for (id, sender_for) in senders {
            if let Err(error) = sender_for.sender.flush() {
                self.shared.sender_failed(id, &sender_for, true, &error);
                result = Err(error);
            }
        }
        result
    }

    /// Messages that [`Upstream::send`] has taken and that are lost with their connections, as far as this end knows:
    /// what the system had taken may be lost as well. [`Upstream::deliver`] is for those that must arrive.
    pub fn lost(&self) -> u64 {
        let inner = self.shared.lock();
        let senders: Vec<Arc<MemberSender>> = inner
            .senders
            .values()
            .map(|used| Arc::clone(&used.sender_for))
            .collect();
        drop(inner);
        // Those that have gone have added theirs.
        let open: u64 = senders.iter().map(|sender_for| sender_for.sender.lost()).sum();
        self.shared.lost.load(Ordering::Relaxed) + open
    }
}
