//! The agent: hands sessions to processes over a Unix socket, takes them back when a process ends, and adopts them
//! again after its own restart. `spec/agent.md` draws the messages.
#![forbid(unsafe_code)]

mod agent;
pub mod capture;
pub mod client;
pub mod config;
mod error;
mod keeper;
mod levels;
pub mod limits;
mod metrics;
mod outputs;
mod place;
mod rationing;
mod recorder;
mod routes;
pub mod run;
pub mod server;
mod waits;

pub use agent::{Agent, StartError};
pub use client::Client;
pub use error::AgentError;
pub use keeper::{KeeperCommand, keep};
pub use place::{PlaceLock, safe_directory};
pub use server::{Server, ServerOptions};
