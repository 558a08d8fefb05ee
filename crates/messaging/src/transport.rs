//! The transport of a sender's batches: a stream of bytes, or datagrams.

#[cfg(feature = "udp")]
use crate::datagrams::Datagrams;
use logdrive_ring::PipeWriter;
use logdrive_ship::connection::Connection;
use logdrive_ship::limits::FRAME_BYTES_MAX;
use logdrive_ship::{Address, Options, TransportError};

#[derive(Debug)]
pub(crate) enum Transport {
    Stream {
        connection: Box<Connection>,
        /// Connections of further streams with their numbers, where the link has streams of its own.
        others: Vec<(u16, Connection)>,
    },
    #[cfg(feature = "udp")]
    Datagrams(Box<Datagrams>),
}

impl Transport {
    /// Connects; gives the bytes of a frame that the other end takes, too.
    pub(crate) fn connect(address: &Address, options: &Options) -> Result<(Self, usize), TransportError> {
        #[cfg(feature = "udp")]
        if let Address::Udp(host_port) = address {
            let datagrams = Datagrams::connect(address, host_port, options)?;
            return Ok((Self::Datagrams(Box::new(datagrams)), options.datagram_bytes));
        }
        let (connection, hello) = Connection::connect(address, options, 0)?;
        let frame_bytes = (hello.frame_bytes_max as usize).min(FRAME_BYTES_MAX);
        let others = Vec::new();
        let connection = Box::new(connection);
        Ok((Self::Stream { connection, others }, frame_bytes))
    }

    /// The connection of stream 0; `None` for datagrams.
    fn first(&self) -> Option<&Connection> {
        match self {
            Self::Stream { connection, .. } => Some(connection),
            #[cfg(feature = "udp")]
            Self::Datagrams(_) => None,
        }
    }

    pub(crate) fn is_checked(&self) -> bool {
        match self {
            Self::Stream { connection, .. } => connection.is_checked(),
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.checked,
        }
    }

    /// A message of so many bytes is better sent by itself.
    pub(crate) fn direct_bytes(&self) -> usize {
        self.first()
            .map_or(usize::MAX, |first| first.properties().direct_bytes)
    }

    /// Returns whether several frames may go in one system call, and small ones be kept for that.
    pub(crate) fn gathers(&self) -> bool {
        let properties = self.first().map(Connection::properties);
        properties.is_some_and(|link| link.alignment == 1 && !link.has_streams)
    }

    /// Opens a stream where the link has its own; elsewhere the frames' header says which they belong to.
    pub(crate) fn open(&mut self, stream: u16) -> Result<(), TransportError> {
        if let Self::Stream { connection, others } = self
            && stream > 0
            && connection.properties().has_streams
        {
            others.push((stream, connection.open_stream()?));
        }
        Ok(())
    }

    /// Returns whether frames wait for others.
    pub(crate) fn has_pending(&self) -> bool {
        match self {
            Self::Stream { connection, .. } => connection.is_corked(),
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.has_pending(),
        }
    }

    /// Returns whether a frame that is sent now waits for those before it.
    pub(crate) fn is_congested(&self) -> bool {
        self.first().is_some_and(Connection::is_congested)
    }

    /// Sends a frame of a stream that ends before the message with number `next`. With `more`, others follow soon.
    pub(crate) fn send(
        &mut self,
        stream: u16,
        frame: &mut Vec<u8>,
        next: u64,
        more: bool,
    ) -> Result<(), TransportError> {
        match self {
            Self::Stream { connection, others } => {
                of_stream(connection, others, stream).send_batch(frame, more)
            }
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.put(&[frame], next),
        }
    }

    /// As [`Transport::send`], in two parts.
    pub(crate) fn send_alone(
        &mut self,
        stream: u16,
        head: &[u8],
        message: &[u8],
        next: u64,
        more: bool,
    ) -> Result<(), TransportError> {
        match self {
            Self::Stream { connection, others } => {
                of_stream(connection, others, stream).send_one_way(head, message, more)
            }
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => {
                datagrams.put(&[head, message], next)?;
                if more { Ok(()) } else { datagrams.flush() }
            }
        }
    }

    /// The ring that messages may be written into where they are read, if there is one, and they need no checksum.
    pub(crate) fn writer(&mut self) -> Result<Option<&mut PipeWriter>, TransportError> {
        match self {
            Self::Stream { connection, .. } if !connection.is_checked() => connection.writer(),
            _ => Ok(None),
        }
    }

    /// Returns whether [`Transport::flush`] costs next to nothing.
    pub(crate) fn flushes_cheaply(&self) -> bool {
        self.first()
            .is_some_and(|first| first.properties().uncorks_cheaply)
    }

    /// Sends what waits for others.
    pub(crate) fn flush(&mut self) -> Result<(), TransportError> {
        match self {
            Self::Stream { connection, .. } => connection.uncork(),
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.flush(),
        }
    }

    /// Closes after `next` messages.
    pub(crate) fn close(&mut self, next: u64) {
        match self {
            Self::Stream { connection, others } => {
                others.iter_mut().for_each(|(_, connection)| connection.close());
                connection.close();
                // Streams end by themselves: the connection does when the last one has.
                others.clear();
            }
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.close(next),
        }
    }
}

/// The connection of a stream.
fn of_stream<'a>(
    first: &'a mut Connection,
    others: &'a mut [(u16, Connection)],
    stream: u16,
) -> &'a mut Connection {
    let other = others.iter_mut().find(|(number, _)| *number == stream);
    other.map_or(first, |(_, connection)| connection)
}
