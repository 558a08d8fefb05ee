//! Admission of sessions and rings: what a process would take, against all limits that it is under.

use super::{ServerOptions, refused};
use crate::config::{Limits, Process, Quota, Recorder, keep_bytes_of};
use crate::limits::SESSION_BYTES;
use logdrive_ring::{HostedSession, Ring};
use logdrive_wire::agent::{Refused, RefusedCode};
use std::sync::Arc;

/// Resources that some processes take.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    processes: u64,
    rings: u64,
    memory_bytes: u64,
}

impl Usage {
    fn of<'a>(recorders: &[Recorder], sessions: impl Iterator<Item = &'a Arc<HostedSession>>) -> Self {
        sessions.fold(Self::default(), |mut usage, session| {
            usage.processes += 1;
            usage.rings += session.ring_count() as u64;
            let process = Process {
                app: session.app(),
                pid: session.peer().pid,
                uid: session.peer().uid,
            };
            usage.memory_bytes += memory_bytes(session.ring_count(), session.options().ring_bytes);
            usage.memory_bytes += keep_bytes_of(recorders, &process);
            usage
        })
    }
}

pub(super) fn memory_bytes(rings: usize, ring_bytes: usize) -> u64 {
    SESSION_BYTES + rings as u64 * Ring::file_bytes(ring_bytes)
}

/// Resources that a process asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResourceRequest<'a> {
    pub(super) process: Process<'a>,
    /// True if it is a new session.
    pub(super) is_new: bool,
    /// Rings that the process has.
    pub(super) has: usize,
    /// Further rings.
    pub(super) rings: usize,
    pub(super) ring_bytes: usize,
}

/// Checks a request against the limits of the process, its user, its application and all together.
pub(super) fn check<'a>(
    options: &ServerOptions,
    sessions: impl Iterator<Item = &'a Arc<HostedSession>> + Clone,
    request: &ResourceRequest<'_>,
) -> Result<(), Refused> {
    let recorders = options.recorders.as_slice();
    let keep_bytes = keep_bytes_of(recorders, &request.process);
    let limits = options.limits.of(&request.process);
    let own = Usage {
        processes: 0,
        rings: request.has as u64,
        memory_bytes: if request.is_new {
            0
        } else {
            memory_bytes(request.has, request.ring_bytes) + keep_bytes
        },
    };
    let process = format!("process {}", request.process.pid);
    // Of its own number a process has one.
    let quota = Quota {
        processes: None,
        ..*limits.process
    };
    within(&quota, own, request, keep_bytes, &process)?;
    if let Some(quota) = limits.user {
        let of_user = |session: &&Arc<HostedSession>| session.peer().uid == request.process.uid;
        let usage = Usage::of(recorders, sessions.clone().filter(of_user));
        within(
            quota,
            usage,
            request,
            keep_bytes,
            &format!("user {}", request.process.uid),
        )?;
    }
    if let Some(quota) = limits.app {
        let of_app = |session: &&Arc<HostedSession>| session.app() == request.process.app;
        let usage = Usage::of(recorders, sessions.clone().filter(of_app));
        within(
            quota,
            usage,
            request,
            keep_bytes,
            &format!("application {}", request.process.app),
        )?;
    }
    within(
        limits.total,
        Usage::of(recorders, sessions),
        request,
        keep_bytes,
        "all processes together",
    )
}

fn within(
    quota: &Quota,
    usage: Usage,
    request: &ResourceRequest<'_>,
    keep_bytes: u64,
    owner: &str,
) -> Result<(), Refused> {
    let new_bytes = if request.is_new {
        SESSION_BYTES + keep_bytes
    } else {
        0
    };
    let bytes = new_bytes + request.rings as u64 * Ring::file_bytes(request.ring_bytes);
    let processes = u64::from(request.is_new);
    for (what, found, limit) in [
        (
            "processes",
            usage.processes + processes,
            quota.processes.map(u64::from),
        ),
        (
            "rings",
            usage.rings + request.rings as u64,
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
                format!("{owner} may have {limit} {what}, and this would be {found}"),
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
