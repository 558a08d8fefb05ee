//! Keeps full runs under `bench/runs/`, so that figures compare over time.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::machine::MachineFacts;
use crate::{BenchError, Result};

/// One date and workload has at most this many runs kept.
const MAX_RUNS_A_DAY: u32 = 1_000;

/// The directory of kept runs.
#[must_use]
pub fn runs_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("runs")
}

/// Cargo's target directory, which the environment may have moved.
#[must_use]
pub fn target_dir() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(default, PathBuf::from)
}

/// Path of a file in the directory for scratch that belongs to this process alone; `place` names it.
pub fn scratch_file(place: &str) -> Result<PathBuf> {
    Ok(scratch_dir()?.join(format!("{place}-{}.log", std::process::id())))
}

/// The directory for files that a benchmark writes and deletes again.
pub fn scratch_dir() -> Result<PathBuf> {
    let dir = target_dir().join("bench");
    std::fs::create_dir_all(&dir).map_err(BenchError::io("create", &dir))?;
    dir.canonicalize().map_err(BenchError::io("open", &dir))
}

/// Writes a run as `DATE-WORKLOAD.jsonl` into `dir`, with the machine's facts
/// in the first line; a second run of the day is numbered.
pub fn keep(dir: &Path, workload: &str, facts: &MachineFacts, lines: &[String]) -> Result<PathBuf> {
    std::fs::create_dir_all(dir).map_err(BenchError::io("create", dir))?;
    let date = facts.date.get(..10).unwrap_or("undated");
    for number in 1..=MAX_RUNS_A_DAY {
        let name = match number {
            1 => format!("{date}-{workload}.jsonl"),
            _ => format!("{date}-{workload}-{number}.jsonl"),
        };
        let path = dir.join(name);
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            other => other.map_err(BenchError::io("create", &path))?,
        };
        let text = format!("{}\n{}\n", serde_json::to_string(facts)?, lines.join("\n"));
        file.write_all(text.as_bytes())
            .map_err(BenchError::io("write", &path))?;
        return Ok(path);
    }
    Err(BenchError::new(format!(
        "{} already holds {MAX_RUNS_A_DAY} runs of {workload} of {date}; delete some",
        dir.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_of_a_day_does_not_replace_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let facts = MachineFacts {
            date: "2026-11-21T12:00:00Z".to_string(),
            ..MachineFacts::collect("cargo xtask bench glog".to_string())
        };
        let first = keep(dir.path(), "glog", &facts, &["{}".to_string()]).unwrap();
        let second = keep(dir.path(), "glog", &facts, &["{}".to_string()]).unwrap();
        assert!(first.ends_with("2026-11-21-glog.jsonl"));
        assert!(second.ends_with("2026-11-21-glog-2.jsonl"));
        let text = std::fs::read_to_string(&first).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().next().unwrap().contains("\"cores\":"));
    }
}
