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
pub mod search;
pub mod segments;
pub mod uds;

use crate::{BenchError, Result, harness::Workload};

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
    &segments::Segments,
    &agent::Agent,
    &agent_run::Run,
    &agent_recorder::Recorder,
    &search::Search,
];

/// Returns the workload of this name.
pub fn find(name: &str) -> Result<&'static dyn Workload> {
    let found = ALL.iter().find(|workload| workload.name() == name);
    found.copied().ok_or_else(|| {
        let known: Vec<_> = ALL.iter().map(|w| w.name()).collect();
        let known = known.join(", ");
        BenchError::new(format!("there is no workload '{name}'; there are {known}"))
    })
}
