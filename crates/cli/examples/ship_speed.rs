//! Speed and cost of shipping records from one process to the file of a collector: `cargo xtask bench ship`.
//!
//! A program logs records from one thread, as fast as its sink takes them; the clock stops when the collector has
//! acknowledged the last one. Processor time is that of both processes. Beside it, in turn: the same records into a file of
//! the program's own, and their lines by plain `write`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Records whose text is a gigabyte.
const RECORDS: u64 = 8_000_000;
const QUICK_RECORDS: u64 = 1_000_000;
const SUBJECTS: [&str; 11] = [
    "write",
    "file",
    "unix",
    "unix text",
    "unix segments",
    "unix lines",
    "unix json lines",
    "tls",
    "shm",
    "unix slow",
    "unix flood",
];
/// Clients of `unix slow`, who send one byte of a hello now and then, and connections a second of `unix flood`, which end as
/// soon as they are made.
const SLOW_CLIENTS: usize = 1000;
const FLOOD_PER_S: u64 = 2000;
const ROLE: &str = "--role";

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == ROLE) {
        return role(&args);
    }
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).cloned()
    };
    if has("--help") {
        println!(
            "Usage: cargo xtask bench ship [--quick] [--rounds N] [--records N] [--only NAME,...] [--dir DIR] [--json]\n\n\
             Subjects: {}\n\nExample: cargo xtask bench ship --only unix,tls --rounds 1",
            SUBJECTS.join(", ")
        );
        return Ok(());
    }
    let records = match value("--records") {
        Some(text) => text.replace('_', "").parse()?,
        None if has("--quick") => QUICK_RECORDS,
        None => RECORDS,
    };
    let rounds: usize = value("--rounds").map_or(Ok(3), |text| text.parse())?;
    let only = value("--only");
    let chosen = |name: &&str| {
        only.as_deref()
            .is_none_or(|only| only.split(',').any(|one| one == *name))
    };
    let base = value("--dir").map_or_else(std::env::temp_dir, PathBuf::from);
    let mut rows: Vec<(&str, Vec<Measured>)> = SUBJECTS
        .into_iter()
        .filter(|name| chosen(name))
        .map(|name| (name, Vec::new()))
        .collect();
    for _ in 0..rounds {
        for (name, found) in &mut rows {
            found.push(measure(name, records, &base)?);
        }
    }
    show(&rows, records, has("--json"));
    Ok(())
}

#[derive(Debug, Clone, Copy)]
struct Measured {
    wall_s: f64,
    program_cpu_s: f64,
    collector_cpu_s: f64,
    bytes: u64,
}

fn show(rows: &[(&str, Vec<Measured>)], records: u64, json: bool) {
    if !json {
        println!("{records} records from one thread; medians");
        println!("subject     records/s   wall s   CPU s a million: program, collector   MB in the file");
    }
    let millions = records as f64 / 1e6;
    for (name, found) in rows {
        let median = |of: &dyn Fn(&Measured) -> f64| {
            let mut all: Vec<f64> = found.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or(0.0)
        };
        let wall_s = median(&|one| one.wall_s);
        let program = median(&|one| one.program_cpu_s) / millions;
        let collector = median(&|one| one.collector_cpu_s) / millions;
        let mb = median(&|one| one.bytes as f64) / 1e6;
        let per_s = records as f64 / wall_s;
        if json {
            println!(
                "{{\"subject\":\"{name}\",\"records\":{records},\"records_per_s\":{per_s:.0},\"wall_s\":{wall_s:.3},\
                 \"program_cpu_s_per_million\":{program:.3},\"collector_cpu_s_per_million\":{collector:.3},\"mb\":{mb:.1}}}"
            );
        } else {
            println!("{name:<10} {per_s:>10.0} {wall_s:>8.2} {program:>12.3} {collector:>24.3} {mb:>17.0}");
        }
    }
}

struct Collector {
    child: Child,
    address: String,
}

