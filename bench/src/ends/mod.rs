//! Two processes with a transport between them: ours, and the ways that need no library. Those that need one are in the
//! package `bench/rivals`.

pub mod datagrams;
pub mod ours;
pub mod plan;
pub mod posix;
pub mod queue;
pub mod quic;
pub mod sockets;
pub mod sysv;
pub mod tokio_buffered;

use crate::harness::runs::target_dir;
use crate::{BenchError, Result, usage};
pub use plan::RECEIVE;
use plan::{DRIVE, Outcome, Plan, Send, Serve, no_requests};
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The subjects of the package `bench/rivals`.
pub const RIVALS: [&str; 4] = ["zeromq", "nng", "tonic", "s2n-quic"];

/// Bytes of the kernel's buffers that every subject asks for.
pub const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// The ends of a transport: the receiving one, and what this process sends to it.
struct Ends {
    serve: Serve,
    send: Send,
    echo: Send,
}

/// The ends of the subjects of this program.
fn ends(subject: &str) -> Ends {
    let (serve, send, echo): (Serve, Send, Send) = match subject {
        "unix" | "tcp" | "tcp-naive" | "tcp-batched" | "unix-batched" => {
            (sockets::serve, sockets::send, sockets::echo)
        }
        "udp-naive" => (datagrams::serve, datagrams::send, no_requests),
        "sysv-mq" => (sysv::serve, sysv::send, sysv::echo),
        "posix-mq" => (posix::serve, posix::send, posix::echo),
        "tokio-bufwriter" | "tokio-bufwriter-unix" => {
            (tokio_buffered::serve, tokio_buffered::send, no_requests)
        }
        "quinn" => (quic::serve, quic::send, no_requests),
        _ => (ours::serve, ours::send, ours::echo),
    };
    Ends { serve, send, echo }
}

/// Plays a receiving end.
pub fn serve(words: &[String]) -> Result<()> {
    let plan: Plan = serde_json::from_str(words.first().map_or("", String::as_str))?;
    let served = (ends(&plan.subject).serve)(&plan);
    served.map_err(|error| BenchError::new(format!("the receiver of {}: {error}", plan.subject)))
}

/// Measures what the plan says.
pub fn measure(plan: &Plan) -> Result<Outcome> {
    let failed = |error: io::Error| BenchError::subject(&plan.subject, error);
    std::fs::create_dir_all(&plan.directory).map_err(BenchError::io("create", &plan.directory))?;
    prepare(plan).map_err(failed)?;
    let outcome = match RIVALS.contains(&plan.subject.as_str()) {
        true => drive_rival(plan),
        false => {
            let Ends { send, echo, .. } = ends(&plan.subject);
            std::env::current_exe().and_then(|program| plan::drive(&program, plan, send, echo))
        }
    };
    let cpu_s = usage::cpu_s() + usage::children_cpu_s();
    // What is left in it is of no use to anybody.
    let _ = std::fs::remove_dir_all(&plan.directory);
    Ok(Outcome {
        cpu_s,
        ..outcome.map_err(failed)?
    })
}

/// Preparation that has to be done before the receiver starts.
fn prepare(plan: &Plan) -> io::Result<()> {
    match plan.subject.as_str() {
        "sysv-mq" | "posix-mq" => sysv::own_queues(plan),
        "logdrive-tls" | "logdrive-quic" | "quinn" | "s2n-quic" => ours::make_keys(plan),
        _ => Ok(()),
    }
}

/// Path of the rivals' program once `cargo xtask bench` has built it.
fn rivals_program() -> PathBuf {
    target_dir().join("rivals/release/logdrive-rivals")
}

/// Returns whether this subject can be measured on this machine.
#[must_use]
pub fn is_there(subject: &str) -> bool {
    !RIVALS.contains(&subject) || rivals_program().is_file()
}

fn drive_rival(plan: &Plan) -> io::Result<Outcome> {
    let output = Command::new(rivals_program())
        .args([DRIVE, &serde_json::to_string(plan)?])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("ended with {}", output.status)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Names the rivals that are not built, and how to get them.
pub fn say_what_is_missing(subjects: &[&str]) {
    let missing: Vec<&str> = subjects.iter().copied().filter(|name| !is_there(name)).collect();
    if !missing.is_empty() {
        eprintln!(
            "  left out: {}; to get them: apt-get install cmake g++; a full `cargo xtask bench` then builds bench/rivals",
            missing.join(", ")
        );
    }
}
