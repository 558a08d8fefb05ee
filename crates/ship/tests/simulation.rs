//! Pairs of state machines over a wire that loses, doubles, delays, reorders and cuts, in virtual time. Every seed
//! must end with each record at the other end once, in order. `LOGDRIVE_SEED` repeats one.

use logdrive_ship::frame::{FrameError, Header, Kind, Messages, next_frame};
use logdrive_ship::hello::{Hello, Reason, Role, encode_goodbye};
use logdrive_ship::limits::FRAME_BYTES_MAX;
use logdrive_ship::session::{
    Acks, Classification, DedupCursor, FeedResult, Outbox, Peer, ReplyBuffer, Server, Service, Shipper,
    compress,
};
use logdrive_testkit::Random;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The disk of the receiving end: outlives its connections and its restarts.
#[derive(Default)]
struct Disk {
    cursor: Mutex<DedupCursor>,
    kept: Mutex<Vec<u64>>,
    /// Batches until the next one is refused.
    until_refusal: Mutex<u64>,
}

impl Service for Disk {
    fn hello(&self, peer: &Peer) -> Result<u64, Reason> {
        let hello = peer.hello.as_ref().expect("it has just come");
        let mut cursor = self.cursor.lock().expect("no panic");
        if !cursor.resume(hello.epoch, hello.next) {
            return Err(Reason::Superseded);
        }
        Ok(cursor.next)
    }

    fn records(&self, _peer: &Peer, first: u64, count: u32, lines: &[u8]) -> Result<u64, Reason> {
        let mut until = self.until_refusal.lock().expect("no panic");
        *until = until.saturating_sub(1);
        if *until == 1 {
            return Err(Reason::Unavailable);
        }
        let mut cursor = self.cursor.lock().expect("no panic");
        let Classification::New { skip } = cursor.classify(first, count) else {
            return Ok(cursor.next);
        };
        let numbers: Vec<u64> = lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| {
                std::str::from_utf8(line)
                    .expect("text")
                    .parse()
                    .expect("a number")
            })
            .collect();
        assert_eq!(numbers.len(), count as usize);
        self.kept
            .lock()
            .expect("no panic")
            .extend(&numbers[skip as usize..]);
        cursor.advance(first, count);
        Ok(cursor.next)
    }
}

/// Faults of a wire, as chances of one in so many packets; 0 is never.
#[derive(Clone, Copy, Debug)]
struct Weather {
    lose: u64,
    double: u64,
    flip: u64,
    cut: u64,
    delay_ns: u64,
    /// Packets are datagrams, which may be lost, come twice or out of order.
    lossy: bool,
}

impl Weather {
    fn any(lossy: bool, random: &mut Random) -> Self {
        Self {
            lose: *random.pick(&[0, 3, 10]),
            double: *random.pick(&[0, 3, 10]),
            flip: *random.pick(&[0, 0, 40]),
            cut: *random.pick(&[0, 30, 200]),
            delay_ns: *random.pick(&[1, 1_000_000, 300_000_000]),
            lossy,
        }
    }
}

/// One direction.
#[derive(Default)]
struct Wire {
    packets: BTreeMap<(u64, u64), Vec<u8>>,
    sent: u64,
    last_ns: u64,
}

impl Wire {
    fn send(&mut self, bytes: &[u8], now: u64, weather: Weather, random: &mut Random) {
        let copies = match () {
            () if weather.lossy && random.one_in(weather.lose) => 0,
            () if weather.lossy && random.one_in(weather.double) => 2,
            () => 1,
        };
        for _ in 0..copies {
            let mut at = now + 1 + random.below(weather.delay_ns);
            if !weather.lossy {
                // A stream keeps its order.
                at = at.max(self.last_ns);
                self.last_ns = at;
            }
            let mut bytes = bytes.to_vec();
            if random.one_in(weather.flip) && !bytes.is_empty() {
                let place = random.below(bytes.len() as u64) as usize;
                bytes[place] ^= 1 << random.below(8);
            }
            self.sent += 1;
            self.packets.insert((at, self.sent), bytes);
        }
    }

