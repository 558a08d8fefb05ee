//! Typed records of a sender as they are kept: lines of the collector's layout, or rows of a segment, with the fields of their
//! sender.

use crate::error::CollectorError;
use crate::fields::Fields;
use crate::limits::{DEFINITION_MEMORY, OUTPUT_BYTES_MAX};
use crate::routes::RecordFilter;
use logdrive_drain::layout::{Layout, LayoutOptions, LineBuffer, Outcome, Plan, ProcessInfo, Record, Style};
use logdrive_ship::hello::{Hello, Reason};
use logdrive_ship::session::RecordPayload;
use logdrive_store::{
    Batch, BatchDictionary, BatchWriter, BlockRecords, DictionaryCallsite, DictionaryThread, RowCallsite,
    RowError, RowProcess, RowThread, SegmentWriter, StoredCallsite,
};
use logdrive_wire::kind::{FieldKind, Kind};
use logdrive_wire::value::INLINE_KEY;
use logdrive_wire::{Callsite, Field};
use std::collections::HashMap;

/// Room that a line has at first, and at most; and by how much the room for lines grows, all of which is zeroed once.
const LINE_BYTES: (usize, usize) = (1 << 14, 1 << 20);
const GROWTH_BYTES: usize = 1 << 16;

/// Error of a record whose callsite is none of the batch.
const UNKNOWN: RowError = RowError::Contradiction {
    what: "callsite of a row",
};

/// Callsite of a sender, ready for its records.
#[derive(Debug)]
struct KnownCallsite {
    plan: Plan,
    /// A record may have a key of the sender's fields itself.
    clashes: bool,
    /// The callsite for segments, with the sender's fields unless it has too many of its own.
    row: Option<(RowCallsite, StoredCallsite)>,
    is_dynamic: bool,
    /// It goes to this output.
    is_wanted: bool,
}

/// Dictionary of a connection, and the layout of its records.
#[derive(Debug)]
pub(crate) struct TypedRecords {
    dictionary: BatchDictionary,
    layout: Layout,
    known: HashMap<u32, KnownCallsite>,
    /// Number and bytes of the callsites that no definition has.
    added: (usize, usize),
    fields: Fields,
    /// Fields of the sender as values: name and text.
    values: Vec<(&'static str, String)>,
    /// Process of the hello; none where records name theirs.
    process: Option<RowProcess>,
    host: String,
    filter: Option<RecordFilter>,
}

/// Records of a batch that are to be kept, one piece after the other.
#[derive(Debug)]
pub(crate) struct BatchRecords<'a> {
    rows: BlockRecords<'a>,
    /// Numbers in the connection's dictionary of the block's callsites, and its threads.
    callsites: &'a [u32],
    threads: &'a [DictionaryThread],
    left: u32,
}

impl TypedRecords {
    /// Records of a sender that said this hello, and has these fields.
    pub(crate) fn new(
        layout: LayoutOptions,
        hello: &Hello,
        fields: &Fields,
        filter: Option<RecordFilter>,
    ) -> Result<Self, CollectorError> {
        let process = RowProcess {
            app: hello.app.clone(),
            pid: hello.pid,
            host: hello.host.clone(),
        };
        Ok(Self {
            dictionary: BatchDictionary::default(),
            layout: Layout::new(layout, ProcessInfo::default())?,
            known: HashMap::new(),
            added: (0, 0),
            fields: fields.clone(),
            values: fields.row_values().to_vec(),
            process: (!hello.app.is_empty()).then_some(process),
            host: hello.host.clone(),
            filter,
        })
    }

    /// Memory that the definitions of the sender take here, with the plans that are made of them.
    pub(crate) fn definition_memory(&self) -> usize {
        let (each, times) = DEFINITION_MEMORY;
        let (count, bytes) = self.added;
        (self.dictionary.count() + count) * each + (self.dictionary.bytes() + bytes) * times
    }

