//! A process that closes all descriptors gives the lock of its session up without knowing, and lives.
//!
//! The process is this program, started anew with a role to play.
#![cfg(all(target_os = "linux", not(loom), not(miri)))]

use logdrive_ring::{
    RingError, SessionOptions, SessionReader, SessionWriter, close_inherited, find_sessions,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Variable with the run directory of the process.
const RUN_DIR: &str = "LOGDRIVE_TEST_CLOSED_RUN_DIR";

fn options(run_dir: &Path) -> SessionOptions {
    SessionOptions {
        app: "closed".to_owned(),
        run_dirs: vec![run_dir.to_owned()],
        ring_bytes: 1 << 16,
        config: Vec::new(),
        sink_count: 0,
        buffers_per_sink: 0,
        buffer_bytes: 512 * 1024,
        sinks_at_start: 0,
        keep_bytes: 0,
    }
}

/// Makes a session, loses its descriptors, and does what a byte on standard input says.
fn play(run_dir: &Path) {
    let (session, _) = SessionWriter::create(&options(run_dir)).unwrap();
    close_inherited();
    println!("session {}", session.path().display());
    let mut byte = [0];
    std::io::stdin().read_exact(&mut byte).unwrap();
    if byte == *b"e" {
        let error = Command::new("sh").args(["-c", "echo executed; cat"]).exec();
        panic!("sh: {error}");
    }
    // It gives the session up, and lives on.
    drop(session);
    println!("released");
    std::io::stdin().read_exact(&mut byte).unwrap();
}

/// A process that has lost the lock of its session.
struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
    session: PathBuf,
    _dir: tempfile::TempDir,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(test: &str) -> Process {
    let dir = tempfile::tempdir().unwrap();
    let run_dir = dir.path().join("run");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(RUN_DIR, &run_dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let session = line_with(&mut output, "session ");
    let process = Process {
        session: PathBuf::from(session),
        child,
        input,
        output,
        _dir: dir,
    };
    let found = find_sessions(&run_dir).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].holder,
        Some(process.child.id()),
        "it lives, without its lock"
    );
    let refused = SessionReader::adopt(&process.session).unwrap_err();
    assert!(
        matches!(refused, RingError::Alive { pid, .. } if pid == process.child.id()),
        "{refused}"
    );
    assert!(SessionReader::open(&process.session).unwrap().is_alive());
    process
}

/// The rest of the next line with this text in it: the harness writes lines and names before it.
fn line_with(output: &mut impl BufRead, front: &str) -> String {
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 {
        if let Some((_, rest)) = line.split_once(front) {
            return rest.trim_end().to_owned();
        }
        line.clear();
    }
    panic!("the process has ended without a line of {front}");
}

/// Runs the role where this is the process that plays it.
fn plays() -> bool {
    let run_dir = std::env::var_os(RUN_DIR);
    run_dir.inspect(|run_dir| play(Path::new(run_dir))).is_some()
}

#[test]
fn a_session_stays_with_its_process_until_that_is_killed() {
    if plays() {
        return;
    }
    let mut process = start("a_session_stays_with_its_process_until_that_is_killed");
    process.child.kill().unwrap();
    // Until it is waited for, the process has a number and a start, and no life.
    while SessionReader::open(&process.session).unwrap().is_alive() {
        std::thread::yield_now();
    }
    SessionReader::adopt(&process.session).unwrap().remove().unwrap();
}

#[test]
fn a_session_is_left_behind_by_a_process_that_executes_another_program() {
    if plays() {
        return;
    }
    let mut process = start("a_session_is_left_behind_by_a_process_that_executes_another_program");
    process.input.write_all(b"e").unwrap();
    line_with(&mut process.output, "executed");
    assert!(!SessionReader::open(&process.session).unwrap().is_alive());
    SessionReader::adopt(&process.session).unwrap().remove().unwrap();
}

#[test]
fn a_session_that_its_process_has_given_up_is_a_recoverers() {
    if plays() {
        return;
    }
    let mut process = start("a_session_that_its_process_has_given_up_is_a_recoverers");
    process.input.write_all(b"r").unwrap();
    line_with(&mut process.output, "released");
    SessionReader::adopt(&process.session).unwrap().remove().unwrap();
}
