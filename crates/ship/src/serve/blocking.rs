//! A connection with a thread of its own: for links that nobody can poll, as rings in shared memory.

use super::ServerState;
use crate::hello::Reason;
use crate::limits::{READ_BYTES, SHM_RELEASE_BYTES};
use crate::link::Link;
use crate::session::{FeedResult, InPlace, Server};
use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time between two looks at whether the server stops.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Serves a connection until it ends.
pub(crate) fn serve(mut link: Box<dyn Link>, mut server: Server, shared: &ServerState) {
    let mut is_established = false;
    let end = exchange(link.as_mut(), &mut server, shared, &mut is_established);
    let (Ok(reason) | Err(reason)) = end;
    if end.is_err() {
        let mut out = Vec::new();
        server.goodbye(reason, &mut out);
        // Whoever is gone needs no goodbye.
        let _ = link.send(&[IoSlice::new(&out)], STOP_CHECK_INTERVAL);
    }
    shared.connection_closed(reason, !is_established);
    if is_established {
        shared.service.disconnected(&server.peer, reason);
    }
}

/// Bytes that came and are not used, in a buffer that grows to the longest frame.
struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or(&[])
    }

    fn consume(&mut self, used_bytes: usize) {
        self.start += used_bytes;
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        } else if self.bytes.len() - self.end < READ_BYTES / 2 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.bytes.len() - self.end < READ_BYTES / 2 {
                // A frame is 1 MiB at most, which the session has checked by then.
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
        }
    }
}

/// `Ok`: nothing is left to be said; `Err`: a goodbye is.
fn exchange(
    link: &mut dyn Link,
    server: &mut Server,
    shared: &ServerState,
    is_established: &mut bool,
) -> Result<Reason, Reason> {
    let mut input = Input {
        bytes: vec![0; READ_BYTES],
        start: 0,
        end: 0,
    };
    let mut out = Vec::new();
    let mut last_received = Instant::now();
    let in_place = shared.service.reads_in_place();
    loop {
        if shared.stops() {
            return Err(Reason::Ending);
        }
        let fed = if in_place && link.rings().is_some() {
            take_in_place(link, server, shared, &mut input, &mut out)
        } else {
            take(link, usize::MAX, server, shared, &mut input, &mut out)
        };
        let fed = match fed {
            Ok(None) => return Ok(Reason::Lost),
            Ok(Some(fed)) => fed,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let (limit, reason) = shared.options.silence(*is_established);
                if last_received.elapsed() >= limit {
                    return Err(reason);
                }
                continue;
            }
            Err(_) => return Ok(Reason::Lost),
        };
        last_received = Instant::now();
        if !*is_established && server.is_established() {
            *is_established = true;
            shared.established();
        }
        if let Err(reason) = send_all(link, &mut out, shared) {
            return Ok(fed.close_reason.unwrap_or(reason));
        }
        if let Some(reason) = fed.close_reason {
            // Its goodbye has been sent.
            return Ok(reason);
        }
    }
}

/// Waits for bytes, copies them out, and feeds them. `None`: the other end has closed.
fn take(
    link: &mut dyn Link,
    bytes_max: usize,
    server: &mut Server,
    shared: &ServerState,
    input: &mut Input,
    out: &mut Vec<u8>,
) -> io::Result<Option<FeedResult>> {
    let end = input.bytes.len().min(input.end.saturating_add(bytes_max));
    let space = input.bytes.get_mut(input.end..end).unwrap_or(&mut []);
    let length = link.receive(space, STOP_CHECK_INTERVAL)?;
    if length == 0 {
        return Ok(None);
    }
    shared.bytes.fetch_add(length as u64, Ordering::Relaxed);
    input.end += length;
    let fed = server.feed(input.unread(), shared.service.as_ref(), out, None);
    input.consume(fed.used_bytes);
    Ok(Some(fed))
}

/// As [`take`], without copying what the session can take where it lies. Of the rest one frame is copied at a time, so that
/// the next one begins where the ring does.
fn take_in_place(
    link: &mut dyn Link,
    server: &mut Server,
    shared: &ServerState,
    input: &mut Input,
    out: &mut Vec<u8>,
) -> io::Result<Option<FeedResult>> {
    if !input.is_empty() {
        let unread = input.unread();
        let left_bytes = server
            .frame_bytes(InPlace::from(unread))
            .saturating_sub(unread.len());
        return take(link, left_bytes.max(8), server, shared, input, out);
    }
    if !link.wait(false, STOP_CHECK_INTERVAL)? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let Some((back, there)) = link.rings() else {
        return Ok(None);
    };
    let ring = back.in_place().map_err(io::Error::other)?;
    let service = shared.service.as_ref();
    let fed = server.feed_in_place(ring, SHM_RELEASE_BYTES, service, there, out);
    if fed.used_bytes > 0 || fed.close_reason.is_some() {
        shared.bytes.fetch_add(fed.used_bytes as u64, Ordering::Relaxed);
        back.release(fed.used_bytes);
        return Ok(Some(fed));
    }
    let frame_bytes = server.frame_bytes(ring);
    take(link, frame_bytes, server, shared, input, out)
}

fn send_all(link: &mut dyn Link, out: &mut Vec<u8>, shared: &ServerState) -> Result<(), Reason> {
    let mut sent = 0;
    while let Some(rest) = out.get(sent..).filter(|rest| !rest.is_empty()) {
        match link.send(&[IoSlice::new(rest)], shared.options.idle_timeout) {
            Ok(length) => sent += length,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Reason::Idle),
            Err(_) => return Err(Reason::Lost),
        }
    }
    out.clear();
    Ok(())
}
