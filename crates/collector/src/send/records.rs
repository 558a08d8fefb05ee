//! Lines of a log as batches of typed records.

use super::container::container_fields;
use super::destination::Payload;
use super::lines::record_starts;
use logdrive_reader::foreign::{ForeignCallsites, ForeignParser, ForeignRecord, ForeignValue};
use logdrive_ring::clock::unix_ns;
use logdrive_ship::session::RecordPayload;
use logdrive_store::{BatchEncoder, EncodedBatch, RowThread, RowWriter};
use std::convert::Infallible;
use std::path::Path;

/// Bytes of rows that become one or more batches.
const ROWS_BYTES: usize = 1 << 20;
/// Bytes of rows of a batch, as those of a sink that ships.
const BATCH_ROWS_BYTES: usize = 256 << 10;
/// In place of the thread of a line that names none.
pub(crate) const NO_THREAD: &str = "-";
/// Bytes of a piece of a record that is too long for one.
pub(crate) const PIECE_BYTES: usize = 32 << 10;

/// Encodes a record that was read from a text. One that is too long goes whole, in pieces of the text: nothing of it is lost.
pub(crate) fn each_piece<E>(
    record: &mut ForeignRecord,
    text: &[u8],
    values: &mut Vec<u8>,
    mut each: impl FnMut(&ForeignRecord, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    values.clear();
    if record.encode(values) {
        return each(record, values);
    }
    for piece in text.chunks(PIECE_BYTES) {
        record.message = piece.to_vec();
        record.fields.clear();
        values.clear();
        record.encode(values);
        each(record, values)?;
    }
    Ok(())
}

/// Makes batches of lines. The same lines make the same records, whose first line begins one.
#[derive(Debug)]
pub(crate) struct RecordEncoder {
    parser: ForeignParser,
    callsites: ForeignCallsites,
    batches: BatchEncoder,
    rows: RowWriter,
    space: Vec<u8>,
    filled: usize,
    values: Vec<u8>,
    /// Fields that all records have, such as those of their pod.
    fields: Vec<(String, ForeignValue)>,
}

impl Default for RecordEncoder {
    fn default() -> Self {
        Self {
            parser: ForeignParser::default(),
            callsites: ForeignCallsites::default(),
            batches: BatchEncoder::default(),
            rows: RowWriter::default(),
            space: vec![0; ROWS_BYTES],
            filled: 0,
            values: Vec::new(),
            fields: Vec::new(),
        }
    }
}

impl RecordEncoder {
    /// Records of the log of a container have its names.
    pub(crate) fn of_log(path: &Path) -> Self {
        Self {
            fields: container_fields(path),
            ..Self::default()
        }
    }

    /// Returns the batches of whole lines.
    pub(crate) fn encode(&mut self, lines: &[u8]) -> Vec<Payload> {
        let mut payloads = Vec::new();
        let starts = record_starts(lines);
        let ends = starts.iter().skip(1).copied().chain([lines.len()]);
        let read_at = unix_ns();
        for (start, end) in starts.iter().zip(ends) {
            let text = lines.get(*start..end).unwrap_or(&[]);
            let text = text.strip_suffix(b"\n").unwrap_or(text);
            let mut record = self.parser.read(text);
            record.unix_ns.get_or_insert(read_at);
            record.fields.extend_from_slice(&self.fields);
            let mut values = std::mem::take(&mut self.values);
            let Ok(()) = each_piece(&mut record, text, &mut values, |record, values| {
                self.put(record, values, &mut payloads);
                Ok::<(), Infallible>(())
            });
            self.values = values;
        }
        self.flush(&mut payloads);
        payloads
    }

    /// Returns the batches of records that came otherwise. What of a record is too long for one is left out of it.
    #[cfg(feature = "inputs")]
    pub(crate) fn encode_records<'a>(
        &mut self,
        records: impl Iterator<Item = &'a mut ForeignRecord>,
    ) -> Vec<Payload> {
        let mut payloads = Vec::new();
        let mut values = std::mem::take(&mut self.values);
        for record in records {
            values.clear();
            if record.encode(&mut values) {
                self.put(record, &values, &mut payloads);
                continue;
            }
            // The message whole, in pieces; the fields stand with the first.
            let message = std::mem::take(&mut record.message);
            for piece in message.chunks(PIECE_BYTES) {
                record.message = piece.to_vec();
                values.clear();
                record.encode(&mut values);
                self.put(record, &values, &mut payloads);
                record.fields.clear();
            }
        }
        self.values = values;
        self.flush(&mut payloads);
        payloads
    }

    /// Adds the record whose values were encoded.
    fn put(&mut self, record: &ForeignRecord, values: &[u8], payloads: &mut Vec<Payload>) {
        for _ in 0..2 {
            let thread = RowThread {
                id: 0,
                name: match record.thread.as_str() {
                    "" => NO_THREAD,
                    thread => thread,
                },
            };
            // Names are cut to what a callsite takes.
            let Ok(callsite) = self.callsites.of(record) else {
                return;
            };
            let time = record.unix_ns.unwrap_or(0);
            let end = self
                .rows
                .record(&mut self.space, self.filled, callsite, thread, time, values);
            if let Some(end) = end {
                self.filled = end;
                return;
            }
            self.flush(payloads);
        }
    }

    fn flush(&mut self, payloads: &mut Vec<Payload>) {
        let rows = self.space.get(..std::mem::take(&mut self.filled)).unwrap_or(&[]);
        // Rows that were just written can be read.
        let batches = self.batches.encode(rows, BATCH_ROWS_BYTES).unwrap_or_default();
        let payload = |batch: &EncodedBatch| {
            let definitions = batch.definitions.iter().map(|one| (one.number, &*one.bytes));
            Payload {
                count: batch.records,
                bytes: RecordPayload::encode(definitions, &batch.block),
                starts: Vec::new(),
            }
        };
        payloads.extend(batches.iter().map(payload));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_store::{Batch, BatchDictionary, Rows};
    use logdrive_wire::value::DynamicFields;

    /// Messages of all records.
    fn messages(payloads: &[Payload]) -> Vec<String> {
        let mut found = Vec::new();
        for payload in payloads {
            let read = RecordPayload::decode(&payload.bytes).expect("sound");
            let mut dictionary = BatchDictionary::default();
            for (number, definition) in read.definitions() {
                dictionary.define(number, definition).expect("a definition");
            }
            let batch = Batch::read(read.block, &dictionary).expect("a batch");
            let bytes = batch.block.rows().expect("rows");
            let (mut rows, mut count) = (Rows::new(&bytes), 0);
            while let Some(row) = rows.next_row().expect("rows") {
                let first = DynamicFields::new(row.payload).next_value().expect("sound");
                let Some(logdrive_wire::Value::Message(text)) = first.map(|named| named.value) else {
                    panic!("no message");
                };
                found.push(String::from_utf8_lossy(text).into_owned());
                count += 1;
            }
            assert_eq!(count, payload.count);
        }
        found
    }

    #[test]
    fn a_trace_is_one_record_and_a_long_line_is_whole_in_pieces() {
        let long = "y".repeat(100_000);
        let lines = format!(
            "2026-11-21 12:34:56 ERROR failed\n\tat a.B.c(B.java:7)\n2026-11-21 12:34:57 INFO next\n{long}\n"
        );
        let found = messages(&RecordEncoder::default().encode(lines.as_bytes()));
        assert_eq!(found[0], "failed\n\tat a.B.c(B.java:7)");
        let rest = found[1..].concat();
        assert!(rest.contains("next") && rest.contains(&long), "{}", found.len());
        assert!(RecordEncoder::default().encode(b"").is_empty());
    }

    #[test]
    fn the_same_lines_make_the_same_records_wherever_they_are_cut_between_records() {
        let lines: String = (0..3_000)
            .map(|number| match number % 3 {
                0 => format!("2026-11-21 12:34:56 ERROR failed {number}\n\tat a.B.c(B.java:{number})\n"),
                1 => format!("2026-11-21 12:34:57 INFO went on {number}\n"),
                _ => format!("time=2026-11-21T12:34:56Z level=info msg=\"a b\" number={number}\n"),
            })
            .collect();
        let whole = messages(&RecordEncoder::default().encode(lines.as_bytes()));
        assert_eq!(whole.len(), 3_000);
        let starts = record_starts(lines.as_bytes());
        assert_eq!(starts.len(), 3_000);
        for cut in [1, 7, 1_000, 2_999] {
            let (front, rest) = lines.split_at(starts[cut]);
            let mut encoder = RecordEncoder::default();
            let mut found = messages(&encoder.encode(front.as_bytes()));
            found.extend(messages(&encoder.encode(rest.as_bytes())));
            assert_eq!(found, whole, "{cut}");
        }
    }
}
