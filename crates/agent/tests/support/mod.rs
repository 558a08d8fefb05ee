//! An agent's server in a directory of its own, and peers that talk to it from the same thread: the server has its turns
//! while a peer waits for an answer, so that nothing here depends on the scheduler. Time is passed in.
#![allow(dead_code, reason = "each test program uses a part of it")]

use logdrive_agent::config::Limits;
use logdrive_agent::server::{Event, ServerCounts};
use logdrive_agent::{Server, ServerOptions};
use logdrive_ring::channel::{Channel, Received, into_files};
use logdrive_ring::{AgentConnection, HostedSession};
use logdrive_wire::agent::{Hello, Message, Refused, Welcome};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) struct Agent {
    pub(crate) dir: PathBuf,
    pub(crate) server: Server,
    pub(crate) events: Vec<Event>,
    start: Instant,
    /// Time by which the test's clock is ahead of the real one.
    ahead: Duration,
    _keep: Option<tempfile::TempDir>,
}

pub(crate) fn options(dir: &Path) -> ServerOptions {
    ServerOptions {
        socket: dir.join("agent.sock"),
        group: None,
        mode: 0o660,
        connections: 1024,
        idle_timeout: Duration::from_secs(5),
        journal: 77,
        limits: Limits::default(),
        levels: Vec::new(),
        recorders: Vec::new(),
    }
}

impl Agent {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        let keep = tempfile::tempdir().expect("a directory");
        let dir = keep.path().to_owned();
        let mut agent = Self::in_dir(&dir, change);
        agent._keep = Some(keep);
        agent
    }

    pub(crate) fn in_dir(dir: &Path, change: impl FnOnce(&mut ServerOptions)) -> Self {
        let mut options = options(dir);
        change(&mut options);
        Self {
            dir: dir.to_owned(),
            server: Server::open(options).expect("a server"),
            events: Vec::new(),
            start: Instant::now(),
            ahead: Duration::ZERO,
            _keep: None,
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("agent.sock")
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::now() + self.ahead
    }

    pub(crate) fn advance(&mut self, time: Duration) {
        self.ahead += time;
        self.turn();
    }

    pub(crate) fn counts(&self) -> ServerCounts {
        self.server.counts()
    }

    /// One turn of the server.
    pub(crate) fn turn(&mut self) {
        let now = self.now();
        let events = self.server.poll(now, Duration::ZERO);
        self.events.extend(events);
    }

    /// Turns until something is so.
    #[track_caller]
    pub(crate) fn until<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(Instant::now() < deadline, "in vain: {what}");
            let now = self.now();
            let events = self.server.poll(now, Duration::from_millis(1));
            self.events.extend(events);
        }
    }

    #[track_caller]
    pub(crate) fn event<T>(&mut self, what: &str, mut pick: impl FnMut(&Event) -> Option<T>) -> T {
        self.until(what, |agent| {
            let place = agent.events.iter().position(|event| pick(event).is_some())?;
            pick(&agent.events.remove(place))
        })
    }

    #[track_caller]
    pub(crate) fn joined(&mut self) -> Arc<HostedSession> {
        self.event("a process joins", |event| match event {
            Event::Joined(session) => Some(Arc::clone(session)),
            _ => None,
        })
    }

    #[track_caller]
    pub(crate) fn left(&mut self) -> (Arc<HostedSession>, logdrive_agent::server::End) {
        self.event("a process leaves", |event| match event {
            Event::Left { session, end } => Some((Arc::clone(session), *end)),
            _ => None,
        })
    }

    pub(crate) fn connect(&mut self) -> Channel {
        Channel::connect(&self.socket(), Duration::from_secs(5)).expect("a connection")
    }

    /// The next answer of the agent.
    #[track_caller]
    pub(crate) fn next(&mut self, channel: &Channel) -> Answer {
        self.until("an answer", |_| receive(channel))
    }

    #[track_caller]
    pub(crate) fn ask(
        &mut self,
        channel: &Channel,
        message: &Message,
        descriptors: &[BorrowedFd<'_>],
    ) -> Answer {
        self.ask_bytes(channel, &message.encode().expect("a message"), descriptors)
    }

    #[track_caller]
    pub(crate) fn ask_bytes(
        &mut self,
        channel: &Channel,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Answer {
        channel.send(bytes, descriptors).expect("sent");
        self.next(channel)
    }

    /// Joins as a process would.
    #[track_caller]
    pub(crate) fn hello(&mut self, app: &str) -> (Channel, Welcome, Vec<File>) {
        let channel = self.connect();
        match self.ask(&channel, &hello(app), &[]) {
            Answer::Message(Message::Welcome(welcome), files) => (channel, welcome, files),
            other => panic!("no welcome but {other:?}"),
        }
    }
}

pub(crate) fn hello(app: &str) -> Message {
    Message::Hello(Hello {
        app: app.to_owned(),
        ring_bytes: 1 << 16,
        ring_count: 1,
        policy: 0,
        coarse: false,
    })
}

#[derive(Debug)]
pub(crate) enum Answer {
    Message(Message, Vec<File>),
    Closed,
}

impl Answer {
    #[track_caller]
    pub(crate) fn refused(self) -> Refused {
        match self {
            Self::Message(Message::Refused(refused), _) => refused,
            other => panic!("not refused but {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn message(self) -> Message {
        match self {
            Self::Message(message, _) => message,
            Self::Closed => panic!("the connection is closed"),
        }
    }
}

pub(crate) fn receive(channel: &Channel) -> Option<Answer> {
    let mut buffer = vec![0; 70_000];
    let mut descriptors = Vec::new();
    match channel.receive(&mut buffer, &mut descriptors, true) {
        Ok(Received::Packet(length)) => {
            let message = Message::decode(&buffer[..length]).expect("agents speak well");
            assert_eq!(message.descriptors() as usize, descriptors.len());
            Some(Answer::Message(message, into_files(descriptors)))
        }
        Ok(Received::Closed) => Some(Answer::Closed),
        Ok(Received::Cut) => panic!("a message was cut"),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn fds(files: &[File]) -> Vec<BorrowedFd<'_>> {
    files.iter().map(File::as_fd).collect()
}

pub(crate) fn copies(files: &[File]) -> Vec<File> {
    let copy = |file: &File| file.try_clone().expect("a descriptor");
    files.iter().map(copy).collect()
}

pub(crate) fn file(descriptor: impl Into<OwnedFd>) -> File {
    File::from(descriptor.into())
}

/// A process's line to its agent, for sessions that are joined here: it asks for nothing.
#[derive(Debug)]
pub(crate) struct Silent;

impl AgentConnection for Silent {
    fn wake_drain(&self) {}

    fn request_rings(&self, _count: u32) {}

    fn is_connected(&self) -> bool {
        true
    }
}
