//! The truth of a sync: after it every line written before is on the disk, wherever rotation and compression have put
//! it, also behind a power cut; and what is in doubt is told.

mod file_support;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use file_support::*;
#[cfg(any(feature = "zstd", feature = "gzip"))]
use logdrive_drain::file::Compress;
use logdrive_drain::file::{Disk, Fault, Faulty, FileOptions, Operation, Storage as _};
use rustix::io::Errno;

const IO: Fault = Fault::Error(Errno::IO.raw_os_error());

fn temporary() -> (tempfile::TempDir, FileOptions, Arc<Faulty>) {
    let dir = tempfile::tempdir().expect("a directory");
    let options = FileOptions::new(dir.path().join("app.log"));
    (dir, options, Arc::new(Faulty::new()))
}

/// Files that were rotated before the first sync were forgotten: it answered true after the active file alone.
#[test]
fn the_first_sync_of_a_file_brings_those_before_it_to_the_disk() {
    let (_dir, mut options, storage) = temporary();
    options.rotate_bytes = Some(50);
    let mut file = open_on(&options, storage.clone());
    let mut chunks = Chunks::default();
    for _ in 0..30 {
        put(&mut file, &chunks.next(3), NOW_NS);
    }
    assert_eq!(
        storage.calls(Operation::Sync),
        0,
        "rotation does not wait for the disk"
    );
    file.sync().expect("synced");
    assert_eq!(storage.calls(Operation::Sync), 30);
    assert_eq!(storage.calls(Operation::SyncDir), 1, "and their names");
    file.sync().expect("nothing is left");
    assert_eq!(storage.calls(Operation::Sync), 30);
    // One that fails makes the sync fail, once, and is never tried again.
    put(&mut file, &chunks.next(3), NOW_NS);
    put(&mut file, &chunks.next(3), NOW_NS);
    storage.fail(Operation::Sync, 0, 1, IO);
    let failed = file.sync().expect_err("the disk fails");
    assert!(
        failed.unsynced[0].path.to_string_lossy().contains(".000031."),
        "{failed:?}"
    );
    assert_eq!(storage.calls(Operation::Sync), 32);
    file.sync().expect("what is written since is sound");
    assert_eq!(storage.calls(Operation::Sync), 32);
}

#[test]
fn a_sync_of_a_file_fails_where_the_names_cannot_be_brought_to_the_disk() {
    let (_dir, options, storage) = temporary();
    let mut file = open_on(&options, storage.clone());
    put(&mut file, b"a line\n", NOW_NS);
    storage.fail(Operation::SyncDir, 0, 1, IO);
    let failed = file.sync().expect_err("the directory cannot be synced");
    assert_eq!(failed.cause.os_error(), Some(Errno::IO.raw_os_error()));
    file.sync().expect("the names are on disk");
}

/// Some file systems cannot sync directories; there every sync would fail, and no file be compressed.
#[test]
fn names_of_a_file_system_that_cannot_sync_them_are_no_doubt() {
    let proc = Disk.open_dir(Path::new("/proc"), false).expect("a directory");
    assert_eq!(
        proc.sync_all().expect_err("not here").raw_os_error(),
        Some(Errno::INVAL.raw_os_error())
    );
    Disk.sync_dir(&proc).expect("nothing to do");
}

#[test]
fn a_sync_of_a_file_fails_once_where_it_was_deleted_before() {
    let (dir, mut options, storage) = temporary();
    options.rotate_bytes = Some(50);
    let mut file = open_on(&options, storage.clone());
    put(&mut file, b"of the active file\n", NOW_NS);
    fs::remove_file(&options.path).expect("removed");
    let failed = file.sync().expect_err("its lines are gone");
    assert_eq!(failed.unsynced[0].path, options.path);
    file.sync().expect("told once");
    put(&mut file, b"a line that fills the file well enough\n", NOW_NS);
    put(&mut file, b"a line that is in the file behind it\n", NOW_NS);
    let rotated = names(dir.path()).remove(0);
    fs::remove_file(dir.path().join(&rotated)).expect("removed");
    let failed = file.sync().expect_err("its lines are gone, too");
    assert_eq!(failed.unsynced[0].path, dir.path().join(rotated));
    file.sync().expect("told once");
}

