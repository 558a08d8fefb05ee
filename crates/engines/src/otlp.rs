//! OpenTelemetry: log records by gRPC or HTTP, typed, with the id of each in `log.record.uid`. The receiver may or may not look
//! at that: a batch that was taken without an answer is there twice with those that do not.

use crate::address::EngineAddress;
use crate::batch::{EngineBatch, EngineRecord};
use crate::engine::Engine;
use crate::error::{EngineError, Refusal};
use crate::http::HttpClient;
use crate::json::value_text;
use crate::limits::{CONNECT_TIMEOUT, RESPONSE_TIMEOUT};
use logdrive_store::RowProcess;
use logdrive_wire::{Level, Value};
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Status};

/// Bytes of a request that receivers take by default, before compression, with room for the frame.
const REQUEST_BYTES_MAX: usize = (4 << 20) - 4096;

/// Returns the client of an address.
pub(crate) fn open(address: &EngineAddress) -> Result<Box<dyn Engine>, EngineError> {
    Ok(match address.transport() {
        "grpc" => Box::new(OtlpGrpc::new(address)?),
        _ => Box::new(OtlpHttp::new(address)?),
    })
}

/// Client by HTTP.
#[derive(Debug)]
struct OtlpHttp {
    http: HttpClient,
    path: String,
    /// Bytes of a record of the last request.
    record_bytes: usize,
}

impl OtlpHttp {
    fn new(address: &EngineAddress) -> Result<Self, EngineError> {
        let path = match address.place.as_str() {
            "" => "v1/logs",
            place => place,
        };
        Ok(Self {
            http: HttpClient::new(address)?,
            path: format!("/{path}"),
            record_bytes: 0,
        })
    }
}

impl Engine for OtlpHttp {
    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal> {
        let request = request(batch, &mut self.record_bytes)?;
        let headers = [("content-type", "application/x-protobuf")];
        let answer = self
            .http
            .post(&self.path, &headers, &request.encode_to_vec())?
            .success()?;
        // An answer that cannot be read is a success all the same: the status says so.
        let response = ExportLogsServiceResponse::decode(answer.body.as_slice()).unwrap_or_default();
        taken(&response, batch.len())
    }
}

/// Client by gRPC.
#[derive(Debug)]
struct OtlpGrpc {
    runtime: Runtime,
    endpoint: Endpoint,
    client: Option<LogsServiceClient<Channel>>,
    /// Bytes of a record of the last request.
    record_bytes: usize,
    authorization: Option<MetadataValue<Ascii>>,
}

impl OtlpGrpc {
    fn new(address: &EngineAddress) -> Result<Self, EngineError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| address.wrong(error.to_string()))?;
        let authorities = address.option_file("tls_ca")?;
        let scheme = if authorities.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{}", address.hosts));
        let mut endpoint = endpoint
            .map_err(|error| address.wrong(error.to_string()))?
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(RESPONSE_TIMEOUT);
        if let Some(authorities) = authorities {
            let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities));
            endpoint = endpoint
                .tls_config(tls)
                .map_err(|error| address.wrong(error.to_string()))?;
        }
        let authorization = match address.option_file("token_file")? {
            None => None,
            Some(token) => {
                let value = format!("Bearer {token}").parse();
                Some(value.map_err(|_| address.wrong("token_file: it has bytes that no header may have"))?)
            }
        };
        Ok(Self {
            runtime,
            endpoint,
            client: None,
            record_bytes: 0,
            authorization,
        })
    }

    fn export(&mut self, request: ExportLogsServiceRequest) -> Result<ExportLogsServiceResponse, Status> {
        let Self {
            runtime,
            endpoint,
            client,
            authorization,
            ..
        } = self;
        runtime.block_on(async {
            let open = match client.take() {
                Some(open) => open,
                None => {
                    let channel = endpoint.connect().await;
                    let channel = channel.map_err(|error| Status::unavailable(full_text(&error)))?;
                    LogsServiceClient::new(channel)
                }
            };
            let open = client.insert(open);
            let mut request = tonic::Request::new(request);
            if let Some(value) = authorization {
                request.metadata_mut().insert("authorization", value.clone());
            }
            Ok(open.export(request).await?.into_inner())
        })
    }
}

