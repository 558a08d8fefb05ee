//! A disk that is full, broken, read-only, out of descriptors, slow or hanging, through the storage
//! seam: the log goes on, says what is wrong, and no line is lost, torn or written twice.

mod file_support;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use file_support::*;
use logdrive_drain::file::{
    Compress, Disk, Fault, Faulty, FileError, FileOptions, LogFile, Operation, Placement, Rewrite, rewrite,
};
use logdrive_testkit::Random;
use rustix::io::Errno;

const NOSPC: Fault = Fault::Error(Errno::NOSPC.raw_os_error());
const IO: Fault = Fault::Error(Errno::IO.raw_os_error());
const ROFS: Fault = Fault::Error(Errno::ROFS.raw_os_error());
const MFILE: Fault = Fault::Error(Errno::MFILE.raw_os_error());
const INTR: Fault = Fault::Error(Errno::INTR.raw_os_error());
const INVAL: Fault = Fault::Error(Errno::INVAL.raw_os_error());

/// A log on a disk with injected failures.
struct Setup {
    dir: tempfile::TempDir,
    options: FileOptions,
    storage: Arc<Faulty>,
    chunks: Chunks,
}

impl Setup {
    fn new() -> Setup {
        let dir = tempfile::tempdir().expect("a directory");
        let options = FileOptions::new(dir.path().join("app.log"));
        Setup {
            dir,
            options,
            storage: Arc::new(Faulty::new()),
            chunks: Chunks::default(),
        }
    }

    fn open(&self) -> LogFile {
        open_on(&self.options, self.storage.clone())
    }

    /// Fails unless the directory holds all lines made so far, once each.
    fn check_all_lines(&self) {
        let mut wanted = lines_of(&Chunks::default().next(self.chunks.lines));
        wanted.sort();
        assert_eq!(lines(self.dir.path()), wanted);
    }
}

#[test]
fn file_writes_that_fall_short_or_are_interrupted_go_on() {
    let mut setup = Setup::new();
    let mut file = setup.open();
    setup.storage.fail(Operation::WriteAt, 0, 3, Fault::Short(7));
    setup.storage.fail(Operation::WriteAt, 0, 5, INTR);
    put(&mut file, &setup.chunks.next(9), NOW_NS);
    setup.check_all_lines();
    assert!(setup.storage.calls(Operation::WriteAt) >= 9);
}

/// The new file was made, and not locked yet, when the compression of an earlier one took it for a rotated file; then the
/// names could not be exchanged, and the log did not rotate for ten seconds.
#[test]
fn a_new_file_that_a_pass_removes_before_it_is_locked_is_made_again() {
    let mut setup = Setup::new();
    setup.options.rotate_bytes = Some(64 << 10);
    let mut file = setup.open();
    put(&mut file, &vec![b'x'; 64 << 10], NOW_NS);
    setup.storage.fail(Operation::Lock, 0, 1, Fault::Hang);
    let rotates = std::thread::spawn(move || {
        put(&mut file, b"behind\n", NOW_NS);
        file.notice()
    });
    setup.storage.wait_until_hanging(1);
    let rotated = |name: &str| name.ends_with(".000001.log");
    let made: Vec<_> = names(setup.dir.path())
        .into_iter()
        .filter(|name| rotated(name))
        .collect();
    assert_eq!(made.len(), 1, "{made:?}");
    fs::remove_file(setup.dir.path().join(&made[0])).expect("removed");
    setup.storage.clear();
    assert_eq!(rotates.join().expect("rotated"), None);
    let log = fs::read_to_string(&setup.options.path).expect("the log");
    assert_eq!(log, "behind\n");
}

#[test]
fn file_writes_that_are_interrupted_for_ever_are_given_up() {
    let mut setup = Setup::new();
    let mut file = setup.open();
    setup.storage.fail(Operation::WriteAt, 0, u64::MAX, INTR);
    let bytes = setup.chunks.next(2);
    let placement = file.place(bytes.len() as u64, NOW_NS).expect("a place");
    assert!(file.write_at(placement, 0, &bytes).is_err());
    setup.storage.clear();
    file.write_at(placement, 0, &bytes).expect("written");
    setup.check_all_lines();
}

