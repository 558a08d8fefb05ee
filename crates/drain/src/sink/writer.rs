//! The I/O thread of one sink: takes full buffers in order and hands their bytes to the target.

use crate::console::Console;
use crate::error::BackendError;
use crate::file::{FileError, FileOptions, LogFile, Placement, Storage};
use crate::layout::{LayoutOptions, ProcessInfo};
use crate::limits::{CLOSING_LOOK_MS, DELETED_TRIES_MAX, RETRY_MS};
use crate::recovery_state::RecoveryState;
use crate::segment::BlockEncoder;
use crate::ship::ShipOptions;
use crate::sink::callback::CallbackSink;
use crate::sink::delivery::{Delivery, Done};
use crate::sink::memory::MemorySink;
use crate::sink::options::Sync;
use crate::status::BackendStatus;
use logdrive_ring::clock::unix_ns;
use logdrive_ring::{Buffer, Buffers, FileLocation};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender};
use std::time::{Duration, Instant};

/// Request of the drain to an I/O thread.
#[derive(Debug)]
pub(crate) enum IoRequest {
    /// Write these bytes; `sync` when a record's level asked for the flush.
    Write { buffer: Buffer, sync: bool },
    /// Note for a flush ticket that everything before this is with the kernel.
    Ticket(u64),
    /// Make what was written durable.
    Sync,
    /// Open the file anew.
    Reopen,
    /// Nothing more will come.
    Close,
}

/// An open target.
#[derive(Debug)]
pub(crate) enum Output {
    File(Box<LogFile>),
    /// A file that is opened with its first line.
    DeferredFile(Box<DeferredFile>),
    Console(Console),
    Memory(MemorySink),
    Callback(CallbackSink),
    /// A collector without a connection so far.
    Unsent(Box<ShipOptions>),
    /// A collector whose spool a recovery may work on first.
    DeferredShip(Box<DeferredShip>),
    Ship(Box<dyn Delivery>),
    Discard,
    /// The target was one of a process that is dead.
    Gone,
}

/// Check that must pass before a file is opened; the error says what is wrong.
pub(crate) type OpenCheck = Box<dyn FnMut() -> Result<(), String> + Send>;

/// A file that is opened with its first line; where that fails, again and again until it works.
pub(crate) struct DeferredFile {
    pub(crate) options: FileOptions,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) check: Option<OpenCheck>,
    /// Recovery that may work on the same file first.
    pub(crate) recovery: Arc<RecoveryState>,
    /// As those of the starter.
    pub(crate) run_dirs: Arc<[PathBuf]>,
    /// Receiver of the first try, which is made at once; without it that is made with the first line.
    pub(crate) attempt: Option<Sender<OpenAttempt>>,
}

/// Progress of the first try to open a file, for the start that waits for it.
#[derive(Debug)]
pub(crate) enum OpenAttempt {
    /// The thread is at it.
    Begun,
    /// The file is open, or will be when the disk or a recovery allows it.
    Settled,
    /// The program cannot start with it.
    Failed(BackendError),
}

impl DeferredFile {
    fn path(&self) -> PathBuf {
        std::path::absolute(&self.options.path).unwrap_or_else(|_| self.options.path.clone())
    }

    fn open(&mut self, sink: usize, status: &BackendStatus) -> Result<LogFile, Failed> {
        if let Some(check) = &mut self.check {
            check().map_err(Failed::OpenCheck)?;
        }
        let path = self.path();
        if !self.recovery.wait_for_file(&path, sink, status) {
            return Err(Failed::OpenCheck(format!(
                "records of an earlier process come first in {}, which takes none; those of this one wait",
                path.display()
            )));
        }
        let (storage, run_dirs) = (Arc::clone(&self.storage), Arc::clone(&self.run_dirs));
        LogFile::open_among(&self.options, storage, run_dirs, unix_ns()).map_err(Failed::File)
    }
}

