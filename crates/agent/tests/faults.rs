//! A whole agent one of whose disks is full or hangs: the programs of the other one do not see anything of it.

mod support;

use logdrive_agent::Agent;
use logdrive_agent::config::{AgentConfig, AppPattern, Places, Route, SinkConfig};
use logdrive_drain::file::{Compress, Disk, Fault, Faulty, OpenMode, Operation, RenameMode, Stat, Storage};
use logdrive_testkit::{Process, report, role, wait_for_input};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lines of the program whose disk is bad: more than its buffers hold.
const MANY: u64 = 60_000;
/// Lines of the other one.
const FEW: u64 = 1_000;

/// The real disk, but for what is written below one directory.
#[derive(Debug)]
struct OneBad {
    dir: PathBuf,
    bad: Faulty,
}

impl OneBad {
    fn of(&self, file: &File) -> &dyn Storage {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        match path.is_ok_and(|path| path.starts_with(&self.dir)) {
            true => &self.bad,
            false => &Disk,
        }
    }
}

impl Storage for OneBad {
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.of(file).write_at(file, bytes, offset)
    }

    fn open_dir(&self, path: &Path, follow: bool) -> io::Result<File> {
        Disk.open_dir(path, follow)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        Disk.create_dir(path, mode)
    }

    fn list(&self, dir: &File, wanted: &dyn Fn(&OsStr) -> bool, max: usize) -> io::Result<Vec<OsString>> {
        Disk.list(dir, wanted, max)
    }

    fn open(&self, dir: &File, name: &str, how: OpenMode) -> io::Result<File> {
        Disk.open(dir, name, how)
    }

    fn stat(&self, dir: &File, name: &Path) -> io::Result<Stat> {
        Disk.stat(dir, name)
    }

    fn stat_file(&self, file: &File) -> io::Result<Stat> {
        Disk.stat_file(file)
    }

    fn rename(&self, dir: &File, from: &str, to: &str, taken: RenameMode) -> io::Result<()> {
        Disk.rename(dir, from, to, taken)
    }

    fn remove(&self, dir: &File, name: &str) -> io::Result<()> {
        Disk.remove(dir, name)
    }

    fn symlink(&self, dir: &File, target: &Path, name: &str) -> io::Result<()> {
        Disk.symlink(dir, target, name)
    }

    fn read_link(&self, dir: &File, name: &str) -> io::Result<PathBuf> {
        Disk.read_link(dir, name)
    }

    fn sync_dir(&self, dir: &File) -> io::Result<()> {
        Disk.sync_dir(dir)
    }

    fn lock(&self, file: &File) -> io::Result<bool> {
        Disk.lock(file)
    }

    fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        Disk.read_at(file, bytes, offset)
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        Disk.write(file, bytes)
    }

    fn set_len(&self, file: &File, bytes: u64) -> io::Result<()> {
        Disk.set_len(file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        Disk.sync(file)
    }
}

fn config(dir: &Path) -> AgentConfig {
    let bad = SinkConfig::file("bad", dir.join("bad/bad.log"));
    let good = SinkConfig::file("good", dir.join("good/good.log"));
    let mut of_bad = Route::to_all(std::slice::from_ref(&bad));
    of_bad.processes.app = AppPattern::new("bad");
    AgentConfig {
        routes: vec![of_bad, Route::to_all(std::slice::from_ref(&good))],
        sinks: vec![bad, good],
        ..AgentConfig::at(&Places {
            socket: dir.join("sock/agent.sock"),
            run_dir: dir.join("run"),
            log_dir: dir.join("logs"),
        })
    }
}

/// Plays a program, if this process is one: `bad DIR`, `good DIR` or `syncs DIR`.
fn plays() -> bool {
    let Some(text) = role() else {
        return false;
    };
    let (app, dir) = text.split_once(' ').expect("a part and a directory");
    let guard = logdrive::builder(app)
        .use_env(false)
        .agent(Path::new(dir).join("sock/agent.sock"))
        .agent_timeout(std::time::Duration::from_secs(60))
        .full(logdrive::Full::Block)
        .run_dir(format!("{dir}/own"))
        .file(logdrive::File::new(format!("{dir}/own.log")))
        .init()
        .expect("it starts");
    assert!(logdrive::session_path().is_none(), "an agent has the session");
    let padding = "x".repeat(200);
    if app == "syncs" {
        for number in 0..FEW {
            logdrive::info!(number, padding, "counted");
            if number % 100 == 0 {
                // The records handed over so far fill a file.
                assert!(logdrive::flush());
            }
        }
        assert!(logdrive::sync(), "with the files that were rotated");
        report("synced");
        wait_for_input();
        logdrive::info!("in doubt");
        assert!(!logdrive::sync(), "a disk flush has failed");
        logdrive::info!("sound");
        assert!(logdrive::sync(), "what came after the answer is on disk");
        assert_eq!(guard.stop().expect("it ran").0, logdrive::Stopped::Complete);
        return true;
    }
    for number in 0..if app == "bad" { MANY } else { FEW } {
        logdrive::info!(number, padding, "counted");
    }
    if app == "bad" {
        report("logged");
        wait_for_input();
    } else {
        assert!(logdrive::flush(), "the other disk is good");
    }
    assert_eq!(guard.stop().expect("it ran").0, logdrive::Stopped::Complete);
    true
}

