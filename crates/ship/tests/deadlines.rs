//! Servers that take a connection and then say nothing: one deadline covers all that it takes to connect. The other time limits
//! are an hour, so that a wait for one of them does not end.

use logdrive_messaging::Client;
use logdrive_ship::forward::{ForwardOptions, Forwarder};
use logdrive_ship::hello::Reason;
use logdrive_ship::session::{Peer, Service};
use logdrive_ship::upstream::MemberOptions;
use logdrive_ship::{Address, Options, Threads, TransportError, make_certificates, serve};
use logdrive_testkit::DEADLINE;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

fn patient(keys: &Path) -> Options {
    make_certificates(keys, &["127.0.0.1".to_owned()]).expect("made");
    let mut options = Options::default();
    options.timeouts.connect = Duration::from_millis(50);
    options.timeouts.handshake = HOUR;
    options.timeouts.response = HOUR;
    options.timeouts.idle = HOUR;
    options.tls.authorities = Some(keys.join("authority.pem"));
    options.tls.certificate = Some(keys.join("client.pem"));
    options.tls.key = Some(keys.join("client.key"));
    options
}

#[test]
fn one_deadline_covers_all_that_it_takes_to_connect() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = patient(directory.path());
    let unix = directory.path().join("silent.sock");
    let _unix = UnixListener::bind(&unix).expect("bound");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let tcp = tcp.local_addr().map(|address| (tcp, address)).expect("bound");
    let port = udp.local_addr().expect("bound").port();
    for text in [
        format!("unix://{}", unix.display()),
        format!("tcp://{}", tcp.1),
        format!("tls://{}", tcp.1),
        format!("quic://127.0.0.1:{port}"),
    ] {
        let address: Address = text.parse().expect("an address");
        let (options, (tell, told)) = (options.clone(), channel());
        std::thread::spawn(move || tell.send(Client::connect(&address, &options).err()));
        let error = told.recv_timeout(DEADLINE).expect("it gives up in time");
        let error = error.expect("nobody answers");
        assert!(matches!(error, TransportError::Timeout { .. }), "{text}: {error}");
        assert!(error.to_string().contains("50"), "{text}: {error}");
    }
}

struct Keeper;

impl Service for Keeper {
    fn hello(&self, _: &Peer) -> Result<u64, Reason> {
        Ok(0)
    }

    fn records(&self, _: &Peer, first: u64, count: u32, _: &[u8]) -> Result<u64, Reason> {
        Ok(first + u64::from(count))
    }
}

#[test]
fn a_forwarder_leaves_a_collector_that_answers_no_hello_for_the_next_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = patient(directory.path());
    let silent = directory.path().join("silent.sock");
    let _silent = UnixListener::bind(&silent).expect("bound");
    let serving = Address::Unix(directory.path().join("c.sock"));
    let server = serve(
        std::slice::from_ref(&serving),
        &Options::default(),
        Threads::default(),
        Arc::new(Keeper),
    );
    let _server = server.expect("it listens");
    let mut forward = ForwardOptions::new(1, 1);
    let mut backup = MemberOptions::new(serving);
    backup.is_backup = true;
    forward.members = vec![backup];
    let forwarder = Forwarder::start(&[Address::Unix(silent)], &options, &forward).expect("it starts");
    forwarder
        .push(1, b"one\n".to_vec(), Duration::ZERO)
        .expect("room");
    assert!(
        forwarder.wait_acknowledged(1, DEADLINE),
        "{:?}",
        forwarder.state()
    );
}
