//! Damage of the header of a dead process's session, which is mended, so that it costs none of the records.

use super::{MAGIC, SessionHeader};
use crate::clock::{Calibrator, ClockSource, unix_ns};
use crate::limits::{CALLSITES_MAX, RINGS_MAX, TABLE_BYTES_MAX};
use crate::process_identity::ProcessIdentity;
use crate::session::reader::DamageNotes;
use crate::session_account::SessionAccount;
use crate::{DropReason, RingError};
use core::sync::atomic::Ordering;
use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The part of the magic in front of the version.
const MAGIC_NAME: u64 = (1 << 48) - 1;

/// Identity of a session by its directory, where the header is damaged.
#[derive(Debug)]
pub(crate) struct SessionName {
    /// Name of the application, as far as the directory's name has it.
    pub(crate) app: String,
    pub(crate) pid: u32,
    /// Time at which the directory was made; 0 where that is not name.
    pub(crate) start_unix_ns: u64,
    /// Set if the machine was not started since, so that its clock goes on.
    pub(crate) is_of_this_boot: bool,
}

impl SessionName {
    /// Session in a directory `APP-PID-N`.
    pub(crate) fn of(dir: &Path) -> Self {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let mut parts = name.rsplitn(3, '-').skip(1);
        let pid = parts.next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
        let app = parts.next().unwrap_or(&name).to_owned();
        let found = fs::symlink_metadata(dir);
        let made = found.and_then(|found| found.created().or_else(|_| found.modified()));
        let made = made.ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        let start_unix_ns = made.map_or(0, |made| made.as_nanos() as u64);
        Self {
            app,
            pid,
            start_unix_ns,
            is_of_this_boot: start_unix_ns > unix_ns().saturating_sub(since_boot_ns()),
        }
    }
}

/// Nanoseconds since the machine was started.
fn since_boot_ns() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return crate::sys::clock_ns(libc::CLOCK_BOOTTIME);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    crate::clock::monotonic_ns()
}

/// Mends the header, where it is damaged and not that of another version. For a recoverer. What is found is noted first,
/// so that one that is killed in between leaves no damage untold. `told_of_rings` are the drops that the log tells, where the
/// header's account of them is lost.
///
/// # Errors
/// When it is the header of another version.
pub(crate) fn mend(
    header: &SessionHeader,
    name: &SessionName,
    notes: &mut DamageNotes,
    told_of_rings: impl FnOnce() -> [u64; DropReason::COUNT],
) -> Result<(), RingError> {
    if let Err(error) = header
        .identity
        .check()
        .and_then(|()| header.identity.check_whole())
    {
        let magic = header.identity.magic.load(Ordering::Relaxed);
        if let Some(mended) = header.identity.mended() {
            notes.note(&format!("{error}; one byte was mended"));
            header.identity.store(&mended);
        } else if magic != MAGIC && magic & MAGIC_NAME == MAGIC & MAGIC_NAME {
            return Err(error);
        } else {
            let text = format!("{error}; the process is known by the name of its directory");
            let text_of_lost = format!(
                "{text}, times are by the clock of this machine, and drops without a ring and the cause of the end are lost"
            );
            // One that an earlier recoverer had begun to make again is not empty.
            let is_lost = notes.lines().contains(&text_of_lost)
                || header.calibration().is_none() && header.account(u64::MAX) == SessionAccount::default();
            notes.note(if is_lost { &text_of_lost } else { &text });
            rebuild(header, name, is_lost.then(told_of_rings));
        }
    }
    mend_counts(header, notes);
    Ok(())
}

/// Makes the words of the identity again, and with the drops that are told those of the rest of the page, which is lost. The
/// identity comes last: without it, another recoverer begins again.
fn rebuild(header: &SessionHeader, name: &SessionName, told_of_rings: Option<[u64; DropReason::COUNT]>) {
    let process = ProcessIdentity {
        pid: name.pid,
        ..ProcessIdentity::default()
    };
    let clock = ClockSource::detect();
    if let Some(told_of_rings) = told_of_rings {
        header.account.store_base(SessionAccount {
            told_of_rings,
            ..SessionAccount::default()
        });
        if name.is_of_this_boot {
            header.store_calibration(&Calibrator::start(clock).current());
        }
    }
    header
        .identity
        .format(&process, &name.app, clock, name.start_unix_ns);
}

/// Takes back counts that the format does not allow: what there is, is found without them.
fn mend_counts(header: &SessionHeader, notes: &mut DamageNotes) {
    // Relaxed: the process is dead.
    let is_wrong = header.ring_count.load(Ordering::Relaxed) as usize > RINGS_MAX
        || header.callsite_count.load(Ordering::Relaxed) as usize > CALLSITES_MAX
        || header.table_bytes.load(Ordering::Relaxed) > TABLE_BYTES_MAX as u64;
    if !is_wrong {
        return;
    }
    notes.note("a count of the session header is damaged: the files were counted");
    let clamp = |count: u32, limit: usize| count.min(limit as u32);
    let rings = clamp(header.ring_count.load(Ordering::Relaxed), RINGS_MAX);
    let callsites = clamp(header.callsite_count.load(Ordering::Relaxed), CALLSITES_MAX);
    let bytes = header
        .table_bytes
        .load(Ordering::Relaxed)
        .min(TABLE_BYTES_MAX as u64);
    header.publish_ring_count(rings);
    header.publish_callsite(callsites, bytes);
}
