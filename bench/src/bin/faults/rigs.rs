//! Rigs: file systems of any size and with any fault, small `/dev/shm`, groups with a limit of memory, agents.

use crate::account::Account;
use crate::enclosure::mount_memory;
use crate::exchange::HANDLED;
use crate::halt::{Halt, fail, file, skip};
use crate::roles::socket;
use crate::stage::Stage;
use logdrive_bench::workloads::hang::slow_disk::SlowDisk;
use logdrive_testkit::Process;
use nix::mount::{MsFlags, mount};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Directory of the groups of processes (cgroup version 1) with a limit of memory.
const MEMORY_GROUPS: &str = "/sys/fs/cgroup/memory";

const MIB: u64 = 1 << 20;

/// Deadline of a collector that starts.
const COLLECTOR_START: Duration = Duration::from_secs(20);

/// Checks that this process may mount.
fn own_mounts() -> Result<(), Halt> {
    if !nix::unistd::geteuid().is_root() {
        return Err(skip("mounts take root"));
    }
    Ok(())
}

fn mount_for(stage: &mut Stage, at: &Path, bytes: u64) -> Result<(), Halt> {
    own_mounts()?;
    mount_memory(at, bytes).map_err(|why| match why {
        Halt::Fail(why) | Halt::Skip(why) => skip(why),
    })?;
    stage.mounts.push(at.to_owned());
    Ok(())
}

/// Gives `/dev/shm` a size, and the programs no run directory of their own.
pub(crate) fn shm(stage: &mut Stage, bytes: u64) -> Result<(), Halt> {
    mount_for(stage, Path::new("/dev/shm"), bytes)?;
    default_run_dir(stage)
}

/// Lets the programs choose their run directory.
pub(crate) fn default_run_dir(stage: &mut Stage) -> Result<(), Halt> {
    stage.plan("run=");
    let uid = nix::unistd::geteuid();
    stage
        .run_dirs
        .push(PathBuf::from(format!("/dev/shm/logdrive-{uid}")));
    Ok(())
}

/// Puts the log on a disk of a size.
pub(crate) fn log_disk(stage: &mut Stage, bytes: u64) -> Result<(), Halt> {
    let at = stage.logs.clone();
    mount_for(stage, &at, bytes)
}

/// File that takes the room of a disk.
const FILLER: &str = ".filler";

/// Fills the log's disk to its last byte.
pub(crate) fn fill_disk(stage: &mut Stage) -> Result<(), Halt> {
    fill(&stage.logs.join(FILLER))
}

fn fill(path: &Path) -> Result<(), Halt> {
    let mut filler = std::fs::File::create(path)?;
    let block = vec![0u8; 64 << 10];
    // Until the disk is full.
    while std::io::Write::write_all(&mut filler, &block).is_ok() {}
    let last = [0u8; 1];
    while std::io::Write::write_all(&mut filler, &last).is_ok() {}
    Ok(())
}

/// Gives the room back.
pub(crate) fn free_disk(stage: &mut Stage) -> Result<(), Halt> {
    let path = stage.logs.join(FILLER);
    std::fs::remove_file(&path).map_err(file("remove", &path))
}

/// Puts the log on a file system of our own, which can be told to fail.
pub(crate) fn faulty_disk(stage: &mut Stage) -> Result<(), Halt> {
    let program = std::env::current_exe()?;
    let disk = SlowDisk::mount(&program, &stage.dir).map_err(|error| skip(error.to_string()))?;
    stage.logs = disk.dir().to_owned();
    let log = stage.log();
    stage.plan(&format!("log={}", log.display()));
    stage.disk = Some(disk);
    Ok(())
}

/// Tells the file system of our own what to do from now on.
pub(crate) fn tell_disk(stage: &mut Stage, command: &str) -> Result<(), Halt> {
    let disk = stage
        .disk
        .as_mut()
        .ok_or_else(|| fail("the row has no faulty disk"))?;
    disk.tell(command);
    Ok(())
}

