//! Events that are not about packets: names, and members made of fields.

use super::frames::http_frame;
use super::names::transport_error;
use super::packets::{raw, versions};
use super::values::{Object, Values, milliseconds, non_zero, put};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Conversion of a field into a member.
#[derive(Clone, Copy)]
enum As {
    Text,
    /// A text that is left out where it is empty.
    SomeText,
    Number,
    NonZero,
    /// A number that is left out below zero.
    Natural,
    Flag,
    /// A flag that is left out where it is false.
    IfTrue,
    /// Nanoseconds that become milliseconds.
    Milliseconds,
    SomeMilliseconds,
    /// Whole milliseconds.
    WholeMilliseconds,
    SomeWholeMilliseconds,
}
use As::{
    Flag, IfTrue, Milliseconds, Natural, NonZero, Number, SomeMilliseconds, SomeText, SomeWholeMilliseconds,
    Text, WholeMilliseconds,
};

/// Message of a record, name of its event, and of each field its own name, that of the member, and how it is made.
type Plain = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str, As)],
);

/// Events whose fields are members.
const PLAIN: &[Plain] = &[
    (
        "connection_state_updated",
        "quic:connection_state_updated",
        &[("state", "new", Text)],
    ),
    (
        "congestion_state_updated",
        "recovery:congestion_state_updated",
        &[("state", "new", Text)],
    ),
    (
        "ecn_state_updated",
        "recovery:ecn_state_updated",
        &[("state", "new", Text), ("trigger", "trigger", SomeText)],
    ),
    (
        "mtu_updated",
        "recovery:mtu_updated",
        &[("mtu", "new", Number), ("done", "done", Flag)],
    ),
    (
        "spurious_loss",
        "recovery:spurious_loss",
        &[
            ("space", "packet_number_space", Text),
            ("pn", "packet_number", Number),
            ("reordering", "reordering_packets", Number),
            ("time_reordering_ns", "reordering_time", Milliseconds),
        ],
    ),
    ("parameters_restored", "transport:parameters_restored", LIMITS),
    (
        "parameters_set",
        "transport:parameters_set",
        &[
            ("initiator", "initiator", Text),
            ("initial_source", "initial_source_connection_id", Text),
            ("disable_active_migration", "disable_active_migration", Flag),
            ("max_idle_timeout_ns", "max_idle_timeout", SomeWholeMilliseconds),
            ("max_udp_payload_size", "max_udp_payload_size", NonZero),
            ("ack_delay_exponent", "ack_delay_exponent", Number),
            ("max_ack_delay_ns", "max_ack_delay", SomeWholeMilliseconds),
        ],
    ),
    (
        "recovery_parameters_set",
        "quic:recovery_parameters_set",
        &[
            ("reordering_threshold", "reordering_threshold", Number),
            ("time_threshold", "time_threshold", Number),
            ("timer_granularity_ns", "timer_granularity", WholeMilliseconds),
            ("initial_congestion_window", "initial_congestion_window", NonZero),
            ("initial_rtt_ns", "initial_rtt", SomeMilliseconds),
        ],
    ),
    (
        "datagram_dropped",
        "quic:datagram_dropped",
        &[
            ("direction", "direction", SomeText),
            ("trigger", "trigger", SomeText),
        ],
    ),
    (
        "priority_updated",
        "transport:priority_updated",
        &[("stream", "stream_id", Number)],
    ),
    (
        "key_updated",
        "security:key_updated",
        &[("trigger", "trigger", Text), ("key", "key_type", Text)],
    ),
    (
        "key_discarded",
        "security:key_discarded",
        &[("key", "key_type", Text)],
    ),
    (
        "http3_datagram_created",
        "http3:datagram_created",
        &[("quarter_stream", "quarter_stream_id", Number)],
    ),
    (
        "http3_datagram_parsed",
        "http3:datagram_parsed",
        &[("quarter_stream", "quarter_stream_id", Number)],
    ),
    (
        "http3_frame_created",
        "http3:frame_created",
        &[("stream", "stream_id", Number)],
    ),
    (
        "http3_frame_parsed",
        "http3:frame_parsed",
        &[("stream", "stream_id", Number)],
    ),
    (
        "http3_stream_type_set",
        "http3:stream_type_set",
        &[
            ("initiator", "initiator", Text),
            ("stream", "stream_id", Number),
            ("type", "stream_type", Text),
        ],
    ),
    ("connection_started", "transport:connection_started", &[]),
    (
        "tuple_assigned",
        "transport:tuple_assigned",
        &[("tuple", "tuple_id", Text)],
    ),
    (
        "connection_closed",
        "transport:connection_closed",
        &[("initiator", "initiator", Text), ("trigger", "trigger", SomeText)],
    ),
    ("alpn_information", "transport:alpn_information", &[]),
    ("version_information", "transport:version_information", &[]),
    (
        "loss_timer_updated",
        "recovery:loss_timer_updated",
        &[("timer", "timer_type", SomeText)],
    ),
];

