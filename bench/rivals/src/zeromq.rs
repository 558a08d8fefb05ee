//! ZeroMQ: PUSH to PULL one way, REQ to REP for requests; over a Unix socket, or TCP for small messages.

use crate::plan::{Mouth, Plan, Source, Walk, stamp, template};
use std::io;

/// Bytes of messages that a socket may hold: more than its own bound of 1,000 where they are small.
const HELD_BYTES: usize = 8 << 20;

fn failed(error: zmq::Error) -> io::Error {
    io::Error::other(error)
}

fn address(plan: &Plan) -> String {
    match plan.message_bytes < 1_024 {
        true => "tcp://127.0.0.1:*".to_owned(),
        false => format!("ipc://{}", plan.directory.join("zeromq.sock").display()),
    }
}

fn socket(plan: &Plan, kinds: [zmq::SocketType; 2]) -> io::Result<zmq::Socket> {
    let kind = kinds[usize::from(plan.messages == 0)];
    let socket = zmq::Context::new().socket(kind).map_err(failed)?;
    let held = (HELD_BYTES / plan.message_bytes.max(1)).max(1_000) as i32;
    socket.set_sndhwm(held).map_err(failed)?;
    socket.set_rcvhwm(held).map_err(failed)?;
    Ok(socket)
}

/// The receiving end.
pub fn serve(plan: &Plan, mouth: &Mouth) -> io::Result<()> {
    let socket = socket(plan, [zmq::PULL, zmq::REP])?;
    socket.bind(&address(plan)).map_err(failed)?;
    let bound = socket.get_last_endpoint().map_err(failed)?.unwrap_or_default();
    mouth.ready(&bound)?;
    let mut walk = Walk::new(plan);
    let mut message = zmq::Message::new();
    for _ in 0..plan.messages {
        socket.recv(&mut message, 0).map_err(failed)?;
        walk.take(&message);
    }
    if plan.messages > 0 {
        mouth.done(u64::from(walk.is_wrong()))?;
    }
    for _ in 0..plan.requests {
        socket.recv(&mut message, 0).map_err(failed)?;
        socket
            .send(std::mem::replace(&mut message, zmq::Message::new()), 0)
            .map_err(failed)?;
    }
    mouth.wait_for_end();
    Ok(())
}

/// Sends all messages.
pub fn send(plan: &Plan, address: &str) -> io::Result<()> {
    let socket = socket(plan, [zmq::PUSH, zmq::REQ])?;
    socket.connect(address).map_err(failed)?;
    let mut source = Source::new(plan);
    for _ in 0..plan.messages {
        socket.send(source.next_message(), 0).map_err(failed)?;
    }
    Ok(())
}

/// Asks one request after the other.
pub fn echo(plan: &Plan, address: &str) -> io::Result<()> {
    let socket = socket(plan, [zmq::PUSH, zmq::REQ])?;
    socket.connect(address).map_err(failed)?;
    let mut message = template(plan.message_bytes);
    let mut reply = zmq::Message::new();
    for number in 0..plan.requests {
        stamp(&mut message, number);
        socket.send(&message, 0).map_err(failed)?;
        socket.recv(&mut reply, 0).map_err(failed)?;
    }
    Ok(())
}
