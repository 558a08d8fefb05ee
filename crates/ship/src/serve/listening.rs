//! Starting and stopping a server.

use super::accept::Listener;
use super::inbox::Inbox;
use super::poller::Poller;
use super::pool::{self, RequestQueue};
use super::{ServerState, Stats};
use crate::TransportError;
use crate::address::Address;
use crate::link::{Listen, UnixSocket, listen_tcp};
use crate::options::Options;
use crate::session::Service;
use rustix::net::SocketType;
use std::io;
use std::sync::Arc;

/// Which threads do what.
///
/// ```
/// use logdrive_ship::Threads;
/// // Handlers that block, for instance on a disk, delay no other connection on a pool.
/// let threads = Threads { pool: 4, ..Threads::default() };
/// assert_eq!(Threads::default(), Threads { pollers: 1, pool: 0, dedicated: 2 });
/// # let _ = threads;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads {
    /// Threads that wait for sockets; connections are handed out in turn. Default: 1.
    pub pollers: usize,
    /// Threads that answer requests; with 0 a poller answers at once, which is fastest where no handler blocks.
    /// Default: 0.
    pub pool: usize,
    /// Threads that a poller gives connections of `unix://` and `tcp://` to while one of them is all that talks: a
    /// request and its response then cost no check of the others. Not with a pool, nor where pollers spin. Default: 2.
    pub dedicated: usize,
}

impl Default for Threads {
    fn default() -> Self {
        Self {
            pollers: 1,
            pool: 0,
            dedicated: 2,
        }
    }
}

/// A server that runs, as [`serve`] starts it. Stops when it is dropped, as [`ServerHandle::stop`] does.
#[derive(Debug)]
pub struct ServerHandle {
    shared: Arc<ServerState>,
    addresses: Vec<Address>,
    inboxes: Vec<Inbox>,
    #[cfg(feature = "tls")]
    certificates: super::certificates::ServerCertificates,
}

/// Listens at addresses and gives what comes to a service. A plain address off this machine is refused unless the
/// options say `insecure`.
///
/// # Errors
/// Fails when an address cannot be listened at, a certificate cannot be used, or a thread cannot be started.
pub fn serve(
    addresses: &[Address],
    options: &Options,
    threads: Threads,
    service: Arc<dyn Service>,
) -> Result<ServerHandle, TransportError> {
    options.check()?;
    // A poller that spins leaves a socket alone for longer between two looks, which measures better.
    let dedicated = match threads.pool == 0 && options.spin.is_zero() {
        true => threads.dedicated,
        false => 0,
    };
    let mut listening = ServerHandle {
        shared: Arc::new(ServerState::new(service, options.clone(), dedicated)),
        addresses: Vec::new(),
        inboxes: Vec::new(),
        #[cfg(feature = "tls")]
        certificates: Default::default(),
    };
    let pool = match threads.pool {
        0 => None,
        count => {
            let started = pool::start(count, &listening.shared);
            Some(started.map_err(TransportError::system("start a thread"))?)
        }
    };
    let mut listeners = Vec::new();
    for address in addresses {
        address.check(options.insecure)?;
        let bound = listening.open(address, pool.as_ref(), &mut listeners)?;
        listening.addresses.push(bound);
    }
    if !listeners.is_empty() {
        listening.start_pollers(listeners, threads, pool)?;
    }
    Ok(listening)
}

