//! Reports of the drain about sessions: drops that no producer reports, quotas, and live control.

use super::pipeline::Pipeline;
use crate::final_sums::{describe_client_sums, describe_sums, has_losses};
use crate::stats::Stats;
use logdrive_ring::DropReason;
use logdrive_ring::clock::{monotonic_ns, unix_ns};
use logdrive_wire::Level;

/// Writes lines about rings that are damaged, and those that other threads have left.
pub(super) fn report_notices(pipe: &mut Pipeline) {
    for (number, text) in pipe.collect.take_damages() {
        pipe.report_for(number, Level::Warn, &text);
    }
    for (level, text) in pipe.status.take_notices() {
        pipe.report(level, &text);
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
        report_drops_of(pipe, number, false, false);
    }
}

/// The same at the end of the drain, for all drops. Where the process of its own session writes nothing more, `is_over`
/// says so.
pub(super) fn report_last_drops(pipe: &mut Pipeline, is_over: bool) {
    pipe.emit.report_drops(&mut pipe.collect);
    for number in 0..pipe.collect.inputs.len() {
        report_drops_of(pipe, number, true, is_over && number == 0);
    }
}

/// The same for one session; with `all` also for threads that seem to be at work. Where its process writes nothing more,
/// `is_over` says so.
pub(super) fn report_drops_of(pipe: &mut Pipeline, number: usize, all: bool, is_over: bool) {
    let (drops, unknown) = pipe.collect.take_unreported_drops(number, all, is_over);
    let input = pipe.collect.input(number);
    let client = input.and_then(|input| input.client.as_ref());
    let owner = client.map_or_else(String::new, |client| format!(" by {client}"));
    for reason in DropReason::ALL {
        let drops = drops.of(reason);
        let count = drops.count();
        if count == 0 {
            continue;
        }
        let text = format!("{count} records dropped{owner}: {}", reason.text());
        let without = pipe.report_for(number, Level::Warn, &text);
        // Valid with the same epoch as the line: no commit falls in between.
        pipe.emit.count_calls(without, count);
        if let Some(input) = pipe.collect.input_mut(number) {
            input.account.tell(&drops);
        }
    }
    if unknown > 0 {
        let text = format!("{unknown} more records of unknown callsites{owner}");
        pipe.report_for(number, Level::Warn, &text);
    }
}

/// Returns the line of the end of a session, and its level. With `is_over`, its process writes nothing more and `end` says
/// how it ended: then the line has the final sums. Where the logger ends in order, it has them only if something was dropped,
/// and not where what is left is for a recovery to count.
pub(super) fn describe_end(
    pipe: &mut Pipeline,
    end: Option<(Level, &str)>,
    is_over: bool,
) -> Option<(Level, String)> {
    pipe.commit();
    let own = pipe.collect.input(0)?;
    let stats = Stats {
        late: own.account.late(),
        ..Stats::of_drained(&own.session, &pipe.buffers)
    };
    let has_sums = is_over || has_losses(&stats) && !pipe.status.is_abandoned();
    if !has_sums {
        return end.map(|(level, text)| (level, text.to_owned()));
    }
    let is_alone = pipe.route.router.is_none();
    let sums = describe_sums(&stats, is_alone, &pipe.buffers.config());
    Some(match end {
        Some((level, text)) => (level.max(Level::Warn), format!("{text}; {sums}")),
        None => {
            let identity = own.session.header().identity();
            let (pid, app) = (identity.pid, identity.app);
            let text = format!("the logger of process {pid} of {app} has ended; {sums}");
            (Level::Warn, text)
        }
    })
}

/// Returns the line of the end of a session of another process, with what became of its calls. `None` where it ends in order
/// and nothing was dropped.
pub(super) fn describe_client_end(pipe: &Pipeline, number: usize, end: Option<String>) -> Option<String> {
    let input = pipe.collect.input(number)?;
    let left_out = input.account.left_out();
    let stats = Stats {
        late: input.account.late(),
        ..Stats::of_client(&input.session, input.account.drained())
    };
    let sums = describe_client_sums(&stats, left_out);
    match (end, &input.client) {
        (Some(end), _) => Some(format!("{end}; {sums}")),
        (None, Some(client)) if has_losses(&stats) || left_out > 0 => {
            Some(format!("the logger of {client} has ended; {sums}"))
        }
        (None, _) => None,
    }
}
