//! Inputs: records of other systems. Some come over their own protocols, syslog, OpenTelemetry, Loki's and Elasticsearch's;
//! others are read from where they are, topics of Kafka, the journal of systemd, log files. Each goes through the parser of
//! foreign lines; the records go to the collector as those of a sender.

mod address;
mod bulk;
mod checkpoint;
mod export;
mod feed;
mod files;
mod http;
mod intake;
mod journald;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "kafka")]
mod known_ids;
mod otlp;
mod syslog;

pub use address::InputAddress;
pub use export::{ExportDecoder, JournaldEntry};
pub use intake::InputCounts;

use crate::error::CollectorError;
use address::{Place, Protocol};
use intake::{Intake, Shared};
use journald::Journald;
use logdrive_ship::{Address, TlsFiles, TransportError};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syslog::{SharedAcceptor, Streams};
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::Runtime;

/// Threads that serve all inputs.
const WORKERS: usize = 2;

/// Interval at which the end looks whether connections have ended.
const TURN: Duration = Duration::from_millis(20);
/// Time for requests and connections that are under way at the end.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Options of all inputs.
#[derive(Debug, Clone)]
pub struct InputOptions {
    /// Address of the collector that records go to.
    pub to: Address,
    /// Directory of the states of inputs that are read from a place on.
    pub directory: PathBuf,
    /// Certificates of `syslog+tls://`.
    pub tls: TlsFiles,
}

/// Inputs that are served, on threads of their own. They end when this is dropped: what was taken and acknowledged is with the
/// collector by then.
#[derive(Debug)]
pub struct Inputs {
    /// `None` at the end, and where nothing listens.
    runtime: Option<Runtime>,
    served: Vec<(InputAddress, Arc<Shared>)>,
    acceptors: Vec<SharedAcceptor>,
    streams: Vec<Streams>,
    threads: Vec<JoinHandle<()>>,
    /// Asks threads that read, and connections, to end.
    stops: Arc<AtomicBool>,
}

impl Drop for Inputs {
    fn drop(&mut self) {
        // Relaxed: the flag stands for itself.
        self.stops.store(true, Ordering::Relaxed);
        let until = Instant::now() + END_TIMEOUT;
        while !self.streams.iter().all(Streams::is_over) && Instant::now() < until {
            std::thread::sleep(TURN);
        }
        // First, so that nothing more comes: the threads end when nobody can hand them records.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(END_TIMEOUT);
        }
        for thread in self.threads.drain(..) {
            // One that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Inputs {
    /// Serves inputs; `None` where there are none.
    ///
    /// # Errors
    /// When an address cannot be listened at, a state cannot be used, or threads cannot be started.
    pub fn start(addresses: &[InputAddress], options: &InputOptions) -> Result<Option<Self>, CollectorError> {
        if addresses.is_empty() {
            return Ok(None);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("logdrive-input")
            .enable_all()
            .build()
            .map_err(|cause| CollectorError::Thread { cause })?;
        let mut inputs = Self {
            runtime: Some(runtime),
            served: Vec::new(),
            acceptors: Vec::new(),
            streams: Vec::new(),
            threads: Vec::new(),
            stops: Arc::default(),
        };
        for address in addresses {
            let shared = Arc::new(Shared::default());
            let place = (&options.to, options.directory.as_path());
            let thread = match &address.place {
                Place::Socket(protocol, socket) => {
                    let (intake, thread) = Intake::start(&options.to, &shared)?;
                    inputs.threads.push(thread);
                    inputs.listen(address, (*protocol, *socket), &options.tls, intake)?;
                    None
                }
                Place::Files(pattern) => Some(files::start(pattern, place, &inputs.stops, &shared)?),
                Place::Journald(directory) => {
                    let own = Arc::clone(&shared);
                    let text = address.to_string();
                    let started = feed::start(&text, place, &inputs.stops, &shared, |checkpoint| {
                        Ok(Journald::new(directory.clone(), &checkpoint.position, own))
                    });
                    Some(started?)
                }
                #[cfg(feature = "kafka")]
                Place::Kafka(topic) => {
                    let own = Arc::clone(&shared);
                    let text = address.to_string();
                    let started = feed::start(&text, place, &inputs.stops, &shared, |checkpoint| {
                        kafka::Topic::new(topic, checkpoint.session, &checkpoint.position, own)
                    });
                    Some(started?)
                }
                // Its address is refused.
                #[cfg(not(feature = "kafka"))]
                Place::Kafka(_) => None,
            };
            inputs.threads.extend(thread);
            inputs.served.push((address.clone(), shared));
        }
        Ok(Some(inputs))
    }

    /// Listens on behalf of an input.
    fn listen(
        &mut self,
        address: &InputAddress,
        (protocol, socket): (Protocol, SocketAddr),
        tls: &TlsFiles,
        intake: Intake,
    ) -> Result<(), CollectorError> {
        let failed = |cause: io::Error| CollectorError::Input {
            address: address.to_string(),
            cause,
        };
        let Some(runtime) = &self.runtime else {
            return Ok(());
        };
        let _guard = runtime.enter();
        let bind = || runtime.block_on(TcpListener::bind(socket)).map_err(failed);
        match protocol {
            Protocol::SyslogUdp => {
                let socket = runtime.block_on(UdpSocket::bind(socket)).map_err(failed)?;
                runtime.spawn(syslog::serve_datagrams(socket, intake));
            }
            Protocol::SyslogTcp => {
                let streams = Streams::new(&self.stops);
                self.streams.push(streams.clone());
                runtime.spawn(syslog::serve_streams(bind()?, streams, None, intake));
            }
            Protocol::SyslogTls => {
                let acceptor = SharedAcceptor::new(tls)?;
                let streams = Streams::new(&self.stops);
                self.streams.push(streams.clone());
                self.acceptors.push(acceptor.clone());
                runtime.spawn(syslog::serve_streams(bind()?, streams, Some(acceptor), intake));
            }
            Protocol::Http => {
                runtime.spawn(http::serve(bind()?, intake));
            }
        }
        Ok(())
    }

    /// Reads the files of the certificates again, for connections from now on. `false` where no input has any.
    ///
    /// # Errors
    /// When they cannot be used; those of before are used on.
    pub fn reload_certificates(&self) -> Result<bool, TransportError> {
        self.acceptors.iter().try_for_each(SharedAcceptor::reload)?;
        Ok(!self.acceptors.is_empty())
    }

    /// Counts of each input up to now.
    pub fn counts(&self) -> Vec<(InputAddress, InputCounts)> {
        let counts = |(address, shared): &(InputAddress, Arc<Shared>)| (address.clone(), shared.counts());
        self.served.iter().map(counts).collect()
    }
}