/// Somebody makes room by removing old files: a descriptor of ours would keep their bytes on the disk.
#[test]
fn a_rotated_file_that_was_deleted_is_not_held_open() {
    let (dir, mut options, storage) = temporary();
    options.rotate_bytes = Some(50);
    let mut file = open_on(&options, storage.clone());
    let mut chunks = Chunks::default();
    file.sync().expect("syncs are wanted");
    put(&mut file, &chunks.next(3), NOW_NS);
    put(&mut file, &chunks.next(3), NOW_NS);
    let held = || {
        let links = fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
        let targets = links.filter_map(|link| fs::read_link(link.path()).ok());
        targets
            .filter(|target| target.starts_with(dir.path()) && target.to_string_lossy().contains(".000001."))
            .count()
    };
    assert_eq!(held(), 1, "until it is synced");
    fs::remove_file(dir.path().join(&names(dir.path())[0])).expect("removed");
    storage.fail(
        Operation::WriteAt,
        0,
        1,
        Fault::Error(Errno::NOSPC.raw_os_error()),
    );
    let bytes = chunks.next(3);
    let placement = file.place(bytes.len() as u64, NOW_NS).expect("a place");
    file.write_at(placement, 0, &bytes).expect_err("the disk is full");
    assert_eq!(held(), 0);
    file.write_at(placement, 0, &bytes).expect("there is room");
    assert!(file.sync().is_err(), "what was deleted was not on disk");
}

#[test]
fn a_rotated_file_that_the_rules_remove_is_not_missed_by_a_sync_of_the_file() {
    let (dir, mut options, storage) = temporary();
    options.rotate_bytes = Some(50);
    options.keep_files = Some(1);
    let mut file = open_on(&options, storage.clone());
    let mut chunks = Chunks::default();
    for _ in 0..30 {
        put(&mut file, &chunks.next(3), NOW_NS);
    }
    file.sync().expect("synced");
    assert_eq!(storage.calls(Operation::Sync), 2, "those that are kept");
    assert_eq!(names(dir.path()).len(), 2);
}

/// A file system on a loop device; nothing, with a note, where that is not permitted.
struct LoopDisk {
    dir: tempfile::TempDir,
    is_mounted: bool,
}

impl LoopDisk {
    fn make() -> Option<LoopDisk> {
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("image");
        let file = fs::File::create(&image).expect("an image");
        file.set_len(48 << 20).expect("room");
        let mut disk = LoopDisk {
            dir,
            is_mounted: false,
        };
        let made = run("mkfs.ext4", &["-q", "-F"], &[&image]);
        if !made || !disk.mount(&image) {
            println!("skipped: no file system can be mounted from a loop device here");
            return None;
        }
        Some(disk)
    }

    fn mount(&mut self, image: &Path) -> bool {
        fs::create_dir_all(self.root()).expect("a directory");
        self.is_mounted = run("mount", &["-t", "ext4", "-o", "loop"], &[image, &self.root()]);
        self.is_mounted
    }

    fn unmount(&mut self) {
        assert!(run("umount", &[], &[&self.root()]));
        self.is_mounted = false;
    }

    fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("root")
    }

    /// State of the disk at this moment, as a power cut would leave it. The file system is not asked to write anything.
    fn cut_power(&self) -> std::path::PathBuf {
        let cut = self.dir.path().join("cut");
        fs::copy(self.dir.path().join("image"), &cut).expect("copied");
        cut
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if self.is_mounted {
            run("umount", &["-l"], &[&self.root()]);
        }
    }
}

fn run(program: &str, arguments: &[&str], paths: &[&Path]) -> bool {
    let output = Command::new(program).args(arguments).args(paths).output();
    output.is_ok_and(|output| output.status.success())
}