impl ServerHandle {
    /// Opens one address; gives it with the port that the system chose.
    fn open(
        &mut self,
        address: &Address,
        pool: Option<&RequestQueue>,
        listeners: &mut Vec<Listener>,
    ) -> Result<Address, TransportError> {
        let shared = Arc::clone(&self.shared);
        let options = &shared.options;
        let failed = TransportError::listen(address);
        let listener: Box<dyn Listen> = match address {
            Address::Unix(path) => Box::new(UnixSocket::listen(path, SocketType::STREAM).map_err(failed)?),
            Address::Shm(path) => Box::new(UnixSocket::listen(path, SocketType::SEQPACKET).map_err(failed)?),
            Address::Tcp(host_port) => Box::new(listen_tcp(host_port).map_err(failed)?),
            #[cfg(feature = "tls")]
            Address::Tls(host_port) => {
                let config = self.certificates.of_tls(&options.tls)?;
                Box::new(crate::link::tls::TlsListener::listen(host_port, config).map_err(failed)?)
            }
            #[cfg(feature = "udp")]
            Address::Udp(host_port) => {
                let socket = super::udp::Socket::bind(host_port, options).map_err(failed)?;
                let bound = socket.host_port();
                self.spawn("logdrive-udp".to_owned(), move || socket.run(&shared))?;
                return Ok(address.bound_to(bound));
            }
            #[cfg(feature = "quic")]
            Address::Quic(host_port) => {
                let endpoint = crate::quic::Endpoint::bind(host_port, options, failed)?;
                let bound = endpoint.host_port();
                let pool = pool.cloned();
                self.certificates.add(endpoint.config(options));
                self.spawn("logdrive-quic".to_owned(), move || {
                    endpoint.run(&shared, pool.as_ref())
                })?;
                return Ok(address.bound_to(bound));
            }
            #[allow(unreachable_patterns, reason = "some builds have all transports")]
            other => {
                return Err(TransportError::NotBuilt {
                    scheme: other.scheme(),
                });
            }
        };
        let bound = listener.host_port();
        listeners.push(Listener::new(listener));
        Ok(address.bound_to(bound))
    }

    fn spawn(&self, name: String, run: impl FnOnce() + Send + 'static) -> Result<(), TransportError> {
        let started = self.shared.threads.spawn(name, run);
        started.map_err(TransportError::system("start a thread"))
    }

    fn start_pollers(
        &mut self,
        listeners: Vec<Listener>,
        threads: Threads,
        pool: Option<RequestQueue>,
    ) -> Result<(), TransportError> {
        let event_loops: io::Result<Vec<_>> = (0..threads.pollers.max(1))
            .map(|_| {
                let poll = mio::Poll::new()?;
                let inbox = Inbox::new(&poll)?;
                Ok((poll, inbox))
            })
            .collect();
        let event_loops = event_loops.map_err(TransportError::system("make an event loop"))?;
        self.inboxes = event_loops.iter().map(|(_, inbox)| inbox.clone()).collect();
        let mut listeners = Some(listeners);
        for (index, (poll, _)) in event_loops.into_iter().enumerate() {
            // All listen at the first, which hands connections on.
            let listeners = listeners.take().unwrap_or_default();
            let inboxes = (self.inboxes.clone(), index);
            let poller = Poller::new(poll, inboxes, listeners, pool.clone(), Arc::clone(&self.shared))
                .map_err(TransportError::system("make a poller"))?;
            self.spawn(format!("logdrive-poll-{index}"), move || poller.run())?;
        }
        Ok(())
    }

    /// Addresses that it listens at, with the ports that the system chose, in the order that was given.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Reads the files of the certificates again: connections that are made from now on get the new ones, and those that are
    /// there go on. Returns false if no address has certificates. Blocks as long as the files' disk does.
    ///
    /// # Errors
    /// Fails when the files cannot be used; the server goes on with what it has.
    #[cfg(feature = "tls")]
    pub fn reload_certificates(&self) -> Result<bool, TransportError> {
        self.certificates.reload(&self.shared.options.tls)
    }

    /// Counters at this moment.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Returns a function that gives the counters at the moment of its call, also on another thread.
    pub fn stats_source(&self) -> impl Fn() -> Stats + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.stats()
    }

    /// Answers the requests that have come, says goodbye to all, and ends. Blocks until all threads have ended: for as long
    /// as [`Timeouts::stop`](crate::Timeouts) at most, beyond what a call of the service takes.
    pub fn stop(mut self) -> Stats {
        self.end();
        self.shared.stats()
    }

    fn end(&mut self) {
        self.shared.begin_stop();
        self.inboxes.iter().for_each(Inbox::wake);
        self.shared.threads.join();
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.end();
    }
}
