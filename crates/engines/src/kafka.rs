//! Kafka, by librdkafka: an idempotent producer, with the id of each record in a header. A producer that is made anew, after a
//! fatal error or a restart, may send records that the broker has already: consumers tell them by that header.

use crate::address::EngineAddress;
use crate::batch::{EngineBatch, EngineRecord};
use crate::engine::Engine;
use crate::error::{EngineError, Refusal};
use crate::json::value_text;
use crate::limits::RESPONSE_TIMEOUT;
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext, PurgeConfig};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, ClientContext};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Name of the header that has the id of a record.
const ID_HEADER: &str = "logdrive-id";
/// Time that one look for acknowledgements waits.
const POLL: Duration = Duration::from_millis(50);

/// What decides the partition of a record.
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
    type DeliveryOpaque = Box<usize>;

    fn delivery(&self, result: &DeliveryResult<'_>, place: Box<usize>) {
        let error = result.as_ref().err().map(|(error, _)| error.clone());
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push((*place, error));
    }
}

/// Client of Kafka.
pub(crate) struct Kafka {
    config: ClientConfig,
    topic: String,
    key: Key,
    producer: Option<BaseProducer<Context>>,
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
            .set("batch.size", "1000000")
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
        let mut kafka = Self {
            config,
            topic: address.place.clone(),
            key: match address.option("key") {
                None | Some("process") => Key::Process,
                Some("none") => Key::None,
                Some(field) => Key::Field(field.to_owned()),
            },
            producer: None,
            answers: Answers::default(),
            error: Arc::default(),
            payload: Vec::new(),
        };
        kafka.producer = Some(kafka.make()?);
        Ok(kafka)
    }

    fn make(&self) -> Result<BaseProducer<Context>, EngineError> {
        let context = Context {
            answers: Arc::clone(&self.answers),
            error: Arc::clone(&self.error),
        };
        let made = self.config.create_with_context(context);
        made.map_err(|error| EngineError::Client {
            engine: "kafka",
            why: error.to_string(),
        })
    }

    /// Sends all records of a batch; returns those that the client itself refuses.
    fn send(
        &mut self,
        producer: &BaseProducer<Context>,
        batch: &mut EngineBatch<'_>,
        until: Instant,
    ) -> Result<Vec<(usize, String)>, Refusal> {
        let mut refused = Vec::new();
        let mut failed = None;
        let (topic, key, payload) = (&self.topic, &self.key, &mut self.payload);
        let delivery = batch.delivery();
        let mut topic_space = String::new();
        batch.each(&mut |record| {
            if failed.is_some() {
                return;
            }
            let id = format!("{delivery}-{}", record.number);
            let headers = OwnedHeaders::new_with_capacity(1).insert(Header {
                key: ID_HEADER,
                value: Some(&id),
            });
            let key = key_of(key, record);
            let topic = match topic.contains('{') {
                true => {
                    topic_space = topic_of(topic, record);
                    &topic_space
                }
                false => topic,
            };
            payload.clear();
            record.put_json(payload);
            let mut message = BaseRecord::with_opaque_to(topic, Box::new(record.place))
                .payload(payload.as_slice())
                .headers(headers)
                // Kafka counts milliseconds.
                .timestamp(i64::try_from(record.unix_ns() / 1_000_000).unwrap_or(i64::MAX));
            if let Some(key) = &key {
                message = message.key(key.as_bytes());
            }
            loop {
                match producer.send(message) {
                    Ok(()) => return,
                    Err((error, back)) => match error.rdkafka_error_code() {
                        Some(RDKafkaErrorCode::QueueFull) if Instant::now() < until => {
                            producer.poll(POLL);
                            message = back;
                        }
                        Some(RDKafkaErrorCode::MessageSizeTooLarge) => {
                            return refused.push((record.place, error.to_string()));
                        }
                        _ => return failed = Some(error.to_string()),
                    },
                }
            }
        });
        match failed {
            Some(why) => Err(Refusal::Retry { why, after: None }),
            None => Ok(refused),
        }
    }

    /// Waits for the answers to so many records.
    fn wait(
        &self,
        producer: &BaseProducer<Context>,
        count: usize,
        until: Instant,
    ) -> Vec<(usize, Option<KafkaError>)> {
        loop {
            producer.poll(POLL);
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            if answers.len() >= count || Instant::now() >= until {
                return std::mem::take(&mut *answers);
            }
        }
    }

    fn last_error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Engine for Kafka {
    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal> {
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => self.make().map_err(|error| Refusal::Retry {
                why: error.to_string(),
                after: None,
            })?,
        };
        let until = Instant::now() + RESPONSE_TIMEOUT;
        self.answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        self.last_error();
        let sent = self.send(&producer, batch, until);
        let (mut refused, mut retry) = match sent {
            Ok(refused) => (refused, None),
            Err(refusal) => (Vec::new(), Some(refusal)),
        };
        let expected = batch.len() - refused.len();
        let answers = match retry {
            None => self.wait(&producer, expected, until),
            Some(_) => Vec::new(),
        };
        if retry.is_none() && answers.len() < expected {
            let why = self
                .last_error()
                .unwrap_or_else(|| "the brokers do not answer".to_owned());
            retry = Some(Refusal::Retry { why, after: None });
        }
        for (place, error) in answers {
            let Some(error) = error else { continue };
            match error.rdkafka_error_code() {
                Some(
                    RDKafkaErrorCode::MessageSizeTooLarge
                    | RDKafkaErrorCode::InvalidRecord
                    | RDKafkaErrorCode::InvalidMessage,
                ) => refused.push((place, error.to_string())),
                _ => {
                    retry = Some(Refusal::Retry {
                        why: error.to_string(),
                        after: None,
                    });
                }
            }
        }
        if let Some(refusal) = retry {
            // What it holds is sent by the next one. Its callbacks come before it is dropped.
            producer.purge(PurgeConfig::default().queue().inflight());
            // What was not answered by then is sent again anyway.
            let _ = producer.flush(Duration::from_secs(1));
            return Err(refusal);
        }
        self.producer = Some(producer);
        match refused.is_empty() {
            true => Ok(()),
            false => Err(Refusal::Records(refused)),
        }
    }
}

fn key_of(key: &Key, record: &EngineRecord<'_>) -> Option<String> {
    match key {
        Key::None => None,
        Key::Process => record
            .process()
            .map(|process| format!("{}/{}/{}", process.host, process.app, process.pid)),
        Key::Field(name) => {
            let mut found = None;
            record.each_field(&mut |key, value| {
                if key == name && found.is_none() {
                    found = Some(value_text(value));
                }
            });
            found
        }
    }
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
        .replace("{level}", crate::json::level_name(record.level()))
}
