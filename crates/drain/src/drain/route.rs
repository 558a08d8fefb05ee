//! Route: which destinations get a record. The router of an agent, levels, quotas, and the flight recorder's choice.

use super::callsite::{CallsiteCounter, RoutedCallsite, trigger_text};
use super::collect::Collector;
use super::session_input::SessionInput;
use crate::client::ClientProcess;
use crate::flight_recorder::{FlightRecorder, RecorderOptions, RecorderPolicy, RecorderRule};
use crate::internal_notices::gap_callsite;
use crate::layout::{Plan, ProcessInfo};
use crate::quota::Quotas;
use crate::sink::buffer::SinkBuffer;
use logdrive_wire::{Callsite, Level};

/// Function that returns the sinks that get the records of a callsite of a process: bit 0 for the first.
pub(crate) type Router = Box<dyn Fn(&ClientProcess, &Callsite) -> u32 + Send>;

/// Destination that takes the next records alone, so that they are taken in runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Destination {
    /// One sink.
    Sink(SingleSink),
    /// The flight recorder of the records' session.
    Recorder,
}

/// Sink that takes records alone.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SingleSink {
    pub(super) number: usize,
    /// Level from which on others take them, too.
    pub(super) below: Option<Level>,
    /// Route of the records that are meant, as bits; `None` for any.
    pub(super) route: Option<u32>,
    /// Set if there is no other sink.
    pub(super) is_alone: bool,
}

/// Choices of routes, flight recorders and quotas.
#[derive(Default)]
pub(super) struct Routes {
    /// Without one, all sinks get all records.
    pub(super) router: Option<Router>,
    pub(super) recorder_policy: Option<Box<dyn RecorderPolicy>>,
    /// Session that joins next, and the flight recorder that its process asks for.
    pub(super) recorder_request: Option<(u64, RecorderOptions)>,
    pub(super) quotas: Quotas,
}

impl Routes {
    /// Returns the sinks that lines about a session go to: those of its process's warnings.
    pub(super) fn notice_sinks(&self, client: Option<&ClientProcess>) -> u32 {
        match (&self.router, client) {
            (Some(router), Some(client)) => router(client, &gap_callsite()),
            _ => u32::MAX,
        }
    }

    /// Returns where the next records of a ring go, where that is one place; `None` where each needs a look of its own.
    #[inline]
    pub(super) fn destination(
        &self,
        collect: &Collector,
        sinks: &[SinkBuffer],
        buffer_bytes: u64,
        index: usize,
    ) -> Option<Destination> {
        let callsite = collect.front_callsite(index);
        if callsite.is_some_and(|callsite| callsite.is_recorded) {
            return Some(Destination::Recorder);
        }
        if !self.is_far_from_quota(collect, buffer_bytes, index) {
            return None;
        }
        let single = match (sinks, &self.router) {
            ([_], _) => Some(SingleSink {
                is_alone: true,
                ..SingleSink::default()
            }),
            (_, Some(_)) => single_route(callsite?),
            (_, None) if sinks.iter().any(is_selective) => single_route(callsite?),
            (_, None) if self.recorder_policy.is_some() => None,
            (_, None) => lowest_sink(sinks),
        };
        single.map(Destination::Sink)
    }

    /// Returns whether all that a ring may give in this pass is within the quotas of its process, so that nothing has
    /// to be counted record by record.
    #[inline]
    fn is_far_from_quota(&self, collect: &Collector, buffer_bytes: u64, index: usize) -> bool {
        let reader = &collect.readers[index];
        match collect.input(reader.input) {
            Some(input) if !input.quotas.is_empty() => {
                let (records, bytes) = self.quotas.left(&input.quotas);
                records > reader.records_at_most() && bytes > buffer_bytes
            }
            _ => true,
        }
    }

    /// Reads callsites that were registered since the last look, routes them, and compiles their plans.
    #[cold]
    pub(super) fn load_callsites(&self, input: &mut SessionInput, sinks: &[SinkBuffer]) {
        let process = input.client.as_ref().map(|client| ProcessInfo {
            app: client.app.clone(),
            pid: client.pid,
            host: String::new(),
        });
        for (id, bytes) in input.take_new_callsites() {
            let index = id as usize;
            if input.callsites.len() <= index {
                input.callsites.resize_with(index + 1, || None);
            }
            // A peer that repeats the same number must not cause work.
            if input.callsites.get(index).is_some_and(Option::is_some) {
                continue;
            }
            // A callsite that cannot be read stays unknown; its records say so.
            let Ok(callsite) = Callsite::decode(&bytes) else {
                continue;
            };
            let takers = takers(sinks, id, &callsite);
            let route = match (&self.router, &input.client) {
                (Some(router), Some(client)) => router(client, &callsite) & takers,
                _ => takers,
            };
            let mut rule = self.recorder_rule(input, id, &callsite);
            rule.sinks &= takers;
            if let Some(recorder) = &mut input.recorder {
                recorder.sinks |= rule.sinks;
            }
            let routed = RoutedCallsite {
                level: callsite.level,
                plans: plans(sinks, &callsite, route | rule.sinks, process.as_ref()),
                counter: CallsiteCounter::resume(input.counts(id)),
                route,
                dump_sinks: rule.sinks,
                is_recorded: rule.keep && is_left_out(sinks, route, callsite.level),
                trigger: rule.triggers.then(|| trigger_text(&callsite)),
            };
            if let Some(place) = input.callsites.get_mut(index) {
                *place = Some(routed);
            }
        }
    }

