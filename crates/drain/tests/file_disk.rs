//! Log files on real file systems: modes, links, directories of others, full and read-only disks,
//! too many open files, rotation from outside, two owners, pipes and devices.

mod file_support;

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use file_support::*;
use logdrive_drain::file::{Disk, FileError, FileOptions, LogFile, OpenMode, Storage as _};
use rustix::io::Errno;

fn temporary() -> (tempfile::TempDir, FileOptions) {
    let dir = tempfile::tempdir().expect("a directory");
    let options = FileOptions::new(dir.path().join("app.log"));
    (dir, options)
}

fn refusal(options: &FileOptions) -> FileError {
    LogFile::open(options, Arc::new(Disk), NOW_NS).expect_err("refused")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").mode() & 0o7777
}

#[test]
fn a_log_file_and_its_missing_directories_are_made_for_the_owner() {
    let (dir, mut options) = temporary();
    options.path = dir.path().join("a/b/c/app.log");
    let mut file = open(&options);
    put(&mut file, b"hello\n", NOW_NS);
    assert_eq!(mode(&options.path) & 0o137, 0, "at most 0640");
    assert_eq!(mode(&dir.path().join("a")) & 0o027, 0, "at most 0750");
    assert_eq!(fs::read(&options.path).expect("there"), b"hello\n");
}

#[test]
fn an_existing_file_is_continued() {
    let (_dir, options) = temporary();
    fs::write(&options.path, "before\n").expect("written");
    put(&mut open(&options), b"after\n", NOW_NS);
    assert_eq!(fs::read(&options.path).expect("there"), b"before\nafter\n");
}

#[test]
fn a_file_whose_last_line_is_torn_gets_an_end_to_it() {
    let (_dir, options) = temporary();
    fs::write(&options.path, "before\ntor").expect("written");
    put(&mut open(&options), b"after\n", NOW_NS);
    assert_eq!(fs::read(&options.path).expect("there"), b"before\ntor\nafter\n");
}

#[test]
fn a_header_stands_at_the_top_of_every_new_file() {
    let (dir, mut options) = temporary();
    options.header = Some("# made by a test".into());
    options.rotate_bytes = Some(30);
    let mut file = open(&options);
    put(&mut file, b"one\n", NOW_NS);
    put(&mut file, b"a line that is too long\n", NOW_NS);
    drop(file);
    put(&mut open(&options), b"two\n", NOW_NS);
    assert_eq!(
        fs::read_to_string(dir.path().join("app.2026-11-21T12-34-56Z.000001.log")).expect("rotated"),
        "# made by a test\none\n"
    );
    assert!(
        fs::read_to_string(&options.path)
            .expect("there")
            .ends_with("two\n")
    );
    for name in names(dir.path()) {
        let text = fs::read_to_string(dir.path().join(name)).expect("there");
        assert_eq!(text.matches("# made").count(), 1);
    }
}

#[test]
fn a_header_that_a_kill_has_cut_short_is_written_to_the_file_again() {
    let (dir, mut options) = temporary();
    options.header = Some("# made by a test".into());
    options.rotate_bytes = Some(1);
    fs::write(&options.path, "# made").expect("written");
    put(&mut open(&options), b"one\n", NOW_NS);
    assert_eq!(
        fs::read(&options.path).expect("there"),
        b"# made by a test\none\n"
    );
    fs::write(&options.path, "# made by a test\n").expect("written");
    put(&mut open(&options), b"two\n", NOW_NS);
    assert_eq!(
        names(dir.path()),
        ["app.log"],
        "a file without records is not rotated"
    );
    assert_eq!(
        fs::read(&options.path).expect("there"),
        b"# made by a test\ntwo\n"
    );
}

#[test]
fn a_log_file_in_a_directory_that_is_a_link_is_refused() {
    let (dir, mut options) = temporary();
    fs::create_dir(dir.path().join("real")).expect("made");
    symlink("real", dir.path().join("link")).expect("linked");
    options.path = dir.path().join("link/app.log");
    let error = refusal(&options);
    assert!(matches!(error, FileError::DirectoryIsLink { .. }), "{error}");
    assert!(error.to_string().contains("trust_directory"));
    options.trust_directory = true;
    put(&mut open(&options), b"x\n", NOW_NS);
    assert_eq!(names(&dir.path().join("real")), ["app.log"]);
}

