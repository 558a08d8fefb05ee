//! Harm that others do to a running or dead program: to its log files, its session, its recoverer.

use crate::account::Account;
use crate::halt::{Halt, fail, file};
use crate::program_end::End;
use crate::rigs;
use crate::stage::Stage;
use crate::watch::children;
use logdrive_store::BlockHead;
use logdrive_testkit::Process;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Waits until the spool has grown and grows no more.
pub(crate) fn wait_for_spool(stage: &mut Stage) -> Result<(), Halt> {
    let mut before = 0;
    let deadline = Instant::now() + WRITE_WAIT;
    while Instant::now() < deadline {
        let found = spooled(stage);
        let now: u64 = found
            .iter()
            .map(|path| std::fs::metadata(path).map_or(0, |found| found.len()))
            .sum();
        if now > 0 && now == before {
            return Ok(());
        }
        before = now;
        std::thread::sleep(Duration::from_millis(120));
    }
    Err(fail("the spool does not come to rest"))
}

/// Files of batches in the spool.
fn spooled(stage: &Stage) -> Vec<PathBuf> {
    let directories = std::fs::read_dir(rigs::spool(stage))
        .into_iter()
        .flatten()
        .flatten();
    let files = directories
        .filter_map(|session| std::fs::read_dir(session.path()).ok())
        .flat_map(|files| files.flatten().map(|file| file.path()));
    let is_batches = |path: &PathBuf| path.to_string_lossy().contains("/spool-");
    files.filter(is_batches).collect()
}

/// Harms each file of batches, then starts the collector and another program, which sends what is left.
fn harm_spool(stage: &mut Stage, harm: fn(&Path) -> std::io::Result<()>) -> Result<(), Halt> {
    let files = spooled(stage);
    if files.is_empty() {
        return Err(fail("the spool has no file"));
    }
    for path in files {
        harm(&path).map_err(file("harm", &path))?;
    }
    send_spool(stage)
}

/// Starts the collector and another program, which sends what is in the spool.
pub(crate) fn send_spool(stage: &mut Stage) -> Result<(), Halt> {
    rigs::start_collector_of_text(stage)?;
    stage.run_another()
}

/// Flips a bit in the middle of the spool.
pub(crate) fn flip_in_spool(stage: &mut Stage) -> Result<(), Halt> {
    harm_spool(stage, |path| {
        let mut bytes = std::fs::read(path)?;
        let middle = bytes.len() / 2;
        if let Some(byte) = bytes.get_mut(middle) {
            *byte ^= 0x10;
        }
        std::fs::write(path, bytes)
    })
}

/// Cuts the files of the spool off at a half.
pub(crate) fn cut_spool(stage: &mut Stage) -> Result<(), Halt> {
    harm_spool(stage, |path| {
        let file = std::fs::OpenOptions::new().write(true).open(path)?;
        file.set_len(file.metadata()?.len() / 2)
    })
}

/// Removes the files of the spool.
pub(crate) fn lose_spool(stage: &mut Stage) -> Result<(), Halt> {
    harm_spool(stage, |path| std::fs::remove_file(path))
}

/// Unmounts `/dev/shm`: nobody else has seen it.
pub(crate) fn lose_shm(stage: &mut Stage) -> Result<(), Halt> {
    nix::mount::umount2("/dev/shm", nix::mount::MntFlags::MNT_DETACH)?;
    stage.mounts.retain(|mounted| mounted != "/dev/shm");
    Ok(())
}

/// Mounts a faulty disk that has its fault from the start.
pub(crate) fn faulty_disk_that(stage: &mut Stage, command: &str) -> Result<(), Halt> {
    rigs::faulty_disk(stage)?;
    rigs::tell_disk(stage, command)
}

/// Lets the disk fail for longer than the logger leaves it alone, while the program makes no calls.
pub(crate) fn fail_while_idle(stage: &mut Stage) -> Result<(), Halt> {
    wait_for_lines(&stage.log())?;
    rigs::tell_disk(stage, "eio")?;
    std::thread::sleep(Duration::from_millis(1_500));
    rigs::tell_disk(stage, "go")
}

