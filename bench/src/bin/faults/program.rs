//! The program in Rust that logs by a plan: each thread makes half of its calls, says so, waits for the word to go on, makes
//! the rest, and the program ends as it is told.

use crate::account::{checksum, is_urgent};
use crate::halt::{Halt, fail};
use crate::notes::{Noted, Notes};
use crate::plan::Plan;
use logdrive::{Compress, Console, File, Full, Guard, Keep, Layout, Level, Overflow, Ship};
use logdrive_testkit::{report, wait_for_input};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;
use std::ops::Range;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Deadline of the records that the collector is to have before the end.
const DELIVERY: Duration = Duration::from_secs(20);

/// Calls of one thread: which ones, and at what pace.
struct Calls {
    program: u64,
    thread: u64,
    pause: Option<Duration>,
    warn_every: Option<u64>,
    /// True if every other call is for the flight recorder.
    is_kept: bool,
    notes: Arc<Notes>,
    noted: Noted,
}

impl Calls {
    /// Makes calls from a thread that has made none before, or goes on with them.
    fn make(&mut self, numbers: Range<u64>, is_first: bool) {
        let first = numbers.start;
        for number in numbers {
            let sum = checksum(self.program, self.thread, number);
            let before = times_taken();
            let begin = Instant::now();
            self.call(number, sum);
            let took_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let noted = &mut self.noted;
            noted.calls = number + 1;
            match is_first && number == first {
                true => noted.first_ns = noted.first_ns.max(took_ns),
                false => noted.worst_ns = noted.worst_ns.max(took_ns),
            }
            if !(is_first && number == first) && times_taken() == before {
                noted.own_ns = noted.own_ns.max(took_ns);
            }
            // A program that cannot note has nothing to compare; the difference shows it.
            let _ = self.notes.note(self.thread, *noted);
            if let Some(pause) = self.pause {
                std::thread::sleep(pause);
            }
        }
    }

    fn call(&self, number: u64, sum: u64) {
        let (program, thread) = (self.program, self.thread);
        if is_urgent(self.warn_every, number) {
            logdrive::warn!("F p{} t{} n{} c{} end", program, thread, number, sum);
        } else if self.is_kept && number.is_multiple_of(2) {
            logdrive::debug!("F p{} t{} n{} c{} end", program, thread, number, sum);
        } else {
            logdrive::info!("F p{} t{} n{} c{} end", program, thread, number, sum);
        }
    }

    /// Plays the halves of a thread, with all others at a time.
    fn play(mut self, halves: Halves, records: u64, barrier: &Barrier) {
        if halves != Halves::Second {
            self.make(0..records / 2, true);
            barrier.wait();
        }
        if halves != Halves::First {
            barrier.wait();
            self.make(records / 2..records, halves == Halves::Second);
            barrier.wait();
            park_forever();
        }
    }
}

/// Halves of the calls that a thread makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Halves {
    First,
    Second,
    Both,
}

/// Times that the kernel has taken the processor from this thread.
fn times_taken() -> Option<i64> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
    Some(usage.involuntary_context_switches())
}

/// Plays the program to its end.
pub(crate) fn play(words: &[String]) -> Result<(), Halt> {
    let plan = Plan::of(words);
    let guard = start(&plan)?;
    let (threads, records) = (
        plan.number("threads").unwrap_or(1u64),
        plan.number("records").unwrap_or(100u64),
    );
    let notes = plan.path("notes").ok_or_else(|| fail("notes=PATH is missing"))?;
    let notes = Arc::new(Notes::open(&notes)?);
    // Twice at the half, so that no thread goes on before the word; once when all is done.
    let barrier = Arc::new(Barrier::new(threads as usize + 1));
    let spawn_all = |halves| {
        (0..threads).try_for_each(|thread| {
            let calls = Calls {
                program: plan.number("program").unwrap_or(0),
                thread,
                pause: plan.number("pause_us").map(Duration::from_micros),
                warn_every: plan.number("warn_every"),
                is_kept: plan.text("keep").is_some(),
                notes: notes.clone(),
                noted: Noted::default(),
            };
            let barrier = barrier.clone();
            spawn(thread, move || calls.play(halves, records, &barrier))
        })
    };
    let is_fresh = plan.has("fresh");
    spawn_all(if is_fresh { Halves::First } else { Halves::Both })?;
    barrier.wait();
    at_half(&plan, &notes)?;
    if is_fresh {
        spawn_all(Halves::Second)?;
    }
    barrier.wait();
    barrier.wait();
    report(&done(&plan));
    wait_for_input();
    end(&plan, guard)
}

/// The word that all calls are made; with the number of late records, where the plan asks for the order.
fn done(plan: &Plan) -> String {
    if !plan.has("order") {
        return "done".to_owned();
    }
    let late = logdrive::flush()
        .then(logdrive::stats)
        .flatten()
        .map_or(0, |stats| stats.late);
    format!("done {late}")
}

