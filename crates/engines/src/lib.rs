//! Outputs to the engines that carry and keep logs beyond one machine.
//!
//! ```text
//! log of segments ─► SegmentSource ─► EngineBatch ─► Engine     Kafka, Clickhouse, Loki, ...
//!                        ▲                │
//!                        └── state ◄──────┘                     what the engine has
//! ```
//!
//! The log on disk is the queue: a collector, an agent or a program writes it, and a [`Delivery`] reads it behind them. While
//! the engine is away the log grows, up to its retention. Every record has an id, the delivery's and a number, that stays the
//! same through retries, kills and restarts, and batches that were begun are handed over again with the same records, so that
//! engines that look for ids or tokens have each record once. `docs/engines.md` says which do.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod address;
mod batch;
#[cfg(feature = "http")]
mod clickhouse;
mod clients;
mod dead_letters;
mod delivery;
#[cfg(feature = "http")]
mod elastic;
mod engine;
mod engine_writer;
mod error;
#[cfg(feature = "http")]
mod http;
mod journald;
mod json;
#[cfg(feature = "kafka")]
mod kafka;
mod limits;
mod line_delivery;
#[cfg(feature = "http")]
mod loki;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "parquet")]
mod parquet;
mod report;
#[cfg(feature = "s3")]
mod s3;
mod scout;
mod source;
mod state;
mod stdout;
mod syslog;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "http")]
mod victoria_logs;

pub use address::EngineAddress;
#[cfg(feature = "http")]
pub use clickhouse::CLICKHOUSE_TABLE;
pub use delivery::{Delivery, DeliveryOptions};
pub use error::EngineError;
pub use line_delivery::{LineDelivery, LineDeliveryOptions};
pub use report::DeliveryCounts;
pub use source::CommittedEnd;
