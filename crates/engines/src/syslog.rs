//! Syslog after RFC 5424, over TCP in octet-counted frames (RFC 6587), encrypted where that is wanted (RFC 5425), or in datagrams. None has acknowledgements: bytes in
//! the buffers of a connection that breaks are lost, so that the last batches are sent again by the next one. `id` in the
//! structured data tells twins.

use crate::address::EngineAddress;
use crate::batch::EngineBatch;
use crate::engine::Engine;
use crate::error::{EngineError, Refusal};
use crate::json::value_text;
use crate::limits::{CONNECT_TIMEOUT, RESPONSE_TIMEOUT};
use logdrive_reader::iso_text;
use logdrive_wire::Level;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};

/// Bytes of a datagram that any network carries in one piece or in few.
const DATAGRAM_BYTES_MAX: usize = 8 << 10;

/// Bytes that are sent again after a connection broke: what the buffers of both ends hold at most by default.
const WINDOW_BYTES: usize = 12 << 20;

/// Way to the server.
#[derive(Debug)]
enum Way {
    Tcp(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<crate::tls::TlsStream>),
    Udp(UdpSocket),
}

impl Way {
    /// Whether the server has closed the connection. It says so only to a read; else the first write after that is lost.
    fn is_closed(&mut self) -> io::Result<bool> {
        let stream = match self {
            Self::Tcp(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => return stream.is_closed(),
            Self::Udp(_) => return Ok(false),
        };
        stream.set_nonblocking(true)?;
        let closed =
            !matches!(stream.peek(&mut [0]), Err(cause) if cause.kind() == io::ErrorKind::WouldBlock);
        stream.set_nonblocking(false)?;
        Ok(closed)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write_all(bytes),
            Self::Udp(socket) => socket.send(bytes).map(|_| ()),
        }
    }
}

/// Client of a syslog server.
#[derive(Debug)]
pub(crate) struct Syslog {
    hosts: String,
    is_udp: bool,
    /// Encrypts connections; `None` where they are plain.
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::TlsClient>,
    way: Option<Way>,
    /// Batches that were written last to connections: what of them the server has read is not known.
    window: VecDeque<Vec<u8>>,
    /// Set where the connection broke after that.
    is_broken: bool,
}

impl Syslog {
    pub(crate) fn new(address: &EngineAddress) -> Result<Self, EngineError> {
        if !address.hosts.contains(':') {
            return Err(address.wrong("no port: syslog has 514, 601, or 6514 with TLS"));
        }
        #[cfg(not(feature = "tls"))]
        if address.transport() == "tls" {
            return Err(address.wrong("this build has no TLS: build with the feature `tls`"));
        }
        Ok(Self {
            hosts: address.hosts.clone(),
            is_udp: address.transport() == "udp",
            #[cfg(feature = "tls")]
            tls: match address.transport() {
                "tls" => Some(crate::tls::TlsClient::new(address)?),
                _ => None,
            },
            way: None,
            window: VecDeque::new(),
            is_broken: false,
        })
    }

