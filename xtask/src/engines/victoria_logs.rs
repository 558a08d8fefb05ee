//! VictoriaLogs, built from Go's modules.

use super::go_module;
use super::http::request;
use super::process::{Process, free_port, wait_until};
use super::server::{Row, Server};
use crate::shell::{Failure, Outcome};
use std::path::Path;
use std::time::Duration;

const START_TIMEOUT: Duration = Duration::from_secs(60);

struct VictoriaLogs {
    process: Process,
    port: u16,
}

/// Starts it.
pub(super) fn start(tools: &Path, data: &Path, _: &Path) -> Result<Box<dyn Server>, Failure> {
    let module = "github.com/VictoriaMetrics/VictoriaLogs@v1.52.1";
    let program = go_module::build(tools, module, "./app/victoria-logs", &[])?;
    let port = free_port()?;
    let words = [
        program.display().to_string(),
        format!("-httpListenAddr=127.0.0.1:{port}"),
        format!("-storageDataPath={}", data.join("store").display()),
        "-insert.maxLineSizeBytes=2MB".to_owned(),
    ];
    let mut server = VictoriaLogs {
        process: Process::new(data, "victoria-logs", words),
        port,
    };
    server.process.start()?;
    server.wait()?;
    Ok(Box::new(server))
}

impl Server for VictoriaLogs {
    fn address(&self) -> String {
        format!("victorialogs+http://127.0.0.1:{}", self.port)
    }

    fn processes(&mut self) -> &mut [Process] {
        std::slice::from_mut(&mut self.process)
    }

    fn wait(&mut self) -> Outcome {
        let port = self.port;
        wait_until("VictoriaLogs", START_TIMEOUT, || {
            request("GET", port, "/health", "").is_ok()
        })
    }

    fn rows(&mut self) -> Result<Vec<Row>, Failure> {
        // What is in its memory is seen soon; after that a query has all.
        request("POST", self.port, "/internal/force_flush", "")?;
        let text = request("GET", self.port, "/select/logsql/query?query=*+|+fields+n", "")?;
        // Its records have no ids.
        let row = |(place, line): (usize, &str)| {
            let record: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(Row {
                number: record["n"].as_str()?.parse().ok()?,
                id: place.to_string(),
            })
        };
        Ok(text.lines().enumerate().filter_map(row).collect())
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn poison(&self) -> Option<String> {
        None
    }

    /// It acknowledges what is in its memory for a second.
    fn is_durable(&self) -> bool {
        false
    }
}
