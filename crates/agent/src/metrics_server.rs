//! Metrics for Prometheus, by HTTP on a loopback port or a Unix socket. One small thread that serves one peer at a time,
//! each for two seconds at most: no other part of the program waits for a peer.

use crate::config::Metrics;
use crate::error::AgentError;
use crate::limits::{
    METRICS_BACKLOG, METRICS_FRESH_MS, METRICS_HEADERS_MAX, METRICS_MS_MAX, METRICS_REQUEST_BYTES_MAX,
};
use crate::path_lock::Listener;
use httparse::Status;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SendFlags, SocketFlags, SocketType, accept_with, listen, send};
use std::io::{self, PipeReader, PipeWriter};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Listening socket of the server.
#[derive(Debug)]
enum Listening {
    Tcp(TcpListener),
    Unix(Listener),
}

impl Listening {
    fn open(place: &Metrics, mode: u32, group: Option<u32>) -> Result<Option<Self>, AgentError> {
        match place {
            Metrics::Off => Ok(None),
            Metrics::Tcp(address) => {
                let open = TcpListener::bind(address).and_then(|listener| {
                    listener.set_nonblocking(true)?;
                    // Fewer than the standard library asks for.
                    listen(&listener, METRICS_BACKLOG)?;
                    Ok(listener)
                });
                let listener =
                    open.map_err(|cause| AgentError::io("serve metrics at", address.to_string(), cause))?;
                Ok(Some(Self::Tcp(listener)))
            }
            Metrics::Unix(path) => {
                let listener = Listener::open_for(SocketType::STREAM, path, mode, group)?;
                Ok(Some(Self::Unix(listener)))
            }
        }
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.socket.as_fd(),
        }
    }
}

/// A server of metrics for Prometheus, on a thread of its own; it ends when it is dropped.
///
/// ```
/// use logdrive_agent::MetricsServer;
/// use logdrive_agent::config::Metrics;
/// let directory = tempfile::tempdir()?;
/// let place = Metrics::Unix(directory.path().join("metrics.sock"));
/// let server = MetricsServer::start(&place, 0o600, None, || "up 1\n".to_owned())?;
/// assert_eq!(server.place(), &place);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MetricsServer {
    place: Metrics,
    /// Its end is the word to stop.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Serves what `text` makes, anew at most once a second, at the place that is configured, if there is one. A Unix socket
    /// gets these permissions and this group.
    ///
    /// # Errors
    /// Fails when the place is taken or not safe, or the thread cannot be started.
    pub fn start(
        place: &Metrics,
        mode: u32,
        group: Option<u32>,
        text: impl Fn() -> String + Send + 'static,
    ) -> Result<Self, AgentError> {
        let mut server = Self {
            place: place.clone(),
            stop: None,
            thread: None,
        };
        let Some(listening) = Listening::open(place, mode, group)? else {
            return Ok(server);
        };
        let io = |cause: io::Error| AgentError::io("serve metrics at", place.to_string(), cause);
        let (stopped, stop) = io::pipe().map_err(io)?;
        let thread = std::thread::Builder::new()
            .name("logdrive-metrics".to_owned())
            .spawn(move || serve(&listening, &stopped, &text))
            .map_err(io)?;
        server.stop = Some(stop);
        server.thread = Some(thread);
        Ok(server)
    }

    /// Returns the address at which it serves.
    pub fn place(&self) -> &Metrics {
        &self.place
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // At most as long as one peer may take. That it panicked, which it does not, would change nothing here.
            let _ = thread.join();
        }
    }
}

fn serve(listening: &Listening, stopped: &PipeReader, text: &dyn Fn() -> String) {
    logdrive_ring::local::deny_thread();
    let mut fresh: Option<(Instant, String)> = None;
    loop {
        let mut polled = [
            PollFd::new(listening, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN),
        ];
        if poll(&mut polled, None).is_err() {
            continue;
        }
        if !polled[1].revents().is_empty() {
            return;
        }
        let Ok(peer) = accept_with(listening, SocketFlags::CLOEXEC) else {
            // Without a descriptor to spare, or with a peer that is gone: the next one may have more luck.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let is_fresh = |at: &Instant| at.elapsed() < Duration::from_millis(METRICS_FRESH_MS);
        if !fresh.as_ref().is_some_and(|(at, _)| is_fresh(at)) {
            fresh = Some((Instant::now(), text()));
        }
        let text = fresh.as_ref().map_or("", |(_, text)| text);
        // A peer that goes away or is too slow has had its chance.
        let _ = answer(&peer, text);
    }
}

/// Serves one peer, within its time.
fn answer(peer: &OwnedFd, text: &str) -> io::Result<()> {
    let until = Instant::now() + Duration::from_millis(METRICS_MS_MAX);
    let mut request = Vec::new();
    let response = match read_request(peer, &mut request, until)? {
        Request::Metrics { with_body } => response("200 OK", text, with_body),
        Request::Elsewhere => response("404 Not Found", "metrics are at /metrics\n", true),
        Request::Otherwise => response("405 Method Not Allowed", "metrics are read with GET\n", true),
        Request::TooMuch => response(
            "431 Request Header Fields Too Large",
            "a shorter request, please\n",
            true,
        ),
        Request::Nonsense => response("400 Bad Request", "this is no request by HTTP/1\n", true),
    };
    let mut left = response.as_bytes();
    while !left.is_empty() {
        set_socket_timeout(peer, Timeout::Send, Some(time_left(until)?))?;
        let written = send(peer, left, SendFlags::NOSIGNAL)?;
        left = left.get(written..).unwrap_or_default();
        if written == 0 {
            break;
        }
    }
    Ok(())
}

/// The time that is left, which is not nothing.
fn time_left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Metrics { with_body: bool },
    Elsewhere,
    Otherwise,
    TooMuch,
    Nonsense,
}

