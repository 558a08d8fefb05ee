//! nginx, from Debian: its access log is followed as files, and is rotated. Each request is a record.

use super::process::{Process, free_port, wait_for_port};
use super::server::{Origin, write};
use crate::shell::{Failure, Outcome, Tool};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests of one connection.
const REQUESTS: u64 = 500;
/// Rotated files that are kept: more than the cycles of a proof.
const ROTATED_MAX: usize = 1_000;

pub(super) const NGINX: Tool = Tool {
    name: "nginx",
    probe: &["nginx", "-v"],
    how: "apt-get install nginx-light (Debian, Ubuntu)",
};

struct Nginx {
    process: Process,
    port: u16,
    log: PathBuf,
    rotated: usize,
}

/// Starts it.
pub(super) fn start(_: &Path, data: &Path, _: &Path) -> Result<Box<dyn Origin>, Failure> {
    let (port, logs, config) = (free_port()?, data.join("logs"), data.join("nginx.conf"));
    std::fs::create_dir_all(&logs)
        .map_err(|cause| Failure::new(format!("{} cannot be made: {cause}", logs.display()), ""))?;
    let (log, place) = (logs.join("access.log"), data.display());
    let text = format!(
        "daemon off;
master_process off;
pid {place}/nginx.pid;
error_log {place}/nginx-error.log;
events {{ worker_connections 64; }}
http {{
  log_format numbers escape=json '{{\"time\":\"$time_iso8601\",\"level\":\"info\",\"message\":\"$request\",\"n\":$arg_n}}';
  access_log {} numbers;
  keepalive_requests 1000000;
  client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi;
  uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ return 204; }} }}
}}
",
        log.display()
    );
    write(&config, &text)?;
    let config = config.display().to_string();
    let prefix = data.display().to_string();
    let words = ["nginx", "-p", &prefix, "-c", &config].map(str::to_owned);
    let mut nginx = Nginx {
        process: Process::new(data, "nginx", words),
        port,
        log,
        rotated: 0,
    };
    nginx.process.start()?;
    nginx.wait()?;
    Ok(Box::new(nginx))
}

impl Nginx {
    /// Asks for records, and waits for the answers: by then the log has the requests.
    fn ask(&self, numbers: Range<u64>) -> std::io::Result<()> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(START_TIMEOUT))?;
        let mut text = String::new();
        for number in numbers.clone() {
            let end = if number + 1 == numbers.end {
                "close"
            } else {
                "keep-alive"
            };
            text += &format!("GET /?n={number} HTTP/1.1\r\nHost: localhost\r\nConnection: {end}\r\n\r\n");
        }
        stream.write_all(text.as_bytes())?;
        let mut answers = Vec::new();
        stream.read_to_end(&mut answers)?;
        Ok(())
    }
}

impl Origin for Nginx {
    fn address(&self) -> String {
        format!(
            "files://{}/access.log*",
            self.log.parent().unwrap_or(&self.log).display()
        )
    }

    fn append(&mut self, numbers: Range<u64>) -> Outcome {
        let failed = |cause| Failure::new(format!("nginx does not answer: {cause}"), "");
        let mut next = numbers.start;
        while next < numbers.end {
            let end = numbers.end.min(next + REQUESTS);
            self.ask(next..end).map_err(failed)?;
            next = end;
        }
        self.rotated += 1;
        let rotated = self
            .log
            .with_file_name(format!("access.log.{}", ROTATED_MAX - self.rotated));
        std::fs::rename(&self.log, rotated)
            .map_err(|cause| Failure::new(format!("the log cannot be rotated: {cause}"), ""))?;
        self.process.signal("USR1");
        // Until then it writes to the file of before.
        let log = self.log.clone();
        super::process::wait_until("nginx opens its log anew", START_TIMEOUT, || log.exists())
    }

    /// Requests that are under way when it is killed would have no number.
    fn processes(&mut self) -> &mut [Process] {
        &mut []
    }

    fn wait(&mut self) -> Outcome {
        wait_for_port("nginx", Ipv4Addr::LOCALHOST, self.port, START_TIMEOUT)
    }
}
