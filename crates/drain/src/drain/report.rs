//! Reports of the drain about sessions: drops that no producer reports, quotas, and live control.

use super::pipeline::Pipeline;
use logdrive_ring::DropReason;
use logdrive_ring::clock::{monotonic_ns, unix_ns};
use logdrive_wire::Level;

/// Writes lines about rings that are damaged, and those that other threads have left.
pub(super) fn report_notices(pipe: &mut Pipeline) {
    for (number, text) in pipe.collect.take_damages() {
        pipe.report_for(number, Level::Warn, &text);
    }
    for text in pipe.status.take_notices() {
        pipe.report(Level::Warn, &text);
    }
}

/// Begins the next second or day of the quotas, and reports what was left out.
pub(super) fn tick_quotas(pipe: &mut Pipeline, all: bool) {
    for text in pipe.route.quotas.tick(monotonic_ns(), unix_ns(), all) {
        pipe.report(Level::Warn, &text);
    }
}

/// Looks after live control of all sessions some times a second, however busy the drain is.
pub(super) fn maintain_control(pipe: &mut Pipeline, stopping: bool) {
    let now_ns = monotonic_ns();
    for number in 0..pipe.collect.inputs.len() {
        let Some(input) = pipe.collect.input_mut(number) else {
            continue;
        };
        let notices = input.maintain_control(now_ns, stopping);
        // Processes that share a log are named, as in reports of drops.
        let client = input.client.as_ref().filter(|_| !notices.is_empty());
        let owner = client.map_or_else(String::new, |client| format!(", in {client}"));
        for (level, text) in notices {
            pipe.report_for(number, level, &(text + &owner));
        }
    }
}

/// Writes gap lines for drops that their own thread has not reported: it ended, is quiet, or never had a ring.
pub(super) fn report_drops(pipe: &mut Pipeline) {
    pipe.emit.report_drops(&mut pipe.collect);
    for number in 0..pipe.collect.inputs.len() {
        report_drops_of(pipe, number, false);
    }
}

/// The same for one session; with `all` also for threads that seem to be at work.
pub(super) fn report_drops_of(pipe: &mut Pipeline, number: usize, all: bool) {
    let (counts, unknown) = pipe.collect.take_unreported_drops(number, all);
    let input = pipe.collect.input(number);
    let client = input.and_then(|input| input.client.as_ref());
    let owner = client.map_or_else(String::new, |client| format!(" by {client}"));
    for reason in DropReason::ALL {
        let count = counts[reason as usize];
        if count > 0 {
            let text = format!("{count} records dropped{owner}: {}", reason.text());
            pipe.report_for(number, Level::Warn, &text);
        }
    }
    if unknown > 0 {
        let text = format!("{unknown} more records of unknown callsites{owner}");
        pipe.report_for(number, Level::Warn, &text);
    }
}
