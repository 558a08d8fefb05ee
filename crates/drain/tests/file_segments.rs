//! Rotated segments: compaction into full blocks, the cold directory, retention over both, and files of the other kind.
#![cfg(feature = "segments")]

mod file_support;

use file_support::*;
use logdrive_drain::file::{Compacted, Compress, FileOptions, LogFile, compact_segment};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

fn options(dir: &Path) -> FileOptions {
    let mut options = FileOptions::new(dir.join("logs/app.segment"));
    options.rotate_bytes = Some(600);
    options
}

/// Writes so many chunks of small blocks, one a second, each into a file of its own.
fn write(file: &mut LogFile, chunks: &mut Chunks, count: u64) {
    for _ in 0..count {
        let chunk = small_blocks(&chunks.next(40));
        let now_ns = NOW_NS + chunks.lines / 40 * SECOND_NS;
        file.expect_segments(true, now_ns);
        put(file, &chunk, now_ns);
        settle(file);
    }
}

fn all(chunks: &Chunks) -> Vec<String> {
    lines_of(&Chunks::default().next(chunks.lines))
}

#[test]
fn rotated_segments_are_compacted_and_never_compressed_as_text() {
    for compress in [Compress::None, Compress::Zstd] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut options = options(dir.path());
        options.compress = compress;
        let (mut file, mut chunks) = (open(&options), Chunks::default());
        write(&mut file, &mut chunks, 3);
        let logs = dir.path().join("logs");
        let files = names(&logs);
        let counts: Vec<usize> = files.iter().map(|name| block_count(&logs.join(name))).collect();
        assert_eq!(counts, [1, 1, 4], "{files:?}");
        assert_eq!(lines(&logs), all(&chunks));
        assert_eq!(notices(&mut file), [""; 0]);
    }
}

#[test]
fn old_files_go_to_the_cold_directory_and_the_rules_count_both() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut options = options(dir.path());
    options.rotated.cold_dir = Some(dir.path().join("cold"));
    options.rotated.cold_after = Some(Duration::from_secs(2));
    let (mut file, mut chunks) = (open(&options), Chunks::default());
    write(&mut file, &mut chunks, 8);
    let (logs, cold) = (dir.path().join("logs"), dir.path().join("cold"));
    let (hot_names, cold_names) = (names(&logs), names(&cold));
    assert_eq!(
        (hot_names.len(), cold_names.len()),
        (4, 4),
        "{hot_names:?} {cold_names:?}"
    );
    let mut found = lines(&logs);
    found.extend(lines(&cold));
    found.sort();
    assert_eq!(found, all(&chunks));
    assert!(cold_names.iter().all(|name| block_count(&cold.join(name)) == 1));
    assert_eq!(notices(&mut file), [""; 0]);
    drop(file);
    options.keep_files = Some(4);
    settle(&open(&options));
    assert_eq!((names(&logs).len(), names(&cold).len()), (4, 1));
    assert_eq!(names(&cold).first(), cold_names.last());
}

/// Time of the last change of each file, by name.
fn changes(dir: &Path) -> Vec<(String, (i64, i64))> {
    let change = |name: String| {
        let metadata = fs::metadata(dir.join(&name)).expect("a file");
        let at = (metadata.ctime(), metadata.ctime_nsec());
        (name, at)
    };
    names(dir).into_iter().map(change).collect()
}

#[test]
fn old_segments_are_compressed_again_in_their_place_and_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut options = options(dir.path());
    let (mut file, mut chunks) = (open(&options), Chunks::default());
    write(&mut file, &mut chunks, 6);
    drop(file);
    let logs = dir.path().join("logs");
    let before = changes(&logs);
    options.rotated.cold_after = Some(Duration::from_secs(3));
    let mut file = open(&options);
    write(&mut file, &mut chunks, 1);
    assert_eq!(notices(&mut file), [""; 0]);
    drop(file);
    let after = changes(&logs);
    let is_same: Vec<bool> = before
        .iter()
        .zip(&after)
        .map(|(one, other)| one.1 == other.1)
        .collect();
    // Those of the last three seconds are not old; the last one was the log itself.
    assert_eq!(
        is_same.iter().filter(|is_same| !**is_same).count(),
        3,
        "{before:?} {after:?}"
    );
    assert_eq!(lines(&logs), all(&chunks));
    // What was compressed says so: the pass of another process leaves it as it is.
    let mut file = open(&options);
    write(&mut file, &mut chunks, 1);
    assert_eq!(notices(&mut file), [""; 0]);
    let last = changes(&logs);
    let again = after.iter().zip(&last).filter(|(one, other)| one.1 != other.1);
    assert_eq!(
        again.count(),
        2,
        "the one that became old, and the one that was rotated"
    );
    assert_eq!(lines(&logs), all(&chunks));
}

