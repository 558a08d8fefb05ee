//! Reads one output of a command until it ends, in a thread of its own.
//!
//! Reads are large and few. Where output comes fast, the reader pauses for a part of a millisecond between two reads
//! and lets the pipe fill: a wake-up for each write of the command would cost both of them more than the copy.

use super::limits::{
    BUSY_BYTES_PER_US, GATHER_BYTES, GATHER_US_MAX, GATHER_US_MIN, LOOK_MS, PARTIAL_MS, PIPE_BYTES,
    READ_BYTES,
};
use super::lines::Lines;
use super::recorder::Recorder;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a reader goes on when its command has ended and others hold the output open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// So long without any output.
    pub quiet: Duration,
    /// So long in all.
    pub total: Duration,
}

/// How readers are told of the command. Each bell rings once, for all of them.
#[derive(Debug)]
pub struct Bells {
    ended: OwnedFd,
    give_up: OwnedFd,
}

impl Bells {
    /// Bells that have not rung.
    ///
    /// # Errors
    /// When the process has too many files open.
    pub fn new() -> io::Result<Self> {
        let bell = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Self {
            ended: bell()?,
            give_up: bell()?,
        })
    }

    /// The command has ended.
    pub fn ring_ended(&self) {
        ring(&self.ended);
    }

    /// Readable once the command has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Whatever has not come by now is not waited for.
    pub fn ring_give_up(&self) {
        ring(&self.give_up);
    }
}

/// A bell that has rung too often stays rung, which is all that is wanted. The number that is added means nothing, in
/// whatever order its bytes are read.
pub(crate) fn ring(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1u64.to_le_bytes());
}

/// Why a reader ended.
#[derive(Debug)]
pub enum StreamEnd {
    /// Everybody has closed the output.
    Closed,
    /// The command has ended, but others hold its output open: what they print from now on is lost.
    LeftOpen,
    /// Nobody reads the copy of the output any more, so the command is told in the same way.
    NobodyReads,
    /// The output cannot be read, or its copy not be written.
    Failed(io::Error),
}

/// One output, on its way.
#[derive(Debug)]
pub struct Stream {
    /// Where the command's output comes from. It is read without blocking.
    pub source: OwnedFd,
    /// Where a copy of the bytes goes.
    pub tee: Option<File>,
    /// What it is told from outside.
    pub bells: Arc<Bells>,
    /// What happens when the command has ended.
    pub patience: Patience,
    /// Whether the source is a pipe, which holds enough to be left to itself for a while.
    pub is_pipe: bool,
}

impl Stream {
    /// Asks for a pipe that holds much. Less is slower, and no error.
    pub fn widen(pipe: impl AsFd) {
        let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
    }

    /// Reads until the end.
    pub fn run(mut self, recorder: &mut Recorder) -> StreamEnd {
        if let Err(error) = set_nonblocking(self.source.as_fd()) {
            return StreamEnd::Failed(error.into());
        }
        let mut lines = Lines::new();
        let end = self.read_all(&mut lines, recorder);
        while let Some(line) = lines.ended() {
            recorder.record(line);
        }
        end
    }

    fn read_all(&mut self, lines: &mut Lines, recorder: &mut Recorder) -> StreamEnd {
        let mut pace = Pace::new(&self.source);
        let mut wait = Wait::new(self.patience);
        loop {
            match rustix::io::read(&self.source, lines.space()) {
                Ok(0) => return StreamEnd::Closed,
                Ok(bytes) => {
                    lines.filled(bytes);
                    recorder.begin();
                    while let Some(line) = lines.next_line() {
                        recorder.record(line);
                    }
                    if let Err(error) = self.copy(lines.last_read()) {
                        return match error.kind() {
                            io::ErrorKind::BrokenPipe => StreamEnd::NobodyReads,
                            _ => StreamEnd::Failed(error),
                        };
                    }
                    if wait.came()
                        && let Some(end) = self.look(&mut wait)
                    {
                        return end;
                    }
                    pace.rest(bytes);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if let Some(end) = self.wait(&mut wait, lines, recorder) {
                        return end;
                    }
                }
                // The other side of a terminal is closed.
                Err(Errno::IO) if !self.is_pipe => return StreamEnd::Closed,
                Err(errno) => return StreamEnd::Failed(errno.into()),
            }
        }
    }

    /// Waits for more. A line that has not ended by then becomes a record.
    fn wait(&self, wait: &mut Wait, lines: &mut Lines, recorder: &mut Recorder) -> Option<StreamEnd> {
        let until = wait.until(lines.has_rest());
        let heard = match self.poll(wait, until) {
            Ok(heard) => heard,
            Err(errno) => return Some(StreamEnd::Failed(errno.into())),
        };
        if !heard.output && lines.has_rest() && wait.is_pause_over() {
            wait.told_rest = true;
            if let Some(line) = lines.paused() {
                recorder.record(line);
            }
        }
        let is_over = wait.is_over() && !heard.output;
        (heard.give_up || is_over).then_some(StreamEnd::LeftOpen)
    }

    /// Where output comes without a pause, nothing is ever waited for: the bells are listened to now and then.
    fn look(&self, wait: &mut Wait) -> Option<StreamEnd> {
        match self.poll(wait, Some(Instant::now())) {
            Ok(heard) => (heard.give_up || wait.is_over()).then_some(StreamEnd::LeftOpen),
            Err(errno) => Some(StreamEnd::Failed(errno.into())),
        }
    }

