//! What goes over one connection of an asynchronous client, as a state machine that never waits: commands in, frames out,
//! frames in, outcomes out.

use crate::Pushed;
use logdrive_ship::frame::{FLAG_FAILED, Frame, FrameError, HEADER_BYTES, Header, Kind, Messages};
use logdrive_ship::hello::Hello;
use logdrive_ship::limits::{FRAME_BYTES_MAX, PIECE_BYTES, REQUESTS_MAX};
use logdrive_ship::{NonBlocking, TransportError};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

type Outcome<T> = oneshot::Sender<Result<T, TransportError>>;

/// Work of a caller, which waits for the outcome.
pub(super) enum Command {
    Call {
        body: Vec<u8>,
        reply: Outcome<Vec<u8>>,
    },
    Deliver {
        messages: Vec<Vec<u8>>,
        done: Outcome<()>,
    },
    Send {
        message: Vec<u8>,
        done: Outcome<()>,
    },
    /// A caller has given up: one of those whose outcome nobody waits for.
    Cancel,
}

impl Command {
    /// Returns whether the caller has given it up.
    pub(super) fn is_canceled(&self) -> bool {
        match self {
            Self::Cancel => false,
            Self::Call { reply, .. } => reply.is_closed(),
            Self::Deliver { done, .. } | Self::Send { done, .. } => done.is_closed(),
        }
    }

    pub(super) fn fail(self, error: TransportError) {
        // A caller that has given it up hears nothing.
        match self {
            Self::Cancel => {}
            Self::Call { reply, .. } => drop(reply.send(Err(error))),
            Self::Deliver { done, .. } | Self::Send { done, .. } => drop(done.send(Err(error))),
        }
    }
}

/// Frames that are taken in one turn, before others get theirs.
const FRAMES_MAX: usize = 256;

pub(super) struct Exchange {
    pub(super) commands: mpsc::Receiver<Command>,
    /// Command for which the connection was made again.
    pub(super) first: Option<Command>,
    pushes: mpsc::Sender<Pushed>,
    dropped: Arc<AtomicU64>,
    pub(super) keep_alive: Duration,
    next_number: u64,
    requests: HashMap<u64, Outcome<Vec<u8>>>,
    messages_sent: u64,
    /// All messages before this number have been acknowledged.
    acknowledged: u64,
    /// Number behind the last message of each delivery.
    deliveries: VecDeque<(u64, Outcome<()>)>,
    frame_bytes_max: usize,
    knows_cancel: bool,
    alignment: usize,
    out: Vec<u8>,
    out_start: usize,
}

impl Exchange {
    pub(super) fn new(
        commands: mpsc::Receiver<Command>,
        pushes: mpsc::Sender<Pushed>,
        dropped: Arc<AtomicU64>,
        keep_alive: Duration,
    ) -> Self {
        Self {
            commands,
            first: None,
            pushes,
            dropped,
            keep_alive,
            next_number: 1,
            requests: HashMap::new(),
            messages_sent: 0,
            acknowledged: 0,
            deliveries: VecDeque::new(),
            frame_bytes_max: FRAME_BYTES_MAX,
            knows_cancel: false,
            alignment: 1,
            out: Vec::new(),
            out_start: 0,
        }
    }

    /// Hands all of it over, and leaves one behind that gets nothing.
    pub(super) fn lend(&mut self) -> Self {
        let (_, nothing) = mpsc::channel(1);
        let left = Self::new(
            nothing,
            self.pushes.clone(),
            Arc::clone(&self.dropped),
            self.keep_alive,
        );
        std::mem::replace(self, left)
    }

    /// Begins anew on a connection whose other end has said this hello.
    pub(super) fn begin(&mut self, hello: &Hello, connection: &NonBlocking) {
        self.frame_bytes_max = (hello.frame_bytes_max as usize).min(FRAME_BYTES_MAX);
        (self.knows_cancel, self.alignment) = (hello.knows_cancel(), connection.alignment());
        (self.messages_sent, self.acknowledged, self.out_start) = (0, 0, 0);
        self.out.clear();
    }

    /// Fails all that is under way on a connection that is lost.
    pub(super) fn fail_all(&mut self, error: &TransportError) {
        for (_, reply) in self.requests.drain() {
            // A caller that has given it up hears nothing; so below.
            let _ = reply.send(Err(copy_of(error)));
        }
        for (_, done) in self.deliveries.drain(..) {
            let _ = done.send(Err(copy_of(error)));
        }
    }

    /// Returns whether so much is to be sent, or is under way, that no further command is taken.
    pub(super) fn is_full(&mut self) -> bool {
        if self.requests.len() >= REQUESTS_MAX {
            self.forget_canceled();
        }
        self.out.len() - self.out_start >= PIECE_BYTES || self.requests.len() >= REQUESTS_MAX
    }

    /// Leaves out requests whose callers have given them up, and tells the server where it knows such frames.
    fn forget_canceled(&mut self) {
        let (out, knows_cancel, alignment) = (&mut self.out, self.knows_cancel, self.alignment);
        self.requests.retain(|number, reply| {
            let is_canceled = reply.is_closed();
            if is_canceled && knows_cancel {
                Header::new(Kind::Cancel, *number).put(&[], false, out);
                out.resize(out.len().next_multiple_of(alignment), 0);
            }
            !is_canceled
        });
    }

