//! Standard output or standard error as a destination: whether colours are wanted, and writes that
//! survive a pipe without a reader and a terminal that takes nothing for a while.
//!
//! Bytes go to the descriptor itself and not through `std::io::stdout`, whose lock a thread of the
//! program may hold for as long as it likes.

use std::io::IsTerminal;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::file::limits::{INTERRUPTED_MAX, PIPE_PIECE_BYTES, POLL_MAX};
use crate::file::{FileError, FileOperation, WriteFailed};

/// One of the two standard streams. Used by one thread.
///
/// ```
/// let mut console = logdrive_drain::console::Console::stderr();
/// console.write_some(0, b"hello\n")?;
/// # Ok::<(), logdrive_drain::file::WriteFailed>(())
/// ```
#[derive(Debug)]
pub struct Console {
    stream: Stream,
    /// A file takes any number of bytes at once; anything else gets pieces.
    whole: bool,
    closed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn descriptor(self) -> BorrowedFd<'static> {
        match self {
            Stream::Stdout => rustix::stdio::stdout(),
            Stream::Stderr => rustix::stdio::stderr(),
        }
    }
}

impl Console {
    /// A console on standard output.
    pub fn stdout() -> Console {
        Self::new(Stream::Stdout)
    }

    /// A console on standard error.
    pub fn stderr() -> Console {
        Self::new(Stream::Stderr)
    }

    fn new(stream: Stream) -> Console {
        Console {
            stream,
            whole: is_file(stream.descriptor()),
            closed: false,
        }
    }

    /// Returns true if lines should be coloured: on a terminal, unless `NO_COLOR`, `CLICOLOR=0` or
    /// `TERM=dumb` say otherwise; elsewhere only with `CLICOLOR_FORCE`.
    pub fn colour_wanted(&self) -> bool {
        let is_terminal = match self.stream {
            Stream::Stdout => std::io::stdout().is_terminal(),
            Stream::Stderr => std::io::stderr().is_terminal(),
        };
        colour_wanted(is_terminal, |name| std::env::var(name).ok())
    }

    /// Writes from byte `skip_bytes` on, and gives the thread back after 100 ms without progress: the
    /// error is busy then, and the next call goes on at its `written_bytes`. Fails when the reader has gone,
    /// and from then on at once.
    pub fn write_some(&mut self, skip_bytes: u64, bytes: &[u8]) -> Result<(), WriteFailed> {
        let mut done = usize::try_from(skip_bytes).unwrap_or(usize::MAX).min(bytes.len());
        if self.closed {
            return Err(self.failed(done, Errno::PIPE));
        }
        let mut interrupted = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            let piece = if self.whole {
                rest
            } else {
                &rest[..piece_bytes(rest)]
            };
            match write_piece(self.stream.descriptor(), piece, !self.whole) {
                Ok(0) => return Err(self.failed(done, Errno::IO)),
                Ok(written) => {
                    done += written;
                    interrupted = 0;
                }
                Err(Errno::INTR) if interrupted < INTERRUPTED_MAX => interrupted += 1,
                Err(errno) => return Err(self.failed(done, errno)),
            }
        }
        Ok(())
    }

    fn failed(&mut self, done: usize, errno: Errno) -> WriteFailed {
        // A reader that went, a terminal that hung up, a stream that the program closed: for good.
        self.closed |= matches!(errno, Errno::PIPE | Errno::BADF | Errno::IO | Errno::NXIO);
        let name = match self.stream {
            Stream::Stdout => "<stdout>",
            Stream::Stderr => "<stderr>",
        };
        let cause = FileError::io(FileOperation::Write, name, errno.into());
        WriteFailed {
            written_bytes: done as u64,
            cause,
        }
    }
}

fn is_file(descriptor: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(descriptor)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// As many whole lines as a pipe takes without mixing them with the lines of other processes; a line
/// that is longer goes in parts.
fn piece_bytes(rest: &[u8]) -> usize {
    let most = &rest[..rest.len().min(PIPE_PIECE_BYTES)];
    most.iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(most.len(), |last| last + 1)
}

/// Writes once; with `wait`, only when there is room, so that a stream that blocks does not.
fn write_piece(descriptor: BorrowedFd<'_>, piece: &[u8], wait: bool) -> Result<usize, Errno> {
    if wait {
        let mut waited = [PollFd::new(&descriptor, PollFlags::OUT)];
        if poll(&mut waited, Some(&POLL_MAX.try_into().map_err(|_| Errno::INVAL)?))? == 0 {
            return Err(Errno::AGAIN);
        }
    }
    rustix::io::write(descriptor, piece)
}

/// The decision, from what is known (<https://no-color.org>, <https://bixense.com/clicolors>).
fn colour_wanted(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    if is_set("NO_COLOR") {
        return false;
    }
    if variable("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0") {
        return true;
    }
    let able = is_set("TERM") && variable("TERM").as_deref() != Some("dumb");
    is_terminal && able && variable("CLICOLOR").as_deref() != Some("0")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    use super::*;

    fn wanted(is_terminal: bool, variables: &[(&str, &str)]) -> bool {
        colour_wanted(is_terminal, |wanted| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn colours_are_for_terminals_that_can_show_them() {
        let term = ("TERM", "xterm-256color");
        assert!(wanted(true, &[term]));
        assert!(!wanted(false, &[term]));
        assert!(!wanted(true, &[("TERM", "dumb")]));
        assert!(!wanted(true, &[]));
        assert!(!wanted(true, &[term, ("NO_COLOR", "1")]));
        assert!(wanted(true, &[term, ("NO_COLOR", "")]), "empty means unset");
        assert!(!wanted(true, &[term, ("CLICOLOR", "0")]));
        assert!(wanted(false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!wanted(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!wanted(true, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]));
    }

    #[test]
    fn pieces_end_with_a_line_where_they_can() {
        assert_eq!(piece_bytes(b"one\ntwo\nthr"), 8);
        assert_eq!(piece_bytes(b"one"), 3);
        let long = vec![b'x'; 10_000];
        assert_eq!(piece_bytes(&long), PIPE_PIECE_BYTES);
        let mut lines = vec![b'x'; 4_000];
        lines.push(b'\n');
        lines.extend_from_slice(&long);
        assert_eq!(piece_bytes(&lines), 4_001);
    }

    #[test]
    fn a_pipe_that_is_full_gives_the_thread_back() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut written = 0;
        let full = loop {
            match write_piece(writer.as_fd(), &[b'x'; 4096], true) {
                Ok(bytes) => written += bytes,
                Err(errno) => break errno,
            }
        };
        assert_eq!(full, Errno::AGAIN);
        let mut bytes = vec![0; written];
        reader.read_exact(&mut bytes).expect("what was written");
        assert_eq!(write_piece(writer.as_fd(), b"more\n", true), Ok(5));
    }

    #[test]
    fn a_pipe_without_a_reader_is_an_error_and_no_signal() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(write_piece(writer.as_fd(), b"x\n", true), Err(Errno::PIPE));
    }

    #[test]
    fn a_closed_console_fails_at_once() {
        let mut console = Console::stderr();
        let first = console.failed(2, Errno::PIPE);
        assert_eq!(first.written_bytes, 2);
        assert!(first.cause.is_closed() && console.closed);
        let failed = console.write_some(0, b"lost!\n").expect_err("closed");
        assert_eq!(failed.written_bytes, 0);
    }

    #[test]
    fn a_busy_console_is_not_closed() {
        let mut console = Console::stderr();
        assert!(console.failed(0, Errno::AGAIN).cause.is_busy());
        assert!(!console.closed);
    }
}
