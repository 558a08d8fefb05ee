//! The head of a block: lengths, times, its dictionary of threads, callsites and groups, and its filter.

use crate::bytes::{Compressor, Input, decompress, put_blob, put_varint};
use crate::dictionary::{BatchDictionary, DictionaryCallsite, DictionaryThread};
use crate::error::{StoreError, limit};
use crate::filter::TokenFilter;
use crate::limits::{
    BODY_BYTES_MAX, CALLSITES_MAX, COLUMNS_MAX, GROUPS_MAX, HEAD_BYTES_MAX, NAME_BYTES_MAX, ROW_BYTES_MAX,
    ROWS_BYTES_MAX, ROWS_MAX, THREADS_MAX,
};
use crate::rows::NO_LEVEL;
use crate::summary::{self, ColumnSummary};
use logdrive_wire::Level;

/// First bytes of a block; the last is the version.
pub(crate) const MAGIC: [u8; 8] = *b"\xD7LDseg\r3";
/// Versions that are read: each has the encodings of those before it, and more.
const VERSIONS: [u8; 3] = *b"123";
/// In place of the version: the dictionary has numbers of a connection.
const BATCH: u8 = b'c';
/// Batches that are read: the first has the encodings of version 2.
const BATCHES: [u8; 2] = [b'b', BATCH];
/// Bytes of the magic before the version.
pub(crate) const MAGIC_FRONT: usize = 7;
/// Last byte of a block: a file whose last byte is this was not cut within a line, nor within a block.
pub(crate) const END: &[u8] = b"\n";
/// Bytes before the dictionary.
pub(crate) const FIXED_BYTES: usize = 48;

/// Numbers of a batch's threads and callsites in the dictionary of its connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DictionaryNumbers {
    pub(crate) threads: Vec<u32>,
    pub(crate) callsites: Vec<u32>,
}

/// Common part of the records of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GroupKind {
    /// Records of a callsite of fixed kinds.
    Fixed {
        /// Number of the callsite in the dictionary.
        callsite: u32,
    },
    /// Records of a dynamic callsite with equal tags and keys.
    Dynamic {
        /// Number of the callsite in the dictionary.
        callsite: u32,
        /// Tag, index and key of each value.
        shape: Vec<u8>,
    },
    /// Records whose payloads are stored as they came.
    Whole {
        /// Number of the callsite in the dictionary.
        callsite: u32,
    },
    /// Lines of one template.
    Template {
        /// Level of the lines, if it is known.
        level: Option<Level>,
        /// The line with marks in place of its variables.
        template: Vec<u8>,
    },
    /// Lines that are stored as they came.
    Lines {
        /// Level of the lines, if it is known.
        level: Option<Level>,
    },
}

/// Group as the dictionary describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupEntry {
    pub(crate) kind: GroupKind,
    pub(crate) rows: usize,
    /// Length of each column.
    pub(crate) columns: Vec<usize>,
    /// CRC32C of its columns.
    pub(crate) checksum: u32,
    /// Summary of each column; there may be fewer.
    pub(crate) summaries: Vec<ColumnSummary>,
}

/// Head of a block: what a reader knows before it reads a column.
///
/// ```
/// use logdrive_store::{BlockHead, StoreError};
/// assert_eq!(BlockHead::decode(b"no block").unwrap_err(), StoreError::NoBlock);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockHead {
    /// Bytes of the head.
    pub head_bytes: usize,
    /// Bytes of all columns, and of the end.
    pub body_bytes: usize,
    /// Number of records.
    pub records: usize,
    /// Bytes of the rows at most.
    pub(crate) rows_bytes: usize,
    /// Least and largest time, in nanoseconds since 1970.
    pub times: (u64, u64),
    /// Number of records of each level, from trace to fatal.
    pub level_counts: [u64; 6],
    /// Callsites that have records here.
    pub callsites: Vec<DictionaryCallsite>,
    /// Threads that have records here.
    pub threads: Vec<DictionaryThread>,
    pub(crate) groups: Vec<GroupEntry>,
    /// Lengths of the columns of order, times and threads, and their checksum.
    pub(crate) spine: ([usize; 3], u32),
    pub(crate) filter: Vec<u8>,
    /// Level of zstd with which it was written, where it is not the usual one.
    pub(crate) zstd_level: Option<u8>,
}

/// Lengths of a head whose checksum was not looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths {
    pub(crate) head: usize,
    pub(crate) body: usize,
}

