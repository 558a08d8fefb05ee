//! Syslog over UDP, TCP and TLS: RFC 3164 and 5424; in streams as lines, or octet-counted after RFC 6587 and 5425.

use super::intake::Intake;
use crate::limits::{HANDSHAKE_TIMEOUT, SYSLOG_CONNECTIONS_MAX, SYSLOG_MESSAGE_BYTES_MAX};
use logdrive_reader::foreign::{ForeignParser, ForeignRecord};
use logdrive_ring::clock::unix_ns;
use logdrive_ship::{Identity, TlsFiles, TransportError, foreign_server_config};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Interval at which a wait sees that the input ends, and time without bytes after which an end is taken for one.
const TURN: Duration = Duration::from_millis(200);
/// Pause after an error of a socket that may come again at once.
const PAUSE: Duration = Duration::from_millis(100);
/// Digits of a length: as many as the longest message has.
const LENGTH_DIGITS_MAX: usize = 7;

/// Peer of messages, as the connection knows it.
struct Peer {
    address: SocketAddr,
    /// Name of its certificate.
    identity: Option<Identity>,
}

/// Takes one message apart; its peer's address is a field where it names no host, and its certificate where it has one.
fn record(parser: &mut ForeignParser, message: &[u8], peer: &Peer) -> ForeignRecord {
    let mut record = parser.read(message);
    record.unix_ns.get_or_insert_with(unix_ns);
    if !record.fields.iter().any(|(key, _)| key == "host") {
        record.push_text("host", &peer.address.ip().to_string());
    }
    if let Some(identity) = &peer.identity {
        record.push_text("peer", &identity.name);
    }
    record
}

/// Acceptor of TLS, whose certificates can be read again.
#[derive(Clone)]
pub(crate) struct SharedAcceptor {
    files: TlsFiles,
    now: Arc<Mutex<TlsAcceptor>>,
}

impl std::fmt::Debug for SharedAcceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedAcceptor").finish_non_exhaustive()
    }
}

impl SharedAcceptor {
    pub(crate) fn new(files: &TlsFiles) -> Result<Self, TransportError> {
        Ok(Self {
            files: files.clone(),
            now: Arc::new(Mutex::new(foreign_server_config(files)?.into())),
        })
    }

    /// Reads the files again: connections from now on get what they have.
    pub(crate) fn reload(&self) -> Result<(), TransportError> {
        let acceptor = foreign_server_config(&self.files)?.into();
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }

    fn acceptor(&self) -> TlsAcceptor {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves datagrams, each of which is a message.
pub(crate) async fn serve_datagrams(socket: UdpSocket, intake: Intake) {
    let mut parser = ForeignParser::default();
    let mut bytes = vec![0; 1 << 16];
    loop {
        let Ok((length, peer)) = socket.recv_from(&mut bytes).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let message = bytes.get(..length).unwrap_or_default().trim_ascii_end();
        if !message.is_empty() {
            let peer = Peer {
                address: peer,
                identity: None,
            };
            intake.offer(vec![record(&mut parser, message, &peer)]);
        }
    }
}

/// Connections of an input, as the thread that ends it sees them.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    places: Arc<Semaphore>,
    /// Asks connections to end: they tell their peers, and take what these have sent.
    ends: Arc<AtomicBool>,
}

impl Streams {
    pub(crate) fn new(ends: &Arc<AtomicBool>) -> Self {
        Self {
            places: Arc::new(Semaphore::new(SYSLOG_CONNECTIONS_MAX)),
            ends: Arc::clone(ends),
        }
    }

    /// Whether all have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.places.available_permits() == SYSLOG_CONNECTIONS_MAX
    }

    fn end(&self) -> bool {
        // Relaxed: the flag stands for itself.
        self.ends.load(Ordering::Relaxed)
    }
}

