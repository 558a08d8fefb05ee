//! The transport of a sender's batches: a stream of bytes, or datagrams.

#[cfg(feature = "udp")]
use crate::datagrams::Datagrams;
use logdrive_ring::PipeWriter;
use logdrive_ship::connection::Connection;
use logdrive_ship::limits::FRAME_BYTES_MAX;
use logdrive_ship::{Address, Options, TransportError};

#[derive(Debug)]
pub(crate) enum Transport {
    Stream(Connection),
    /// A link that has streams of its own: the connection's first, and those that were opened, with their numbers.
    Streams(Connection, Vec<(u16, Connection)>),
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
        let transport = match connection.properties().has_streams {
            true => Self::Streams(connection, Vec::new()),
            false => Self::Stream(connection),
        };
        Ok((transport, frame_bytes))
    }

    pub(crate) fn is_checked(&self) -> bool {
        match self {
            Self::Stream(connection) | Self::Streams(connection, _) => connection.is_checked(),
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.checked,
        }
    }

    /// A message of so many bytes is better sent by itself.
    pub(crate) fn direct_bytes(&self) -> usize {
        match self {
            Self::Stream(connection) => connection.properties().direct_bytes,
            _ => usize::MAX,
        }
    }

    /// Returns whether several frames may go in one system call, and small ones be kept for that.
    pub(crate) fn gathers(&self) -> bool {
        matches!(self, Self::Stream(connection) if connection.properties().alignment == 1)
    }

    /// Opens a stream where the link has its own; elsewhere the frames' header says which they belong to.
    pub(crate) fn open(&mut self, stream: u16) -> Result<(), TransportError> {
        if let Self::Streams(first, others) = self
            && stream > 0
        {
            others.push((stream, first.open_stream()?));
        }
        Ok(())
    }

    /// The connection of a stream; `None` for datagrams.
    fn connection(&mut self, stream: u16) -> Option<&mut Connection> {
        match self {
            Self::Stream(connection) => Some(connection),
            Self::Streams(first, others) => {
                let other = others.iter_mut().find(|(number, _)| *number == stream);
                Some(other.map_or(first, |(_, connection)| connection))
            }
            #[cfg(feature = "udp")]
            Self::Datagrams(_) => None,
        }
    }

    /// Returns whether frames wait for others.
    pub(crate) fn has_pending(&self) -> bool {
        match self {
            Self::Stream(connection) => connection.is_corked(),
            Self::Streams(..) => false,
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.has_pending(),
        }
    }

    /// Returns whether a frame that is sent now waits for those before it.
    pub(crate) fn is_congested(&self) -> bool {
        matches!(self, Self::Streams(first, _) if first.is_congested())
    }

    /// Sends a frame of a stream that ends before the message with number `next`. With `more`, others follow soon.
    pub(crate) fn send(
        &mut self,
        stream: u16,
        frame: &mut Vec<u8>,
        next: u64,
        more: bool,
    ) -> Result<(), TransportError> {
        if let Some(connection) = self.connection(stream) {
            return connection.send_batch(frame, more);
        }
        match self {
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.put(&[frame], next),
            _ => Ok(()),
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
        if let Some(connection) = self.connection(stream) {
            return connection.send_one_way(head, message, more);
        }
        match self {
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => {
                datagrams.put(&[head, message], next)?;
                if more { Ok(()) } else { datagrams.flush() }
            }
            _ => Ok(()),
        }
    }

    /// The ring that messages may be written into where they are read, if there is one, and they need no checksum.
    pub(crate) fn writer(&mut self) -> Option<&mut PipeWriter> {
        match self {
            Self::Stream(connection) if !connection.is_checked() => connection.writer(),
            _ => None,
        }
    }

    /// Returns whether [`Transport::flush`] costs next to nothing.
    pub(crate) fn flushes_cheaply(&self) -> bool {
        match self {
            Self::Stream(connection) => connection.properties().uncorks_cheaply,
            _ => false,
        }
    }

    /// Sends what waits for others.
    pub(crate) fn flush(&mut self) -> Result<(), TransportError> {
        match self {
            Self::Stream(connection) => connection.uncork(),
            Self::Streams(..) => Ok(()),
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.flush(),
        }
    }

    /// Closes after `next` messages.
    pub(crate) fn close(&mut self, next: u64) {
        match self {
            Self::Stream(connection) => connection.close(),
            Self::Streams(first, others) => {
                others.iter_mut().for_each(|(_, connection)| connection.close());
                first.close();
                // Streams end by themselves: the connection does when the last one has.
                others.clear();
            }
            #[cfg(feature = "udp")]
            Self::Datagrams(datagrams) => datagrams.close(next),
        }
    }
}
