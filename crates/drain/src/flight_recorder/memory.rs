//! Memory of a flight recorder: a ring of raw records in chunks, where the oldest chunk makes room for the newest.
//!
//! A chunk stands for itself: its records name their threads by numbers that records of the same chunk explain. So
//! a recoverer that opens the memory after a kill needs only positions.

use logdrive_ring::{CHUNK_BYTES, KeepCounts, KeepFile, KeepPositions};
use logdrive_wire::record::{HEADER_BYTES, check_length};
use logdrive_wire::{Cursor, RecordHeader};
use std::collections::VecDeque;

/// Bytes of an entry that explains a thread's number: a header, then the name, filled up with zeros.
const THREAD_BYTES: usize = HEADER_BYTES + THREAD_NAME_BYTES;

/// As in the header of a ring.
const THREAD_NAME_BYTES: usize = logdrive_ring::limits::THREAD_NAME_BYTES;

/// In an entry's length: it explains a thread's number.
const THREAD_FLAG: u32 = 1 << 31;

/// Threads of a chunk that are searched before a thread is described anew: more than usually log in turn.
const THREADS_LOOKED_AT: usize = 64;

const CHUNK: u64 = CHUNK_BYTES as u64;

/// Storage of the bytes.
#[derive(Debug)]
enum Store {
    /// In the session, for a recoverer.
    Shared(KeepFile),
    /// Here: an agent outlives the processes that it keeps records of.
    Private(Box<[u8]>),
}

impl Store {
    fn bytes(&self) -> usize {
        match self {
            Self::Shared(file) => file.bytes(),
            Self::Private(bytes) => bytes.len(),
        }
    }

    #[inline]
    fn write(&mut self, position: u64, from: &[u8]) {
        self.write_both(position, from, &[]);
    }

    /// One thing, and another behind it.
    #[inline]
    fn write_both(&mut self, position: u64, first: &[u8], second: &[u8]) {
        match self {
            Self::Shared(file) => file.write_both(position, first, second),
            Self::Private(bytes) => {
                let at = (position % bytes.len() as u64) as usize;
                let (to, rest) = bytes[at..].split_at_mut(first.len());
                to.copy_from_slice(first);
                rest[..second.len()].copy_from_slice(second);
            }
        }
    }

    fn read(&self, position: u64, out: &mut [u8]) {
        match self {
            Self::Shared(file) => file.read(position, out),
            Self::Private(bytes) => {
                let at = (position % bytes.len() as u64) as usize;
                out.copy_from_slice(&bytes[at..at + out.len()]);
            }
        }
    }
}

/// Facts about a chunk that holds records which were not written to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chunk {
    number: u64,
    /// Bytes in it.
    length: usize,
    records: u64,
    oldest_ticks: u64,
    newest_ticks: u64,
}

impl Chunk {
    fn new(number: u64) -> Self {
        Self {
            number,
            length: 0,
            records: 0,
            oldest_ticks: u64::MAX,
            newest_ticks: 0,
        }
    }

    fn start(&self) -> u64 {
        self.number * CHUNK
    }

    fn end(&self) -> u64 {
        self.start() + self.length as u64
    }

    fn count(&mut self, ticks: u64) {
        self.records += 1;
        self.oldest_ticks = self.oldest_ticks.min(ticks);
        self.newest_ticks = self.newest_ticks.max(ticks);
    }
}

/// A kept record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptRecord<'a> {
    pub(crate) callsite_id: u32,
    pub(crate) time_ticks: u64,
    pub(crate) thread_id: u64,
    pub(crate) thread_name: &'a str,
    pub(crate) payload: &'a [u8],
}

/// The memory of one process's flight recorder.
#[derive(Debug)]
pub(crate) struct RecorderMemory {
    store: Store,
    /// Those that hold records, the oldest first.
    chunks: VecDeque<Chunk>,
    /// Set if the last one takes more.
    is_open: bool,
    next_number: u64,
    /// Threads of the last chunk, by their numbers.
    threads: Vec<u64>,
    /// The last thread and its number.
    last_thread: Option<(u64, u16)>,
    positions: KeepPositions,
    /// Everything before it is given up or in output buffers for good.
    settled: u64,
    counts: KeepCounts,
    changed: bool,
    taking: Option<Taking>,
}

