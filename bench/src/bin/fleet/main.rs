//! A fleet of senders on one machine: so many forwarders, each with a session, a thread and a connection of its own, against
//! one collector, or a group of two of which one is killed. It says what they cost, and what of their records is there.
//!
//! ```text
//! cargo run --release -p logdrive-bench --bin fleet -- --senders 10000
//! cargo run --release -p logdrive-bench --bin fleet -- --senders 2000 --group
//! ```
#![deny(unsafe_code)]

use lexopt::ValueExt;
use logdrive_ship::forward::{ForwardOptions, Forwarder, new_session};
use logdrive_ship::{Address, Options};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Lines of a batch of a sender.
const BATCH: u32 = 10;
/// Time for all records to be acknowledged at the end.
const END_TIMEOUT: Duration = Duration::from_secs(120);
/// Time for a fleet to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(120);

/// Arguments of a run.
struct Arguments {
    senders: u64,
    /// Rounds, in each of which each sender pushes a batch.
    rounds: u32,
    /// Time of a round.
    pause: Duration,
    /// Over TCP instead of a socket of this machine.
    tcp: bool,
    /// Two collectors, of which one is killed.
    group: bool,
    program: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = read_arguments()?;
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let directory = tempfile::tempdir()?;
    let count = if arguments.group { 2 } else { 1 };
    let mut collectors = Vec::new();
    for place in 0..count {
        collectors.push(Collector::start(&arguments, directory.path(), place)?);
    }
    let senders = connect(&arguments, &collectors)?;
    wait_for_connections(&collectors, arguments.senders)?;
    let idle = Usage::of(&collectors);
    println!("{} senders are connected", arguments.senders);
    sleep(Duration::from_secs(10));
    let after = Usage::of(&collectors);
    println!(
        "idle: collectors {}, senders {}",
        after.since(&idle, 10.0),
        own_memory()
    );
    let begun = Instant::now();
    for round in 0..arguments.rounds {
        if arguments.group && round == arguments.rounds / 2 {
            println!("round {round}: one collector is killed");
            collectors[0].child.kill()?;
            collectors[0].child.wait()?;
        }
        push(&senders, round, begun + arguments.pause * round, arguments.pause);
    }
    let until = Instant::now() + END_TIMEOUT;
    let records = u64::from(arguments.rounds * BATCH);
    let late = senders
        .iter()
        .filter(|sender| !sender.wait_acknowledged(records, until.saturating_duration_since(Instant::now())))
        .count();
    let seconds = begun.elapsed().as_secs_f64();
    let load = Usage::of(&collectors);
    println!(
        "under load: collectors {}, senders {}",
        load.since(&after, seconds),
        own_memory()
    );
    let total = records * arguments.senders;
    println!(
        "{total} records in {seconds:.1} s, {:.0}/s; {late} senders were not acknowledged",
        total as f64 / seconds
    );
    drop(senders);
    for collector in &mut collectors {
        collector.end()?;
    }
    report(&collectors, arguments.senders, records)
}

