//! Ends of transports that hand over whole messages by blocking calls. Shared with the rivals' package.

use super::plan::{Plan, Source, Walk, all_came, ready, stamp, template, wait_for_end};
use std::io;

/// One end of such a transport.
pub trait Queue {
    /// Sends a message to the other end.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Receives a message of the other end.
    fn receive(&mut self) -> io::Result<&[u8]>;

    /// Receives a request, and answers it.
    fn answer(&mut self, reply: &[u8]) -> io::Result<()> {
        self.receive()?;
        self.send(reply)
    }
}

/// Serves a receiving end that listens at `address`.
pub fn serve(plan: &Plan, queue: &mut impl Queue, address: &str) -> io::Result<()> {
    ready(address);
    let mut walk = Walk::new(plan);
    for _ in 0..plan.messages {
        walk.take(queue.receive()?);
    }
    if plan.messages > 0 {
        all_came(&walk);
    }
    let reply = template(plan.reply_bytes);
    for _ in 0..plan.requests {
        queue.answer(&reply)?;
    }
    wait_for_end();
    Ok(())
}

/// Sends all messages from one place in memory.
#[allow(dead_code, reason = "the rivals send from several places")]
pub fn send(plan: &Plan, queue: &mut impl Queue) -> io::Result<()> {
    let mut message = template(plan.message_bytes);
    for number in 0..plan.messages {
        stamp(&mut message, number);
        queue.send(&message)?;
    }
    Ok(())
}

/// Sends all messages from several places in memory, see [`Source`].
#[allow(dead_code, reason = "the rivals send so")]
pub fn send_in_turn(plan: &Plan, queue: &mut impl Queue) -> io::Result<()> {
    let mut source = Source::new(plan);
    for _ in 0..plan.messages {
        queue.send(source.next_message())?;
    }
    Ok(())
}

/// Asks one request after the other.
pub fn echo(plan: &Plan, queue: &mut impl Queue) -> io::Result<()> {
    let mut message = template(plan.message_bytes);
    for number in 0..plan.requests {
        stamp(&mut message, number);
        queue.send(&message)?;
        queue.receive()?;
    }
    Ok(())
}
