//! Frames of QUIC and of HTTP/3, which the tracer writes as text such as `ack(7..12) stream(0,8192,1200)`.

use super::names::{frame_type, transport_error};
use super::values::{Object, Values, milliseconds, put};
use serde_json::{Value, json};

/// Conversion of an argument of a frame into a member.
#[derive(Clone, Copy)]
enum As {
    Number,
    Text,
    Milliseconds,
}
use As::{Milliseconds, Number, Text};

type Members = &'static [(&'static str, As)];

/// Frames whose arguments are members, in their order.
const PLAIN: &[(&str, Members)] = &[
    ("ping", &[]),
    ("handshake_done", &[]),
    ("immediate_ack", &[]),
    ("crypto", &[("offset", Number), ("length", Number)]),
    ("datagram", &[("length", Number)]),
    ("max_data", &[("maximum", Number)]),
    ("max_stream_data", &[("stream_id", Number), ("maximum", Number)]),
    ("max_streams", &[("stream_type", Text), ("maximum", Number)]),
    ("data_blocked", &[("limit", Number)]),
    ("stream_data_blocked", &[("stream_id", Number), ("limit", Number)]),
    ("streams_blocked", &[("stream_type", Text), ("limit", Number)]),
    (
        "reset_stream",
        &[
            ("stream_id", Number),
            ("error_code", Number),
            ("final_size", Number),
        ],
    ),
    (
        "reset_stream_at",
        &[
            ("stream_id", Number),
            ("error_code", Number),
            ("final_size", Number),
            ("reliable_size", Number),
        ],
    ),
    ("stop_sending", &[("stream_id", Number), ("error_code", Number)]),
    (
        "new_connection_id",
        &[
            ("sequence_number", Number),
            ("retire_prior_to", Number),
            ("connection_id", Text),
        ],
    ),
    ("retire_connection_id", &[("sequence_number", Number)]),
    ("path_challenge", &[("data", Text)]),
    ("path_response", &[("data", Text)]),
    (
        "ack_frequency",
        &[
            ("sequence_number", Number),
            ("ack_eliciting_threshold", Number),
            ("request_max_ack_delay", Milliseconds),
            ("reordering_threshold", Number),
        ],
    ),
    // HTTP/3.
    ("data", &[]),
    ("push_promise", &[]),
    ("cancel_push", &[]),
    ("max_push_id", &[]),
    ("goaway", &[("id", Number)]),
    (
        "priority_update",
        &[("stream_id", Number), ("priority_field_value", Text)],
    ),
    ("reserved", &[("frame_type_bytes", Number)]),
    ("unknown", &[("frame_type_bytes", Number)]),
];

/// Returns the frames of a packet: of its text, or of the fields of a packet of one frame.
pub(super) fn frames(values: &Values<'_>) -> Vec<Value> {
    if let Some(text) = values.text("frames") {
        return split(&text).map(frame).collect();
    }
    if let (Some(id), Some(offset), Some(length)) = (
        values.number("stream"),
        values.number("offset"),
        values.number("bytes"),
    ) {
        return vec![json!({"frame_type": "stream", "stream_id": id, "offset": offset, "length": length})];
    }
    let (Some(from), Some(to)) = (values.number("ack_from"), values.number("ack_to")) else {
        return Vec::new();
    };
    let mut ack = Object::new();
    ack.insert("frame_type".to_owned(), "ack".into());
    put(
        &mut ack,
        "ack_delay",
        values
            .number("delay_ns")
            .filter(|delay| *delay > 0)
            .map(|delay| milliseconds(delay.into())),
    );
    ack.insert("acked_ranges".to_owned(), Value::Array(vec![range(from, to)]));
    if let Some(marked) = values.number("ect0") {
        put_marks(&mut ack, marked, 0, 0);
    }
    vec![ack.into()]
}

/// Returns a frame of HTTP/3.
pub(super) fn http_frame(text: &str) -> Object {
    match frame(split(text).next().unwrap_or_default()) {
        Value::Object(frame) => frame,
        _ => Object::new(),
    }
}

/// Splits the text of frames. Text of a peer in it has no parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let name = rest.find(['(', ' ']).unwrap_or(rest.len());
        let end = match rest.get(name..name + 1) {
            Some("(") => rest.find(')').map_or(rest.len(), |end| end + 1),
            _ => name,
        };
        let (frame, behind) = rest.split_at_checked(end)?;
        rest = behind;
        (!frame.is_empty()).then_some(frame)
    })
}

