//! Tests of a log that is followed: programs that rotate in every way, and restarts at any moment.

use super::super::progress::Progress;
use super::super::state::StateFile;
use super::super::{LogInput, SendState};
use super::*;
use logdrive_testkit::Random;
use std::fs::{self, OpenOptions};
use std::io::Write;

/// A log in a directory of its own, and the lines that were written to it.
struct World {
    directory: tempfile::TempDir,
    written: usize,
}

impl World {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            written: 0,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Appends so many numbered lines to a file.
    fn write(&mut self, name: &str, count: usize) {
        let file = OpenOptions::new().append(true).create(true).open(self.path(name));
        let mut file = file.expect("opened");
        for number in self.written..self.written + count {
            writeln!(file, "2026-11-21T08:00:00.{number:09}Z line {number}").expect("written");
        }
        self.written += count;
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).expect("renamed");
    }

    fn open(&self) -> FollowedLog {
        FollowedLog::open(&self.path("app.log"), None, follow()).expect("opened")
    }

    /// Asserts that all lines were read, each once.
    fn check(&self, found: &[u8]) {
        let text = std::str::from_utf8(found).expect("text");
        let mut numbers: Vec<usize> = text
            .lines()
            .map(|line| {
                line.rsplit(' ')
                    .next()
                    .expect("a word")
                    .parse()
                    .expect("a whole line")
            })
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..self.written).collect::<Vec<_>>());
    }
}

fn follow() -> FollowOptions {
    FollowOptions {
        follows: true,
        rotate_wait: Duration::ZERO,
        takes_rotated: false,
        as_records: false,
    }
}

/// Reads all that is there now, with a scan of the directory.
fn read_all(log: &mut FollowedLog, lines: &mut Vec<u8>) {
    for _ in 0..2 {
        log.scanned = None;
        while log.read(lines, 4_096).expect("read").is_some() {}
    }
}

#[test]
fn a_program_that_goes_on_writing_to_the_renamed_file_loses_nothing() {
    let (mut world, mut lines) = (World::new(), Vec::new());
    world.write("app.log", 300);
    let mut log = world.open();
    read_all(&mut log, &mut lines);
    world.rename("app.log", "app.log.1");
    for _ in 0..5 {
        world.write("app.log.1", 50);
        world.write("app.log", 50);
        read_all(&mut log, &mut lines);
    }
    world.check(&lines);
    assert_eq!(log.skips(), Skips::default());
}

#[test]
fn a_log_that_is_rotated_twice_between_two_reads_is_read_whole() {
    let (mut world, mut lines) = (World::new(), Vec::new());
    world.write("app.log", 100);
    let mut log = world.open();
    read_all(&mut log, &mut lines);
    for _ in 0..2 {
        world.write("app.log", 100);
        if world.path("app.log.1").exists() {
            world.rename("app.log.1", "app.log.2");
        }
        world.rename("app.log", "app.log.1");
    }
    world.write("app.log", 100);
    read_all(&mut log, &mut lines);
    world.check(&lines);
    assert_eq!(log.skips(), Skips::default());
}

#[test]
fn a_file_with_the_inode_of_a_removed_one_is_read_from_its_start() {
    let (mut world, mut lines) = (World::new(), Vec::new());
    world.write("app.log", 100);
    let mut log = world.open();
    read_all(&mut log, &mut lines);
    // The same inode gets other content: the file is written anew, longer than it was read.
    log.files[0].close();
    fs::remove_file(world.path("app.log")).expect("removed");
    world.write("app.log", 300);
    log.files[0].ino = fs::metadata(world.path("app.log")).expect("there").ino_for_test();
    read_all(&mut log, &mut lines);
    world.check(&lines);
}

#[test]
fn a_file_that_is_copied_and_truncated_and_has_grown_again_is_read_whole() {
    let (mut world, mut lines) = (World::new(), Vec::new());
    world.write("app.log", 200);
    let mut log = world.open();
    read_all(&mut log, &mut lines);
    world.write("app.log", 100);
    fs::copy(world.path("app.log"), world.path("app.log.1")).expect("copied");
    // Between the copy and the truncation: the copy is no log of its own.
    read_all(&mut log, &mut lines);
    let file = OpenOptions::new().write(true).open(world.path("app.log"));
    file.and_then(|file| file.set_len(0)).expect("truncated");
    world.write("app.log", 900);
    read_all(&mut log, &mut lines);
    world.check(&lines);
    assert_eq!(log.skips(), Skips::default());
}

