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

    /// Writes the chunk again, and appends what is missing, as a recovery does.
    fn recover(&self) -> Rewrite {
        self.recover_chunk(self.placement, &self.bytes)
    }

    fn recover_chunk(&self, placement: Placement, bytes: &[u8]) -> Rewrite {
        let done = rewrite(&self.options, Arc::new(Disk), placement, bytes).expect("recovered");
        if let Rewrite::Missing { skip_bytes, .. } = done {
            put(&mut open(&self.options), &bytes[skip_bytes..], NOW_NS);
        }
        done
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
    let (skip_bytes, why) = (0, NotInPlace::FileGone);
    assert_eq!(killed.recover(), Rewrite::Missing { skip_bytes, why });
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
    let (skip_bytes, why) = (first_line, NotInPlace::Changed);
    assert_eq!(recovered, Rewrite::Missing { skip_bytes, why });
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
    let (skip_bytes, why) = (0, NotInPlace::InUse);
    assert_eq!(recovered, Rewrite::Missing { skip_bytes, why });
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
        Rewrite::Missing {
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
        Rewrite::Missing {
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
        Rewrite::Missing {
            why: NotInPlace::Changed,
            ..
        }
    ));
    assert_eq!(fs::read(&killed.options.path).expect("there"), killed.bytes);
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
            killed.recover_chunk(*placement, bytes);
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

/// A chunk whose file was truncated before it was written, and whose writer was killed in the middle of it.
#[test]
fn a_chunk_is_completed_at_the_new_end_of_a_file_that_was_truncated() {
    let length = Killed::after(0).bytes.len();
    for torn_bytes in 0..=length {
        let killed = Killed::after(0);
        let before = "a line that came after the file was truncated\n";
        let written = [before.as_bytes(), &killed.bytes[..torn_bytes]].concat();
        let far = Placement {
            offset: 10_000,
            ..killed.placement
        };
        fs::write(&killed.options.path, &written).expect("written");
        let recover = || killed.recover_chunk(far, &killed.bytes);
        let first = recover();
        let text = fs::read(&killed.options.path).expect("there");
        if torn_bytes == 0 || torn_bytes >= 16 {
            assert_eq!(
                text,
                [before.as_bytes(), &killed.bytes].concat(),
                "torn after {torn_bytes}: {first:?}"
            );
        }
        // What may be there by chance is no part of the chunk: then all of it follows, on a line of its own.
        assert!(text.ends_with(&killed.bytes), "torn after {torn_bytes}");
        assert!(matches!(recover(), Rewrite::AlreadyThere { .. }));
        assert_eq!(fs::read(&killed.options.path).expect("there"), text);
    }
}
