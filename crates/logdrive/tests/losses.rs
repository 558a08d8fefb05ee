//! Losses on a full disk: what a sink could not write is told exactly, also by the log of a process that was killed.
//!
//! The disk is a small tmpfs, whose mount needs root; a program that floods it runs as a child: this test, started anew
//! with a role to play.
#![cfg(target_os = "linux")]

use logdrive::{File, Full, Guard, Level, Overflow, Stopped};
use logdrive_drain::Stats;
use logdrive_ring::{SessionReader, find_sessions};
use logdrive_testkit::{Process, directory, report, role, wait_for_input};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of the disk: less than a sink's buffers and the log need.
const DISK_BYTES: u64 = 8 << 20;
/// Debug records; a tenth of the errors' distance apart.
const FLOOD: u64 = 60_000;
const ERRORS: u64 = 100;
const CALLS: u64 = FLOOD + ERRORS;

/// Words of the line about records that a full disk did not take.
const FULL: &str = "the sink could not be written, no space left on device";

/// A small tmpfs that goes with the value.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    /// `None`, with a note, where mounts are not permitted.
    fn mount() -> Option<Self> {
        let dir = directory();
        let mut mount = Command::new("mount");
        let options = format!("size={DISK_BYTES},mode=0755");
        mount.args(["-t", "tmpfs", "-o", &options, "logdrive-test"]);
        match mount.arg(dir.path()).output() {
            Ok(output) if output.status.success() => Some(Self { dir }),
            other => {
                println!("skipped: no tmpfs can be mounted here ({other:?})");
                None
            }
        }
    }

    fn make_room(&self) {
        let mut mount = Command::new("mount");
        mount.args(["-o", "remount,size=256m"]).arg(self.dir.path());
        assert!(mount.status().expect("mount runs").success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A mount that stays costs this test's successors nothing.
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}

/// A log that is a pipe whose reader comes late.
fn start_with_pipe(pipe: &Path, dir: &Path) -> Guard {
    logdrive::builder("losses")
        .use_env(false)
        .filter("trace")
        .run_dir(dir.join("run"))
        .file(File::new(pipe))
        .full(Full::Block)
        .overflow(Overflow::Drop)
        .init()
        .expect("a logger")
}

/// Two logs on the small disk, one of them of errors alone, and one beside it that has room.
fn start(dir: &Path, disk: &Path) -> Guard {
    logdrive::builder("losses")
        .use_env(false)
        .filter("trace")
        .run_dir(dir.join("run"))
        .file(File::new(disk.join("all.log")))
        .file(File::new(disk.join("errors.log")).min_level(Level::Error))
        .file(File::new(dir.join("roomy.log")).min_level(Level::Info))
        .full(Full::Block)
        .overflow(Overflow::Drop)
        .init()
        .expect("a logger")
}

/// The program: fills the disk, says so, and waits; then ends as its role says.
fn play(role: &str) {
    let words: Vec<&str> = role.split(' ').collect();
    let [how, dir, disk] = words[..] else {
        panic!("no role: {role}");
    };
    let guard = match how {
        "pipe" => start_with_pipe(Path::new(disk), Path::new(dir)),
        _ => start(Path::new(dir), Path::new(disk)),
    };
    for number in 0..FLOOD {
        logdrive::debug!("flood {} {}", number, "x".repeat(300));
        if number % (FLOOD / ERRORS) == 0 {
            logdrive::error!("failure {}", number / (FLOOD / ERRORS));
        }
    }
    let stats = logdrive::stats().expect("it runs");
    assert_eq!(stats.committed, CALLS);
    if how == "stop" {
        let (stopped, _) = guard.stop().expect("it ran");
        assert_eq!(stopped, Stopped::LeftForRecovery);
        return report("flooded");
    }
    report("flooded");
    wait_for_input();
    if how == "end" || how == "pipe" {
        let (stopped, stats) = guard.stop().expect("it ran");
        assert_eq!(stopped, Stopped::Complete);
        assert_sums(&stats);
    }
}

fn assert_sums(stats: &Stats) {
    assert_eq!(stats.committed, CALLS);
    for sink in &stats.sinks {
        let accounted = sink.counts.written_records + sink.dropped() + sink.pending;
        assert_eq!(stats.committed, accounted, "{stats:#?}");
    }
}

/// A program on a small disk, and its files.
struct Rig {
    dir: tempfile::TempDir,
    disk: SmallDisk,
    process: Process,
}

impl Rig {
    fn start(test: &str, how: &str) -> Option<Self> {
        let disk = SmallDisk::mount()?;
        let dir = directory();
        let role = format!("{how} {} {}", dir.path().display(), disk.dir.path().display());
        let mut process = Process::in_role(test, &role);
        process.expect("flooded");
        Some(Self { dir, disk, process })
    }

    fn session(&self) -> PathBuf {
        let found = find_sessions(&self.dir.path().join("run")).expect("the run directory");
        assert_eq!(found.len(), 1);
        found[0].path.clone()
    }

    /// The log on the small disk.
    fn path(&self) -> PathBuf {
        self.disk.dir.path().join("all.log")
    }
}

fn count(log: &str, what: &str) -> u64 {
    log.lines().filter(|line| line.contains(what)).count() as u64
}

/// Records that gap lines of a log tell, those of the drain's sinks.
fn told(log: &str) -> u64 {
    let told = log.lines().filter_map(|line| {
        let (before, _) = line.split_once(" records dropped: ")?;
        before.rsplit(' ').next()?.parse::<u64>().ok()
    });
    told.sum()
}

/// Checks the log of a session whose records are all written or dropped.
fn assert_log_is_exact(log: &str, path: &str, end: &str, why: &str) {
    let (debug, errors) = (count(log, " flood "), count(log, " failure "));
    let dropped = CALLS - debug - errors;
    assert_eq!(told(log), dropped, "{debug} and {errors} of {CALLS}");
    assert_eq!(errors, ERRORS, "urgent lines have room of their own");
    let gap = log.lines().find(|line| line.contains(" records dropped: "));
    let gap = gap.expect("a line that tells what is missing");
    assert!(gap.contains(why) && gap.contains(", from 2"), "{gap}");
    // Notices of the logger about the disk have the time at which they came up.
    let is_of_calls = |line: &&str| {
        let words = [" flood ", " failure ", " records dropped: "];
        words.iter().any(|word| line.contains(word))
    };
    let lines: Vec<&str> = log.lines().filter(is_of_calls).collect();
    for pair in lines.windows(2) {
        assert!(pair[0].split(' ').next() <= pair[1].split(' ').next(), "{pair:?}");
    }
    let sums = format!(
        "{path}: {} written, {dropped} dropped (overflow {dropped})",
        debug + errors
    );
    assert!(end.contains(&sums), "{end:?} has no {sums:?}");
    assert!(dropped > 0, "the disk was not full");
}

/// A program that was killed while its disk was full: its counts hold before and after the recovery, which tells all.
#[test]
fn drops_of_a_full_disk_are_told_after_a_kill() {
    if let Some(role) = role() {
        return play(&role);
    }
    let Some(mut rig) = Rig::start("drops_of_a_full_disk_are_told_after_a_kill", "wait") else {
        return;
    };
    rig.process.kill();
    let session = rig.session();
    assert_sums(&Stats::of_view(
        &SessionReader::open(&session).expect("the session"),
    ));
    rig.disk.make_room();
    let recovered = logdrive_drain::recover(&session, None).expect("recovered");
    assert!(!session.exists());
    let path = rig.path();
    let log = std::fs::read_to_string(&path).expect("the log");
    assert_log_is_exact(&log, &path.to_string_lossy(), &recovered.end, FULL);
    assert!(
        log.trim_end().ends_with(&recovered.end),
        "the last line is the end"
    );
    assert!(
        recovered
            .end
            .contains(&format!("{CALLS} calls committed, 0 dropped")),
        "{}",
        recovered.end
    );
    // The other sinks have their own sums.
    let roomy = std::fs::read_to_string(rig.dir.path().join("roomy.log")).expect("the log");
    assert_eq!(count(&roomy, " failure "), ERRORS);
    let not_for_it = format!("roomy.log: {ERRORS} written, 0 dropped, {FLOOD} not for it");
    assert!(recovered.end.contains(&not_for_it), "{}", recovered.end);
}

/// A program that stops in order while its disk is full: the line of the recovery says so.
#[test]
fn drops_of_a_full_disk_are_told_after_an_orderly_stop() {
    if let Some(role) = role() {
        return play(&role);
    }
    let Some(mut rig) = Rig::start("drops_of_a_full_disk_are_told_after_an_orderly_stop", "stop") else {
        return;
    };
    assert!(rig.process.wait().success());
    let session = rig.session();
    assert_sums(&Stats::of_view(
        &SessionReader::open(&session).expect("the session"),
    ));
    // A recovery that can write nothing changes no sum.
    logdrive_drain::recover(&session, None).expect_err("the disk is full");
    assert_sums(&Stats::of_view(
        &SessionReader::open(&session).expect("the session"),
    ));
    rig.disk.make_room();
    let recovered = logdrive_drain::recover(&session, None).expect("recovered");
    let path = rig.path();
    let log = std::fs::read_to_string(&path).expect("the log");
    assert_log_is_exact(&log, &path.to_string_lossy(), &recovered.end, FULL);
    assert!(recovered.end.contains(" stopped in order; "), "{}", recovered.end);
}

/// A program whose disk has room again: its last line has the sums, since something was dropped.
#[test]
fn drops_of_a_full_disk_are_told_at_an_orderly_end() {
    if let Some(role) = role() {
        return play(&role);
    }
    let Some(rig) = Rig::start("drops_of_a_full_disk_are_told_at_an_orderly_end", "end") else {
        return;
    };
    let path = rig.path();
    let Rig {
        dir: _dir,
        disk,
        mut process,
    } = rig;
    disk.make_room();
    process.send("end");
    process.end();
    let log = std::fs::read_to_string(&path).expect("the log");
    let end = log.lines().last().expect("a line");
    assert!(end.contains(" of losses has ended; "), "{end}");
    assert_log_is_exact(&log, &path.to_string_lossy(), end, FULL);
}

/// A log that is a pipe whose reader comes late: all errors are in it, and lines say what is missing.
#[test]
fn drops_of_a_slow_reader_are_told_where_they_are_missing() {
    if let Some(role) = role() {
        return play(&role);
    }
    let dir = directory();
    let pipe = dir.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    // Opened for both, so that this does not wait for a writer.
    let mut reader = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&pipe)
        .expect("the pipe");
    let role = format!("pipe {} {}", dir.path().display(), pipe.display());
    let mut process = Process::in_role("drops_of_a_slow_reader_are_told_where_they_are_missing", &role);
    process.expect("flooded");
    let read = std::thread::spawn(move || {
        let (mut text, mut part) = (Vec::new(), vec![0; 1 << 16]);
        let is_end = |text: &[u8]| {
            let last = &text[text.len().saturating_sub(1_000)..];
            text.ends_with(b"\n") && String::from_utf8_lossy(last).contains(" of losses has ended; ")
        };
        while !is_end(&text) {
            let count = std::io::Read::read(&mut reader, &mut part).expect("bytes");
            text.extend_from_slice(&part[..count]);
        }
        String::from_utf8(text).expect("text")
    });
    process.send("end");
    process.end();
    let log = read.join().expect("the reader");
    let end = log.lines().last().expect("a line");
    assert_log_is_exact(&log, &pipe.to_string_lossy(), end, "the sink was too slow");
}
