//! Replies that come after their handler has returned, messages that a server sends of its own accord, requests that are
//! given up, and what a server that stops still answers; over every transport.

use logdrive_messaging::{Client, Sender};
use logdrive_ship::frame::{Header, Kind, next_frame};
use logdrive_ship::hello::{Hello, Reason, Role};
use logdrive_ship::session::{
    DeferredReply, InPlace, Outbox, Peer, PushError, ReplyBuffer, Reserved, Service,
};
use logdrive_ship::{Options, Threads, TransportError};
use logdrive_testkit::{DEADLINE, Servers, wait_for, wait_until};
use std::io::{Read, Write};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const SCHEMES: [&str; 5] = ["unix", "shm", "tcp", "tls", "quic"];

/// Keeps the replies that it owes, and the ways to its peers.
#[derive(Default)]
struct Desk {
    reads_in_place: bool,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    owed: Vec<(Vec<u8>, DeferredReply)>,
    outboxes: Vec<Outbox>,
    left: Vec<Reason>,
    threads: Vec<String>,
}

impl Desk {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reply that is owed to a request, once that has come.
    fn owed(&self, body: &[u8]) -> DeferredReply {
        wait_for("the request comes", || self.find(body))
    }

    /// The reply that is owed to a request, if that has come.
    fn find(&self, body: &[u8]) -> Option<DeferredReply> {
        let mut kept = self.kept();
        let index = kept.owed.iter().position(|(owed, _)| owed == body)?;
        Some(kept.owed.remove(index).1)
    }

    fn take(&self, body: Vec<u8>, later: DeferredReply) {
        let mut kept = self.kept();
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        kept.threads.push(thread);
        if body != b"forget" {
            kept.owed.push((body, later));
        }
    }
}

impl Service for Desk {
    fn hello(&self, peer: &Peer) -> Result<u64, Reason> {
        self.kept().outboxes.push(peer.outbox.clone());
        Ok(0)
    }

    fn request(&self, peer: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        if body == b"now" {
            reply.extend_from_slice(body);
            return Ok(());
        }
        if body == b"push" {
            peer.outbox
                .push(9, b"pushed")
                .map_err(|error| error.to_string())?;
        }
        reply.extend_from_slice(b"what is appended here is left out");
        let later = reply.defer()?;
        assert!(reply.defer().is_err(), "one reply a request");
        self.take(body.to_vec(), later);
        Ok(())
    }

    fn reads_in_place(&self) -> bool {
        self.reads_in_place
    }

    fn request_in_place(
        &self,
        peer: &Peer,
        stream: u16,
        body: InPlace<'_>,
        reply: &mut Reserved<'_>,
    ) -> Result<(), String> {
        if body.len() != 5 {
            // Copied, as by a service that does not know of rings.
            let mut bytes = Vec::new();
            return self.request(peer, stream, &body.to_vec(), &mut ReplyBuffer::new(&mut bytes));
        }
        reply.extend_from_slice(b"left out, too");
        let later = reply.defer()?;
        self.take(body.to_vec(), later);
        Ok(())
    }

    fn disconnected(&self, _: &Peer, reason: Reason) {
        self.kept().left.push(reason);
    }
}

/// Every transport, without a pool and with one.
fn everywhere(mut check: impl FnMut(&Servers, &str, Threads)) {
    let servers = Servers::with_keys();
    for scheme in SCHEMES {
        for pool in [0, 2] {
            let threads = Threads {
                pool,
                ..Threads::default()
            };
            check(&servers, scheme, threads);
        }
    }
}

