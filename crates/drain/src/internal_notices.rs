//! Lines of the logger about itself: gaps and notices. They are laid out like any record, but are not counted as one.

use crate::calendar::DateTime;
use crate::layout::{Plan, Record, Thread};
use crate::sink::account::Unreported;
use crate::sink::buffer::{SinkBuffer, Staged};
use crate::sink::drop_reason::SinkDrop;
use logdrive_ring::DropReason;
use logdrive_ring::clock::unix_ns;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, Level};
use rustix::io::Errno;

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

/// Returns whether a callsite is that of a line of the logger about itself.
#[cfg(feature = "segments")]
pub(crate) fn is_own(callsite: &Callsite) -> bool {
    *callsite == gap_callsite() || *callsite == notice_callsite(callsite.level)
}

/// The values of a gap record.
pub fn gap_payload(count: u64, reason: &str) -> Vec<u8> {
    [&count.to_le_bytes()[..], &text_payload(reason)].concat()
}

/// The count and the reason of a gap record; of bytes that are none, 0 and [`DropReason::Other`].
pub(crate) fn read_gap(payload: &[u8]) -> (u64, DropReason) {
    let count = payload
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes));
    // Behind the count and the length of the text.
    let text = payload.get(12..).unwrap_or_default();
    let is_text = |reason: &&DropReason| text.starts_with(reason.text().as_bytes());
    let reason = DropReason::ALL.iter().find(is_text);
    (count, reason.copied().unwrap_or(DropReason::Other))
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

    /// Lays out a line about records that are missing in a sink, at the time of the last of them, whatever the sink's
    /// level. `false` when the sink has no room for it.
    pub(crate) fn gap(&self, sink: &mut SinkBuffer, number: usize, unreported: &Unreported) -> bool {
        let Some(plan) = self.gaps.get(number) else {
            return true;
        };
        let [_, until] = unreported.unix_ns;
        let count = unreported.records.saturating_add(unreported.calls);
        let payload = gap_payload(count, &reason_of(unreported));
        let staged = sink.stage_line(plan, &line(until, &payload), true);
        sink.accept(staged, Level::Warn, false, until);
        staged != Staged::Full
    }

    /// Lays out a notice. Nothing counts before it is accepted.
    pub(crate) fn stage(&self, sink: &mut SinkBuffer, number: usize, notice: &Notice) -> Staged {
        let plans = match notice.level {
            Some(level) if level >= Level::Warn => &self.warnings,
            _ => &self.infos,
        };
        match plans.get(number) {
            Some(plan) => sink.stage(
                plan,
                &line(notice.unix_ns, &notice.payload),
                notice.level,
                notice.is_urgent(),
            ),
            None => Staged::Dropped(SinkDrop::NotRouted),
        }
    }
}

/// A line of the logger about itself, on its way to some sinks.
#[derive(Debug)]
pub(crate) struct Notice {
    /// `None` for a line that frames a dump, which sinks take whatever their level.
    pub(crate) level: Option<Level>,
    pub(crate) unix_ns: u64,
    payload: Vec<u8>,
}

impl Notice {
    /// Notice of this moment.
    pub(crate) fn new(level: Option<Level>, text: &str) -> Self {
        Self {
            level,
            unix_ns: unix_ns(),
            payload: text_payload(text),
        }
    }

    /// Returns whether it may lie in the room that is reserved for such lines. The frame of a dump says what is missing
    /// of it.
    pub(crate) fn is_urgent(&self) -> bool {
        self.level.is_none_or(Level::is_urgent)
    }
}

/// A line about drops of a sink that is closed before it could tell them.
pub(crate) fn describe_unreported(number: usize, unreported: &Unreported) -> String {
    format!(
        "{} records dropped by sink {number}, which is closed: {}",
        unreported.records.saturating_add(unreported.calls),
        reason_of(unreported)
    )
}

/// Reason for which records are missing, and the time of the first and the last.
fn reason_of(unreported: &Unreported) -> String {
    let why = match i32::try_from(unreported.cause) {
        Ok(code) if code > 1 && code != Errno::AGAIN.raw_os_error() => {
            let text = std::io::Error::from_raw_os_error(code).to_string();
            let text = text.split(" (os error").next().unwrap_or_default();
            format!("the sink could not be written, {}", text.to_lowercase())
        }
        _ => "the sink was too slow".to_owned(),
    };
    let calls = match unreported.calls {
        0 => String::new(),
        calls => format!(", {calls} of them before they reached it"),
    };
    let [since, until] = unreported.unix_ns.map(iso_time);
    format!("{why}{calls}, from {since} to {until}")
}

/// A time of UTC to the millisecond.
fn iso_time(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let date = DateTime::from_unix(seconds.cast_signed());
    let millis = unix_ns / 1_000_000 % 1_000;
    let (year, month, day) = (date.year, date.month, date.day);
    let (hour, minute, second) = (date.hour, date.minute, date.second);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

fn text_payload(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

fn line(unix_ns: u64, payload: &[u8]) -> Record<'_> {
    Record {
        unix_ns,
        thread: Thread { name: TARGET, id: 0 },
        payload,
    }
}