/// Records on their way to the log.
#[derive(Debug, Default)]
struct Taking {
    /// Chunks that are to be taken, the one at hand included.
    chunks_left: usize,
    /// Older ones are left out.
    from_ticks: u64,
    /// The chunk at hand.
    bytes: Vec<u8>,
    threads: Vec<(u64, String)>,
    at: usize,
    front: Option<Entry>,
}

/// An entry of the chunk at hand.
#[derive(Debug, Clone, Copy)]
struct Entry {
    length: usize,
    callsite_id: u16,
    thread: u16,
    time_ticks: u64,
    is_thread: bool,
}

impl RecorderMemory {
    /// An empty one in a session's file.
    pub(crate) fn shared(file: KeepFile) -> Self {
        Self::with_store(Store::Shared(file))
    }

    /// An empty one of this process.
    pub(crate) fn private(bytes: u64) -> Self {
        Self::with_store(Store::Private(
            vec![0; KeepFile::bytes_for(bytes)].into_boxed_slice(),
        ))
    }

    fn with_store(store: Store) -> Self {
        Self {
            store,
            chunks: VecDeque::new(),
            is_open: false,
            next_number: 0,
            threads: Vec::new(),
            last_thread: None,
            positions: KeepPositions::default(),
            settled: 0,
            counts: KeepCounts::default(),
            changed: false,
            taking: None,
        }
    }

    /// Opens what a dead process kept, as of an epoch; also returns what is wrong with it, if anything.
    pub(crate) fn adopt(mut file: KeepFile, epoch: u64) -> (Self, Option<&'static str>) {
        let positions = file.adopt(epoch);
        let KeepPositions { head, written: first } = positions;
        let bytes = file.bytes() as u64;
        // Counts that cannot have been reached are damage.
        let reported = file.counts();
        let reported = match reported.written.max(reported.forgotten) >> 48 {
            0 => reported,
            _ => KeepCounts::default(),
        };
        let mut memory = Self::shared(file);
        // Half of the numbers are left for those who come after.
        let is_sound = first <= head && head - first / CHUNK * CHUNK <= bytes && head < u64::MAX / 2;
        let mut damage = (!is_sound).then_some("its positions contradict each other");
        if is_sound {
            memory.positions = positions;
            memory.settled = first;
            memory.next_number = head.div_ceil(CHUNK);
            damage = memory.find_chunks(first, head);
        }
        let held: u64 = memory.chunks.iter().map(|chunk| chunk.records).sum();
        memory.counts = KeepCounts {
            kept: reported.written + reported.forgotten + held,
            ..reported
        };
        (memory, damage)
    }

