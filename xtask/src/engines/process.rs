//! Programs that a proof starts, kills, halts and starts again. It ends only what it started.

use crate::shell::{Call, Failure, Outcome};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Pause between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// A program with its arguments, and the process of it that runs now.
#[derive(Debug)]
pub(super) struct Process {
    words: Vec<String>,
    directory: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    /// A program that is not started yet; what it prints is appended to `NAME.log` in the directory.
    pub(super) fn new(directory: &Path, name: &str, words: impl IntoIterator<Item = String>) -> Self {
        Self {
            words: words.into_iter().collect(),
            directory: directory.to_owned(),
            log: directory.join(format!("{name}.log")),
            child: None,
        }
    }

    pub(super) fn start(&mut self) -> Outcome {
        let cannot = |cause| Failure::new(format!("{} cannot be started: {cause}", self.words.join(" ")), "");
        let log = File::options().append(true).create(true).open(&self.log);
        let log = log.map_err(cannot)?;
        let (program, args) = self
            .words
            .split_first()
            .ok_or_else(|| Failure::new("no program", ""))?;
        let child = Command::new(program)
            .args(args)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(cannot)?)
            .stderr(log)
            .spawn()
            .map_err(cannot)?;
        self.child = Some(child);
        Ok(())
    }

    /// Kills it at once, as the system does where memory is short.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that has ended by itself cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends a signal, such as `STOP`.
    pub(super) fn signal(&self, name: &str) {
        if let Some(child) = &self.child {
            Call::new("kill")
                .args([format!("-{name}"), child.id().to_string()])
                .succeeds();
        }
    }

    /// Asks it to end, and kills it after a time. Returns whether it ended by itself, and well.
    pub(super) fn end(&mut self, timeout: Duration) -> bool {
        self.signal("TERM");
        self.wait(timeout)
    }

    /// Waits for its end, and kills it after a time. Returns whether it ended by itself, and well.
    pub(super) fn wait(&mut self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        while Instant::now() < until {
            match self.child.as_mut().map(Child::try_wait) {
                Some(Ok(None)) => sleep(LOOK),
                Some(Ok(Some(status))) => {
                    self.child = None;
                    return status.success();
                }
                _ => return false,
            }
        }
        self.kill();
        false
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        self.child
            .as_mut()
            .is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// Seconds of processor time that it has used.
    pub(super) fn cpu_seconds(&self) -> f64 {
        let id = self.child.as_ref().map_or(0, Child::id);
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        // utime and stime, in ticks of 10 ms.
        let ticks: u64 = fields
            .skip(11)
            .take(2)
            .filter_map(|text| text.parse::<u64>().ok())
            .sum();
        ticks as f64 / 100.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that nothing listens on now.
pub(super) fn free_port() -> Result<u16, Failure> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    let address = socket.map_err(|cause| Failure::new(format!("no port is free: {cause}"), ""))?;
    Ok(address.port())
}

/// Waits until something holds.
pub(super) fn wait_until(what: &str, timeout: Duration, mut holds: impl FnMut() -> bool) -> Outcome {
    let until = Instant::now() + timeout;
    while !holds() {
        if Instant::now() >= until {
            let seconds = timeout.as_secs();
            return Err(Failure::new(format!("{what}: not within {seconds} s"), ""));
        }
        sleep(LOOK);
    }
    Ok(())
}

/// Waits until something listens on a port.
pub(super) fn wait_for_port(what: &str, host: Ipv4Addr, port: u16, timeout: Duration) -> Outcome {
    let address = SocketAddrV4::new(host, port).into();
    wait_until(what, timeout, || {
        TcpStream::connect_timeout(&address, LOOK).is_ok()
    })
}
