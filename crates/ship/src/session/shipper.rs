//! The sending end of records: keeps each batch until it is acknowledged, and sends what is missing after a reconnect.

use super::definitions::{ConnectionDefinitions, Part, RecordPayload};
use crate::frame::{FLAG_ACK, FLAG_ZSTD, Frame, HEADER_BYTES, Header, Kind};
use crate::hello::{Format, HELLO_UNCHECKED, Hello, Reason, decode_goodbye, decode_number};
use crate::limits::{DATAGRAM_BYTES_MAX, FRAME_BYTES_MAX};
use std::collections::VecDeque;

/// Records of one session that are sent together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordBatch {
    /// Number of the first record.
    pub first: u64,
    /// Number of records.
    pub count: u32,
    /// Set if the payload is compressed with zstd.
    pub compressed: bool,
    /// Lines of the records, or typed ones with all definitions, see [`RecordPayload`](super::RecordPayload).
    pub payload: Vec<u8>,
}

impl RecordBatch {
    /// Number behind the last record.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(u64::from(self.count))
    }

    fn bytes(&self) -> u64 {
        (self.payload.len() + HEADER_BYTES) as u64
    }
}

/// Cuts the payload of a batch of typed records into payloads of so many bytes at most, as far as records allow, each with the
/// number of its records; nothing where it cannot be read.
pub type SplitRecords = fn(&[u8], usize) -> Vec<(u32, Vec<u8>)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No connection.
    Disconnected,
    /// Hello is said, and not answered.
    Handshake,
    /// Batches may go.
    Established,
}

/// Limits for the length of frames.
#[derive(Debug, Clone, Copy)]
struct FrameLimits {
    /// The most that the other end accepts.
    peer_bytes: usize,
    /// Batches that are longer than this are cut where that can be.
    piece_bytes: usize,
    /// Frames are datagrams, which may be lost, and come twice.
    are_datagrams: bool,
}

/// The queue is full: what was pushed is given back.
#[derive(Debug, PartialEq, Eq)]
pub struct Full(pub Vec<u8>);

/// A frame to send.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// Header of the frame.
    pub header: [u8; HEADER_BYTES],
    /// Payload behind the header, in two parts.
    pub payload: [&'a [u8]; 2],
    /// Set if nothing else is under way, and nothing was before: the other end had nothing to say.
    pub is_first: bool,
}

/// Batches that were sent again.
#[derive(Debug, Default)]
struct Resent {
    /// Records before this number were sent before, on another connection.
    until: u64,
    batches: u64,
}

/// Sends the records of one session, at least once, in order.
///
/// ```
/// use logdrive_ship::hello::{Hello, Role};
/// use logdrive_ship::session::Shipper;
/// let mut shipper = Shipper::new(Hello::new(Role::Shipper), 1 << 20);
/// assert_eq!(shipper.push(2, b"one\ntwo\n".to_vec(), false), Ok(0));
/// assert_eq!(shipper.next_number(), 2);
/// ```
#[derive(Debug)]
pub struct Shipper {
    hello: Hello,
    state: State,
    queue: VecDeque<RecordBatch>,
    held_bytes: usize,
    bytes_max: usize,
    /// Number of batches at the front of the queue that are in flight.
    sent: usize,
    /// Records before this number may have been sent by an earlier shipper of the session; `None` where it is not known.
    sent_until: Option<u64>,
    resent: Resent,
    in_flight_bytes: u64,
    window_bytes: u64,
    frames: FrameLimits,
    next: u64,
    acknowledged_until: u64,
    definitions: ConnectionDefinitions,
    split: Option<SplitRecords>,
}

impl Shipper {
    /// A shipper that says this hello, whose `next` is the number of its first record. Holds at most `bytes_max` of
    /// payloads.
    pub fn new(hello: Hello, bytes_max: usize) -> Self {
        let next = hello.next;
        Self {
            hello,
            state: State::Disconnected,
            queue: VecDeque::new(),
            held_bytes: 0,
            bytes_max,
            sent: 0,
            sent_until: None,
            resent: Resent::default(),
            in_flight_bytes: 0,
            window_bytes: 0,
            frames: FrameLimits {
                peer_bytes: FRAME_BYTES_MAX,
                piece_bytes: FRAME_BYTES_MAX,
                are_datagrams: false,
            },
            next,
            acknowledged_until: next,
            definitions: ConnectionDefinitions::default(),
            split: None,
        }
    }

