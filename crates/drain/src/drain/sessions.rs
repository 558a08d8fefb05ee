//! Sessions of other processes that come to a drain and go: those of an agent.

use super::collect::Collector;
use super::input_account::InputAccount;
use super::pipeline::Pipeline;
use super::report;
use super::session_input::SessionInput;
use crate::client::ClientProcess;
use crate::process_exit::END_LEVEL;
use crate::quota::QuotaPolicy;
use logdrive_ring::HostedSession;
use logdrive_ring::clock::{monotonic_ns, unix_ns};
use logdrive_wire::Level;
use std::sync::Arc;

/// Takes a session over, new or from an earlier drain: from where that one's journal says.
pub(super) fn join(pipe: &mut Pipeline, session: &Arc<HostedSession>) {
    let (own, found) = (pipe.buffers.journal(), session.header().journal());
    let ancestors = pipe.buffers.ancestors();
    let mut ancestors = ancestors.iter();
    let ancestor = ancestors.find(|ancestor| ancestor.id == found);
    // What this very drain has taken it has also released.
    let epoch = ancestor.map_or(0, |ancestor| ancestor.epoch);
    session.header().store_calibration(&pipe.clock.calibration);
    pipe.clock.is_coarse |= session.options().coarse;
    let client = ClientProcess::of(session);
    let quotas = pipe.route.quotas.enter(&client, &[]);
    let mut input = SessionInput::new(Arc::clone(session.reader()), epoch, Some(client));
    input.client_id = Some(session.id());
    input.quotas = quotas;
    let request = pipe.route.recorder_request.take();
    let request = request.filter(|(id, _)| *id == session.id());
    input.recorder_request = request.map(|(_, options)| options);
    pipe.route.choose_recorder(&mut input);
    // An earlier drain has told some of its drops.
    input.account = InputAccount::resume(session.header().settle_account(epoch));
    pipe.collect.add_input(input);
    session.header().store_journal(own);
}

/// Notes that the process of a session writes nothing more. If it does, its records are not read.
pub(super) fn finish(collect: &mut Collector, client_id: u64, text: Option<String>) {
    collect.add_readers();
    let is =
        |input: &Option<SessionInput>| input.as_ref().and_then(|input| input.client_id) == Some(client_id);
    let Some(number) = collect.inputs.iter().position(is) else {
        return;
    };
    if let Some(input) = collect.input_mut(number) {
        input.leaving = Some(text);
    }
    collect.finish(number);
}

/// Forgets sessions that are over and drained, with a line for the log; `false` while one is not drained.
pub(super) fn remove_finished(pipe: &mut Pipeline) -> bool {
    let mut are_all_drained = true;
    for number in 1..pipe.collect.inputs.len() {
        let input = pipe.collect.input(number);
        let Some(text) = input.and_then(|input| input.leaving.clone()) else {
            continue;
        };
        if pipe.collect.has_more(number) {
            are_all_drained = false;
            continue;
        }
        report::report_drops_of(pipe, number, true, true);
        leave_quotas(pipe, number);
        let text = text.map(|text| match last_thread_of(&pipe.collect, number) {
            Some(thread) => format!("{text}; thread {thread} was the last to write"),
            None => text,
        });
        if let Some(text) = report::describe_client_end(pipe, number, text) {
            pipe.report_for(number, END_LEVEL, &text);
        }
        // The records of the session and those of the log belong together.
        pipe.commit();
        pipe.collect.remove(number);
    }
    are_all_drained
}

/// Returns name and number of the thread of a session whose record is the newest.
fn last_thread_of(collect: &Collector, number: usize) -> Option<String> {
    let readers = collect.readers.iter();
    let own = readers.filter(|reader| reader.input == number && reader.newest_ticks() > 0);
    let last = own.max_by_key(|reader| reader.newest_ticks())?;
    Some(match last.thread_name.as_str() {
        "" => last.thread_id.to_string(),
        name => format!("{name} ({})", last.thread_id),
    })
}

/// Uses other quotas from now on.
pub(super) fn set_quota_policy(pipe: &mut Pipeline, policy: Box<dyn QuotaPolicy>) {
    let quotas = &mut pipe.route.quotas;
    quotas.replace(policy, unix_ns());
    let mut lines = Vec::new();
    for input in pipe.collect.inputs_mut() {
        if let Some(client) = &input.client {
            let before = std::mem::take(&mut input.quotas);
            input.quotas = quotas.enter(client, &before);
            lines.extend(quotas.leave(&before, monotonic_ns()));
        }
    }
    for text in lines {
        pipe.report(Level::Warn, &text);
    }
}

/// Takes a process that is over out of its quotas.
fn leave_quotas(pipe: &mut Pipeline, number: usize) {
    let Some(input) = pipe.collect.input_mut(number) else {
        return;
    };
    let quotas = std::mem::take(&mut input.quotas);
    for text in pipe.route.quotas.leave(&quotas, monotonic_ns()) {
        pipe.report(Level::Warn, &text);
    }
}
