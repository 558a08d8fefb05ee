//! Deliveries over real sockets: what comes when engines are away, refuse, or answer nothing, and after restarts.

#[path = "support/segments.rs"]
mod segments;

use logdrive_engines::{Delivery, DeliveryOptions};
use logdrive_testkit::{DEADLINE, wait_until};
use segments::{append, deliver, options};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A server of HTTP on a port of its own, which answers with what a function makes of the body: a status and a text, or `None`
/// to close the connection.
type Answering = dyn Fn(&str) -> Option<(u16, String)> + Send + Sync;

struct Server {
    port: u16,
    bodies: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(answer: Arc<Answering>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        Self::on(listener, answer)
    }

    fn on(listener: TcpListener, answer: Arc<Answering>) -> Self {
        let port = listener.local_addr().expect("an address").port();
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, taken) = (Arc::clone(&answer), Arc::clone(&taken));
                std::thread::spawn(move || serve(&stream, &*answer, &taken));
            }
        });
        Self { port, bodies }
    }

    fn all(&self) -> String {
        self.bodies.lock().expect("whole").concat()
    }
}

fn serve(stream: &TcpStream, answer: &Answering, taken: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let body = String::from_utf8(body).expect("text");
        let Some((status, text)) = answer(&body) else {
            return;
        };
        if status < 300 {
            taken.lock().expect("whole").push(body);
        }
        let head = format!(
            "HTTP/1.1 {status} Answer\r\ncontent-length: {}\r\n\r\n",
            text.len()
        );
        let mut stream = stream;
        if stream.write_all(format!("{head}{text}").as_bytes()).is_err() {
            return;
        }
    }
}

fn numbers(lines: &str) -> Vec<u64> {
    let of = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("json");
        value["n"].as_u64().expect("a number")
    };
    lines.lines().map(of).collect()
}

#[test]
fn records_come_in_order_through_rotations_and_outages_once_and_their_files_go() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("shop.segment");
    append(&log, 0..100);
    let rotated = directory.path().join("shop.2026-11-26T00-00-00Z.000001.segment");
    std::fs::rename(&log, &rotated).expect("renamed");
    append(&log, 100..150);
    // Nobody listens at this port for a while.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let to = format!("victorialogs+http://127.0.0.1:{port}");
    let delivery = Delivery::start(options(directory.path(), to.clone())).expect("started");
    wait_until("an error is told", || !delivery.counts().error.is_empty());
    assert!(delivery.notices().concat().contains(&to));
    assert_eq!(delivery.counts().lag_records, 150);
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port");
    let server = Server::on(listener, Arc::new(|_: &str| Some((200, String::new()))));
    append(&log, 150..160);
    wait_until("all is delivered", || delivery.counts().records == 160);
    append(&log, 160..170);
    wait_until("what came later, too", || delivery.counts().records == 170);
    assert_eq!(numbers(&server.all()), (0..170).collect::<Vec<_>>());
    assert!(!rotated.exists() && log.exists());
    let first = server.all().lines().next().expect("a line").to_owned();
    let value: serde_json::Value = serde_json::from_str(&first).expect("json");
    assert_eq!(value["message"], "order 0 filled");
    assert_eq!((&value["app"], &value["host"]), (&"shop".into(), &"web-1".into()));
    assert!(delivery.counts().retries > 0 && delivery.counts().error.is_empty());
}

