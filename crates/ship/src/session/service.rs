//! The handler of all that comes to a server, and what it is given: peers, requests, and a buffer for replies.

use super::acks::Acks;
use super::outbox::{Deferral, DeferredReply, Outbox};
use super::reserved::Reserved;
use crate::frame::{FrameError, Messages};
use crate::hello::{Hello, Reason, Role};
use crate::identity::Identity;
use logdrive_ring::InPlace;

/// Peer at the other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// A number of its own among the connections of a server.
    pub id: u64,
    /// Its address, for people.
    pub address: String,
    /// The user, where the kernel vouches for it.
    pub uid: Option<u32>,
    /// Identity that the kernel or a certificate of our authority vouches for; `None` where there is none.
    pub identity: Option<Identity>,
    /// Hello of the peer; `None` before it has come.
    pub hello: Option<Hello>,
    /// Way to the peer from any thread.
    pub outbox: Outbox,
    /// Acknowledgements of its records, where the service defers them.
    pub acks: Acks,
}

/// Handler of all that comes to a server. Called on a poller's thread, or, for requests, on a pool's where the server is
/// told so; calls for one connection come in order.
pub trait Service: Send + Sync {
    /// Admits a peer that has sent its hello, and returns the number of its record that is wanted next.
    ///
    /// # Errors
    /// The reason for which it is refused.
    fn hello(&self, peer: &Peer) -> Result<u64, Reason> {
        match peer.hello.as_ref() {
            Some(hello) if hello.role == Role::Client => Ok(0),
            _ => Err(Reason::Unexpected),
        }
    }

    /// One message.
    fn message(&self, peer: &Peer, stream: u16, message: &[u8]) {
        let _ = (peer, stream, message);
    }

    /// The messages of a batch, in order. Of a long batch they come in several calls, as its bytes do.
    ///
    /// # Errors
    /// Fails when the batch is malformed; the connection ends.
    fn batch(&self, peer: &Peer, stream: u16, mut messages: Messages<'_>) -> Result<(), FrameError> {
        while let Some(message) = messages.next_message()? {
            self.message(peer, stream, message);
        }
        Ok(())
    }

    /// Answers a request: appends the reply, or takes the right to give it later with [`ReplyBuffer::defer`].
    ///
    /// # Errors
    /// Error in words, which the client gets instead of a reply.
    fn request(
        &self,
        peer: &Peer,
        stream: u16,
        body: &[u8],
        reply: &mut ReplyBuffer<'_>,
    ) -> Result<(), String> {
        let _ = (peer, stream, body, reply);
        Err("nobody answers requests here".to_owned())
    }

    /// Returns whether messages and requests of `shm://` are handed over where the peer has written them, which spares a
    /// copy: then [`Service::message_in_place`] and [`Service::request_in_place`] are called instead of the others, for
    /// frames that lie whole in the ring. Default: no.
    fn reads_in_place(&self) -> bool {
        false
    }

    /// One message that lies in the ring. It is released after the call, and the peer can change it until then: decide
    /// by copies.
    fn message_in_place(&self, peer: &Peer, stream: u16, message: InPlace<'_>) {
        self.message(peer, stream, &message.to_vec());
    }

    /// Answers a request that lies in the ring; the reply is written into the other ring. As for
    /// [`Service::message_in_place`].
    ///
    /// # Errors
    /// Error in words, which the client gets instead of a reply.
    fn request_in_place(
        &self,
        peer: &Peer,
        stream: u16,
        body: InPlace<'_>,
        reply: &mut Reserved<'_>,
    ) -> Result<(), String> {
        let mut bytes = Vec::new();
        let mut buffer = ReplyBuffer::new(&mut bytes);
        buffer.deferral = reply.deferral;
        let result = self.request(peer, stream, &body.to_vec(), &mut buffer);
        reply.extend_from_slice(&bytes);
        result
    }

    /// Keeps records of a shipper: `count` lines, the first with number `first`, of which some or all may have come
    /// before. Returns the number of the record that is wanted next, which acknowledges all before it; below `first` when
    /// records before the batch are missing, so that none of it was kept.
    ///
    /// # Errors
    /// The reason for which they cannot be kept; the connection ends.
    fn records(&self, peer: &Peer, first: u64, count: u32, lines: &[u8]) -> Result<u64, Reason> {
        let _ = (peer, first, count, lines);
        Err(Reason::Unexpected)
    }

    /// Returns whether [`Service::records`] only takes records, and [`Peer::acks`] acknowledges them later, from any thread.
    /// The number that the hello got counts as acknowledged. Default: no.
    fn defers_acks(&self) -> bool {
        false
    }

    /// Returns whether nothing more of this peer is to be read now, because too much that was taken waits for a disk. Asked
    /// again within 250 ms, and with each acknowledgement. Default: no.
    fn is_congested(&self, peer: &Peer) -> bool {
        let _ = peer;
        false
    }

    /// The sender has lost so many records or messages, and says so.
    fn gap(&self, peer: &Peer, lost: u64) {
        let _ = (peer, lost);
    }

    /// A call of this service for a peer panicked, with these words: the connection ends, others go on. For a program that
    /// tells of it; the panic hook has run before.
    fn panicked(&self, peer: &Peer, words: &str) {
        let _ = (peer, words);
    }

    /// The connection has ended.
    fn disconnected(&self, peer: &Peer, reason: Reason) {
        let _ = (peer, reason);
    }
}

/// Buffer for a service's reply: bytes that are appended, as to a `Vec<u8>` of its own.
///
/// ```
/// use logdrive_ship::session::ReplyBuffer;
/// use std::io::Write;
/// let mut bytes = b"what stands there already".to_vec();
/// let mut reply = ReplyBuffer::new(&mut bytes);
/// reply.extend_from_slice(b"4");
/// write!(reply, "{}", 2).unwrap();
/// assert_eq!(reply.as_slice(), b"42");
/// ```
#[derive(Debug)]
pub struct ReplyBuffer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    deferral: Option<Deferral<'a>>,
}

impl<'a> ReplyBuffer<'a> {
    /// Appends behind what is there.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self {
            out,
            start,
            deferral: None,
        }
    }

    /// As [`ReplyBuffer::new`], for the reply to a request, which may be deferred.
    #[inline]
    pub(crate) fn of_request(out: &'a mut Vec<u8>, deferral: Deferral<'a>) -> Self {
        let mut buffer = Self::new(out);
        buffer.deferral = Some(deferral);
        buffer
    }

    /// Takes the right to answer later, from any thread, once the handler has returned. What was appended here is left
    /// out.
    ///
    /// # Errors
    /// Fails when 4,096 requests of the connection wait for their answers already, or this one has been deferred.
    pub fn defer(&mut self) -> Result<DeferredReply, String> {
        self.deferral.ok_or("this request is answered at once")?.take()
    }

    /// Appends bytes. Allocates when there is no room.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// The reply so far.
    pub fn as_slice(&self) -> &[u8] {
        self.out.get(self.start..).unwrap_or(&[])
    }

    /// Begins again.
    pub fn clear(&mut self) {
        self.out.truncate(self.start);
    }
}

impl std::io::Write for ReplyBuffer<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Extend<u8> for ReplyBuffer<'_> {
    fn extend<T: IntoIterator<Item = u8>>(&mut self, bytes: T) {
        self.out.extend(bytes);
    }
}

/// A request for a thread of a pool.
#[derive(Debug)]
pub struct Job {
    /// The request's stream.
    pub stream: u16,
    /// The request's number.
    pub sequence: u64,
    /// Payload of the request.
    pub body: Vec<u8>,
}