#[test]
fn a_reply_is_given_after_the_handler_has_returned_in_any_order() {
    everywhere(|servers, scheme, threads| {
        let desk = Arc::new(Desk::default());
        let server = servers.serve(&servers.address(scheme, scheme), threads, desk.clone());
        let mut client = servers.connect(&server);
        let numbers: Vec<u64> = [&b"one"[..], b"two", b"three"]
            .iter()
            .map(|body| client.submit(body).expect("sent"))
            .collect();
        client.flush().expect("sent");
        for (body, index) in [(&b"three"[..], 2), (b"one", 0), (b"two", 1)] {
            desk.owed(body).reply(body);
            let reply = client.complete().expect("answered");
            assert_eq!(
                (reply.number, reply.result),
                (numbers[index], Ok(body)),
                "{scheme}"
            );
        }
        let error = client.call(b"forget").expect_err("nobody answers");
        assert!(error.to_string().contains("gave no answer"), "{error}");
        client.submit(b"fail").expect("sent");
        client.flush().expect("sent");
        desk.owed(b"fail").fail("as asked");
        assert_eq!(client.complete().expect("answered").result, Err("as asked"));
        // Many at once, from many threads, with replies that do not fit into one buffer.
        for number in 0..200_u32 {
            client.submit(&number.to_le_bytes()).expect("sent");
        }
        client.flush().expect("sent");
        std::thread::scope(|scope| {
            for part in 0..4 {
                let desk = &desk;
                scope.spawn(move || {
                    for number in (part..200_u32).step_by(4) {
                        let body = number.to_le_bytes();
                        desk.owed(&body).reply(body.repeat(5_000));
                    }
                });
            }
            for _ in 0..200 {
                let reply = client.complete().expect("answered").result.expect("a reply");
                assert_eq!(reply, reply[..4].repeat(5_000), "{scheme}");
            }
        });
        let thread = match (scheme, threads.pool) {
            // A ring's thread answers by itself.
            ("shm", _) => "logdrive-shm",
            (_, 2) => "logdrive-pool",
            ("quic", _) => "logdrive-quic",
            _ => "logdrive-",
        };
        let kept = desk.kept();
        assert!(
            kept.threads.iter().all(|name| name.starts_with(thread)),
            "{:?}",
            kept.threads
        );
    });
}

/// Reads in place, as far as the default methods do.
struct Copying(Desk);

impl Service for Copying {
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
}

#[test]
fn a_service_that_reads_in_place_defers_too() {
    let servers = Servers::with_keys();
    let desk = Arc::new(Desk {
        reads_in_place: true,
        ..Desk::default()
    });
    let server = servers.serve(&servers.address("shm", "s"), Threads::default(), desk.clone());
    let mut client = servers.connect(&server);
    let number = client.submit(b"first").expect("sent");
    client.flush().expect("sent");
    desk.owed(b"first").reply(b"later".to_vec());
    let reply = client.complete().expect("answered");
    assert_eq!((reply.number, reply.result), (number, Ok(&b"later"[..])));
    let error = client
        .call(b"deferred by a buffer of no request")
        .expect_err("refused");
    assert!(error.to_string().contains("answered at once"), "{error}");
    // A service that implements the other method alone defers, too.
    let desk = Arc::new(Copying(Desk::default()));
    let server = servers.serve(
        &servers.address("shm", "copying"),
        Threads::default(),
        desk.clone(),
    );
    let mut client = servers.connect(&server);
    client.submit(b"second").expect("sent");
    client.flush().expect("sent");
    desk.0.owed(b"second").reply(b"later".to_vec());
    assert_eq!(client.complete().expect("answered").result, Ok(&b"later"[..]));
    assert_eq!(client.call(b"now").expect("answered"), b"now");
}

#[test]
fn a_reply_that_nobody_wants_any_more_says_so_and_harms_nobody() {
    everywhere(|servers, scheme, threads| {
        let desk = Arc::new(Desk::default());
        let server = servers.serve(&servers.address(scheme, scheme), threads, desk.clone());
        let mut client = servers.connect(&server);
        client.submit(b"gone").expect("sent");
        client.flush().expect("sent");
        let owed = desk.owed(b"gone");
        assert!(owed.is_wanted());
        drop(client);
        wait_until("it has left", || !owed.is_wanted());
        owed.reply(b"to nobody".to_vec());
        assert_eq!(servers.connect(&server).call(b"now").expect("answered"), b"now");
    });
}

