//! Acknowledgements of a connection whose service gives them later than it takes records.

use super::server::Server;
use crate::frame::{Header, Kind};
use crate::hello::Reason;

/// Returns whether the service of a connection acknowledges records later than it takes them.
pub(crate) fn defers_acks(server: &Server) -> bool {
    server.deferred.is_some()
}

/// Number before which all records of a connection are acknowledged once all that was taken is; `None`: all are.
pub(crate) fn awaited_ack(server: &Server) -> Option<u64> {
    let acknowledged = server.deferred?;
    (acknowledged < server.next_record).then_some(server.next_record)
}

/// Acknowledges what the service has by now, where it does so later. When it cannot keep what it has taken, says goodbye, and
/// returns the reason to close the connection for.
pub(crate) fn put_deferred_ack(server: &mut Server, out: &mut Vec<u8>) -> Option<Reason> {
    let before = server.deferred?;
    match server.peer.acks.take() {
        Ok(next) if next > before => {
            server.deferred = Some(next);
            server.put(Header::new(Kind::Ack, next), &[], out);
            None
        }
        Ok(_) => None,
        Err(reason) => {
            server.goodbye(reason, out);
            Some(reason)
        }
    }
}
