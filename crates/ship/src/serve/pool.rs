//! Threads that answer requests, so that a handler that blocks delays no other connection.

use super::ServerState;
use super::inbox::{Inbox, InboxItem};
use crate::limits::REQUESTS_MAX;
use crate::session::{Job, Peer, ReplyBuffer, panics};
use mio::Token;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// A request on its way to a thread, and where its response goes.
pub(crate) struct QueuedRequest {
    pub(crate) job: Job,
    pub(crate) token: Token,
    pub(crate) peer: Peer,
    pub(crate) inbox: Inbox,
}

/// The threads' queue, which refuses what is too much. They end with the last of its clones.
pub(crate) type RequestQueue = SyncSender<Box<QueuedRequest>>;

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
        let (mut reply, job) = (Vec::new(), request.job);
        let space = &mut ReplyBuffer::new(&mut reply);
        let service = shared.service.as_ref();
        let answered = panics::call(|| service.request(&request.peer, job.stream, &job.body, space));
        let has_panicked = answered.is_err();
        let result = answered.unwrap_or_else(|words| {
            panics::tell(&request.peer, service, &words);
            Err(panics::PANICKED.to_owned())
        });
        // A poller that has ended needs no response any more.
        let _ = request.inbox.send(InboxItem::Response {
            token: request.token,
            stream: job.stream,
            sequence: job.sequence,
            result: result.map(|()| reply),
            has_panicked,
        });
    }
}
