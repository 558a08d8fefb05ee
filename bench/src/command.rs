//! The command `logdrive`, where a workload needs it as a process.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{BenchError, Result};

/// Builds it as people use it, beside this program, so that a run never takes another version.
pub fn build() -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(&cargo)
        .args(["build", "--quiet", "--release", "--package", "logdrive-cli"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .status()
        .map_err(BenchError::io("run", Path::new(&cargo)))?;
    if status.success() && path()?.exists() {
        return Ok(());
    }
    Err(BenchError::Usage(
        "the command `logdrive` cannot be built; try `cargo build --release --package logdrive-cli`"
            .to_owned(),
    ))
}

/// Where it is.
pub fn path() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(BenchError::io("find", Path::new("this program")))?;
    Ok(own.with_file_name("logdrive"))
}