/// Reads the log beside the file system: after a power cut, what was durable.
pub(crate) fn read_store(stage: &mut Stage, durable: bool) -> Result<(), Halt> {
    let disk = stage
        .disk
        .as_ref()
        .ok_or_else(|| fail("the row has no faulty disk"))?;
    stage.logs = match durable {
        true => disk.durable(),
        false => disk.store().to_owned(),
    };
    Ok(())
}

/// Puts the log on ext4 in a file.
pub(crate) fn ext4(stage: &mut Stage, bytes: u64) -> Result<(), Halt> {
    own_mounts()?;
    let image = stage.dir.join("disk.img");
    std::fs::File::create(&image)?.set_len(bytes)?;
    run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
    let at = stage.logs.clone();
    run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at))?;
    stage.mounts.push(at);
    Ok(())
}

/// Cuts the power of that disk: what a copy of it has now is what is left.
pub(crate) fn cut_power(stage: &mut Stage) -> Result<(), Halt> {
    let copy = stage.dir.join("copy.img");
    std::fs::copy(stage.dir.join("disk.img"), &copy)?;
    Ok(())
}

/// Reads the log from the copy, mounted as after a power cut.
pub(crate) fn read_copy(stage: &mut Stage) -> Result<(), Halt> {
    let at = stage.dir.join("after");
    std::fs::create_dir(&at)?;
    run(Command::new("mount")
        .args(["-o", "loop"])
        .arg(stage.dir.join("copy.img"))
        .arg(&at))?;
    stage.mounts.push(at.clone());
    stage.logs = at;
    Ok(())
}

/// Limits the memory of the programs, with that of files that they make in memory.
pub(crate) fn memory_group(stage: &mut Stage, bytes: u64) -> Result<(), Halt> {
    let group = Path::new(MEMORY_GROUPS).join(format!("faults-{}", std::process::id()));
    let limit = group.join("memory.limit_in_bytes");
    let made = std::fs::create_dir_all(&group).and_then(|()| std::fs::write(&limit, bytes.to_string()));
    made.map_err(|error| {
        skip(format!(
            "no group with a limit of memory ({}): {error}",
            limit.display()
        ))
    })?;
    stage.limits.push(format!("cgroup={}", group.display()));
    stage.group = Some(group);
    Ok(())
}

/// Adds words of the enclosure.
pub(crate) fn limit(stage: &mut Stage, words: &str) -> Result<(), Halt> {
    stage.limits.extend(words.split_whitespace().map(str::to_owned));
    Ok(())
}

/// Encloses the programs as words say that only root may use.
pub(crate) fn limit_by_root(stage: &mut Stage, words: &str) -> Result<(), Halt> {
    own_mounts()?;
    limit(stage, words)
}

/// Gives the directories of log and session to the user that the programs become.
pub(crate) fn become_user(stage: &mut Stage) -> Result<(), Halt> {
    own_mounts()?;
    let user = Some(65534);
    for path in [&stage.logs, &stage.run_dirs[0]] {
        std::os::unix::fs::chown(path, user, user).map_err(file("hand over", path))?;
    }
    // The user has to come through.
    let above = stage.dir.parent().unwrap_or(&stage.dir);
    for path in [above, &stage.dir] {
        let permissions: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, permissions).map_err(file("open", path))?;
    }
    stage.plan("act=setuid fresh=1 run_as=65534:65534");
    Ok(())
}

/// Starts an agent that drains the programs' sessions.
pub(crate) fn agent(stage: &mut Stage) -> Result<(), Halt> {
    let socket = socket(&stage.dir);
    stage.plan(&format!("agent={}", socket.display()));
    start_agent(stage)
}

/// Kills the agent and starts the next one.
pub(crate) fn next_agent(stage: &mut Stage) -> Result<(), Halt> {
    for agent in &mut stage.beside.ending {
        agent.kill();
    }
    stage.beside.ending.clear();
    start_agent(stage)
}

