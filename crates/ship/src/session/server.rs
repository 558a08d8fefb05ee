//! The accepting end of a connection: says hello, hands messages, requests and records to a service, and answers.

use super::compression::with_decompressed;
use super::outbox::Deferral;
use super::panics;
use super::service::{Job, Peer, ReplyBuffer, Service};
use crate::frame::{
    FLAG_ACK, FLAG_FAILED, FLAG_ZSTD, Frame, FrameError, HEADER_BYTES, Header, Kind, Messages, PartialEnd,
    next_frame,
};
use crate::hello::{HELLO_ACKS, HELLO_UNCHECKED, Hello, Reason, Role, decode_goodbye, encode_goodbye};
use crate::limits::{
    BATCH_RECORDS_MAX, DECOMPRESSED_BYTES_MAX, FRAME_BYTES_MAX, HELLO_BYTES_MAX, REPLY_BYTES_MAX,
};
use logdrive_ring::InPlace;
use std::cell::Cell;

/// Answer in place of a reply that the peer does not accept.
pub(super) const TOO_LONG: &str = "the reply is longer than what is accepted";

/// Outcome of feeding bytes to a server.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct FeedResult {
    /// Bytes that are done with; the rest has to be given again with what comes behind it.
    pub used_bytes: usize,
    /// Reason to close the connection, once the output is sent.
    pub close_reason: Option<Reason>,
    /// Whole frames that were taken.
    pub frames: usize,
    /// The output is worth sending: the rest may be given again behind that.
    pub is_output_full: bool,
}

/// Request that the service is called for, in case that it panics.
#[derive(Debug, Default)]
struct Answering {
    /// Where its response begins in the output, its stream and its number.
    request: Cell<Option<(usize, u16, u64)>>,
    /// It is answered later.
    is_deferred: Cell<bool>,
}

/// A batch whose messages are handed over as they come, because nothing has to be checked at its end.
#[derive(Debug, Clone, Copy)]
struct PartialBatch {
    stream: u16,
    /// Bytes that are still to come of its payload, and below the number of messages in them.
    left_bytes: usize,
    left: u32,
}

/// The state of one accepted connection.
#[derive(Debug)]
pub struct Server {
    /// Peer at the other end of a connection.
    pub peer: Peer,
    hello: Hello,
    pub(super) frame_bytes_max: usize,
    pub(super) alignment: usize,
    pub(super) checked: bool,
    lossy: bool,
    /// The peer wants acks of messages.
    pub(super) sends_acks: bool,
    /// Number of the record that is wanted next: all before it are acknowledged, or taken.
    pub(super) next_record: u64,
    /// The service acknowledges later; all before this number it has.
    pub(super) deferred: Option<u64>,
    /// A batch of messages that has come in part.
    partial: Option<PartialBatch>,
    /// A request or a batch has come whole.
    has_delivered: bool,
    /// The number of the message that is wanted next, where messages may be lost or are acknowledged.
    next_message: u64,
    ack_due: bool,
    decompressed_bytes_max: usize,
    output_bytes: usize,
}

impl Server {
    /// A connection that has been accepted; answers with this hello.
    pub fn new(peer: Peer, hello: Hello) -> Self {
        Self {
            peer,
            frame_bytes_max: HELLO_BYTES_MAX,
            checked: hello.flags & HELLO_UNCHECKED == 0,
            hello,
            alignment: 1,
            lossy: false,
            sends_acks: false,
            next_record: 0,
            deferred: None,
            partial: None,
            has_delivered: false,
            next_message: 0,
            ack_due: false,
            decompressed_bytes_max: DECOMPRESSED_BYTES_MAX,
            output_bytes: usize::MAX,
        }
    }

    /// Takes no further frame once there is so much output, so that the peer has something to go on with.
    pub fn set_output_limit(&mut self, output_bytes: usize) {
        self.output_bytes = output_bytes;
    }