fn frame(text: &str) -> Value {
    let (name, rest) = text.split_once('(').unwrap_or((text, ""));
    let inside = rest.strip_suffix(')').unwrap_or(rest);
    let arguments: Vec<&str> = match inside {
        "" => Vec::new(),
        _ => inside.split(',').collect(),
    };
    let mut made = Object::new();
    made.insert("frame_type".to_owned(), name.into());
    match name {
        "stream" => {
            put_plain(
                &mut made,
                &[("stream_id", Number), ("offset", Number), ("length", Number)],
                &arguments,
            );
            put(
                &mut made,
                "fin",
                (arguments.get(3) == Some(&"fin")).then_some(true),
            );
        }
        "ack" => put_ack(&mut made, &arguments),
        "connection_close" => put_close(&mut made, &arguments),
        "new_token" => put(
            &mut made,
            "token",
            arguments
                .first()
                .map(|length| json!({"raw": {"length": number(length)}})),
        ),
        "headers" => {
            let names = arguments.iter().map(|name| json!({"name": plain_text(name)}));
            made.insert("headers".to_owned(), names.collect());
        }
        "settings" => put_settings(&mut made, &arguments),
        _ => match PLAIN.iter().find(|(known, _)| *known == name) {
            Some((_, members)) => put_plain(&mut made, members, &arguments),
            None => {
                made.insert("frame_type".to_owned(), "unknown".into());
            }
        },
    }
    made.into()
}

fn put_plain(to: &mut Object, members: Members, arguments: &[&str]) {
    for ((key, kind), argument) in members.iter().zip(arguments) {
        let value = match kind {
            Number => number(argument),
            Text => plain_text(argument).into(),
            Milliseconds => argument
                .parse::<i64>()
                .map_or(Value::Null, |ns| milliseconds(ns.into())),
        };
        to.insert((*key).to_owned(), value);
    }
}

fn put_ack(to: &mut Object, arguments: &[&str]) {
    let mut ranges = Vec::new();
    for argument in arguments {
        if let Some((from, until)) = argument.split_once("..") {
            ranges.extend(
                from.parse()
                    .ok()
                    .zip(until.parse().ok())
                    .map(|(from, until)| range(from, until)),
            );
        } else if let Some(delay) = argument.strip_prefix("delay=") {
            put(
                to,
                "ack_delay",
                delay.parse::<i64>().ok().map(|delay| milliseconds(delay.into())),
            );
        } else if let Some(marks) = argument.strip_prefix("ecn=") {
            let mut counts = marks.split('/').map(|count| count.parse().unwrap_or_default());
            let mut next = || counts.next().unwrap_or_default();
            put_marks(to, next(), next(), next());
        }
    }
    to.insert("acked_ranges".to_owned(), ranges.into());
}

fn put_marks(to: &mut Object, ect0: i64, ect1: i64, ce: i64) {
    for (key, count) in [("ect0", ect0), ("ect1", ect1), ("ce", ce)] {
        to.insert(key.to_owned(), count.into());
    }
}

fn range(from: i64, to: i64) -> Value {
    match from == to {
        true => json!([from]),
        false => json!([from, to]),
    }
}

fn put_close(to: &mut Object, arguments: &[&str]) {
    let [space, code, kind, reason] = arguments else {
        return;
    };
    let code = code.parse().unwrap_or_default();
    to.insert("error_space".to_owned(), (*space).into());
    match transport_error(code).filter(|_| *space == "transport") {
        Some(name) => {
            to.insert("error".to_owned(), name.into());
        }
        None => {
            to.insert("error".to_owned(), "unknown".into());
            to.insert("error_code".to_owned(), code.into());
        }
    }
    match String::from_utf8(plain_bytes(reason)) {
        Ok(reason) => to.insert("reason".to_owned(), reason.into()),
        Err(other) => {
            let digits: String = other
                .as_bytes()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            to.insert("reason_bytes".to_owned(), digits.into())
        }
    };
    let kind = kind.parse().unwrap_or_default();
    if *space == "transport" && kind != 0 {
        let name = frame_type(kind).map_or(Value::from(kind), Value::from);
        to.insert("trigger_frame_type".to_owned(), name);
    }
}

fn put_settings(to: &mut Object, arguments: &[&str]) {
    let mut settings = Vec::new();
    let known = [
        "settings_max_field_section_size",
        "settings_h3_datagram",
        "settings_enable_connect_protocol",
    ];
    for (at, argument) in arguments.iter().enumerate() {
        match (known.get(at), argument.split_once('=')) {
            (Some(name), _) if !argument.starts_with('-') => {
                settings.push(json!({"name": name, "value": number(argument)}));
            }
            (None, Some((name, value))) => {
                settings.push(json!({"name": "unknown", "name_bytes": number(name), "value": number(value)}));
            }
            _ => {}
        }
    }
    to.insert("settings".to_owned(), settings.into());
}

fn number(text: &str) -> Value {
    match (text.parse::<u64>(), text.parse::<i64>()) {
        (Ok(number), _) => number.into(),
        (_, Ok(number)) => number.into(),
        _ => text.into(),
    }
}

fn plain_text(text: &str) -> String {
    String::from_utf8_lossy(&plain_bytes(text)).into_owned()
}

/// Text of a peer, in which a percent sign and two digits stand for a byte.
fn plain_bytes(text: &str) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        let digits = behind
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                plain.push(byte);
                rest = behind.get(2..).unwrap_or(b"");
            }
            _ => plain.push(*first),
        }
    }
    plain
}
