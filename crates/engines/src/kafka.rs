//! Kafka, by librdkafka: an idempotent producer, with the id of each record in a header. A producer that is made anew, after a
//! fatal error or a restart, may send records that the broker has already: consumers tell them by that header.

use crate::address::EngineAddress;
use crate::batch::{EngineBatch, EngineRecord};
use crate::engine::{BatchLimits, Engine};
use crate::error::{EngineError, Refusal};
use crate::json::value_text;
use crate::limits::{KAFKA_BATCH, RESPONSE_TIMEOUT};
use logdrive_store::RowProcess;
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext, PurgeConfig};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, ClientContext};
use std::collections::VecDeque;
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

/// Records that were answered for: their numbers, with the error where there was one.
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

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let error = result.as_ref().err().map(|(error, _)| error.clone());
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push((number, error));
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

/// A batch that is under way. It stays so while brokers do not answer: the producer that has its records is the one that can
/// send them without twins.
#[derive(Debug)]
struct Pending {
    /// Numbers of its records.
    numbers: Range<u64>,
    ways: Vec<Way>,
    /// Bytes of their messages.
    bytes: Vec<u32>,
    sent: usize,
}

impl Pending {
    fn new(numbers: Range<u64>, count: usize) -> Self {
        Self {
            numbers,
            ways: vec![Way::Open; count],
            bytes: vec![0; count],
            sent: 0,
        }
    }

    fn place_of(&self, number: u64) -> Option<usize> {
        let place = number.checked_sub(self.numbers.start)?;
        (number < self.numbers.end).then_some(usize::try_from(place).ok()?)
    }

    fn way(&self, number: u64) -> Option<&Way> {
        self.ways.get(self.place_of(number)?)
    }

    fn set(&mut self, number: u64, way: Way) {
        let place = self.place_of(number);
        if let Some(known) = place.and_then(|place| self.ways.get_mut(place)) {
            self.sent -= usize::from(*known == Way::Sent);
            self.sent += usize::from(way == Way::Sent);
            *known = way;
        }
    }

    fn bytes_of(&self, number: u64) -> usize {
        let place = self.place_of(number);
        place
            .and_then(|place| self.bytes.get(place))
            .map_or(0, |bytes| *bytes as usize)
    }

    /// Opens all that the producer had.
    fn reopen(&mut self) {
        let sent = self.ways.iter_mut().filter(|way| **way == Way::Sent);
        sent.for_each(|way| *way = Way::Open);
        self.sent = 0;
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
    /// Batches that are under way, in order: one, and the one behind it.
    pending: VecDeque<Pending>,
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
            // Half the processor time of the default, for some hundredths more bytes.
            .set("compression.level", "1")
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
            pending: VecDeque::new(),
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

    /// Makes the batch one of those that are under way, where it is not already. Returns its place among them.
    fn place_of(&mut self, batch: &EngineBatch<'_>) -> usize {
        let numbers = batch.first_number()..batch.first_number() + batch.len() as u64;
        let known = self.pending.iter().position(|pending| pending.numbers == numbers);
        if let Some(place) = known {
            return place;
        }
        if self
            .pending
            .back()
            .is_some_and(|last| last.numbers.end != numbers.start)
        {
            // What is answered for other batches does not concern this one.
            if self.pending.iter().any(|pending| pending.sent > 0) {
                self.give_up_producer();
            }
            self.pending.clear();
        }
        self.pending.push_back(Pending::new(numbers, batch.len()));
        self.pending.len() - 1
    }

    /// Drops the producer with what it holds; the next one sends that.
    fn give_up_producer(&mut self) {
        if let Some(producer) = self.producer.take() {
            producer.purge(PurgeConfig::default().queue().inflight());
            // Its callbacks come before it is dropped.
            let _ = producer.flush(Duration::from_secs(1));
        }
        for (number, error) in self.take_answers() {
            if error.is_none() {
                self.set(number, Way::Taken);
            }
        }
        self.pending.iter_mut().for_each(Pending::reopen);
    }

    fn take_answers(&self) -> Vec<(usize, Option<KafkaError>)> {
        std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&mut self, number: usize, way: Way) {
        let number = number as u64;
        let found = self
            .pending
            .iter_mut()
            .find(|pending| pending.numbers.contains(&number));
        if let Some(pending) = found {
            pending.set(number, way);
        }
    }

    /// Gives the producer the records of a batch that are open, while it takes them.
    fn send(&mut self, batch: &mut EngineBatch<'_>, place: usize, until: Instant) -> Result<(), String> {
        let Self {
            producer: Some(producer),
            pending,
            payload,
            ..
        } = self
        else {
            return Err("no producer".to_owned());
        };
        let Some(pending) = pending.get_mut(place) else {
            return Ok(());
        };
        if !pending.ways.contains(&Way::Open) {
            return Ok(());
        }
        let mut texts = Texts::new(&self.topic, &self.key, batch.delivery());
        let mut failed = None;
        batch.each(&mut |record| {
            if failed.is_some() || pending.way(record.number) != Some(&Way::Open) {
                return;
            }
            texts.fill(record);
            payload.clear();
            match record.line() {
                Some(line) => payload.extend_from_slice(line),
                None => record.put_json(payload),
            }
            let place = pending.place_of(record.number);
            if let Some(bytes) = place.and_then(|place| pending.bytes.get_mut(place)) {
                *bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            }
            match put(producer, &texts, payload, record, until) {
                Ok(()) => pending.set(record.number, Way::Sent),
                Err(error) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge) => {
                    pending.set(record.number, Way::Refused(error.to_string()));
                }
                Err(error) => failed = Some(error.to_string()),
            }
        });
        failed.map_or(Ok(()), Err)
    }

