//! Kills a program that logs, again and again, recovers what it left, and checks every line.
//!
//! A child of several threads logs numbered lines; it dies of SIGKILL, SIGSEGV or abort at a random moment. Then its
//! session is recovered, and the log must hold, for every thread, each number from 0 on exactly once and in order, in
//! whole lines, at least as many as the thread's ring counted as committed and as the thread itself had noted before
//! it died. `crash --cycles 1000 [--mode NAME] [--seed S] [--keep]`; a failure prints the seed of its cycle. Modes add
//! rotation, more processes, chains of recoverers, drops, or the kernel's end of a process that takes too much memory,
//! see [`mode`]. With `--agent`, programs and the agent that has their sessions die in turn, see [`agent`].
#![forbid(unsafe_code)]

mod agent;
mod agent_log;
mod lines;
mod mode;

use clap::Parser;
use lines::{LineCounts, Lines, committed, log_line, mix};
use logdrive::{File, Stats};
use logdrive_bench::segment_lines::SegmentLines;
use logdrive_drain::layout::Style;
use logdrive_ring::{SessionReader, find_sessions, is_gone};
use logdrive_testkit::{Process, report};
use mode::{End, LINE, MemoryGroup, Mode, Plan};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

type Error = Box<dyn std::error::Error>;

/// Threads of the child; more than the machine has cores, so that some are always stopped somewhere.
const THREADS: usize = 4;

/// Kills programs that log, and checks that nothing they logged is lost.
#[derive(clap::Parser)]
#[command(
    about,
    after_help = "examples: crash --cycles 10000\n          crash --mode chain --cycles 1000\n          crash --agent --cycles 1000"
)]
struct Arguments {
    /// Kill programs and the agent that has their sessions, in turn
    #[arg(long)]
    agent: bool,
    /// Kind of programs and deaths, without an agent
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Mode::Plain, conflicts_with = "agent")]
    mode: Mode,
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
        false => cycles_of(arguments, seed),
    }
}

/// The word before the name of a role on the command line.
const PLAY: &str = "--play";

/// Plays a role: what a child process of this program is started for.
fn take_role(words: &[String]) -> Result<(), Error> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["child", dir, mode, program, seed] => child(
            Path::new(dir),
            program.parse()?,
            &Plan::of(Mode::named(mode)?, seed.parse()?),
        ),
        ["recover", session] => play_recoverer(session.as_ref()),
        ["agent", dir] => agent::play_agent(Path::new(dir)),
        ["keeper", socket] => Ok(logdrive_agent::keep(Path::new(socket))?),
        ["program", dir, number, seed] => agent::play_program(Path::new(dir), number.parse()?, seed.parse()?),
        _ => Err(format!("{words:?} is no role").into()),
    }
}

/// Recovers a session, and reports the number of its records.
fn play_recoverer(session: &Path) -> Result<(), Error> {
    let recovered = match logdrive::recover(session, None) {
        // One before it lived long enough to finish.
        Err(_) if is_gone(session) => return Ok(()),
        recovered => recovered?,
    };
    if !recovered.damage.is_empty() {
        return Err(format!("damage: {:?}", recovered.damage).into());
    }
    report(&recovered.records.to_string());
    Ok(())
}

/// Starts this program in a role.
fn play(role: &str, words: &[&str]) -> Result<Process, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    Ok(Process::spawn(command.args([PLAY, role]).args(words)))
}

/// Notes of a program.
fn notes_of(dir: &Path, program: u64) -> PathBuf {
    dir.join(format!("notes-{program}"))
}

/// The program that dies.
fn child(dir: &Path, program: u64, plan: &Plan) -> Result<(), Error> {
    let file = File::new(dir.join(plan.log_name(program)));
    let guard = logdrive::builder("crash")
        .file(plan.of_file(file))
        .run_dir(dir.join("run"))
        .ring_bytes(plan.ring_bytes)
        .full(plan.full())
        .note_signals(true)
        // A program that dies of SIGSEGV or an abort leaves its session, too: the trial is of recovery.
        .shutdown_timeout(Duration::ZERO)
        .use_env(false)
        // One that starts last may find the first dead already: the sessions of all are the trial's.
        .recover(false)
        .init()?;
    let notes = LineCounts::open(&notes_of(dir, program))?;
    std::thread::scope(|scope| -> Result<(), Error> {
        for thread in 0..THREADS as u64 {
            let notes = &notes;
            std::thread::Builder::new()
                .name(format!("t{thread}"))
                .spawn_scoped(scope, move || {
                    let padding = "p".repeat((mix(plan.seed ^ thread) % 200) as usize);
                    for number in 0u64.. {
                        log_line(program, thread, number, &padding);
                        if number % 64 == 63 {
                            notes.note(thread, number + 1);
                        }
                    }
                })?;
        }
        report("ready");
        match plan.end {
            End::Abort => {
                std::thread::sleep(plan.delay);
                std::process::abort();
            }
            End::Memory => {
                std::thread::sleep(plan.delay);
                mode::eat_memory()
            }
            End::Kill | End::Segv => Ok(()),
        }
    })?;
    drop(guard);
    Ok(())
}

