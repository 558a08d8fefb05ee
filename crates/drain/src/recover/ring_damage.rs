//! Mending of the rings of a dead process. Records have no checksums, but their lengths lead from one to the next, and the
//! values of most say where they end: so a header that is damaged costs itself alone, and what is behind it is found again.

use crate::limits::RING_SEARCH_STEPS;
use logdrive_ring::{Consumer, DamageNotes, Ring, RingError, SessionReader};
use logdrive_wire::limits::{RECORD_ALIGN, RECORD_BYTES_MAX};
use logdrive_wire::record::{HEADER_BYTES, align_up, is_length};
use logdrive_wire::{Callsite, Cursor, RecordHeader, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// Records that follow each other from a place at which records are taken to go on.
const CHAIN_RECORDS: usize = 8;

/// Callsite of a record that takes the place of bytes that are none. No session has it, so that it is reported and counted
/// as one record that cannot be read.
const LOST_CALLSITE: u32 = u32::MAX;

/// Bytes of the longest record that takes the place of others.
const FILLER_BYTES_MAX: usize = RECORD_BYTES_MAX - RECORD_BYTES_MAX % RECORD_ALIGN;

/// Mends the rings of a session that was adopted, before anything is taken from them. Each change is noted before.
pub(crate) fn mend_rings(session: &SessionReader, epoch: u64, notes: &mut DamageNotes) {
    let (rings, _) = session.rings();
    let resume = |ring: &Arc<Ring>| Consumer::resume(Arc::clone(ring), epoch);
    let count = |ring: &Arc<Ring>| count_of(&resume(ring));
    for ring in &rings {
        take_back_position(&mut resume(ring), epoch, notes);
    }
    let counts: Vec<Option<u64>> = rings.iter().map(count).collect();
    let committed = rings
        .iter()
        .fold(0u64, |sum, ring| sum.wrapping_add(ring.counts().records));
    let drained = session.header().account(epoch).drained;
    let missing = |found: u64| committed.saturating_sub(drained.saturating_add(found));
    // A length that is damaged can lead to the beginning of another record.
    let has_missing = missing(counts.iter().flatten().sum()) > 0;
    if !has_missing && counts.iter().all(Option::is_some) {
        return;
    }
    let callsites = KnownCallsites::of(session);
    let mut lost = Lost::default();
    for ring in &rings {
        let mut consumer = resume(ring);
        let pending = match consumer.pending_bytes() {
            Ok(pending) => pending,
            Err(error) => match mend_positions(&mut consumer, epoch, &callsites, &error, notes) {
                Some(pending) => pending,
                None => continue,
            },
        };
        let mut mend = RingSearch {
            walk: RingWalk::new(&consumer, pending),
            callsites: &callsites,
            has_missing,
            steps: 0,
            lost: Lost::default(),
        };
        mend.run(&mut |text| notes.note(&format!("ring {}: {text}", ring.index())));
        lost.records += mend.lost.records;
        lost.bytes += mend.lost.bytes;
    }
    let mut left = missing(rings.iter().filter_map(count).sum());
    for ring in rings.iter().filter(|_| lost.records == 0) {
        let mut note = |text: &str| notes.note(&format!("ring {}: {text}", ring.index()));
        let found = extend(&resume(ring), &callsites, left, &mut note);
        left = left.saturating_sub(found.unwrap_or(0));
    }
    if lost.records > 0 {
        // A count that is damaged itself may say anything.
        let more = missing(rings.iter().filter_map(count).sum());
        let most = lost.bytes / HEADER_BYTES as u64;
        let records = lost.records.saturating_add(more).min(most);
        notes.note(&format!(
            "{records} records in rings, with {} bytes, are damaged and lost",
            lost.bytes
        ));
    }
}

/// Records of a ring that are committed and not drained. `None` where they cannot be read one after the other.
fn count_of(consumer: &Consumer) -> Option<u64> {
    RingWalk::new(consumer, consumer.pending_bytes().ok()?).count()
}

/// Takes the position of the drain for that of a ring that is ahead of it: no drain gives space back before the epoch that
/// covers it, so that the ring's own is damaged, and would skip records.
fn take_back_position(consumer: &mut Consumer, epoch: u64, notes: &mut DamageNotes) {
    let found = consumer.position();
    let Some(noted) = consumer.noted_position(epoch).filter(|noted| *noted < found) else {
        return;
    };
    let index = consumer.ring().index();
    notes.note(&format!(
        "ring {index}: its consumed position {found} is damaged; that of the drain, {noted}, was taken"
    ));
    consumer.mend_position(epoch);
}

/// Takes records for committed that follow the last one of a ring, where so many are missing by their counts: a position that
/// is damaged can lie before them. Returns the number of those. Behind the last record lie zeros, or records of an earlier
/// lap, which are older.
fn extend(
    consumer: &Consumer,
    callsites: &KnownCallsites,
    missing: u64,
    note: &mut dyn FnMut(&str),
) -> Option<u64> {
    // Without a record before them there is no time to compare with.
    let pending = consumer.pending_bytes().ok().filter(|pending| *pending > 0)?;
    let walk = RingWalk::new(consumer, consumer.ring().capacity_bytes());
    let (mut end, mut ticks, mut count) = (0, 0, 0);
    while let Some(header) = walk.header(end)
        && (end < pending || count < missing)
    {
        if end >= pending {
            if !callsites.is_known(header.callsite_id) || header.time_ticks <= ticks {
                break;
            }
            count += u64::from(header.callsite_id != 0);
        }
        end += header.length_bytes as usize;
        ticks = header.time_ticks;
    }
    if count == 0 {
        return None;
    }
    note(&format!(
        "its committed position is damaged: {count} records behind it were taken, which are counted"
    ));
    consumer.mend_pending(end);
    Some(count)
}

/// Bytes of rings that are no records.
#[derive(Debug, Default)]
struct Lost {
    /// Records that stand for them.
    records: u64,
    bytes: u64,
}

/// Finds the end of a ring whose positions are damaged; returns its bytes. `None` where nothing is found.
fn mend_positions(
    consumer: &mut Consumer,
    epoch: u64,
    callsites: &KnownCallsites,
    error: &RingError,
    notes: &mut DamageNotes,
) -> Option<usize> {
    let index = consumer.ring().index();
    let position = consumer.position();
    if consumer.mend_position(epoch)
        && consumer.position() != position
        && let Ok(pending) = consumer.pending_bytes()
    {
        notes.note(&format!(
            "ring {index}: {error}; the position of the drain was taken"
        ));
        return Some(pending);
    }
    let capacity_bytes = consumer.ring().capacity_bytes();
    let walk = RingWalk::new(consumer, capacity_bytes);
    // Behind the last record lie zeros, or records of an earlier lap, which are older.
    let (mut end, mut ticks) = (0, 0);
    while let Some(header) = walk.header(end)
        && callsites.is_known(header.callsite_id)
        && header.time_ticks >= ticks
    {
        end += header.length_bytes as usize;
        ticks = header.time_ticks;
    }
    if end == 0 {
        return None;
    }
    notes.note(&format!(
        "ring {index}: {error}; its end was found by its records"
    ));
    consumer.mend_pending(end);
    Some(end)
}

/// Callsites of a session, as far as they can be read.
struct KnownCallsites {
    by_id: HashMap<u32, Option<Callsite>>,
    /// Some are missing, so that one that is not known says nothing.
    is_damaged: bool,
}

impl KnownCallsites {
    fn of(session: &SessionReader) -> Self {
        let table = session.callsites().unwrap_or_default();
        let by_id: HashMap<_, _> = table
            .into_iter()
            .map(|(id, bytes)| (id, Callsite::decode(&bytes).ok()))
            .collect();
        let highest = by_id.keys().max().map_or(0, |id| *id as usize + 1);
        let is_damaged = highest != by_id.len() || (session.header().totals().callsites as usize) > highest;
        Self { by_id, is_damaged }
    }

    fn is_known(&self, id: u32) -> bool {
        self.by_id.contains_key(&id) || self.is_damaged && u16::try_from(id).is_ok()
    }

    /// Length of a record whose bytes begin here, as its values say. `None` where its callsite does not list them.
    fn length_of(&self, id: u32, bytes: &[u8]) -> Option<usize> {
        let callsite = self
            .by_id
            .get(&id)?
            .as_ref()
            .filter(|callsite| !callsite.dynamic)?;
        let mut cursor = Cursor::new(bytes.get(HEADER_BYTES..)?);
        for field in &callsite.fields {
            Value::read(field.kind, &mut cursor).ok()?;
        }
        Some(align_up(HEADER_BYTES + cursor.offset()))
    }
}

/// Bytes of a ring that are committed and not drained.
struct RingWalk<'a> {
    consumer: &'a Consumer,
    end: usize,
}