    fn find_chunks(&mut self, first: u64, head: u64) -> Option<&'static str> {
        let mut damage = None;
        let mut bytes = Vec::new();
        for number in first / CHUNK..head.div_ceil(CHUNK) {
            let mut chunk = Chunk::new(number);
            bytes.resize((head - chunk.start()).min(CHUNK) as usize, 0);
            self.store.read(chunk.start(), &mut bytes);
            let mut threads = 0;
            while let Some(entry) = entry_at(&bytes, chunk.length) {
                match entry {
                    Ok(entry) if entry.is_thread => threads += 1,
                    Ok(entry) if usize::from(entry.thread) >= threads => {
                        damage = Some("a record names no thread");
                        break;
                    }
                    Ok(entry) if chunk.end() >= first => chunk.count(entry.time_ticks),
                    Ok(_) => {}
                    Err(what) => {
                        damage = Some(what);
                        break;
                    }
                }
                chunk.length += entry.map_or(0, |entry| entry.length);
            }
            if chunk.records > 0 {
                self.chunks.push_back(chunk);
            }
        }
        damage
    }

    /// The time of the newest record; 0 without any.
    pub(crate) fn newest_ticks(&self) -> u64 {
        let newest = self.chunks.iter().map(|chunk| chunk.newest_ticks);
        newest.max().unwrap_or(0)
    }

    pub(crate) fn counts(&self) -> KeepCounts {
        self.counts
    }

    /// The file, where there is one.
    pub(crate) fn file(&self) -> Option<&KeepFile> {
        match &self.store {
            Store::Shared(file) => Some(file),
            Store::Private(_) => None,
        }
    }

    /// Keeps a record. `false` when there is no room before what is on its way to the log has got there.
    #[inline]
    pub(crate) fn push(
        &mut self,
        header: &RecordHeader,
        thread_id: u64,
        thread_name: &str,
        payload: &[u8],
    ) -> bool {
        let known = match self.last_thread {
            Some((id, number)) if id == thread_id => Some(number),
            _ => self.thread_number(thread_id),
        };
        let length = HEADER_BYTES + payload.len();
        let needed = length + if known.is_some() { 0 } else { THREAD_BYTES };
        let last = self.chunks.back().filter(|_| self.is_open);
        let has_room = last.is_some_and(|last| last.length + needed <= CHUNK_BYTES);
        // A new chunk describes its threads anew, so that it can be read without the others.
        let known = match has_room {
            true => known,
            false if self.open_chunk() => None,
            false => return false,
        };
        let thread = known.unwrap_or_else(|| self.explain(thread_id, thread_name));
        self.last_thread = Some((thread_id, thread));
        let Some(last) = self.chunks.back_mut() else {
            return false;
        };
        let entry = entry_header(
            length as u32,
            header.callsite_id as u16,
            thread,
            header.time_ticks,
        );
        self.store.write_both(last.end(), &entry, payload);
        last.length += length;
        last.count(header.time_ticks);
        self.positions.head = last.end();
        self.counts.kept += 1;
        self.changed = true;
        true
    }

    fn thread_number(&self, thread_id: u64) -> Option<u16> {
        let recent = self.threads.iter().enumerate().rev().take(THREADS_LOOKED_AT);
        let mut recent = recent.filter(|(_, id)| **id == thread_id);
        recent.next().map(|(number, _)| number as u16)
    }

    /// Gives a thread a number in the last chunk, which has room for it.
    fn explain(&mut self, thread_id: u64, thread_name: &str) -> u16 {
        let number = self.threads.len() as u16;
        self.threads.push(thread_id);
        let mut bytes = [0; THREAD_BYTES];
        bytes[..HEADER_BYTES].copy_from_slice(&entry_header(
            THREAD_BYTES as u32 | THREAD_FLAG,
            0,
            number,
            thread_id,
        ));
        let name = &thread_name[..thread_name.floor_char_boundary(THREAD_NAME_BYTES)];
        bytes[HEADER_BYTES..HEADER_BYTES + name.len()].copy_from_slice(name.as_bytes());
        if let Some(last) = self.chunks.back_mut() {
            self.store.write(last.end(), &bytes);
            last.length += THREAD_BYTES;
        }
        number
    }

    /// Begins a new chunk, for which the oldest one makes room.
    #[cold]
    fn open_chunk(&mut self) -> bool {
        let count = self.store.bytes() as u64 / CHUNK;
        if self.next_number >= count {
            let replaced = self.next_number - count;
            let end = (replaced + 1) * CHUNK;
            let holds = self
                .chunks
                .front()
                .is_some_and(|oldest| oldest.number <= replaced);
            // What was taken counts as long in here as it does not in its output buffers.
            if holds && self.taking.is_some() || !holds && self.settled < end && self.positions.written >= end
            {
                return false;
            }
            if let Some(oldest) = self.chunks.pop_front_if(|oldest| oldest.number <= replaced) {
                self.counts.forgotten += oldest.records;
            }
            if let Store::Shared(file) = &mut self.store {
                file.forget_before(end);
            }
        }
        self.close_chunk();
        let chunk = Chunk::new(self.next_number);
        // An empty one ends at its start, whatever lay there.
        self.store.write(chunk.start(), &[0; 8]);
        self.next_number += 1;
        self.chunks.push_back(chunk);
        self.is_open = true;
        true
    }

    /// Ends the last chunk where its records end.
    fn close_chunk(&mut self) {
        let last = self.chunks.back().filter(|_| self.is_open);
        if let Some(last) = last.filter(|last| last.length + 8 <= CHUNK_BYTES) {
            self.store.write(last.end(), &[0; 8]);
        }
        self.is_open = false;
        self.threads.clear();
        self.last_thread = None;
    }

    /// Begins to take what is kept, from a time on: the number of records, and the time of the oldest. What is older is
    /// forgotten. What is kept from now on is not part of it.
    pub(crate) fn take_from(&mut self, from_ticks: u64) -> Option<(u64, u64)> {
        // The next record opens a chunk of its own.
        self.close_chunk();
        while let Some(old) = self
            .chunks
            .pop_front_if(|oldest| oldest.newest_ticks < from_ticks)
        {
            self.counts.forgotten += old.records;
        }
        let mut found = 0;
        let mut oldest_ticks = u64::MAX;
        for chunk in &self.chunks {
            let (records, oldest) = match chunk.oldest_ticks >= from_ticks {
                true => (chunk.records, chunk.oldest_ticks),
                false => self.count_from(chunk, from_ticks),
            };
            found += records;
            oldest_ticks = oldest_ticks.min(oldest);
        }
        self.changed = true;
        let start = self.chunks.front().map_or(self.positions.head, Chunk::start);
        self.positions.written = self.positions.written.max(start);
        if found == 0 {
            self.clear();
            return None;
        }
        self.taking = Some(Taking {
            chunks_left: self.chunks.len(),
            from_ticks,
            ..Taking::default()
        });
        self.load_chunk();
        self.look();
        Some((found, oldest_ticks))
    }

    /// Records of a chunk from a time on, and the oldest time of them.
    fn count_from(&self, chunk: &Chunk, from_ticks: u64) -> (u64, u64) {
        let mut bytes = vec![0; chunk.length];
        self.store.read(chunk.start(), &mut bytes);
        let skip = self.positions.written.saturating_sub(chunk.start()) as usize;
        let (mut at, mut found, mut oldest_ticks) = (0, 0, u64::MAX);
        while let Some(Ok(entry)) = entry_at(&bytes, at) {
            if !entry.is_thread && at >= skip && entry.time_ticks >= from_ticks {
                found += 1;
                oldest_ticks = oldest_ticks.min(entry.time_ticks);
            }
            at += entry.length;
        }
        (found, oldest_ticks)
    }

    /// Returns whether records are on their way to the log.
    pub(crate) fn is_taking(&self) -> bool {
        self.taking.is_some()
    }

    /// The next record on its way to the log.
    pub(crate) fn front(&self) -> Option<KeptRecord<'_>> {
        let taking = self.taking.as_ref()?;
        let entry = taking.front?;
        let (thread_id, thread_name) = taking.threads.get(usize::from(entry.thread))?;
        Some(KeptRecord {
            callsite_id: u32::from(entry.callsite_id),
            time_ticks: entry.time_ticks,
            thread_id: *thread_id,
            thread_name,
            payload: taking
                .bytes
                .get(taking.at + HEADER_BYTES..taking.at + entry.length)?,
        })
    }

    /// The record at the front is in the log, or is left out. `false` when it was the last one.
    pub(crate) fn advance(&mut self, is_written: bool) -> bool {
        let Some(taking) = &mut self.taking else {
            return false;
        };
        if let Some(entry) = taking.front.take() {
            taking.at += entry.length;
            match is_written {
                true => self.counts.written += 1,
                false => self.counts.forgotten += 1,
            }
            if let Some(oldest) = self.chunks.front_mut() {
                oldest.records = oldest.records.saturating_sub(1);
                self.positions.written = oldest.start() + taking.at as u64;
            }
            self.changed = true;
        }
        self.look();
        self.taking.is_some()
    }

    /// Gives up the rest of the chunk that is being taken: newer records need the room. The number of records lost.
    pub(crate) fn skip_chunk(&mut self) -> u64 {
        let forgotten_before = self.counts.forgotten;
        self.leave_chunk();
        self.look();
        self.counts.forgotten - forgotten_before
    }

    /// Goes on to the next record, over what is too old.
    fn look(&mut self) {
        while let Some(taking) = &mut self.taking {
            match entry_at(&taking.bytes, taking.at) {
                Some(Ok(entry)) if entry.is_thread => {
                    let name = taking
                        .bytes
                        .get(taking.at + HEADER_BYTES..taking.at + entry.length);
                    let name = name.unwrap_or(&[]);
                    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
                    let name = String::from_utf8_lossy(&name[..length]).into_owned();
                    taking.threads.push((entry.time_ticks, name));
                    taking.at += entry.length;
                }
                Some(Ok(entry)) => {
                    let is_known = usize::from(entry.thread) < taking.threads.len();
                    let start = self.chunks.front().map_or(0, Chunk::start);
                    let is_taken = start + (taking.at as u64) < self.positions.written;
                    if is_known && !is_taken && entry.time_ticks >= taking.from_ticks {
                        taking.front = Some(entry);
                        return;
                    }
                    taking.at += entry.length;
                }
                Some(Err(_)) | None => self.leave_chunk(),
            }
        }
    }

    fn leave_chunk(&mut self) {
        let Some(taking) = &mut self.taking else {
            return;
        };
        taking.chunks_left -= 1;
        let is_over = taking.chunks_left == 0;
        if let Some(done) = self.chunks.pop_front() {
            // What was too old, or is given up.
            self.counts.forgotten += done.records;
            self.positions.written = self.positions.written.max(done.end());
        }
        self.changed = true;
        if is_over {
            self.taking = None;
        } else {
            self.load_chunk();
        }
    }

    fn load_chunk(&mut self) {
        if let (Some(taking), Some(chunk)) = (&mut self.taking, self.chunks.front()) {
            taking.bytes.resize(chunk.length, 0);
            self.store.read(chunk.start(), &mut taking.bytes);
            taking.threads.clear();
            taking.at = 0;
            taking.front = None;
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.counts.forgotten += self.chunks.drain(..).map(|chunk| chunk.records).sum::<u64>();
        self.taking = None;
        self.close_chunk();
        self.positions.written = self.positions.head;
        self.changed = true;
    }

    /// Returns whether there is something to note.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed
    }

    /// Notes for an epoch what counts.
    pub(crate) fn note(&mut self, epoch: u64, committed: u64) {
        if let Store::Shared(file) = &mut self.store
            && self.changed
        {
            file.note(self.positions, &self.counts, epoch, committed);
        }
    }

    /// The epoch is published.
    pub(crate) fn committed(&mut self) {
        self.changed = false;
        self.settled = self.positions.written;
    }
}

