//! Reads one output of a command until it ends, in a thread of its own.
//!
//! Reads are large and few. Where output comes fast, the reader pauses for a part of a millisecond between two reads
//! and lets the pipe fill: a wake-up for each write of the command would cost both of them more than the copy.

use super::limits::{
    BUSY_BYTES_PER_US, EVENT_CHECK_MS, GATHER_BYTES, GATHER_US_MAX, GATHER_US_MIN, PARTIAL_MS, PIPE_BYTES,
    READ_BYTES,
};
use super::line_writer::LineWriter;
use super::lines::Lines;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Timeouts of a reader whose command has ended while others hold the output open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputTimeout {
    /// So long without any output.
    pub quiet: Duration,
    /// So long in all.
    pub total: Duration,
}

/// Events of the command for its readers. Each is signalled once, for all of them.
#[derive(Debug)]
pub struct CommandEvents {
    ended: OwnedFd,
    abandon: OwnedFd,
}

impl CommandEvents {
    /// CommandEvents that have not rung.
    ///
    /// # Errors
    /// Fails when the process has too many files open.
    pub fn new() -> io::Result<Self> {
        let bell = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Self {
            ended: bell()?,
            abandon: bell()?,
        })
    }

    /// The command has ended.
    pub fn signal_ended(&self) {
        notify(&self.ended);
    }

    /// Readable once the command has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Whatever has not come by now is not waited for.
    pub fn signal_give_up(&self) {
        notify(&self.abandon);
    }
}

/// A bell that has rung too often stays rung, which is all that is wanted. The number that is added means nothing, in
/// whatever order its bytes are read.
pub(crate) fn notify(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1u64.to_le_bytes());
}

/// Reason why a reader ended.
#[derive(Debug)]
pub enum StreamEnd {
    /// Everybody has closed the output.
    Closed,
    /// The command has ended, but others hold its output open: what they print from now on is lost.
    LeftOpen,
    /// The copy of the output has no reader any more, so the command's output gets the same error.
    NobodyReads,
    /// The output cannot be read, or its copy not be written.
    Failed(io::Error),
}

/// One output, on its way.
#[derive(Debug)]
pub struct Stream {
    /// Source of the command's output. It is read without blocking.
    pub source: OwnedFd,
    /// Destination of a copy of the bytes.
    pub tee: Option<File>,
    /// Events of the command.
    pub events: Arc<CommandEvents>,
    /// Timeouts once the command has ended.
    pub timeout: OutputTimeout,
    /// True if the source is a pipe, which holds enough to be left to itself for a while.
    pub is_pipe: bool,
}

impl Stream {
    /// Asks for a pipe that holds much. Less is slower, and no error.
    pub fn widen(pipe: impl AsFd) {
        let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
    }

    /// Reads until the end.
    pub fn run(mut self, writer: &mut LineWriter) -> StreamEnd {
        if let Err(error) = set_nonblocking(self.source.as_fd()) {
            return StreamEnd::Failed(error.into());
        }
        let mut lines = Lines::new();
        let end = self.read_all(&mut lines, writer);
        while let Some(line) = lines.ended() {
            writer.record(line);
        }
        writer.flush();
        end
    }

