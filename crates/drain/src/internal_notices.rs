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
    Callsite {
        level: Level::Warn,
        module: TARGET.to_owned(),
        message: "{0} records dropped: {1}".to_owned(),
        fields: vec![argument("count", Kind::U64), argument("reason", Kind::Str)],
        ..Callsite::default()
    }
}

/// The values of a gap record.
pub fn gap_payload(count: u64, reason: &str) -> Vec<u8> {
    [&count.to_le_bytes()[..], &text_payload(reason)].concat()
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
        fields: vec![argument("notice", Kind::Str)],
        ..Callsite::default()
    }
}

fn argument(name: &str, kind: Kind) -> Field {
    Field {
        name: name.to_owned(),
        kind: FieldKind::plain(kind),
        argument: true,
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

    /// Reports that records are missing. Where even this does not fit, their number stays in the counters.
    pub(crate) fn gap(&self, sink: &mut SinkBuffer, number: usize, count: u64, reason: &str) {
        let payload = gap_payload(count, reason);
        put_line(sink, self.gaps.get(number), Some(Level::Warn), &payload);
    }

    /// `false` when the sink has no room for it.
    pub(crate) fn notice(&self, sink: &mut SinkBuffer, number: usize, level: Level, text: &str) -> bool {
        let plans = match level >= Level::Warn {
            true => &self.warnings,
            false => &self.infos,
        };
        put_line(sink, plans.get(number), Some(level), &text_payload(text))
    }

    /// Writes a line that frames a dump, whatever the sink's level; it is on its way at once.
    pub(crate) fn frame(&self, sink: &mut SinkBuffer, number: usize, text: &str) -> bool {
        put_line(sink, self.infos.get(number), None, &text_payload(text))
    }
}

fn text_payload(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// Writes a line, whatever the sink's level where it has none; `false` when the sink has no room for it.
fn put_line(sink: &mut SinkBuffer, plan: Option<&Plan>, level: Option<Level>, payload: &[u8]) -> bool {
    let Some(plan) = plan else { return true };
    let line = Record {
        unix_ns: unix_ns(),
        thread: Thread { name: TARGET, id: 0 },
        payload,
    };
    let staged = sink.stage(plan, &line, level);
    sink.accept(staged, level.unwrap_or(Level::Fatal), false);
    staged != Staged::Full
}
