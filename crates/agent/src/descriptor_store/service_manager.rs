//! The descriptor store of the service manager (`FDSTORE` of systemd): it keeps descriptors over a crash and a restart
//! of the service, and passes them to the next start. `sd_notify(3)` and `sd_listen_fds(3)` describe both.
//!
//! Each descriptor has a name of its own, because the order in which they come back is not promised: the number of its
//! session and its number in that session, in the name of the first one with the packet that describes the session. All
//! names come back in one string of the environment, whose length the kernel limits: a session that does not fit is
//! left out.

use crate::error::AgentError;
use crate::keeper::packet::{Kind, Packet, Restored};
use crate::limits::STORE_NAME_BYTES_MAX;
use logdrive_ring::channel::Channel;
use logdrive_ring::{HostedSession, MemoryFiles, inherited_descriptors};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest time that a message waits for the service manager to take others, in milliseconds.
const ROOM_MS: u64 = 100;

/// Digits of a packet in the names of an earlier build; the number of a session has 16 at most.
const EARLIER_NAME_DIGITS: usize = 96;

/// First descriptor that a service manager passes.
const FIRST: i32 = 3;

/// A service manager with a descriptor store.
#[derive(Debug)]
pub struct ServiceManager {
    /// Path or abstract name of its socket.
    socket: PathBuf,
    channel: Option<Channel>,
    /// Descriptors that the store takes.
    capacity: usize,
    /// Descriptors that it has passed, until they are taken.
    inherited: Vec<(String, OwnedFd)>,
    /// Names of the descriptors of each session that the store has.
    stored: BTreeMap<u64, Vec<String>>,
    /// Names whose removal the manager has not got yet.
    unremoved: Vec<String>,
    /// Descriptors in the store, and bytes of their names.
    used: (usize, usize),
    /// Sessions for all of which there was no room.
    left_out: BTreeSet<u64>,
    /// Something was removed since a session was left out.
    has_room: bool,
    /// Error of the last message that was lost.
    failed: Option<io::Error>,
    is_failure_reported: bool,
    is_lack_reported: bool,
}

impl ServiceManager {
    /// Returns the manager that has started this process, if it has a store for it: `FDSTORE`, the size of the store, is
    /// set and not 0. Takes the descriptors that it passes. To be called once, before others are opened.
    pub fn from_environment() -> Option<Self> {
        let size: usize = std::env::var("FDSTORE").ok()?.parse().ok()?;
        let socket = std::env::var_os("NOTIFY_SOCKET")?;
        // A child inherits the variables, but the manager listens to its own process only.
        let is_main =
            std::env::var("SYSTEMD_EXEC_PID").map_or(true, |pid| pid.parse() == Ok(std::process::id()));
        (size > 0 && is_main).then(|| Self::new(socket, size, passed_descriptors()))
    }

    /// A manager that takes messages at `socket`, has room for `capacity` descriptors, and has passed these, each with
    /// its name.
    pub fn new(socket: impl Into<PathBuf>, capacity: usize, inherited: Vec<(String, OwnedFd)>) -> Self {
        Self {
            socket: socket.into(),
            channel: None,
            capacity,
            inherited,
            stored: BTreeMap::new(),
            unremoved: Vec::new(),
            used: (0, 0),
            left_out: BTreeSet::new(),
            has_room: false,
            failed: None,
            is_failure_reported: false,
            is_lack_reported: false,
        }
    }

    /// Returns the sessions that were passed, and what is wrong with others, which are removed from the store.
    pub(super) fn restore(&mut self) -> (Vec<Restored>, Vec<String>) {
        let mut sessions: BTreeMap<u64, (Option<Packet>, BTreeMap<usize, OwnedFd>)> = BTreeMap::new();
        for (name, descriptor) in std::mem::take(&mut self.inherited) {
            // Sockets that the manager opens have other names; they are not used here.
            let Some((session, number, packet)) = read_name(&name) else {
                if is_name_of_earlier_build(&name) {
                    self.use_name(&name);
                    self.unremoved.push(name);
                }
                continue;
            };
            let found = sessions.entry(session).or_default();
            found.0 = found.0.or(packet);
            found.1.insert(number, descriptor);
            self.use_name(&name);
            self.stored.entry(session).or_default().push(name);
        }
        let (mut restored, mut notices) = (Vec::new(), Vec::new());
        for (session, (packet, descriptors)) in sessions {
            let is_whole = descriptors.keys().copied().eq(0..descriptors.len());
            let found = match packet.filter(|_| is_whole) {
                Some(packet) => packet
                    .restore(descriptors.into_values().collect())
                    .map_err(|error| error.to_string()),
                None => Err("descriptors are missing".to_owned()),
            };
            match found {
                Ok(found) => restored.push(found),
                Err(why) => {
                    notices.push(format!(
                        "session {session} from the service manager cannot be read: {why}"
                    ));
                    self.remove(session);
                }
            }
        }
        self.send_removals();
        (restored, notices)
    }

