//! The process that made a session, told from every other process of this boot: the second witness of its life, for
//! when its record lock is gone because something in the process has closed all descriptors.

use crate::sys;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Identity of a process. A number that is 0 is unknown; then only the record lock tells whether the process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProcessIdentity {
    /// Number of the process in its namespace.
    pub(crate) pid: u32,
    /// Its start, in clock ticks since the boot: field 22 of `/proc/PID/stat`.
    pub(crate) start_ticks: u64,
    /// Inode of its namespace of process numbers.
    pub(crate) namespace: u64,
    /// The first 8 bytes of the identity of the machine's boot.
    pub(crate) boot: u64,
}

impl ProcessIdentity {
    /// The calling process. Reads three files below `/proc`; what cannot be read stays 0.
    pub(crate) fn own() -> Self {
        Self {
            pid: std::process::id(),
            start_ticks: Stat::of("self").map_or(0, |stat| stat.start_ticks),
            namespace: fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino()),
            boot: boot().unwrap_or(0),
        }
    }

    /// A process that is known by its number alone.
    pub(crate) fn of_number(pid: u32) -> Self {
        Self {
            pid,
            ..Self::default()
        }
    }

    /// Returns true if this process, another one than the caller, lives and still has the session of this file. `false`
    /// where that cannot be known: for a process of another namespace or boot, or without `/proc`.
    ///
    /// A process that has executed another program has none of its memory any more; it lives, but not for the session.
    pub(crate) fn lives_with(&self, session: &File, path: &Path) -> bool {
        let caller = Self::own();
        let is_known = |number: u64| number != 0;
        if ![self.start_ticks, self.namespace, self.boot]
            .into_iter()
            .all(is_known)
            || (self.namespace, self.boot) != (caller.namespace, caller.boot)
            || self.pid == caller.pid
            || !numbers_are_ours(caller.pid)
        {
            return false;
        }
        let Some(stat) = Stat::of(&self.pid.to_string()) else {
            return false;
        };
        if stat.start_ticks != self.start_ticks || stat.has_ended {
            return false;
        }
        let Ok(found) = session.metadata() else {
            return true;
        };
        match maps(self.pid, found.ino(), path) {
            // The memory of a first thread that has ended before others is not shown.
            Ok(Maps::Hidden) => stat.threads > 1,
            Ok(Maps::Whole { has_session }) => has_session,
            // It ended just now.
            Err(error) => {
                error.kind() != ErrorKind::NotFound && error.raw_os_error() != Some(sys::NO_SUCH_PROCESS)
            }
        }
    }
}

impl ProcessIdentity {
    /// Returns true if a process of this number, another one than the caller, has mapped the file of a session: for one
    /// whose header does not say whose it is any more.
    pub(crate) fn has_mapped(&self, session: &File, path: &Path) -> bool {
        let caller = Self::own();
        let found = session.metadata();
        self.pid != 0
            && self.pid != caller.pid
            && numbers_are_ours(caller.pid)
            && found.is_ok_and(|found| {
                matches!(
                    maps(self.pid, found.ino(), path),
                    Ok(Maps::Whole { has_session: true })
                )
            })
    }

    /// Returns true if the process has not ended, whatever program it runs. `false` where that cannot be known.
    pub(crate) fn is_there(&self) -> bool {
        let caller = Self::own();
        self.start_ticks != 0
            && self.boot != 0
            && (self.namespace, self.boot) == (caller.namespace, caller.boot)
            && numbers_are_ours(caller.pid)
            && Stat::of(&self.pid.to_string())
                .is_some_and(|stat| stat.start_ticks == self.start_ticks && !stat.has_ended)
    }
}

/// Returns true if `/proc` shows the numbers of our own namespace.
fn numbers_are_ours(own: u32) -> bool {
    fs::read_link("/proc/self").is_ok_and(|name| name.as_os_str() == own.to_string().as_str())
}

/// Number of this boot of the machine: the first 8 bytes of its identity. Reads a file below `/proc`; `None` where there is
/// none.
#[cfg_attr(
    not(any(target_os = "linux", target_os = "android")),
    allow(unreachable_pub, reason = "only the collector needs it, for Linux")
)]
pub fn boot() -> Option<u64> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).ok()
}

/// The facts of `/proc/PID/stat` that tell a process from others.
struct Stat {
    start_ticks: u64,
    threads: u64,
    /// True if no thread of it runs any more.
    has_ended: bool,
}

impl Stat {
    fn of(process: &str) -> Option<Self> {
        Self::read(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    /// Reads the text; the name of the program may hold anything, and ends at the last parenthesis.
    fn read(text: &str) -> Option<Self> {
        let (_, behind) = text.rsplit_once(')')?;
        let mut fields = behind.split_ascii_whitespace();
        let state = fields.next()?;
        // Fields 20 and 22 of the whole; the first one behind the state is field 4.
        let threads: u64 = fields.nth(16)?.parse().ok()?;
        let start_ticks = fields.nth(1)?.parse().ok()?;
        Some(Self {
            start_ticks,
            threads,
            // The first thread may have ended before others.
            has_ended: matches!(state, "X" | "x") || (state == "Z" && threads <= 1),
        })
    }
}

/// The memory of a process, as `/proc/PID/maps` shows it.
enum Maps {
    Hidden,
    Whole { has_session: bool },
}

/// Searches the memory of a process for the file with this inode or path. The device is not compared, because some file
/// systems show another one there than to `stat`.
fn maps(pid: u32, inode: u64, path: &Path) -> io::Result<Maps> {
    let inode = inode.to_string();
    let mut lines = BufReader::new(File::open(format!("/proc/{pid}/maps"))?);
    let mut line = Vec::new();
    let mut is_empty = true;
    while lines.read_until(b'\n', &mut line)? > 0 {
        is_empty = false;
        let text = String::from_utf8_lossy(&line);
        let mut fields = text.split_ascii_whitespace().skip(3);
        let is_file = fields.next().is_some_and(|device| device != "00:00");
        if is_file
            && fields.next() == Some(inode.as_str())
            && text
                .trim_end()
                .rsplit('/')
                .next()
                .is_some_and(|name| name.starts_with("session"))
        {
            return Ok(Maps::Whole { has_session: true });
        }
        if path
            .to_str()
            .is_some_and(|path| text.trim_end().ends_with(&format!(" {path}")))
        {
            return Ok(Maps::Whole { has_session: true });
        }
        line.clear();
    }
    Ok(if is_empty {
        Maps::Hidden
    } else {
        Maps::Whole { has_session: false }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_behind_any_name_of_a_program() {
        let stat = |state, threads| {
            let text = format!(
                "7 (a) b) (c) {state} 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 4711 99 1 18446744073709551615"
            );
            Stat::read(&text).unwrap()
        };
        assert_eq!(stat("S", 1).start_ticks, 4711);
        assert!(!stat("S", 1).has_ended);
        assert!(stat("Z", 1).has_ended);
        assert!(!stat("Z", 2).has_ended, "another thread runs on");
        assert!(Stat::read("7 (short) S 1").is_none());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_itself_and_is_known_by_all_its_numbers() {
        let own = ProcessIdentity::own();
        assert_eq!(own, ProcessIdentity::own());
        assert!(
            own.start_ticks > 0 && own.namespace > 0 && own.boot > 0,
            "{own:?}"
        );
    }
}
