//! Requests and their responses, many at once on one connection.

use logdrive_ship::connection::Connection;
use logdrive_ship::frame::{FLAG_FAILED, HEADER_BYTES, Header, Kind};
use logdrive_ship::hello::HELLO_ACKS;
use logdrive_ship::limits::{FRAME_BYTES_MAX, PIECE_BYTES, REQUESTS_MAX};
use logdrive_ship::session::InPlace;
use logdrive_ship::{Address, Options, TransportError};
use std::io::IoSlice;
use std::time::Duration;

/// Connection to a service that answers requests.
///
/// Nothing runs behind it: requests go out and responses come in while one of its methods is called. With
/// [`Client::submit`] and [`Client::complete`] many requests are under way at once, and travel together. One thread
/// uses it at a time.
///
/// ```
/// # use logdrive_ship::session::{ReplyBuffer, Peer, Service};
/// # use logdrive_messaging::Client;
/// # use logdrive_ship::{Address, Options, Threads, TransportError, serve};
/// # struct Sums;
/// # impl Service for Sums {
/// #     fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
/// #         reply.extend_from_slice(&[body.iter().sum()]);
/// #         Ok(())
/// #     }
/// # }
/// # fn main() -> Result<(), TransportError> {
/// # let options = Options::default();
/// # let anywhere: Address = "tcp://127.0.0.1:0".parse()?;
/// # let server = serve(&[anywhere], &options, Threads::default(), std::sync::Arc::new(Sums))?;
/// # let address = server.addresses()[0].clone();
/// let mut client = Client::connect(&address, &options)?;
/// assert_eq!(client.call(&[1, 2, 3])?, [6]);
/// // Many at once: the responses come in any order, by number.
/// let first = client.submit(&[4, 5])?;
/// let second = client.submit(&[6, 7])?;
/// while client.waiting() > 0 {
///     let reply = client.complete()?;
///     let expected = if reply.number == first { 9 } else { 13 };
///     assert_eq!(reply.result, Ok(&[expected][..]));
/// }
/// # assert_ne!(first, second);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    next_number: u64,
    waiting: usize,
    /// Number of the next message that goes one way.
    messages_sent: u64,
    /// All messages before this number have been acknowledged.
    acknowledged: u64,
    out: Vec<u8>,
    batch_bytes: usize,
    frame_bytes_max: usize,
    response_timeout: Duration,
}

/// Response to a request.
#[derive(Debug)]
pub struct Reply<'a> {
    /// The number that [`Client::submit`] gave.
    pub number: u64,
    /// Reply of the service, or its error in words.
    pub result: Result<&'a [u8], &'a str>,
}

impl Client {
    /// Connects. Blocks until the other end has said hello, at most as long as the options allow.
    ///
    /// # Errors
    /// Fails when no server answers there, or it refuses the client.
    pub fn connect(address: &Address, options: &Options) -> Result<Self, TransportError> {
        let (connection, hello) = Connection::connect(address, options, HELLO_ACKS)?;
        Ok(Self {
            connection,
            next_number: 1,
            waiting: 0,
            messages_sent: 0,
            acknowledged: 0,
            out: Vec::new(),
            batch_bytes: options.batch_bytes,
            frame_bytes_max: hello.frame_bytes_max as usize,
            response_timeout: options.timeouts.response,
        })
    }

    fn header(&mut self, body: &[u8]) -> Result<Header, TransportError> {
        let bytes_max = self.frame_bytes_max.min(FRAME_BYTES_MAX) - HEADER_BYTES;
        if body.len() > bytes_max {
            return Err(TransportError::TooLong {
                bytes: body.len(),
                bytes_max,
            });
        }
        let header = Header::new(Kind::Request, self.next_number);
        self.next_number += 1;
        self.waiting += 1;
        Ok(header)
    }

    /// Asks, and blocks until the response is there. The bytes stay valid until the next call.
    ///
    /// # Errors
    /// Fails when the connection is lost, the response takes too long, or the service failed. After the first two the
    /// client is of no more use.
    pub fn call(&mut self, body: &[u8]) -> Result<&[u8], TransportError> {
        let header = self.header(body)?;
        if self.out.is_empty() {
            self.connection.send(header, body)?;
        } else {
            self.put(header, body)?;
        }
        self.await_reply(header.sequence)
    }

    fn await_reply(&mut self, number: u64) -> Result<&[u8], TransportError> {
        loop {
            // Earlier requests are answered first; their callers do not wait any more.
            let reply = self.complete()?;
            if reply.number == number {
                break;
            }
        }
        self.last()
    }

