//! Syslog in encrypted connections, and the journal's socket.
#![cfg(feature = "tls")]

#[path = "support/segments.rs"]
mod segments;

use logdrive_engines::{Delivery, EngineAddress};
use logdrive_testkit::{DEADLINE, wait_until};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use segments::{append, append_text, options};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A server's configuration, whose own certificate is the authority in a file.
fn server_config(authority: &Path) -> Arc<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(authority, made.cert.pem()).expect("written");
    let certificate = CertificateDer::from(made.cert.der().to_vec());
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    Arc::new(config.expect("a configuration"))
}

/// Reads octet-counted messages until one has this text; returns them all.
fn read_until(stream: &mut impl Read, text: &str) -> String {
    let mut all = Vec::new();
    let mut bytes = [0; 4096];
    while !String::from_utf8_lossy(&all).contains(text) {
        let count = stream.read(&mut bytes).expect("bytes");
        assert!(count > 0, "the connection ended before {text}");
        all.extend_from_slice(&bytes[..count]);
    }
    String::from_utf8(all).expect("text")
}

fn accept(listener: &TcpListener, config: &Arc<ServerConfig>) -> StreamOwned<ServerConnection, TcpStream> {
    let (stream, _) = listener.accept().expect("a connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("set");
    let server = ServerConnection::new(Arc::clone(config)).expect("a server");
    StreamOwned::new(server, stream)
}

#[test]
fn syslog_goes_over_tls_to_the_server_whose_authority_is_named_and_again_after_a_cut() {
    let directory = tempfile::tempdir().expect("a directory");
    let authority = directory.path().join("authority.pem");
    let config = server_config(&authority);
    let listener = TcpListener::bind("localhost:0").expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let to = format!("syslog+tls://localhost:{port}?tls_ca={}", authority.display());
    let log = directory.path().join("shop.segment");
    append(&log, 0..100);
    let delivery = Delivery::start(options(directory.path(), to)).expect("started");
    let mut first = accept(&listener, &config);
    let text = read_until(&mut first, " n=\"99\"");
    assert!(
        text.contains("<14>1 2023-11-14T22:13:20.000000Z web-1 shop 417"),
        "{text}"
    );
    wait_until("they are written", || delivery.counts().records == 100);
    drop(first);
    append(&log, 100..110);
    let mut second = accept(&listener, &config);
    // What the server may not have read comes again, before what is new.
    let text = read_until(&mut second, " n=\"109\"");
    assert!(text.contains(" n=\"0\"") && text.contains(" n=\"100\""));
    delivery.begin_stop(Duration::ZERO);
}

#[test]
fn a_server_with_another_authority_gets_no_records() {
    let directory = tempfile::tempdir().expect("a directory");
    let (own, other) = (
        directory.path().join("own.pem"),
        directory.path().join("other.pem"),
    );
    let config = server_config(&own);
    server_config(&other);
    let listener = TcpListener::bind("localhost:0").expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    append(&directory.path().join("shop.segment"), 0..10);
    let to = format!("syslog+tls://localhost:{port}?tls_ca={}", other.display());
    let delivery = Delivery::start(options(directory.path(), to)).expect("started");
    let mut stream = accept(&listener, &config);
    assert!(stream.read(&mut [0]).is_err());
    wait_until("the reason is told", || {
        delivery.counts().error.to_lowercase().contains("certificate")
    });
    assert_eq!(delivery.counts().records, 0);
    let plain = format!("syslog+tls://localhost:{port}")
        .parse::<EngineAddress>()
        .expect("an address");
    let refused = Delivery::start(options(&directory.path().join("b"), plain.to_string()));
    assert!(refused.expect_err("no authority").to_string().contains("tls_ca"));
}

#[test]
fn the_journal_gets_each_record_once_with_its_fields_when_it_is_there_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal");
    let to = format!("journald://{}", path.display());
    let log = directory.path().join("shop.segment");
    append(&log, 0..10);
    // The journal comes later.
    let delivery = Delivery::start(options(directory.path(), to)).expect("started");
    wait_until("its absence is told", || !delivery.counts().error.is_empty());
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(DEADLINE)).expect("set");
    let mut bytes = vec![0; 1 << 20];
    let mut receive = |socket: &UnixDatagram| {
        let length = socket.recv(&mut bytes).expect("a datagram");
        String::from_utf8(bytes[..length].to_vec()).expect("text")
    };
    for number in 0..10 {
        let text = receive(&socket);
        for field in [
            format!("MESSAGE=order {number} filled\n"),
            format!("N={number}\n"),
            "PRIORITY=6\n".to_owned(),
            "SYSLOG_IDENTIFIER=shop\n".to_owned(),
            "LOGDRIVE_TARGET=shop::orders\n".to_owned(),
        ] {
            assert!(text.contains(&field), "{field} in {text}");
        }
        assert!(text.contains(&format!("-{number}\n")), "its id in {text}");
    }
    wait_until("they are delivered", || delivery.counts().records == 10);
    // The socket of a journal that was started anew.
    drop(socket);
    std::fs::remove_file(&path).expect("removed");
    append(&log, 10..20);
    wait_until("its absence is told", || !delivery.counts().error.is_empty());
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(DEADLINE)).expect("set");
    append_text(&log, "2026-11-26T02:00:00Z ERROR failed\n  at once");
    for number in 10..20 {
        assert!(receive(&socket).contains(&format!("MESSAGE=order {number} filled\n")));
    }
    let text = receive(&socket);
    assert!(
        text.starts_with("MESSAGE=failed\\n  at once\nPRIORITY=3\n"),
        "{text:?}"
    );
    wait_until("all are delivered", || delivery.counts().records == 21);
}
