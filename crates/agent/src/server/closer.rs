//! Closes descriptors of files that nobody asked for. Closing a file may ask its file system, and that may belong to the
//! peer that sent it and never answer; so it happens in a thread of its own.

use crate::limits::FOREIGN_MAX;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

/// Takes descriptors to close.
#[derive(Debug, Default)]
pub(super) struct Closer {
    thread: Option<SyncSender<OwnedFd>>,
    /// Whether closing hangs: then no descriptors are received any more.
    stuck: bool,
}

impl Closer {
    /// Whether descriptors may be received.
    pub(super) fn has_room(&self) -> bool {
        !self.stuck
    }

    /// Closes these some time.
    pub(super) fn close(&mut self, foreign: Vec<OwnedFd>) {
        for descriptor in foreign {
            if self.thread.is_none() {
                self.thread = start();
            }
            let Some(thread) = &self.thread else {
                return std::mem::drop(descriptor);
            };
            if let Err(TrySendError::Full(descriptor) | TrySendError::Disconnected(descriptor)) =
                thread.try_send(descriptor)
            {
                // Better a descriptor too many than a drain that hangs. There will be no more of them.
                self.stuck = true;
                std::mem::forget(descriptor);
            }
        }
    }
}

fn start() -> Option<SyncSender<OwnedFd>> {
    let (sender, receiver) = sync_channel::<OwnedFd>(FOREIGN_MAX);
    let thread = std::thread::Builder::new().name("logdrive-closer".to_owned());
    let spawned = thread.spawn(move || {
        logdrive_ring::local::deny_thread();
        logdrive_ring::signals::block_in_thread();
        for descriptor in receiver {
            drop(descriptor);
        }
    });
    spawned.is_ok().then_some(sender)
}
