//! A [`tower_service::Service`] as the service of a server.

use logdrive_ship::hello::{Reason, Role};
use logdrive_ship::session::{Peer, ReplyBuffer, Service};
use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Request of a client.
#[derive(Debug, Clone)]
pub struct Request {
    /// The client at the other end of the connection.
    pub peer: Peer,
    /// Stream of the connection that the client has named.
    pub stream: u16,
    /// Bytes of the request.
    pub body: Vec<u8>,
}

/// Serves requests with an asynchronous service: each is a task of a runtime, on a clone of the service, and its reply goes
/// to the client when the task has it. The server's own threads only receive and send. An error, and a panic, of the task
/// fails the request; the task is dropped when the client gives the request up, or is gone. At most 4,096 requests of a
/// connection are under way.
///
/// ```
/// use logdrive_messaging::tokio::{Client, Request, TowerService};
/// use logdrive_ship::{Address, Options, Threads, serve};
/// # use std::convert::Infallible;
/// # use std::future::{Ready, ready};
/// # use std::sync::Arc;
/// # use std::task::{Context, Poll};
/// #[derive(Clone)]
/// struct Upper;
/// impl tower_service::Service<Request> for Upper {
///     type Response = Vec<u8>;
///     type Error = Infallible;
///     type Future = Ready<Result<Vec<u8>, Infallible>>;
///     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
///         Poll::Ready(Ok(()))
///     }
///     fn call(&mut self, request: Request) -> Self::Future {
///         ready(Ok(request.body.to_ascii_uppercase()))
///     }
/// }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// # let options = Options::default();
/// # let anywhere: Address = "tcp://127.0.0.1:0".parse()?;
/// let service = Arc::new(TowerService::new(Upper));
/// let server = serve(&[anywhere], &options, Threads::default(), service)?;
/// let client = Client::connect(&server.addresses()[0], &options).await?;
/// assert_eq!(client.call(b"one").await?, b"ONE");
/// # Ok::<(), logdrive_ship::TransportError>(())
/// # })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TowerService<S> {
    service: Mutex<S>,
    runtime: Handle,
}

impl<S> TowerService<S> {
    /// Serves with the runtime of the task that calls this.
    ///
    /// # Panics
    /// Panics outside of a runtime; [`TowerService::on`] takes one.
    pub fn new(service: S) -> Self {
        Self::on(service, Handle::current())
    }

    /// Serves with this runtime.
    pub fn on(service: S, runtime: Handle) -> Self {
        Self {
            service: Mutex::new(service),
            runtime,
        }
    }
}

impl<S> Service for TowerService<S>
where
    S: tower_service::Service<Request> + Clone + Send + 'static,
    S::Response: Into<Vec<u8>>,
    S::Error: Display,
    S::Future: Future + Send,
{
    fn hello(&self, peer: &Peer) -> Result<u64, Reason> {
        match peer.hello.as_ref() {
            Some(hello) if hello.role == Role::Client => Ok(0),
            _ => Err(Reason::Unexpected),
        }
    }

    fn request(
        &self,
        peer: &Peer,
        stream: u16,
        body: &[u8],
        reply: &mut ReplyBuffer<'_>,
    ) -> Result<(), String> {
        let later = reply.defer()?;
        // A clone that panicked while it was made leaves the original as it was.
        let mut service = self
            .service
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let request = Request {
            peer: peer.clone(),
            stream,
            body: body.to_vec(),
        };
        let (cancel, mut canceled) = oneshot::channel();
        later.on_cancel(move || {
            // A task that has ended needs no end.
            let _ = cancel.send(());
        });
        self.runtime.spawn(async move {
            let mut answered = Box::pin(async {
                poll_fn(|context| service.poll_ready(context)).await?;
                service.call(request).await
            });
            let mut is_watched = true;
            let answered = poll_fn(|context| {
                if is_watched && let Poll::Ready(told) = Pin::new(&mut canceled).poll(context) {
                    is_watched = false;
                    if told.is_ok() {
                        return Poll::Ready(None);
                    }
                }
                answered.as_mut().poll(context).map(Some)
            });
            match answered.await {
                Some(Ok(bytes)) => later.reply(bytes),
                Some(Err(error)) => later.fail(error.to_string()),
                // The client has given it up, or is gone.
                None => {}
            }
        });
        Ok(())
    }
}
