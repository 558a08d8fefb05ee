//! The numbers of sessions as text for Prometheus (text format 0.0.4). Bytes out of numbers: whoever serves it, or
//! writes it to a file for a collector, brings the socket.

use crate::stats::{SinkStats, Stats};
use logdrive_ring::DropReason;
use std::fmt::Write;

/// A session with its numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionNumbers {
    /// Name of the application.
    pub app: String,
    /// Its process.
    pub pid: u32,
    /// Set if the process lives; a dead one waits to be recovered.
    pub is_alive: bool,
    /// The numbers.
    pub stats: Stats,
}

/// A number of a session, by further labels where there are several.
type Values = Vec<(String, u64)>;

/// Name, whether it only grows, what it is, and how it is found.
type Metric = (&'static str, bool, &'static str, fn(&SessionNumbers) -> Values);

const METRICS: [Metric; 14] = [
    (
        "logdrive_up",
        false,
        "1 while the process lives, 0 while it waits to be recovered",
        |session| one(u64::from(session.is_alive)),
    ),
    (
        "logdrive_records_committed_total",
        true,
        "records that calls have committed",
        |session| one(session.stats.committed),
    ),
    (
        "logdrive_calls_dropped_total",
        true,
        "calls whose record was not kept",
        |session| {
            DropReason::ALL
                .into_iter()
                .zip(session.stats.dropped)
                .map(|(reason, count)| (label("reason", reason.name()), count))
                .collect()
        },
    ),
    (
        "logdrive_calls_disabled_total",
        true,
        "calls that their level switched off",
        |session| one(session.stats.disabled),
    ),
    (
        "logdrive_calls_sampled_out_total",
        true,
        "calls that sampling left out",
        |session| one(session.stats.sampled_out),
    ),
    (
        "logdrive_records_cut_total",
        true,
        "records whose values were cut to the limit",
        |session| one(session.stats.cut),
    ),
    (
        "logdrive_records_in_rings",
        false,
        "records that the drain has not taken",
        |session| one(session.stats.in_rings),
    ),
    ("logdrive_rings", false, "rings made", |session| {
        one(u64::from(session.stats.rings.0))
    }),
    (
        "logdrive_rings_unreadable",
        false,
        "rings that are damaged",
        |session| one(session.stats.quarantined),
    ),
    (
        "logdrive_sink_records_written_total",
        true,
        "records handed to the kernel",
        |session| each_sink(session, |sink| vec![(String::new(), sink.counts.written_records)]),
    ),
    (
        "logdrive_sink_bytes_written_total",
        true,
        "bytes handed to the kernel",
        |session| each_sink(session, |sink| vec![(String::new(), sink.counts.written_bytes)]),
    ),
    (
        "logdrive_sink_records_dropped_total",
        true,
        "records that the sink left out",
        |session| {
            each_sink(session, |sink| {
                sink.dropped_by_reason()
                    .map(|(reason, count)| (label("reason", reason), count))
                    .collect()
            })
        },
    ),
    (
        "logdrive_sink_records_pending",
        false,
        "records on their way to the sink",
        |session| each_sink(session, |sink| vec![(String::new(), sink.pending)]),
    ),
    (
        "logdrive_sink_write_errors_total",
        true,
        "writes that failed",
        |session| each_sink(session, |sink| vec![(String::new(), sink.counts.errors)]),
    ),
];

fn one(value: u64) -> Values {
    vec![(String::new(), value)]
}

fn each_sink(session: &SessionNumbers, values: impl Fn(&SinkStats) -> Values) -> Values {
    let sinks = session.stats.sinks.iter().enumerate();
    sinks
        .flat_map(|(number, sink)| {
            let of_sink = label("sink", &(number + 1).to_string());
            values(sink)
                .into_iter()
                .map(move |(more, value)| (format!("{of_sink}{more}"), value))
        })
        .collect()
}

fn label(name: &str, value: &str) -> String {
    let value = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!(",{name}=\"{value}\"")
}

/// The numbers of these sessions, metric by metric. Sinks are numbered from 1.
///
/// ```
/// use logdrive_drain::{SessionNumbers, metrics};
/// let session = SessionNumbers { app: "shop".into(), pid: 417, is_alive: true, ..Default::default() };
/// assert!(metrics(&[session]).contains("\nlogdrive_up{app=\"shop\",pid=\"417\"} 1\n"));
/// ```
pub fn metrics(sessions: &[SessionNumbers]) -> String {
    let mut text = String::new();
    for (name, only_grows, help, values_of) in METRICS {
        let kind = if only_grows { "counter" } else { "gauge" };
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for session in sessions {
            let whose = format!(
                "{}{}",
                label("app", &session.app),
                label("pid", &session.pid.to_string())
            );
            let whose = whose.trim_start_matches(',');
            for (more, value) in values_of(session) {
                let _ = writeln!(text, "{name}{{{whose}{more}}} {value}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_line_is_one_number_of_one_session() {
        let mut shop = SessionNumbers {
            app: "sh\"o\\p\n".into(),
            pid: 7,
            is_alive: true,
            stats: Stats::default(),
        };
        shop.stats.committed = 12;
        shop.stats.dropped[0] = 3;
        shop.stats.sinks = vec![SinkStats::default(); 2];
        shop.stats.sinks[1].pending = 5;
        shop.stats.sinks[1].counts.dropped[0] = 4;
        let text = metrics(&[shop, SessionNumbers::default()]);
        let whose = r#"app="sh\"o\\p\n",pid="7""#;
        for expected in [
            format!("\nlogdrive_records_committed_total{{{whose}}} 12\n"),
            format!("\nlogdrive_calls_dropped_total{{{whose},reason=\"full\"}} 3\n"),
            format!("\nlogdrive_sink_records_pending{{{whose},sink=\"2\"}} 5\n"),
            format!("\nlogdrive_sink_records_dropped_total{{{whose},sink=\"2\",reason=\"overflow\"}} 4\n"),
            "\nlogdrive_up{app=\"\",pid=\"0\"} 0\n".to_owned(),
        ] {
            assert!(text.contains(&expected), "{expected}\n{text}");
        }
        let series: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| Some(line.rsplit_once(' ')?.0))
            .collect();
        let different: BTreeSet<&&str> = series.iter().collect();
        assert_eq!(different.len(), series.len(), "each series stands once");
    }
}
