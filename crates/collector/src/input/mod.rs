//! Inputs: records of other systems over their own protocols, syslog, OpenTelemetry, Loki's and Elasticsearch's. Each message
//! goes through the parser of foreign lines; the records go to the collector as those of a sender.

mod bulk;
mod http;
mod intake;
mod otlp;
mod syslog;

pub use intake::InputCounts;

use crate::error::CollectorError;
use intake::Intake;
use logdrive_ship::Address;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::Runtime;

/// Threads that serve all inputs.
const WORKERS: usize = 2;

/// Time for requests that are under way at the end.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Protocol of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// RFC 3164 and 5424 over TCP, in lines or octet-counted.
    SyslogTcp,
    /// The same in datagrams.
    SyslogUdp,
    /// OpenTelemetry by gRPC and HTTP, Loki's push, Elasticsearch's bulk, and lines.
    Http,
}

/// Address of an input.
///
/// ```
/// use logdrive_collector::input::InputAddress;
/// let address: InputAddress = "syslog+udp://127.0.0.1:514".parse().unwrap();
/// assert_eq!(address.to_string(), "syslog+udp://127.0.0.1:514");
/// assert!("syslog://127.0.0.1".parse::<InputAddress>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputAddress {
    protocol: Protocol,
    place: SocketAddr,
}

const SCHEMES: [(&str, Protocol); 3] = [
    ("syslog+tcp", Protocol::SyslogTcp),
    ("syslog+udp", Protocol::SyslogUdp),
    ("http", Protocol::Http),
];

impl InputAddress {
    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        self.place.ip().is_loopback()
    }
}

impl FromStr for InputAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected syslog+udp://, syslog+tcp:// or http:// with an address and a port, such as \
                        syslog+udp://127.0.0.1:514";
        let (scheme, place) = text.split_once("://").ok_or(expected)?;
        let found = SCHEMES.iter().find(|(name, _)| *name == scheme);
        let (_, protocol) = *found.ok_or(expected)?;
        let place = place.trim_end_matches('/').parse().map_err(|_| expected)?;
        Ok(Self { protocol, place })
    }
}

impl fmt::Display for InputAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = SCHEMES.iter().find(|(_, protocol)| *protocol == self.protocol);
        write!(f, "{}://{}", found.map_or("", |(name, _)| name), self.place)
    }
}

/// Inputs that are served, on threads of their own. They end when this is dropped: what was taken and acknowledged is with the
/// collector by then.
#[derive(Debug)]
pub struct Inputs {
    /// `None` at the end.
    runtime: Option<Runtime>,
    served: Vec<(InputAddress, Intake)>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Inputs {
    fn drop(&mut self) {
        // First, so that nothing more comes: the threads end when nobody can hand them records.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(END_TIMEOUT);
        }
        self.served.clear();
        for thread in self.threads.drain(..) {
            // One that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Inputs {
    /// Serves inputs; `None` where there are none. Records go to a collector that listens at `to`.
    ///
    /// # Errors
    /// When an address cannot be listened at, or threads cannot be started.
    pub fn start(addresses: &[InputAddress], to: &Address) -> Result<Option<Self>, CollectorError> {
        if addresses.is_empty() {
            return Ok(None);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("logdrive-input")
            .enable_all()
            .build()
            .map_err(|cause| CollectorError::Thread { cause })?;
        let (mut served, mut threads) = (Vec::new(), Vec::new());
        for address in addresses {
            let (intake, thread) = Intake::start(to)?;
            threads.push(thread);
            let failed = |cause| CollectorError::Input {
                address: address.to_string(),
                cause,
            };
            let guard = runtime.enter();
            match address.protocol {
                Protocol::SyslogUdp => {
                    let socket = runtime.block_on(UdpSocket::bind(address.place)).map_err(failed)?;
                    runtime.spawn(syslog::serve_datagrams(socket, intake.clone()));
                }
                Protocol::SyslogTcp => {
                    let listener = runtime
                        .block_on(TcpListener::bind(address.place))
                        .map_err(failed)?;
                    runtime.spawn(syslog::serve_streams(listener, intake.clone()));
                }
                Protocol::Http => {
                    let listener = runtime
                        .block_on(TcpListener::bind(address.place))
                        .map_err(failed)?;
                    runtime.spawn(http::serve(listener, intake.clone()));
                }
            }
            drop(guard);
            served.push((address.clone(), intake));
        }
        Ok(Some(Self {
            runtime: Some(runtime),
            served,
            threads,
        }))
    }

    /// Counts of each input up to now.
    pub fn counts(&self) -> Vec<(InputAddress, InputCounts)> {
        let counts = |(address, intake): &(InputAddress, Intake)| (address.clone(), intake.counts());
        self.served.iter().map(counts).collect()
    }
}