    /// Batches may have so many bytes when they are decompressed, 8 MiB at most.
    pub fn with_decompressed_bytes_max(mut self, bytes_max: usize) -> Self {
        self.decompressed_bytes_max = bytes_max.min(DECOMPRESSED_BYTES_MAX);
        self
    }

    /// Frames begin at multiples of this, as in a ring.
    pub fn with_alignment(mut self, alignment: usize) -> Self {
        self.alignment = alignment.max(1);
        self
    }

    /// Frames may be lost or come twice.
    pub fn lossy(mut self) -> Self {
        self.lossy = true;
        self
    }

    /// Sets the number of bytes that the peer may have in flight.
    pub fn set_window(&mut self, bytes: u64) {
        self.hello.credit_bytes = bytes;
    }

    /// Returns whether the peer has said hello.
    pub fn is_established(&self) -> bool {
        self.peer.hello.is_some()
    }

    /// Returns whether a request or a batch of the peer has come whole.
    pub(crate) fn has_delivered(&self) -> bool {
        self.has_delivered
    }

    /// Number of bytes that must have come before any of what begins at this front can be used.
    pub(crate) fn needed_bytes(&self, front: &[u8]) -> usize {
        match (self.partial, front.first_chunk::<4>()) {
            (None, _) => self.frame_bytes(InPlace::from(front)),
            (Some(partial), Some(length)) => {
                let message = u32::from_le_bytes(*length) as usize;
                // What is longer than its batch is found out when it is fed.
                message.saturating_add(4).min(partial.left_bytes)
            }
            (Some(_), None) => 4,
        }
    }

    /// Takes the whole frames at the front of `input`. Appends what is to be sent. With `jobs`, requests go there
    /// instead of to the service. A panic of the service ends the connection.
    pub fn feed(
        &mut self,
        input: &[u8],
        service: &dyn Service,
        out: &mut Vec<u8>,
        mut jobs: Option<&mut Vec<Job>>,
    ) -> FeedResult {
        let mut fed = FeedResult::default();
        let answering = Answering::default();
        let result = panics::call(|| self.take_frames(input, service, out, &mut jobs, &mut fed, &answering));
        let result = result.unwrap_or_else(|words| {
            if let Some((start, stream, sequence)) = answering.request.take() {
                out.truncate(start);
                if !answering.is_deferred.get() {
                    self.respond(stream, sequence, Err(panics::PANICKED), out);
                }
            }
            Err(panics::tell(&self.peer, service, &words))
        });
        if !self.lossy {
            self.put_ack(out);
        }
        if let Err(reason) = result {
            self.goodbye(reason, out);
            fed.close_reason = Some(reason);
        }
        fed
    }

    fn take_frames(
        &mut self,
        input: &[u8],
        service: &dyn Service,
        out: &mut Vec<u8>,
        jobs: &mut Option<&mut Vec<Job>>,
        fed: &mut FeedResult,
        answering: &Answering,
    ) -> Result<(), Reason> {
        loop {
            let rest = input.get(fed.used_bytes..).unwrap_or(&[]);
            if let Some(partial) = self.partial {
                match self.continue_batch(partial, rest, service) {
                    Ok(()) if self.partial.is_some() => {
                        fed.used_bytes +=
                            partial.left_bytes - self.partial.map_or(0, |partial| partial.left_bytes);
                        break Ok(());
                    }
                    Ok(()) => fed.used_bytes += partial.left_bytes,
                    Err(error) => break Err(error.into()),
                }
                continue;
            }
            match next_frame(rest, self.frame_bytes_max) {
                Ok(Some(frame)) => {
                    let length = (frame.header.length_bytes as usize).next_multiple_of(self.alignment);
                    if length > rest.len() {
                        break Ok(());
                    }
                    fed.used_bytes += length;
                    fed.frames += 1;
                    if let Err(reason) = self.take(&frame, service, out, jobs, answering) {
                        break Err(reason);
                    }
                    if out.len() >= self.output_bytes {
                        fed.is_output_full = true;
                        break Ok(());
                    }
                }
                // Datagrams are filled up with zeros, and one that was damaged is as good as lost.
                Err(_) if self.lossy => break Ok(()),
                Ok(None) => match self.begin_partial(rest) {
                    Ok(true) => fed.used_bytes += HEADER_BYTES,
                    Ok(false) => break Ok(()),
                    Err(error) => break Err(error.into()),
                },
                Err(error) => break Err(Reason::from(error)),
            }
        }
    }