#[test]
fn a_file_on_a_full_disk_goes_on_where_it_stopped() {
    let mut setup = Setup::new();
    let mut file = setup.open();
    put(&mut file, &setup.chunks.next(3), NOW_NS);
    setup.storage.fail(Operation::WriteAt, 0, 1, Fault::Short(5));
    setup.storage.fail(Operation::WriteAt, 0, 2, NOSPC);
    let bytes = setup.chunks.next(3);
    let placement = file.place(bytes.len() as u64, NOW_NS).expect("a place");
    let failed = file.write_at(placement, 0, &bytes).expect_err("the disk is full");
    assert_eq!(failed.written_bytes, 5);
    assert_eq!(failed.cause.os_error(), Some(Errno::NOSPC.raw_os_error()));
    assert!(failed.to_string().contains("free space"), "{failed}");
    assert!(file.place(1, NOW_NS).is_err(), "the chunk is unfinished");
    let failed = file.write_at(placement, 5, &bytes).expect_err("still full");
    assert_eq!(failed.written_bytes, 5);
    file.write_at(placement, 5, &bytes).expect("space again");
    setup.check_all_lines();
}

#[test]
fn a_file_takes_only_the_chunk_that_was_placed_and_leaves_no_gap_in_it() {
    let mut setup = Setup::new();
    let mut file = setup.open();
    let bytes = setup.chunks.next(2);
    let placement = file.place(bytes.len() as u64, NOW_NS).expect("a place");
    let elsewhere = Placement {
        offset: 7,
        ..placement
    };
    for (placement, skip_bytes, bytes) in [
        (elsewhere, 0, &bytes[..]),
        (placement, 1, &bytes[..]),
        (placement, 0, &bytes[1..]),
        (placement, u64::MAX, &bytes[..]),
    ] {
        let failed = file
            .write_at(placement, skip_bytes, bytes)
            .expect_err("misplaced");
        assert!(matches!(failed.cause, FileError::Misplaced { .. }), "{failed}");
    }
    file.write_at(placement, 0, &bytes).expect("written");
    setup.check_all_lines();
}

#[test]
fn an_abandoned_chunk_leaves_whole_lines_in_the_file() {
    let mut setup = Setup::new();
    let mut file = setup.open();
    put(&mut file, &setup.chunks.next(2), NOW_NS);
    let bytes = setup.chunks.next(1);
    let more = [bytes.clone(), b"never written whole\n".to_vec()].concat();
    setup
        .storage
        .fail(Operation::WriteAt, 0, 1, Fault::Short(bytes.len() + 5));
    setup.storage.fail(Operation::WriteAt, 0, 1, IO);
    let placement = file.place(more.len() as u64, NOW_NS).expect("a place");
    let failed = file.write_at(placement, 0, &more).expect_err("the disk fails");
    assert_eq!(failed.written_bytes, bytes.len() as u64 + 5);
    file.abandon(placement, bytes.len() as u64).expect("cut");
    setup.check_all_lines();
    assert!(file.abandon(placement, 0).is_err(), "twice");
    assert!(file.write_at(placement, 0, &more).is_err(), "the chunk is gone");
    put(&mut file, &setup.chunks.next(2), NOW_NS);
    setup.check_all_lines();
}

#[test]
fn a_torn_line_that_cannot_be_cut_now_is_cut_before_the_next_chunk_of_the_file() {
    let mut setup = Setup::new();
    let mut file = setup.open();
    put(&mut file, &setup.chunks.next(2), NOW_NS);
    setup.storage.fail(Operation::WriteAt, 0, 1, Fault::Short(5));
    setup.storage.fail(Operation::WriteAt, 0, 1, ROFS);
    setup.storage.fail(Operation::SetLen, 0, 2, ROFS);
    let placement = file.place(10, NOW_NS).expect("a place");
    file.write_at(placement, 0, b"torn line\n")
        .expect_err("read-only");
    file.abandon(placement, 0).expect_err("read-only");
    file.place(10, NOW_NS).expect_err("still read-only");
    put(&mut file, &setup.chunks.next(2), NOW_NS);
    setup.check_all_lines();
}