#[test]
fn a_log_file_in_a_directory_that_all_may_write_to_is_refused() {
    let (dir, mut options) = temporary();
    let open_dir = dir.path().join("open");
    fs::create_dir(&open_dir).expect("made");
    fs::set_permissions(&open_dir, Permissions::from_mode(0o777)).expect("set");
    options.path = open_dir.join("app.log");
    assert!(matches!(
        refusal(&options),
        FileError::DirectoryOpenToAll { mode: 0o777, .. }
    ));
    fs::set_permissions(&open_dir, Permissions::from_mode(0o1777)).expect("set");
    put(&mut open(&options), b"x\n", NOW_NS);
    fs::hard_link(&options.path, open_dir.join("second name")).expect("linked");
    assert!(
        matches!(refusal(&options), FileError::FileOfOther { .. }),
        "a hard link"
    );
}

/// Whoever plants a pipe where the log will be reads the log.
#[test]
fn a_pipe_of_another_user_in_a_directory_that_all_may_write_to_is_refused() {
    let (dir, mut options) = temporary();
    let shared = dir.path().join("shared");
    fs::create_dir(&shared).expect("made");
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("set");
    options.path = shared.join("app.log");
    let kind = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, &options.path, kind, mode, 0).expect("a pipe");
    drop(open(&options));
    if std::os::unix::fs::chown(&options.path, Some(12_345), None).is_err() {
        println!("skipped: only root may give a pipe away");
        return;
    }
    let error = refusal(&options);
    assert!(
        matches!(error, FileError::FileOfOther { owner: 12_345, .. }),
        "{error}"
    );
}

#[test]
fn a_log_file_in_a_directory_of_another_user_is_refused() {
    let (dir, mut options) = temporary();
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).expect("made");
    if std::os::unix::fs::chown(&theirs, Some(12_345), None).is_err() {
        println!("skipped: only root may give a directory away");
        return;
    }
    options.path = theirs.join("app.log");
    let error = refusal(&options);
    assert!(
        matches!(error, FileError::DirectoryOfOther { owner: 12_345, .. }),
        "{error}"
    );
    assert!(error.is_permanent());
}

#[test]
fn a_path_that_is_no_file_is_refused() {
    let (dir, mut options) = temporary();
    fs::write(dir.path().join("target"), "precious\n").expect("written");
    symlink("target", dir.path().join("link.log")).expect("linked");
    options.path = dir.path().join("link.log");
    assert!(matches!(refusal(&options), FileError::FileIsLink { .. }));
    symlink("nowhere", dir.path().join("dangling.log")).expect("linked");
    options.path = dir.path().join("dangling.log");
    assert!(matches!(refusal(&options), FileError::FileIsLink { .. }));
    options.path = dir.path().to_path_buf();
    options.trust_directory = true;
    assert!(matches!(
        refusal(&options),
        FileError::NotAFile {
            what: "directory",
            ..
        }
    ));
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).expect("bound");
    options.path = dir.path().join("socket");
    assert!(matches!(refusal(&options), FileError::NotAFile { .. }));
    options.path = dir.path().join("target/app.log");
    assert!(
        refusal(&options).to_string().contains("no directory"),
        "{}",
        refusal(&options)
    );
    assert_eq!(fs::read(dir.path().join("target")).expect("there"), b"precious\n");
}

#[test]
fn a_link_that_takes_the_place_of_a_file_is_not_followed_at_open() {
    let (dir, _) = temporary();
    fs::write(dir.path().join("target"), "precious\n").expect("written");
    symlink("target", dir.path().join("link")).expect("linked");
    let open_dir = Disk.open_dir(dir.path(), false).expect("a directory");
    for how in [
        OpenMode::Existing,
        OpenMode::ReadOnly,
        OpenMode::Stream,
        OpenMode::New(0o640),
    ] {
        assert!(Disk.open(&open_dir, "link", how).is_err(), "{how:?}");
    }
}

