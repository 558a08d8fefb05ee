//! A log of plain text files whose parts are looked at by several threads, for the merge.

use super::in_order::InOrder;
use super::plain_files::{last_part, plain_ranges};
use super::text_parts::{TextPart, TextParts};
use super::text_scan::{PartEnd, TextScan};
use crate::filter::Filter;
use crate::limits::{PARTS_AHEAD, REORDER_BYTES, SPARE_PARTS_MAX};
use crate::log_files::LogFile;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Makes what is printed of a record, on the thread that has found it.
pub trait ShapeRecord: Send {
    /// Appends a record, or with `goes_on` a further piece of the record before.
    fn shape(&mut self, record: &[u8], goes_on: bool, out: &mut Vec<u8>);
}

/// Makes a [`ShapeRecord`] for each thread.
pub type Shapes = Arc<dyn Fn() -> Box<dyn ShapeRecord> + Send + Sync>;

/// Records of a part that pass.
#[derive(Debug)]
pub(crate) struct ScannedPart {
    /// Their bytes, or what is printed of them, behind room for the records that are kept from the part before.
    pub(crate) bytes: Vec<u8>,
    /// Time, start and end of each.
    pub(crate) records: Vec<(u64, usize, usize)>,
    /// End of what goes on with the last record of the part before.
    pub(crate) leading: usize,
    pub(crate) last: Option<(u64, bool)>,
    pub(crate) has_lines: bool,
    pub(crate) error: Option<io::Error>,
}

impl ScannedPart {
    /// Offset of the first byte of its own.
    pub(crate) const FRONT: usize = REORDER_BYTES;
}

/// Memory of parts that were taken, for later ones: pages that are known cost nothing.
type SpareBytes = Arc<Mutex<Vec<Vec<u8>>>>;

/// Looks at parts.
struct Worker {
    scan: TextScan,
    shape: Option<Box<dyn ShapeRecord>>,
    memory: Vec<u8>,
    spare: SpareBytes,
}

impl Worker {
    fn work(&mut self, part: &TextPart) -> ScannedPart {
        let Self {
            scan,
            shape,
            memory,
            spare,
        } = self;
        let mut found = ScannedPart {
            bytes: locked(spare).pop().unwrap_or_default(),
            records: Vec::new(),
            leading: ScannedPart::FRONT,
            last: None,
            has_lines: false,
            error: None,
        };
        let bytes = match part.read(memory) {
            Ok(bytes) => bytes,
            Err(error) => {
                found.error = Some(error);
                return found;
            }
        };
        found.has_lines = !bytes.is_empty();
        let mut put = |out: &mut Vec<u8>, record: &[u8], goes_on: bool| {
            if out.is_empty() {
                out.resize(ScannedPart::FRONT, 0);
            }
            match shape {
                Some(shape) => shape.shape(record, goes_on, out),
                None => out.extend_from_slice(record),
            }
        };
        let (out, records) = (&mut found.bytes, &mut found.records);
        let PartEnd { leading, last } = scan.scan(bytes, part.begins_line, &mut |_, text, record| {
            let start = out.len().max(ScannedPart::FRONT);
            put(out, text, false);
            records.push((record.head.unix_ns, start, out.len()));
        });
        found.last = last;
        if leading > 0 {
            // It stands behind the others, and is moved when it is known whether it passes.
            let start = found.bytes.len().max(ScannedPart::FRONT);
            put(&mut found.bytes, bytes.get(..leading).unwrap_or(&[]), true);
            let length = found.bytes.len() - start;
            found
                .bytes
                .get_mut(ScannedPart::FRONT..)
                .unwrap_or_default()
                .rotate_right(length);
            for (_, start, end) in &mut found.records {
                (*start, *end) = (*start + length, *end + length);
            }
            found.leading += length;
        }
        found
    }
}

fn locked(spare: &SpareBytes) -> MutexGuard<'_, Vec<Vec<u8>>> {
    // A thread that panicked has left a whole list.
    spare.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records of a log, in the order of its parts.
#[derive(Debug)]
pub(crate) struct ScannedText {
    pub(crate) parts: InOrder<ScannedPart>,
    pub(crate) is_shaped: bool,
    spare: SpareBytes,
}

impl ScannedText {
    /// Starts threads for a log of these files; `None` where they have to be read from their start, one after the other. Of a log
    /// of one file the end alone is read, where so many of the last records are wanted.
    pub(crate) fn start<'a>(
        files: impl Iterator<Item = &'a LogFile>,
        filter: &Filter,
        threads: usize,
        shapes: Option<&Shapes>,
        last: Option<usize>,
    ) -> Option<Self> {
        let mut ranges = plain_ranges(files, filter)?;
        if let (Some(count), [range]) = (last, ranges.as_mut_slice())
            && let Some(part) = last_part(range, filter, count)
        {
            *range = part;
        }
        let spare = SpareBytes::default();
        let worker = || {
            let mut worker = Worker {
                spare: Arc::clone(&spare),
                scan: TextScan::new(filter.clone()),
                shape: shapes.map(|make| make()),
                memory: Vec::new(),
            };
            move |part: TextPart| worker.work(&part)
        };
        let mut parts = TextParts::new(ranges);
        let workers: Vec<_> = (0..threads.max(1)).map(|_| worker()).collect();
        let window = PARTS_AHEAD * workers.len() as u64;
        Some(Self {
            parts: InOrder::start(workers, window, move || parts.next_part()),
            is_shaped: shapes.is_some(),
            spare,
        })
    }

    /// Takes back the memory of a part whose records were taken.
    pub(crate) fn give_back(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        let mut spare = locked(&self.spare);
        if spare.len() < SPARE_PARTS_MAX {
            spare.push(bytes);
        }
    }
}
