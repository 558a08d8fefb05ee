//! Use that this process made of the machine: processor time and memory.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// User and system time of all threads of this process, in seconds.
///
/// Returns 0 where the kernel does not say; a run that shows 0 is to be read
/// as 'unknown'.
#[must_use]
pub fn cpu_s() -> f64 {
    cpu_s_of(UsageWho::RUSAGE_SELF)
}

/// The same of all children that have been waited for, and of theirs.
#[must_use]
pub fn children_cpu_s() -> f64 {
    cpu_s_of(UsageWho::RUSAGE_CHILDREN)
}

fn cpu_s_of(who: UsageWho) -> f64 {
    let Ok(usage) = getrusage(who) else {
        return 0.0;
    };
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    micros as f64 / 1e6
}

/// The most memory that this process has had resident (`VmHWM`), in MiB.
///
/// The kernel counts a shared page once for every place it is mapped at.
#[must_use]
pub fn peak_rss_mib() -> f64 {
    std::fs::read_to_string("/proc/self/status").map_or(0.0, |status| peak_from_status(&status))
}

fn peak_from_status(status: &str) -> f64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|kib| kib.trim().parse::<f64>().ok())
        .map_or(0.0, |kib| kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_in_mebibytes() {
        let status = "Name:\tbench\nVmPeak:\t  9000 kB\nVmHWM:\t    2048 kB\n";
        assert_eq!(peak_from_status(status), 2.0);
        assert_eq!(peak_from_status("Name:\tbench\n"), 0.0);
    }
}
