//! Lines of the logger about itself: gaps and notices. They are laid out like any record, but are not counted as one.

use crate::layout::{Plan, Record, Thread};
use crate::sink::buffer::{SinkBuffer, Staged};
use logdrive_ring::clock::unix_ns;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, Level};

/// The target of all lines about the logger itself.
pub const TARGET: &str = "logdrive";

/// The callsite of gap records: number 0 of every session.
pub fn gap_callsite() -> Callsite {
    let field = |name: &str, kind| Field {
        name: name.to_owned(),
        kind: FieldKind::plain(kind),
        argument: true,
    };
    Callsite {
        level: Level::Warn,
        module: TARGET.to_owned(),
        message: "{0} records dropped: {1}".to_owned(),
        fields: vec![field("count", Kind::U64), field("reason", Kind::Str)],
        ..Callsite::default()
    }
}

/// The values of a gap record.
pub fn gap_payload(count: u64, reason: &str) -> Vec<u8> {
    let mut payload = Vec::with_capacity(16 + reason.len());
    payload.extend_from_slice(&count.to_le_bytes());
    payload.extend_from_slice(&(reason.len() as u32).to_le_bytes());
    payload.extend_from_slice(reason.as_bytes());
    payload
}

/// Plans for lines about the logger, for each sink.
#[derive(Debug)]
pub(crate) struct InternalNotices {
    gaps: Vec<Plan>,
    warnings: Vec<Plan>,
    infos: Vec<Plan>,
}

fn notice_callsite(level: Level) -> Callsite {
    Callsite {
        level,
        module: TARGET.to_owned(),
        message: "{0}".to_owned(),
        fields: vec![Field {
            name: "notice".to_owned(),
            kind: FieldKind::plain(Kind::Str),
            argument: true,
        }],
        ..Callsite::default()
    }
}

impl InternalNotices {
    pub(crate) fn new(sinks: &[SinkBuffer]) -> Self {
        let compile = |callsite: &Callsite| sinks.iter().map(|sink| sink.compile(callsite, None)).collect();
        Self {
            gaps: compile(&gap_callsite()),
            warnings: compile(&notice_callsite(Level::Warn)),
            infos: compile(&notice_callsite(Level::Info)),
        }
    }

    /// Tells that records are missing. Where even this does not fit, their number stays in the counters.
    pub(crate) fn gap(&self, sink: &mut SinkBuffer, number: usize, count: u64, reason: &str) {
        self.line(
            sink,
            self.gaps.get(number),
            Level::Warn,
            &gap_payload(count, reason),
        );
    }

    /// `false` when the sink has no room for it.
    pub(crate) fn notice(&self, sink: &mut SinkBuffer, number: usize, level: Level, text: &str) -> bool {
        let plans = if level >= Level::Warn {
            &self.warnings
        } else {
            &self.infos
        };
        let mut payload = Vec::with_capacity(4 + text.len());
        payload.extend_from_slice(&(text.len() as u32).to_le_bytes());
        payload.extend_from_slice(text.as_bytes());
        self.line(sink, plans.get(number), level, &payload)
    }

    /// A line that frames what was kept, whatever the sink's level; it is on its way at once.
    pub(crate) fn frame(&self, sink: &mut SinkBuffer, number: usize, text: &str) -> bool {
        let Some(plan) = self.infos.get(number) else {
            return true;
        };
        let mut payload = Vec::with_capacity(4 + text.len());
        payload.extend_from_slice(&(text.len() as u32).to_le_bytes());
        payload.extend_from_slice(text.as_bytes());
        let line = Record {
            unix_ns: unix_ns(),
            thread: Thread { name: TARGET, id: 0 },
            payload: &payload,
        };
        let staged = sink.stage_dumped(plan, &line);
        sink.accept(staged, Level::Fatal, false);
        staged != Staged::Full
    }

    fn line(&self, sink: &mut SinkBuffer, plan: Option<&Plan>, level: Level, payload: &[u8]) -> bool {
        let Some(plan) = plan else { return true };
        let line = Record {
            unix_ns: unix_ns(),
            thread: Thread { name: TARGET, id: 0 },
            payload,
        };
        let staged = sink.stage(plan, &line, level);
        sink.accept(staged, level, false);
        staged != Staged::Full
    }
}
