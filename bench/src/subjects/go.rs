//! Loggers of Go: one program, `clients/go/bench`, that makes their calls and measures itself.
//!
//! `cargo xtask bench` builds it in `target/go-bench`, where Go is present, with the program that drains; what is not
//! built there is left out.

use super::cpp::parse;
use crate::harness::Samples;
use crate::{BenchError, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    )
}

fn program() -> PathBuf {
    target().join("go-bench").join("bench")
}

/// Whether the program was built.
#[must_use]
pub fn is_built() -> bool {
    program().is_file()
}

/// Runs a workload with a subject; its metrics are what it prints. The log lies at `path` afterwards.
pub fn measure(subject: &str, workload: &str, path: &Path, settings: &[(&str, String)]) -> Result<Samples> {
    let program = program();
    let output = Command::new(&program)
        .arg(workload)
        .arg(subject)
        .arg(format!("path={}", path.display()))
        .args(settings.iter().map(|(key, value)| format!("{key}={value}")))
        .env("LOGDRIVE_BIN", target().join("release").join("logdrive"))
        .env("LOGDRIVE_AGENT", "off")
        .env_remove("LOGDRIVE")
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
