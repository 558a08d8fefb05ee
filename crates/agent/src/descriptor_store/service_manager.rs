//! The descriptor store of the service manager (`FDSTORE` of systemd): it keeps descriptors over a crash and a restart of
//! the service, and passes them to the next start. `sd_notify(3)` and `sd_listen_fds(3)` tell of both.
//!
//! Each descriptor has a name of its own, because the order in which they come back is not promised: the packet that
//! describes its session, in hexadecimal digits, and its number in that session.

use crate::error::AgentError;
use crate::keeper::packet::{BYTES, Kind, Packet, Restored};
use logdrive_ring::channel::Channel;
use logdrive_ring::{HostedSession, MemoryFiles, inherited_descriptors};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// Longest time that a message waits for the service manager to take others, in milliseconds.
const ROOM_MS: u64 = 100;

/// First descriptor that a service manager passes.
const FIRST: i32 = 3;

/// A service manager with a descriptor store.
#[derive(Debug)]
pub struct ServiceManager {
    /// Path or abstract name of its socket.
    socket: PathBuf,
    channel: Option<Channel>,
    /// Descriptors that it has passed, until they are taken.
    inherited: Vec<(String, OwnedFd)>,
    stored: BTreeMap<u64, Stored>,
    /// Error of the last message that was lost.
    failed: Option<io::Error>,
    is_reported: bool,
}

/// Descriptors of a session that the store has.
#[derive(Debug)]
struct Stored {
    name: String,
    count: usize,
}

impl ServiceManager {
    /// Returns the manager that has started this process, if it has a store for it: `FDSTORE`, the size of the store, is
    /// set and not 0. Takes the descriptors that it passes. To be called once, before others are opened.
    pub fn from_environment() -> Option<Self> {
        let size: u64 = std::env::var("FDSTORE").ok()?.parse().ok()?;
        let socket = std::env::var_os("NOTIFY_SOCKET")?;
        // A child inherits the variables, but the manager listens to its own process only.
        let is_main =
            std::env::var("SYSTEMD_EXEC_PID").map_or(true, |pid| pid.parse() == Ok(std::process::id()));
        (size > 0 && is_main).then(|| Self::new(socket, passed_descriptors()))
    }

    /// A manager that takes messages at `socket` and has passed these descriptors, each with its name.
    pub fn new(socket: impl Into<PathBuf>, inherited: Vec<(String, OwnedFd)>) -> Self {
        Self {
            socket: socket.into(),
            channel: None,
            inherited,
            stored: BTreeMap::new(),
            failed: None,
            is_reported: false,
        }
    }

    /// Returns the sessions that were passed, and what is wrong with others, which are removed from the store.
    pub(super) fn restore(&mut self) -> (Vec<Restored>, Vec<String>) {
        let mut sessions: BTreeMap<String, BTreeMap<usize, OwnedFd>> = BTreeMap::new();
        for (name, descriptor) in std::mem::take(&mut self.inherited) {
            // Sockets that the manager opens have other names; nobody here asks for them.
            let Some((packet, number)) = name.split_once('-') else {
                continue;
            };
            let Ok(number) = number.parse() else { continue };
            sessions
                .entry(packet.to_owned())
                .or_default()
                .insert(number, descriptor);
        }
        let (mut restored, mut notices) = (Vec::new(), Vec::new());
        for (name, descriptors) in sessions {
            let Some(packet) = packet_of(&name) else { continue };
            let count = descriptors.keys().next_back().map_or(0, |last| last + 1);
            self.stored.insert(packet.session, Stored { name, count });
            let is_whole = descriptors.len() == count;
            let found = packet.restore(descriptors.into_values().collect());
            match found {
                Ok(found) if is_whole => restored.push(found),
                found => {
                    let why = found
                        .err()
                        .map_or_else(|| "descriptors are missing".to_owned(), |error| error.to_string());
                    notices.push(format!(
                        "a session of process {} from the service manager cannot be read: {why}",
                        packet.pid
                    ));
                    self.remove(packet.session);
                }
            }
        }
        (restored, notices)
    }

