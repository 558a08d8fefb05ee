//! Destination of a sender: the collectors, by a forwarder, or an engine itself.

use logdrive_ship::forward::{ForwardState, Forwarder};
use logdrive_ship::upstream::MemberOptions;
use std::fmt::Debug;
use std::time::Duration;

/// Records that are handed over together.
///
/// ```
/// use logdrive_collector::send::Payload;
/// let payload = Payload { count: 2, bytes: b"one\ntwo\n".to_vec(), starts: vec![0, 4] };
/// assert_eq!(payload.count as usize, payload.starts.len());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload {
    /// Number of the records.
    pub count: u32,
    /// Lines with their ends, or a batch of typed records.
    pub bytes: Vec<u8>,
    /// Starts of the records in the lines, for an engine; empty for collectors.
    pub starts: Vec<u32>,
}

/// Destination of a sender's records, which acknowledges them in their order.
pub trait Destination: Debug + Send {
    /// Number of the first record that was pushed.
    fn first_number(&self) -> u64;

    /// Number of the record that is pushed next.
    fn next_number(&self) -> u64;

    /// Hands records over. Waits for room, at most for the timeout; returns the payload where there is none.
    ///
    /// # Errors
    /// When there is no room.
    fn push(&mut self, payload: Payload, timeout: Duration) -> Result<(), Payload>;

    /// State of the records.
    fn state(&self) -> ForwardState;

    /// Takes other collectors from now on.
    fn set_members(&self, members: Vec<MemberOptions>);

    /// Waits until all is acknowledged, at most for the timeout, and ends.
    fn stop(&mut self, timeout: Duration) -> ForwardState;
}

impl Destination for Forwarder {
    fn first_number(&self) -> u64 {
        Forwarder::first_number(self)
    }

    fn next_number(&self) -> u64 {
        self.watch().next_number()
    }

    fn push(&mut self, payload: Payload, timeout: Duration) -> Result<(), Payload> {
        let Payload { count, bytes, starts } = payload;
        match Forwarder::push(self, count, bytes, timeout) {
            Ok(_) => Ok(()),
            Err(refusal) => Err(Payload {
                count,
                bytes: refusal.0,
                starts,
            }),
        }
    }

    fn state(&self) -> ForwardState {
        Forwarder::state(self)
    }

    fn set_members(&self, members: Vec<MemberOptions>) {
        self.watch().set_members(members);
    }

    fn stop(&mut self, timeout: Duration) -> ForwardState {
        Forwarder::stop(self, timeout)
    }
}
