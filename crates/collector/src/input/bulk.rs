//! Bodies of requests with many records: Elasticsearch's bulk, Loki's push, and plain lines.

use logdrive_reader::foreign::level::of_name;
use logdrive_reader::foreign::{ForeignParser, ForeignRecord};
use logdrive_ring::clock::unix_ns;
use serde_json::{Value, json};

/// Reads lines, each of which is a record.
pub(crate) fn lines(parser: &mut ForeignParser, body: &[u8]) -> Vec<ForeignRecord> {
    let now = unix_ns();
    let lines = body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty());
    lines
        .map(|line| {
            let mut record = parser.read(line);
            record.unix_ns.get_or_insert(now);
            record
        })
        .collect()
}

/// Reads a bulk request of Elasticsearch: an action, and its document on the next line. Returns the answer, too.
///
/// # Errors
/// When an action cannot be read.
pub(crate) fn elastic(
    parser: &mut ForeignParser,
    body: &[u8],
) -> Result<(Vec<ForeignRecord>, Value), String> {
    let now = unix_ns();
    let (mut records, mut items) = (Vec::new(), Vec::new());
    let mut lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    while let Some(action) = lines.next() {
        let action: Value = serde_json::from_slice(action).map_err(|error| format!("an action: {error}"))?;
        let name = ["create", "index"]
            .into_iter()
            .find(|name| action.get(name).is_some());
        let name = name.ok_or("an action that is neither create nor index")?;
        let document = lines.next().ok_or("an action without a document")?;
        let mut record = parser.read(document);
        record.unix_ns.get_or_insert(now);
        let index = action
            .get(name)
            .and_then(|meta| meta.get("_index"))
            .and_then(Value::as_str);
        if let Some(index) = index {
            record.push_text("index", index);
        }
        records.push(record);
        let mut item = serde_json::Map::new();
        item.insert(
            name.to_owned(),
            json!({"_index": index, "status": 201, "result": "created"}),
        );
        items.push(Value::Object(item));
    }
    Ok((records, json!({"took": 0, "errors": false, "items": items})))
}

/// Reads a push request of Loki in JSON.
///
/// # Errors
/// When it is none.
pub(crate) fn loki(parser: &mut ForeignParser, body: &[u8]) -> Result<Vec<ForeignRecord>, String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let streams = body
        .get("streams")
        .and_then(Value::as_array)
        .ok_or("no streams")?;
    let mut records = Vec::new();
    for stream in streams {
        let labels = stream.get("stream").and_then(Value::as_object);
        let values = stream
            .get("values")
            .and_then(Value::as_array)
            .ok_or("a stream without values")?;
        for value in values {
            let text = |place: usize| value.get(place).and_then(Value::as_str);
            let (Some(time), Some(line)) = (text(0).and_then(|time| time.parse().ok()), text(1)) else {
                return Err("a value that is no time and line".to_owned());
            };
            let mut record = parser.read(line.as_bytes());
            record.unix_ns = Some(time);
            let metadata = value.get(2).and_then(Value::as_object);
            for (key, value) in labels.into_iter().chain(metadata).flatten() {
                let Some(value) = value.as_str() else { continue };
                let level = of_name(value).filter(|_| key == "level");
                match record.level.is_none() && level.is_some() {
                    true => record.level = level,
                    false => record.push_text(key, value),
                }
            }
            records.push(record);
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_reader::foreign::ForeignValue;
    use logdrive_wire::Level;

    #[test]
    fn documents_of_a_bulk_request_are_records_and_each_is_answered() {
        let body = b"{\"create\":{\"_index\":\"logs\"}}\n{\"@timestamp\":\"2026-11-26T01:00:00Z\",\"message\":\"a\",\"n\":7}\n\
                     {\"index\":{}}\n{\"message\":\"b\",\"log.level\":\"error\"}\n";
        let (records, answer) = elastic(&mut ForeignParser::default(), body).expect("a request");
        assert_eq!(records.len(), 2);
        assert_eq!(
            (records[0].message.as_slice(), records[0].unix_ns),
            (&b"a"[..], Some(1_795_654_800_000_000_000))
        );
        assert!(
            records[0]
                .fields
                .contains(&("n".to_owned(), ForeignValue::U64(7)))
        );
        assert_eq!(records[1].level, Some(Level::Error));
        assert_eq!(answer["items"][0]["create"]["status"], 201);
        assert_eq!(answer["items"][1]["index"]["status"], 201);
        for wrong in [&b"x\n"[..], b"{\"delete\":{}}\n", b"{\"create\":{}}\n"] {
            assert!(elastic(&mut ForeignParser::default(), wrong).is_err());
        }
    }

    #[test]
    fn values_of_streams_are_records_with_their_labels() {
        let body = br#"{"streams":[{"stream":{"app":"shop","level":"warn"},"values":[["1795654800000000001","slow took_ms=7"],
                      ["1795654800000000002","level=error msg=\"b c\"",{"trace":"x"}]]}]}"#;
        let records = loki(&mut ForeignParser::default(), body).expect("a request");
        assert_eq!(records[0].unix_ns, Some(1_795_654_800_000_000_001));
        assert_eq!(
            (records[0].level, records[1].level),
            (Some(Level::Warn), Some(Level::Error))
        );
        assert!(
            records[1]
                .fields
                .contains(&("trace".to_owned(), ForeignValue::Text(b"x".to_vec())))
        );
        assert!(
            records[1]
                .fields
                .contains(&("app".to_owned(), ForeignValue::Text(b"shop".to_vec())))
        );
        for wrong in [&b"{}"[..], b"[]", br#"{"streams":[{"values":[["x","y"]]}]}"#] {
            assert!(loki(&mut ForeignParser::default(), wrong).is_err());
        }
    }
}
