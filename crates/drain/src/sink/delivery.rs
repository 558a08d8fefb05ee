//! Delivery: the way of full buffers to a place that acknowledges them, such as a collector.

use logdrive_ring::Buffer;
use std::fmt;
use std::time::Duration;

/// Something that was delivered.
#[derive(Debug)]
#[cfg_attr(
    not(all(feature = "ship", target_os = "linux")),
    allow(dead_code, reason = "without the feature `ship` nothing is sent")
)]
pub(crate) enum Done {
    /// All of it is kept elsewhere.
    Buffer(Buffer),
    /// All before the flush ticket is.
    Ticket(u64),
}

/// A sink that sends. Used by one I/O thread.
pub(crate) trait Delivery: Send + fmt::Debug {
    /// Takes a buffer, whose place is noted before anything of it is sent.
    fn send(&mut self, buffer: Buffer);

    /// Notes that everything so far comes before the flush ticket.
    fn note_ticket(&mut self, ticket: u64);

    /// Returns the next of what is kept elsewhere by now.
    fn done(&mut self) -> Option<Done>;

    /// Returns whether collectors fail and a notice, where they have begun or ceased to.
    fn state_change(&mut self) -> Option<(bool, String)>;

    /// Returns the time until [`Delivery::done`] is to be asked again; `None` when nothing waits.
    fn look_in(&self) -> Option<Duration>;

    /// Returns whether nothing waits.
    fn is_settled(&self) -> bool;

    /// Ends. What waits still stays marked in shared memory.
    fn close(self: Box<Self>);
}
