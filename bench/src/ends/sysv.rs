//! System V message queues, for which safe Rust has no interface: one queue, and the type of a message says which way it
//! goes. Measured in a namespace of its own, where the bound of 8 KiB for a message may be raised.
#![allow(unsafe_code)]

use super::plan::{Mouth, Plan, Walk, stamp, template};
use nix::sched::{CloneFlags, unshare};
use std::io;

const THERE: libc::c_long = 1;
const BACK: libc::c_long = 2;
/// Bytes that the queue holds.
const HELD_BYTES: usize = 1 << 20;

/// Makes the queues of this process and its children their own, with bounds that 10 KB pass.
pub fn own_queues(plan: &Plan) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWIPC).map_err(|error| {
        io::Error::other(format!(
            "{error}: queues of messages over 8 KiB need root, for a namespace"
        ))
    })?;
    let bytes = plan.message_bytes.max(plan.reply_bytes).max(8192);
    for (bound, value) in [
        ("kernel/msgmax", bytes),
        ("kernel/msgmnb", HELD_BYTES),
        ("fs/mqueue/msgsize_max", bytes),
        ("fs/mqueue/msg_max", 64),
    ] {
        std::fs::write(format!("/proc/sys/{bound}"), value.to_string())?;
    }
    Ok(())
}

/// One queue, and room for a message as the kernel wants it: the type in front.
struct Queue {
    id: libc::c_int,
    room: Vec<libc::c_long>,
}

impl Queue {
    fn open(id: Option<&str>, bytes: usize) -> io::Result<Self> {
        let id = match id {
            Some(text) => text.parse().map_err(io::Error::other)?,
            // SAFETY: msgget reads no memory of ours.
            None => unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) },
        };
        if id < 0 {
            return Err(io::Error::last_os_error());
        }
        let words = 1 + bytes.div_ceil(size_of::<libc::c_long>());
        Ok(Self {
            id,
            room: vec![0; words],
        })
    }

    fn send(&mut self, kind: libc::c_long, message: &[u8]) -> io::Result<()> {
        self.room[0] = kind;
        let bytes_max = (self.room.len() - 1) * size_of::<libc::c_long>();
        assert!(message.len() <= bytes_max, "the room was made for it");
        let start = self.room[1..].as_mut_ptr().cast::<u8>();
        // SAFETY: `start` leads to `bytes_max` bytes of `room`, which the assertion says suffice, and `message` is
        // another allocation.
        unsafe { start.copy_from_nonoverlapping(message.as_ptr(), message.len()) };
        // SAFETY: `room` begins with the type, and `message.len()` bytes behind it are ours, as above.
        let sent = unsafe { libc::msgsnd(self.id, self.room.as_ptr().cast(), message.len(), 0) };
        match sent {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn receive(&mut self, kind: libc::c_long) -> io::Result<&[u8]> {
        let bytes_max = (self.room.len() - 1) * size_of::<libc::c_long>();
        // SAFETY: `room` has the type in front and `bytes_max` bytes behind it, which the kernel may fill.
        let got = unsafe { libc::msgrcv(self.id, self.room.as_mut_ptr().cast(), bytes_max, kind, 0) };
        let length = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the kernel says that it filled so many bytes behind the type, at most `bytes_max`.
        Ok(unsafe { std::slice::from_raw_parts(self.room[1..].as_ptr().cast(), length.min(bytes_max)) })
    }
}

/// The receiving end.
pub fn serve(plan: &Plan, mouth: &Mouth) -> io::Result<()> {
    let bytes = plan.message_bytes.max(plan.reply_bytes);
    let mut queue = Queue::open(None, bytes)?;
    mouth.ready(&queue.id.to_string())?;
    let mut walk = Walk::new(plan);
    for _ in 0..plan.messages {
        walk.take(queue.receive(THERE)?);
    }
    if plan.messages > 0 {
        mouth.done(u64::from(walk.is_wrong()))?;
    }
    let reply = template(plan.reply_bytes);
    for _ in 0..plan.requests {
        queue.receive(THERE)?;
        queue.send(BACK, &reply)?;
    }
    mouth.wait_for_end();
    Ok(())
}

/// Sends all messages.
pub fn send(plan: &Plan, address: &str) -> io::Result<()> {
    let mut queue = Queue::open(Some(address), plan.message_bytes)?;
    let mut message = template(plan.message_bytes);
    for number in 0..plan.messages {
        stamp(&mut message, number);
        queue.send(THERE, &message)?;
    }
    Ok(())
}

/// Asks one request after the other.
pub fn echo(plan: &Plan, address: &str) -> io::Result<()> {
    let mut queue = Queue::open(Some(address), plan.message_bytes.max(plan.reply_bytes))?;
    let mut message = template(plan.message_bytes);
    for number in 0..plan.requests {
        stamp(&mut message, number);
        queue.send(THERE, &message)?;
        queue.receive(BACK)?;
    }
    Ok(())
}
