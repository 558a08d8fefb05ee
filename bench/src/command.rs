//! The command `logdrive`, where a workload needs it as a process.

use std::path::PathBuf;

use crate::{BenchError, Result};

/// Path of the command beside this program. `cargo xtask bench` builds both in one call, so that a run never takes
/// another version.
pub fn path() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("logdrive");
    if path.exists() {
        return Ok(path);
    }
    Err(BenchError::new(
        "the command `logdrive` is not built; run this by `cargo xtask bench`",
    ))
}
