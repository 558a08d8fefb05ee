//! Kafka, by librdkafka: an idempotent producer, with the id of each record in a header. A producer that is made anew, after a
//! fatal error or a restart, may send records that the broker has already: consumers tell them by that header.

use crate::address::EngineAddress;
use crate::batch::{EngineBatch, EngineRecord};
use crate::engine::Engine;
use crate::error::{EngineError, Refusal};
use crate::json::value_text;
use crate::limits::RESPONSE_TIMEOUT;
use logdrive_store::RowProcess;
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext, PurgeConfig};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, ClientContext};
use std::fmt::Write;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Name of the header that has the id of a record.
const ID_HEADER: &str = "logdrive-id";
/// First pause between two looks for acknowledgements, and the longest, which it doubles to while none come. The client's own
/// wait lasts its whole time, whatever comes meanwhile.
const PAUSE_FIRST: Duration = Duration::from_micros(200);
const PAUSE_LONGEST: Duration = Duration::from_millis(20);

/// Bytes of a request for a partition, before compression: below what topics take by default.
const BATCH_BYTES: usize = 1_000_000;
/// Least that a producer is set to when a topic takes less: a request has one record then.
const BATCH_BYTES_LEAST: usize = 512;

/// Key of a record, which decides its partition.
#[derive(Debug)]
enum Key {
    /// Its process: the records of one stay in order.
    Process,
    /// Nothing: partitions are filled in turn.
    None,
    /// The value of a field.
    Field(String),
}

/// Records that were answered for: their places in the batch, with the error where there was one.
type Answers = Arc<Mutex<Vec<(usize, Option<KafkaError>)>>>;

/// Callbacks of the producer.
struct Context {
    answers: Answers,
    /// Last error of the client as a whole, such as that no broker can be reached.
    error: Arc<Mutex<Option<String>>>,
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        let mut last = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(format!("{error}: {reason}"));
    }

    fn log(&self, _: rdkafka::config::RDKafkaLogLevel, _: &str, _: &str) {}
}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, place: usize) {
        let error = result.as_ref().err().map(|(error, _)| error.clone());
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push((place, error));
    }
}

/// Way of a record of the batch that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    /// The producer has it not, or no longer.
    Open,
    /// The producer has it, and answers for it some time.
    Sent,
    /// The brokers have it.
    Taken,
    /// They never take it.
    Refused(String),
}

/// The batch that is under way. It stays so while brokers do not answer: the producer that has its records is the one that
/// can send them without twins.
#[derive(Debug, Default)]
struct Pending {
    /// Numbers of its records.
    numbers: Range<u64>,
    /// Place of the first of them.
    first: usize,
    ways: Vec<Way>,
    /// Bytes of their messages.
    bytes: Vec<u32>,
    sent: usize,
}

impl Pending {
    fn set(&mut self, place: usize, way: Way) {
        if let Some(known) = place.checked_sub(self.first).and_then(|at| self.ways.get_mut(at)) {
            self.sent -= usize::from(*known == Way::Sent);
            self.sent += usize::from(way == Way::Sent);
            *known = way;
        }
    }

    fn bytes_of(&self, place: usize) -> usize {
        let found = place.checked_sub(self.first).and_then(|at| self.bytes.get(at));
        found.map_or(0, |bytes| *bytes as usize)
    }
}

/// Client of Kafka.
pub(crate) struct Kafka {
    config: ClientConfig,
    topic: String,
    key: Key,
    producer: Option<BaseProducer<Context>>,
    /// Bytes of messages that the producer puts into one request for a partition.
    batch_bytes: usize,
    pending: Pending,
    answers: Answers,
    error: Arc<Mutex<Option<String>>>,
    payload: Vec<u8>,
}

