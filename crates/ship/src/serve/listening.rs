//! Starting and stopping a server.

use super::dedicated::DedicatedThreads;
use super::inbox::Inbox;
use super::poller::{Listener, Poller, WrapLink};
use super::pool::RequestPool;
use super::{ServerState, Stats, blocking};
use crate::TransportError;
use crate::address::Address;
use crate::hello::Reason;
use crate::link::{Link, ShmListener, StreamListener, timespec};
use crate::options::Options;
use crate::session::Service;
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// Which threads do what.
///
/// ```
/// use logdrive_ship::Threads;
/// // Handlers that block, for instance on a disk, hold nobody else up on a pool.
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
    /// Threads that a poller gives connections of `unix://` and `tcp://` to while one of them is all that talks: a request
    /// and its response then cost no look at the others. Not with a pool, nor where pollers spin. Default: 2.
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
    pool: Option<Arc<RequestPool>>,
    dedicated: Option<Arc<DedicatedThreads>>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for RequestPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RequestPool")
    }
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
    let shared = Arc::new(ServerState::new(Arc::clone(&service), options.clone()));
    let mut listening = ServerHandle {
        shared,
        addresses: Vec::new(),
        inboxes: Vec::new(),
        pool: None,
        dedicated: None,
        threads: Vec::new(),
    };
    let mut listeners = Vec::new();
    for address in addresses {
        address.check(options.insecure)?;
        let bound = listening.open(address, options, &mut listeners)?;
        listening.addresses.push(bound);
    }
    if !listeners.is_empty() {
        listening.start_pollers(listeners, threads, &service)?;
    }
    Ok(listening)
}

fn system(doing: &'static str) -> impl Fn(io::Error) -> TransportError {
    move |cause| TransportError::System { doing, cause }
}

/// Makes the function that wraps accepted sockets in TLS.
#[cfg(feature = "tls")]
fn tls_wrap(options: &Options) -> Result<WrapLink, TransportError> {
    let config = crate::link::tls::server_config(&options.tls)?;
    Ok(Box::new(move |link| {
        Ok(Box::new(crate::link::tls::TlsLink::accept(link, &config)?) as Box<dyn Link>)
    }))
}

impl ServerHandle {
    /// Opens one address; gives it with the port that the system chose.
    fn open(
        &mut self,
        address: &Address,
        options: &Options,
        listeners: &mut Vec<Listener>,
    ) -> Result<Address, TransportError> {
        let failed = |cause: io::Error| TransportError::Listen {
            address: address.to_string(),
            cause,
        };
        Ok(match address {
            Address::Unix(path) => {
                let listener = StreamListener::unix(path).map_err(failed)?;
                listeners.push(Listener::plain(listener));
                address.clone()
            }
            Address::Tcp(host_port) => {
                let listener = StreamListener::tcp(host_port).map_err(failed)?;
                let bound = listener.host_port().unwrap_or_else(|| host_port.clone());
                listeners.push(Listener::plain(listener));
                Address::Tcp(bound)
            }
            #[cfg(feature = "tls")]
            Address::Tls(host_port) => {
                let wrap = tls_wrap(options)?;
                let listener = StreamListener::tcp(host_port).map_err(failed)?;
                let bound = listener.host_port().unwrap_or_else(|| host_port.clone());
                listeners.push(Listener::new(listener, wrap));
                Address::Tls(bound)
            }
            Address::Shm(path) => {
                let listener = ShmListener::listen(path).map_err(failed)?;
                let shared = Arc::clone(&self.shared);
                self.spawn("logdrive-shm", move || accept_shm(&listener, &shared))?;
                address.clone()
            }
            #[cfg(feature = "udp")]
            Address::Udp(host_port) => {
                let socket = super::udp::Socket::bind(host_port, options).map_err(failed)?;
                let bound = socket.host_port().unwrap_or_else(|| host_port.clone());
                let shared = Arc::clone(&self.shared);
                self.spawn("logdrive-udp", move || socket.run(&shared))?;
                Address::Udp(bound)
            }
            #[cfg(feature = "quic")]
            Address::Quic(host_port) => {
                let endpoint =
                    crate::quic::Endpoint::bind(host_port, options).map_err(|error| match error {
                        crate::quic::BindError::Io(cause) => failed(cause),
                        crate::quic::BindError::Other(error) => error,
                    })?;
                let bound = endpoint.host_port().unwrap_or_else(|| host_port.clone());
                let shared = Arc::clone(&self.shared);
                self.spawn("logdrive-quic", move || endpoint.run(&shared))?;
                Address::Quic(bound)
            }
            #[allow(unreachable_patterns)]
            other => {
                return Err(TransportError::NotBuilt {
                    scheme: other.scheme(),
                });
            }
        })
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), TransportError> {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(run)
            .map_err(system("start a thread"))?;
        self.threads.push(thread);
        Ok(())
    }

