//! nng: PUSH to PULL one way, REQ to REP for requests; over a Unix socket, or TCP for small messages.

use crate::failed;
use crate::plan::Plan;
use crate::queue::{self, Queue};
use nng::options::{Options, RecvBufferSize, SendBufferSize};
use nng::{Message, Protocol};
use std::io;

/// Messages that a socket may hold: its own bound.
const HELD: i32 = 8_192;

/// A socket, and the message that it received last.
struct Socket {
    socket: nng::Socket,
    message: Message,
}

impl Socket {
    fn new(plan: &Plan, kinds: [Protocol; 2]) -> io::Result<Self> {
        let kind = kinds[usize::from(plan.messages == 0)];
        let socket = nng::Socket::new(kind).map_err(failed)?;
        // The kinds for requests have no buffers of their own.
        let _ = socket.set_opt::<SendBufferSize>(HELD);
        let _ = socket.set_opt::<RecvBufferSize>(HELD);
        let message = Message::new();
        Ok(Self { socket, message })
    }

    fn dial(plan: &Plan, address: &str) -> io::Result<Self> {
        let socket = Self::new(plan, [Protocol::Push0, Protocol::Req0])?;
        socket.socket.dial(address).map_err(failed)?;
        Ok(socket)
    }
}

impl Queue for Socket {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.socket.send(message).map_err(|(_, error)| failed(error))
    }

    fn receive(&mut self) -> io::Result<&[u8]> {
        self.message = self.socket.recv().map_err(failed)?;
        Ok(&self.message)
    }

    /// Hands the request itself back.
    fn answer(&mut self, _: &[u8]) -> io::Result<()> {
        let message = self.socket.recv().map_err(failed)?;
        self.socket.send(message).map_err(|(_, error)| failed(error))
    }
}

/// A port of this process's own, because nng does not report one that the system chose.
fn address(plan: &Plan) -> io::Result<String> {
    if plan.message_bytes >= 1_024 {
        return Ok(format!("ipc://{}", plan.directory.join("nng.sock").display()));
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    Ok(format!("tcp://127.0.0.1:{port}"))
}

/// The receiving end.
pub fn serve(plan: &Plan) -> io::Result<()> {
    let mut socket = Socket::new(plan, [Protocol::Pull0, Protocol::Rep0])?;
    let address = address(plan)?;
    socket.socket.listen(&address).map_err(failed)?;
    queue::serve(plan, &mut socket, &address)
}

/// Sends all messages. The socket stays open until this process ends, as nng drops what it still holds.
pub fn send(plan: &Plan, address: &str) -> io::Result<()> {
    let mut socket = Socket::dial(plan, address)?;
    queue::send_in_turn(plan, &mut socket)?;
    std::mem::forget(socket);
    Ok(())
}

/// Asks one request after the other.
pub fn echo(plan: &Plan, address: &str) -> io::Result<()> {
    queue::echo(plan, &mut Socket::dial(plan, address)?)
}
