//! The packets between an agent and its keeper: all of one length, little endian; and the session that one describes.

use crate::error::AgentError;
use logdrive_ring::channel::into_files;
use logdrive_ring::{FullPolicy, HostedOptions, HostedSession, MemoryFiles, Peer};
use std::os::fd::OwnedFd;

/// A session that outlived an agent, with the descriptor of its process.
pub(crate) struct Restored {
    pub(crate) session: HostedSession,
    pub(crate) process: Option<OwnedFd>,
}

/// A packet and what came with it, in several parts perhaps: all descriptors of one session.
#[derive(Debug)]
pub(super) struct StoredSession {
    pub(super) packet: Packet,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// The policy of a code, as processes and packets have it.
pub(crate) fn policy_of(code: u32) -> FullPolicy {
    match code {
        0 => FullPolicy::Drop,
        2 => FullPolicy::Block,
        _ => FullPolicy::Wait,
    }
}

/// Bytes of a packet.
pub(crate) const BYTES: usize = 64;

/// `LDKP` and the version.
const MAGIC: u32 = u32::from_le_bytes(*b"LDKP");
const VERSION: u16 = 1;

/// Purpose of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u16)]
pub(crate) enum Kind {
    /// A session, with the descriptors of its process (if any), its memory and its first rings.
    #[default]
    Put = 1,
    /// Further rings of a session.
    More,
    /// The session is over.
    Drop,
    /// Asks for all sessions.
    List,
    /// There are no more.
    End,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Put, Self::More, Self::Drop, Self::List, Self::End];
}

/// A packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Packet {
    pub(crate) kind: Kind,
    pub(crate) session: u64,
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) policy: u32,
    pub(crate) ring_bytes: u64,
    pub(crate) rings_max: u32,
    pub(crate) coarse: bool,
    /// The first descriptor is that of the process.
    pub(crate) has_process: bool,
}

impl Packet {
    pub(crate) fn of(kind: Kind, session: u64) -> Self {
        Self {
            kind,
            session,
            ..Self::default()
        }
    }

    /// Describes a session.
    pub(crate) fn of_session(kind: Kind, session: &HostedSession, has_process: bool) -> Self {
        let peer = session.peer();
        Self {
            kind,
            session: session.id(),
            pid: peer.pid,
            uid: peer.uid,
            gid: peer.gid,
            policy: match session.options().policy {
                FullPolicy::Drop => 0,
                FullPolicy::Wait => 1,
                FullPolicy::Block => 2,
            },
            ring_bytes: session.options().ring_bytes as u64,
            rings_max: session.options().rings_max as u32,
            coarse: session.options().coarse,
            has_process,
        }
    }

    /// Makes a session out of its descriptors. All is checked like descriptors of an untrusted peer.
    pub(crate) fn restore(&self, mut descriptors: Vec<OwnedFd>) -> Result<Restored, AgentError> {
        let process = (self.has_process && !descriptors.is_empty()).then(|| descriptors.remove(0));
        let mut files = into_files(descriptors);
        let rings = files.split_off(MemoryFiles::PARTS.min(files.len()));
        let options = HostedOptions {
            id: self.session,
            peer: Peer {
                pid: self.pid,
                uid: self.uid,
                gid: self.gid,
            },
            ring_bytes: usize::try_from(self.ring_bytes).unwrap_or(usize::MAX),
            rings_max: (self.rings_max as usize).max(rings.len()),
            policy: policy_of(self.policy),
            coarse: self.coarse,
        };
        let session = HostedSession::adopt(files, options)?;
        rings.into_iter().try_for_each(|ring| session.take_ring(ring))?;
        Ok(Restored { session, process })
    }

    /// Its two flags as bits.
    pub(crate) fn flags(&self) -> u32 {
        u32::from(self.coarse) | u32::from(self.has_process) << 1
    }

    pub(crate) fn with_flags(self, flags: u32) -> Self {
        Self {
            coarse: flags & 1 != 0,
            has_process: flags & 2 != 0,
            ..self
        }
    }

    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(&MAGIC.to_le_bytes());
        put(&VERSION.to_le_bytes());
        put(&(self.kind as u16).to_le_bytes());
        put(&self.session.to_le_bytes());
        put(&self.ring_bytes.to_le_bytes());
        for number in [
            self.pid,
            self.uid,
            self.gid,
            self.policy,
            self.rings_max,
            self.flags(),
        ] {
            put(&number.to_le_bytes());
        }
        bytes
    }

    /// `None` for a packet of another version or another program.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let half = |at: usize| bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes);
        if word(0)? != MAGIC || half(4)? != VERSION {
            return None;
        }
        let code = half(6)?;
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u16 == code)?;
        let packet = Self {
            ring_bytes: long(16)?,
            pid: word(24)?,
            uid: word(28)?,
            gid: word(32)?,
            policy: word(36)?,
            rings_max: word(40)?,
            ..Self::of(kind, long(8)?)
        };
        Some(packet.with_flags(word(44)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_reads_back() {
        let packet = Packet {
            kind: Kind::Put,
            session: u64::MAX - 1,
            pid: 1,
            uid: 2,
            gid: 3,
            policy: 2,
            ring_bytes: 1 << 20,
            rings_max: 256,
            coarse: true,
            has_process: false,
        };
        assert_eq!(Packet::decode(&packet.encode()), Some(packet));
        for kind in [Kind::More, Kind::Drop, Kind::List, Kind::End] {
            let packet = Packet::of(kind, 7);
            assert_eq!(Packet::decode(&packet.encode()), Some(packet));
        }
    }

    #[test]
    fn what_is_no_packet_of_this_version_is_none() {
        let good = Packet::of(Kind::List, 0).encode();
        assert!(Packet::decode(&good[..63]).is_none());
        assert!(Packet::decode(&[&good[..], &[0]].concat()).is_none());
        for (at, byte) in [(0, 0), (4, 2), (6, 0), (6, 6), (7, 1)] {
            let mut bytes = good;
            bytes[at] = byte;
            assert!(Packet::decode(&bytes).is_none(), "{at} {byte}");
        }
    }
}