impl<'a> RingWalk<'a> {
    fn new(consumer: &'a Consumer, end: usize) -> Self {
        Self { consumer, end }
    }

    /// Header at a place, whatever it is.
    fn raw_header(&self, at: usize) -> Option<RecordHeader> {
        let mut bytes = [0; HEADER_BYTES];
        (at + HEADER_BYTES <= self.end).then(|| {
            self.consumer.copy_out(at, &mut bytes);
            RecordHeader::decode_unchecked(&bytes)
        })
    }

    /// Header of a record that ends within the ring's bytes.
    fn header(&self, at: usize) -> Option<RecordHeader> {
        let header = self.raw_header(at)?;
        let is_within = at + header.length_bytes as usize <= self.end;
        (is_length(header.length_bytes) && is_within).then_some(header)
    }

    /// Number of records, those of gaps not counted. `None` where lengths do not lead from the first byte to the last.
    fn count(&self) -> Option<u64> {
        let (mut at, mut count) = (0, 0);
        while let Some(header) = self.header(at) {
            at += header.length_bytes as usize;
            count += u64::from(header.callsite_id != 0);
        }
        (at == self.end).then_some(count)
    }
}

/// Mending of one ring.
struct RingSearch<'a> {
    walk: RingWalk<'a>,
    callsites: &'a KnownCallsites,
    /// Fewer records were found than are counted.
    has_missing: bool,
    /// Places that were looked at in searches.
    steps: usize,
    lost: Lost,
}

