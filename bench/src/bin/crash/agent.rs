//! `crash --agent`: an agent and the programs whose sessions it has, killed in turn while records come.
//!
//! Some programs of several threads log numbered lines in bursts. In every cycle the agent dies of SIGKILL at a random
//! moment, now and then again while it starts or adopts, and the next one takes the sessions over; then one of the
//! programs dies of SIGKILL, and a new one comes. The log of the agents must hold, for every thread of every program,
//! each number from 0 on exactly once and in order, in whole lines: as many as its ring counted as committed when it
//! died, and as many as it had noted itself. A program that ends in order finds that all was written.
//!
//! In some cycles agent and program die together, in one order or the other: then the agent's keeper alone has the
//! memory of that program, and the next agent gets it from there.

use crate::agent_log::AgentLog;
use crate::lines::{LineCounts, committed, log_line, mix};
use crate::{Error, play};
use logdrive::{File, Full, Layout};
use logdrive_agent::config::{AgentConfig, Places, Route, SinkConfig};
use logdrive_agent::{Agent, Client, KeeperCommand, StoreOptions};
use logdrive_drain::file::Compress;
use logdrive_drain::{Overflow, Target};
use logdrive_ring::SessionReader;
use logdrive_testkit::{Process, end_of_input, report};
use logdrive_wire::agent::SessionState;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Programs that live at once.
const PROGRAMS: usize = 2;
/// Threads of each: more than begin with a ring of the largest size, so that some are replaced.
const THREADS: usize = 6;
/// Lines of a thread between two notes of how many there are, at most.
const BURST_MAX: u64 = 600;
/// Deadline after which a condition counts as failed.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Between two looks at something that another process does.
const LOOK: Duration = Duration::from_micros(500);

fn socket(dir: &Path) -> PathBuf {
    dir.join("sock/agent.sock")
}

/// One file for all programs, with a rotation every second or so.
fn config(dir: &Path) -> AgentConfig {
    let places = Places {
        socket: socket(dir),
        run_dir: dir.join("run"),
        log_dir: dir.join("logs"),
    };
    let mut main = SinkConfig::file("main", dir.join("logs/crash.log"));
    main.options.layout = Layout::pattern("{thread} {message}").into();
    main.options.flush_every = Duration::from_millis(5);
    // What is lost is to be the killing's doing, not that of a disk that others keep busy.
    main.options.overflow = Overflow::Hold;
    if let Target::File(file) = &mut main.options.target {
        file.rotate_bytes = Some(16 << 20);
        file.keep_files = None;
        file.compress = Compress::None;
    }
    AgentConfig {
        routes: vec![Route::to_all(std::slice::from_ref(&main))],
        sinks: vec![main],
        ..AgentConfig::at(&places)
    }
}

/// The agent that writes until it dies, or until its input ends.
pub(crate) fn play_agent(dir: &Path) -> Result<(), Error> {
    let mut agent = Agent::start(config(dir))?;
    agent.store_descriptors(StoreOptions::Keeper(KeeperCommand::new(
        std::env::current_exe()?,
        ["--play", "keeper"],
    )));
    report("ready");
    let over = end_of_input();
    while over.try_recv().is_err() {
        agent.turn();
    }
    match agent.stop() {
        logdrive::Stopped::Complete => Ok(()),
        logdrive::Stopped::LeftForRecovery => Err("the agent could not write all".into()),
    }
}

/// While this file is there, programs that live say nothing: who reads their log may be slower than they are.
fn pause_of(dir: &Path) -> PathBuf {
    dir.join("pause")
}

fn notes_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("notes-{number}"))
}

/// The program that logs until it dies, or until its input ends.
pub(crate) fn play_program(dir: &Path, number: u64, seed: u64) -> Result<(), Error> {
    let ring_bytes = if mix(seed).is_multiple_of(2) {
        64 << 10
    } else {
        1 << 20
    };
    let guard = logdrive::builder("crash")
        .use_env(false)
        .agent(socket(dir))
        .run_dir(dir.join("own"))
        .file(File::new(dir.join("own.log")))
        .ring_bytes(ring_bytes)
        .full(Full::Block)
        .note_signals(true)
        .shutdown_timeout(Duration::ZERO)
        .init()?;
    if logdrive::session_path().is_some() {
        return Err("the program has a session of its own".into());
    }
    let notes = LineCounts::open(&notes_of(dir, number))?;
    let stop = AtomicBool::new(false);
    let pause = pause_of(dir);
    let over = end_of_input();
    std::thread::scope(|scope| -> Result<(), Error> {
        for thread in 0..THREADS as u64 {
            let (notes, stop, pause) = (&notes, &stop, &pause);
            std::thread::Builder::new()
                .name(format!("t{thread}"))
                .spawn_scoped(scope, move || log_lines(number, thread, seed, notes, stop, pause))?;
        }
        // The other end of it is closed, or says nothing for ever.
        let _ = over.recv();
        // Relaxed: a word to stop; what was noted is in a file.
        stop.store(true, Ordering::Relaxed);
        Ok(())
    })?;
    match guard.stop() {
        Some((logdrive::Stopped::Complete, _)) => Ok(()),
        other => Err(format!("the program did not end in order: {other:?}").into()),
    }
}

