//! SIGKILL at each step of rotation, compression and retention: the next start finishes what was cut short, and every
//! line stands in the log once.

mod file_support;

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use file_support::*;
use logdrive_drain::file::{Compress, Disk, Fault, Faulty, FileOptions, LogFile};
use logdrive_testkit::{role, this_test};

/// Chunks of a life; each but the first is in a file of its own.
const CHUNKS: u64 = 5;
const LINES: u64 = 40;

fn options(dir: &Path, work: Work) -> FileOptions {
    let mut options = FileOptions::new(dir.join("logs/app.log"));
    options.rotate_bytes = Some(600);
    if let Work::Compression(compress) = work {
        options.compress = compress;
    }
    if let Work::Cold { .. } = work {
        options.rotated.cold_dir = Some(dir.join("cold"));
    }
    if work.is_of_age() {
        options.rotated.cold_after = Some(Duration::from_secs(3));
    }
    options.keep_files = (work == Work::Removal).then_some(2);
    options
}

/// Work behind a rotation that is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Rotation,
    Removal,
    Compression(Compress),
    Compaction,
    /// Moves of segments, or of text, to the cold directory.
    Cold {
        is_segments: bool,
    },
    /// Stronger compression of segments where they are.
    CompressionAgain,
}

impl Work {
    fn is_slow(self) -> bool {
        matches!(
            self,
            Self::Compaction | Self::Cold { .. } | Self::CompressionAgain
        )
    }

    /// It begins with files of an age.
    fn is_of_age(self) -> bool {
        matches!(self, Self::Cold { .. } | Self::CompressionAgain)
    }

    fn is_segments(self) -> bool {
        matches!(
            self,
            Self::Compaction | Self::Cold { is_segments: true } | Self::CompressionAgain
        )
    }
}

/// A life that ends with the operation on the disk that the role names, if not before.
fn live(dir: &Path, work: Work, operations: u64) {
    let options = &options(dir, work);
    let storage = Arc::new(Faulty::new());
    storage.fail_all(operations, Fault::Kill);
    let mut file = open_on(options, storage);
    let mut chunks = Chunks::default();
    let mut notes = fs::File::create(dir.join("written")).expect("made");
    for number in 1..=CHUNKS {
        let (mut chunk, mut now_ns) = (chunks.next(LINES), NOW_NS + number * SECOND_NS / 4);
        if work.is_of_age() {
            now_ns = NOW_NS + 2 * number * SECOND_NS;
        }
        if work.is_segments() {
            file.expect_segments(true, now_ns);
            chunk = small_blocks(&chunk);
        }
        put(&mut file, &chunk, now_ns);
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
fn check(dir: &Path, work: Work, what: &str) {
    let options = &options(dir, work);
    let file = LogFile::open(options, Arc::new(Disk), NOW_NS + 60 * SECOND_NS).expect("the log opens");
    settle(&file);
    drop(file);
    let (logs, cold) = (dir.join("logs"), dir.join("cold"));
    let written = fs::read(dir.join("written")).map_or(0, |notes| notes.len() as u64);
    let mut found = lines(&logs);
    let mut stems = names(&logs);
    if cold.exists() {
        found.extend(lines(&cold));
        found.sort();
        stems.extend(names(&cold));
        stems.sort();
    }
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
    let mut stems: Vec<String> = stems
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
fn kill_at_each_step(test: &str, work: Work) {
    if let Some(role) = role() {
        let (operations, dir) = role.split_once(' ').expect("two words");
        let dir = Path::new(dir);
        return live(dir, work, operations.parse().expect("a number"));
    }
    // A life with compaction or moves has some hundred operations: a third of them takes long enough.
    let every = match work {
        // Its steps on the disk are those of a compaction.
        Work::CompressionAgain => 11,
        work if work.is_slow() => 3,
        _ => 1,
    };
    for operations in (0u64..).step_by(every) {
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
        check(dir.path(), work, &what);
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
        Work::Rotation,
    );
}

#[test]
fn a_removal_that_is_killed_at_any_step_is_finished_by_the_next_start() {
    let test = "a_removal_that_is_killed_at_any_step_is_finished_by_the_next_start";
    kill_at_each_step(test, Work::Removal);
}

#[cfg(feature = "zstd")]
#[test]
fn a_compression_with_zstd_that_is_killed_at_any_step_leaves_each_line_once() {
    let test = "a_compression_with_zstd_that_is_killed_at_any_step_leaves_each_line_once";
    kill_at_each_step(test, Work::Compression(Compress::Zstd));
}

#[cfg(feature = "gzip")]
#[test]
fn a_compression_with_gzip_that_is_killed_at_any_step_leaves_each_line_once() {
    let test = "a_compression_with_gzip_that_is_killed_at_any_step_leaves_each_line_once";
    kill_at_each_step(test, Work::Compression(Compress::Gzip));
}

#[cfg(feature = "segments")]
#[test]
fn a_compaction_that_is_killed_at_any_step_leaves_each_record_once() {
    let test = "a_compaction_that_is_killed_at_any_step_leaves_each_record_once";
    kill_at_each_step(test, Work::Compaction);
}

#[cfg(feature = "segments")]
#[test]
fn a_move_of_segments_that_is_killed_at_any_step_leaves_each_record_once() {
    let test = "a_move_of_segments_that_is_killed_at_any_step_leaves_each_record_once";
    kill_at_each_step(test, Work::Cold { is_segments: true });
}

#[cfg(feature = "segments")]
#[test]
fn a_stronger_compression_that_is_killed_at_any_step_leaves_each_record_once() {
    let test = "a_stronger_compression_that_is_killed_at_any_step_leaves_each_record_once";
    kill_at_each_step(test, Work::CompressionAgain);
}

#[test]
fn a_move_of_text_that_is_killed_at_any_step_leaves_each_line_once() {
    let test = "a_move_of_text_that_is_killed_at_any_step_leaves_each_line_once";
    kill_at_each_step(test, Work::Cold { is_segments: false });
}