/// The numbers in a log rise; how many there are.
#[track_caller]
fn count(text: &str) -> u64 {
    let number = |line: &str| {
        line.split_once("number=")?
            .1
            .split(' ')
            .next()?
            .parse::<u64>()
            .ok()
    };
    let numbers: Vec<u64> = text.lines().filter_map(number).collect();
    assert!(
        numbers.is_sorted_by(|one, next| one < next),
        "a line is there twice"
    );
    numbers.len() as u64
}

/// Two programs, while writes of the one's disk have a fault.
fn one_disk_is_bad(test: &str, fault: Fault) -> String {
    let keep = tempfile::tempdir().expect("a directory");
    let dir = keep.path().canonicalize().expect("it is there");
    let storage = Arc::new(OneBad {
        dir: dir.join("bad"),
        bad: Faulty::new(),
    });
    storage.bad.fail(Operation::WriteAt, 0, u64::MAX, fault);
    let mut agent = Agent::start_on(config(&dir), storage.clone()).expect("an agent");
    let over = AtomicBool::new(false);
    let stopped = std::thread::scope(|scope| {
        let over = &over;
        let turning = scope.spawn(move || {
            // Relaxed: a word to stop.
            while !over.load(Ordering::Relaxed) {
                agent.turn();
            }
            agent.stop()
        });
        let programs = std::panic::catch_unwind(|| {
            let mut bad = Process::in_role(test, &format!("bad {}", dir.display()));
            // With more than the buffers hold: the rings of the program do not fill.
            bad.expect("logged");
            let good = Process::in_role(test, &format!("good {}", dir.display()));
            good.end();
            let text = std::fs::read_to_string(dir.join("good/good.log")).expect("a log");
            assert_eq!(count(&text), FEW);
            // Now the disk is good again, and has what was not dropped.
            storage.bad.clear();
            bad.send("");
            bad.end();
        });
        storage.bad.clear();
        over.store(true, Ordering::Relaxed);
        let stopped = turning.join().expect("no panic");
        programs.expect("both programs");
        stopped
    });
    assert_eq!(stopped, logdrive::Stopped::Complete);
    let text = std::fs::read_to_string(dir.join("bad/bad.log")).expect("a log");
    let dropped = |line: &str| {
        let (before, _) = line.split_once(" records dropped: the sink ")?;
        before.rsplit(' ').next()?.parse::<u64>().ok()
    };
    let dropped: u64 = text.lines().filter_map(dropped).sum();
    assert!(dropped > 0, "the buffers hold everything");
    assert_eq!(count(&text) + dropped, MANY, "written or counted");
    assert!(!dir.join("own.log").exists());
    std::fs::read_to_string(dir.join("good/good.log")).expect("a log")
}

#[test]
fn a_full_disk_under_one_sink_is_told_once_and_the_other_goes_on() {
    const NAME: &str = "a_full_disk_under_one_sink_is_told_once_and_the_other_goes_on";
    if plays() {
        return;
    }
    let full = Fault::Error(Errno::NOSPC.raw_os_error());
    let good = one_disk_is_bad(NAME, full);
    let told = good
        .lines()
        .filter(|line| line.contains("bad.log") && line.contains("No space"));
    assert_eq!(told.count(), 1, "{}", &good[..good.len().min(1000)]);
}

#[test]
fn a_disk_that_hangs_under_one_sink_does_not_hang_the_other() {
    const NAME: &str = "a_disk_that_hangs_under_one_sink_does_not_hang_the_other";
    if plays() {
        return;
    }
    one_disk_is_bad(NAME, Fault::Hang);
}

#[test]
fn a_program_of_an_agent_learns_whether_its_files_are_on_disk() {
    const NAME: &str = "a_program_of_an_agent_learns_whether_its_files_are_on_disk";
    if plays() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let dir = keep.path().canonicalize().expect("it is there");
    let mut config = config(&dir);
    for sink in &mut config.sinks {
        if let logdrive_drain::Target::File(file) = &mut sink.options.target {
            file.rotate_bytes = Some(16 << 10);
            // The thread that compresses syncs, too: the fault below is for the sync that the program asks for.
            file.compress = Compress::None;
        }
    }
    let storage = Arc::new(Faulty::new());
    let mut agent = Agent::start_on(config, storage.clone()).expect("an agent");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let turning = scope.spawn(move || {
            // Relaxed: a word to stop.
            while !over.load(Ordering::Relaxed) {
                agent.turn();
            }
            agent.stop()
        });
        let program = std::panic::catch_unwind(|| {
            let mut program = Process::in_role(NAME, &format!("syncs {}", dir.display()));
            program.expect("synced");
            let names = std::fs::read_dir(dir.join("good")).expect("logs").flatten();
            let names = names.filter(|entry| entry.file_name().to_string_lossy().starts_with("good"));
            let files = names.count() as u64;
            assert!(files >= 2, "it was rotated");
            assert!(storage.calls(Operation::Sync) >= files);
            storage.fail(Operation::Sync, 0, 1, Fault::Error(Errno::IO.raw_os_error()));
            program.send("");
            program.end();
        });
        over.store(true, Ordering::Relaxed);
        turning.join().expect("no panic");
        program.expect("the program");
    });
}
