//! Dumps: what flight recorders hold is written to the sinks when something happens.
//!
//! A dump is written in slices between passes, and only while the sinks have buffers to spare, so that neither rings nor
//! records of the moment wait for it.

use super::collect::Collector;
use super::emit::Selection;
use super::pipeline::Pipeline;
use crate::flight_recorder::{
    DumpProgress, DumpRequest, FlightRecorder, RecorderOptions, RecorderPolicy, with_commas,
};
use crate::layout::{Record, Thread};
use crate::limits::{DUMP_SLICE_RECORDS, NO_PROGRESS};
use logdrive_ring::clock::monotonic_ns;
use logdrive_wire::Level;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// State of all dumps between two passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DumpState {
    /// There are none.
    None,
    /// There is more to write, and room for it.
    Moves,
    /// There is more to write, and the sinks are busy.
    Waits,
}

/// Requests a dump of a session, or of the process's own where none is named.
pub(super) fn request(collect: &mut Collector, session: Option<u64>, span: Option<Duration>, reason: &str) {
    let mut inputs = collect.inputs_mut();
    let input = inputs.find(|input| match session {
        Some(_) => input.client_id == session,
        None => input.client.is_none(),
    });
    if let Some(recorder) = input.and_then(|input| input.recorder.as_mut()) {
        recorder.request_dump(span, reason);
    }
}

/// Requests a dump of a session; the answer is the number of its records. Without a flight recorder there is none.
pub(super) fn request_answered(
    collect: &mut Collector,
    session: u64,
    span: Option<Duration>,
    reason: String,
    answer: Sender<u64>,
) {
    let mut inputs = collect.inputs_mut();
    let input = inputs.find(|input| input.client_id == Some(session));
    let Some(recorder) = input.and_then(|input| input.recorder.as_mut()) else {
        return;
    };
    // One that has not begun answers all.
    let pending = recorder.pending.get_or_insert_with(|| DumpRequest {
        span,
        reason,
        requesters: Default::default(),
    });
    pending.requesters.answers.push(answer);
}

/// Requests a dump of a session whose process has crashed, where that process asked for it. Where a policy gave it its
/// flight recorder, the owner of the policy requests the dump.
pub(super) fn request_crashed(collect: &mut Collector, session: u64, reason: &str) {
    for input in collect
        .inputs_mut()
        .filter(|input| input.client_id == Some(session))
    {
        let recorder = input.recorder.as_mut();
        if let Some(recorder) = recorder.filter(|recorder| recorder.is_requested && recorder.options.on_crash)
        {
            recorder.request_dump(recorder.options.before, reason);
        }
    }
}

/// Gives the process of a session, which is here or joins next, the flight recorder that it asks for; one of the policy
/// goes before it.
pub(super) fn request_recorder(pipe: &mut Pipeline, session: u64, options: RecorderOptions) {
    let mut inputs = pipe.collect.inputs_mut();
    let Some(input) = inputs.find(|input| input.client_id == Some(session)) else {
        pipe.route.recorder_request = Some((session, options));
        return;
    };
    input.recorder_request = Some(options);
    pipe.route.choose_recorder(input);
    input.forget_callsites();
}

/// Uses another policy from now on; what is held stays where it is held as before.
pub(super) fn set_policy(pipe: &mut Pipeline, policy: Box<dyn RecorderPolicy>) {
    pipe.route.recorder_policy = Some(policy);
    for input in pipe.collect.inputs_mut().filter(|input| input.client.is_some()) {
        pipe.route.choose_recorder(input);
        input.forget_callsites();
    }
}

/// Starts a dump where a record of this callsite was taken and triggers one.
pub(super) fn start_triggered(pipe: &mut Pipeline, number: usize, id: usize) {
    let callsite = pipe.collect.callsite(number, id);
    let Some(trigger) = callsite.and_then(|callsite| callsite.trigger.as_deref()) else {
        return;
    };
    let Some(recorder) = pipe.collect.recorder(number) else {
        return;
    };
    if recorder.dump.is_some() || monotonic_ns() < recorder.paused_until_ns {
        return;
    }
    let request = DumpRequest {
        span: recorder.options.before,
        reason: format!("of {trigger}"),
        requesters: Default::default(),
    };
    let reference_ticks = pipe.clock.newest_ticks;
    start(pipe, number, request, reference_ticks);
}

/// Begins dumps that were requested, and writes a slice of each.
pub(super) fn write_slices(pipe: &mut Pipeline) -> DumpState {
    let mut state = DumpState::None;
    for number in 0..pipe.collect.inputs.len() {
        let Some(recorder) = pipe.collect.recorder_mut(number) else {
            continue;
        };
        if recorder.dump.is_none()
            && let Some(request) = recorder.pending.take()
        {
            let reference_ticks = pipe.collect.now_ticks();
            start(pipe, number, request, reference_ticks);
        }
        if pipe
            .collect
            .recorder(number)
            .is_some_and(|recorder| recorder.dump.is_some())
        {
            let moved = write_slice(pipe, number);
            state = match state {
                DumpState::None | DumpState::Waits if moved == 0 => DumpState::Waits,
                _ => DumpState::Moves,
            };
            give_up_stuck(pipe, number, moved);
        }
        answer_file(pipe, number);
    }
    state
}

