//! Requests and their responses, many at once on one connection.

use crate::TransportError;
use crate::address::Address;
use crate::connection::Connection;
use crate::frame::{FLAG_FAILED, HEADER_BYTES, Header, Kind};
use crate::limits::REQUESTS_MAX;
use crate::link::millis;
use crate::options::Options;
use std::io::IoSlice;
use std::time::Duration;

/// Asks a service.
///
/// Nothing runs behind it: requests go out and responses come in while one of its methods is called. With
/// [`Client::submit`] and [`Client::complete`] many requests are under way at once, and travel together.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    next: u64,
    waiting: usize,
    out: Vec<u8>,
    batch_bytes: usize,
    frame_bytes_max: usize,
    response_timeout: Duration,
}

/// A response.
#[derive(Debug)]
pub struct Reply<'a> {
    /// The number that [`Client::submit`] gave.
    pub number: u64,
    /// What the service said; its words when it failed.
    pub result: Result<&'a [u8], &'a str>,
}

impl Client {
    /// Connects. Blocks until the other end has said hello, at most as long as the options allow.
    ///
    /// # Errors
    /// When nobody answers there, or will not serve us.
    pub fn connect(address: &Address, options: &Options) -> Result<Self, TransportError> {
        let (connection, hello) = Connection::greet(address, options)?;
        Ok(Self {
            connection,
            next: 1,
            waiting: 0,
            out: Vec::new(),
            batch_bytes: options.batch_bytes,
            frame_bytes_max: hello.frame_bytes_max as usize,
            response_timeout: options.response_timeout,
        })
    }

    fn header(&mut self, body: &[u8]) -> Result<Header, TransportError> {
        let bytes_max = self.frame_bytes_max.min(crate::limits::FRAME_BYTES_MAX) - HEADER_BYTES;
        if body.len() > bytes_max {
            return Err(TransportError::TooLong {
                bytes: body.len(),
                bytes_max,
            });
        }
        let header = Header::new(Kind::Request, self.next);
        self.next += 1;
        self.waiting += 1;
        Ok(header)
    }

    /// Asks, and blocks until the response is there. The bytes stay valid until the next call.
    ///
    /// # Errors
    /// When the connection is lost, the response takes too long, or the service failed. After the first two the client
    /// is of no more use.
    pub fn call(&mut self, body: &[u8]) -> Result<&[u8], TransportError> {
        let header = self.header(body)?;
        if self.out.is_empty() {
            self.connection.send(header, body)?;
        } else {
            self.put(header, body)?;
        }
        let number = header.sequence;
        loop {
            // What was asked before is answered first; nobody waits for it any more.
            let reply = self.complete()?;
            if reply.number == number {
                break;
            }
        }
        self.last()
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
    /// When the connection is lost, or too many requests wait already.
    pub fn submit(&mut self, body: &[u8]) -> Result<u64, TransportError> {
        if self.waiting >= REQUESTS_MAX {
            return Err(TransportError::Option {
                option: "requests under way",
                found: (self.waiting + 1).to_string(),
                allowed: "at most 4096: complete some first",
            });
        }
        let header = self.header(body)?;
        self.put(header, body)?;
        Ok(header.sequence)
    }

    fn put(&mut self, header: Header, body: &[u8]) -> Result<(), TransportError> {
        header.put(&[body], self.connection.checked, &mut self.out);
        self.out
            .resize(self.out.len().next_multiple_of(self.connection.alignment), 0);
        if self.out.len() >= self.batch_bytes {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends what was submitted.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn flush(&mut self) -> Result<(), TransportError> {
        if self.out.is_empty() {
            return Ok(());
        }
        let sent = self.connection.send_parts(&mut [IoSlice::new(&self.out)]);
        self.out.clear();
        sent
    }

    /// Requests without a response so far.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The next response, whichever it is. Blocks until there is one, at most for the response timeout.
    ///
    /// # Errors
    /// When the connection is lost, or no response came in time.
    pub fn complete(&mut self) -> Result<Reply<'_>, TransportError> {
        if !self.connection.has_frame()? {
            self.flush()?;
        }
        let timeout = self.response_timeout;
        let address = self.connection.address.clone();
        loop {
            match self.connection.next(timeout)? {
                None => {
                    return Err(TransportError::Timeout {
                        address,
                        what: "answer",
                        ms: millis(timeout),
                    });
                }
                Some(frame) if frame.header.kind == Kind::Response => break,
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
        self.connection.part();
    }
}
