//! The measured cases, one file a workload.

#[cfg(feature = "workloads")]
pub mod agent;
#[cfg(feature = "workloads")]
pub mod agent_recorder;
#[cfg(feature = "workloads")]
pub mod agent_run;
#[cfg(feature = "workloads")]
pub mod callsite;
#[cfg(feature = "workloads")]
pub mod compile;
#[cfg(feature = "workloads")]
pub mod fprintf;
#[cfg(feature = "workloads")]
pub mod glog;
#[cfg(feature = "workloads")]
pub mod hang;
#[cfg(feature = "workloads")]
pub mod net;
pub mod quic;
#[cfg(feature = "workloads")]
pub mod uds;

#[cfg(feature = "workloads")]
use crate::harness::Workload;

/// Every workload of this crate.
#[cfg(feature = "workloads")]
pub static ALL: &[&dyn Workload] = &[
    &glog::Glog,
    &callsite::Callsite,
    &uds::Uds,
    &net::Net,
    &compile::Compile,
    &quic::QuicTransfer,
    &hang::Hang,
    &fprintf::Fprintf,
    &agent::Agent,
    &agent_run::Run,
    &agent_recorder::Recorder,
];