/// Answers the request in a session's file when its dump is in the log.
fn answer_file(pipe: &mut Pipeline, number: usize) {
    let Some(recorder) = pipe.collect.recorder_mut(number) else {
        return;
    };
    if let Some((request, records, ticket)) = recorder.answer
        && pipe.status.flush_status(ticket, u32::MAX).is_flushed
    {
        recorder.answer = None;
        if let Some(file) = recorder.memory.file() {
            file.answer(request, records);
        }
    }
}

/// Begins to write what a flight recorder holds, back from a time.
fn start(pipe: &mut Pipeline, number: usize, request: DumpRequest, reference_ticks: u64) {
    let calibration = pipe.clock.calibration;
    let rate = u128::from(calibration.ns_per_tick_q32);
    let from_ticks = match request.span {
        Some(span) if rate > 0 => {
            let ticks = u64::try_from((span.as_nanos() << 32) / rate).unwrap_or(u64::MAX);
            reference_ticks.saturating_sub(ticks)
        }
        _ => 0,
    };
    let Some(recorder) = pipe.collect.recorder_mut(number) else {
        return;
    };
    let DumpRequest {
        requesters, reason, ..
    } = request;
    let Some((records, oldest_ticks)) = recorder.memory.take_from(from_ticks) else {
        if let Some(request) = requesters.request {
            recorder.answer = Some((request, 0, pipe.status.request_flush()));
        }
        requesters.answer(0);
        return;
    };
    // Only dumps that records trigger are limited in their frequency; a requested one always happens.
    if requesters.is_empty() {
        let pause_ns = recorder.options.pause.as_nanos() as u64;
        recorder.paused_until_ns = monotonic_ns().saturating_add(pause_ns);
    }
    recorder.dump = Some(DumpProgress {
        requesters,
        ..DumpProgress::default()
    });
    let sinks = recorder.sinks;
    let since_ns = calibration
        .unix_ns(reference_ticks)
        .saturating_sub(calibration.unix_ns(oldest_ticks));
    let seconds = since_ns as f64 / 1e9;
    let text = format!(
        "flight recorder: {} of the last {seconds:.1} s {}, because {reason}",
        records_text(records),
        if records == 1 { "follows" } else { "follow" },
    );
    pipe.emit.frame_dump(&mut pipe.collect, sinks, &text);
}

/// Writes the next records of a dump, as many as do not hold anybody up; returns their number.
fn write_slice(pipe: &mut Pipeline, number: usize) -> u64 {
    let mut moved = 0;
    while moved < DUMP_SLICE_RECORDS {
        let recorder = pipe.collect.recorder(number);
        if recorder.is_none_or(|recorder| recorder.memory.front().is_none()) {
            end(pipe, number);
            break;
        }
        if !write_front(pipe, number) {
            break;
        }
        moved += 1;
    }
    if moved > 0
        && let Some(dump) = pipe
            .collect
            .recorder_mut(number)
            .and_then(|recorder| recorder.dump.as_mut())
    {
        dump.waiting_since_ns = None;
    }
    moved
}

/// Writes one record; `false` while a sink has no buffer to spare.
fn write_front(pipe: &mut Pipeline, number: usize) -> bool {
    // Of a quota, a dump uses the bytes of the day alone: its records are those of a longer time than a second.
    if let Some(input) = pipe.collect.input(number)
        && pipe.route.quotas.refuse_bytes(&input.quotas)
    {
        advance(pipe, number, false);
        return true;
    }
    let mut has_loaded = false;
    loop {
        let Some(input) = pipe.collect.input(number) else {
            return false;
        };
        let Some(recorder) = &input.recorder else {
            return false;
        };
        let Some(front) = recorder.memory.front() else {
            return false;
        };
        let Some(Some(callsite)) = input.callsites.get(front.callsite_id as usize) else {
            if std::mem::replace(&mut has_loaded, true) {
                // A damaged number; there is nothing to be said about its bytes.
                advance(pipe, number, false);
                return true;
            }
            pipe.load_callsites(number);
            continue;
        };
        let record = Record {
            unix_ns: pipe.clock.calibration.unix_ns(front.time_ticks),
            thread: Thread {
                name: front.thread_name,
                id: front.thread_id,
            },
            payload: front.payload,
        };
        let stuck = recorder.dump.as_ref().map_or(0, |dump| dump.stuck);
        let selection = Selection {
            sinks: callsite.dump_sinks & !stuck,
            without: 0,
            level: None,
        };
        let Some(full) = pipe.emit.stage(callsite, &record, selection) else {
            let accepted = pipe.emit.accept(Level::Trace, false);
            pipe.route.quotas.spend(&input.quotas, 0, accepted.file_bytes);
            advance(pipe, number, accepted.is_written);
            return true;
        };
        if !pipe.emit.sinks[full].has_slack() || !pipe.make_room(full, Level::Trace) {
            return false;
        }
    }
}