    /// Returns whether a frame that has not come whole is a batch whose messages can be handed over as they come: over a
    /// stream, without a checksum of the payload, and not compressed. The whole batch is then never in memory.
    fn begin_partial(&mut self, front: &[u8]) -> Result<bool, FrameError> {
        let Some(head) = front.first_chunk::<HEADER_BYTES>() else {
            return Ok(false);
        };
        let header = Header::decode(head, self.frame_bytes_max)?;
        let is_plain = header.kind == Kind::Batch && header.flags == 0;
        // What is acknowledged is so as a whole.
        if !is_plain || self.lossy || self.sends_acks || self.alignment > 1 || !self.is_established() {
            return Ok(false);
        }
        header.verify(head, &[])?;
        self.partial = Some(PartialBatch {
            stream: header.stream,
            left_bytes: header.payload_bytes(),
            left: header.count,
        });
        Ok(true)
    }

    /// Hands over what has come of a batch.
    fn continue_batch(
        &mut self,
        partial: PartialBatch,
        rest: &[u8],
        service: &dyn Service,
    ) -> Result<(), FrameError> {
        if let Some(all) = rest.get(..partial.left_bytes) {
            self.partial = None;
            self.has_delivered = true;
            return service.batch(&self.peer, partial.stream, Messages::new(all, partial.left));
        }
        if rest.is_empty() {
            return Ok(());
        }
        // More than `rest` can have: nothing was noted.
        let unknown = PartialEnd {
            bytes: usize::MAX,
            messages: 0,
        };
        let remainder = Cell::new(unknown);
        let messages = Messages::partial(rest, partial.left, &remainder);
        service.batch(&self.peer, partial.stream, messages.clone())?;
        if remainder.get() == unknown {
            // The bytes end with the last message of the batch, or the service did not read all of them.
            remainder.set(PartialEnd {
                bytes: 0,
                messages: 0,
            });
            let mut messages = messages;
            while messages.next_message()?.is_some() {}
        }
        let remainder = remainder.get();
        self.partial = Some(PartialBatch {
            left_bytes: partial.left_bytes - (rest.len() - remainder.bytes),
            left: remainder.messages,
            ..partial
        });
        Ok(())
    }

