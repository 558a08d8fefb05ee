//! Loggers of C++: programs that make their calls and measure themselves, see `bench/cpp/driver.hpp`.
//!
//! `cargo xtask bench` builds them in `target/cpp-bench` where a compiler and CMake are present; what is not built there is
//! left out.

use crate::harness::Samples;
use crate::{BenchError, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Path of a program.
fn program(subject: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    target.join("cpp-bench").join(subject)
}

/// Whether this subject is a program that was built.
#[must_use]
pub fn is_built(subject: &str) -> bool {
    program(subject).is_file()
}

/// Says which of these subjects were not built, and how to get what they need.
pub fn tell_missing(subjects: &[&str]) {
    for subject in subjects.iter().filter(|subject| !is_built(subject)) {
        eprintln!("  left out: {subject}; {}", remedy(subject));
    }
}

fn remedy(subject: &str) -> &'static str {
    if subject.starts_with("logdrive") {
        "needs C++ and CMake: apt-get install g++ cmake, then run `cargo xtask bench` again"
    } else if subject.starts_with("glog") {
        "apt-get install g++ cmake libgoogle-glog-dev libgflags-dev"
    } else {
        "apt-get install g++ cmake libspdlog-dev"
    }
}

/// Runs a workload with a subject; its metrics are what it prints.
pub fn measure(subject: &str, workload: &str, path: &Path, settings: &[(&str, String)]) -> Result<Samples> {
    let program = program(subject);
    let output = Command::new(&program)
        .arg(workload)
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
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(parse(&text))
}

pub(super) fn parse(text: &str) -> Samples {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(metric, value)| Some((metric, value.parse().ok()?)))
        .fold(Samples::default(), |samples, (metric, value)| {
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
