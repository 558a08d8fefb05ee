//! `uds`: messages of 10 KB between two processes of one machine, one way and as requests with responses.

use crate::Result;
use crate::ends::plan::Plan;
use crate::ends::{self, RIVALS};
use crate::harness::{About, Case, Job, Measure, Metric, Samples, Scale, Workload, runs};

const MESSAGE_BYTES: usize = 10_240;
/// Time for which both ends of a case with `spin` poll before they sleep.
const SPIN_US: u64 = 50;

const BARE: [&str; 4] = ["unix", "tcp", "sysv-mq", "posix-mq"];
const CONCURRENCY: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Round trips of a case; those of ends that sleep between two take a fifth, which is as long.
const REQUESTS: u64 = 100_000;
const SLEEPING_REQUESTS: u64 = 20_000;

const METRICS: &[Metric] = &[
    Metric::new("oneway_msgs_per_s", "messages/s", 0),
    Metric::new("echo_msgs_per_s", "round trips/s", 0),
    Metric::new("echo_100k_s", "s", 3),
];

/// The workload.
pub struct Uds;

impl Workload for Uds {
    fn about(&self) -> About {
        About::new("uds", METRICS).with_floor("oneway_msgs_per_s", "unix")
    }

    fn title(&self, scale: Scale) -> String {
        format!(
            "messages of 10 KB between two processes, {} to {} round trips",
            scale.pick(SLEEPING_REQUESTS, 2_000),
            scale.pick(REQUESTS, 2_000)
        )
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        let case = |subject: &'static str, concurrency: u64, spin: bool| {
            let fast = subject.starts_with("logdrive") || BARE.contains(&subject);
            let messages = match concurrency {
                1 => scale.pick(if fast { 400_000 } else { 100_000 }, 5_000),
                _ => 0,
            };
            let requests = match concurrency {
                1..=4 if !spin => SLEEPING_REQUESTS,
                _ => REQUESTS,
            };
            Case::new(subject)
                .param("concurrency", concurrency)
                .param("spin", spin)
                .setting("messages", messages)
                .setting("requests", scale.pick(requests, 2_000))
        };
        let mut cases: Vec<Case> = BARE.iter().map(|subject| case(subject, 1, false)).collect();
        let local = RIVALS
            .iter()
            .filter(|name| **name != "s2n-quic" && ends::is_there(name));
        cases.extend(local.map(|subject| case(subject, 1, false)));
        let shm = |in_place: bool, spin: bool| case("logdrive-shm", 1, spin).param("in_place", in_place);
        cases
            .extend([(true, true), (false, true), (true, false)].map(|(in_place, spin)| shm(in_place, spin)));
        cases.push(case("logdrive-unix", 1, true));
        let wanted = scale.pick(&CONCURRENCY[..], &[1, 16]);
        cases.extend(
            wanted
                .iter()
                .map(|concurrency| case("logdrive-unix", *concurrency, false)),
        );
        cases
    }

    fn prepare(&self, _: Scale, _: &mut Vec<Case>, _: Measure<'_>) -> Result<()> {
        ends::say_what_is_missing(&["zeromq", "nng", "tonic"]);
        Ok(())
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let spin_us = if job.is_set("spin") { SPIN_US } else { 0 };
        let plan = Plan {
            subject: job.subject.clone(),
            directory: runs::scratch_dir()?.join(format!("ends-{}", std::process::id())),
            message_bytes: MESSAGE_BYTES,
            reply_bytes: MESSAGE_BYTES,
            messages: job.number("messages"),
            requests: 0,
            concurrency: job.number("concurrency"),
            streams: 1,
            spin_us,
            batch_bytes: 64 * 1024,
            linger_us: 200,
            pace_us: 0,
            offload: true,
            in_place: job.is_set("in_place"),
        };
        let mut samples = Samples::default();
        if plan.messages > 0 {
            let one_way = ends::measure(&plan)?;
            samples = samples.with("oneway_msgs_per_s", plan.messages as f64 / one_way.one_way_s);
        }
        let requests = job.number("requests");
        let echo = ends::measure(&Plan {
            messages: 0,
            requests,
            ..plan
        })?;
        Ok(samples
            .with("echo_msgs_per_s", requests as f64 / echo.echo_s)
            .with("echo_100k_s", echo.echo_s * 100_000.0 / requests as f64))
    }
}
