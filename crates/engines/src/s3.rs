//! Object storage by the protocol of S3: an object for each batch, application and hour, of segments or of lines of JSON. Objects
//! are made under names that say which records they have, and never written over, so that a batch is there once.

use crate::address::EngineAddress;
use crate::batch::{EngineBatch, EngineRecord};
use crate::engine::{BatchLimits, Engine};
use crate::error::{EngineError, Refusal};
use crate::http::HttpClient;
#[cfg(feature = "parquet")]
use crate::parquet::{FieldColumns, ParquetTable};
use logdrive_reader::iso_text;
use logdrive_store::SegmentWriter;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use std::collections::BTreeMap;
use std::io;
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
    /// Tables of Parquet.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// Content of an object that is put together.
enum Content {
    Segment(Box<SegmentWriter<Vec<u8>>>),
    Json(Vec<u8>),
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetTable>),
}

/// Application and hour that an object has.
type Folder = (String, String);

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
            #[cfg(feature = "parquet")]
            Some("parquet") => ObjectForm::Parquet,
            Some(other) => {
                return Err(address.wrong(format!("form={other}: it is segment, parquet or json")));
            }
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
            #[cfg(feature = "parquet")]
            ObjectForm::Parquet => "parquet",
        };
        let prefix = match self.prefix.as_str() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        format!("{prefix}{app}/{hour}/{batch}.{ending}")
    }
}

/// Folder of a record: its application, and `2026-11-26T02` as two folders.
fn folder_of(record: &EngineRecord<'_>) -> Folder {
    let app = record.process().map_or("", |process| &process.app).to_owned();
    let time = iso_text(record.unix_ns());
    (app, time.get(..13).unwrap_or_default().replace('T', "/"))
}

/// Puts the records of a batch together, by folder and in the order of their names, so that a batch makes the same requests each
/// time.
fn contents(form: ObjectForm, batch: &mut EngineBatch<'_>) -> io::Result<BTreeMap<Folder, Content>> {
    let mut contents: BTreeMap<Folder, Content> = BTreeMap::new();
    #[cfg(feature = "parquet")]
    if form == ObjectForm::Parquet {
        let mut columns: BTreeMap<Folder, FieldColumns> = BTreeMap::new();
        batch.each(&mut |record| columns.entry(folder_of(record)).or_default().add(record));
        for (folder, columns) in columns {
            let table = ParquetTable::new(&columns)?;
            contents.insert(folder, Content::Parquet(Box::new(table)));
        }
    }
    #[cfg(feature = "parquet")]
    let delivery = batch.delivery();
    let mut failed = None;
    batch.each(&mut |record| {
        let content = contents.entry(folder_of(record));
        let content = content.or_insert_with(|| match form {
            ObjectForm::Segment => Content::Segment(Box::new(SegmentWriter::new(Vec::new()).fill_blocks())),
            _ => Content::Json(Vec::new()),
        });
        let added = match content {
            Content::Segment(writer) => record.put_row(writer),
            Content::Json(lines) => {
                record.put_json(lines);
                lines.push(b'\n');
                Ok(())
            }
            #[cfg(feature = "parquet")]
            Content::Parquet(table) => table.push(record, delivery),
        };
        failed = added.err().or(failed.take());
    });
    failed.map_or(Ok(contents), Err)
}

impl Content {
    /// Returns the bytes of the object.
    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Segment(mut writer) => {
                writer.flush()?;
                Ok(std::mem::take(writer.file_mut()))
            }
            Self::Json(lines) => zstd::bulk::compress(&lines, 3),
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => table.finish(),
        }
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
        let wrong = |error: io::Error| Refusal::Invalid {
            why: error.to_string(),
        };
        let name = batch.name();
        for ((app, hour), content) in contents(self.form, batch).map_err(wrong)? {
            let bytes = content.finish().map_err(wrong)?;
            self.put(&self.name(&app, &hour, &name), &name, &bytes)?;
        }
        Ok(())
    }
}