    /// Waits for the answers to all records of the first batch, or of all batches, that were sent. Returns the reason where
    /// some were not taken though they may be later.
    fn wait(&mut self, until: Instant, batches: usize) -> Waited {
        let mut waited = Waited::default();
        let mut pause = PAUSE_FIRST;
        loop {
            if let Some(producer) = &self.producer {
                producer.poll(Duration::ZERO);
            }
            let answers = self.take_answers();
            let is_quiet = answers.is_empty();
            for (number, error) in answers {
                let way = match error {
                    None => Way::Taken,
                    Some(error) => self.way_after(number as u64, &error, &mut waited),
                };
                self.set(number, way);
            }
            if self.sent(batches) == 0 || Instant::now() >= until {
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

    /// Records of the first batches that the producer has.
    fn sent(&self, batches: usize) -> usize {
        self.pending
            .iter()
            .take(batches)
            .map(|pending| pending.sent)
            .sum()
    }

    fn way_after(&self, number: u64, error: &KafkaError, waited: &mut Waited) -> Way {
        let known = self
            .pending
            .iter()
            .find(|pending| pending.numbers.contains(&number));
        let bytes = known.map_or(0, |pending| pending.bytes_of(number));
        match error.rdkafka_error_code() {
            // The broker means the whole request: only one that was in it alone is meant itself.
            Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidRecord)
                if bytes < self.batch_bytes && self.batch_bytes > BATCH_BYTES_LEAST =>
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
    fn limits(&self) -> BatchLimits {
        BatchLimits {
            records: KAFKA_BATCH.0,
            rows_bytes: KAFKA_BATCH.1,
            works_ahead: true,
            ..BatchLimits::default()
        }
    }

    fn begin(&mut self, batch: &mut EngineBatch<'_>) {
        let place = self.place_of(batch);
        // Behind a batch that is sent again nothing is begun, so that it comes first.
        let is_first_open = self.pending.iter().take(place).any(|before| before.sent == 0);
        if self.producer.is_some() && !is_first_open {
            // What the producer does not take is still open, and is sent when the batch is delivered.
            let _ = self.send(batch, place, Instant::now() + RESPONSE_TIMEOUT);
        }
    }

    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal> {
        let retry = |why: String| Refusal::Retry { why, after: None };
        while self.place_of(batch) > 0 {
            // Those before it were delivered.
            self.pending.pop_front();
        }
        let until = Instant::now() + RESPONSE_TIMEOUT;
        self.last_error();
        loop {
            if self.producer.is_none() {
                let made = self.make().map_err(|error| retry(error.to_string()))?;
                self.producer = Some(made);
            }
            let sent = self.send(batch, 0, until);
            let mut waited = self.wait(until, 1);
            if waited.is_too_large {
                // Before its producer goes, all that it has is answered for: another one sends none of that twice.
                let rest = self.wait(until, usize::MAX);
                waited.failed = waited.failed.or(rest.failed);
            }
            if let Some(why) = sent.err().or(waited.failed) {
                // After an error that it reports for a record a producer is of no use: it may be fatal.
                self.give_up_producer();
                return Err(retry(why));
            }
            let left = if waited.is_too_large { usize::MAX } else { 1 };
            if self.sent(left) > 0 {
                let why = self.last_error();
                return Err(retry(
                    why.unwrap_or_else(|| "the brokers do not answer".to_owned()),
                ));
            }
            if !waited.is_too_large {
                break;
            }
            self.producer = None;
            self.batch_bytes = (self.batch_bytes / 2).max(BATCH_BYTES_LEAST);
        }
        let Some(pending) = self.pending.pop_front() else {
            return Ok(());
        };
        let (first, ways) = (batch.first_place(), pending.ways.into_iter().enumerate());
        let refused = ways.filter_map(|(at, way)| match way {
            Way::Refused(why) => Some((first + at, why)),
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
    let mut message = BaseRecord::with_opaque_to(&texts.topic, record.number as usize)
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