/// Bursts of any length with pauses between them, so that rings are full, empty and in between.
fn log_lines(program: u64, thread: u64, seed: u64, notes: &LineCounts, stop: &AtomicBool, pause: &Path) {
    let mut random = mix(seed ^ (thread << 32));
    let padding = "p".repeat((random % 200) as usize);
    let mut number = 0u64;
    // Relaxed: see where it is stored.
    while !stop.load(Ordering::Relaxed) {
        random = mix(random);
        if pause.exists() {
            std::thread::sleep(LOOK);
            continue;
        }
        for _ in 0..=random % BURST_MAX {
            log_line(program, thread, number, &padding);
            number += 1;
        }
        notes.note(thread, number);
        std::thread::sleep(Duration::from_micros(random >> 32 & 0x3ff));
    }
}

/// A program that lives.
struct Program {
    number: u64,
    process: Process,
    /// Its memory, looked at from outside shortly before its end: what its rings count stays after it.
    view: SessionReader,
}

#[derive(Default)]
struct Totals {
    agents: u64,
    agents_starting: u64,
    programs: u64,
    together: u64,
    longest_away: Duration,
    lines: u64,
    /// Programs whose lines were compared with their notes alone.
    by_notes: u64,
}

struct Run {
    dir: PathBuf,
    seed: u64,
    server: Process,
    programs: Vec<Program>,
    started: u64,
    log: AgentLog,
    totals: Totals,
}

pub(crate) fn cycles_of(cycles: u64, seed: u64, keep: bool) -> Result<(), Error> {
    let dir = std::env::temp_dir().join(format!("logdrive-crash-agent-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let begin = Instant::now();
    let mut run = Run {
        server: start_agent(&dir)?,
        log: AgentLog::new(&dir.join("logs")),
        dir,
        seed,
        programs: Vec::new(),
        started: 0,
        totals: Totals::default(),
    };
    let done = run.all_cycles(cycles, begin);
    let totals = &run.totals;
    if let Err(error) = done {
        return Err(format!(
            "after {} agents and {} programs of seed {seed}: {error}; the files are in {}",
            totals.agents,
            totals.programs,
            run.dir.display()
        )
        .into());
    }
    println!(
        "{cycles} cycles in {:.1?}, seed {seed}: {} agents killed, {} of them while they started; {} programs killed, {} of them together \
         with the agent, {} compared with their notes alone; longest time until a program was with the next agent {:.0?}; {} lines; 0 lost, 0 torn, 0 twice",
        begin.elapsed(),
        totals.agents,
        totals.agents_starting,
        totals.programs,
        totals.together,
        totals.by_notes,
        totals.longest_away,
        totals.lines,
    );
    if !keep {
        std::fs::remove_dir_all(&run.dir)?;
    }
    Ok(())
}

/// Starts an agent and waits until it listens.
fn start_agent(dir: &Path) -> Result<Process, Error> {
    let mut server = play("agent", &[&dir.to_string_lossy()])?;
    server.expect("ready");
    Ok(server)
}

/// Looks again and again until something is so.
fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>, Error>) -> Result<T, Error> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(format!("in vain: {what}").into());
        }
        std::thread::sleep(LOOK);
    }
}

impl Run {
    fn all_cycles(&mut self, cycles: u64, begin: Instant) -> Result<(), Error> {
        for _ in 0..PROGRAMS {
            self.start_program()?;
        }
        for cycle in 0..cycles {
            let random = mix(self.seed ^ mix(cycle));
            let place = (mix(random ^ 2) % PROGRAMS as u64) as usize;
            std::thread::sleep(Duration::from_micros(random % 8_000));
            if mix(random ^ 3).is_multiple_of(4) {
                self.kill_together(place, mix(random))?;
            } else {
                self.kill_agent(mix(random))?;
                std::thread::sleep(Duration::from_micros(mix(random ^ 1) % 4_000));
                self.kill_program(place)?;
            }
            self.start_program()?;
            if (cycle + 1) % 100 == 0 {
                let lines = self.log.lines.checked;
                eprintln!(
                    "{} of {cycles} cycles, {lines} lines checked, {:.0?}",
                    cycle + 1,
                    begin.elapsed()
                );
            }
        }
        self.end()
    }

    fn start_program(&mut self) -> Result<(), Error> {
        let number = self.started;
        self.started += 1;
        let notes = notes_of(&self.dir, number);
        LineCounts::create::<THREADS>(&notes)?;
        let seed = mix(self.seed ^ (number << 20)).to_string();
        let words: [&str; 3] = [&self.dir.to_string_lossy(), &number.to_string(), &seed];
        let mut process = play("program", &words)?;
        until("all threads of a program log", || {
            if let Some(status) = process.try_wait() {
                return Err(format!("program {number} has ended by itself: {status}").into());
            }
            let all = LineCounts::read::<THREADS>(&notes)?
                .iter()
                .all(|count| *count > 0);
            Ok(all.then_some(()))
        })?;
        let view = self.view_of(process.pid())?;
        self.programs.push(Program {
            number,
            process,
            view,
        });
        Ok(())
    }