impl Kafka {
    pub(crate) fn new(address: &EngineAddress) -> Result<Self, EngineError> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &address.hosts)
            .set("client.id", "logdrive")
            .set("enable.idempotence", "true")
            // The log decides when a record is given up: never. A timeout of the client would leave a gap.
            .set("message.timeout.ms", "0")
            .set("linger.ms", "5")
            .set("queue.buffering.max.kbytes", "262144")
            .set("queue.buffering.max.messages", "200000")
            .set(
                "compression.type",
                address.option("compression").unwrap_or("zstd"),
            )
            .set("acks", address.option("acks").unwrap_or("all"));
        // Further properties of librdkafka, one NAME=VALUE a line: names and passwords among them.
        for (name, value) in address.settings("config_file")? {
            config.set(name, value);
        }
        let given = config.get("batch.size").and_then(|bytes| bytes.parse().ok());
        let mut kafka = Self {
            config,
            topic: address.place.clone(),
            key: match address.option("key") {
                None | Some("process") => Key::Process,
                Some("none") => Key::None,
                Some(field) => Key::Field(field.to_owned()),
            },
            producer: None,
            batch_bytes: given.unwrap_or(BATCH_BYTES),
            pending: Pending::default(),
            answers: Answers::default(),
            error: Arc::default(),
            payload: Vec::new(),
        };
        kafka.producer = Some(kafka.make()?);
        Ok(kafka)
    }

    fn make(&mut self) -> Result<BaseProducer<Context>, EngineError> {
        let context = Context {
            answers: Arc::clone(&self.answers),
            error: Arc::clone(&self.error),
        };
        self.config.set("batch.size", self.batch_bytes.to_string());
        let made = self.config.create_with_context(context);
        made.map_err(|error| EngineError::Client {
            engine: "kafka",
            why: error.to_string(),
        })
    }

    /// Makes the batch the one that is under way, where it is not already.
    fn begin(&mut self, batch: &mut EngineBatch<'_>) {
        let numbers = batch.first_number()..batch.first_number() + batch.len() as u64;
        if self.pending.numbers == numbers {
            return;
        }
        // What is answered for another batch does not concern this one.
        if self.pending.sent > 0 {
            self.give_up_producer();
        }
        self.pending = Pending {
            numbers,
            first: batch.first_place(),
            ways: vec![Way::Open; batch.len()],
            bytes: vec![0; batch.len()],
            sent: 0,
        };
    }

    /// Drops the producer with what it holds; the next one sends that.
    fn give_up_producer(&mut self) {
        if let Some(producer) = self.producer.take() {
            producer.purge(PurgeConfig::default().queue().inflight());
            // Its callbacks come before it is dropped.
            let _ = producer.flush(Duration::from_secs(1));
        }
        let answers = std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner));
        for (place, error) in answers {
            if error.is_none() {
                self.pending.set(place, Way::Taken);
            }
        }
        let open = self.pending.ways.iter_mut().filter(|way| **way == Way::Sent);
        open.for_each(|way| *way = Way::Open);
        self.pending.sent = 0;
    }

    /// Gives the producer the records that are open, while it takes them.
    fn send(&mut self, batch: &mut EngineBatch<'_>, until: Instant) -> Result<(), String> {
        let Self {
            producer: Some(producer),
            pending,
            payload,
            ..
        } = self
        else {
            return Err("no producer".to_owned());
        };
        let mut texts = Texts::new(&self.topic, &self.key, batch.delivery());
        let mut failed = None;
        batch.each(&mut |record| {
            let way = record
                .place
                .checked_sub(pending.first)
                .and_then(|at| pending.ways.get(at));
            if failed.is_some() || way != Some(&Way::Open) {
                return;
            }
            texts.fill(record);
            payload.clear();
            record.put_json(payload);
            let bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            if let Some(known) = pending.bytes.get_mut(record.place - pending.first) {
                *known = bytes;
            }
            match put(producer, &texts, payload, record, until) {
                Ok(()) => pending.set(record.place, Way::Sent),
                Err(error) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge) => {
                    pending.set(record.place, Way::Refused(error.to_string()));
                }
                Err(error) => failed = Some(error.to_string()),
            }
        });
        failed.map_or(Ok(()), Err)
    }

    /// Waits for the answers to all records that were sent. Returns whether all came, and the reason where some were not taken
    /// though they may be later.
    fn wait(&mut self, until: Instant) -> Waited {
        let mut waited = Waited::default();
        let mut pause = PAUSE_FIRST;
        loop {
            if let Some(producer) = &self.producer {
                producer.poll(Duration::ZERO);
            }
            let answers = std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner));
            let is_quiet = answers.is_empty();
            for (place, error) in answers {
                let way = match error {
                    None => Way::Taken,
                    Some(error) => self.way_after(place, &error, &mut waited),
                };
                self.pending.set(place, way);
            }
            if self.pending.sent == 0 || Instant::now() >= until {
                return waited;
            }
            if is_quiet {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSE_LONGEST);
            } else {
                pause = PAUSE_FIRST;
            }
        }
    }

    fn way_after(&self, place: usize, error: &KafkaError, waited: &mut Waited) -> Way {
        match error.rdkafka_error_code() {
            // The broker means the whole request: only one that was in it alone is meant itself.
            Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidRecord)
                if self.pending.bytes_of(place) < self.batch_bytes
                    && self.batch_bytes > BATCH_BYTES_LEAST =>
            {
                waited.is_too_large = true;
                Way::Open
            }
            Some(
                RDKafkaErrorCode::MessageSizeTooLarge
                | RDKafkaErrorCode::InvalidRecord
                | RDKafkaErrorCode::InvalidMessage,
            ) => Way::Refused(error.to_string()),
            _ => {
                waited.failed = Some(error.to_string());
                Way::Open
            }
        }
    }

    fn last_error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// End of a wait for answers.
