//! Bound of what sessions of dead processes hold that cannot be recovered: a program that is killed again and again beside a
//! full disk would fill the memory of the machine. The oldest go first, and the log says with how many records.

use crate::limits::{HELD_BYTES, HELD_SESSIONS, HELD_TOLD};
use crate::stats::Stats;
use crate::status::{BackendStatus, tell};
use logdrive_ring::SessionReader;
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

/// Removes sessions that could not be recovered, the oldest first, until the rest is within the limits. One line in the log
/// says what they held, and comes before: a kill in between leaves them to the next start, which says so again.
pub(super) fn bound_held(sessions: &[PathBuf], limits: HeldLimits, status: &BackendStatus) {
    let Some(first) = sessions.first() else { return };
    let limits = limits.within(first);
    let mut by_age: Vec<(u64, &PathBuf)> = sessions.iter().map(|path| (start_of(path), path)).collect();
    by_age.sort_unstable_by_key(|(start, path)| Reverse((*start, *path)));
    let (mut kept, mut bytes) = (0, 0);
    let mut excess = Vec::new();
    for (_, path) in by_age {
        bytes += held_bytes(path);
        kept += 1;
        // Another start may be at work on it, or it is of another version: then it stays.
        if kept > 1
            && (kept > limits.sessions || bytes > limits.bytes)
            && let Ok(session) = SessionReader::adopt(path)
        {
            excess.push(session);
        }
    }
    if !excess.is_empty() && tell(status, describe(&excess, limits), HELD_TOLD) {
        for session in excess {
            // It is marked as done in any case, so that nobody recovers it any more: a later start removes what stays of it.
            let _ = session.remove();
        }
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

fn describe(excess: &[SessionReader], limits: HeldLimits) -> String {
    let pid_of = |session: &SessionReader| session.header().identity().pid.to_string();
    let named: Vec<String> = excess.iter().take(NAMED_MAX).map(pid_of).collect();
    let more = match excess.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let records = excess.iter().map(|session| Stats::of_view(session).pending());
    format!(
        "{} records of {} sessions of earlier processes dropped: they cannot be recovered, and of such sessions the newest are \
         kept, {} of an application with {} KiB together; these were of processes {}{more}",
        records.sum::<u64>(),
        excess.len(),
        limits.sessions,
        limits.bytes >> 10,
        named.join(", "),
    )
}
