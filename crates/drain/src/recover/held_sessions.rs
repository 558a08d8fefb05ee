//! Bound of what sessions of dead processes hold that cannot be recovered: a program that is killed again and again beside a
//! full disk would fill the memory of the machine. The oldest go first, and the log says with how many records.

use crate::limits::{HELD_BYTES, HELD_SESSIONS};
use crate::stats::Stats;
use crate::status::BackendStatus;
use logdrive_ring::{RingError, SessionReader};
use rustix::fs::statvfs;
use std::cmp::Reverse;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Processes that a line names.
const NAMED_MAX: usize = 8;

/// Sessions that are kept of one application until they can be recovered. The newest stays, whatever it holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldLimits {
    pub(crate) sessions: u64,
    pub(crate) bytes: u64,
}

impl Default for HeldLimits {
    fn default() -> Self {
        Self {
            sessions: HELD_SESSIONS,
            bytes: HELD_BYTES,
        }
    }
}

impl HeldLimits {
    /// The same for a run directory: no more than half of its file system, which living processes need, too.
    fn within(self, session: &Path) -> Self {
        let found = statvfs(session).map_or(0, |found| found.f_blocks.saturating_mul(found.f_frsize));
        let bytes = match found {
            // One without a bound.
            0 => self.bytes,
            found => self.bytes.min(found / 2),
        };
        Self { bytes, ..self }
    }
}

/// What was removed.
#[derive(Debug, Default)]
struct Removed {
    sessions: u64,
    records: u64,
    processes: Vec<String>,
}

/// Removes sessions that could not be recovered, the oldest first, until the rest is within the limits; one line in the
/// log says what they held.
pub(super) fn bound_held(sessions: &[PathBuf], limits: HeldLimits, status: &BackendStatus) {
    let Some(first) = sessions.first() else { return };
    let limits = limits.within(first);
    let mut by_age: Vec<(u64, &PathBuf)> = sessions.iter().map(|path| (start_of(path), path)).collect();
    by_age.sort_unstable_by_key(|(start, path)| Reverse((*start, *path)));
    let (mut kept, mut bytes) = (0, 0);
    let mut removed = Removed::default();
    for (_, path) in by_age {
        bytes += held_bytes(path);
        kept += 1;
        // Another start may be at work on it, or it is of another version: then it stays.
        if kept > 1
            && (kept > limits.sessions || bytes > limits.bytes)
            && let Ok(held) = remove(path)
        {
            removed.sessions += 1;
            removed.records += held.records;
            removed.processes.push(held.pid.to_string());
        }
    }
    if removed.sessions > 0 {
        status.notice(describe(&removed, limits));
    }
}

/// Bytes of memory, or of a disk, that the files of a session have.
pub(super) fn held_bytes(session: &Path) -> u64 {
    let files = std::fs::read_dir(session).into_iter().flatten().flatten();
    let blocks = files.filter_map(|file| Some(file.metadata().ok()?.blocks()));
    blocks.sum::<u64>() * 512
}

/// Start of the process of a session, in nanoseconds since 1970.
fn start_of(session: &Path) -> u64 {
    let of_header = SessionReader::open(session).map(|session| session.header().identity().start_unix_ns);
    of_header.unwrap_or_else(|_| {
        let made = std::fs::symlink_metadata(session).and_then(|found| found.modified());
        let since = made.ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        since.map_or(0, |since| since.as_nanos() as u64)
    })
}

/// A session that was removed with all that it held.
struct RemovedSession {
    pid: u32,
    records: u64,
}

fn remove(session: &Path) -> Result<RemovedSession, RingError> {
    let session = SessionReader::adopt(session)?;
    let removed = RemovedSession {
        pid: session.header().identity().pid,
        records: Stats::of_view(&session).pending(),
    };
    // It is marked as done in any case, so that nobody recovers it any more: a later start removes what stays of it.
    let _ = session.remove();
    Ok(removed)
}

fn describe(removed: &Removed, limits: HeldLimits) -> String {
    let named = removed.processes.iter().take(NAMED_MAX).map(String::as_str);
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match removed.processes.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "{} records of {} sessions of earlier processes dropped: they cannot be recovered, and of such sessions the newest are \
         kept, {} of an application with {} KiB together; these were of processes {named}{more}",
        removed.records,
        removed.sessions,
        limits.sessions,
        limits.bytes >> 10,
    )
}
