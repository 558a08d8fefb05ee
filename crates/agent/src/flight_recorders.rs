//! The flight recorders of a configuration, as the drain asks for them.

use crate::config::{Process, Recorder, keep_bytes_of};
use crate::routing::SharedRouting;
use crate::server::End;
use logdrive_drain::{ClientProcess, RecorderOptions, RecorderPolicy, RecorderRule};
use logdrive_ring::HostedSession;
use logdrive_wire::{Callsite, Level};

/// Flight recorders of the processes, for the drain.
#[derive(Debug)]
pub(crate) struct FlightRecorders(pub(crate) SharedRouting);

/// Span of a dump of a process without a request: the longest of its recorders.
fn before(recorders: &[Recorder], process: &Process<'_>) -> Option<std::time::Duration> {
    let own = recorders
        .iter()
        .filter(|recorder| recorder.processes.matches(process));
    own.map(|recorder| recorder.before).max()
}

impl RecorderPolicy for FlightRecorders {
    fn options_for(&self, client: &ClientProcess) -> Option<RecorderOptions> {
        let sinks = self.0.lock();
        let (recorders, process) = (&sinks.config.recorders, Process::from(client));
        let bytes = keep_bytes_of(recorders, &process);
        (bytes > 0).then(|| RecorderOptions {
            before: before(recorders, &process),
            ..RecorderOptions::new(bytes)
        })
    }

    fn rule_for(&self, client: &ClientProcess, id: u32, callsite: &Callsite) -> RecorderRule {
        let sinks = self.0.lock();
        let process = Process::from(client);
        let target = callsite.target_or_module();
        let Some(recorder) = sinks.config.recorder_for(&process, target) else {
            return RecorderRule::default();
        };
        let places = match recorder.sinks.as_slice() {
            [] => sinks.config.sinks_for(&process, target, Level::Fatal),
            names => sinks.config.places_of(names).collect(),
        };
        RecorderRule {
            keep: callsite.level >= recorder.level,
            triggers: recorder.is_triggered_by(id, callsite),
            sinks: sinks.bits(&process, places),
        }
    }
}

/// Returns the span and the reason of the dump at the end of a process, if its recorder wants one.
pub(crate) fn after_crash(
    recorders: &[Recorder],
    session: &HostedSession,
    end: End,
) -> Option<(Option<std::time::Duration>, String)> {
    let process = Process::from(session);
    let wants = |recorder: &Recorder| recorder.on_crash && recorder.processes.matches(&process);
    let wanted = end.is_crash(session) && recorders.iter().any(wants);
    wanted.then(|| (before(recorders, &process), end.describe(session)))
}
