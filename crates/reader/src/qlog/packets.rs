//! Events of packets. A packet of 1-RTT leaves out what is as in the last one of its direction.

use super::frames::frames;
use super::values::{Object, Values, non_zero, put};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Headers of the last packets of 1-RTT, in each direction.
#[derive(Debug, Default)]
pub(super) struct Packets {
    sent: Header,
    received: Header,
}

/// Parts that packets of 1-RTT leave out.
#[derive(Debug, Default, Clone)]
struct Header {
    version: Option<String>,
    destination: Option<String>,
    key_phase: Option<bool>,
    ecn: Option<String>,
    /// Bytes in front of the payload.
    bytes: Option<i64>,
}

impl Packets {
    /// Returns name and data of an event of a packet.
    pub(super) fn event(
        &mut self,
        message: &str,
        values: &Values<'_>,
    ) -> Option<(Cow<'static, str>, Object)> {
        let (name, data) = match message {
            "packet_sent" => ("transport:packet_sent", packet(values, &mut self.sent)),
            "packet_received" => ("transport:packet_received", packet(values, &mut self.received)),
            "packet_lost" => ("recovery:packet_lost", lost(values)),
            "packet_dropped" => ("transport:packet_dropped", dropped(values)),
            "packet_buffered" => {
                let mut data = unread(values);
                data.insert("trigger".to_owned(), "keys_unavailable".into());
                ("transport:packet_buffered", data)
            }
            "version_negotiation_sent" => ("transport:packet_sent", negotiation(values)),
            "version_negotiation_received" => ("transport:packet_received", negotiation(values)),
            _ => return None,
        };
        Some((name.into(), data))
    }
}

fn packet(values: &Values<'_>, last: &mut Header) -> Object {
    let mut data = Object::new();
    let header = match values.text("type") {
        Some(kind) => {
            let header = Header::of(values);
            data.insert("header".to_owned(), header.json(values, &kind).into());
            header
        }
        None => {
            if values.has("dcid") {
                *last = Header::of(values);
            }
            data.insert("header".to_owned(), last.json(values, "1RTT").into());
            last.clone()
        }
    };
    data.insert("raw".to_owned(), raw(values, header.bytes).into());
    put(
        &mut data,
        "datagram_payload_checksum",
        non_zero(values, "checksum"),
    );
    let found = frames(values);
    if !found.is_empty() {
        data.insert("frames".to_owned(), found.into());
    }
    put(&mut data, "ecn", header.ecn);
    put(&mut data, "trigger", values.some_text("trigger"));
    put(
        &mut data,
        "is_mtu_probe_packet",
        values.is_true("mtu_probe").then_some(true),
    );
    put(&mut data, "tuple", values.some_text("tuple"));
    data
}

impl Header {
    fn of(values: &Values<'_>) -> Self {
        let length = values.natural("length");
        let payload = values.natural("payload");
        Self {
            version: non_zero(values, "version").map(|version| format!("{version:x}")),
            destination: identity(values, "dcid"),
            key_phase: values.natural("key_phase").map(|phase| phase == 1),
            ecn: values.some_text("ecn"),
            bytes: length
                .zip(payload)
                .map(|(length, payload)| length.saturating_sub(payload)),
        }
    }

    fn json(&self, values: &Values<'_>, kind: &str) -> Object {
        let mut header = Object::new();
        let kind = if kind.is_empty() { "unknown" } else { kind };
        header.insert("packet_type".to_owned(), kind.into());
        if matches!(kind, "initial" | "handshake" | "0RTT" | "1RTT") {
            put(&mut header, "packet_number", values.natural("pn"));
        }
        put(&mut header, "version", self.version.clone());
        if kind != "1RTT" {
            put(&mut header, "scid", identity(values, "scid"));
        }
        put(&mut header, "dcid", self.destination.clone());
        put(&mut header, "key_phase_bit", self.key_phase);
        let token = values.natural("token");
        put(
            &mut header,
            "token",
            token.map(|length| json!({"raw": {"length": length}})),
        );
        header
    }
}

/// Lengths of a packet or a datagram; that of the payload also from the bytes before it.
pub(super) fn raw(values: &Values<'_>, header_bytes: Option<i64>) -> Object {
    let mut raw = Object::new();
    let length = values.natural("length");
    put(&mut raw, "length", length);
    let payload = match values.has("payload") {
        true => values.natural("payload"),
        false => length
            .zip(header_bytes)
            .map(|(length, bytes)| length.saturating_sub(bytes)),
    };
    put(&mut raw, "payload_length", payload);
    raw
}

fn lost(values: &Values<'_>) -> Object {
    let mut data = Object::new();
    let kind = values.text("type").unwrap_or_default();
    data.insert("header".to_owned(), Header::of(values).json(values, &kind).into());
    put(
        &mut data,
        "is_mtu_probe_packet",
        values.is_true("mtu_probe").then_some(true),
    );
    put(&mut data, "trigger", values.text("trigger"));
    data
}

fn dropped(values: &Values<'_>) -> Object {
    let mut data = unread(values);
    let reason = values.text("trigger").unwrap_or_default();
    let trigger = match reason.as_str() {
        "keys_unavailable" | "duplicate" => &reason,
        "unknown_connection_id" => "connection_unknown",
        "header_parse_error"
        | "protocol_violation"
        | "unexpected_packet"
        | "unexpected_source_connection_id"
        | "unexpected_version" => "invalid",
        "payload_decrypt_error" => "decryption_failure",
        "dos_prevention" => "rejected",
        "unsupported_version" => "unsupported",
        _ => "general",
    };
    data.insert("trigger".to_owned(), trigger.into());
    if trigger != reason {
        data.insert("details".to_owned(), json!({"reason": reason}));
    }
    data
}

/// A packet whose frames are not known.
fn unread(values: &Values<'_>) -> Object {
    let mut data = Object::new();
    let kind = values.text("type").unwrap_or_default();
    data.insert("header".to_owned(), Header::of(values).json(values, &kind).into());
    data.insert("raw".to_owned(), raw(values, None).into());
    put(
        &mut data,
        "datagram_payload_checksum",
        non_zero(values, "checksum"),
    );
    data
}

fn negotiation(values: &Values<'_>) -> Object {
    let mut data = Object::new();
    data.insert(
        "header".to_owned(),
        json!({"packet_type": "version_negotiation", "scid": values.text("scid"), "dcid": values.text("dcid")}),
    );
    data.insert(
        "supported_versions".to_owned(),
        versions(values, "versions").into(),
    );
    data
}

/// Versions that stand one behind the other.
pub(super) fn versions(values: &Values<'_>, key: &str) -> Vec<Value> {
    let text = values.text(key).unwrap_or_default();
    text.split_whitespace().map(Value::from).collect()
}

/// A connection ID, which may be empty; a dash stands for none.
fn identity(values: &Values<'_>, key: &str) -> Option<String> {
    values.text(key).filter(|text| text != "-")
}
