//! The workloads that Logdrive exists for, with the usual way of doing each as
//! the rival, measured in turn within one run on one machine.
//!
//! [`harness`] owns rounds, child processes, statistics and output; it knows no
//! logger. [`subjects`] owns how each logger is set up; it knows no workload.
//! [`workloads`] brings the two together, one file a workload. [`quic`] is the
//! transfer that the `quic` workload and the demo share.

#![deny(unsafe_code)]

#[cfg(feature = "workloads")]
pub mod command;
#[cfg(feature = "workloads")]
pub mod ends;
pub mod error;
pub mod harness;
pub mod lines;
pub mod logged;
#[cfg(feature = "workloads")]
pub mod probe;
pub mod quic;
#[cfg(feature = "workloads")]
pub mod role;
#[cfg(feature = "workloads")]
pub mod scorecard;
#[cfg(feature = "workloads")]
pub mod segment_lines;
pub mod subjects;
pub mod told_drops;
#[cfg(feature = "workloads")]
pub mod usage;
pub mod warm;
#[cfg(feature = "workloads")]
pub mod workloads;

pub use error::{BenchError, Result};
