//! Panics of a service: each ends the connection that the service was called for, and nothing else.

use super::service::{Peer, Service};
use crate::hello::Reason;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Response to a request whose handler panicked.
pub(crate) const PANICKED: &str = "the handler panicked";

/// Calls a service. Gives its panic in words.
pub(crate) fn call<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    // What the call has left half done belongs to the connection, which ends, and to the service, which is told.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| words_of(panic.as_ref()))
}

/// Tells the service of its panic. Gives the reason for which the connection ends.
pub(crate) fn tell(peer: &Peer, service: &dyn Service, words: &str) -> Reason {
    // One that panics at this, too, has been heard by its panic hook.
    let _ = call(|| service.panicked(peer, words));
    Reason::Failed
}

/// Text of a panic.
fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without words".to_owned())
}