    fn view_of(&self, pid: u32) -> Result<SessionReader, Error> {
        let mut client = Client::connect(&socket(&self.dir), TIMEOUT)?;
        let sessions = client.sessions()?;
        let found = sessions.iter().find(|session| session.pid == pid);
        let found = found.ok_or_else(|| format!("the agent has no session of process {pid}"))?;
        Ok(client.open(found.session)?)
    }

    /// Kills the agent, starts the next one, and waits until it has all sessions of programs that live.
    fn kill_agent(&mut self, random: u64) -> Result<(), Error> {
        self.server.kill();
        self.next_agent(random)
    }

    /// Starts the next agent after one that was killed, and waits until it has all sessions.
    fn next_agent(&mut self, random: u64) -> Result<(), Error> {
        self.totals.agents += 1;
        let mut away = Instant::now();
        if random.is_multiple_of(4) {
            let mut next = play("agent", &[&self.dir.to_string_lossy()])?;
            std::thread::sleep(Duration::from_micros(mix(random) % 30_000));
            next.kill();
            self.totals.agents += 1;
            self.totals.agents_starting += 1;
            away = Instant::now();
        }
        self.server = start_agent(&self.dir)?;
        let pids: Vec<u32> = self
            .programs
            .iter()
            .map(|program| program.process.pid())
            .collect();
        let path = socket(&self.dir);
        let mut client = Client::connect(&path, TIMEOUT)?;
        until("the next agent has all sessions", || {
            let sessions = client.sessions()?;
            let is_here = |pid: &u32| {
                sessions
                    .iter()
                    .any(|session| session.pid == *pid && session.state == SessionState::Connected)
            };
            Ok(pids.iter().all(is_here).then_some(()))
        })?;
        self.totals.longest_away = self.totals.longest_away.max(away.elapsed());
        Ok(())
    }

    /// Takes a program out of those that live, with a view of the rings that it has by now: a thread whose ring was full
    /// has another one.
    fn take_program(&mut self, place: usize) -> Result<Program, Error> {
        let program = self.programs.remove(place);
        let view = self.view_of(program.process.pid())?;
        Ok(Program { view, ..program })
    }

    /// Kills a program, and compares.
    fn kill_program(&mut self, place: usize) -> Result<(), Error> {
        let mut program = self.take_program(place)?;
        program.process.kill();
        self.totals.programs += 1;
        self.compare(program)
    }

    /// Kills agent and program, the program first or last, so that only the keeper has the program's memory; compares
    /// what the next agent makes of it.
    fn kill_together(&mut self, place: usize, random: u64) -> Result<(), Error> {
        let mut program = self.take_program(place)?;
        let is_program_first = random.is_multiple_of(2);
        if is_program_first {
            program.process.kill();
        }
        self.server.kill();
        if !is_program_first {
            program.process.kill();
        }
        self.totals.programs += 1;
        self.totals.together += 1;
        self.next_agent(mix(random))?;
        self.compare(program)
    }

    /// Waits until the log says that a killed program has ended, and compares what it has of it with what was counted.
    fn compare(&mut self, program: Program) -> Result<(), Error> {
        let pid = program.process.pid();
        let log = &mut self.log;
        std::fs::write(pause_of(&self.dir), "")?;
        until("the log says that a program has ended", || {
            log.read_on()?;
            Ok(log.take_end_of(pid).then_some(()))
        })?;
        std::fs::remove_file(pause_of(&self.dir))?;
        let notes = notes_of(&self.dir, program.number);
        let noted = LineCounts::read::<THREADS>(&notes)?;
        let rings = program.view.rings().0.len();
        let is_whole = rings == program.view.header().totals().rings as usize;
        self.totals.lines += if is_whole {
            let counted = committed::<THREADS>(&program.view)?;
            log.lines.compare(program.number, &counted, &noted)?
        } else {
            // A ring came between the view and the kill.
            self.totals.by_notes += 1;
            log.lines.compare_notes(program.number, &noted, BURST_MAX)?
        };
        std::fs::remove_file(notes)?;
        Ok(())
    }

    /// Those that live end in order: the log has all of them.
    fn end(&mut self) -> Result<(), Error> {
        let mut logged = Vec::new();
        for Program { number, process, .. } in self.programs.drain(..) {
            process.end();
            logged.push((number, LineCounts::read::<THREADS>(&notes_of(&self.dir, number))?));
        }
        self.server.close_input();
        let status = self.server.wait();
        if !status.success() {
            return Err(format!("the agent ended with {status}").into());
        }
        self.log.read_on()?;
        for (program, counts) in logged {
            for (thread, count) in (0..).zip(counts) {
                let found = self.log.lines.take(program, thread);
                if found != count {
                    let what = format!("program {program}, thread {thread}: {found} lines, {count} logged");
                    return Err(what.into());
                }
                self.totals.lines += found;
            }
        }
        Ok(())
    }
}