    /// As [`Client::call`], and hands the response over where it lies: over `shm://` that spares a copy, elsewhere it is
    /// the same. The server can change the bytes while they are read: decide by copies.
    ///
    /// ```
    /// # use logdrive_ship::session::{ReplyBuffer, Peer, Service};
    /// # use logdrive_messaging::Client;
    /// # use logdrive_ship::{Address, Options, Threads, TransportError, serve};
    /// # struct Echo;
    /// # impl Service for Echo {
    /// #     fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
    /// #         reply.extend_from_slice(body);
    /// #         Ok(())
    /// #     }
    /// # }
    /// # fn main() -> Result<(), TransportError> {
    /// # let options = Options::default();
    /// # let anywhere: Address = "tcp://127.0.0.1:0".parse()?;
    /// # let server = serve(&[anywhere], &options, Threads::default(), std::sync::Arc::new(Echo))?;
    /// # let mut client = Client::connect(&server.addresses()[0], &options)?;
    /// let first = client.call_in_place(b"seven", |reply| (reply.byte(0), reply.len()))?;
    /// assert_eq!(first, (Some(b's'), 5));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn call_in_place<R>(
        &mut self,
        body: &[u8],
        read: impl FnOnce(InPlace<'_>) -> R,
    ) -> Result<R, TransportError> {
        if !self.out.is_empty() || self.waiting > 0 {
            // Answers to others come first.
            return Ok(read(InPlace::from(self.call(body)?)));
        }
        let header = self.header(body)?;
        self.connection.send(header, body)?;
        let mut read = Some(read);
        let found = self
            .connection
            .next_in_place(self.response_timeout, |found, reply| {
                (found.sequence == header.sequence)
                    .then(|| read.take().map(|read| read(reply)))
                    .flatten()
            })?;
        match (found, read) {
            (Some(Some(result)), _) => {
                self.waiting = self.waiting.saturating_sub(1);
                Ok(result)
            }
            (_, Some(read)) => Ok(read(InPlace::from(self.await_reply(header.sequence)?))),
            (_, None) => Err(self.timeout()),
        }
    }

    /// The reply that was completed last.
    fn last(&mut self) -> Result<&[u8], TransportError> {
        match self.connection.last() {
            Some(frame) if frame.header.flags & FLAG_FAILED == 0 => Ok(frame.payload),
            Some(frame) => Err(TransportError::Failed(
                String::from_utf8_lossy(frame.payload)
                    .chars()
                    .filter(|c| !c.is_control())
                    .collect(),
            )),
            None => Ok(&[]),
        }
    }

    /// Asks without waiting for the response, and gives the request's number. It is sent with others, at the latest by
    /// [`Client::complete`].
    ///
    /// # Errors
    /// Fails when the connection is lost, or too many requests wait already.
    pub fn submit(&mut self, body: &[u8]) -> Result<u64, TransportError> {
        self.submit_on(0, body)
    }

    /// As [`Client::submit`], on a stream of the connection: a number that the service is given with the request.
    ///
    /// # Errors
    /// As [`Client::submit`].
    pub fn submit_on(&mut self, stream: u16, body: &[u8]) -> Result<u64, TransportError> {
        if self.waiting >= REQUESTS_MAX {
            return Err(TransportError::Option {
                option: "requests under way",
                found: (self.waiting + 1).to_string(),
                allowed: "at most 4096: complete some first",
            });
        }
        let mut header = self.header(body)?;
        header.stream = stream;
        self.put(header, body)?;
        Ok(header.sequence)
    }

