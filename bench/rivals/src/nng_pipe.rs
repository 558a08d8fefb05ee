//! nng: PUSH to PULL one way, REQ to REP for requests; over a Unix socket, or TCP for small messages.

use crate::plan::{Mouth, Plan, Source, Walk, stamp, template};
use nng::options::{Options, RecvBufferSize, SendBufferSize};
use nng::{Protocol, Socket};
use std::io;

/// Messages that a socket may hold: its own bound.
const HELD: i32 = 8_192;

fn failed(error: nng::Error) -> io::Error {
    io::Error::other(error)
}

fn socket(plan: &Plan, kinds: [Protocol; 2]) -> io::Result<Socket> {
    let kind = kinds[usize::from(plan.messages == 0)];
    let socket = Socket::new(kind).map_err(failed)?;
    // The kinds for requests have no buffers of their own.
    let _ = socket.set_opt::<SendBufferSize>(HELD);
    let _ = socket.set_opt::<RecvBufferSize>(HELD);
    Ok(socket)
}

/// A port of this process's own, as nng does not tell one that the system chose.
fn address(plan: &Plan) -> io::Result<String> {
    if plan.message_bytes >= 1_024 {
        return Ok(format!("ipc://{}", plan.directory.join("nng.sock").display()));
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    Ok(format!("tcp://127.0.0.1:{port}"))
}

/// The receiving end.
pub fn serve(plan: &Plan, mouth: &Mouth) -> io::Result<()> {
    let socket = socket(plan, [Protocol::Pull0, Protocol::Rep0])?;
    let address = address(plan)?;
    socket.listen(&address).map_err(failed)?;
    mouth.ready(&address)?;
    let mut walk = Walk::new(plan);
    for _ in 0..plan.messages {
        walk.take(&socket.recv().map_err(failed)?);
    }
    if plan.messages > 0 {
        mouth.done(u64::from(walk.is_wrong()))?;
    }
    for _ in 0..plan.requests {
        let message = socket.recv().map_err(failed)?;
        socket.send(message).map_err(|(_, error)| failed(error))?;
    }
    mouth.wait_for_end();
    Ok(())
}

/// Sends all messages. The socket stays open until this process ends, as nng drops what it still holds.
pub fn send(plan: &Plan, address: &str) -> io::Result<()> {
    let socket = socket(plan, [Protocol::Push0, Protocol::Req0])?;
    socket.dial(address).map_err(failed)?;
    let mut source = Source::new(plan);
    for _ in 0..plan.messages {
        socket
            .send(source.next_message())
            .map_err(|(_, error)| failed(error))?;
    }
    std::mem::forget(socket);
    Ok(())
}

/// Asks one request after the other.
pub fn echo(plan: &Plan, address: &str) -> io::Result<()> {
    let socket = socket(plan, [Protocol::Push0, Protocol::Req0])?;
    socket.dial(address).map_err(failed)?;
    let mut message = template(plan.message_bytes);
    for number in 0..plan.requests {
        stamp(&mut message, number);
        socket.send(&message[..]).map_err(|(_, error)| failed(error))?;
        socket.recv().map_err(failed)?;
    }
    Ok(())
}
