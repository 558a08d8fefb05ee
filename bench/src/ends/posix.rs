//! POSIX message queues: one there, one back.

use super::plan::{Mouth, Plan, Walk, stamp, template};
use nix::mqueue::{MQ_OFlag, MqAttr, MqdT, mq_close, mq_open, mq_receive, mq_send, mq_unlink};
use nix::sys::stat::Mode;
use std::io;

/// Messages that a queue holds: two such queues are within what a user may have without privileges.
const HELD: i64 = 32;

fn open(name: &str, bytes: usize) -> io::Result<MqdT> {
    let attributes = MqAttr::new(0, HELD, bytes as i64, 0);
    let flags = MQ_OFlag::O_CREAT | MQ_OFlag::O_RDWR;
    Ok(mq_open(
        name,
        flags,
        Mode::S_IRUSR | Mode::S_IWUSR,
        Some(&attributes),
    )?)
}

/// A queue counts among those of its user until nobody has it open, whatever its name has become.
fn close(queues: impl IntoIterator<Item = MqdT>) {
    for queue in queues {
        // It was open.
        let _ = mq_close(queue);
    }
}

fn names(plan: &Plan) -> [String; 2] {
    let own = plan
        .directory
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    [format!("/{own}-there"), format!("/{own}-back")]
}

/// The receiving end.
pub fn serve(plan: &Plan, mouth: &Mouth) -> io::Result<()> {
    let [there_name, back_name] = names(plan);
    let there = open(&there_name, plan.message_bytes)?;
    let back = open(&back_name, plan.reply_bytes)?;
    mouth.ready(&there_name)?;
    let mut walk = Walk::new(plan);
    let mut message = vec![0; plan.message_bytes];
    let mut priority = 0;
    for _ in 0..plan.messages {
        let length = mq_receive(&there, &mut message, &mut priority)?;
        walk.take(&message[..length]);
    }
    if plan.messages > 0 {
        mouth.done(u64::from(walk.is_wrong()))?;
    }
    let reply = template(plan.reply_bytes);
    for _ in 0..plan.requests {
        mq_receive(&there, &mut message, &mut priority)?;
        mq_send(&back, &reply, 1)?;
    }
    mouth.wait_for_end();
    close([there, back]);
    // They go with the namespace otherwise.
    let _ = mq_unlink(there_name.as_str());
    let _ = mq_unlink(back_name.as_str());
    Ok(())
}

/// Sends all messages.
pub fn send(plan: &Plan, _: &str) -> io::Result<()> {
    let there = open(&names(plan)[0], plan.message_bytes)?;
    let mut message = template(plan.message_bytes);
    for number in 0..plan.messages {
        stamp(&mut message, number);
        mq_send(&there, &message, 1)?;
    }
    close([there]);
    Ok(())
}

/// Asks one request after the other.
pub fn echo(plan: &Plan, _: &str) -> io::Result<()> {
    let [there_name, back_name] = names(plan);
    let there = open(&there_name, plan.message_bytes)?;
    let back = open(&back_name, plan.reply_bytes)?;
    let mut message = template(plan.message_bytes);
    let mut reply = vec![0; plan.reply_bytes];
    let mut priority = 0;
    for number in 0..plan.requests {
        stamp(&mut message, number);
        mq_send(&there, &message, 1)?;
        mq_receive(&back, &mut reply, &mut priority)?;
    }
    close([there, back]);
    Ok(())
}
