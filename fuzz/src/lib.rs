//! Code that several fuzz targets share.
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names the directory in which a child process is to make its session.
const MAKE: &str = "LOGDRIVE_FUZZ_MAKE";

/// A directory with what `make` made in it, in a child process that was then killed: a session keeps its memory mapped
/// for ever, which the leak checker would report, and its process must be dead before it can be recovered.
pub fn made_by_child(name: &str, make: impl Fn(&Path)) -> PathBuf {
    if let Some(dir) = std::env::var_os(MAKE) {
        make(Path::new(&dir));
        println!("made");
        std::io::stdout().flush().expect("the parent listens");
        loop {
            std::thread::park();
        }
    }
    let dir = std::env::temp_dir().join(format!("logdrive-fuzz-{name}-{}", std::process::id()));
    // The child is this same target, and comes here with its first input.
    let mut child = Command::new(std::env::current_exe().expect("a program has a path"))
        .arg("-runs=1")
        .env(MAKE, &dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child can be started");
    let output = BufReader::new(child.stdout.take().expect("it was asked for"));
    let made = output.lines().map_while(Result::ok).any(|line| line == "made");
    child.kill().expect("a child can be killed");
    child.wait().expect("it ends");
    assert!(made, "the session could not be made in {}", dir.display());
    dir
}

/// The only session of a run directory.
pub fn session_in(run_dir: &Path) -> PathBuf {
    let found = logdrive_ring::find_sessions(run_dir).expect("the directory can be listed");
    found.into_iter().next().expect("the child made a session").path
}
