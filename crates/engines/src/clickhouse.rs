//! ClickHouse: inserts of one block each, with a token by which it finds a block that it has already.

use crate::address::EngineAddress;
use crate::batch::EngineBatch;
use crate::engine::Engine;
use crate::error::{EngineError, Refusal};
use crate::http::HttpClient;
use crate::json::{put_string, put_value};
use logdrive_reader::iso_text;
use std::io::Write;

/// Statement that makes the table, for `logdrive output schema`.
pub const CLICKHOUSE_TABLE: &str = "\
CREATE TABLE IF NOT EXISTS {table} (
    time DateTime64(9, 'UTC') CODEC(Delta, ZSTD),
    level LowCardinality(String),
    app LowCardinality(String),
    host LowCardinality(String),
    pid UInt32,
    thread LowCardinality(String),
    target LowCardinality(String),
    file LowCardinality(String),
    line UInt32,
    message String CODEC(ZSTD),
    fields JSON,
    delivery LowCardinality(String),
    number UInt64 CODEC(Delta, ZSTD)
) ENGINE = MergeTree
PARTITION BY toDate(time)
ORDER BY (app, time)
SETTINGS non_replicated_deduplication_window = 10000
";

/// Client of ClickHouse.
#[derive(Debug)]
pub(crate) struct Clickhouse {
    http: HttpClient,
    table: String,
    body: Vec<u8>,
}

impl Clickhouse {
    pub(crate) fn new(address: &EngineAddress) -> Result<Self, EngineError> {
        let table = address.place.trim_matches('/').to_owned();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        if !table.bytes().all(is_plain) {
            return Err(address.wrong("a table has letters, digits and _, with a database as DATABASE.TABLE"));
        }
        Ok(Self {
            http: HttpClient::new(address)?,
            table,
            body: Vec::new(),
        })
    }
}

impl Engine for Clickhouse {
    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal> {
        let body = &mut self.body;
        body.clear();
        let delivery = batch.delivery();
        batch.each(&mut |record| {
            let time = iso_text(record.unix_ns());
            let level = record.level().lower_name();
            let number = record.number;
            // Writing to memory does not fail, here and below.
            let _ = write!(
                body,
                "{{\"time\":\"{}\",\"level\":\"{level}\",\"delivery\":\"{delivery}\",\"number\":{number}",
                time.trim_end_matches('Z').replace('T', " ")
            );
            if let Some(process) = record.process() {
                let _ = write!(body, ",\"pid\":{},\"app\":", process.pid);
                put_string(body, process.app.as_bytes());
                body.extend_from_slice(b",\"host\":");
                put_string(body, process.host.as_bytes());
            }
            let (file, line) = record.place_in_code();
            let _ = write!(body, ",\"line\":{line},\"file\":");
            put_string(body, file.as_bytes());
            body.extend_from_slice(b",\"target\":");
            put_string(body, record.target().as_bytes());
            body.extend_from_slice(b",\"thread\":");
            let thread = record.thread();
            match thread.name {
                "" => put_string(body, thread.id.to_string().as_bytes()),
                name => put_string(body, name.as_bytes()),
            }
            body.extend_from_slice(b",\"message\":");
            put_string(body, record.message().as_bytes());
            body.extend_from_slice(b",\"fields\":{");
            put_fields(record, body);
            body.extend_from_slice(b"}}\n");
        });
        // One block, so that it is one insert with one token whatever its size.
        let settings = "insert_deduplicate=1&max_insert_threads=1&async_insert=0&input_format_parallel_parsing=0\
                        &max_insert_block_size=1000000&min_insert_block_size_rows=0&min_insert_block_size_bytes=0";
        let path = format!(
            "/?query=INSERT+INTO+{}+FORMAT+JSONEachRow&insert_deduplication_token={}&{settings}",
            self.table,
            batch.name()
        );
        let packed = zstd::bulk::compress(body, 1).map_err(|error| Refusal::Retry {
            why: format!("zstd: {error}"),
            after: None,
        })?;
        let answer = self.http.post(&path, &[("content-encoding", "zstd")], &packed)?;
        // Mistakes in the data have status 400; a table that is missing has 404, and waits for somebody to make it.
        answer.success().map(|_| ())
    }
}

/// Appends the fields with keys that stand once each: later ones have the number of their place.
pub(crate) fn put_fields(record: &crate::batch::EngineRecord<'_>, out: &mut Vec<u8>) {
    let mut keys: Vec<String> = Vec::new();
    record.each_field(&mut |key, value| {
        let mut name = key.to_owned();
        let mut count = 1;
        while keys.contains(&name) {
            name = format!("{key}_{count}");
            count += 1;
        }
        if !keys.is_empty() {
            out.push(b',');
        }
        put_string(out, name.as_bytes());
        out.push(b':');
        put_value(out, value);
        keys.push(name);
    });
}
