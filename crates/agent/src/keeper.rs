//! The keeper: a small process beside an agent that holds the descriptors of all sessions, and does nothing else. When
//! the agent and a process are both killed, it is the one that still has the memory, and the next agent gets it from
//! there.
//!
//! It maps nothing, reads nothing of what it holds, and talks to its agent alone, over a socket in the agent's own
//! directory. `spec/agent.md` draws the packets.

mod client;
pub(crate) mod packet;

pub(crate) use client::KeeperClient;

use crate::error::AgentError;
use crate::limits::{KEEPER_LOOK_MS, KEEPER_ROOM_MS, RINGS_PER_PACKET};
use crate::path_lock::Listener;
use logdrive_ring::channel::{Channel, Received};
use packet::{Kind, Packet, StoredSession};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, SocketType, accept_with};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The keeper's socket in the agent's directory.
pub(crate) const SOCKET: &str = "keeper.sock";

/// Command that starts a keeper: a program that calls [`keep`] with the path that comes as its last argument.
///
/// ```
/// use logdrive_agent::KeeperCommand;
/// let command = KeeperCommand::new("/usr/bin/logdrive", ["keeper"]);
/// assert_eq!(command.args.len(), 1);
/// ```
#[derive(Debug, Clone)]
pub struct KeeperCommand {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments.
    pub args: Vec<OsString>,
}

impl KeeperCommand {
    /// A program with arguments.
    pub fn new<A: Into<OsString>>(program: impl Into<PathBuf>, args: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
        }
    }
}

/// Holds what an agent shows, until there is nothing to hold and no agent; then returns. Blocks.
///
/// # Errors
/// Fails when the socket's place is taken or not safe.
pub fn keep(socket: &Path) -> Result<(), AgentError> {
    // A keeper outlives the agent, and must not hold for as long the descriptors that the agent was started with, such as
    // a lock of its parent's.
    logdrive_ring::close_inherited();
    let listener = Listener::open_for(SocketType::SEQPACKET, socket, 0o600, None)?;
    let found = fs::symlink_metadata(socket).map_err(|cause| AgentError::io("look at", socket, cause))?;
    let mut keeper = Keeper {
        listener,
        socket: socket.to_owned(),
        id: (found.dev(), found.ino()),
        agent: None,
        sessions: BTreeMap::new(),
    };
    while keeper.turn() {}
    Ok(())
}

struct Keeper {
    listener: Listener,
    socket: PathBuf,
    /// Device and inode of the socket.
    id: (u64, u64),
    agent: Option<Channel>,
    sessions: BTreeMap<u64, StoredSession>,
}

impl Keeper {
    /// Waits for the agent, and does what it says; `false` when the keeper is not needed any more.
    fn turn(&mut self) -> bool {
        let time = Timespec {
            tv_sec: 0,
            tv_nsec: (KEEPER_LOOK_MS * 1_000_000) as _,
        };
        // With an agent it waits for as long as it takes.
        let timeout = self.agent.is_none().then_some(&time);
        let mut polled = vec![PollFd::new(&self.listener.socket, PollFlags::IN)];
        if let Some(agent) = &self.agent {
            polled.push(PollFd::new(agent, PollFlags::IN));
        }
        let ready = poll(&mut polled, timeout).unwrap_or(0);
        let has_connection = !polled[0].revents().is_empty();
        let has_packet = polled.get(1).is_some_and(|agent| !agent.revents().is_empty());
        drop(polled);
        if has_packet && self.receive().is_err() {
            self.agent = None;
        }
        if has_connection {
            self.accept();
        }
        ready > 0 || self.agent.is_some() || (!self.sessions.is_empty() && self.is_reachable())
    }

    /// Another agent takes the place of the one before, which has to be dead: there is one for each directory.
    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = accept_with(&self.listener.socket, flags) else {
            return;
        };
        let channel = Channel::new(socket);
        let is_ours = |uid| uid == 0 || uid == logdrive_ring::user_id();
        if channel.peer().is_ok_and(|peer| is_ours(peer.uid)) {
            self.agent = Some(channel);
        }
    }

    /// Returns whether the next agent will find the socket.
    fn is_reachable(&self) -> bool {
        fs::symlink_metadata(&self.socket).is_ok_and(|found| (found.dev(), found.ino()) == self.id)
    }

    /// Takes one packet of the agent.
    fn receive(&mut self) -> io::Result<()> {
        let Some(agent) = &self.agent else { return Ok(()) };
        let mut buffer = [0; packet::BYTES + 1];
        let mut descriptors = Vec::new();
        let length = match agent.receive(&mut buffer, &mut descriptors, true) {
            Ok(Received::Packet(length)) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            // Without its descriptors a packet is worth nothing: the agent begins anew.
            Ok(Received::Cut | Received::Closed) => return Err(io::ErrorKind::ConnectionReset.into()),
            Err(error) => return Err(error),
        };
        let packet = buffer.get(..length).and_then(Packet::decode);
        let packet = packet.ok_or(io::ErrorKind::InvalidData)?;
        match packet.kind {
            Kind::Put => {
                self.sessions
                    .insert(packet.session, StoredSession { packet, descriptors });
            }
            Kind::More => {
                if let Some(stored) = self.sessions.get_mut(&packet.session) {
                    stored.descriptors.extend(descriptors);
                }
            }
            Kind::Drop => drop(self.sessions.remove(&packet.session)),
            Kind::List => self.list()?,
            Kind::End => {}
        }
        Ok(())
    }

    fn list(&self) -> io::Result<()> {
        let Some(agent) = &self.agent else { return Ok(()) };
        for stored in self.sessions.values() {
            let mut packet = stored.packet;
            for part in stored.descriptors.chunks(RINGS_PER_PACKET) {
                let part: Vec<_> = part.iter().map(AsFd::as_fd).collect();
                send(agent, &packet, &part)?;
                packet.kind = Kind::More;
            }
        }
        send(agent, &Packet::of(Kind::End, 0), &[])
    }
}

/// Sends a packet, and waits for room where there is none.
fn send(channel: &Channel, packet: &Packet, descriptors: &[std::os::fd::BorrowedFd<'_>]) -> io::Result<()> {
    loop {
        match channel.send(&packet.encode(), descriptors) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !channel.wait_for_room(Duration::from_millis(KEEPER_ROOM_MS))? {
                    return Err(error);
                }
            }
            other => return other,
        }
    }
}
