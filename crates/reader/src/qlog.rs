//! qlog of the records of quic-go's tracer, `clients/go/quicgo`: a trace of one connection as JSON text sequences (RFC 7464)
//! by draft-ietf-quic-qlog-main-schema and draft-ietf-quic-qlog-quic-events.
//!
//! Names and fields of events are those that quic-go 0.65 itself writes; a test of the tracer compares them. Tokens, and
//! values of headers, are not in the records.

mod events;
mod frames;
mod names;
mod packets;
mod values;

use crate::record::Record;
use crate::times::{Times, iso_text};
use events::Metrics;
use jiff::tz::TimeZone;
use packets::Packets;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;
use values::{Values, milliseconds};

/// Message of the first record of a connection, which has its whole ID. It is no event.
const STARTED: &[u8] = b"trace_started";

/// Connections that are left out and can be told.
const OTHERS_MAX: usize = 16;

/// Writes the events of one connection as qlog: that of the first record which is an event.
///
/// ```
/// use logdrive_reader::QlogWriter;
/// let mut out = Vec::new();
/// let line = b"2026-11-21T12:34:56.000000000Z DEBUG P1 quic-go e.go:7 mtu_updated conn=01020304 side=client mtu=1400 done=true\n";
/// QlogWriter::new().write(&mut out, line);
/// let text = String::from_utf8(out).unwrap();
/// assert!(text.ends_with("\"name\":\"recovery:mtu_updated\",\"time\":0}\n"));
/// ```
#[derive(Debug)]
pub struct QlogWriter {
    times: Times,
    record: Record,
    trace: Option<Trace>,
    /// Connections whose events are left out.
    others: BTreeSet<String>,
}

/// The connection that is written, and what its records leave out because it has not changed.
#[derive(Debug)]
struct Trace {
    connection: Vec<u8>,
    side: Vec<u8>,
    begin_ns: u64,
    /// Set until its head is written.
    is_new: bool,
    metrics: Metrics,
    packets: Packets,
}

impl Default for QlogWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl QlogWriter {
    /// Returns a writer that has no connection yet.
    pub fn new() -> Self {
        Self {
            times: Times::new(TimeZone::system()),
            record: Record::default(),
            trace: None,
            others: BTreeSet::new(),
        }
    }

    /// Writes the event of a record, and before the first one the head of the trace. Other records are left out.
    pub fn write(&mut self, out: &mut Vec<u8>, record: &[u8]) {
        self.record.read(record, &mut self.times);
        let values = Values {
            record: &self.record,
            bytes: record,
        };
        let (Some(connection), Some(side), Some(unix_ns)) =
            (values.plain("conn"), values.plain("side"), self.record.unix_ns)
        else {
            return;
        };
        let message = self.record.message.plain(record);
        if let Some(trace) = &self.trace
            && (trace.connection != *connection || trace.side != *side)
        {
            if self.others.len() < OTHERS_MAX {
                let name = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
                self.others
                    .insert(format!("conn={} side={}", name(&connection), name(&side)));
            }
            return;
        }
        let mut trace = self
            .trace
            .take()
            .unwrap_or_else(|| Trace::new(&connection, &side, unix_ns));
        let event = trace.event(&message, &values);
        if event.is_none() && *message != *STARTED && trace.is_new {
            return;
        }
        if std::mem::take(&mut trace.is_new) {
            put_sequence(out, &trace.head(&values));
        }
        if let Some((name, data)) = event {
            put_sequence(
                out,
                &json!({"time": trace.time(unix_ns), "name": name, "data": data}),
            );
        }
        self.trace = Some(trace);
    }

    /// Returns true where no event was found.
    pub fn is_empty(&self) -> bool {
        self.trace.is_none()
    }

    /// Connections whose events were left out, such as `conn=01020304 side=client`; the first ones of many.
    pub fn others(&self) -> impl Iterator<Item = &str> {
        self.others.iter().map(String::as_str)
    }
}

impl Trace {
    fn new(connection: &[u8], side: &[u8], begin_ns: u64) -> Self {
        Self {
            connection: connection.to_vec(),
            side: side.to_vec(),
            begin_ns,
            is_new: true,
            metrics: Metrics::default(),
            packets: Packets::default(),
        }
    }

    /// Returns name and data of an event, none where the message is not one of the tracer.
    fn event(&mut self, message: &[u8], values: &Values<'_>) -> Option<(Cow<'static, str>, Value)> {
        let message = std::str::from_utf8(message).ok()?;
        let (name, data) = match message {
            "metrics_updated" => ("recovery:metrics_updated".into(), self.metrics.data(values)),
            _ => self
                .packets
                .event(message, values)
                .or_else(|| events::event(message, values))?,
        };
        Some((name, Value::Object(data)))
    }