/// Starts a thread with the name of its number.
pub(crate) fn spawn(thread: u64, work: impl FnOnce() + Send + 'static) -> Result<(), Halt> {
    let builder = std::thread::Builder::new().name(format!("t{thread}"));
    builder.stack_size(128 << 10).spawn(work)?;
    Ok(())
}

/// Threads outlive the end that `main` chooses, as those of a service do.
fn park_forever() {
    loop {
        std::thread::park();
    }
}

fn start(plan: &Plan) -> Result<Guard, Halt> {
    let mut builder = logdrive::builder(plan.text("app").unwrap_or("faults")).use_env(false);
    let overflow = match plan.text("overflow") {
        Some("hold") => Some(Overflow::Hold),
        Some(_) => Some(Overflow::Drop),
        None => None,
    };
    if let Some(bytes) = plan.number("keep") {
        builder = builder.filter("debug").keep(Keep::bytes(bytes));
    }
    builder = match (plan.path("log"), overflow) {
        _ if plan.text("collector").is_some() => {
            let ship = Ship::to(plan.text("collector").unwrap_or_default())?;
            let ship = match plan.path("spool") {
                Some(spool) => ship.spool(spool),
                None => ship.layout(Layout::text()),
            };
            builder.sink(ship.overflow(Overflow::Hold))
        }
        (None, Some(overflow)) => builder.console(Console::stderr().overflow(overflow)),
        (None, None) => builder.console(Console::stderr()),
        (Some(path), overflow) => builder.file(file(plan, File::new(path), overflow)),
    };
    if let Some(path) = plan.path("also") {
        builder = builder.file(File::new(path));
    }
    if let Some(run) = plan.path("run") {
        builder = builder.run_dir(run);
    }
    if let Some(socket) = plan.path("agent") {
        builder = builder.agent(socket);
    }
    if let Some((uid, gid)) = plan.text("run_as").and_then(|text| text.split_once(':')) {
        let number = |text: &str| text.parse().map_err(|_| fail("run_as=UID:GID"));
        builder = builder.run_as(number(uid)?, number(gid)?);
    }
    if let Some(bytes) = plan.number("ring") {
        builder = builder.ring_bytes(bytes);
    }
    builder = builder.full(match plan.text("full") {
        Some("drop") => Full::Drop,
        Some("block") => Full::Block,
        _ => Full::Wait,
    });
    Ok(builder.init()?)
}

fn file(plan: &Plan, mut file: File, overflow: Option<Overflow>) -> File {
    if let Some(bytes) = plan.number("rotate") {
        file = file.rotate_bytes(bytes);
    }
    if plan.text("layout") == Some("segments") {
        file = file.layout(Layout::segments());
    }
    if plan.text("keep").is_some() {
        file = file.min_level(Level::Info);
    }
    if plan.text("compress") == Some("zstd") {
        file = file.compress(Compress::Zstd);
    }
    match overflow {
        Some(overflow) => file.overflow(overflow),
        None => file,
    }
}

/// Makes the log durable, or harms the process, as the plan says; then waits for the word to go on.
fn at_half(plan: &Plan, notes: &Notes) -> Result<(), Halt> {
    let is_synced = !plan.has("sync") || logdrive::sync();
    match plan.text("act") {
        Some("setuid") => nix::unistd::setuid(nix::unistd::Uid::from_raw(65534))?,
        // Those of the standard streams stay, as a daemon has them.
        Some("close") => (3..1024)
            .filter(|number| *number != notes.descriptor())
            .for_each(|number| {
                // Most of these numbers are none.
                let _ = nix::unistd::close(number);
            }),
        Some(other) => {
            return Err(fail(format!(
                "{other} is nothing that this program does to itself"
            )));
        }
        None => {}
    }
    report(if is_synced { "half synced" } else { "half" });
    wait_for_input();
    Ok(())
}

fn end(plan: &Plan, guard: Guard) -> Result<(), Halt> {
    match plan.text("end").unwrap_or("stop") {
        "stop" if plan.has("deliver") && !logdrive::deliver(DELIVERY) => {
            return Err(fail("the collector does not take all"));
        }
        "stop" => drop(guard),
        "return" => std::mem::forget(guard),
        "exit" => std::process::exit(3),
        "_exit" => signal_hook::low_level::exit(3),
        "abort" => std::process::abort(),
        #[allow(clippy::panic, reason = "this program ends by a panic where it is told so")]
        "panic" => panic!("as told"),
        "segv" => loop {
            // The runtime takes the first one for a fault that comes again by itself.
            nix::sys::signal::raise(Signal::SIGSEGV)?;
        },
        "exec" => {
            let error = std::os::unix::process::CommandExt::exec(&mut std::process::Command::new("true"));
            return Err(error.into());
        }
        "eat" => eat_memory(),
        "wait" => {
            std::mem::forget(guard);
            park_forever();
        }
        other => return Err(fail(format!("{other} is no end of this program"))),
    }
    Ok(())
}

/// Takes memory until the kernel ends the process.
fn eat_memory() {
    let mut all = Vec::new();
    loop {
        all.push(std::hint::black_box(vec![1u8; 1 << 20]));
    }
}
