//! Topics of Kafka as an input of a collector, against the broker that librdkafka brings for tests.
#![cfg(feature = "kafka")]

use logdrive_testkit::wait_until;
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A collector; it is killed when this is dropped.
struct Collector(Child);

impl Collector {
    fn start(out: &Path, input: &str) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_logdrive"))
            .args(["collect", "--input", input, "--out"])
            .arg(out)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("a collector"))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("an end");
    }
}

/// Numbers of the records of a log, and how often each is there.
fn counts(log: &Path) -> BTreeMap<u64, u32> {
    let mut found = BTreeMap::new();
    let text = std::fs::read_to_string(log).unwrap_or_default();
    // The last line may be under way.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for line in whole.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("json");
        *found.entry(value["n"].as_u64().expect("a number")).or_default() += 1;
    }
    found
}

/// Address of the topic, for a consumer that is another member of the group each time: this broker knows none that come back,
/// and forgets one that was killed after the session timeout, which is longer than its wait for further members.
fn input(servers: &str, directory: &Path, start: u32) -> String {
    let file = directory.join("kafka.conf");
    let text =
        format!("group.instance.id=start-{start}\nsession.timeout.ms=6000\nheartbeat.interval.ms=500\n");
    std::fs::write(&file, text).expect("written");
    format!("kafka://{servers}/logs?group=test&config_file={}", file.display())
}

fn producer(servers: &str) -> BaseProducer {
    ClientConfig::new()
        .set("bootstrap.servers", servers)
        .create()
        .expect("a producer")
}

fn produce(producer: &BaseProducer, numbers: std::ops::Range<u64>, delivery: Option<&str>) {
    for number in numbers {
        let text = format!(
            "{{\"time\":\"2026-11-26T02:00:00Z\",\"level\":\"info\",\"message\":\"order\",\"n\":{number}}}"
        );
        let mut record = BaseRecord::<(), str>::to("logs").payload(&text);
        if let Some(delivery) = delivery {
            let id = format!("{delivery}-{number}");
            let header = Header {
                key: "logdrive-id",
                value: Some(&id),
            };
            record = record.headers(OwnedHeaders::new().insert(header));
        }
        producer.send(record).expect("sent");
    }
    producer.flush(Duration::from_secs(60)).expect("flushed");
}

#[test]
fn records_of_a_topic_are_in_the_log_once_each_through_a_kill_and_so_are_those_that_were_sent_twice() {
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic("logs", 4, 1).expect("a topic");
    let servers = cluster.bootstrap_servers();
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("collected.log");
    let start = |start: u32| Collector::start(directory.path(), &input(&servers, directory.path(), start));
    let producer = producer(&servers);
    let delivery = Some("00c0ffee00c0ffee");
    produce(&producer, 0..300, delivery);
    produce(&producer, 1_000..1_300, None);
    let collector = start(0);
    wait_until("records have come", || !counts(&log).is_empty());
    drop(collector);
    // What a delivery that was killed sends again, and what it goes on with.
    produce(&producer, 200..600, delivery);
    produce(&producer, 1_300..1_600, None);
    let _collector = start(1);
    wait_until("all have come", || counts(&log).len() == 1_200);
    // Behind all that could come again: without ids they are different records.
    produce(&producer, 1_500..1_700, None);
    let total = || counts(&log).values().sum::<u32>();
    wait_until("the others have come", || {
        counts(&log).len() == 1_300 && total() >= 1_400
    });
    assert_eq!(total(), 1_400);
    assert!(counts(&log).range(1_500..1_600).all(|(_, count)| *count == 2));
}
