//! Options of connections, the same for all transports.

use crate::TransportError;
use crate::hello::{HELLO_UNCHECKED, Hello, Role};
use crate::limits;
use std::path::PathBuf;
use std::time::Duration;

/// Coverage of payloads by the frames' checksum. Headers always have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// Covered where bytes leave the machine without TLS or QUIC, which check them better.
    #[default]
    Auto,
    /// Always.
    Always,
}

/// Files with keys and certificates, in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsFiles {
    /// Certificates of the authorities that the other end's certificate must come from.
    pub authorities: Option<PathBuf>,
    /// Our own certificate, with those between it and its authority.
    pub certificate: Option<PathBuf>,
    /// Private key of the certificate.
    pub key: Option<PathBuf>,
    /// The name that the other end's certificate must bear; by default the host of the address.
    pub name: Option<String>,
    /// As a server: also serve peers without a certificate. Default: no.
    pub anyone: bool,
}

/// Time limits of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// For making a connection, from the lookup of the name to the hello of the other end. Default: 5 s.
    pub connect: Duration,
    /// For a response, and for the other end to take what is sent. Default: 10 s.
    pub response: Duration,
    /// Time that a peer may be silent, and a frame may take to come whole, before a server ends the connection.
    /// Default: 30 s.
    pub idle: Duration,
    /// For the hello of a peer that has connected to a server. Default: 5 s.
    pub handshake: Duration,
    /// Time that a server which stops gives what is in flight: requests that have come are answered. Default: 5 s.
    pub stop: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_millis(limits::CONNECT_MS),
            response: Duration::from_millis(limits::RESPONSE_MS),
            idle: Duration::from_millis(limits::IDLE_MS),
            handshake: Duration::from_millis(limits::HANDSHAKE_MS),
            stop: Duration::from_millis(limits::STOP_MS),
        }
    }
}

/// Limits of what the peers of a server may make it hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerLimits {
    /// Connections at once. Default: 16,384.
    pub connections_max: usize,
    /// Bytes of partial frames and answers of all connections together. Frames of over 320 KiB use half of
    /// them at most and wait unread for their turn; while more than half is taken, a frame has a second to come whole.
    /// Default: 128 MiB.
    pub pending_bytes_max: usize,
    /// Bytes of one frame that are accepted. Default and most: 1 MiB.
    pub frame_bytes_max: usize,
    /// Bytes that a batch may have when it is decompressed. Default and most: 8 MiB.
    pub decompressed_bytes_max: usize,
    /// Bytes that a peer may have under way before any of them are acknowledged. Default: 8 MiB.
    pub credit_bytes: u64,
}

impl Default for PeerLimits {
    fn default() -> Self {
        Self {
            connections_max: limits::CONNECTIONS_MAX,
            pending_bytes_max: limits::PENDING_BYTES_MAX,
            frame_bytes_max: limits::FRAME_BYTES_MAX,
            decompressed_bytes_max: limits::DECOMPRESSED_BYTES_MAX,
            credit_bytes: limits::CREDIT_BYTES,
        }
    }
}

/// Options of one end.
///
/// ```
/// use logdrive_ship::Options;
/// let options = Options::default();
/// assert_eq!(options.linger.as_micros(), 200);
/// assert!(!options.insecure);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// A message waits at most this long for others to go with it; 0 sends each at once. Default: 200 µs.
    pub linger: Duration,
    /// A batch has so many bytes at most, and is sent then; smaller ones than by default go together over `unix://`,
    /// `tcp://` and `tls://`, as many as come before one has waited for `linger`. Default: 64 KiB.
    pub batch_bytes: usize,
    /// Time that a waiting end spins before it sleeps. Costs a processor meanwhile. Default: 0; while several requests
    /// of a connection are under way and answers come quickly, both ends look for 50 µs all the same.
    pub spin: Duration,
    /// Which payloads are covered by a checksum. Default: those that leave the machine unprotected.
    pub checksum: Checksum,
    /// Congestion control: for TCP by its kernel name, by default the system's, and `cubic` within
    /// this machine; for QUIC `cubic`, which is the default,
    /// `bbr` or `reno`.
    pub congestion: Option<String>,
    /// Bytes of the kernel's buffers that are asked for. Default: 4 MiB; the system may give less.
    pub socket_buffer_bytes: usize,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Lets plain TCP and UDP leave the machine. Default: no.
    pub insecure: bool,
    /// Keys and certificates, for `tls://` and `quic://`.
    pub tls: TlsFiles,
    /// Bytes of a datagram, for `udp://`. Default: 1,432, which pass every usual network.
    pub datagram_bytes: usize,
    /// Lets the kernel cut and join datagrams in bulk (GSO, GRO). Default: yes.
    pub offload: bool,
    /// Bytes of a ring of `shm://`; a power of two from 64 KiB. Default: 1 MiB.
    pub ring_bytes: usize,
    /// The name of this host in the hello.
    pub host: String,
    /// The name of this program in the hello.
    pub app: String,
    /// Limits of what peers may make this end hold.
    pub limits: PeerLimits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            linger: Duration::from_micros(200),
            batch_bytes: limits::BATCH_BYTES,
            spin: Duration::ZERO,
            checksum: Checksum::Auto,
            congestion: None,
            socket_buffer_bytes: limits::SOCKET_BUFFER_BYTES,
            timeouts: Timeouts::default(),
            insecure: false,
            tls: TlsFiles::default(),
            datagram_bytes: limits::DATAGRAM_BYTES,
            offload: true,
            ring_bytes: limits::SHM_RING_BYTES,
            host: host_name(),
            app: program_name(),
            limits: PeerLimits::default(),
        }
    }
}

impl Options {
    /// Hello of an end with these options, on a link that covers its payloads with checksums (`checked`), or not.
    pub fn hello(&self, role: Role, checked: bool) -> Hello {
        let mut hello = Hello::new(role);
        hello.host.clone_from(&self.host);
        hello.app.clone_from(&self.app);
        hello.frame_bytes_max = self.limits.frame_bytes_max as u32;
        hello.flags = if checked { 0 } else { HELLO_UNCHECKED };
        hello
    }

    /// Checks that the numbers are within their bounds.
    ///
    /// # Errors
    /// For the first one that is not.
    pub fn check(&self) -> Result<(), TransportError> {
        let frame_bytes = limits::HELLO_BYTES_MAX..=limits::FRAME_BYTES_MAX;
        let bounds = [
            (
                "batch_bytes",
                self.batch_bytes,
                64..=limits::FRAME_BYTES_MAX,
                "64 bytes to 1 MiB",
            ),
            (
                "datagram_bytes",
                self.datagram_bytes,
                256..=limits::DATAGRAM_BYTES_MAX,
                "256 to 65507",
            ),
            (
                "frame_bytes_max",
                self.limits.frame_bytes_max,
                frame_bytes,
                "1 KiB to 1 MiB",
            ),
        ];
        for (option, found, range, allowed) in bounds {
            if !range.contains(&found) {
                let found = found.to_string();
                return Err(TransportError::Option {
                    option,
                    found,
                    allowed,
                });
            }
        }
        Ok(())
    }
}

/// The name of this host; empty when it has none that is text.
pub fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_str().unwrap_or_default().to_owned()
}

fn program_name() -> String {
    let path = std::env::args_os().next().map(PathBuf::from);
    path.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .unwrap_or_default()
}