/// Sends the records to a collector, which writes the log.
pub(crate) fn collector(stage: &mut Stage) -> Result<(), Halt> {
    let socket = collector_socket(stage);
    stage.plan(&format!("collector=unix://{}", socket.display()));
    start_collector(stage)
}

/// Sends the records to a collector that syncs its log, on a disk that forgets what was not synced.
pub(crate) fn syncing_collector(stage: &mut Stage) -> Result<(), Halt> {
    faulty_disk(stage)?;
    tell_disk(stage, "forget")?;
    let socket = collector_socket(stage);
    stage.plan(&format!("log= collector=unix://{}", socket.display()));
    start_collector_with(stage, &["--sync"])
}

/// Sends typed records to a collector, with a spool for while it is away.
pub(crate) fn spooling_collector(stage: &mut Stage) -> Result<(), Halt> {
    let (socket, spool) = (collector_socket(stage), spool(stage));
    stage.plan(&format!(
        "log= collector=unix://{} spool={}",
        socket.display(),
        spool.display()
    ));
    start_collector_of_text(stage)
}

/// Directory of the programs' spool.
pub(crate) fn spool(stage: &Stage) -> PathBuf {
    stage.dir.join("spool")
}

/// The same, on a disk that has no room but for the directory itself.
pub(crate) fn full_spool(stage: &mut Stage) -> Result<(), Halt> {
    let at = spool(stage);
    std::fs::create_dir(&at).map_err(file("make", &at))?;
    mount_for(stage, &at, MIB)?;
    spooling_collector(stage)
}

/// Ends the collector, and fills the spool's disk to its last byte.
pub(crate) fn end_collector_and_fill_spool(stage: &mut Stage) -> Result<(), Halt> {
    end_collector(stage)?;
    fill(&spool(stage).join(FILLER))
}

/// Gives the room back, while the collector is still away.
pub(crate) fn free_spool(stage: &mut Stage) -> Result<(), Halt> {
    let path = spool(stage).join(FILLER);
    std::fs::remove_file(&path).map_err(file("remove", &path))
}

/// Starts a collector whose log is text, where the last one was; the programs' end waits until it has all.
pub(crate) fn start_collector_of_text(stage: &mut Stage) -> Result<(), Halt> {
    stage.plan("deliver=1");
    start_collector_with(stage, &["--layout", "text"])
}

