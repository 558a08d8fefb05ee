//! Modes of the cycles: kinds of programs and deaths. A cycle follows from its mode and its seed.

use crate::Error;
use crate::lines::mix;
use logdrive::{Compress, File, Full, Layout, Overflow};
use logdrive_testkit::Process;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Kind of programs and deaths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// One program, one log; a recoverer dies in a quarter of the cycles
    Plain,
    /// Small files that are rotated and compressed
    Rotate,
    /// Three programs, a log each
    Processes,
    /// Three programs that want the same log
    Shared,
    /// The same with small files that are rotated and compressed
    SharedRotate,
    /// Several recoverers of one session die, one after the other
    Chain,
    /// Small segments that are rotated and compacted
    Segments,
    /// Full rings and slow sinks drop, and the log tells each drop
    Drop,
    /// The kernel kills a program that takes too much memory (root, cgroup version 1)
    Oom,
}

impl Mode {
    /// The word on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Plain => "plain",
            Mode::Rotate => "rotate",
            Mode::Processes => "processes",
            Mode::Shared => "shared",
            Mode::SharedRotate => "shared-rotate",
            Mode::Chain => "chain",
            Mode::Segments => "segments",
            Mode::Drop => "drop",
            Mode::Oom => "oom",
        }
    }

    /// The mode of a word.
    pub(crate) fn named(word: &str) -> Result<Mode, Error> {
        Ok(clap::ValueEnum::from_str(word, false)?)
    }
}

/// Pattern of the lines.
pub(crate) const LINE: &str = "{thread} {message}";

/// Death of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Kill,
    Segv,
    Abort,
    /// By the kernel, for its memory.
    Memory,
}

/// Course of one cycle.
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    pub(crate) seed: u64,
    pub(crate) end: End,
    pub(crate) delay: Duration,
    rotate_bytes: u64,
    pub(crate) ring_bytes: usize,
    /// Recoverers that die.
    pub(crate) recoverers: u64,
}

impl Plan {
    pub(crate) fn of(mode: Mode, seed: u64) -> Self {
        let end = match (mode, mix(seed) % 4) {
            (Mode::Oom, _) => End::Memory,
            (_, 0) => End::Segv,
            (_, 1) => End::Abort,
            _ => End::Kill,
        };
        let chance = mix(seed ^ 4);
        Self {
            mode,
            seed,
            end,
            delay: Duration::from_micros(200 + mix(seed ^ 1) % 40_000),
            rotate_bytes: match mode {
                Mode::Rotate | Mode::SharedRotate | Mode::Segments => 1 << 16,
                _ if mix(seed ^ 2).is_multiple_of(3) => 1 << 20,
                _ => 1 << 40,
            },
            ring_bytes: 1 << if mix(seed ^ 3).is_multiple_of(2) { 16 } else { 20 },
            recoverers: match mode {
                Mode::Chain => 1 + chance % 6,
                _ => u64::from(chance.is_multiple_of(4)),
            },
        }
    }

    /// Number of programs.
    pub(crate) fn processes(&self) -> u64 {
        match self.mode {
            Mode::Processes | Mode::Shared | Mode::SharedRotate => 3,
            _ => 1,
        }
    }

    /// Name of a program's log.
    pub(crate) fn log_name(&self, program: u64) -> String {
        match self.mode {
            Mode::Processes => format!("crash{program}.log"),
            _ => "crash.log".to_owned(),
        }
    }

    /// Policy of full rings.
    pub(crate) fn full(&self) -> Full {
        match self.mode {
            Mode::Drop => Full::Drop,
            _ => Full::Block,
        }
    }

    /// Options of a program's log.
    pub(crate) fn of_file(&self, file: File) -> File {
        let file = file.layout(match self.mode {
            Mode::Segments => Layout::segments(),
            _ => Layout::pattern(LINE),
        });
        let file = match self.mode {
            Mode::Processes | Mode::Shared => file,
            _ => file.rotate_bytes(self.rotate_bytes),
        };
        match self.mode {
            Mode::Rotate | Mode::SharedRotate => file.compress(Compress::Zstd),
            Mode::Drop => file.overflow(Overflow::Drop),
            _ => file,
        }
    }
}

/// Directory of the groups of processes (cgroup version 1) with a limit of memory.
const GROUPS: &str = "/sys/fs/cgroup/memory";
/// Time in which a process takes all memory of its group, where the kernel writes pages of its log.
const WRITE_BACK_AFTER: Duration = Duration::from_secs(1);
/// Memory of a group.
const GROUP_BYTES: u64 = 96 << 20;

/// Group of processes with a limit of memory; it is removed when it is dropped.
pub(crate) struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// Makes the group of this process's children.
    pub(crate) fn make() -> Result<MemoryGroup, Error> {
        let group = group_of(std::process::id());
        let limit = group.join("memory.limit_in_bytes");
        let made =
            std::fs::create_dir_all(&group).and_then(|()| std::fs::write(&limit, GROUP_BYTES.to_string()));
        made.map_err(|error| format!("no group with a limit of memory ({}): {error}", limit.display()))?;
        Ok(MemoryGroup(group))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // An empty group that stays takes no memory.
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn group_of(pid: u32) -> PathBuf {
    Path::new(GROUPS).join(format!("logdrive-crash-{pid}"))
}

/// Waits for the end of a process that takes too much memory. Where the group is full of pages of the log, the kernel waits
/// for them to be written and writes none, so this does.
pub(crate) fn wait_for_end(child: &mut Process, dir: &Path) -> Result<(), Error> {
    let started = Instant::now();
    while child.try_wait().is_none() {
        std::thread::sleep(Duration::from_millis(5));
        if started.elapsed() > WRITE_BACK_AFTER {
            for entry in std::fs::read_dir(dir)? {
                std::fs::File::open(entry?.path())?.sync_data()?;
            }
        }
    }
    Ok(())
}

/// Enters the parent's group and takes memory until the kernel ends this process.
pub(crate) fn eat_memory() -> Result<(), Error> {
    let tasks = group_of(std::os::unix::process::parent_id()).join("cgroup.procs");
    std::fs::write(tasks, std::process::id().to_string())?;
    let mut all = Vec::new();
    loop {
        all.push(std::hint::black_box(vec![1u8; 1 << 20]));
    }
}
