//! ZeroMQ: PUSH to PULL one way, REQ to REP for requests; over a Unix socket, or TCP for small messages.

use crate::failed;
use crate::plan::Plan;
use crate::queue::{self, Queue};
use std::io;

/// Bytes of messages that a socket may hold: more than its own bound of 1,000 where they are small.
const HELD_BYTES: usize = 8 << 20;

/// A socket, and the message that it received last.
struct Socket {
    socket: zmq::Socket,
    message: zmq::Message,
}

impl Socket {
    fn new(plan: &Plan, kinds: [zmq::SocketType; 2]) -> io::Result<Self> {
        let kind = kinds[usize::from(plan.messages == 0)];
        let socket = zmq::Context::new().socket(kind).map_err(failed)?;
        let held = (HELD_BYTES / plan.message_bytes.max(1)).max(1_000) as i32;
        socket.set_sndhwm(held).map_err(failed)?;
        socket.set_rcvhwm(held).map_err(failed)?;
        let message = zmq::Message::new();
        Ok(Self { socket, message })
    }

    fn connect(plan: &Plan, address: &str) -> io::Result<Self> {
        let socket = Self::new(plan, [zmq::PUSH, zmq::REQ])?;
        socket.socket.connect(address).map_err(failed)?;
        Ok(socket)
    }
}

impl Queue for Socket {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.socket.send(message, 0).map_err(failed)
    }

    fn receive(&mut self) -> io::Result<&[u8]> {
        self.socket.recv(&mut self.message, 0).map_err(failed)?;
        Ok(&self.message)
    }

    /// Hands the request itself back.
    fn answer(&mut self, _: &[u8]) -> io::Result<()> {
        self.receive()?;
        let message = std::mem::replace(&mut self.message, zmq::Message::new());
        self.socket.send(message, 0).map_err(failed)
    }
}

/// The receiving end.
pub fn serve(plan: &Plan) -> io::Result<()> {
    let address = match plan.message_bytes < 1_024 {
        true => "tcp://127.0.0.1:*".to_owned(),
        false => format!("ipc://{}", plan.directory.join("zeromq.sock").display()),
    };
    let mut socket = Socket::new(plan, [zmq::PULL, zmq::REP])?;
    socket.socket.bind(&address).map_err(failed)?;
    let bound = socket.socket.get_last_endpoint().map_err(failed)?;
    queue::serve(plan, &mut socket, &bound.unwrap_or_default())
}

/// Sends all messages.
pub fn send(plan: &Plan, address: &str) -> io::Result<()> {
    queue::send_in_turn(plan, &mut Socket::connect(plan, address)?)
}

/// Asks one request after the other.
pub fn echo(plan: &Plan, address: &str) -> io::Result<()> {
    queue::echo(plan, &mut Socket::connect(plan, address)?)
}
