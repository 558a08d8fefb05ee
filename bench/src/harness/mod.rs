//! Rounds, child processes, statistics and output; knows no logger.
//!
//! A workload is a list of cases. In every round each case runs once, in a
//! process of its own, so that its memory and processor time are its own and
//! no logger's global state touches another's. The order is rotated per round,
//! so that no case always follows the same one. What counts is the median.

#[cfg(feature = "workloads")]
pub mod args;
pub mod case;
#[cfg(feature = "workloads")]
pub mod child;
pub mod machine;
pub mod report;
#[cfg(feature = "workloads")]
pub mod rounds;
pub mod runs;
pub mod table;

#[cfg(feature = "workloads")]
pub use args::Args;
pub use case::{About, Case, Job, Measure, Metric, Ratio, Samples, Scale, Workload};
