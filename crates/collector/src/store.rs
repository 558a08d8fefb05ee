//! The store: a log with the drain's rotation and retention, and the ledger that says which records are in it.

use crate::batch_blocks::BatchBlocks;
use crate::error::CollectorError;
use crate::fields::Fields;
use crate::ledger::{Entry, KnownSession, Ledger};
use crate::limits::{DEFINITIONS_BYTES_ALL_MAX, NOTICES_MAX, OUTPUT_BYTES_MAX};
use crate::records::{BatchRecords, TypedRecords, is_json};
use logdrive_drain::file::{Disk, FileError, FileOptions, LogFile};
use logdrive_drain::layout::{Layout, LayoutOptions, ProcessInfo, Style};
use logdrive_reader::LineHeads;
use logdrive_ship::Identity;
use logdrive_ship::frame::{FrameError, Messages};
use logdrive_ship::hello::{Format, HELLO_ELSEWHERE, Reason, Role};
use logdrive_ship::limits::SESSIONS_MAX;
use logdrive_ship::session::{Classification, DedupCursor, Peer, Service};
use logdrive_store::StoreError;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Times that a batch is written to a new file where the file was deleted under it; then its sender tries again.
const DELETED_TRIES_MAX: u32 = 4;

/// Form of the records in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreFormat {
    /// Lines, as they were sent.
    #[default]
    Text,
    /// The same lines in the compressed blocks of a segment.
    Segments,
}

logdrive_drain::words!(StoreFormat {
    Text = "text": "lines as they were sent",
    Segments = "segments": "the same lines in compressed blocks, a small part of their size",
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
    /// Set if the log cannot be written now. Senders keep their records meanwhile.
    pub is_failing: bool,
}

/// A session that has sent records.
#[derive(Debug, Clone, Copy)]
struct StoredSession {
    cursor: DedupCursor,
    /// Key of the identity that it belongs to; 0 for none.
    owner: u64,
    /// Reading of [`Inner::clock`] at its last record or hello.
    last_active: u64,
    /// Connections that it has now.
    connections: u32,
}

/// A sender that is connected.
#[derive(Debug)]
struct Sender {
    fields: Fields,
    /// Times of its lines.
    heads: LineHeads,
    /// Its typed records, from the first batch of them on.
    records: Option<Box<TypedRecords>>,
}

#[derive(Debug)]
struct Inner {
    file: LogFile,
    ledger: Ledger,
    sessions: HashMap<u128, StoredSession>,
    /// Count of all that sessions have sent, which gives the session that was silent longest.
    clock: u64,
    /// Senders, by connection.
    senders: HashMap<u64, Sender>,
    /// Blocks of batches, for a log of segments.
    blocks: Option<BatchBlocks>,
    /// Layout of typed records.
    layout: LayoutOptions,
    /// Bytes of the definitions of all senders.
    definition_bytes: usize,
    out: Vec<u8>,
    counts: StoreCounts,
    notices: Vec<String>,
}

/// Service of [`logdrive_ship::serve`] that writes records to a log, each once.
///
/// A record is acknowledged when the kernel has it (C1), with `sync` when it is on disk (C2).
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
    inner: Mutex<Inner>,
    syncs: bool,
}

