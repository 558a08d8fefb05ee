//! Numbers of a client's requests, and which of them wait for a response.

use logdrive_ship::limits::REQUESTS_MAX;
use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// Nobody waits for the response any more.
    Canceled,
    Done,
}

/// Requests from the oldest that is not done on.
#[derive(Debug)]
pub(super) struct Requests {
    /// Number of the first of them.
    first: u64,
    states: VecDeque<State>,
    waiting: usize,
}

impl Requests {
    pub(super) fn new() -> Self {
        Self {
            first: 1,
            states: VecDeque::new(),
            waiting: 0,
        }
    }

    /// Numbers another request. `None`: too many are under way.
    #[inline]
    pub(super) fn begin(&mut self) -> Option<u64> {
        if self.states.len() >= REQUESTS_MAX {
            // Responses to those that were given up may never come.
            self.pop_while(|state| state != State::Waiting);
            if self.states.len() >= REQUESTS_MAX {
                return None;
            }
        }
        self.states.push_back(State::Waiting);
        self.waiting += 1;
        Some(self.first + self.states.len() as u64 - 1)
    }

    /// Requests that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns whether no response can come.
    pub(super) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Takes a response. `false`: nobody waits for it.
    #[inline]
    pub(super) fn complete(&mut self, number: u64) -> bool {
        if number == self.first
            && self
                .states
                .pop_front_if(|state| *state == State::Waiting)
                .is_some()
        {
            // In order, as responses mostly come.
            self.first += 1;
            self.waiting -= 1;
            self.pop_while(|state| state == State::Done);
            return true;
        }
        self.complete_in_any_order(number)
    }

    fn complete_in_any_order(&mut self, number: u64) -> bool {
        let is_waited_for = self.leave(number, State::Done);
        self.pop_while(|state| state == State::Done);
        is_waited_for
    }

    /// Gives a request up. `false`: it does not wait. With `is_told` the other end knows it, so that no response need come.
    pub(super) fn cancel(&mut self, number: u64, is_told: bool) -> bool {
        let was_waiting = self.leave(number, State::Canceled);
        if was_waiting && is_told {
            self.leave(number, State::Done);
            self.pop_while(|state| state == State::Done);
        }
        was_waiting
    }

    fn leave(&mut self, number: u64, next: State) -> bool {
        let index = number.checked_sub(self.first);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let Some(state) = index.and_then(|index| self.states.get_mut(index)) else {
            return false;
        };
        let was_waiting = *state == State::Waiting;
        if was_waiting || next == State::Done {
            *state = next;
        }
        self.waiting -= usize::from(was_waiting);
        was_waiting
    }

    fn pop_while(&mut self, is_over: impl Fn(State) -> bool) {
        while self.states.front().is_some_and(|state| is_over(*state)) {
            self.states.pop_front();
            self.first += 1;
        }
    }

    /// Gives all up: no response of theirs can come.
    pub(super) fn clear(&mut self) {
        self.first += self.states.len() as u64;
        self.states.clear();
        self.waiting = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_response_counts_once_and_none_that_was_given_up() {
        let mut requests = Requests::new();
        let numbers: Vec<u64> = (0..4).filter_map(|_| requests.begin()).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert!(requests.cancel(2, false) && !requests.cancel(2, false));
        assert!(
            requests.complete(3) && !requests.complete(3),
            "in any order, once"
        );
        assert!(!requests.complete(2), "nobody waits");
        assert!(!requests.cancel(3, true) && !requests.cancel(0, true) && !requests.cancel(5, true));
        assert_eq!(requests.waiting(), 2);
        assert!(requests.complete(1) && requests.complete(4) && requests.is_empty());
        assert_eq!(requests.begin(), Some(5));
        requests.clear();
        assert!(!requests.complete(5), "of a connection that was lost");
        assert_eq!(requests.begin(), Some(6));
        assert!(
            requests.cancel(6, true) && requests.is_empty(),
            "no response need come"
        );
        assert!(!requests.complete(6), "one that was on its way");
        assert_eq!(requests.begin(), Some(7));
    }

    #[test]
    fn requests_that_are_never_answered_do_not_pile_up() {
        let mut requests = Requests::new();
        for _ in 0..3 * REQUESTS_MAX {
            let number = requests.begin().expect("room, because the others were given up");
            assert!(requests.cancel(number, false));
        }
        assert!(requests.states.len() <= REQUESTS_MAX);
        let mut requests = Requests::new();
        let begun = (0..2 * REQUESTS_MAX).filter_map(|_| requests.begin()).count();
        assert_eq!((begun, requests.waiting()), (REQUESTS_MAX, REQUESTS_MAX));
    }
}