/// Lets syncs work again once the collector has told of one that failed.
pub(crate) fn mend_syncs(stage: &mut Stage) -> Result<(), Halt> {
    let deadline = Instant::now() + COLLECTOR_START;
    loop {
        let told = std::fs::read_to_string(stage.dir.join("collector"))?;
        if told.contains("goes into a new log file and ledger") {
            return tell_disk(stage, "forget");
        }
        if Instant::now() > deadline {
            return Err(fail(format!(
                "the collector tells of no sync that failed: {told}"
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends requests in the place of log calls, to a server that words tell what to do.
pub(crate) fn messages(stage: &mut Stage, scheme: &str, words: &[&str]) -> Result<(), Halt> {
    let address = message_address(stage, scheme);
    stage.plan(&format!("messages={address}"));
    start_server(stage, scheme, words)
}

/// Starts a server of requests, in the place of the last one.
pub(crate) fn start_server(stage: &mut Stage, scheme: &str, words: &[&str]) -> Result<(), Halt> {
    // Killed first: another one would find the address taken.
    stage.beside.collector = None;
    let (address, dir) = (message_address(stage, scheme), stage.dir.display().to_string());
    let own = std::env::current_exe()?.display().to_string();
    let limits: Vec<&str> = words
        .iter()
        .copied()
        .filter(|word| word.starts_with("nofile="))
        .collect();
    let serve = [&["--", &own, "--play", "serve", &address, &dir], words].concat();
    let mut server = stage.role("enclose", &[limits, serve].concat());
    server.expect("ready");
    stage.beside.collector = Some(server);
    Ok(())
}

fn message_address(stage: &Stage, scheme: &str) -> String {
    format!("{scheme}://{}", stage.dir.join("messages.sock").display())
}

/// Checks that every request that a handler has answered got its answer, and that no more than so many failed.
pub(crate) fn check_answers(stage: &mut Stage, failed_max: u64) -> Result<(), Halt> {
    let handled = Account::of(&[stage.dir.join(HANDLED)])?;
    let log = stage.account()?;
    if handled.written() != log.written() || handled.twice > 0 {
        return Err(fail(format!(
            "{} requests were handled, {} of them twice, and {} are answered",
            handled.written(),
            handled.twice,
            log.written()
        )));
    }
    check_failures(stage, failed_max)
}

/// Checks that no more requests failed.
pub(crate) fn check_failures(stage: &mut Stage, failed_max: u64) -> Result<(), Halt> {
    let failed = stage.account()?.told.sum();
    match failed <= failed_max {
        true => Ok(()),
        false => Err(fail(format!(
            "{failed} requests failed, at most {failed_max} may"
        ))),
    }
}

/// Kills the collector, cuts the power, and reads what was durable.
pub(crate) fn cut_collector(stage: &mut Stage) -> Result<(), Halt> {
    end_collector(stage)?;
    read_store(stage, true)
}

/// Kills the collector.
pub(crate) fn end_collector(stage: &mut Stage) -> Result<(), Halt> {
    stage.beside.collector = None;
    Ok(())
}

/// Starts a collector where the last one was.
pub(crate) fn start_collector(stage: &mut Stage) -> Result<(), Halt> {
    start_collector_with(stage, &[])
}

fn start_collector_with(stage: &mut Stage, more: &[&str]) -> Result<(), Halt> {
    let socket = collector_socket(stage);
    let address = format!("unix://{}", socket.display());
    let mut command = stage.logdrive()?;
    command
        .args(["collect", "--listen", &address, "--out"])
        .arg(&stage.logs)
        .args(more);
    command.stderr(std::fs::File::create(stage.dir.join("collector"))?);
    let mut collector = Process::spawn(&mut command);
    let deadline = Instant::now() + COLLECTOR_START;
    while UnixStream::connect(&socket).is_err() {
        if Instant::now() > deadline || collector.child().try_wait()?.is_some() {
            return Err(fail("the collector does not start"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    stage.beside.collector = Some(collector);
    Ok(())
}

fn collector_socket(stage: &Stage) -> PathBuf {
    stage.dir.join("collector.sock")
}

fn start_agent(stage: &mut Stage) -> Result<(), Halt> {
    let mut agent = stage.role("agent", &[&stage.dir.to_string_lossy()]);
    agent.expect("ready");
    stage.beside.ending.push(agent);
    Ok(())
}

/// Lets the programs see nothing but themselves and what they are linked with: no `/dev`, no `/proc`.
pub(crate) fn chroot(stage: &mut Stage) -> Result<(), Halt> {
    own_mounts()?;
    let root = stage.dir.join("root");
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).unwrap_or(Path::new("/")).to_owned();
    let seen = ["/usr", "/lib", "/lib64"].map(PathBuf::from);
    for path in seen.into_iter().chain([target, stage.dir.clone()]) {
        let at = root.join(path.strip_prefix("/").unwrap_or(&path));
        if !path.is_dir() {
            continue;
        }
        std::fs::create_dir_all(&at)?;
        let bind = MsFlags::MS_BIND;
        mount(Some(&path), &at, None::<&str>, bind, None::<&str>).map_err(|error| skip(error.to_string()))?;
        stage.mounts.push(at);
    }
    limit(stage, &format!("chroot={}", root.display()))?;
    stage.plan("run=");
    Ok(())
}

fn run(command: &mut Command) -> Result<(), Halt> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| skip(format!("{name} cannot be run: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(skip(format!("{name} failed: {}", text.trim())))
}
