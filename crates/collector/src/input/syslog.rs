//! Syslog over UDP and TCP: RFC 3164 and 5424; over TCP in lines, or octet-counted after RFC 6587.

use super::intake::Intake;
use crate::limits::{SYSLOG_CONNECTIONS_MAX, SYSLOG_MESSAGE_BYTES_MAX};
use logdrive_reader::foreign::{ForeignParser, ForeignRecord};
use logdrive_ring::clock::unix_ns;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

/// Pause after an error of a socket that may come again at once.
const PAUSE: Duration = Duration::from_millis(100);
/// Digits of a length: as many as the longest message has.
const LENGTH_DIGITS_MAX: usize = 7;

/// Takes one message apart; its peer's address is a field where it names no host.
fn record(parser: &mut ForeignParser, message: &[u8], peer: SocketAddr) -> ForeignRecord {
    let mut record = parser.read(message);
    record.unix_ns.get_or_insert_with(unix_ns);
    if !record.fields.iter().any(|(key, _)| key == "host") {
        record.push_text("host", &peer.ip().to_string());
    }
    record
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
            intake.offer(vec![record(&mut parser, message, peer)]);
        }
    }
}

/// Serves connections.
pub(crate) async fn serve_streams(listener: TcpListener, intake: Intake) {
    let places = Arc::new(Semaphore::new(SYSLOG_CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let intake = intake.clone();
                tokio::spawn(async move {
                    serve_stream(stream, peer, &intake).await;
                    drop(place);
                });
            }
            // Out of descriptors, most likely.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn serve_stream(mut stream: TcpStream, peer: SocketAddr, intake: &Intake) {
    let mut parser = ForeignParser::default();
    let mut bytes: Vec<u8> = Vec::new();
    loop {
        let is_open = match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => false,
            Ok(_) => true,
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
