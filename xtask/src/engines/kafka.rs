//! Kafka: three brokers in KRaft mode on loopback addresses, from Maven's packages.

use super::load::put_line;
use super::maven;
use super::process::{Process, free_port, wait_for_port};
use super::server::{Origin, Row, Server, write};
use crate::shell::{Call, Failure, Outcome};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DEPENDENCIES: [&str; 3] = [
    "org.apache.kafka:kafka_2.13:4.3.1",
    "org.apache.kafka:kafka-tools:4.3.1",
    "org.slf4j:slf4j-nop:1.7.36",
];
const CLUSTER: &str = "MkU3OEVBNTcwNTJENDM2Qk";
const BROKERS: u8 = 3;
/// Bytes of a batch that the topic takes: fewer than the client puts into one, so that it has to find out.
const TOPIC_BYTES_MAX: usize = 30_000;
/// Time for a broker to start on a machine that is busy.
const START_TIMEOUT: Duration = Duration::from_secs(90);

struct Kafka {
    libraries: PathBuf,
    brokers: Vec<Process>,
    ports: Vec<u16>,
}

/// Starts the brokers and makes the topic.
pub(super) fn start(tools: &Path, data: &Path, _: &Path) -> Result<Box<dyn Server>, Failure> {
    let topic = format!("--config max.message.bytes={TOPIC_BYTES_MAX}");
    Ok(Box::new(start_brokers(tools, data, &topic)?))
}

/// Starts the brokers, and makes the topic that records are read from.
pub(super) fn start_origin(tools: &Path, data: &Path, _: &Path) -> Result<Box<dyn Origin>, Failure> {
    Ok(Box::new(Topic {
        kafka: start_brokers(tools, data, "")?,
        messages: data.join("messages"),
    }))
}

fn start_brokers(tools: &Path, data: &Path, topic: &str) -> Result<Kafka, Failure> {
    let libraries = maven::libraries(tools, &DEPENDENCIES)?;
    let ports: Vec<u16> = (0..BROKERS).map(|_| free_port()).collect::<Result<_, _>>()?;
    let controllers: Vec<u16> = (0..BROKERS).map(|_| free_port()).collect::<Result<_, _>>()?;
    let mut kafka = Kafka {
        libraries,
        brokers: Vec::new(),
        ports,
    };
    for id in 1..=BROKERS {
        let config = data.join(format!("broker-{id}.properties"));
        write(&config, &properties(id, &kafka.ports, &controllers, data))?;
        let config = config.display().to_string();
        Call::new("java")
            .args(kafka.java("kafka.tools.StorageTool"))
            .args(["format", "-t", CLUSTER, "-c", &config])
            .stdout()?;
        let words = kafka.java("kafka.Kafka").into_iter().chain([config]);
        let words = std::iter::once("java".to_owned()).chain(words);
        kafka
            .brokers
            .push(Process::new(data, &format!("broker-{id}"), words));
    }
    for broker in &mut kafka.brokers {
        broker.start()?;
    }
    kafka.wait()?;
    let servers = kafka.servers();
    Call::new("java")
        .args(kafka.java("org.apache.kafka.tools.TopicCommand"))
        .args(["--bootstrap-server", &servers, "--create", "--topic", "logs"])
        .words("--partitions 6 --replication-factor 3 --config min.insync.replicas=2")
        .words(topic)
        .stdout()?;
    Ok(kafka)
}

fn host(id: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, id)
}

fn properties(id: u8, ports: &[u16], controllers: &[u16], data: &Path) -> String {
    let at = usize::from(id) - 1;
    let voters: Vec<String> = (1..=BROKERS)
        .zip(controllers)
        .map(|(id, port)| format!("{id}@{}:{port}", host(id)))
        .collect();
    let (address, port, controller) = (host(id), ports[at], controllers[at]);
    format!(
        "process.roles=broker,controller
node.id={id}
controller.quorum.voters={}
listeners=PLAINTEXT://{address}:{port},CONTROLLER://{address}:{controller}
advertised.listeners=PLAINTEXT://{address}:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={}
offsets.topic.replication.factor=3
auto.create.topics.enable=false
",
        voters.join(","),
        data.join(format!("broker-{id}")).display()
    )
}

impl Kafka {
    /// Arguments of `java` for a class.
    fn java(&self, class: &str) -> Vec<String> {
        let path = format!("{}/*", self.libraries.display());
        let options = [
            "-Xmx320m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            &path,
            class,
        ];
        options.map(str::to_owned).to_vec()
    }

    fn servers(&self) -> String {
        let servers = (1..=BROKERS).zip(&self.ports);
        let servers: Vec<String> = servers.map(|(id, port)| format!("{}:{port}", host(id))).collect();
        servers.join(",")
    }
}

impl Server for Kafka {
    fn address(&self) -> String {
        format!("kafka://{}/logs?key=none", self.servers())
    }

    fn processes(&mut self) -> &mut [Process] {
        &mut self.brokers
    }

    fn wait(&mut self) -> Outcome {
        for (id, port) in (1..=BROKERS).zip(&self.ports) {
            wait_for_port("a broker", host(id), *port, START_TIMEOUT)?;
        }
        Ok(())
    }

    fn rows(&mut self) -> Result<Vec<Row>, Failure> {
        let text = Call::new("java")
            .args(self.java("org.apache.kafka.tools.consumer.ConsoleConsumer"))
            .args(["--bootstrap-server", &self.servers(), "--topic", "logs"])
            .words("--from-beginning --timeout-ms 20000 --formatter-property print.headers=true")
            .stdout()?;
        text.lines().map(row).collect()
    }

    fn poison(&self) -> Option<String> {
        Some(format!(",\"blob\":\"{}\"", super::load::noise(50_000)))
    }
}

/// A topic that a producer of Kafka's own writes to.
struct Topic {
    kafka: Kafka,
    /// File of the messages that the producer reads.
    messages: PathBuf,
}

impl Origin for Topic {
    fn address(&self) -> String {
        format!("kafka://{}/logs?group=proof", self.kafka.servers())
    }

    fn append(&mut self, numbers: Range<u64>) -> Outcome {
        let mut text = String::new();
        numbers.for_each(|number| put_line(number, "", &mut text));
        write(&self.messages, &text)?;
        let mut words = self.kafka.java("org.apache.kafka.tools.ConsoleProducer");
        words.extend(["--bootstrap-server", &self.kafka.servers(), "--topic", "logs"].map(str::to_owned));
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let line = format!("java {} < '{}'", words.join(" "), self.messages.display());
        Call::new("sh").args(["-c", &line]).stdout()?;
        Ok(())
    }

    fn processes(&mut self) -> &mut [Process] {
        &mut self.kafka.brokers
    }

    fn wait(&mut self) -> Outcome {
        Server::wait(&mut self.kafka)
    }
}

/// Reads a line of headers, tab and object.
fn row(line: &str) -> Result<Row, Failure> {
    let found = line.split_once('\t').and_then(|(headers, object)| {
        let id = headers.strip_prefix("logdrive-id:")?.to_owned();
        Some(Row {
            number: super::load::number(object)?,
            id,
        })
    });
    found.ok_or_else(|| Failure::new(format!("a message is no record: {line:.200}"), ""))
}