    /// Lays out what a caller wants sent.
    pub(super) fn take(&mut self, command: Command, connection: &NonBlocking) {
        if command.is_canceled() {
            return;
        }
        let bytes_max = self.frame_bytes_max - HEADER_BYTES - 4;
        let longest = match &command {
            Command::Call { body, .. } => body.len(),
            Command::Send { message, .. } => message.len(),
            Command::Cancel => 0,
            Command::Deliver { messages, .. } => messages.iter().map(Vec::len).max().unwrap_or(0),
        };
        if longest > bytes_max {
            let bytes = longest;
            return command.fail(TransportError::TooLong { bytes, bytes_max });
        }
        match command {
            Command::Cancel => self.forget_canceled(),
            Command::Call { body, reply } => {
                let header = Header::new(Kind::Request, self.next_number);
                self.requests.insert(self.next_number, reply);
                self.next_number += 1;
                self.put(header, &[&body], connection);
            }
            Command::Send { message, done } => {
                self.put_messages(&[message], connection);
                // Whether it comes is not known.
                let _ = done.send(Ok(()));
            }
            Command::Deliver { messages, done } => {
                self.put_messages(&messages, connection);
                self.deliveries.push_back((self.messages_sent, done));
                // Nothing may be due.
                self.acknowledge(self.acknowledged);
            }
        }
    }

    fn put_messages(&mut self, messages: &[Vec<u8>], connection: &NonBlocking) {
        let batch_bytes = self.frame_bytes_max.min(PIECE_BYTES.max(1)) - HEADER_BYTES;
        let (mut payload, mut count) = (Vec::new(), 0_u32);
        for message in messages {
            if count > 0 && payload.len() + 4 + message.len() > batch_bytes {
                self.put_batch(&payload, count, connection);
                payload.clear();
                count = 0;
            }
            payload.extend_from_slice(&(message.len() as u32).to_le_bytes());
            payload.extend_from_slice(message);
            count += 1;
        }
        if count > 0 {
            self.put_batch(&payload, count, connection);
        }
    }

    fn put_batch(&mut self, payload: &[u8], count: u32, connection: &NonBlocking) {
        let mut header = Header::new(Kind::Batch, self.messages_sent);
        header.count = count;
        self.messages_sent += u64::from(count);
        self.put(header, &[payload], connection);
    }

    fn put(&mut self, header: Header, payload: &[&[u8]], connection: &NonBlocking) {
        header.put(payload, connection.is_checked(), &mut self.out);
        let padded = self.out.len().next_multiple_of(connection.alignment());
        self.out.resize(padded, 0);
    }

    /// Says that this end lives: a batch without messages.
    pub(super) fn put_keep_alive(&mut self, connection: &NonBlocking) {
        if self.out.is_empty() {
            self.put_batch(&[], 0, connection);
        }
    }

    /// Says goodbye, behind all that is to be sent.
    pub(super) fn put_goodbye(&mut self, connection: &NonBlocking) {
        use logdrive_ship::hello::{Reason, encode_goodbye};
        let payload = encode_goodbye(Reason::Done, "");
        self.put(Header::new(Kind::Goodbye, 0), &[&payload], connection);
    }

    /// Sends what there is room for. `true`: all of it.
    pub(super) fn send(&mut self, connection: &mut NonBlocking) -> Result<bool, TransportError> {
        while let Some(rest) = self.out.get(self.out_start..).filter(|rest| !rest.is_empty()) {
            match connection.try_send(rest)? {
                0 => return Ok(false),
                sent => self.out_start += sent,
            }
        }
        self.out.clear();
        self.out_start = 0;
        connection.try_flush()
    }

    /// Takes frames that have come. `true`: there may be more.
    pub(super) fn receive(&mut self, connection: &mut NonBlocking) -> Result<bool, TransportError> {
        for _ in 0..FRAMES_MAX {
            let Some(frame) = connection.try_next()? else {
                return Ok(false);
            };
            let taken = self.take_frame(frame);
            taken.map_err(TransportError::malformed(connection.address()))?;
        }
        Ok(true)
    }

    fn take_frame(&mut self, frame: Frame<'_>) -> Result<(), FrameError> {
        let Header {
            kind,
            sequence,
            stream,
            flags,
            count,
            ..
        } = frame.header;
        match kind {
            Kind::Response => {
                // One that nobody waits for is left out.
                let Some(reply) = self.requests.remove(&sequence) else {
                    return Ok(());
                };
                let result = match flags & FLAG_FAILED {
                    0 => Ok(frame.payload.to_vec()),
                    _ => Err(TransportError::Failed(
                        String::from_utf8_lossy(frame.payload)
                            .chars()
                            .filter(|c| !c.is_control())
                            .collect(),
                    )),
                };
                let _ = reply.send(result);
            }
            Kind::Ack => self.acknowledge(sequence),
            Kind::Batch => {
                let mut messages = Messages::new(frame.payload, count);
                while let Some(message) = messages.next_message()? {
                    let message = message.to_vec();
                    if self.pushes.try_send(Pushed { stream, message }).is_err() {
                        self.dropped.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The service has taken all messages before this number.
    fn acknowledge(&mut self, next: u64) {
        self.acknowledged = self.acknowledged.max(next);
        while let Some((_, done)) = self.deliveries.pop_front_if(|(end, _)| *end <= next) {
            let _ = done.send(Ok(()));
        }
    }
}

/// The same for another caller.
fn copy_of(error: &TransportError) -> TransportError {
    match error {
        TransportError::Refused {
            address,
            reason,
            words,
        } => TransportError::Refused {
            address: address.clone(),
            reason: *reason,
            words: words.clone(),
        },
        TransportError::Lost { address, cause } => {
            TransportError::lost(address)(io::Error::new(cause.kind(), cause.to_string()))
        }
        TransportError::Frame { address, cause } => TransportError::malformed(address)(*cause),
        other => TransportError::lost("the server")(io::Error::other(other.to_string())),
    }
}
