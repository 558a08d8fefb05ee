//! Requests and their responses, many at once on one connection.

mod inbox;
mod reconnect;
mod requests;

use inbox::Inbox;
pub use inbox::Pushed;
use logdrive_ship::connection::Connection;
use logdrive_ship::frame::{FLAG_FAILED, Frame, HEADER_BYTES, Header, Kind, Messages};
use logdrive_ship::limits::{FRAME_BYTES_MAX, PIECE_BYTES, REQUESTS_MAX};
use logdrive_ship::session::InPlace;
use logdrive_ship::{Address, Options, TransportError};
use reconnect::Reconnect;
pub(crate) use reconnect::loses_connection;
use requests::Requests;
use std::io::IoSlice;
use std::time::{Duration, Instant};

/// Connection to a service that answers requests.
///
/// Nothing runs behind it: requests go out and responses come in while one of its methods is called. With
/// [`Client::submit`] and [`Client::complete`] many requests are under way at once, and travel together. One thread
/// uses it at a time.
///
/// When the connection is lost, the call that finds out fails, with all requests under way; the next one connects again,
/// with pauses between attempts that grow up to 5 s: once, and with a deadline as often as that allows. No request is sent twice. A connection that the server has closed while
/// nothing was under way is made again unnoticed.
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
    reconnect: Reconnect,
    inbox: Inbox,
    requests: Requests,
    /// Number of the next message that goes one way.
    messages_sent: u64,
    /// All messages before this number have been acknowledged.
    acknowledged: u64,
    out: Vec<u8>,
    batch_bytes: usize,
    frame_bytes_max: usize,
    /// Number of bytes of which the start of each frame is a multiple; the same for all connections to an address.
    alignment: usize,
    /// The server knows frames that cancel requests.
    knows_cancel: bool,
    response_timeout: Duration,
    idle_timeout: Duration,
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
        let (reconnect, connection, hello) = Reconnect::connect(address, options)?;
        Ok(Self {
            alignment: connection.properties().alignment,
            knows_cancel: hello.knows_cancel(),
            connection,
            reconnect,
            inbox: Inbox::default(),
            requests: Requests::new(),
            messages_sent: 0,
            acknowledged: 0,
            out: Vec::new(),
            batch_bytes: options.batch_bytes,
            frame_bytes_max: hello.frame_bytes_max as usize,
            response_timeout: options.timeouts.response,
            idle_timeout: options.timeouts.idle,
        })
    }

    /// Lets the next responses take so long.
    pub(crate) fn set_response_timeout(&mut self, timeout: Duration) {
        self.response_timeout = timeout;
    }

    /// Leaves a lost connection lost: the caller makes another client.
    pub(crate) fn without_reconnect(mut self) -> Self {
        self.reconnect.set_single();
        self
    }

    /// Makes sure of the connection before something is sent; connects again until `end`, by default once.
    fn ensure_connected(&mut self, end: Option<Instant>) -> Result<(), TransportError> {
        if self.requests.is_empty() && self.out.is_empty() {
            self.reconnect.look(&mut self.connection);
        }
        if !self.reconnect.is_lost() {
            return Ok(());
        }
        let (is_once, limit) = (end.is_none(), self.response_timeout);
        let end = end.unwrap_or_else(|| Instant::now() + limit);
        let (connection, hello) = self.reconnect.connect_again(end, is_once)?;
        self.connection = connection;
        self.frame_bytes_max = hello.frame_bytes_max as usize;
        self.knows_cancel = hello.knows_cancel();
        self.forget_requests();
        (self.messages_sent, self.acknowledged) = (0, 0);
        Ok(())
    }

    fn forget_requests(&mut self) {
        self.out.clear();
        self.requests.clear();
    }

    /// Notes that the connection is lost, where an error says so.
    fn noted<T>(&mut self, result: Result<T, TransportError>) -> Result<T, TransportError> {
        result.inspect_err(|error| {
            if loses_connection(error) {
                self.reconnect.set_lost();
                self.forget_requests();
            }
        })
    }

    /// As [`Client::noted`], of a send: after any failure only a part may have gone.
    fn sent(&mut self, result: Result<(), TransportError>) -> Result<(), TransportError> {
        result.map_err(|error| {
            self.reconnect.set_lost();
            self.forget_requests();
            self.connection.explained(error)
        })
    }

    fn header(&mut self, body: &[u8], end: Option<Instant>) -> Result<Header, TransportError> {
        self.ensure_connected(end)?;
        let bytes_max = self.frame_bytes_max.min(FRAME_BYTES_MAX) - HEADER_BYTES;
        if body.len() > bytes_max {
            return Err(TransportError::TooLong {
                bytes: body.len(),
                bytes_max,
            });
        }
        match self.requests.begin() {
            Some(number) => Ok(Header::new(Kind::Request, number)),
            None => Err(TransportError::Option {
                option: "requests under way",
                found: (REQUESTS_MAX + 1).to_string(),
                allowed: "at most 4096: complete some first",
            }),
        }
    }

    /// Asks, and blocks until the response is there. The bytes stay valid until the next call.
    ///
    /// # Errors
    /// Fails when the connection is lost, the response takes too long, or the service failed. One that comes too late is
    /// left out; the client goes on.
    pub fn call(&mut self, body: &[u8]) -> Result<&[u8], TransportError> {
        self.call_until(body, None)
    }

    /// As [`Client::call`], for so long at most: for the response, and for a connection where that has to be made again.
    ///
    /// ```
    /// # use logdrive_ship::session::{ReplyBuffer, Peer, Service};
    /// # use logdrive_messaging::Client;
    /// # use logdrive_ship::{Address, Options, Threads, TransportError, serve};
    /// # use std::{sync::Arc, time::Duration};
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
    /// # let server = serve(&[anywhere], &options, Threads::default(), Arc::new(Echo))?;
    /// # let mut client = Client::connect(&server.addresses()[0], &options)?;
    /// assert_eq!(client.call_within(b"one", Duration::from_secs(1))?, b"one");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn call_within(&mut self, body: &[u8], limit: Duration) -> Result<&[u8], TransportError> {
        self.call_until(body, Some(Instant::now() + limit))
    }

    fn call_until(&mut self, body: &[u8], end: Option<Instant>) -> Result<&[u8], TransportError> {
        let header = self.header(body, end)?;
        if self.out.is_empty() {
            let sent = self.connection.send(header, body);
            self.sent(sent)?;
        } else {
            self.put(header, body)?;
        }
        self.await_reply(header.sequence, end)
    }

    fn await_reply(&mut self, number: u64, end: Option<Instant>) -> Result<&[u8], TransportError> {
        loop {
            // Earlier requests are answered first; their callers do not wait any more.
            match self.complete_until(end) {
                Ok(found) if found == number => break,
                Ok(_) => {}
                Err(error) => {
                    self.cancel(number);
                    return Err(error);
                }
            }
        }
        match self.last().result {
            Ok(reply) => Ok(reply),
            Err(words) => Err(TransportError::Failed(
                words.chars().filter(|c| !c.is_control()).collect(),
            )),
        }
    }

    /// Gives up a request: its response, when it comes, is left out. `false`: it is not waited for. A server that knows such
    /// frames is told, without waiting: it takes the request out of the queue of its threads, or tells the handler that has
    /// deferred its reply, see [`DeferredReply::on_cancel`](logdrive_ship::session::DeferredReply::on_cancel).
    pub fn cancel(&mut self, number: u64) -> bool {
        let early = self.inbox.replies.iter().position(|(early, _)| *early == number);
        if let Some(index) = early {
            return self.inbox.replies.remove(index).is_some();
        }
        let is_canceled = self.requests.cancel(number, self.knows_cancel);
        if is_canceled && self.knows_cancel {
            self.send_cancel(number);
        }
        is_canceled
    }

    /// Puts it behind what is to be sent, and sends what the link takes of that now; the rest goes with the next request.
    fn send_cancel(&mut self, number: u64) {
        Header::new(Kind::Cancel, number).put(&[], false, &mut self.out);
        let padded = self.out.len().next_multiple_of(self.alignment);
        self.out.resize(padded, 0);
        // A connection that is lost is found by the next call.
        let sent = self.connection.try_send(&self.out).unwrap_or(0);
        self.out.drain(..sent);
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
        if !self.out.is_empty() || !self.requests.is_empty() || !self.inbox.replies.is_empty() {
            // Answers to others come first.
            return Ok(read(InPlace::from(self.call(body)?)));
        }
        let header = self.header(body, None)?;
        let sent = self.connection.send(header, body);
        self.sent(sent)?;
        let mut read = Some(read);
        let found = self
            .connection
            .next_in_place(self.response_timeout, |found, reply| {
                (found.sequence == header.sequence)
                    .then(|| read.take().map(|read| read(reply)))
                    .flatten()
            });
        match (self.noted(found)?, read) {
            (Some(Some(result)), _) => {
                self.requests.complete(header.sequence);
                Ok(result)
            }
            (_, Some(read)) => Ok(read(InPlace::from(self.await_reply(header.sequence, None)?))),
            (_, None) => Err(self.timeout()),
        }
    }

    /// The response that was completed last.
    fn last(&self) -> Reply<'_> {
        if let Some((number, result)) = &self.inbox.given {
            let result = result.as_deref().map_err(String::as_str);
            return Reply {
                number: *number,
                result,
            };
        }
        let Some(frame) = self.connection.last() else {
            return Reply {
                number: 0,
                result: Ok(&[]),
            };
        };
        Reply {
            number: frame.header.sequence,
            result: result_of(frame),
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
        let mut header = self.header(body, None)?;
        header.stream = stream;
        self.put(header, body)?;
        Ok(header.sequence)
    }

    fn put(&mut self, header: Header, body: &[u8]) -> Result<(), TransportError> {
        header.put(&[body], self.connection.is_checked(), &mut self.out);
        let padded = self.out.len().next_multiple_of(self.alignment);
        if padded > self.out.len() {
            self.out.resize(padded, 0);
        }
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
        self.sent(sent)
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
    /// long. After the last two the next call connects again.
    pub fn deliver<M: AsRef<[u8]>>(&mut self, messages: &[M]) -> Result<(), TransportError> {
        if self.waiting() > 0 {
            // Their responses would come between.
            return Err(TransportError::Option {
                option: "requests under way",
                found: self.waiting().to_string(),
                allowed: "none while messages are delivered: complete them first",
            });
        }
        self.ensure_connected(None)?;
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
        self.sent(sent)
    }

    /// Waits until all messages so far are acknowledged.
    fn wait_acknowledged(&mut self) -> Result<(), TransportError> {
        while self.acknowledged < self.messages_sent {
            let (connection, inbox) = (&mut self.connection, &mut self.inbox);
            let taken = take_frame(connection, inbox, self.response_timeout);
            match self.noted(taken)? {
                Some(header) if header.kind == Kind::Ack => {
                    self.acknowledged = self.acknowledged.max(header.sequence);
                }
                Some(_) => {}
                None => {
                    let (address, limit) = (self.connection.address(), self.response_timeout);
                    let error = TransportError::timeout(address, "acknowledge", limit);
                    // An ack that comes later would count for other messages.
                    self.reconnect.set_lost();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn timeout(&self) -> TransportError {
        TransportError::timeout(self.connection.address(), "answer", self.response_timeout)
    }

    /// Requests without a response so far.
    pub fn waiting(&self) -> usize {
        self.requests.waiting() + self.inbox.replies.len()
    }

    /// The next response, whichever it is. Blocks until there is one, at most for the response timeout.
    ///
    /// # Errors
    /// Fails when the connection is lost, or no response came in time.
    pub fn complete(&mut self) -> Result<Reply<'_>, TransportError> {
        self.complete_until(None)?;
        Ok(self.last())
    }

    /// Waits for a response that is not given up, and gives its number.
    fn complete_until(&mut self, end: Option<Instant>) -> Result<u64, TransportError> {
        if let Some(number) = self.inbox.give() {
            return Ok(number);
        }
        self.connection.set_busy(self.requests.waiting() > 1);
        loop {
            // Bytes that are no frame are found when it is taken.
            if !self.out.is_empty() && !self.connection.has_frame().unwrap_or(true) {
                self.flush()?;
            }
            let timeout = match end {
                None => self.response_timeout,
                Some(end) => end.saturating_duration_since(Instant::now()),
            };
            let header = match take_frame(&mut self.connection, &mut self.inbox, timeout) {
                Ok(Some(header)) => header,
                Ok(None) => return Err(self.timeout()),
                Err(error) => return self.noted(Err(error)),
            };
            if header.kind == Kind::Response && self.requests.complete(header.sequence) {
                return Ok(header.sequence);
            }
        }
    }

    /// The next message that the server has sent of its own accord, see
    /// [`Outbox::push`](logdrive_ship::session::Outbox::push); `None` when none came within `limit`. Messages also come while
    /// other methods wait, and are kept for this one, 4 MiB at most; those beyond are counted by [`Client::dropped`].
    ///
    /// While it waits, the server is told in time that this client lives. A client that is to get messages calls it again
    /// and again: after a connection was lost, which it returns as an error, the next call connects again.
    ///
    /// # Errors
    /// Fails when the connection is lost: what the server had for this client then is lost, too.
    pub fn next_pushed(&mut self, limit: Duration) -> Result<Option<Pushed>, TransportError> {
        if let Some(pushed) = self.inbox.take() {
            return Ok(Some(pushed));
        }
        let end = Instant::now() + limit;
        if self.reconnect.is_lost() {
            self.ensure_connected(Some(end))?;
        }
        self.flush()?;
        let keep_alive = self.idle_timeout / 3;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let taken = take_frame(&mut self.connection, &mut self.inbox, left.min(keep_alive));
            match self.noted(taken)? {
                Some(header) if header.kind == Kind::Response && self.requests.complete(header.sequence) => {
                    let reply = self
                        .connection
                        .last()
                        .map(|frame| result_of(frame).map_err(str::to_owned));
                    let reply = reply.unwrap_or(Ok(&[])).map(<[u8]>::to_vec);
                    self.inbox.replies.push_back((header.sequence, reply));
                }
                Some(_) => {}
                None if left <= keep_alive => return Ok(None),
                // A batch without messages says that this end lives.
                None => self.send_messages(&[], 0)?,
            }
            if let Some(pushed) = self.inbox.take() {
                return Ok(Some(pushed));
            }
        }
    }

    /// Number of messages of the server for which there was no room here.
    pub fn dropped(&self) -> u64 {
        self.inbox.dropped
    }
}

/// Takes the next frame, of which messages go to the inbox; `None` when none came in time.
fn take_frame(
    connection: &mut Connection,
    inbox: &mut Inbox,
    timeout: Duration,
) -> Result<Option<Header>, TransportError> {
    let Some(frame) = connection.next(timeout)? else {
        return Ok(None);
    };
    let header = frame.header;
    if header.kind == Kind::Batch {
        let messages = Messages::new(frame.payload, header.count);
        let taken = inbox.put(header.stream, messages);
        taken.map_err(TransportError::malformed(connection.address()))?;
    }
    Ok(Some(header))
}

/// The reply in a response, or its error in words.
fn result_of(frame: Frame<'_>) -> Result<&[u8], &str> {
    match frame.header.flags & FLAG_FAILED != 0 {
        true => Err(std::str::from_utf8(frame.payload).unwrap_or("the service failed")),
        false => Ok(frame.payload),
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.close();
    }
}
