//! Starting and stopping a server.

use super::poller::{Door, Dress, Hook, Poller};
use super::pool::Pool;
use super::talks::Talks;
use super::{Shared, Stats, thread};
use crate::TransportError;
use crate::address::Address;
use crate::hello::Reason;
use crate::link::{Link, ShmListener, SocketLink, StreamListener, timespec};
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
/// assert_eq!(Threads::default(), Threads { pollers: 1, pool: 0, talkers: 2 });
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
    pub talkers: usize,
}

impl Default for Threads {
    fn default() -> Self {
        Self {
            pollers: 1,
            pool: 0,
            talkers: 2,
        }
    }
}

/// A server that runs, as [`serve`] starts it. Stops when it is dropped, as [`Listening::stop`] does.
#[derive(Debug)]
pub struct Listening {
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    hooks: Vec<Hook>,
    pool: Option<Arc<Pool>>,
    talks: Option<Arc<Talks>>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pool")
    }
}

/// Listens at addresses and gives what comes to a service. A plain address off this machine is refused unless the
/// options say `insecure`.
///
/// # Errors
/// When an address cannot be listened at, a certificate cannot be used, or a thread cannot be started.
pub fn serve(
    addresses: &[Address],
    options: &Options,
    threads: Threads,
    service: Arc<dyn Service>,
) -> Result<Listening, TransportError> {
    options.check()?;
    let shared = Arc::new(Shared::new(Arc::clone(&service), options.clone()));
    let mut listening = Listening {
        shared,
        addresses: Vec::new(),
        hooks: Vec::new(),
        pool: None,
        talks: None,
        threads: Vec::new(),
    };
    let mut doors = Vec::new();
    for address in addresses {
        address.check(options.insecure)?;
        let bound = listening.open(address, options, &mut doors)?;
        listening.addresses.push(bound);
    }
    if !doors.is_empty() {
        listening.start_pollers(doors, threads, &service)?;
    }
    Ok(listening)
}

fn system(doing: &'static str) -> impl Fn(io::Error) -> TransportError {
    move |cause| TransportError::System { doing, cause }
}

/// What makes a connection that was accepted one of TLS.
#[cfg(feature = "tls")]
fn tls_dress(options: &Options) -> Result<Dress, TransportError> {
    let config = crate::link::tls::server_config(&options.tls)?;
    Ok(Box::new(move |link| {
        Ok(Box::new(crate::link::tls::TlsLink::accept(link, &config)?) as Box<dyn Link>)
    }))
}

impl Listening {
    /// Opens one address; gives it with the port that the system chose.
    fn open(
        &mut self,
        address: &Address,
        options: &Options,
        doors: &mut Vec<Door>,
    ) -> Result<Address, TransportError> {
        let failed = |cause: io::Error| TransportError::Listen {
            address: address.to_string(),
            cause,
        };
        let plain = || -> Dress { Box::new(|link: SocketLink| Ok(Box::new(link) as Box<dyn Link>)) };
        Ok(match address {
            Address::Unix(path) => {
                let listener = StreamListener::unix(path).map_err(failed)?;
                doors.push(Door {
                    listener,
                    dress: plain(),
                });
                address.clone()
            }
            Address::Tcp(place) => {
                let listener = StreamListener::tcp(place).map_err(failed)?;
                let bound = listener.place().unwrap_or_else(|| place.clone());
                doors.push(Door {
                    listener,
                    dress: plain(),
                });
                Address::Tcp(bound)
            }
            #[cfg(feature = "tls")]
            Address::Tls(place) => {
                let dress = tls_dress(options)?;
                let listener = StreamListener::tcp(place).map_err(failed)?;
                let bound = listener.place().unwrap_or_else(|| place.clone());
                doors.push(Door { listener, dress });
                Address::Tls(bound)
            }
            Address::Shm(path) => {
                let listener = ShmListener::listen(path).map_err(failed)?;
                let shared = Arc::clone(&self.shared);
                self.spawn("logdrive-shm", move || accept_shm(&listener, &shared))?;
                address.clone()
            }
            #[cfg(feature = "udp")]
            Address::Udp(place) => {
                let socket = super::udp::Socket::bind(place, options).map_err(failed)?;
                let bound = socket.place().unwrap_or_else(|| place.clone());
                let shared = Arc::clone(&self.shared);
                self.spawn("logdrive-udp", move || socket.run(&shared))?;
                Address::Udp(bound)
            }
            #[cfg(feature = "quic")]
            Address::Quic(place) => {
                let endpoint = crate::quic::Endpoint::bind(place, options).map_err(|error| match error {
                    crate::quic::BindError::Io(cause) => failed(cause),
                    crate::quic::BindError::Other(error) => error,
                })?;
                let bound = endpoint.place().unwrap_or_else(|| place.clone());
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
        doors: Vec<Door>,
        threads: Threads,
        service: &Arc<dyn Service>,
    ) -> Result<(), TransportError> {
        if threads.pool > 0 {
            let (pool, handles) = Pool::start(threads.pool, service).map_err(system("start a thread"))?;
            self.pool = Some(pool);
            self.threads.extend(handles);
        }
        // A poller that spins leaves a socket alone for longer between two looks, which measures better.
        let spins = !self.shared.options.spin.is_zero();
        if threads.talkers > 0 && threads.pool == 0 && !spins {
            self.talks = Some(Talks::new(threads.talkers, Arc::clone(&self.shared)));
        }
        let count = threads.pollers.max(1);
        for _ in 0..count {
            self.hooks
                .push(Hook::new().map_err(system("make an event descriptor"))?);
        }
        let mut doors = Some(doors);
        for index in 0..count {
            let doors = doors.take().unwrap_or_default();
            let (shared, hooks, pool) = (Arc::clone(&self.shared), self.hooks.clone(), self.pool.clone());
            let talks = self.talks.clone();
            let poller =
                Poller::new(shared, index, hooks, doors, pool, talks).map_err(system("make a poller"))?;
            self.spawn(&format!("logdrive-poll-{index}"), move || poller.run())?;
        }
        Ok(())
    }

    /// Where it listens, with the ports that the system chose, in the order that was given.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// What it has counted.
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
        self.hooks.iter().for_each(Hook::wake);
        if let Some(pool) = &self.pool {
            pool.end();
        }
        if let Some(talks) = &self.talks {
            talks.end();
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.end();
    }
}

/// Accepts connections of shared memory; each gets a thread, because nobody can wait for rings and sockets at once.
fn accept_shm(listener: &ShmListener, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let look = timespec(Duration::from_millis(100));
    while !shared.stops() {
        let mut ready = [PollFd::new(listener, PollFlags::IN)];
        // A failure is looked at by the accept, and an interruption is none.
        let _ = poll(&mut ready, Some(&look));
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
                    let server = shared_too.session(peer, true).aligned(link.alignment());
                    thread::serve(Box::new(link), server, &shared_too);
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    shared_too.leave(Reason::Forbidden, true);
                }
                Err(_) => shared_too.leave(Reason::Handshake, true),
            });
        match started {
            Ok(thread) => threads.push(thread),
            Err(_) => shared.leave(Reason::Memory, true),
        }
    }
    for thread in threads {
        // As above.
        let _ = thread.join();
    }
}