    fn put(&mut self, header: Header, body: &[u8]) -> Result<(), TransportError> {
        header.put(&[body], self.connection.is_checked(), &mut self.out);
        self.out.resize(
            self.out
                .len()
                .next_multiple_of(self.connection.properties().alignment),
            0,
        );
        if self.out.len() >= self.batch_bytes.min(PIECE_BYTES) {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends what was submitted.
    ///
    /// # Errors
    /// Fails when the connection is lost.
    pub fn flush(&mut self) -> Result<(), TransportError> {
        if self.out.is_empty() {
            return Ok(());
        }
        let sent = self.connection.send_parts(&mut [IoSlice::new(&self.out)]);
        self.out.clear();
        sent
    }

    /// Sends messages one way, and blocks until the service at the other end has taken all of them. They travel in
    /// batches that are acknowledged together: the more at once, the less each costs. Where the connection is lost,
    /// those of an unknown part have been taken.
    ///
    /// ```
    /// # use logdrive_ship::session::{Peer, Service};
    /// # use logdrive_messaging::Client;
    /// # use logdrive_ship::{Address, Options, Threads, serve};
    /// # use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
    /// # #[derive(Default)]
    /// # struct Count(AtomicU64);
    /// # impl Service for Count {
    /// #     fn message(&self, _: &Peer, _: u16, _: &[u8]) { self.0.fetch_add(1, Ordering::Relaxed); }
    /// # }
    /// # fn main() -> Result<(), logdrive_ship::TransportError> {
    /// # let (options, count) = (Options::default(), Arc::new(Count::default()));
    /// # let anywhere: Address = "tcp://127.0.0.1:0".parse()?;
    /// # let server = serve(&[anywhere], &options, Threads::default(), count.clone())?;
    /// let mut client = Client::connect(&server.addresses()[0], &options)?;
    /// client.deliver(&["AAPL 189.25", "MSFT 415.10"])?;
    /// # assert_eq!(count.0.load(Ordering::Relaxed), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails when one of them is too long, requests are under way, the connection is lost or the other end takes too
    /// long. After the last two the client is of no more use.
    pub fn deliver<M: AsRef<[u8]>>(&mut self, messages: &[M]) -> Result<(), TransportError> {
        if self.waiting > 0 {
            // Their responses would come between.
            return Err(TransportError::Option {
                option: "requests under way",
                found: self.waiting.to_string(),
                allowed: "none while messages are delivered: complete them first",
            });
        }
        let frame_bytes = self.frame_bytes_max.min(FRAME_BYTES_MAX);
        let bytes_max = frame_bytes - HEADER_BYTES - 4;
        let lengths = messages.iter().map(|message| message.as_ref().len());
        if let Some(bytes) = lengths.max().filter(|bytes| *bytes > bytes_max) {
            return Err(TransportError::TooLong { bytes, bytes_max });
        }
        let (mut payload, mut count) = (Vec::new(), 0);
        for message in messages {
            let message = message.as_ref();
            if count > 0 && payload.len() + 4 + message.len() > self.batch_bytes.min(bytes_max + 4) {
                self.send_messages(&payload, count)?;
                (count, payload) = (0, Vec::new());
            }
            payload.extend_from_slice(&(message.len() as u32).to_le_bytes());
            payload.extend_from_slice(message);
            count += 1;
        }
        if count > 0 {
            self.send_messages(&payload, count)?;
        }
        self.wait_acknowledged()
    }

    fn send_messages(&mut self, payload: &[u8], count: u32) -> Result<(), TransportError> {
        let mut header = Header::new(Kind::Batch, self.messages_sent);
        header.count = count;
        self.messages_sent += u64::from(count);
        let sent = self.connection.send(header, payload);
        sent.map_err(|error| self.connection.explained(error))
    }

    /// Waits until all messages so far are acknowledged.
    fn wait_acknowledged(&mut self) -> Result<(), TransportError> {
        let timeout = self.response_timeout;
        let mut acknowledged = self.acknowledged;
        while acknowledged < self.messages_sent {
            let Some(frame) = self.connection.next(timeout)? else {
                return Err(TransportError::timeout(
                    self.connection.address(),
                    "acknowledge",
                    timeout,
                ));
            };
            if frame.header.kind == Kind::Ack {
                acknowledged = acknowledged.max(frame.header.sequence);
            }
        }
        self.acknowledged = acknowledged;
        Ok(())
    }

    fn timeout(&self) -> TransportError {
        TransportError::timeout(self.connection.address(), "answer", self.response_timeout)
    }

    /// Requests without a response so far.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The next response, whichever it is. Blocks until there is one, at most for the response timeout.
    ///
    /// # Errors
    /// Fails when the connection is lost, or no response came in time.
    pub fn complete(&mut self) -> Result<Reply<'_>, TransportError> {
        if !self.connection.has_frame()? {
            self.flush()?;
        }
        let timeout = self.response_timeout;
        self.connection.set_busy(self.waiting > 1);
        loop {
            let found = self.connection.next(timeout)?.map(|frame| frame.header.kind);
            match found {
                None => return Err(self.timeout()),
                Some(Kind::Response) => break,
                Some(_) => {}
            }
        }
        self.waiting = self.waiting.saturating_sub(1);
        let Some(frame) = self.connection.last() else {
            return Ok(Reply {
                number: 0,
                result: Ok(&[]),
            });
        };
        let failed = frame.header.flags & FLAG_FAILED != 0;
        Ok(Reply {
            number: frame.header.sequence,
            result: match failed {
                true => Err(std::str::from_utf8(frame.payload).unwrap_or("the service failed")),
                false => Ok(frame.payload),
            },
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.close();
    }
}
