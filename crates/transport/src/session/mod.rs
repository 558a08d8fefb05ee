//! Sessions as state machines without I/O and without a clock: frames in, frames out, and `now` is an argument.
//!
//! [`Shipper`] sends records until they are acknowledged, [`Intake`] says which records of a session are new, and
//! [`Server`] is the accepting end of a connection, whatever carries its bytes.

mod intake;
mod server;
mod shipper;
#[cfg(test)]
mod simulation;

pub use intake::{Intake, Verdict};
pub(crate) use server::decompress;
pub use server::{Answer, Fed, Job, Peer, Server, Service, compress};
pub use shipper::{Full, Outgoing, Shipper, ShipperCounts};
