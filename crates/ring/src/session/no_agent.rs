//! Systems without agents: there is no session of one, so that its type has no values. Whoever handles sessions of all
//! kinds is compiled for these systems, too, and the compiler knows that this kind never comes.

use super::reader::SessionReader;
use std::ops::Deref;
use std::sync::Arc;

/// A connected process, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Process number.
    pub pid: u32,
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}

/// Facts of a client process besides its session's memory.
#[derive(Debug, Clone)]
pub struct HostedOptions {
    /// Set if it reads the coarse clock, which the drain has to renew.
    pub coarse: bool,
}

/// A session of another process, drained by an agent: never here.
#[derive(Debug)]
pub enum HostedSession {}

macro_rules! never {
    ($($name:ident -> $result:ty;)*) => {
        impl HostedSession {
            $(
                /// There is no such session here.
                pub fn $name(&self) -> $result {
                    match *self {}
                }
            )*
        }
    };
}

never! {
    id -> u64;
    peer -> Peer;
    app -> &str;
    ring_count -> usize;
    options -> &HostedOptions;
    reader -> &Arc<SessionReader>;
}

impl Deref for HostedSession {
    type Target = SessionReader;

    fn deref(&self) -> &SessionReader {
        match *self {}
    }
}
