//! Peers that break the rules, or just break: each is refused with a counted reason, and the next client is served.

use logdrive_messaging::{Client, Sender};
use logdrive_ring::channel::Channel;
use logdrive_ring::{Consumer, PipeWriter, Ring};
use logdrive_ship::frame::{HEADER_BYTES, Header, Kind, next_frame};
use logdrive_ship::hello::{Hello, Reason, Role, decode_goodbye};
use logdrive_ship::session::{Peer, ReplyBuffer, Service};
use logdrive_ship::{
    Address, Options, ServerHandle, Stats, Threads, TransportError, make_certificates, serve,
};
use logdrive_testkit::{DEADLINE, Servers, wait_for};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Echoes, notes why each peer left, and serves nobody whose program is called `stranger`.
#[derive(Default)]
struct Host {
    left: Mutex<Vec<Reason>>,
    /// Requests with the connection that they are said to be of.
    requests: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl Service for Host {
    fn hello(&self, peer: &Peer) -> Result<u64, Reason> {
        match peer.hello.as_ref() {
            Some(hello) if hello.app != "stranger" => Ok(0),
            _ => Err(Reason::Forbidden),
        }
    }

    fn request(&self, peer: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        self.requests
            .lock()
            .expect("no panic")
            .push((peer.id, body.to_vec()));
        reply.extend_from_slice(body);
        Ok(())
    }

    fn disconnected(&self, _: &Peer, reason: Reason) {
        self.left.lock().expect("no panic").push(reason);
    }
}

impl Host {
    fn wait_for_leave(&self) -> Reason {
        wait_for("a peer leaves", || {
            let mut left = self.left.lock().expect("no panic");
            (!left.is_empty()).then(|| left.remove(0))
        })
    }
}

fn start(servers: &Servers, scheme: &str, host: &Arc<Host>) -> ServerHandle {
    servers.serve(&servers.address(scheme, scheme), Threads::default(), host.clone())
}

/// The next client is served.
fn check(servers: &Servers, server: &ServerHandle) {
    let mut client = servers.connect(server);
    assert_eq!(client.call(b"still there?").expect("answered"), b"still there?");
}

/// A bare socket at the server's.
fn raw(server: &ServerHandle) -> UnixStream {
    let Address::Unix(path) = &server.addresses()[0] else {
        panic!("a Unix socket");
    };
    let socket = UnixStream::connect(path).expect("connected");
    socket.set_read_timeout(Some(DEADLINE)).expect("a time limit");
    socket
}

fn wait_for_stats(server: &ServerHandle, what: &str, is_so: impl Fn(&Stats) -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so(&server.stats()) {
        assert!(Instant::now() < end, "{what}: {:?}", server.stats());
        std::thread::yield_now();
    }
}

fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    Header::new(Kind::Hello, 0).put(&[&Hello::new(Role::Client).encode()], true, &mut bytes);
    bytes
}

/// The goodbye that a server sends before it closes.
fn goodbye_of(mut socket: UnixStream) -> Reason {
    let mut bytes = Vec::new();
    // A reset comes after what was sent before it.
    let _ = socket.read_to_end(&mut bytes);
    let mut rest = &bytes[..];
    while let Some(frame) = next_frame(rest, 1 << 20).expect("frames") {
        if frame.header.kind == Kind::Goodbye {
            return decode_goodbye(frame.payload).expect("a goodbye").0;
        }
        rest = &rest[frame.header.length_bytes as usize..];
    }
    panic!("no goodbye in {bytes:?}");
}

