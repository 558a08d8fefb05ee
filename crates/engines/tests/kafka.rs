//! The client of Kafka against the broker that librdkafka brings for tests, over its real protocol.
#![cfg(feature = "kafka")]

#[path = "support/segments.rs"]
mod segments;

use logdrive_engines::Delivery;
use logdrive_testkit::{wait_for, wait_until};
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
