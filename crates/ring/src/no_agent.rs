//! Systems without agents: there is no session of one, so that its type has no values. Whoever handles sessions of all
//! kinds is compiled for these systems, too, and the compiler knows that this kind never comes.

use crate::control::ControlEntry;
use crate::counts::CallsiteCounts;
use crate::rules::RulesFile;
use crate::session_header::SessionHeader;
use crate::{ClockSource, Ring};
use std::sync::Arc;

/// A connected process, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its number.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// A session of another process, drained by an agent: never here.
#[derive(Debug)]
pub enum SharedSession {}

macro_rules! never {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl SharedSession {
            $(
                /// There is no such session here.
                pub fn $name(&self $(, $argument: $type)*) -> $result {
                    $(let _ = $argument;)*
                    match *self {}
                }
            )*
        }
    };
}

never! {
    id() -> u64;
    peer() -> Peer;
    app() -> &str;
    start_unix_ns() -> u64;
    clock_source() -> ClockSource;
    is_coarse() -> bool;
    header() -> &SessionHeader;
    ring_count() -> usize;
    rings_from(first: usize) -> Vec<Arc<Ring>>;
    callsites_from(place: usize) -> (Vec<(u32, Vec<u8>)>, usize);
    is_table_damaged() -> bool;
    control(id: u32) -> Option<&ControlEntry>;
    rules() -> &RulesFile;
    counts(id: u32) -> Option<&CallsiteCounts>;
    recycle(ring: &Ring) -> ();
    set_asleep(asleep: bool) -> ();
}
