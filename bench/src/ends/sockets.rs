//! Blocking stream sockets as they come: a `send` for each message, or for each buffer of them, and for a message of known
//! length no frame at all.

use super::SOCKET_BUFFER_BYTES;
use super::plan::{Mouth, Plan, Source, Walk, stamp, template};
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
pub fn serve(plan: &Plan, mouth: &Mouth) -> io::Result<()> {
    let turns = usize::from(plan.messages > 0) + usize::from(plan.requests > 0);
    if plan.subject.starts_with("unix") {
        let path = plan.directory.join("bare.sock");
        let listener = UnixListener::bind(&path)?;
        mouth.ready(&path.display().to_string())?;
        for _ in 0..turns {
            let (socket, _) = listener.accept()?;
            size_buffers(&socket)?;
            converse(plan, mouth, socket)?;
        }
    } else {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        mouth.ready(&listener.local_addr()?.to_string())?;
        for _ in 0..turns {
            let (socket, _) = listener.accept()?;
            socket.set_nodelay(true)?;
            size_buffers(&socket)?;
            converse(plan, mouth, socket)?;
        }
    }
    mouth.wait_for_end();
    Ok(())
}

fn converse(plan: &Plan, mouth: &Mouth, mut socket: impl Socket) -> io::Result<()> {
    let mut mode = [0];
    socket.read_exact(&mut mode)?;
    let mut walk = Walk::new(plan);
    if &mode == b"o" {
        receive(plan, &mut socket, &mut walk)?;
        return mouth.done_late(u64::from(walk.is_wrong()), walk.late_us());
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
    let length = plan.message_bytes;
    let at_once = (64 * 1024 / length).max(1);
    let mut buffer = vec![0; at_once * length];
    let mut held = 0;
    let mut left = plan.messages;
    while left > 0 {
        let got = socket.read(&mut buffer[held..])?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        held += got;
        let whole = held - held % length;
        for message in buffer[..whole].chunks_exact(length) {
            walk.take(message);
            left -= 1;
        }
        buffer.copy_within(whole..held, 0);
        held -= whole;
    }
    Ok(())
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
