//! System V message queues, for which safe Rust has no interface: one queue, and the type of a message says which way it
//! goes. Measured in a namespace of its own, where the bound of 8 KiB for a message may be raised.
#![allow(unsafe_code)]

use super::plan::Plan;
use super::queue::{self, Queue};
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

/// One queue, as one end uses it, and room for a message as the kernel wants it: the type in front.
struct TypedQueue {
    id: libc::c_int,
    out: libc::c_long,
    back: libc::c_long,
    room: Vec<libc::c_long>,
}

impl TypedQueue {
    /// The sending end.
    fn open(plan: &Plan, address: &str) -> io::Result<Self> {
        let id = address.parse().map_err(io::Error::other)?;
        let bytes = plan.message_bytes.max(plan.reply_bytes);
        let words = 1 + bytes.div_ceil(size_of::<libc::c_long>());
        let room = vec![0; words];
        Ok(Self {
            id,
            out: THERE,
            back: BACK,
            room,
        })
    }
}

impl Queue for TypedQueue {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.room[0] = self.out;
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

    fn receive(&mut self) -> io::Result<&[u8]> {
        let bytes_max = (self.room.len() - 1) * size_of::<libc::c_long>();
        // SAFETY: `room` has the type in front and `bytes_max` bytes behind it, which the kernel may fill.
        let got = unsafe { libc::msgrcv(self.id, self.room.as_mut_ptr().cast(), bytes_max, self.back, 0) };
        let length = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the kernel says that it filled so many bytes behind the type, at most `bytes_max`.
        Ok(unsafe { std::slice::from_raw_parts(self.room[1..].as_ptr().cast(), length.min(bytes_max)) })
    }
}

/// The receiving end.
pub fn serve(plan: &Plan) -> io::Result<()> {
    // SAFETY: msgget reads no memory of ours.
    let id = unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) };
    if id < 0 {
        return Err(io::Error::last_os_error());
    }
    let address = id.to_string();
    let mut queue = TypedQueue::open(plan, &address)?;
    (queue.out, queue.back) = (BACK, THERE);
    queue::serve(plan, &mut queue, &address)
}

/// Sends all messages.
pub fn send(plan: &Plan, address: &str) -> io::Result<()> {
    queue::send(plan, &mut TypedQueue::open(plan, address)?)
}

/// Asks one request after the other.
pub fn echo(plan: &Plan, address: &str) -> io::Result<()> {
    queue::echo(plan, &mut TypedQueue::open(plan, address)?)
}
