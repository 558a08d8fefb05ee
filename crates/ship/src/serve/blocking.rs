//! A connection of `shm://`, with a thread of its own: no system call waits for rings and sockets at once.

use super::{ServedSession, ServerState};
use crate::hello::Reason;
use crate::limits::{PIECE_BYTES, SHM_RELEASE_BYTES};
use crate::link::{Link, ShmLink};
use crate::receive_buffer::ReceiveBuffer;
use crate::session::{FeedResult, InPlace, Peer, Server, awaited_ack, put_deferred_ack};
use logdrive_ring::channel::Channel;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time between two checks for the end of the server.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two looks at whether the peer is still owed something when the server stops.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time between two checks for acknowledgements of a service that gives them later.
const ACK_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Serves a connection whose rings come over this channel, in a thread of its own.
pub(crate) fn start(channel: Channel, peer: Peer, shared: &Arc<ServerState>) {
    let theirs = Arc::clone(shared);
    let started = shared.threads.spawn("logdrive-shm-peer", move || {
        match ShmLink::join(channel, &theirs.options, || theirs.stops()) {
            Ok(link) => serve(link, peer, &theirs),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                theirs.connection_closed(Reason::Forbidden, true);
            }
            Err(_) if theirs.stops() => theirs.connection_closed(Reason::Ending, true),
            Err(_) => theirs.connection_closed(Reason::Handshake, true),
        }
    });
    if started.is_err() {
        shared.connection_closed(Reason::System, true);
    }
}

/// Serves a connection until it ends.
fn serve(mut link: ShmLink, peer: Peer, shared: &ServerState) {
    let mut session = ServedSession::of_peer(peer, true, link.alignment(), shared);
    if let Some(waker) = link.waker() {
        session.outbox().set_waker(waker);
    }
    let end = exchange(&mut link, &mut session, shared);
    let (Ok(reason) | Err(reason)) = end;
    if end.is_err() {
        let mut out = Vec::new();
        session.server.goodbye(reason, &mut out);
        // A peer that is gone needs no goodbye.
        let _ = link.send(&[IoSlice::new(&out)], STOP_CHECK_INTERVAL);
    }
    session.closed(reason, shared);
}

/// `Ok`: nothing is left to be said; `Err`: a goodbye is.
fn exchange(link: &mut ShmLink, session: &mut ServedSession, shared: &ServerState) -> Result<Reason, Reason> {
    let mut input = ReceiveBuffer::default();
    let mut out = Vec::new();
    let in_place = shared.service.reads_in_place();
    loop {
        // What has come is answered first.
        if shared.stops() && (link.pending_bytes().unwrap_or(0) == 0 || shared.has_stopped()) {
            return answer_late(link, session, shared);
        }
        if let Some(reason) = put_deferred_ack(&mut session.server, &mut out) {
            // Its goodbye is sent here, as far as that goes.
            let _ = send_all(link, &mut out, shared);
            return Ok(reason);
        }
        if let Err(reason) = send_all(link, &mut out, shared) {
            return Ok(reason);
        }
        let is_front = input.is_empty();
        let server = &mut session.server;
        if let Some(next) = awaited_ack(server)
            && shared.service.is_congested(&server.peer)
        {
            server.peer.acks.wait(next, STOP_CHECK_INTERVAL);
            continue;
        }
        let fed = match in_place {
            true => take_in_place(link, server, shared, &mut input, &mut out),
            false => take(link, usize::MAX, server, shared, &mut input, &mut out),
        };
        let fed = match fed {
            Ok(None) => return Ok(Reason::Lost),
            Ok(Some(fed)) => fed,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                send_outbox(link, session, &mut out, shared)?;
                match session.expired(!input.is_empty(), shared, Instant::now()) {
                    Some(reason) => return Err(reason),
                    None => continue,
                }
            }
            Err(_) => return Ok(Reason::Lost),
        };
        session.last_received = Instant::now();
        if fed.used_bytes > 0 || is_front {
            session.frame_began = session.last_received;
        }
        session.note_established(shared);
        if fed.close_reason.is_none() && session.outbox().bytes() > 0 {
            send_outbox(link, session, &mut out, shared)?;
        }
        if let Err(reason) = send_all(link, &mut out, shared) {
            return Ok(fed.close_reason.unwrap_or(reason));
        }
        if let Some(reason) = fed.close_reason {
            // Its goodbye has been sent.
            return Ok(reason);
        }
        // A hello or a frame that comes slowly is late, too.
        if let Some(reason) = session.expired(!input.is_empty(), shared, session.last_received) {
            return Err(reason);
        }
    }
}

