//! Whether a process may have a session, or more rings: what it would take, against all limits that it is under.

use super::{ServerOptions, refused};
use crate::config::{Limits, Process, Quota, Recorder, keep_bytes_of};
use crate::limits::SESSION_BYTES;
use logdrive_ring::{Ring, SharedSession};
use logdrive_wire::agent::{Refused, RefusedCode};
use std::sync::Arc;

/// What some processes take.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    processes: u64,
    rings: u64,
    memory_bytes: u64,
}

impl Usage {
    fn of<'a>(recorders: &[Recorder], sessions: impl Iterator<Item = &'a Arc<SharedSession>>) -> Self {
        sessions.fold(Self::default(), |mut usage, session| {
            usage.processes += 1;
            usage.rings += session.ring_count() as u64;
            let process = Process {
                app: session.app(),
                pid: session.peer().pid,
                uid: session.peer().uid,
            };
            usage.memory_bytes += memory_bytes(session.ring_count(), session.ring_bytes());
            usage.memory_bytes += keep_bytes_of(recorders, &process);
            usage
        })
    }
}

pub(super) fn memory_bytes(rings: usize, ring_bytes: usize) -> u64 {
    SESSION_BYTES + rings as u64 * Ring::file_bytes(ring_bytes)
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) process: Process<'a>,
    /// Whether it is a new session.
    pub(super) is_new: bool,
    /// Rings that the process has.
    pub(super) has: usize,
    /// Further rings.
    pub(super) rings: usize,
    pub(super) ring_bytes: usize,
}

/// Checks a wish against the limits of the process, its user, its application and all together.
pub(super) fn check<'a>(
    options: &ServerOptions,
    sessions: impl Iterator<Item = &'a Arc<SharedSession>> + Clone,
    wish: &Wish<'_>,
) -> Result<(), Refused> {
    let recorders = options.recorders.as_slice();
    let keep_bytes = keep_bytes_of(recorders, &wish.process);
    let allowance = options.limits.of(&wish.process);
    let own = Usage {
        processes: 0,
        rings: wish.has as u64,
        memory_bytes: if wish.is_new {
            0
        } else {
            memory_bytes(wish.has, wish.ring_bytes) + keep_bytes
        },
    };
    let process = format!("process {}", wish.process.pid);
    // Of its own number a process has one.
    let quota = Quota {
        processes: None,
        ..*allowance.process
    };
    within(&quota, own, wish, keep_bytes, &process)?;
    if let Some(quota) = allowance.user {
        let of_user = |session: &&Arc<SharedSession>| session.peer().uid == wish.process.uid;
        let usage = Usage::of(recorders, sessions.clone().filter(of_user));
        within(
            quota,
            usage,
            wish,
            keep_bytes,
            &format!("user {}", wish.process.uid),
        )?;
    }
    if let Some(quota) = allowance.app {
        let of_app = |session: &&Arc<SharedSession>| session.app() == wish.process.app;
        let usage = Usage::of(recorders, sessions.clone().filter(of_app));
        within(
            quota,
            usage,
            wish,
            keep_bytes,
            &format!("application {}", wish.process.app),
        )?;
    }
    within(
        allowance.total,
        Usage::of(recorders, sessions),
        wish,
        keep_bytes,
        "all processes together",
    )
}

fn within(quota: &Quota, usage: Usage, wish: &Wish<'_>, keep_bytes: u64, whose: &str) -> Result<(), Refused> {
    let new_bytes = if wish.is_new {
        SESSION_BYTES + keep_bytes
    } else {
        0
    };
    let bytes = new_bytes + wish.rings as u64 * Ring::file_bytes(wish.ring_bytes);
    let processes = u64::from(wish.is_new);
    for (what, found, limit) in [
        (
            "processes",
            usage.processes + processes,
            quota.processes.map(u64::from),
        ),
        (
            "rings",
            usage.rings + wish.rings as u64,
            quota.rings.map(u64::from),
        ),
        (
            "bytes of shared memory",
            usage.memory_bytes + bytes,
            quota.memory_bytes,
        ),
    ] {
        if let Some(limit) = limit.filter(|limit| found > *limit) {
            return Err(refused(
                RefusedCode::Limit,
                format!("{whose} may have {limit} {what}, and this would be {found}"),
                "end some, or raise the limit in the agent's configuration",
            ));
        }
    }
    Ok(())
}

/// The most rings of one process.
pub(super) fn rings_max(limits: &Limits, process: &Process<'_>) -> usize {
    let most = logdrive_ring::limits::RINGS_MAX as u32;
    limits.of(process).process.rings.unwrap_or(most).min(most) as usize
}
