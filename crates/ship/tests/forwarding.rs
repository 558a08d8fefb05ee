//! A forwarder whose spool is damaged while it runs, one whose link is too slow for a batch, one whose collector falls
//! silent, and one whose collector answers no attempt to connect.

use logdrive_ship::forward::{ForwardOptions, Forwarder, SpoolOptions};
use logdrive_ship::frame::{Header, Kind, next_frame};
use logdrive_ship::hello::{Hello, Reason, Role};
use logdrive_ship::session::{Classification, DedupCursor, Peer, Service};
use logdrive_ship::{Address, Options, ServerHandle, Threads, serve};
use logdrive_testkit::{DEADLINE, Servers, wait_until};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Keeps each line once.
#[derive(Default)]
struct Keeper {
    kept: Mutex<(DedupCursor, Vec<String>)>,
}

impl Service for Keeper {
    fn hello(&self, peer: &Peer) -> Result<u64, Reason> {
        let hello = peer.hello.as_ref().expect("a hello");
        let mut kept = self.kept.lock().expect("no panic");
        match kept.0.resume(hello.epoch, hello.next) {
            true => Ok(kept.0.next),
            false => Err(Reason::Superseded),
        }
    }

    fn records(&self, _: &Peer, first: u64, count: u32, lines: &[u8]) -> Result<u64, Reason> {
        let mut kept = self.kept.lock().expect("no panic");
        if let Classification::New { skip } = kept.0.classify(first, count) {
            let text = std::str::from_utf8(lines).expect("text");
            let fresh = text.lines().skip(skip as usize).map(str::to_owned);
            kept.1.extend(fresh);
            kept.0.advance(first, count);
        }
        Ok(kept.0.next)
    }
}

impl Keeper {
    fn lines(&self) -> Vec<String> {
        self.kept.lock().expect("no panic").1.clone()
    }
}

fn listen(path: &Path, keeper: &Arc<Keeper>) -> ServerHandle {
    let address = Address::Unix(path.to_owned());
    serve(
        &[address],
        &Options::default(),
        Threads::default(),
        keeper.clone(),
    )
    .expect("it listens")
}

/// The one segment of the spool in a directory.
fn segment(directory: &Path) -> Option<PathBuf> {
    let all = |path: &Path| {
        std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
    };
    all(directory)
        .flat_map(|session| all(&session).collect::<Vec<_>>())
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("spool-"))
        })
}

#[test]
fn a_bit_that_flips_in_the_spool_costs_one_batch_and_is_counted() {
    // The first one is in memory already.
    for damaged in [1, 4, 9] {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("c.sock");
        let mut forward = ForwardOptions::new(7, 1);
        // One batch at a time is read into memory.
        forward.queue_bytes = 64;
        forward.spool = Some(SpoolOptions::new(directory.path().join("spool")));
        let to = [Address::Unix(socket.clone())];
        let forwarder = Forwarder::start(&to, &Options::default(), &forward).expect("it starts");
        let push = |number: u64| {
            let lines = format!("{number} a\n{number} b\n").into_bytes();
            forwarder.push(2, lines, DEADLINE).expect("room");
        };
        (0..10).for_each(push);
        wait_until("all is in the spool", || forwarder.state().secured == 20);
        let path = segment(&directory.path().join("spool")).expect("a segment");
        let mut bytes = std::fs::read(&path).expect("there");
        let at = bytes.len() / 10 * damaged + 28;
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).expect("written");
        let keeper = Arc::new(Keeper::default());
        let _server = listen(&socket, &keeper);
        wait_until("the spool is read", || forwarder.state().acknowledged >= 18);
        (10..13).for_each(push);
        assert!(
            forwarder.wait_acknowledged(26, DEADLINE),
            "{:?}",
            forwarder.state()
        );
        assert_eq!(forwarder.state().lost, 2);
        let expected: Vec<String> = (0..13)
            .filter(|number| *number != damaged)
            .flat_map(|number| [format!("{number} a"), format!("{number} b")])
            .collect();
        assert_eq!(keeper.lines(), expected);
    }
}

/// With a spool, a collector that claimed records which were never sent was believed: those that got these numbers later were
/// dropped.
#[test]
fn a_claim_to_have_what_was_never_sent_is_not_believed_beside_a_spool() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("c.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let liar = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut held = Vec::new();
        let said = loop {
            if let Ok(Some(frame)) = next_frame(&held, 1 << 20) {
                break Hello::decode(frame.payload).expect("a hello");
            }
            let mut bytes = [0; 4096];
            let length = client.read(&mut bytes).expect("it says hello");
            held.extend_from_slice(&bytes[..length]);
        };
        let mut hello = Hello::new(Role::Server);
        (hello.session, hello.epoch, hello.next) = (said.session, said.epoch, 99_900);
        let mut answer = Vec::new();
        Header::new(Kind::Hello, 0).put(&[&hello.encode()], true, &mut answer);
        client.write_all(&answer).expect("it listens");
        // It ends the connection, and the socket goes with the listener.
        let _ = client.read_to_end(&mut held);
    });
    let mut forward = ForwardOptions::new(7, 1);
    forward.spool = Some(SpoolOptions::new(directory.path().join("spool")));
    (forward.persists, forward.sent_until) = (true, Some(0));
    let to = [Address::Unix(socket.clone())];
    let forwarder = Forwarder::start(&to, &Options::default(), &forward).expect("it starts");
    let push = |number: u64| {
        let line = format!("{number}\n").into_bytes();
        forwarder.push(1, line, DEADLINE).expect("room");
    };
    (0..10).for_each(push);
    liar.join().expect("no panic");
    (10..20).for_each(push);
    wait_until("all is in the spool", || forwarder.state().secured == 20);
    assert_eq!(forwarder.state().acknowledged, 0);
    std::fs::remove_file(&socket).expect("a socket");
    let keeper = Arc::new(Keeper::default());
    let _server = listen(&socket, &keeper);
    assert!(
        forwarder.wait_acknowledged(20, DEADLINE),
        "{:?}",
        forwarder.state()
    );
    let expected: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    assert_eq!(keeper.lines(), expected);
}

