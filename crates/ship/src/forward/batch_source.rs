//! The source of the batches that are sent next: spools that earlier sessions left, the own spool, or memory.

use super::options::ForwardOptions;
use super::owner::Owner;
use super::spool::{Spool, SpoolDirectory};
use crate::TransportError;
use crate::hello::{Hello, Role};
use crate::limits::FRAME_BYTES_MAX;
use crate::session::{RecordBatch, Shipper, SplitRecords};
use std::collections::VecDeque;

/// The sessions whose records are sent, one after the other; the own is the last.
#[derive(Debug)]
pub(super) struct BatchSource {
    own: Owner,
    pub(super) own_first: u64,
    /// Spools that earlier sessions left; the first is sent now.
    leftovers: VecDeque<Spool>,
    spool: Option<Spool>,
    /// Keeps other processes out.
    _directory: Option<SpoolDirectory>,
    /// Reports of the start.
    pub(super) notices: Vec<String>,
    bytes_max: u64,
    /// Number before which records of the own session may have been sent by others.
    sent_until: Option<u64>,
    split: Option<SplitRecords>,
    /// Records of the spool that were given up, because their bytes were damaged on disk.
    pub(super) lost: u64,
    /// Everything of the own session before this number is in the spool, or was.
    pub(super) spooled: u64,
}

impl BatchSource {
    pub(super) fn open(forward: &ForwardOptions, app: &str) -> Result<Self, TransportError> {
        let mut own = Owner::new(forward.session, forward.epoch);
        own.format = forward.format;
        own.pid = forward.pid;
        app.clone_into(&mut own.app);
        let mut source = Self {
            own_first: forward.next,
            leftovers: VecDeque::new(),
            spool: None,
            _directory: None,
            notices: Vec::new(),
            bytes_max: forward.spool.as_ref().map_or(0, |spool| spool.bytes_max),
            sent_until: forward.sent_until,
            split: forward.split,
            lost: 0,
            spooled: forward.next,
            own,
        };
        if let Some(options) = &forward.spool {
            let directory = SpoolDirectory::open_or_beside(options)?;
            source.leftovers = directory.left()?.into();
            source.spool = Some(directory.begin(source.own.clone())?);
            source.notices = directory.take_notices();
            source._directory = Some(directory);
            source.share_quota();
        }
        Ok(source)
    }

    /// The own spool may have what the others leave.
    fn share_quota(&mut self) {
        let taken: u64 = self.leftovers.iter().map(Spool::bytes).sum();
        if let Some(spool) = &mut self.spool {
            spool.set_bytes_max(self.bytes_max.saturating_sub(taken));
        }
    }

    /// Returns whether the own session's turn has come.
    pub(super) fn is_own(&self) -> bool {
        self.leftovers.is_empty()
    }

    /// Owner of the records that are sent now.
    pub(super) fn owner(&self) -> &Owner {
        self.leftovers.front().map_or(&self.own, Spool::owner)
    }

    pub(super) fn has_spool(&self) -> bool {
        self.spool.is_some()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.leftovers.iter().chain(&self.spool).map(Spool::bytes).sum()
    }

    pub(super) fn sessions_left(&self) -> u64 {
        self.leftovers.len() as u64
    }

    pub(super) fn failure(&self) -> &str {
        let own = self.spool.as_ref().and_then(Spool::failure);
        own.unwrap_or_default()
    }

    /// A shipper for the session whose turn it is.
    pub(super) fn shipper(&self, bytes_max: usize) -> Shipper {
        let mut hello = Hello::new(Role::Shipper);
        self.owner().fill_hello(&mut hello);
        hello.next = match (self.leftovers.front(), &self.spool) {
            (Some(spool), _) => spool.first_number(),
            (None, Some(spool)) if spool.bytes() > 0 => spool.first_number(),
            _ => self.own_first,
        };
        let shipper = Shipper::new(hello, bytes_max).with_split(self.split);
        match self.sent_until.filter(|_| self.is_own()) {
            Some(number) => shipper.with_sent_until(number),
            None => shipper,
        }
    }

    fn current(&mut self) -> Option<&mut Spool> {
        self.leftovers.front_mut().or(self.spool.as_mut())
    }

