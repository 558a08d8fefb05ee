//! Notices for a person although the log goes on: kept until the owner takes them and puts them
//! into the log as a record.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::limits::NOTICES_MAX;

/// A bounded queue shared by a log file and the thread that tidies up behind it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notices(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<String>,
    /// Text of the last notice: a fault that lasts is reported once.
    last: String,
}

impl Notices {
    /// Adds a notice unless it says again what the last one said.
    pub(crate) fn push(&self, notice: impl ToString) {
        let notice = notice.to_string();
        let mut queue = self.queue();
        if queue.last == notice {
            return;
        }
        if queue.waiting.len() >= NOTICES_MAX {
            queue.waiting.pop_front();
        }
        queue.last.clone_from(&notice);
        queue.waiting.push_back(notice);
    }

    /// Takes the oldest notice out of the queue.
    pub(crate) fn take(&self) -> Option<String> {
        self.queue().waiting.pop_front()
    }

    /// Nothing between lock and unlock panics, so a poisoned queue is whole.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_said_once_and_the_queue_is_bounded() {
        let notices = Notices::default();
        notices.push("a");
        notices.push("a");
        assert_eq!(notices.take().as_deref(), Some("a"));
        notices.push("a");
        assert_eq!(notices.take(), None);
        for number in 0..NOTICES_MAX + 5 {
            notices.push(number);
        }
        assert_eq!(notices.take().as_deref(), Some("5"));
    }
}
