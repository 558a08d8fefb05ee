//! The store: the sessions of all senders, and an output that has the records of each once.

use crate::batch_blocks::BatchBlocks;
use crate::commit::CommitQueue;
use crate::error::CollectorError;
use crate::fields::Fields;
use crate::ledger::KnownSession;
use crate::limits::{DEFINITIONS_MEMORY_ALL_MAX, NOTICES_MAX, OUTPUT_BYTES_MAX};
use crate::output::{BatchGroup, Output, Part, now_unix_ns};
use crate::records::{BatchRecords, TypedRecords, is_json};
use crate::routes::RecordFilter;
use crate::text_records::{TextLines, TextRecords};
use logdrive_drain::file::{Disk, FileOptions, Storage};
use logdrive_drain::layout::{Layout, LayoutOptions, ProcessInfo, Style};
use logdrive_reader::LineHeads;
use logdrive_ship::Identity;
use logdrive_ship::frame::{FrameError, Messages};
use logdrive_ship::hello::{Format, HELLO_ELSEWHERE, Reason, Role};
use logdrive_ship::limits::SESSIONS_MAX;
use logdrive_ship::session::{Acks, Classification, DedupCursor, Peer, Service};
use logdrive_store::StoreError;
use logdrive_wire::Level;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Form of the records in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreFormat {
    /// Lines of the layout; JSON objects as they were sent.
    #[default]
    Text,
    /// The same records in the compressed blocks of a segment.
    Segments,
}

logdrive_drain::words!(StoreFormat {
    Text = "text": "lines of the layout; JSON objects as they were sent",
    Segments = "segments": "the same records in compressed blocks, a small part of their size",
});

/// Counts of a store since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Records that were written.
    pub records: u64,
    /// Records that came again and were left out.
    pub duplicates: u64,
    /// Records that their senders reported as lost.
    pub lost: u64,
    /// Bytes that were written to the log.
    pub bytes: u64,
    /// Sessions that the ledger knows.
    pub sessions: u64,
    /// Connections that were refused because they claimed the session of another sender.
    pub refused: u64,
    /// Writes to the log, each of one batch, or with `sync` of all that came meanwhile; those that failed are among them.
    pub commits: u64,
    /// Writes that failed.
    pub failures: u64,
    /// Time that all writes took, with their syncs.
    pub commit_time: Duration,
    /// Time that the slowest one took.
    pub slowest_commit: Duration,
    /// Set if the log cannot be written now. Senders keep their records meanwhile.
    pub is_failing: bool,
}

impl StoreCounts {
    /// Counts of several stores together; sessions are those of the one that has most.
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, one| Self {
            records: sum.records + one.records,
            duplicates: sum.duplicates + one.duplicates,
            lost: sum.lost + one.lost,
            bytes: sum.bytes + one.bytes,
            sessions: sum.sessions.max(one.sessions),
            refused: sum.refused + one.refused,
            commits: sum.commits + one.commits,
            failures: sum.failures + one.failures,
            commit_time: sum.commit_time + one.commit_time,
            slowest_commit: sum.slowest_commit.max(one.slowest_commit),
            is_failing: sum.is_failing || one.is_failing,
        })
    }

    fn commit(&mut self, took: Duration, is_written: bool) {
        self.commits += 1;
        self.failures += u64::from(!is_written);
        self.commit_time += took;
        self.slowest_commit = self.slowest_commit.max(took);
        self.is_failing = !is_written;
    }
}

/// Up to where the records of a session have come.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// Records that were taken.
    taken: DedupCursor,
    /// Records that are written, so that they are acknowledged.
    kept: DedupCursor,
}

/// A session that has sent records.
#[derive(Debug, Default)]
struct StoredSession {
    progress: Progress,
    /// Key of the identity that it belongs to; 0 for none.
    owner: u64,
    /// Reading of [`Inner::clock`] at its last record or hello.
    last_active: u64,
    /// Connections that it has now, by number.
    connections: Vec<(u64, Acks)>,
    /// The ledger says how far it has come: it knows nothing of records that go to other outputs.
    is_of_ledger: bool,
}

impl StoredSession {
    /// A session whose records before this are written.
    fn at(cursor: DedupCursor) -> Self {
        Self {
            progress: Progress {
                taken: cursor,
                kept: cursor,
            },
            ..Self::default()
        }
    }
}

/// A sender that is connected.
#[derive(Debug)]
struct Sender {
    fields: Fields,
    /// Times of its lines of JSON.
    heads: LineHeads,
    /// Their levels, where routes ask for them.
    levels: LineHeads,
    /// Its records, from the first batch on, if they are typed or lines of text.
    records: Option<Box<TypedRecords>>,
    text: TextRecords,
    /// Something of it could not be kept, so that nothing behind that is: its connection is about to end.
    is_failed: bool,
}