#[test]
fn a_second_owner_of_a_log_file_writes_beside_it_and_says_so() {
    let (dir, mut options) = temporary();
    options.rotate_bytes = Some(20);
    let mut first = open(&options);
    let mut second = open(&options);
    let third = open(&options);
    let pid = std::process::id();
    assert_eq!(second.path(), dir.path().join(format!("app.{pid}.log")));
    assert_eq!(third.path(), dir.path().join(format!("app.{pid}-2.log")));
    assert!(notices(&mut first).is_empty());
    assert!(notices(&mut second)[0].contains("in use by another process"));
    let mut chunks = Chunks::default();
    for step in 0..6 {
        put(&mut first, &chunks.next(1), NOW_NS + step);
        put(&mut second, &chunks.next(1), NOW_NS + step);
    }
    let mut wanted = lines_of(&Chunks::default().next(12));
    wanted.sort();
    assert_eq!(lines(dir.path()), wanted);
    drop((first, second));
    assert_eq!(
        open(&options).path(),
        options.path,
        "the lock goes with its owner"
    );
}

#[test]
fn a_file_beside_joins_the_rotated_ones_at_close_where_retention_is_on() {
    let (dir, mut options) = temporary();
    let first = open(&options);
    let mut second = open(&options);
    put(&mut second, b"kept under its name\n", NOW_NS);
    second.close(NOW_NS).expect("closed");
    assert_eq!(names(dir.path()).len(), 2);
    fs::remove_file(dir.path().join(format!("app.{}.log", std::process::id()))).expect("removed");
    options.keep_files = Some(3);
    let mut second = open(&options);
    put(&mut second, b"rotated\n", NOW_NS);
    second.close(NOW_NS).expect("closed");
    assert_eq!(
        names(dir.path()),
        ["app.2026-11-21T12-34-56Z.000001.log", "app.log"]
    );
    drop(first);
}

#[test]
fn a_file_rotated_from_outside_is_noticed_within_a_second() {
    let (dir, options) = temporary();
    let mut file = open(&options);
    put(&mut file, b"one\n", NOW_NS);
    fs::rename(&options.path, dir.path().join("app.log.1")).expect("renamed");
    put(&mut file, b"two\n", NOW_NS + SECOND_NS / 2);
    put(&mut file, b"three\n", NOW_NS + 2 * SECOND_NS);
    assert_eq!(
        fs::read(dir.path().join("app.log.1")).expect("there"),
        b"one\ntwo\n"
    );
    assert_eq!(fs::read(&options.path).expect("there"), b"three\n");
    fs::remove_file(&options.path).expect("removed");
    put(&mut file, b"four\n", NOW_NS + 4 * SECOND_NS);
    assert_eq!(fs::read(&options.path).expect("there"), b"four\n");
    fs::rename(&options.path, dir.path().join("app.log.2")).expect("renamed");
    file.reopen();
    put(&mut file, b"five\n", NOW_NS + 4 * SECOND_NS);
    assert_eq!(
        fs::read(&options.path).expect("there"),
        b"five\n",
        "asked, so at once"
    );
}

/// For up to a second all lines went to a file without a name.
#[test]
fn a_file_that_is_deleted_or_replaced_is_begun_anew_with_the_next_line() {
    let (dir, options) = temporary();
    let mut file = open(&options);
    put(&mut file, b"one\n", NOW_NS);
    fs::remove_file(&options.path).expect("removed");
    put(&mut file, b"two\n", NOW_NS);
    assert_eq!(fs::read(&options.path).expect("there"), b"two\n");
    assert!(notices(&mut file)[0].contains("was deleted"));
    fs::write(dir.path().join("other"), "by hand\n").expect("written");
    fs::rename(dir.path().join("other"), &options.path).expect("replaced");
    put(&mut file, b"three\n", NOW_NS);
    assert_eq!(fs::read(&options.path).expect("there"), b"by hand\nthree\n");
    assert!(!file.was_deleted());
    fs::remove_file(&options.path).expect("removed");
    assert!(file.was_deleted(), "behind the last line, which is written again");
    put(&mut file, b"three\n", NOW_NS);
    assert_eq!(fs::read(&options.path).expect("there"), b"three\n");
}

