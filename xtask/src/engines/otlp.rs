//! The OpenTelemetry Collector with its receiver of OTLP and its exporter to a file, built from Go's modules.

use super::process::{Process, free_port, wait_for_port};
use super::server::{Row, Server, write};
use crate::shell::{Call, Failure, Outcome};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MAIN: &str = include_str!("otlp_collector/main.go");
const MODULES: &str = include_str!("otlp_collector/go.mod.txt");
const START_TIMEOUT: Duration = Duration::from_secs(60);

struct Otlp {
    process: Process,
    address: String,
    port: u16,
    file: PathBuf,
}

/// Starts it for records by gRPC.
pub(super) fn start_grpc(tools: &Path, data: &Path, _: &Path) -> Result<Box<dyn Server>, Failure> {
    start(tools, data, "grpc", "otlp")
}

/// Starts it for records by HTTP.
pub(super) fn start_http(tools: &Path, data: &Path, _: &Path) -> Result<Box<dyn Server>, Failure> {
    start(tools, data, "http", "otlp+http")
}

fn start(tools: &Path, data: &Path, protocol: &str, scheme: &str) -> Result<Box<dyn Server>, Failure> {
    let program = build(tools)?;
    let (port, file) = (free_port()?, data.join("received.json"));
    let config = data.join("config.yaml");
    let text = format!(
        "receivers: {{otlp: {{protocols: {{{protocol}: {{endpoint: '127.0.0.1:{port}'}}}}}}}}
exporters: {{file: {{path: '{}', append: true}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{logs: {{receivers: [otlp], exporters: [file]}}}}
",
        file.display()
    );
    write(&config, &text)?;
    let words = [
        program.display().to_string(),
        format!("--config=file:{}", config.display()),
    ];
    let mut otlp = Otlp {
        process: Process::new(data, "otlp-collector", words),
        address: format!("{scheme}://127.0.0.1:{port}"),
        port,
        file,
    };
    otlp.process.start()?;
    otlp.wait()?;
    Ok(Box::new(otlp))
}

fn build(tools: &Path) -> Result<PathBuf, Failure> {
    let program = tools.join("otlp-collector");
    if program.exists() {
        return Ok(program);
    }
    write(&tools.join("main.go"), MAIN)?;
    write(&tools.join("go.mod"), MODULES)?;
    // With -e: tests of the modules need some that are not to be had.
    Call::new("go").words("mod tidy -e").dir(tools).run()?;
    Call::new("go")
        .words("build -ldflags -s -o otlp-collector .")
        .dir(tools)
        .run()?;
    Ok(program)
}

impl Server for Otlp {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn processes(&mut self) -> &mut [Process] {
        std::slice::from_mut(&mut self.process)
    }

    fn wait(&mut self) -> Outcome {
        wait_for_port(
            "the OpenTelemetry Collector",
            Ipv4Addr::LOCALHOST,
            self.port,
            START_TIMEOUT,
        )
    }

    fn rows(&mut self) -> Result<Vec<Row>, Failure> {
        // Its exporter writes what is in its buffer each second and at its end.
        self.process.end(START_TIMEOUT);
        let text = std::fs::read_to_string(&self.file);
        let text = text.map_err(|cause| Failure::new(format!("the file is unreadable: {cause}"), ""))?;
        let mut rows = Vec::new();
        for line in text.lines() {
            let request: serde_json::Value = serde_json::from_str(line)
                .map_err(|cause| Failure::new(format!("a line is no JSON: {cause}"), ""))?;
            rows_of(&request, &mut rows);
        }
        Ok(rows)
    }

    fn poison(&self) -> Option<String> {
        None
    }

    /// Its exporter acknowledges what is in its buffer.
    fn is_durable(&self) -> bool {
        false
    }
}

/// Appends the rows of a request.
fn rows_of(request: &serde_json::Value, rows: &mut Vec<Row>) {
    let items = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    for resource in items(&request["resourceLogs"]) {
        for scope in items(&resource["scopeLogs"]) {
            for record in items(&scope["logRecords"]) {
                let attributes = items(&record["attributes"]);
                let of = |key: &str| {
                    let found = attributes.iter().find(|attribute| attribute["key"] == key);
                    found
                        .map(|attribute| attribute["value"].clone())
                        .unwrap_or_default()
                };
                let number = of("n")["intValue"].as_str().and_then(|text| text.parse().ok());
                let id = of("log.record.uid")["stringValue"].as_str().map(str::to_owned);
                if let (Some(number), Some(id)) = (number, id) {
                    rows.push(Row { number, id });
                }
            }
        }
    }
}
