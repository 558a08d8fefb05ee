//! Where records go: a log with the backend's rotation and retention, and the ledger that says what is in it.

use super::config::CollectConfig;
use super::ledger::{Entry, Ledger};
use super::lines::Fields;
use crate::error::CliError;
use logdrive_drain::file::{Disk, FileError, LogFile};
use logdrive_ship::frame::{FrameError, Messages};
use logdrive_ship::hello::{HELLO_ELSEWHERE, Reason, Role};
use logdrive_ship::limits::SESSIONS_MAX;
use logdrive_ship::session::{Classification, DedupCursor, Peer, Service};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// What the collector has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) records: u64,
    pub(super) duplicates: u64,
    /// Lost by senders, who said so.
    pub(super) lost: u64,
    pub(super) bytes: u64,
    pub(super) sessions: u64,
    /// The log cannot be written now.
    pub(super) is_failing: bool,
}

/// A session.
#[derive(Debug, Clone, Copy)]
struct Known {
    intake: DedupCursor,
    /// When it said something last, by [`Inner::clock`].
    heard: u64,
    /// Connections that it has now.
    connections: u32,
}

#[derive(Debug)]
struct Inner {
    file: LogFile,
    ledger: Ledger,
    sessions: HashMap<u128, Known>,
    /// Counts what sessions have said, so that it is known which one was silent longest.
    clock: u64,
    /// Fields by connection.
    fields: HashMap<u64, Fields>,
    out: Vec<u8>,
    counts: Counts,
    notices: Vec<String>,
}

/// The service that keeps records.
#[derive(Debug)]
pub(super) struct Store {
    inner: Mutex<Inner>,
    syncs: bool,
}