/// Sends what other threads have for the peer. `Err`: the reason to end the connection for.
fn send_outbox(
    link: &mut ShmLink,
    session: &ServedSession,
    out: &mut Vec<u8>,
    shared: &ServerState,
) -> Result<(), Reason> {
    while session.outbox().bytes() > 0 {
        let closing = session.server.send_outbox(out, PIECE_BYTES);
        send_all(link, out, shared)?;
        closing.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Waits for responses that are due from other threads when the server stops, as long as there is time for them.
fn answer_late(
    link: &mut ShmLink,
    session: &mut ServedSession,
    shared: &ServerState,
) -> Result<Reason, Reason> {
    while let Some(next) = awaited_ack(&session.server)
        && !shared.has_stopped()
    {
        session.server.peer.acks.wait(next, STOP_POLL_INTERVAL);
        let mut out = Vec::new();
        let refused = put_deferred_ack(&mut session.server, &mut out);
        send_all(link, &mut out, shared)?;
        refused.map_or(Ok(()), Err)?;
    }
    while session.outbox().awaited() > 0 && !shared.has_stopped() {
        send_outbox(link, session, &mut Vec::new(), shared)?;
        if session.outbox().awaited() > 0 {
            std::thread::sleep(STOP_POLL_INTERVAL);
        }
    }
    send_outbox(link, session, &mut Vec::new(), shared)?;
    Err(Reason::Ending)
}

fn receive_timeout(server: &Server) -> Duration {
    match awaited_ack(server) {
        Some(_) => ACK_CHECK_INTERVAL,
        None => STOP_CHECK_INTERVAL,
    }
}

/// Waits for bytes, copies them out, and feeds them. `None`: the other end has closed.
fn take(
    link: &mut dyn Link,
    bytes_max: usize,
    server: &mut Server,
    shared: &ServerState,
    input: &mut ReceiveBuffer,
    out: &mut Vec<u8>,
) -> io::Result<Option<FeedResult>> {
    let space = input.space();
    let space_bytes = space.len().min(bytes_max);
    let space = space.get_mut(..space_bytes).unwrap_or(&mut []);
    let length = link.receive(space, receive_timeout(server))?;
    if length == 0 {
        return Ok(None);
    }
    shared.bytes.fetch_add(length as u64, Ordering::Relaxed);
    input.filled(length);
    let fed = server.feed(input.unread(), shared.service.as_ref(), out, None);
    input.consume(fed.used_bytes);
    Ok(Some(fed))
}

/// As [`take`], without copying what the session can take where it lies. Of the rest one frame is copied at a time, so
/// that the next one begins where the ring does.
fn take_in_place(
    link: &mut dyn Link,
    server: &mut Server,
    shared: &ServerState,
    input: &mut ReceiveBuffer,
    out: &mut Vec<u8>,
) -> io::Result<Option<FeedResult>> {
    if !input.is_empty() {
        let unread = input.unread();
        let left_bytes = server
            .frame_bytes(InPlace::from(unread))
            .saturating_sub(unread.len());
        return take(link, left_bytes.max(8), server, shared, input, out);
    }
    if !link.wait(false, receive_timeout(server))? {
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
        match link.send(&[IoSlice::new(rest)], shared.options.timeouts.idle) {
            Ok(length) => sent += length,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Reason::Idle),
            Err(_) => return Err(Reason::Lost),
        }
    }
    out.clear();
    Ok(())
}
