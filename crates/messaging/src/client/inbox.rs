//! Inbox of a client, for what its caller has not asked for yet: messages of the server, and responses that came while
//! it waited for those.

use logdrive_ship::frame::{FrameError, Messages};
use logdrive_ship::limits::PUSHED_BYTES_MAX;
use std::collections::VecDeque;

/// Message that a server has sent of its own accord, see [`Client::next_pushed`](crate::Client::next_pushed).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// Stream of the connection that the server has named.
    pub stream: u16,
    /// Bytes of the message.
    pub message: Vec<u8>,
}

/// Response with its request's number: the reply, or an error in words.
pub(super) type NumberedReply = (u64, Result<Vec<u8>, String>);

#[derive(Debug, Default)]
pub(super) struct Inbox {
    pushed: VecDeque<Pushed>,
    pushed_bytes: usize,
    /// Messages for which there was no room.
    pub(super) dropped: u64,
    /// Responses that came while messages were waited for.
    pub(super) replies: VecDeque<NumberedReply>,
    /// The one of them that was given last.
    pub(super) given: Option<NumberedReply>,
}

impl Inbox {
    /// Takes the messages of a batch.
    pub(super) fn put(&mut self, stream: u16, mut messages: Messages<'_>) -> Result<(), FrameError> {
        while let Some(message) = messages.next_message()? {
            if self.pushed_bytes + message.len() > PUSHED_BYTES_MAX {
                self.dropped += 1;
                continue;
            }
            // An empty one takes memory, too.
            self.pushed_bytes += message.len() + size_of::<Pushed>();
            let message = message.to_vec();
            self.pushed.push_back(Pushed { stream, message });
        }
        Ok(())
    }

    /// Gives the response that came first, if there is one, and its number.
    #[inline]
    pub(super) fn give(&mut self) -> Option<u64> {
        if self.replies.is_empty() && self.given.is_none() {
            return None;
        }
        self.given = self.replies.pop_front();
        self.given.as_ref().map(|(number, _)| *number)
    }

    /// The message that came first.
    pub(super) fn take(&mut self) -> Option<Pushed> {
        let pushed = self.pushed.pop_front()?;
        self.pushed_bytes -= pushed.message.len() + size_of::<Pushed>();
        Some(pushed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_nobody_takes_are_bounded_and_counted() {
        let mut inbox = Inbox::default();
        let batch = [&1_000_u32.to_le_bytes()[..], &[7; 1_000]].concat();
        for _ in 0..2 * PUSHED_BYTES_MAX / 1_000 {
            inbox.put(3, Messages::new(&batch, 1)).expect("well formed");
        }
        let mut count = 0;
        while let Some(pushed) = inbox.take() {
            assert_eq!((pushed.stream, pushed.message.len()), (3, 1_000));
            count += 1;
        }
        assert!(inbox.dropped > 0);
        assert_eq!(count + inbox.dropped as usize, 2 * PUSHED_BYTES_MAX / 1_000);
        inbox.put(3, Messages::new(&batch, 1)).expect("well formed");
        assert!(inbox.take().is_some(), "there is room again");
        assert!(inbox.put(3, Messages::new(&batch[..9], 1)).is_err());
    }
}
