//! Busy connections move to dedicated threads, go back to their poller when they are silent, and close as all others do.

use logdrive_messaging::Client;
use logdrive_ship::frame::{HEADER_BYTES, Header, Kind, next_frame};
use logdrive_ship::hello::{Hello, Reason, Role, decode_goodbye};
use logdrive_ship::session::{Peer, ReplyBuffer, Service};
use logdrive_ship::{Address, ServerHandle, Threads, TransportError};
use logdrive_testkit::{DEADLINE, Servers};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

const POLLER: &str = "logdrive-poll-";
const DEDICATED: &str = "logdrive-dedicated-";

/// Answers with the name of its thread, and then what was asked.
struct Namer;

impl Service for Namer {
    fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        let thread = std::thread::current();
        reply.extend_from_slice(thread.name().unwrap_or_default().as_bytes());
        reply.extend_from_slice(b"|");
        reply.extend_from_slice(body);
        Ok(())
    }
}

fn serve(servers: &Servers, dedicated: usize) -> ServerHandle {
    let threads = Threads {
        dedicated,
        ..Threads::default()
    };
    servers.serve(&servers.address("unix", "s.sock"), threads, Arc::new(Namer))
}

/// The thread that answered.
fn ask(client: &mut Client, body: &[u8]) -> String {
    thread_of(client.call(body).expect("answered"), body)
}

fn thread_of(reply: &[u8], body: &[u8]) -> String {
    let end = reply.iter().position(|byte| *byte == b'|').expect("a name");
    assert_eq!(&reply[end + 1..], body);
    String::from_utf8_lossy(&reply[..end]).into_owned()
}

fn ask_until(client: &mut Client, thread: &str, pause: Duration) {
    let end = Instant::now() + DEADLINE;
    while !ask(client, b"who?").starts_with(thread) {
        assert!(Instant::now() < end, "{thread} never answered");
        if !pause.is_zero() {
            std::thread::park_timeout(pause);
        }
    }
}

#[test]
fn a_lone_busy_connection_has_a_dedicated_thread_until_it_is_silent() {
    let servers = Servers::with_keys();
    let server = serve(&servers, 1);
    let mut client = servers.connect(&server);
    assert!(ask(&mut client, b"first").starts_with(POLLER));
    for _ in 0..3 {
        ask_until(&mut client, DEDICATED, Duration::ZERO);
        ask(&mut client, &vec![7; 900_000]);
        // Others are served meanwhile.
        let mut other = servers.connect(&server);
        for _ in 0..200 {
            ask(&mut other, b"who?");
            ask(&mut client, b"who?");
        }
        drop(other);
        ask_until(&mut client, POLLER, Duration::from_millis(150));
    }
}

#[test]
fn many_at_once_are_answered_in_whole_by_either() {
    for dedicated in [0, 1] {
        let servers = Servers::with_keys();
        let server = serve(&servers, dedicated);
        let mut client = servers.connect(&server);
        if dedicated > 0 {
            ask_until(&mut client, DEDICATED, Duration::ZERO);
        }
        for at_once in [2, 16, 200] {
            let mut asked = std::collections::HashMap::new();
            for round in 0..2_000_u32 {
                let body = [&round.to_le_bytes()[..], &vec![1; 10_000]].concat();
                asked.insert(client.submit(&body).expect("sent"), body);
                if client.waiting() >= at_once {
                    let reply = client.complete().expect("answered");
                    let body = asked.remove(&reply.number).expect("asked once");
                    thread_of(reply.result.expect("it answers"), &body);
                }
            }
            while client.waiting() > 0 {
                let reply = client.complete().expect("answered");
                let body = asked.remove(&reply.number).expect("asked once");
                thread_of(reply.result.expect("it answers"), &body);
            }
            assert!(asked.is_empty());
        }
    }
}

