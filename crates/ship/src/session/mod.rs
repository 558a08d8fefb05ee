//! Sessions as state machines without I/O and without a clock: frames in, frames out, and `now` is an argument.
//!
//! [`Shipper`] sends records until they are acknowledged, [`DedupCursor`] says which records of a session are new, and
//! [`Server`] is the accepting end of a connection, whatever carries its bytes.

mod acknowledge;
mod acks;
mod compression;
mod dedup;
mod definitions;
mod in_place;
mod outbox;
pub(crate) mod panics;
mod reserved;
mod server;
mod server_outbox;
mod service;
mod shipper;

pub(crate) use acknowledge::{awaited_ack, defers_acks, put_deferred_ack};
pub use acks::Acks;
pub use compression::compress;
pub(crate) use compression::decompress;
pub use dedup::{Classification, DedupCursor};
pub use definitions::RecordPayload;
pub use logdrive_ring::InPlace;
pub(crate) use outbox::Deferral;
pub use outbox::{DeferredReply, Outbox, PushError};
pub use reserved::Reserved;
pub use server::{FeedResult, Server};
pub use service::{Job, Peer, ReplyBuffer, Service};
pub use shipper::{Full, Outgoing, RecordBatch, Shipper, SplitRecords};