/// Reads the lengths of a block that begins here.
pub(crate) fn lengths(bytes: &[u8]) -> Result<Lengths, StoreError> {
    lengths_of(bytes, &VERSIONS)
}

fn lengths_of(bytes: &[u8], versions: &[u8]) -> Result<Lengths, StoreError> {
    let mut input = Input::new(bytes, "head");
    let magic: [u8; 8] = input.array().map_err(|_| StoreError::NoBlock)?;
    if magic[..MAGIC_FRONT] != MAGIC[..MAGIC_FRONT] {
        return Err(StoreError::NoBlock);
    }
    if !versions.contains(&magic[MAGIC_FRONT]) {
        return Err(StoreError::Unknown {
            what: "version of a block",
            found: u64::from(magic[MAGIC_FRONT]),
        });
    }
    input.u32()?;
    let (head, body) = (input.u32()? as usize, input.u32()? as usize);
    limit("length of a head", head, HEAD_BYTES_MAX)?;
    limit("length of columns", body, BODY_BYTES_MAX)?;
    match head < FIXED_BYTES {
        true => Err(StoreError::Truncated { what: "head" }),
        false => Ok(Lengths { head, body }),
    }
}

impl BlockHead {
    /// Token filter of all columns whose summary says so, and of text that is not in a dictionary.
    pub fn filter(&self) -> TokenFilter<'_> {
        TokenFilter::new(&self.filter)
    }

    /// Summary of a column of a group.
    pub fn summary(&self, group: usize, column: usize) -> ColumnSummary {
        let group = self.groups.get(group);
        let summary = group.and_then(|group| group.summaries.get(column));
        summary.copied().unwrap_or_default()
    }

    /// Groups of the block, and the number of records of each.
    pub fn groups(&self) -> impl Iterator<Item = (&GroupKind, usize)> {
        self.groups.iter().map(|group| (&group.kind, group.rows))
    }

    /// Reads a head.
    ///
    /// # Errors
    /// When no block begins here, its bytes end early, a checksum differs, or a limit is passed.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        Self::read(bytes, lengths(bytes)?, None).map(|(head, _)| head)
    }

    /// Reads the head of a batch, whose callsites and threads are in the dictionary of its connection.
    pub(crate) fn decode_batch(
        bytes: &[u8],
        dictionary: &BatchDictionary,
    ) -> Result<(Self, DictionaryNumbers), StoreError> {
        Self::read(bytes, lengths_of(bytes, &BATCHES)?, Some(dictionary))
    }

    fn read(
        bytes: &[u8],
        lengths: Lengths,
        batch: Option<&BatchDictionary>,
    ) -> Result<(Self, DictionaryNumbers), StoreError> {
        let bytes = bytes
            .get(..lengths.head)
            .ok_or(StoreError::Truncated { what: "head" })?;
        let mut input = Input::new(bytes, "head");
        input.take(MAGIC.len())?;
        let checksum = input.u32()?;
        if crc32c::crc32c(bytes.get(12..).unwrap_or(&[])) != checksum {
            return Err(StoreError::Checksum { what: "head" });
        }
        input.take(8)?;
        let (records, rows_bytes, filter_bytes) = (
            input.u32()? as usize,
            input.u32()? as usize,
            input.u32()? as usize,
        );
        limit("records of a block", records, ROWS_MAX)?;
        limit("bytes of a block's rows", rows_bytes, ROWS_BYTES_MAX)?;
        let times = (
            u64::from_le_bytes(input.array()?),
            u64::from_le_bytes(input.array()?),
        );
        let filter_at = lengths.head.saturating_sub(filter_bytes).max(FIXED_BYTES);
        let mut packed = Input::new(bytes.get(FIXED_BYTES..filter_at).unwrap_or(&[]), "dictionary");
        let dictionary = decompress(&mut packed, HEAD_BYTES_MAX)?;
        let mut head = Self {
            head_bytes: lengths.head,
            body_bytes: lengths.body,
            records,
            rows_bytes,
            times,
            level_counts: [0; 6],
            callsites: Vec::new(),
            threads: Vec::new(),
            groups: Vec::new(),
            spine: ([0; 3], 0),
            filter: bytes.get(filter_at..).unwrap_or(&[]).to_vec(),
            zstd_level: None,
        };
        let numbers = head.read_dictionary(&dictionary, batch)?;
        let columns = head.groups.iter().map(|group| group.columns.len()).sum();
        let (summaries, zstd_level) = summary::read_all(&mut packed, columns)?;
        head.zstd_level = zstd_level;
        let mut summaries = summaries.into_iter();
        for group in &mut head.groups {
            group.summaries = summaries.by_ref().take(group.columns.len()).collect();
        }
        head.check()?;
        Ok((head, numbers))
    }

    fn read_dictionary(
        &mut self,
        dictionary: &[u8],
        batch: Option<&BatchDictionary>,
    ) -> Result<DictionaryNumbers, StoreError> {
        let mut input = Input::new(dictionary, "dictionary");
        for count in &mut self.level_counts {
            *count = input.varint()?;
        }
        let numbers = match batch {
            Some(known) => self.read_numbers(&mut input, known)?,
            None => {
                self.read_names(&mut input)?;
                DictionaryNumbers::default()
            }
        };
        for length in &mut self.spine.0 {
            *length = input.length("length of a column", BODY_BYTES_MAX)?;
        }
        self.spine.1 = input.u32()?;
        for _ in 0..input.length("groups", 2 * GROUPS_MAX + CALLSITES_MAX)? {
            self.groups.push(read_group(&mut input, self.callsites.len())?);
        }
        match input.is_empty() {
            true => Ok(numbers),
            false => Err(StoreError::Contradiction {
                what: "length of the dictionary",
            }),
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        let groups = self.groups.iter();
        let rows: usize = groups.clone().map(|group| group.rows).sum();
        let bytes: usize = groups
            .clone()
            .flat_map(|group| &group.columns)
            .chain(&self.spine.0)
            .sum();
        // A value is at least a byte of its row, so that this bounds the memory of a block that is read.
        let filled = |group: &GroupEntry| group.columns.iter().filter(|length| **length > 0).count();
        let cells: usize = groups.map(|group| group.rows.saturating_mul(filled(group))).sum();
        if rows != self.records || bytes + END.len() != self.body_bytes {
            return Err(StoreError::Contradiction { what: "dictionary" });
        }
        limit("values of a block", cells, self.rows_bytes)
    }

    /// Writes a head; its lengths are found out here.
    pub(crate) fn encode(&self, compressor: &mut Compressor, out: &mut Vec<u8>) {
        self.put(None, compressor, out);
    }

    /// Writes the head of a batch.
    pub(crate) fn encode_batch(
        &self,
        numbers: &DictionaryNumbers,
        compressor: &mut Compressor,
        out: &mut Vec<u8>,
    ) {
        self.put(Some(numbers), compressor, out);
    }

    fn put(&self, numbers: Option<&DictionaryNumbers>, compressor: &mut Compressor, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        if numbers.is_some() {
            out[start + MAGIC_FRONT] = BATCH;
        }
        out.extend_from_slice(&[0; 8]);
        for number in [self.body_bytes, self.records, self.rows_bytes, self.filter.len()] {
            out.extend_from_slice(&(number as u32).to_le_bytes());
        }
        out.extend_from_slice(&self.times.0.to_le_bytes());
        out.extend_from_slice(&self.times.1.to_le_bytes());
        compressor.put(out, &self.dictionary(numbers));
        let summaries = self.groups.iter().flat_map(|group| &group.summaries);
        summary::put_all(summaries.copied(), self.zstd_level, compressor, out);
        out.extend_from_slice(&self.filter);
        let length = (out.len() - start) as u32;
        out[start + 12..start + 16].copy_from_slice(&length.to_le_bytes());
        let checksum = crc32c::crc32c(&out[start + 12..]);
        out[start + 8..start + 12].copy_from_slice(&checksum.to_le_bytes());
    }

    fn dictionary(&self, numbers: Option<&DictionaryNumbers>) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.level_counts
            .iter()
            .for_each(|count| put_varint(&mut bytes, *count));
        match numbers {
            Some(numbers) => {
                for numbers in [&numbers.threads, &numbers.callsites] {
                    put_varint(&mut bytes, numbers.len() as u64);
                    numbers
                        .iter()
                        .for_each(|number| put_varint(&mut bytes, u64::from(*number)));
                }
            }
            None => self.put_names(&mut bytes),
        }
        self.spine
            .0
            .iter()
            .for_each(|length| put_varint(&mut bytes, *length as u64));
        bytes.extend_from_slice(&self.spine.1.to_le_bytes());
        put_varint(&mut bytes, self.groups.len() as u64);
        for group in &self.groups {
            put_group(&mut bytes, group);
        }
        bytes
    }
}