fn entry_header(length: u32, callsite_id: u16, thread: u16, time_ticks: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..6].copy_from_slice(&callsite_id.to_le_bytes());
    bytes[6..8].copy_from_slice(&thread.to_le_bytes());
    bytes[8..16].copy_from_slice(&time_ticks.to_le_bytes());
    bytes
}

/// The entry at a place of a chunk; `None` at its end.
fn entry_at(bytes: &[u8], at: usize) -> Option<Result<Entry, &'static str>> {
    let mut cursor = Cursor::new(bytes.get(at..)?);
    let length = cursor.u32().ok().filter(|length| *length != 0)?;
    Some(read_entry(length, &mut cursor, bytes.len() - at))
}

fn read_entry(length: u32, cursor: &mut Cursor<'_>, left: usize) -> Result<Entry, &'static str> {
    let is_thread = length & THREAD_FLAG != 0;
    let bytes = length & !THREAD_FLAG;
    let ids = cursor.u32().map_err(|_| "an entry is cut")?;
    let time_ticks = cursor.u64().map_err(|_| "an entry is cut")?;
    let is_sound = match is_thread {
        true => bytes as usize == THREAD_BYTES,
        false => check_length(bytes).is_ok(),
    };
    if !is_sound || bytes as usize > left {
        return Err("an entry's length is wrong");
    }
    Ok(Entry {
        length: bytes as usize,
        callsite_id: ids as u16,
        thread: (ids >> 16) as u16,
        time_ticks,
        is_thread,
    })
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
