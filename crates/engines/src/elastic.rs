//! Elasticsearch and OpenSearch: bulk requests that create documents under ids of ours, so that a record is there once.

use crate::address::EngineAddress;
use crate::batch::EngineBatch;
use crate::engine::Engine;
use crate::error::{EngineError, Refusal};
use crate::http::HttpClient;
use logdrive_reader::iso_text;
use serde::Deserialize;
use std::io::Write;

/// Client of Elasticsearch or OpenSearch.
#[derive(Debug)]
pub(crate) struct Elastic {
    http: HttpClient,
    /// Name of the index; `{date}` stands for the day of the record, which does not change when it comes again.
    index: String,
    body: Vec<u8>,
    /// Places in the batch of the documents of a request.
    places: Vec<usize>,
}

/// Answer to a bulk request.
#[derive(Deserialize)]
struct BulkAnswer {
    errors: bool,
    #[serde(default)]
    items: Vec<BulkItem>,
}

#[derive(Deserialize)]
struct BulkItem {
    create: BulkCreate,
}

#[derive(Deserialize)]
struct BulkCreate {
    status: u16,
    #[serde(default)]
    error: serde_json::Value,
}

impl Elastic {
    pub(crate) fn new(address: &EngineAddress) -> Result<Self, EngineError> {
        Ok(Self {
            http: HttpClient::new(address)?,
            index: address.place.clone(),
            body: Vec::new(),
            places: Vec::new(),
        })
    }
}

impl Engine for Elastic {
    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal> {
        let (body, places) = (&mut self.body, &mut self.places);
        let (index, delivery) = (&self.index, batch.delivery());
        body.clear();
        places.clear();
        batch.each(&mut |record| {
            let time = iso_text(record.unix_ns());
            let index = index.replace("{date}", time.get(..10).unwrap_or_default());
            places.push(record.place);
            let number = record.number;
            // Writing to memory does not fail.
            let _ = write!(
                body,
                "{{\"create\":{{\"_index\":\"{index}\",\"_id\":\"{delivery}-{number}\"}}}}\n{{\"@timestamp\":\"{time}\","
            );
            let start = body.len();
            record.put_json(body);
            // Behind the time the object goes on.
            body.remove(start);
            body.push(b'\n');
        });
        let answer = self
            .http
            .post("/_bulk", &[("content-type", "application/x-ndjson")], body)?
            .success()?;
        let parsed: BulkAnswer = serde_json::from_slice(&answer.body).map_err(|error| Refusal::Retry {
            why: format!("no answer to a bulk request ({error}): {}", answer.shown()),
            after: None,
        })?;
        match parsed.errors {
            false => Ok(()),
            true => refusal(&parsed.items, places),
        }
    }
}

/// Sorts the answers for single documents.
fn refusal(items: &[BulkItem], places: &[usize]) -> Result<(), Refusal> {
    let mut refused = Vec::new();
    for (item, place) in items.iter().zip(places) {
        match item.create.status {
            // 409: it is there already.
            200..=299 | 409 => {}
            400 | 404 | 413 | 422 => refused.push((*place, item.create.error.to_string())),
            status => {
                return Err(Refusal::Retry {
                    why: format!("status {status} of a document: {}", item.create.error),
                    after: None,
                });
            }
        }
    }
    match refused.is_empty() {
        true => Ok(()),
        false => Err(Refusal::Records(refused)),
    }
}
