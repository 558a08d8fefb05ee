//! Plan of the two ends of a transport, and their conversation: the receiving end is a process of its own,
//! which says on its standard output where it listens and when it has all. Shared with the rivals' package.

use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The first word on the command line of a receiving end.
pub const ROLE: &str = "--role-end";

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
    /// Whether the kernel may join datagrams at the receiver (GRO).
    pub offload: bool,
    /// Whether messages are read where they lie in shared memory, by those who can.
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

/// Message of a receiving end.
#[derive(Debug, Default)]
pub struct Mouth;

impl Mouth {
    /// Address of the listener.
    pub fn ready(&self, address: &str) -> io::Result<()> {
        self.say(&format!("ready {address}"))
    }

    /// All one-way messages have come, or been counted as lost.
    pub fn done(&self, lost: u64) -> io::Result<()> {
        self.done_late(lost, [0.0; 2])
    }

    /// As [`Mouth::done`], with how late paced messages came, see [`Walk::late_us`].
    pub fn done_late(&self, lost: u64, [p50, p99]: [f64; 2]) -> io::Result<()> {
        self.say(&format!("done {lost} {p50} {p99}"))
    }

    fn say(&self, line: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()
    }

    /// Waits for the end of the measurement.
    pub fn wait_for_end(&self) {
        // An error ends it as well.
        let _ = io::stdin().read_to_end(&mut Vec::new());
    }
}

/// The receiving end, as the sending one sees it.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Address of the listener.
    pub address: String,
}

impl Peer {
    /// Starts a program as the receiving end, and waits until it listens.
    pub fn start(program: &Path, plan: &Plan) -> io::Result<Self> {
        let plan = serde_json::to_string(plan).map_err(io::Error::other)?;
        let mut child = Command::new(program)
            .arg(ROLE)
            .arg(plan)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = child
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no pipe from the receiver"))?;
        let mut peer = Self {
            child,
            input,
            output: BufReader::new(output),
            address: String::new(),
        };
        peer.address = peer.hear("ready ")?;
        Ok(peer)
    }

    fn hear(&mut self, word: &str) -> io::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        line.strip_prefix(word)
            .map(|rest| rest.trim().to_owned())
            .ok_or_else(|| io::Error::other(format!("the receiver ended without `{word}`, but {line:?}")))
    }

    /// Waits until it has all messages, and notes those that were lost and how late the others were.
    pub fn done(&mut self, outcome: &mut Outcome) -> io::Result<()> {
        let line = self.hear("done ")?;
        let mut words = line.split_whitespace().map(str::parse::<f64>);
        let mut next = || words.next().unwrap_or(Ok(0.0)).map_err(io::Error::other);
        outcome.lost = next()? as u64;
        outcome.late_us = [next()?, next()?];
        Ok(())
    }

    /// Ends it, and waits for that.
    pub fn end(mut self) -> io::Result<()> {
        drop(self.input.take());
        let status = self.child.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(io::Error::other(format!("the receiver ended with {status}"))),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Whatever went wrong has been said.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
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
        let number = message
            .first_chunk::<8>()
            .map_or(u64::MAX, |b| u64::from_le_bytes(*b));
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

    /// Whether any message was not as it was sent.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.wrong
    }
}
