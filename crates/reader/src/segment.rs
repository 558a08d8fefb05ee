//! Segments as lines: the records of each block, laid out as a sink of lines would have done it.

use logdrive_drain::layout::{
    Layout, LayoutError, LineBuffer, Outcome, Plan, ProcessInfo, Record, Style, Thread,
};
use logdrive_store::{Block, Damage, Rows, SegmentReader};
use std::fs::File;
use std::io::{self, Read};

/// First bytes of a segment, as many as say what a file is.
pub(crate) const MAGIC: [u8; 4] = *b"\xD7LDs";
/// Room that a line has at first, and at most.
const LINE_BYTES: (usize, usize) = (1 << 16, 1 << 20);

/// A segment that is read as lines.
#[derive(Debug)]
pub(crate) struct SegmentLines {
    blocks: SegmentReader<File>,
    layout: Layout,
    since_ns: Option<u64>,
    damages: Vec<Damage>,
    lines: Vec<u8>,
    /// Bytes of the lines; what lies behind is rubbish.
    filled: usize,
    /// Bytes of the lines that were taken.
    taken: usize,
}

impl SegmentLines {
    /// Reads a file from its start, without the blocks that end before a time.
    pub(crate) fn new(file: File, style: Style, since_ns: Option<u64>) -> Result<Self, LayoutError> {
        Ok(Self {
            blocks: SegmentReader::new(file),
            layout: Layout::new(style.into(), ProcessInfo::default())?,
            since_ns,
            damages: Vec::new(),
            lines: Vec::new(),
            filled: 0,
            taken: 0,
        })
    }

    /// Returns damage that was found since the last call.
    pub(crate) fn take_damages(&mut self) -> Vec<Damage> {
        self.damages.extend(self.blocks.take_damages());
        std::mem::take(&mut self.damages)
    }

    /// Lays the next block out. `false` at the end.
    fn next_block(&mut self) -> io::Result<bool> {
        (self.filled, self.taken) = (0, 0);
        let since_ns = self.since_ns.unwrap_or(0);
        let Some(block) = self.blocks.next_block(|head| head.times.1 >= since_ns)? else {
            return Ok(false);
        };
        let rows = match block.rows() {
            Ok(rows) => rows,
            Err(error) => {
                let bytes = (block.head().head_bytes + block.head().body_bytes) as u64;
                let offset = self.blocks.offset() - bytes;
                self.damages.push(Damage { offset, bytes, error });
                return Ok(true);
            }
        };
        self.put_rows(&block, &rows);
        Ok(true)
    }

    fn put_rows(&mut self, block: &Block, rows: &[u8]) {
        let head = block.head();
        let plans: Vec<Plan> = head
            .callsites
            .iter()
            .map(|known| match &known.process {
                None => self.layout.compile(&known.callsite),
                Some(process) => {
                    let process = ProcessInfo {
                        app: process.app.clone(),
                        pid: process.pid,
                        host: process.host.clone(),
                    };
                    self.layout.compile_for(&known.callsite, &process)
                }
            })
            .collect();
        let mut rows = Rows::new(rows);
        // Rows of a block are sound: it made them.
        while let Ok(Some(row)) = rows.next_row() {
            let Some(plan) = row.callsite.and_then(|number| plans.get(number as usize)) else {
                self.put_text(row.payload);
                continue;
            };
            let thread = row.thread.and_then(|number| head.threads.get(number as usize));
            let record = Record {
                unix_ns: row.unix_ns,
                thread: Thread {
                    name: thread.map_or("", |thread| &thread.name),
                    id: thread.map_or(0, |thread| thread.id),
                },
                payload: row.payload,
            };
            self.put_line(plan, &record);
        }
    }

    /// Makes room for so many bytes behind the lines.
    fn make_room(&mut self, bytes: usize) {
        let needed = self.filled + bytes;
        if self.lines.len() < needed {
            self.lines.resize(needed.max(2 * self.lines.len()), 0);
        }
    }

    /// Adds a line that is text already.
    fn put_text(&mut self, line: &[u8]) {
        self.make_room(line.len() + 1);
        let end = self.filled + line.len();
        if let Some(place) = self.lines.get_mut(self.filled..end) {
            place.copy_from_slice(line);
        }
        if let Some(place) = self.lines.get_mut(end) {
            *place = b'\n';
        }
        self.filled = end + 1;
    }

    fn put_line(&mut self, plan: &Plan, record: &Record<'_>) {
        let mut room = LINE_BYTES.0;
        loop {
            self.make_room(room);
            let place = self.lines.get_mut(self.filled..).unwrap_or_default();
            let mut out = LineBuffer::new(place);
            let outcome = match room < LINE_BYTES.1 {
                true => self.layout.line(plan, record, &mut out),
                false => self.layout.line_cut(plan, record, &mut out),
            };
            let length = out.len();
            if outcome != Outcome::Overflow || room >= LINE_BYTES.1 {
                self.filled += length;
                return;
            }
            room = LINE_BYTES.1;
        }
    }
}

impl Read for SegmentLines {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.taken >= self.filled {
            if !self.next_block()? {
                return Ok(0);
            }
        }
        let rest = self.lines.get(self.taken..self.filled).unwrap_or(&[]);
        let length = rest.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..length), rest.get(..length)) {
            to.copy_from_slice(from);
        }
        self.taken += length;
        Ok(length)
    }
}
