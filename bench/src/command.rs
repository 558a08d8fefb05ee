//! The command `logdrive`, where a workload needs it as a process.

use std::path::{Path, PathBuf};

use crate::{BenchError, Result};

/// Path of the command beside this program. `cargo xtask bench` builds both in one call, so that a run never takes
/// another version.
pub fn path() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(BenchError::io("find", Path::new("this program")))?;
    let path = own.with_file_name("logdrive");
    if path.exists() {
        return Ok(path);
    }
    Err(BenchError::Usage(
        "the command `logdrive` is not built; run this by `cargo xtask bench`".to_owned(),
    ))
}