    fn take(&mut self, now: u64) -> Option<Vec<u8>> {
        let entry = self.packets.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}

/// Both ends, the wire between them, and the time.
struct World {
    random: Random,
    weather: Weather,
    now: u64,
    disk: Disk,
    shipper: Shipper,
    server: Option<Server>,
    there: Wire,
    back: Wire,
    stream_there: Vec<u8>,
    stream_back: Vec<u8>,
    /// Records that the sender must still push.
    left: u64,
    connected: bool,
}

const RECORDS: u64 = 120;

fn hello(next: u64) -> Hello {
    let mut hello = Hello::new(Role::Shipper);
    hello.session = 77;
    hello.epoch = 1;
    hello.next = next;
    hello
}

impl World {
    fn new(mut random: Random) -> Self {
        let weather = Weather::any(false, &mut random);
        let disk = Disk::default();
        *disk.until_refusal.lock().expect("no panic") = random.below(30);
        Self {
            random,
            weather,
            now: 0,
            disk,
            shipper: Shipper::new(hello(0), 400),
            server: None,
            there: Wire::default(),
            back: Wire::default(),
            stream_there: Vec::new(),
            stream_back: Vec::new(),
            left: RECORDS,
            connected: false,
        }
    }

    fn push(&mut self) {
        while self.left > 0 {
            let count = (1 + self.random.below(7)).min(self.left);
            let first = self.shipper.next_number();
            let lines: String = (first..first + count)
                .map(|number| format!("{number}\n"))
                .collect();
            let packed = self
                .random
                .one_in(4)
                .then(|| compress(lines.as_bytes(), 1))
                .flatten();
            let compressed = packed.is_some();
            let payload = packed.unwrap_or_else(|| lines.into_bytes());
            if self.shipper.push(count as u32, payload, compressed).is_err() {
                return;
            }
            self.left -= count;
        }
    }

    fn connect(&mut self) {
        let mut answer = Hello::new(Role::Server);
        answer.credit_bytes = 60 + self.random.below(400);
        self.server = Some(Server::new(peer(), answer));
        self.there = Wire::default();
        self.back = Wire::default();
        self.stream_there.clear();
        self.stream_back.clear();
        let bytes = self.shipper.connected(hello(0));
        self.there.send(&bytes, self.now, self.weather, &mut self.random);
        self.connected = true;
    }

    fn disconnect(&mut self) {
        self.connected = false;
        self.server = None;
        self.shipper.disconnected();
        if self.random.one_in(3) {
            self.restart_sender();
        }
    }

    /// The sender is killed and begins again with what it knows to be acknowledged; batches are cut otherwise.
    fn restart_sender(&mut self) {
        let acknowledged = self.shipper.acknowledged();
        self.shipper = Shipper::new(hello(acknowledged), 400);
        self.left = RECORDS - acknowledged;
    }

    fn send_all(&mut self) {
        while let Some(frame) = self.shipper.poll() {
            let bytes = [&frame.header[..], frame.payload[0], frame.payload[1]].concat();
            self.there.send(&bytes, self.now, self.weather, &mut self.random);
        }
    }

