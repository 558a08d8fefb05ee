//! VictoriaLogs: lines of JSON. It has no deduplication: a batch that was taken without an answer is there twice.

use crate::address::EngineAddress;
use crate::batch::EngineBatch;
use crate::engine::Engine;
use crate::error::{EngineError, Refusal};
use crate::http::HttpClient;

/// Bytes of a record that VictoriaLogs takes; it leaves out what is longer without a word.
const RECORD_BYTES_MAX: usize = 2 << 20;

/// Client of VictoriaLogs.
#[derive(Debug)]
pub(crate) struct VictoriaLogs {
    http: HttpClient,
    path: String,
    body: Vec<u8>,
}

impl VictoriaLogs {
    pub(crate) fn new(address: &EngineAddress) -> Result<Self, EngineError> {
        let keys = "_time_field=ts&_msg_field=message&_stream_fields=app,host";
        Ok(Self {
            http: HttpClient::new(address)?,
            path: format!("/{}insert/jsonline?{keys}", prefix(&address.place)),
            body: Vec::new(),
        })
    }
}

/// Path before that of an engine's own, where a proxy has one.
pub(crate) fn prefix(place: &str) -> String {
    match place.trim_matches('/') {
        "" => String::new(),
        place => format!("{place}/"),
    }
}

impl Engine for VictoriaLogs {
    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal> {
        let mut too_long = Vec::new();
        let body = &mut self.body;
        body.clear();
        batch.each(&mut |record| {
            let (before, place) = (body.len(), record.place);
            record.put_json(body);
            body.push(b'\n');
            if body.len() - before > RECORD_BYTES_MAX {
                body.truncate(before);
                too_long.push((place, format!("longer than {RECORD_BYTES_MAX} bytes")));
            }
        });
        if !body.is_empty() {
            self.http
                .post(&self.path, &[("content-type", "application/stream+json")], body)?
                .success()?;
        }
        match too_long.is_empty() {
            true => Ok(()),
            false => Err(Refusal::Records(too_long)),
        }
    }
}
