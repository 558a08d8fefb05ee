//! The sink that sends its records to a collector, at least once, and once in what the collector keeps. Records go typed, as
//! blocks of columns, unless its layout is one of lines.
//!
//! A buffer gets the number of its first record before anything of it is sent, noted in shared memory as its place:
//! session and number. It is given back when the collector has acknowledged all of it (C3), or the spool has it. So a
//! process that is killed leaves its unacknowledged buffers to its recovery, which sends them again under the same
//! numbers, and the collector leaves out what it has.

mod batches;
mod options;

use self::batches::{Batches, Cut};
use crate::error::BackendError;
use crate::layout::{LayoutOptions, ProcessInfo};
use crate::limits::{NO_PROGRESS, SHIP_LOOK_MS, SHIP_QUEUE_BYTES};
use crate::sink::delivery::{Delivery, Done};
use crate::status::BackendStatus;
use logdrive_ring::{Buffer, FileLocation};
use logdrive_ship::TransportError;
use logdrive_ship::connection::probe;
use logdrive_ship::forward::{ForwardOptions, ForwardWatch, Forwarder, Owner, SpoolDirectory, new_session};
pub use logdrive_ship::forward::{ForwardState, SpoolOptions};
pub use logdrive_ship::upstream::{BreakerOptions, GroupOptions, HealthOptions, MemberOptions, Policy};
pub use logdrive_ship::{Address, Options as TransportOptions, TlsFiles};
pub use options::ShipOptions;
use std::cell::Cell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The epoch of a sink's numbers: each start has a session of its own, so that there is one.
pub(super) const EPOCH: u64 = 1;

impl ShipOptions {
    /// Destination of the lines, as messages name it.
    pub fn destination(&self) -> String {
        let all = self.to.iter().map(|member| member.address.to_string());
        all.collect::<Vec<String>>().join(", ")
    }

    /// Returns whether what no collector takes can go to disk.
    pub(crate) fn has_spool(&self) -> bool {
        self.spool.is_some()
    }

    /// Directory of the spool.
    pub(crate) fn spool_path(&self) -> Option<PathBuf> {
        let directory = &self.spool.as_ref()?.directory;
        Some(std::path::absolute(directory).unwrap_or_else(|_| directory.clone()))
    }

    /// Returns whether any collector says hello within this time.
    pub(crate) fn answers(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        self.to.iter().any(|member| {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let mut transport = self.transport.clone();
            let timeouts = &mut transport.timeouts;
            (timeouts.connect, timeouts.handshake, timeouts.response) = (left, left, left);
            // A refusal is an answer, too.
            matches!(
                probe(&member.address, &transport),
                Ok(()) | Err(TransportError::Refused { .. })
            )
        })
    }

    /// Starts to send, under numbers of its own.
    pub(crate) fn start(
        &self,
        layout: &LayoutOptions,
        process: &ProcessInfo,
        index: usize,
        status: &BackendStatus,
    ) -> Result<Box<dyn Delivery>, BackendError> {
        // An odd number: a place with 0 has no offsets.
        let session = new_session().map_err(|cause| BackendError::Random { cause })? | 1;
        let (transport, mut forward) = self.forward(&self.owner(session, layout, process), 0);
        forward.spool.clone_from(&self.spool);
        forward.persists = true;
        // The session is new.
        forward.sent_until = Some(0);
        let forwarder = match Forwarder::start(&[], &transport, &forward) {
            Err(error) if forward.spool.take().is_some() => {
                let forwarder = Forwarder::start(&[], &transport, &forward)?;
                status.notice(format!(
                    "{error}; this sink has no spool until the next start, and its records wait in memory"
                ));
                forwarder
            }
            started => started?,
        };
        forwarder
            .notices()
            .iter()
            .for_each(|notice| status.notice(notice.clone()));
        status.watch(index, forwarder.watch());
        Ok(Box::new(Shipping {
            watch: forwarder.watch(),
            forwarder,
            session,
            batches: Batches::new(layout),
            next: 0,
            waiting: VecDeque::new(),
            has_spool: forward.spool.is_some(),
            lost: 0,
            unreadable: 0,
            destination: self.destination(),
            is_failing: false,
            moved: Cell::new(Instant::now()),
        }))
    }