    /// Records before this number, and no others, may have been sent by earlier shippers of the session. Another end that
    /// claims to have more is not believed.
    #[must_use]
    pub fn with_sent_until(mut self, number: u64) -> Self {
        self.sent_until = Some(number);
        self
    }

    /// Cuts batches of typed records like this where the other end accepts shorter frames only.
    #[must_use]
    pub fn with_split(mut self, split: Option<SplitRecords>) -> Self {
        self.split = split;
        self
    }

    /// Sends frames as datagrams from the next connection on, where that is so; they may be lost, and come twice.
    pub fn set_datagrams(&mut self, are_datagrams: bool) {
        self.frames.are_datagrams = are_datagrams;
    }

    /// Takes a batch and gives its first number.
    ///
    /// # Errors
    /// Fails when there is no room for it; the batch is given back.
    pub fn push(&mut self, count: u32, payload: Vec<u8>, compressed: bool) -> Result<u64, Full> {
        if !self.has_room(payload.len()) {
            return Err(Full(payload));
        }
        let first = self.next;
        self.next = first.saturating_add(u64::from(count));
        if self.next <= self.acknowledged_until {
            return Ok(first);
        }
        self.held_bytes += payload.len();
        self.queue.push_back(RecordBatch {
            first,
            count,
            compressed,
            payload,
        });
        if self.is_established() {
            self.split_oversized(self.queue.len() - 1);
        }
        Ok(first)
    }

    /// Cuts batches to about this length from the next connection on, for a link that is too slow for longer ones.
    pub fn set_piece_bytes(&mut self, bytes: usize) {
        self.frames.piece_bytes = bytes;
    }

    /// Gives up the records before this number, which cannot be sent: the next hello says so. Nothing may be unacknowledged.
    pub fn give_up_until(&mut self, number: u64) {
        debug_assert!(self.queue.is_empty(), "what waits has numbers before it");
        self.next = self.next.max(number);
        self.acknowledged_until = self.acknowledged_until.max(self.next);
    }

    /// Cuts batches from this place on that are longer than what the other end accepts.
    fn split_oversized(&mut self, from: usize) {
        let piece_bytes = self.frames.piece_bytes.min(self.frames.peer_bytes);
        let bytes_max = piece_bytes as u64;
        if self
            .queue
            .range(from..)
            .all(|batch| self.least_bytes(batch) <= bytes_max)
        {
            return;
        }
        let payload_max = piece_bytes.saturating_sub(HEADER_BYTES);
        for batch in self.queue.split_off(from) {
            if self.least_bytes(&batch) <= bytes_max {
                self.queue.push_back(batch);
                continue;
            }
            self.held_bytes -= batch.payload.len();
            let parts = match self.hello.format {
                Format::Records => split_records(batch, self.split, payload_max),
                _ => split_lines(batch, payload_max),
            };
            for part in parts {
                self.held_bytes += part.payload.len();
                self.queue.push_back(part);
            }
        }
    }

    /// Returns whether what comes next is longer than what the other end accepts, and cannot be cut.
    pub fn is_blocked_by_oversized(&self) -> bool {
        let next = self.queue.get(self.sent).filter(|_| self.is_established());
        next.is_some_and(|batch| self.least_bytes(batch) > self.frames.peer_bytes as u64)
    }

    /// Bytes of the frame that a batch takes at least.
    fn least_bytes(&self, batch: &RecordBatch) -> u64 {
        match (self.hello.format, RecordPayload::decode(&batch.payload)) {
            (Format::Records, Ok(payload)) => payload.least_bytes() + HEADER_BYTES as u64,
            _ => batch.bytes(),
        }
    }

    /// The header of a frame without records, which is acknowledged like any: to learn whether the other end lives.
    pub fn keepalive(&self) -> [u8; HEADER_BYTES] {
        let mut header = Header::new(Kind::Batch, self.acknowledged_until);
        header.flags = FLAG_ACK;
        header.seal(&[], true)
    }

