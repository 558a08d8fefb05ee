//! Sessions as state machines without I/O and without a clock: frames in, frames out, and `now` is an argument.
//!
//! [`Shipper`] sends records until they are acknowledged, [`DedupCursor`] says which records of a session are new, and
//! [`Server`] is the accepting end of a connection, whatever carries its bytes.

mod dedup;
mod in_place;
mod server;
mod shipper;
#[cfg(test)]
mod simulation;

pub use dedup::{Classification, DedupCursor};
pub use in_place::Reserved;
pub use logdrive_ring::InPlace;
pub(crate) use server::decompress;
pub use server::{FeedResult, Job, Peer, ReplyBuffer, Server, Service, compress};
pub use shipper::{Full, Outgoing, Shipper, ShipperCounts};
