//! `net`: small messages as fast as they go, and 8 KB messages over streams of QUIC. The sender copies and numbers each
//! message, the receiver walks over them and looks at each.

use crate::Result;
use crate::ends::plan::Plan;
use crate::ends::{self};
use crate::harness::{About, Case, Job, Measure, Metric, Samples, Scale, Workload, runs};

const SMALL_BYTES: u64 = 85;
const QUIC_BYTES: u64 = 8 * 1024;
/// One datagram on a usual network.
const DATAGRAM_BYTES: u64 = 1_432;
/// Settings that measure best over TCP, Unix sockets and in the kernel's bulk of datagrams.
const LARGE_BYTES: u64 = 256 * 1024;
const UDP_BULK_BYTES: u64 = 65_000;

/// Time between the messages whose delay is measured, with `linger_us` = 0.
const PACE_US: u64 = 50;

const METRICS: &[Metric] = &[
    Metric::new("msgs_per_s", "messages/s", 0),
    Metric::new("mb_per_s", "MB/s", 0),
    Metric::new("lost_msgs", "messages", 0),
    Metric::new("cpu_s_per_gb", "s/GB", 3),
    Metric::new("late_p50_us", "us", 1),
    Metric::new("late_p99_us", "us", 1),
];

/// The workload.
pub struct Net;

fn small(subject: &'static str, messages: u64, batch_bytes: u64, gro: bool) -> Case {
    Case::new(subject)
        .param("message_bytes", SMALL_BYTES)
        .param("batch_bytes", batch_bytes)
        .param("gro", gro)
        .param("streams", 1)
        .setting("messages", messages)
}

fn quic(subject: &'static str, streams: u64, messages: u64) -> Case {
    Case::new(subject)
        .param("message_bytes", QUIC_BYTES)
        .param("batch_bytes", 64 * 1024)
        .param("gro", true)
        .param("streams", streams)
        .setting("messages", messages)
}

impl Workload for Net {
    fn about(&self) -> About {
        About::new("net", METRICS).with_floor("msgs_per_s", "tcp-naive")
    }

    fn title(&self, _: Scale) -> String {
        "messages of 85 bytes between two processes, and of 8 KB over QUIC".to_owned()
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        let million = scale.pick(1_000_000, 10_000);
        let mut cases = vec![
            small("tcp-naive", million, SMALL_BYTES, false),
            small("udp-naive", million / 2, SMALL_BYTES, false),
            small("tcp-batched", 20 * million, LARGE_BYTES, false),
            small("unix-batched", 20 * million, LARGE_BYTES, false),
            small("tcp-batched", 10 * million, DATAGRAM_BYTES, false),
            small("tokio-bufwriter", 20 * million, 64 * 1024, false),
            small("tokio-bufwriter-unix", 20 * million, 64 * 1024, false),
            small("zeromq", 2 * million, SMALL_BYTES, false),
            small("nng", million / 2, SMALL_BYTES, false),
            small("logdrive-tcp", 40 * million, LARGE_BYTES, false),
            small("logdrive-unix", 40 * million, LARGE_BYTES, false),
            small("logdrive-tls", 10 * million, LARGE_BYTES, false),
            small("logdrive-udp", 40 * million, UDP_BULK_BYTES, true),
            small("logdrive-udp", 10 * million, UDP_BULK_BYTES, false),
            small("logdrive-tcp", 15 * million, DATAGRAM_BYTES, false),
            small("logdrive-unix", 10 * million, DATAGRAM_BYTES, false),
            small("logdrive-udp", 10 * million, DATAGRAM_BYTES, true),
            small("logdrive-udp", 5 * million, DATAGRAM_BYTES, false),
            small("logdrive-quic", 4 * million, LARGE_BYTES, true),
        ];
        // How long a message takes that waits for no other.
        let paced = ["tcp-naive", "logdrive-tcp", "unix", "logdrive-unix"];
        cases.extend(paced.map(|name| {
            small(name, scale.pick(20_000, 1_000), SMALL_BYTES, false).param("pace_us", PACE_US)
        }));
        let messages = scale.pick(40_000, 5_000);
        for streams in [1, 4, 32] {
            cases.extend(["quinn", "s2n-quic", "logdrive-quic"].map(|name| quic(name, streams, messages)));
        }
        cases.retain(|case| ends::is_there(case.subject));
        cases
    }

    fn prepare(&self, _: Scale, _: &mut Vec<Case>, _: Measure<'_>) -> Result<()> {
        ends::say_what_is_missing(&["zeromq", "nng", "s2n-quic"]);
        Ok(())
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let bytes = job.number("message_bytes");
        let plan = Plan {
            subject: job.subject.clone(),
            directory: runs::scratch_dir()?.join(format!("ends-{}", std::process::id())),
            message_bytes: bytes as usize,
            reply_bytes: bytes as usize,
            messages: job.number("messages"),
            requests: 0,
            concurrency: 1,
            streams: job.number("streams"),
            spin_us: 0,
            batch_bytes: job.number("batch_bytes") as usize,
            linger_us: if job.number("pace_us") > 0 { 0 } else { 200 },
            pace_us: job.number("pace_us"),
            offload: job.is_set("gro"),
            in_place: false,
        };
        let outcome = ends::measure(&plan)?;
        if plan.pace_us > 0 {
            let [p50, p99] = outcome.late_us;
            return Ok(Samples::default()
                .with("lost_msgs", outcome.lost as f64)
                .with("late_p50_us", p50)
                .with("late_p99_us", p99));
        }
        let came = (plan.messages - outcome.lost) as f64;
        let megabytes = came * bytes as f64 / 1e6;
        Ok(Samples::default()
            .with("msgs_per_s", came / outcome.one_way_s)
            .with("mb_per_s", megabytes / outcome.one_way_s)
            .with("lost_msgs", outcome.lost as f64)
            .with("cpu_s_per_gb", outcome.cpu_s * 1e3 / megabytes))
    }
}