#[test]
fn a_copy_with_lines_that_were_not_read_is_read_from_where_the_log_was() {
    let (mut world, mut lines) = (World::new(), Vec::new());
    world.write("app.log", 200);
    let mut log = world.open();
    read_all(&mut log, &mut lines);
    world.write("app.log", 100);
    fs::copy(world.path("app.log"), world.path("app.log.1")).expect("copied");
    let file = OpenOptions::new().write(true).open(world.path("app.log"));
    file.and_then(|file| file.set_len(0)).expect("truncated");
    world.write("app.log", 50);
    read_all(&mut log, &mut lines);
    world.check(&lines);
    // Without a copy the lines behind the position may be missing, which is counted.
    let file = OpenOptions::new().write(true).open(world.path("app.log"));
    file.and_then(|file| file.set_len(0)).expect("truncated");
    read_all(&mut log, &mut lines);
    assert_eq!(log.skips().truncated, 1);
}

#[test]
fn a_neighbour_is_another_log() {
    let (mut world, mut lines) = (World::new(), Vec::new());
    world.write("app.log", 100);
    let mut log = world.open();
    for name in ["app-error.log", "app.log.bak", "application.log"] {
        fs::write(world.path(name), "not of this log\n").expect("written");
    }
    read_all(&mut log, &mut lines);
    world.rename("app.log", "app.log.1");
    world.write("app.log", 100);
    read_all(&mut log, &mut lines);
    world.check(&lines);
}

#[test]
fn a_rotated_file_that_is_compressed_is_read_to_its_end_and_not_again() {
    let (mut world, mut lines) = (World::new(), Vec::new());
    world.write("app.log", 400);
    let mut log = world.open();
    read_all(&mut log, &mut lines);
    for (number, was_read) in [(1, true), (2, false)] {
        world.write("app.log", 300);
        if was_read {
            read_all(&mut log, &mut lines);
        }
        let plain = fs::read(world.path("app.log")).expect("read");
        let name = format!("app.log-2026112{number}.zst");
        fs::write(
            world.path(&name),
            zstd::encode_all(plain.as_slice(), 1).expect("compressed"),
        )
        .expect("written");
        let old = SystemTime::now() - Duration::from_secs(60);
        let file = OpenOptions::new()
            .write(true)
            .open(world.path(&name))
            .expect("opened");
        file.set_modified(old).expect("set");
        // While both are there, the compressed one is no file of its own.
        if was_read {
            read_all(&mut log, &mut lines);
        }
        log.files.iter_mut().for_each(TrackedFile::close);
        fs::remove_file(world.path("app.log")).expect("removed");
        world.write("app.log", 100);
        read_all(&mut log, &mut lines);
    }
    world.check(&lines);
    assert_eq!(log.skips(), Skips::default());
}

#[test]
fn a_file_that_is_gone_before_its_end_is_counted() {
    let (mut world, mut lines) = (World::new(), Vec::new());
    world.write("app.log", 100);
    let mut log = world.open();
    log.read(&mut lines, 500).expect("read").expect("lines");
    log.files[0].close();
    fs::remove_file(world.path("app.log")).expect("removed");
    lines.clear();
    world.written = 0;
    world.write("app.log", 10);
    read_all(&mut log, &mut lines);
    world.check(&lines);
    // The new file may have got the inode, which looks as if it had been written anew.
    assert_eq!(log.skips().total(), 1);
}

#[test]
fn rotated_files_of_before_the_first_start_are_read_only_where_they_are_named() {
    let (mut world, mut lines) = (World::new(), Vec::new());
    world.write("app.log.2", 10);
    world.write("app.log.1", 10);
    world.write("app.log", 10);
    let path = world.path("app.log");
    let all = FollowOptions {
        takes_rotated: true,
        ..follow()
    };
    read_all(
        &mut FollowedLog::open(&path, None, all).expect("opened"),
        &mut lines,
    );
    world.check(&lines);
    lines.clear();
    let mut log = FollowedLog::open(&path, None, follow()).expect("opened");
    read_all(&mut log, &mut lines);
    assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 10);
}

/// The collector's part: records by number, each taken once.
#[derive(Default)]
struct Numbered {
    epochs: Vec<(u64, Vec<String>)>,
}

