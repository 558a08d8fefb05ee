//! Clients and services for tasks of tokio: [`Client`] awaits where the one outside of this module blocks, and
//! [`TowerService`] serves with any [`tower_service::Service`].

mod client;
mod driver;
mod exchange;
mod service;

pub use client::Client;
pub use service::{Request, TowerService};
