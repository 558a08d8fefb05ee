//! A collector whose records go to another one over OpenTelemetry's protocol, by gRPC and by HTTP, while both are killed; and
//! records of other systems that come to its inputs.

use logdrive_testkit::{wait_for, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
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

/// Values of a log of JSON, which may be written at this moment.
fn values(log: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let value = |line| serde_json::from_str(line).expect("json");
    whole.lines().map(value).collect()
}

/// Records of a log: how often each number of `n` is there.
fn counts(log: &Path) -> BTreeMap<u64, u32> {
    let mut found = BTreeMap::new();
    for value in values(log) {
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
    wait_until("all have come", || values(&log).len() == 3);
    for value in values(&log) {
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

#[test]
fn messages_of_syslog_come_over_tls_from_peers_with_a_certificate() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = directory.path().join("keys");
    let made = Command::new(env!("CARGO_BIN_EXE_logdrive"))
        .args(["collect", "--make-certificates"])
        .arg(&keys)
        .output();
    assert!(made.expect("run").status.success());
    let file = |name: &str| keys.join(name).display().to_string();
    let port = free_port();
    let out = directory.path().join("out");
    let _collector = Collector::start(
        &out,
        &[
            "--input",
            &format!("syslog+tls://127.0.0.1:{port}"),
            "--tls-ca",
            &file("authority.pem"),
            "--tls-cert",
            &file("server.pem"),
            "--tls-key",
            &file("server.key"),
        ],
    );
    wait_for("the collector listens", || {
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    let text = "<11>1 2026-11-26T02:00:00Z web-1 shop 417 - - failed";
    let send = |has_certificate: bool| {
        let mut stream = tls_stream(&keys, has_certificate, port);
        // One without a certificate may be told so at its first read only.
        let sent = write!(stream, "{} {text}{} {text}", text.len(), text.len());
        stream.conn.send_close_notify();
        let is_flushed = stream.flush().is_ok();
        let end = std::io::Read::read(&mut stream, &mut [0; 8]);
        sent.is_ok() && is_flushed && end.is_ok()
    };
    assert!(!send(false), "a peer without a certificate is refused");
    send(true);
    let log = out.join("collected.log");
    wait_until("all have come", || values(&log).len() == 2);
    for value in values(&log) {
        assert_eq!(
            (&value["host"], &value["message"]),
            (&"web-1".into(), &"failed".into()),
            "{value}"
        );
        assert_eq!(value["peer"], "cert:logdrive_client", "{value}");
    }
}

/// A connection by TLS 1.2 or 1.3, as programs of others make it.
fn tls_stream(
    keys: &Path,
    has_certificate: bool,
    port: u16,
) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let certificate = |name: &str| CertificateDer::from_pem_file(keys.join(name)).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate("authority.pem")).expect("an authority");
    let builder =
        rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
    let config = match has_certificate {
        true => builder
            .with_client_auth_cert(
                vec![certificate("client.pem")],
                PrivateKeyDer::from_pem_file(keys.join("client.key")).expect("a key"),
            )
            .expect("sound"),
        false => builder.with_no_client_auth(),
    };
    let name = "localhost".try_into().expect("a name");
    let connection = rustls::ClientConnection::new(config.into(), name).expect("a connection");
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    rustls::StreamOwned::new(connection, stream)
}

/// Makes a journal of entries with these numbers, as systemd-journald writes one; `None` where its tools are missing.
fn make_journal(directory: &Path, name: &str, numbers: std::ops::Range<u64>) -> Option<()> {
    let remote = "/lib/systemd/systemd-journal-remote";
    if !Path::new(remote).exists() || Command::new("journalctl").arg("--version").output().is_err() {
        return None;
    }
    let mut text = Vec::new();
    for number in numbers {
        let time = 1_795_654_800_000_000 + number;
        write!(
            text,
            "__REALTIME_TIMESTAMP={time}\n__MONOTONIC_TIMESTAMP={number}\n_BOOT_ID=0123456789abcdef0123456789abcdef\n\
             PRIORITY=3\n_HOSTNAME=web-1\nSYSLOG_IDENTIFIER=shop\n_PID=417\nNUMBER={number}\n"
        )
        .expect("written");
        let message = "failed\nwith a line more";
        text.extend_from_slice(b"MESSAGE\n");
        text.extend_from_slice(&(message.len() as u64).to_le_bytes());
        text.extend_from_slice(message.as_bytes());
        text.extend_from_slice(b"\n\n");
    }
    let export = directory.join(format!("{name}.export"));
    std::fs::write(&export, text).expect("written");
    let journal = directory.join(format!("{name}.journal"));
    let made = Command::new(remote)
        .arg("-o")
        .arg(&journal)
        .arg(&export)
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("run").success());
    std::fs::remove_file(export).expect("removed");
    Some(())
}

#[test]
fn entries_of_the_journal_are_records_once_each_through_kills_and_what_was_removed_is_a_gap() {
    let directory = tempfile::tempdir().expect("a directory");
    let (journal, out) = (directory.path().join("journal"), directory.path().join("out"));
    std::fs::create_dir(&journal).expect("made");
    if make_journal(&journal, "a", 0..500).is_none() {
        eprintln!("skipped: apt-get install systemd systemd-journal-remote");
        return;
    }
    let input = format!("journald://{}", journal.display());
    let start = || Collector::start(&out, &["--input", &input]);
    let log = out.join("collected.log");
    let numbers = || -> Vec<u64> {
        let number = |value: &serde_json::Value| value["number"].as_str()?.parse().ok();
        let mut found: Vec<u64> = values(&log).iter().filter_map(number).collect();
        found.sort_unstable();
        found
    };
    for cycle in 0..4 {
        let collector = start();
        wait_until("some have come", || numbers().len() as u64 >= 100 * cycle);
        drop(collector);
    }
    let collector = start();
    wait_until("all have come", || numbers().len() >= 500);
    let value = values(&log).remove(0);
    assert_eq!(
        (&value["level"], &value["app"]),
        (&"ERROR".into(), &"shop".into()),
        "{value}"
    );
    assert_eq!(value["message"], "failed\nwith a line more");
    drop(collector);
    // The files that it has read are removed, and others come.
    std::fs::remove_file(journal.join("a.journal")).expect("removed");
    make_journal(&journal, "b", 600..700).expect("made");
    let _collector = start();
    wait_until("the others have come", || numbers().len() >= 600);
    assert!(numbers().into_iter().eq((0..500).chain(600..700)));
    let is_gap = |value: &&serde_json::Value| {
        value["message"]
            .as_str()
            .is_some_and(|text| text.contains("were removed"))
    };
    assert_eq!(values(&log).iter().filter(is_gap).count(), 1);
}

#[test]
fn logs_of_containers_are_records_with_their_pods_once_each_through_kills() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("out");
    let pod = |number: u32| {
        directory
            .path()
            .join(format!("pods/shop_orders-{number}_0b1c/server"))
    };
    let input = format!("files://{}/pods/*/*/*.log", directory.path().display());
    let log = out.join("collected.log");
    let numbers = || -> Vec<u64> {
        let number = |value: &serde_json::Value| value["n"].as_u64();
        let mut found: Vec<u64> = values(&log).iter().filter_map(number).collect();
        found.sort_unstable();
        found
    };
    let mut next = 0;
    for cycle in 0..4_u32 {
        // A pod comes while the collector runs, and one that was there goes on.
        let collector = Collector::start(&out, &["--input", &input]);
        for number in [cycle, cycle.saturating_sub(1)] {
            std::fs::create_dir_all(pod(number)).expect("made");
            let file = std::fs::File::options()
                .append(true)
                .create(true)
                .open(pod(number).join("0.log"));
            let mut file = file.expect("opened");
            for _ in 0..50 {
                let line =
                    format!("2026-11-26T02:00:00.{next:09}Z stdout F level=warn msg=\"slow order\" n={next}");
                writeln!(file, "{line}").expect("written");
                next += 1;
            }
        }
        if cycle % 2 == 1 {
            wait_until("all have come", || numbers().len() as u64 >= next);
        }
        drop(collector);
    }
    let _collector = Collector::start(&out, &["--input", &input]);
    wait_until("all have come", || numbers().len() as u64 >= next);
    assert!(numbers().into_iter().eq(0..next));
    for value in values(&log) {
        let names = [&value["namespace"], &value["container"], &value["process"]];
        assert_eq!(
            names,
            [
                &"shop".into(),
                &"server".into(),
                &serde_json::Value::from("server")
            ],
            "{value}"
        );
        assert_eq!(
            (&value["level"], &value["message"]),
            (&"WARN".into(), &"slow order".into()),
            "{value}"
        );
        assert!(
            value["pod"]
                .as_str()
                .is_some_and(|pod| pod.starts_with("orders-")),
            "{value}"
        );
    }
}

/// Records of an engine that a sender was to reach by itself: the ids of each number.
fn ids(log: &Path) -> BTreeMap<u64, BTreeSet<String>> {
    let mut found: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for value in values(log) {
        let id = value["log.record.uid"].as_str().expect("an id").to_owned();
        found
            .entry(value["n"].as_u64().expect("a number"))
            .or_default()
            .insert(id);
    }
    found
}

#[test]
fn a_log_goes_to_an_engine_without_a_collector_and_killed_senders_leave_nothing_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let port = free_port();
    let far = Collector::start(&at("far"), &["--input", &format!("http://127.0.0.1:{port}")]);
    let (file, log) = (at("shop.log"), at("far").join("collected.log"));
    let to = format!("otlp+http://127.0.0.1:{port}");
    let send = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_logdrive"));
        command
            .args(["send", "--app", "shop", "--to", &to, "--state"])
            .arg(at("state"))
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    };
    let mut appended = File::options()
        .append(true)
        .create(true)
        .open(&file)
        .expect("a file");
    for cycle in 0..4 {
        let line = |n: u64| format!("time=2026-11-26T02:00:00Z level=warn msg=\"slow order\" n={n}\n");
        let lines: String = (cycle * 3000..cycle * 3000 + 3000).map(line).collect();
        appended.write_all(lines.as_bytes()).expect("written");
        let mut sender = send().spawn().expect("a sender");
        wait_until("the engine has some of them", || {
            ids(&log)
                .last_key_value()
                .is_some_and(|(n, _)| *n >= cycle * 3000)
        });
        sender.kill().expect("killed");
        sender.wait().expect("an end");
    }
    assert!(send().status().expect("a sender").success());
    let found = ids(&log);
    assert!(found.keys().copied().eq(0..12_000), "{} numbers", found.len());
    // What came twice has the same id, and no two records have one.
    assert!(found.values().all(|ids| ids.len() == 1));
    let distinct: BTreeSet<&String> = found.values().flatten().collect();
    assert_eq!(distinct.len(), 12_000);
    drop(far);
}
