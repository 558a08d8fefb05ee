//! Messages and requests over every transport, between real sockets: what is sent arrives, once and in order.

use logdrive_messaging::{Client, Sender};
use logdrive_ship::hello::Reason;
use logdrive_ship::session::{InPlace, Peer, ReplyBuffer, Reserved, Service};
use logdrive_ship::{Address, Checksum, Options, Threads, TransportError};
use logdrive_testkit::{Servers, wait_for, wait_until};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps the numbers that come, answers with the bytes turned round.
#[derive(Default)]
struct Recorder {
    seen: Mutex<Seen>,
}

#[derive(Default, Clone)]
struct Seen {
    next: u64,
    bytes: u64,
    lost: u64,
    left: Vec<Reason>,
}

impl Service for Recorder {
    fn message(&self, _: &Peer, _: u16, message: &[u8]) {
        let mut seen = self.seen.lock().expect("no panic");
        let number = u64::from_le_bytes(message[..8].try_into().expect("eight bytes"));
        assert_eq!(number, seen.next + seen.lost, "out of order");
        assert!(
            message[8..].iter().all(|byte| *byte == number as u8),
            "message {number}"
        );
        seen.next += 1;
        seen.bytes += message.len() as u64;
    }

    fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        if body == b"fail" {
            return Err("as you wish".to_owned());
        }
        reply.extend(body.iter().rev().copied());
        Ok(())
    }

    fn gap(&self, _: &Peer, lost: u64) {
        self.seen.lock().expect("no panic").lost += lost;
    }

    fn disconnected(&self, _: &Peer, reason: Reason) {
        self.seen.lock().expect("no panic").left.push(reason);
    }
}

impl Recorder {
    fn wait_for_leave(&self) -> Seen {
        wait_for("the sender leaves", || {
            let seen = self.seen.lock().expect("no panic");
            (!seen.left.is_empty()).then(|| seen.clone())
        })
    }
}

/// An address of each transport.
fn addresses(servers: &Servers) -> Vec<Address> {
    let all = ["unix", "shm", "tcp", "tls", "udp", "quic"];
    let built = all
        .iter()
        .filter(|scheme| **scheme != "quic" || cfg!(feature = "quic"));
    built.map(|scheme| servers.address(scheme, scheme)).collect()
}

fn send(options: &Options, address: &Address, count: u64, length: impl Fn(u64) -> usize) {
    let sender = Sender::connect(address, options).expect("connected");
    for number in 0..count {
        let mut message = number.to_le_bytes().to_vec();
        message.resize(8 + length(number), number as u8);
        sender.send(&message).expect("sent");
    }
    sender.flush().expect("sent");
}

#[test]
fn messages_arrive_in_order_over_every_transport() {
    let servers = Servers::with_keys();
    for address in addresses(&servers) {
        let recorder = Arc::new(Recorder::default());
        let server = servers.serve(&address, Threads::default(), recorder.clone());
        send(
            &servers.client_options,
            &server.addresses()[0],
            30_000,
            |number| number as usize % 90,
        );
        let seen = recorder.wait_for_leave();
        assert_eq!(seen.next + seen.lost, 30_000, "{address}");
        if address.scheme() != "udp" {
            assert_eq!((seen.lost, seen.left), (0, vec![Reason::Done]), "{address}");
        }
        server.stop();
    }
}

#[test]
fn large_messages_and_messages_at_once_arrive_too() {
    let mut servers = Servers::with_keys();
    servers.client_options.linger = Duration::ZERO;
    for address in addresses(&servers) {
        if address.scheme() == "udp" {
            continue;
        }
        let recorder = Arc::new(Recorder::default());
        let server = servers.serve(&address, Threads::default(), recorder.clone());
        let length = |number: u64| [0, 10_240, 70_001, 1_000_000][number as usize % 4];
        send(&servers.client_options, &server.addresses()[0], 200, length);
        let seen = recorder.wait_for_leave();
        assert_eq!((seen.next, seen.lost), (200, 0), "{address}");
    }
}

