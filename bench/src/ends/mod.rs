//! Two processes with a transport between them: ours, and the ways that need no library. Those that need one are in the
//! package `bench/rivals`.

pub mod datagrams;
pub mod ours;
pub mod plan;
pub mod posix;
pub mod quic;
pub mod sockets;
pub mod sysv;
pub mod tokio_buffered;

use crate::{BenchError, Result, usage};
use plan::{DRIVE, Mouth, Outcome, Peer, Plan, ROLE};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// The subjects of the package `bench/rivals`.
pub const RIVALS: [&str; 4] = ["zeromq", "nng", "tonic", "s2n-quic"];

/// Bytes of the kernel's buffers that every subject asks for.
pub const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Whether this process is a receiving end; then it is one until it ends.
#[must_use]
pub fn serve_role() -> Option<ExitCode> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some(ROLE) {
        return None;
    }
    let plan = words.next().and_then(|text| serde_json::from_str(&text).ok())?;
    Some(match serve(&plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the receiver of {}: {error}", plan.subject);
            ExitCode::FAILURE
        }
    })
}

fn serve(plan: &Plan) -> io::Result<()> {
    match plan.subject.as_str() {
        "unix" | "tcp" | "tcp-naive" | "tcp-batched" | "unix-batched" => sockets::serve(plan, &Mouth),
        "udp-naive" => datagrams::serve(plan, &Mouth),
        "sysv-mq" => sysv::serve(plan, &Mouth),
        "posix-mq" => posix::serve(plan, &Mouth),
        "tokio-bufwriter" | "tokio-bufwriter-unix" => tokio_buffered::serve(plan, &Mouth),
        "quinn" => quic::serve(plan, &Mouth),
        name if name.starts_with("logdrive-") => ours::serve(plan, &Mouth),
        other => Err(io::Error::other(format!(
            "there is no transport '{other}' in this build"
        ))),
    }
}

/// Measures what the plan says.
pub fn measure(plan: &Plan) -> Result<Outcome> {
    let failed = |error: io::Error| BenchError::subject(&plan.subject, error);
    std::fs::create_dir_all(&plan.directory).map_err(BenchError::io("create", &plan.directory))?;
    prepare(plan).map_err(failed)?;
    let outcome = match RIVALS.contains(&plan.subject.as_str()) {
        true => drive_rival(plan),
        false => drive(plan),
    };
    // What is left in it is of no use to anybody.
    let _ = std::fs::remove_dir_all(&plan.directory);
    outcome.map_err(failed)
}

fn drive(plan: &Plan) -> io::Result<Outcome> {
    let program = std::env::current_exe()?;
    let mut outcome = Outcome::default();
    let mut peer = Peer::start(&program, plan)?;
    let address = peer.address.clone();
    let send: fn(&Plan, &str) -> io::Result<()>;
    let echo: fn(&Plan, &str) -> io::Result<()>;
    match plan.subject.as_str() {
        "unix" | "tcp" | "tcp-naive" | "tcp-batched" | "unix-batched" => {
            (send, echo) = (sockets::send, sockets::echo)
        }
        "udp-naive" => (send, echo) = (datagrams::send, nobody),
        "sysv-mq" => (send, echo) = (sysv::send, sysv::echo),
        "posix-mq" => (send, echo) = (posix::send, posix::echo),
        "tokio-bufwriter" | "tokio-bufwriter-unix" => (send, echo) = (tokio_buffered::send, nobody),
        "quinn" => (send, echo) = (quic::send, nobody),
        _ => (send, echo) = (ours::send, ours::echo),
    }
    if plan.messages > 0 {
        let start = Instant::now();
        send(plan, &address)?;
        peer.done(&mut outcome)?;
        outcome.one_way_s = start.elapsed().as_secs_f64();
    }
    if plan.requests > 0 {
        let start = Instant::now();
        echo(plan, &address)?;
        outcome.echo_s = start.elapsed().as_secs_f64();
    }
    peer.end()?;
    outcome.cpu_s = usage::cpu_s() + usage::children_cpu_s();
    Ok(outcome)
}

/// Preparation that has to be done before the receiver starts.
fn prepare(plan: &Plan) -> io::Result<()> {
    match plan.subject.as_str() {
        "sysv-mq" | "posix-mq" => sysv::own_queues(plan),
        "logdrive-tls" | "logdrive-quic" | "quinn" | "s2n-quic" => ours::make_keys(plan),
        _ => Ok(()),
    }
}

fn nobody(plan: &Plan, _: &str) -> io::Result<()> {
    Err(io::Error::other(format!("{} answers no requests", plan.subject)))
}

/// Path of the rivals' program once `cargo xtask bench` has built it.
fn rivals_program() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    target.join("rivals/release/logdrive-rivals")
}

/// Whether this subject can be measured on this machine.
#[must_use]
pub fn is_there(subject: &str) -> bool {
    !RIVALS.contains(&subject) || rivals_program().is_file()
}

fn drive_rival(plan: &Plan) -> io::Result<Outcome> {
    let text = serde_json::to_string(plan).map_err(io::Error::other)?;
    let output = Command::new(rivals_program())
        .args([DRIVE, &text])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("ended with {}", output.status)));
    }
    let mut outcome: Outcome = serde_json::from_slice(&output.stdout).map_err(io::Error::other)?;
    outcome.cpu_s = usage::cpu_s() + usage::children_cpu_s();
    Ok(outcome)
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
