//! rsyslog, from Debian, with messages by TCP into a file.

use super::process::{Process, free_port, wait_for_port};
use super::server::{Row, Server, write};
use crate::shell::{Failure, Outcome, Tool};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const START_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) const RSYSLOG: Tool = Tool {
    name: "rsyslog",
    probe: &["rsyslogd", "-v"],
    how: "apt-get install rsyslog (Debian, Ubuntu)",
};

struct Syslog {
    process: Process,
    port: u16,
    file: PathBuf,
}

/// Starts it.
pub(super) fn start(_: &Path, data: &Path, _: &Path) -> Result<Box<dyn Server>, Failure> {
    let (port, file, config) = (free_port()?, data.join("received.log"), data.join("rsyslog.conf"));
    let text = format!(
        "global(workDirectory=\"{}\" maxMessageSize=\"128k\")
module(load=\"imtcp\")
template(name=\"raw\" type=\"string\" string=\"%rawmsg%\\n\")
input(type=\"imtcp\" port=\"{port}\" address=\"127.0.0.1\")
action(type=\"omfile\" file=\"{}\" template=\"raw\" asyncWriting=\"off\" flushOnTXEnd=\"on\")
",
        data.display(),
        file.display()
    );
    write(&config, &text)?;
    let (config, pid) = (
        config.display().to_string(),
        data.join("pid").display().to_string(),
    );
    let words = ["rsyslogd", "-n", "-f", &config, "-i", &pid].map(str::to_owned);
    let mut syslog = Syslog {
        process: Process::new(data, "rsyslog", words),
        port,
        file,
    };
    syslog.process.start()?;
    syslog.wait()?;
    Ok(Box::new(syslog))
}

impl Server for Syslog {
    fn address(&self) -> String {
        format!("syslog+tcp://127.0.0.1:{}", self.port)
    }

    fn processes(&mut self) -> &mut [Process] {
        std::slice::from_mut(&mut self.process)
    }

    fn wait(&mut self) -> Outcome {
        // One that was killed has left its file, which it takes for another one that runs.
        wait_for_port("rsyslog", Ipv4Addr::LOCALHOST, self.port, START_TIMEOUT)
    }

    fn rows(&mut self) -> Result<Vec<Row>, Failure> {
        self.process.end(START_TIMEOUT);
        let text = std::fs::read(&self.file);
        let text = text.map_err(|cause| Failure::new(format!("the file is unreadable: {cause}"), ""))?;
        let text = String::from_utf8_lossy(&text);
        let row = |line: &str| {
            let of = |key: &str| {
                let rest = line.split_once(key)?.1;
                rest.split_once('"').map(|(value, _)| value.to_owned())
            };
            let number = of(" n=\"")?.parse().ok()?;
            Some(Row {
                number,
                id: of(" id=\"")?,
            })
        };
        Ok(text.lines().filter_map(row).collect())
    }

    fn poison(&self) -> Option<String> {
        None
    }

    /// It acknowledges nothing.
    fn is_durable(&self) -> bool {
        false
    }

    fn may_lose(&self) -> bool {
        true
    }
}