/// Goes on to the next record of a dump.
fn advance(pipe: &mut Pipeline, number: usize, is_written: bool) {
    if let Some(recorder) = pipe.collect.recorder_mut(number) {
        recorder.memory.advance(is_written);
        if let Some(dump) = &mut recorder.dump {
            dump.written += u64::from(is_written);
            dump.lost += u64::from(!is_written);
        }
    }
}

/// Ends a dump of which everything is laid out.
fn end(pipe: &mut Pipeline, number: usize) {
    let Some(recorder) = pipe.collect.recorder_mut(number) else {
        return;
    };
    let Some(dump) = recorder.dump.take() else { return };
    if let Some(request) = dump.requesters.request {
        recorder.answer = Some((request, dump.written, pipe.status.request_flush()));
    }
    dump.requesters.answer(dump.written);
    // A sink that was given up is told, too: such lines have room of their own.
    let sinks = recorder.sinks;
    let text = match dump.lost {
        0 => "flight recorder: end".to_owned(),
        lost => format!(
            "flight recorder: end; {} could not be written in time",
            records_text(lost)
        ),
    };
    let without = pipe.emit.frame_dump(&mut pipe.collect, sinks, &text);
    pipe.emit.count_calls(without, dump.lost);
}

/// Makes room in a memory that is full of what is on its way to the log.
#[cold]
pub(super) fn make_room(pipe: &mut Pipeline, number: usize) {
    pipe.commit();
    let is_taking = |recorder: &FlightRecorder| recorder.memory.is_taking();
    if !pipe.collect.recorder(number).is_some_and(is_taking) {
        return;
    }
    if write_slice(pipe, number) == 0
        && let Some(recorder) = pipe.collect.recorder_mut(number)
    {
        let lost = recorder.memory.skip_chunk();
        if let Some(dump) = &mut recorder.dump {
            dump.lost += lost;
        }
    }
    pipe.commit();
}

/// Has a dump go on without sinks that have had no room for five seconds.
fn give_up_stuck(pipe: &mut Pipeline, number: usize, moved: u64) {
    if moved > 0 {
        return;
    }
    let now_ns = monotonic_ns();
    let mut without_slack = 0;
    for (sink, buffer) in pipe.emit.sinks.iter_mut().enumerate() {
        without_slack |= u32::from(!buffer.has_slack()) << sink;
    }
    let Some(recorder) = pipe.collect.recorder_mut(number) else {
        return;
    };
    let sinks = recorder.sinks;
    let Some(dump) = &mut recorder.dump else { return };
    let since_ns = *dump.waiting_since_ns.get_or_insert(now_ns);
    if u128::from(now_ns.saturating_sub(since_ns)) < NO_PROGRESS.as_nanos() {
        return;
    }
    dump.stuck |= without_slack;
    dump.waiting_since_ns = None;
    if sinks & !dump.stuck == 0 {
        let forgotten_before = recorder.memory.counts().forgotten;
        while recorder.memory.is_taking() {
            recorder.memory.skip_chunk();
        }
        dump.lost += recorder.memory.counts().forgotten - forgotten_before;
    }
}

/// Writes all that the flight recorder of a dead process holds; returns the number of records. Stops where a sink takes
/// nothing.
pub(super) fn write_dead(pipe: &mut Pipeline, reason: &str) -> u64 {
    // Where its rings held nothing more, no callsite has been routed yet.
    pipe.load_callsites(0);
    let Some(recorder) = pipe.collect.recorder(0) else {
        return 0;
    };
    let request = DumpRequest {
        span: recorder.options.before,
        reason: reason.to_owned(),
        requesters: Default::default(),
    };
    let written_before = recorder.memory.counts().written;
    // The last time that the process has left.
    let reference_ticks = recorder.memory.newest_ticks().max(pipe.clock.newest_ticks);
    if recorder.options.on_crash {
        start(pipe, 0, request, reference_ticks);
        let is_dumping = |recorder: &FlightRecorder| recorder.dump.is_some();
        while !pipe.emit.has_failed && pipe.collect.recorder(0).is_some_and(is_dumping) {
            write_slice(pipe, 0);
        }
    }
    let recorder = pipe.collect.recorder(0);
    recorder.map_or(0, |recorder| recorder.memory.counts().written - written_before)
}

/// Returns a number of records in words: `1 record`, `18,204 records`.
fn records_text(records: u64) -> String {
    let plural = if records == 1 { "" } else { "s" };
    format!("{} record{plural}", with_commas(records))
}