    fn poll(&self, wait: &mut Wait, until: Option<Instant>) -> Result<Heard, Errno> {
        let timeout = match until {
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                // Rounded up, so that it is not woken a moment too early.
                let left = left + Duration::from_micros(u64::from(!left.is_zero()));
                Some(left.try_into().map_err(|_| Errno::INVAL)?)
            }
            None => None,
        };
        let mut waited = [
            PollFd::new(&self.source, PollFlags::IN),
            PollFd::new(&self.bells.give_up, PollFlags::IN),
            PollFd::new(&self.bells.ended, PollFlags::IN),
        ];
        let count = waited.len() - usize::from(wait.command_ended.is_some());
        match poll(&mut waited[..count], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let [output, give_up, ended] = waited.map(|fd| !fd.revents().is_empty());
        if ended {
            wait.command_ended.get_or_insert_with(Instant::now);
        }
        Ok(Heard { output, give_up })
    }

    /// Copies bytes on, however slow the other side is.
    fn copy(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tee) = &self.tee else {
            return Ok(());
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::write(tee, rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                // Somebody who shares the file has made it so.
                Err(Errno::AGAIN) => {
                    poll(&mut [PollFd::new(tee, PollFlags::OUT)], None)?;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

/// What there was when a reader listened.
#[derive(Debug, Clone, Copy)]
struct Heard {
    output: bool,
    give_up: bool,
}

/// Reads of a file or pipe from now on give what there is and never wait.
pub(crate) fn set_nonblocking(file: BorrowedFd<'_>) -> Result<(), Errno> {
    fcntl_setfl(file, fcntl_getfl(file)? | OFlags::NONBLOCK)
}

/// Until when a reader waits for more.
#[derive(Debug)]
struct Wait {
    patience: Patience,
    last_read: Instant,
    /// When the bells were last listened to.
    last_look: Instant,
    command_ended: Option<Instant>,
    /// Whether the rest of a line has been told since the last read.
    told_rest: bool,
}

impl Wait {
    fn new(patience: Patience) -> Self {
        let now = Instant::now();
        Self {
            patience,
            last_read: now,
            last_look: now,
            command_ended: None,
            told_rest: false,
        }
    }

    /// Output has come. Whether it is time to listen to the bells.
    fn came(&mut self) -> bool {
        self.last_read = Instant::now();
        self.told_rest = false;
        let is_due = self.last_read - self.last_look >= Duration::from_millis(LOOK_MS);
        if is_due {
            self.last_look = self.last_read;
        }
        is_due
    }

    fn pause_ends(&self) -> Instant {
        self.last_read + Duration::from_millis(PARTIAL_MS)
    }

    fn is_pause_over(&self) -> bool {
        !self.told_rest && Instant::now() >= self.pause_ends()
    }

    fn gives_up(&self) -> Option<Instant> {
        let ended = self.command_ended?;
        let quiet = self.last_read.max(ended).checked_add(self.patience.quiet);
        let total = ended.checked_add(self.patience.total);
        // What is too far ahead for a clock never comes.
        match (quiet, total) {
            (Some(quiet), Some(total)) => Some(quiet.min(total)),
            (quiet, total) => quiet.or(total),
        }
    }

    fn is_over(&self) -> bool {
        self.gives_up().is_some_and(|end| Instant::now() >= end)
    }

    fn until(&self, has_rest: bool) -> Option<Instant> {
        let pause = (has_rest && !self.told_rest).then(|| self.pause_ends());
        match (pause, self.gives_up()) {
            (Some(pause), Some(end)) => Some(pause.min(end)),
            (pause, end) => pause.or(end),
        }
    }
}

/// Lets output gather between two reads of a busy pipe.
#[derive(Debug)]
struct Pace {
    /// Bytes that are left to gather; 0 where the source is no pipe.
    gather_bytes: u64,
    last_read: Instant,
    /// How fast output came lately: bytes, and the time they took.
    recent_bytes: u64,
    recent_us: u64,
}

impl Pace {
    fn new(source: &OwnedFd) -> Self {
        // A quarter of the pipe, so that the command never finds it full while we sleep.
        let pipe_bytes = rustix::pipe::fcntl_getpipe_size(source).unwrap_or(0);
        Self {
            gather_bytes: (pipe_bytes / 4).min(GATHER_BYTES) as u64,
            last_read: Instant::now(),
            recent_bytes: 0,
            recent_us: 0,
        }
    }

    /// Sleeps for about the time in which as much comes as is left to gather.
    fn rest(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        let now = Instant::now();
        let since_last_us = (now - self.last_read).as_micros() as u64;
        self.last_read = now;
        // The last eight reads or so.
        self.recent_bytes = self.recent_bytes - self.recent_bytes / 8 + bytes;
        self.recent_us = self.recent_us - self.recent_us / 8 + since_last_us.min(PARTIAL_MS * 1_000);
        // A read that was large has left more behind; and who prints now and then is not made to wait.
        let is_busy = self.recent_bytes > self.recent_us.saturating_mul(BUSY_BYTES_PER_US);
        if bytes >= self.gather_bytes.min(READ_BYTES as u64) || !is_busy {
            return;
        }
        let pause_us = self.recent_us * self.gather_bytes / self.recent_bytes.max(1);
        std::thread::sleep(Duration::from_micros(
            pause_us.clamp(GATHER_US_MIN, GATHER_US_MAX),
        ));
    }
}