    /// Stores a session, or what has come to it.
    pub(super) fn store(&mut self, session: &HostedSession, process: Option<&OwnedFd>) {
        if self.failed.is_some() {
            // It takes no messages now, and each would wait: all sessions are stored again at the next retry.
            return;
        }
        let fixed = MemoryFiles::PARTS + usize::from(process.is_some());
        let count = fixed + session.ring_count();
        let mut stored = self.stored.remove(&session.id()).unwrap_or_else(|| Stored {
            name: name_of(&Packet::of_session(Kind::Put, session, process.is_some())),
            count: 0,
        });
        while stored.count < count {
            let number = stored.count;
            let text = format!("FDSTORE=1\nFDPOLL=0\nFDNAME={}-{number}\n", stored.name);
            let sent = if number < fixed {
                let all: Vec<BorrowedFd<'_>> = process
                    .map(AsFd::as_fd)
                    .into_iter()
                    .chain(session.files().descriptors())
                    .collect();
                self.send(&text, &all[number..=number])
            } else {
                session.with_ring_descriptors(number - fixed, 1, |rings| self.send(&text, rings))
            };
            if let Err(cause) = sent {
                self.failed = Some(cause);
                break;
            }
            stored.count += 1;
        }
        self.stored.insert(session.id(), stored);
    }

    /// Removes a session.
    pub(super) fn remove(&mut self, session: u64) {
        let Some(stored) = self.stored.remove(&session) else {
            return;
        };
        for number in 0..stored.count {
            let text = format!("FDSTOREREMOVE=1\nFDNAME={}-{number}\n", stored.name);
            if let Err(cause) = self.send(&text, &[]) {
                // The rest stays in the store until the next agent, which reports the session as incomplete and removes it.
                self.failed = Some(cause);
                return;
            }
        }
    }

    /// Returns true when messages were lost, so that all sessions have to be stored again.
    ///
    /// # Errors
    /// Fails once when the manager cannot be reached.
    pub(super) fn retry(&mut self) -> Result<bool, AgentError> {
        let Some(cause) = self.failed.take() else {
            self.is_reported = false;
            return Ok(false);
        };
        if std::mem::replace(&mut self.is_reported, true) {
            return Ok(true);
        }
        // Reported now, stored again at the next retry.
        self.failed = Some(cause.kind().into());
        Err(AgentError::io(
            "reach the service manager at",
            self.socket.clone(),
            cause,
        ))
    }

    fn send(&mut self, text: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let channel = match self.channel.take() {
            Some(channel) => channel,
            None => self.connect()?,
        };
        let mut sent = channel.send(text.as_bytes(), descriptors);
        if sent
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
            && channel.wait_for_room(Duration::from_millis(ROOM_MS))?
        {
            sent = channel.send(text.as_bytes(), descriptors);
        }
        sent.inspect(|()| self.channel = Some(channel))
    }

    fn connect(&self) -> io::Result<Channel> {
        let path = self.socket.as_os_str().as_bytes();
        let address = match path.strip_prefix(b"@") {
            Some(name) => SocketAddrUnix::new_abstract_name(name)?,
            None => SocketAddrUnix::new(path)?,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        connect(&socket, &address)?;
        Ok(Channel::new(socket))
    }
}

/// Takes the descriptors that the service manager has passed to this process, with their names.
fn passed_descriptors() -> Vec<(String, OwnedFd)> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let is_ours = number("LISTEN_PID") == Some(std::process::id());
    let count = number("LISTEN_FDS").filter(|_| is_ours).unwrap_or(0);
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let descriptors = inherited_descriptors(FIRST, count as usize);
    names.split(':').map(str::to_owned).zip(descriptors).collect()
}

/// Bytes of a packet that are not reserved.
const USED_BYTES: usize = 48;

fn name_of(packet: &Packet) -> String {
    packet.encode()[..USED_BYTES]
        .iter()
        .fold(String::new(), |mut name, byte| {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
            name
        })
}

fn packet_of(name: &str) -> Option<Packet> {
    let mut bytes = [0; BYTES];
    if name.len() != 2 * USED_BYTES || !name.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..name.len()).step_by(2)) {
        *byte = u8::from_str_radix(name.get(at..at + 2)?, 16).ok()?;
    }
    Packet::decode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_descriptor_tells_the_session() {
        let packet = Packet {
            pid: 417,
            ring_bytes: 1 << 20,
            has_process: true,
            ..Packet::of(Kind::Put, 77)
        };
        let name = name_of(&packet);
        assert!(name.len() + 8 < 255, "the longest name of a stored descriptor");
        assert_eq!(packet_of(&name), Some(packet));
        for other in ["", "stored", &name[2..], &"é".repeat(USED_BYTES)] {
            assert!(packet_of(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_manager_that_cannot_be_reached_is_reported_once() {
        let mut manager = ServiceManager::new("/nowhere/notify", Vec::new());
        assert!(
            manager
                .send("FDSTORE=1\n", &[])
                .map_err(|error| manager.failed = Some(error))
                .is_err()
        );
        let error = manager.retry().expect_err("reported").to_string();
        assert!(error.contains("/nowhere/notify"), "{error}");
        assert!(manager.retry().expect("no second report"), "all is stored again");
    }
}
