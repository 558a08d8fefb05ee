//! systemd-journald, from Debian, with a namespace of its own: it needs the superuser, and leaves the machine's journal alone.

use super::load::put_line;
use super::process::{Process, wait_until};
use super::server::{Origin, write};
use crate::shell::{Failure, Outcome, Tool};
use std::ops::Range;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Tries of a message while journald starts.
const TRIES_MAX: usize = 200;
const NAMESPACE: &str = "logdrive-proof";
const PROGRAM: &str = "/lib/systemd/systemd-journald";

pub(super) const JOURNALD: Tool = Tool {
    name: "systemd-journald",
    probe: &[
        "sh",
        "-c",
        "test -x /lib/systemd/systemd-journald && test $(id -u) = 0 && journalctl --version",
    ],
    how: "as root: apt-get install systemd (Debian, Ubuntu)",
};

struct Journald {
    process: Process,
    directories: [PathBuf; 2],
    journal: PathBuf,
}

/// Starts it.
pub(super) fn start(_: &Path, data: &Path, _: &Path) -> Result<Box<dyn Origin>, Failure> {
    let machine = std::fs::read_to_string("/etc/machine-id")
        .map_err(|cause| Failure::new(format!("/etc/machine-id is unreadable: {cause}"), ""))?;
    let journal = PathBuf::from(format!("/var/log/journal/{}.{NAMESPACE}", machine.trim()));
    let options = PathBuf::from(format!("/run/systemd/journald@{NAMESPACE}.conf.d"));
    // What an earlier proof left.
    let _ = std::fs::remove_dir_all(&journal);
    std::fs::create_dir_all(&options)
        .map_err(|cause| Failure::new(format!("{} cannot be made: {cause}", options.display()), ""))?;
    let text = "[Journal]\nStorage=persistent\nRateLimitBurst=0\nSystemMaxUse=4G\nSystemMaxFileSize=16M\nSystemMaxFiles=1000\n";
    write(&options.join("proof.conf"), text)?;
    let words = [PROGRAM, NAMESPACE].map(str::to_owned);
    let mut journald = Journald {
        process: Process::new(data, "journald", words),
        directories: [journal.clone(), options],
        journal,
    };
    journald.process.start()?;
    journald.wait()?;
    Ok(Box::new(journald))
}

impl Origin for Journald {
    fn address(&self) -> String {
        format!("journald://{}", self.journal.display())
    }

    fn append(&mut self, numbers: Range<u64>) -> Outcome {
        let failed = |cause| Failure::new(format!("journald takes nothing: {cause}"), "");
        // One of a namespace ends after 30 seconds without work; a service manager would start it again.
        if self.process.has_ended() {
            self.process.start()?;
        }
        let socket = UnixDatagram::unbound().map_err(failed)?;
        let path = format!("/run/systemd/journal.{NAMESPACE}/socket");
        let mut text = String::new();
        for number in numbers {
            text.clear();
            text += "PRIORITY=6\nSYSLOG_IDENTIFIER=proof\nMESSAGE=";
            put_line(number, "", &mut text);
            // It waits while the queue of the socket is full, and for one that starts.
            let mut sent = socket.send_to(text.as_bytes(), &path);
            for _ in 0..TRIES_MAX {
                if sent.is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
                sent = socket.send_to(text.as_bytes(), &path);
            }
            sent.map_err(failed)?;
        }
        Ok(())
    }

    /// What is in its socket goes with it, so that it is left alone.
    fn processes(&mut self) -> &mut [Process] {
        &mut []
    }

    fn wait(&mut self) -> Outcome {
        let journal = self.journal.join("system.journal");
        wait_until("journald", START_TIMEOUT, || journal.exists())
    }
}

impl Drop for Journald {
    fn drop(&mut self) {
        self.process.end(START_TIMEOUT);
        for directory in &self.directories {
            // A namespace that is left behind is removed at the next start.
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}