    /// Returns what the flight recorder of a session does with the records of a callsite.
    fn recorder_rule(&self, input: &SessionInput, id: u32, callsite: &Callsite) -> RecorderRule {
        // Gap records say what is missing from what the sinks get.
        let Some(recorder) = input.recorder.as_ref().filter(|_| id != 0) else {
            return RecorderRule::default();
        };
        match (&input.client, &self.recorder_policy) {
            (None, _) => recorder.rule_for(id, callsite),
            (Some(client), _) if recorder.is_requested => RecorderRule {
                sinks: self.requested_dump_sinks(client, callsite),
                ..recorder.rule_for(id, callsite)
            },
            (Some(client), Some(policy)) => policy.rule_for(client, id, callsite),
            (Some(_), None) => RecorderRule::default(),
        }
    }

    /// Returns the sinks for the dumps of a process that asked for a flight recorder: those of its fatal records of the
    /// same module.
    fn requested_dump_sinks(&self, client: &ClientProcess, callsite: &Callsite) -> u32 {
        let fatal = Callsite {
            level: Level::Fatal,
            ..callsite.clone()
        };
        let router = self.router.as_ref();
        router.map_or(u32::MAX, |router| router(client, &fatal))
    }

    /// Gives a session of another process the flight recorder that it is to have: that of the policy, or else the one
    /// that its process asked for. What is held stays where the size stays the same.
    pub(super) fn choose_recorder(&self, input: &mut SessionInput) {
        let policy = self.recorder_policy.as_ref();
        let own = input
            .client
            .as_ref()
            .and_then(|client| policy?.options_for(client));
        let is_requested = own.is_none();
        let before = input.recorder.take();
        let options = own.or_else(|| input.recorder_request.clone());
        input.recorder = options.map(|options| FlightRecorder::replace(before, options, is_requested));
    }
}

/// Returns the sink that routes give the records of a callsite, if it is one: then it mostly is that of the others, too.
fn single_route(callsite: &RoutedCallsite) -> Option<SingleSink> {
    callsite.route.is_power_of_two().then(|| SingleSink {
        number: callsite.route.trailing_zeros() as usize,
        route: Some(callsite.route),
        ..SingleSink::default()
    })
}

/// Returns the sink with the lowest level, with the level from which on others take records, too. `None` where two sinks
/// have the lowest.
fn lowest_sink(sinks: &[SinkBuffer]) -> Option<SingleSink> {
    let levels = || sinks.iter().map(|sink| sink.min_level());
    let lowest = levels().min()?;
    let number = levels().position(|level| level == lowest)?;
    let others = levels().enumerate().filter(|(other, _)| *other != number);
    let below = others.map(|(_, level)| level).min()?;
    (below > lowest).then_some(SingleSink {
        number,
        below: Some(below),
        ..SingleSink::default()
    })
}

/// Returns whether a sink takes records of some targets only.
fn is_selective(sink: &SinkBuffer) -> bool {
    !sink.settings.targets.is_any()
}

/// Returns the sinks that take records of the target of a callsite: all of them where none is selective. All get the records
/// that tell of gaps.
fn takers(sinks: &[SinkBuffer], id: u32, callsite: &Callsite) -> u32 {
    if id == 0 || !sinks.iter().any(is_selective) {
        return u32::MAX;
    }
    let taken = |sink: &&SinkBuffer| sink.settings.targets.takes_callsite(callsite);
    let bits = sinks.iter().filter(taken).map(|sink| 1 << sink.number());
    bits.fold(0, |all, bit: u32| all | bit)
}

/// Compiles plans for the sinks that may get records of a callsite.
fn plans(
    sinks: &[SinkBuffer],
    callsite: &Callsite,
    selected: u32,
    process: Option<&ProcessInfo>,
) -> Vec<Option<Plan>> {
    let plan = |(number, sink): (usize, &SinkBuffer)| {
        let is_selected = selected >> number & 1 == 1 && !sink.is_closed();
        is_selected.then(|| sink.compile(callsite, process))
    };
    sinks.iter().enumerate().map(plan).collect()
}

/// Returns whether none of the sinks of a route takes records of this level.
fn is_left_out(sinks: &[SinkBuffer], route: u32, level: Level) -> bool {
    let mut sinks = sinks.iter().enumerate();
    sinks.all(|(number, sink)| route >> number & 1 == 0 || level < sink.min_level())
}