impl Numbered {
    fn take(&mut self, epoch: u64, first: u64, lines: &[u8]) {
        if self.epochs.last().is_none_or(|(last, _)| *last != epoch) {
            self.epochs.push((epoch, Vec::new()));
        }
        let (_, records) = self.epochs.last_mut().expect("an epoch");
        let text = std::str::from_utf8(lines).expect("text");
        for (line, number) in text.lines().zip(first..) {
            match records.get(number as usize) {
                None => {
                    assert_eq!(records.len() as u64, number, "a gap");
                    records.push(line.to_owned());
                }
                Some(known) => assert_eq!(known, line, "another line under number {number}"),
            }
        }
    }
}

/// Rotates, copies, truncates, compresses and writes at random, with a sender that is killed at random, whose batches arrive but
/// are acknowledged late: each line arrives once, under one number.
#[test]
fn a_sender_that_is_killed_at_any_moment_sends_each_line_under_one_number() {
    Random::rounds(60, |random| {
        let mut world = World::new();
        let state_path = world.path("state/app");
        let mut collector = Numbered::default();
        let mut rotated = 0;
        world.write("app.log", 1 + random.index(50));
        for _ in 0..12 {
            let (file, state) = StateFile::find(&state_path, &[]).expect("free");
            let mut state = state.unwrap_or(SendState {
                session: 1,
                epoch: 1,
                ..SendState::default()
            });
            let log = FollowedLog::open(&world.path("app.log"), Some(&mut state), follow()).expect("opened");
            let (epoch, mut next) = (state.epoch, state.number);
            let mut progress = Progress::new(state, file);
            let mut input = LogInput::Log(Box::new(log));
            let mut acknowledged = next;
            for _ in 0..random.index(30) {
                if random.one_in(4) {
                    change(random, &mut world, &mut rotated);
                }
                let LogInput::Log(log) = &mut input else {
                    unreachable!()
                };
                if random.one_in(2) {
                    log.scanned = None;
                }
                let mut lines = Vec::new();
                if let Some(batch) = log.read(&mut lines, 64 + random.index(3_000)).expect("read") {
                    progress.note(log, &batch).expect("written");
                    collector.take(epoch, next, &lines);
                    next += u64::from(batch.count);
                    progress.pushed(&batch, next);
                }
                if random.one_in(3) {
                    acknowledged += random.below(next - acknowledged + 1);
                    progress.acknowledge(&mut input, acknowledged).expect("written");
                }
            }
        }
        let (file, state) = StateFile::find(&state_path, &[]).expect("free");
        let mut state = state.expect("a state");
        let mut log = FollowedLog::open(&world.path("app.log"), Some(&mut state), follow()).expect("opened");
        let mut progress = Progress::new(state, file);
        let (epoch, mut next) = (progress.state.epoch, progress.state.number);
        for _ in 0..3 {
            log.scanned = None;
            let mut lines = Vec::new();
            while let Some(batch) = log.read(&mut lines, 2_000).expect("read") {
                progress.note(&log, &batch).expect("written");
                collector.take(epoch, next, &lines);
                next += u64::from(batch.count);
                lines.clear();
            }
        }
        assert_eq!(collector.epochs.len(), 1, "nothing was renumbered");
        let found: Vec<u8> = collector
            .epochs
            .iter()
            .flat_map(|(_, lines)| lines.join("\n").into_bytes())
            .collect();
        world.check(&found);
    });
}

/// One thing that happens to a log.
fn change(random: &mut Random, world: &mut World, rotated: &mut usize) {
    let name = |number: usize| format!("app.log-{:08}", 20_260_000 + number);
    match random.index(8) {
        0 => {
            *rotated += 1;
            world.rename("app.log", &name(*rotated));
            world.write("app.log", 1 + random.index(20));
        }
        1 => {
            *rotated += 1;
            fs::copy(world.path("app.log"), world.path(&name(*rotated))).expect("copied");
            let file = OpenOptions::new().write(true).open(world.path("app.log"));
            file.and_then(|file| file.set_len(0)).expect("truncated");
            world.write("app.log", 1 + random.index(90));
        }
        2 if *rotated > 0 && world.path(&name(*rotated)).exists() => {
            world.write(&name(*rotated), random.index(5))
        }
        _ => world.write("app.log", random.index(30)),
    }
}

/// The inode of a file, for a test that gives it to another one.
trait Inode {
    fn ino_for_test(&self) -> u64;
}

impl Inode for fs::Metadata {
    fn ino_for_test(&self) -> u64 {
        std::os::unix::fs::MetadataExt::ino(self)
    }
}
