//! `logdrive bench transport`: every transport carries what is sent, in one process and between two.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

fn logdrive(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logdrive"));
    command.args(["bench", "transport"]).args(words);
    command
}

fn figures(output: &[u8]) -> Vec<serde_json::Value> {
    let text = std::str::from_utf8(output).expect("text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn each_transport_carries_messages_and_answers() {
    let output = logdrive(&["--time", "30ms", "--json", "--message", "1KiB"])
        .output()
        .expect("it starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let found = figures(&output.stdout);
    let names: Vec<&str> = found
        .iter()
        .filter_map(|line| line["transport"].as_str())
        .collect();
    assert_eq!(
        names,
        ["shm://", "unix://", "tcp://", "tls://", "quic://", "udp://"]
    );
    for line in found {
        let is_udp = line["transport"] == "udp://";
        assert!(line["one_way_per_s"].as_f64() > Some(0.0), "{line}");
        assert!(is_udp || line["lost"] == 0, "{line}");
        assert_eq!(line["round_trips_per_s"].as_f64() > Some(0.0), !is_udp, "{line}");
    }
}

/// A receiving end, which ends with the test.
struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn one_process_sends_to_another() {
    let mut receiver = logdrive(&["--listen", "tcp://127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map(Receiver)
        .expect("it starts");
    let mut line = String::new();
    let stderr = receiver.0.stderr.take().expect("a pipe");
    BufReader::new(stderr).read_line(&mut line).expect("a line");
    let address = line
        .split_whitespace()
        .nth(2)
        .expect("an address")
        .trim_end_matches(';');
    let output = logdrive(&["--to", address, "--time", "30ms", "--json"])
        .output()
        .expect("it starts");
    let found = figures(&output.stdout);
    assert_eq!(found.len(), 1, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(found[0]["lost"], 0, "{}", found[0]);
}

#[test]
fn a_wrong_transport_is_named_with_those_there_are() {
    let output = logdrive(&["--transport", "carrier-pigeon"])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("shm") && text.contains("quic"), "{text}");
}