#[test]
fn records_of_files_that_went_while_no_delivery_ran_are_counted_and_numbers_are_not_used_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("shop.segment");
    let rotated = |number: u32| {
        directory
            .path()
            .join(format!("shop.2026-11-26T00-00-00Z.00000{number}.segment"))
    };
    append(&log, 0..100);
    let server = Server::start(Arc::new(|_: &str| Some((200, String::new()))));
    let to = format!("victorialogs+http://127.0.0.1:{}", server.port);
    assert_eq!(deliver(options(directory.path(), to.clone()), 100).lost, 0);
    // Nobody takes these, but they are counted.
    std::fs::rename(&log, rotated(1)).expect("renamed");
    append(&log, 100..150);
    std::fs::rename(&log, rotated(2)).expect("renamed");
    append(&log, 150..180);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = listener.local_addr().expect("an address").port();
    drop(listener);
    let away = format!("victorialogs+http://127.0.0.1:{nobody}");
    let delivery = Delivery::start(options(directory.path(), away)).expect("started");
    wait_until("it has looked", || delivery.counts().lag_records == 80);
    wait_until("it has tried", || !delivery.counts().error.is_empty());
    drop(delivery);
    std::fs::remove_file(rotated(1)).expect("removed");
    std::fs::remove_file(rotated(2)).expect("removed");
    let counts = deliver(options(directory.path(), to.clone()), 30);
    assert_eq!((counts.records, counts.lost), (30, 50));
    // All files gone: what comes then has numbers of its own.
    std::fs::remove_file(&log).expect("removed");
    append(&log, 180..190);
    let counts = deliver(options(directory.path(), to), 10);
    assert_eq!((counts.records, counts.lost), (10, 0));
    let expected: Vec<u64> = (0..100).chain(150..190).collect();
    assert_eq!(numbers(&server.all()), expected);
    let state = std::fs::read_to_string(directory.path().join("delivery.state")).expect("a state");
    let state: serde_json::Value = serde_json::from_str(&state).expect("json");
    assert_eq!(state["number"], 190);
}

#[test]
fn a_batch_without_an_answer_comes_again_with_the_same_ids_also_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("shop.segment");
    append(&log, 0..50);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let silent = Arc::clone(&seen);
    let server = Server::start(Arc::new(move |body: &str| {
        silent.lock().expect("whole").push(body.to_owned());
        None
    }));
    let to = format!("elastic+http://127.0.0.1:{}/logs", server.port);
    let delivery = Delivery::start(options(directory.path(), to)).expect("started");
    wait_until("it was sent", || !seen.lock().expect("whole").is_empty());
    drop(delivery);
    // What comes meanwhile is no part of the batch that was begun.
    append(&log, 50..60);
    let items = |body: &str| {
        let item = r#"{"create":{"status":201}},"#.repeat(body.lines().count() / 2);
        format!("{{\"errors\":false,\"items\":[{}]}}", item.trim_end_matches(','))
    };
    let server = Server::start(Arc::new(move |body: &str| Some((200, items(body)))));
    let to = format!("elastic+http://127.0.0.1:{}/logs", server.port);
    assert_eq!(deliver(options(directory.path(), to), 60).dead_letters, 0);
    let bodies = server.bodies.lock().expect("whole").clone();
    let first = seen.lock().expect("whole").first().expect("a body").clone();
    assert_eq!(bodies.first(), Some(&first));
    assert_eq!(bodies.concat().lines().count(), 2 * 60);
    assert!(
        first.contains("\"@timestamp\":\"2023-11-14T22:13:20.000000000Z\""),
        "{first}"
    );
}

#[test]
fn a_record_that_is_refused_is_a_dead_letter_and_the_others_are_delivered() {
    let directory = tempfile::tempdir().expect("a directory");
    append(&directory.path().join("shop.segment"), 0..40);
    let server = Server::start(Arc::new(|body: &str| match body.contains("order 17 filled") {
        true => Some((400, "no such order".to_owned())),
        false => Some((204, String::new())),
    }));
    let to = format!("victorialogs+http://127.0.0.1:{}", server.port);
    let counts = deliver(options(directory.path(), to), 39);
    assert_eq!((counts.records, counts.dead_letters), (39, 1));
    let mut found = numbers(&server.all());
    found.sort_unstable();
    let expected: Vec<u64> = (0..40).filter(|number| *number != 17).collect();
    assert_eq!(found, expected);
    let letters = std::fs::read_to_string(directory.path().join("dead-letters.jsonl")).expect("a file");
    let letter: serde_json::Value = serde_json::from_str(&letters).expect("one line of json");
    assert_eq!(letter["record"]["n"], 17);
    assert!(letter["why"].as_str().expect("a text").contains("no such order"));
    assert!(letter["id"].as_str().expect("a text").ends_with("-17"));
}

