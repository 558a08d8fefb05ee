//! Batches of records, as engines see them: the rows of some blocks, and the means to take each record apart.

use crate::error::EngineError;
use crate::json::{put_string, value_text};
use crate::limits::{LINE_BYTES, TEXT_CALLSITES_MAX};
use logdrive_drain::layout::{Layout, LayoutOptions, Plan, ProcessInfo, Record, Style, Thread};
use logdrive_reader::foreign::{ForeignParser, ForeignRecord, dynamic_callsite};
use logdrive_store::{
    Block, DictionaryThread, RowCallsite, RowProcess, RowThread, Rows, SegmentWriter, StoreError,
};
use logdrive_wire::{Callsite, Level, Value, each_field};
use memchr::memmem::Finder;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// Callsite of records, ready to be laid out.
#[derive(Debug)]
struct RecordSite {
    callsite: Callsite,
    process: Option<RowProcess>,
    json: Plan,
    message: Plan,
    /// The callsite in further segments; none where its names are too long for one.
    row: Option<RowCallsite>,
}

/// Block of records: of a segment whose rows were read, or lines of text.
#[derive(Debug)]
pub(crate) struct BatchBlock {
    sites: Vec<RecordSite>,
    threads: Vec<DictionaryThread>,
    /// Rows, or lines with their ends.
    rows: Vec<u8>,
    /// Starts of the records where they are lines.
    starts: Option<Vec<u32>>,
    records: usize,
    /// Least time of its records.
    first_ns: u64,
}

impl BatchBlock {
    /// A block of lines that were read at a time, with the start of each record.
    pub(crate) fn of_lines(lines: Vec<u8>, starts: Vec<u32>, read_ns: u64) -> Self {
        Self {
            sites: Vec::new(),
            threads: Vec::new(),
            rows: lines,
            records: starts.len(),
            starts: Some(starts),
            first_ns: read_ns,
        }
    }

    /// Record of lines at a place, without its end.
    fn line(&self, starts: &[u32], place: usize) -> &[u8] {
        let start = starts.get(place).map_or(0, |start| *start as usize);
        let next = starts.get(place + 1);
        let end = next.map_or(self.rows.len(), |start| *start as usize);
        let line = self.rows.get(start..end).unwrap_or_default();
        line.strip_suffix(b"\n").unwrap_or(line)
    }

    /// Time of its oldest record, in nanoseconds since 1970; `None` where it has none.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        (self.records > 0).then_some(self.first_ns)
    }

    /// Number of its records.
    pub(crate) fn records(&self) -> usize {
        self.records
    }

    /// Bytes of its rows.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.len()
    }
}

/// Layouts of records, and memory that is kept from one to the next.
#[derive(Debug)]
pub(crate) struct RecordLayouts {
    json: Layout,
    message: Layout,
    space: Vec<u8>,
    payload: Vec<u8>,
    parser: ForeignParser,
    /// Callsites of lines of text, by level and target.
    texts: HashMap<(Level, String), Arc<RecordSite>>,
    /// Those of lines without a target, by level: comparing empty texts faults and is slow on some processors.
    plain_texts: HashMap<Level, Arc<RecordSite>>,
    /// Process of lines of text, where it is known.
    process: Option<RowProcess>,
    /// Lines of text are messages as they are, and are not taken apart.
    keeps_lines: bool,
    line: ForeignRecord,
}

impl RecordLayouts {
    pub(crate) fn new() -> Result<Self, EngineError> {
        let message: LayoutOptions = Style::Pattern("{raw_message}".to_owned()).into();
        Ok(Self {
            json: Layout::new(Style::Json.into(), ProcessInfo::default())?,
            message: Layout::new(message, ProcessInfo::default())?,
            space: vec![0; LINE_BYTES],
            payload: Vec::new(),
            parser: ForeignParser::default(),
            texts: HashMap::new(),
            plain_texts: HashMap::new(),
            process: None,
            keeps_lines: false,
            line: ForeignRecord::default(),
        })
    }

    /// Lines of text are of this process; with `keeps_lines` they are not taken apart.
    pub(crate) fn of_lines(self, process: Option<RowProcess>, keeps_lines: bool) -> Self {
        Self {
            process,
            keeps_lines,
            ..self
        }
    }

    /// Reads the rows of a block.
    pub(crate) fn read(&self, block: &Block) -> Result<BatchBlock, StoreError> {
        let head = block.head();
        let sites = head.callsites.iter();
        Ok(BatchBlock {
            sites: sites
                .map(|known| self.site(known.callsite.clone(), known.process.clone()))
                .collect(),
            threads: head.threads.clone(),
            rows: block.rows()?,
            starts: None,
            records: head.records,
            first_ns: head.times.0,
        })
    }

    fn site(&self, callsite: Callsite, process: Option<RowProcess>) -> RecordSite {
        RecordSite {
            message: self.message.compile(&callsite),
            row: RowCallsite::new(&callsite, process.as_ref()).ok(),
            json: Plan::of_stored(&self.json, &callsite, process.as_ref()),
            callsite,
            process,
        }
    }