/// Writes lines with rotation, cuts the power after a sync that answered true, and checks the lines that are left.
fn cut_after_sync(set: impl FnOnce(&mut FileOptions), settles: bool) {
    let Some(mut disk) = LoopDisk::make() else {
        return;
    };
    let mut options = FileOptions::new(disk.root().join("made/for/it/app.log"));
    options.rotate_bytes = Some(300 << 10);
    set(&mut options);
    let mut file = open(&options);
    let mut chunks = Chunks::default();
    for step in 0..150 {
        put(&mut file, &chunks.next(400), NOW_NS + step * SECOND_NS / 20);
    }
    if settles {
        settle(&file);
    }
    file.sync().expect("synced");
    let cut = disk.cut_power();
    settle(&file);
    drop(file);
    disk.unmount();
    assert!(disk.mount(&cut), "the journal is replayed");
    // The next start finishes what was cut short.
    let file = open(&options);
    settle(&file);
    drop(file);
    let mut wanted = lines_of(&Chunks::default().next(chunks.lines));
    wanted.sort();
    let found = lines(options.path.parent().expect("a directory"));
    match options.keep_files {
        None => assert!(found == wanted, "{} of {} lines", found.len(), wanted.len()),
        Some(_) => {
            let kept = &wanted[wanted.len() - found.len()..];
            assert!(found == kept && found.len() > 3_000, "{} lines", found.len());
        }
    }
}

#[test]
fn all_lines_of_rotated_files_are_there_after_a_power_cut() {
    cut_after_sync(|_| (), true);
}

#[cfg(feature = "zstd")]
#[test]
fn all_lines_of_compressed_files_are_there_after_a_power_cut() {
    cut_after_sync(|options| options.compress = Compress::Zstd, true);
}

#[cfg(feature = "gzip")]
#[test]
fn all_lines_of_files_that_are_being_compressed_are_there_after_a_power_cut() {
    cut_after_sync(|options| options.compress = Compress::Gzip, false);
}

#[cfg(feature = "zstd")]
#[test]
fn the_newest_lines_are_there_after_a_power_cut_where_the_rules_remove_old_files() {
    let set = |options: &mut FileOptions| {
        options.compress = Compress::Zstd;
        options.rotated.delay_compress = true;
        options.keep_files = Some(4);
    };
    cut_after_sync(set, true);
}

/// A plain file and its compressed twin, as a kill between the two names leaves them.
#[cfg(all(feature = "zstd", feature = "gzip"))]
#[test]
fn of_a_rotated_file_and_its_compressed_twin_one_stays() {
    let text = lines_of(&Chunks::default().next(20_000)).join("\n") + "\n";
    let whole = zstd::encode_all(text.as_bytes(), 3).expect("compressed");
    let torn = &whole[..whole.len() / 2];
    let other = zstd::encode_all(&b"another text\n"[..], 3).expect("compressed");
    let empty: &[u8] = b"";
    for (twin, twin_stays) in [
        (&whole[..], true),
        (torn, false),
        (&other[..], false),
        (empty, false),
    ] {
        for (compress, delays) in [
            (Compress::None, false),
            (Compress::Gzip, false),
            (Compress::Zstd, false),
            (Compress::Zstd, true),
        ] {
            let (dir, mut options, _) = temporary();
            options.compress = compress;
            options.rotated.delay_compress = delays;
            let plain = "app.2026-11-21T12-34-56Z.000001.log";
            fs::write(dir.path().join(plain), &text).expect("written");
            fs::write(dir.path().join(format!("{plain}.zst")), twin).expect("written");
            let file = open(&options);
            settle(&file);
            let left = names(dir.path());
            assert_eq!(left.len(), 2, "{left:?} with {compress:?}");
            assert_eq!(content(&dir.path().join(&left[0])), text.as_bytes());
            let is_compressed = left[0].ends_with(".zst");
            let again = compress == Compress::Zstd && !delays;
            assert_eq!(is_compressed, twin_stays || again, "{left:?} with {compress:?}");
        }
    }
}