#[test]
fn work_for_a_request_that_is_given_up_is_told() {
    everywhere(|servers, scheme, threads| {
        let desk = Arc::new(Desk::default());
        let server = servers.serve(&servers.address(scheme, scheme), threads, desk.clone());
        let mut client = servers.connect(&server);
        let given_up = client.submit(b"slow").expect("sent");
        let other = client.submit(b"other").expect("sent");
        client.flush().expect("sent");
        let owed = desk.owed(b"slow");
        let (told, is_told) = std::sync::mpsc::channel();
        owed.on_cancel(move || told.send(()).expect("the test waits"));
        assert!(client.cancel(given_up) && !client.cancel(given_up));
        is_told.recv_timeout(DEADLINE).expect("told");
        assert!(!owed.is_wanted(), "{scheme}");
        let (late, is_late) = std::sync::mpsc::channel();
        owed.on_cancel(move || late.send(()).expect("the test waits"));
        is_late.try_recv().expect("at once");
        owed.reply(b"to nobody".to_vec());
        // Others go on, and one whose reply is on its way is given up as before.
        let still = desk.owed(b"other");
        assert!(still.is_wanted());
        still.reply(b"reply".to_vec());
        let reply = client.complete().expect("answered");
        assert_eq!((reply.number, reply.result), (other, Ok(&b"reply"[..])));
        assert!(!client.cancel(other));
        assert_eq!(client.call(b"now").expect("answered"), b"now");
    });
}

/// A server of version 1 ends a connection on which a frame comes that it does not know.
#[test]
fn a_server_that_knows_no_cancel_is_sent_none() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = format!("tcp://{}", listener.local_addr().expect("an address"));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accepted");
        let (mut bytes, mut kinds) = (Vec::new(), Vec::new());
        loop {
            let mut read = [0; 4_096];
            let length = stream.read(&mut read).expect("read");
            bytes.extend_from_slice(&read[..length]);
            while let Some(frame) = next_frame(&bytes, 1 << 20).expect("frames") {
                let (header, mut out) = (frame.header, Vec::new());
                match header.kind {
                    Kind::Hello => {
                        let mut hello = Hello::new(Role::Server);
                        hello.version_max = 1;
                        Header::new(Kind::Hello, 0).put(&[&hello.encode()], true, &mut out);
                    }
                    Kind::Request if frame.payload == b"now" => {
                        Header::new(Kind::Response, header.sequence).put(&[b"now"], true, &mut out);
                    }
                    Kind::Goodbye => return kinds,
                    _ => {}
                }
                stream.write_all(&out).expect("sent");
                kinds.push(header.kind);
                bytes.drain(..header.length_bytes as usize);
            }
        }
    });
    let mut client =
        Client::connect(&address.parse().expect("an address"), &Options::default()).expect("open");
    let given_up = client.submit(b"slow").expect("sent");
    client.flush().expect("sent");
    assert!(client.cancel(given_up));
    assert_eq!(client.call(b"now").expect("answered"), b"now");
    drop(client);
    let kinds = server.join().expect("served");
    assert_eq!(kinds, [Kind::Hello, Kind::Request, Kind::Request]);
}

#[test]
fn messages_are_pushed_from_any_thread_at_any_time() {
    everywhere(|servers, scheme, threads| {
        let desk = Arc::new(Desk::default());
        let server = servers.serve(&servers.address(scheme, scheme), threads, desk.clone());
        let mut client = servers.connect(&server);
        assert_eq!(client.next_pushed(Duration::ZERO).expect("open"), None);
        let outbox = desk.kept().outboxes[0].clone();
        let count = 5_000_u32;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..count {
                    let body = number.to_le_bytes();
                    wait_until("there is room", || match outbox.push(3, &body) {
                        Ok(()) => true,
                        Err(PushError::Full { .. }) => false,
                        Err(error) => panic!("{error}"),
                    });
                }
            });
            for number in 0..count {
                let pushed = client.next_pushed(DEADLINE).expect("open").expect("in time");
                assert_eq!(
                    (pushed.stream, &pushed.message[..]),
                    (3, &number.to_le_bytes()[..]),
                    "{scheme}"
                );
            }
        });
        // Between requests and their responses: nothing gets lost, and nothing in the place of another.
        let number = client.submit(b"push").expect("sent");
        let pushed = client.next_pushed(DEADLINE).expect("open").expect("in time");
        assert_eq!((pushed.stream, &pushed.message[..]), (9, &b"pushed"[..]));
        desk.owed(b"push").reply(b"done".to_vec());
        assert_eq!(
            client.next_pushed(Duration::from_millis(100)).expect("open"),
            None
        );
        assert_eq!(client.waiting(), 1);
        assert_eq!(client.call(b"now").expect("answered"), b"now");
        let _ = number;
        outbox.push(0, b"last").expect("open");
        client.deliver(&[b"one way"]).expect("taken");
        let pushed = client.next_pushed(DEADLINE).expect("open").expect("in time");
        assert_eq!(pushed.message, b"last");
        let long = vec![0; 2 << 20];
        assert!(matches!(outbox.push(0, &long), Err(PushError::TooLong { .. })));
        assert_eq!(client.dropped(), 0);
        drop(client);
        wait_until("it has left", || outbox.push(0, b"x") == Err(PushError::Closed));
        assert!(!outbox.is_open());
    });
}