/// Copies and truncates the log between two writes of which the first one took a part of a line, and then lets the disk
/// be quick. The program is stopped meanwhile: what it writes between copy and truncation is the truncating program's loss.
pub(crate) fn copy_and_truncate_in_line(stage: &mut Stage) -> Result<(), Halt> {
    let log = stage.log();
    let deadline = Instant::now() + WRITE_WAIT;
    loop {
        for program in &stage.running {
            pause(program)?;
        }
        let bytes = std::fs::read(&log).map_err(file("read", &log))?;
        let is_in_line = bytes.last().is_some_and(|last| *last != b'\n');
        if is_in_line {
            copy_then_truncate(&log)?;
        }
        for program in &stage.running {
            signal(program, Signal::SIGCONT)?;
        }
        if is_in_line {
            return rigs::tell_disk(stage, "go");
        }
        if Instant::now() > deadline {
            return Err(fail("no write took a part of a line"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Stops a program, and waits until none of its threads is in a system call.
fn pause(program: &Process) -> Result<(), Halt> {
    signal(program, Signal::SIGSTOP)?;
    let deadline = Instant::now() + WRITE_WAIT;
    while !is_stopped(program.pid())? {
        if Instant::now() > deadline {
            return Err(fail("a program does not stop"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn signal(program: &Process, signal: Signal) -> nix::Result<()> {
    kill(Pid::from_raw(program.pid().cast_signed()), signal)
}

fn is_stopped(pid: u32) -> std::io::Result<bool> {
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = std::fs::read_to_string(thread?.path().join("stat"))?;
        // The state stands behind the name, which may have any characters.
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
        if !state.is_some_and(|state| state.starts_with('T')) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Waits until the log beside the one whose disk hangs has all records, and then lets that disk answer.
pub(crate) fn wait_for_other_log(stage: &mut Stage) -> Result<(), Halt> {
    let other = stage.dir.join("other.log");
    let deadline = Instant::now() + WRITE_WAIT;
    while Account::of(std::slice::from_ref(&other))?.written() < stage.noted().calls {
        if Instant::now() > deadline {
            return Err(fail("the other log waits for the disk that hangs"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    rigs::tell_disk(stage, "go")
}

/// Deadline of a write of the logger.
const WRITE_WAIT: Duration = Duration::from_secs(10);

/// Removes the line from a copy of the log in which copying has cut it: it is the first one of the log then.
pub(crate) fn end_copy_with_a_line(stage: &mut Stage) -> Result<(), Halt> {
    rigs::read_store(stage, false)?;
    let copy = stage.log().with_extension("log.1");
    let bytes = std::fs::read(&copy).map_err(file("read", &copy))?;
    let end = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    std::fs::write(&copy, bytes.get(..end).unwrap_or_default()).map_err(file("write", &copy))
}

/// Starts programs whose disk hangs, one after the other, and kills each: a start must not wait for the disk that the
/// recovery of those before it takes.
pub(crate) fn start_while_hanging(stage: &mut Stage, count: u32) -> Result<(), Halt> {
    for number in 0..count {
        stage.running.clear();
        rigs::tell_disk(stage, "hang")?;
        let begin = Instant::now();
        stage.start(End::Signal(Signal::SIGKILL))?;
        stage.expect("half")?;
        if begin.elapsed() > START_MAX {
            return Err(fail(format!(
                "start {number} took {} ms",
                begin.elapsed().as_millis()
            )));
        }
        stage.go_on();
        stage.expect("done")?;
        kill_while_hanging(stage)?;
    }
    Ok(())
}

/// The time for which a recovery waits for a disk: a start that takes longer has waited, too.
const START_MAX: Duration = Duration::from_secs(5);

/// Renames the log, as rotation by other programs does.
pub(crate) fn rename_log(stage: &mut Stage) -> Result<(), Halt> {
    let log = stage.log();
    std::fs::rename(&log, log.with_extension("log.1")).map_err(file("rename", &log))
}

/// Kills the programs while their disk hangs, which then answers: a write that the disk has taken has to end first.
pub(crate) fn kill_while_hanging(stage: &mut Stage) -> Result<(), Halt> {
    for program in &stage.running {
        kill(Pid::from_raw(program.pid().cast_signed()), Signal::SIGKILL)?;
    }
    rigs::tell_disk(stage, "go")
}

/// Deletes the log once its lines are there.
pub(crate) fn delete_log(stage: &mut Stage) -> Result<(), Halt> {
    let log = stage.log();
    wait_for_lines(&log)?;
    std::fs::remove_file(&log).map_err(file("remove", &log))
}

/// Flips a bit of the columns of the log's first block.
pub(crate) fn flip_in_segment(stage: &mut Stage) -> Result<(), Halt> {
    let log = stage.log();
    let mut bytes = std::fs::read(&log).map_err(file("read", &log))?;
    let head = BlockHead::decode(&bytes).map_err(|error| fail(error.to_string()))?;
    let at = head.head_bytes + head.body_bytes / 2;
    let byte = bytes
        .get_mut(at)
        .ok_or_else(|| fail("the log ends within a block"))?;
    *byte ^= 0x10;
    std::fs::write(&log, bytes).map_err(file("write", &log))
}

/// Flips a bit of a file of each session.
pub(crate) fn flip(stage: &mut Stage, name: &str, at: u64) -> Result<(), Halt> {
    change(stage, name, at, 1, |byte| byte ^ 0x10)
}

/// Zeroes a page of a file of each session.
pub(crate) fn zero_page(stage: &mut Stage, name: &str, at: u64) -> Result<(), Halt> {
    change(stage, name, at, 4096, |_| 0)
}

fn change(stage: &Stage, name: &str, at: u64, length: usize, to: fn(u8) -> u8) -> Result<(), Halt> {
    for session in stage.sessions() {
        let path = session.path.join(name);
        let changed = std::fs::OpenOptions::new().read(true).write(true).open(&path);
        let changed = changed.map_err(file("open", &path))?;
        let mut bytes = vec![0; length];
        changed
            .read_exact_at(&mut bytes, at)
            .map_err(file("read", &path))?;
        bytes.iter_mut().for_each(|byte| *byte = to(*byte));
        changed.write_all_at(&bytes, at).map_err(file("write", &path))?;
    }
    Ok(())
}

/// Copies the log and truncates it, once its lines are there.
pub(crate) fn copy_and_truncate(stage: &mut Stage) -> Result<(), Halt> {
    let log = stage.log();
    wait_for_lines(&log)?;
    copy_then_truncate(&log)
}

fn copy_then_truncate(log: &Path) -> Result<(), Halt> {
    std::fs::copy(log, log.with_extension("log.1")).map_err(file("copy", log))?;
    let truncated = std::fs::OpenOptions::new().write(true).open(log)?;
    Ok(truncated.set_len(0)?)
}

/// Waits until the log has grown and grows no more: what is written between copy and truncation is the truncating
/// program's loss.
fn wait_for_lines(log: &Path) -> Result<(), Halt> {
    let mut before = 0;
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(60));
        let now = std::fs::metadata(log).map_or(0, |found| found.len());
        if now > 0 && now == before {
            return Ok(());
        }
        before = now;
    }
    Err(fail("the log does not come to rest"))
}

/// Starts recoveries of the session and kills each a little later than the one before.
pub(crate) fn kill_recoverers(stage: &mut Stage, count: u32) -> Result<(), Halt> {
    for session in stage.sessions() {
        for number in 0..count {
            let mut command = Command::new(std::env::current_exe()?);
            let mut recoverer = Process::spawn(command.args(["--play", "recover"]).arg(&session.path));
            std::thread::sleep(Duration::from_micros(1_500 + 2_500 * u64::from(number)));
            recoverer.kill();
        }
    }
    Ok(())
}

/// Recovers the session of a program that lives, which has to be refused.
pub(crate) fn recover_living(stage: &mut Stage) -> Result<(), Halt> {
    for session in stage.sessions() {
        if logdrive::recover(&session.path, None).is_ok() {
            return Err(fail("the session of a living program was recovered"));
        }
    }
    Ok(())
}

/// Removes the logs that children of the program have made for themselves: their calls are not noted.
pub(crate) fn forget_logs_of_children(stage: &mut Stage) -> Result<(), Halt> {
    // While the program has its log, theirs are others.
    for session in stage.sessions().iter().filter(|session| session.holder.is_none()) {
        logdrive::recover(&session.path, None)?;
    }
    for entry in std::fs::read_dir(&stage.logs)? {
        let path = entry?.path();
        if path.is_file() && path != stage.log() {
            std::fs::remove_file(&path).map_err(file("remove", &path))?;
        }
    }
    Ok(())
}

/// Kills the processes that the programs have started, such as sidecars.
pub(crate) fn kill_sidecars(stage: &mut Stage) -> Result<(), Halt> {
    let found: Vec<u32> = stage
        .running
        .iter()
        .flat_map(|program| children(program.pid()))
        .collect();
    if found.is_empty() {
        return Err(fail("the program has no sidecar"));
    }
    for pid in found {
        kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL)?;
    }
    Ok(())
}
