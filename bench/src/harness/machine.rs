//! The facts about a machine without which its figures mean nothing.

use std::process::Command;

use serde::Serialize;

/// First line of a kept run.
#[derive(Clone, Debug, Serialize)]
pub struct MachineFacts {
    /// The processor's name.
    pub cpu: String,
    /// Logical processors.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// The compiler's version.
    pub rustc: String,
    /// The commit, with `-dirty` where the work tree differs from it.
    pub commit: String,
    /// The time of the run, in UTC.
    pub date: String,
    /// The command that repeats the run.
    pub command: String,
}

impl MachineFacts {
    /// Asks the machine; what cannot be found out is `unknown`.
    #[must_use]
    pub fn collect(command: String) -> MachineFacts {
        MachineFacts {
            cpu: cpu_name(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: memory_mib(&read("/proc/meminfo")),
            kernel: output_of("uname", &["-sr"]),
            rustc: output_of("rustc", &["--version"]),
            commit: output_of("git", &["describe", "--always", "--dirty", "--exclude=*"]),
            date: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            command,
        }
    }
}

fn read(path: &str) -> String {
    // A machine without this file is described as `unknown`.
    std::fs::read_to_string(path).unwrap_or_default()
}

fn cpu_name(cpuinfo: &str) -> String {
    value_of(cpuinfo, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_string())
}

fn memory_mib(meminfo: &str) -> u64 {
    value_of(meminfo, "MemTotal")
        .and_then(|value| value.split(' ').next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib / 1024)
}

fn value_of(text: &str, key: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim().to_string())
}

fn output_of(program: &str, args: &[&str]) -> String {
    Command::new(program)
        .args(args)
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string())
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| "unknown".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_the_kernel_files() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n";
        assert_eq!(cpu_name(cpuinfo), "Some CPU @ 3 GHz");
        assert_eq!(memory_mib("MemTotal:       2097152 kB\n"), 2048);
        assert_eq!(memory_mib(""), 0);
    }

    #[test]
    fn a_missing_program_is_unknown() {
        assert_eq!(output_of("no-such-program-here", &[]), "unknown");
    }
}
