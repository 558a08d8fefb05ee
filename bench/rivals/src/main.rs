//! Transports of others, each used as its authors advise: one process receives, and this one sends. `bench/src/ends`
//! starts it and says what to do.

#![forbid(unsafe_code)]

#[cfg(feature = "nng")]
mod nng_pipe;
#[allow(dead_code, reason = "the other package uses more of it")]
#[path = "../../src/ends/plan.rs"]
mod plan;
#[cfg(feature = "s2n-quic")]
mod s2n;
#[cfg(feature = "tonic")]
mod tonic_stream;
#[cfg(feature = "zeromq")]
mod zeromq;

use plan::{DRIVE, Mouth, Outcome, Peer, Plan, ROLE};
use std::io;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let role = words.next().unwrap_or_default();
    let plan: Option<Plan> = words.next().and_then(|text| serde_json::from_str(&text).ok());
    let result = match (role.as_str(), plan) {
        (ROLE, Some(plan)) => serve(&plan),
        (DRIVE, Some(plan)) => drive(&plan).map(|outcome| {
            let text = serde_json::to_string(&outcome).unwrap_or_default();
            println!("{text}");
        }),
        _ => Err(io::Error::other(
            "started by `cargo xtask bench uds` and `net`, not by hand",
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn unknown(plan: &Plan) -> io::Error {
    io::Error::other(format!("{} is not in this build of the rivals", plan.subject))
}

fn serve(plan: &Plan) -> io::Result<()> {
    match plan.subject.as_str() {
        #[cfg(feature = "zeromq")]
        "zeromq" => zeromq::serve(plan, &Mouth),
        #[cfg(feature = "nng")]
        "nng" => nng_pipe::serve(plan, &Mouth),
        #[cfg(feature = "tonic")]
        "tonic" => tonic_stream::serve(plan, &Mouth),
        #[cfg(feature = "s2n-quic")]
        "s2n-quic" => s2n::serve(plan, &Mouth),
        _ => Err(unknown(plan)),
    }
}

fn drive(plan: &Plan) -> io::Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut peer = Peer::start(&std::env::current_exe()?, plan)?;
    let address = peer.address.clone();
    type Act = fn(&Plan, &str) -> io::Result<()>;
    let (send, echo): (Act, Act) = match plan.subject.as_str() {
        #[cfg(feature = "zeromq")]
        "zeromq" => (zeromq::send, zeromq::echo),
        #[cfg(feature = "nng")]
        "nng" => (nng_pipe::send, nng_pipe::echo),
        #[cfg(feature = "tonic")]
        "tonic" => (tonic_stream::send, tonic_stream::echo),
        #[cfg(feature = "s2n-quic")]
        "s2n-quic" => (s2n::send, |plan, _| Err(unknown(plan))),
        _ => return Err(unknown(plan)),
    };
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
    Ok(outcome)
}