#[test]
fn requests_are_answered_one_by_one_and_many_at_once() {
    let servers = Servers::with_keys();
    for address in addresses(&servers) {
        if address.scheme() == "udp" {
            continue;
        }
        for pool in [0, 2] {
            let threads = Threads {
                pollers: 2,
                pool,
                ..Threads::default()
            };
            let server = servers.serve(&address, threads, Arc::new(Recorder::default()));
            let mut client = servers.connect(&server);
            assert_eq!(client.call(b"abc").expect("answered"), b"cba");
            let error = client.call(b"fail").expect_err("it said so");
            assert!(matches!(error, TransportError::Failed(words) if words == "as you wish"));
            let big = vec![7; 900_000];
            assert_eq!(client.call(&big).expect("answered"), big);
            let mut waiting = std::collections::BTreeSet::new();
            for round in 0..500_u32 {
                let body = [&round.to_le_bytes()[..], &[1; 10_000]].concat();
                waiting.insert(client.submit(&body).expect("sent"));
                if client.waiting() >= 64 {
                    let reply = client.complete().expect("answered");
                    assert_eq!(reply.result.map(<[u8]>::len), Ok(10_004));
                    assert!(waiting.remove(&reply.number), "answered twice");
                }
            }
            while client.waiting() > 0 {
                let reply = client.complete().expect("answered");
                assert!(waiting.remove(&reply.number), "answered twice");
            }
            assert!(waiting.is_empty());
        }
    }
}

#[test]
fn delivered_messages_are_acknowledged_over_every_transport_that_can() {
    let servers = Servers::with_keys();
    for address in addresses(&servers) {
        let recorder = Arc::new(Recorder::default());
        let server = servers.serve(&address, Threads::default(), recorder.clone());
        let connected = Client::connect(&server.addresses()[0], &servers.client_options);
        if address.scheme() == "udp" {
            let error = connected.expect_err("no way back");
            assert!(matches!(error, TransportError::OneWay { .. }), "{error}");
            continue;
        }
        let mut client = connected.expect("connected");
        let mut next = 0;
        for count in [1, 500, 5_000] {
            let message = |number: u64| {
                let mut message = number.to_le_bytes().to_vec();
                message.resize(8 + number as usize % 90, number as u8);
                message
            };
            let messages: Vec<Vec<u8>> = (next..next + count).map(message).collect();
            client.deliver(&messages).expect("taken");
            next += count;
            assert_eq!(recorder.seen.lock().expect("no panic").next, next, "{address}");
            // Requests go on between them.
            assert_eq!(client.call(b"ab").expect("answered"), b"ba");
        }
        client.submit(b"x").expect("sent");
        let error = client.deliver(&[b"y"]).expect_err("an answer is under way");
        assert!(error.to_string().contains("complete them first"), "{error}");
        assert_eq!(client.complete().expect("answered").result, Ok(&b"x"[..]));
    }
}

#[test]
fn a_server_that_stops_says_so() {
    let servers = Servers::with_keys();
    for address in addresses(&servers) {
        if address.scheme() == "udp" {
            continue;
        }
        let server = servers.serve(&address, Threads::default(), Arc::new(Recorder::default()));
        let mut client = servers.connect(&server);
        client.call(b"x").expect("answered");
        server.stop();
        let error = client.call(b"x").expect_err("nobody is there");
        assert!(error.is_passing(), "{address}: {error}");
    }
}

/// Each stream's numbers come in order, whatever the others do.
#[derive(Default)]
struct ByStream {
    next: Mutex<std::collections::BTreeMap<u16, u64>>,
    left: Mutex<u64>,
}

impl Service for ByStream {
    fn message(&self, _: &Peer, stream: u16, message: &[u8]) {
        let number = u64::from_le_bytes(message[..8].try_into().expect("eight bytes"));
        let mut next = self.next.lock().expect("no panic");
        let next = next.entry(stream).or_default();
        assert_eq!(number, *next, "stream {stream}");
        *next += 1;
    }

    fn request(&self, _: &Peer, stream: u16, _: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        reply.extend_from_slice(&stream.to_le_bytes());
        Ok(())
    }

    fn disconnected(&self, _: &Peer, _: Reason) {
        *self.left.lock().expect("no panic") += 1;
    }
}

