//! The agent: hands sessions to processes over a Unix socket, takes them back when a process ends, and adopts them
//! again after its own restart. `spec/agent.md` draws the messages.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod agent;
pub mod capture;
pub mod client;
pub mod config;
mod descriptor_store;
mod error;
mod flight_recorders;
mod flush_waiters;
mod keeper;
mod level_rules;
pub mod limits;
mod log_directories;
mod metrics;
mod metrics_server;
mod path_lock;
mod quota;
mod routing;
pub mod server;
pub mod supervisor;

pub use agent::{Agent, StartError};
pub use client::Client;
pub use descriptor_store::{ServiceManager, StoreOptions};
pub use error::AgentError;
pub use keeper::{KeeperCommand, keep};
pub use metrics_server::MetricsServer;
pub use path_lock::{PathLock, safe_directory};
pub use server::{Server, ServerOptions};
