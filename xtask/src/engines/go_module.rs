//! Programs of Go modules whose module is no dependency of another one: built in a copy of the module.

use crate::shell::{Call, Failure};
use std::path::{Path, PathBuf};

/// Builds a program of a module, once, with the replacements of paths within its repository left out, which the module does
/// not have.
pub(super) fn build(
    tools: &Path,
    module: &str,
    package: &str,
    left_out: &[&str],
) -> Result<PathBuf, Failure> {
    let program = tools.join("program");
    if program.exists() {
        return Ok(program);
    }
    let download = Call::new("go").words("mod download -json").arg(module).stdout()?;
    let found: serde_json::Value = serde_json::from_str(&download)
        .map_err(|cause| Failure::new(format!("go mod download: {cause}"), ""))?;
    let source = tools.join("source");
    if !source.exists() {
        let from = found["Dir"].as_str().unwrap_or_default().to_owned();
        let (copy, to) = (tools.join("copy"), source.display().to_string());
        let copy = copy.display().to_string();
        Call::new("cp").args(["-r", &from, &copy]).run()?;
        Call::new("chmod").args(["-R", "u+w", &copy]).run()?;
        Call::new("mv").args([&copy, &to]).run()?;
    }
    for replaced in left_out {
        Call::new("go")
            .words("mod edit")
            .arg(format!("-dropreplace={replaced}"))
            .dir(&source)
            .run()?;
    }
    let target = program.display().to_string();
    Call::new("go")
        .words("build -mod=mod -p 2 -ldflags -s -o")
        .args([&target, package])
        .dir(&source)
        .run()?;
    Ok(program)
}