#[test]
fn a_file_whose_directory_was_moved_is_made_again() {
    let (dir, mut options) = temporary();
    options.path = dir.path().join("logs/app.log");
    let mut file = open(&options);
    put(&mut file, b"one\n", NOW_NS);
    fs::rename(dir.path().join("logs"), dir.path().join("old")).expect("renamed");
    put(&mut file, b"two\n", NOW_NS + 2 * SECOND_NS);
    assert_eq!(fs::read(&options.path).expect("there"), b"two\n");
    fs::remove_dir_all(dir.path().join("logs")).expect("removed");
    fs::write(dir.path().join("logs"), "in the way").expect("written");
    let error = file
        .place(5, NOW_NS + 4 * SECOND_NS)
        .expect_err("nowhere to write");
    assert!(error.to_string().contains("logs"), "{error}");
    fs::remove_file(dir.path().join("logs")).expect("removed");
    put(&mut file, b"three\n", NOW_NS + 4 * SECOND_NS);
    assert_eq!(fs::read(&options.path).expect("there"), b"three\n");
}

#[test]
fn a_file_that_is_truncated_or_appended_to_from_outside_is_continued_at_its_end() {
    let (_dir, options) = temporary();
    let mut file = open(&options);
    put(&mut file, b"one\n", NOW_NS);
    fs::File::options()
        .write(true)
        .open(&options.path)
        .expect("open")
        .set_len(0)
        .expect("cut");
    put(&mut file, b"two\n", NOW_NS);
    assert_eq!(
        fs::read(&options.path).expect("there"),
        b"two\n",
        "no hole of zeros"
    );
    let mut outside = fs::File::options()
        .append(true)
        .open(&options.path)
        .expect("open");
    std::io::Write::write_all(&mut outside, b"by hand").expect("written");
    put(&mut file, b"three\n", NOW_NS);
    assert_eq!(fs::read(&options.path).expect("there"), b"two\nby hand\nthree\n");
}

#[test]
fn a_pipe_as_log_file_needs_no_reader_to_be_opened_and_never_blocks_for_ever() {
    let (_dir, options) = temporary();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &options.path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe");
    let mut file = open(&options);
    assert!(!file.is_regular());
    let line = [b"x".repeat(4_095), b"\n".to_vec()].concat();
    let chunk = line.repeat(64);
    let placement = file.place(chunk.len() as u64, NOW_NS).expect("a place");
    let mut written = 0;
    let busy = loop {
        match file.write_at(placement, written, &chunk) {
            Ok(()) => panic!("a pipe holds less than {} bytes", chunk.len()),
            Err(failed) if failed.written_bytes > written => written = failed.written_bytes,
            Err(failed) => break failed,
        }
    };
    assert!(busy.cause.is_busy(), "{busy}");
    let mut reader = fs::File::open(&options.path).expect("a reader");
    let mut read = vec![0; written as usize];
    reader.read_exact(&mut read).expect("all that was written");
    file.abandon(placement, 0).expect("given up");
    put(&mut file, b"next\n", NOW_NS);
    let mut read = [0; 6];
    reader.read_exact(&mut read).expect("the next line");
    assert_eq!(&read, b"\nnext\n", "on a line of its own");
    file.sync().expect("nothing to sync");
}

#[test]
fn a_device_as_log_file_takes_everything() {
    let mut file = open(&FileOptions::new("/dev/null"));
    put(&mut file, b"one\n", NOW_NS);
    assert_eq!(put(&mut file, b"two\n", NOW_NS).offset, 4);
}

#[test]
fn a_full_disk_stops_the_file_at_a_whole_line_until_there_is_space() {
    let Some(disk) = SmallDisk::mount(256 << 10) else {
        return;
    };
    let options = FileOptions::new(disk.dir.path().join("app.log"));
    let mut file = open(&options);
    let mut chunks = Chunks::default();
    let mut kept = Vec::new();
    let ballast = disk.dir.path().join("ballast");
    fs::write(&ballast, vec![0; 128 << 10]).expect("written");
    let (placement, bytes, failed) = loop {
        let bytes = chunks.next(1_000);
        let placement = file.place(bytes.len() as u64, NOW_NS).expect("a place");
        match file.write_at(placement, 0, &bytes) {
            Ok(()) => kept.extend(lines_of(&bytes)),
            Err(failed) => break (placement, bytes, failed),
        }
    };
    assert_eq!(failed.cause.os_error(), Some(Errno::NOSPC.raw_os_error()));
    let whole = &bytes[..failed.written_bytes as usize];
    let keep = whole
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |last| last + 1);
    file.abandon(placement, keep as u64).expect("cut");
    kept.extend(lines_of(&bytes[..keep]));
    assert!(fs::read(&options.path).expect("there").ends_with(b"\n"));
    fs::remove_file(ballast).expect("removed");
    let bytes = chunks.next(10);
    put(&mut file, &bytes, NOW_NS);
    kept.extend(lines_of(&bytes));
    kept.sort();
    assert_eq!(lines(disk.dir.path()), kept);
}

