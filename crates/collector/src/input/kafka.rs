//! A topic of Kafka, as a member of a group of consumers. Offsets are committed to the group after the records are with the
//! collector; up to there the checkpoint has them, so that what comes again after a kill is left out. So are records whose
//! producer sent them twice under one id.

use super::address::KafkaTopic;
use super::feed::{Group, Source};
use super::intake::Shared;
use super::known_ids::KnownIds;
use crate::error::CollectorError;
use crate::limits::GROUP_MAX;
use logdrive_reader::foreign::{ForeignParser, ForeignRecord};
use logdrive_ring::clock::unix_ns;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{ClientContext, Offset, Timestamp, TopicPartitionList};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Header with the id of a record, as the delivery to Kafka of a collector writes it.
const ID_HEADER: &str = "logdrive-id";
/// Time for which messages are gathered once one has come.
const GATHER_TIME: Duration = Duration::from_millis(50);
/// Messages that the client holds for each partition, in KiB.
const QUEUED_KBYTES: &str = "8192";

/// Offsets by partition.
type Offsets = BTreeMap<i32, i64>;

/// Callbacks of the consumer.
#[derive(Debug, Default)]
struct Context {
    /// Offsets that the group has by our commits.
    committed: Mutex<Offsets>,
    /// Last error of the client as a whole, such as that no broker can be reached.
    error: Mutex<String>,
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = format!("{error}: {reason}");
    }

    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}
}

impl ConsumerContext for Context {
    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        if result.is_err() {
            // The state has what was read; the next message of a partition has it committed.
            return;
        }
        let mut committed = self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        for element in offsets.elements() {
            if let Offset::Offset(offset) = element.offset() {
                committed.insert(element.partition(), offset);
            }
        }
    }
}

/// A topic that is read.
pub(crate) struct Topic {
    config: ClientConfig,
    address: KafkaTopic,
    consumer: Option<BaseConsumer<Context>>,
    /// Offsets behind what was read.
    next: Offsets,
    /// Offsets that the group has had from us when it was asked last; what comes from before them was asked for again.
    committed: Offsets,
    /// Partitions that messages came from since they were committed.
    to_commit: BTreeSet<i32>,
    seen: KnownIds,
    parser: ForeignParser,
    shared: Arc<Shared>,
}

impl Topic {
    /// Makes the consumer; `member` stays the same over restarts, so that a group gives it its partitions again at once.
    pub(crate) fn new(
        address: &KafkaTopic,
        member: u128,
        position: &Value,
        shared: Arc<Shared>,
    ) -> Result<Self, CollectorError> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &address.brokers)
            .set("client.id", "logdrive")
            .set("group.id", &address.group)
            .set("group.instance.id", format!("logdrive-{member:032x}"))
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("queued.max.messages.kbytes", QUEUED_KBYTES);
        if let Some(path) = &address.config_file {
            let text = std::fs::read_to_string(path).map_err(CollectorError::file("read", path))?;
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            for (name, value) in lines.filter_map(|line| line.split_once('=')) {
                config.set(name.trim(), value.trim());
            }
        }
        let mut topic = Self {
            config,
            address: address.clone(),
            consumer: None,
            next: offsets_of(position, "next"),
            committed: offsets_of(position, "committed"),
            to_commit: BTreeSet::new(),
            seen: KnownIds::of_value(position.get("seen").unwrap_or(&Value::Null)),
            parser: ForeignParser::default(),
            shared,
        };
        topic.start().map_err(|error| CollectorError::InputClient {
            address: format!("kafka://{}/{}", address.brokers, address.topic),
            why: error.to_string(),
        })?;
        Ok(topic)
    }

    fn start(&mut self) -> Result<(), KafkaError> {
        let consumer: BaseConsumer<Context> = self.config.create_with_context(Context::default())?;
        consumer.subscribe(&[&self.address.topic])?;
        self.consumer = Some(consumer);
        Ok(())
    }

    fn position(&self) -> Value {
        json!({
            "next": self.next.iter().collect::<Vec<_>>(),
            "committed": self.committed.iter().collect::<Vec<_>>(),
            "seen": self.seen.to_value(),
        })
    }

    fn gather(&mut self, timeout: Duration) -> Result<Option<Group>, KafkaError> {
        let Some(consumer) = &self.consumer else {
            self.start()?;
            return Ok(None);
        };
        let mut until = Instant::now() + timeout;
        let (mut records, mut bytes, mut is_any) = (Vec::new(), 0, false);
        loop {
            let polled = consumer.poll(until.saturating_duration_since(Instant::now()));
            let message = match polled {
                None => break,
                Some(Ok(message)) => message,
                // What came before it is passed on first; the client reports it again while it lasts.
                Some(Err(_)) if is_any => break,
                Some(Err(error)) => return Err(error),
            };
            if !std::mem::replace(&mut is_any, true) {
                until = Instant::now() + GATHER_TIME;
            }
            self.to_commit.insert(message.partition());
            if !is_next(&message, &mut self.next, &mut self.committed) {
                continue;
            }
            let is_duplicate = id_of(&message).is_some_and(|id| !self.seen.insert(id));
            if is_duplicate {
                self.shared.add_duplicate();
            } else {
                bytes += message.payload_len();
                records.push(record(&mut self.parser, &message));
            }
            if records.len() >= GROUP_MAX.0 || bytes >= GROUP_MAX.1 {
                break;
            }
        }
        Ok(is_any.then(|| Group {
            records,
            position: self.position(),
        }))
    }
}