#[test]
fn streams_of_one_connection_keep_their_order_each() {
    const STREAMS: u16 = 5;
    let servers = Servers::with_keys();
    for address in addresses(&servers) {
        if address.scheme() == "udp" {
            // On a busy machine it may lose some, which is counted by connection.
            continue;
        }
        let service = Arc::new(ByStream::default());
        let server = servers.serve(&address, Threads::default(), service.clone());
        let sender = Sender::connect(&server.addresses()[0], &servers.client_options).expect("connected");
        for number in 0..2_000_u64 {
            for stream in 0..STREAMS {
                let mut batch = sender.batch_on(stream).expect("a stream");
                batch.push(&number.to_le_bytes()).expect("sent");
            }
        }
        assert!(sender.batch_on(256).is_err());
        drop(sender);
        let wanted = if address.scheme() == "quic" {
            STREAMS.into()
        } else {
            1
        };
        wait_until("its streams end", || {
            *service.left.lock().expect("no panic") >= wanted
        });
        let next = service.next.lock().expect("no panic");
        let all: Vec<(u16, u64)> = next.iter().map(|(stream, next)| (*stream, *next)).collect();
        let expected: Vec<(u16, u64)> = (0..STREAMS).map(|stream| (stream, 2_000)).collect();
        assert_eq!(all, expected, "{address}");
        drop(next);
        let mut client = servers.connect(&server);
        let number = client.submit_on(7, b"which?").expect("sent");
        let reply = client.complete().expect("answered");
        assert_eq!(
            (reply.number, reply.result),
            (number, Ok(&7_u16.to_le_bytes()[..]))
        );
    }
}

/// As [`Recorder`], where the bytes lie.
#[derive(Default)]
struct InPlaceRecorder {
    recorder: Recorder,
    in_place: std::sync::atomic::AtomicU64,
}

impl Service for InPlaceRecorder {
    fn message(&self, peer: &Peer, stream: u16, message: &[u8]) {
        self.recorder.message(peer, stream, message);
    }

