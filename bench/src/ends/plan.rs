//! Plan of the two ends of a transport, and their conversation: the receiving end is a process of its own,
//! which says on its standard output where it listens and when it has all. Shared with the rivals' package.

use logdrive_testkit::{Process, end_of_input, report};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The role of a receiving end: the plan as JSON.
pub const RECEIVE: &str = "--role-end";

/// The first word on the command line of a rivals' program that is to send.
pub const DRIVE: &str = "--role-drive";

/// Plan of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Transport of the messages.
    pub subject: String,
    /// A directory for sockets and keys.
    pub directory: PathBuf,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// Bytes of a response.
    pub reply_bytes: usize,
    /// Messages that go one way; 0 for none.
    pub messages: u64,
    /// Requests that are answered; 0 for none.
    pub requests: u64,
    /// Requests under way at once.
    pub concurrency: u64,
    /// Streams of a connection.
    pub streams: u64,
    /// Time for which both ends poll before they sleep.
    pub spin_us: u64,
    /// Bytes that are sent at once.
    pub batch_bytes: usize,
    /// Time for which a message may wait for others.
    pub linger_us: u64,
    /// Time between two messages, each of which bears the time when it was sent; 0 sends as fast as it goes.
    pub pace_us: u64,
    /// Set if the kernel may join datagrams at the receiver (GRO).
    pub offload: bool,
    /// Set if messages are read where they lie in shared memory, by those who can.
    pub in_place: bool,
}

/// Outcome of a measurement.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// From the first message until the receiver had the last, in seconds.
    pub one_way_s: f64,
    /// Messages that were lost.
    pub lost: u64,
    /// Median and 99th percentile of the time from the sender's call to the receiver's, of paced messages.
    pub late_us: [f64; 2],
    /// All requests and their responses, in seconds.
    pub echo_s: f64,
    /// Processor time of both ends in seconds, with their start and end.
    pub cpu_s: f64,
}

/// Reports, at a receiving end, the address that it listens at.
pub fn ready(address: &str) {
    report(&format!("ready {address}"));
}

/// Reports that all one-way messages have come, or been counted as lost, and how late paced ones came, see
/// [`Walk::late_us`].
pub fn done(lost: u64, [p50, p99]: [f64; 2]) {
    report(&format!("done {lost} {p50} {p99}"));
}

/// Reports that the messages of a transport that loses none have come, of which one may have been wrong.
pub fn all_came(walk: &Walk) {
    done(u64::from(walk.is_wrong()), walk.late_us());
}

/// Blocks a receiving end until the end of the measurement.
pub fn wait_for_end() {
    // An error ends it as well.
    let _ = end_of_input().recv();
}

/// Serves a receiving end.
pub type Serve = fn(&Plan) -> io::Result<()>;

/// Sends messages or requests to an address.
pub type Send = fn(&Plan, &str) -> io::Result<()>;

/// Starts a program as the receiving end, and measures what this process sends to it.
pub fn drive(program: &Path, plan: &Plan, send: Send, echo: Send) -> io::Result<Outcome> {
    let text = serde_json::to_string(plan)?;
    let mut peer = Process::spawn(Command::new(program).args([RECEIVE, &text]));
    let address = peer.expect("ready ");
    let mut outcome = Outcome::default();
    if plan.messages > 0 {
        let start = Instant::now();
        send(plan, &address)?;
        let line = peer.expect("done ");
        outcome.one_way_s = start.elapsed().as_secs_f64();
        let mut words = line.split_whitespace().map(str::parse::<f64>);
        let mut next = || words.next().unwrap_or(Ok(0.0)).map_err(io::Error::other);
        outcome.lost = next()? as u64;
        outcome.late_us = [next()?, next()?];
    }
    if plan.requests > 0 {
        let start = Instant::now();
        echo(plan, &address)?;
        outcome.echo_s = start.elapsed().as_secs_f64();
    }
    peer.end();
    Ok(outcome)
}