/// Whether a message is new. Those between what the group has and what was read were read before a kill. Those from before
/// what the group has come when somebody has set it back, or the topic was made anew: they are read again.
fn is_next(message: &BorrowedMessage<'_>, next: &mut Offsets, committed: &mut Offsets) -> bool {
    is_next_at(message.partition(), message.offset(), next, committed)
}

fn is_next_at(partition: i32, offset: i64, next: &mut Offsets, committed: &mut Offsets) -> bool {
    let known = next.get(&partition).copied().unwrap_or(0);
    let of_group = committed.get(&partition).copied().unwrap_or(0);
    if offset < known && offset >= of_group {
        return false;
    }
    if offset < of_group {
        committed.insert(partition, offset);
    }
    next.insert(partition, offset.saturating_add(1));
    true
}

fn id_of<'a>(message: &'a BorrowedMessage<'_>) -> Option<&'a [u8]> {
    let headers = message.headers()?;
    let found = headers.iter().find(|header| header.key == ID_HEADER)?;
    found.value
}

fn record(parser: &mut ForeignParser, message: &BorrowedMessage<'_>) -> ForeignRecord {
    let mut record = parser.read(message.payload().unwrap_or_default());
    let time = match message.timestamp() {
        Timestamp::CreateTime(ms) | Timestamp::LogAppendTime(ms) => u64::try_from(ms).ok(),
        Timestamp::NotAvailable => None,
    };
    let time = time.and_then(|ms| ms.checked_mul(1_000_000));
    record.unix_ns = record.unix_ns.or(time).or_else(|| Some(unix_ns()));
    record
}

fn offsets_of(position: &Value, name: &str) -> Offsets {
    let pair = |pair: &Value| {
        Some((
            i32::try_from(pair.get(0)?.as_i64()?).ok()?,
            pair.get(1)?.as_i64()?,
        ))
    };
    let pairs = position.get(name).and_then(Value::as_array);
    pairs.into_iter().flatten().filter_map(pair).collect()
}

impl Source for Topic {
    fn read(&mut self, timeout: Duration) -> Result<Option<Group>, String> {
        if let Some(consumer) = &self.consumer {
            let mut committed = consumer
                .context()
                .committed
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            self.committed.append(&mut committed);
        }
        let gathered = self.gather(timeout).map_err(|error| {
            if let Some(code) = error.rdkafka_error_code()
                && code == rdkafka::types::RDKafkaErrorCode::Fatal
            {
                self.consumer = None;
            }
            error.to_string()
        })?;
        if let (None, Some(consumer)) = (&gathered, &self.consumer) {
            let mut error = consumer
                .context()
                .error
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            match std::mem::take(&mut *error) {
                why if why.is_empty() => {}
                why => return Err(why),
            }
        }
        Ok(gathered)
    }

    fn kept(&mut self, _: &Value) {
        let Some(consumer) = &self.consumer else { return };
        let mut list = TopicPartitionList::new();
        // Partitions that have passed to others are theirs to commit.
        for element in consumer.assignment().unwrap_or_default().elements() {
            let partition = element.partition();
            if self.to_commit.remove(&partition)
                && let Some(offset) = self.next.get(&partition)
            {
                // A partition that is listed twice cannot be.
                let _ = list.add_partition_offset(&self.address.topic, partition, Offset::Offset(*offset));
            }
        }
        self.to_commit.clear();
        if list.count() == 0 {
            return;
        }
        // Where it fails, as while the group shares its partitions anew, the state has what was read.
        let _ = consumer.commit(&list, CommitMode::Async);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_were_read_are_left_out_and_those_that_are_asked_for_again_are_not() {
        let (mut next, mut committed) = (Offsets::new(), Offsets::new());
        let mut is_next =
            |committed: &mut Offsets, partition, offset| is_next_at(partition, offset, &mut next, committed);
        assert!((10..20).all(|offset| is_next(&mut committed, 3, offset)));
        // A kill before the group had anything, and one after it had some.
        assert!((10..20).all(|offset| !is_next(&mut committed, 3, offset)));
        committed.insert(3, 15);
        assert!((15..20).all(|offset| !is_next(&mut committed, 3, offset)));
        assert!(is_next(&mut committed, 3, 25) && is_next(&mut committed, 4, 15));
        // The group was set back, or the topic made anew.
        assert!((0..20).all(|offset| is_next(&mut committed, 3, offset)));
        assert!(!is_next(&mut committed, 3, 19));
    }
}