    /// Acknowledges what came since the last time; over datagrams the caller says when.
    pub fn put_ack(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.ack_due) {
            let next = self.deferred.unwrap_or(self.next_record.max(self.next_message));
            self.put(Header::new(Kind::Ack, next), &[], out);
        }
    }

    /// Says goodbye.
    pub fn goodbye(&self, reason: Reason, out: &mut Vec<u8>) {
        self.put(
            Header::new(Kind::Goodbye, 0),
            &[&encode_goodbye(reason, reason.name())],
            out,
        );
    }

    /// Appends the response to a request.
    pub fn respond(&self, stream: u16, sequence: u64, result: Result<&[u8], &str>, out: &mut Vec<u8>) {
        let mut header = Header::new(Kind::Response, sequence);
        header.stream = stream;
        let is_short = |reply: &&[u8]| reply.len() <= self.reply_bytes_max();
        let payload = match result.and_then(|reply| Some(reply).filter(is_short).ok_or(TOO_LONG)) {
            Ok(reply) => reply,
            Err(words) => {
                header.flags = FLAG_FAILED;
                words.as_bytes()
            }
        };
        self.put(header, &[payload], out);
    }

    pub(super) fn reply_bytes_max(&self) -> usize {
        let said = self
            .peer
            .hello
            .as_ref()
            .map(|hello| hello.frame_bytes_max as usize);
        let frame_bytes = said.map_or(FRAME_BYTES_MAX, |bytes| {
            bytes.clamp(HELLO_BYTES_MAX, FRAME_BYTES_MAX)
        });
        REPLY_BYTES_MAX.min(frame_bytes) - HEADER_BYTES
    }

    pub(super) fn put(&self, header: Header, payload: &[&[u8]], out: &mut Vec<u8>) {
        header.put(payload, self.checked, out);
        self.pad(out);
    }

    /// Fills a frame up.
    #[inline]
    fn pad(&self, out: &mut Vec<u8>) {
        let padded = out.len().next_multiple_of(self.alignment);
        if padded > out.len() {
            out.resize(padded, 0);
        }
    }

    #[inline]
    fn take(
        &mut self,
        frame: &Frame<'_>,
        service: &dyn Service,
        out: &mut Vec<u8>,
        jobs: &mut Option<&mut Vec<Job>>,
        answering: &Answering,
    ) -> Result<(), Reason> {
        let Frame { header, payload } = *frame;
        if !self.is_established() {
            return match header.kind {
                Kind::Hello => self.handshake(payload, service, out),
                Kind::Goodbye => Err(decode_goodbye(payload)?.0),
                _ => Err(Reason::Unexpected),
            };
        }
        match header.kind {
            Kind::Request => {
                self.has_delivered = true;
                match jobs {
                    Some(jobs) => jobs.push(Job {
                        stream: header.stream,
                        sequence: header.sequence,
                        body: payload.to_vec(),
                    }),
                    None => self.answer(header, payload, service, out, answering),
                }
            }
            Kind::Batch if header.flags & FLAG_ACK != 0 => self.take_records(header, payload, service)?,
            Kind::Batch => self.take_messages(header, payload, service)?,
            // One that comes behind the response finds nothing.
            Kind::Cancel if know_cancel([Some(&self.hello), self.peer.hello.as_ref()]) => {
                self.peer.outbox.cancel(header.sequence)
            }
            Kind::Gap => service.gap(&self.peer, crate::hello::decode_number(payload)?),
            Kind::Goodbye => {
                if self.lossy && header.sequence > self.next_message {
                    // What was sent last and never came.
                    service.gap(&self.peer, header.sequence - self.next_message);
                    self.next_message = header.sequence;
                }
                return Err(decode_goodbye(payload)?.0);
            }
            // Asked again because our answer was lost.
            Kind::Hello if self.lossy => self.send_hello(out),
            _ => return Err(Reason::Unexpected),
        }
        Ok(())
    }

    fn handshake(&mut self, payload: &[u8], service: &dyn Service, out: &mut Vec<u8>) -> Result<(), Reason> {
        let hello = Hello::decode(payload)?;
        if hello.role == Role::Server {
            return Err(Reason::Unexpected);
        }
        // Only what both leave out is left out.
        self.checked = (self.hello.flags & hello.flags & HELLO_UNCHECKED) == 0;
        self.hello.session = hello.session;
        self.hello.epoch = hello.epoch;
        self.sends_acks = hello.role == Role::Client && hello.flags & HELLO_ACKS != 0;
        self.peer.hello = Some(hello);
        let message_bytes_max = self.sends_acks.then(|| self.reply_bytes_max() - 4);
        self.peer.outbox.accept_messages(message_bytes_max);
        let answer = panics::call(|| service.hello(&self.peer));
        let answer = answer.unwrap_or_else(|words| Err(panics::tell(&self.peer, service, &words)));
        self.next_record = answer.inspect_err(|_| self.peer.hello = None)?;
        self.deferred = service.defers_acks().then_some(self.next_record);
        self.frame_bytes_max = (self.hello.frame_bytes_max as usize).min(FRAME_BYTES_MAX);
        self.send_hello(out);
        Ok(())
    }

    fn send_hello(&mut self, out: &mut Vec<u8>) {
        self.hello.next = self.next_record;
        self.put(Header::new(Kind::Hello, 0), &[&self.hello.encode()], out);
    }

    /// The reply is laid out where it is sent from, behind room for its header.
    #[inline]
    fn answer(
        &mut self,
        header: Header,
        body: &[u8],
        service: &dyn Service,
        out: &mut Vec<u8>,
        answering: &Answering,
    ) {
        let start = out.len();
        let Header { stream, sequence, .. } = header;
        answering.request.set(Some((start, stream, sequence)));
        answering.is_deferred.set(false);
        out.extend_from_slice(&[0; HEADER_BYTES]);
        let deferral = Deferral::new(&self.peer.outbox, &answering.is_deferred, stream, sequence);
        let mut buffer = ReplyBuffer::of_request(out, deferral);
        let result = service.request(&self.peer, stream, body, &mut buffer);
        answering.request.set(None);
        if answering.is_deferred.get() {
            return out.truncate(start);
        }
        let reply = out.get(start + HEADER_BYTES..).unwrap_or(&[]);
        let is_short = reply.len() <= self.reply_bytes_max();
        if result.is_ok() && is_short {
            let mut response = Header::new(Kind::Response, sequence);
            response.stream = stream;
            let sealed = response.seal(&[reply], self.checked);
            if let Some(place) = out.get_mut(start..).and_then(|frame| frame.first_chunk_mut()) {
                *place = sealed;
            }
            return self.pad(out);
        }
        out.truncate(start);
        let words = result.err();
        let words = words.as_deref().unwrap_or(TOO_LONG);
        self.respond(stream, sequence, Err(words), out);
    }

    fn take_messages(&mut self, header: Header, payload: &[u8], service: &dyn Service) -> Result<(), Reason> {
        if self.lossy {
            self.ack_due = true;
            if header.sequence < self.next_message {
                // Twice, or late: its place has been counted as a gap.
                return Ok(());
            }
            if header.sequence > self.next_message {
                service.gap(&self.peer, header.sequence - self.next_message);
            }
            self.next_message = header.sequence.saturating_add(header.count.into());
        }
        if header.flags & FLAG_ZSTD == 0 {
            service.batch(&self.peer, header.stream, Messages::new(payload, header.count))?;
        } else {
            with_decompressed(payload, self.decompressed_bytes_max, |lines| {
                let messages = Messages::new(lines, header.count);
                Ok(service.batch(&self.peer, header.stream, messages)?)
            })?;
        }
        self.has_delivered = true;
        if self.sends_acks && !self.lossy {
            // Behind the service, so that what it refused is not acknowledged.
            self.ack_due = true;
            self.next_message = header.sequence.saturating_add(header.count.into());
        }
        Ok(())
    }

    fn take_records(&mut self, header: Header, payload: &[u8], service: &dyn Service) -> Result<(), Reason> {
        if header.count > BATCH_RECORDS_MAX {
            return Err(Reason::TooLarge);
        }
        let end = header.sequence.saturating_add(u64::from(header.count));
        if header.flags & FLAG_ZSTD != 0 && end <= self.next_record {
            // A duplicate is not decompressed: a peer that repeats one would cost far more than it sends.
            self.ack_due = true;
            return Ok(());
        }
        let keep = |lines: &[u8]| service.records(&self.peer, header.sequence, header.count, lines);
        let next = match header.flags & FLAG_ZSTD {
            0 => keep(payload)?,
            _ => with_decompressed(payload, self.decompressed_bytes_max, keep)?,
        };
        if next < header.sequence {
            // Over datagrams a batch before it was lost, or is late; over a stream that cannot be.
            return if self.lossy {
                // It learns what is wanted.
                self.ack_due = true;
                Ok(())
            } else {
                Err(Reason::Unexpected)
            };
        }
        self.next_record = next;
        self.has_delivered = true;
        // One without records asks for an answer.
        self.ack_due = self.deferred.is_none() || header.count == 0;
        Ok(())
    }
}

/// Returns whether both ends know frames that cancel requests.
fn know_cancel(hellos: [Option<&Hello>; 2]) -> bool {
    hellos.iter().all(|hello| hello.is_some_and(Hello::knows_cancel))
}
