//! Kills a program that logs, again and again, recovers what it left, and checks every line.
//!
//! A child of several threads logs numbered lines; it dies of SIGKILL, SIGSEGV or abort at a random moment. Then its
//! session is recovered, and the log must hold, for every thread, each number from 0 on exactly once and in order, in
//! whole lines, at least as many as the thread's ring counted as committed and as the thread itself had noted before
//! it died. `crash --cycles 1000 [--seed S] [--keep]`; a failure prints the seed of its cycle. With `--agent`, programs
//! and the agent that has their sessions die in turn, see [`agent`].
#![forbid(unsafe_code)]

mod agent;
mod agent_log;
mod lines;

use clap::Parser;
use lines::{LineCounts, Lines, committed, log_line, mix};
use logdrive::{File, Full, Layout};
use logdrive_ring::{SessionReader, find_sessions};
use logdrive_testkit::{Process, report};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

type Error = Box<dyn std::error::Error>;

/// Threads of the child; more than the machine has cores, so that some are always stopped somewhere.
const THREADS: usize = 4;

/// Course of one cycle; all of it follows from the seed.
struct Plan {
    seed: u64,
    end: End,
    delay: Duration,
    rotate_bytes: u64,
    ring_bytes: usize,
    recoverer_dies: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Kill,
    Segv,
    Abort,
}

impl Plan {
    fn of(seed: u64) -> Self {
        let end = match mix(seed) % 4 {
            0 => End::Segv,
            1 => End::Abort,
            _ => End::Kill,
        };
        Self {
            seed,
            end,
            delay: Duration::from_micros(200 + mix(seed ^ 1) % 40_000),
            rotate_bytes: 1 << if mix(seed ^ 2).is_multiple_of(3) { 20 } else { 40 },
            ring_bytes: 1 << if mix(seed ^ 3).is_multiple_of(2) { 16 } else { 20 },
            recoverer_dies: mix(seed ^ 4).is_multiple_of(4),
        }
    }
}

/// Kills programs that log, and checks that nothing they logged is lost.
#[derive(clap::Parser)]
#[command(about, after_help = "example: crash --agent --cycles 1000")]
struct Arguments {
    /// Kill programs and the agent that has their sessions, in turn
    #[arg(long)]
    agent: bool,
    /// Number of kills
    #[arg(long, value_name = "N", default_value_t = 100)]
    cycles: u64,
    /// Seed of all that is random; the time where it is not given
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Leave the files of each cycle where they are
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.split_first() {
        Some((word, words)) if word == PLAY => take_role(words),
        _ => run(&Arguments::parse()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    let now = || Duration::from_nanos(logdrive_ring::clock::unix_ns()).as_micros() as u64;
    let seed = arguments.seed.unwrap_or_else(now);
    // A failure that is found by a panic prints no seed of its own.
    eprintln!("seed {seed}");
    match arguments.agent {
        true => agent::cycles_of(arguments.cycles, seed, arguments.keep),
        false => cycles_of(arguments.cycles, seed, arguments.keep),
    }
}

/// The word before the name of a role on the command line.
const PLAY: &str = "--play";

/// Plays a role: what a child process of this program is started for.
fn take_role(words: &[String]) -> Result<(), Error> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["child", dir, seed] => child(Path::new(dir), seed.parse()?),
        ["recover", session] => Ok(logdrive::recover(session.as_ref(), None).map(drop)?),
        ["agent", dir] => agent::play_agent(Path::new(dir)),
        ["keeper", socket] => Ok(logdrive_agent::keep(Path::new(socket))?),
        ["program", dir, number, seed] => agent::play_program(Path::new(dir), number.parse()?, seed.parse()?),
        _ => Err(format!("{words:?} is no role").into()),
    }
}

/// Starts this program in a role.
fn play(role: &str, words: &[&str]) -> Result<Process, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    Ok(Process::spawn(command.args([PLAY, role]).args(words)))
}

/// The program that dies.
fn child(dir: &Path, seed: u64) -> Result<(), Error> {
    let plan = Plan::of(seed);
    let guard = logdrive::builder("crash")
        .file(
            File::new(dir.join("crash.log"))
                .layout(Layout::pattern("{thread} {message}"))
                .rotate_bytes(plan.rotate_bytes),
        )
        .run_dir(dir.join("run"))
        .ring_bytes(plan.ring_bytes)
        .full(Full::Block)
        .note_signals(true)
        .use_env(false)
        .init()?;
    let notes = LineCounts::open(&dir.join("notes"))?;
    std::thread::scope(|scope| -> Result<(), Error> {
        for thread in 0..THREADS as u64 {
            let notes = &notes;
            std::thread::Builder::new()
                .name(format!("t{thread}"))
                .spawn_scoped(scope, move || {
                    let padding = "p".repeat((mix(seed ^ thread) % 200) as usize);
                    for number in 0u64.. {
                        log_line(0, thread, number, &padding);
                        if number % 64 == 63 {
                            notes.note(thread, number + 1);
                        }
                    }
                })?;
        }
        report("ready");
        if plan.end == End::Abort {
            std::thread::sleep(plan.delay);
            std::process::abort();
        }
        Ok(())
    })?;
    drop(guard);
    Ok(())
}

#[derive(Default)]
struct Totals {
    lines: u64,
    recovered: u64,
    ends: BTreeMap<End, u64>,
    recoverers_killed: u64,
}

