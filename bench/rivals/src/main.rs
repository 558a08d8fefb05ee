//! Transports of others, each used as its authors advise: one process receives, and this one sends. `bench/src/ends`
//! starts it and says what to do.

#![forbid(unsafe_code)]

#[cfg(feature = "nng")]
mod nng_pipe;
#[allow(dead_code, reason = "the other package uses more of it")]
#[path = "../../src/ends/plan.rs"]
mod plan;
#[cfg(any(feature = "nng", feature = "zeromq"))]
#[path = "../../src/ends/queue.rs"]
mod queue;
#[cfg(feature = "s2n-quic")]
mod s2n;
#[cfg(feature = "tonic")]
mod tonic_stream;
#[cfg(feature = "zeromq")]
mod zeromq;

use plan::{DRIVE, Plan, RECEIVE, Send, Serve};
use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let role = words.next().unwrap_or_default();
    let plan = words
        .next()
        .and_then(|text| serde_json::from_str::<Plan>(&text).ok());
    let by_hand = || io::Error::other("started by `cargo xtask bench uds` and `net`, not by hand");
    let plan = plan.ok_or_else(by_hand)?;
    let (serve, send, echo) = ends(&plan)?;
    match role.as_str() {
        RECEIVE => serve(&plan),
        DRIVE => {
            let outcome = plan::drive(&std::env::current_exe()?, &plan, send, echo)?;
            println!("{}", serde_json::to_string(&outcome)?);
            Ok(())
        }
        _ => Err(by_hand()),
    }
}

/// The receiving end, and how to send messages and requests to it.
fn ends(plan: &Plan) -> io::Result<(Serve, Send, Send)> {
    Ok(match plan.subject.as_str() {
        #[cfg(feature = "zeromq")]
        "zeromq" => (zeromq::serve, zeromq::send, zeromq::echo),
        #[cfg(feature = "nng")]
        "nng" => (nng_pipe::serve, nng_pipe::send, nng_pipe::echo),
        #[cfg(feature = "tonic")]
        "tonic" => (tonic_stream::serve, tonic_stream::send, tonic_stream::echo),
        #[cfg(feature = "s2n-quic")]
        "s2n-quic" => (s2n::serve, s2n::send, plan::no_requests),
        other => return Err(failed(format!("{other} is not in this build of the rivals"))),
    })
}

/// An error of a transport, by its message.
fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// One thread for each end, as all transports of this kind have here.
#[cfg(any(feature = "tonic", feature = "s2n-quic"))]
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