#[derive(Debug)]
struct Inner {
    sessions: HashMap<u128, StoredSession>,
    /// Count of all that sessions have sent, which gives the session that was silent longest.
    clock: u64,
    /// Senders, by connection.
    senders: HashMap<u64, Sender>,
    /// Blocks of batches, for a log of segments.
    blocks: Option<BatchBlocks>,
    /// Layout of typed records.
    layout: LayoutOptions,
    /// Memory of the definitions of all senders, and its limit.
    definition_memory: usize,
    definition_memory_max: usize,
    /// Records that are kept; `None` for all.
    filter: Option<RecordFilter>,
    /// Batch that is laid out.
    group: BatchGroup,
    counts: StoreCounts,
    notices: Vec<String>,
}

/// State that the commit thread shares. Locks are taken in the order of the fields; a thread of [`CommitQueue`] has the
/// output while it asks for the sessions, and then nobody else takes the output with them.
#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    queue: CommitQueue,
    output: Mutex<Output>,
    syncs: bool,
    /// The log is to be opened anew.
    reopens: AtomicBool,
}

/// Service of [`logdrive_ship::serve`] that writes records to a log, each once.
///
/// A record is acknowledged when the kernel has it (C1), with `sync` when it is on disk (C2): then a thread brings all that
/// has come to the disk together, and no other waits for that.
///
/// ```
/// use logdrive_collector::{Store, StoreFormat};
/// use logdrive_drain::file::FileOptions;
/// let directory = std::env::temp_dir().join(format!("collector-{}", std::process::id()));
/// let store = Store::open(&FileOptions::new(directory.join("collected.log")), StoreFormat::Text, false)?;
/// assert_eq!(store.counts().records, 0);
/// # std::fs::remove_dir_all(&directory).ok();
/// # Ok::<(), logdrive_collector::CollectorError>(())
/// ```
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    path: PathBuf,
    commits: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens the log and the ledger beside it, makes their directory, and cuts off what a killed collector wrote in
    /// part.
    ///
    /// # Errors
    /// When a file or the directory cannot be made or read.
    pub fn open(options: &FileOptions, format: StoreFormat, sync: bool) -> Result<Self, CollectorError> {
        Self::open_on(options, format, sync, Arc::new(Disk))
    }

    /// As [`Store::open`], on a storage of which tests make any operation fail.
    ///
    /// # Errors
    /// As there.
    pub fn open_on(
        options: &FileOptions,
        format: StoreFormat,
        sync: bool,
        storage: Arc<dyn Storage>,
    ) -> Result<Self, CollectorError> {
        let has_segments = format == StoreFormat::Segments;
        let (output, sessions) = Output::open(options, has_segments, sync, storage)?;
        let path = output.path();
        let shared = Arc::new(Shared {
            inner: Mutex::new(Inner {
                counts: StoreCounts::default(),
                clock: sessions.len() as u64,
                sessions: by_session(sessions),
                senders: HashMap::new(),
                blocks: has_segments.then(BatchBlocks::default),
                layout: Style::Json.into(),
                definition_memory: 0,
                definition_memory_max: DEFINITIONS_MEMORY_ALL_MAX,
                filter: None,
                group: BatchGroup::default(),
                notices: Vec::new(),
            }),
            queue: CommitQueue::new(options.rotate_bytes),
            output: Mutex::new(output),
            syncs: sync,
            reopens: AtomicBool::new(false),
        });
        let commits = sync.then(|| {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("logdrive-commit".to_owned());
            thread.spawn(move || run_commits(&shared))
        });
        let commits = commits
            .transpose()
            .map_err(|cause| CollectorError::Thread { cause })?;
        Ok(Self {
            shared,
            path,
            commits: Mutex::new(commits),
        })
    }

    /// Lays typed records out like this, where the log has lines. Default: JSON.
    ///
    /// # Errors
    /// When the layout cannot be used, or has no lines.
    pub fn with_layout(self, layout: LayoutOptions) -> Result<Self, CollectorError> {
        if layout.style == Style::Segments {
            return Err(CollectorError::LayoutWithoutLines);
        }
        Layout::new(layout.clone(), ProcessInfo::default())?;
        self.lock().layout = layout;
        Ok(self)
    }

    /// Keeps only the records that a filter wants.
    pub(crate) fn with_filter(self, filter: RecordFilter) -> Self {
        self.lock().filter = Some(filter);
        self
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.shared.lock()
    }

    /// Path of the log file.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Counts up to now.
    pub fn counts(&self) -> StoreCounts {
        let inner = self.lock();
        StoreCounts {
            sessions: inner.sessions.len() as u64,
            ..inner.counts
        }
    }

    /// Returns what tells up to where a file of the log may be read while it is written, by device and inode number; `None`
    /// where the whole of it counts.
    pub fn written_end(&self) -> impl Fn(u64, u64) -> Option<u64> + Send + Sync + 'static {
        let written = self.shared.output().written();
        move |dev, ino| written.of(dev, ino)
    }

    /// Opens the log anew before the next record, for a tool that has renamed it.
    pub fn reopen(&self) {
        // Relaxed: it stands for itself.
        self.shared.reopens.store(true, Ordering::Relaxed);
    }

    /// Messages for the operator of the collector, since the last call.
    pub fn notices(&self) -> Vec<String> {
        let mut all = std::mem::take(&mut self.lock().notices);
        // Where a disk hangs they come later.
        if let Ok(mut output) = self.shared.output.try_lock() {
            all.append(&mut output.take_notices());
        }
        all
    }

    /// Writes what has been taken, and makes all durable that was written. Blocks until the disk has it; what fails is a notice
    /// and a count.
    pub fn close(&self) {
        self.end_commits();
        let synced = self.shared.output().sync();
        if let Err(error) = synced {
            let mut inner = self.lock();
            inner.counts.is_failing = true;
            inner.notices.push(error.to_string());
        }
    }

    fn end_commits(&self) {
        self.shared.queue.end();
        let mut commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = commits.take() {
            // One that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.end_commits();
    }
}

