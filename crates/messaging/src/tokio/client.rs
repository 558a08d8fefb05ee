//! The client that tasks use.

use super::driver::{Driver, ThreadWaker, connect};
use super::exchange::{Command, Exchange};
use crate::Pushed;
use logdrive_ship::limits::{ASYNC_COMMANDS_MAX, ASYNC_PUSHED_MAX};
use logdrive_ship::{Address, Options, TransportError};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};
use tokio::time::timeout;

/// Connection to a service, for tasks: any number of them, each with a clone, use it at once, and their requests travel
/// together. A task of the runtime serves the connection; for `shm://` a thread does, because rings have no descriptor.
///
/// A call that is dropped, or takes too long, is given up: it is not sent any more, or its response is left out and the
/// server told, see [`TowerService`](super::TowerService). When the connection is lost,
/// all calls under way fail, and the next one makes it again, with pauses between attempts that grow; no request is sent
/// twice. The connection ends with the last clone.
///
/// ```
/// use logdrive_messaging::tokio::Client;
/// # use logdrive_ship::session::{Peer, ReplyBuffer, Service};
/// # use logdrive_ship::{Address, Options, Threads, serve};
/// # use std::{sync::Arc, time::Duration};
/// # struct Echo;
/// # impl Service for Echo {
/// #     fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
/// #         reply.extend_from_slice(body);
/// #         Ok(())
/// #     }
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let options = Options::default();
/// # let anywhere: Address = "tcp://127.0.0.1:0".parse()?;
/// # let server = serve(&[anywhere], &options, Threads::default(), Arc::new(Echo))?;
/// # let address = server.addresses()[0].clone();
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let client = Client::connect(&address, &options).await?;
/// assert_eq!(client.call(b"one").await?, b"one");
/// assert_eq!(client.call_within(b"two", Duration::from_secs(1)).await?, b"two");
/// # Ok::<(), logdrive_ship::TransportError>(())
/// # })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    commands: mpsc::Sender<Command>,
    pushed: Arc<AsyncMutex<mpsc::Receiver<Pushed>>>,
    /// Relaxed: a count that orders nothing.
    dropped: Arc<AtomicU64>,
    waker: ThreadWaker,
    address: Arc<Address>,
    response_timeout: Duration,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// Fails when no server answers there within the options' time, or it refuses the client.
    ///
    /// # Panics
    /// Panics outside of a runtime that has its drivers for I/O and time enabled, as all of tokio does.
    pub async fn connect(address: &Address, options: &Options) -> Result<Self, TransportError> {
        let (connection, hello) = connect(address.clone(), options.clone()).await?;
        let (commands, incoming) = mpsc::channel(ASYNC_COMMANDS_MAX);
        let (pushes, pushed) = mpsc::channel(ASYNC_PUSHED_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let waker = ThreadWaker::default();
        let exchange = Exchange::new(incoming, pushes, Arc::clone(&dropped), options.timeouts.idle / 3);
        let driver = Driver::new(address.clone(), options.clone(), exchange, Arc::clone(&waker));
        tokio::spawn(driver.run(connection, hello));
        Ok(Self {
            commands,
            pushed: Arc::new(AsyncMutex::new(pushed)),
            dropped,
            waker,
            address: Arc::new(address.clone()),
            response_timeout: options.timeouts.response,
        })
    }

    /// Asks, and gives the reply, within the options' time for a response.
    ///
    /// # Errors
    /// Fails when the connection is lost, the response takes too long, or the service failed.
    pub async fn call(&self, body: impl Into<Vec<u8>>) -> Result<Vec<u8>, TransportError> {
        self.call_within(body, self.response_timeout).await
    }

    /// As [`Client::call`], for so long at most: for a connection where that has to be made again, for its turn, and for
    /// the response.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn call_within(
        &self,
        body: impl Into<Vec<u8>>,
        limit: Duration,
    ) -> Result<Vec<u8>, TransportError> {
        let (reply, replied) = oneshot::channel();
        let body = body.into();
        self.command("answer", limit, Command::Call { body, reply }, replied)
            .await
    }

    /// Sends messages one way, and returns once the service has taken all of them.
    ///
    /// # Errors
    /// Fails when one of them is too long, the connection is lost, or the other end takes too long.
    pub async fn deliver<M: AsRef<[u8]>>(&self, messages: &[M]) -> Result<(), TransportError> {
        let messages = messages.iter().map(|message| message.as_ref().to_vec()).collect();
        let (done, is_done) = oneshot::channel();
        let command = Command::Deliver { messages, done };
        self.command("acknowledge", self.response_timeout, command, is_done)
            .await
    }

    /// Sends one message one way, with those that others send, and without a confirmation that it has come: one that waits
    /// when the connection is lost is lost with it. Waits while too many wait already.
    ///
    /// # Errors
    /// Fails when it is too long, or waits for its turn longer than a response may take.
    pub async fn send(&self, message: impl Into<Vec<u8>>) -> Result<(), TransportError> {
        let (done, is_done) = oneshot::channel();
        let message = message.into();
        self.command(
            "take",
            self.response_timeout,
            Command::Send { message, done },
            is_done,
        )
        .await
    }

    async fn command<T>(
        &self,
        what: &'static str,
        limit: Duration,
        command: Command,
        outcome: oneshot::Receiver<Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        // Dropped behind the receiver of the outcome, by which the other end of the channel knows that it was given up.
        let mut guard = CancelGuard {
            client: matches!(command, Command::Call { .. }).then_some(self),
        };
        let ended = || TransportError::lost(&self.address)(std::io::ErrorKind::BrokenPipe.into());
        let asked = async {
            // Both ends of it are gone only when the runtime is.
            self.commands.send(command).await.map_err(|_| ended())?;
            self.wake();
            outcome.await.map_err(|_| ended())?
        };
        let late = |_| Err(TransportError::timeout(&self.address, what, limit));
        match timeout(limit, asked).await {
            Ok(result) => {
                guard.client = None;
                result
            }
            Err(elapsed) => late(elapsed),
        }
    }

    fn wake(&self) {
        if let Some(wake) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            wake();
        }
    }

    /// The next message that the server has sent of its own accord, see
    /// [`Outbox::push`](logdrive_ship::session::Outbox::push). 1,024 wait here until they are taken; those beyond are counted
    /// by [`Client::dropped`]. Clones share them, one task at a time. `None`: the connection has ended for good, with its
    /// runtime.
    ///
    /// What the server had for this client when a connection was lost is lost, too; a client that subscribes does it anew
    /// when a call fails.
    pub async fn next_pushed(&self) -> Option<Pushed> {
        self.pushed.lock().await.recv().await
    }

    /// Number of messages of the server for which there was no room here.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Call that is under way: has the server told when it is given up.
struct CancelGuard<'a> {
    client: Option<&'a Client>,
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client {
            // Where many commands wait, those that were given up are found later.
            if client.commands.try_send(Command::Cancel).is_ok() {
                client.wake();
            }
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// A client is a service for the layers of others (timeouts, limits, retries), which adds no waiting of its own.
impl tower_service::Service<Vec<u8>> for Client {
    type Response = Vec<u8>;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<Vec<u8>, TransportError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, body: Vec<u8>) -> Self::Future {
        let client = self.clone();
        Box::pin(async move { client.call(body).await })
    }
}