/// For a transport without requests.
pub fn no_requests(plan: &Plan, _: &str) -> io::Result<()> {
    Err(io::Error::other(format!("{} answers no requests", plan.subject)))
}

/// The bytes of a message before its number is stamped on it: what a small JSON object looks like, and then more of it.
#[must_use]
pub fn template(bytes: usize) -> Vec<u8> {
    let text = br#"{"id":00000000,"symbol":"XNAS.AAPL","price":189.25,"quantity":100,"side":"buy","ok":1}"#;
    let mut message: Vec<u8> = text.iter().copied().cycle().take(bytes.max(8)).collect();
    stamp(&mut message, 0);
    message
}

/// Puts the number of a message in its front.
#[inline]
pub fn stamp(message: &mut [u8], number: u64) {
    if let Some(place) = message.first_chunk_mut::<8>() {
        *place = number.to_le_bytes();
    }
}

/// The time for paced messages, which two processes have in common.
#[must_use]
pub fn now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |time| time.as_nanos() as u64)
}

/// All messages of a plan, one after the other, stamped with their numbers, or at the plan's pace with the time.
#[derive(Debug)]
pub struct Source {
    next: u64,
    pace_ns: u64,
    due_ns: u64,
    /// Several in turn, so that none is read back while the stamp is still on its way to the cache.
    messages: [Vec<u8>; 8],
}

impl Source {
    /// For a plan's messages.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let mut messages = [(); 8].map(|()| template(plan.message_bytes));
        for (number, message) in messages.iter_mut().enumerate() {
            stamp(message, number as u64);
        }
        Self {
            next: 0,
            pace_ns: plan.pace_us * 1_000,
            due_ns: now_ns(),
            messages,
        }
    }

    /// The next message; a paced one when its time has come, until when it looks at the clock.
    #[inline]
    pub fn next_message(&mut self) -> &[u8] {
        let index = (self.next % 8) as usize;
        if self.pace_ns == 0 {
            // The one before was read just now; its turn comes again in eight.
            let before = self.next.wrapping_sub(1);
            if self.next > 0 {
                stamp(&mut self.messages[(before % 8) as usize], before + 8);
            }
        } else {
            self.due_ns += self.pace_ns;
            while now_ns() < self.due_ns {
                std::hint::spin_loop();
            }
            stamp(&mut self.messages[index], now_ns());
        }
        self.next += 1;
        &self.messages[index]
    }
}

/// Counts messages and looks at each: its number, its length and its last byte.
#[derive(Debug, Clone)]
pub struct Walk {
    /// The number that is wanted next.
    pub next: u64,
    length: usize,
    last: u8,
    wrong: bool,
    paced: bool,
    late_ns: Vec<u64>,
}

impl Walk {
    /// For the messages of a plan.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let template = template(plan.message_bytes);
        Self {
            next: 0,
            paced: plan.pace_us > 0,
            late_ns: Vec::new(),
            length: template.len(),
            last: template.last().copied().unwrap_or(0),
            wrong: false,
        }
    }

    /// Looks at one message. `false`: its number is not the one that was wanted.
    #[inline]
    pub fn take(&mut self, message: &[u8]) -> bool {
        let first = message.first_chunk::<8>();
        let number = first.map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
        let is_next = number == self.next;
        self.wrong |= message.len() != self.length || message.last() != Some(&self.last) && self.length > 8;
        if self.paced {
            self.late_ns.push(now_ns().saturating_sub(number));
            self.next += 1;
            return true;
        }
        self.next = number.wrapping_add(1);
        is_next
    }

    /// Median and 99th percentile of how late paced messages came, in microseconds.
    #[must_use]
    pub fn late_us(&self) -> [f64; 2] {
        let mut all = self.late_ns.clone();
        all.sort_unstable();
        [50, 99].map(|part| all.get(all.len() * part / 100).map_or(0.0, |ns| *ns as f64 / 1e3))
    }

    /// Returns whether any message was not as it was sent.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.wrong
    }
}
