//! The client of Kafka against the broker that librdkafka brings for tests, over its real protocol.
#![cfg(feature = "kafka")]

#[path = "support/segments.rs"]
mod segments;

use logdrive_engines::{Delivery, LineDelivery, LineDeliveryOptions};
use logdrive_testkit::{DEADLINE, wait_for, wait_until};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use segments::{append, deliver, options};
use std::collections::BTreeMap;
use std::time::Duration;

/// Records of a topic, by id: key and payload.
fn consume(servers: &str, topic: &str, count: usize) -> BTreeMap<u64, (String, serde_json::Value)> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("group.id", "test")
        .set("auto.offset.reset", "earliest")
        .create()
        .expect("a consumer");
    consumer.subscribe(&[topic]).expect("subscribed");
    let (mut found, mut seen) = (BTreeMap::new(), 0);
    while seen < count {
        let message = wait_for("a message", || consumer.poll(Duration::from_millis(100))?.ok());
        seen += 1;
        let header = message.headers().expect("headers").get(0);
        assert_eq!(header.key, "logdrive-id");
        let id = std::str::from_utf8(header.value.expect("a value")).expect("text");
        let number = id.split_once('-').expect("an id").1.parse().expect("a number");
        let key = String::from_utf8(message.key().expect("a key").to_vec()).expect("text");
        let payload = serde_json::from_slice(message.payload().expect("a payload")).expect("json");
        assert!(
            found.insert(number, (key, payload)).is_none(),
            "{number} came twice"
        );
    }
    found
}

#[test]
fn records_are_in_the_topic_of_their_application_under_their_ids_and_their_process() {
    let cluster = MockCluster::new(1).expect("a cluster");
    let servers = cluster.bootstrap_servers();
    let directory = tempfile::tempdir().expect("a directory");
    append(&directory.path().join("shop.segment"), 0..1000);
    let to = format!("kafka://{servers}/logs-{{app}}");
    let counts = deliver(options(directory.path(), to), 1000);
    assert_eq!((counts.records, counts.dead_letters), (1000, 0));
    let found = consume(&servers, "logs-shop", 1000);
    assert!(found.keys().copied().eq(0..1000));
    for (number, (key, value)) in &found {
        assert_eq!(key, "web-1/shop/417");
        assert_eq!(
            (&value["n"], &value["level"]),
            (&(*number).into(), &"INFO".into())
        );
    }
}

#[test]
fn records_wait_for_brokers_that_are_away() {
    let cluster = MockCluster::new(1).expect("a cluster");
    let servers = cluster.bootstrap_servers();
    cluster.broker_down(1).expect("down");
    let directory = tempfile::tempdir().expect("a directory");
    append(&directory.path().join("shop.segment"), 0..100);
    let to = format!("kafka://{servers}/logs");
    let delivery = Delivery::start(options(directory.path(), to)).expect("started");
    wait_until("it has read the log", || delivery.counts().lag_records == 100);
    assert_eq!(delivery.counts().records, 0);
    cluster.broker_up(1).expect("up");
    wait_until("all is delivered", || delivery.counts().records == 100);
    assert_eq!(consume(&servers, "logs", 100).len(), 100);
}

#[test]
fn records_of_a_request_that_was_too_large_are_sent_in_smaller_ones_and_are_no_dead_letters() {
    let cluster = MockCluster::new(1).expect("a cluster");
    // A topic that takes less at once than the producer sends: its answer names no record.
    let too_large = RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    cluster.request_errors(RDKafkaApiKey::Produce, &[too_large; 3]);
    let servers = cluster.bootstrap_servers();
    let directory = tempfile::tempdir().expect("a directory");
    append(&directory.path().join("shop.segment"), 0..1000);
    let to = format!("kafka://{servers}/logs");
    let counts = deliver(options(directory.path(), to), 1000);
    assert_eq!((counts.records, counts.dead_letters), (1000, 0));
    let found = consume(&servers, "logs", 1000);
    assert!(found.keys().copied().eq(0..1000));
}

/// A delivery of lines that are kept as they are.
fn lines(servers: &str, directory: &std::path::Path) -> LineDelivery {
    let options = LineDeliveryOptions {
        to: format!("kafka://{servers}/logs?key=none")
            .parse()
            .expect("an address"),
        delivery: "0123456789abcdef".to_owned(),
        first: 7,
        process: None,
        keeps_lines: true,
        dead_letters: directory.join("dead-letters.jsonl"),
    };
    LineDelivery::start(options).expect("started")
}

#[test]
fn lines_are_messages_as_they_are_in_order_and_wait_for_brokers_that_are_away() {
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic("logs", 1, 1).expect("a topic");
    let servers = cluster.bootstrap_servers();
    let directory = tempfile::tempdir().expect("a directory");
    let mut delivery = lines(&servers, directory.path());
    let mut next = 0;
    let mut push = |delivery: &mut LineDelivery, count: u32| {
        for _ in 0..count {
            // A record of two lines, and one of one.
            let bytes = format!("record {next}\n  more\nrecord {}\n", next + 1).into_bytes();
            let second = bytes.len() - format!("record {}\n", next + 1).len();
            let pushed = delivery.push(bytes, vec![0, second as u32], DEADLINE);
            assert!(pushed.is_ok());
            next += 2;
        }
    };
    push(&mut delivery, 10_000);
    wait_until("some are acknowledged", || delivery.acknowledged() > 7);
    cluster.broker_down(1).expect("down");
    push(&mut delivery, 10_000);
    cluster.broker_up(1).expect("up");
    delivery.stop(DEADLINE);
    assert_eq!((delivery.first_number(), delivery.next_number()), (7, 40_007));
    assert_eq!(
        (delivery.acknowledged(), delivery.counts().records),
        (40_007, 40_000)
    );
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &servers)
        .set("group.id", "test")
        .set("auto.offset.reset", "earliest")
        .create()
        .expect("a consumer");
    consumer.subscribe(&["logs"]).expect("subscribed");
    for number in 0..40_000 {
        let message = wait_for("a message", || consumer.poll(Duration::from_millis(100))?.ok());
        let more = if number % 2 == 0 { "\n  more" } else { "" };
        let payload = message.payload().expect("a payload");
        assert_eq!(String::from_utf8_lossy(payload), format!("record {number}{more}"));
        let header = message.headers().expect("headers").get(0);
        assert_eq!(
            header.value,
            Some(format!("0123456789abcdef-{}", number + 7).as_bytes())
        );
    }
}

#[test]
fn engines_that_know_batches_and_no_records_take_no_lines_by_themselves() {
    let options = LineDeliveryOptions {
        to: "clickhouse+http://127.0.0.1:1/logs".parse().expect("an address"),
        delivery: "0".to_owned(),
        first: 0,
        process: None,
        keeps_lines: false,
        dead_letters: "dead-letters.jsonl".into(),
    };
    let refused = LineDelivery::start(options).expect_err("refused").to_string();
    assert!(refused.contains("logdrive collect --to"), "{refused}");
}