/// Brings batches to the disk until the queue ends.
fn run_commits(shared: &Shared) {
    let mut group = BatchGroup::default();
    while shared.queue.take(&mut group) {
        let began = Instant::now();
        let mut output = shared.output();
        let written = shared.commit(&mut output, &group, &|| shared.lock().in_order());
        drop(output);
        shared.lock().committed(&group, written, began, shared);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The thread that panicked has not acknowledged what it was about to write.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        // As above.
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(
        &self,
        output: &mut Output,
        group: &BatchGroup,
        sessions: &dyn Fn() -> Vec<KnownSession>,
    ) -> Result<(), CollectorError> {
        if self.reopens.swap(false, Ordering::Relaxed) {
            output.reopen();
        }
        output.commit(group, sessions)
    }
}

/// Returns the sessions of the ledger, which has those that were silent longest first.
fn by_session(sessions: Vec<KnownSession>) -> HashMap<u128, StoredSession> {
    let stored = |(known, last_active): (KnownSession, u64)| {
        (
            known.session,
            StoredSession {
                owner: known.owner,
                last_active,
                is_of_ledger: true,
                ..StoredSession::at(known.cursor)
            },
        )
    };
    sessions.into_iter().zip(0..).map(stored).collect()
}

impl Inner {
    /// Returns all sessions, those that were silent longest first.
    fn in_order(&self) -> Vec<KnownSession> {
        let mut all: Vec<_> = self.sessions.iter().collect();
        all.sort_unstable_by_key(|(_, stored)| stored.last_active);
        let known = |(session, stored): (&u128, &StoredSession)| KnownSession {
            session: *session,
            cursor: stored.progress.kept,
            owner: stored.owner,
        };
        all.into_iter().map(known).collect()
    }

    /// Forgets sessions that were silent longest, and have no connection: whoever of them comes back with records of
    /// before would have them twice. `false`: all have one.
    fn make_room(&mut self) -> bool {
        let mut silent: Vec<(u64, u128)> = self
            .sessions
            .iter()
            .filter(|(_, stored)| stored.connections.is_empty())
            .map(|(session, stored)| (stored.last_active, *session))
            .collect();
        silent.sort_unstable();
        for (_, session) in silent.iter().take(SESSIONS_MAX / 16) {
            self.sessions.remove(session);
        }
        !silent.is_empty()
    }

    /// Keeps a message for the operator, of those that any peer can cause only so many.
    fn notice(&mut self, text: String) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push(text);
        }
    }

    fn progress_of(&self, session: u128) -> Progress {
        let stored = self.sessions.get(&session);
        stored.map(|stored| stored.progress).unwrap_or_default()
    }

    fn note(&mut self, session: u128, progress: Progress) {
        self.clock += 1;
        let stored = self.sessions.entry(session).or_default();
        (stored.progress, stored.last_active) = (progress, self.clock);
    }

    fn keep(
        &mut self,
        peer: &Peer,
        first: u64,
        count: u32,
        payload: &[u8],
        shared: &Shared,
    ) -> Result<u64, Reason> {
        // A batch that came before may define what later ones name; one without records has nothing else.
        let payload = match self.typed(peer) && !payload.is_empty() {
            true => self.define(peer, payload)?,
            false => payload,
        };
        let session = peer.hello.as_ref().map_or(0, |hello| hello.session);
        let epoch = peer.hello.as_ref().map_or(0, |hello| hello.epoch);
        if self.senders.get(&peer.id).is_some_and(|sender| sender.is_failed) {
            return Err(Reason::Unavailable);
        }
        let cursor = self.progress_of(session).taken;
        if cursor.epoch != epoch {
            return Err(Reason::Superseded);
        }
        let skip = match cursor.classify(first, count) {
            Classification::New { skip } => skip,
            Classification::Duplicate => {
                self.counts.duplicates += u64::from(count);
                return Ok(cursor.next);
            }
            Classification::Ahead => return Ok(cursor.next),
        };
        if count == 0 {
            return Ok(cursor.next);
        }
        let format = peer.hello.as_ref().map(|hello| hello.format);
        let after = match format {
            Some(Format::Records) => self.keep_records(peer, (cursor, skip), count, payload, shared)?,
            Some(Format::Text) => self.keep_text(peer, (cursor, skip), count, payload, shared)?,
            _ => self.keep_objects(peer, (cursor, skip), count, payload, shared)?,
        };
        self.counts.duplicates += u64::from(skip);
        Ok(after.next)
    }

    /// Keeps the lines of text of a batch as the records that they are, without those that are in the log.
    fn keep_text(
        &mut self,
        peer: &Peer,
        (mut after, mut left_out): (DedupCursor, u32),
        count: u32,
        lines: &[u8],
        shared: &Shared,
    ) -> Result<DedupCursor, Reason> {
        let session = peer.hello.as_ref().map_or(0, |hello| hello.session);
        if TextLines::count(lines) != count as usize {
            return Err(Reason::Malformed);
        }
        let mut records = self.take_records(peer)?;
        let sender = self.senders.get_mut(&peer.id);
        let mut text = sender
            .map(|sender| std::mem::take(&mut sender.text))
            .unwrap_or_default();
        let mut lines = TextLines::new(lines, left_out);
        let (before, mut kept) = (records.definition_memory(), Ok(()));
        // Long names make much of short lines: a piece at a time, each of them noted by itself.
        while !lines.is_empty() && kept.is_ok() {
            self.group.clear();
            let segment = self.blocks.as_mut().map(BatchBlocks::begin);
            let out = &mut self.group.bytes;
            let put = text.put(&mut lines, &mut records, segment, out, now_unix_ns());
            let finished = put
                .map_err(|_| Reason::Malformed)
                .and_then(|put| match &mut self.blocks {
                    Some(blocks) => blocks.finish(out).map(|()| put).map_err(|_| Reason::Malformed),
                    None => Ok(put),
                });
            kept = finished.and_then(|(done, put)| {
                let done = (done + left_out, put);
                self.keep_done(session, (&mut after, &mut left_out), done, shared)
            });
        }
        self.definition_memory = self.definition_memory + records.definition_memory() - before;
        if let Some(sender) = self.senders.get_mut(&peer.id) {
            (sender.records, sender.text) = (Some(records), text);
        }
        if self.definition_memory > self.definition_memory_max {
            return Err(Reason::Memory);
        }
        kept.map(|()| after)
    }

    /// Keeps the lines of a batch that are JSON objects or opaque, without those that are in the log.
    fn keep_objects(
        &mut self,
        peer: &Peer,
        (mut after, mut left_out): (DedupCursor, u32),
        count: u32,
        lines: &[u8],
        shared: &Shared,
    ) -> Result<DedupCursor, Reason> {
        let hello = peer.hello.as_ref();
        let session = hello.map_or(0, |hello| hello.session);
        let (app, host) = hello.map_or(("", ""), |hello| (&hello.app, &hello.host));
        let Some(sender) = self.senders.get(&peer.id) else {
            return Err(Reason::Unexpected);
        };
        let fields = sender.fields.clone();
        let mut lines = fields.lines(lines);
        if lines.count() != count as usize {
            return Err(Reason::Malformed);
        }
        // Long names make much of short lines: a piece at a time, each of them noted by itself.
        while !lines.is_empty() {
            self.group.clear();
            let (filter, heads) = (&self.filter, self.senders.get_mut(&peer.id));
            let mut heads = heads.map(|sender| &mut sender.levels);
            let done = lines.put_wanted(left_out, OUTPUT_BYTES_MAX, &mut self.group.bytes, |line| {
                let (Some(filter), Some(heads)) = (filter, &mut heads) else {
                    return true;
                };
                let level = heads.of(line).level.unwrap_or(Level::Info);
                filter.wants(app, host, level)
            });
            self.make_block(peer)?;
            self.keep_done(session, (&mut after, &mut left_out), done, shared)?;
        }
        Ok(after)
    }

    /// Keeps the typed records of a batch.
    fn keep_records(
        &mut self,
        peer: &Peer,
        (mut after, mut left_out): (DedupCursor, u32),
        count: u32,
        block: &[u8],
        shared: &Shared,
    ) -> Result<DedupCursor, Reason> {
        let session = peer.hello.as_ref().map_or(0, |hello| hello.session);
        let is_segment = self.blocks.is_some();
        let Some(mut records) = self
            .senders
            .get_mut(&peer.id)
            .and_then(|sender| sender.records.take())
        else {
            return Err(Reason::Unexpected);
        };
        let mut keep = || {
            let batch = records.read(block, is_segment)?;
            if let Some(blocks) = self.blocks.as_mut().filter(|_| left_out == 0) {
                self.group.clear();
                if batch.block.head().records != count as usize {
                    return Ok(Err(Reason::Malformed));
                }
                if records.put_block(&batch, &mut blocks.whole, &mut self.group.bytes)? {
                    let done = (&mut after, &mut left_out);
                    return Ok(self.keep_done(session, done, (count, count), shared));
                }
            }
            let mut found = BatchRecords::new(&batch)?;
            if found.count() != count {
                return Ok(Err(Reason::Malformed));
            }
            while found.count() > 0 {
                self.group.clear();
                let done = match &mut self.blocks {
                    Some(blocks) => records.put_rows(&mut found, left_out, blocks.begin())?,
                    None => records.put_lines(&mut found, left_out, &mut self.group.bytes)?,
                };
                if let Some(blocks) = &mut self.blocks
                    && blocks.finish(&mut self.group.bytes).is_err()
                {
                    return Ok(Err(Reason::Malformed));
                }
                if let Err(reason) = self.keep_done(session, (&mut after, &mut left_out), done, shared) {
                    return Ok(Err(reason));
                }
            }
            Ok(Ok(()))
        };
        let kept: Result<Result<(), Reason>, StoreError> = keep();
        if let Some(sender) = self.senders.get_mut(&peer.id) {
            sender.records = Some(records);
        }
        match kept {
            Ok(kept) => kept.map(|()| after),
            Err(error) => {
                self.notice(format!("a batch of {} cannot be read: {error}", peer.address));
                Err(Reason::Malformed)
            }
        }
    }

    /// Writes what is laid out of so many records that are done with, of which some were put there, and some left out.
    fn keep_done(
        &mut self,
        session: u128,
        (after, left_out): (&mut DedupCursor, &mut u32),
        (done, put): (u32, u32),
        shared: &Shared,
    ) -> Result<(), Reason> {
        let (begin, fresh) = (after.next, done.saturating_sub(*left_out));
        *left_out = left_out.saturating_sub(done);
        after.advance(begin, fresh);
        self.keep_piece(session, *after, put, shared)
    }

    /// Whether a sender sends typed records.
    fn typed(&self, peer: &Peer) -> bool {
        peer.hello
            .as_ref()
            .is_some_and(|hello| hello.format == Format::Records)
    }

    /// Takes the records of a sender, to be given back.
    fn take_records(&mut self, peer: &Peer) -> Result<Box<TypedRecords>, Reason> {
        let (Some(sender), Some(hello)) = (self.senders.get_mut(&peer.id), &peer.hello) else {
            return Err(Reason::Unexpected);
        };
        if let Some(records) = sender.records.take() {
            return Ok(records);
        }
        let records = TypedRecords::new(self.layout.clone(), hello, &sender.fields, self.filter.clone());
        records.map(Box::new).map_err(|_| Reason::System)
    }

    /// Takes the definitions in front of a batch, also of one that is in the log; returns its block.
    fn define<'a>(&mut self, peer: &Peer, payload: &'a [u8]) -> Result<&'a [u8], Reason> {
        let mut records = self.take_records(peer)?;
        let before = records.definition_memory();
        let defined = records.define(payload);
        self.definition_memory = self.definition_memory + records.definition_memory() - before;
        if let Some(sender) = self.senders.get_mut(&peer.id) {
            sender.records = Some(records);
        }
        if self.definition_memory > self.definition_memory_max {
            return Err(Reason::Memory);
        }
        defined
    }

    /// Replaces the lines that are laid out by a block, where the log is a segment.
    fn make_block(&mut self, peer: &Peer) -> Result<(), Reason> {
        let (Some(blocks), Some(sender)) = (&mut self.blocks, self.senders.get_mut(&peer.id)) else {
            return Ok(());
        };
        blocks
            .replace(&mut self.group.bytes, &mut sender.heads, now_unix_ns())
            .map_err(|cause| {
                self.notices
                    .push(format!("a batch cannot become a block of a segment: {cause}"));
                Reason::Malformed
            })
    }

    /// Writes the lines that are laid out, and notes that the session has come so far; or leaves that to the commit thread.
    fn keep_piece(
        &mut self,
        session: u128,
        after: DedupCursor,
        records: u32,
        shared: &Shared,
    ) -> Result<(), Reason> {
        let progress = self.progress_of(session);
        if self.group.bytes.is_empty() && progress.taken == progress.kept {
            // None of them go to this output, and nothing before them is under way.
            self.note(
                session,
                Progress {
                    taken: after,
                    kept: after,
                },
            );
            let stored = self.sessions.get(&session);
            for (_, acks) in stored.iter().flat_map(|stored| &stored.connections) {
                acks.acknowledge(after.next);
            }
            return Ok(());
        }
        let part = Part {
            session,
            cursor: after,
            owner: self.sessions.get(&session).map_or(0, |stored| stored.owner),
            records,
            end_bytes: 0,
        };
        if shared.syncs {
            if !shared.queue.push(part, &self.group.bytes) {
                return Err(Reason::Unavailable);
            }
            let kept = self.progress_of(session).kept;
            self.note(session, Progress { taken: after, kept });
            return Ok(());
        }
        self.group.end_part(part);
        let group = std::mem::take(&mut self.group);
        let began = Instant::now();
        let written = shared.commit(&mut shared.output(), &group, &|| self.in_order());
        let is_written = written.is_ok();
        self.committed(&group, written, began, shared);
        self.group = group;
        is_written.then_some(()).ok_or(Reason::Unavailable)
    }

    /// Notes that a group is kept, and acknowledges it; or that it is not, so that its senders send it again.
    fn committed(
        &mut self,
        group: &BatchGroup,
        written: Result<(), CollectorError>,
        began: Instant,
        shared: &Shared,
    ) {
        let was_failing = self.counts.is_failing;
        self.counts.commit(began.elapsed(), written.is_ok());
        if let Err(error) = written {
            if !was_failing {
                self.notices.push(format!(
                    "{error}; senders keep what is not written, and try again"
                ));
            }
            return self.take_back(shared);
        }
        self.counts.bytes += group.bytes.len() as u64;
        for part in &group.parts {
            self.counts.records += u64::from(part.records);
            self.clock += 1;
            // One that was silent longest may have been forgotten meanwhile.
            let stored = self
                .sessions
                .entry(part.session)
                .or_insert_with(|| StoredSession::at(part.cursor));
            stored.owner = part.owner;
            stored.last_active = self.clock;
            let progress = &mut stored.progress;
            for cursor in [&mut progress.taken, &mut progress.kept] {
                if cursor.epoch == part.cursor.epoch {
                    cursor.advance(part.cursor.next, 0);
                }
            }
        }
        if shared.syncs {
            for part in &group.parts {
                let stored = self.sessions.get(&part.session);
                for (acks, next) in stored.iter().flat_map(|stored| {
                    let next = stored.progress.kept.next;
                    stored.connections.iter().map(move |(_, acks)| (acks, next))
                }) {
                    acks.acknowledge(next);
                }
            }
        }
    }

    /// Takes back all that was taken and is not kept.
    fn take_back(&mut self, shared: &Shared) {
        if !shared.syncs {
            return;
        }
        shared.queue.clear();
        for stored in self.sessions.values_mut() {
            if stored.progress.taken == stored.progress.kept {
                continue;
            }
            stored.progress.taken = stored.progress.kept;
            for (id, acks) in &stored.connections {
                if let Some(sender) = self.senders.get_mut(id) {
                    sender.is_failed = true;
                }
                acks.fail(Reason::Unavailable);
            }
        }
    }

    /// Whether a peer may use a session, which belongs to the identity that used it first. The superuser may send what a
    /// program of any user has left.
    fn admits(&self, session: u128, identity: Option<&Identity>) -> bool {
        let owner = self.sessions.get(&session).map_or(0, |stored| stored.owner);
        let is_own = |identity: &Identity| {
            identity.key == owner || (identity.is_superuser() && Identity::is_user_key(owner))
        };
        owner == 0 || identity.is_some_and(is_own)
    }
}

