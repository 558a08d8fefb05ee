//! Recovery of a chunk after its writer was killed: in place where that is safe, else appended, and
//! never over the bytes of others.

mod file_support;

use std::fs;
use std::sync::Arc;

use file_support::*;
use logdrive_drain::file::{
    Compress, Disk, Fault, Faulty, FileOptions, LogFile, NotInPlace, Operation, Placement, Rewrite, rewrite,
};
use logdrive_testkit::Random;

/// A log whose owner was killed after `torn_bytes` of its last chunk.
struct Killed {
    dir: tempfile::TempDir,
    options: FileOptions,
    chunks: Chunks,
    placement: Placement,
    bytes: Vec<u8>,
}

impl Killed {
    fn after(torn_bytes: usize) -> Killed {
        let dir = tempfile::tempdir().expect("a directory");
        let options = FileOptions::new(dir.path().join("app.log"));
        let mut chunks = Chunks::default();
        let storage = Arc::new(Faulty::new());
        let mut file = open_on(&options, storage.clone());
        put(&mut file, &chunks.next(3), NOW_NS);
        let bytes = chunks.next(4);
        let placement = file.place(bytes.len() as u64, NOW_NS).expect("a place");
        storage.fail(Operation::WriteAt, 0, 1, Fault::Short(torn_bytes.max(1)));
        storage.fail(Operation::WriteAt, 0, 1, Fault::Error(5));
        if torn_bytes > 0 {
            file.write_at(placement, 0, &bytes)
                .expect_err("killed in the middle");
        }
        Killed {
            dir,
            options,
            chunks,
            placement,
            bytes,
        }
    }

    fn recover(&self) -> Rewrite {
        rewrite(&self.options, Arc::new(Disk), self.placement, &self.bytes, NOW_NS).expect("recovered")
    }

    fn check_all_lines(&self) {
        let mut wanted = lines_of(&Chunks::default().next(self.chunks.lines));
        wanted.sort();
        assert_eq!(lines(self.dir.path()), wanted);
    }
}

#[test]
fn a_chunk_is_completed_in_its_file_wherever_it_was_torn() {
    let length = Killed::after(0).bytes.len();
    for torn_bytes in 0..length {
        let killed = Killed::after(torn_bytes);
        let missing = (length - torn_bytes) as u64;
        let path = killed.options.path.clone();
        assert_eq!(
            killed.recover(),
            Rewrite::InPlace {
                path: path.clone(),
                written_bytes: missing
            }
        );
        assert_eq!(killed.recover(), Rewrite::AlreadyThere { path });
        killed.check_all_lines();
    }
}

#[test]
fn a_chunk_is_completed_in_a_file_that_was_renamed_by_a_rotation() {
    let killed = Killed::after(10);
    let rotated = killed.dir.path().join("app.2026-11-21T12-34-56Z.1.log");
    fs::rename(&killed.options.path, &rotated).expect("renamed");
    drop(open(&killed.options));
    assert!(matches!(killed.recover(), Rewrite::InPlace { path, .. } if path == rotated));
    killed.check_all_lines();
}

#[test]
fn a_chunk_goes_to_the_end_of_the_log_when_its_file_was_compressed() {
    let mut killed = Killed::after(0);
    killed.options.compress = if cfg!(feature = "zstd") {
        Compress::Zstd
    } else {
        Compress::None
    };
    let rotated = killed.dir.path().join("app.2026-11-21T12-34-56Z.1.log");
    fs::rename(&killed.options.path, &rotated).expect("renamed");
    let file = open(&killed.options);
    settle(&file);
    drop(file);
    if killed.options.compress == Compress::None {
        fs::remove_file(rotated).expect("removed");
        return;
    }
    let path = killed.options.path.clone();
    let written_bytes = killed.bytes.len() as u64;
    let why = NotInPlace::FileGone;
    assert_eq!(
        killed.recover(),
        Rewrite::Appended {
            path,
            skipped_bytes: 0,
            written_bytes,
            why
        }
    );
    killed.check_all_lines();
}