/// A collector whose connection and spool its own thread opens.
#[derive(Debug)]
pub(crate) struct DeferredShip {
    pub(crate) options: ShipOptions,
    pub(crate) layout: LayoutOptions,
    pub(crate) process: ProcessInfo,
    pub(crate) recovery: Arc<RecoveryState>,
    pub(crate) attempt: Option<Sender<OpenAttempt>>,
}

impl DeferredShip {
    /// Waits for a recovery that works on the spool, and starts to send: without the spool where nothing moves there.
    fn start(&self, sink: usize, status: &BackendStatus) -> Result<Box<dyn Delivery>, BackendError> {
        if let Some(path) = self.options.spool_path() {
            // What this comes to is told by the start itself, which then finds the spool taken.
            self.recovery.wait_for_file(&path, sink, status);
        }
        self.options.start(&self.layout, &self.process, sink, status)
    }

    fn is_held(&self) -> bool {
        self.options
            .spool_path()
            .is_some_and(|path| self.recovery.holds(&path))
    }
}

impl fmt::Debug for DeferredFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredFile")
            .field("path", &self.options.path)
            .finish_non_exhaustive()
    }
}

/// Why bytes are not in a file.
enum Failed {
    OpenCheck(String),
    File(FileError),
}

/// The I/O thread's state.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) sink: usize,
    pub(crate) output: Output,
    pub(crate) sync: Sync,
    pub(crate) inbox: Receiver<IoRequest>,
    pub(crate) back: Sender<Buffer>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) status: Arc<BackendStatus>,
    pub(crate) failing: bool,
    pub(crate) unsynced_since: Option<Instant>,
    /// Makes blocks of buffers, for a file of segments.
    pub(crate) blocks: Option<Box<BlockEncoder>>,
    /// Set if a buffer was left for a recovery: then all that follow are, so that their order stays.
    pub(crate) has_left: bool,
}