fn now_unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Store {
    pub(super) fn open(config: &CollectConfig) -> Result<Self, CliError> {
        let directory = config
            .file
            .path
            .parent()
            .map_or_else(|| PathBuf::from("."), PathBuf::from);
        std::os::unix::fs::DirBuilderExt::mode(
            std::fs::DirBuilder::new().recursive(true),
            config.file.dir_mode,
        )
        .create(&directory)
        .map_err(|cause| CliError::Write {
            path: directory.clone(),
            cause,
        })?;
        // Before the log is opened: what is taken back must not be written behind.
        let (ledger, sessions) = Ledger::open(&directory)?;
        let file = LogFile::open(&config.file, Arc::new(Disk), now_unix_ns()).map_err(CliError::from)?;
        Ok(Self {
            inner: Mutex::new(Inner {
                file,
                ledger,
                counts: Counts {
                    sessions: sessions.len() as u64,
                    ..Counts::default()
                },
                clock: sessions.len() as u64,
                sessions: known(sessions),
                fields: HashMap::new(),
                out: Vec::new(),
                notices: Vec::new(),
            }),
            syncs: config.sync,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Whoever panicked has not acknowledged what it was about to write.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.lock().file.path()
    }

    pub(super) fn counts(&self) -> Counts {
        let inner = self.lock();
        Counts {
            sessions: inner.sessions.len() as u64,
            ..inner.counts
        }
    }

    pub(super) fn reopen(&self) {
        self.lock().file.reopen();
    }

    pub(super) fn notices(&self) -> Vec<String> {
        let mut inner = self.lock();
        let mut all = std::mem::take(&mut inner.notices);
        while let Some(notice) = inner.file.notice() {
            all.push(notice);
        }
        all
    }

    /// Makes all durable that was written.
    pub(super) fn close(&self) {
        let mut inner = self.lock();
        let log = inner.file.sync().map_err(|error| error.to_string());
        let ledger = inner.ledger.sync().map_err(|error| error.to_string());
        if let Err(error) = log.and(ledger) {
            inner.counts.is_failing = true;
            inner.notices.push(error);
        }
    }
}

/// Sessions as the ledger has them: those that were silent longest first.
fn known(sessions: Vec<(u128, DedupCursor)>) -> HashMap<u128, Known> {
    let numbered = sessions.into_iter().zip(0..);
    let known = numbered.map(|((session, intake), heard)| {
        let known = Known {
            intake,
            heard,
            connections: 0,
        };
        (session, known)
    });
    known.collect()
}

impl Inner {
    /// All sessions, those that were silent longest first.
    fn in_order(&self) -> Vec<(u128, DedupCursor)> {
        let mut all: Vec<(u128, Known)> = self
            .sessions
            .iter()
            .map(|(session, known)| (*session, *known))
            .collect();
        all.sort_unstable_by_key(|(_, known)| known.heard);
        all.into_iter()
            .map(|(session, known)| (session, known.intake))
            .collect()
    }

    /// Forgets sessions that were silent longest, and have no connection: whoever of them comes back with records of
    /// before would have them twice. `false`: all have one.
    fn make_room(&mut self) -> bool {
        let mut silent: Vec<(u64, u128)> = self
            .sessions
            .iter()
            .filter(|(_, known)| known.connections == 0)
            .map(|(session, known)| (known.heard, *session))
            .collect();
        silent.sort_unstable();
        for (_, session) in silent.iter().take(SESSIONS_MAX / 16) {
            self.sessions.remove(session);
        }
        !silent.is_empty()
    }

    fn intake_of(&self, session: u128) -> DedupCursor {
        self.sessions
            .get(&session)
            .map(|known| known.intake)
            .unwrap_or_default()
    }

    fn note(&mut self, session: u128, intake: DedupCursor) {
        self.clock += 1;
        let heard = self.clock;
        let known = self.sessions.entry(session).or_insert(Known {
            intake,
            heard,
            connections: 0,
        });
        (known.intake, known.heard) = (intake, heard);
    }

    fn keep(
        &mut self,
        peer: &Peer,
        first: u64,
        count: u32,
        lines: &[u8],
        syncs: bool,
    ) -> Result<u64, Reason> {
        let session = peer.hello.as_ref().map_or(0, |hello| hello.session);
        let epoch = peer.hello.as_ref().map_or(0, |hello| hello.epoch);
        let intake = self.intake_of(session);
        if intake.epoch != epoch {
            return Err(Reason::Superseded);
        }
        let skip = match intake.classify(first, count) {
            Classification::New { skip } => skip,
            Classification::Duplicate => {
                self.counts.duplicates += u64::from(count);
                return Ok(intake.next);
            }
            Classification::Ahead => return Err(Reason::Unavailable),
        };
        let Some(fields) = self.fields.get(&peer.id) else {
            return Err(Reason::Unexpected);
        };
        self.out.clear();
        if fields.put(lines, skip, &mut self.out) != count {
            return Err(Reason::Malformed);
        }
        let mut after = intake;
        after.advance(first, count);
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
        self.counts.records += u64::from(count - skip);
        self.counts.duplicates += u64::from(skip);
        self.counts.bytes += self.out.len() as u64;
        if self.ledger.is_long() {
            // The old one still holds; the next batch tries again.
            let _ = self.ledger.renew(&self.in_order());
        }
        Ok(after.next)
    }

    /// First the ledger, then the log: `spec/frame.md` says why.
    fn write(&mut self, session: u128, intake: DedupCursor, syncs: bool) -> Result<(), CliError> {
        let ledger_failed = |cause| CliError::Write {
            path: PathBuf::from("collected.ledger"),
            cause,
        };
        let length = self.out.len() as u64;
        let place = self.file.place(length, now_unix_ns())?;
        let entry = Entry {
            session,
            intake,
            place,
            length,
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
        if syncs {
            self.file.sync().map_err(|failed| CliError::from(failed.cause))?;
        }
        Ok(())
    }
}

impl Service for Store {
    fn hello(&self, peer: &Peer) -> Result<DedupCursor, Reason> {
        let hello = peer.hello.as_ref().ok_or(Reason::Unexpected)?;
        if hello.role == Role::Client {
            // It looks whether we live, and may do nothing else.
            return Ok(DedupCursor::default());
        }
        if hello.session == 0 {
            return Err(Reason::Unexpected);
        }
        let mut inner = self.lock();
        let is_new = !inner.sessions.contains_key(&hello.session);
        if is_new && inner.sessions.len() >= SESSIONS_MAX && !inner.make_room() {
            return Err(Reason::Memory);
        }
        let mut intake = inner.intake_of(hello.session);
        let before = intake;
        if !intake.resume(hello.epoch, hello.next) {
            return Err(Reason::Superseded);
        }
        let is_elsewhere = hello.flags & HELLO_ELSEWHERE != 0;
        if before.epoch == intake.epoch && before.next != 0 && !is_elsewhere {
            // What it has given up, by its own count.
            inner.counts.lost += intake.next - before.next;
        }
        inner.note(hello.session, intake);
        if let Some(known) = inner.sessions.get_mut(&hello.session) {
            known.connections += 1;
        }
        inner.fields.insert(peer.id, Fields::of(hello));
        Ok(intake)
    }

    fn batch(&self, _: &Peer, _: u16, _: Messages<'_>) -> Result<(), FrameError> {
        // Messages are kept nowhere, which whoever sends them has to hear.
        Err(FrameError::Unknown {
            field: "messages, to a collector",
            found: 0,
        })
    }

    fn records(&self, peer: &Peer, first: u64, count: u32, lines: &[u8]) -> Result<u64, Reason> {
        self.lock().keep(peer, first, count, lines, self.syncs)
    }

    fn gap(&self, _: &Peer, lost: u64) {
        self.lock().counts.lost += lost;
    }

    fn disconnected(&self, peer: &Peer, _: Reason) {
        let mut inner = self.lock();
        if inner.fields.remove(&peer.id).is_none() {
            return;
        }
        let session = peer.hello.as_ref().map_or(0, |hello| hello.session);
        if let Some(known) = inner.sessions.get_mut(&session) {
            known.connections = known.connections.saturating_sub(1);
        }
    }
}

impl From<FileError> for CliError {
    fn from(cause: FileError) -> Self {
        Self::LogFile { cause }
    }
}
