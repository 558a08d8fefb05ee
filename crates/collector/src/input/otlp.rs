//! Log records of OpenTelemetry as records of ours.

use logdrive_reader::foreign::{ForeignRecord, ForeignValue};
use logdrive_ring::clock::unix_ns;
use logdrive_wire::Level;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;

/// Attributes of resources that have names of ours.
const NAMES: [(&str, &str); 3] = [
    ("service.name", "app"),
    ("host.name", "host"),
    ("process.pid", "pid"),
];

/// Returns the records of a request.
pub(crate) fn records(request: ExportLogsServiceRequest) -> Vec<ForeignRecord> {
    let mut records = Vec::new();
    for resource in request.resource_logs {
        let attributes = resource
            .resource
            .map_or(Vec::new(), |resource| resource.attributes);
        let common: Vec<_> = attributes.into_iter().map(field).collect();
        for scope in resource.scope_logs {
            let target = scope.scope.map_or(String::new(), |scope| scope.name);
            records.extend(
                scope
                    .log_records
                    .into_iter()
                    .map(|log| record(log, &target, &common)),
            );
        }
    }
    records
}

fn record(log: LogRecord, target: &str, common: &[(String, ForeignValue)]) -> ForeignRecord {
    let time = [log.time_unix_nano, log.observed_time_unix_nano]
        .into_iter()
        .find(|time| *time > 0);
    let mut record = ForeignRecord {
        unix_ns: Some(time.unwrap_or_else(unix_ns)),
        level: level(log.severity_number),
        target: target.to_owned(),
        ..ForeignRecord::default()
    };
    record.fields.extend_from_slice(common);
    match log.body.and_then(|body| body.value) {
        // Members of a body are fields.
        Some(any_value::Value::KvlistValue(list)) => record.fields.extend(list.values.into_iter().map(field)),
        Some(body) => {
            record.message = match value(body) {
                ForeignValue::Text(text) => text,
                ForeignValue::None => Vec::new(),
                other => text_of(&other),
            };
        }
        None => {}
    }
    for (key, value) in log.attributes.into_iter().map(field) {
        match (key.as_str(), &value) {
            ("thread.name", ForeignValue::Text(name)) => {
                record.thread = String::from_utf8_lossy(name).into_owned();
            }
            _ => record.fields.push((key, value)),
        }
    }
    for (name, id) in [("trace_id", log.trace_id), ("span_id", log.span_id)] {
        if id.iter().any(|byte| *byte != 0) {
            let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
            record.push_text(name, &digits);
        }
    }
    record
}

/// Level of a severity number.
fn level(number: i32) -> Option<Level> {
    Some(match number {
        1..=4 => Level::Trace,
        5..=8 => Level::Debug,
        9..=12 => Level::Info,
        13..=16 => Level::Warn,
        17..=20 => Level::Error,
        21..=24 => Level::Fatal,
        _ => return None,
    })
}

fn field(attribute: KeyValue) -> (String, ForeignValue) {
    let known = NAMES.iter().find(|(name, _)| *name == attribute.key);
    let key = known.map_or(attribute.key, |(_, own)| (*own).to_owned());
    let value = attribute
        .value
        .and_then(|value| value.value)
        .map_or(ForeignValue::None, value);
    (key, value)
}

fn value(any: any_value::Value) -> ForeignValue {
    match any {
        any_value::Value::StringValue(text) => ForeignValue::Text(text.into_bytes()),
        any_value::Value::BoolValue(value) => ForeignValue::Bool(value),
        any_value::Value::IntValue(value) => match u64::try_from(value) {
            Ok(value) => ForeignValue::U64(value),
            Err(_) => ForeignValue::I64(value),
        },
        any_value::Value::DoubleValue(value) => ForeignValue::F64(value),
        any_value::Value::BytesValue(bytes) => ForeignValue::Text(bytes),
        nested => ForeignValue::Text(json(nested, 0).to_string().into_bytes()),
    }
}

/// Depth at which nested values end.
const DEPTH_MAX: usize = 16;

fn json(any: any_value::Value, depth: usize) -> serde_json::Value {
    let inner = |value: AnyValue| match value.value {
        Some(value) if depth < DEPTH_MAX => json(value, depth + 1),
        _ => serde_json::Value::Null,
    };
    match any {
        any_value::Value::ArrayValue(array) => array.values.into_iter().map(inner).collect(),
        any_value::Value::KvlistValue(list) => {
            let pairs = list.values.into_iter();
            pairs
                .map(|pair| (pair.key, pair.value.map_or(serde_json::Value::Null, inner)))
                .collect()
        }
        any_value::Value::StringValue(text) => text.into(),
        any_value::Value::BoolValue(value) => value.into(),
        any_value::Value::IntValue(value) => value.into(),
        any_value::Value::DoubleValue(value) => value.into(),
        any_value::Value::BytesValue(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
        _ => serde_json::Value::Null,
    }
}

fn text_of(value: &ForeignValue) -> Vec<u8> {
    match value {
        ForeignValue::Bool(value) => value.to_string(),
        ForeignValue::I64(value) => value.to_string(),
        ForeignValue::U64(value) => value.to_string(),
        ForeignValue::F64(value) => format!("{value:?}"),
        ForeignValue::Text(text) => return text.clone(),
        ForeignValue::None => String::new(),
    }
    .into_bytes()
}
