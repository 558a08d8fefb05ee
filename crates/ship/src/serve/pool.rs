//! Threads that answer requests, so that a handler that blocks holds nobody else up.

use super::poller::{Arrival, Hook};
use crate::limits::REQUESTS_MAX;
use crate::session::{Answer, Job, Peer, Service};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A request on its way to a thread, and where its response goes.
pub(crate) struct Work {
    pub(crate) job: Job,
    pub(crate) token: u64,
    pub(crate) peer: Peer,
    pub(crate) hook: Hook,
}

#[derive(Default)]
struct Queue {
    works: VecDeque<Work>,
    ends: bool,
}

/// The threads' queue.
pub(crate) struct Pool {
    queue: Mutex<Queue>,
    more: Condvar,
}

impl Pool {
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
    pub(crate) fn push(&self, work: Work) -> Result<(), Box<Work>> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.works.len() >= REQUESTS_MAX || queue.ends {
            return Err(Box::new(work));
        }
        queue.works.push_back(work);
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
            let work = loop {
                match queue.works.pop_front() {
                    Some(work) => break work,
                    None if queue.ends => return,
                    None => queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(queue);
            let mut reply = Vec::new();
            let job = work.job;
            let result = service.request(&work.peer, job.stream, &job.body, &mut Answer::new(&mut reply));
            // A poller that has ended has nobody left who waits for it.
            let _ = work.hook.send(Arrival::Response {
                token: work.token,
                stream: job.stream,
                sequence: job.sequence,
                result: result.map(|()| reply),
            });
        }
    }
}
