//! Requests by HTTP to servers on this machine.

use crate::shell::Failure;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Time for an answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a request and returns the body of the answer; a status that is no success is an error.
pub(super) fn request(method: &str, port: u16, path: &str, body: &str) -> Result<String, Failure> {
    let (status, answer) = exchange(method, port, path, body)
        .map_err(|cause| Failure::new(format!("{method} {path}: {cause}"), ""))?;
    match status.split(' ').nth(1) {
        Some(code) if code.starts_with('2') => Ok(answer),
        _ => Err(Failure::new(
            format!("{method} {path}: {status}: {answer:.300}"),
            "",
        )),
    }
}

fn exchange(method: &str, port: u16, path: &str, body: &str) -> std::io::Result<(String, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let bytes = body.len();
    // Of version 1.0 the answer is in one piece, and ends with the connection.
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n{body}"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Ok((
        head.lines().next().unwrap_or_default().to_owned(),
        body.to_owned(),
    ))
}