#[derive(Default)]
struct Totals {
    lines: u64,
    recovered: u64,
    dropped: u64,
    ends: BTreeMap<End, u64>,
    recoverers_killed: u64,
}

fn cycles_of(arguments: &Arguments, seed: u64) -> Result<(), Error> {
    let (cycles, mode, keep) = (arguments.cycles, arguments.mode, arguments.keep);
    let base = std::env::temp_dir().join(format!("logdrive-crash-{}", std::process::id()));
    let _group = match mode {
        Mode::Oom => Some(MemoryGroup::make()?),
        _ => None,
    };
    let started = Instant::now();
    let mut totals = Totals::default();
    for cycle in 0..cycles {
        let plan = Plan::of(mode, mix(seed).wrapping_add(cycle));
        let dir = base.join(cycle.to_string());
        std::fs::create_dir_all(dir.join("run"))?;
        private(&dir.join("run"))?;
        if let Err(error) = cycle_of(&dir, &plan, &mut totals) {
            return Err(format!(
                "cycle {cycle} of seed {seed} (mode {mode:?}, plan {}, {:?}): {error}; its files are in {}",
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
    let ended = |end| totals.ends.get(&end).unwrap_or(&0);
    println!(
        "{cycles} cycles in {:.1?}, seed {seed}: {} SIGKILL, {} SIGSEGV, {} abort, {} out of memory; {} lines, {} of them \
         recovered, {} drops that the log tells; {} recoveries killed half-way and done again; 0 lost, 0 torn, 0 twice",
        started.elapsed(),
        ended(End::Kill),
        ended(End::Segv),
        ended(End::Abort),
        ended(End::Memory),
        totals.lines,
        totals.recovered,
        totals.dropped,
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
    let mut programs = BTreeMap::new();
    let mut children = Vec::new();
    for program in 0..plan.processes() {
        LineCounts::create::<THREADS>(&notes_of(dir, program))?;
        let words: [&str; 4] = [
            &dir.to_string_lossy(),
            plan.mode.name(),
            &program.to_string(),
            &plan.seed.to_string(),
        ];
        let child = play("child", &words)?;
        programs.insert(child.pid(), program);
        children.push(child);
    }
    end(&mut children, plan, dir)?;
    *totals.ends.entry(plan.end).or_default() += children.len() as u64;
    let found = find_sessions(&dir.join("run"))?;
    if found.len() != children.len() {
        return Err(format!("{} sessions, expected {}", found.len(), children.len()).into());
    }
    let mut counted = BTreeMap::new();
    let mut calls = 0;
    for session in &found {
        if session.holder.is_some() {
            return Err("the dead process's session looks alive".into());
        }
        let view = SessionReader::open(&session.path)?;
        let program = programs.get(&view.header().identity().pid);
        counted.insert(
            *program.ok_or("a session of a stranger")?,
            committed::<THREADS>(&view)?,
        );
        let stats = Stats::of_view(&view);
        calls += stats.committed + stats.dropped_calls();
        recover(&session.path, plan, totals)?;
    }
    let mut lines = check_log(dir, plan)?;
    if plan.mode == Mode::Drop {
        totals.lines += lines.checked;
        totals.dropped += lines.told();
        return Ok(lines.explain(calls, (THREADS * children.len()) as u64)?);
    }
    for (program, counted) in counted {
        let noted = LineCounts::read::<THREADS>(&notes_of(dir, program))?;
        totals.lines += lines.compare(program, &counted, &noted)?;
    }
    Ok(())
}

/// Kills some recoverers, as the plan says, and recovers what they have left.
fn recover(session: &Path, plan: &Plan, totals: &mut Totals) -> Result<(), Error> {
    for number in 0..plan.recoverers {
        kill_a_recoverer(session, mix(plan.seed ^ 5 ^ number << 8), totals)?;
    }
    if is_gone(session) {
        return Ok(());
    }
    // In a process of its own, so that no thread of it compresses or moves files while they are read.
    let mut recoverer = play("recover", &[&session.to_string_lossy()])?;
    let recovered = std::iter::from_fn(|| recoverer.next_line()).find_map(|line| line.parse().ok());
    let status = recoverer.wait();
    totals.recovered += recovered.unwrap_or(0u64);
    match status.success() {
        true => Ok(()),
        false => Err(format!("the recovery ended with {status}").into()),
    }
}

/// Waits until all children log, lets them run for the plan's time, and makes them die.
fn end(children: &mut [Process], plan: &Plan, dir: &Path) -> Result<(), Error> {
    for child in children.iter_mut() {
        child.expect("ready");
    }
    std::thread::sleep(plan.delay);
    for child in children.iter_mut() {
        match plan.end {
            End::Abort => {}
            End::Memory => mode::wait_for_end(child, dir)?,
            End::Kill => child.kill(),
            End::Segv => {
                let pid = nix::unistd::Pid::from_raw(child.pid().cast_signed());
                // The Rust runtime takes the first SIGSEGV for a fault that will come again by itself, so one that is
                // sent has to be sent twice.
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
    }
    Ok(())
}

/// Starts a recovery in a process of its own and kills it somewhere inside.
fn kill_a_recoverer(session: &Path, random: u64, totals: &mut Totals) -> Result<(), Error> {
    let mut recoverer = play("recover", &[&session.to_string_lossy()])?;
    std::thread::sleep(Duration::from_micros(500 + random % 8_000));
    recoverer.kill();
    if recoverer.wait().code().is_none() {
        totals.recoverers_killed += 1;
    }
    Ok(())
}

/// Reads the log with its rotated files.
fn check_log(dir: &Path, plan: &Plan) -> Result<Lines, Error> {
    let mut lines = Lines::default();
    if plan.mode == Mode::Drop {
        lines.allow_drops();
    }
    let mut unordered = Vec::new();
    for path in log_files(dir)? {
        let bytes = std::fs::read(&path)?;
        let bytes = match path.extension().is_some_and(|extension| extension == "zst") {
            true => zstd::decode_all(&bytes[..])?,
            false if plan.mode == Mode::Segments => lines_of_segment(&bytes)?,
            false => bytes,
        };
        if has_twin(&path, &bytes)? {
            continue;
        }
        let text = String::from_utf8(bytes)?;
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(format!("{} ends inside of a line", path.display()).into());
        }
        for line in text.lines() {
            // Those of the drain, and of a thread about its own drops.
            if line.starts_with("logdrive ") || line.contains(" records dropped: ") {
                lines.take_notice(line);
                continue;
            }
            if plan.mode == Mode::SharedRotate {
                unordered.push(line.to_owned());
                continue;
            }
            let checked = lines.check(line);
            checked.map_err(|why| format!("{why}: {line:?} in {}", path.display()))?;
        }
    }
    // Programs that share a log which rotates go to a file beside it and back: files have no order among each other.
    unordered.sort_by_cached_key(|line| number_of(line));
    for line in unordered {
        lines.check(&line).map_err(|why| format!("{why}: {line:?}"))?;
    }
    Ok(lines)
}

/// Number of a line among those of its thread; 0 for a line that has none, which fails its check.
fn number_of(line: &str) -> u64 {
    let number = line.split(' ').nth(3);
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The lines of a segment, of which each block has to be sound, and the last one whole.
fn lines_of_segment(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let found = SegmentLines::read(bytes, Style::Pattern(LINE.to_owned()))?;
    match (found.damages.first(), found.rest_bytes) {
        (None, 0) => Ok(found.lines),
        (Some(damage), _) => Err(format!("a damaged segment: {damage}").into()),
        (None, rest) => Err(format!("{rest} bytes of a block stand at the end of a segment").into()),
    }
}

/// Whether a compressed file beside this one has the same bytes: its compression was killed before it removed this one, which
/// the next start does.
fn has_twin(path: &Path, bytes: &[u8]) -> Result<bool, Error> {
    let twin = PathBuf::from(format!("{}.zst", path.display()));
    Ok(twin.exists() && zstd::decode_all(&std::fs::read(&twin)?[..])? == bytes)
}

/// Paths of the log files of a directory, which need not exist, in the order of their lines: rotated files carry their
/// time and number, and the active one is the newest.
fn log_files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "log" || extension == "zst")
        {
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
            [_, time, number, _] | [_, time, number, _, _] => {
                (false, time.to_owned(), number.parse().unwrap_or(0))
            }
            _ => (true, name, 0),
        }
    });
    Ok(paths)
}