    fn read_all(&mut self, lines: &mut Lines, writer: &mut LineWriter) -> StreamEnd {
        let mut pace = Pace::new(&self.source);
        let mut wait = Wait::new(self.timeout);
        loop {
            match rustix::io::read(&self.source, lines.space()) {
                Ok(0) => return StreamEnd::Closed,
                Ok(bytes) => {
                    lines.filled(bytes);
                    writer.begin();
                    while let Some(line) = lines.next_line() {
                        writer.record(line);
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
                    if !writer.awaits_more() {
                        writer.flush();
                    }
                    if let Some(end) = self.wait(&mut wait, lines, writer) {
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
    fn wait(&self, wait: &mut Wait, lines: &mut Lines, writer: &mut LineWriter) -> Option<StreamEnd> {
        let has_rest = lines.has_rest() || writer.awaits_more();
        let until = wait.until(has_rest);
        let ready = match self.poll(wait, until) {
            Ok(ready) => ready,
            Err(errno) => return Some(StreamEnd::Failed(errno.into())),
        };
        if !ready.output && has_rest && wait.is_pause_over() {
            wait.has_reported_partial = true;
            writer.flush();
            if let Some(line) = lines.paused() {
                writer.record(line);
            }
        }
        let is_over = wait.is_over() && !ready.output;
        (ready.abandon || is_over).then_some(StreamEnd::LeftOpen)
    }

    /// Checks the events now and then while output comes without a pause, because nothing is ever waited for then.
    fn look(&self, wait: &mut Wait) -> Option<StreamEnd> {
        match self.poll(wait, Some(Instant::now())) {
            Ok(ready) => (ready.abandon || wait.is_over()).then_some(StreamEnd::LeftOpen),
            Err(errno) => Some(StreamEnd::Failed(errno.into())),
        }
    }

    fn poll(&self, wait: &mut Wait, until: Option<Instant>) -> Result<Ready, Errno> {
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
            PollFd::new(&self.events.abandon, PollFlags::IN),
            PollFd::new(&self.events.ended, PollFlags::IN),
        ];
        let count = waited.len() - usize::from(wait.command_ended.is_some());
        match poll(&mut waited[..count], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let [output, abandon, ended] = waited.map(|fd| !fd.revents().is_empty());
        if ended {
            wait.command_ended.get_or_insert_with(Instant::now);
        }
        Ok(Ready { output, abandon })
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
                // Another process that shares the file has made it non-blocking.
                Err(Errno::AGAIN) => {
                    poll(&mut [PollFd::new(tee, PollFlags::OUT)], None)?;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

/// Readiness of what a reader waits for.
#[derive(Debug, Clone, Copy)]
struct Ready {
    output: bool,
    abandon: bool,
}

/// Reads of a file or pipe from now on give what there is and never wait.
pub(crate) fn set_nonblocking(file: BorrowedFd<'_>) -> Result<(), Errno> {
    fcntl_setfl(file, fcntl_getfl(file)? | OFlags::NONBLOCK)
}

/// Until when a reader waits for more.
#[derive(Debug)]
struct Wait {
    timeout: OutputTimeout,
    last_read: Instant,
    /// Time at which the events were last checked.
    events_checked_at: Instant,
    command_ended: Option<Instant>,
    /// True if the rest of a line has been passed on since the last read.
    has_reported_partial: bool,
}

impl Wait {
    fn new(timeout: OutputTimeout) -> Self {
        let now = Instant::now();
        Self {
            timeout,
            last_read: now,
            events_checked_at: now,
            command_ended: None,
            has_reported_partial: false,
        }
    }

    /// Output has come. Whether it is time to listen to the events.
    fn came(&mut self) -> bool {
        self.last_read = Instant::now();
        self.has_reported_partial = false;
        let is_due = self.last_read - self.events_checked_at >= Duration::from_millis(EVENT_CHECK_MS);
        if is_due {
            self.events_checked_at = self.last_read;
        }
        is_due
    }

    fn pause_ends(&self) -> Instant {
        self.last_read + Duration::from_millis(PARTIAL_MS)
    }

    fn is_pause_over(&self) -> bool {
        !self.has_reported_partial && Instant::now() >= self.pause_ends()
    }

    fn deadline(&self) -> Option<Instant> {
        let ended = self.command_ended?;
        let quiet = self.last_read.max(ended).checked_add(self.timeout.quiet);
        let total = ended.checked_add(self.timeout.total);
        // What is too far ahead for a clock never comes.
        match (quiet, total) {
            (Some(quiet), Some(total)) => Some(quiet.min(total)),
            (quiet, total) => quiet.or(total),
        }
    }

    fn is_over(&self) -> bool {
        self.deadline().is_some_and(|end| Instant::now() >= end)
    }

    fn until(&self, has_rest: bool) -> Option<Instant> {
        let pause = (has_rest && !self.has_reported_partial).then(|| self.pause_ends());
        match (pause, self.deadline()) {
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
    /// Rate of recent output: bytes, and the time they took.
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
