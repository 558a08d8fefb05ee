//! ClickHouse's engine (chdb, from PyPI) behind a shim of its interface by HTTP. It is no server of ClickHouse: inserts,
//! tables and deduplication are the engine's own, requests and answers are the shim's.

use super::http::request;
use super::process::{Process, free_port, wait_until};
use super::server::{Row, Server, write};
use crate::shell::{Call, Failure, Outcome, Tool};
use std::path::Path;
use std::time::Duration;

const SHIM: &str = include_str!("clickhouse_shim.py");
const START_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) const PYTHON: Tool = Tool {
    name: "Python with pip",
    probe: &["python3", "-m", "pip", "--version"],
    how: "apt-get install python3-pip (Debian, Ubuntu)",
};

struct ClickHouse {
    process: Process,
    port: u16,
}

/// Starts the shim and makes the table.
pub(super) fn start(tools: &Path, data: &Path, program: &Path) -> Result<Box<dyn Server>, Failure> {
    let packages = tools.join("packages");
    if !packages.join("chdb").exists() {
        Call::new("python3")
            .words("-m pip install --quiet --no-compile --target")
            .arg(packages.display().to_string())
            .words("chdb==4.4.0 zstandard")
            .run()?;
    }
    let (port, shim) = (free_port()?, tools.join("shim.py"));
    write(&shim, SHIM)?;
    let store = data.join("store").display().to_string();
    let words = [
        "python3".to_owned(),
        shim.display().to_string(),
        packages.display().to_string(),
        port.to_string(),
        store,
    ];
    let mut server = ClickHouse {
        process: Process::new(data, "clickhouse", words),
        port,
    };
    server.process.start()?;
    server.wait()?;
    let schema = Call::new(program).words("collect --print-schema").stdout()?;
    request("POST", port, "/", &schema)?;
    Ok(Box::new(server))
}

impl Server for ClickHouse {
    fn address(&self) -> String {
        format!("clickhouse+http://127.0.0.1:{}/default.logs", self.port)
    }

    fn processes(&mut self) -> &mut [Process] {
        std::slice::from_mut(&mut self.process)
    }

    fn wait(&mut self) -> Outcome {
        let port = self.port;
        wait_until("ClickHouse's engine", START_TIMEOUT, || {
            request("POST", port, "/", "SELECT 1").is_ok()
        })
    }

    fn rows(&mut self) -> Result<Vec<Row>, Failure> {
        let query = "SELECT fields.n, delivery, number FROM logs FORMAT TSV";
        let text = request("POST", self.port, "/", query)?;
        let row = |line: &str| {
            let mut parts = line.split('\t');
            let number = parts.next()?.parse().ok()?;
            let id = format!("{}-{}", parts.next()?, parts.next()?);
            Some(Row { number, id })
        };
        Ok(text.lines().filter_map(row).collect())
    }

    fn poison(&self) -> Option<String> {
        None
    }
}
