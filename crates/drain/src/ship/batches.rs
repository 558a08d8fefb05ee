//! Batches that are made of the output buffers of a sink: lines, or typed records as blocks of columns.

use crate::layout::{LayoutOptions, Style};
use crate::limits::SHIP_BATCH_BYTES;
use crate::segment::readable_rows;
use logdrive_ship::hello::Format;
use logdrive_ship::session::RecordPayload;
use logdrive_store::{Batch, BatchDictionary, BatchEncoder, EncodedBatch};

/// Bytes of a payload before its definitions.
const LENGTH_BYTES: usize = 4;

/// Payload of a batch and the number of its records.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) count: u32,
    pub(super) payload: Vec<u8>,
}

/// Cuts buffers of a sink into batches.
#[derive(Debug)]
pub(super) enum Batches {
    Lines(Format),
    Records(Box<BatchEncoder>),
}

impl Batches {
    /// Batches of a sink with this layout.
    pub(super) fn new(layout: &LayoutOptions) -> Self {
        match layout.style {
            Style::Segments => Self::Records(Box::default()),
            Style::Json | Style::Slog => Self::Lines(Format::Json),
            _ => Self::Lines(Format::Text),
        }
    }

    /// Format that a hello tells.
    pub(super) fn format(&self) -> Format {
        match self {
            Self::Lines(format) => *format,
            Self::Records(_) => Format::Records,
        }
    }

    /// Number of records in a buffer, up to the first that cannot be read.
    pub(super) fn count(&self, bytes: &[u8]) -> u64 {
        match self {
            Self::Lines(_) => lines_in(bytes),
            Self::Records(_) => readable_rows(bytes, 0).rows,
        }
    }

    /// The batches of a buffer of so many records, and the number of those that are left out: the one that cannot be read,
    /// and those behind it.
    pub(super) fn cut(&mut self, bytes: &[u8], records: u64) -> (Vec<Cut>, u64) {
        let encoder = match self {
            Self::Records(encoder) => encoder,
            Self::Lines(_) => {
                let cut = |(count, lines): (u32, &[u8])| Cut {
                    count,
                    payload: lines.to_vec(),
                };
                return (lines_of(bytes).map(cut).collect(), 0);
            }
        };
        let (encoded, lost) = match encoder.encode(bytes, SHIP_BATCH_BYTES) {
            Ok(encoded) => (encoded, 0),
            Err(_) => {
                let found = readable_rows(bytes, records);
                let sound = bytes.get(..found.bytes).unwrap_or_default();
                let encoded = encoder.encode(sound, SHIP_BATCH_BYTES).unwrap_or_default();
                (encoded, found.lost)
            }
        };
        let cut = |batch: &EncodedBatch| Cut {
            count: batch.records,
            payload: payload(batch),
        };
        (encoded.iter().map(cut).collect(), lost)
    }
}

fn payload(batch: &EncodedBatch) -> Vec<u8> {
    let definitions = batch.definitions.iter();
    RecordPayload::encode(definitions.map(|one| (one.number, &*one.bytes)), &batch.block)
}

/// Cuts the payload of a batch of records into shorter ones.
pub(super) fn split(bytes: &[u8], payload_max: usize) -> Vec<(u32, Vec<u8>)> {
    let rows = rows_of(bytes).unwrap_or_default();
    let mut rows_bytes = payload_max;
    loop {
        let batches = BatchEncoder::default()
            .encode(&rows, rows_bytes)
            .unwrap_or_default();
        let is_short = |batch: &EncodedBatch| batch.block.len() + LENGTH_BYTES <= payload_max;
        // A record that is longer by itself stays so.
        if rows_bytes <= 1 || batches.iter().all(is_short) {
            return batches
                .iter()
                .map(|batch| (batch.records, payload(batch)))
                .collect();
        }
        rows_bytes /= 2;
    }
}

/// The rows of a batch.
fn rows_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let payload = RecordPayload::decode(bytes).ok()?;
    let mut dictionary = BatchDictionary::default();
    for (number, definition) in payload.definitions() {
        dictionary.define(number, definition).ok()?;
    }
    Batch::read(payload.block, &dictionary).ok()?.block.rows().ok()
}

/// Line breaks, eight bytes at a time.
fn lines_in(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Lines as batches.
fn lines_of(mut bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let most = bytes.get(..SHIP_BATCH_BYTES.min(bytes.len())).unwrap_or(bytes);
        let end = match memchr::memrchr(b'\n', most) {
            Some(at) => at + 1,
            // A line that is longer than a batch is one of its own.
            None => memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1),
        };
        let (batch, rest) = bytes.split_at_checked(end)?;
        bytes = rest;
        Some((lines_in(batch) as u32, batch))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_store::{RowCallsite, RowThread, RowWriter};

    #[test]
    fn records_before_a_damaged_one_are_sent_under_the_numbers_that_are_counted() {
        let site = RowCallsite::new(&logdrive_wire::Callsite::default(), None).expect("a callsite");
        let (mut writer, mut bytes, mut at) = (RowWriter::default(), vec![0; 1 << 16], 0);
        let thread = RowThread { id: 1, name: "main" };
        let mut ends = Vec::new();
        for number in 0..10 {
            at = writer
                .record(&mut bytes, at, &site, thread, number, b"")
                .expect("room");
            ends.push(at);
        }
        bytes.truncate(at);
        // The length of the eighth row is more than there is.
        bytes[ends[6]] = 0xff;
        bytes[ends[6] + 1] = 0xff;
        let mut batches = Batches::new(&Style::Segments.into());
        let (cut, lost) = batches.cut(&bytes, 10);
        let sent: u64 = cut.iter().map(|cut| u64::from(cut.count)).sum();
        assert_eq!((sent, lost, batches.count(&bytes)), (7, 3, 7));
        // A count that is damaged itself says neither that there are none nor that there are more than bytes.
        assert_eq!(batches.cut(&bytes, 0).1, 1);
        assert_eq!(batches.cut(&bytes, u64::MAX).1, (bytes.len() - ends[6]) as u64);
        assert_eq!(batches.cut(&bytes[..ends[6]], 7).1, 0);
        // A batch that another end finds too long is cut into the same records.
        let parts = split(&cut[0].payload, 200);
        assert_eq!(parts.iter().map(|(count, _)| *count).sum::<u32>(), 7);
    }

    #[test]
    fn batches_are_whole_lines_in_order() {
        let mut text = Vec::new();
        for number in 0..40_000 {
            text.extend_from_slice(format!("line {number}\n").as_bytes());
        }
        text.extend(vec![b'x'; SHIP_BATCH_BYTES * 2]);
        text.push(b'\n');
        text.extend_from_slice(b"end\n");
        let batches: Vec<(u32, &[u8])> = lines_of(&text).collect();
        assert!(batches.len() > 3);
        let joined: Vec<u8> = batches.iter().flat_map(|(_, lines)| lines.to_vec()).collect();
        assert_eq!(joined, text);
        let count: u64 = batches.iter().map(|(count, _)| u64::from(*count)).sum();
        assert_eq!(count, 40_002);
        assert!(batches.iter().all(|(_, lines)| lines.ends_with(b"\n")));
    }
}