#[test]
fn a_file_on_a_read_only_disk_goes_on_once_it_is_writable() {
    let Some(disk) = SmallDisk::mount(1 << 20) else {
        return;
    };
    disk.remount("ro");
    let mut options = FileOptions::new(disk.dir.path().join("app.log"));
    let error = refusal(&options);
    assert_eq!(error.os_error(), Some(Errno::ROFS.raw_os_error()));
    assert!(
        error.to_string().contains("read-only") && !error.is_permanent(),
        "{error}"
    );
    options.path = disk.dir.path().join("logs/app.log");
    assert!(
        refusal(&options)
            .to_string()
            .starts_with("cannot create the directory")
    );
    disk.remount("rw");
    put(&mut open(&options), b"x\n", NOW_NS);
}

#[test]
fn a_directory_without_write_permission_is_a_clear_file_error() {
    let (dir, options) = temporary();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o555)).expect("set");
    if rustix::process::geteuid().is_root() {
        println!("skipped: root may write everywhere");
    } else {
        assert!(refusal(&options).to_string().contains("the right to write there"));
    }
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("set");
    put(&mut open(&options), b"x\n", NOW_NS);
}

/// Runs in a process of its own, started by the test below.
fn rotate_without_descriptors(dir: &Path) {
    let mut options = FileOptions::new(dir.join("app.log"));
    options.rotate_bytes = Some(10);
    let mut file = open(&options);
    put(&mut file, b"0123456789\n", NOW_NS);
    let mut taken = Vec::new();
    let full = loop {
        match fs::File::open("/dev/null") {
            Ok(file) => taken.push(file),
            Err(cause) => break cause,
        }
    };
    assert_eq!(full.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    let other = FileOptions::new(dir.join("other.log"));
    assert!(refusal(&other).to_string().contains("ulimit -n"));
    put(&mut file, b"written on\n", NOW_NS);
    assert!(notices(&mut file)[0].contains("ulimit -n"));
    drop(taken);
    put(&mut file, b"rotated\n", NOW_NS + 20 * SECOND_NS);
    assert_eq!(fs::read(&options.path).expect("there"), b"rotated\n");
}

#[test]
fn a_file_is_written_on_when_no_descriptor_is_left() {
    const CHILD: &str = "LOGDRIVE_TEST_DIR";
    if let Some(dir) = std::env::var_os(CHILD) {
        return rotate_without_descriptors(&PathBuf::from(dir));
    }
    let dir = tempfile::tempdir().expect("a directory");
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 24 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "a_file_is_written_on_when_no_descriptor_is_left",
            "--nocapture",
        ])
        .env(CHILD, dir.path())
        .output()
        .expect("the child runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(names(dir.path()).len(), 2);
}

#[test]
fn the_link_points_to_the_log_file_and_spares_what_is_no_link() {
    let (dir, mut options) = temporary();
    let link = dir.path().join("newest");
    options.newest_link = Some(link.clone());
    let first = open(&options);
    assert_eq!(fs::read_link(&link).expect("a link"), Path::new("app.log"));
    let second = open(&options);
    assert_eq!(
        fs::read_link(&link).expect("a link"),
        Path::new(second.path().file_name().expect("a name"))
    );
    drop((first, second));
    options.newest_link = Some(dir.path().join("links/newest"));
    open(&options);
    assert_eq!(
        fs::read_link(dir.path().join("links/newest")).expect("a link"),
        options.path
    );
    fs::remove_file(&link).expect("removed");
    fs::write(&link, "precious").expect("written");
    options.newest_link = Some(link.clone());
    let mut file = open(&options);
    assert!(
        notices(&mut file)[0].contains("no link"),
        "the log opens all the same"
    );
    assert_eq!(fs::read(&link).expect("there"), b"precious");
}