    /// Takes a line of text apart; its values are in `payload` then. Returns its callsite, time and thread.
    fn read_text(&mut self, line: &[u8]) -> (Arc<RecordSite>, Option<u64>, String) {
        let mut found = match self.keeps_lines {
            true => {
                let mut kept = std::mem::take(&mut self.line);
                kept.message.clear();
                kept.message.extend_from_slice(line);
                kept
            }
            false => self.parser.read(line),
        };
        self.payload.clear();
        if !found.encode(&mut self.payload) {
            // The line whole, instead of a part of its fields.
            self.payload.clear();
            found.message = line.to_vec();
            found.fields.clear();
            found.encode(&mut self.payload);
        }
        let (unix_ns, thread) = (found.unix_ns, std::mem::take(&mut found.thread));
        let mut key = (
            found.level.unwrap_or(Level::Info),
            std::mem::take(&mut found.target),
        );
        self.line = found;
        if self.texts.len() >= TEXT_CALLSITES_MAX && !self.texts.contains_key(&key) {
            key.1.clear();
        }
        let known = match key.1.is_empty() {
            true => self.plain_texts.get(&key.0),
            false => self.texts.get(&key),
        };
        if let Some(site) = known {
            return (Arc::clone(site), unix_ns, thread);
        }
        let callsite = dynamic_callsite(key.0, &key.1);
        let site = Arc::new(self.site(callsite, self.process.clone()));
        match key.1.is_empty() {
            true => self.plain_texts.insert(key.0, Arc::clone(&site)),
            false => self.texts.insert(key, Arc::clone(&site)),
        };
        (site, unix_ns, thread)
    }
}

/// Part of a batch that is handed to an engine at once.
#[derive(Debug)]
pub(crate) struct EngineBatch<'a> {
    blocks: &'a [BatchBlock],
    layouts: &'a mut RecordLayouts,
    /// Id of the delivery: with a record's number it names the record for ever.
    delivery: &'a str,
    /// Number of the first record of the blocks.
    first: u64,
    /// Places in the blocks of the records that are meant.
    range: Range<usize>,
}

impl<'a> EngineBatch<'a> {
    /// All records of some blocks.
    pub(crate) fn new(
        blocks: &'a [BatchBlock],
        layouts: &'a mut RecordLayouts,
        delivery: &'a str,
        first: u64,
    ) -> Self {
        let count = blocks.iter().map(BatchBlock::records).sum();
        Self {
            blocks,
            layouts,
            delivery,
            first,
            range: 0..count,
        }
    }