#[test]
fn a_cold_directory_that_another_log_uses_loses_nothing_of_either() {
    let dir = tempfile::tempdir().expect("a directory");
    let cold = dir.path().join("cold");
    for name in ["one", "other"] {
        let mut options = FileOptions::new(dir.path().join(name).join("app.segment"));
        options.rotate_bytes = Some(600);
        options.rotated.cold_dir = Some(cold.clone());
        options.rotated.cold_after = Some(Duration::from_secs(2));
        let (mut file, mut chunks) = (open(&options), Chunks::default());
        if name == "other" {
            chunks.lines = 4_000;
        }
        let start = chunks.lines;
        for number in 0..6 {
            let now_ns = NOW_NS + number * SECOND_NS;
            file.expect_segments(true, now_ns);
            put(&mut file, &small_blocks(&chunks.next(40)), now_ns);
            settle(&file);
        }
        let mut found = lines(&dir.path().join(name));
        let said = notices(&mut file).join("\n");
        match name {
            "one" => {
                found.extend(lines(&cold));
                assert_eq!(said, "");
            }
            _ => assert!(said.contains("another file of this name"), "{said}"),
        }
        assert_eq!(found.len() as u64, chunks.lines - start, "{name}");
    }
    assert!(!names(&cold).is_empty());
}

#[test]
fn a_file_of_the_other_kind_is_rotated_before_the_first_write() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = FileOptions::new(dir.path().join("logs/app.log"));
    let mut file = open(&options);
    put(&mut file, b"a line\n", NOW_NS);
    drop(file);
    for (is_segments, count) in [(true, 2), (true, 2), (false, 3)] {
        let mut file = open(&options);
        file.expect_segments(is_segments, NOW_NS);
        let bytes = match is_segments {
            true => small_blocks(b"in a block\n"),
            false => b"in a line\n".to_vec(),
        };
        put(&mut file, &bytes, NOW_NS);
        settle(&file);
        drop(file);
        assert_eq!(names(&dir.path().join("logs")).len(), count);
    }
    let found = lines(&dir.path().join("logs"));
    assert_eq!(found, ["a line", "in a block", "in a block", "in a line"]);
}

#[test]
fn a_segment_is_compacted_by_hand_unless_it_is_damaged_or_in_use() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.segment");
    let text = Chunks::default().next(100);
    fs::write(&path, small_blocks(&text)).expect("written");
    let Ok(Compacted::Done { before, after }) = compact_segment(&path, None) else {
        panic!("it has small blocks");
    };
    assert!(after < before / 2, "{after} of {before}");
    assert_eq!((content(&path), block_count(&path)), (text.clone(), 1));
    assert_eq!(compact_segment(&path, None).expect("read"), Compacted::AsItIs);
    assert!(matches!(
        compact_segment(&path, Some(19)),
        Ok(Compacted::Done { .. })
    ));
    assert_eq!(content(&path), text);
    let mut damaged = small_blocks(&text);
    damaged[70] ^= 1;
    for bytes in [damaged, small_blocks(&text)[..900].to_vec()] {
        fs::write(&path, &bytes).expect("written");
        assert_eq!(compact_segment(&path, None).expect("read"), Compacted::Damaged);
        assert_eq!(fs::read(&path).expect("there"), bytes);
    }
    fs::write(&path, small_blocks(&text)).expect("written");
    let held = open(&FileOptions::new(&path));
    assert_eq!(compact_segment(&path, None).expect("read"), Compacted::InUse);
    drop(held);
    assert_eq!(names(dir.path()), ["app.segment"]);
}
