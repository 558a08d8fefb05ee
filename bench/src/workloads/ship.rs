//! `ship`: records of one program, into the log of a collector that is another process.
//!
//! The clock starts before the first record and stops when the collector has acknowledged the last one, which it does when its
//! log is with the kernel. The collector is the command `logdrive collect` as people use it. Without a collector stand the same
//! program with a file of its own, and lines that are ready and only go through a Unix socket into `cat`. All of them write new
//! files. Afterwards the log is read: each record has a number, and is to be there once.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use logdrive::{Layout, Overflow};
use logdrive_transport::make_certificates;
use memchr::memmem::Finder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Case, Job, Metric, Ratio, Samples, Scale, Workload, runs};
use crate::subjects::logdrive::{start, stop};
use crate::{BenchError, Result, command, usage};

const FULL_RECORDS: u64 = 8_000_000;
const QUICK_RECORDS: u64 = 400_000;

/// Stands in each record, before its number, in text and in JSON.
const MARKERS: [&str; 2] = [" id=", "\"id\":"];

/// As long as a line of the program's own log.
const READY_LINE: &str = "2026-11-21T12:34:56.123456789Z INFO  main logdrive_bench::workloads::ship ship.rs:147 order filled \
                          price=9.5 peer=ann id=";

/// Bytes that ready lines are written in.
const WRITE_BYTES: usize = 256 * 1024;

/// After this long a collector that has not acknowledged is taken for broken.
const PATIENCE: Duration = Duration::from_secs(120);

const METRICS: &[Metric] = &[
    Metric::new("records_per_s", "records/s", 0),
    Metric::new("log_mb_per_s", "MB/s", 0),
    Metric::new("cpu_s_per_million", "s", 3),
    Metric::new("lost", "records", 0),
    Metric::new("twice", "records", 0),
];

/// The workload.
pub struct Ship;

impl Workload for Ship {
    fn name(&self) -> &'static str {
        "ship"
    }

    fn title(&self, scale: Scale) -> String {
        format!(
            "{} records of a program into a collector's log",
            records_at(scale)
        )
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn ratio(&self) -> Option<Ratio> {
        Some(Ratio {
            metric: "records_per_s",
            floor: "file",
        })
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        [
            ("file", "none", "text"),
            ("cat", "unix", "ready"),
            ("logdrive", "unix", "text"),
            ("logdrive", "unix", "json"),
            ("logdrive", "tcp", "text"),
            ("logdrive", "tls", "text"),
            ("logdrive", "quic", "text"),
            ("logdrive-zstd", "tls", "text"),
        ]
        .into_iter()
        .map(|(subject, over, format)| {
            Case::new(subject)
                .param("over", over)
                .param("format", format)
                .setting("records", records_at(scale))
        })
        .collect()
    }

    fn prepare(
        &self,
        _scale: Scale,
        _cases: &mut Vec<Case>,
        _run: &dyn Fn(&Case) -> Result<Samples>,
    ) -> Result<()> {
        command::build()
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let records = job.number("records");
        let dir = Directory::make()?;
        let cpu_s = usage::cpu_s() + usage::children_cpu_s();
        let (took, log) = match job.subject.as_str() {
            "file" => into_file(&dir, records)?,
            "cat" => through_cat(&dir, records)?,
            _ => to_collector(job, &dir, records)?,
        };
        let cpu_s = usage::cpu_s() + usage::children_cpu_s() - cpu_s;
        let found = look(&log, records)?;
        Ok(Samples::default()
            .with("records_per_s", records as f64 / took.as_secs_f64())
            .with("log_mb_per_s", found.bytes as f64 / 1e6 / took.as_secs_f64())
            .with("cpu_s_per_million", cpu_s * 1e6 / records as f64)
            .with("lost", (records - found.different) as f64)
            .with("twice", (found.all - found.different) as f64))
    }
}

fn records_at(scale: Scale) -> u64 {
    scale.pick(FULL_RECORDS, QUICK_RECORDS)
}

/// A directory that goes with the measurement.
struct Directory(PathBuf);