/// Limits that one end sets for the other.
const LIMITS: &[(&str, &str, As)] = &[
    (
        "active_connection_id_limit",
        "active_connection_id_limit",
        NonZero,
    ),
    ("max_data", "initial_max_data", NonZero),
    (
        "max_stream_data_bidi_local",
        "initial_max_stream_data_bidi_local",
        NonZero,
    ),
    (
        "max_stream_data_bidi_remote",
        "initial_max_stream_data_bidi_remote",
        NonZero,
    ),
    ("max_stream_data_uni", "initial_max_stream_data_uni", NonZero),
    ("max_streams_bidi", "initial_max_streams_bidi", NonZero),
    ("max_streams_uni", "initial_max_streams_uni", NonZero),
    ("max_datagram_frame_size", "max_datagram_frame_size", Natural),
    ("reset_stream_at", "reset_stream_at", IfTrue),
];

/// Returns name and data of an event.
pub(super) fn event(message: &str, values: &Values<'_>) -> Option<(Cow<'static, str>, Object)> {
    match message {
        "debug" => {
            let name = values.some_text("event").unwrap_or_else(|| "debug".to_owned());
            let mut data = Object::new();
            put(&mut data, "message", values.text("text"));
            return Some((format!("transport:{name}").into(), data));
        }
        // An event that the tracer does not know, with its JSON.
        "event" => {
            let data = serde_json::from_str(&values.text("data")?).ok()?;
            return Some((values.text("name")?.into(), data));
        }
        _ => {}
    }
    let (_, name, members) = PLAIN.iter().find(|(known, ..)| *known == message)?;
    let mut data = Object::new();
    put_members(&mut data, members, values);
    put_rest(&mut data, message, values);
    Some(((*name).into(), data))
}

fn put_members(to: &mut Object, members: &[(&str, &str, As)], values: &Values<'_>) {
    for (field, key, kind) in members {
        let value = match kind {
            Text => values.text(field).map(Value::from),
            SomeText => values.some_text(field).map(Value::from),
            Number => values
                .text(field)
                .map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text))),
            NonZero => non_zero(values, field).map(Value::from),
            Natural => values.natural(field).map(Value::from),
            Flag => Some(values.is_true(field).into()),
            IfTrue => values.is_true(field).then_some(Value::Bool(true)),
            Milliseconds => values.number(field).map(|ns| milliseconds(ns.into())),
            SomeMilliseconds => non_zero(values, field).map(|ns| milliseconds(ns.into())),
            WholeMilliseconds => values.number(field).map(|ns| (ns / 1_000_000).into()),
            SomeWholeMilliseconds => non_zero(values, field).map(|ns| (ns / 1_000_000).into()),
        };
        put(to, key, value);
    }
}

/// Adds what is not a field as it stands.
fn put_rest(data: &mut Object, message: &str, values: &Values<'_>) {
    match message {
        "datagram_dropped" | "http3_datagram_created" | "http3_datagram_parsed" => {
            data.insert("raw".to_owned(), raw(values, None).into());
        }
        "http3_frame_created" | "http3_frame_parsed" => {
            let mut frame = http_frame(&values.text("frame").unwrap_or_default());
            let raw = raw(values, None);
            put(&mut frame, "raw", (!raw.is_empty()).then_some(raw));
            data.insert("frame".to_owned(), frame.into());
        }
        "http3_stream_type_set" if values.text("type").as_deref() == Some("unknown") => {
            let number = values.number("type_number").unwrap_or_default();
            if number >= 0x21 && (number - 0x21) % 0x1f == 0 {
                data.insert("stream_type".to_owned(), "reserved".into());
            }
            data.insert("stream_type_bytes".to_owned(), number.into());
        }
        "parameters_set" => put_parameters(data, values),
        "recovery_parameters_set" if values.is_true("packet_threshold_disabled") => {
            data.insert("reordering_threshold".to_owned(), "disabled".into());
        }
        "priority_updated" => {
            let more = if values.is_true("incremental") { ", i" } else { "" };
            let urgency = values.number("urgency").unwrap_or_default();
            data.insert("new".to_owned(), format!("u={urgency}{more}").into());
        }
        "key_updated" | "key_discarded" => {
            let is_short = values.text("key").is_some_and(|key| key.ends_with("1rtt_secret"));
            let phase = values.number("phase").filter(|_| is_short);
            put(data, "key_phase", phase);
            if message == "key_discarded" && !is_short {
                data.insert("trigger".to_owned(), "tls".into());
            }
        }
        "connection_started" => {
            data.insert("local".to_owned(), endpoint(values, "local"));
            data.insert("remote".to_owned(), endpoint(values, "remote"));
        }
        "tuple_assigned" => {
            data.insert("tuple_local".to_owned(), endpoint(values, "local"));
            data.insert("tuple_remote".to_owned(), endpoint(values, "remote"));
        }
        "connection_closed" => put_closed(data, values),
        "alpn_information" => {
            data.insert(
                "chosen_alpn".to_owned(),
                json!({"string_value": values.text("alpn")}),
            );
        }
        "version_information" => {
            for (field, key) in [("client", "client_versions"), ("server", "server_versions")] {
                let versions = versions(values, field);
                put(data, key, (!versions.is_empty()).then_some(versions));
            }
            let chosen = values.number("version").unwrap_or_default();
            data.insert("chosen_version".to_owned(), format!("{chosen:x}").into());
        }
        "loss_timer_updated" => put_timer(data, values),
        _ => {}
    }
}

