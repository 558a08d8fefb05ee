//! A collector whose records go to another one over OpenTelemetry's protocol, by gRPC and by HTTP, while both are killed; and
//! records of other systems that come to its inputs.

use logdrive_testkit::{wait_for, wait_until};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A collector; it is killed when this is dropped.
struct Collector(Child);

impl Collector {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_logdrive"))
            .arg("collect")
            .arg("--out")
            .arg(directory)
            .args(arguments)
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

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Records of a log: how often each number of `n` is there.
fn counts(log: &Path) -> BTreeMap<u64, u32> {
    let mut found = BTreeMap::new();
    for line in std::fs::read_to_string(log).unwrap_or_default().lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("json");
        assert_eq!(
            (&value["level"], &value["message"]),
            (&"WARN".into(), &"slow order".into())
        );
        assert_eq!((&value["app"], &value["took_ms"]), (&"shop".into(), &1.5.into()));
        *found.entry(value["n"].as_u64().expect("a number")).or_default() += 1;
    }
    found
}

fn send(file: &Path, socket: &str, state: &Path) {
    let status = Command::new(env!("CARGO_BIN_EXE_logdrive"))
        .args(["send", "--app", "shop", "--to", socket, "--state"])
        .arg(state)
        .arg(file)
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("a sender").success());
}

fn passes_on(scheme: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let port = free_port();
    let input = format!("http://127.0.0.1:{port}");
    let to = format!("{scheme}://127.0.0.1:{port}");
    let socket = format!("unix://{}", at("c.sock").display());
    let start_near = || Collector::start(&at("near"), &["--listen", &socket, "--to", &to]);
    let mut near = start_near();
    let mut far = None;
    for cycle in 0..4 {
        let line =
            |n: u64| format!("time=2026-11-26T02:00:00Z level=warn msg=\"slow order\" n={n} took_ms=1.5\n");
        let lines: String = (cycle * 100..cycle * 100 + 100).map(line).collect();
        let file = at(&format!("{cycle}.log"));
        std::fs::write(&file, lines).expect("written");
        wait_until("the collector listens", || at("c.sock").exists());
        send(&file, &socket, &at(&format!("{cycle}.state")));
        // The one that takes them comes late, and either is killed.
        if far.is_none() {
            far = Some(Collector::start(&at("far"), &["--input", &input]));
        }
        match cycle % 2 {
            0 => {
                drop(near);
                std::fs::remove_file(at("c.sock")).expect("removed");
                near = start_near();
            }
            _ => far = None,
        }
    }
    let _far = far.unwrap_or_else(|| Collector::start(&at("far"), &["--input", &input]));
    let log = at("far").join("collected.log");
    wait_until("all records have come", || counts(&log).len() == 400);
    // A batch without an answer comes again, with the same ids; OpenTelemetry's receivers do not look at them.
    assert!(counts(&log).keys().copied().eq(0..400));
    drop(near);
}

#[test]
fn records_reach_a_receiver_of_opentelemetry_by_grpc_through_kills() {
    passes_on("otlp");
}

#[test]
fn records_reach_a_receiver_of_opentelemetry_by_http_through_kills() {
    passes_on("otlp+http");
}

#[test]
fn messages_of_syslog_are_records() {
    let directory = tempfile::tempdir().expect("a directory");
    let (udp, tcp) = (free_port(), free_port());
    let inputs = [
        format!("syslog+udp://127.0.0.1:{udp}"),
        format!("syslog+tcp://127.0.0.1:{tcp}"),
    ];
    let _collector = Collector::start(directory.path(), &["--input", &inputs[0], "--input", &inputs[1]]);
    let mut stream = wait_for("the collector listens", || {
        TcpStream::connect(("127.0.0.1", tcp)).ok()
    });
    let text = "<12>1 2026-11-26T02:00:00Z web-1 shop 417 - - slow order";
    writeln!(stream, "{} {text}{text}", text.len()).expect("sent");
    drop(stream);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket
        .send_to(b"<11>Nov 26 02:00:00 web-1 shop[417]: failed", ("127.0.0.1", udp))
        .expect("sent");
    let log = directory.path().join("collected.log");
    let lines = || -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).expect("json"))
            .collect()
    };
    wait_until("all have come", || lines().len() == 3);
    for value in lines() {
        assert_eq!(
            (&value["host"], &value["app"]),
            (&"web-1".into(), &"shop".into()),
            "{value}"
        );
        let is_slow = value["message"] == "slow order" && value["level"] == "WARN";
        assert!(
            is_slow || (value["message"] == "failed" && value["level"] == "ERROR"),
            "{value}"
        );
    }
}