#[test]
fn a_file_that_cannot_be_rotated_is_written_on_and_rotated_later() {
    for (operation, fault) in [
        (Operation::List, MFILE),
        (Operation::Open, MFILE),
        (Operation::Open, NOSPC),
        (Operation::Lock, IO),
        (Operation::Rename, ROFS),
        (Operation::Rename, NOSPC),
    ] {
        let mut setup = Setup::new();
        setup.options.rotate_bytes = Some(50);
        let mut file = setup.open();
        put(&mut file, &setup.chunks.next(3), NOW_NS);
        setup.storage.fail(operation, 0, u64::MAX, fault);
        put(&mut file, &setup.chunks.next(3), NOW_NS + 1);
        put(&mut file, &setup.chunks.next(3), NOW_NS + 2);
        assert_eq!(names(setup.dir.path()), ["app.log"], "{operation:?}");
        setup.check_all_lines();
        let told = notices(&mut file);
        assert_eq!(told.len(), 1, "once: {told:?}");
        assert!(
            told[0].contains("cannot") && told[0].contains("written on"),
            "{told:?}"
        );
        setup.storage.clear();
        put(&mut file, &setup.chunks.next(1), NOW_NS + 3);
        assert_eq!(names(setup.dir.path()).len(), 1, "not before 10 s have passed");
        put(&mut file, &setup.chunks.next(1), NOW_NS + 11 * SECOND_NS);
        assert_eq!(names(setup.dir.path()).len(), 2, "{operation:?}");
        setup.check_all_lines();
    }
}

#[test]
fn a_file_system_that_cannot_exchange_names_rotates_all_the_same() {
    let mut setup = Setup::new();
    setup.options.rotate_bytes = Some(50);
    let mut file = setup.open();
    for step in 0..10 {
        setup.storage.clear();
        setup.storage.fail(Operation::Rename, 0, 1, INVAL);
        put(&mut file, &setup.chunks.next(3), NOW_NS + step);
    }
    assert_eq!(names(setup.dir.path()).len(), 10);
    setup.check_all_lines();
    assert_eq!(notices(&mut file), Vec::<String>::new());
    let second = setup.open();
    assert_ne!(second.path(), setup.options.path, "the new file is locked");
}

#[test]
fn a_file_gets_its_name_back_when_the_new_one_cannot_be_made() {
    let mut setup = Setup::new();
    setup.options.rotate_bytes = Some(50);
    let mut file = setup.open();
    put(&mut file, &setup.chunks.next(3), NOW_NS);
    setup.storage.fail(Operation::Rename, 0, 1, INVAL);
    setup.storage.fail(Operation::Open, 1, 1, MFILE);
    put(&mut file, &setup.chunks.next(3), NOW_NS);
    assert_eq!(names(setup.dir.path()), ["app.log"]);
    setup.check_all_lines();
}

#[test]
fn a_file_that_could_not_be_synced_is_sealed_and_its_bytes_are_in_doubt() {
    let mut setup = Setup::new();
    let mut file = setup.open();
    put(&mut file, &setup.chunks.next(3), NOW_NS);
    file.sync().expect("synced");
    let first = put(&mut file, &setup.chunks.next(2), NOW_NS);
    let last = put(&mut file, &setup.chunks.next(2), NOW_NS);
    setup.storage.fail(Operation::Sync, 0, 1, IO);
    let failed = file.sync().expect_err("the disk fails");
    assert_eq!(failed.unsynced.len(), 1);
    let doubt = &failed.unsynced[0];
    assert_eq!(
        (doubt.dev, doubt.ino, doubt.from_offset),
        (first.dev, first.ino, first.offset)
    );
    assert!(doubt.to_offset > last.offset);
    assert_eq!(setup.storage.calls(Operation::Sync), 2);
    file.sync().expect("nothing new is in doubt");
    assert_eq!(
        setup.storage.calls(Operation::Sync),
        2,
        "never again on this descriptor"
    );
    let next = put(&mut file, &setup.chunks.next(2), NOW_NS);
    assert_eq!((next.ino != first.ino, next.offset), (true, 0));
    file.sync().expect("the new file is sound");
    assert_eq!(
        names(setup.dir.path()),
        ["app.2026-11-21T12-34-56Z.000001.log", "app.log"]
    );
    setup.check_all_lines();
}