/// Records that a sender has given up, by the number that its hello begins with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionGap {
    pub(crate) records: u64,
    /// At most so many: those that went to other outputs are among them.
    pub(crate) is_bound: bool,
}

impl Store {
    /// Counts records that senders have given up.
    pub(crate) fn count_lost(&self, records: u64) {
        self.lock().counts.lost += records;
    }

    /// As [`Service::hello`]; says what the sender has given up, where that is known, and does not count it.
    pub(crate) fn begin(&self, peer: &Peer) -> Result<(u64, Option<SessionGap>), Reason> {
        let hello = peer.hello.as_ref().ok_or(Reason::Unexpected)?;
        if hello.role == Role::Client {
            // It probes whether the collector lives, and may do nothing else.
            return Ok((0, None));
        }
        if hello.session == 0 {
            return Err(Reason::Unexpected);
        }
        let mut inner = self.lock();
        let is_new = !inner.sessions.contains_key(&hello.session);
        if is_new && inner.sessions.len() >= SESSIONS_MAX && !inner.make_room() {
            return Err(Reason::Memory);
        }
        let identity = peer.identity.as_ref();
        if !inner.admits(hello.session, identity) {
            inner.counts.refused += 1;
            let name = identity.map_or("a peer without an identity", |identity| identity.name.as_str());
            let notice = format!(
                "{name} at {} was refused: it claimed the session {:032x} of another sender",
                peer.address, hello.session
            );
            inner.notice(notice);
            return Err(Reason::Forbidden);
        }
        let mut progress = inner.progress_of(hello.session);
        let before = progress.taken;
        if !progress.taken.resume(hello.epoch, hello.next) || !progress.kept.resume(hello.epoch, hello.next) {
            return Err(Reason::Superseded);
        }
        let cursor = progress.taken;
        let is_known = before.epoch == cursor.epoch && before.next != 0;
        let stored = inner.sessions.get(&hello.session);
        let is_of_ledger = stored.is_some_and(|stored| stored.is_of_ledger);
        let gap = (is_known && hello.flags & HELLO_ELSEWHERE == 0).then(|| SessionGap {
            records: cursor.next - before.next,
            is_bound: inner.filter.is_some() && is_of_ledger,
        });
        inner.note(hello.session, progress);
        if let Some(stored) = inner.sessions.get_mut(&hello.session) {
            stored.connections.push((peer.id, peer.acks.clone()));
            stored.is_of_ledger = false;
            if stored.owner == 0 {
                stored.owner = identity.map_or(0, |identity| identity.key);
            }
        }
        let is_json = match hello.format {
            Format::Records | Format::Text => is_json(&inner.layout.style),
            format => format == Format::Json,
        };
        let sender = Sender {
            fields: Fields::of(hello, identity, is_json),
            heads: LineHeads::default(),
            levels: LineHeads::default(),
            records: None,
            text: TextRecords::default(),
            is_failed: false,
        };
        inner.senders.insert(peer.id, sender);
        Ok((progress.kept.next, gap))
    }
}

