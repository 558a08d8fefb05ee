//! Blocking stream sockets as they come: a `send` for each message, or for each buffer of them, and for a message of known
//! length no frame at all.

use super::SOCKET_BUFFER_BYTES;
use super::plan::{Plan, Source, Walk, all_came, ready, stamp, template, wait_for_end};
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{self, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

trait Socket: Read + Write + AsFd + Send {}
impl Socket for UnixStream {}
impl Socket for TcpStream {}

/// Sets the buffers that all subjects have.
pub fn size_buffers(socket: &impl AsFd) -> io::Result<()> {
    setsockopt(socket, sockopt::SndBuf, &SOCKET_BUFFER_BYTES)?;
    setsockopt(socket, sockopt::RcvBuf, &SOCKET_BUFFER_BYTES)?;
    Ok(())
}

/// The receiving end: one connection after the other.
pub fn serve(plan: &Plan) -> io::Result<()> {
    if plan.subject.starts_with("unix") {
        let path = plan.directory.join("bare.sock");
        let listener = UnixListener::bind(&path)?;
        ready(&path.display().to_string());
        return converse_in_turn(plan, || Ok(listener.accept()?.0));
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    ready(&listener.local_addr()?.to_string());
    converse_in_turn(plan, || {
        let socket = listener.accept()?.0;
        socket.set_nodelay(true)?;
        Ok(socket)
    })
}

fn converse_in_turn<S: Socket>(plan: &Plan, accept: impl Fn() -> io::Result<S>) -> io::Result<()> {
    for _ in 0..u8::from(plan.messages > 0) + u8::from(plan.requests > 0) {
        let socket = accept()?;
        size_buffers(&socket)?;
        converse(plan, socket)?;
    }
    wait_for_end();
    Ok(())
}

fn converse(plan: &Plan, mut socket: impl Socket) -> io::Result<()> {
    let mut mode = [0];
    socket.read_exact(&mut mode)?;
    let mut walk = Walk::new(plan);
    if &mode == b"o" {
        receive(plan, &mut socket, &mut walk)?;
        all_came(&walk);
        return Ok(());
    }
    let mut message = vec![0; plan.message_bytes];
    let reply = template(plan.reply_bytes);
    for _ in 0..plan.requests {
        socket.read_exact(&mut message)?;
        walk.take(&message);
        match plan.reply_bytes == plan.message_bytes {
            true => socket.write_all(&message)?,
            false => socket.write_all(&reply)?,
        }
    }
    Ok(())
}

/// Small messages are read many at a time, as the receiver's buffer allows; large ones one by one.
fn receive(plan: &Plan, socket: &mut impl Socket, walk: &mut Walk) -> io::Result<()> {
    let at_once = (64 * 1024 / plan.message_bytes).max(1);
    let mut buffer = MessageBuffer::new(plan, at_once * plan.message_bytes);
    let mut left = plan.messages;
    while left > 0 {
        let got = socket.read(buffer.free())?;
        left -= buffer.walk_over(got, walk)?;
    }
    Ok(())
}

/// Room for the bytes of a stream, of which whole messages are taken.
pub struct MessageBuffer {
    buffer: Vec<u8>,
    held: usize,
    message_bytes: usize,
}

impl MessageBuffer {
    /// Room for so many bytes of a plan's messages.
    pub fn new(plan: &Plan, bytes: usize) -> Self {
        let buffer = vec![0; bytes];
        Self {
            buffer,
            held: 0,
            message_bytes: plan.message_bytes,
        }
    }

    /// Room that may be filled.
    pub fn free(&mut self) -> &mut [u8] {
        &mut self.buffer[self.held..]
    }

    /// Walks over the messages that so many bytes more have made whole, and returns their number. An error where none
    /// have come, which is the end of a stream.
    pub fn walk_over(&mut self, bytes: usize, walk: &mut Walk) -> io::Result<u64> {
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.held += bytes;
        let whole = self.held - self.held % self.message_bytes;
        let mut messages = 0;
        for message in self.buffer[..whole].chunks_exact(self.message_bytes) {
            walk.take(message);
            messages += 1;
        }
        self.buffer.copy_within(whole..self.held, 0);
        self.held -= whole;
        Ok(messages)
    }
}

fn connect(plan: &Plan, address: &str) -> io::Result<Box<dyn Socket>> {
    if plan.subject.starts_with("unix") {
        let socket = UnixStream::connect(address)?;
        size_buffers(&socket)?;
        return Ok(Box::new(socket));
    }
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    size_buffers(&socket)?;
    Ok(Box::new(socket))
}

/// Sends all messages: a `send` for each, or, as a floor for those that collect, for each full buffer.
pub fn send(plan: &Plan, address: &str) -> io::Result<()> {
    let mut socket = connect(plan, address)?;
    socket.write_all(b"o")?;
    let mut source = Source::new(plan);
    if plan.subject.ends_with("-batched") {
        let mut out = BufWriter::with_capacity(plan.batch_bytes, socket);
        for _ in 0..plan.messages {
            out.write_all(source.next_message())?;
        }
        return out.flush();
    }
    for _ in 0..plan.messages {
        socket.write_all(source.next_message())?;
    }
    Ok(())
}

/// Asks one request after the other.
pub fn echo(plan: &Plan, address: &str) -> io::Result<()> {
    let mut socket = connect(plan, address)?;
    socket.write_all(b"e")?;
    let mut message = template(plan.message_bytes);
    let mut reply = vec![0; plan.reply_bytes];
    for number in 0..plan.requests {
        stamp(&mut message, number);
        socket.write_all(&message)?;
        socket.read_exact(&mut reply)?;
    }
    Ok(())
}