#[test]
fn a_rotated_file_is_synced_first_where_syncs_are_wanted() {
    let mut setup = Setup::new();
    setup.options.rotate_bytes = Some(50);
    let mut file = setup.open();
    put(&mut file, &setup.chunks.next(1), NOW_NS);
    file.sync().expect("synced");
    let lost = put(&mut file, &setup.chunks.next(1), NOW_NS);
    setup.storage.fail(Operation::Sync, 0, 1, IO);
    put(&mut file, &setup.chunks.next(3), NOW_NS);
    let failed = file.sync().expect_err("reported by the next sync");
    assert_eq!(
        (failed.unsynced[0].ino, failed.unsynced[0].from_offset),
        (lost.ino, lost.offset)
    );
    file.sync().expect("told once");
}

#[test]
fn what_is_written_to_a_sealed_file_is_in_doubt_too() {
    let mut setup = Setup::new();
    let mut file = setup.open();
    let bytes = setup.chunks.next(3);
    let placement = file.place(bytes.len() as u64, NOW_NS).expect("a place");
    setup.storage.fail(Operation::WriteAt, 0, 1, Fault::Short(4));
    setup.storage.fail(Operation::WriteAt, 0, 1, NOSPC);
    file.write_at(placement, 0, &bytes).expect_err("full");
    setup.storage.fail(Operation::Sync, 0, 1, IO);
    assert_eq!(file.sync().expect_err("fails").unsynced[0].to_offset, 4);
    file.write_at(placement, 4, &bytes).expect("the rest");
    let failed = file.sync().expect_err("sealed");
    assert_eq!(failed.unsynced[0].from_offset, 4);
    assert_eq!(failed.unsynced[0].to_offset, bytes.len() as u64);
}

#[test]
fn a_file_on_a_disk_that_hangs_goes_on_when_the_disk_does() {
    let mut setup = Setup::new();
    let mut file = setup.open();
    setup.storage.fail(Operation::WriteAt, 0, 1, Fault::Hang);
    let bytes = setup.chunks.next(2);
    let done = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let done = done.clone();
        move || {
            put(&mut file, &bytes, NOW_NS);
            done.store(true, Ordering::SeqCst);
        }
    });
    setup.storage.wait_until_hanging(1);
    assert!(!done.load(Ordering::SeqCst));
    setup.storage.clear();
    writer.join().expect("the write ends");
    setup.check_all_lines();
}

/// Writes a chunk; in the middle of that, something is done to the file from outside.
fn write_slowly(setup: &Setup, mut file: LogFile, bytes: Vec<u8>, outside: impl FnOnce(&Path)) -> LogFile {
    setup.storage.fail(Operation::WriteAt, 0, 1, Fault::Hang);
    let writer = std::thread::spawn(move || {
        let placement = file.place(bytes.len() as u64, NOW_NS).expect("a place");
        file.write_at(placement, 0, &bytes).expect("written");
        file
    });
    setup.storage.wait_until_hanging(1);
    outside(&setup.options.path);
    setup.storage.clear();
    writer.join().expect("the write ends")
}

#[test]
fn a_file_that_is_deleted_under_a_write_is_found_to_be() {
    let mut setup = Setup::new();
    let file = setup.open();
    let bytes = setup.chunks.next(3);
    let mut file = write_slowly(&setup, file, bytes.clone(), |path| {
        fs::remove_file(path).expect("removed");
    });
    assert!(file.was_deleted());
    put(&mut file, &bytes, NOW_NS);
    assert!(!file.was_deleted());
    setup.check_all_lines();
    file.sync().expect("nothing was lost with the file");
}

fn truncate(path: &Path) {
    let file = fs::File::options().write(true).open(path).expect("open");
    file.set_len(0).expect("truncated");
}

/// Written at the offset of before, the file began with as many zeros.
#[test]
fn a_file_that_is_truncated_under_a_write_gets_the_lines_at_its_new_end() {
    let setup = Setup::new();
    let mut file = setup.open();
    let mut chunks = Chunks::default();
    put(&mut file, &chunks.next(3), NOW_NS);
    let bytes = chunks.next(3);
    let mut file = write_slowly(&setup, file, bytes.clone(), truncate);
    assert_eq!(fs::read(&setup.options.path).expect("there"), bytes);
    let more = chunks.next(3);
    put(&mut file, &more, NOW_NS);
    assert_eq!(
        fs::read(&setup.options.path).expect("there"),
        [bytes, more].concat()
    );
}

