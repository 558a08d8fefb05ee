//! Frames that are taken where they lie in a ring: messages and requests are handed over without a copy, and replies are
//! written straight into the other ring.
//!
//! The peer can change a byte between two reads of it. So a header, and each length, is copied, checked, and then only
//! the copy is used; a service gets [`InPlace`], which gives copies only. What keeps no rule here ends the connection,
//! as it does where the bytes are copied first.

use super::outbox::Deferral;
use super::panics;
use super::reserved::Reserved;
use super::server::{FeedResult, Server, TOO_LONG};
use super::service::{Peer, Service};
use crate::frame::{FrameError, HEADER_BYTES, Header, Kind};
use crate::hello::Reason;
use logdrive_ring::{InPlace, PipeWriter};
use std::cell::Cell;

impl Server {
    /// Takes whole plain frames at the front of a ring until it has used so many bytes. It uses none of a frame that
    /// has to be copied first: one that has not come whole, has a checksum, is compressed or is acknowledged, a hello, a
    /// goodbye, records. Replies go into `writer`, or behind `out` where there is no room.
    pub(crate) fn feed_in_place(
        &mut self,
        ring: InPlace<'_>,
        enough_bytes: usize,
        service: &dyn Service,
        writer: &mut PipeWriter,
        out: &mut Vec<u8>,
    ) -> FeedResult {
        let mut fed = FeedResult::default();
        while fed.used_bytes < enough_bytes && self.is_established() {
            let rest = ring.slice(fed.used_bytes, ring.len() - fed.used_bytes);
            let taken =
                panics::call(|| rest.map_or(Ok(0), |rest| self.take_in_place(rest, service, writer, out)));
            match taken.unwrap_or_else(|words| Err(panics::tell(&self.peer, service, &words))) {
                Ok(0) => break,
                Ok(used) => fed.used_bytes += used,
                Err(reason) => {
                    self.goodbye(reason, out);
                    fed.close_reason = Some(reason);
                    break;
                }
            }
        }
        fed
    }

    /// Bytes of the frame at this front with what fills it up, or of a header when that has not come.
    pub(crate) fn frame_bytes(&self, front: InPlace<'_>) -> usize {
        let head = front.array::<HEADER_BYTES>(0);
        // What is no header is found out when it is fed.
        let header = head.and_then(|head| Header::decode(&head, self.frame_bytes_max).ok());
        let whole = header.map_or(HEADER_BYTES, |header| header.length_bytes as usize);
        whole.next_multiple_of(self.alignment)
    }

    fn take_in_place(
        &mut self,
        rest: InPlace<'_>,
        service: &dyn Service,
        writer: &mut PipeWriter,
        out: &mut Vec<u8>,
    ) -> Result<usize, Reason> {
        let Some(head) = rest.array::<HEADER_BYTES>(0) else {
            return Ok(0);
        };
        let header = Header::decode(&head, self.frame_bytes_max)?;
        let length = (header.length_bytes as usize).next_multiple_of(self.alignment);
        let is_plain = header.flags == 0
            && match header.kind {
                // What is acknowledged is so in one place.
                Kind::Batch => !self.sends_acks,
                kind => kind == Kind::Request,
            };
        if !is_plain || length > rest.len() {
            return Ok(0);
        }
        // The next frame's header, and with it the end of this one.
        rest.prefetch(length);
        header.verify(&head, &[])?;
        let Some(payload) = rest.slice(HEADER_BYTES, header.payload_bytes()) else {
            return Ok(0);
        };
        match header.kind {
            Kind::Batch => deliver_in_place(&self.peer, header, payload, service)?,
            _ => self.answer_in_place(header, payload, service, writer, out)?,
        }
        Ok(length)
    }

    fn answer_in_place(
        &self,
        header: Header,
        body: InPlace<'_>,
        service: &dyn Service,
        writer: &mut PipeWriter,
        out: &mut Vec<u8>,
    ) -> Result<(), Reason> {
        let mut reply = match self.checked {
            // A checksum needs bytes that do not change meanwhile.
            true => Reserved::new(),
            false => Reserved::begin::<HEADER_BYTES>(writer),
        };
        let is_deferred = Cell::new(false);
        let deferral = Deferral::new(&self.peer.outbox, &is_deferred, header.stream, header.sequence);
        reply.deferral = Some(deferral);
        let result = panics::call(|| service.request_in_place(&self.peer, header.stream, body, &mut reply));
        let result = match result {
            Ok(_) if is_deferred.get() => return Ok(()),
            Ok(result) => result,
            Err(words) => {
                if !is_deferred.get() {
                    drop(reply);
                    self.respond(header.stream, header.sequence, Err(panics::PANICKED), out);
                }
                return Err(panics::tell(&self.peer, service, &words));
            }
        };
        let words = match result {
            Ok(()) if reply.len() > self.reply_bytes_max() => TOO_LONG.to_owned(),
            Ok(()) => {
                let mut response = Header::new(Kind::Response, header.sequence);
                response.stream = header.stream;
                let head = response.seal_unchecked(reply.len());
                if let Some(bytes) = reply.finish(&head) {
                    self.respond(header.stream, header.sequence, Ok(&bytes), out);
                }
                return Ok(());
            }
            Err(words) => words,
        };
        self.respond(header.stream, header.sequence, Err(&words), out);
        Ok(())
    }
}

fn deliver_in_place(
    peer: &Peer,
    header: Header,
    payload: InPlace<'_>,
    service: &dyn Service,
) -> Result<(), FrameError> {
    let mut at = 0;
    let cut = |at: usize, needed: usize| FrameError::Truncated {
        offset: at,
        needed,
        left: payload.len() - at,
    };
    for _ in 0..header.count {
        let length = payload.array::<4>(at).ok_or_else(|| cut(at, 4))?;
        let length = u32::from_le_bytes(length) as usize;
        at += 4;
        let message = payload.slice(at, length).ok_or_else(|| cut(at, length))?;
        at += length;
        service.message_in_place(peer, header.stream, message);
    }
    match payload.len() - at {
        0 => Ok(()),
        left => Err(FrameError::Limit {
            field: "bytes behind the last message",
            found: left as u64,
            allowed: 0,
        }),
    }
}