    /// Returns whether nothing is left in the spool of the session whose turn it is.
    pub(super) fn is_current_read(&self) -> bool {
        let current = self.leftovers.front().or(self.spool.as_ref());
        current.is_none_or(Spool::is_read)
    }

    /// Returns whether nothing is left in any spool.
    pub(super) fn is_read(&self) -> bool {
        self.leftovers.is_empty() && self.is_current_read()
    }

    /// Takes batches from the spool as far as the shipper has room. Where damaged ones are missing, those behind them wait until
    /// all before is acknowledged; then the missing ones are given up, which takes another hello. Returns true if it does.
    pub(super) fn read_into(&mut self, shipper: &mut Shipper) -> Result<bool, TransportError> {
        let Some(spool) = self.leftovers.front_mut().or(self.spool.as_mut()) else {
            return Ok(false);
        };
        while shipper.has_room(FRAME_BYTES_MAX) {
            let found = spool.read()?;
            let next = found
                .as_ref()
                .map_or_else(|| spool.next_number(), |batch| batch.first);
            let missing = next.saturating_sub(shipper.next_number());
            if missing > 0 {
                if let Some(batch) = &found {
                    spool.unread(batch);
                }
                if !shipper.is_all_acknowledged() {
                    break;
                }
                spool.note_told(shipper.next_number(), next);
                shipper.give_up_until(next);
                self.lost += missing;
                return Ok(true);
            }
            let Some(batch) = found else { break };
            if batch.end() <= shipper.next_number() {
                continue;
            }
            // There is room for it.
            let _ = shipper.push(batch.count, batch.payload, batch.compressed);
        }
        Ok(false)
    }

    /// Returns whether damaged batches at the end of the own spool have still to be given up, before new ones are sent.
    pub(super) fn is_behind(&self, shipper: &Shipper) -> bool {
        let own = self.spool.as_ref().filter(|_| self.leftovers.is_empty());
        own.is_some_and(|spool| spool.next_number() > shipper.next_number())
    }

    /// Brings what the shipper holds of the own session to the spool. `false`: there is no room for all of it.
    pub(super) fn spool_unacknowledged(&mut self, shipper: &Shipper) -> Result<bool, TransportError> {
        let Some(spool) = self.spool.as_mut().filter(|_| self.leftovers.is_empty()) else {
            return Ok(true);
        };
        for batch in shipper.unacknowledged() {
            if batch.first >= self.spooled {
                if !spool.append(batch)? {
                    return Ok(false);
                }
                self.spooled = batch.end();
            }
        }
        Ok(true)
    }

    /// Adds a batch that comes behind all others, whose number it gets. `false`: there is no room for it.
    pub(super) fn append(
        &mut self,
        shipper: &Shipper,
        batch: &mut RecordBatch,
    ) -> Result<bool, TransportError> {
        let sent = if self.leftovers.is_empty() {
            shipper.next_number()
        } else {
            self.own_first
        };
        batch.first = self.spooled.max(sent);
        let Some(spool) = &mut self.spool else {
            return Ok(false);
        };
        let is_kept = spool.append(batch)?;
        if is_kept {
            self.spooled = batch.end();
        }
        Ok(is_kept)
    }

    /// The number behind the last record of the own session that is acknowledged.
    pub(super) fn acknowledged(&self, shipper: &Shipper) -> u64 {
        match self.leftovers.is_empty() {
            true => shipper.acknowledged(),
            false => self.own_first,
        }
    }

    /// Gives back the room of what is acknowledged.
    pub(super) fn release(&mut self, shipper: &Shipper) -> Result<(), TransportError> {
        match self.current() {
            Some(spool) => spool.release(shipper.acknowledged()),
            None => Ok(()),
        }
    }

    /// All of the first session that was left is acknowledged.
    pub(super) fn next(&mut self) -> Result<(), TransportError> {
        if let Some(mut spool) = self.leftovers.pop_front() {
            spool.release(u64::MAX)?;
            spool.remove();
        }
        self.share_quota();
        Ok(())
    }

    /// Leaves nothing behind where nothing is left.
    pub(super) fn close(&mut self) {
        if let Some(spool) = self.spool.take() {
            spool.remove();
        }
    }
}
