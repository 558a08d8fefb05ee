//! Metrics of the collector, and of each of its outputs, as text for Prometheus.

use super::running::Counts;
use logdrive_collector::StoreCounts;
use logdrive_collector::input::{InputAddress, InputCounts};
use logdrive_engines::DeliveryCounts;
use logdrive_ship::hello::Reason;
use std::fmt::Write;

/// Returns the text of this moment.
pub(super) fn text(
    Counts {
        stats,
        total: counts,
        outputs,
        deliveries,
        inputs,
    }: &Counts,
) -> String {
    let mut out = String::new();
    for (name, help, value) in [
        ("records_total", "records that were written", counts.records),
        (
            "duplicates_total",
            "records that came again and were left out",
            counts.duplicates,
        ),
        (
            "lost_total",
            "records that their senders reported as lost",
            counts.lost,
        ),
        (
            "written_bytes_total",
            "bytes that were written to the log",
            counts.bytes,
        ),
        (
            "received_bytes_total",
            "bytes that came over connections",
            stats.bytes,
        ),
        ("sessions", "sessions that the ledger knows", counts.sessions),
        ("connections", "connections that are open", stats.connections),
        ("accepted_total", "connections that were accepted", stats.accepted),
        (
            "refused_sessions_total",
            "hellos that claimed the session of another sender",
            counts.refused,
        ),
        (
            "failing",
            "1 while the log cannot be written",
            u64::from(counts.is_failing),
        ),
        (
            "commit_failures_total",
            "writes to the log that failed",
            counts.failures,
        ),
    ] {
        let kind = if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        let name = format!("logdrive_collector_{name}");
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    put_times(&mut out, counts);
    put_outputs(&mut out, outputs);
    put_deliveries(&mut out, deliveries);
    put_inputs(&mut out, inputs);
    let name = "logdrive_collector_ended_total";
    let _ = writeln!(
        out,
        "# HELP {name} connections that ended, by their reason\n# TYPE {name} counter"
    );
    for (reason, count) in Reason::NAMES.iter().zip(stats.ended) {
        let _ = writeln!(out, "{name}{{reason=\"{reason}\"}} {count}");
    }
    out
}

fn put_times(out: &mut String, counts: &StoreCounts) {
    let name = "logdrive_collector_commit_seconds";
    let help = "time of a write to the log, with its syncs";
    let (sum, count) = (counts.commit_time.as_secs_f64(), counts.commits);
    let slowest = counts.slowest_commit.as_secs_f64();
    let _ = writeln!(
        out,
        "# HELP {name} {help}\n# TYPE {name} summary\n{name}_sum {sum}\n{name}_count {count}"
    );
    let _ = writeln!(
        out,
        "# HELP {name}_max the longest {help}\n# TYPE {name}_max gauge\n{name}_max {slowest}"
    );
}

fn put_outputs(out: &mut String, outputs: &[(String, StoreCounts)]) {
    type Of = fn(&StoreCounts) -> f64;
    let all: [(&str, &str, Of); 8] = [
        ("records_total", "records that were written to an output", |of| {
            of.records as f64
        }),
        (
            "duplicates_total",
            "records that came again and were left out of an output",
            |of| of.duplicates as f64,
        ),
        (
            "written_bytes_total",
            "bytes that were written to the log of an output",
            |of| of.bytes as f64,
        ),
        (
            "failing",
            "1 while the log of an output cannot be written",
            |of| f64::from(u8::from(of.is_failing)),
        ),
        (
            "commit_failures_total",
            "writes to the log of an output that failed",
            |of| of.failures as f64,
        ),
        ("commits_total", "writes to the log of an output", |of| {
            of.commits as f64
        }),
        (
            "commit_seconds_total",
            "time of all writes to the log of an output, with their syncs",
            |of| of.commit_time.as_secs_f64(),
        ),
        (
            "commit_seconds_max",
            "the longest time of a write to the log of an output, with its syncs",
            |of| of.slowest_commit.as_secs_f64(),
        ),
    ];
    for (name, help, of) in all {
        let kind = if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        let name = format!("logdrive_collector_output_{name}");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (output, counts) in outputs {
            // Names are words, as the configuration checks.
            let _ = writeln!(out, "{name}{{output=\"{output}\"}} {}", of(counts));
        }
    }
}

/// One of the numbers of a delivery: its name, its help, and it.
type DeliveryNumber = (&'static str, &'static str, fn(&DeliveryCounts) -> f64);

fn put_deliveries(out: &mut String, counts: &[(String, DeliveryCounts)]) {
    if counts.is_empty() {
        return;
    }
    let all: [DeliveryNumber; 8] = [
        ("records_total", "records that the engine has", |counts| {
            counts.records as f64
        }),
        ("batches_total", "batches that it took", |counts| {
            counts.batches as f64
        }),
        ("retries_total", "batches that were handed over again", |counts| {
            counts.retries as f64
        }),
        ("dead_letters_total", "records that it never takes", |counts| {
            counts.dead_letters as f64
        }),
        (
            "lost_total",
            "records that were removed before it had them",
            |counts| counts.lost as f64,
        ),
        ("lag_records", "records that it does not have", |counts| {
            counts.lag_records as f64
        }),
        ("lag_bytes", "bytes of the log that it does not have", |counts| {
            counts.lag_bytes as f64
        }),
        (
            "lag_seconds",
            "age of the oldest record that it does not have",
            |counts| counts.lag_time.as_secs_f64(),
        ),
    ];
    for (name, help, number) in all {
        let kind = if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        let name = format!("logdrive_delivery_{name}");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (to, counts) in counts {
            let _ = writeln!(out, "{name}{{to={to:?}}} {}", number(counts));
        }
    }
    let name = "logdrive_delivery_failing";
    let _ = writeln!(
        out,
        "# HELP {name} 1 while the engine takes nothing, with the reason\n# TYPE {name} gauge"
    );
    for (to, counts) in counts {
        let failing = u8::from(!counts.error.is_empty());
        let _ = writeln!(out, "{name}{{to={to:?},error={:?}}} {failing}", counts.error);
    }
}

/// One of the numbers of an input: its name, its help, and it.
type InputNumber = (&'static str, &'static str, fn(&InputCounts) -> u64);

fn put_inputs(out: &mut String, inputs: &[(InputAddress, InputCounts)]) {
    if inputs.is_empty() {
        return;
    }
    let all: [InputNumber; 5] = [
        ("records_total", "records that came and are kept", |counts| {
            counts.records
        }),
        (
            "dropped_total",
            "records that came while the queue was full",
            |counts| counts.dropped,
        ),
        ("malformed_total", "requests that could not be read", |counts| {
            counts.malformed
        }),
        (
            "duplicates_total",
            "records that came again under the id of one before",
            |counts| counts.duplicates,
        ),
        (
            "lost_total",
            "records or files that were removed before they were read",
            |counts| counts.lost,
        ),
    ];
    for (name, help, number) in all {
        let name = format!("logdrive_input_{name}");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
        for (address, counts) in inputs {
            let _ = writeln!(out, "{name}{{at={:?}}} {}", address.to_string(), number(counts));
        }
    }
    let name = "logdrive_input_failing";
    let _ = writeln!(
        out,
        "# HELP {name} 1 while the source cannot be read, with the reason\n# TYPE {name} gauge"
    );
    for (address, counts) in inputs {
        let failing = u8::from(!counts.error.is_empty());
        let (at, error) = (address.to_string(), &counts.error);
        let _ = writeln!(out, "{name}{{at={at:?},error={error:?}}} {failing}");
    }
}