    /// The number of the next record that is pushed.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// All records before this number are kept by the other end.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged_until
    }

    /// Returns whether nothing waits for an acknowledgement.
    pub fn is_all_acknowledged(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether batches may go now.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Batches that were sent more than once.
    pub fn resent_batches(&self) -> u64 {
        self.resent.batches
    }

    /// Returns whether a batch of this length would be taken.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.queue.is_empty() || self.held_bytes + bytes <= self.bytes_max
    }

    /// The batches that are not acknowledged yet.
    pub fn unacknowledged(&self) -> impl Iterator<Item = &RecordBatch> {
        self.queue.iter()
    }

    /// A connection is there. Gives the frame to send first, with this hello's names and limits.
    pub fn connected(&mut self, hello: Hello) -> Vec<u8> {
        self.hello = hello;
        self.disconnected();
        self.state = State::Handshake;
        self.hello.next = self.queue.front().map_or(self.next, |batch| batch.first);
        self.hello_frame()
    }

    /// What was under way may be lost: it waits again. Returns a frame to send first, where the hello was not answered.
    pub fn resend(&mut self) -> Option<Vec<u8>> {
        match self.state {
            State::Handshake => Some(self.hello_frame()),
            _ => {
                self.wait_again();
                None
            }
        }
    }

    /// The connection has ended: what was under way waits again.
    pub fn disconnected(&mut self) {
        self.state = State::Disconnected;
        self.wait_again();
    }

    fn hello_frame(&self) -> Vec<u8> {
        let mut out = Vec::new();
        Header::new(Kind::Hello, 0).put(&[&self.hello.encode()], true, &mut out);
        out
    }

    fn wait_again(&mut self) {
        self.resent.until = self.resent.until.max(
            self.queue
                .get(self.sent.wrapping_sub(1))
                .map_or(0, RecordBatch::end),
        );
        self.sent = 0;
        self.in_flight_bytes = 0;
        self.definitions.clear();
    }

    /// Takes a frame that came.
    ///
    /// # Errors
    /// Fails when it ends the connection; the reason says whether another attempt is worth it.
    pub fn receive(&mut self, frame: &Frame<'_>) -> Result<(), Reason> {
        match frame.header.kind {
            Kind::Hello => self.finish_handshake(&Hello::decode(frame.payload)?),
            Kind::Ack if self.is_established() => self.acknowledge(frame.header.sequence),
            Kind::Credit if self.is_established() => {
                self.window_bytes = decode_number(frame.payload)?;
                Ok(())
            }
            Kind::Goodbye => Err(decode_goodbye(frame.payload)?.0),
            _ => Err(Reason::Unexpected),
        }
    }

    fn finish_handshake(&mut self, hello: &Hello) -> Result<(), Reason> {
        if self.state != State::Handshake {
            // Datagrams come twice, and are answered twice.
            return match self.frames.are_datagrams {
                true => Ok(()),
                false => Err(Reason::Unexpected),
            };
        }
        if hello.epoch != self.hello.epoch || hello.session != self.hello.session {
            return Err(Reason::Superseded);
        }
        if self
            .sent_until
            .is_some_and(|sent| hello.next > sent.max(self.next))
        {
            // Another sender uses the session, or the other end lies: nothing is acknowledged by that.
            return Err(Reason::Superseded);
        }
        self.state = State::Established;
        self.window_bytes = hello.credit_bytes;
        let accepted = (hello.frame_bytes_max as usize).min(FRAME_BYTES_MAX);
        self.frames.peer_bytes = match self.frames.are_datagrams {
            true => accepted.min(DATAGRAM_BYTES_MAX),
            false => accepted,
        };
        self.split_oversized(0);
        if hello.next > self.next {
            // We were killed before the ack came: records up to there are kept already.
            self.acknowledged_until = hello.next;
            return self.acknowledge(self.next);
        }
        self.acknowledge(hello.next)
    }

    fn acknowledge(&mut self, next: u64) -> Result<(), Reason> {
        // Datagrams of an earlier sender of the session may be taken after our hello was answered: what it may have sent is
        // believed, as it is in a hello. Over streams such a number is that of another sender, which has a copy of our state.
        let earlier = self.sent_until.filter(|_| self.frames.are_datagrams).unwrap_or(0);
        if next > self.next.max(self.acknowledged_until).max(earlier) {
            // It has records of this session that we have not sent.
            return Err(Reason::Superseded);
        }
        self.acknowledged_until = self.acknowledged_until.max(next);
        while let Some(batch) = self.queue.pop_front_if(|batch| batch.end() <= next) {
            self.held_bytes -= batch.payload.len();
            if self.sent > 0 {
                self.sent -= 1;
                self.in_flight_bytes = self.in_flight_bytes.saturating_sub(batch.bytes());
            }
        }
        Ok(())
    }

    /// The next frame that may be sent now, if there is one. It counts as sent.
    pub fn poll(&mut self) -> Option<Outgoing<'_>> {
        if self.state != State::Established {
            return None;
        }
        let batch = self.queue.get(self.sent)?;
        let bytes = batch.bytes();
        let is_too_much = self.in_flight_bytes > 0 && self.in_flight_bytes + bytes > self.window_bytes;
        let is_short = self.least_bytes(batch) <= self.frames.piece_bytes as u64;
        let payload_max = match self.frames.are_datagrams && is_short {
            // One that fits into no usual datagram goes in a longer one.
            true => self.frames.piece_bytes.min(self.frames.peer_bytes),
            false => self.frames.peer_bytes,
        };
        let payload_max = payload_max.saturating_sub(HEADER_BYTES);
        if is_too_much {
            return None;
        }
        let part = match self.hello.format {
            Format::Records => self.definitions.next(&batch.payload, payload_max)?,
            _ if batch.payload.len() > payload_max => return None,
            _ => Part::whole(&batch.payload),
        };
        let mut header = Header::new(Kind::Batch, batch.first);
        header.flags = FLAG_ACK | if batch.compressed { FLAG_ZSTD } else { 0 };
        if part.is_last {
            header.count = batch.count;
            self.in_flight_bytes += bytes;
            self.sent += 1;
            self.resent.batches += u64::from(batch.first < self.resent.until);
        }
        let checked = self.hello.flags & HELLO_UNCHECKED == 0;
        Some(Outgoing {
            is_first: self.sent == 1 && batch.first >= self.resent.until,
            header: header.seal(&part.bytes, checked),
            payload: part.bytes,
        })
    }
}