#[test]
fn a_file_that_another_process_has_continued_is_not_overwritten() {
    let mut killed = Killed::after(0);
    let first_line = lines_of(&killed.bytes)[0].len() + 1;
    let mut file = open(&killed.options);
    // The torn chunk: its first line and a part of the second.
    let torn = killed.bytes[..first_line + 4].to_vec();
    put(&mut file, &torn, NOW_NS);
    drop(file);
    let mut file = open(&killed.options);
    put(&mut file, &killed.chunks.next(2), NOW_NS);
    drop(file);
    let recovered = killed.recover();
    let Rewrite::Appended {
        skipped_bytes,
        written_bytes,
        why,
        ..
    } = recovered
    else {
        panic!("{recovered:?}");
    };
    assert_eq!((skipped_bytes, why), (first_line as u64, NotInPlace::Changed));
    assert_eq!(written_bytes, killed.bytes.len() as u64 - skipped_bytes);
    let mut found = lines(killed.dir.path());
    found.retain(|line| line != "line"); // what was left of the torn line
    let mut wanted = lines_of(&Chunks::default().next(killed.chunks.lines));
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn a_file_that_another_process_holds_is_left_alone() {
    let killed = Killed::after(10);
    let owner = open(&killed.options);
    let before = fs::read(&killed.options.path).expect("there");
    let recovered = killed.recover();
    let beside = killed.dir.path().join(format!("app.{}.log", std::process::id()));
    let written_bytes = killed.bytes.len() as u64;
    let why = NotInPlace::InUse;
    let path = beside.clone();
    assert_eq!(
        recovered,
        Rewrite::Appended {
            path,
            skipped_bytes: 0,
            written_bytes,
            why
        }
    );
    assert_eq!(fs::read(&killed.options.path).expect("there"), before);
    assert_eq!(fs::read(beside).expect("there"), killed.bytes);
    drop(owner);
}

#[test]
fn a_chunk_is_not_written_into_a_foreign_file_that_got_the_same_inode() {
    let mut killed = Killed::after(10);
    let precious = killed.dir.path().join("precious.txt");
    fs::rename(&killed.options.path, &precious).expect("renamed");
    let before = fs::read(&precious).expect("there");
    assert!(matches!(
        killed.recover(),
        Rewrite::Appended {
            why: NotInPlace::FileGone,
            ..
        }
    ));
    assert_eq!(
        fs::read(&precious).expect("there"),
        before,
        "not a name of this log"
    );
    // Of this log, and with other bytes at the place.
    fs::remove_file(&precious).expect("removed");
    let other = vec![b'o'; 4_000];
    fs::write(&killed.options.path, &other).expect("written");
    let metadata = fs::metadata(&killed.options.path).expect("there");
    killed.placement.ino = std::os::unix::fs::MetadataExt::ino(&metadata);
    assert!(matches!(
        killed.recover(),
        Rewrite::Appended {
            why: NotInPlace::Changed,
            ..
        }
    ));
    assert!(fs::read(&killed.options.path).expect("there").starts_with(&other));
}

#[test]
fn a_chunk_behind_the_end_of_a_truncated_file_leaves_no_hole() {
    let killed = Killed::after(10);
    fs::File::options()
        .write(true)
        .open(&killed.options.path)
        .expect("open")
        .set_len(0)
        .expect("cut");
    assert!(matches!(
        killed.recover(),
        Rewrite::Appended {
            why: NotInPlace::Changed,
            ..
        }
    ));
    assert_eq!(fs::read(&killed.options.path).expect("there"), killed.bytes);
}

#[test]
fn a_recovery_that_fails_leaves_the_file_whole_and_can_be_repeated() {
    for passes in 0..30 {
        let killed = Killed::after(0);
        fs::remove_file(&killed.options.path).expect("removed");
        let storage = Arc::new(Faulty::new());
        storage.fail(Operation::WriteAt, 0, 1, Fault::Short(20));
        storage.fail_all(passes, Fault::Error(28));
        let _ = rewrite(
            &killed.options,
            storage.clone(),
            killed.placement,
            &killed.bytes,
            NOW_NS,
        );
        storage.clear();
        let text = fs::read(&killed.options.path).unwrap_or_default();
        if text != killed.bytes {
            killed.recover();
        }
        let mut found = lines(killed.dir.path());
        found.retain(|line| line.len() > 20 || line.starts_with("line"));
        found.dedup();
        for line in lines_of(&killed.bytes) {
            assert!(found.contains(&line), "after {passes}: {line}");
        }
    }
}

#[test]
fn several_chunks_of_a_file_are_recovered_in_order() {
    Random::rounds(100, |random| {
        let mut killed = Killed::after(0);
        let mut placements = vec![(killed.placement, killed.bytes.clone())];
        // The second was placed by a writer that had finished the first.
        let torn = random.below(killed.bytes.len() as u64) as usize;
        let next = killed.chunks.next(1 + random.below(5));
        let offset = killed.placement.offset + killed.bytes.len() as u64;
        placements.push((
            Placement {
                offset,
                ..killed.placement
            },
            next,
        ));
        let mut file = fs::File::options()
            .append(true)
            .open(&killed.options.path)
            .expect("open");
        std::io::Write::write_all(&mut file, &killed.bytes[..torn]).expect("written");
        drop(file);
        for (placement, bytes) in placements.iter().chain(&placements) {
            rewrite(&killed.options, Arc::new(Disk), *placement, bytes, NOW_NS).expect("recovered");
        }
        killed.check_all_lines();
    });
}

#[test]
fn the_options_that_recovery_reads_from_text_find_the_same_file() {
    let mut killed = Killed::after(10);
    let text = LogFile::open(&killed.options, Arc::new(Disk), NOW_NS)
        .expect("opens")
        .options()
        .to_text();
    killed.options = FileOptions::from_text(&text).expect("own text");
    assert!(matches!(killed.recover(), Rewrite::InPlace { .. }));
    killed.check_all_lines();
}