fn read_arguments() -> Result<Arguments, Box<dyn Error>> {
    let target = std::env::current_exe()?;
    let mut arguments = Arguments {
        senders: 10_000,
        rounds: 20,
        pause: Duration::from_secs(1),
        tcp: false,
        group: false,
        program: target.with_file_name("logdrive"),
    };
    let mut words = lexopt::Parser::from_env();
    while let Some(word) = words.next()? {
        match word {
            lexopt::Arg::Long("senders") => arguments.senders = words.value()?.parse()?,
            lexopt::Arg::Long("rounds") => arguments.rounds = words.value()?.parse()?,
            lexopt::Arg::Long("pause-ms") => arguments.pause = Duration::from_millis(words.value()?.parse()?),
            lexopt::Arg::Long("program") => arguments.program = words.value()?.into(),
            lexopt::Arg::Long("tcp") => arguments.tcp = true,
            lexopt::Arg::Long("group") => arguments.group = true,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(arguments)
}

/// A collector that runs.
struct Collector {
    child: Child,
    address: Address,
    log: PathBuf,
}

impl Collector {
    fn start(arguments: &Arguments, directory: &Path, place: usize) -> Result<Self, Box<dyn Error>> {
        let out = directory.join(format!("collector-{place}"));
        let address = match arguments.tcp {
            true => {
                let socket = std::net::TcpListener::bind("127.0.0.1:0")?;
                format!("tcp://{}", socket.local_addr()?)
            }
            false => format!("unix://{}/{place}.sock", directory.display()),
        };
        let child = Command::new(&arguments.program)
            .args([
                "collect",
                "--json",
                "--connections",
                "20000",
                "--listen",
                &address,
                "--out",
            ])
            .arg(&out)
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self {
            child,
            address: address.parse()?,
            log: out.join("collected.log"),
        })
    }

    fn end(&mut self) -> Result<(), Box<dyn Error>> {
        if self.child.try_wait()?.is_none() {
            kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGTERM)?;
            self.child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the senders.
fn connect(arguments: &Arguments, collectors: &[Collector]) -> Result<Vec<Forwarder>, Box<dyn Error>> {
    let addresses: Vec<Address> = collectors
        .iter()
        .map(|collector| collector.address.clone())
        .collect();
    let mut senders = Vec::new();
    for number in 0..arguments.senders {
        let options = Options {
            host: format!("host-{number}"),
            app: "fleet".to_owned(),
            ..Options::default()
        };
        let mut forward = ForwardOptions::new(new_session()?, 1);
        forward.persists = true;
        senders.push(Forwarder::start(&addresses, &options, &forward)?);
    }
    Ok(senders)
}

/// Waits until all senders have a connection.
fn wait_for_connections(collectors: &[Collector], senders: u64) -> Result<(), Box<dyn Error>> {
    let until = Instant::now() + CONNECT_TIMEOUT;
    loop {
        let open: u64 = collectors
            .iter()
            .map(|collector| descriptors(&collector.child))
            .sum();
        if open >= senders {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(format!("only {open} connections after {CONNECT_TIMEOUT:?}").into());
        }
        sleep(Duration::from_millis(100));
    }
}

fn descriptors(child: &Child) -> u64 {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", child.id()));
    entries.map_or(0, |entries| entries.count() as u64)
}

/// Gives each sender a batch, one after the other in the time of a round: hosts do not log at the same moment.
fn push(senders: &[Forwarder], round: u32, begin: Instant, time: Duration) {
    let mut text = String::new();
    for (sender, forwarder) in senders.iter().enumerate() {
        let due = begin + time.mul_f64(sender as f64 / senders.len() as f64);
        sleep(due.saturating_duration_since(Instant::now()));
        text.clear();
        for number in round * BATCH..(round + 1) * BATCH {
            // Writing to memory does not fail.
            let _ = writeln!(
                text,
                "level=info msg=\"order taken\" sender={sender} n={number} took_ms=1.5"
            );
        }
        let mut bytes = text.clone().into_bytes();
        while let Err(refusal) = forwarder.push(BATCH, bytes, Duration::from_secs(1)) {
            bytes = refusal.0;
        }
    }
}

/// Memory, processor time and threads of all collectors.
struct Usage {
    memory_kib: u64,
    peak_kib: u64,
    cpu_seconds: f64,
    connections: u64,
}

impl Usage {
    fn of(collectors: &[Collector]) -> Self {
        let mut sum = Self {
            memory_kib: 0,
            peak_kib: 0,
            cpu_seconds: 0.0,
            connections: 0,
        };
        for collector in collectors {
            let id = collector.child.id().to_string();
            sum.memory_kib += status(&id, "VmRSS:");
            sum.peak_kib += status(&id, "VmHWM:");
            sum.cpu_seconds += cpu_seconds(&id);
            sum.connections += descriptors(&collector.child);
        }
        sum
    }

    fn since(&self, before: &Self, seconds: f64) -> String {
        // One that was killed has none any more.
        let cpu = (self.cpu_seconds - before.cpu_seconds).max(0.0);
        format!(
            "{} descriptors, {} MiB (at most {}), {:.1} s of processor time in {seconds:.0} s",
            self.connections,
            self.memory_kib / 1024,
            self.peak_kib / 1024,
            cpu
        )
    }
}

fn own_memory() -> String {
    format!(
        "{} MiB, {} threads",
        status("self", "VmRSS:") / 1024,
        status("self", "Threads:")
    )
}

fn status(process: &str, key: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn cpu_seconds(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|text| text.parse::<u64>().ok())
        .sum();
    // Ticks of 10 ms.
    ticks as f64 / 100.0
}

/// Counts the records of all logs by sender and number.
fn report(collectors: &[Collector], senders: u64, records: u64) -> Result<(), Box<dyn Error>> {
    let mut found: HashMap<(u64, u64), u32> = HashMap::new();
    for collector in collectors {
        for line in BufReader::new(std::fs::File::open(&collector.log)?).lines() {
            let line = line?;
            let value = |key: &str| {
                let rest = line.split_once(key)?.1;
                rest.split(' ').next()?.parse::<u64>().ok()
            };
            if let (Some(sender), Some(number)) = (value(" sender="), value(" n=")) {
                *found.entry((sender, number)).or_default() += 1;
            }
        }
    }
    let twice = found.values().filter(|count| **count > 1).count();
    let lost = senders * records - found.len() as u64;
    println!(
        "{} records are there, {lost} lost, {twice} in the logs of both collectors",
        found.len()
    );
    match lost {
        0 => Ok(()),
        _ => Err("records were lost".into()),
    }
}
