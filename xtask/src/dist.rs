//! `cargo xtask dist`: the command as it is passed on, without debug information, which lies in a file of its own.

use crate::args::{Args, Form};
use crate::shell::{Call, Failure, OBJCOPY, Outcome, root};
use std::path::Path;

/// Places the command and its debug information in `target/dist`. A debugger, and the backtrace of a panic, find the
/// second file where it lies beside the first.
pub(crate) fn run(args: &[String]) -> Outcome {
    Args::read(args, &Form::default())?;
    OBJCOPY.require()?;
    let root = root()?;
    Call::cargo()
        .words("build --release --locked --package logdrive-cli --bins")
        .dir(&root)
        .run()?;
    let target = crate::shell::target_dir(&root)?;
    let (built, dist) = (target.join("release/logdrive"), target.join("dist"));
    std::fs::create_dir_all(&dist)
        .map_err(|cause| Failure::new(format!("{} cannot be made: {cause}", dist.display()), ""))?;
    split(&built, &dist)?;
    for name in ["logdrive", "logdrive.debug"] {
        let path = dist.join(name);
        let bytes = std::fs::metadata(&path).map_or(0, |found| found.len());
        println!("{}: {:.1} MB", path.display(), bytes as f64 / 1e6);
    }
    Ok(())
}

/// Splits the program `built` into one without debug information and one with nothing else, both in `dist`.
fn split(built: &Path, dist: &Path) -> Outcome {
    let built = built.to_string_lossy();
    let objcopy = |words: &str| Call::new("objcopy").words(words).dir(dist);
    objcopy("--only-keep-debug --compress-debug-sections=zlib")
        .args([&built, "logdrive.debug"])
        .run()?;
    objcopy("--strip-all --add-gnu-debuglink=logdrive.debug")
        .args([&built, "logdrive"])
        .run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_debug_information_still_runs_and_names_the_other_file() {
        if !OBJCOPY.present() {
            return;
        }
        let dist = std::env::temp_dir().join(format!("logdrive-dist-{}", std::process::id()));
        std::fs::create_dir_all(&dist).expect("the temporary directory is writable");
        let own = std::env::current_exe().expect("a test is a program");
        split(&own, &dist).expect("objcopy splits the program");
        let bytes = std::fs::read(dist.join("logdrive")).expect("the program");
        let full_bytes = std::fs::metadata(&own).expect("the test").len();
        assert!((bytes.len() as u64) < full_bytes / 2);
        assert!(bytes.windows(14).any(|part| part == b"logdrive.debug"));
        assert!(Call::new(dist.join("logdrive")).arg("--list").succeeds());
        std::fs::remove_dir_all(&dist).expect("the directory is ours");
    }
}
