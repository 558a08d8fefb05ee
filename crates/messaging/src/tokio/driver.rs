//! The task that serves the connection of an asynchronous client, and makes it again.

use super::exchange::{Command, Exchange};
use crate::backoff::Backoff;
use logdrive_ship::connection::Connection;
use logdrive_ship::hello::{HELLO_ACKS, Hello};
use logdrive_ship::{Address, NonBlocking, Options, Readiness, TransportError};
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Sleep, sleep, timeout};

/// Time between two looks of a connection's thread at whether its runtime has ended.
const THREAD_LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Time that a goodbye gets to be sent.
const GOODBYE_TIMEOUT: Duration = Duration::from_millis(500);

/// Wakes the thread that serves a connection of `shm://`.
pub(super) type ThreadWaker = Arc<Mutex<Option<Box<dyn Fn() + Send>>>>;

/// Connects on a thread that may block.
pub(super) async fn connect(
    address: Address,
    options: Options,
) -> Result<(Connection, Hello), TransportError> {
    let connecting = spawn_blocking(move || Connection::connect(&address, &options, HELLO_ACKS));
    // It does not panic; and the runtime that ends it ends this task, too.
    connecting
        .await
        .unwrap_or_else(|error| Err(TransportError::system("connect")(io::Error::other(error))))
}

pub(super) struct Driver {
    address: Address,
    options: Options,
    exchange: Exchange,
    waker: ThreadWaker,
    backoff: Backoff,
}

/// What a connection's task waits for.
enum Event {
    /// `None`: all clones of the client are gone.
    Command(Option<Command>),
    /// Something may have come, or there may be room.
    Ready,
    KeepAlive,
}

/// End of a connection.
enum End {
    /// All clones of the client are gone.
    Closed,
    Lost(TransportError),
}

impl Driver {
    pub(super) fn new(address: Address, options: Options, exchange: Exchange, waker: ThreadWaker) -> Self {
        Self {
            address,
            options,
            exchange,
            waker,
            backoff: Backoff::default(),
        }
    }

    /// Runs until the last clone of the client is gone.
    pub(super) async fn run(mut self, connection: Connection, hello: Hello) {
        let mut connected = Some((connection, hello));
        while let Some((connection, hello)) = connected {
            let connection = connection.into_nonblocking();
            self.exchange.begin(&hello, &connection);
            let is_thread = matches!(connection.readiness(), Readiness::Thread);
            let end = match is_thread {
                true => self.serve_on_thread(connection).await,
                false => self.serve(connection).await,
            };
            let End::Lost(error) = end else { return };
            self.exchange.fail_all(&error);
            connected = self.connect_again().await;
        }
    }

    /// Connects again once a caller wants something, and as often as it takes while one does. `None`: nobody will.
    async fn connect_again(&mut self) -> Option<(Connection, Hello)> {
        loop {
            let command = self.exchange.commands.recv().await?;
            while !command.is_canceled() {
                sleep(self.backoff.left(Instant::now())).await;
                match connect(self.address.clone(), self.options.clone()).await {
                    Ok((connection, hello)) => {
                        self.backoff.succeeded();
                        self.exchange.first = Some(command);
                        return Some((connection, hello));
                    }
                    Err(error) => {
                        self.backoff.failed(Instant::now());
                        if !error.is_passing() {
                            command.fail(error);
                            break;
                        }
                    }
                }
            }
        }
    }

    async fn serve(&mut self, mut connection: NonBlocking) -> End {
        let watch = match Watch::new(&connection) {
            Ok(watch) => watch,
            Err(error) => return End::Lost(error),
        };
        let error = match self.turns(&mut connection, &watch).await {
            Ok(()) => {
                self.exchange.put_goodbye(&connection);
                let sent = async {
                    while let Ok(false) = self.exchange.send(&mut connection) {
                        watch.ready(true).await;
                    }
                };
                // A peer that is gone needs no goodbye.
                let _ = timeout(GOODBYE_TIMEOUT, sent).await;
                None
            }
            Err(error) => Some(error),
        };
        connection.finish();
        // A link may wait for what it has sent, which this task may not.
        drop(spawn_blocking(move || drop(connection)));
        error.map_or(End::Closed, End::Lost)
    }

    /// Serves a connection until all clones of the client are gone, or it is lost.
    async fn turns(&mut self, connection: &mut NonBlocking, watch: &Watch) -> Result<(), TransportError> {
        let exchange = &mut self.exchange;
        if let Some(command) = exchange.first.take() {
            exchange.take(command, connection);
        }
        let keep_alive = exchange.keep_alive;
        let mut timer = pin!(sleep(keep_alive));
        loop {
            let has_more = exchange.receive(connection)?;
            let is_sent = exchange.send(connection)?;
            if has_more {
                tokio::task::yield_now().await;
                continue;
            }
            let takes = !exchange.is_full();
            let commands = takes.then_some(&mut exchange.commands);
            match next_event(commands, watch, !is_sent, timer.as_mut()).await {
                Event::Command(None) => return Ok(()),
                Event::Command(Some(command)) => {
                    exchange.take(command, connection);
                    // Those that wait travel with it.
                    while !exchange.is_full()
                        && let Ok(command) = exchange.commands.try_recv()
                    {
                        exchange.take(command, connection);
                    }
                }
                Event::Ready => {}
                Event::KeepAlive => {
                    exchange.put_keep_alive(connection);
                    timer.as_mut().reset(tokio::time::Instant::now() + keep_alive);
                }
            }
        }
    }