#[test]
fn requests_to_loki_are_no_larger_than_its_parts_pass_on_to_each_other() {
    let directory = tempfile::tempdir().expect("a directory");
    append(&directory.path().join("shop.segment"), 0..30_000);
    let server = Server::start(Arc::new(|body: &str| {
        Some(match body.len() > 4 << 20 {
            // Its answer is that of a failure that passes.
            true => (500, "grpc: received message larger than max".to_owned()),
            false => (204, String::new()),
        })
    }));
    let counts = deliver(
        options(directory.path(), format!("loki+http://127.0.0.1:{}", server.port)),
        30_000,
    );
    assert_eq!(
        (counts.records, counts.retries, counts.dead_letters),
        (30_000, 0, 0)
    );
    let bodies = server.bodies.lock().expect("whole");
    assert!(bodies.len() > 1);
    let lines: usize = bodies.iter().map(|body| body.matches("\\\"n\\\":").count()).sum();
    assert_eq!(lines, 30_000);
}

#[test]
fn documents_that_are_there_already_are_no_errors_and_refused_ones_are_dead_letters() {
    let directory = tempfile::tempdir().expect("a directory");
    append(&directory.path().join("shop.segment"), 0..3);
    let server = Server::start(Arc::new(|_: &str| {
        let items = r#"{"create":{"status":409}},{"create":{"status":400,"error":{"type":"mapper"}}},{"create":{"status":201}}"#;
        Some((200, format!("{{\"errors\":true,\"items\":[{items}]}}")))
    }));
    let to = format!("elastic+http://127.0.0.1:{}/logs-{{date}}", server.port);
    let counts = deliver(options(directory.path(), to), 2);
    assert_eq!((counts.records, counts.dead_letters), (2, 1));
    assert!(server.all().contains("\"_index\":\"logs-2023-11-14\""));
}

#[test]
fn what_a_writer_may_take_back_is_not_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("shop.segment");
    append(&log, 0..10);
    let end: Arc<Mutex<u64>> = Arc::new(Mutex::new(std::fs::metadata(&log).expect("a file").len()));
    append(&log, 10..20);
    let server = Server::start(Arc::new(|_: &str| Some((200, String::new()))));
    let written = Arc::clone(&end);
    let options = DeliveryOptions {
        written: Some(Arc::new(move |_, _| Some(*written.lock().expect("whole")))),
        ..options(
            directory.path(),
            format!("victorialogs+http://127.0.0.1:{}", server.port),
        )
    };
    let delivery = Delivery::start(options).expect("started");
    wait_until("the first block is delivered", || delivery.counts().records == 10);
    wait_until("it has looked again", || delivery.is_idle());
    assert_eq!(delivery.counts().records, 10);
    *end.lock().expect("whole") = u64::MAX;
    wait_until("all is delivered", || delivery.counts().records == 20);
    assert_eq!(numbers(&server.all()), (0..20).collect::<Vec<_>>());
}

#[test]
fn syslog_sends_what_a_broken_connection_may_have_lost_again() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let to = format!("syslog+tcp://{}", listener.local_addr().expect("an address"));
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("shop.segment");
    append(&log, 0..100);
    let delivery = Delivery::start(options(directory.path(), to)).expect("started");
    let (first, _) = listener.accept().expect("a connection");
    wait_until("the first are written", || delivery.counts().records == 100);
    // The server ends with these in its buffer: nobody has read them.
    drop(first);
    append(&log, 100..200);
    let (second, _) = listener.accept().expect("a connection");
    second.set_read_timeout(Some(DEADLINE)).expect("set");
    let mut lines = BufReader::new(second);
    let (mut text, mut seen) = (String::new(), 0);
    while seen < 200 {
        text.clear();
        let mut byte = [0];
        while byte != *b"]" {
            lines.read_exact(&mut byte).expect("a message");
            text.push(byte[0].into());
        }
        if text.contains(&format!(" n=\"{seen}\"")) {
            seen += 1;
        }
    }
    delivery.begin_stop(Duration::ZERO);
    assert_eq!(seen, 200);
}