impl Service for Store {
    fn hello(&self, peer: &Peer) -> Result<u64, Reason> {
        let (next, gap) = self.begin(peer)?;
        let known = gap.filter(|own| !own.is_bound);
        self.count_lost(known.map_or(0, |own| own.records));
        Ok(next)
    }

    fn batch(&self, _: &Peer, _: u16, _: Messages<'_>) -> Result<(), FrameError> {
        // Messages are kept nowhere, which their sender has to learn.
        Err(FrameError::Refused { what: "messages" })
    }

    fn records(&self, peer: &Peer, first: u64, count: u32, lines: &[u8]) -> Result<u64, Reason> {
        self.lock().keep(peer, first, count, lines, &self.shared)
    }

    fn defers_acks(&self) -> bool {
        self.shared.syncs
    }

    fn is_congested(&self, peer: &Peer) -> bool {
        let session = peer.hello.as_ref().map_or(0, |hello| hello.session);
        self.shared.queue.is_full() && {
            let progress = self.lock().progress_of(session);
            progress.taken != progress.kept
        }
    }

    fn gap(&self, _: &Peer, lost: u64) {
        self.lock().counts.lost += lost;
    }

    fn disconnected(&self, peer: &Peer, _: Reason) {
        let mut inner = self.lock();
        let Some(sender) = inner.senders.remove(&peer.id) else {
            return;
        };
        let bytes = sender.records.map_or(0, |records| records.definition_memory());
        inner.definition_memory = inner.definition_memory.saturating_sub(bytes);
        let session = peer.hello.as_ref().map_or(0, |hello| hello.session);
        if let Some(stored) = inner.sessions.get_mut(&session) {
            stored.connections.retain(|(id, _)| *id != peer.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_ship::hello::Hello;
    use std::path::Path;

    fn peer(id: u64, uid: Option<u32>, app: &str) -> Peer {
        let mut hello = Hello::new(Role::Shipper);
        (hello.session, hello.epoch) = (9, 1);
        hello.app = app.to_owned();
        Peer {
            id,
            address: "unix".to_owned(),
            uid,
            identity: uid.map(Identity::of_user),
            hello: Some(hello),
            outbox: logdrive_ship::session::Outbox::default(),
            acks: Acks::default(),
        }
    }

    fn sender_of_text() -> Peer {
        let mut sender = peer(1, None, "app");
        sender.hello.as_mut().expect("a hello").format = Format::Text;
        sender
    }

    fn open(directory: &Path) -> Store {
        Store::open(
            &FileOptions::new(directory.join("collected.log")),
            StoreFormat::Text,
            false,
        )
        .expect("opened")
    }

    #[test]
    fn a_session_belongs_to_the_identity_that_used_it_first() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        let owner = peer(1, Some(1000), "app");
        assert_eq!(store.hello(&owner), Ok(0));
        assert_eq!(store.records(&owner, 0, 2, b"one\ntwo\n"), Ok(2));
        for store in [&store, &open(directory.path())] {
            // Nor may it move the session forward, or begin another epoch.
            let mut thief = peer(2, Some(1001), "app");
            for (next, epoch) in [(0, 1), (99_900, 1), (0, u64::MAX)] {
                let hello = thief.hello.as_mut().expect("a hello");
                (hello.next, hello.epoch) = (next, epoch);
                assert_eq!(store.hello(&thief), Err(Reason::Forbidden));
            }
            assert_eq!(store.hello(&peer(3, None, "app")), Err(Reason::Forbidden));
            assert_eq!(store.hello(&owner), Ok(2));
            assert_eq!(
                store.hello(&peer(4, Some(0), "app")),
                Ok(2),
                "the superuser recovers it"
            );
            assert!(store.counts().refused == 4 && store.notices()[0].contains("uid:1001"));
        }
        let log = std::fs::read_to_string(directory.path().join("collected.log")).expect("read");
        assert!(
            log.starts_with("one process=") && log.contains(" identity=uid:1000\n"),
            "{log}"
        );
    }

    /// A definition of 18 bytes takes 3 KiB; only its bytes were counted.
    #[test]
    fn short_definitions_of_all_senders_take_bounded_memory() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        store.lock().definition_memory_max = 4 << 20;
        // Threads without a name.
        let definition = [&[2][..], &7u64.to_le_bytes()].concat();
        let definitions = (0..1_000).map(|number| (number, definition.as_slice()));
        let payload = logdrive_ship::session::RecordPayload::encode(definitions, b"");
        let define = |id: u64| {
            let mut sender = peer(id, None, "app");
            let hello = sender.hello.as_mut().expect("a hello");
            (hello.session, hello.format) = (id.into(), Format::Records);
            assert_eq!(store.hello(&sender), Ok(0));
            (store.records(&sender, 0, 0, &payload), sender)
        };
        let (taken, first) = define(1);
        assert_eq!(taken, Ok(0));
        let (refused, second) = define(2);
        assert_eq!(refused, Err(Reason::Memory));
        // The memory of a sender is free when it has gone.
        store.disconnected(&second, Reason::Memory);
        store.disconnected(&first, Reason::Done);
        assert_eq!(store.lock().definition_memory, 0);
        assert_eq!(define(3).0, Ok(0));
    }

    #[test]
    fn targets_in_lines_of_text_take_bounded_memory() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        store.lock().definition_memory_max = 1 << 20;
        let sender = sender_of_text();
        assert_eq!(store.hello(&sender), Ok(0));
        let lines: String = (0..1_000)
            .map(|number| format!("2026-11-25 12:34:56,000 INFO [main] com.shop.C{number} - said\n"))
            .collect();
        let first = lines.lines().next().expect("one").to_owned() + "\n";
        assert_eq!(store.records(&sender, 0, 1, first.as_bytes()), Ok(1));
        assert_eq!(
            store.records(&sender, 1, 1_000, lines.as_bytes()),
            Err(Reason::Memory)
        );
        store.disconnected(&sender, Reason::Memory);
        assert_eq!(store.lock().definition_memory, 0);
    }

