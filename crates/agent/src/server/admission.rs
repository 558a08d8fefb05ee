//! Admission of sessions, rings and flight recorders: what a process would take, against all limits that it is under.

use super::options::ServerOptions;
use super::refusal::refused;
use super::sessions::{ServedSession, Sessions};
use crate::config::{Limits, Process, Quota, keep_bytes_of};
use crate::limits::SESSION_BYTES;
use logdrive_ring::HostedSession;
use logdrive_wire::agent::{Refused, RefusedCode};
use std::fmt;

/// The least that a flight recorder can have.
const KEEP_BYTES_MIN: u64 = 1 << 20;

/// Rings that a process asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResourceRequest<'a> {
    pub(super) process: Process<'a>,
    /// Session that they are for; `None` for a new one, which takes memory itself.
    pub(super) session: Option<u64>,
    pub(super) rings: usize,
    /// Bytes of their files.
    pub(super) bytes: u64,
}

impl<'a> ResourceRequest<'a> {
    /// Further rings of a session.
    pub(super) fn more_rings(session: &'a HostedSession, rings: usize, bytes: u64) -> Self {
        Self {
            process: Process::from(session),
            session: Some(session.id()),
            rings,
            bytes,
        }
    }
}

/// Processes that a quota is for.
enum Scope<'a> {
    /// One process, whose session is this one.
    Process(u32, Option<u64>),
    User(u32),
    App(&'a str),
    All,
}

impl Scope<'_> {
    fn includes(&self, session: &HostedSession) -> bool {
        match self {
            Self::Process(_, of) => *of == Some(session.id()),
            Self::User(user) => session.peer().uid == *user,
            Self::App(app) => session.app() == *app,
            Self::All => true,
        }
    }
}

impl fmt::Display for Scope<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid, _) => write!(formatter, "process {pid}"),
            Self::User(user) => write!(formatter, "user {user}"),
            Self::App(app) => write!(formatter, "application {app}"),
            Self::All => formatter.write_str("all processes together"),
        }
    }
}

/// The quotas that a process is under, the narrowest first.
fn quotas<'a>(
    limits: &Limits,
    process: Process<'a>,
    session: Option<u64>,
) -> impl Iterator<Item = (Scope<'a>, Quota)> {
    let quotas = limits.of(&process);
    // Of its own number a process has one.
    let own = Quota {
        processes: None,
        ..*quotas.process
    };
    [
        (Scope::Process(process.pid, session), Some(own)),
        (Scope::User(process.uid), quotas.user.copied()),
        (Scope::App(process.app), quotas.app.copied()),
        (Scope::All, Some(*quotas.total)),
    ]
    .into_iter()
    .filter_map(|(scope, quota)| Some((scope, quota?)))
}

/// Bytes of shared memory of a session.
fn session_bytes(session: &HostedSession) -> u64 {
    SESSION_BYTES + session.rings_bytes()
}

/// Checks a request against the limits of the process, its user, its application and all together.
pub(super) fn check(
    options: &ServerOptions,
    sessions: &Sessions,
    request: &ResourceRequest<'_>,
) -> Result<(), Refused> {
    let keep_bytes = |process: &Process<'_>| keep_bytes_of(&options.recorders, process);
    let is_new = request.session.is_none();
    for (scope, quota) in quotas(&options.limits, request.process, request.session) {
        let mut processes = u64::from(is_new);
        let mut rings = request.rings as u64;
        let mut bytes = request.bytes;
        if is_new {
            bytes += SESSION_BYTES + keep_bytes(&request.process);
        }
        for session in sessions.iter().map(|served| &*served.session) {
            if scope.includes(session) {
                processes += 1;
                rings += session.ring_count() as u64;
                bytes += session_bytes(session) + keep_bytes(&Process::from(session));
            }
        }
        for (what, found, limit) in [
            ("processes", processes, quota.processes.map(u64::from)),
            ("rings", rings, quota.rings.map(u64::from)),
            ("bytes of shared memory", bytes, quota.memory_bytes),
        ] {
            if let Some(limit) = limit.filter(|limit| found > *limit) {
                return Err(refused(
                    RefusedCode::Limit,
                    format!("{scope} may have {limit} {what}, and this would be {found}"),
                    "end some, or raise the limit in the agent's configuration",
                ));
            }
        }
    }
    Ok(())
}

/// The most rings of one process.
pub(super) fn rings_max(limits: &Limits, process: &Process<'_>) -> usize {
    let most = logdrive_ring::limits::RINGS_MAX as u32;
    limits.of(process).process.rings.unwrap_or(most).min(most) as usize
}

/// Bytes of a flight recorder that a process may ask for.
pub(super) fn keep_bytes_wanted(bytes: u64) -> u64 {
    bytes.clamp(KEEP_BYTES_MIN, logdrive_ring::limits::KEEP_BYTES_MAX as u64)
}

/// Returns the bytes of a flight recorder that all limits leave for a session; 0 where that is less than the least.
pub(super) fn keep_bytes_granted(
    limits: &Limits,
    sessions: &Sessions,
    session: &HostedSession,
    wanted: u64,
) -> u64 {
    // A new request replaces the earlier one.
    let keep_bytes = |other: &ServedSession| match other.session.id() == session.id() {
        true => 0,
        false => other.keep_bytes,
    };
    let left = |(scope, quota): (Scope<'_>, Quota)| {
        let used = sessions.iter().filter(|other| scope.includes(&other.session));
        let used = used.map(|other| session_bytes(&other.session).saturating_add(keep_bytes(other)));
        let used = used.fold(0, u64::saturating_add);
        Some(quota.memory_bytes?.saturating_sub(used))
    };
    let least = quotas(limits, Process::from(session), Some(session.id()))
        .filter_map(left)
        .min();
    let granted = least.unwrap_or(u64::MAX).min(wanted);
    if granted < KEEP_BYTES_MIN { 0 } else { granted }
}