/// The typed records of a batch as batches, all of them together; the batch itself where it cannot be cut.
fn split_records(batch: RecordBatch, split: Option<SplitRecords>, payload_max: usize) -> Vec<RecordBatch> {
    let parts = split.map_or_else(Vec::new, |split| split(&batch.payload, payload_max));
    let count: u64 = parts.iter().map(|(count, _)| u64::from(*count)).sum();
    if count != u64::from(batch.count) {
        return vec![batch];
    }
    let mut first = batch.first;
    let number = |(count, payload): (u32, Vec<u8>)| {
        let next = first.saturating_add(u64::from(count));
        RecordBatch {
            first: std::mem::replace(&mut first, next),
            count,
            compressed: false,
            payload,
        }
    };
    parts.into_iter().map(number).collect()
}

/// The lines of a batch as batches whose payloads are no longer than this, where lines allow that.
fn split_lines(batch: RecordBatch, payload_max: usize) -> Vec<RecordBatch> {
    let mut lines = Vec::new();
    let lines = match batch.compressed {
        true if super::decompress(&batch.payload, &mut lines).is_ok() => &lines,
        true => return vec![batch],
        false => &batch.payload,
    };
    let mut parts = Vec::new();
    let (mut first, mut start, mut end, mut count) = (batch.first, 0, 0, 0u32);
    let mut part = |first: u64, count: u32, bytes: &[u8]| {
        parts.push(RecordBatch {
            first,
            count,
            compressed: false,
            payload: bytes.to_vec(),
        });
    };
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        if count > 0 && end - start + line.len() > payload_max {
            part(first, count, lines.get(start..end).unwrap_or(&[]));
            (first, start, count) = (first + u64::from(count), end, 0);
        }
        end += line.len();
        count += 1;
    }
    part(first, count, lines.get(start..end).unwrap_or(&[]));
    let is_whole = parts.last().is_some_and(|last| last.end() == batch.end());
    if is_whole { parts } else { vec![batch] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hello::Role;

    fn answer(frame_bytes_max: u32) -> Vec<u8> {
        let mut hello = Hello::new(Role::Server);
        hello.frame_bytes_max = frame_bytes_max;
        let mut out = Vec::new();
        Header::new(Kind::Hello, 0).put(&[&hello.encode()], true, &mut out);
        out
    }

    /// A server that claimed records which were never sent made a sender report them as acknowledged.
    #[test]
    fn a_claim_to_have_what_was_never_sent_is_not_believed() {
        let claim = |next: u64, sent: Option<u64>| {
            let mut shipper = Shipper::new(Hello::new(Role::Shipper), 1 << 20);
            if let Some(sent) = sent {
                shipper = shipper.with_sent_until(sent);
            }
            shipper.push(500, b"x\n".repeat(500), false).expect("room");
            shipper.connected(Hello::new(Role::Shipper));
            let mut hello = Hello::new(Role::Server);
            hello.next = next;
            let mut bytes = Vec::new();
            Header::new(Kind::Hello, 0).put(&[&hello.encode()], true, &mut bytes);
            let frame = crate::frame::next_frame(&bytes, 1024)
                .expect("sound")
                .expect("whole");
            (shipper.receive(&frame), shipper.acknowledged())
        };
        assert_eq!(claim(99_900, Some(0)), (Err(Reason::Superseded), 0));
        assert_eq!(claim(501, Some(0)), (Err(Reason::Superseded), 0));
        assert_eq!(claim(500, Some(0)), (Ok(()), 500));
        assert_eq!(claim(700, Some(700)), (Ok(()), 700));
        assert_eq!(claim(701, Some(700)), (Err(Reason::Superseded), 0));
    }

    /// A sender that went on after a kill took them for those of another sender, and sent lines twice.
    #[test]
    fn what_earlier_senders_may_have_sent_is_believed_over_datagrams_after_the_hello_too() {
        let acknowledged = |next: u64, are_datagrams: bool| {
            let mut shipper = Shipper::new(Hello::new(Role::Shipper), 1 << 20).with_sent_until(1_000);
            shipper.set_datagrams(are_datagrams);
            shipper.push(500, b"x\n".repeat(500), false).expect("room");
            shipper.connected(Hello::new(Role::Shipper));
            let mut hello = Hello::new(Role::Server);
            hello.next = 700;
            let mut receive = |header: Header, payload: &[u8]| {
                let mut bytes = Vec::new();
                header.put(&[payload], true, &mut bytes);
                let frame = crate::frame::next_frame(&bytes, 1024)
                    .expect("sound")
                    .expect("whole");
                shipper.receive(&frame)
            };
            assert_eq!(receive(Header::new(Kind::Hello, 0), &hello.encode()), Ok(()));
            receive(Header::new(Kind::Ack, next), &[]).map(|()| shipper.acknowledged())
        };
        assert_eq!(acknowledged(700, false), Ok(700));
        assert_eq!(acknowledged(701, false), Err(Reason::Superseded));
        assert_eq!(acknowledged(1_000, true), Ok(1_000));
        assert_eq!(acknowledged(1_001, true), Err(Reason::Superseded));
    }

    #[test]
    fn batches_are_cut_to_what_the_other_end_accepts() {
        // Hardly any of it can be compressed away.
        let line = |n: u64| format!("{:016x}\n", n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).into_bytes();
        let lines: Vec<u8> = (0..200).flat_map(line).collect();
        let mut shipper = Shipper::new(Hello::new(Role::Shipper), 1 << 20);
        shipper.push(200, lines.clone(), false).expect("room");
        let packed = super::super::compress(&lines, 1).expect("shorter");
        assert!(packed.len() > 1024);
        shipper.connected(Hello::new(Role::Shipper));
        let bytes = answer(1024);
        let frame = crate::frame::next_frame(&bytes, 1024)
            .expect("sound")
            .expect("whole");
        shipper.receive(&frame).expect("fine");
        shipper.push(200, packed, true).expect("room");
        let (mut next, mut sent) = (0, Vec::new());
        while let Some(out) = shipper.poll() {
            let payload = out.payload.concat();
            assert!(payload.len() + HEADER_BYTES <= 1024);
            let header = Header::decode(&out.header, 1024).expect("sound");
            assert_eq!(header.sequence, next);
            next += u64::from(header.count);
            sent.extend_from_slice(&payload);
        }
        assert_eq!(next, 400);
        assert_eq!(sent, [lines.clone(), lines].concat());
        assert!(!shipper.is_blocked_by_oversized());
        shipper.push(1, vec![b'x'; 2000], false).expect("room");
        assert!(shipper.is_blocked_by_oversized());
    }
}