    fn owner(&self, session: u128, layout: &LayoutOptions, process: &ProcessInfo) -> Owner {
        let mut owner = Owner::new(session, EPOCH);
        owner.format = Batches::new(layout).format();
        owner.pid = process.pid;
        owner.app = self.app.clone().unwrap_or_else(|| process.app.clone());
        owner
    }

    fn forward(&self, owner: &Owner, next: u64) -> (TransportOptions, ForwardOptions) {
        let mut transport = self.transport.clone();
        transport.app.clone_from(&owner.app);
        let mut forward = ForwardOptions::new(owner.session, owner.epoch);
        forward.next = next;
        forward.pid = owner.pid;
        forward.format = owner.format;
        forward.split = Some(batches::split);
        forward.zstd_level = self.zstd_level;
        forward.members.clone_from(&self.to);
        forward.group.clone_from(&self.group);
        forward.queue_bytes = SHIP_QUEUE_BYTES;
        (transport, forward)
    }

    /// Sends the buffers of a dead process again that it had begun to send, under their numbers, or puts them into the
    /// spool. Those are spare then; gives back the others.
    pub(crate) fn finish(
        &self,
        unwritten: Vec<(Buffer, FileLocation)>,
        spare: &mut Vec<Buffer>,
        (layout, process): (&LayoutOptions, &ProcessInfo),
        status: &BackendStatus,
    ) -> Result<Vec<(Buffer, FileLocation)>, BackendError> {
        let mut rest = Vec::new();
        let mut begun: Vec<(Buffer, FileLocation)> = Vec::new();
        for (buffer, place) in unwritten {
            match place.ino {
                0 => rest.push((buffer, place)),
                _ => begun.push((buffer, place)),
            }
        }
        let mut batches = Batches::new(layout);
        while !begun.is_empty() {
            let (session, first) = session_of(&begun);
            let mut next = first;
            let mut group = Vec::new();
            while let Some((buffer, place)) = begun.first() {
                let is_next = (place.dev, place.ino) == halves(session) && place.offset == next;
                if !is_next && !group.is_empty() {
                    break;
                }
                next = place.offset.saturating_add(batches.count(buffer.bytes()));
                group.push(begun.remove(0));
            }
            let owner = self.owner(session, layout, process);
            self.send_again(&owner, &group, (&mut batches, next), status)?;
            for (mut buffer, _) in group {
                buffer.mark_written();
                spare.push(buffer);
            }
        }
        Ok(rest)
    }

    fn send_again(
        &self,
        owner: &Owner,
        group: &[(Buffer, FileLocation)],
        (batches, end): (&mut Batches, u64),
        status: &BackendStatus,
    ) -> Result<(), BackendError> {
        let mut numbered: Vec<(u64, Cut)> = Vec::new();
        for (buffer, place) in group {
            let mut first = place.offset;
            // What cannot be read was left out and told when the buffer was adopted.
            let (cuts, _) = batches.cut(buffer.bytes(), buffer.records());
            for cut in cuts {
                let next = first.saturating_add(cut.count.into());
                numbered.push((std::mem::replace(&mut first, next), cut));
            }
        }
        if let Some(spool) = &self.spool {
            let batches: Vec<(u64, u32, &[u8])> = numbered
                .iter()
                .map(|(first, cut)| (*first, cut.count, cut.payload.as_slice()))
                .collect();
            let spools = SpoolDirectory::open_or_beside(spool)?;
            let put_back = spools.put_back(owner, &batches);
            spools
                .take_notices()
                .into_iter()
                .for_each(|text| status.notice(text));
            return Ok(put_back?);
        }
        let first = numbered.first().map_or(0, |batch| batch.0);
        let (transport, mut forward) = self.forward(owner, first);
        forward.sent_until = Some(end);
        let forwarder = Forwarder::start(&[], &transport, &forward)?;
        let timeout = NO_PROGRESS;
        let failed = || BackendError::NoProgress {
            path: PathBuf::from(self.destination()),
        };
        let ends: Vec<u64> = numbered.iter().map(|(first, _)| *first).chain([end]).collect();
        for (_, cut) in numbered {
            forwarder
                .push(cut.count, cut.payload, timeout)
                .map_err(|_| failed())?;
        }
        // As long as anything moves.
        match ends
            .into_iter()
            .all(|number| forwarder.wait_acknowledged(number, timeout))
        {
            true => Ok(()),
            false => Err(failed()),
        }
    }
}

