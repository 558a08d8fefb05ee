//! POSIX message queues: one there, one back.

use super::plan::Plan;
use super::queue::{self, Queue};
use nix::mqueue::{MQ_OFlag, MqAttr, MqdT, mq_close, mq_open, mq_receive, mq_send, mq_unlink};
use nix::sys::stat::Mode;
use std::io;

/// Messages that a queue holds: two such queues are within what a user may have without privileges.
const HELD: i64 = 32;

/// Both queues, as one end has them, and room for a message.
struct Queues {
    out: MqdT,
    back: MqdT,
    room: Vec<u8>,
}

/// Names of the queue there and the queue back.
fn names(plan: &Plan) -> [String; 2] {
    let own = plan.directory.file_name().unwrap_or_default().to_string_lossy();
    [format!("/{own}-there"), format!("/{own}-back")]
}

fn open(name: &str, bytes: usize) -> io::Result<MqdT> {
    let attributes = MqAttr::new(0, HELD, bytes as i64, 0);
    let flags = MQ_OFlag::O_CREAT | MQ_OFlag::O_RDWR;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    Ok(mq_open(name, flags, mode, Some(&attributes))?)
}

/// Opens both queues of the sending end, uses them and closes them: a queue counts among those of its user until no
/// process has it open, whatever its name has become.
fn with_queues(plan: &Plan, act: impl FnOnce(&mut Queues) -> io::Result<()>) -> io::Result<()> {
    let [there, back] = names(plan);
    let mut queues = Queues {
        out: open(&there, plan.message_bytes)?,
        back: open(&back, plan.reply_bytes)?,
        room: vec![0; plan.message_bytes.max(plan.reply_bytes)],
    };
    let outcome = act(&mut queues);
    for queue in [queues.out, queues.back] {
        // It was open.
        let _ = mq_close(queue);
    }
    outcome
}

impl Queue for Queues {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        Ok(mq_send(&self.out, message, 1)?)
    }

    fn receive(&mut self) -> io::Result<&[u8]> {
        let length = mq_receive(&self.back, &mut self.room, &mut 0)?;
        Ok(&self.room[..length])
    }
}

/// The receiving end.
pub fn serve(plan: &Plan) -> io::Result<()> {
    let names = names(plan);
    with_queues(plan, |queues| {
        std::mem::swap(&mut queues.out, &mut queues.back);
        queue::serve(plan, queues, &names[0])
    })?;
    for name in &names {
        // They go with the namespace otherwise.
        let _ = mq_unlink(name.as_str());
    }
    Ok(())
}

/// Sends all messages.
pub fn send(plan: &Plan, _: &str) -> io::Result<()> {
    with_queues(plan, |queues| queue::send(plan, queues))
}

/// Asks one request after the other.
pub fn echo(plan: &Plan, _: &str) -> io::Result<()> {
    with_queues(plan, |queues| queue::echo(plan, queues))
}
