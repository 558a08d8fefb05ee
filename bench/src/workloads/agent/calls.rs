//! A call, and the whole of W1, through an agent and with the drain in the process: the workloads `callsite` and `glog`
//! with both subjects in turn.

use super::{compared, quotient};
use crate::harness::{Case, Samples, Scale, Workload, child};
use crate::workloads::callsite::Callsite;
use crate::workloads::glog::Glog;
use crate::{BenchError, Result};

const IN_PROCESS: &str = "logdrive";
const THROUGH_AGENT: &str = "logdrive-agent";

/// Number of measurements of each in one row.
const PAIRS: usize = 3;

/// Cost of one call to its thread; compared by difference for the median, by quotient otherwise.
pub(super) fn call(metric: &str, scale: Scale) -> Result<Samples> {
    let [measured, base] = measure(&Callsite, &pair(&Callsite, scale)?, metric)?;
    match metric {
        "mean20_p50_ns" => compared(&measured, &base, |measured, base| measured - base),
        _ => quotient(&measured, &base),
    }
}

/// Twelve threads that write as fast as they can, until all is with the kernel.
pub(super) fn w1(scale: Scale) -> Result<Samples> {
    let mut cases = pair(&Glog, scale)?;
    Glog.prepare(scale, &mut cases, &|case| child::spawn(Glog.name(), case))?;
    let [measured, base] = measure(&Glog, &cases, "wall_s")?;
    Glog.clean_up()?;
    quotient(&measured, &base)
}

/// The case of the in-process subject, and the same through the agent.
fn pair(workload: &dyn Workload, scale: Scale) -> Result<Vec<Case>> {
    let cases = workload.cases(scale);
    let base = cases.into_iter().find(|case| case.subject == IN_PROCESS);
    let base = base.ok_or_else(|| BenchError::subject(IN_PROCESS, "there is no such case"))?;
    let through = Case {
        subject: THROUGH_AGENT,
        ..base.clone()
    };
    Ok(vec![through, base])
}

/// Values of both, measured in turn; a run that loses lines does not count as one.
fn measure(workload: &dyn Workload, cases: &[Case], metric: &str) -> Result<[Vec<f64>; 2]> {
    let mut values = [Vec::new(), Vec::new()];
    for _ in 0..PAIRS {
        for (case, values) in cases.iter().zip(&mut values) {
            workload.before_each()?;
            let samples = child::spawn(workload.name(), case)?;
            if samples.value("lost_lines").is_some_and(|lost| lost > 0.0) {
                return Err(BenchError::subject(case.subject, "it has lost lines"));
            }
            values.extend(samples.value(metric));
        }
    }
    Ok(values)
}