/// A peer that only sends never reads: what is pushed to it would fill its socket and stop both.
#[test]
fn nothing_is_pushed_to_those_who_do_not_read() {
    let servers = Servers::with_keys();
    for scheme in ["unix", "shm", "quic", "udp"] {
        let desk = Arc::new(Desk::default());
        let server = servers.serve(&servers.address(scheme, scheme), Threads::default(), desk.clone());
        let sender = Sender::connect(&server.addresses()[0], &servers.client_options).expect("connected");
        sender.send(b"x").expect("sent");
        let outbox = wait_for("it says hello", || desk.kept().outboxes.pop());
        assert_eq!(outbox.push(0, b"x"), Err(PushError::Unwanted), "{scheme}");
    }
}

#[test]
fn what_a_client_does_not_take_is_bounded_at_the_server() {
    let servers = Servers::with_keys();
    for scheme in SCHEMES {
        let desk = Arc::new(Desk::default());
        let server = servers.serve(&servers.address(scheme, scheme), Threads::default(), desk.clone());
        let mut client = servers.connect(&server);
        let outbox = desk.kept().outboxes[0].clone();
        let message = vec![7; 100_000];
        let full = (0..100_000).find_map(|_| outbox.push(0, &message).err());
        assert!(matches!(full, Some(PushError::Full { .. })), "{scheme}: {full:?}");
        // It goes on where the client reads again, and calls are answered behind it.
        assert_eq!(client.call(b"now").expect("answered"), b"now", "{scheme}");
        let first = client.next_pushed(DEADLINE).expect("open").expect("in time");
        assert_eq!(first.message, message);
        wait_until("there is room again", || outbox.push(0, b"x").is_ok());
    }
}

#[test]
fn a_client_that_only_listens_is_not_taken_for_dead() {
    let mut servers = Servers::with_keys();
    servers.server_options.timeouts.idle = Duration::from_millis(300);
    servers.client_options.timeouts.idle = Duration::from_millis(300);
    let desk = Arc::new(Desk::default());
    let server = servers.serve(&servers.address("unix", "s"), Threads::default(), desk.clone());
    let mut client = servers.connect(&server);
    assert_eq!(
        client.next_pushed(Duration::from_millis(900)).expect("open"),
        None
    );
    desk.kept().outboxes[0].push(0, b"still here").expect("open");
    let pushed = client.next_pushed(DEADLINE).expect("open").expect("in time");
    assert_eq!(pushed.message, b"still here");
    assert_eq!(server.stats().accepted, 1);
}