fn now_unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Store {
    /// Opens the log and the ledger beside it, makes their directory, and cuts off what a killed collector wrote in
    /// part.
    ///
    /// # Errors
    /// When a file or the directory cannot be made or read.
    pub fn open(options: &FileOptions, format: StoreFormat, sync: bool) -> Result<Self, CollectorError> {
        let directory = options
            .path
            .parent()
            .map_or_else(|| PathBuf::from("."), PathBuf::from);
        std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), options.dir_mode)
            .create(&directory)
            .map_err(|cause| CollectorError::write(&directory, cause))?;
        // Before the log is opened: what is taken back must not be written behind.
        let (ledger, sessions) = Ledger::open(&directory)?;
        let mut file = LogFile::open(options, Arc::new(Disk), now_unix_ns())?;
        file.expect_segments(format == StoreFormat::Segments, now_unix_ns());
        Ok(Self {
            inner: Mutex::new(Inner {
                file,
                ledger,
                counts: StoreCounts {
                    sessions: sessions.len() as u64,
                    ..StoreCounts::default()
                },
                clock: sessions.len() as u64,
                sessions: by_session(sessions),
                senders: HashMap::new(),
                blocks: (format == StoreFormat::Segments).then(BatchBlocks::default),
                layout: Style::Json.into(),
                definition_bytes: 0,
                out: Vec::new(),
                notices: Vec::new(),
            }),
            syncs: sync,
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

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The thread that panicked has not acknowledged what it was about to write.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Path of the log file that is written now.
    pub fn path(&self) -> PathBuf {
        self.lock().file.path()
    }

    /// Counts up to now.
    pub fn counts(&self) -> StoreCounts {
        let inner = self.lock();
        StoreCounts {
            sessions: inner.sessions.len() as u64,
            ..inner.counts
        }
    }

    /// Opens the log anew before the next record, for a tool that has renamed it.
    pub fn reopen(&self) {
        self.lock().file.reopen();
    }

    /// Messages for the operator of the collector, since the last call.
    pub fn notices(&self) -> Vec<String> {
        let mut inner = self.lock();
        let mut all = std::mem::take(&mut inner.notices);
        while let Some(notice) = inner.file.notice() {
            all.push(notice);
        }
        all
    }

    /// Makes all durable that was written. Blocks until the disk has it; what fails is a notice and a count.
    pub fn close(&self) {
        let mut inner = self.lock();
        let log = inner.file.sync().map_err(|error| error.to_string());
        let ledger = inner.ledger.sync().map_err(|error| error.to_string());
        if let Err(error) = log.and(ledger) {
            inner.counts.is_failing = true;
            inner.notices.push(error);
        }
    }
}

/// Returns the sessions of the ledger, which has those that were silent longest first.
fn by_session(sessions: Vec<KnownSession>) -> HashMap<u128, StoredSession> {
    let stored = |(known, last_active): (KnownSession, u64)| {
        (
            known.session,
            StoredSession {
                cursor: known.cursor,
                owner: known.owner,
                last_active,
                connections: 0,
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
            cursor: stored.cursor,
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
            .filter(|(_, stored)| stored.connections == 0)
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

    fn cursor_of(&self, session: u128) -> DedupCursor {
        let stored = self.sessions.get(&session);
        stored.map(|stored| stored.cursor).unwrap_or_default()
    }

    fn note(&mut self, session: u128, cursor: DedupCursor) {
        self.clock += 1;
        let last_active = self.clock;
        let stored = self.sessions.entry(session).or_insert(StoredSession {
            cursor,
            owner: 0,
            last_active,
            connections: 0,
        });
        (stored.cursor, stored.last_active) = (cursor, last_active);
    }

    fn keep(
        &mut self,
        peer: &Peer,
        first: u64,
        count: u32,
        payload: &[u8],
        syncs: bool,
    ) -> Result<u64, Reason> {
        // A batch that came before may define what later ones name; one without records has nothing else.
        let payload = match self.typed(peer) && !payload.is_empty() {
            true => self.define(peer, payload)?,
            false => payload,
        };
        let session = peer.hello.as_ref().map_or(0, |hello| hello.session);
        let epoch = peer.hello.as_ref().map_or(0, |hello| hello.epoch);
        let cursor = self.cursor_of(session);
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
        let after = match self.typed(peer) {
            true => self.keep_records(peer, (cursor, skip), count, payload, syncs)?,
            false => self.keep_lines(peer, (cursor, skip), count, payload, syncs)?,
        };
        self.counts.duplicates += u64::from(skip);
        if self.ledger.is_long() {
            // The old one still holds; the next batch tries again.
            let _ = self.ledger.renew(&self.in_order());
        }
        Ok(after.next)
    }

    /// Keeps the lines of a batch, without those that are in the log.
    fn keep_lines(
        &mut self,
        peer: &Peer,
        (mut after, mut left_out): (DedupCursor, u32),
        count: u32,
        lines: &[u8],
        syncs: bool,
    ) -> Result<DedupCursor, Reason> {
        let session = peer.hello.as_ref().map_or(0, |hello| hello.session);
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
            self.out.clear();
            let done = lines.put(left_out, OUTPUT_BYTES_MAX, &mut self.out);
            self.make_block(peer)?;
            self.keep_done(session, (&mut after, &mut left_out), done, syncs)?;
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
        syncs: bool,
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
            let rows = batch.block.rows()?;
            let mut found = BatchRecords::new(&batch, &rows);
            if found.count() != count {
                return Ok(Err(Reason::Malformed));
            }
            while found.count() > 0 {
                self.out.clear();
                let done = match &mut self.blocks {
                    Some(blocks) => records.put_rows(&mut found, left_out, blocks.begin())?,
                    None => records.put_lines(&mut found, left_out, &mut self.out)?,
                };
                if let Some(blocks) = &mut self.blocks
                    && blocks.finish(&mut self.out).is_err()
                {
                    return Ok(Err(Reason::Malformed));
                }
                if let Err(reason) = self.keep_done(session, (&mut after, &mut left_out), done, syncs) {
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

    /// Writes what is laid out of so many records, of which some are left out.
    fn keep_done(
        &mut self,
        session: u128,
        (after, left_out): (&mut DedupCursor, &mut u32),
        done: u32,
        syncs: bool,
    ) -> Result<(), Reason> {
        let (begin, fresh) = (after.next, done.saturating_sub(*left_out));
        *left_out = left_out.saturating_sub(done);
        after.advance(begin, fresh);
        self.keep_piece(session, *after, syncs)?;
        self.counts.records += u64::from(fresh);
        Ok(())
    }

    /// Whether a sender sends typed records.
    fn typed(&self, peer: &Peer) -> bool {
        peer.hello
            .as_ref()
            .is_some_and(|hello| hello.format == Format::Records)
    }

    /// Takes the definitions in front of a batch, also of one that is in the log; returns its block.
    fn define<'a>(&mut self, peer: &Peer, payload: &'a [u8]) -> Result<&'a [u8], Reason> {
        let (Some(sender), Some(hello)) = (self.senders.get_mut(&peer.id), &peer.hello) else {
            return Err(Reason::Unexpected);
        };
        let records = match &mut sender.records {
            Some(records) => records,
            None => {
                let records = TypedRecords::new(self.layout.clone(), hello, &sender.fields);
                let records = records.map_err(|_| Reason::System)?;
                sender.records.insert(Box::new(records))
            }
        };
        let before = records.definition_bytes();
        let defined = records.define(payload);
        self.definition_bytes = self.definition_bytes + records.definition_bytes() - before;
        if self.definition_bytes > DEFINITIONS_BYTES_ALL_MAX {
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
            .replace(&mut self.out, &mut sender.heads, now_unix_ns())
            .map_err(|cause| {
                self.notices
                    .push(format!("a batch cannot become a block of a segment: {cause}"));
                Reason::Malformed
            })
    }

    /// Writes the lines that are laid out, and notes that the session has come so far.
    fn keep_piece(&mut self, session: u128, after: DedupCursor, syncs: bool) -> Result<(), Reason> {
        if let Err(error) = self.write(session, after, syncs) {
            if !std::mem::replace(&mut self.counts.is_failing, true) {
                self.notices.push(format!(
                    "{error}; senders keep what is not written, and try again"
                ));
            }
            return Err(Reason::Unavailable);
        }
        self.counts.is_failing = false;
        self.note(session, after);
        self.counts.bytes += self.out.len() as u64;
        Ok(())
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

    /// Writes a batch; again where the file was deleted under it.
    fn write(&mut self, session: u128, cursor: DedupCursor, syncs: bool) -> Result<(), CollectorError> {
        let ledger_failed = |cause| CollectorError::write(Path::new("collected.ledger"), cause);
        for _ in 0..DELETED_TRIES_MAX {
            self.write_once(session, cursor, syncs)?;
            if !self.file.was_deleted() {
                if syncs {
                    let synced = self.file.sync();
                    synced.map_err(|failed| CollectorError::from(failed.cause))?;
                }
                return Ok(());
            }
            self.ledger.take_last_back().map_err(ledger_failed)?;
        }
        Err(FileError::Deleted {
            path: self.file.path(),
        }
        .into())
    }

    /// First the ledger, then the log: `spec/frame.md` says why.
    fn write_once(&mut self, session: u128, cursor: DedupCursor, syncs: bool) -> Result<(), CollectorError> {
        let ledger_failed = |cause| CollectorError::write(Path::new("collected.ledger"), cause);
        let length = self.out.len() as u64;
        let place = self.file.place(length, now_unix_ns())?;
        let entry = Entry {
            session,
            cursor,
            place,
            length,
            owner: self.sessions.get(&session).map_or(0, |stored| stored.owner),
            ..Entry::default()
        };
        if let Err(cause) = self.ledger.append(&entry) {
            self.file.abandon(place, 0)?;
            return Err(ledger_failed(cause));
        }
        if syncs {
            self.ledger.sync().map_err(ledger_failed)?;
        }
        if let Err(failed) = self.file.write_at(place, 0, &self.out) {
            // First the bytes, then the entry: the other way round a kill between would leave bytes that count twice.
            self.file.abandon(place, 0)?;
            self.ledger.take_last_back().map_err(ledger_failed)?;
            return Err(failed.cause.into());
        }
        Ok(())
    }
}

impl Service for Store {
    fn hello(&self, peer: &Peer) -> Result<u64, Reason> {
        let hello = peer.hello.as_ref().ok_or(Reason::Unexpected)?;
        if hello.role == Role::Client {
            // It probes whether the collector lives, and may do nothing else.
            return Ok(0);
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
        let mut cursor = inner.cursor_of(hello.session);
        let before = cursor;
        if !cursor.resume(hello.epoch, hello.next) {
            return Err(Reason::Superseded);
        }
        let is_elsewhere = hello.flags & HELLO_ELSEWHERE != 0;
        if before.epoch == cursor.epoch && before.next != 0 && !is_elsewhere {
            // Records that it has given up, by its own count.
            inner.counts.lost += cursor.next - before.next;
        }
        inner.note(hello.session, cursor);
        if let Some(stored) = inner.sessions.get_mut(&hello.session) {
            stored.connections += 1;
            if stored.owner == 0 {
                stored.owner = identity.map_or(0, |identity| identity.key);
            }
        }
        let is_json = match hello.format {
            Format::Records => is_json(&inner.layout.style),
            format => format == Format::Json,
        };
        let sender = Sender {
            fields: Fields::of(hello, identity, is_json),
            heads: LineHeads::default(),
            records: None,
        };
        inner.senders.insert(peer.id, sender);
        Ok(cursor.next)
    }

    fn batch(&self, _: &Peer, _: u16, _: Messages<'_>) -> Result<(), FrameError> {
        // Messages are kept nowhere, which their sender has to learn.
        Err(FrameError::Refused { what: "messages" })
    }

    fn records(&self, peer: &Peer, first: u64, count: u32, lines: &[u8]) -> Result<u64, Reason> {
        self.lock().keep(peer, first, count, lines, self.syncs)
    }

    fn gap(&self, _: &Peer, lost: u64) {
        self.lock().counts.lost += lost;
    }

    fn disconnected(&self, peer: &Peer, _: Reason) {
        let mut inner = self.lock();
        let Some(sender) = inner.senders.remove(&peer.id) else {
            return;
        };
        let bytes = sender.records.map_or(0, |records| records.definition_bytes());
        inner.definition_bytes = inner.definition_bytes.saturating_sub(bytes);
        let session = peer.hello.as_ref().map_or(0, |hello| hello.session);
        if let Some(stored) = inner.sessions.get_mut(&session) {
            stored.connections = stored.connections.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_ship::hello::Hello;

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
        }
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
            log.starts_with("one host=") && log.contains(" identity=uid:1000\n"),
            "{log}"
        );
    }

    /// A frame of 270 bytes made the collector take 4.6 GB.
    #[test]
    fn many_short_lines_with_long_names_take_bounded_memory() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        let sender = peer(1, None, &"n".repeat(200));
        assert_eq!(store.hello(&sender), Ok(0));
        let count = 60_000;
        let lines = b"\n".repeat(count);
        assert_eq!(store.records(&sender, 0, count as u32, &lines), Ok(count as u64));
        assert!(store.lock().out.capacity() < 3 * OUTPUT_BYTES_MAX);
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