/// An error with its causes.
fn full_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl Engine for OtlpGrpc {
    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal> {
        let request = request(batch, &mut self.record_bytes)?;
        match self.export(request) {
            Ok(response) => taken(&response, batch.len()),
            Err(status) => {
                let why = format!("{}: {}", status.code(), status.message());
                Err(match status.code() {
                    Code::InvalidArgument | Code::Unimplemented => Refusal::Invalid { why },
                    // Its limits on messages have this code, too, and then a part of it is taken.
                    Code::ResourceExhausted if is_about_size(status.message()) => Refusal::TooLarge { why },
                    _ => {
                        self.client = None;
                        Refusal::Retry { why, after: None }
                    }
                })
            }
        }
    }
}

fn is_about_size(message: &str) -> bool {
    ["larger than max", "too large", "message size"]
        .iter()
        .any(|words| message.contains(words))
}

/// Reads the answer of a receiver that took a request, or a part of it. It does not say which records it did not take.
fn taken(response: &ExportLogsServiceResponse, count: usize) -> Result<(), Refusal> {
    match &response.partial_success {
        Some(partial) if partial.rejected_log_records > 0 => {
            let why = &partial.error_message;
            let rejected = partial.rejected_log_records;
            // What was taken would come twice if the batch came in halves: only one record alone is told from all others.
            Err(Refusal::Unnamed {
                count: usize::try_from(rejected).unwrap_or(count).min(count),
                why: format!("{rejected} of {count} records were rejected: {why}"),
            })
        }
        _ => Ok(()),
    }
}

/// Makes the request of a batch: a resource for each process, a scope for each target. One that would be too large by the
/// bytes of a record of the last request is not made at all.
fn request(
    batch: &mut EngineBatch<'_>,
    record_bytes: &mut usize,
) -> Result<ExportLogsServiceRequest, Refusal> {
    let too_large = |bytes: usize| Refusal::TooLarge {
        why: format!("{bytes} bytes"),
    };
    let expected = record_bytes.saturating_mul(batch.len());
    if expected > REQUEST_BYTES_MAX && batch.len() > 1 {
        return Err(too_large(expected));
    }
    let mut resources: Vec<ResourceLogs> = Vec::new();
    let mut keys: Vec<Option<RowProcess>> = Vec::new();
    let delivery = batch.delivery();
    let observed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    batch.each(&mut |record| {
        let place = keys.iter().position(|known| known.as_ref() == record.process());
        let place = place.unwrap_or_else(|| {
            keys.push(record.process().cloned());
            resources.push(resource(record));
            keys.len() - 1
        });
        let Some(resource) = resources.get_mut(place) else {
            return;
        };
        let target = record.target();
        let of_target = |scope: &ScopeLogs| scope.scope.as_ref().is_some_and(|scope| scope.name == target);
        let found = resource.scope_logs.iter().position(of_target);
        let found = found.unwrap_or_else(|| {
            resource.scope_logs.push(ScopeLogs {
                scope: Some(InstrumentationScope {
                    name: target.to_owned(),
                    ..InstrumentationScope::default()
                }),
                ..ScopeLogs::default()
            });
            resource.scope_logs.len() - 1
        });
        if let Some(scope) = resource.scope_logs.get_mut(found) {
            scope.log_records.push(log_record(record, delivery, observed));
        }
    });
    let request = ExportLogsServiceRequest {
        resource_logs: resources,
    };
    let bytes = request.encoded_len();
    *record_bytes = bytes.div_ceil(batch.len().max(1));
    match bytes > REQUEST_BYTES_MAX && batch.len() > 1 {
        true => Err(too_large(bytes)),
        false => Ok(request),
    }
}

