//! Threads that answer requests, so that a handler that blocks holds nobody else up.

use super::inbox::{Inbox, InboxItem};
use crate::limits::REQUESTS_MAX;
use crate::session::{Job, Peer, ReplyBuffer, Service};
use mio::Token;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A request on its way to a thread, and where its response goes.
pub(crate) struct QueuedRequest {
    pub(crate) job: Job,
    pub(crate) token: Token,
    pub(crate) peer: Peer,
    pub(crate) inbox: Inbox,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<QueuedRequest>,
    ends: bool,
}

/// The threads' queue.
pub(crate) struct RequestPool {
    queue: Mutex<Queue>,
    more: Condvar,
}

impl RequestPool {
    pub(crate) fn start(
        count: usize,
        service: &Arc<dyn Service>,
    ) -> io::Result<(Arc<Self>, Vec<JoinHandle<()>>)> {
        let pool = Arc::new(Self {
            queue: Mutex::default(),
            more: Condvar::new(),
        });
        let start = |index: usize| {
            let (pool, service) = (Arc::clone(&pool), Arc::clone(service));
            std::thread::Builder::new()
                .name(format!("logdrive-pool-{index}"))
                .spawn(move || pool.run(service.as_ref()))
        };
        let threads: io::Result<Vec<_>> = (0..count).map(start).collect();
        match threads {
            Ok(threads) => Ok((pool, threads)),
            Err(error) => {
                pool.end();
                Err(error)
            }
        }
    }

    /// Gives the work back when too much waits already.
    pub(crate) fn push(&self, request: QueuedRequest) -> Result<(), Box<QueuedRequest>> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.requests.len() >= REQUESTS_MAX || queue.ends {
            return Err(Box::new(request));
        }
        queue.requests.push_back(request);
        drop(queue);
        self.more.notify_one();
        Ok(())
    }

    pub(crate) fn end(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).ends = true;
        self.more.notify_all();
    }

    fn run(&self, service: &dyn Service) {
        loop {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let request = loop {
                match queue.requests.pop_front() {
                    Some(request) => break request,
                    None if queue.ends => return,
                    None => queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(queue);
            let mut reply = Vec::new();
            let job = request.job;
            let result = service.request(
                &request.peer,
                job.stream,
                &job.body,
                &mut ReplyBuffer::new(&mut reply),
            );
            // A poller that has ended has nobody left who waits for it.
            let _ = request.inbox.send(InboxItem::Response {
                token: request.token,
                stream: job.stream,
                sequence: job.sequence,
                result: result.map(|()| reply),
            });
        }
    }
}
