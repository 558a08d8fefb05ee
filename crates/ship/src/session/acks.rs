//! Acknowledgements that a service gives later than it takes records, for instance when a disk has them. Whoever serves the
//! connection is woken for each.

use crate::hello::Reason;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The acknowledgements of one connection; clones share them. Used by services that
/// [defer](super::Service::defers_acks) them, from any thread.
///
/// ```
/// use logdrive_ship::session::Acks;
/// let acks = Acks::default();
/// let theirs = acks.clone();
/// std::thread::spawn(move || theirs.acknowledge(7)).join().unwrap();
/// acks.acknowledge(5); // it never goes back
/// ```
#[derive(Clone, Default)]
pub struct Acks(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    failure: Option<Reason>,
    /// The connection has been woken since it looked last.
    is_woken: bool,
    waker: Option<Box<dyn Fn() + Send>>,
    /// Of acknowledgements that are a part of others.
    whole: Option<Whole>,
}

/// Acknowledgements that several services give together, seen from one of them.
struct Whole {
    acks: Acks,
    /// Number before which each of them has all.
    parts: Arc<Mutex<Vec<u64>>>,
    index: usize,
}

impl Whole {
    fn pass_on(&self, next: u64, failure: Option<Reason>) {
        if let Some(reason) = failure {
            return self.acks.fail(reason);
        }
        // As for the state.
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = parts.get_mut(self.index) {
            *part = next;
        }
        let least = parts.iter().copied().min().unwrap_or(0);
        drop(parts);
        self.acks.acknowledge(least);
    }
}

impl Acks {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole numbers are stored.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        if let Some(whole) = &state.whole {
            whole.pass_on(state.next, state.failure);
        }
        if !std::mem::replace(&mut state.is_woken, true)
            && let Some(waker) = &state.waker
        {
            waker();
        }
        drop(state);
        self.0.changed.notify_all();
    }

    /// Acknowledges all records of the connection's session before this number. Does not block.
    pub fn acknowledge(&self, next: u64) {
        let mut state = self.lock();
        if next > state.next {
            state.next = next;
            self.wake(state);
        }
    }

    /// Makes as many acknowledgements for services that all have to have a record before it is acknowledged here.
    pub fn split(&self, count: usize) -> Vec<Self> {
        let parts = Arc::new(Mutex::new(vec![0; count]));
        let part = |index| {
            let acks = Self::default();
            acks.lock().whole = Some(Whole {
                acks: self.clone(),
                parts: Arc::clone(&parts),
                index,
            });
            acks
        };
        (0..count).map(part).collect()
    }

    /// Ends the connection: records that were taken cannot be kept, and are to be sent again.
    pub fn fail(&self, reason: Reason) {
        let mut state = self.lock();
        state.failure.get_or_insert(reason);
        self.wake(state);
    }

    /// Sets the function that wakes whoever serves the connection. It may not block, nor use these acknowledgements.
    pub(crate) fn set_waker(&self, waker: impl Fn() + Send + 'static) {
        let mut state = self.lock();
        if state.is_woken {
            waker();
        }
        state.waker = Some(Box::new(waker));
    }

    /// Returns the number before which all records are acknowledged.
    ///
    /// # Errors
    /// The reason to end the connection for.
    pub(crate) fn take(&self) -> Result<u64, Reason> {
        let mut state = self.lock();
        state.is_woken = false;
        state.failure.map_or(Ok(state.next), Err)
    }

    /// Waits until records before `next` are acknowledged, the connection is to end, or the time is over.
    pub(crate) fn wait(&self, next: u64, timeout: Duration) {
        let waits = |state: &mut State| state.next < next && state.failure.is_none();
        // Whoever waited looks for itself.
        let _ = self.0.changed.wait_timeout_while(self.lock(), timeout, waits);
    }
}

impl std::fmt::Debug for Acks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        f.debug_struct("Acks")
            .field("next", &state.next)
            .field("failure", &state.failure)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_services_the_last_one_acknowledges() {
        let whole = Acks::default();
        let parts = whole.split(2);
        parts[0].acknowledge(7);
        assert_eq!(whole.take(), Ok(0));
        parts[1].acknowledge(5);
        assert_eq!(whole.take(), Ok(5));
        parts[1].acknowledge(9);
        assert_eq!(whole.take(), Ok(7));
        parts[0].fail(Reason::Unavailable);
        assert_eq!(whole.take(), Err(Reason::Unavailable));
    }
}