fn attribute(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn text(text: impl Into<String>) -> any_value::Value {
    any_value::Value::StringValue(text.into())
}

fn resource(record: &EngineRecord<'_>) -> ResourceLogs {
    let attributes = record.process().map(|process| {
        vec![
            attribute("service.name", text(&process.app)),
            attribute("host.name", text(&process.host)),
            attribute("process.pid", any_value::Value::IntValue(process.pid.into())),
        ]
    });
    ResourceLogs {
        resource: Some(Resource {
            attributes: attributes.unwrap_or_default(),
            ..Resource::default()
        }),
        ..ResourceLogs::default()
    }
}

/// Severity of a level, by number and name.
fn severity(level: Level) -> (i32, &'static str) {
    match level {
        Level::Trace => (1, "TRACE"),
        Level::Debug => (5, "DEBUG"),
        Level::Info => (9, "INFO"),
        Level::Warn => (13, "WARN"),
        Level::Error => (17, "ERROR"),
        Level::Fatal => (21, "FATAL"),
    }
}

fn log_record(record: &mut EngineRecord<'_>, delivery: &str, observed: Duration) -> LogRecord {
    let (severity_number, severity_text) = severity(record.level());
    let mut attributes = vec![attribute(
        "log.record.uid",
        text(format!("{delivery}-{}", record.number)),
    )];
    let (file, line) = record.place_in_code();
    if !file.is_empty() {
        attributes.push(attribute("code.file.path", text(file)));
        attributes.push(attribute(
            "code.line.number",
            any_value::Value::IntValue(line.into()),
        ));
    }
    let thread = record.thread();
    if !thread.name.is_empty() {
        attributes.push(attribute("thread.name", text(thread.name)));
    }
    if thread.id != 0 {
        let id = i64::try_from(thread.id).unwrap_or(i64::MAX);
        attributes.push(attribute("thread.id", any_value::Value::IntValue(id)));
    }
    let mut ids = (Vec::new(), Vec::new());
    record.each_field(&mut |key, value| {
        let id = match key {
            "trace_id" => hex(value, 16).map(|id| (&mut ids.0, id)),
            "span_id" => hex(value, 8).map(|id| (&mut ids.1, id)),
            _ => None,
        };
        match id {
            Some((place, id)) => *place = id,
            None => attributes.push(KeyValue {
                key: key.to_owned(),
                value: Some(AnyValue {
                    value: any_value_of(value),
                }),
                ..KeyValue::default()
            }),
        }
    });
    LogRecord {
        time_unix_nano: record.unix_ns(),
        observed_time_unix_nano: u64::try_from(observed.as_nanos()).unwrap_or(u64::MAX),
        severity_number,
        severity_text: severity_text.to_owned(),
        body: Some(AnyValue {
            value: Some(text(record.message())),
        }),
        attributes,
        trace_id: ids.0,
        span_id: ids.1,
        ..LogRecord::default()
    }
}

/// A typed value; `None` for what is absent.
fn any_value_of(value: Value<'_>) -> Option<any_value::Value> {
    use any_value::Value as Any;
    Some(match value {
        Value::Bool(value) => Any::BoolValue(value),
        Value::I64(value) => Any::IntValue(value),
        Value::U64(value) => match i64::try_from(value) {
            Ok(value) => Any::IntValue(value),
            Err(_) => text(value.to_string()),
        },
        Value::F32(value) => Any::DoubleValue(value.into()),
        Value::F64(value) => Any::DoubleValue(value),
        Value::Bytes(bytes) => Any::BytesValue(bytes.to_vec()),
        Value::None | Value::Scope(_) | Value::Message(_) => return None,
        value => text(value_text(value)),
    })
}

/// Reads an id of so many bytes that is written in hexadecimal digits; one of zeros is none.
fn hex(value: Value<'_>, bytes: usize) -> Option<Vec<u8>> {
    let text = value_text(value);
    if text.len() != 2 * bytes {
        return None;
    }
    let digits = text.as_bytes().chunks(2);
    let id: Option<Vec<u8>> = digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    id.filter(|id| id.iter().any(|byte| *byte != 0))
}