fn put_parameters(data: &mut Object, values: &Values<'_>) {
    put_members(data, LIMITS, values);
    if values.is_true("by_server") {
        put(
            data,
            "original_destination_connection_id",
            values.text("original_destination"),
        );
        let retry = values
            .text("retry_source")
            .filter(|_| values.is_true("has_retry"));
        put(data, "retry_source_connection_id", retry);
    }
}

fn put_closed(data: &mut Object, values: &Values<'_>) {
    let space = values.text("space").unwrap_or_default();
    let code = values.number("code").unwrap_or_default();
    match space.as_str() {
        "transport" => match transport_error(u64::try_from(code).unwrap_or_default()) {
            Some(name) => put(data, "connection_error", Some(name)),
            None => {
                put(data, "connection_error", Some("unknown"));
                put(data, "error_code", Some(code));
            }
        },
        "application" => {
            put(data, "application_error", Some("unknown"));
            put(data, "error_code", Some(code));
        }
        _ => return,
    }
    put(data, "reason", values.text("reason"));
}

/// A timer. One without an event has been set, for packets of 1-RTT.
fn put_timer(data: &mut Object, values: &Values<'_>) {
    let event = values.text("event");
    let space = match event {
        Some(_) => values.some_text("space"),
        None => Some("application_data".to_owned()),
    };
    put(data, "packet_number_space", space);
    let event = event.unwrap_or_else(|| "set".to_owned());
    let delta = values.number("delta_ns").filter(|_| event == "set");
    put(data, "delta", delta.map(|ns| milliseconds(ns.into())));
    data.insert("event_type".to_owned(), event.into());
}

/// One end of a path.
fn endpoint(values: &Values<'_>, key: &str) -> Value {
    let text = values.text(key).unwrap_or_default();
    let Ok(address) = text.parse::<std::net::SocketAddr>() else {
        return json!({});
    };
    let kind = if address.is_ipv4() {
        "address_v4"
    } else {
        "address_v6"
    };
    json!({kind: {"ip": address.ip().to_string(), "port": address.port()}})
}

/// Metrics of recovery. Records tell times and the window when these have changed.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    times: Object,
}

impl Metrics {
    pub(super) fn data(&mut self, values: &Values<'_>) -> Object {
        if values.has("pto_count") {
            let mut data = Object::new();
            put(&mut data, "pto_count", values.number("pto_count"));
            return data;
        }
        if values.has("min_rtt_ns") {
            self.times = Object::new();
            let is_smoothed = non_zero(values, "smoothed_rtt_ns").is_some();
            let variance = if is_smoothed {
                Milliseconds
            } else {
                SomeMilliseconds
            };
            put_members(
                &mut self.times,
                &[
                    ("min_rtt_ns", "min_rtt", SomeMilliseconds),
                    ("smoothed_rtt_ns", "smoothed_rtt", SomeMilliseconds),
                    ("latest_rtt_ns", "latest_rtt", SomeMilliseconds),
                    ("rtt_variance_ns", "rtt_variance", variance),
                    ("congestion_window", "congestion_window", Number),
                ],
                values,
            );
        }
        let mut data = self.times.clone();
        put(&mut data, "bytes_in_flight", values.number("bytes_in_flight"));
        put(&mut data, "packets_in_flight", values.number("packets_in_flight"));
        data
    }
}