#[test]
fn a_server_that_stops_says_goodbye_on_dedicated_threads() {
    let servers = Servers::with_keys();
    let server = serve(&servers, 2);
    let mut clients = [servers.connect(&server), servers.connect(&server)];
    ask_until(&mut clients[0], DEDICATED, Duration::ZERO);
    ask_until(&mut clients[1], DEDICATED, Duration::ZERO);
    let stats = server.stop();
    assert_eq!(
        (stats.connections, stats.ended_for(Reason::Ending)),
        (0, 2),
        "{stats:?}"
    );
    for mut client in clients {
        let error = client.call(b"still there?").expect_err("it has stopped");
        let is_told = matches!(
            error,
            TransportError::Refused {
                reason: Reason::Ending,
                ..
            }
        );
        // It connects again, to nobody.
        let is_gone = matches!(
            error,
            TransportError::Lost { .. } | TransportError::Connect { .. }
        );
        assert!(is_told || is_gone, "{error}");
    }
}

/// Frames as they come on a socket.
struct Raw {
    socket: UnixStream,
    held: Vec<u8>,
}

impl Raw {
    fn connect(server: &ServerHandle) -> Self {
        let Address::Unix(path) = &server.addresses()[0] else {
            panic!("a Unix socket")
        };
        let mut raw = Self {
            socket: UnixStream::connect(path).expect("connected"),
            held: Vec::new(),
        };
        let mut bytes = Vec::new();
        Header::new(Kind::Hello, 0).put(&[&Hello::new(Role::Client).encode()], true, &mut bytes);
        raw.socket.write_all(&bytes).expect("sent");
        assert_eq!(raw.next().0, Kind::Hello);
        raw
    }

    fn next(&mut self) -> (Kind, u64, Vec<u8>) {
        loop {
            if let Some(frame) = next_frame(&self.held, 1 << 20).expect("sound") {
                let found = (frame.header.kind, frame.header.sequence, frame.payload.to_vec());
                self.held.drain(..HEADER_BYTES + found.2.len());
                return found;
            }
            let mut bytes = vec![0; 1 << 18];
            let length = self.socket.read(&mut bytes).expect("it comes");
            assert_ne!(length, 0, "it closed");
            self.held.extend_from_slice(&bytes[..length]);
        }
    }
}

fn request(number: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Header::new(Kind::Request, number).put(&[body], true, &mut bytes);
    bytes
}

#[test]
fn who_does_not_read_its_answers_holds_back_itself_and_loses_none() {
    let servers = Servers::with_keys();
    let server = serve(&servers, 1);
    let mut raw = Raw::connect(&server);
    let end = Instant::now() + DEADLINE;
    let mut number = 0;
    loop {
        number += 1;
        raw.socket.write_all(&request(number, b"who?")).expect("sent");
        let (kind, of, reply) = raw.next();
        assert_eq!((kind, of), (Kind::Response, number));
        if thread_of(&reply, b"who?").starts_with(DEDICATED) {
            break;
        }
        assert!(Instant::now() < end, "it never got a thread");
    }
    // As much as it takes while nobody reads the answers: bounded, or this would not end.
    let body = vec![9; 50_000];
    let (first, mut sent) = (number + 1, Vec::new());
    raw.socket.set_nonblocking(true).expect("set");
    'full: loop {
        number += 1;
        sent.extend_from_slice(&request(number, &body));
        let mut stalls = 0;
        while !sent.is_empty() {
            match raw.socket.write(&sent) {
                Ok(length) => drop(sent.drain(..length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    stalls += 1;
                    if stalls > 20 {
                        break 'full;
                    }
                    std::thread::park_timeout(Duration::from_millis(10));
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(number < 10_000, "it takes without end");
    }
    raw.socket.set_nonblocking(false).expect("set");
    let mut writer = raw.socket.try_clone().expect("a second one");
    let rest = std::thread::spawn(move || writer.write_all(&sent));
    for wanted in first..=number {
        let (kind, of, reply) = raw.next();
        assert_eq!((kind, of), (Kind::Response, wanted));
        thread_of(&reply, &body);
    }
    rest.join().expect("no panic").expect("sent");
    // The next one is served as before.
    assert!(ask(&mut servers.connect(&server), b"next").starts_with("logdrive-"));
    // And it is told what it does wrong.
    raw.socket.write_all(&[0xff; 64]).expect("sent");
    let (kind, _, payload) = raw.next();
    assert_eq!(kind, Kind::Goodbye);
    let reason = decode_goodbye(&payload).expect("a goodbye").0;
    assert!(
        matches!(reason, Reason::Malformed | Reason::TooLarge),
        "{reason:?}"
    );
}
