//! One port for all that comes by HTTP: OpenTelemetry by gRPC and as protobuf, Elasticsearch's bulk, Loki's push, and lines.

use super::intake::Intake;
use super::{bulk, otlp};
use crate::limits::{HTTP_BODY_BYTES_MAX, HTTP_CONNECTIONS_MAX};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use logdrive_reader::foreign::{ForeignParser, ForeignRecord};
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use prost::Message;
use std::convert::Infallible;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tonic::codec::CompressionEncoding;
use tower_service::Service;

/// Pause after an error of a listener that may come again at once.
const PAUSE: Duration = Duration::from_millis(100);
/// Path of OpenTelemetry's export by gRPC.
const GRPC: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

type Answer = Response<tonic::body::Body>;

/// Serves connections.
pub(crate) async fn serve(listener: TcpListener, intake: Intake) {
    let places = Arc::new(Semaphore::new(HTTP_CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let intake = intake.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, intake.clone()));
            let builder = auto::Builder::new(TokioExecutor::new());
            // A peer that breaks the protocol ends its own connection.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}

async fn answer(request: Request<Incoming>, intake: Intake) -> Result<Answer, Infallible> {
    if request.uri().path() == GRPC {
        let mut service = LogsServiceServer::new(Logs(intake))
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(HTTP_BODY_BYTES_MAX);
        return service.call(request).await;
    }
    let path = request.uri().path().to_owned();
    let is_post = request.method() == hyper::Method::POST;
    let found = match (path.as_str(), is_post) {
        ("/v1/logs" | "/loki/api/v1/push" | "/_bulk" | "/lines", true) => read(request).await,
        // Clients of Elasticsearch and Loki ask whether somebody is there.
        ("/" | "/ready", false) => return Ok(plain(StatusCode::OK, "logdrive")),
        _ => {
            return Ok(plain(
                StatusCode::NOT_FOUND,
                "POST to /v1/logs, /loki/api/v1/push, /_bulk or /lines",
            ));
        }
    };
    let parsed =
        found.and_then(|body| parse(&path, &body).map_err(|why| refusal(StatusCode::BAD_REQUEST, &why)));
    let (records, answer) = match parsed {
        Ok(parsed) => parsed,
        Err(answer) => {
            intake.malformed();
            return Ok(*answer);
        }
    };
    Ok(match intake.keep(records).await {
        true => answer,
        false => plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "the collector does not take records now",
        ),
    })
}

fn plain(status: StatusCode, text: &str) -> Answer {
    of_type(status, "text/plain", text.as_bytes().to_vec())
}

fn refusal(status: StatusCode, text: &str) -> Box<Answer> {
    Box::new(plain(status, text))
}

fn of_type(status: StatusCode, kind: &'static str, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(tonic::body::Body::new(Full::new(Bytes::from(body))));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    answer
}

/// Reads a body, and decompresses it.
async fn read(request: Request<Incoming>) -> Result<Vec<u8>, Box<Answer>> {
    let encoding = request.headers().get(CONTENT_ENCODING).cloned();
    let body = Limited::new(request.into_body(), HTTP_BODY_BYTES_MAX)
        .collect()
        .await;
    let too_large = |_| {
        refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is too large or was cut off",
        )
    };
    let body = body.map_err(too_large)?.to_bytes();
    let limit = HTTP_BODY_BYTES_MAX as u64 + 1;
    let mut out = Vec::new();
    let read = match encoding.as_ref().map(hyper::header::HeaderValue::as_bytes) {
        None | Some(b"identity") => return Ok(body.to_vec()),
        Some(b"gzip") => flate2::read::MultiGzDecoder::new(&*body)
            .take(limit)
            .read_to_end(&mut out),
        Some(b"zstd") => zstd::stream::read::Decoder::new(&*body)
            .and_then(|decoder| decoder.take(limit).read_to_end(&mut out)),
        Some(_) => {
            return Err(refusal(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "content-encoding: gzip, zstd or none",
            ));
        }
    };
    match read {
        Ok(_) if out.len() <= HTTP_BODY_BYTES_MAX => Ok(out),
        Ok(_) => Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large")),
        Err(_) => Err(refusal(
            StatusCode::BAD_REQUEST,
            "the body cannot be decompressed",
        )),
    }
}

/// Takes a body apart; returns its records, and the answer when they are kept.
fn parse(path: &str, body: &[u8]) -> Result<(Vec<ForeignRecord>, Answer), String> {
    let mut parser = ForeignParser::default();
    Ok(match path {
        "/v1/logs" => {
            let request = ExportLogsServiceRequest::decode(body)
                .map_err(|error| format!("no export request as protobuf: {error}"))?;
            let answer = ExportLogsServiceResponse::default().encode_to_vec();
            (
                otlp::records(request),
                of_type(StatusCode::OK, "application/x-protobuf", answer),
            )
        }
        "/loki/api/v1/push" => {
            let records =
                bulk::loki(&mut parser, body).map_err(|why| format!("no push request as JSON: {why}"))?;
            (records, plain(StatusCode::NO_CONTENT, ""))
        }
        "/_bulk" => {
            let (records, answer) = bulk::elastic(&mut parser, body)?;
            (
                records,
                of_type(
                    StatusCode::OK,
                    "application/json",
                    answer.to_string().into_bytes(),
                ),
            )
        }
        _ => (bulk::lines(&mut parser, body), plain(StatusCode::NO_CONTENT, "")),
    })
}

/// OpenTelemetry's service.
#[derive(Debug)]
struct Logs(Intake);

#[tonic::async_trait]
impl LogsService for Logs {
    async fn export(
        &self,
        request: tonic::Request<ExportLogsServiceRequest>,
    ) -> Result<tonic::Response<ExportLogsServiceResponse>, tonic::Status> {
        match self.0.keep(otlp::records(request.into_inner())).await {
            true => Ok(tonic::Response::new(ExportLogsServiceResponse::default())),
            false => Err(tonic::Status::unavailable(
                "the collector does not take records now",
            )),
        }
    }
}
