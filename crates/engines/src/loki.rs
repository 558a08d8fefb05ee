//! Loki: streams of lines. It has no deduplication to rely on: a batch that was taken without an answer may be there twice.

use crate::address::EngineAddress;
use crate::batch::EngineBatch;
use crate::engine::Engine;
use crate::error::{EngineError, Refusal};
use crate::http::HttpClient;
use crate::json::put_string;
use crate::limits::LOKI_REQUEST_BYTES_MAX;
use crate::victoria_logs::prefix;
use std::collections::HashMap;
use std::io::Write;

/// Labels of a stream: application, host and level.
type Labels = (String, String, &'static str);

/// Values of a stream, and its last time.
#[derive(Debug, Default)]
struct Stream {
    values: Vec<u8>,
    last_ns: u64,
}

/// Client of Loki.
#[derive(Debug)]
pub(crate) struct Loki {
    http: HttpClient,
    path: String,
    tenant: Option<String>,
}

impl Loki {
    pub(crate) fn new(address: &EngineAddress) -> Result<Self, EngineError> {
        Ok(Self {
            http: HttpClient::new(address)?,
            path: format!("/{}loki/api/v1/push", prefix(&address.place)),
            tenant: address.option("tenant").map(str::to_owned),
        })
    }
}

impl Engine for Loki {
    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal> {
        let mut streams: HashMap<Labels, Stream> = HashMap::new();
        let mut line = Vec::new();
        batch.each(&mut |record| {
            let process = record.process();
            let (app, host) =
                process.map_or(("", ""), |process| (process.app.as_str(), process.host.as_str()));
            let labels = (app.to_owned(), host.to_owned(), record.level().lower_name());
            let stream = streams.entry(labels).or_default();
            // Loki takes records of one time and line for one: each has a time of its own.
            stream.last_ns = record.unix_ns().max(stream.last_ns + 1);
            let comma = if stream.values.is_empty() { "" } else { "," };
            line.clear();
            record.put_json(&mut line);
            // Writing to memory does not fail.
            let _ = write!(stream.values, "{comma}[\"{}\",", stream.last_ns);
            put_string(&mut stream.values, &line);
            stream.values.push(b']');
        });
        let mut body = b"{\"streams\":[".to_vec();
        for (place, ((app, host, level), stream)) in streams.iter().enumerate() {
            body.extend_from_slice(if place == 0 {
                b"{\"stream\":{"
            } else {
                b",{\"stream\":{"
            });
            for (name, value) in [("app", app.as_str()), ("host", host.as_str())] {
                if !value.is_empty() {
                    put_string(&mut body, name.as_bytes());
                    body.push(b':');
                    put_string(&mut body, value.as_bytes());
                    body.push(b',');
                }
            }
            let _ = write!(body, "\"level\":\"{level}\"}},\"values\":[");
            body.extend_from_slice(&stream.values);
            body.extend_from_slice(b"]}");
        }
        body.extend_from_slice(b"]}");
        if body.len() > LOKI_REQUEST_BYTES_MAX && batch.len() > 1 {
            let why = format!("a request of more than {LOKI_REQUEST_BYTES_MAX} bytes");
            return Err(Refusal::TooLarge { why });
        }
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(self.tenant.as_deref().map(|tenant| ("x-scope-orgid", tenant)));
        self.http.post(&self.path, &headers, &body)?.success()?;
        Ok(())
    }
}
