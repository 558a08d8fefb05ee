//! Rows of the scorecard: which figure of which workload stands over which floor.

/// One figure of a workload: a case by its subject and parameters, and a metric.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Workload that measures it.
    pub workload: &'static str,
    /// Subject of its case.
    pub subject: &'static str,
    /// Parameters that the case has, as text; the first case that has them all counts.
    pub params: &'static [(&'static str, &'static str)],
    /// Metric that is compared.
    pub metric: &'static str,
}

/// The figure that is 1.
#[derive(Clone, Copy, Debug)]
pub enum Floor {
    /// The best of these in each round.
    Measured(&'static [Figure]),
    /// A fixed value, in the metric's unit.
    Fixed(f64),
}

/// Direction in which a ratio gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times, bytes.
    Lower,
    /// Rates, shares.
    Higher,
}

/// One row: ours over a floor that does the same bare work, and over the best peer that is installed.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name in the table and in the history.
    pub name: &'static str,
    /// Our figure.
    pub ours: Figure,
    /// Floor of the ratio.
    pub floor: Floor,
    /// Loggers and libraries that do the same job; the best that ran is compared.
    pub peers: &'static [Figure],
    /// Direction in which the ratio gets better.
    pub better: Better,
    /// Ratio that we aim at.
    pub goal: f64,
    /// Work of ours that the floor leaves out, or theirs that ours does.
    pub leaves_out: &'static str,
}

impl Row {
    /// Returns whether a ratio reaches the goal.
    #[must_use]
    pub fn is_met(&self, ratio: f64) -> bool {
        match self.better {
            Better::Lower => ratio <= self.goal,
            Better::Higher => ratio >= self.goal,
        }
    }

    /// All figures that the row needs.
    pub fn figures(&self) -> impl Iterator<Item = Figure> + '_ {
        let floors = match self.floor {
            Floor::Measured(figures) => figures,
            Floor::Fixed(_) => &[],
        };
        std::iter::once(self.ours)
            .chain(floors.iter().copied())
            .chain(self.peers.iter().copied())
    }
}

type Params = &'static [(&'static str, &'static str)];

const fn figure(
    workload: &'static str,
    subject: &'static str,
    params: Params,
    metric: &'static str,
) -> Figure {
    Figure {
        workload,
        subject,
        params,
        metric,
    }
}

const fn w1(subject: &'static str) -> Figure {
    figure("glog", subject, &[], "wall_s")
}

const fn call(subject: &'static str) -> Figure {
    figure("callsite", subject, &[("threads", "1")], "mean20_p50_ns")
}

const fn call_p99(subject: &'static str) -> Figure {
    figure("callsite", subject, &[("threads", "1")], "mean20_p99_ns")
}

const fn back_to_back(subject: &'static str) -> Figure {
    figure("callsite", subject, &[("threads", "1")], "tight_ns")
}

const fn quinn(subject: &'static str) -> Figure {
    figure("quic", subject, &[("stack", "quinn")], "mb_per_s")
}

const fn quic_go(subject: &'static str) -> Figure {
    figure(
        "quic",
        subject,
        &[("stack", "quic-go"), ("connections", "1")],
        "mb_per_s",
    )
}

const fn http(subject: &'static str) -> Figure {
    figure("fprintf", subject, &[], "http_qps")
}

const fn one_way(subject: &'static str, params: Params) -> Figure {
    figure("uds", subject, params, "oneway_msgs_per_s")
}

const fn echo(subject: &'static str, params: Params) -> Figure {
    figure("uds", subject, params, "echo_msgs_per_s")
}

const ASLEEP: Params = &[("concurrency", "1"), ("spin", "false")];

/// 85-byte messages in buffers of 256 KiB.
const fn small(subject: &'static str) -> Figure {
    figure(
        "net",
        subject,
        &[("message_bytes", "85"), ("batch_bytes", "262144")],
        "msgs_per_s",
    )
}

const fn tokio(subject: &'static str) -> Figure {
    figure("net", subject, &[("message_bytes", "85")], "msgs_per_s")
}

const fn streams(subject: &'static str, params: Params) -> Figure {
    figure("net", subject, params, "mb_per_s")
}

const STREAMS_1: Params = &[("message_bytes", "8192"), ("streams", "1")];
const STREAMS_4: Params = &[("message_bytes", "8192"), ("streams", "4")];
const STREAMS_32: Params = &[("message_bytes", "8192"), ("streams", "32")];

const fn run(subject: &'static str, params: Params) -> Figure {
    figure("run", subject, params, "printed_mb_s")
}

const fn segments(subject: &'static str, params: Params, metric: &'static str) -> Figure {
    figure("segments", subject, params, metric)
}

const CALLS: Params = &[("data", "calls")];
const W1_DATA: Params = &[("data", "w1")];

