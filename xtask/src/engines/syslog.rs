//! rsyslog, from Debian: with messages by TCP into a file, and as a program that sends messages by TLS.

use super::load::Load;
use super::process::{Process, free_port, wait_for_port};
use super::server::{Origin, Row, Server, write};
use crate::shell::{Call, Failure, Outcome, Tool};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

const START_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) const RSYSLOG: Tool = Tool {
    name: "rsyslog",
    probe: &["rsyslogd", "-v"],
    how: "apt-get install rsyslog (Debian, Ubuntu)",
};

pub(super) const GNUTLS: Tool = Tool {
    name: "rsyslog's TLS",
    probe: &["sh", "-c", "ls /usr/lib/*/rsyslog/lmnsd_gtls.so"],
    how: "apt-get install rsyslog-gnutls (Debian, Ubuntu)",
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

/// rsyslog that follows a file and sends its lines.
struct Forwarding {
    process: Process,
    load: Load,
    port: u16,
    keys: PathBuf,
}

/// Starts rsyslog as a sender, over TLS and octet-counted, with a queue on disk.
pub(super) fn start_origin(_: &Path, data: &Path, program: &Path) -> Result<Box<dyn Origin>, Failure> {
    let (port, file, keys) = (free_port()?, data.join("load.json"), data.join("keys"));
    let keys_text = keys.display().to_string();
    Call::new(program)
        .words("collect --name 127.0.0.1 --name localhost --make-certificates")
        .arg(&keys_text)
        .stdout()?;
    let load = Load::new(&file)?;
    let config = data.join("rsyslog.conf");
    let text = format!(
        "global(workDirectory=\"{}\" maxMessageSize=\"128k\" defaultNetstreamDriver=\"gtls\"
 defaultNetstreamDriverCAFile=\"{keys_text}/authority.pem\" defaultNetstreamDriverCertFile=\"{keys_text}/client.pem\"
 defaultNetstreamDriverKeyFile=\"{keys_text}/client.key\")
module(load=\"imfile\" mode=\"inotify\")
template(name=\"wire\" type=\"string\" string=\"<14>1 %timereported:::date-rfc3339% web-1 shop - - - %msg%\")
input(type=\"imfile\" file=\"{}\" tag=\"shop\" ruleset=\"out\")
ruleset(name=\"out\") {{
 action(type=\"omfwd\" target=\"127.0.0.1\" port=\"{port}\" protocol=\"tcp\" tcp_framing=\"octet-counted\" template=\"wire\"
  streamDriver=\"gtls\" streamDriverMode=\"1\" streamDriverAuthMode=\"x509/certvalid\"
  queue.type=\"linkedList\" queue.filename=\"q\" queue.saveOnShutdown=\"on\" action.resumeRetryCount=\"-1\" action.resumeInterval=\"1\")
}}
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
    let mut process = Process::new(data, "rsyslog", words);
    process.start()?;
    Ok(Box::new(Forwarding {
        process,
        load,
        port,
        keys,
    }))
}

impl Origin for Forwarding {
    fn address(&self) -> String {
        format!("syslog+tls://127.0.0.1:{}", self.port)
    }

    fn arguments(&self) -> Vec<String> {
        let keys = [
            ("--tls-ca", "authority.pem"),
            ("--tls-cert", "server.pem"),
            ("--tls-key", "server.key"),
        ];
        keys.iter()
            .flat_map(|(name, file)| [(*name).to_owned(), self.keys.join(file).display().to_string()])
            .collect()
    }

    fn append(&mut self, numbers: Range<u64>) -> Outcome {
        self.load.append(numbers.end - numbers.start)
    }

    fn processes(&mut self) -> &mut [Process] {
        std::slice::from_mut(&mut self.process)
    }

    fn wait(&mut self) -> Outcome {
        Ok(())
    }

    /// Syslog acknowledges nothing: what is in the buffers of a connection is lost with either end.
    fn is_durable(&self) -> bool {
        false
    }
}