    /// Stores a session, or what has come to it; nothing of that where there is no room for all.
    pub(super) fn store(&mut self, session: &HostedSession, process: Option<&OwnedFd>) {
        // A name that is still to be removed may be one of these.
        if self.failed.is_none() {
            self.send_removals();
        }
        if self.failed.is_some() {
            // It takes no messages now, and each would wait: all sessions are stored again at the next retry.
            return;
        }
        let id = session.id();
        let packet = Packet::of_session(Kind::Put, session, process.is_some());
        let fixed = MemoryFiles::PARTS + usize::from(process.is_some());
        let first = self.stored.get(&id).map_or(0, Vec::len);
        let new: Vec<String> = (first..fixed + session.ring_count())
            .map(|number| name_of(&packet, number))
            .collect();
        let name_bytes: usize = new.iter().map(|name| name.len() + 1).sum();
        if self.used.0 + new.len() > self.capacity || self.used.1 + name_bytes > STORE_NAME_BYTES_MAX {
            self.left_out.insert(id);
            return;
        }
        self.left_out.remove(&id);
        for (number, name) in (first..).zip(new) {
            let text = format!("FDSTORE=1\nFDPOLL=0\nFDNAME={name}\n");
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
                return;
            }
            self.use_name(&name);
            self.stored.entry(id).or_default().push(name);
        }
    }

    /// Removes a session.
    pub(super) fn remove(&mut self, session: u64) {
        self.left_out.remove(&session);
        self.unremoved
            .extend(self.stored.remove(&session).unwrap_or_default());
        if self.failed.is_none() {
            self.send_removals();
        }
    }

    /// Returns whether the store has all of a session.
    pub(super) fn has(&self, session: u64) -> bool {
        self.failed.is_none() && self.stored.contains_key(&session) && !self.left_out.contains(&session)
    }

    /// Returns the descriptors in the store, and the sessions that are left out.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.used.0 as u64, self.left_out.len() as u64)
    }

    /// Repeats messages that were lost. Returns true when all sessions have to be stored again, as far as they are not.
    ///
    /// # Errors
    /// Fails once when the manager cannot be reached, and once when there is no room.
    pub(super) fn retry(&mut self) -> Result<bool, String> {
        if let Some(cause) = self.failed.take() {
            if std::mem::replace(&mut self.is_failure_reported, true) {
                self.send_removals();
                return Ok(true);
            }
            // Reported now, repeated at the next retry.
            self.failed = Some(cause.kind().into());
            return Err(super::nobody_holds(&AgentError::io(
                "reach the service manager at",
                self.socket.clone(),
                cause,
            )));
        }
        self.is_failure_reported = false;
        if !self.left_out.is_empty() && !std::mem::replace(&mut self.is_lack_reported, true) {
            return Err(format!(
                "the service manager holds {} descriptors and has no room for all sessions: a process that is killed \
                 together with the agent may lose what is in its rings; `FileDescriptorStoreMax=` is {}, and names take \
                 {} of at most {STORE_NAME_BYTES_MAX} bytes",
                self.used.0, self.capacity, self.used.1
            ));
        }
        Ok(std::mem::take(&mut self.has_room))
    }

    fn use_name(&mut self, name: &str) {
        self.used.0 += 1;
        // With the colon that parts it from the next.
        self.used.1 += name.len() + 1;
    }

    fn send_removals(&mut self) {
        while let Some(name) = self.unremoved.pop() {
            let text = format!("FDSTOREREMOVE=1\nFDNAME={name}\n");
            if let Err(cause) = self.send(&text, &[]) {
                self.failed = Some(cause);
                self.unremoved.push(name);
                return;
            }
            self.used.0 -= 1;
            self.used.1 -= name.len() + 1;
            self.has_room = !self.left_out.is_empty();
        }
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

/// Takes the descriptors that the service manager has passed to this process, with their names; none a second time.
fn passed_descriptors() -> Vec<(String, OwnedFd)> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    // Relaxed: one caller is the first, and nothing else hangs on it.
    if number("LISTEN_PID") != Some(std::process::id()) || TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let count = number("LISTEN_FDS").unwrap_or(0);
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let descriptors = inherited_descriptors(FIRST, count as usize);
    names.split(':').map(str::to_owned).zip(descriptors).collect()
}

/// Name of a descriptor: numbers in hexadecimal digits, parted by hyphens. They are the session's, the descriptor's in
/// it, and for the first one those of the packet.
fn name_of(packet: &Packet, number: usize) -> String {
    let name = format!("{:x}-{number:x}", packet.session);
    if number > 0 {
        return name;
    }
    let flags = packet.flags();
    let Packet {
        pid,
        uid,
        gid,
        policy,
        ring_bytes,
        rings_max,
        ..
    } = packet;
    format!("{name}-{pid:x}-{uid:x}-{gid:x}-{policy:x}-{ring_bytes:x}-{rings_max:x}-{flags:x}")
}

/// Returns whether an earlier build has stored a descriptor under a name: a whole packet in hexadecimal digits, and a
/// number. Nobody can read it any more, and it takes room.
fn is_name_of_earlier_build(name: &str) -> bool {
    name.split_once('-').is_some_and(|(packet, number)| {
        packet.len() == EARLIER_NAME_DIGITS
            && packet.bytes().all(|byte| byte.is_ascii_hexdigit())
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn read_name(name: &str) -> Option<(u64, usize, Option<Packet>)> {
    let numbers = name.split('-').map(|digits| u64::from_str_radix(digits, 16));
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().ok()?;
    let short = |number: u64| u32::try_from(number).ok();
    match numbers[..] {
        [session, 0, pid, uid, gid, policy, ring_bytes, rings_max, flags] => {
            let packet = Packet {
                pid: short(pid)?,
                uid: short(uid)?,
                gid: short(gid)?,
                policy: short(policy)?,
                ring_bytes,
                rings_max: short(rings_max)?,
                ..Packet::of(Kind::Put, session).with_flags(short(flags)?)
            };
            Some((session, 0, Some(packet)))
        }
        [session, number] if number > 0 => Some((session, usize::try_from(number).ok()?, None)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
