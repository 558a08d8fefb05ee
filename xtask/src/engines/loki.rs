//! Loki in one process, built from Go's modules.

use super::go_module;
use super::http::request;
use super::process::{Process, free_port, wait_until};
use super::server::{Row, Server, write};
use crate::shell::{Failure, Outcome};
use std::path::Path;
use std::time::Duration;

const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Time of the records that one request asks for: two thousand, for an answer of more than 4 MiB fails within Loki.
const STEP_NS: u64 = 20_000_000;

struct Loki {
    process: Process,
    port: u16,
}

/// Starts it.
pub(super) fn start(tools: &Path, data: &Path, _: &Path) -> Result<Box<dyn Server>, Failure> {
    let left_out = ["github.com/grafana/loki/pkg/push"];
    let program = go_module::build(
        tools,
        "github.com/grafana/loki/v3@v3.7.8",
        "./cmd/loki",
        &left_out,
    )?;
    let (port, grpc, config) = (free_port()?, free_port()?, data.join("loki.yaml"));
    let store = data.join("store").display().to_string();
    let text = format!(
        "auth_enabled: false
server: {{http_listen_address: 127.0.0.1, http_listen_port: {port}, grpc_listen_address: 127.0.0.1, grpc_listen_port: {grpc}, log_level: warn}}
common:
  instance_addr: 127.0.0.1
  path_prefix: {store}
  replication_factor: 1
  ring: {{kvstore: {{store: inmemory}}}}
  storage: {{filesystem: {{chunks_directory: {store}/chunks, rules_directory: {store}/rules}}}}
schema_config:
  configs: [{{from: 2024-01-01, store: tsdb, object_store: filesystem, schema: v13, index: {{prefix: index_, period: 24h}}}}]
ingester: {{wal: {{enabled: true, dir: {store}/wal}}}}
limits_config: {{ingestion_rate_mb: 1024, ingestion_burst_size_mb: 1024, per_stream_rate_limit: 1GB, per_stream_rate_limit_burst: 1GB, max_entries_limit_per_query: 100000, reject_old_samples: false, discover_service_name: [], allow_structured_metadata: true}}
analytics: {{reporting_enabled: false}}
"
    );
    write(&config, &text)?;
    let words = [
        program.display().to_string(),
        format!("-config.file={}", config.display()),
    ];
    let mut server = Loki {
        process: Process::new(data, "loki", words),
        port,
    };
    server.process.start()?;
    server.wait()?;
    Ok(Box::new(server))
}

impl Server for Loki {
    fn address(&self) -> String {
        format!("loki+http://127.0.0.1:{}", self.port)
    }

    fn processes(&mut self) -> &mut [Process] {
        std::slice::from_mut(&mut self.process)
    }

    fn wait(&mut self) -> Outcome {
        let port = self.port;
        wait_until("Loki", START_TIMEOUT, || {
            request("GET", port, "/ready", "").is_ok()
        })
    }

    fn rows(&mut self) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        let (first, end) = super::load::times()?;
        let mut from = first;
        while from < end {
            let query = "%7Blevel%3D~%22.%2B%22%7D";
            let path = format!(
                "/loki/api/v1/query_range?query={query}&limit=100000&direction=forward&start={from}&end={}",
                from + STEP_NS
            );
            let answer: serde_json::Value = serde_json::from_str(&request("GET", self.port, &path, "")?)
                .map_err(|cause| Failure::new(format!("Loki's answer is no JSON: {cause}"), ""))?;
            let before = rows.len();
            for stream in answer["data"]["result"].as_array().into_iter().flatten() {
                for value in stream["values"].as_array().into_iter().flatten() {
                    let number = value[1].as_str().and_then(super::load::number);
                    // Its lines have no ids.
                    let id = rows.len().to_string();
                    rows.extend(number.map(|number| Row { number, id }));
                }
            }
            // Times of the records are without holes.
            if rows.len() == before {
                break;
            }
            from += STEP_NS;
        }
        Ok(rows)
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn poison(&self) -> Option<String> {
        None
    }
}
