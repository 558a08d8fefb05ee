//! Lines of a log as batches of typed records.

use super::lines::record_starts;
use logdrive_reader::foreign::{ForeignCallsites, ForeignParser, ForeignRecord};
use logdrive_ring::clock::unix_ns;
use logdrive_ship::session::RecordPayload;
use logdrive_store::{BatchEncoder, EncodedBatch, RowThread, RowWriter};

/// Bytes of rows that become one or more batches.
const ROWS_BYTES: usize = 1 << 20;
/// Bytes of rows of a batch, as those of a sink that ships.
const BATCH_ROWS_BYTES: usize = 256 << 10;
/// Bytes of a piece of a record that is too long for one.
const PIECE_BYTES: usize = 32 << 10;

/// Payload of a batch, and the number of its records.
#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) count: u32,
    pub(crate) bytes: Vec<u8>,
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
        }
    }
}

impl RecordEncoder {
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
            self.values.clear();
            match record.encode(&mut self.values) {
                true => self.put(&record, &mut payloads),
                // Whole, in pieces: nothing of it is lost.
                false => {
                    for piece in text.chunks(PIECE_BYTES) {
                        record.message = piece.to_vec();
                        record.fields.clear();
                        self.values.clear();
                        record.encode(&mut self.values);
                        self.put(&record, &mut payloads);
                    }
                }
            }
        }
        self.flush(&mut payloads);
        payloads
    }

    /// Adds the record whose values were encoded.
    fn put(&mut self, record: &ForeignRecord, payloads: &mut Vec<Payload>) {
        for _ in 0..2 {
            let thread = RowThread {
                id: 0,
                name: &record.thread,
            };
            // Names are cut to what a callsite takes.
            let Ok(callsite) = self.callsites.of(record) else {
                return;
            };
            let time = record.unix_ns.unwrap_or(0);
            let end = self
                .rows
                .record(&mut self.space, self.filled, callsite, thread, time, &self.values);
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
            }
        };
        payloads.extend(batches.iter().map(payload));
    }
}