    /// Milliseconds since the first event; records of one time may stand in any order.
    fn time(&self, unix_ns: u64) -> Value {
        milliseconds(i128::from(unix_ns) - i128::from(self.begin_ns))
    }

    fn head(&self, values: &Values<'_>) -> Value {
        let group = values
            .text("id")
            .unwrap_or_else(|| String::from_utf8_lossy(&self.connection).into_owned());
        json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": "logdrive",
            "trace": {
                "event_schemas": ["urn:ietf:params:qlog:events:quic-14", "urn:ietf:params:qlog:events:http3-14"],
                "vantage_point": {"type": String::from_utf8_lossy(&self.side)},
                "common_fields": {
                    "group_id": group,
                    "reference_time": {"clock_type": "monotonic", "epoch": "unknown", "wall_clock_time": iso_text(self.begin_ns)},
                },
            },
            // The drafts have no such fields any more; qvis asks for them.
            "qlog_format": "JSON-SEQ",
            "qlog_version": "0.3",
        })
    }
}

/// Writes one JSON text of a sequence.
fn put_sequence(out: &mut Vec<u8>, value: &Value) {
    out.push(0x1e);
    out.extend_from_slice(value.to_string().as_bytes());
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rest: &str) -> String {
        format!("2026-11-21T12:34:56.000000000Z DEBUG P1 quic-go e.go:7 {rest}\n")
    }

    fn trace(lines: &[String]) -> (Vec<Value>, QlogWriter) {
        let (mut writer, mut out) = (QlogWriter::new(), Vec::new());
        for line in lines {
            writer.write(&mut out, line.as_bytes());
        }
        let texts = out.split(|byte| *byte == 0x1e).skip(1);
        (
            texts
                .map(|text| serde_json::from_slice(text).expect("a JSON text"))
                .collect(),
            writer,
        )
    }

    #[test]
    fn packets_have_what_the_last_one_of_their_direction_said() {
        let (texts, _) = trace(&[
            line("trace_started conn=01020304 side=client id=0102030405060708"),
            line(
                "packet_sent conn=01020304 side=client pn=1 length=50 payload=30 key_phase=0 version=1 dcid=aabb ecn=\"ECT(0)\" frames=ping",
            ),
            line("packet_sent conn=01020304 side=client pn=2 length=1252 stream=4 offset=0 bytes=1200"),
            line(
                "packet_received conn=01020304 side=client pn=3 length=40 frames=\"ack(1..2,delay=25000) ping\"",
            ),
        ]);
        let [head, _, second, received] = &texts[..] else {
            panic!("{texts:?}");
        };
        assert_eq!(head["trace"]["common_fields"]["group_id"], "0102030405060708");
        let data = &second["data"];
        assert_eq!(
            data["header"],
            json!({"packet_type": "1RTT", "packet_number": 2, "version": "1", "dcid": "aabb", "key_phase_bit": false})
        );
        assert_eq!(data["raw"], json!({"length": 1252, "payload_length": 1232}));
        assert_eq!(data["ecn"], "ECT(0)");
        let ack = json!({"frame_type": "ack", "ack_delay": 0.025, "acked_ranges": [[1, 2]]});
        assert_eq!(received["data"]["frames"], json!([ack, {"frame_type": "ping"}]));
        assert_eq!(
            received["data"]["header"],
            json!({"packet_type": "1RTT", "packet_number": 3})
        );
    }

    #[test]
    fn a_trace_has_one_connection_and_names_the_others() {
        let (texts, writer) = trace(&[
            line("no event conn=01 side=client"),
            line("mtu_updated conn=01 side=client mtu=1400 done=true"),
            line("mtu_updated conn=01 side=server mtu=1400 done=true"),
            line("mtu_updated mtu=1400 done=true"),
        ]);
        assert_eq!(texts.len(), 2);
        assert_eq!(writer.others().collect::<Vec<_>>(), ["conn=01 side=server"]);
    }

    #[test]
    fn whatever_stands_in_records_the_sequence_is_json() {
        let whole = line(
            "packet_received conn=01 side=client pn=-9 length=99999999999999999999 payload=-2 ecn=\\x00 \
             frames=\"ack(9..x,delay=,ecn=1/) connection_close(transport,1,8,a%zz%) settings(1,-1,,7=) stream(1) new_token() ((\"",
        );
        for end in whole.char_indices().map(|(end, _)| end) {
            let (texts, _) = trace(&[whole[..end].to_owned(), whole.clone()]);
            assert!(texts.len() >= 2, "{end}");
        }
    }
}