#[test]
fn a_file_that_is_truncated_between_tries_of_a_write_goes_on_with_the_line_that_was_cut() {
    let setup = Setup::new();
    let mut file = setup.open();
    let mut chunks = Chunks::default();
    put(&mut file, &chunks.next(3), NOW_NS);
    let line = chunks.next(1);
    let rest = chunks.next(2);
    let bytes = [line.clone(), rest.clone()].concat();
    for _ in 0..2 {
        let placement = file.place(bytes.len() as u64, NOW_NS).expect("a place");
        setup
            .storage
            .fail(Operation::WriteAt, 0, 1, Fault::Short(line.len() + 4));
        setup.storage.fail(Operation::WriteAt, 0, 1, NOSPC);
        let failed = file.write_at(placement, 0, &bytes).expect_err("full");
        truncate(&setup.options.path);
        file.write_at(placement, failed.written_bytes, &bytes)
            .expect("written");
        assert_eq!(fs::read(&setup.options.path).expect("there"), rest);
    }
}

/// The disk takes a part of a line; the file is truncated before it takes the rest.
#[test]
fn a_file_that_is_truncated_behind_a_short_write_goes_on_with_the_line_that_was_cut() {
    let setup = Setup::new();
    let mut file = setup.open();
    let mut chunks = Chunks::default();
    let line = chunks.next(1);
    let rest = chunks.next(2);
    let bytes = [line.clone(), rest.clone()].concat();
    let placement = file.place(bytes.len() as u64, NOW_NS).expect("a place");
    let stats = setup.storage.calls(Operation::StatFile);
    setup
        .storage
        .fail(Operation::WriteAt, 0, 1, Fault::Short(line.len() + 4));
    setup.storage.fail(Operation::StatFile, 0, 1, Fault::Hang);
    let storage = setup.storage.clone();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| file.write_at(placement, 0, &bytes));
        while storage.calls(Operation::StatFile) == stats {
            assert!(!writer.is_finished(), "the size is not checked");
            std::thread::yield_now();
        }
        storage.wait_until_hanging(1);
        truncate(&setup.options.path);
        storage.clear();
        writer.join().expect("no panic").expect("written");
    });
    assert_eq!(fs::read(&setup.options.path).expect("there"), rest);
}

#[test]
fn a_file_that_is_closed_does_not_wait_for_a_compression_that_hangs() {
    let mut setup = Setup::new();
    setup.options.rotate_bytes = Some(50);
    setup.options.compress = if cfg!(feature = "gzip") {
        Compress::Gzip
    } else {
        Compress::None
    };
    let mut file = setup.open();
    settle(&file);
    put(&mut file, &setup.chunks.next(3), NOW_NS);
    setup.storage.fail(Operation::ReadAt, 0, 1, Fault::Hang);
    put(&mut file, &setup.chunks.next(3), NOW_NS);
    if setup.options.compress == Compress::None {
        return;
    }
    setup.storage.wait_until_hanging(1);
    assert!(!file.wait_idle(Duration::ZERO));
    file.close(NOW_NS).expect("closed at once");
    setup.storage.clear();
}

/// At whatever operation a compression is cut short, the lines are there once after the next open.
#[cfg_attr(not(any(feature = "gzip", feature = "zstd")), allow(dead_code))]
fn compressions_cut_short(compress: Compress) {
    for passes in 0..60 {
        let mut setup = Setup::new();
        setup.options.rotate_bytes = Some(50);
        let mut file = setup.open();
        put(&mut file, &setup.chunks.next(3), NOW_NS);
        put(&mut file, &setup.chunks.next(3), NOW_NS);
        file.close(NOW_NS).expect("closed");
        setup.options.compress = compress;
        setup.storage.fail_all(passes, NOSPC);
        let opened = LogFile::open(&setup.options, setup.storage.clone(), NOW_NS);
        if let Ok(file) = &opened {
            settle(file);
        }
        drop(opened);
        let file = open(&setup.options);
        settle(&file);
        assert_eq!(names(setup.dir.path()).len(), 2, "after {passes} operations");
        setup.check_all_lines();
    }
}