fn cycles_of(cycles: u64, seed: u64, keep: bool) -> Result<(), Error> {
    let base = std::env::temp_dir().join(format!("logdrive-crash-{}", std::process::id()));
    let started = Instant::now();
    let mut totals = Totals::default();
    for cycle in 0..cycles {
        let plan = Plan::of(mix(seed).wrapping_add(cycle));
        let dir = base.join(cycle.to_string());
        std::fs::create_dir_all(dir.join("run"))?;
        private(&dir.join("run"))?;
        if let Err(error) = cycle_of(&dir, &plan, &mut totals) {
            return Err(format!(
                "cycle {cycle} of seed {seed} (plan {}, {:?}): {error}; its files are in {}",
                plan.seed,
                plan.end,
                dir.display()
            )
            .into());
        }
        if !keep {
            std::fs::remove_dir_all(&dir)?;
        }
        if (cycle + 1) % 100 == 0 {
            eprintln!(
                "{} of {cycles} cycles, {} lines checked, {:.0?}",
                cycle + 1,
                totals.lines,
                started.elapsed()
            );
        }
    }
    if !keep {
        std::fs::remove_dir_all(&base)?;
    }
    println!(
        "{cycles} cycles in {:.1?}, seed {seed}: {} SIGKILL, {} SIGSEGV, {} abort; {} lines, {} of them recovered; \
         {} recoveries killed half-way and done again; 0 lost, 0 torn, 0 twice",
        started.elapsed(),
        totals.ends.get(&End::Kill).unwrap_or(&0),
        totals.ends.get(&End::Segv).unwrap_or(&0),
        totals.ends.get(&End::Abort).unwrap_or(&0),
        totals.lines,
        totals.recovered,
        totals.recoverers_killed,
    );
    Ok(())
}

fn private(dir: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(
        dir,
        std::fs::Permissions::from_mode(0o700),
    )?)
}

fn cycle_of(dir: &Path, plan: &Plan, totals: &mut Totals) -> Result<(), Error> {
    LineCounts::create::<THREADS>(&dir.join("notes"))?;
    end(
        play("child", &[&dir.to_string_lossy(), &plan.seed.to_string()])?,
        plan,
    )?;
    *totals.ends.entry(plan.end).or_default() += 1;
    let found = find_sessions(&dir.join("run"))?;
    let [session] = found.as_slice() else {
        return Err(format!("{} sessions, expected 1", found.len()).into());
    };
    if session.holder.is_some() {
        return Err("the dead process's session looks alive".into());
    }
    let counted = committed::<THREADS>(&SessionReader::open(&session.path)?)?;
    if plan.recoverer_dies {
        kill_a_recoverer(&session.path, plan, totals)?;
    }
    // The session file is removed last: without it nothing is left to recover.
    if session.path.join("session").exists() {
        let recovered = logdrive::recover(&session.path, None)?;
        totals.recovered += recovered.records;
        if !recovered.damage.is_empty() {
            return Err(format!("damage: {:?}", recovered.damage).into());
        }
    }
    let noted = LineCounts::read::<THREADS>(&dir.join("notes"))?;
    totals.lines += check_log(dir)?.compare(0, &counted, &noted)?;
    Ok(())
}

/// Waits until the child logs, lets it run for the plan's time, and makes it die.
fn end(mut child: Process, plan: &Plan) -> Result<(), Error> {
    child.expect("ready");
    match plan.end {
        End::Abort => {}
        End::Kill => {
            std::thread::sleep(plan.delay);
            child.kill();
        }
        End::Segv => {
            std::thread::sleep(plan.delay);
            let pid = nix::unistd::Pid::from_raw(child.pid().cast_signed());
            // The Rust runtime takes the first SIGSEGV for a fault that will come again by itself, so one that is sent
            // has to be sent twice.
            while child.try_wait().is_none() {
                nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSEGV)?;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    let status = child.wait();
    if status.success() || status.code().is_some() {
        return Err(format!("the child was to die of a signal, but: {status}").into());
    }
    Ok(())
}

/// Starts a recovery in a process of its own and kills it somewhere inside.
fn kill_a_recoverer(session: &Path, plan: &Plan, totals: &mut Totals) -> Result<(), Error> {
    let mut recoverer = play("recover", &[&session.to_string_lossy()])?;
    std::thread::sleep(Duration::from_micros(500 + mix(plan.seed ^ 5) % 8_000));
    recoverer.kill();
    if recoverer.wait().code().is_none() {
        totals.recoverers_killed += 1;
    }
    Ok(())
}

/// Reads the log with its rotated files.
fn check_log(dir: &Path) -> Result<Lines, Error> {
    let mut lines = Lines::default();
    for path in log_files(dir)? {
        let text = String::from_utf8(std::fs::read(&path)?)?;
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(format!("{} ends inside of a line", path.display()).into());
        }
        // The others are the drain's own.
        for line in text.lines().filter(|line| !line.starts_with("logdrive ")) {
            let checked = lines.check(line);
            checked.map_err(|why| format!("{why}: {line:?} in {}", path.display()))?;
        }
    }
    Ok(lines)
}

/// Paths of the log files of a directory, which need not exist, in the order of their lines: rotated files carry their
/// time and number, and the active one is the newest.
fn log_files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            paths.push(path);
        }
    }
    paths.sort_by_key(|path| {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match name.split('.').collect::<Vec<_>>()[..] {
            [_, time, number, _] => (false, time.to_owned(), number.parse().unwrap_or(0)),
            _ => (true, name, 0),
        }
    });
    Ok(paths)
}