impl Collector {
    fn start(name: &str, listen: &str, out: &Path, keys: &Path) -> Result<Self, Error> {
        let program = logdrive()?;
        let mut command = Command::new(&program);
        command
            .args([
                "collect",
                "--json",
                "--rotate-size",
                "64GiB",
                "--listen",
                listen,
                "--out",
            ])
            .arg(out);
        match name.split_once(' ') {
            Some((_, "text")) => command.args(["--layout", "text"]),
            Some((_, "segments")) => command.args(["--format", "segments"]),
            _ => &mut command,
        };
        if listen.starts_with("tls") {
            let made = Command::new(&program)
                .args(["collect", "--make-certificates"])
                .arg(keys)
                .stderr(Stdio::null())
                .status()?;
            if !made.success() {
                return Err("no certificates could be made".into());
            }
            for (flag, file) in [
                ("--tls-ca", "authority.pem"),
                ("--tls-cert", "server.pem"),
                ("--tls-key", "server.key"),
            ] {
                command.arg(flag).arg(keys.join(file));
            }
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().ok_or("no pipe")?;
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let address = lines.find_map(|line| Some(line.strip_prefix("listens: on ")?.to_owned()));
        std::thread::spawn(move || lines.for_each(drop));
        match address {
            Some(address) => Ok(Self { child, address }),
            None => Err("the collector does not listen".into()),
        }
    }

    /// Its processor time so far.
    fn cpu_s(&self) -> Result<f64, Error> {
        cpu_s(&self.child.id().to_string())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // What was measured is on its way already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command, which is built beside this program.
fn logdrive() -> Result<PathBuf, Error> {
    let own = std::env::current_exe()?;
    let place = own.ancestors().nth(2).ok_or("no directory")?;
    let found = place.join("logdrive");
    match found.exists() {
        true => Ok(found),
        false => Err(format!("{} is missing: build it with --release", found.display()).into()),
    }
}

/// User and system time of a process, from its statistics, in ticks of 10 ms.
fn cpu_s(process: &str) -> Result<f64, Error> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let rest = text.rsplit_once(')').ok_or("no statistics")?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).map_or(Ok(0.0), |text| text.parse::<f64>());
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}

fn measure(name: &str, records: u64, base: &Path) -> Result<Measured, Error> {
    let dir = tempfile::tempdir_in(base)?;
    let out = dir.path().join("out");
    let keys = dir.path().join("keys");
    let scheme = name.split(' ').next().unwrap_or_default();
    let collector = match scheme {
        "unix" | "shm" => {
            let listen = format!("{scheme}://{}", dir.path().join("c.sock").display());
            Some(Collector::start(name, &listen, &out, &keys)?)
        }
        "tls" => Some(Collector::start(name, "tls://127.0.0.1:0", &out, &keys)?),
        _ => None,
    };
    std::fs::create_dir_all(&out)?;
    let trouble = Trouble::begin(
        name,
        collector.as_ref().map_or("", |collector| &collector.address),
    )?;
    let mut role = Command::new(std::env::current_exe()?);
    role.args([ROLE, name, &records.to_string()]).arg(dir.path());
    role.arg(collector.as_ref().map_or("", |collector| &collector.address));
    let output = role.stderr(Stdio::inherit()).output()?;
    trouble.end();
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let [wall_s, program_cpu_s] = numbers.as_slice() else {
        return Err(format!("{name} failed: {text}").into());
    };
    let (file, lines) = longest(&out)?;
    if lines < records && !name.ends_with("segments") {
        return Err(format!("{name}: {lines} of {records} records are in the file").into());
    }
    Ok(Measured {
        wall_s: *wall_s,
        program_cpu_s: *program_cpu_s,
        collector_cpu_s: collector.map_or(Ok(0.0), |collector| collector.cpu_s())?,
        bytes: file,
    })
}

/// Clients that take the collector's time.
struct Trouble {
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Trouble {
    fn begin(name: &str, address: &str) -> Result<Self, Error> {
        let ends = Arc::new(AtomicBool::new(false));
        let path = PathBuf::from(address.strip_prefix("unix://").unwrap_or_default());
        let own = Arc::clone(&ends);
        let thread = match name.split_once(' ').map(|(_, what)| what) {
            Some("slow") => {
                let mut clients = (0..SLOW_CLIENTS)
                    .map(|_| UnixStream::connect(&path))
                    .collect::<Result<Vec<_>, _>>()?;
                Some(std::thread::spawn(move || {
                    while !own.load(Ordering::Relaxed) {
                        for client in &mut clients {
                            if client.write_all(&[24]).is_err()
                                && let Ok(fresh) = UnixStream::connect(&path)
                            {
                                *client = fresh;
                            }
                        }
                        std::thread::sleep(Duration::from_millis(500));
                    }
                }))
            }
            Some("flood") => Some(std::thread::spawn(move || {
                while !own.load(Ordering::Relaxed) {
                    for _ in 0..FLOOD_PER_S / 100 {
                        // It may be refused, which is what is measured.
                        drop(UnixStream::connect(&path));
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            })),
            _ => None,
        };
        Ok(Self { ends, thread })
    }

    fn end(self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread {
            // It does not panic.
            let _ = thread.join();
        }
    }
}

/// Bytes and lines of the log.
fn longest(out: &Path) -> Result<(u64, u64), Error> {
    let mut found = (0, 0);
    for entry in std::fs::read_dir(out)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|end| end == "log" || end == "segment")
        {
            let mut reader = BufReader::with_capacity(1 << 20, std::fs::File::open(&path)?);
            loop {
                let bytes = reader.fill_buf()?;
                if bytes.is_empty() {
                    break;
                }
                let length = bytes.len();
                found.1 += memchr::memchr_iter(b'\n', bytes).count() as u64;
                found.0 += length as u64;
                reader.consume(length);
            }
        }
    }
    Ok(found)
}

/// The program that logs.
fn role(args: &[String]) -> Result<(), Error> {
    let [_, name, records, dir, address] = args else {
        return Err("five arguments".into());
    };
    let (records, dir) = (records.parse::<u64>()?, Path::new(dir));
    let out = dir.join("out/program.log");
    if name == "write" {
        return plain(records, &out);
    }
    let builder = logdrive::builder("ship_speed")
        .use_env(false)
        .run_dir(dir.join("run"))
        .full(logdrive::Full::Block);
    let builder = if name == "file" {
        builder.file(logdrive::File::new(out))
    } else {
        let keys = dir.join("keys");
        let mut ship = logdrive::Ship::to(address)?;
        if address.starts_with("tls") {
            let key = |file: &str| keys.join(file);
            ship = ship.tls(key("authority.pem"), key("client.pem"), key("client.key"));
        }
        match name.split_once(' ').map(|(_, what)| what) {
            Some("lines") => ship = ship.layout(logdrive::Layout::text()),
            Some("json lines") => ship = ship.layout(logdrive::Layout::json()),
            _ => {}
        }
        builder.sink(ship)
    };
    let guard = builder.init()?;
    let start = Instant::now();
    for id in 0..records {
        let price = (id % 10_000) as f64 * 0.25;
        logdrive::info!(
            "order {id} of {} filled at {price:.2}, {} left in the book",
            "customer-4711",
            id % 1000
        );
    }
    let is_there = logdrive::deliver(Duration::from_secs(120));
    let wall_s = start.elapsed().as_secs_f64();
    let cpu = cpu_s("self")?;
    drop(guard);
    if !is_there {
        return Err("not all was acknowledged".into());
    }
    println!("{wall_s} {cpu}");
    Ok(())
}

/// Lines of the same length, ready made, by `write`.
fn plain(records: u64, out: &Path) -> Result<(), Error> {
    let line = "2026-11-21T12:34:56.123456789Z INFO  main ship_speed ship_speed.rs:255 order 1234567 of customer-4711 \
                filled at 2499.75, 999 left in the book\n";
    let many = line.repeat(7_000);
    let mut file = std::fs::File::create(out)?;
    let start = Instant::now();
    let mut left = records;
    while left > 0 {
        let now = left.min(7_000);
        file.write_all(&many.as_bytes()[..line.len() * now as usize])?;
        left -= now;
    }
    println!("{} {}", start.elapsed().as_secs_f64(), cpu_s("self")?);
    Ok(())
}