fn read_request(peer: &OwnedFd, request: &mut Vec<u8>, until: Instant) -> io::Result<Request> {
    let mut part = [0; 1024];
    loop {
        if let Some(asked) = asked(request) {
            return Ok(asked);
        }
        if request.len() > METRICS_REQUEST_BYTES_MAX {
            return Ok(Request::TooMuch);
        }
        set_socket_timeout(peer, Timeout::Recv, Some(time_left(until)?))?;
        let read = rustix::io::read(peer, &mut part)?;
        if read == 0 {
            return Ok(Request::Nonsense);
        }
        request.extend_from_slice(part.get(..read).unwrap_or_default());
    }
}

/// Reads a request; `None` while a part of it is missing.
fn asked(request: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; METRICS_HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) => return None,
        Err(httparse::Error::TooManyHeaders) => return Some(Request::TooMuch),
        Err(_) => return Some(Request::Nonsense),
    }
    let path = parsed.path.and_then(|path| path.split('?').next());
    Some(match (parsed.method, path) {
        (Some("GET"), Some("/metrics" | "/")) => Request::Metrics { with_body: true },
        (Some("HEAD"), Some("/metrics" | "/")) => Request::Metrics { with_body: false },
        (Some("GET" | "HEAD"), _) => Request::Elsewhere,
        _ => Request::Otherwise,
    })
}

fn response(status: &str, body: &str, with_body: bool) -> String {
    let kind = if status.starts_with("200") {
        "text/plain; version=0.0.4; charset=utf-8"
    } else {
        "text/plain; charset=utf-8"
    };
    let length = body.len();
    let body = if with_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn requests_are_told_apart() {
        for (request, expected) in [
            (
                "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
                Request::Metrics { with_body: true },
            ),
            (
                "GET /metrics?x=1 HTTP/1.0\n\n",
                Request::Metrics { with_body: true },
            ),
            ("HEAD / HTTP/1.1\r\n\r\n", Request::Metrics { with_body: false }),
            ("GET /etc/passwd HTTP/1.1\r\n\r\n", Request::Elsewhere),
            ("POST /metrics HTTP/1.1\r\n\r\n", Request::Otherwise),
            ("GET /metrics\r\n\r\n", Request::Nonsense),
            ("GET /metrics HTTP/2\r\n\r\n", Request::Nonsense),
            ("GET / HTTP/1.1 more\r\n\r\n", Request::Nonsense),
            ("\u{0}\u{ff}\n\n", Request::Nonsense),
        ] {
            assert_eq!(asked(request.as_bytes()), Some(expected), "{request:?}");
        }
        for part in [
            "",
            "\r\n\r\n",
            "GET /metr",
            "GET /metrics HTTP/1.1\r\nHost: x\r\n",
        ] {
            assert_eq!(asked(part.as_bytes()), None, "{part:?}");
        }
        let header = "a: b\r\n".repeat(METRICS_HEADERS_MAX + 1);
        let many = format!("GET / HTTP/1.1\r\n{header}\r\n");
        assert_eq!(asked(many.as_bytes()), Some(Request::TooMuch));
    }

    fn exchange(send: impl FnOnce(&mut UnixStream)) -> String {
        let (mut client, server) = UnixStream::pair().expect("two ends");
        send(&mut client);
        // Bytes or a reset behind the answer change nothing.
        let _ = answer(&server.into(), "logdrive_up 1\n");
        let mut text = String::new();
        let _ = client.read_to_string(&mut text);
        text
    }

    #[test]
    fn an_answer_says_how_long_it_is() {
        let text = exchange(|client| client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent"));
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(
            text.contains("\r\nContent-Length: 14\r\n") && text.ends_with("\r\n\r\nlogdrive_up 1\n"),
            "{text}"
        );
        let head = exchange(|client| client.write_all(b"HEAD /metrics HTTP/1.1\r\n\r\n").expect("sent"));
        assert!(
            head.contains("Content-Length: 14") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
    }

    #[test]
    fn long_requests_and_half_ones_end() {
        let long = vec![b'x'; METRICS_REQUEST_BYTES_MAX + 2000];
        let text = exchange(|client| client.write_all(&long).expect("sent"));
        assert!(text.starts_with("HTTP/1.1 431"), "{text}");
        let half = exchange(|client| {
            client.write_all(b"GET /met").expect("sent");
            client.shutdown(std::net::Shutdown::Write).expect("no more");
        });
        assert!(half.starts_with("HTTP/1.1 400"), "{half}");
    }
}