    fn request(
        &self,
        peer: &Peer,
        stream: u16,
        body: &[u8],
        reply: &mut ReplyBuffer<'_>,
    ) -> Result<(), String> {
        self.recorder.request(peer, stream, body, reply)
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn message_in_place(&self, peer: &Peer, stream: u16, message: InPlace<'_>) {
        self.in_place.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.recorder.message(peer, stream, &message.to_vec());
    }

    fn request_in_place(
        &self,
        _: &Peer,
        _: u16,
        body: InPlace<'_>,
        reply: &mut Reserved<'_>,
    ) -> Result<(), String> {
        self.in_place.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if body.to_vec() == b"fail" {
            return Err("as you wish".to_owned());
        }
        // The body as often as its first byte says.
        for _ in 0..body.byte(0).unwrap_or(0) {
            reply.extend_in_place(body);
        }
        Ok(())
    }

    fn gap(&self, peer: &Peer, lost: u64) {
        self.recorder.gap(peer, lost);
    }

    fn disconnected(&self, peer: &Peer, reason: Reason) {
        self.recorder.disconnected(peer, reason);
    }
}

impl InPlaceRecorder {
    fn in_place(&self) -> u64 {
        self.in_place.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[test]
fn messages_are_handed_over_where_they_lie_in_shared_memory() {
    let mut servers = Servers::with_keys();
    let shm = addresses(&servers).remove(1);
    for checksum in [Checksum::Auto, Checksum::Always] {
        servers.client_options.checksum = checksum;
        let recorder = Arc::new(InPlaceRecorder::default());
        let server = servers.serve(&shm, Threads::default(), recorder.clone());
        // Small ones together, large ones alone, and some that are larger than a piece, or than the ring.
        let length = |number: u64| match number % 100 {
            7 => 70_001,
            8 => 1_000_000,
            rest => rest as usize * 40,
        };
        send(&servers.client_options, &server.addresses()[0], 3_000, length);
        let seen = recorder.recorder.wait_for_leave();
        assert_eq!((seen.next, seen.lost), (3_000, 0), "{checksum:?}");
        assert_eq!(seen.left, vec![Reason::Done], "{checksum:?}");
        match checksum {
            Checksum::Auto => assert!(recorder.in_place() > 2_000, "{}", recorder.in_place()),
            // What is covered by a checksum is copied first.
            Checksum::Always => assert_eq!(recorder.in_place(), 0),
        }
    }
}

#[test]
fn requests_are_answered_where_they_lie_in_shared_memory() {
    let servers = Servers::with_keys();
    let shm = addresses(&servers).remove(1);
    let recorder = Arc::new(InPlaceRecorder::default());
    let server = servers.serve(&shm, Threads::default(), recorder.clone());
    let mut client = servers.connect(&server);
    for round in 0..2_000_u32 {
        let times = round % 12;
        let mut body = vec![times as u8; 10_000];
        body[9_996..].copy_from_slice(&round.to_le_bytes());
        let expected = body.repeat(times as usize);
        // Up to more than a piece of the ring, and both ways to read an answer in turn.
        match round % 3 {
            0 => assert_eq!(client.call(&body).expect("answered"), expected),
            _ => {
                let reply = client.call_in_place(&body, |reply| reply.to_vec());
                assert_eq!(reply.expect("answered"), expected);
            }
        }
    }
    assert_eq!(recorder.in_place(), 2_000);
    let error = client.call_in_place(b"fail", |_| ()).expect_err("it said so");
    assert!(matches!(error, TransportError::Failed(words) if words == "as you wish"));
    // An answer that is longer than a frame, and one with others under way.
    let error = client.call(&[120; 10_000]).map(drop).expect_err("too long");
    assert!(matches!(error, TransportError::Failed(_)), "{error}");
    let number = client.submit(&[1; 100]).expect("sent");
    assert_eq!(
        client
            .call_in_place(&[2, 9], |reply| reply.len())
            .expect("answered"),
        4
    );
    assert!(number > 0);
    let larger = client.call_in_place(&[1; 900_000], |reply| reply.len());
    assert_eq!(larger.expect("answered"), 900_000);
}

#[test]
fn an_answer_is_read_in_place_over_every_transport() {
    let servers = Servers::with_keys();
    for address in addresses(&servers) {
        if address.scheme() == "udp" {
            continue;
        }
        let server = servers.serve(&address, Threads::default(), Arc::new(Recorder::default()));
        let mut client = servers.connect(&server);
        for _ in 0..100 {
            let reply = client.call_in_place(b"abc", |reply| (reply.to_vec(), reply.byte(3)));
            assert_eq!(reply.expect("answered"), (b"cba".to_vec(), None), "{address}");
        }
    }
}

#[test]
fn messages_that_are_written_in_place_arrive_in_order_over_every_transport() {
    let servers = Servers::with_keys();
    for address in addresses(&servers) {
        let recorder = Arc::new(InPlaceRecorder::default());
        let server = servers.serve(&address, Threads::default(), recorder.clone());
        let sender = Sender::connect(&server.addresses()[0], &servers.client_options).expect("connected");
        let most = if address.scheme() == "udp" { 1_000 } else { 100_000 };
        for number in 0..600_u64 {
            let length = number as usize * 331 % most;
            let mut batch = sender.batch();
            let pushed = match number % 3 {
                0 => batch.push(&[&number.to_le_bytes()[..], &vec![number as u8; length]].concat()),
                _ => batch.push_in_place(|space| {
                    space.extend_from_slice(&number.to_le_bytes());
                    space.extend_from_slice(&vec![number as u8; length / 2]);
                    space.extend_from_slice(&vec![number as u8; length - length / 2]);
                }),
            };
            pushed.expect("sent");
        }
        let long = sender
            .batch()
            .push_in_place(|space| space.extend_from_slice(&[0; 2 << 20]));
        assert!(matches!(long, Err(TransportError::TooLong { .. })), "{address}");
        drop(sender);
        let seen = recorder.recorder.wait_for_leave();
        assert_eq!(seen.next + seen.lost, 600, "{address}");
        if address.scheme() != "udp" {
            assert_eq!(seen.lost, 0, "{address}");
        }
    }
}
