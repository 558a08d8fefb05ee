//! Frames of what other threads have put into the outbox of a connection.

use super::outbox::{Content, Entry};
use super::server::Server;
use crate::frame::{Header, Kind};
use crate::hello::Reason;

impl Server {
    /// Lays out what the outbox has, until so much is to be sent. Gives the reason to end the connection for, where a
    /// handler has panicked on another thread.
    pub(crate) fn send_outbox(&self, out: &mut Vec<u8>, out_bytes_max: usize) -> Option<Reason> {
        let outbox = &self.peer.outbox;
        let mut has_failed = false;
        while outbox.bytes() > 0 && out.len() < out_bytes_max {
            let (entries, mut next_message) = outbox.take(out_bytes_max - out.len());
            for Entry { stream, content } in entries {
                match content {
                    Content::Message(message) => {
                        let mut header = Header::new(Kind::Batch, next_message);
                        (header.stream, header.count) = (stream, 1);
                        next_message += 1;
                        let length = (message.len() as u32).to_le_bytes();
                        self.put(header, &[&length, &message], out);
                    }
                    Content::Response {
                        sequence,
                        result,
                        has_panicked,
                    } => {
                        let result = result.as_deref().map_err(String::as_str);
                        self.respond(stream, sequence, result, out);
                        has_failed |= has_panicked;
                    }
                }
            }
        }
        has_failed.then_some(Reason::Failed)
    }
}