#[test]
fn a_refused_hello_is_told_and_counted_over_every_transport() {
    let (mut servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    for scheme in ["unix", "shm", "tcp", "tls", "quic", "udp"] {
        let server = start(&servers, scheme, &host);
        servers.client_options.app = "stranger".to_owned();
        let address = &server.addresses()[0];
        let error = match scheme {
            "udp" => Sender::connect(address, &servers.client_options).map(drop),
            _ => Client::connect(address, &servers.client_options).map(drop),
        };
        let error = error.expect_err("it is not welcome");
        let told = matches!(
            &error,
            TransportError::Refused {
                reason: Reason::Forbidden,
                ..
            }
        );
        assert!(told, "{scheme}: {error}");
        wait_for_stats(&server, scheme, |stats| stats.ended_for(Reason::Forbidden) == 1);
        servers.client_options.app = "friend".to_owned();
        match scheme {
            "udp" => drop(Sender::connect(address, &servers.client_options).expect("connected")),
            _ => check(&servers, &server),
        }
    }
}

#[test]
fn a_certificate_of_another_authority_is_refused_on_both_sides() {
    let (servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    let names = ["127.0.0.1".to_owned()];
    let (other_server, other_client) =
        make_certificates(&servers.path("others"), &names).expect("certificates");
    for scheme in ["tls", "quic"] {
        let server = start(&servers, scheme, &host);
        let address = &server.addresses()[0];
        let mut wrong = [
            other_client.clone(),
            other_client.clone(),
            servers.client_options.tls.clone(),
        ];
        // Trusts the right server, and shows a certificate that the server does not know; or none at all.
        wrong[0]
            .authorities
            .clone_from(&servers.client_options.tls.authorities);
        wrong[2].certificate = None;
        wrong[2].key = None;
        for tls in wrong {
            let options = Options {
                tls,
                ..servers.client_options.clone()
            };
            let refused =
                Client::connect(address, &options).and_then(|mut client| client.call(b"x").map(drop));
            refused.expect_err("nobody knows it");
        }
        wait_for_stats(&server, scheme, |stats| stats.ended_for(Reason::Forbidden) >= 2);
        check(&servers, &server);
        // The name has to fit, too.
        let mut options = servers.client_options.clone();
        options.tls.name = Some("elsewhere.example".to_owned());
        Client::connect(address, &options)
            .map(drop)
            .expect_err("another name");
        // And a server of another authority is none that the client speaks to.
        let options = Options {
            tls: other_server.clone(),
            ..servers.server_options.clone()
        };
        let stranger = serve(
            &[servers.address(scheme, scheme)],
            &options,
            Threads::default(),
            host.clone(),
        );
        let stranger = stranger.expect("it listens");
        Client::connect(&stranger.addresses()[0], &servers.client_options)
            .map(drop)
            .expect_err("another authority");
    }
}

/// Bytes that no peer may send, and what they are ended for.
type Broken = (&'static str, Vec<u8>, Reason);

fn frame(header: Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.put(&[payload], true, &mut bytes);
    bytes
}

fn broken_frames() -> Vec<Broken> {
    let sealed = |change: fn(&mut Vec<u8>)| {
        let mut bytes = frame(Header::new(Kind::Request, 1), b"body");
        change(&mut bytes);
        [hello(), bytes].concat()
    };
    let long = {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&2_000_u32.to_le_bytes());
        bytes
    };
    let request = frame(Header::new(Kind::Request, 1), b"x");
    let response = frame(Header::new(Kind::Response, 1), b"");
    vec![
        ("rubbish", vec![0xff; 64], Reason::TooLarge),
        ("a longer frame than a hello", long, Reason::TooLarge),
        ("no hello first", request, Reason::Unexpected),
        (
            "an unknown kind",
            sealed(|bytes| bytes[4] = 99),
            Reason::Malformed,
        ),
        (
            "an unknown flag",
            sealed(|bytes| bytes[5] |= 0x80),
            Reason::Malformed,
        ),
        (
            "a length beyond 1 MiB",
            sealed(|bytes| bytes[2] = 0x20),
            Reason::TooLarge,
        ),
        (
            "a changed header",
            sealed(|bytes| bytes[8] ^= 1),
            Reason::Checksum,
        ),
        (
            "a changed payload",
            sealed(|bytes| *bytes.last_mut().expect("bytes") ^= 1),
            Reason::Checksum,
        ),
        (
            "an answer that nobody asked for",
            [hello(), response].concat(),
            Reason::Unexpected,
        ),
    ]
}

fn broken_batches() -> Vec<Broken> {
    let batch = |flags: u8, payload: &[u8]| {
        let mut header = Header::new(Kind::Batch, 0);
        (header.flags, header.count) = (flags, 1);
        [hello(), frame(header, payload)].concat()
    };
    let bomb = [&u32::MAX.to_le_bytes()[..], b"not zstd"].concat();
    vec![
        (
            "a message that is cut",
            batch(0, &[9, 0, 0, 0, 1]),
            Reason::Malformed,
        ),
        (
            "bytes behind the last message",
            batch(0, &[1, 0, 0, 0, 1, 2]),
            Reason::Malformed,
        ),
        ("a bomb", batch(8, &bomb), Reason::TooLarge),
        ("no zstd", batch(8, &[1, 0, 0, 0, 1, 2, 3]), Reason::Malformed),
        ("records of a client", batch(2, b"line\n"), Reason::Unexpected),
    ]
}

#[test]
fn bytes_that_break_the_rules_end_the_connection_with_their_reason() {
    let (servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    let server = start(&servers, "unix", &host);
    for (name, bytes, reason) in broken_frames().into_iter().chain(broken_batches()) {
        let before = server.stats().ended_for(reason);
        let mut socket = raw(&server);
        socket.write_all(&bytes).expect("sent");
        assert_eq!(goodbye_of(socket), reason, "{name}");
        wait_for_stats(&server, name, |stats| stats.ended_for(reason) == before + 1);
        check(&servers, &server);
    }
}

#[test]
fn a_peer_that_ends_in_the_middle_of_a_frame_is_counted_as_lost() {
    let (servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    let server = start(&servers, "unix", &host);
    let mut socket = raw(&server);
    let mut bytes = hello();
    Header::new(Kind::Request, 1).put(&[&[7; 5_000]], true, &mut bytes);
    socket.write_all(&bytes[..bytes.len() - 1]).expect("sent");
    drop(socket);
    assert_eq!(host.wait_for_leave(), Reason::Lost);
    assert_eq!(server.stats().ended_for(Reason::Lost), 1);
    check(&servers, &server);
}

/// A poller that reads the end of a connection behind its requests hands those on as this connection's. They once stayed in
/// the poller's list, and ran as requests of the next connection.
#[test]
fn requests_before_the_end_of_a_connection_are_not_run_as_those_of_another() {
    let (servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    let threads = Threads {
        pool: 1,
        ..Threads::default()
    };
    let server = servers.serve(&servers.address("unix", "unix"), threads, host.clone());
    let mut honest = servers.connect(&server);
    for _ in 0..200 {
        let mut socket = raw(&server);
        let mut bytes = hello();
        for sequence in 1..=8 {
            Header::new(Kind::Request, sequence).put(&[b"of one that ends"], true, &mut bytes);
        }
        socket.write_all(&bytes).expect("sent");
        socket.shutdown(std::net::Shutdown::Write).expect("half closed");
        assert_eq!(
            honest.call(b"of one that stays").expect("answered"),
            b"of one that stays"
        );
    }
    let requests = host.requests.lock().expect("no panic");
    let stays = requests
        .iter()
        .find(|(_, body)| body == b"of one that stays")
        .expect("served")
        .0;
    assert!(
        requests
            .iter()
            .all(|(peer, body)| (*peer == stays) == (body == b"of one that stays"))
    );
}

/// The child process of the next test: connects, sends, and is killed.
#[test]
fn a_process_that_is_killed_while_it_sends() {
    let Ok(address) = std::env::var("LOGDRIVE_TEST_KILLED") else {
        return;
    };
    let address: Address = address.parse().expect("an address");
    let mut client = Client::connect(&address, &Options::default()).expect("connected");
    client.call(b"here").expect("answered");
    client.submit(&[1; 100_000]).expect("sent");
    client.flush().expect("sent");
    std::process::abort();
}

#[test]
fn a_killed_process_leaves_a_server_that_serves_the_next() {
    let (servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    for scheme in ["unix", "shm", "tcp"] {
        let server = start(&servers, scheme, &host);
        let status = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "a_process_that_is_killed_while_it_sends"])
            .env("LOGDRIVE_TEST_KILLED", server.addresses()[0].to_string())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .expect("it starts");
        assert!(!status.success(), "{scheme}: it was killed");
        assert_eq!(host.wait_for_leave(), Reason::Lost, "{scheme}");
        check(&servers, &server);
        assert_eq!(host.wait_for_leave(), Reason::Done, "{scheme}");
    }
}

#[test]
fn those_who_dribble_or_say_nothing_are_ended_while_others_are_served() {
    let (mut servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    servers.server_options.timeouts.handshake = Duration::from_millis(300);
    let server = start(&servers, "unix", &host);
    let mut healthy = servers.connect(&server);
    let mut dribbling: Vec<UnixStream> = (0..20).map(|_| raw(&server)).collect();
    let bytes = hello();
    for at in 0..bytes.len() - 1 {
        for socket in &mut dribbling {
            // Those that were ended meanwhile cannot be written to.
            let _ = socket.write_all(&bytes[at..=at]);
        }
        assert_eq!(healthy.call(b"well?").expect("answered"), b"well?");
    }
    wait_for_stats(&server, "all are late", |stats| {
        stats.ended_for(Reason::Handshake) == 20
    });
    assert_eq!(healthy.call(b"well?").expect("answered"), b"well?");
    assert_eq!(server.stats().connections, 1);
}

#[test]
fn a_flood_of_strangers_leaves_room_for_who_says_hello() {
    let (mut servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    servers.server_options.limits.connections_max = 100;
    let server = start(&servers, "unix", &host);
    let mut healthy = servers.connect(&server);
    let flood: Vec<UnixStream> = (0..300).map(|_| raw(&server)).collect();
    wait_for_stats(&server, "the flood is accepted", |stats| stats.accepted == 301);
    assert!(server.stats().connections <= 101);
    assert!(server.stats().ended_for(Reason::Connections) >= 200);
    assert_eq!(healthy.call(b"well?").expect("answered"), b"well?");
    // A newcomer takes the place of the stranger who has been silent longest.
    check(&servers, &server);
    drop(flood);
}

/// Says hello, and sends the front of a request of 1 MiB.
fn greedy(server: &ServerHandle, front_bytes: usize) -> UnixStream {
    let mut socket = raw(server);
    let mut bytes = hello();
    let start = bytes.len();
    Header::new(Kind::Request, 1).put(&[&vec![7; (1 << 20) - HEADER_BYTES]], false, &mut bytes);
    socket.set_nonblocking(true).expect("a socket");
    // As much as is taken.
    let _ = socket.write(&bytes[..start + front_bytes]);
    socket
}

#[test]
fn fronts_of_long_frames_cost_nobody_else_the_connection() {
    let (mut servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    servers.server_options.limits.pending_bytes_max = 4 << 20;
    let addresses = ["unix", "tcp", "tls", "quic"].map(|scheme| servers.address(scheme, scheme));
    let server = serve(
        &addresses,
        &servers.server_options,
        Threads::default(),
        host.clone(),
    )
    .expect("it listens");
    let mut healthy: Vec<Client> = server
        .addresses()
        .iter()
        .map(|address| Client::connect(address, &servers.client_options).expect("connected"))
        .collect();
    for client in &mut healthy {
        assert_eq!(client.call(b"first").expect("answered"), b"first");
    }
    let mut flood: Vec<UnixStream> = (0..64).map(|_| greedy(&server, 100_000)).collect();
    let end = Instant::now() + DEADLINE;
    // Each has been thrown out once, and has come again.
    while server.stats().ended_for(Reason::Memory) < 64 {
        assert!(Instant::now() < end, "{:?}", server.stats());
        for socket in &mut flood {
            let is_over = socket
                .write(b"more")
                .is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock);
            if is_over {
                *socket = greedy(&server, 100_000);
            }
        }
        for client in &mut healthy {
            assert_eq!(client.call(&[3; 60_000]).expect("answered"), [3; 60_000]);
        }
    }
}

#[test]
fn a_long_frame_waits_until_there_is_memory_for_it() {
    let (mut servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    // Of half of which one frame has its memory at a time.
    servers.server_options.limits.pending_bytes_max = 3 << 20;
    let server = start(&servers, "unix", &host);
    let holding: Vec<UnixStream> = (0..4).map(|_| greedy(&server, 100_000)).collect();
    wait_for_stats(&server, "the fronts have come", |stats| stats.bytes > 4 * 16_384);
    let before = server.stats().bytes;
    let (address, options) = (server.addresses()[0].clone(), servers.client_options.clone());
    let caller = std::thread::spawn(move || {
        let mut client = Client::connect(&address, &options).expect("connected");
        client.call(&[5; 1_000_000]).map(<[u8]>::len)
    });
    wait_for_stats(&server, "its front has come", |stats| {
        stats.bytes > before + 1_000
    });
    drop(holding);
    assert_eq!(caller.join().expect("no panic").expect("answered"), 1_000_000);
}

#[test]
fn who_is_silent_is_told_so() {
    let (mut servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    servers.server_options.timeouts.idle = Duration::from_millis(300);
    for scheme in ["unix", "shm", "tcp", "tls"] {
        let server = start(&servers, scheme, &host);
        let mut client = servers.connect(&server);
        client.call(b"x").expect("answered");
        assert_eq!(host.wait_for_leave(), Reason::Idle, "{scheme}");
        // A call would connect again.
        let error = client.next_pushed(Duration::ZERO).expect_err("it is over");
        let told = matches!(
            &error,
            TransportError::Refused {
                reason: Reason::Idle,
                ..
            }
        );
        assert!(
            told || matches!(&error, TransportError::Lost { .. }),
            "{scheme}: {error}"
        );
        assert_eq!(server.stats().ended_for(Reason::Idle), 1, "{scheme}");
    }
}

#[test]
fn what_is_longer_than_the_server_takes_is_not_sent() {
    let (mut servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    servers.server_options.limits.frame_bytes_max = 4_096;
    let server = start(&servers, "tcp", &host);
    let mut client = servers.connect(&server);
    let error = client.call(&[0; 5_000]).map(drop).expect_err("too long");
    assert!(
        matches!(error, TransportError::TooLong { bytes_max: 4_072, .. }),
        "{error}"
    );
    assert_eq!(client.call(&[0; 4_072]).expect("answered"), [0; 4_072]);
    let sender = Sender::connect(&server.addresses()[0], &servers.client_options).expect("connected");
    let error = sender.send(&[0; 5_000]).expect_err("too long");
    assert!(matches!(error, TransportError::TooLong { .. }), "{error}");
    sender.send(&[0; 4_000]).expect("sent");
}

/// Takes what it can in place.
#[derive(Default)]
struct InPlaceHost(Host);

impl Service for InPlaceHost {
    fn request(
        &self,
        peer: &Peer,
        stream: u16,
        body: &[u8],
        reply: &mut ReplyBuffer<'_>,
    ) -> Result<(), String> {
        self.0.request(peer, stream, body, reply)
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn disconnected(&self, peer: &Peer, reason: Reason) {
        self.0.disconnected(peer, reason);
    }
}

/// Rings that were offered by hand: the writing end, and the reading one.
fn raw_rings(path: &std::path::Path) -> (Channel, PipeWriter, Consumer) {
    let channel = Channel::connect(path, DEADLINE).expect("connected");
    let (there, there_file) = Ring::unnamed(1 << 16).expect("a ring");
    let (back, back_file) = Ring::unnamed(1 << 16).expect("a ring");
    let files = [there_file.as_fd(), back_file.as_fd()];
    channel.send(b"LDSHM\x01\x00\x00", &files).expect("sent");
    (
        channel,
        PipeWriter::new(Arc::new(there)),
        Consumer::new(Arc::new(back)),
    )
}

/// The goodbye in a ring, behind what else was said.
fn goodbye_in(ring: &Consumer) -> Reason {
    let end = Instant::now() + DEADLINE;
    loop {
        let bytes = ring.in_place().expect("sound").to_vec();
        let mut rest = &bytes[..];
        while let Ok(Some(frame)) = next_frame(rest, 1 << 20) {
            if frame.header.kind == Kind::Goodbye {
                return decode_goodbye(frame.payload).expect("a goodbye").0;
            }
            let length = (frame.header.length_bytes as usize).next_multiple_of(8);
            rest = rest.get(length..).unwrap_or(&[]);
        }
        assert!(Instant::now() < end, "no goodbye in {bytes:?}");
        std::thread::yield_now();
    }
}

/// As [`frame`], with the payload left out of the checksum, so that it is taken in place.
fn plain(kind: Kind, count: u32, payload: &[u8]) -> Vec<u8> {
    let mut header = Header::new(kind, 1);
    header.count = count;
    let mut bytes = Vec::new();
    header.put(&[payload], false, &mut bytes);
    bytes
}

#[test]
fn frames_that_break_the_rules_in_shared_memory_end_the_connection_with_their_reason() {
    let servers = Servers::with_keys();
    let Address::Shm(path) = servers.address("shm", "shm") else {
        panic!("shared memory");
    };
    let host = Arc::new(InPlaceHost::default());
    let server = servers.serve(&servers.address("shm", "shm"), Threads::default(), host.clone());
    let mut turned = plain(Kind::Batch, 1, &[0, 0, 0, 0]);
    turned[8] ^= 1;
    let mut long = plain(Kind::Batch, 1, &[0, 0, 0, 0]);
    long[2] = 0x20;
    for (name, bytes, reason) in [
        (
            "a message that is cut",
            plain(Kind::Batch, 1, &[9, 0, 0, 0, 1]),
            Reason::Malformed,
        ),
        (
            "a length beyond all",
            plain(Kind::Batch, 1, &[0xff; 12]),
            Reason::Malformed,
        ),
        (
            "no length",
            plain(Kind::Batch, 2, &[1, 0, 0, 0, 1, 0, 0]),
            Reason::Malformed,
        ),
        (
            "bytes behind the last",
            plain(Kind::Batch, 1, &[1, 0, 0, 0, 1, 2]),
            Reason::Malformed,
        ),
        ("a changed header", turned, Reason::Checksum),
        ("a length beyond 1 MiB", long, Reason::TooLarge),
        ("an answer", plain(Kind::Response, 0, b"none"), Reason::Unexpected),
    ] {
        let (_channel, mut writer, reader) = raw_rings(&path);
        assert!(writer.push(&[&hello()], &|| true));
        // Something sound before it.
        assert!(writer.push(&[&plain(Kind::Batch, 1, &[1, 0, 0, 0, 7])], &|| true));
        assert!(writer.push(&[&bytes], &|| true));
        assert_eq!(goodbye_in(&reader), reason, "{name}");
        assert_eq!(host.0.wait_for_leave(), reason, "{name}");
        let mut client = servers.connect(&server);
        assert_eq!(client.call(b"still there?").expect("answered"), b"still there?");
        drop(client);
        assert_eq!(host.0.wait_for_leave(), Reason::Done);
    }
}

#[test]
fn a_hello_that_comes_slowly_in_shared_memory_is_late() {
    let (mut servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    servers.server_options.timeouts.handshake = Duration::from_millis(300);
    let server = start(&servers, "shm", &host);
    let (_channel, mut writer, reader) = raw_rings(&servers.path("shm"));
    let mut slow = Hello::new(Role::Client);
    slow.app = "x".repeat(200);
    let mut bytes = Vec::new();
    Header::new(Kind::Hello, 0).put(&[&slow.encode()], true, &mut bytes);
    for piece in bytes.chunks(8) {
        assert!(writer.push(&[piece], &|| true));
        std::thread::park_timeout(Duration::from_millis(20));
        if server.stats().ended_for(Reason::Handshake) > 0 {
            break;
        }
    }
    assert_eq!(goodbye_in(&reader), Reason::Handshake);
    check(&servers, &server);
}

#[test]
fn a_frame_that_comes_slowly_in_shared_memory_is_late() {
    let (mut servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    servers.server_options.timeouts.idle = Duration::from_millis(300);
    let server = start(&servers, "shm", &host);
    let (_channel, mut writer, reader) = raw_rings(&servers.path("shm"));
    assert!(writer.push(&[&hello()], &|| true));
    let mut bytes = Vec::new();
    Header::new(Kind::Request, 1).put(&[&[7; 64 << 10]], true, &mut bytes);
    // Each piece comes long before the peer would be idle, and all of them long after.
    let mut pieces = bytes.chunks(8);
    wait_for("the end of the connection", || {
        let _taken = writer.push(&[pieces.next().expect("time left")], &|| false);
        (server.stats().ended_for(Reason::Idle) > 0).then_some(())
    });
    assert_eq!(goodbye_in(&reader), Reason::Idle);
}

#[test]
fn a_server_that_stops_does_not_wait_for_rings() {
    let (servers, host) = (Servers::with_keys(), Arc::<Host>::default());
    let server = start(&servers, "shm", &host);
    let _silent = Channel::connect(&servers.path("shm"), DEADLINE).expect("connected");
    wait_for_stats(&server, "it is accepted", |stats| stats.accepted == 1);
    let stats = server.stop();
    assert_eq!(
        (stats.connections, stats.ended_for(Reason::Ending)),
        (0, 1),
        "{stats:?}"
    );
}
