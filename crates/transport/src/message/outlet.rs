//! Where a sender's batches go: a stream of bytes, or datagrams.

#[cfg(feature = "udp")]
use super::datagrams::Datagrams;
use crate::TransportError;
use crate::address::Address;
use crate::connection::Connection;
use crate::limits::FRAME_BYTES_MAX;
use crate::options::Options;
use std::io::IoSlice;

#[derive(Debug)]
pub(crate) enum Outlet {
    Stream(Connection),
    #[cfg(feature = "udp")]
    Datagrams(Box<Datagrams>),
}

impl Outlet {
    /// Connects; gives the bytes of a frame that the other end takes, too.
    pub(crate) fn connect(address: &Address, options: &Options) -> Result<(Self, usize), TransportError> {
        #[cfg(feature = "udp")]
        if let Address::Udp(place) = address {
            let datagrams = Datagrams::connect(address, place, options)?;
            return Ok((Self::Datagrams(Box::new(datagrams)), options.datagram_bytes));
        }
        let (connection, hello) = Connection::greet(address, options)?;
        let frame_bytes = (hello.frame_bytes_max as usize).min(FRAME_BYTES_MAX);
        Ok((Self::Stream(connection), frame_bytes))
    }

    pub(crate) fn is_checked(&self) -> bool {
        match self {
            Self::Stream(connection) => connection.checked,
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.checked,
        }
    }

    /// Whether frames wait for others.
    pub(crate) fn waits(&self) -> bool {
        match self {
            Self::Stream(_) => false,
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.waits(),
        }
    }

    /// Sends a frame that ends before the message with number `next`.
    pub(crate) fn send(&mut self, frame: &mut Vec<u8>, next: u64) -> Result<(), TransportError> {
        match self {
            Self::Stream(connection) => {
                let length = frame.len().next_multiple_of(connection.alignment);
                frame.resize(length, 0);
                connection.send_batch(frame)
            }
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.put(&[frame], next),
        }
    }

    /// As [`Outlet::send`], in two parts and at once.
    pub(crate) fn send_alone(
        &mut self,
        head: &[u8],
        message: &[u8],
        next: u64,
    ) -> Result<(), TransportError> {
        match self {
            Self::Stream(connection) => {
                let length = head.len() + message.len();
                let padding = length.next_multiple_of(connection.alignment) - length;
                let zeros = [0; 8];
                let zeros = zeros.get(..padding).unwrap_or(&[]);
                let mut parts = [IoSlice::new(head), IoSlice::new(message), IoSlice::new(zeros)];
                let used = if padding > 0 { 3 } else { 2 };
                connection.send_one_way(parts.get_mut(..used).unwrap_or(&mut []))
            }
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => {
                datagrams.put(&[head, message], next)?;
                datagrams.flush()
            }
        }
    }

    /// Sends what waits for others.
    pub(crate) fn flush(&mut self) -> Result<(), TransportError> {
        match self {
            Self::Stream(_) => Ok(()),
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.flush(),
        }
    }

    /// Says goodbye after `next` messages.
    pub(crate) fn part(&mut self, next: u64) {
        match self {
            Self::Stream(connection) => connection.part(),
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.part(next),
        }
    }
}
