//! Final sums of a session, for the line that reports its end: calls, and for each sink the records that it wrote and
//! dropped. They agree with [`Stats`] and hold after a kill, because the session keeps every count.

use crate::sink::drop_reason::SinkDrop;
use crate::sink::options::{RecoverableSink, sinks_from_text};
use crate::stats::{SinkStats, Stats};
use logdrive_ring::DropReason;

/// Reasons that say that a record was not meant for a sink.
const NOT_FOR_IT: [SinkDrop; 2] = [SinkDrop::Level, SinkDrop::NotRouted];

/// Number of records that a sink dropped although they were meant for it.
pub(crate) fn lost_by(sink: &SinkStats) -> u64 {
    let is_lost = |code: &usize| NOT_FOR_IT.iter().all(|reason| *reason as usize != *code);
    let counts = sink.counts.dropped.iter().enumerate();
    counts
        .filter(|(code, _)| is_lost(code))
        .fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

/// Returns whether anything was dropped that was meant to be written.
pub(crate) fn has_losses(stats: &Stats) -> bool {
    stats.dropped_calls() > 0 || stats.sinks.iter().any(|sink| lost_by(sink) > 0)
}

/// Sums in words, where all that is pending is about to be written. `calls` says whether the session's calls are all that
/// the sinks got. `config` is the text that describes the sinks.
pub(crate) fn describe_sums(stats: &Stats, calls: bool, config: &[u8]) -> String {
    let mut parts = Vec::new();
    if calls {
        parts.push(describe_calls(stats));
    }
    let described = sinks_from_text(&String::from_utf8_lossy(config));
    for (number, sink) in stats.sinks.iter().enumerate() {
        let name = name_of(number, described.get(number));
        parts.extend(describe_sink(sink, &name));
    }
    parts.join("; ")
}

/// The sums of a session that an agent drains, whose sinks have the records of many: what became of its calls.
pub(crate) fn describe_client_sums(stats: &Stats, left_out: u64) -> String {
    let calls = describe_calls(stats);
    match left_out {
        0 => calls,
        left_out => format!("{calls}; {left_out} records were left out by a sink"),
    }
}

fn describe_calls(stats: &Stats) -> String {
    let reasons = DropReason::ALL.into_iter();
    let reasons = reasons.map(|reason| (reason.text(), stats.dropped[reason as usize]));
    let dropped = stats.dropped_calls();
    let late = match stats.late {
        0 => String::new(),
        late => format!(", {late} late"),
    };
    format!(
        "{} calls committed, {dropped} dropped{}{late}",
        stats.committed,
        by_reason(reasons)
    )
}

/// `None` for a place without a sink.
fn describe_sink(sink: &SinkStats, name: &str) -> Option<String> {
    let written = sink.counts.written_records.saturating_add(sink.pending);
    let lost = lost_by(sink);
    let others = sink.dropped().saturating_sub(lost);
    if written == 0 && lost == 0 && others == 0 {
        return None;
    }
    let names = SinkDrop::NAMES.into_iter().zip(sink.counts.dropped).enumerate();
    let names = names.filter(|(code, _)| NOT_FOR_IT.iter().all(|reason| *reason as usize != *code));
    let reasons = by_reason(names.map(|(_, named)| named));
    let not_for_it = match others {
        0 => String::new(),
        others => format!(", {others} not for it"),
    };
    Some(format!(
        "{name}: {written} written, {lost} dropped{reasons}{not_for_it}"
    ))
}

/// Those reasons that occurred: ` (overflow 12, too_long 1)`.
fn by_reason(reasons: impl Iterator<Item = (&'static str, u64)>) -> String {
    let reasons = reasons.filter(|(_, count)| *count > 0);
    let words: Vec<String> = reasons.map(|(name, count)| format!("{name} {count}")).collect();
    match words.is_empty() {
        true => String::new(),
        false => format!(" ({})", words.join(", ")),
    }
}

/// Destination of a sink; its number where it ended with its process.
fn name_of(number: usize, sink: Option<&RecoverableSink>) -> String {
    let destination = sink.and_then(RecoverableSink::destination);
    destination.map_or_else(
        || format!("sink {number}"),
        |path| path.to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_ring::SinkCounts;

    #[test]
    fn sums_say_what_was_dropped_and_why() {
        let mut stats = Stats {
            committed: 100,
            ..Stats::default()
        };
        stats.sinks.push(SinkStats {
            counts: SinkCounts {
                written_records: 60,
                dropped: [30, 0, 5, 0, 0, 0, 0, 0],
                ..SinkCounts::default()
            },
            pending: 5,
        });
        assert!(has_losses(&stats));
        assert_eq!(
            describe_sums(&stats, true, b"[sink]\n[file]\npath = /var/log/shop.log\n"),
            "100 calls committed, 0 dropped; /var/log/shop.log: 65 written, 30 dropped (overflow 30), 5 not for it"
        );
        stats.sinks[0].counts.dropped = [0, 0, 5, 0, 0, 2, 0, 0];
        assert!(!has_losses(&stats));
        stats.dropped[0] = 3;
        assert!(has_losses(&stats));
        stats.late = 4;
        let sums = describe_sums(&stats, true, b"");
        assert_eq!(
            sums,
            "100 calls committed, 3 dropped (ring full 3), 4 late; sink 0: 65 written, 0 dropped, 7 not for it"
        );
    }
}