/// A session as the numbers of a place; the second is never 0.
fn halves(session: u128) -> (u64, u64) {
    ((session >> 64) as u64, session as u64)
}

fn session_of(begun: &[(Buffer, FileLocation)]) -> (u128, u64) {
    let place = begun.first().map(|(_, place)| *place).unwrap_or_default();
    (u128::from(place.dev) << 64 | u128::from(place.ino), place.offset)
}

/// A sink that sends.
#[derive(Debug)]
struct Shipping {
    forwarder: Forwarder,
    watch: ForwardWatch,
    session: u128,
    batches: Batches,
    next: u64,
    /// Actions that wait until every record before their number is acknowledged.
    waiting: VecDeque<(u64, Done)>,
    has_spool: bool,
    /// Damaged records of the spool that were told.
    lost: u64,
    /// Records of buffers that cannot be read, and were not told.
    unreadable: u64,
    destination: String,
    is_failing: bool,
    /// Time of the last progress, after which acknowledgements are checked often.
    moved: Cell<Instant>,
}

impl Delivery for Shipping {
    fn send(&mut self, mut buffer: Buffer) {
        let (dev, ino) = halves(self.session);
        let offset = self.next;
        buffer.mark_writing(FileLocation { dev, ino, offset });
        let (cuts, lost) = self.batches.cut(buffer.bytes(), buffer.records());
        self.unreadable += lost;
        for cut in cuts {
            // All buffers of a sink fit into the queue, so that this does not wait, and does not fail.
            // Where its thread has ended after all, the buffer stays marked, for a recovery of the session.
            let _ = self.forwarder.push(cut.count, cut.payload, Duration::MAX);
            self.next += u64::from(cut.count);
        }
        self.waiting.push_back((self.next, Done::Buffer(buffer)));
        self.moved.set(Instant::now());
    }

    fn note_ticket(&mut self, ticket: u64) {
        self.waiting.push_back((self.next, Done::Ticket(ticket)));
        self.moved.set(Instant::now());
    }

    fn done(&mut self) -> Option<Done> {
        let (number, _) = self.waiting.front()?;
        if *number > self.watch.secured() {
            return None;
        }
        self.moved.set(Instant::now());
        self.waiting.pop_front().map(|(_, done)| done)
    }

    fn state_change(&mut self) -> Option<(bool, String)> {
        if self.unreadable > 0 {
            let records = std::mem::take(&mut self.unreadable);
            let text = format!("{records} records in an output buffer are lost: its memory is damaged there");
            return Some((self.is_failing, text));
        }
        let lost = self.watch.lost();
        if lost > self.lost {
            let fresh = lost - std::mem::replace(&mut self.lost, lost);
            let text =
                format!("{fresh} records in the spool are lost: their bytes are damaged or missing on disk");
            return Some((true, text));
        }
        let failure = self.watch.failure();
        if self.is_failing != failure.is_none() {
            return None;
        }
        self.is_failing = failure.is_some();
        let text = match failure {
            None => format!("the collector at {} takes records again", self.destination),
            Some(why) if self.has_spool => {
                format!("{why}; records go to the spool until a collector takes them")
            }
            Some(why) => format!("{why}; records wait until a collector takes them"),
        };
        Some((self.is_failing, text))
    }

    fn look_in(&self) -> Option<Duration> {
        if self.waiting.is_empty() {
            return None;
        }
        let quiet_ms = u64::try_from(self.moved.get().elapsed().as_millis() / 8).unwrap_or(u64::MAX);
        Some(Duration::from_millis(
            quiet_ms.clamp(SHIP_LOOK_MS.0, SHIP_LOOK_MS.1),
        ))
    }

    fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    fn close(mut self: Box<Self>) {
        self.forwarder.stop(Duration::ZERO);
    }
}
