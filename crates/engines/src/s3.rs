//! Object storage by the protocol of S3: an object for each batch, application and hour, of segments or of lines of JSON. Objects
//! are made under names that say which records they have, and never written over, so that a batch is there once.

use crate::address::EngineAddress;
use crate::batch::EngineBatch;
use crate::engine::{BatchLimits, Engine};
use crate::error::{EngineError, Refusal};
use crate::http::HttpClient;
use logdrive_reader::iso_text;
use logdrive_store::SegmentWriter;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time for which a signed request holds: clocks may differ by minutes.
const SIGNED_FOR: Duration = Duration::from_mins(15);
/// Time that records wait for more of them, where the address says no other.
const EVERY: Duration = Duration::from_mins(1);
/// Bytes of rows of a batch: some MiB of segments.
const ROWS_BYTES: usize = 64 << 20;
/// Records of a batch.
const RECORDS: usize = 1_000_000;
/// Header with the name of the batch that an object is of.
const BATCH_HEADER: &str = "x-amz-meta-logdrive-batch";

/// Form of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObjectForm {
    /// Segments, which `logdrive cat` and `query` read.
    Segment,
    /// Lines of JSON, compressed with zstd.
    Json,
}

/// Content of an object that is put together.
enum Content {
    Segment(Box<SegmentWriter<Vec<u8>>>),
    Json(Vec<u8>),
}

/// Client of an object store.
pub(crate) struct ObjectStore {
    http: HttpClient,
    bucket: Bucket,
    credentials: Credentials,
    prefix: String,
    form: ObjectForm,
    every: Duration,
}

impl ObjectStore {
    pub(crate) fn new(address: &EngineAddress) -> Result<Self, EngineError> {
        let (bucket, prefix) = address.place.split_once('/').unwrap_or((&address.place, ""));
        let endpoint = format!("{}://{}", address.transport(), address.hosts).parse();
        let endpoint = endpoint.map_err(|error| address.wrong(format!("{error}")))?;
        let region = address.option("region").unwrap_or("us-east-1").to_owned();
        let bucket = Bucket::new(endpoint, UrlStyle::Path, bucket.to_owned(), region);
        let form = match address.option("form") {
            None | Some("segment") => ObjectForm::Segment,
            Some("json") => ObjectForm::Json,
            Some(other) => return Err(address.wrong(format!("form={other}: it is segment or json"))),
        };
        let every = match address.option("every").map(str::parse) {
            None => EVERY,
            Some(Ok(seconds @ 1..=3600)) => Duration::from_secs(seconds),
            Some(_) => return Err(address.wrong("every: it is a number of seconds, 1 to 3600")),
        };
        let settings = address.settings("config_file")?;
        let find = |name: &str| {
            let own = settings.iter().find(|(key, _)| key == name);
            own.map(|(_, value)| value.clone())
                .or_else(|| std::env::var(name).ok())
        };
        let (Some(key), Some(secret)) = (find("AWS_ACCESS_KEY_ID"), find("AWS_SECRET_ACCESS_KEY")) else {
            let why = "no key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file with both by config_file";
            return Err(address.wrong(why));
        };
        Ok(Self {
            http: HttpClient::new(address)?,
            bucket: bucket.map_err(|error| address.wrong(error.to_string()))?,
            credentials: match find("AWS_SESSION_TOKEN") {
                Some(token) => Credentials::new_with_token(key, secret, token),
                None => Credentials::new(key, secret),
            },
            prefix: prefix.trim_matches('/').to_owned(),
            form,
            every,
        })
    }

    /// Makes an object; one that is there already is that of an earlier try, where it says so.
    fn put(&self, name: &str, batch: &str, content: &[u8]) -> Result<(), Refusal> {
        let mut action = self.bucket.put_object(Some(&self.credentials), name);
        let headers = [("if-none-match", "*"), (BATCH_HEADER, batch)];
        for (name, value) in headers {
            action.headers_mut().insert(name, value);
        }
        let answer = self
            .http
            .put(action.sign(SIGNED_FOR).as_str(), &headers, content)?;
        match answer.status {
            412 => self.check(name, batch),
            // Another request for the same name is under way, perhaps the one that was cut off.
            409 => Err(Refusal::Retry {
                why: format!("{name}: status 409: {}", answer.shown()),
                after: None,
            }),
            // A bucket that is missing or closed waits for somebody to mend it.
            400 => Err(Refusal::Retry {
                why: format!("{name}: status 400: {}", answer.shown()),
                after: None,
            }),
            _ => answer.success().map(|_| ()),
        }
    }

    fn check(&self, name: &str, batch: &str) -> Result<(), Refusal> {
        let action = self.bucket.head_object(Some(&self.credentials), name);
        let found = self.http.head(action.sign(SIGNED_FOR).as_str(), BATCH_HEADER)?;
        match found.as_deref() {
            Some(found) if found == batch => Ok(()),
            Some(_) => Err(Refusal::Retry {
                why: format!(
                    "{name}: an object of this name is there, which no delivery made: remove or rename it"
                ),
                after: None,
            }),
            None => Err(Refusal::Retry {
                why: format!("{name}: an object of this name came and went, or cannot be read"),
                after: None,
            }),
        }
    }

    /// Name of the object of some records.
    fn name(&self, app: &str, hour: &str, batch: &str) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let app: String = app.chars().map(|c| if plain(c) { c } else { '_' }).collect();
        let app = if app.is_empty() { "unknown" } else { &app };
        let ending = match self.form {
            ObjectForm::Segment => "segment",
            ObjectForm::Json => "jsonl.zst",
        };
        let prefix = match self.prefix.as_str() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        format!("{prefix}{app}/{hour}/{batch}.{ending}")
    }
}

impl Engine for ObjectStore {
    fn limits(&self) -> BatchLimits {
        BatchLimits {
            records: RECORDS,
            rows_bytes: ROWS_BYTES,
            linger: self.every,
            works_ahead: false,
        }
    }

    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal> {
        let name = batch.name();
        let form = self.form;
        // In the order of their names, so that a batch makes the same requests each time.
        let mut contents: BTreeMap<(String, String), Content> = BTreeMap::new();
        let mut failed = None;
        batch.each(&mut |record| {
            let app = record.process().map_or("", |process| &process.app).to_owned();
            // `2026-11-26T02` as two folders.
            let hour = iso_text(record.unix_ns())
                .get(..13)
                .unwrap_or_default()
                .replace('T', "/");
            let content = contents.entry((app, hour)).or_insert_with(|| match form {
                ObjectForm::Segment => {
                    Content::Segment(Box::new(SegmentWriter::new(Vec::new()).fill_blocks()))
                }
                ObjectForm::Json => Content::Json(Vec::new()),
            });
            match content {
                Content::Segment(writer) => failed = record.put_row(writer).err().or(failed.take()),
                Content::Json(lines) => {
                    record.put_json(lines);
                    lines.push(b'\n');
                }
            }
        });
        let wrong = |error: std::io::Error| Refusal::Invalid {
            why: error.to_string(),
        };
        if let Some(error) = failed {
            return Err(wrong(error));
        }
        for ((app, hour), content) in contents {
            let bytes = match content {
                Content::Segment(mut writer) => {
                    writer.flush().map_err(wrong)?;
                    std::mem::take(writer.file_mut())
                }
                Content::Json(lines) => zstd::bulk::compress(&lines, 3).map_err(wrong)?,
            };
            self.put(&self.name(&app, &hour, &name), &name, &bytes)?;
        }
        Ok(())
    }
}
