//! Loggers of C++ and Go: programs that make their calls and measure themselves, see `bench/cpp/driver.hpp` and
//! `clients/go/bench`.
//!
//! `cargo xtask bench` builds them in `target/cpp-bench` and `target/go-bench`, where compilers are present; what is not
//! built there is left out.

use crate::harness::{Samples, runs::target_dir};
use crate::{BenchError, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C++: one program a subject.
    Cpp,
    /// Go: one program for all subjects, which also starts the command `logdrive`.
    Go,
}

impl Language {
    fn program(self, subject: &str) -> PathBuf {
        match self {
            Language::Cpp => target_dir().join("cpp-bench").join(subject),
            Language::Go => target_dir().join("go-bench/bench"),
        }
    }

    /// Returns true if the program of this subject was built.
    #[must_use]
    pub fn is_built(self, subject: &str) -> bool {
        self.program(subject).is_file()
    }

    /// Runs a workload with a subject; its metrics are what it prints. The log lies at `path` afterwards.
    pub fn measure(
        self,
        subject: &str,
        workload: &str,
        path: &Path,
        settings: &[(&str, String)],
    ) -> Result<Samples> {
        let program = self.program(subject);
        let mut command = Command::new(&program);
        command.arg(workload);
        if self == Language::Go {
            command
                .arg(subject)
                .env("LOGDRIVE_BIN", target_dir().join("release/logdrive"))
                .env("LOGDRIVE_AGENT", "off")
                .env_remove("LOGDRIVE");
        }
        let output = command
            .arg(format!("path={}", path.display()))
            .args(settings.iter().map(|(key, value)| format!("{key}={value}")))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(BenchError::io("start", &program))?;
        if !output.status.success() {
            return Err(BenchError::subject(
                subject,
                format_args!("ended with {}", output.status),
            ));
        }
        Ok(parse(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// Reports the subjects of C++ that were not built, and how to get what they need.
pub fn report_missing(subjects: &[&str]) {
    for subject in subjects.iter().filter(|subject| !Language::Cpp.is_built(subject)) {
        eprintln!("  left out: {subject}; {}", remedy(subject));
    }
}

fn remedy(subject: &str) -> &'static str {
    match subject {
        name if name.starts_with("logdrive") => {
            "needs C++ and CMake: apt-get install g++ cmake, then run `cargo xtask bench` again"
        }
        name if name.starts_with("glog") => "apt-get install g++ cmake libgoogle-glog-dev libgflags-dev",
        _ => "apt-get install g++ cmake libspdlog-dev",
    }
}

fn parse(text: &str) -> Samples {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    let values = pairs.filter_map(|(metric, value)| Some((metric, value.parse().ok()?)));
    values.fold(Samples::default(), |samples, (metric, value)| {
        samples.with(metric, value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_has_a_remedy() {
        assert!(remedy("glog-two").contains("libgoogle-glog-dev"));
        assert!(remedy("spdlog-async").contains("libspdlog-dev"));
        assert!(remedy("logdrive-cpp").contains("cmake"));
    }

    #[test]
    fn metrics_are_read_from_lines() {
        let samples = parse("wall_s 1.5\nnoise\ncalls 3e2\nnot a number\n");
        assert_eq!(samples.value("wall_s"), Some(1.5));
        assert_eq!(samples.value("calls"), Some(300.0));
        assert_eq!(samples.0.len(), 2);
    }
}
