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

use logdrive::{File, Full, Layout};
use logdrive_ring::{SessionReader, find_sessions};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

type Error = Box<dyn std::error::Error>;

/// Threads of the child; more than the machine has cores, so that some are always stopped somewhere.
const THREADS: usize = 4;

/// A line's checksum, so that a torn or mixed line shows.
fn checksum(thread: u64, number: u64) -> u64 {
    mix(thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number)
}

/// The splitmix64 step.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

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
            rotate_bytes: if mix(seed ^ 2).is_multiple_of(3) {
                1 << 20
            } else {
                1 << 40
            },
            ring_bytes: if mix(seed ^ 3).is_multiple_of(2) {
                64 << 10
            } else {
                1 << 20
            },
            recoverer_dies: mix(seed ^ 4).is_multiple_of(4),
        }
    }
}

fn main() -> ExitCode {
    let run = match Arguments::read() {
        Ok(Arguments::Child { dir, seed }) => child(&dir, seed),
        Ok(Arguments::Recover { session }) => {
            logdrive::recover(&session, None).map(drop).map_err(Error::from)
        }
        Ok(Arguments::Cycles { cycles, seed, keep }) => cycles_of(cycles, seed, keep),
        Ok(Arguments::AgentCycles { cycles, seed, keep }) => agent::cycles_of(cycles, seed, keep),
        Ok(Arguments::Play(part)) => agent::play(&part),
        Err(error) => Err(error),
    };
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

enum Arguments {
    Child { dir: PathBuf, seed: u64 },
    Recover { session: PathBuf },
    Cycles { cycles: u64, seed: u64, keep: bool },
    AgentCycles { cycles: u64, seed: u64, keep: bool },
    Play(agent::Part),
}

impl Arguments {
    fn read() -> Result<Self, Error> {
        use lexopt::{Arg, ValueExt};
        let mut parser = lexopt::Parser::from_env();
        let (mut cycles, mut seed, mut keep) = (100, None, false);
        let (mut child, mut session) = (None, None);
        let (mut agent, mut part) = (false, None);
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Long("cycles") => cycles = parser.value()?.parse()?,
                Arg::Long("seed") => seed = Some(parser.value()?.parse()?),
                Arg::Long("keep") => keep = true,
                Arg::Long("agent") => agent = true,
                Arg::Long("play") => part = Some(agent::Part::read(&mut parser)?),
                Arg::Long("child") => child = Some(PathBuf::from(parser.value()?)),
                Arg::Long("recover") => session = Some(PathBuf::from(parser.value()?)),
                Arg::Long("help") => {
                    println!(
                        "usage: crash [--agent] [--cycles N] [--seed S] [--keep]\nexample: crash --agent --cycles 1000"
                    );
                    std::process::exit(0);
                }
                other => return Err(other.unexpected().into()),
            }
        }
        if let Some(session) = session {
            return Ok(Self::Recover { session });
        }
        if let Some(part) = part {
            return Ok(Self::Play(part));
        }
        let now = || Duration::from_nanos(logdrive_ring::clock::unix_ns()).as_micros() as u64;
        let seed = seed.unwrap_or_else(now);
        Ok(match child {
            Some(dir) => Self::Child { dir, seed },
            None if agent => Self::AgentCycles { cycles, seed, keep },
            None => Self::Cycles { cycles, seed, keep },
        })
    }
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
    let notes = std::fs::OpenOptions::new().write(true).open(dir.join("notes"))?;
    std::thread::scope(|scope| -> Result<(), Error> {
        for thread in 0..THREADS as u64 {
            let notes = &notes;
            std::thread::Builder::new()
                .name(format!("t{thread}"))
                .spawn_scoped(scope, move || {
                    let padding = "p".repeat((mix(seed ^ thread) % 200) as usize);
                    for number in 0u64.. {
                        logdrive::info!(
                            "{} {} {:016x} {}",
                            thread,
                            number,
                            checksum(thread, number),
                            padding
                        );
                        // What is noted here was committed before; the log must have it.
                        if number % 64 == 63 {
                            let noted = notes.write_at(&(number + 1).to_le_bytes(), thread * 8);
                            assert!(noted.is_ok_and(|bytes| bytes == 8), "the notes can be written");
                        }
                    }
                })?;
        }
        println!("ready");
        std::io::stdout().flush()?;
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
    std::fs::write(dir.join("notes"), [0u8; THREADS * 8])?;
    let child = Command::new(std::env::current_exe()?)
        .args([
            "--child".as_ref(),
            dir.as_os_str(),
            "--seed".as_ref(),
            plan.seed.to_string().as_ref(),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    end(child, plan)?;
    *totals.ends.entry(plan.end).or_default() += 1;
    let found = find_sessions(&dir.join("run"))?;
    let [session] = found.as_slice() else {
        return Err(format!("{} sessions, expected 1", found.len()).into());
    };
    if session.holder.is_some() {
        return Err("the dead process's session looks alive".into());
    }
    let committed = committed_by_thread(&session.path)?;
    if plan.recoverer_dies {
        kill_a_recoverer(&session.path, plan, totals)?;
    }
    // Where the recoverer that was killed had finished, there is nothing left to do.
    if session.path.exists() {
        let recovered = logdrive::recover(&session.path, None)?;
        totals.recovered += recovered.records;
        if !recovered.damage.is_empty() {
            return Err(format!("damage: {:?}", recovered.damage).into());
        }
    }
    let notes = std::fs::read(dir.join("notes"))?;
    let lines = check_log(dir)?;
    for thread in 0..THREADS as u64 {
        let found = lines.get(&thread).copied().unwrap_or(0);
        let counted = committed.get(&format!("t{thread}")).copied().unwrap_or(0);
        let at = thread as usize * 8;
        let mut noted = [0; 8];
        noted.copy_from_slice(&notes[at..at + 8]);
        let noted = u64::from_le_bytes(noted);
        // The count follows the commit, so a kill in between leaves it one short.
        if found < counted || found > counted + 1 || found < noted {
            return Err(format!(
                "thread {thread}: {found} lines, {counted} counted in the ring, {noted} noted"
            )
            .into());
        }
        totals.lines += found;
    }
    Ok(())
}

/// Waits until the child logs, lets it run for the plan's time, and makes it die.
fn end(mut child: Child, plan: &Plan) -> Result<(), Error> {
    use std::io::Read;
    let mut ready = [0; 6];
    child.stdout.take().ok_or("no stdout")?.read_exact(&mut ready)?;
    match plan.end {
        End::Abort => {}
        End::Kill => {
            std::thread::sleep(plan.delay);
            child.kill()?;
        }
        End::Segv => {
            std::thread::sleep(plan.delay);
            let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
            // The Rust runtime takes the first SIGSEGV for a fault that will come again by itself, so one that is sent
            // has to be sent twice.
            while child.try_wait()?.is_none() {
                nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSEGV)?;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    let status = child.wait()?;
    if status.success() || status.code().is_some() {
        return Err(format!("the child was to die of a signal, but: {status}").into());
    }
    Ok(())
}

fn committed_by_thread(session: &Path) -> Result<BTreeMap<String, u64>, Error> {
    let (rings, broken) = SessionReader::open(session)?.rings();
    if let Some(error) = broken.first() {
        return Err(error.to_string().into());
    }
    Ok(rings
        .iter()
        .map(|ring| (ring.header().thread_name(), ring.header().records()))
        .collect())
}

/// Starts a recovery in a process of its own and kills it somewhere inside.
fn kill_a_recoverer(session: &Path, plan: &Plan, totals: &mut Totals) -> Result<(), Error> {
    let mut recoverer = Command::new(std::env::current_exe()?)
        .args(["--recover".as_ref(), session.as_os_str()])
        .stderr(Stdio::null())
        .spawn()?;
    std::thread::sleep(Duration::from_micros(500 + mix(plan.seed ^ 5) % 8_000));
    recoverer.kill()?;
    if recoverer.wait()?.code().is_none() {
        totals.recoverers_killed += 1;
    }
    Ok(())
}

/// Reads the log with its rotated files; returns the number of lines of each thread.
fn check_log(dir: &Path) -> Result<BTreeMap<u64, u64>, Error> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    // Rotated files carry their time and number; the active one is the newest.
    paths.sort_by_key(|path| rotation_key(path));
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for path in paths {
        let text = String::from_utf8(std::fs::read(&path)?)?;
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(format!("{} ends inside of a line", path.display()).into());
        }
        for line in text.lines() {
            check_line(line, &mut next).map_err(|why| format!("{why}: {line:?} in {}", path.display()))?;
        }
    }
    Ok(next)
}

fn rotation_key(path: &Path) -> (bool, String, u64) {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("")
        .to_owned();
    let parts: Vec<&str> = name.split('.').collect();
    match parts.as_slice() {
        [_, time, number, _] => (false, (*time).to_owned(), number.parse().unwrap_or(0)),
        _ => (true, name, 0),
    }
}

fn check_line(line: &str, next: &mut BTreeMap<u64, u64>) -> Result<(), &'static str> {
    if line.starts_with("logdrive ") {
        return Ok(());
    }
    let mut words = line.split(' ').skip(1);
    let mut number = |radix| u64::from_str_radix(words.next().unwrap_or(""), radix);
    let (Ok(thread), Ok(count), Ok(sum)) = (number(10), number(10), number(16)) else {
        return Err("a torn line");
    };
    if sum != checksum(thread, count) {
        return Err("a torn line");
    }
    let expected = next.entry(thread).or_default();
    match count.cmp(expected) {
        std::cmp::Ordering::Less => Err("a line that stands twice"),
        std::cmp::Ordering::Greater => Err("lines are lost before this one"),
        std::cmp::Ordering::Equal => {
            *expected += 1;
            Ok(())
        }
    }
}
