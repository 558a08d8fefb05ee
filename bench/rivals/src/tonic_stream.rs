//! tonic over a Unix socket: a stream of messages one way, and unary calls for requests. The codec hands bytes through,
//! so that no time goes into a message format.

use crate::plan::{Plan, Walk, all_came, ready, stamp, template, wait_for_end};
use crate::{failed, runtime};
use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::Service;
use tonic::server::{ClientStreamingService, Grpc, NamedService, UnaryService};
use tonic::transport::{Endpoint, Server, Uri};
use tonic::{Request, Response, Status, Streaming};

/// Bytes as they are.
#[derive(Default, Clone, Copy)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

type Later<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

#[derive(Clone)]
struct Echo;

impl UnaryService<Bytes> for Echo {
    type Response = Bytes;
    type Future = Later<Bytes>;

    fn call(&mut self, request: Request<Bytes>) -> Later<Bytes> {
        Box::pin(async move { Ok(Response::new(request.into_inner())) })
    }
}

#[derive(Clone)]
struct Sink(Arc<Plan>);

impl ClientStreamingService<Bytes> for Sink {
    type Response = Bytes;
    type Future = Later<Bytes>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Later<Bytes> {
        let plan = Arc::clone(&self.0);
        Box::pin(async move {
            let mut stream = request.into_inner();
            let mut walk = Walk::new(&plan);
            while let Some(message) = stream.message().await? {
                walk.take(&message);
            }
            all_came(&walk);
            Ok(Response::new(Bytes::new()))
        })
    }
}

/// The two methods.
#[derive(Clone)]
struct Bench(Arc<Plan>);

impl NamedService for Bench {
    const NAME: &'static str = "bench.Bench";
}

impl Service<http::Request<Body>> for Bench {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let plan = Arc::clone(&self.0);
        Box::pin(async move {
            let mut grpc = Grpc::new(Plain);
            Ok(match request.uri().path() {
                "/bench.Bench/Echo" => grpc.unary(Echo, request).await,
                _ => grpc.client_streaming(Sink(plan), request).await,
            })
        })
    }
}

/// The receiving end.
pub fn serve(plan: &Plan) -> io::Result<()> {
    let path = plan.directory.join("tonic.sock");
    let runtime = runtime()?;
    let guard = runtime.enter();
    let listener = UnixListener::bind(&path)?;
    drop(guard);
    ready(&path.display().to_string());
    let (ends, ended) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        wait_for_end();
        // A server that has failed hears nothing.
        let _ = ends.send(());
    });
    runtime
        .block_on(
            Server::builder()
                .initial_stream_window_size(8 << 20)
                .initial_connection_window_size(32 << 20)
                .add_service(Bench(Arc::new(plan.clone())))
                .serve_with_incoming_shutdown(UnixListenerStream::new(listener), async {
                    // An error ends it as well.
                    let _ = ended.await;
                }),
        )
        .map_err(failed)
}

async fn connect(address: &str) -> io::Result<tonic::client::Grpc<tonic::transport::Channel>> {
    let path = address.to_owned();
    let connector = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
    });
    let channel = Endpoint::from_static("http://bench")
        .initial_stream_window_size(8 << 20)
        .initial_connection_window_size(32 << 20)
        .connect_with_connector(connector)
        .await
        .map_err(failed)?;
    Ok(tonic::client::Grpc::new(channel))
}

/// Sends all messages in one stream.
pub fn send(plan: &Plan, address: &str) -> io::Result<()> {
    runtime()?.block_on(async {
        let mut grpc = connect(address).await?;
        let (bytes, messages) = (plan.message_bytes, plan.messages);
        let mut message = template(bytes);
        let all = tokio_stream::iter((0..messages).map(move |number| {
            stamp(&mut message, number);
            Bytes::copy_from_slice(&message)
        }));
        grpc.ready().await.map_err(failed)?;
        let path = PathAndQuery::from_static("/bench.Bench/Sink");
        grpc.client_streaming(Request::new(all), path, Plain)
            .await
            .map_err(failed)?;
        Ok(())
    })
}

/// Asks one request after the other.
pub fn echo(plan: &Plan, address: &str) -> io::Result<()> {
    runtime()?.block_on(async {
        let mut grpc = connect(address).await?;
        let mut message = template(plan.message_bytes);
        for number in 0..plan.requests {
            stamp(&mut message, number);
            grpc.ready().await.map_err(failed)?;
            let path = PathAndQuery::from_static("/bench.Bench/Echo");
            let body = Request::new(Bytes::copy_from_slice(&message));
            grpc.unary(body, path, Plain).await.map_err(failed)?;
        }
        Ok(())
    })
}