const fn row(name: &'static str, ours: Figure, floor: Floor, better: Better, goal: f64) -> Row {
    Row {
        name,
        ours,
        floor,
        peers: &[],
        better,
        goal,
        leaves_out: "",
    }
}

impl Row {
    const fn beside(self, peers: &'static [Figure]) -> Row {
        Row { peers, ..self }
    }

    const fn but(self, leaves_out: &'static str) -> Row {
        Row { leaves_out, ..self }
    }
}

const W1_PEERS: &[Figure] = &[
    w1("spdlog-rs-sync"),
    w1("spdlog-rs-async"),
    w1("tracing-bufwriter"),
    w1("mutex-bufwriter"),
];
const W1_CPP_PEERS: &[Figure] = &[w1("glog"), w1("spdlog-sync"), w1("spdlog-async")];
const W1_GO_PEERS: &[Figure] = &[w1("zap-buffered"), w1("zerolog-buffered")];
const CALL_PEERS: &[Figure] = &[
    call("spdlog-rs-sync"),
    call("tracing-bufwriter"),
    call("tracing-appender"),
];
const CALL_CPP_PEERS: &[Figure] = &[call("glog"), call("spdlog-sync"), call("spdlog-async")];
const CALL_GO_PEERS: &[Figure] = &[call("slog"), call("zap-buffered"), call("zerolog-buffered")];
const HTTP_PEERS: &[Figure] = &[http("slog"), http("zap-buffered"), http("zerolog-buffered")];

