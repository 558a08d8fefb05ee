//! A connection for a caller that may not block: each call takes what is there, or sends what there is room for, and the
//! caller waits as [`NonBlocking::readiness`] says.

use crate::TransportError;
use crate::frame::{Frame, Kind};
use crate::hello::decode_goodbye;
use crate::link::Link;
use crate::receive_buffer::ReceiveBuffer;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Connection whose calls never wait.
pub struct NonBlocking {
    link: Box<dyn Link>,
    address: String,
    is_checked: bool,
    alignment: usize,
    inbox: ReceiveBuffer,
}

/// Way to wait for a connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum Readiness<'a> {
    /// An event loop watches this descriptor, for both directions, by changes (edge-triggered).
    Descriptor(BorrowedFd<'a>),
    /// This is notified when something has come, or there is room again.
    #[cfg(feature = "quic")]
    Notify(std::sync::Arc<tokio::sync::Notify>),
    /// A thread waits in [`NonBlocking::wait`].
    Thread,
}

impl NonBlocking {
    pub(crate) fn new(link: Box<dyn Link>, address: String, is_checked: bool, inbox: ReceiveBuffer) -> Self {
        Self {
            alignment: link.alignment(),
            link,
            address,
            is_checked,
            inbox,
        }
    }

    /// Address of the other end, for people.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns whether payloads are covered by the frames' checksums.
    pub fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// Number of bytes of which the start of each frame is a multiple.
    pub fn alignment(&self) -> usize {
        self.alignment
    }

    /// Way to wait for it.
    pub fn readiness(&self) -> Readiness<'_> {
        #[cfg(feature = "quic")]
        if let Some(notify) = self.link.notify() {
            return Readiness::Notify(notify);
        }
        match self.link.descriptor() {
            Some(descriptor) => Readiness::Descriptor(descriptor),
            None => Readiness::Thread,
        }
    }

    /// Sends the front of the bytes, and returns how many have gone: 0 when there is no room.
    ///
    /// # Errors
    /// Fails when the connection is lost.
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<usize, TransportError> {
        match self.link.try_send(&[IoSlice::new(bytes)]) {
            Ok(sent) => Ok(sent),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(cause) => Err(TransportError::lost(&self.address)(cause)),
        }
    }

    /// Sends what the link holds back of what it has taken. `false`: some is left.
    ///
    /// # Errors
    /// Fails when the connection is lost.
    pub fn try_flush(&mut self) -> Result<bool, TransportError> {
        match self.link.flush() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(cause) => Err(TransportError::lost(&self.address)(cause)),
        }
    }

    /// The next frame; `None` when none has come whole. A goodbye is an error.
    ///
    /// # Errors
    /// Fails when the connection is lost, or the other end sends what is no frame.
    pub fn try_next(&mut self) -> Result<Option<Frame<'_>>, TransportError> {
        let malformed = |address: &str| TransportError::malformed(address.to_owned());
        while !self
            .inbox
            .has_frame(self.alignment)
            .map_err(malformed(&self.address))?
        {
            match self.link.try_receive(self.inbox.space()) {
                Ok(0) => {
                    return Err(TransportError::lost(&self.address)(
                        io::ErrorKind::UnexpectedEof.into(),
                    ));
                }
                Ok(length) => self.inbox.filled(length),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(cause) => return Err(TransportError::lost(&self.address)(cause)),
            }
        }
        let address = &self.address;
        let frame = self.inbox.take_frame(self.alignment);
        let Some(goodbye) = frame.filter(|frame| frame.header.kind == Kind::Goodbye) else {
            return Ok(frame);
        };
        let (reason, words) = decode_goodbye(goodbye.payload).map_err(malformed(address))?;
        Err(TransportError::Refused {
            address: address.clone(),
            reason,
            words: words.chars().filter(|c| !c.is_control()).collect(),
        })
    }

    /// Blocks until something has come or, where that is asked for, there is room; or [`NonBlocking::waker`] is called, or
    /// the time is over.
    ///
    /// # Errors
    /// Fails when the connection is lost.
    pub fn wait(&mut self, for_room: bool, timeout: Duration) -> Result<(), TransportError> {
        let waited = self.link.wait(for_room, timeout);
        waited.map(drop).map_err(TransportError::lost(&self.address))
    }

    /// Ends a [`NonBlocking::wait`] for what comes, or the next one, from another thread. `None` where an event loop waits.
    pub fn waker(&self) -> Option<Box<dyn Fn() + Send>> {
        self.link.waker()
    }

    /// Nothing more will be sent: what has been is sent on by the link as it is dropped.
    pub fn finish(&mut self) {
        self.link.finish();
    }
}

impl std::fmt::Debug for NonBlocking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NonBlocking")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
