//! Segments as lines: the records of each block, laid out as a sink of lines would have done it. What a query asks of them
//! is answered from their values, before they are lines: then the arguments of messages are fields.

use crate::filter::{Filter, LineFilter};
use crate::head::read_head;
use crate::limits::RECORD_BYTES_MAX;
use crate::typed::{TypedRecord, message_style};
use logdrive_drain::layout::{Layout, LayoutError, LineBuffer, Outcome, Plan, ProcessInfo, Record, Style};
use logdrive_store::{Block, BlockHead, Damage, DictionaryCallsite, Rows, SegmentReader, StoreError};
use logdrive_wire::Level;
use std::fs::File;
use std::io::{self, Read};

/// First bytes of a segment, as many as say what a file is.
pub(crate) const MAGIC: [u8; 4] = *b"\xD7LDs";
/// Room that a line has at first, and at most.
const LINE_BYTES: (usize, usize) = (1 << 16, 1 << 20);

/// A query at work.
#[derive(Debug)]
struct Asking {
    /// Layout of messages alone.
    messages: Layout,
    /// Filter of lines that are stored as text.
    lines: LineFilter,
    /// Lines of a record of which more may follow.
    open: Vec<u8>,
    /// Whether they begin with the head of a record.
    is_record: bool,
    /// Room for a message.
    space: Vec<u8>,
}

/// A segment that is read as lines.
#[derive(Debug)]
pub(crate) struct SegmentLines {
    blocks: SegmentReader<File>,
    layout: Layout,
    filter: Filter,
    /// Parts that a query needs; none without one.
    query: Option<Box<Asking>>,
    damages: Vec<Damage>,
    lines: Vec<u8>,
    /// Bytes of the lines; what lies behind is rubbish.
    filled: usize,
    /// Bytes of the lines that were taken.
    taken: usize,
}

impl SegmentLines {
    /// Reads a file from its start, without the blocks of which no record passes, and without records that do not answer
    /// the filter's query.
    pub(crate) fn new(file: File, style: Style, filter: &Filter) -> Result<Self, LayoutError> {
        let query = match filter.query.is_some() {
            true => Some(Box::new(Asking {
                messages: Layout::new(message_style().into(), ProcessInfo::default())?,
                lines: LineFilter::new(filter.query_alone()),
                open: Vec::new(),
                is_record: false,
                space: vec![0; LINE_BYTES.1],
            })),
            false => None,
        };
        Ok(Self {
            blocks: SegmentReader::new(file),
            layout: Layout::new(style.into(), ProcessInfo::default())?,
            filter: filter.clone(),
            query,
            damages: Vec::new(),
            lines: Vec::new(),
            filled: 0,
            taken: 0,
        })
    }

    /// The lines of one block, laid out by themselves.
    pub(crate) fn of_block(&mut self, block: &Block) -> Result<Vec<u8>, StoreError> {
        (self.filled, self.taken) = (0, 0);
        self.lines = Vec::new();
        self.put_rows(block, &block.rows()?);
        self.lines.truncate(self.filled);
        Ok(std::mem::take(&mut self.lines))
    }

    /// Returns damage that was found since the last call.
    pub(crate) fn take_damages(&mut self) -> Vec<Damage> {
        self.damages.extend(self.blocks.take_damages());
        std::mem::take(&mut self.damages)
    }

    /// Lays the next block out. `false` at the end.
    fn next_block(&mut self) -> io::Result<bool> {
        (self.filled, self.taken) = (0, 0);
        let filter = &self.filter;
        let Some(block) = self.blocks.next_block(|head| may_pass(filter, head))? else {
            self.close_record();
            return Ok(self.filled > 0);
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
            .map(|known| Plan::of_stored(&self.layout, &known.callsite, known.process.as_ref()))
            .collect();
        let messages = self.message_plans(&block.head().callsites);
        let mut rows = Rows::new(rows);
        // Rows of a block are sound: it made them.
        while let Ok(Some(row)) = rows.next_row() {
            let number = row.callsite.map(|number| number as usize);
            let Some(plan) = number.and_then(|number| plans.get(number)) else {
                self.take_text(row.payload);
                continue;
            };
            let record = Record::of_row(&row, &head.threads);
            if self.query.is_some() {
                self.close_record();
                let known = number.and_then(|number| head.callsites.get(number).zip(messages.get(number)));
                if !known.is_some_and(|(callsite, message)| self.passes(callsite, message, &record)) {
                    continue;
                }
            }
            self.put_line(plan, &record);
        }
    }

    /// Plans of the callsites' messages, where a query may ask for them.
    fn message_plans(&self, callsites: &[DictionaryCallsite]) -> Vec<Plan> {
        let compile = |query: &Asking| {
            let plans = callsites
                .iter()
                .map(|known| query.messages.compile(&known.callsite));
            plans.collect()
        };
        self.query.as_deref().map(compile).unwrap_or_default()
    }

    /// Whether a record passes.
    fn passes(&mut self, known: &DictionaryCallsite, message: &Plan, record: &Record<'_>) -> bool {
        let Some(query) = &mut self.query else {
            return true;
        };
        let mut typed = TypedRecord {
            callsite: &known.callsite,
            process: known
                .process
                .as_ref()
                .map(|process| (process.app.as_str(), process.pid)),
            record,
            messages: &mut query.messages,
            message,
            space: &mut query.space,
            lines: None,
        };
        typed.passes(query.lines.filter())
    }

    /// Takes a line that is text already: it begins a record, or belongs to the one before.
    fn take_text(&mut self, line: &[u8]) {
        let Some(query) = &mut self.query else {
            return self.put_text(line);
        };
        let begins = read_head(line, &mut query.lines.times).is_some();
        if begins || !query.is_record || query.open.len() > RECORD_BYTES_MAX {
            self.close_record();
        }
        if let Some(query) = &mut self.query {
            query.is_record |= begins;
            query.open.extend_from_slice(line);
            query.open.push(b'\n');
        }
    }

    /// Puts the lines of the record that was collected, if they pass.
    fn close_record(&mut self) {
        let Some(query) = &mut self.query else {
            return;
        };
        let open = std::mem::take(&mut query.open);
        if let Some(lines) = open.strip_suffix(b"\n")
            && query.lines.passes(lines)
        {
            self.put_text(lines);
        }
        if let Some(query) = &mut self.query {
            query.open = open;
            query.open.clear();
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

/// Whether a block may have a record that passes.
pub(crate) fn may_pass(filter: &Filter, head: &BlockHead) -> bool {
    let has_levels = || {
        let counted: u64 = head.level_counts.iter().sum();
        // Lines without a level may belong to a record with one.
        counted < head.records as u64
            || Level::ALL
                .into_iter()
                .zip(head.level_counts)
                .any(|(level, count)| count > 0 && filter.may_have_level(level))
    };
    head.times.1 >= filter.since_ns.unwrap_or(0)
        && head.times.0 <= filter.until_ns.unwrap_or(u64::MAX)
        && has_levels()
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
