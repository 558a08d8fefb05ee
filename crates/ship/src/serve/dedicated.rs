//! Threads for busy connections: each waits for one of them alone, in the receive itself, so that a request and its
//! response cost no check of all the others. A connection that falls silent goes back to its poller.

use super::ServerState;
use super::connection::{Buffer, ServerConnection};
use super::inbox::{Inbox, InboxItem};
use crate::hello::Reason;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Time that a connection may be silent before it goes back, and between two checks for the end of the server.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(100);
/// Time that a peer gets at the end to take what is left for it.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(50);

/// Outcome of a connection's time on a dedicated thread.
enum Outcome {
    /// Its poller is to have it.
    ReturnToPoller,
    Closed(Reason),
}

/// Gives a connection, for which a place was reserved, a thread until it falls silent; gives it back where none can be
/// started.
pub(crate) fn start(
    connection: Box<ServerConnection>,
    inbox: Inbox,
    shared: &Arc<ServerState>,
) -> Result<(), Box<ServerConnection>> {
    let name = format!("logdrive-dedicated-{}", connection.session.server.peer.id);
    let (hand_over, handed_over) = channel();
    let theirs = Arc::clone(shared);
    let started = shared.threads.spawn(name, move || {
        if let Ok(connection) = handed_over.recv() {
            run(connection, &inbox, &theirs);
        }
        theirs.dedicated.release();
    });
    match started {
        // The thread waits for it.
        Ok(()) => hand_over.send(connection).map_err(|refused| refused.0),
        Err(_) => {
            shared.dedicated.release();
            Err(connection)
        }
    }
}

fn run(mut connection: Box<ServerConnection>, inbox: &Inbox, shared: &ServerState) {
    let outcome = serve(&mut connection, &mut Buffer::new(), shared);
    let (mut connection, reason) = match outcome {
        Outcome::Closed(reason) => (connection, reason),
        Outcome::ReturnToPoller => match inbox.send(InboxItem::Connection(connection)) {
            // The poller has ended meanwhile.
            Some(InboxItem::Connection(connection)) => (connection, Reason::Ending),
            _ => return,
        },
    };
    connection.close(reason, shared);
}

/// Serves a connection until it falls silent or ends.
fn serve(connection: &mut ServerConnection, buffer: &mut Buffer, shared: &ServerState) -> Outcome {
    while !shared.stops() {
        match connection.receive_blocking(buffer, shared, SILENCE_TIMEOUT) {
            Ok(true) => {}
            Ok(false) => return Outcome::ReturnToPoller,
            Err(reason) => return Outcome::Closed(reason),
        }
        loop {
            match connection.write(shared) {
                Ok(true) => break,
                Ok(false) => {}
                Err(reason) => return Outcome::Closed(reason),
            }
            // The peer may be waiting for us to read before it does.
            let has_turned = connection.link.wait(true, SILENCE_TIMEOUT);
            if connection.is_backpressured(shared)
                || connection.closing.is_some()
                || !matches!(has_turned, Ok(true))
            {
                return Outcome::ReturnToPoller;
            }
            if let Err(reason) = connection.read(buffer, shared, Instant::now(), false, None) {
                return Outcome::Closed(reason);
            }
        }
        if let Some(reason) = connection.closing {
            return Outcome::Closed(reason);
        }
        if connection.session.outbox().is_used() {
            // What other threads have for the peer would wait for its next request.
            return Outcome::ReturnToPoller;
        }
    }
    // What has come is taken, and what is left is sent, as well as that goes.
    let taken = connection.read(buffer, shared, Instant::now(), false, None);
    if let Err(reason) = taken.and_then(|_| connection.write(shared)) {
        return Outcome::Closed(reason);
    }
    if connection.has_output() {
        // One that does not read gets its answer after it comes back.
        let _ = connection.link.wait(true, CLOSE_TIMEOUT);
    }
    Outcome::Closed(connection.closing.unwrap_or(Reason::Ending))
}
