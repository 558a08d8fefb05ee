//! Processes that the kernel has killed for lack of memory, as it counts them: in a control group, and on the machine. A
//! count that has risen since a session began tells a SIGKILL that the kernel sent from one that somebody sent.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Counts at one moment. Each is one more than the kernel's, and 0 is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MemoryKills {
    /// Inode of the control group's directory.
    pub(crate) group: u64,
    /// Count of the control group.
    pub(crate) in_group: u64,
    /// Count of the machine.
    pub(crate) on_machine: u64,
}

/// Kills for lack of memory since a session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfMemory {
    /// Number of kills in the process's control group.
    InGroup(u64),
    /// Number of kills on the machine; nothing is known of the control group.
    OnMachine(u64),
}

impl MemoryKills {
    /// Counts of the calling process's control group and of the machine. Reads three files at most.
    pub(crate) fn now() -> Self {
        let (group, in_group) = group().unwrap_or_default();
        let machine = fs::read_to_string("/proc/vmstat").ok();
        let on_machine = machine.as_deref().and_then(count_in);
        Self {
            group,
            in_group,
            on_machine: on_machine.map_or(0, |kills| kills + 1),
        }
    }

    /// The kills from these counts to those of now. A control group is compared with itself only.
    pub(crate) fn until(self, now: Self) -> Option<OutOfMemory> {
        let risen = |before: u64, after: u64| match (before, after.checked_sub(before)) {
            (0, _) | (_, None | Some(0)) => None,
            (_, kills) => kills,
        };
        if self.group != 0 && self.group == now.group && now.in_group != 0 {
            return risen(self.in_group, now.in_group).map(OutOfMemory::InGroup);
        }
        risen(self.on_machine, now.on_machine).map(OutOfMemory::OnMachine)
    }
}

/// The inode and the count of the calling process's control group, of either version.
fn group() -> Option<(u64, u64)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        // A path from outside of a container leads nowhere inside, where the group is the top.
        let (tops, file): (&[&str], _) = if controllers.is_empty() {
            (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], "memory.events")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (&["/sys/fs/cgroup/memory"], "memory.oom_control")
        } else {
            return None;
        };
        let dirs = tops
            .iter()
            .flat_map(|top| [PathBuf::from(top).join(path), PathBuf::from(top)]);
        dirs.into_iter().find_map(|dir| {
            let kills = count_in(&fs::read_to_string(dir.join(file)).ok()?)?;
            Some((fs::metadata(dir).ok()?.ino(), kills + 1))
        })
    })
}

/// Reads the line `oom_kill N`.
fn count_in(text: &str) -> Option<u64> {
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    let count: u64 = count.trim().parse().ok()?;
    (count < u64::MAX).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_found_among_others() {
        assert_eq!(count_in("low 0\noom 2\noom_kill 1\noom_group_kill 3\n"), Some(1));
        assert_eq!(count_in("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"), Some(7));
        assert_eq!(count_in("oom_kill x"), None);
    }

    #[test]
    fn only_a_count_that_has_risen_says_something() {
        let start = MemoryKills {
            group: 5,
            in_group: 1,
            on_machine: 11,
        };
        let changed = |group, in_group, on_machine| {
            start.until(MemoryKills {
                group,
                in_group,
                on_machine,
            })
        };
        assert_eq!(changed(5, 2, 12), Some(OutOfMemory::InGroup(1)));
        // Another process of the machine was killed.
        assert_eq!(changed(5, 1, 12), None);
        assert_eq!(changed(6, 9, 13), Some(OutOfMemory::OnMachine(2)));
        assert_eq!(changed(0, 0, 11), None);
        // The machine was started anew.
        assert_eq!(changed(0, 0, 3), None);
        assert_eq!(MemoryKills::default().until(start), None);
    }
}