    /// Some of its records.
    pub(crate) fn part(&mut self, range: Range<usize>) -> EngineBatch<'_> {
        EngineBatch {
            blocks: self.blocks,
            layouts: self.layouts,
            delivery: self.delivery,
            first: self.first,
            range,
        }
    }

    /// Number of its first record: they count on from there.
    pub(crate) fn first_number(&self) -> u64 {
        self.first + self.range.start as u64
    }

    /// Place in the whole batch of its first record.
    pub(crate) fn first_place(&self) -> usize {
        self.range.start
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    /// Id of the delivery.
    pub(crate) fn delivery(&self) -> &'a str {
        self.delivery
    }

    /// Name of the batch: the same for the same records, and for no others.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}-{}", self.delivery, self.first_number(), self.len())
    }

    /// Visits the records in their order.
    pub(crate) fn each(&mut self, each: &mut dyn FnMut(&mut EngineRecord<'_>)) {
        let mut before = 0;
        for block in self.blocks {
            let end = before + block.records;
            if end > self.range.start && before < self.range.end {
                self.each_of(block, before, each);
            }
            before = end;
        }
    }

    fn each_of(&mut self, block: &BatchBlock, before: usize, each: &mut dyn FnMut(&mut EngineRecord<'_>)) {
        if let Some(starts) = &block.starts {
            for at in self.range.start.max(before)..self.range.end.min(before + block.records) {
                let line = block.line(starts, at - before);
                self.visit_text(line, (at, self.first + at as u64, block.first_ns), each);
            }
            return;
        }
        let mut rows = Rows::new(&block.rows);
        let mut place = before;
        // Rows of a block are sound: it made them.
        while place < self.range.end
            && let Ok(Some(row)) = rows.next_row()
        {
            let at = place;
            place += 1;
            if at < self.range.start {
                continue;
            }
            let number = self.first + at as u64;
            let known = row.callsite.and_then(|number| block.sites.get(number as usize));
            let Some(site) = known else {
                self.visit_text(row.payload, (at, number, row.unix_ns), each);
                continue;
            };
            let record = Record::of_row(&row, &block.threads);
            let RecordLayouts {
                json, message, space, ..
            } = &mut *self.layouts;
            each(&mut EngineRecord {
                place: at,
                number,
                process: process_of(site, record.payload),
                site,
                line: None,
                record,
                layouts: (json, message),
                space,
            });
        }
    }

    fn visit_text(
        &mut self,
        line: &[u8],
        (place, number, stored_ns): (usize, u64, u64),
        each: &mut dyn FnMut(&mut EngineRecord<'_>),
    ) {
        let (site, unix_ns, thread) = self.layouts.read_text(line);
        let RecordLayouts {
            json,
            message,
            space,
            payload,
            keeps_lines,
            ..
        } = &mut *self.layouts;
        each(&mut EngineRecord {
            place,
            number,
            process: process_of(&site, payload),
            site: &site,
            line: keeps_lines.then_some(line),
            record: Record {
                unix_ns: unix_ns.unwrap_or(stored_ns),
                thread: Thread { name: &thread, id: 0 },
                payload,
            },
            layouts: (json, message),
            space,
        });
    }
}

/// One record of a batch.
#[derive(Debug)]
pub(crate) struct EngineRecord<'a> {
    /// Its place in the batch.
    pub(crate) place: usize,
    /// Its number in the delivery.
    pub(crate) number: u64,
    process: Option<Cow<'a, RowProcess>>,
    site: &'a RecordSite,
    /// It as a line of text that is not taken apart.
    line: Option<&'a [u8]>,
    record: Record<'a>,
    /// Those of JSON and of messages.
    layouts: (&'a mut Layout, &'a mut Layout),
    space: &'a mut Vec<u8>,
}

impl EngineRecord<'_> {
    /// Its time, in nanoseconds since 1970.
    pub(crate) fn unix_ns(&self) -> u64 {
        self.record.unix_ns
    }

    /// Its level.
    pub(crate) fn level(&self) -> Level {
        self.site.callsite.level
    }

    /// Its target, or its module where it has none; may be empty.
    pub(crate) fn target(&self) -> &str {
        self.site.callsite.target_or_module()
    }

    /// Its source file and line; empty and 0 where they are unknown.
    pub(crate) fn place_in_code(&self) -> (&str, u32) {
        (&self.site.callsite.file, self.site.callsite.line)
    }

    /// Its thread.
    pub(crate) fn thread(&self) -> Thread<'_> {
        self.record.thread
    }

    /// The process that it is of, where that is known.
    pub(crate) fn process(&self) -> Option<&RowProcess> {
        self.process.as_deref()
    }

    /// Visits its fields with their keys.
    pub(crate) fn each_field(&self, each: &mut dyn FnMut(&str, Value<'_>)) {
        each_field(&self.site.callsite, self.record.payload, &mut |key, value| {
            if !matches!(value, Value::Message(_) | Value::Scope(_)) {
                each(key, value);
            }
        });
    }

    /// Its message, with its arguments in place. Bytes that are not UTF-8 are replaced.
    pub(crate) fn message(&mut self) -> String {
        let line = self
            .site
            .message
            .line_in(self.layouts.1, &self.record, self.space);
        String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line)).into_owned()
    }

    /// Adds it to a segment.
    #[cfg(feature = "s3")]
    pub(crate) fn put_row(&self, segment: &mut SegmentWriter<Vec<u8>>) -> std::io::Result<()> {
        let thread = RowThread {
            id: self.record.thread.id,
            name: self.record.thread.name,
        };
        match &self.site.row {
            Some(row) => segment.record(row, thread, self.record.unix_ns, self.record.payload),
            None => Err(std::io::ErrorKind::InvalidData.into()),
        }
    }

    /// It as it was written, where it is to stay so.
    #[cfg(feature = "kafka")]
    pub(crate) fn line(&self) -> Option<&[u8]> {
        self.line
    }

    /// It as an object of JSON, on one line without its end.
    pub(crate) fn json(&mut self) -> &[u8] {
        let line = self.site.json.line_in(self.layouts.0, &self.record, self.space);
        line.strip_suffix(b"\n").unwrap_or(line)
    }

    /// Appends the object with the host, where that is known and no field has its name.
    pub(crate) fn put_json(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(self.json());
        let host = self.process.as_deref().map_or("", |process| &process.host);
        let line = out.get(start..).unwrap_or_default();
        if host.is_empty() || HOST_KEY.find(line).is_some() || !line.ends_with(b"}") {
            return;
        }
        out.pop();
        out.extend_from_slice(if out.len() > start + 1 {
            b",\"host\":"
        } else {
            b"\"host\":"
        });
        put_string(out, host.as_bytes());
        out.push(b'}');
    }
}

/// The process of a record: that of its callsite, or what its own fields say.
fn process_of<'a>(site: &'a RecordSite, payload: &[u8]) -> Option<Cow<'a, RowProcess>> {
    if let Some(process) = &site.process {
        return Some(Cow::Borrowed(process));
    }
    let mut found = RowProcess {
        app: String::new(),
        pid: 0,
        host: String::new(),
    };
    if site.callsite.dynamic {
        each_field(&site.callsite, payload, &mut |key, value| match key {
            "app" => found.app = value_text(value),
            "host" => found.host = value_text(value),
            "pid" => found.pid = value_text(value).parse().unwrap_or(0),
            _ => {}
        });
    }
    let is_known = !found.app.is_empty() || !found.host.is_empty();
    is_known.then_some(Cow::Owned(found))
}

/// Search for the key of a host; made once, since making it takes longer than a search.
static HOST_KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"host\":"));