    fn start_pollers(
        &mut self,
        listeners: Vec<Listener>,
        threads: Threads,
        service: &Arc<dyn Service>,
    ) -> Result<(), TransportError> {
        if threads.pool > 0 {
            let (pool, handles) =
                RequestPool::start(threads.pool, service).map_err(system("start a thread"))?;
            self.pool = Some(pool);
            self.threads.extend(handles);
        }
        // A poller that spins leaves a socket alone for longer between two looks, which measures better.
        let spins = !self.shared.options.spin.is_zero();
        if threads.dedicated > 0 && threads.pool == 0 && !spins {
            self.dedicated = Some(DedicatedThreads::new(threads.dedicated, Arc::clone(&self.shared)));
        }
        let event_loops: io::Result<Vec<_>> = (0..threads.pollers.max(1))
            .map(|_| {
                let poll = mio::Poll::new()?;
                let inbox = Inbox::new(&poll)?;
                Ok((poll, inbox))
            })
            .collect();
        let event_loops = event_loops.map_err(system("make an event loop"))?;
        self.inboxes = event_loops.iter().map(|(_, inbox)| inbox.clone()).collect();
        let mut listeners = Some(listeners);
        for (index, (poll, _)) in event_loops.into_iter().enumerate() {
            // All listen at the first, which hands connections on.
            let listeners = listeners.take().unwrap_or_default();
            let inboxes = (self.inboxes.clone(), index);
            let (pool, dedicated) = (self.pool.clone(), self.dedicated.clone());
            let poller = Poller::new(
                poll,
                inboxes,
                listeners,
                pool,
                dedicated,
                Arc::clone(&self.shared),
            )
            .map_err(system("make a poller"))?;
            self.spawn(&format!("logdrive-poll-{index}"), move || poller.run())?;
        }
        Ok(())
    }

    /// Addresses that it listens at, with the ports that the system chose, in the order that was given.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Counters at this moment.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Takes what has come, says goodbye to all, and ends. Blocks until all threads have ended, which takes at most a
    /// second beyond what the service takes.
    pub fn stop(mut self) -> Stats {
        self.end();
        self.shared.stats()
    }

    fn end(&mut self) {
        // Relaxed: a flag that stands for itself; the wakes below and time limits make everybody look.
        self.shared.stops.store(true, Ordering::Relaxed);
        self.inboxes.iter().for_each(Inbox::wake);
        if let Some(pool) = &self.pool {
            pool.end();
        }
        if let Some(dedicated) = &self.dedicated {
            dedicated.end();
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.end();
    }
}

/// Accepts connections of shared memory; each gets a thread, because nobody can wait for rings and sockets at once.
fn accept_shm(listener: &ShmListener, shared: &Arc<ServerState>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let interval = timespec(Duration::from_millis(100));
    while !shared.stops() {
        let mut ready = [PollFd::new(listener, PollFlags::IN)];
        // A failure is looked at by the accept, and an interruption is none.
        let _ = poll(&mut ready, Some(&interval));
        let Ok(channel) = listener.accept() else { continue };
        let (finished, running): (Vec<_>, Vec<_>) = threads.into_iter().partition(JoinHandle::is_finished);
        threads = running;
        for thread in finished {
            // As in `end`.
            let _ = thread.join();
        }
        let uid = channel.peer().ok().map(|peer| peer.uid);
        let Some(peer) = shared.admit("shm".to_owned(), uid) else {
            continue;
        };
        let shared_too = Arc::clone(shared);
        let started = std::thread::Builder::new()
            .name("logdrive-shm-peer".to_owned())
            .spawn(move || match ShmListener::join(channel, &shared_too.options) {
                Ok(link) => {
                    let server = shared_too.session(peer, true).with_alignment(link.alignment());
                    blocking::serve(Box::new(link), server, &shared_too);
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    shared_too.connection_closed(Reason::Forbidden, true);
                }
                Err(_) => shared_too.connection_closed(Reason::Handshake, true),
            });
        match started {
            Ok(thread) => threads.push(thread),
            Err(_) => shared.connection_closed(Reason::System, true),
        }
    }
    for thread in threads {
        // As above.
        let _ = thread.join();
    }
}