impl BlockHead {
    fn put_names(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.threads.len() as u64);
        for thread in &self.threads {
            put_varint(bytes, thread.id);
            put_blob(bytes, thread.name.as_bytes());
        }
        put_varint(bytes, self.callsites.len() as u64);
        for callsite in &self.callsites {
            put_blob(bytes, &callsite.definition);
        }
    }

    fn read_names(&mut self, input: &mut Input<'_>) -> Result<(), StoreError> {
        for _ in 0..input.length("threads", THREADS_MAX)? {
            let id = input.varint()?;
            let name = String::from_utf8_lossy(input.blob(NAME_BYTES_MAX)?).into_owned();
            self.threads.push(DictionaryThread { id, name });
        }
        for _ in 0..input.length("callsites", CALLSITES_MAX)? {
            self.callsites
                .push(DictionaryCallsite::decode(input.blob(ROW_BYTES_MAX)?)?);
        }
        Ok(())
    }

    /// Reads the numbers of a batch's threads and callsites, which the dictionary of its connection must have.
    fn read_numbers(
        &mut self,
        input: &mut Input<'_>,
        dictionary: &BatchDictionary,
    ) -> Result<DictionaryNumbers, StoreError> {
        let mut numbers = DictionaryNumbers::default();
        for _ in 0..input.length("threads", THREADS_MAX)? {
            let number = input.length("number of a thread", u32::MAX as usize)? as u32;
            self.threads.push(dictionary.thread(number)?.clone());
            numbers.threads.push(number);
        }
        for _ in 0..input.length("callsites", CALLSITES_MAX)? {
            let number = input.length("number of a callsite", u32::MAX as usize)? as u32;
            self.callsites.push(dictionary.callsite(number)?.clone());
            numbers.callsites.push(number);
        }
        Ok(numbers)
    }
}

