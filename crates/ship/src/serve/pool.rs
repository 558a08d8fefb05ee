//! Threads that answer requests, so that a handler that blocks delays no other connection.

use super::ServerState;
use crate::limits::REQUESTS_MAX;
use crate::session::{Deferral, Job, Peer, ReplyBuffer, panics};
use std::cell::Cell;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// A request on its way to a thread, and where its response goes.
pub(crate) struct QueuedRequest {
    pub(crate) job: Job,
    /// Its outbox gets the response.
    pub(crate) peer: Peer,
}

/// The threads' queue, which refuses what is too much. They end with the last of its clones.
pub(crate) type RequestQueue = SyncSender<Box<QueuedRequest>>;

/// Hands a request over; gives it back when too many wait already, of this peer or of all.
pub(crate) fn hand_over(queue: &RequestQueue, peer: &Peer, job: Job) -> Result<(), Job> {
    if !peer.outbox.expect_response() {
        return Err(job);
    }
    let peer = peer.clone();
    match queue.try_send(Box::new(QueuedRequest { job, peer })) {
        Ok(()) => Ok(()),
        Err(TrySendError::Full(refused) | TrySendError::Disconnected(refused)) => {
            refused.peer.outbox.forgo_response();
            Err(refused.job)
        }
    }
}

/// Response to a request that is not handed over.
pub(crate) const TOO_MANY: &str = "too many requests wait";

/// Starts so many threads.
pub(crate) fn start(count: usize, shared: &Arc<ServerState>) -> io::Result<RequestQueue> {
    let (queue, requests) = sync_channel(REQUESTS_MAX);
    let requests = Arc::new(Mutex::new(requests));
    for index in 0..count {
        let (requests, theirs) = (Arc::clone(&requests), Arc::clone(shared));
        shared.threads.spawn(format!("logdrive-pool-{index}"), move || {
            answer(&requests, &theirs)
        })?;
    }
    Ok(queue)
}

fn answer(requests: &Mutex<Receiver<Box<QueuedRequest>>>, shared: &ServerState) {
    loop {
        // The one that waits for the next request holds the lock.
        let next = requests.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(request) = next else { return };
        let QueuedRequest { job, peer } = *request;
        if shared.has_stopped() || !peer.outbox.is_open() {
            // Nobody waits for it any more.
            peer.outbox.forgo_response();
            continue;
        }
        if !peer.outbox.is_wanted(job.sequence) {
            // It is left out there.
            peer.outbox
                .respond(job.stream, job.sequence, Ok(Vec::new()), false);
            continue;
        }
        let mut reply = Vec::new();
        let is_deferred = Cell::new(false);
        let deferral = Deferral::new(&peer.outbox, &is_deferred, job.stream, job.sequence);
        let mut space = ReplyBuffer::of_request(&mut reply, deferral);
        let service = shared.service.as_ref();
        let answered = panics::call(|| service.request(&peer, job.stream, &job.body, &mut space));
        if is_deferred.get() && answered.is_ok() {
            // The reply that comes later is expected, too.
            peer.outbox.forgo_response();
            continue;
        }
        let has_panicked = answered.is_err();
        let result = answered.unwrap_or_else(|words| {
            panics::tell(&peer, service, &words);
            Err(panics::PANICKED.to_owned())
        });
        let result = result.map(|()| reply);
        peer.outbox
            .respond(job.stream, job.sequence, result, has_panicked);
    }
}
