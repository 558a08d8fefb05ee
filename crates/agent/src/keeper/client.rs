//! The agent's side of its keeper: shows it sessions and rings as they come, and gets back what an earlier agent showed.

use super::packet::{self, Kind, Packet, Restored, StoredSession};
use super::{KeeperCommand, SOCKET, send};
use crate::error::AgentError;
use crate::limits::{
    KEEPER_CONNECT_MS, KEEPER_FAILURES_TOLD, KEEPER_LIST_MS, KEEPER_RETRY_MS, KEEPER_START_MS,
    RINGS_PER_PACKET,
};
use logdrive_ring::channel::{Channel, Received};
use logdrive_ring::{HostedSession, MemoryFiles};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The connection to the keeper. While there is none, sessions are not kept, and the log says so.
#[derive(Debug)]
pub(crate) struct KeeperClient {
    /// Starts a keeper; `None` where one that runs is only to be taken over.
    command: Option<KeeperCommand>,
    socket: PathBuf,
    channel: Option<Channel>,
    child: Option<Child>,
    /// Rings that the keeper has of each session.
    stored_rings: BTreeMap<u64, usize>,
    retry_at: Instant,
    failures: u32,
    /// True if the log says that there is none.
    is_reported: bool,
}

impl KeeperClient {
    /// Looks for the keeper of an earlier agent. Returns what it had, and what is wrong with it.
    pub(crate) fn start(
        command: Option<KeeperCommand>,
        run_dir: &Path,
        now: Instant,
    ) -> (Self, Vec<Restored>, Vec<String>) {
        let mut client = Self {
            command,
            // The keeper has another working directory.
            socket: std::path::absolute(run_dir)
                .unwrap_or_else(|_| run_dir.to_owned())
                .join(SOCKET),
            channel: None,
            child: None,
            stored_rings: BTreeMap::new(),
            retry_at: now,
            failures: 0,
            is_reported: false,
        };
        let (mut restored, mut notices) = (Vec::new(), Vec::new());
        if client.connect().is_ok() {
            match client.list() {
                Ok(parts) => {
                    for part in parts {
                        client.restore(part, &mut restored, &mut notices);
                    }
                }
                Err(cause) => {
                    notices.push(format!(
                        "the keeper at {} does not answer: {cause}",
                        client.socket.display()
                    ));
                    client.channel = None;
                }
            }
        }
        (client, restored, notices)
    }

    fn connect(&mut self) -> io::Result<()> {
        let channel = Channel::connect(&self.socket, Duration::from_millis(KEEPER_CONNECT_MS))?;
        let uid = channel.peer()?.uid;
        if uid != logdrive_ring::user_id() && uid != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.channel = Some(channel);
        Ok(())
    }

    /// Makes sure that there is a keeper; `true` when it is a new one, which has to be shown everything. Looks at most
    /// some times a second, and never waits.
    pub(crate) fn reconnect(&mut self, now: Instant) -> Result<bool, AgentError> {
        if self.channel.as_ref().is_some_and(has_hung_up) {
            self.disconnect();
        }
        if self.channel.is_some() || now < self.retry_at {
            return Ok(false);
        }
        let pause = KEEPER_RETRY_MS.0 << self.failures.min(6);
        self.retry_at = now + Duration::from_millis(pause.min(KEEPER_RETRY_MS.1));
        self.failures = self.failures.saturating_add(1);
        if self.connect().is_ok() {
            self.failures = 0;
            self.is_reported = false;
            self.stored_rings.clear();
            return Ok(true);
        }
        let has_ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if self.child.as_mut().is_none_or(has_ended) {
            let Some(command) = &self.command else {
                return Ok(false);
            };
            match spawn(command, &self.socket) {
                Ok(child) => self.child = Some(child),
                Err(cause) => {
                    let error = AgentError::io("start", command.program.clone(), cause);
                    return self.report_once(error);
                }
            }
        }
        if self.failures > KEEPER_FAILURES_TOLD {
            let cause = io::Error::from(io::ErrorKind::TimedOut);
            return self.report_once(AgentError::io("reach the keeper at", self.socket.clone(), cause));
        }
        Ok(false)
    }

    fn report_once(&mut self, error: AgentError) -> Result<bool, AgentError> {
        match std::mem::replace(&mut self.is_reported, true) {
            true => Ok(false),
            false => Err(error),
        }
    }