/// Every row, by workload, so that the rounds of one run are near each other.
pub const ROWS: &[Row] = &[
    row(
        "w1-string",
        w1("logdrive"),
        Floor::Measured(&[w1("write")]),
        Better::Lower,
        1.6,
    )
    .beside(W1_PEERS)
    .but("the floor has no times, no threads, no layout"),
    row(
        "w1-args",
        w1("logdrive-args"),
        Floor::Measured(&[w1("write")]),
        Better::Lower,
        2.2,
    )
    .beside(W1_PEERS),
    row(
        "w1-facade",
        w1("logdrive-cpp-glog"),
        Floor::Measured(&[w1("write")]),
        Better::Lower,
        2.2,
    )
    .beside(W1_CPP_PEERS)
    .but("ours and its peers write a new file, the floor writes in place"),
    row(
        "w1-new",
        w1("logdrive-cpp"),
        Floor::Measured(&[w1("write-new")]),
        Better::Lower,
        1.4,
    )
    .beside(W1_CPP_PEERS),
    row(
        "w1-go",
        w1("logdrive-go"),
        Floor::Measured(&[w1("write")]),
        Better::Lower,
        2.8,
    )
    .beside(W1_GO_PEERS),
    row(
        "w1-agent",
        w1("logdrive-agent"),
        Floor::Measured(&[w1("write")]),
        Better::Lower,
        1.7,
    )
    .beside(W1_PEERS),
    row(
        "call",
        call("logdrive"),
        Floor::Measured(&[call("stores")]),
        Better::Lower,
        1.05,
    )
    .beside(CALL_PEERS),
    row(
        "call-p99",
        call_p99("logdrive"),
        Floor::Measured(&[call_p99("stores")]),
        Better::Lower,
        1.2,
    ),
    row(
        "call-cpp",
        call("logdrive-cpp"),
        Floor::Measured(&[call("stores")]),
        Better::Lower,
        1.05,
    )
    .beside(CALL_CPP_PEERS),
    row(
        "call-facade",
        call("logdrive-cpp-glog"),
        Floor::Measured(&[call("stores")]),
        Better::Lower,
        1.3,
    )
    .beside(CALL_CPP_PEERS),
    row(
        "call-go",
        call("logdrive-go"),
        Floor::Measured(&[call("stores")]),
        Better::Lower,
        1.5,
    )
    .beside(CALL_GO_PEERS),
    row(
        "call-tracing",
        back_to_back("logdrive-tracing"),
        Floor::Measured(&[back_to_back("tracing-visit")]),
        Better::Lower,
        1.3,
    )
    .beside(&[
        back_to_back("tracing-bufwriter"),
        back_to_back("tracing-appender"),
    ]),
    row(
        "call-log",
        back_to_back("logdrive-log"),
        Floor::Measured(&[back_to_back("std-fmt")]),
        Better::Lower,
        1.1,
    )
    .beside(&[back_to_back("spdlog-rs-async")]),
    row(
        "unix-oneway",
        one_way("logdrive-unix", ASLEEP),
        Floor::Measured(&[one_way("unix", ASLEEP)]),
        Better::Higher,
        1.0,
    )
    .beside(&[one_way("zeromq", ASLEEP), one_way("nng", ASLEEP)]),
    row(
        "unix-echo",
        echo("logdrive-unix", ASLEEP),
        Floor::Measured(&[echo("unix", ASLEEP)]),
        Better::Higher,
        1.0,
    )
    .beside(&[echo("zeromq", ASLEEP), echo("nng", ASLEEP), echo("tonic", ASLEEP)]),
    row(
        "tcp-85",
        small("logdrive-tcp"),
        Floor::Measured(&[small("tcp-batched")]),
        Better::Higher,
        0.95,
    )
    .beside(&[tokio("tokio-bufwriter")]),
    row(
        "unix-85",
        small("logdrive-unix"),
        Floor::Measured(&[small("unix-batched")]),
        Better::Higher,
        0.95,
    )
    .beside(&[tokio("tokio-bufwriter-unix")]),
    row(
        "quic-1",
        streams("logdrive-quic", STREAMS_1),
        Floor::Measured(&[streams("quinn", STREAMS_1), streams("s2n-quic", STREAMS_1)]),
        Better::Higher,
        1.05,
    ),
    row(
        "quic-4",
        streams("logdrive-quic", STREAMS_4),
        Floor::Measured(&[streams("quinn", STREAMS_4), streams("s2n-quic", STREAMS_4)]),
        Better::Higher,
        1.05,
    ),
    row(
        "quic-32",
        streams("logdrive-quic", STREAMS_32),
        Floor::Measured(&[streams("quinn", STREAMS_32), streams("s2n-quic", STREAMS_32)]),
        Better::Higher,
        1.05,
    ),
    row(
        "quinn-trace",
        quinn("logdrive"),
        Floor::Measured(&[quinn("count")]),
        Better::Higher,
        0.9,
    )
    .beside(&[quinn("tracing-subscriber"), quinn("tracing-appender")])
    .but("the floor counts the events and keeps none"),
    row(
        "quicgo-both",
        quic_go("logdrive"),
        Floor::Measured(&[quic_go("empty-tracer")]),
        Better::Higher,
        0.95,
    )
    .beside(&[quic_go("text-file")]),
    row(
        "quicgo-one",
        quic_go("logdrive-one-end"),
        Floor::Measured(&[quic_go("empty-tracer-one-end")]),
        Better::Higher,
        0.95,
    ),
    row(
        "hang-kept",
        figure(
            "hang",
            "logdrive",
            &[("policy", "drop"), ("inject", "fuse")],
            "kept_share",
        ),
        Floor::Fixed(1.0),
        Better::Higher,
        0.88,
    )
    .but("share of the lines that were offered while the disk hung, and before and after"),
    row(
        "http-go",
        http("logdrive-go"),
        Floor::Measured(&[http("none")]),
        Better::Higher,
        0.95,
    )
    .beside(HTTP_PEERS),
    row(
        "http-slog",
        http("logdrive-go-slog"),
        Floor::Measured(&[http("none")]),
        Better::Higher,
        0.93,
    )
    .beside(HTTP_PEERS),
    row(
        "segment-bytes",
        segments("logdrive", CALLS, "segment-bytes"),
        Floor::Measured(&[segments("text", CALLS, "segment-bytes")]),
        Better::Lower,
        0.07,
    )
    .but("the floor is our own text, not compressed"),
    row(
        "segment-cpu",
        segments("logdrive", CALLS, "segment-cpu"),
        Floor::Measured(&[segments("text", CALLS, "segment-cpu")]),
        Better::Lower,
        1.0,
    )
    .but("the floor lays text out and does not compress it"),
    row(
        "w1-segments",
        segments("logdrive", W1_DATA, "w1-segments"),
        Floor::Measured(&[w1("write-new")]),
        Better::Lower,
        1.4,
    )
    .but("the floor writes the text, in another workload of the same run"),
    row(
        "agent-8",
        figure("agent", "eight-processes", &[], "measured"),
        Floor::Measured(&[figure("agent", "eight-processes", &[], "base")]),
        Better::Higher,
        0.95,
    ),
    row(
        "run-text",
        run("logdrive", &[("format", "text")]),
        Floor::Measured(&[run("file", &[])]),
        Better::Higher,
        0.9,
    )
    .beside(&[run("cat", &[])]),
    row(
        "run-json",
        run("logdrive", &[("format", "json")]),
        Floor::Measured(&[run("file", &[])]),
        Better::Higher,
        0.85,
    )
    .beside(&[run("cat", &[])]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_from_the_side_that_is_better() {
        let row = |better| super::row("x", w1("logdrive"), Floor::Fixed(1.0), better, 1.0);
        assert!(row(Better::Lower).is_met(1.0) && !row(Better::Lower).is_met(1.01));
        assert!(row(Better::Higher).is_met(1.0) && !row(Better::Higher).is_met(0.99));
    }

    #[test]
    fn rows_have_names_of_their_own() {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
    }
}