#[cfg(feature = "zstd")]
#[test]
fn the_newest_rotated_file_stays_plain_until_the_next_one_where_that_is_asked_for() {
    let (dir, mut options) = temporary();
    options.compress = logdrive_drain::file::Compress::Zstd;
    options.rotated.delay_compress = true;
    let rotated = |number: u32| format!("app.2020-01-01T00-00-00Z.{number}.log");
    for number in 1..4 {
        fs::write(dir.path().join(rotated(number)), "old\n").expect("written");
    }
    let open_once = || {
        let file = open(&options);
        settle(&file);
        names(dir.path())
    };
    let zst = |number: u32| format!("{}.zst", rotated(number));
    assert_eq!(open_once(), [zst(1), zst(2), rotated(3), "app.log".to_owned()]);
    fs::write(dir.path().join(rotated(4)), "old\n").expect("written");
    assert_eq!(
        open_once(),
        [zst(1), zst(2), zst(3), rotated(4), "app.log".to_owned()]
    );
}

/// By the times in the names the file of before was the newest, so that it stayed plain.
#[cfg(feature = "zstd")]
#[test]
fn the_file_rotated_last_stays_plain_though_the_clock_was_set_back() {
    let (dir, mut options) = temporary();
    options.compress = logdrive_drain::file::Compress::Zstd;
    options.rotated.delay_compress = true;
    options.keep_files = Some(2);
    options.rotate_bytes = Some(10);
    let mut file = open(&options);
    let hour_ns = 3_600 * SECOND_NS;
    for now_ns in [NOW_NS, NOW_NS + 1, NOW_NS + 2, NOW_NS - hour_ns, NOW_NS - hour_ns] {
        put(&mut file, b"0123456789\n", now_ns);
        settle(&file);
    }
    assert_eq!(
        names(dir.path()),
        [
            "app.2026-11-21T11-34-56Z.000003.log.zst",
            "app.2026-11-21T11-34-56Z.000004.log",
            "app.log"
        ]
    );
}

#[cfg(feature = "zstd")]
#[test]
fn a_rotated_file_that_stays_plain_counts_as_bytes_once_it_is_compressed() {
    let (dir, mut options) = temporary();
    options.compress = logdrive_drain::file::Compress::Zstd;
    options.rotated.delay_compress = true;
    options.keep_bytes = Some(200);
    let rotated = |number: u32| format!("app.2020-01-01T00-00-00Z.{number}.log");
    for number in 1..4 {
        fs::write(dir.path().join(rotated(number)), "a line\n".repeat(100)).expect("written");
    }
    let file = open(&options);
    settle(&file);
    let zst = |number: u32| format!("{}.zst", rotated(number));
    assert_eq!(
        names(dir.path()),
        [zst(1), zst(2), rotated(3), "app.log".to_owned()]
    );
}

#[test]
fn only_files_of_our_own_names_are_ever_removed() {
    let (dir, mut options) = temporary();
    let foreign = [
        "app.log.1",
        "app.1.log",
        "app.2026-11-21T12-34-56Z.log",
        "app.2020-01-01T00-00-00Z.1.log.bak",
        "app2.2020-01-01T00-00-00Z.1.log",
        "app.txt",
    ];
    for name in foreign {
        fs::write(dir.path().join(name), "precious\n").expect("written");
    }
    let mut kept: Vec<String> = foreign.iter().map(|name| (*name).to_owned()).collect();
    fs::create_dir(dir.path().join("app.2020-01-01T00-00-00Z.7.log")).expect("made");
    symlink("app.txt", dir.path().join("app.2020-01-01T00-00-00Z.8.log")).expect("linked");
    kept.push("app.2020-01-01T00-00-00Z.7.log".into());
    kept.push("app.2020-01-01T00-00-00Z.8.log".into());
    for number in 1..4 {
        let name = format!("app.2020-01-01T00-00-00Z.{number}.log");
        fs::write(dir.path().join(name), "old\n").expect("written");
    }
    fs::write(
        dir.path().join("app.2020-01-01T00-00-00Z.9.log.gz.tmp"),
        "left over",
    )
    .expect("written");
    fs::write(dir.path().join("app.2020-01-01T00-00-00Z.5.log"), "").expect("written");
    options.keep_files = Some(0);
    open(&options);
    kept.push("app.log".into());
    kept.sort();
    assert_eq!(names(dir.path()), kept);
}
