//! The measured cases, one file a workload.

pub mod agent;
pub mod agent_recorder;
pub mod agent_run;
pub mod callsite;
pub mod compile;
pub mod fprintf;
pub mod glog;
pub mod hang;
pub mod net;
pub mod quic;
pub mod uds;

use crate::harness::Workload;

/// Every workload of this crate.
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
