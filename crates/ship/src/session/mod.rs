//! Sessions as state machines without I/O and without a clock: frames in, frames out, and `now` is an argument.
//!
//! [`Shipper`] sends records until they are acknowledged, [`Intake`] says which records of a session are new, and
//! [`Server`] is the accepting end of a connection, whatever carries its bytes.

mod in_place;
mod intake;
mod server;
mod shipper;
#[cfg(test)]
mod simulation;

pub use in_place::Reserved;
pub use intake::{Intake, Verdict};
pub use logdrive_ring::InPlace;
pub(crate) use server::decompress;
pub use server::{Answer, Fed, Job, Peer, Server, Service, compress};
pub use shipper::{Full, Outgoing, Shipper, ShipperCounts};