impl Writer {
    /// Runs until the drain closes the channel.
    pub(crate) fn run(mut self) {
        logdrive_ring::local::deny_thread();
        logdrive_ring::signals::block_in_thread();
        self.open_at_once();
        self.start_ship();
        loop {
            let message = match self.sync_due_in() {
                Some(due) => self.inbox.recv_timeout(due),
                None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            self.settle();
            match message {
                Ok(IoRequest::Write { buffer, sync }) => self.write(buffer, sync),
                Ok(IoRequest::Ticket(ticket)) => self.note_ticket(ticket),
                Ok(IoRequest::Sync) | Err(RecvTimeoutError::Timeout) => {
                    // A failure is noted, for those who ask.
                    let _ = self.sync_now();
                }
                Ok(IoRequest::Reopen) => self.reopen(),
                Ok(IoRequest::Close) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.close();
    }

    /// Starts a collector whose spool may be in use; where that fails, its records wait in the session, for recovery.
    fn start_ship(&mut self) {
        let Output::DeferredShip(late) = &mut self.output else {
            return;
        };
        let attempt = late.attempt.take();
        let answer = |tried| attempt.as_ref().is_some_and(|start| start.send(tried).is_ok());
        answer(if late.is_held() {
            OpenAttempt::Settled
        } else {
            OpenAttempt::Begun
        });
        match late.start(self.sink, &self.status) {
            Ok(delivery) => {
                self.output = Output::Ship(delivery);
                answer(OpenAttempt::Settled);
            }
            Err(error) => {
                let text = error.to_string();
                if !answer(OpenAttempt::Failed(error)) {
                    self.note_trouble(text);
                }
            }
        }
    }

    /// Opens a file whose start waits for that.
    fn open_at_once(&mut self) {
        let Output::DeferredFile(late) = &mut self.output else {
            return;
        };
        let Some(attempt) = late.attempt.take() else {
            return;
        };
        let is_free = !late.recovery.holds(&late.path());
        // A start that does not wait any more needs no answer.
        let _ = attempt.send(if is_free {
            OpenAttempt::Begun
        } else {
            OpenAttempt::Settled
        });
        match late.open(self.sink, &self.status) {
            Ok(file) => {
                self.output = Output::File(Box::new(file));
                self.pass_notices_on();
                let _ = attempt.send(OpenAttempt::Settled);
            }
            Err(Failed::File(error)) if error.is_fatal_at_start() => {
                let unread = attempt.send(OpenAttempt::Failed(error.into()));
                if let Err(SendError(OpenAttempt::Failed(BackendError::File(error)))) = unread {
                    self.note_failure(&error);
                }
            }
            Err(why) => {
                self.note_failed(&why);
                let _ = attempt.send(OpenAttempt::Settled);
            }
        }
    }

    fn note_failed(&mut self, why: &Failed) {
        match why {
            Failed::File(error) => self.note_failure(error),
            Failed::OpenCheck(what) => self.note_trouble(what.clone()),
        }
    }

    fn sync_due_in(&self) -> Option<Duration> {
        if let Output::Ship(shipping) = &self.output {
            return shipping.look_in();
        }
        match (self.sync, self.unsynced_since) {
            (Sync::Every(every), Some(since)) => Some(every.saturating_sub(since.elapsed())),
            _ => None,
        }
    }

    /// Everything before the ticket was given to the target.
    fn note_ticket(&mut self, ticket: u64) {
        match &mut self.output {
            Output::Ship(shipping) => shipping.note_ticket(ticket),
            _ => self.status.note_flushed(self.sink, ticket),
        }
        self.settle();
    }

    /// Of what is sent: gives back what is kept elsewhere, and reports whether a collector takes records.
    fn settle(&mut self) {
        let Output::Ship(shipping) = &mut self.output else {
            return;
        };
        while let Some(done) = shipping.done() {
            match done {
                Done::Buffer(mut buffer) => {
                    buffer.mark_written();
                    self.status.note_progress(self.sink);
                    // As in `write`.
                    let _ = self.back.send(buffer);
                }
                Done::Ticket(ticket) => self.status.note_flushed(self.sink, ticket),
            }
        }
        self.report_shipping();
    }

    fn report_shipping(&mut self) {
        if let Output::Ship(shipping) = &mut self.output
            && let Some((is_failing, text)) = shipping.state_change()
        {
            self.buffers.note_error(self.sink, u64::from(is_failing));
            self.status.notice(text);
        }
    }

    fn write(&mut self, mut buffer: Buffer, sync: bool) {
        if self.has_left {
            return;
        }
        let written = match &mut self.output {
            // It comes back when it is kept elsewhere.
            Output::Ship(shipping) => {
                shipping.send(buffer);
                // Its unreadable records are reported now: at the end of a recovery no pass follows.
                return self.report_shipping();
            }
            Output::Unsent(_) | Output::DeferredShip(_) | Output::Gone => false,
            Output::Discard => true,
            Output::Memory(memory) => {
                memory.append(buffer.bytes());
                true
            }
            Output::Callback(_) => self.call(&buffer),
            Output::Console(_) => self.write_console(&buffer),
            Output::File(_) | Output::DeferredFile(_) => self.write_file(&mut buffer),
        };
        if written {
            if sync && self.sync == Sync::AtLevel && !self.sync_now() {
                self.write_again(&mut buffer);
            }
            buffer.mark_written();
            self.unsynced_since.get_or_insert_with(Instant::now);
        } else if self.status.is_abandoned() {
            // The bytes stay in shared memory, marked as unwritten: a recovery of the session writes them.
            self.has_left = true;
            return;
        } else {
            buffer.mark_gone();
            self.status.note_lost(self.sink);
        }
        self.status.note_progress(self.sink);
        // The drain ends after its I/O threads; a buffer without a receiver is dropped.
        let _ = self.back.send(buffer);
    }

    /// `false`: the program's function has not taken the lines.
    fn call(&mut self, buffer: &Buffer) -> bool {
        let Output::Callback(callback) = &self.output else {
            return false;
        };
        let is_taken = callback.write(buffer.bytes());
        if is_taken == self.failing {
            self.failing = !is_taken;
            self.buffers.note_error(self.sink, u64::from(!is_taken));
            self.status.notice(match is_taken {
                true => "the program's function takes lines again".to_owned(),
                false => {
                    "the program's function refuses lines; its records are dropped and counted".to_owned()
                }
            });
        }
        is_taken
    }

    /// `false`: there is no reader any more, or a stopped terminal is given up with the logger.
    fn write_console(&mut self, buffer: &Buffer) -> bool {
        let Output::Console(console) = &mut self.output else {
            return false;
        };
        let mut skip_bytes = 0;
        loop {
            match console.write_some(skip_bytes, buffer.bytes()) {
                Ok(()) => return true,
                Err(failed) if failed.cause.is_busy() && !self.status.is_abandoned() => {
                    skip_bytes = failed.written_bytes;
                }
                Err(failed) => {
                    if !std::mem::replace(&mut self.failing, true) {
                        self.status
                            .notice(format!("{failed}; its records are dropped and counted"));
                    }
                    self.buffers.note_error(self.sink, 1);
                    return false;
                }
            }
        }
    }

    /// Tries until it works, or until the logger ends and gives the rest up. `false`: given up.
    fn write_file(&mut self, buffer: &mut Buffer) -> bool {
        let Some(mut blocks) = self.blocks.take() else {
            return self.write_bytes(buffer, None);
        };
        let written = match blocks.block(buffer.bytes()) {
            Ok(block) => self.write_bytes(buffer, Some(block)),
            Err(what) => {
                self.note_trouble(what);
                false
            }
        };
        self.blocks = Some(blocks);
        written
    }

    /// Writes a buffer, or the block that was made of it.
    fn write_bytes(&mut self, buffer: &mut Buffer, block: Option<&[u8]>) -> bool {
        let mut pause_ms = RETRY_MS.0;
        let mut placed: Option<(Placement, u64)> = None;
        loop {
            let written = match &mut self.output {
                Output::File(file) => write_once(file, buffer, block, &mut placed).map_err(Failed::File),
                Output::DeferredFile(late) => match late.open(self.sink, &self.status) {
                    Ok(file) => {
                        self.output = Output::File(Box::new(file));
                        continue;
                    }
                    Err(why) => Err(why),
                },
                _ => return false,
            };
            match written {
                Ok(()) => {
                    if std::mem::take(&mut self.failing) {
                        self.buffers.note_error(self.sink, 0);
                        self.status.notice("the log can be written again".to_owned());
                    }
                    self.pass_notices_on();
                    return true;
                }
                Err(why) => self.note_failed(&why),
            }
            if self.status.is_abandoned() {
                self.abandon(&placed, buffer, block);
                return false;
            }
            self.status.pause(Duration::from_millis(pause_ms));
            pause_ms = (pause_ms * 2).min(RETRY_MS.1);
        }
    }

    /// Behind a sync that failed: what is still in memory goes to a new file, since no later sync of the old one would
    /// prove anything.
    fn write_again(&mut self, buffer: &mut Buffer) {
        if self.write_file(buffer) && self.sync_now() {
            self.status.notice(format!(
                "the last {} records before that are in the new file, too, and on disk there",
                buffer.records()
            ));
        }
    }

    fn pass_notices_on(&mut self) {
        if let Output::File(file) = &mut self.output {
            while let Some(notice) = file.notice() {
                self.status.notice(notice);
            }
        }
    }

    /// Leaves no torn line behind: the file ends behind the last whole line that was written.
    fn abandon(&mut self, placed: &Option<(Placement, u64)>, buffer: &Buffer, block: Option<&[u8]>) {
        if let (Output::File(file), Some((placement, written))) = (&mut self.output, placed) {
            let whole = buffer.bytes().get(..*written as usize).unwrap_or(&[]);
            let end = whole.iter().rposition(|byte| *byte == b'\n');
            // Of a block there is nothing to keep.
            let keep = end.filter(|_| block.is_none()).map_or(0, |at| at + 1);
            // The file cannot be written, so cutting it may fail as well; recovery writes over the torn line.
            let _ = file.abandon(*placement, keep as u64);
        }
    }

    fn note_failure(&mut self, error: &FileError) {
        let code = error.os_error().unwrap_or(1);
        self.buffers.note_error(self.sink, u64::from(code.unsigned_abs()));
        // A reader that is slow is not reported.
        if !error.is_busy() && !std::mem::replace(&mut self.failing, true) {
            self.status.notice(error.to_string());
        }
    }

    /// A file may not be opened yet.
    fn note_trouble(&mut self, what: String) {
        self.buffers.note_error(self.sink, 1);
        if !std::mem::replace(&mut self.failing, true) {
            self.status.notice(what);
        }
    }

    /// `false`: the disk may not have all that was written.
    fn sync_now(&mut self) -> bool {
        self.unsynced_since = None;
        let Output::File(file) = &mut self.output else {
            return true;
        };
        let Err(failed) = file.sync() else {
            return true;
        };
        self.buffers.note_error(self.sink, 1);
        self.status.note_lost(self.sink);
        self.status.notice(failed.to_string());
        false
    }

    fn reopen(&mut self) {
        if let Output::File(file) = &mut self.output {
            file.reopen();
        }
    }

    fn close(mut self) {
        let is_asked = matches!(&self.output, Output::File(file) if file.unsynced.is_asked());
        if (is_asked || self.sync != Sync::Never) && !self.status.is_abandoned() {
            // As above.
            let _ = self.sync_now();
        }
        while matches!(&self.output, Output::Ship(shipping) if !shipping.is_settled())
            && !self.status.is_abandoned()
        {
            self.status.pause(Duration::from_millis(CLOSING_LOOK_MS));
            self.settle();
        }
        if let Output::Ship(shipping) = self.output {
            shipping.close();
        } else if let Output::File(file) = self.output {
            // What was written is with the kernel already; an error here concerns only what compresses behind us.
            let _ = file.close(unix_ns());
        }
        self.status.close(self.sink);
    }
}

/// Places and writes a buffer, again where the file was deleted under it.
fn write_once(
    file: &mut LogFile,
    buffer: &mut Buffer,
    block: Option<&[u8]>,
    placed: &mut Option<(Placement, u64)>,
) -> Result<(), FileError> {
    for _ in 0..DELETED_TRIES_MAX {
        write_placed(file, buffer, block, placed)?;
        if !file.was_deleted() {
            return Ok(());
        }
        *placed = None;
    }
    Err(FileError::Deleted { path: file.path() })
}

fn write_placed(
    file: &mut LogFile,
    buffer: &mut Buffer,
    block: Option<&[u8]>,
    placed: &mut Option<(Placement, u64)>,
) -> Result<(), FileError> {
    let length = block.unwrap_or(buffer.bytes()).len();
    let (placement, skip) = match *placed {
        Some(placed) => placed,
        None => {
            let now = unix_ns();
            file.expect_segments(block.is_some(), now);
            (file.place(length as u64, now)?, 0)
        }
    };
    buffer.mark_writing(FileLocation {
        dev: placement.dev,
        ino: placement.ino,
        offset: placement.offset,
    });
    match file.write_at(placement, skip, block.unwrap_or(buffer.bytes())) {
        Ok(()) => Ok(()),
        Err(failed) => {
            *placed = Some((placement, failed.written_bytes));
            Err(failed.cause)
        }
    }
}