#[test]
fn a_response_that_comes_after_its_deadline_is_left_out() {
    everywhere(|servers, scheme, threads| {
        let desk = Arc::new(Desk::default());
        let server = servers.serve(&servers.address(scheme, scheme), threads, desk.clone());
        let mut client = servers.connect(&server);
        // A call whose time ends before a worker takes it is canceled, and never comes.
        let slow = wait_for("the request comes", || {
            let error = client
                .call_within(b"slow", Duration::from_millis(20))
                .expect_err("no answer in time");
            assert!(matches!(error, TransportError::Timeout { .. }), "{error}");
            desk.find(b"slow")
        });
        let canceled = client.submit(b"canceled").expect("sent");
        client.flush().expect("sent");
        let owed = [slow, desk.owed(b"canceled")];
        assert!(client.cancel(canceled) && !client.cancel(canceled));
        assert_eq!(client.waiting(), 0);
        for owed in owed {
            owed.reply(b"too late".to_vec());
        }
        assert_eq!(
            client.call(b"now").expect("the client goes on"),
            b"now",
            "{scheme}"
        );
        let number = client.submit(b"now").expect("sent");
        let reply = client.complete().expect("answered");
        assert_eq!((reply.number, reply.result), (number, Ok(&b"now"[..])));
        assert_eq!(server.stats().accepted, 1, "over the same connection");
    });
}

#[test]
fn a_server_that_stops_answers_what_is_in_flight_and_says_goodbye() {
    everywhere(|servers, scheme, threads| {
        let desk = Arc::new(Desk::default());
        let server = servers.serve(&servers.address(scheme, scheme), threads, desk.clone());
        let mut client = servers.connect(&server);
        let mut bystander = servers.connect(&server);
        bystander.call(b"now").expect("answered");
        client.submit(b"in flight").expect("sent");
        client.flush().expect("sent");
        let owed = desk.owed(b"in flight");
        let stopping = std::thread::spawn(move || server.stop());
        // Who is owed nothing gets a goodbye at once; nobody else waits for that.
        wait_until("the bystander is sent away", || bystander.call(b"now").is_err());
        owed.reply(b"in time".to_vec());
        assert_eq!(
            client.complete().expect("answered").result,
            Ok(&b"in time"[..]),
            "{scheme}"
        );
        let stats = stopping.join().expect("no panic");
        assert_eq!(
            (stats.connections, stats.ended_for(Reason::Ending)),
            (0, 2),
            "{scheme}"
        );
        let error = client.next_pushed(Duration::ZERO).expect_err("it has ended");
        assert!(error.is_passing(), "{scheme}: {error}");
    });
}

/// Answers once all its requests are there, on as many threads of a pool.
struct Crowd(Barrier);

impl Service for Crowd {
    fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        self.0.wait();
        reply.extend_from_slice(body);
        Ok(())
    }
}

#[test]
fn a_pool_answers_requests_of_one_connection_side_by_side() {
    let servers = Servers::with_keys();
    for scheme in ["unix", "tls", "quic"] {
        let threads = Threads {
            pool: 4,
            ..Threads::default()
        };
        let service = Arc::new(Crowd(Barrier::new(4)));
        let server = servers.serve(&servers.address(scheme, scheme), threads, service);
        let mut client = servers.connect(&server);
        let mut numbers: Vec<u64> = (0..4).map(|_| client.submit(b"x").expect("sent")).collect();
        while client.waiting() > 0 {
            let reply = client.complete().expect("answered");
            assert_eq!(reply.result, Ok(&b"x"[..]));
            numbers.retain(|number| *number != reply.number);
        }
        assert!(numbers.is_empty(), "{scheme}");
    }
}

#[test]
fn a_stop_does_not_wait_longer_than_it_is_told_to() {
    let mut servers = Servers::with_keys();
    servers.server_options.timeouts.stop = Duration::from_millis(50);
    for scheme in SCHEMES {
        let desk = Arc::new(Desk::default());
        let server = servers.serve(&servers.address(scheme, scheme), Threads::default(), desk.clone());
        let mut client = Client::connect(
            &server.addresses()[0],
            &Options {
                tls: servers.client_options.tls.clone(),
                ..Options::default()
            },
        )
        .expect("connected");
        client.submit(b"never").expect("sent");
        client.flush().expect("sent");
        let owed = desk.owed(b"never");
        server.stop();
        assert!(!owed.is_wanted(), "{scheme}");
        assert!(
            client.complete().expect_err("not answered").is_passing(),
            "{scheme}"
        );
    }
}