/// Passes so many bytes of each connection, and then nothing more.
fn stalling_proxy(listener: UnixListener, to: PathBuf, budget: usize) {
    for client in listener.incoming().map_while(Result::ok) {
        let to = to.clone();
        std::thread::spawn(move || {
            let (mut client, mut server) = (client, UnixStream::connect(to)?);
            let (mut back, mut answers) = (client.try_clone()?, server.try_clone()?);
            std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
            let mut bytes = vec![0; budget];
            let mut passed = 0;
            while passed < budget {
                match client.read(&mut bytes[passed..])? {
                    0 => break,
                    length => {
                        server.write_all(&bytes[passed..passed + length])?;
                        passed += length;
                    }
                }
            }
            // Until the client gives up.
            std::thread::park_timeout(DEADLINE);
            std::io::Result::Ok(())
        });
    }
}

#[test]
fn a_link_that_is_too_slow_for_a_batch_gets_smaller_ones() {
    let directory = tempfile::tempdir().expect("a directory");
    let (socket, proxy) = (directory.path().join("c.sock"), directory.path().join("p.sock"));
    let keeper = Arc::new(Keeper::default());
    let _server = listen(&socket, &keeper);
    let listener = UnixListener::bind(&proxy).expect("bound");
    std::thread::spawn(move || stalling_proxy(listener, socket, 24 * 1024));
    let mut options = Options::default();
    options.timeouts.response = Duration::from_millis(100);
    let forwarder = Forwarder::start(&[Address::Unix(proxy)], &options, &ForwardOptions::new(7, 1));
    let forwarder = forwarder.expect("it starts");
    let lines: Vec<String> = (0..100)
        .map(|number| format!("{number} {}", "x".repeat(1_000)))
        .collect();
    let text = lines.join("\n") + "\n";
    forwarder
        .push(100, text.into_bytes(), Duration::ZERO)
        .expect("room");
    assert!(
        forwarder.wait_acknowledged(100, DEADLINE),
        "{:?}",
        forwarder.state()
    );
    assert_eq!(keeper.lines(), lines);
}

/// Answers each hello, and nothing else.
fn answer_hellos(socket: &UdpSocket) {
    let mut bytes = vec![0; 65_536];
    while let Ok((length, from)) = socket.recv_from(&mut bytes) {
        let Ok(Some(frame)) = next_frame(&bytes[..length], 65_536) else {
            continue;
        };
        if frame.header.kind == Kind::Hello {
            let hello = Hello::decode(frame.payload).expect("a hello");
            let mut answer = Vec::new();
            Header::new(Kind::Hello, 0).put(&[&hello.encode()], true, &mut answer);
            socket.send_to(&answer, from).expect("sent");
        }
    }
}

/// Each batch that was sent again counted as a sign of life, so that the sender stayed there for ever.
#[test]
fn a_collector_of_datagrams_that_falls_silent_is_left_for_another() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("c.sock");
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let first = format!("udp://{}", silent.local_addr().expect("bound"));
    std::thread::spawn(move || answer_hellos(&silent));
    let keeper = Arc::new(Keeper::default());
    let _server = listen(&socket, &keeper);
    let to = [first.parse().expect("an address"), Address::Unix(socket)];
    let mut options = Options::default();
    options.timeouts.response = Duration::from_millis(600);
    let forwarder = Forwarder::start(&to, &options, &ForwardOptions::new(7, 1)).expect("it starts");
    forwarder.push(2, b"one\ntwo\n".to_vec(), DEADLINE).expect("room");
    assert!(
        forwarder.wait_acknowledged(2, Duration::from_secs(20)),
        "{:?}",
        forwarder.state()
    );
    assert_eq!(keeper.lines(), ["one", "two"]);
}

/// The thread waited for the connection, five seconds by default, and spooled nothing meanwhile; its end waited, too.
#[test]
fn a_collector_that_answers_no_attempt_to_connect_holds_up_neither_the_spool_nor_the_end() {
    let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let stream = TcpListener::bind("127.0.0.1:0").expect("a port");
    let servers = Servers::with_keys();
    let mut options = servers.client_options.clone();
    options.timeouts.connect = DEADLINE;
    for silent in [
        format!("quic://{}", datagrams.local_addr().expect("bound")),
        format!("tls://{}", stream.local_addr().expect("bound")),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut forward = ForwardOptions::new(7, 1);
        forward.spool = Some(SpoolOptions::new(directory.path().join("spool")));
        let to = [silent.parse().expect("an address")];
        let mut forwarder = Forwarder::start(&to, &options, &forward).expect("it starts");
        let began = Instant::now();
        // Those that come while it connects, too.
        for number in 0..4 {
            forwarder
                .push(1, format!("{number}\n").into_bytes(), DEADLINE)
                .expect("room");
            wait_until("it is in the spool", || forwarder.state().secured == number + 1);
        }
        let state = forwarder.stop(Duration::from_millis(50));
        assert!(began.elapsed() < DEADLINE / 2, "{silent}: {:?}", began.elapsed());
        assert_eq!((state.secured, state.acknowledged), (4, 0), "{silent}");
    }
}