    /// Serves a connection whose link only a thread can wait for.
    async fn serve_on_thread(&mut self, connection: NonBlocking) -> End {
        let wake = connection.waker();
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = wake;
        let (ended, end) = oneshot::channel();
        // The exchange goes to the thread, and comes back with its end.
        let exchange = self.exchange.lend();
        let started = std::thread::Builder::new()
            .name("logdrive-client".to_owned())
            .spawn(move || {
                let (mut exchange, mut connection) = (exchange, connection);
                let end = serve_blocking(&mut exchange, &mut connection, || ended.is_closed());
                // A runtime that has ended takes nothing back.
                drop(ended.send((exchange, end)));
            });
        if let Err(cause) = started {
            return End::Lost(TransportError::system("start a thread")(cause));
        }
        match end.await {
            Ok((exchange, end)) => {
                self.exchange = exchange;
                end
            }
            Err(_) => End::Closed,
        }
    }
}

fn serve_blocking(
    exchange: &mut Exchange,
    connection: &mut NonBlocking,
    has_ended: impl Fn() -> bool,
) -> End {
    if let Some(command) = exchange.first.take() {
        exchange.take(command, connection);
    }
    let mut alive_at = Instant::now();
    while !has_ended() {
        while !exchange.is_full() {
            match exchange.commands.try_recv() {
                Ok(command) => exchange.take(command, connection),
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    exchange.put_goodbye(connection);
                    // A peer that is gone needs no goodbye.
                    let _ = exchange.send(connection);
                    return End::Closed;
                }
            }
        }
        if alive_at.elapsed() >= exchange.keep_alive {
            alive_at = Instant::now();
            exchange.put_keep_alive(connection);
        }
        let turn = |exchange: &mut Exchange, connection: &mut NonBlocking| {
            let was_full = exchange.is_full();
            let is_sent = exchange.send(connection)?;
            let has_more = exchange.receive(connection)?;
            // Commands that were left in the queue wake nobody again.
            let is_left = was_full && !exchange.is_full();
            if !has_more && !is_left {
                connection.wait(!is_sent, THREAD_LOOK_INTERVAL.min(exchange.keep_alive))?;
            }
            Ok(())
        };
        if let Err(error) = turn(exchange, connection) {
            return End::Lost(error);
        }
    }
    End::Closed
}

/// Waits for a command where one is taken, for the connection, or for the time of a sign of life.
async fn next_event(
    mut commands: Option<&mut mpsc::Receiver<Command>>,
    watch: &Watch,
    for_room: bool,
    mut timer: Pin<&mut Sleep>,
) -> Event {
    let mut ready = pin!(watch.ready(for_room));
    poll_fn(|context: &mut Context<'_>| {
        if let Poll::Ready(()) = ready.as_mut().poll(context) {
            return Poll::Ready(Event::Ready);
        }
        if let Some(commands) = commands.as_mut()
            && let Poll::Ready(command) = commands.poll_recv(context)
        {
            return Poll::Ready(Event::Command(command));
        }
        timer.as_mut().poll(context).map(|()| Event::KeepAlive)
    })
    .await
}

/// What tells when a connection is worth another look.
enum Watch {
    Descriptor(AsyncFd<OwnedFd>),
    Notify(Arc<Notify>),
}

impl Watch {
    fn new(connection: &NonBlocking) -> Result<Self, TransportError> {
        let failed = TransportError::system("watch a connection");
        match connection.readiness() {
            Readiness::Descriptor(descriptor) => {
                let own = descriptor.try_clone_to_owned().map_err(&failed)?;
                let interest = Interest::READABLE | Interest::WRITABLE;
                #[allow(
                    deprecated,
                    reason = "the way without unsafe code; an owned descriptor stays what it is until it is dropped"
                )]
                let watched = AsyncFd::with_interest(own, interest);
                watched.map(Self::Descriptor).map_err(failed)
            }
            #[cfg(feature = "quic")]
            Readiness::Notify(notify) => Ok(Self::Notify(notify)),
            _ => Ok(Self::Notify(Arc::default())),
        }
    }

    /// Waits for a change since the last look. The caller looks at everything after it: readiness is cleared here, before
    /// that, so that what changes meanwhile is told anew.
    async fn ready(&self, for_room: bool) {
        match self {
            Self::Notify(notify) => notify.notified().await,
            Self::Descriptor(descriptor) => {
                poll_fn(|context| {
                    let mut is_ready = false;
                    if let Poll::Ready(guard) = descriptor.poll_read_ready(context) {
                        // An error shows in the receive.
                        is_ready = true;
                        guard.map(|mut guard| guard.clear_ready()).ok();
                    }
                    if for_room && let Poll::Ready(guard) = descriptor.poll_write_ready(context) {
                        is_ready = true;
                        guard.map(|mut guard| guard.clear_ready()).ok();
                    }
                    match is_ready {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                })
                .await;
            }
        }
    }
}