    /// A stack trace is one record with its line, and what came again is left out.
    #[test]
    fn lines_of_text_are_records() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        let sender = sender_of_text();
        assert_eq!(store.hello(&sender), Ok(0));
        let lines = b"2026-11-25 12:34:56,789 ERROR [main] com.shop.Orders - failed\n\tat a.B.c(B.java:7)\nINFO: next\n";
        assert_eq!(store.records(&sender, 0, 3, lines), Ok(3));
        assert_eq!(store.records(&sender, 2, 2, b"INFO: next\nWARN: last\n"), Ok(4));
        let counts = store.counts();
        assert_eq!((counts.records, counts.duplicates), (3, 1));
        let log = std::fs::read_to_string(directory.path().join("collected.log")).expect("read");
        let records: Vec<serde_json::Value> = log
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let shown = |at: usize, key: &str| records[at][key].as_str().unwrap_or_default().to_owned();
        assert_eq!(shown(0, "message"), "failed\n\tat a.B.c(B.java:7)");
        assert_eq!(
            (shown(0, "thread"), shown(0, "target"), shown(0, "ts")),
            (
                "main".into(),
                "com.shop.Orders".into(),
                "2026-11-25T12:34:56.789000000Z".into()
            )
        );
        let shown = [1, 2].map(|at| (shown(at, "level"), shown(at, "message")));
        assert_eq!(
            shown,
            [("INFO", "next"), ("WARN", "last")].map(|(a, b)| (a.into(), b.into()))
        );
    }

    /// A frame of 270 bytes made the collector take 4.6 GB.
    #[test]
    fn many_short_lines_with_long_names_take_bounded_memory() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        let mut sender = sender_of_text();
        sender.hello.as_mut().expect("a hello").app = "n".repeat(200);
        assert_eq!(store.hello(&sender), Ok(0));
        let count = 60_000;
        let lines = b"\n".repeat(count);
        assert_eq!(store.records(&sender, 0, count as u32, &lines), Ok(count as u64));
        assert!(store.lock().group.bytes.capacity() < 3 * OUTPUT_BYTES_MAX);
        // What came again in part is left out.
        assert_eq!(
            store.records(&sender, 10, count as u32, &lines),
            Ok(count as u64 + 10)
        );
        let counts = store.counts();
        assert_eq!(
            (counts.records, counts.duplicates),
            (count as u64 + 10, count as u64 - 10)
        );
        let log = std::fs::read(directory.path().join("collected.log")).expect("read");
        assert_eq!(memchr::memchr_iter(b'\n', &log).count(), count + 10);
    }
}