    /// Takes the definitions in front of a batch; returns its block.
    pub(crate) fn define<'a>(&mut self, payload: &'a [u8]) -> Result<&'a [u8], Reason> {
        let payload = RecordPayload::decode(payload)?;
        for (number, definition) in payload.definitions() {
            let defined = self.dictionary.define(number, definition);
            defined.map_err(|error| match error {
                RowError::Limit { .. } => Reason::Memory,
                _ => Reason::Malformed,
            })?;
            self.known.remove(&number);
        }
        Ok(payload.block)
    }

    /// Reads the block of a batch, and prepares its callsites.
    pub(crate) fn read(&mut self, block: &[u8], is_segment: bool) -> Result<Batch, RowError> {
        let batch = Batch::read(block, &self.dictionary)?;
        for (number, callsite) in batch.callsites.iter().zip(&batch.block.head().callsites) {
            if !self.known.contains_key(number) {
                let known = self.prepare(callsite, is_segment);
                self.known.insert(*number, known);
            }
        }
        Ok(batch)
    }

    fn prepare(&self, callsite: &DictionaryCallsite, is_segment: bool) -> KnownCallsite {
        let site = &callsite.callsite;
        let is_ours = |name: &str| self.values.iter().any(|(key, _)| *key == name);
        let process = callsite.process.as_ref().or(self.process.as_ref());
        KnownCallsite {
            plan: Plan::of_stored(&self.layout, site, callsite.process.as_ref()),
            clashes: site.dynamic || site.fields.iter().any(|field| self.fields.has_key(&field.name)),
            row: is_segment
                .then(|| {
                    let stored = |row: RowCallsite, has_values| {
                        let entry = DictionaryCallsite::of(&row).ok()?;
                        Some((row, StoredCallsite { entry, has_values }))
                    };
                    let with_values = RowCallsite::new(&self.with_values(site, is_ours), process);
                    let with_values = with_values.ok().and_then(|row| stored(row, true));
                    with_values.or_else(|| stored(RowCallsite::new(site, process).ok()?, false))
                })
                .flatten(),
            is_dynamic: site.dynamic,
            is_wanted: self.filter.as_ref().is_none_or(|filter| {
                let (app, host) =
                    process.map_or(("", self.host.as_str()), |process| (&process.app, &process.host));
                filter.wants(app, host, site.level)
            }),
        }
    }

    /// The callsite with fields for the sender's values; those of the record that have their names get another one.
    fn with_values(&self, site: &Callsite, is_ours: impl Fn(&str) -> bool) -> Callsite {
        let mut site = site.clone();
        for field in &mut site.fields {
            if is_ours(&field.name) {
                field.name.push_str("_1");
            }
        }
        if !site.dynamic {
            site.fields.extend(self.values.iter().map(|(name, _)| Field {
                name: (*name).to_owned(),
                kind: FieldKind::plain(Kind::Str),
                argument: false,
            }));
        }
        site
    }

    /// The payload of a record with the sender's values, as the callsite has fields for them.
    fn put_payload(&self, known: &KnownCallsite, payload: &[u8], out: &mut Vec<u8>) {
        let put = |out: &mut Vec<u8>, text: &str| {
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        };
        if known.is_dynamic {
            for (name, text) in &self.values {
                out.extend([FieldKind::plain(Kind::Str).code(), INLINE_KEY]);
                out.extend_from_slice(&(name.len() as u16).to_le_bytes());
                out.extend_from_slice(name.as_bytes());
                put(out, text);
            }
            return out.extend_from_slice(payload);
        }
        out.extend_from_slice(payload);
        self.values.iter().for_each(|(_, text)| put(out, text));
    }

    /// Appends lines until there are `OUTPUT_BYTES_MAX` bytes or more, without the first `skip` records. Returns the number
    /// of records that are done with, and of those that were put.
    pub(crate) fn put_lines(
        &mut self,
        records: &mut BatchRecords<'_>,
        skip: u32,
        out: &mut Vec<u8>,
    ) -> Result<(u32, u32), RowError> {
        let (mut count, mut put) = (0, 0);
        let mut filled = out.len();
        let callsites = records.callsites.iter();
        let known: Vec<_> = callsites.map(|number| self.known.get(number)).collect();
        while filled < OUTPUT_BYTES_MAX {
            let Some((place, record)) = records.next_record()? else {
                break;
            };
            count += 1;
            if count <= skip {
                continue;
            }
            let known = known.get(place).copied().flatten().ok_or(UNKNOWN)?;
            if !known.is_wanted {
                continue;
            }
            put += 1;
            let start = filled;
            filled = put_line(&mut self.layout, &known.plan, &record, (out, start));
            filled = self.fields.put_behind((out, start), filled, known.clashes);
        }
        out.truncate(filled);
        Ok((count, put))
    }

    /// Appends the block of a whole batch, with its columns as they came. `false`: its records have to be taken one by one.
    pub(crate) fn put_block(
        &self,
        batch: &Batch,
        writer: &mut BatchWriter,
        out: &mut Vec<u8>,
    ) -> Result<bool, RowError> {
        let known = batch.callsites.iter().map(|number| {
            let known = self.known.get(number).filter(|known| known.is_wanted)?;
            known.row.as_ref().map(|(_, stored)| stored)
        });
        let Some(callsites) = known.collect::<Option<Vec<_>>>() else {
            return Ok(false);
        };
        let values: Vec<(&str, &str)> = self
            .values
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect();
        writer.put(batch, &callsites, &values, out)
    }

    /// The same as rows of a segment.
    pub(crate) fn put_rows(
        &mut self,
        records: &mut BatchRecords<'_>,
        skip: u32,
        segment: &mut SegmentWriter<Vec<u8>>,
    ) -> Result<(u32, u32), RowError> {
        let (mut count, mut put) = (0, 0);
        let (callsites, mut payload) = (records.callsites, Vec::new());
        while segment.file_mut().len() < OUTPUT_BYTES_MAX {
            let Some((place, record)) = records.next_record()? else {
                break;
            };
            count += 1;
            if count <= skip {
                continue;
            }
            let number = callsites.get(place).ok_or(UNKNOWN)?;
            let known = self.known.get(number).ok_or(UNKNOWN)?;
            if !known.is_wanted {
                continue;
            }
            put += 1;
            self.put_row(known, &record, &mut payload, segment)?;
        }
        Ok((count, put))
    }

    /// Adds a record to a segment, with memory for its payload.
    fn put_row(
        &self,
        known: &KnownCallsite,
        record: &Record<'_>,
        payload: &mut Vec<u8>,
        segment: &mut SegmentWriter<Vec<u8>>,
    ) -> Result<(), RowError> {
        let (row, stored) = known.row.as_ref().ok_or(UNKNOWN)?;
        payload.clear();
        match stored.has_values {
            true => self.put_payload(known, record.payload, payload),
            false => payload.extend_from_slice(record.payload),
        }
        let thread = RowThread {
            id: record.thread.id,
            name: record.thread.name,
        };
        let stored = segment.record(row, thread, record.unix_ns, payload);
        stored.map_err(|_| RowError::Contradiction {
            what: "length of a row",
        })
    }

    /// Prepares a callsite that no definition of the sender has.
    pub(crate) fn add(&mut self, number: u32, callsite: &Callsite, is_segment: bool) -> Result<(), RowError> {
        let row = RowCallsite::new(callsite, None).map_err(RowError::Callsite)?;
        let known = self.prepare(&DictionaryCallsite::of(&row)?, is_segment);
        self.known.insert(number, known);
        self.added.0 += 1;
        self.added.1 += callsite.target.len();
        Ok(())
    }

    /// Adds a record of a callsite that was added: to the segment, or as a line behind `out`, whose end moves. `false`: the
    /// record goes to other outputs.
    pub(crate) fn put_record(
        &mut self,
        number: u32,
        record: &Record<'_>,
        segment: Option<&mut SegmentWriter<Vec<u8>>>,
        (out, filled): (&mut Vec<u8>, &mut usize),
    ) -> Result<bool, RowError> {
        let known = self.known.get(&number).ok_or(UNKNOWN)?;
        if !known.is_wanted {
            return Ok(false);
        }
        match segment {
            Some(segment) => self.put_row(known, record, &mut Vec::new(), segment)?,
            None => {
                let start = *filled;
                *filled = put_line(&mut self.layout, &known.plan, record, (out, start));
                *filled = self.fields.put_behind((out, start), *filled, known.clashes);
            }
        }
        Ok(true)
    }
}