#[cfg(feature = "gzip")]
#[test]
fn a_rotated_file_survives_a_gzip_that_is_cut_short_anywhere() {
    compressions_cut_short(Compress::Gzip);
}

#[cfg(feature = "zstd")]
#[test]
fn a_rotated_file_survives_a_zstd_that_is_cut_short_anywhere() {
    compressions_cut_short(Compress::Zstd);
}

/// The power of the seam: all operations after the n-th fail, the process dies, its last chunk is
/// recovered, and a new process goes on.
#[test]
fn a_file_keeps_every_chunk_when_the_disk_dies_at_any_operation() {
    Random::rounds(400, |random| {
        let mut setup = Setup::new();
        setup.options.rotate_bytes = Some(40 + random.below(300));
        if random.below(2) == 0 {
            setup.options.header = Some("line 000000 a header".into());
        }
        let mut file = setup.open();
        let mut pending = None;
        setup
            .storage
            .fail_all(random.below(150), if random.below(2) == 0 { NOSPC } else { IO });
        for step in 0..25 {
            if random.below(4) == 0 {
                setup
                    .storage
                    .fail(Operation::WriteAt, 0, 1, Fault::Short(random.below(40) as usize));
            }
            let bytes = setup.chunks.next(1 + random.below(4));
            let now_ns = NOW_NS + step * SECOND_NS / 4;
            let Ok(placement) = file.place(bytes.len() as u64, now_ns) else {
                pending = Some((None, bytes));
                break;
            };
            if file.write_at(placement, 0, &bytes).is_err() {
                pending = Some((Some(placement), bytes));
                break;
            }
        }
        drop(file);
        let recover = |bytes: &[u8], placement| {
            let disk = Arc::new(Disk);
            rewrite(&setup.options, disk, placement, bytes).expect("recovered")
        };
        match pending {
            Some((Some(placement), bytes)) => {
                assert!(matches!(recover(&bytes, placement), Rewrite::InPlace { .. }));
                let again = recover(&bytes, placement);
                assert!(matches!(again, Rewrite::AlreadyThere { .. }), "{again:?}");
            }
            Some((None, bytes)) => {
                put(&mut open(&setup.options), &bytes, NOW_NS);
            }
            None => {}
        }
        let mut file = open(&setup.options);
        put(&mut file, &setup.chunks.next(1), NOW_NS);
        let mut found = lines(setup.dir.path());
        found.retain(|line| !line.starts_with("line 000000"));
        let mut wanted = lines_of(&Chunks::default().next(setup.chunks.lines));
        wanted.sort();
        assert_eq!(found, wanted);
    });
}

#[test]
fn a_log_file_lists_its_directory_only_where_that_has_changed() {
    let mut setup = Setup::new();
    setup.options.rotate_bytes = Some(1_000);
    setup.options.keep_files = Some(2);
    let mut file = setup.open();
    let at_open = setup.storage.calls(Operation::List);
    for step in 0..20 {
        put(&mut file, &setup.chunks.next(1), NOW_NS + step * SECOND_NS / 4);
    }
    // Its own file is the change.
    assert!(setup.storage.calls(Operation::List) <= at_open + 1);
    assert!(
        setup.storage.calls(Operation::Stat) < 20,
        "the path is looked at once per second"
    );
}

#[test]
fn a_file_that_cannot_be_removed_is_told_once_and_removed_later() {
    let mut setup = Setup::new();
    setup.options.rotate_bytes = Some(50);
    setup.options.keep_files = Some(0);
    let mut file = setup.open();
    setup.storage.fail(Operation::Remove, 0, 1, ROFS);
    put(&mut file, &setup.chunks.next(3), NOW_NS);
    put(&mut file, &setup.chunks.next(3), NOW_NS);
    assert_eq!(names(setup.dir.path()).len(), 2);
    assert!(notices(&mut file)[0].starts_with("cannot remove "));
    put(&mut file, &setup.chunks.next(3), NOW_NS);
    assert_eq!(names(setup.dir.path()), ["app.log"]);
}