#[derive(Debug, Default)]
struct Waited {
    /// Set when a request was too large, though perhaps none of its records.
    is_too_large: bool,
    /// Error of a record that may be taken later.
    failed: Option<String>,
}

impl Engine for Kafka {
    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal> {
        let retry = |why: String| Refusal::Retry { why, after: None };
        self.begin(batch);
        let until = Instant::now() + RESPONSE_TIMEOUT;
        self.last_error();
        loop {
            if self.producer.is_none() {
                let made = self.make().map_err(|error| retry(error.to_string()))?;
                self.producer = Some(made);
            }
            let sent = self.send(batch, until);
            let waited = self.wait(until);
            if let Some(why) = sent.err().or(waited.failed) {
                // After an error that it reports for a record a producer is of no use: it may be fatal.
                self.give_up_producer();
                return Err(retry(why));
            }
            if self.pending.sent > 0 {
                let why = self.last_error();
                return Err(retry(
                    why.unwrap_or_else(|| "the brokers do not answer".to_owned()),
                ));
            }
            if !waited.is_too_large {
                break;
            }
            // All were answered for: another producer sends none of them twice.
            self.producer = None;
            self.batch_bytes = (self.batch_bytes / 2).max(BATCH_BYTES_LEAST);
        }
        let pending = std::mem::take(&mut self.pending);
        let ways = pending.ways.into_iter().enumerate();
        let refused = ways.filter_map(|(at, way)| match way {
            Way::Refused(why) => Some((pending.first + at, why)),
            _ => None,
        });
        let refused: Vec<(usize, String)> = refused.collect();
        match refused.is_empty() {
            true => Ok(()),
            false => Err(Refusal::Records(refused)),
        }
    }
}

/// Texts of a record beside its payload, in memory that is kept from one to the next.
struct Texts<'a> {
    /// Topic, or the template of it.
    template: &'a str,
    by: &'a Key,
    topic: String,
    key: Option<String>,
    /// Process that the key is of, where it is one's.
    process: Option<RowProcess>,
    /// The delivery with a dash, and behind it the number of the record.
    id: String,
    id_start: usize,
}

impl<'a> Texts<'a> {
    fn new(template: &'a str, by: &'a Key, delivery: &str) -> Self {
        let id = format!("{delivery}-");
        Self {
            template,
            by,
            topic: template.to_owned(),
            key: None,
            process: None,
            id_start: id.len(),
            id,
        }
    }

    fn fill(&mut self, record: &EngineRecord<'_>) {
        self.id.truncate(self.id_start);
        // Writing to memory does not fail.
        let _ = write!(self.id, "{}", record.number);
        match self.by {
            Key::None => {}
            Key::Process if self.process.as_ref() == record.process() => {}
            Key::Process => {
                let key = |process: &RowProcess| format!("{}/{}/{}", process.host, process.app, process.pid);
                self.key = record.process().map(key);
                self.process = record.process().cloned();
            }
            Key::Field(name) => self.key = field_text(name, record),
        }
        if self.template.contains('{') {
            self.topic = topic_of(self.template, record);
        }
    }
}

/// Gives the producer a record; waits for room until a time.
fn put(
    producer: &BaseProducer<Context>,
    texts: &Texts<'_>,
    payload: &[u8],
    record: &EngineRecord<'_>,
    until: Instant,
) -> Result<(), KafkaError> {
    let headers = OwnedHeaders::new_with_capacity(1).insert(Header {
        key: ID_HEADER,
        value: Some(&texts.id),
    });
    let mut message = BaseRecord::with_opaque_to(&texts.topic, record.place)
        .payload(payload)
        .headers(headers)
        // Kafka counts milliseconds.
        .timestamp(i64::try_from(record.unix_ns() / 1_000_000).unwrap_or(i64::MAX));
    if let Some(key) = &texts.key {
        message = message.key(key.as_bytes());
    }
    loop {
        match producer.send(message) {
            Ok(()) => return Ok(()),
            Err((error, back)) => {
                let is_full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
                if !is_full || Instant::now() >= until {
                    return Err(error);
                }
                producer.poll(PAUSE_LONGEST);
                message = back;
            }
        }
    }
}

/// Value of a field as text.
fn field_text(name: &str, record: &EngineRecord<'_>) -> Option<String> {
    let mut found = None;
    record.each_field(&mut |key, value| {
        if key == name && found.is_none() {
            found = Some(value_text(value));
        }
    });
    found
}

/// Name of the topic of a record: `{app}`, `{host}` and `{level}` are filled in, with letters that topics may have.
fn topic_of(template: &str, record: &EngineRecord<'_>) -> String {
    let plain = |text: &str| -> String {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        text.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
    };
    let (app, host) = record
        .process()
        .map_or(("", ""), |process| (process.app.as_str(), process.host.as_str()));
    template
        .replace("{app}", &plain(app))
        .replace("{host}", &plain(host))
        .replace("{level}", record.level().lower_name())
}