impl<'a> BatchRecords<'a> {
    /// Records of a batch.
    pub(crate) fn new(batch: &'a Batch) -> Result<Self, RowError> {
        Ok(Self {
            rows: BlockRecords::new(&batch.block)?,
            callsites: &batch.callsites,
            threads: &batch.block.head().threads,
            left: batch.block.head().records as u32,
        })
    }

    /// Number of records that are left.
    pub(crate) fn count(&self) -> u32 {
        self.left
    }

    /// The next record, and the place of its callsite in the batch.
    #[inline]
    fn next_record(&mut self) -> Result<Option<(usize, Record<'_>)>, RowError> {
        let Some(row) = self.rows.next_row()? else {
            return Ok(None);
        };
        self.left = self.left.saturating_sub(1);
        let record = Record::of_row(&row, self.threads);
        // A line of text has none; no sender makes such rows.
        let place = row.callsite.ok_or(UNKNOWN)?;
        Ok(Some((place as usize, record)))
    }
}

/// Writes the line of a record at a place; returns its end.
fn put_line(
    layout: &mut Layout,
    plan: &Plan,
    record: &Record<'_>,
    (out, start): (&mut Vec<u8>, usize),
) -> usize {
    let mut room = LINE_BYTES.0;
    loop {
        if out.len() < start + room {
            out.resize(start + room.max(GROWTH_BYTES), 0);
        }
        let mut buffer = LineBuffer::new(out.get_mut(start..).unwrap_or_default());
        let outcome = match room < LINE_BYTES.1 {
            true => layout.line(plan, record, &mut buffer),
            false => layout.line_cut(plan, record, &mut buffer),
        };
        if outcome != Outcome::Overflow || room >= LINE_BYTES.1 {
            return start + buffer.len();
        }
        room = LINE_BYTES.1;
    }
}

/// Whether lines of this style are JSON objects.
pub(crate) fn is_json(style: &Style) -> bool {
    matches!(style, Style::Json | Style::Slog)
}
