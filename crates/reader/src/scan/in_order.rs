//! Work on parts by several threads, whose results come in the order of the parts.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Timeout of a wait whose end is not asked for.
const LONG: Duration = Duration::from_secs(3_600);

/// Results of parts, in their order. Threads work ahead by as many parts as the window has, and end when it is dropped.
#[derive(Debug)]
pub(crate) struct InOrder<R> {
    shared: Arc<Shared<R>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<R> {
    state: Mutex<State<R>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<R> {
    results: BTreeMap<u64, R>,
    /// Number of the result that is taken next.
    next: u64,
    /// Threads that may still have results.
    working: usize,
    is_stopped: bool,
    /// Whether a thread has panicked, so that a result will never come.
    is_broken: bool,
}

impl<R> Shared<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        // A thread that panicked has left a whole state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that a thread has ended, also where it panicked.
struct Working<R>(Arc<Shared<R>>);

impl<R> Drop for Working<R> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.working -= 1;
        state.is_broken |= std::thread::panicking();
        drop(state);
        self.0.changed.notify_all();
    }
}

impl<R: Send + 'static> InOrder<R> {
    /// Starts the threads: one for each worker. Parts are asked for one after the other.
    pub(crate) fn start<P, W>(
        workers: Vec<W>,
        window: u64,
        parts: impl FnMut() -> Option<P> + Send + 'static,
    ) -> Self
    where
        W: FnMut(P) -> R + Send + 'static,
    {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                results: BTreeMap::new(),
                next: 0,
                working: workers.len(),
                is_stopped: false,
                is_broken: false,
            }),
            changed: Condvar::new(),
        });
        let parts = Arc::new(Mutex::new((0u64, parts)));
        let start = |mut worker: W| {
            let (shared, parts) = (Arc::clone(&shared), Arc::clone(&parts));
            let work = move || {
                let working = Working(Arc::clone(&shared));
                loop {
                    let (number, part) = {
                        let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
                        let mut state = shared.lock();
                        while !state.is_stopped && parts.0 >= state.next + window {
                            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                        }
                        if state.is_stopped {
                            break;
                        }
                        drop(state);
                        let Some(part) = (parts.1)() else {
                            break;
                        };
                        parts.0 += 1;
                        (parts.0 - 1, part)
                    };
                    let result = worker(part);
                    shared.lock().results.insert(number, result);
                    shared.changed.notify_all();
                }
                // What the worker holds is given back before its end is told.
                drop(worker);
                drop(working);
            };
            std::thread::Builder::new()
                .name("logdrive-scan".to_owned())
                .spawn(work)
        };
        let threads: Vec<_> = workers.into_iter().map(start).collect();
        let failed = threads.iter().filter(|thread| thread.is_err()).count();
        shared.lock().working -= failed;
        Self {
            shared,
            threads: threads.into_iter().filter_map(Result::ok).collect(),
        }
    }

    /// Waits for the next result. `None`: there are no more.
    pub(crate) fn next(&mut self) -> Option<R> {
        loop {
            match self.next_within(LONG) {
                Waited::Result(result) => return Some(result),
                Waited::End => return None,
                Waited::TimedOut => {}
            }
        }
    }

    /// Waits for the next result so long.
    pub(crate) fn next_within(&mut self, timeout: Duration) -> Waited<R> {
        let mut state = self.shared.lock();
        let mut has_waited = false;
        loop {
            let number = state.next;
            if let Some(result) = state.results.remove(&number) {
                state.next += 1;
                drop(state);
                self.shared.changed.notify_all();
                return Waited::Result(result);
            }
            if state.is_broken {
                drop(state);
                self.end();
                return Waited::End;
            }
            if state.working == 0 {
                return Waited::End;
            }
            if has_waited {
                return Waited::TimedOut;
            }
            let waited = self.shared.changed.wait_timeout(state, timeout);
            let (woken, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            (state, has_waited) = (woken, timed_out.timed_out());
        }
    }
}

impl<R> InOrder<R> {
    /// Ends the threads. A panic of one of them goes on here: what it would have found is missing.
    fn end(&mut self) {
        self.shared.lock().is_stopped = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// End of a wait for a result.
#[derive(Debug)]
pub(crate) enum Waited<R> {
    Result(R),
    TimedOut,
    /// There are no more.
    End,
}

impl<R> Drop for InOrder<R> {
    fn drop(&mut self) {
        self.shared.lock().is_stopped = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was printed, and its parts are missing.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(threads: usize) -> InOrder<u64> {
        let mut parts = 0..1000u64;
        let worker = |part: u64| {
            if part.is_multiple_of(7) {
                std::thread::yield_now();
            }
            part * part
        };
        InOrder::start(vec![worker; threads], 4, move || parts.next())
    }

    #[test]
    fn results_come_in_the_order_of_the_parts() {
        let mut results = squares(3);
        for number in 0..1000 {
            assert_eq!(results.next(), Some(number * number));
        }
        assert_eq!(results.next(), None);
    }

    #[test]
    #[should_panic(expected = "part 7")]
    fn a_panic_of_a_thread_is_no_end_of_the_results() {
        let mut parts = 0..1000u64;
        let worker = |part: u64| assert!(part != 7, "part {part}");
        let mut results = InOrder::start(vec![worker; 2], 4, move || parts.next());
        while results.next().is_some() {}
    }

    #[test]
    fn who_has_enough_need_not_take_the_rest() {
        let mut results = squares(2);
        assert_eq!(results.next(), Some(0));
        drop(results);
    }
}