/// Serves connections until the input ends; those of TLS after a handshake.
pub(crate) async fn serve_streams(
    listener: TcpListener,
    streams: Streams,
    tls: Option<SharedAcceptor>,
    intake: Intake,
) {
    while !streams.end() {
        let Ok(Ok(place)) = timeout(TURN, Arc::clone(&streams.places).acquire_owned()).await else {
            continue;
        };
        match timeout(TURN, listener.accept()).await {
            Err(_) => {}
            Ok(Ok((stream, address))) => {
                let (intake, acceptor) = (intake.clone(), tls.as_ref().map(SharedAcceptor::acceptor));
                let streams = streams.clone();
                tokio::spawn(async move {
                    let identity = None;
                    match acceptor {
                        None => serve_stream(stream, &Peer { address, identity }, &streams, &intake).await,
                        Some(acceptor) => {
                            serve_encrypted(stream, address, (&acceptor, &streams), &intake).await;
                        }
                    }
                    drop(place);
                });
            }
            // Out of descriptors, most likely.
            Ok(Err(_)) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn serve_encrypted(
    stream: TcpStream,
    address: SocketAddr,
    (acceptor, streams): (&TlsAcceptor, &Streams),
    intake: &Intake,
) {
    match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let certificates = stream.get_ref().1.peer_certificates();
            let identity = certificates.and_then(|all| Identity::of_certificate(all.first()?));
            serve_stream(stream, &Peer { address, identity }, streams, intake).await;
        }
        // One without a certificate of the authority, or that does not speak TLS.
        _ => intake.malformed(),
    }
}

async fn serve_stream(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: &Peer,
    streams: &Streams,
    intake: &Intake,
) {
    let mut parser = ForeignParser::default();
    let mut bytes: Vec<u8> = Vec::new();
    let mut is_ending = false;
    loop {
        let read = timeout(TURN, stream.read_buf(&mut bytes)).await;
        if streams.end() && !is_ending {
            // A peer that sees it sends no more; what it has sent until then is taken.
            is_ending = true;
            let _ = stream.shutdown().await;
        }
        let is_open = match read {
            Ok(Ok(0) | Err(_)) => false,
            Ok(Ok(_)) => true,
            Err(_) => !is_ending,
        };
        let (mut records, mut taken) = (Vec::new(), 0);
        loop {
            let rest = bytes.get(taken..).unwrap_or_default();
            let Some((message, length)) = frame(rest, !is_open) else {
                break;
            };
            if !message.is_empty() {
                records.push(record(&mut parser, message, peer));
            }
            taken += length;
        }
        bytes.drain(..taken);
        if !records.is_empty() {
            intake.push(records).await;
        }
        if !is_open {
            return;
        }
    }
}

/// The first message of a stream, and the bytes up to its end; `None` while it has not come whole. One that is longer than any
/// is taken in pieces.
fn frame(bytes: &[u8], is_end: bool) -> Option<(&[u8], usize)> {
    // The first byte says which framing it is: a digit begins a count, `<` a line.
    let digits = bytes
        .iter()
        .take(LENGTH_DIGITS_MAX)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let is_counted = matches!(bytes.first(), Some(b'1'..=b'9'));
    let count = bytes
        .get(..digits)
        .and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    if is_counted && let (Some(b' '), Some(count)) = (bytes.get(digits), count) {
        let count: usize = count;
        let end = digits + 1 + count;
        let whole = bytes
            .get(digits + 1..end)
            .filter(|_| count <= SYSLOG_MESSAGE_BYTES_MAX);
        match whole {
            Some(message) => return Some((message.trim_ascii_end(), end)),
            None if count <= SYSLOG_MESSAGE_BYTES_MAX && !is_end => return None,
            None => {}
        }
    }
    if let Some(end) = memchr::memchr2(b'\n', 0, bytes) {
        return Some((bytes.get(..end)?.trim_ascii_end(), end + 1));
    }
    let is_long = bytes.len() >= SYSLOG_MESSAGE_BYTES_MAX;
    (is_long || (is_end && !bytes.is_empty())).then_some((bytes, bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_lines_or_counted_and_come_in_any_pieces() {
        let stream = b"<34>1 - a\n11 <34>1 - two\n<13>three\r\n7 <1>fo\nr<2>rest";
        let expected: [&[u8]; 5] = [
            b"<34>1 - a",
            b"<34>1 - two",
            b"<13>three",
            b"<1>fo\nr",
            b"<2>rest",
        ];
        for piece in 1..stream.len() {
            let (mut bytes, mut found) = (Vec::new(), Vec::new());
            for part in stream.chunks(piece) {
                bytes.extend_from_slice(part);
                while let Some((message, length)) = frame(&bytes, false) {
                    if !message.is_empty() {
                        found.push(message.to_vec());
                    }
                    bytes.drain(..length);
                }
            }
            if let Some((message, _)) = frame(&bytes, true) {
                found.push(message.to_vec());
            }
            assert_eq!(found, expected, "{piece}");
        }
    }

    #[test]
    fn lengths_that_lie_hold_nothing_up_and_long_messages_are_whole_in_pieces() {
        assert_eq!(
            frame(b"9999999 <34>x\n", false),
            Some((b"9999999 <34>x".as_slice(), 14))
        );
        assert_eq!(frame(b"100 <34>x", true), Some((b"100 <34>x".as_slice(), 9)));
        let long = vec![b'a'; SYSLOG_MESSAGE_BYTES_MAX];
        assert_eq!(frame(&long, false), Some((long.as_slice(), long.len())));
        assert_eq!(frame(b"", true), None);
    }
}