impl Directory {
    fn make() -> Result<Self> {
        let path = runs::scratch_dir()?.join(format!("ship-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(BenchError::io("create", &path))?;
        Ok(Self(path))
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left is in the build's directory, and goes with it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Logs all records.
fn log(records: u64) {
    for id in 0..records {
        logdrive::info!(price = 9.5, peer = "ann", id, "order filled");
    }
}

fn builder() -> logdrive::Builder {
    logdrive::builder("bench-ship")
        .use_env(false)
        .full(logdrive::Full::Block)
}

fn into_file(dir: &Directory, records: u64) -> Result<(Duration, PathBuf)> {
    let path = dir.join("own.log");
    let file = logdrive::File::new(&path).layout(Layout::text());
    let guard = start(builder().file(file.overflow(Overflow::Hold)))?;
    let begin = Instant::now();
    log(records);
    let is_out = logdrive::flush();
    let took = begin.elapsed();
    stop(guard)?;
    match is_out {
        true => Ok((took, path)),
        false => Err(BenchError::subject("file", "was not flushed")),
    }
}

fn through_cat(dir: &Directory, records: u64) -> Result<(Duration, PathBuf)> {
    let path = dir.join("cat.log");
    let begin = Instant::now();
    let failed = || BenchError::io("write through `cat` into", &path);
    let file = std::fs::File::create(&path).map_err(failed())?;
    let (mut near, far) = UnixStream::pair().map_err(failed())?;
    let mut command = Command::new("cat");
    let started = command
        .stdin(std::os::fd::OwnedFd::from(far))
        .stdout(file)
        .spawn();
    // The command holds its end of the socket until it is dropped.
    drop(command);
    let mut cat = started.map_err(failed())?;
    let mut bytes = Vec::with_capacity(2 * WRITE_BYTES);
    for id in 0..records {
        bytes.extend_from_slice(READY_LINE.as_bytes());
        writeln!(bytes, "{id}").map_err(failed())?;
        if bytes.len() >= WRITE_BYTES {
            near.write_all(&bytes).map_err(failed())?;
            bytes.clear();
        }
    }
    near.write_all(&bytes).map_err(failed())?;
    drop(near);
    match cat.wait().map_err(failed())? {
        status if status.success() => Ok((begin.elapsed(), path)),
        status => Err(BenchError::subject("cat", status)),
    }
}

/// A collector, which is killed with the measurement, whatever becomes of that.
struct Collector {
    child: Child,
    address: String,
}

impl Collector {
    fn start(dir: &Directory, over: &str) -> Result<Self> {
        let failed = || BenchError::io("start", Path::new("logdrive collect"));
        let listen = match over {
            "unix" => format!("unix://{}", dir.join("c.sock").display()),
            _ => format!("{over}://127.0.0.1:0"),
        };
        let mut command = Command::new(command::path()?);
        command
            .args(["collect", "--json", "--listen", &listen, "--out"])
            .arg(dir.join("out"))
            // One file, so that compressing older ones is not measured, too.
            .args(["--rotate-size", "64GiB"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        for (option, name) in [
            ("--tls-ca", "authority.pem"),
            ("--tls-cert", "server.pem"),
            ("--tls-key", "server.key"),
        ] {
            command.arg(option).arg(dir.join(name));
        }
        let mut child = command.spawn().map_err(failed())?;
        let stderr = child.stderr.take();
        let mut collector = Self {
            child,
            address: String::new(),
        };
        let mut lines = stderr.map(BufReader::new).into_iter().flat_map(BufReader::lines);
        for line in lines.by_ref() {
            let line = line.map_err(failed())?;
            if let Some(address) = line.strip_prefix("listens: on ") {
                collector.address = address.to_owned();
                // So that it never writes into a pipe that nobody reads.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(collector);
            }
        }
        Err(BenchError::subject(
            "logdrive collect",
            "ended before it listened",
        ))
    }

    /// Ends it as a person would; its processor time counts from then on.
    fn end(mut self) -> Result<()> {
        let failed = || BenchError::io("end", Path::new("logdrive collect"));
        let pid = i32::try_from(self.child.id()).map_err(|error| failed()(io::Error::other(error)))?;
        kill(Pid::from_raw(pid), Signal::SIGTERM).map_err(|errno| failed()(errno.into()))?;
        match self.child.wait().map_err(failed())? {
            status if status.success() => Ok(()),
            status => Err(BenchError::subject("logdrive collect", status)),
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // Gone already, unless something failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn to_collector(job: &Job, dir: &Directory, records: u64) -> Result<(Duration, PathBuf)> {
    let failed = |error: &dyn std::fmt::Display| BenchError::subject(&job.subject, error);
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    make_certificates(&dir.0, &names).map_err(|error| failed(&error))?;
    let collector = Collector::start(dir, job.text("over"))?;
    let ship = logdrive::Ship::to(&collector.address).map_err(|error| failed(&error))?;
    let mut ship = ship
        .tls(
            dir.join("authority.pem"),
            dir.join("client.pem"),
            dir.join("client.key"),
        )
        .overflow(Overflow::Hold);
    if job.text("format") == "text" {
        ship = ship.layout(Layout::text());
    }
    if job.subject == "logdrive-zstd" {
        ship = ship.zstd(1);
    }
    let guard = start(builder().sink(ship))?;
    // The connection is there before the clock runs.
    logdrive::info!("hello");
    let mut is_kept = logdrive::deliver(PATIENCE);
    let begin = Instant::now();
    log(records);
    is_kept &= logdrive::deliver(PATIENCE);
    let took = begin.elapsed();
    stop(guard)?;
    collector.end()?;
    match is_kept {
        true => Ok((took, dir.join("out").join("collected.log"))),
        false => Err(failed(&"the collector has not acknowledged all records")),
    }
}

/// What a log holds.
struct Found {
    bytes: u64,
    all: u64,
    different: u64,
}

/// Reads the numbers of the records in a log.
fn look(path: &Path, records: u64) -> Result<Found> {
    let failed = || BenchError::io("read", path);
    let mut reader = BufReader::with_capacity(1 << 20, std::fs::File::open(path).map_err(failed())?);
    let finders = MARKERS.map(|marker| (Finder::new(marker), marker.len()));
    let mut seen = vec![false; usize::try_from(records).unwrap_or(usize::MAX)];
    let mut found = Found {
        bytes: 0,
        all: 0,
        different: 0,
    };
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).map_err(failed())? > 0 {
        found.bytes += line.len() as u64;
        let at = finders
            .iter()
            .find_map(|(finder, length)| finder.find(&line).map(|at| at + length));
        if let Some(number) = at.and_then(|at| number(&line[at..])) {
            found.all += 1;
            if let Some(seen) = seen.get_mut(number) {
                found.different += u64::from(!std::mem::replace(seen, true));
            }
        }
        line.clear();
    }
    Ok(found)
}

/// The number at the front.
fn number(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_is_there_twice_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "a line id=0 b=1\n{\"id\":2}\nno number id=\n{\"id\":2}\n").unwrap();
        let found = look(&path, 4).unwrap();
        assert_eq!((found.all, found.different, found.bytes), (3, 2, 48));
    }
}