fn put_level(out: &mut Vec<u8>, level: Option<Level>) {
    out.push(level.map_or(NO_LEVEL, Level::code));
}

fn read_level(input: &mut Input<'_>) -> Result<Option<Level>, StoreError> {
    Ok(Level::from_code(input.u8()?))
}

fn put_group(out: &mut Vec<u8>, group: &GroupEntry) {
    match &group.kind {
        GroupKind::Fixed { callsite } => {
            out.push(0);
            put_varint(out, u64::from(*callsite));
        }
        GroupKind::Dynamic { callsite, shape } => {
            out.push(1);
            put_varint(out, u64::from(*callsite));
            put_blob(out, shape);
        }
        GroupKind::Whole { callsite } => {
            out.push(2);
            put_varint(out, u64::from(*callsite));
        }
        GroupKind::Template { level, template } => {
            out.push(3);
            put_level(out, *level);
            put_blob(out, template);
        }
        GroupKind::Lines { level } => {
            out.push(4);
            put_level(out, *level);
        }
    }
    put_varint(out, group.rows as u64);
    put_varint(out, group.columns.len() as u64);
    group
        .columns
        .iter()
        .for_each(|length| put_varint(out, *length as u64));
    out.extend_from_slice(&group.checksum.to_le_bytes());
}

fn read_group(input: &mut Input<'_>, callsites: usize) -> Result<GroupEntry, StoreError> {
    let code = input.u8()?;
    let mut callsite = 0;
    if code < 3 {
        callsite = input.length("number of a callsite", callsites.saturating_sub(1))? as u32;
        if callsites == 0 {
            return Err(StoreError::Contradiction {
                what: "callsite of a group",
            });
        }
    }
    let kind = match code {
        0 => GroupKind::Fixed { callsite },
        1 => GroupKind::Dynamic {
            callsite,
            shape: input.blob(ROW_BYTES_MAX)?.to_vec(),
        },
        2 => GroupKind::Whole { callsite },
        3 => GroupKind::Template {
            level: read_level(input)?,
            template: input.blob(ROW_BYTES_MAX)?.to_vec(),
        },
        4 => GroupKind::Lines {
            level: read_level(input)?,
        },
        found => {
            return Err(StoreError::Unknown {
                what: "kind of group",
                found: u64::from(found),
            });
        }
    };
    let rows = input.length("records of a group", ROWS_MAX)?;
    let columns = (0..input.length("columns of a group", COLUMNS_MAX)?)
        .map(|_| input.length("length of a column", BODY_BYTES_MAX))
        .collect::<Result<Vec<usize>, StoreError>>()?;
    Ok(GroupEntry {
        kind,
        rows,
        columns,
        checksum: input.u32()?,
        summaries: Vec::new(),
    })
}