impl RingSearch<'_> {
    /// Goes over all records. `note` gets a description before each change.
    fn run(&mut self, note: &mut dyn FnMut(&str)) {
        let (mut at, mut ticks) = (0, 0);
        while at < self.walk.end && self.steps < RING_SEARCH_STEPS {
            let declared = self.walk.header(at);
            let is_followed = |header: &RecordHeader| self.is_record(at + header.length_bytes as usize, 1);
            if let Some(header) = declared.filter(is_followed) {
                let declared = header.length_bytes as usize;
                let by_values = match self.has_missing {
                    true => self.length_by_values(at, ticks, declared),
                    false => None,
                };
                let length = by_values.unwrap_or(declared);
                self.set_length(at, length, note);
                (at, ticks) = (at + length, header.time_ticks);
                continue;
            }
            if self.walk.end - at < HEADER_BYTES {
                note(&format!("the end at position {} is no record", self.position(at)));
                self.walk.consumer.mend_pending(at);
                return;
            }
            if let Some(length) = self.length_by_values(at, ticks, RECORD_BYTES_MAX) {
                self.set_length(at, length, note);
                at += length;
                continue;
            }
            let next = self.search(at + HEADER_BYTES);
            match declared.map(|header| at + header.length_bytes as usize) {
                // What is behind it is damaged, and comes next.
                Some(end) if next >= end => at = end,
                Some(_) => {
                    self.set_length(at, next - at, note);
                    at = next;
                }
                None => {
                    self.fill(at, next, ticks, note);
                    at = next;
                }
            }
        }
    }

    /// Returns whether a record begins at a place, or the ring ends there, and so on behind it, so many times.
    fn is_record(&self, mut at: usize, records: usize) -> bool {
        for _ in 0..records {
            if at == self.walk.end {
                return true;
            }
            match self.walk.header(at) {
                Some(header) if self.callsites.is_known(header.callsite_id) => {
                    at += header.length_bytes as usize;
                }
                _ => return false,
            }
        }
        true
    }

    /// Length of the record at a place, if its values end right before another record. Its time must be between those of the
    /// record before it and of that one, so that what is left of its header is taken for whole.
    fn length_by_values(&self, at: usize, ticks: u64, bytes_max: usize) -> Option<usize> {
        let header = self.walk.raw_header(at)?;
        let mut bytes = vec![0; (self.walk.end - at).min(bytes_max)];
        self.walk.consumer.copy_out(at, &mut bytes);
        let length = self.callsites.length_of(header.callsite_id, &bytes)?;
        let is_followed = at + length <= self.walk.end && self.is_record(at + length, CHAIN_RECORDS);
        let next = self.walk.raw_header(at + length);
        let latest = next.map_or(u64::MAX, |next| next.time_ticks);
        (is_followed && (ticks.max(1)..=latest).contains(&header.time_ticks)).then_some(length)
    }

    /// The next place from which records go on; the end where there is none.
    fn search(&mut self, from: usize) -> usize {
        let mut at = from;
        while at < self.walk.end && self.steps < RING_SEARCH_STEPS {
            self.steps += 1;
            if self.is_record(at, CHAIN_RECORDS) {
                return at;
            }
            at += RECORD_ALIGN;
        }
        self.walk.end
    }

    fn set_length(&self, at: usize, length: usize, note: &mut dyn FnMut(&str)) {
        let Some(header) = self.walk.raw_header(at) else {
            return;
        };
        if header.length_bytes as usize == length {
            return;
        }
        note(&format!(
            "the length of a record at position {} is damaged: {} bytes in place of {length}, which was mended",
            self.position(at),
            header.length_bytes
        ));
        self.walk.consumer.mend(at, &(length as u32).to_le_bytes());
    }

    /// Makes bytes that are no record one of a callsite that nobody has, so that it is reported and counted.
    fn fill(&mut self, from: usize, to: usize, ticks: u64, note: &mut dyn FnMut(&str)) {
        note(&format!(
            "{} bytes at position {} belong to no record that can be read: records go on behind them",
            to - from,
            self.position(from),
        ));
        let mut at = from;
        while at < to {
            let left = to - at;
            // None is left that would be too short for a header.
            let length = match left {
                left if left <= FILLER_BYTES_MAX => left,
                _ => left.min(FILLER_BYTES_MAX - HEADER_BYTES),
            };
            let filler = RecordHeader {
                length_bytes: length as u32,
                callsite_id: LOST_CALLSITE,
                time_ticks: ticks,
            };
            self.walk.consumer.mend(at, &filler.encode());
            self.lost.records += 1;
            self.lost.bytes += length as u64;
            at += length;
        }
    }

    fn position(&self, at: usize) -> u64 {
        self.walk.consumer.position().wrapping_add(at as u64)
    }
}
