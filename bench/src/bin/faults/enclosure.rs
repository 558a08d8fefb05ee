//! Enclosure of a program: a process of this role limits itself as its words say, then becomes the program. So programs of
//! all languages have the same limits.

use crate::halt::{Halt, fail, file};
use crate::plan::Plan;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, setrlimit};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Words of limits by resource.
const LIMITS: [(&str, Resource); 4] = [
    ("fsize", Resource::RLIMIT_FSIZE),
    ("nofile", Resource::RLIMIT_NOFILE),
    ("as", Resource::RLIMIT_AS),
    ("memlock", Resource::RLIMIT_MEMLOCK),
];

/// Obeys the words in front of `--` and becomes the program behind it.
///
/// Words: `fsize`, `nofile`, `as`, `memlock` (limits), `cgroup` (directory), `shm` (bytes of a `/dev/shm` that only this
/// program sees), `pids=1` (a process number space of its own), `chroot` (directory), `uid`.
pub(crate) fn play(words: &[String]) -> Result<(), Halt> {
    let at = words.iter().position(|word| word == "--");
    let (own, program) = words.split_at(at.ok_or_else(|| fail("`--` and a program are missing"))?);
    let plan = Plan::of(own);
    if let Some(group) = plan.path("cgroup") {
        let tasks = group.join("cgroup.procs");
        std::fs::write(&tasks, std::process::id().to_string()).map_err(file("enter", &tasks))?;
    }
    if let Some(bytes) = plan.number::<u64>("shm") {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount_memory(Path::new("/dev/shm"), bytes)?;
    }
    if let Some(root) = plan.path("chroot") {
        nix::unistd::chroot(&root)?;
        std::env::set_current_dir("/")?;
    }
    for (word, resource) in LIMITS {
        if let Some(limit) = plan.number(word) {
            setrlimit(resource, limit, limit)?;
        }
    }
    if let Some(uid) = plan.number("uid") {
        nix::unistd::setuid(nix::unistd::Uid::from_raw(uid))?;
    }
    let [_, program, words @ ..] = program else {
        return Err(fail("a program is missing behind `--`"));
    };
    let mut command = Command::new(program);
    command.args(words);
    if plan.has("pids") {
        unshare(CloneFlags::CLONE_NEWPID)?;
        // It is number 1 in there, and ends as the program does.
        let status = command.status()?;
        std::process::exit(status.code().unwrap_or(1));
    }
    Err(command.exec().into())
}

/// Mounts a file system in memory of a size.
pub(crate) fn mount_memory(at: &Path, bytes: u64) -> Result<(), Halt> {
    let data = format!("size={bytes},mode=1777");
    let mounted = mount(
        Some("tmpfs"),
        at,
        Some("tmpfs"),
        MsFlags::empty(),
        Some(data.as_str()),
    );
    mounted.map_err(file("mount memory at", at))
}
