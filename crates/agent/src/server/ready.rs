//! Event loop of a server: which descriptors are ready, as mio reports it. Each change is reported once
//! (edge-triggered), so the receiver reads until there is nothing left, or notes that there is more.

use crate::limits::READY_PER_TURN;
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

const _: () = assert!(usize::BITS == 64, "a token holds a number and its kind");

/// Owner of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The socket that takes connections.
    Listener,
    /// A connection.
    Connection(u64),
    /// The process of a session.
    Process(u64),
}

impl Source {
    /// Numbers are below 2^60, so that two bits are free for the kind.
    fn token(self) -> Token {
        Token(match self {
            Self::Listener => 0,
            Self::Connection(key) => (key as usize) << 2 | 1,
            Self::Process(session) => (session as usize) << 2 | 2,
        })
    }

    fn of(Token(token): Token) -> Self {
        match token & 3 {
            1 => Self::Connection(token as u64 >> 2),
            2 => Self::Process(token as u64 >> 2),
            _ => Self::Listener,
        }
    }
}

/// Readiness of a descriptor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Readiness {
    pub(super) source: Source,
    /// There may be something to read, be it the end.
    pub(super) is_readable: bool,
    pub(super) is_writable: bool,
    /// The peer has closed its end for good.
    pub(super) is_hung_up: bool,
}

impl Readiness {
    fn of(event: &Event) -> Self {
        Self {
            source: Source::of(event.token()),
            is_readable: event.is_readable() || event.is_read_closed() || event.is_error(),
            is_writable: event.is_writable(),
            is_hung_up: event.is_write_closed(),
        }
    }
}

/// The descriptors that are waited for.
#[derive(Debug)]
pub(super) struct Ready {
    poll: Poll,
    events: Events,
}

impl Ready {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(READY_PER_TURN),
        })
    }

    /// A handle by which descriptors are added and removed.
    pub(super) fn watcher(&self) -> io::Result<Watcher> {
        self.poll.registry().try_clone().map(Watcher)
    }

    /// Waits at most this long, and returns what is ready.
    pub(super) fn wait(&mut self, timeout: Duration) -> Vec<Readiness> {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Ok(()) => self.events.iter().map(Readiness::of).collect(),
            // An interruption is a time that is over: the caller comes again.
            Err(_) => Vec::new(),
        }
    }
}

/// Adds descriptors to the event loop, and removes them.
#[derive(Debug)]
pub(super) struct Watcher(Registry);

impl Watcher {
    /// Watches a descriptor for what it brings.
    pub(super) fn add(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        let fd = fd.as_fd().as_raw_fd();
        self.0
            .register(&mut SourceFd(&fd), source.token(), Interest::READABLE)
    }

    /// Watches it for room to send as well, or no longer. Bytes that are there already are reported again.
    pub(super) fn set_room(&self, fd: impl AsFd, source: Source, room: bool) {
        let interest = match room {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::READABLE,
        };
        // It is in the set: it was added with its connection, and is removed with it.
        let _ = self
            .0
            .reregister(&mut SourceFd(&fd.as_fd().as_raw_fd()), source.token(), interest);
    }

    pub(super) fn remove(&self, fd: impl AsFd) {
        // As above.
        let _ = self.0.deregister(&mut SourceFd(&fd.as_fd().as_raw_fd()));
    }
}
