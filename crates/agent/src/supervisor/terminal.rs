//! The terminal that a command is given with `--pty`, and the one that we stand in ourselves.

use super::limits::{BACKGROUND_CHECK_MS, INPUT_BYTES};
use crate::capture::stream::CommandEvents;
use pty_process::blocking::Pts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, getpgrp};
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, Winsize, isatty, tcgetattr,
    tcgetpgrp, tcgetwinsize, tcsetattr, tcsetwinsize,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// End of input, as a key sends it to a terminal.
const END_OF_INPUT: u8 = 4;

/// Size of a terminal without a screen.
const SIZE: (u16, u16) = (24, 80);

/// The pseudo terminal of a command, from our side.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// Our end of the terminal: reads what the command prints, and writes what it reads.
    pub(crate) side: Arc<OwnedFd>,
    /// True if our own input and output are a terminal.
    is_interactive: bool,
}

impl Terminal {
    /// Opens one. `is_seen` says that its output is copied to our own.
    pub(crate) fn open(is_seen: bool) -> io::Result<(Self, Pts)> {
        let (pty, pts) = pty_process::blocking::open().map_err(cause)?;
        let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
        let is_interactive = is_seen && isatty(stdin) && isatty(stdout);
        resize(&pty)?;
        let mut modes = tcgetattr(&pts)?;
        if is_interactive {
            modes = tcgetattr(stdin)?;
        } else {
            // Our own terminal echoes the input, and output is passed on unchanged, which is also faster.
            modes.local_modes -= LocalModes::ECHO;
            modes.output_modes -= OutputModes::OPOST;
            modes.special_codes[SpecialCodeIndex::VEOF] = END_OF_INPUT;
        }
        tcsetattr(&pts, OptionalActions::Now, &modes)?;
        let terminal = Self {
            side: Arc::new(pty.into()),
            is_interactive,
        };
        Ok((terminal, pts))
    }

    /// Makes it as large as ours; its programs get SIGWINCH.
    pub(crate) fn resize(&self) {
        // A command that has ended has no size.
        let _ = resize(&*self.side);
    }

    /// The group of processes that keys of the terminal are for.
    pub(crate) fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&*self.side).ok()
    }

    /// Lets keys through as they are, until the value is dropped.
    pub(crate) fn enter(&self) -> Option<RawMode> {
        self.is_interactive.then(RawMode::enter).flatten()
    }

    /// Passes our standard input on, until it ends or the command does.
    pub(crate) fn pass_input(&self, events: &Arc<CommandEvents>) -> io::Result<()> {
        let input = Input {
            side: Arc::clone(&self.side),
            events: Arc::clone(events),
        };
        std::thread::Builder::new()
            .name("logdrive-input".to_owned())
            .spawn(move || {
                // A command that takes no more input is no error.
                let _ = input.pass();
            })
            .map(drop)
    }
}

fn cause(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(cause) => cause,
        pty_process::Error::Rustix(errno) => errno.into(),
    }
}

/// Starts a command in a terminal of its own.
pub(crate) fn spawn(command: std::process::Command, pts: Pts) -> io::Result<std::process::Child> {
    pty_process::blocking::Command::from(command)
        .spawn(pts)
        .map_err(cause)
}

/// The size of the terminal that we stand in, if any.
fn own_size() -> Option<Winsize> {
    let streams = [
        rustix::stdio::stdout(),
        rustix::stdio::stdin(),
        rustix::stdio::stderr(),
    ];
    streams
        .into_iter()
        .find_map(|stream| tcgetwinsize(stream).ok())
        .filter(|size| size.ws_row > 0 && size.ws_col > 0)
}

fn resize(side: impl AsFd) -> io::Result<()> {
    let size = own_size().unwrap_or(Winsize {
        ws_row: SIZE.0,
        ws_col: SIZE.1,
        ws_xpixel: 0,
        ws_ypixel: 0,
    });
    Ok(tcsetwinsize(side, size)?)
}

/// Our own terminal, while keys go through it as they are. Dropping it restores the terminal.
#[derive(Debug)]
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    fn enter() -> Option<Self> {
        let before = tcgetattr(rustix::stdio::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that has gone needs no restoring.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Standard input on its way to the command.
#[derive(Debug)]
struct Input {
    side: Arc<OwnedFd>,
    events: Arc<CommandEvents>,
}

/// True if the command has ended, or what was waited for has happened.
enum Waited {
    Ready,
    CommandEnded,
}

impl Input {
    fn pass(&self) -> Result<(), Errno> {
        let stdin = rustix::stdio::stdin();
        let mut bytes = vec![0; INPUT_BYTES];
        let mut last = b'\n';
        loop {
            if let Waited::CommandEnded = self.wait_for(stdin.as_fd(), PollFlags::IN, None)? {
                return Ok(());
            }
            if self.is_in_background() {
                let pause = Duration::from_millis(BACKGROUND_CHECK_MS);
                if let Waited::CommandEnded = self.wait_for_end(pause)? {
                    return Ok(());
                }
                continue;
            }
            match rustix::io::read(stdin, &mut bytes) {
                Ok(0) => break,
                Ok(count) => {
                    let given = bytes.get(..count).unwrap_or_default();
                    last = *given.last().unwrap_or(&last);
                    self.give(given)?;
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(errno),
            }
        }
        // In the middle of a line the first mark only ends the line.
        let marks = [END_OF_INPUT; 2];
        self.give(marks.get(usize::from(last == b'\n')..).unwrap_or_default())
    }

    fn is_in_background(&self) -> bool {
        tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|foreground| foreground != getpgrp())
    }

    fn give(&self, bytes: &[u8]) -> Result<(), Errno> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::write(&*self.side, rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if let Waited::CommandEnded = self.wait_for(self.side.as_fd(), PollFlags::OUT, None)? {
                        return Ok(());
                    }
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn wait_for_end(&self, time: Duration) -> Result<Waited, Errno> {
        // Nothing is ever asked of it but the time.
        self.wait_for(self.side.as_fd(), PollFlags::empty(), Some(time))
    }

    fn wait_for(
        &self,
        file: std::os::fd::BorrowedFd<'_>,
        what: PollFlags,
        time: Option<Duration>,
    ) -> Result<Waited, Errno> {
        let time: Option<Timespec> = time.and_then(|time| time.try_into().ok());
        let ended = self.events.ended();
        let mut waited = [PollFd::new(&ended, PollFlags::IN), PollFd::new(&file, what)];
        match poll(&mut waited, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        Ok(if waited[0].revents().is_empty() {
            Waited::Ready
        } else {
            Waited::CommandEnded
        })
    }
}