    fn deliver(&mut self) -> Result<(), Reason> {
        while let Some(packet) = self.there.take(self.now) {
            let Some(server) = &mut self.server else { break };
            self.stream_there.extend(packet);
            let mut out = Vec::new();
            let FeedResult {
                used_bytes,
                close_reason: ends,
                ..
            } = server.feed(&self.stream_there, &self.disk, &mut out, None);
            self.stream_there.drain(..used_bytes);
            server.put_ack(&mut out);
            self.back.send(&out, self.now, self.weather, &mut self.random);
            if let Some(reason) = ends {
                return Err(reason);
            }
        }
        while let Some(packet) = self.back.take(self.now) {
            self.stream_back.extend(packet);
            let bytes = std::mem::take(&mut self.stream_back);
            let mut used = 0;
            loop {
                match next_frame(&bytes[used..], FRAME_BYTES_MAX) {
                    Ok(Some(frame)) => {
                        used += frame.header.length_bytes as usize;
                        self.shipper.receive(&frame)?;
                    }
                    Ok(None) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            self.stream_back = bytes[used..].to_vec();
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.shipper.is_all_acknowledged()
    }

    fn run(mut self) -> u64 {
        let mut rounds = 0;
        while !self.is_done() {
            rounds += 1;
            assert!(rounds < 200_000, "it does not end: {:?}", self.weather);
            if !self.connected {
                self.connect();
            }
            self.push();
            self.send_all();
            if self.deliver().is_err() || self.random.one_in(self.weather.cut) {
                self.disconnect();
            }
            // To the next thing that happens, whatever it is.
            let wires = [&self.there, &self.back].map(|wire| wire.packets.keys().next().map(|key| key.0));
            let next = wires.into_iter().flatten().min();
            let stall = self.now + 50_000_000;
            self.now = next.unwrap_or(stall).max(self.now + 1);
            if next.is_none() && self.connected && self.random.one_in(4) {
                // A stream in which a length was changed waits for bytes that never come: a timeout ends it.
                self.disconnect();
            }
        }
        let kept = self.disk.kept.into_inner().expect("no panic");
        let all: Vec<u64> = (0..RECORDS).collect();
        assert_eq!(kept, all, "{:?}", self.weather);
        self.shipper.resent_batches()
    }
}

#[test]
fn each_record_arrives_once_in_order_whatever_the_wire_does() {
    let (mut rounds, mut resent) = (0, 0);
    Random::rounds(5_000, |random| {
        rounds += 1;
        resent += World::new(random.clone()).run();
    });
    // One round is a seed that is repeated.
    assert!(
        rounds == 1 || resent > 1_000,
        "the wire was too good: {resent} batches were sent again"
    );
}

/// Counts messages and gaps of a datagram connection.
#[derive(Default)]
struct Ear {
    next: Mutex<u64>,
    came: Mutex<u64>,
    lost: Mutex<u64>,
}

impl Service for Ear {
    fn message(&self, _: &Peer, _: u16, message: &[u8]) {
        let number = u64::from_le_bytes(message.try_into().expect("eight bytes"));
        let mut next = self.next.lock().expect("no panic");
        assert!(number >= *next, "{number} came twice or late");
        *next = number + 1;
        *self.came.lock().expect("no panic") += 1;
    }

    fn gap(&self, _: &Peer, lost: u64) {
        *self.lost.lock().expect("no panic") += lost;
    }
}

/// Messages over a wire that loses, doubles, delays, reorders and changes datagrams: none comes twice or out of order, and
/// those that came and those that were counted as lost are together all.
#[test]
fn each_message_over_datagrams_arrives_once_or_is_counted() {
    let (mut came, mut lost, mut rounds) = (0, 0, 0);
    Random::rounds(3_000, |random| {
        let weather = Weather::any(true, random);
        let (mut there, mut now) = (Wire::default(), 0);
        let ear = Ear::default();
        let mut server = Server::new(peer(), Hello::new(Role::Server)).lossy();
        let mut out = Vec::new();
        let mut greeting = Vec::new();
        let client = Hello::new(Role::Client);
        Header::new(Kind::Hello, 0).put(&[&client.encode()], true, &mut greeting);
        server.feed(&greeting, &ear, &mut out, None);
        let mut number = 0_u64;
        while number < 200 {
            let count = 1 + random.below(9);
            let payload: Vec<u8> = (number..number + count)
                .flat_map(|number| [&8_u32.to_le_bytes()[..], &number.to_le_bytes()].concat())
                .collect();
            let mut header = Header::new(Kind::Batch, number);
            header.count = count as u32;
            let mut bytes = Vec::new();
            header.put(&[&payload], true, &mut bytes);
            there.send(&bytes, now, weather, random);
            number += count;
            now += random.below(100_000_000);
            while let Some(packet) = there.take(now) {
                server.feed(&packet, &ear, &mut out, None);
            }
        }
        while let Some(packet) = there.take(u64::MAX) {
            server.feed(&packet, &ear, &mut out, None);
        }
        let mut goodbye = Vec::new();
        let words = encode_goodbye(Reason::Done, "");
        Header::new(Kind::Goodbye, number).put(&[&words], true, &mut goodbye);
        assert_eq!(
            server.feed(&goodbye, &ear, &mut out, None).close_reason,
            Some(Reason::Done)
        );
        let sums = (
            *ear.came.lock().expect("no panic"),
            *ear.lost.lock().expect("no panic"),
        );
        assert_eq!(sums.0 + sums.1, number, "{weather:?}");
        (came, lost) = (came + sums.0, lost + sums.1);
        rounds += 1;
    });
    assert!(
        rounds == 1 || came > 100_000 && lost > 10_000,
        "{came} came and {lost} were lost"
    );
}

/// Keeps what comes, and looks at some of the messages of a call only, as a service may.
#[derive(Default)]
struct Pieces {
    came: Mutex<Vec<Vec<u8>>>,
    requests: Mutex<u32>,
    lazy: bool,
}

impl Service for Pieces {
    fn message(&self, _: &Peer, stream: u16, message: &[u8]) {
        assert_eq!(stream, 5);
        self.came.lock().expect("no panic").push(message.to_vec());
    }

    fn batch(&self, peer: &Peer, stream: u16, mut messages: Messages<'_>) -> Result<(), FrameError> {
        if self.lazy {
            messages.next_message()?;
            return Ok(());
        }
        while let Some(message) = messages.next_message()? {
            self.message(peer, stream, message);
        }
        Ok(())
    }

    fn request(&self, _: &Peer, _: u16, _: &[u8], _: &mut ReplyBuffer<'_>) -> Result<(), String> {
        *self.requests.lock().expect("no panic") += 1;
        Ok(())
    }
}

fn peer() -> Peer {
    Peer {
        id: 0,
        address: String::new(),
        uid: None,
        identity: None,
        hello: None,
        outbox: Outbox::default(),
        acks: Acks::default(),
    }
}

/// A server that has been greeted, and the bytes of a stream with batches, covered or not, and requests between them.
fn stream_of(random: &mut Random, messages: &[Vec<u8>]) -> (Server, Vec<u8>, u32) {
    let mut server = Server::new(peer(), Hello::new(Role::Server));
    let mut bytes = Vec::new();
    Header::new(Kind::Hello, 0).put(&[&Hello::new(Role::Client).encode()], true, &mut bytes);
    server.feed(&bytes, &Pieces::default(), &mut Vec::new(), None);
    assert!(server.is_established());
    bytes.clear();
    let (mut rest, mut requests) = (messages, 0);
    while !rest.is_empty() {
        let (batch, others) = rest.split_at(rest.len().min(random.below(40) as usize));
        rest = others;
        let payload: Vec<u8> = batch
            .iter()
            .flat_map(|message| [&(message.len() as u32).to_le_bytes()[..], message].concat())
            .collect();
        let mut header = Header::new(Kind::Batch, 0);
        (header.stream, header.count) = (5, batch.len() as u32);
        header.put(&[&payload], random.one_in(3), &mut bytes);
        Header::new(Kind::Request, requests.into()).put(&[&[7; 50]], true, &mut bytes);
        requests += 1;
    }
    (server, bytes, requests)
}

/// Feeds a stream in pieces, the rest of each with the next, as a poller does.
fn feed_in_pieces(
    server: &mut Server,
    bytes: &[u8],
    service: &Pieces,
    random: &mut Random,
) -> Option<Reason> {
    let most = 1 + random.below(3_000);
    let (mut held, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let end = (at + 1 + random.below(most) as usize).min(bytes.len());
        held.extend_from_slice(&bytes[at..end]);
        at = end;
        let fed = server.feed(&held, service, &mut Vec::new(), None);
        held.drain(..fed.used_bytes);
        if fed.close_reason.is_some() {
            return fed.close_reason;
        }
    }
    assert!(held.is_empty(), "all of it is used");
    None
}

#[test]
fn the_messages_of_a_batch_come_as_its_bytes_do() {
    Random::rounds(2_000, |random| {
        let messages: Vec<Vec<u8>> = (0..200_u32)
            .map(|number| {
                let length = 4 + random.below(120) as usize;
                number.to_le_bytes().into_iter().cycle().take(length).collect()
            })
            .collect();
        let (mut server, bytes, requests) = stream_of(random, &messages);
        let service = Pieces {
            lazy: random.one_in(5),
            ..Pieces::default()
        };
        let ended = feed_in_pieces(&mut server, &bytes, &service, random);
        assert_eq!(ended, None);
        assert_eq!(*service.requests.lock().expect("no panic"), requests);
        if !service.lazy {
            assert_eq!(*service.came.lock().expect("no panic"), messages);
        }
    });
}

#[test]
fn a_batch_that_breaks_the_rules_ends_the_connection_however_it_comes() {
    let long = [&90_u32.to_le_bytes()[..], &[1; 60]].concat();
    let behind = [&4_u32.to_le_bytes()[..], &[1; 60]].concat();
    for (name, payload, count) in [
        ("a message longer than the batch", &long, 1),
        ("bytes behind the last", &behind, 1),
        ("fewer messages than were said", &behind[..8].to_vec(), 2),
        ("no messages and bytes", &behind, 0),
    ] {
        for seed in 1..=100 {
            let mut random = Random::new(seed);
            let (mut server, mut bytes, _) = stream_of(&mut random, &[vec![0; 9]]);
            let mut header = Header::new(Kind::Batch, 0);
            (header.stream, header.count) = (5, count);
            header.put(&[payload], false, &mut bytes);
            bytes.extend_from_slice(&[0; 4_000]);
            let ended = feed_in_pieces(&mut server, &bytes, &Pieces::default(), &mut random);
            assert_eq!(ended, Some(Reason::Malformed), "{name}, seed {seed}");
        }
    }
}
