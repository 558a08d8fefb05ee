//! Plain UDP: a `send` and a `recv` for each message. Nothing says how much the receiver can take, so it loses some.

use super::plan::{Plan, Source, Walk, done, ready, wait_for_end};
use super::sockets::size_buffers;
use std::io;
use std::net::UdpSocket;
use std::time::Duration;

/// Time for which the receiver waits for more before it takes the rest for lost.
const SILENCE: Duration = Duration::from_millis(300);

/// The receiving end.
pub fn serve(plan: &Plan) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    size_buffers(&socket)?;
    ready(&socket.local_addr()?.to_string());
    let mut walk = Walk::new(plan);
    let mut buffer = vec![0; plan.message_bytes + 1];
    let mut came = 0;
    while walk.next < plan.messages {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                walk.take(&buffer[..length]);
                came += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
        if came == 1 {
            socket.set_read_timeout(Some(SILENCE))?;
        }
    }
    done(plan.messages - came, [0.0; 2]);
    wait_for_end();
    Ok(())
}

/// Sends all messages.
pub fn send(plan: &Plan, address: &str) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address)?;
    size_buffers(&socket)?;
    let mut source = Source::new(plan);
    for _ in 0..plan.messages {
        socket.send(source.next_message())?;
    }
    Ok(())
}