    /// As [`KeeperClient::reconnect`], for an agent that starts: waits a moment, because processes that come at once
    /// are to be kept as well, and no longer than they wait for their sessions.
    pub(crate) fn connect_at_start(&mut self) -> Result<bool, AgentError> {
        let until = Instant::now() + Duration::from_millis(KEEPER_START_MS);
        while Instant::now() < until {
            self.retry_at = Instant::now();
            self.failures = 0;
            if self.reconnect(self.retry_at)? || self.channel.is_some() {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(false)
    }

    /// All that the keeper holds.
    fn list(&mut self) -> io::Result<Vec<StoredSession>> {
        let Some(channel) = &self.channel else {
            return Ok(Vec::new());
        };
        send(channel, &Packet::of(Kind::List, 0), &[])?;
        let until = Instant::now() + Duration::from_millis(KEEPER_LIST_MS);
        let mut found: Vec<StoredSession> = Vec::new();
        // One byte more than a packet has, so that a longer one is found to be none.
        let mut buffer = [0; packet::BYTES + 1];
        loop {
            let mut descriptors = Vec::new();
            match channel.receive(&mut buffer, &mut descriptors, true) {
                Ok(Received::Packet(length)) => {
                    let packet = buffer.get(..length).and_then(Packet::decode);
                    let packet = packet.ok_or(io::ErrorKind::InvalidData)?;
                    match (packet.kind, found.last_mut()) {
                        (Kind::Put, _) => found.push(StoredSession { packet, descriptors }),
                        (Kind::More, Some(last)) if last.packet.session == packet.session => {
                            last.descriptors.extend(descriptors);
                        }
                        (Kind::End, _) => return Ok(found),
                        _ => return Err(io::ErrorKind::InvalidData.into()),
                    }
                }
                Ok(Received::Cut) => {
                    return Err(io::Error::other(
                        "there are too few descriptors for what it holds",
                    ));
                }
                Ok(Received::Closed) => return Err(io::ErrorKind::ConnectionReset.into()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() || !channel.wait(left)? {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn restore(&mut self, parts: StoredSession, restored: &mut Vec<Restored>, notices: &mut Vec<String>) {
        let StoredSession { packet, descriptors } = parts;
        let rings = descriptors.len();
        match packet.restore(descriptors) {
            Ok(found) => {
                let had = usize::from(packet.has_process) + MemoryFiles::PARTS;
                self.stored_rings
                    .insert(packet.session, rings.saturating_sub(had));
                restored.push(found);
            }
            Err(error) => {
                notices.push(format!(
                    "a session of process {} from the keeper cannot be read: {error}",
                    packet.pid
                ));
                self.remove(packet.session);
            }
        }
    }

    /// Shows a session, or what has come to it.
    pub(crate) fn store(&mut self, session: &HostedSession, process: Option<&OwnedFd>) {
        let Some(channel) = &self.channel else { return };
        let count = session.ring_count();
        let mut stored_rings = self.stored_rings.get(&session.id()).copied();
        while stored_rings.is_none_or(|stored_rings| stored_rings < count) {
            let first = stored_rings.unwrap_or(0);
            let sent = session.with_ring_descriptors(first, RINGS_PER_PACKET / 2, |rings| {
                let is_new = stored_rings.is_none();
                let mut all: Vec<BorrowedFd<'_>> = Vec::new();
                if is_new {
                    all.extend(process.map(AsFd::as_fd));
                    all.extend(session.files().descriptors());
                }
                all.extend_from_slice(rings);
                let kind = if is_new { Kind::Put } else { Kind::More };
                // The keeper does nothing but take: where there is no room it has stopped.
                channel.send(
                    &Packet::of_session(kind, session, process.is_some()).encode(),
                    &all,
                )?;
                Ok::<usize, io::Error>(rings.len())
            });
            match sent {
                Ok(sent) => stored_rings = Some(first + sent),
                Err(_) => return self.disconnect(),
            }
        }
        self.stored_rings.insert(session.id(), count);
    }

    /// The session is over, and all of it is written.
    pub(crate) fn remove(&mut self, session: u64) {
        self.stored_rings.remove(&session);
        let Some(channel) = &self.channel else { return };
        if channel
            .send(&Packet::of(Kind::Drop, session).encode(), &[])
            .is_err()
        {
            self.disconnect();
        }
    }

    /// Drops the sessions that another holder has now.
    pub(crate) fn remove_all(&mut self, is_held: impl Fn(u64) -> bool) {
        let sessions: Vec<u64> = self.stored_rings.keys().copied().collect();
        for session in sessions.into_iter().filter(|session| is_held(*session)) {
            self.remove(session);
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.channel.is_some()
    }

    /// Returns the descriptors that the keeper has, without those of processes.
    pub(crate) fn counts(&self) -> u64 {
        let of_session = |rings: &usize| (MemoryFiles::PARTS + rings) as u64;
        self.stored_rings.values().map(of_session).sum()
    }

    fn disconnect(&mut self) {
        self.channel = None;
        self.stored_rings.clear();
    }
}

fn spawn(command: &KeeperCommand, socket: &Path) -> io::Result<Child> {
    Command::new(&command.program)
        .args(&command.args)
        .arg(socket)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A signal from the terminal that ends the agent is not meant for the keeper.
        .process_group(0)
        .spawn()
}

/// Returns whether the keeper has ended. It says nothing that it is not asked for.
fn has_hung_up(channel: &Channel) -> bool {
    poll(
        &mut [PollFd::new(channel, PollFlags::IN)],
        Some(&Timespec::default()),
    )
    .is_ok_and(|ready| ready > 0)
}
