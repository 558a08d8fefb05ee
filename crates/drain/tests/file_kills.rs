//! SIGKILL at each step of rotation, compression and retention: the next start finishes what was cut short, and every
//! line stands in the log once.

mod file_support;

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use file_support::*;
use logdrive_drain::file::{Compress, Fault, Faulty, FileOptions};
use logdrive_testkit::{role, this_test};

/// Chunks of a life; each but the first is in a file of its own.
const CHUNKS: u64 = 5;
const LINES: u64 = 40;

fn options(dir: &Path, compress: Compress, keeps: bool) -> FileOptions {
    let mut options = FileOptions::new(dir.join("logs/app.log"));
    options.rotate_bytes = Some(600);
    options.compress = compress;
    options.keep_files = keeps.then_some(2);
    options
}

/// A life that ends with the operation on the disk that the role names, if not before.
fn live(dir: &Path, options: &FileOptions, operations: u64) {
    let storage = Arc::new(Faulty::new());
    storage.fail_all(operations, Fault::Kill);
    let mut file = open_on(options, storage);
    let mut chunks = Chunks::default();
    let mut notes = fs::File::create(dir.join("written")).expect("made");
    for number in 1..=CHUNKS {
        put(&mut file, &chunks.next(LINES), NOW_NS + number * SECOND_NS / 4);
        // One byte for each, since another thread may be the one that kills.
        notes.write_all(b".").expect("noted");
        if number == CHUNKS / 2 {
            settle(&file);
            file.sync().expect("synced");
        }
    }
    settle(&file);
    file.sync().expect("synced");
    file.close(NOW_NS).expect("closed");
}

/// Checks the log after the next start: no line is missing, torn or there twice, and no file is there in two forms.
fn check(dir: &Path, options: &FileOptions, what: &str) {
    let file = open(options);
    settle(&file);
    drop(file);
    let logs = dir.join("logs");
    let written = fs::read(dir.join("written")).map_or(0, |notes| notes.len() as u64);
    let found = lines(&logs);
    let all = lines_of(&Chunks::default().next(CHUNKS * LINES));
    let chunks = found.len() as u64 / LINES;
    let first = match options.keep_files {
        // The active file, empty or not, and the two before it.
        Some(_) => all
            .len()
            .min((written as usize + 1) * LINES as usize)
            .saturating_sub(found.len()),
        None => 0,
    };
    // The chunk on its way may have been written as well.
    let is_whole = |from: usize| {
        all.get(from..from + found.len())
            .is_some_and(|part| part == found)
    };
    let is_found = match options.keep_files {
        None => (chunks == written || chunks == written + 1) && is_whole(0),
        Some(_) => is_whole(first) || is_whole(first.saturating_sub(LINES as usize)),
    };
    assert!(
        is_found,
        "{what}: {written} chunks written, {} lines found",
        found.len()
    );
    let mut stems: Vec<String> = names(&logs)
        .into_iter()
        .map(|name| name.replace(".gz", "").replace(".zst", ""))
        .collect();
    let count = stems.len();
    stems.dedup();
    assert_eq!(stems.len(), count, "{what}: {stems:?}");
    assert!(
        !stems.iter().any(|name| name.ends_with(".tmp")),
        "{what}: {stems:?}"
    );
    if options.keep_files.is_some() {
        assert!(count <= 3, "{what}: {stems:?}");
    }
}

/// Kills one life after another, each one step later, until one ends by itself.
fn kill_at_each_step(test: &str, compress: Compress, keeps: bool) {
    if let Some(role) = role() {
        let (operations, dir) = role.split_once(' ').expect("two words");
        let dir = Path::new(dir);
        return live(
            dir,
            &options(dir, compress, keeps),
            operations.parse().expect("a number"),
        );
    }
    for operations in 0.. {
        let dir = tempfile::tempdir().expect("a directory");
        let life = this_test(test)
            .env(
                "LOGDRIVE_TEST_ROLE",
                format!("{operations} {}", dir.path().display()),
            )
            .stdout(Stdio::null())
            .status()
            .expect("the child starts");
        let what = format!("{test}, killed after {operations} operations");
        check(dir.path(), &options(dir.path(), compress, keeps), &what);
        if life.success() {
            assert!(operations > 20, "it was killed at all");
            return;
        }
        assert_eq!(life.signal(), Some(9), "{what}");
    }
}

#[test]
fn a_rotation_that_is_killed_at_any_step_loses_no_line() {
    kill_at_each_step(
        "a_rotation_that_is_killed_at_any_step_loses_no_line",
        Compress::None,
        false,
    );
}

#[test]
fn a_removal_that_is_killed_at_any_step_is_finished_by_the_next_start() {
    let test = "a_removal_that_is_killed_at_any_step_is_finished_by_the_next_start";
    kill_at_each_step(test, Compress::None, true);
}

#[cfg(feature = "zstd")]
#[test]
fn a_compression_with_zstd_that_is_killed_at_any_step_leaves_each_line_once() {
    let test = "a_compression_with_zstd_that_is_killed_at_any_step_leaves_each_line_once";
    kill_at_each_step(test, Compress::Zstd, false);
}

#[cfg(feature = "gzip")]
#[test]
fn a_compression_with_gzip_that_is_killed_at_any_step_leaves_each_line_once() {
    let test = "a_compression_with_gzip_that_is_killed_at_any_step_leaves_each_line_once";
    kill_at_each_step(test, Compress::Gzip, false);
}