    fn connect(&self) -> io::Result<Way> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in self.hosts.to_socket_addrs()? {
            if self.is_udp {
                let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                return Ok(Way::Udp(socket));
            }
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    stream.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
                    #[cfg(feature = "tls")]
                    if let Some(tls) = &self.tls {
                        return Ok(Way::Tls(Box::new(tls.connect(stream)?)));
                    }
                    return Ok(Way::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn send(&mut self, batch: &mut EngineBatch<'_>) -> io::Result<()> {
        let mut way = match self.way.take() {
            Some(way) => way,
            None => self.connect()?,
        };
        match &mut way {
            Way::Udp(socket) => send_datagrams(socket, batch)?,
            stream => {
                // Where this fails the way is gone, and with it what was written last.
                let was_broken = std::mem::replace(&mut self.is_broken, true);
                if stream.is_closed()? {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                if was_broken {
                    for bytes in &self.window {
                        stream.write_all(bytes)?;
                    }
                }
                let bytes = frames(batch);
                stream.write_all(&bytes)?;
                self.is_broken = false;
                self.window.push_back(bytes);
                self.trim_window();
            }
        }
        self.way = Some(way);
        Ok(())
    }

    /// Forgets batches that no buffer holds any more.
    fn trim_window(&mut self) {
        let mut bytes: usize = self.window.iter().map(Vec::len).sum();
        while bytes > WINDOW_BYTES
            && self.window.len() > 1
            && let Some(oldest) = self.window.pop_front()
        {
            bytes -= oldest.len();
        }
    }
}

/// Sends each record in a datagram.
fn send_datagrams(socket: &UdpSocket, batch: &mut EngineBatch<'_>) -> io::Result<()> {
    let (mut message, mut sent) = (Vec::new(), Ok(()));
    let delivery = batch.delivery();
    batch.each(&mut |record| {
        if sent.is_ok() {
            message.clear();
            put_message(record, delivery, &mut message);
            message.truncate(DATAGRAM_BYTES_MAX);
            sent = socket.send(&message).map(|_| ());
        }
    });
    sent
}

/// All records in octet-counted frames.
fn frames(batch: &mut EngineBatch<'_>) -> Vec<u8> {
    let (mut bytes, mut message) = (Vec::new(), Vec::new());
    let delivery = batch.delivery();
    batch.each(&mut |record| {
        message.clear();
        put_message(record, delivery, &mut message);
        // Writing to memory does not fail.
        let _ = write!(bytes, "{} ", message.len());
        bytes.extend_from_slice(&message);
    });
    bytes
}

impl Engine for Syslog {
    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal> {
        self.send(batch).map_err(|cause| Refusal::Retry {
            why: format!("{}: {cause}", self.hosts),
            after: None,
        })
    }
}

/// Severity of a level.
pub(crate) fn severity(level: Level) -> u8 {
    match level {
        Level::Trace | Level::Debug => 7,
        Level::Info => 6,
        Level::Warn => 4,
        Level::Error => 3,
        Level::Fatal => 2,
    }
}

/// Appends a message: head, structured data with the fields, text.
fn put_message(record: &mut crate::batch::EngineRecord<'_>, delivery: &str, out: &mut Vec<u8>) {
    // Facility 1: messages of users' programs.
    let priority = 8 + severity(record.level());
    let time = iso_text(record.unix_ns());
    // Six digits behind the second are what the standard allows.
    let time = time.get(..26).unwrap_or(&time);
    let name = |text: &str, most: usize| -> String {
        let plain: String = text.chars().filter(char::is_ascii_graphic).take(most).collect();
        if plain.is_empty() { "-".to_owned() } else { plain }
    };
    let (host, app, pid) =
        record
            .process()
            .map_or(("-".to_owned(), "-".to_owned(), "-".to_owned()), |process| {
                (
                    name(&process.host, 255),
                    name(&process.app, 48),
                    process.pid.to_string(),
                )
            });
    let target = name(record.target(), 32);
    let number = record.number;
    // Writing to memory does not fail, here and below.
    let _ = write!(
        out,
        "<{priority}>1 {time}Z {host} {app} {pid} {target} [logdrive@32473 id=\"{delivery}-{number}\""
    );
    record.each_field(&mut |key, value| {
        let is_allowed = |c: &char| c.is_ascii_graphic() && !matches!(c, '=' | ']' | '"');
        let key: String = key.chars().filter(is_allowed).take(32).collect();
        if key.is_empty() {
            return;
        }
        let _ = write!(out, " {key}=\"");
        for c in value_text(value).chars() {
            if matches!(c, '"' | '\\' | ']') {
                out.push(b'\\');
            }
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        out.push(b'"');
    });
    let _ = write!(out, "] {}", record.message());
}
