//! Closes descriptors of files that were not requested. Closing a file may ask its file system, and that may belong to
//! the peer that sent it and never answer; so it happens in a thread of its own, one for each user.

use crate::limits::{FOREIGN_MAX, FOREIGN_USERS_MAX};
use logdrive_ring::is_memory_file;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

/// Takes descriptors to close.
#[derive(Debug, Default)]
pub(super) struct DescriptorCloser {
    users: HashMap<u32, UserCloser>,
}

#[derive(Debug)]
struct UserCloser {
    thread: Sender<File>,
    /// Descriptors that wait, with the one that is being closed.
    waiting: Arc<AtomicUsize>,
}

impl DescriptorCloser {
    /// Returns whether descriptors may be received from a user: not as long as closing those that he sent hangs.
    pub(super) fn has_room(&self, user: u32) -> bool {
        match self.users.get(&user) {
            // Relaxed: a count.
            Some(closer) => closer.waiting.load(Ordering::Relaxed) < FOREIGN_MAX,
            None => self.users.len() < FOREIGN_USERS_MAX,
        }
    }

    /// Closes these some time. Memory files, which do not hang, are closed at once.
    pub(super) fn close(&mut self, user: u32, descriptors: Vec<OwnedFd>) {
        for file in descriptors.into_iter().map(File::from) {
            if is_memory_file(&file) {
                continue;
            }
            let closer = self.users.entry(user).or_insert_with(UserCloser::start);
            // Relaxed: a count.
            closer.waiting.fetch_add(1, Ordering::Relaxed);
            if let Err(refused) = closer.thread.send(file) {
                // There is no thread: better a descriptor too many than a drain that hangs. The count stays, so that
                // there are but a few of them.
                std::mem::forget(refused.0);
            }
        }
    }
}

impl UserCloser {
    fn start() -> Self {
        let (thread, receiver) = channel::<File>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&waiting);
        let builder = std::thread::Builder::new().name("logdrive-closer".to_owned());
        // Without a thread the receiver is gone, which `close` sees.
        let _ = builder.spawn(move || {
            logdrive_ring::local::deny_thread();
            logdrive_ring::signals::block_in_thread();
            for file in receiver {
                drop(file);
                // Relaxed: as above.
                count.fetch_sub(1, Ordering::Relaxed);
            }
        });
        Self { thread, waiting }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn many_are_closed_and_a_user_with_too_many_waits_for_them_alone() {
        let mut closer = DescriptorCloser::default();
        let device = || OwnedFd::from(File::open("/dev/null").expect("a device"));
        closer.close(1, (0..2 * FOREIGN_MAX).map(|_| device()).collect());
        assert!(closer.has_room(2));
        let deadline = Instant::now() + Duration::from_secs(20);
        while !closer.has_room(1) {
            assert!(Instant::now() < deadline, "they are not closed");
            std::thread::yield_now();
        }
        for user in 2..=FOREIGN_USERS_MAX as u32 {
            closer.close(user, vec![device()]);
        }
        assert!(!closer.has_room(1_000_000), "each user costs a thread");
    }
}
