//! Which descriptors have something to do: `epoll`, with times as short as the drain's pauses.

use rustix::event::epoll::{CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

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
    fn data(self) -> EventData {
        EventData::new_u64(match self {
            Self::Listener => 0,
            Self::Connection(key) => key << 2 | 1,
            Self::Process(session) => session << 2 | 2,
        })
    }

    fn of(data: u64) -> Self {
        match data & 3 {
            1 => Self::Connection(data >> 2),
            2 => Self::Process(data >> 2),
            _ => Self::Listener,
        }
    }
}

/// The set of descriptors.
#[derive(Debug)]
pub(super) struct Ready {
    epoll: OwnedFd,
}

impl Ready {
    pub(super) fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll })
    }

    pub(super) fn add(&self, fd: impl AsFd, source: Source, flags: EventFlags) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, source.data(), flags)
    }

    /// Waits for something else from now on.
    pub(super) fn set(&self, fd: impl AsFd, source: Source, flags: EventFlags) {
        // It is in the set: it was added with its connection, and is removed with it.
        let _ = epoll::modify(&self.epoll, fd, source.data(), flags);
    }

    pub(super) fn remove(&self, fd: impl AsFd) {
        // As above.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits at most this long, and returns what is ready. `epoll` itself knows milliseconds only, on older kernels; so the wait is for
    /// the set as a whole.
    pub(super) fn wait(&self, timeout: Duration, count: usize) -> Vec<(Source, EventFlags)> {
        let time = Timespec {
            tv_sec: timeout.as_secs().min(3600) as _,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let is_ready = poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&time));
        // An interruption is a time that is over: the caller comes again.
        if is_ready.unwrap_or(0) == 0 {
            return Vec::new();
        }
        let mut events = [MaybeUninit::<Event>::uninit(); 128];
        let count = count.min(events.len());
        let no_wait = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match epoll::wait(&self.epoll, &mut events[..count], Some(&no_wait)) {
            Ok((found, _)) => found
                .iter()
                .map(|event| (Source::of(event.data.u64()), event.flags))
                .collect(),
            Err(_) => Vec::new(),
        }
    }
}
