//! Blocks: rows become columns of groups, and columns become rows again, in the same order.

use crate::bytes::{Compressor, Input};
use crate::columns::{Column, ColumnKind, SpareColumns, StoredColumn, Tools};
use crate::derivation::{self, Derivation, DerivationFinder};
use crate::dictionary::{DictionaryCallsite, DictionaryThread};
use crate::error::{StoreError, limit};
use crate::group::{
    Group, Rebuild, ShapeKey, WHOLE, field_columns, is_static, put_shape, shape_key, shape_parts,
    template_columns,
};
use crate::head::{BlockHead, DictionaryNumbers, END, GroupEntry, GroupKind};
use crate::integers;
use crate::limits::{DERIVED_EDGE_VALUES, GROUPS_MAX, ROWS_BYTES_MAX, ROWS_MAX, TEMPLATE_LINES_MIN};
use crate::line_template::{self, Variable};
use crate::rows::{
    CALLSITE, LINE, NO_LEVEL, RECORD, RECORD_HEAD_BYTES, Row, Rows, THREAD, put_definition, put_record_head,
};
use crate::texts::{Texts, Wanted};
use logdrive_wire::Level;
use logdrive_wire::kind::FieldKind;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

/// In place of a thread: the row has none.
pub(crate) const NO_THREAD: u64 = u32::MAX as u64;

/// Turns buffers of rows into blocks. It keeps its memory for the next block: some six times the bytes of the rows.
///
/// ```
/// use logdrive_store::{Encoder, RowCallsite, Rows, RowThread, RowWriter};
/// let site = RowCallsite::new(&logdrive_wire::Callsite::default(), None)?;
/// let mut rows = vec![0; 256];
/// let thread = RowThread { id: 1, name: "main" };
/// let end = RowWriter::default().record(&mut rows, 0, &site, thread, 99, b"").expect("room");
/// let mut block = Vec::new();
/// Encoder::default().encode(&rows[..end], &mut block)?;
/// assert_eq!(logdrive_store::BlockHead::decode(&block)?.records, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Encoder {
    tools: Tools,
    lines: Lines,
    groups: Groups,
    spare: SpareColumns,
    order: Vec<u64>,
    times: Vec<u64>,
    threads: Vec<u64>,
    shape: Vec<u8>,
    body: Vec<u8>,
    /// Level of zstd, where it is not the usual one.
    zstd_level: Option<u8>,
}

/// Lines of a block that were taken apart, before their groups are known.
#[derive(Debug, Default)]
struct Lines {
    /// Template of each line, and its variables.
    split: Vec<(Option<usize>, Range<usize>)>,
    variables: Vec<Variable>,
    /// Numbers of templates, each with the code of its level behind it.
    templates: HashMap<Vec<u8>, usize>,
    counts: Vec<usize>,
    /// Template of the present line.
    template: Vec<u8>,
}

/// Parts of a block that is being made.
#[derive(Debug, Default)]
struct Groups {
    groups: Vec<Group>,
    /// Group of fixed kinds of each callsite, and the group of its other payloads.
    callsites: Vec<CallsiteGroups>,
    /// Groups of shapes, of templates and of whole lines.
    others: HashMap<GroupKind, usize>,
    templates: Vec<Option<usize>>,
}

#[derive(Debug)]
struct CallsiteGroups {
    entry: DictionaryCallsite,
    fixed: Option<usize>,
    whole: Option<usize>,
}

impl Encoder {
    /// Compresses columns with a level of zstd, from 1 to 22.
    pub fn with_level(level: i32) -> Self {
        let tools = Tools {
            compressor: Compressor::new(level),
            ..Tools::default()
        };
        Self {
            tools,
            zstd_level: u8::try_from(level).ok(),
            ..Self::default()
        }
    }

    /// Appends blocks of these rows: one for each 65536 of them. Nothing is appended for no rows.
    ///
    /// # Errors
    /// When the rows cannot be read, or are more than 8 MiB. What was appended before is whole.
    pub fn encode(&mut self, rows: &[u8], out: &mut Vec<u8>) -> Result<(), StoreError> {
        limit("bytes of rows", rows.len(), ROWS_BYTES_MAX)?;
        let mut rows = Rows::new(rows);
        loop {
            let bytes = self.take_rows(&mut rows, ROWS_BYTES_MAX)?;
            if self.times.is_empty() {
                return Ok(());
            }
            self.put_block(&rows, bytes, out);
        }
    }

    /// Appends the batch of the next rows, of about so many bytes at most; returns how many rows they are.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn encode_batch<'a>(
        &mut self,
        rows: &mut Rows<'a>,
        bytes_max: usize,
        number: &mut dyn FnMut(u8, &[&[u8]]) -> u32,
        out: &mut Vec<u8>,
    ) -> Result<usize, StoreError> {
        let bytes = self.take_rows(rows, bytes_max)?;
        if self.times.is_empty() {
            return Ok(0);
        }
        self.tools.filter = None;
        let mut head = self.head(rows, bytes);
        self.put_columns(&mut head);
        let threads = rows.threads().iter();
        // One behind the last record was not looked at, and may be anything.
        let callsites = rows.definitions().iter().take(self.groups.callsites.len());
        let numbers = DictionaryNumbers {
            threads: threads
                .map(|(id, name)| number(THREAD, &[&id.to_le_bytes(), name]))
                .collect(),
            callsites: callsites
                .map(|definition| number(CALLSITE, &[definition]))
                .collect(),
        };
        head.encode_batch(&numbers, &mut self.tools.compressor, out);
        out.extend_from_slice(&self.body);
        Ok(self.times.len())
    }

    /// Takes the rows of the next block apart, of about so many bytes at most; returns how many they have.
    fn take_rows(&mut self, rows: &mut Rows<'_>, bytes_max: usize) -> Result<usize, StoreError> {
        let bytes_before = rows.rest().len();
        self.groups.begin(&mut self.spare);
        self.lines.begin();
        self.order.clear();
        self.times.clear();
        self.threads.clear();
        let mut line = 0;
        while self.times.len() < ROWS_MAX && bytes_before - rows.rest().len() < bytes_max {
            let rest = rows.rest();
            // Records one after the other are the common case, and are not passed through memory.
            let row = match rows.next_record() {
                Some(row) => row,
                None => match rows.next_row()? {
                    Some(row) => row,
                    None => break,
                },
            };
            let number = match row.callsite {
                Some(callsite) => self.groups.push_record(
                    callsite as usize,
                    rows.definitions(),
                    row.payload,
                    (&mut self.shape, &mut self.spare),
                )?,
                None => {
                    if line == 0 {
                        let left = ROWS_MAX - self.times.len();
                        self.lines.split_all(rows.at(rest), left)?;
                    }
                    line += 1;
                    self.groups
                        .push_line(&row, &self.lines, line - 1, &mut self.spare)
                }
            };
            self.order.push(number as u64);
            self.times.push(row.unix_ns);
            self.threads.push(row.thread.map_or(NO_THREAD, u64::from));
        }
        Ok(bytes_before - rows.rest().len())
    }

    /// Writes columns, and before them the head of so many bytes of rows.
    fn put_block(&mut self, rows: &Rows<'_>, bytes: usize, out: &mut Vec<u8>) {
        self.tools.filter.get_or_insert_default().clear();
        let mut head = self.head(rows, bytes);
        self.put_columns(&mut head);
        let threads = rows.threads().iter().map(|(id, name)| DictionaryThread {
            id: *id,
            name: String::from_utf8_lossy(name).into_owned(),
        });
        head.threads = threads.collect();
        head.callsites = self.groups.take_callsites();
        if let Some(filter) = &mut self.tools.filter {
            filter.build(&mut head.filter);
        }
        head.encode(&mut self.tools.compressor, out);
        out.extend_from_slice(&self.body);
    }

    /// The head of the rows that were taken, without what it says of columns and the dictionary.
    fn head(&self, rows: &Rows<'_>, bytes: usize) -> BlockHead {
        let definitions = rows.definitions().iter();
        let definitions: usize = definitions.map(|definition| definition.len() + 8).sum();
        BlockHead {
            head_bytes: 0,
            body_bytes: 0,
            records: self.times.len(),
            rows_bytes: (bytes + definitions).min(ROWS_BYTES_MAX),
            times: integers::range(&self.times),
            level_counts: self.groups.level_counts(),
            callsites: Vec::new(),
            threads: Vec::new(),
            groups: Vec::new(),
            spine: ([0; 3], 0),
            filter: Vec::new(),
            zstd_level: self.zstd_level,
        }
    }

    /// Writes all columns, and notes their places in the head.
    fn put_columns(&mut self, head: &mut BlockHead) {
        let (tools, body) = (&mut self.tools, &mut self.body);
        body.clear();
        let spine = [&self.order, &self.times, &self.threads];
        for (values, length) in spine.into_iter().zip(&mut head.spine.0) {
            let start = body.len();
            integers::encode_well(values, &mut tools.compressor, &mut tools.scratch, body);
            *length = body.len() - start;
        }
        head.spine.1 = crc32c::crc32c(body);
        let groups = &self.groups.groups;
        let digits = groups.iter().map(Group::digits).collect();
        let mut finder = DerivationFinder::new(digits, &self.order, &self.times);
        for (number, group) in groups.iter().enumerate() {
            let group_start = body.len();
            let mut columns = Vec::with_capacity(group.columns.len());
            let mut summaries = Vec::with_capacity(group.columns.len());
            for (place, column) in group.columns.iter().enumerate() {
                let start = body.len();
                let derivation = finder.next(number, place);
                summaries.push(column.encode(tools, derivation.as_ref(), body));
                columns.push(body.len() - start);
            }
            head.groups.push(GroupEntry {
                kind: group.kind.clone(),
                rows: group.rows,
                columns,
                checksum: crc32c::crc32c(&body[group_start..]),
                summaries,
            });
        }
        body.extend_from_slice(END);
        head.body_bytes = body.len();
    }
}

impl Lines {
    fn begin(&mut self) {
        self.split.clear();
        self.variables.clear();
        self.templates.clear();
        self.counts.clear();
    }

    /// Takes the lines of the next rows apart, of so many at most.
    fn split_all(&mut self, mut rows: Rows<'_>, rows_max: usize) -> Result<(), StoreError> {
        for _ in 0..rows_max {
            let Some(row) = rows.next_row()? else {
                break;
            };
            if row.callsite.is_none() {
                self.split(&row);
            }
        }
        Ok(())
    }

    fn split(&mut self, row: &Row<'_>) {
        let first = self.variables.len();
        let key = &mut self.template;
        let is_split = line_template::split(row.payload, key, &mut self.variables).is_some();
        key.push(row.line_level.map_or(NO_LEVEL, Level::code));
        let next = self.templates.len();
        let number = match self.templates.get(key.as_slice()) {
            Some(known) if is_split => Some(*known),
            None if is_split && next < GROUPS_MAX => {
                self.templates.insert(key.clone(), next);
                self.counts.push(0);
                Some(next)
            }
            _ => {
                self.variables.truncate(first);
                None
            }
        };
        if let Some(count) = number.and_then(|number| self.counts.get_mut(number)) {
            *count += 1;
        }
        self.split.push((number, first..self.variables.len()));
    }
}

impl Groups {
    /// Forgets the records of the last block.
    fn begin(&mut self, spare: &mut SpareColumns) {
        let columns = self.groups.drain(..).flat_map(|group| group.columns);
        columns.for_each(|column| spare.put(column));
        self.callsites.clear();
        self.others.clear();
        self.templates.clear();
    }

    /// Number of records of each level.
    fn level_counts(&self) -> [u64; 6] {
        let mut counts = [0; 6];
        for group in &self.groups {
            let level = match &group.kind {
                GroupKind::Fixed { callsite }
                | GroupKind::Dynamic { callsite, .. }
                | GroupKind::Whole { callsite } => {
                    let known = self.callsites.get(*callsite as usize);
                    known.map(|known| known.entry.callsite.level)
                }
                GroupKind::Template { level, .. } | GroupKind::Lines { level } => *level,
            };
            let count = level.and_then(|level| counts.get_mut(usize::from(level.code())));
            if let Some(count) = count {
                *count += group.rows as u64;
            }
        }
        counts
    }

    fn take_callsites(&mut self) -> Vec<DictionaryCallsite> {
        self.callsites.drain(..).map(|known| known.entry).collect()
    }

    fn add(&mut self, kind: GroupKind, columns: Vec<ColumnKind>, spare: &mut SpareColumns) -> usize {
        self.groups.push(Group::new(kind, columns, spare));
        self.groups.len() - 1
    }

    fn load_callsites(&mut self, definitions: &[&[u8]], spare: &mut SpareColumns) -> Result<(), StoreError> {
        for definition in definitions.iter().skip(self.callsites.len()) {
            let entry = DictionaryCallsite::decode(definition)?;
            let number = self.callsites.len() as u32;
            let callsite = &entry.callsite;
            let is_fixed = !callsite.dynamic && is_static(&callsite.fields);
            let columns = field_columns(&callsite.fields);
            let fixed = is_fixed.then(|| self.add(GroupKind::Fixed { callsite: number }, columns, spare));
            self.callsites.push(CallsiteGroups {
                entry,
                fixed,
                whole: None,
            });
        }
        Ok(())
    }

    /// Adds a record; returns its group.
    #[inline]
    fn push_record(
        &mut self,
        callsite: usize,
        definitions: &[&[u8]],
        payload: &[u8],
        (shape, spare): (&mut Vec<u8>, &mut SpareColumns),
    ) -> Result<usize, StoreError> {
        if self.callsites.len() < definitions.len() {
            self.load_callsites(definitions, spare)?;
        }
        if let Some(number) = self.callsites.get(callsite).and_then(|known| known.fixed)
            && self
                .groups
                .get_mut(number)
                .is_some_and(|group| group.push_record(payload))
        {
            return Ok(number);
        }
        Ok(self.push_other(callsite, payload, shape, spare))
    }

    /// Adds a dynamic record, or one that cannot be taken apart.
    fn push_other(
        &mut self,
        callsite: usize,
        payload: &[u8],
        shape: &mut Vec<u8>,
        spare: &mut SpareColumns,
    ) -> usize {
        let is_dynamic = self
            .callsites
            .get(callsite)
            .is_some_and(|known| known.entry.callsite.dynamic);
        let number = callsite as u32;
        if is_dynamic && put_shape(payload, shape).is_some() {
            let kind = GroupKind::Dynamic {
                callsite: number,
                shape: shape.clone(),
            };
            let known = self.others.get(&kind).copied();
            let parts = shape_parts(shape).unwrap_or_default();
            let found = known.or_else(|| {
                (self.others.len() < GROUPS_MAX).then(|| {
                    let columns = parts.into_iter().map(|part| part.1).collect();
                    let found = self.add(kind.clone(), columns, spare);
                    self.others.insert(kind, found);
                    found
                })
            });
            if let Some(group) = found.and_then(|found| self.groups.get_mut(found)) {
                group.push_dynamic(payload);
                return found.unwrap_or_default();
            }
        }
        let known = self.callsites.get(callsite).and_then(|known| known.whole);
        let found =
            known.unwrap_or_else(|| self.add(GroupKind::Whole { callsite: number }, WHOLE.to_vec(), spare));
        if let Some(known) = self.callsites.get_mut(callsite) {
            known.whole = Some(found);
        }
        if let Some(group) = self.groups.get_mut(found) {
            group.push_whole(payload);
        }
        found
    }

    /// Adds a line; returns its group.
    fn push_line(&mut self, row: &Row<'_>, lines: &Lines, line: usize, spare: &mut SpareColumns) -> usize {
        let (template, variables) = lines.split.get(line).cloned().unwrap_or_default();
        let is_common = |template: &usize| {
            lines
                .counts
                .get(*template)
                .is_some_and(|count| *count >= TEMPLATE_LINES_MIN)
        };
        if let Some(template) = template.filter(is_common) {
            if self.templates.len() <= template {
                self.templates.resize(template + 1, None);
            }
            let found = self
                .templates
                .get(template)
                .copied()
                .flatten()
                .unwrap_or_else(|| {
                    let found = self.add_template(row, spare);
                    self.templates[template] = Some(found);
                    found
                });
            if let Some(group) = self.groups.get_mut(found) {
                group.push_line(row.payload, lines.variables.get(variables).unwrap_or(&[]));
            }
            return found;
        }
        let kind = GroupKind::Lines {
            level: row.line_level,
        };
        let found = match self.others.get(&kind) {
            Some(found) => *found,
            None => {
                let found = self.add(kind.clone(), WHOLE.to_vec(), spare);
                self.others.insert(kind, found);
                found
            }
        };
        if let Some(group) = self.groups.get_mut(found) {
            group.push_whole(row.payload);
        }
        found
    }

    fn add_template(&mut self, row: &Row<'_>, spare: &mut SpareColumns) -> usize {
        let mut template = Vec::new();
        // It was split before.
        let _ = line_template::split(row.payload, &mut template, &mut Vec::new());
        let columns = template_columns(&template).unwrap_or_default();
        self.add(
            GroupKind::Template {
                level: row.line_level,
                template,
            },
            columns,
            spare,
        )
    }
}

/// Column of a group, by the name of its field.
///
/// ```
/// use logdrive_store::GroupColumn;
/// use logdrive_wire::kind::{FieldKind, Kind};
/// let column = GroupColumn { name: "id".into(), kind: FieldKind::plain(Kind::U64) };
/// assert_eq!(column.name, "id");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupColumn {
    /// Name of the field; `argN` where it has none, N its number.
    pub name: String,
    /// Kind of its values.
    pub kind: FieldKind,
}

/// A block that was read: its head, and its columns as they are stored.
#[derive(Debug, Clone)]
pub struct Block {
    head: BlockHead,
    body: Vec<u8>,
    /// Times of the rows of each group, once a column needed them.
    times: OnceLock<Vec<Vec<u64>>>,
    /// The pool of large numbers with the number of its column, once a column needed it.
    pool: OnceLock<(usize, Vec<u64>)>,
    /// Of each group the columns of large numbers, once one was needed.
    sequences: OnceLock<Vec<PoolColumns>>,
}

/// Columns of a group whose numbers stand in the pool: number and values of each.
type PoolColumns = Vec<(usize, Vec<u64>)>;

const MISSING_SOURCE: StoreError = StoreError::Contradiction {
    what: "source of a column",
};

impl Block {
    /// A block of a head and the bytes behind it.
    ///
    /// # Errors
    /// When there are not as many bytes as the head says, or a checksum differs.
    pub fn new(head: BlockHead, body: Vec<u8>) -> Result<Self, StoreError> {
        if body.len() != head.body_bytes {
            return Err(StoreError::Truncated { what: "columns" });
        }
        let block = Self {
            head,
            body,
            times: OnceLock::new(),
            pool: OnceLock::new(),
            sequences: OnceLock::new(),
        };
        let mut start = 0;
        for (length, checksum) in block.parts() {
            let part = block
                .body
                .get(start..start + length)
                .ok_or(StoreError::Truncated { what: "columns" })?;
            if crc32c::crc32c(part) != checksum {
                return Err(StoreError::Checksum { what: "columns" });
            }
            start += length;
        }
        if block.body.get(start..) != Some(END) {
            return Err(StoreError::Contradiction { what: "end" });
        }
        Ok(block)
    }

    /// Length and checksum of the spine and of each group.
    fn parts(&self) -> impl Iterator<Item = (usize, u32)> {
        let spine = (self.head.spine.0.iter().sum(), self.head.spine.1);
        let groups = self.head.groups.iter();
        std::iter::once(spine).chain(groups.map(|group| (group.columns.iter().sum(), group.checksum)))
    }

    /// The head.
    pub fn head(&self) -> &BlockHead {
        &self.head
    }

    /// Bytes of all columns of a group; number 0 is the spine.
    pub(crate) fn part(&self, number: usize) -> Result<&[u8], StoreError> {
        let start: usize = self.parts().take(number).map(|part| part.0).sum();
        let length = self.parts().nth(number).map_or(0, |part| part.0);
        self.body
            .get(start..start + length)
            .ok_or(StoreError::Truncated { what: "columns" })
    }

    pub(crate) fn columns(&self, number: usize, budget: &mut usize) -> Result<Vec<Column>, StoreError> {
        let Some(group) = self.head.groups.get(number) else {
            return Err(StoreError::Contradiction {
                what: "number of a group",
            });
        };
        let kinds = self.head.kinds(&group.kind)?;
        if kinds.len() != group.columns.len() {
            return Err(StoreError::Contradiction {
                what: "columns of a group",
            });
        }
        let mut rest = self.part(number + 1)?;
        let mut columns = Vec::with_capacity(kinds.len());
        for (kind, length) in kinds.into_iter().zip(&group.columns) {
            let (column, behind) = rest
                .split_at_checked(*length)
                .ok_or(StoreError::Truncated { what: "columns" })?;
            rest = behind;
            let mut column = read_column(kind, column, group.rows, budget)?;
            match column.derivation.take() {
                Some(Derivation::Same(back)) => {
                    let same = columns.len().checked_sub(back).and_then(|same| columns.get(same));
                    let same = same.filter(|same: &&Column| same.kind == ColumnKind::Digits);
                    column.low = same.map(|same| same.low.clone()).ok_or(MISSING_SOURCE)?;
                }
                Some(Derivation::InSequence(_) | Derivation::Sequence(_)) => {
                    column.low = self.pooled(number, columns.len())?;
                }
                Some(derivation) => column.low = self.derive(number, &derivation, group.rows)?,
                None => {}
            }
            columns.push(column);
        }
        Ok(columns)
    }

    /// Values of a column of digits of a group that come from elsewhere.
    fn derive(&self, group: usize, derivation: &Derivation, rows: usize) -> Result<Vec<u64>, StoreError> {
        let missing = MISSING_SOURCE;
        match derivation {
            Derivation::Same(_) | Derivation::Sequence(_) | Derivation::InSequence(_) => Err(missing),
            Derivation::Time(part) => {
                let times = self.times_of_groups()?.get(group);
                let times = times.filter(|times| times.len() == rows).ok_or(missing)?;
                Ok(Derivation::of_times(*part, times))
            }
            Derivation::Pool { pool, places } => Derivation::of_pool(pool, places),
            Derivation::Pooled { column, places } => {
                let (of_column, pool) = match self.pool.get() {
                    Some(known) => known,
                    None => match self.digits(*column, ROWS_MAX)?.derivation {
                        Some(Derivation::Pool { pool, .. }) => self.pool.get_or_init(|| (*column, pool)),
                        _ => return Err(missing),
                    },
                };
                match of_column == column {
                    true => Derivation::of_pool(pool, places),
                    false => Err(missing),
                }
            }
            Derivation::Column(like) => {
                // A longer one would cost more than it gives.
                let source = self.digits(like.column, rows + 2 * DERIVED_EDGE_VALUES)?;
                // One that comes from elsewhere itself is no source.
                match source.derivation {
                    None => like.of_column(&source.low, rows),
                    Some(_) => Err(missing),
                }
            }
        }
    }

    /// Values of a column of large numbers of the pool.
    fn pooled(&self, group: usize, column: usize) -> Result<Vec<u64>, StoreError> {
        if self.sequences.get().is_none() {
            let found = self.read_sequences()?;
            self.sequences.get_or_init(|| found);
        }
        let found = self.sequences.get().and_then(|groups| groups.get(group));
        let found = found.and_then(|columns| columns.iter().find(|(number, _)| *number == column));
        found.map(|(_, values)| values.clone()).ok_or(MISSING_SOURCE)
    }

    fn read_sequences(&self) -> Result<Vec<PoolColumns>, StoreError> {
        let mut start = self.head.spine.0.iter().sum::<usize>();
        let (mut source, mut columns) = (None, Vec::new());
        for entry in &self.head.groups {
            let kinds = self.head.kinds(&entry.kind)?;
            let mut of_group = Vec::new();
            for (number, length) in entry.columns.iter().enumerate() {
                let bytes = self.body.get(start..start + length).unwrap_or(&[]);
                start += length;
                if kinds.get(number) != Some(&ColumnKind::Digits) || !derivation::is_pooled(bytes) {
                    continue;
                }
                of_group.push(number);
                if source.is_none() {
                    let mut input = Input::new(bytes, "columns");
                    source = Derivation::decode(&mut input, entry.rows, &mut self.head.rows_bytes.clone())?;
                }
            }
            columns.push(of_group);
        }
        let Some(Derivation::Sequence(sequence)) = source else {
            return Err(MISSING_SOURCE);
        };
        let values = sequence.of_groups(&columns, &self.order()?)?;
        let named =
            |(numbers, values): (Vec<usize>, Vec<Vec<u64>>)| numbers.into_iter().zip(values).collect();
        Ok(columns.into_iter().zip(values).map(named).collect())
    }

    /// Reads a column of digits by its number among all, of so many rows at most.
    fn digits(&self, mut number: usize, rows_max: usize) -> Result<Column, StoreError> {
        let missing = StoreError::Contradiction {
            what: "source of a column",
        };
        let mut start = self.head.spine.0.iter().sum::<usize>();
        for entry in &self.head.groups {
            if number >= entry.columns.len() {
                number -= entry.columns.len();
                start += entry.columns.iter().sum::<usize>();
                continue;
            }
            let kind = self.head.kinds(&entry.kind)?.get(number).copied();
            if kind != Some(ColumnKind::Digits) || entry.rows > rows_max {
                break;
            }
            start += entry.columns.iter().take(number).sum::<usize>();
            let length = entry.columns.get(number).copied().unwrap_or(0);
            let bytes = self.body.get(start..start + length).ok_or(missing)?;
            return read_column(
                ColumnKind::Digits,
                bytes,
                entry.rows,
                &mut self.head.rows_bytes.clone(),
            );
        }
        Err(missing)
    }

    /// Times of the rows of each group.
    fn times_of_groups(&self) -> Result<&[Vec<u64>], StoreError> {
        if let Some(times) = self.times.get() {
            return Ok(times);
        }
        let (order, times) = (self.order()?, self.times()?);
        let mut of_groups = vec![Vec::new(); self.head.groups.len()];
        for (number, unix_ns) in order.into_iter().zip(times) {
            let group = usize::try_from(number)
                .ok()
                .and_then(|number| of_groups.get_mut(number));
            group
                .ok_or(StoreError::Contradiction {
                    what: "order of records",
                })?
                .push(unix_ns);
        }
        Ok(self.times.get_or_init(|| of_groups))
    }

    /// Reads one column of a group without the others.
    ///
    /// # Errors
    /// When there is no such column, or it cannot be read.
    pub fn column(&self, group: usize, column: usize) -> Result<StoredColumn, StoreError> {
        let column = self.column_with(group, column, true, &|_| true)?;
        column.ok_or(StoreError::Contradiction {
            what: "number of a column",
        })
    }

    /// Reads one column, unless none of its values can pass: it is a dictionary without an entry that passes, or, with `may_be_plain`
    /// not set, its values stand one behind the other.
    ///
    /// # Errors
    /// As for [`Block::column`].
    pub fn column_with(
        &self,
        group: usize,
        column: usize,
        may_be_plain: bool,
        passes: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<StoredColumn>, StoreError> {
        let missing = StoreError::Contradiction {
            what: "number of a column",
        };
        let entry = self.head.groups.get(group).ok_or(missing.clone())?;
        let kinds = self.head.kinds(&entry.kind)?;
        let kind = kinds.get(column).copied().ok_or(missing.clone())?;
        let start: usize = entry.columns.iter().take(column).sum();
        let length = entry.columns.get(column).copied().ok_or(missing)?;
        let bytes = self.part(group + 1)?.get(start..start + length);
        let bytes = bytes.ok_or(StoreError::Truncated { what: "columns" })?;
        let mut input = Input::new(bytes, "columns");
        let wanted = Wanted { may_be_plain, passes };
        StoredColumn::decode(kind, &mut input, entry.rows, self.head.rows_bytes, &wanted)
    }

    /// Rebuilds the payloads of a group, in the order of its records.
    ///
    /// # Errors
    /// When the block contradicts itself.
    pub fn payloads(&self, group: usize) -> Result<Texts, StoreError> {
        let mut budget = self.head.rows_bytes;
        let columns = self.columns(group, &mut budget)?;
        let mut payloads = Texts::default();
        if let Some(entry) = self.head.groups.get(group) {
            let mut rebuild = Rebuild::new(&entry.kind, columns, entry.rows)?;
            for _ in 0..entry.rows {
                rebuild.put_row(&mut payloads.bytes)?;
                limit("bytes of rows", payloads.bytes.len(), self.head.rows_bytes)?;
                payloads.ends.push(payloads.bytes.len() as u32);
            }
        }
        Ok(payloads)
    }

    /// Number of the group of each record, in the order of the log.
    ///
    /// # Errors
    /// When the column cannot be read, or does not fit the groups.
    pub fn order(&self) -> Result<Vec<u64>, StoreError> {
        let order = self.spine_column(0)?;
        let mut counts = vec![0usize; self.head.groups.len()];
        for number in &order {
            let count = usize::try_from(*number)
                .ok()
                .and_then(|number| counts.get_mut(number));
            *count.ok_or(StoreError::Contradiction {
                what: "order of records",
            })? += 1;
        }
        match counts
            .iter()
            .zip(&self.head.groups)
            .all(|(count, group)| *count == group.rows)
        {
            true => Ok(order),
            false => Err(StoreError::Contradiction {
                what: "order of records",
            }),
        }
    }

    /// Time of each record, in the order of the log.
    ///
    /// # Errors
    /// When the column cannot be read.
    pub fn times(&self) -> Result<Vec<u64>, StoreError> {
        self.spine_column(1)
    }

    /// Number of the thread of each record, in the order of the log; one that is in no dictionary for none.
    ///
    /// # Errors
    /// When the column cannot be read.
    pub fn threads(&self) -> Result<Vec<u64>, StoreError> {
        self.spine_column(2)
    }

    /// Returns the rows: the same records in the same order, to be read with [`Rows`].
    ///
    /// # Errors
    /// When the block contradicts itself.
    pub fn rows(&self) -> Result<Vec<u8>, StoreError> {
        let head = &self.head;
        let mut out = Vec::with_capacity(head.rows_bytes);
        for (number, callsite) in head.callsites.iter().enumerate() {
            put_definition(&mut out, CALLSITE, number, [&callsite.definition, &[]]);
        }
        for (number, thread) in head.threads.iter().enumerate() {
            put_definition(
                &mut out,
                THREAD,
                number,
                [&thread.id.to_le_bytes(), thread.name.as_bytes()],
            );
        }
        let definitions = out.len();
        let (order, times, threads) = (self.order()?, self.times()?, self.threads()?);
        let mut budget = head.rows_bytes;
        let mut groups = Vec::with_capacity(head.groups.len());
        for (number, group) in head.groups.iter().enumerate() {
            let columns = self.columns(number, &mut budget)?;
            groups.push((
                Rebuild::new(&group.kind, columns, group.rows)?,
                row_kind(&group.kind),
            ));
        }
        for ((number, unix_ns), thread) in order.into_iter().zip(times).zip(threads) {
            let group = usize::try_from(number)
                .ok()
                .and_then(|number| groups.get_mut(number));
            let Some((group, kind)) = group else {
                return Err(StoreError::Contradiction {
                    what: "order of records",
                });
            };
            let at = out.len();
            out.extend_from_slice(&[0; RECORD_HEAD_BYTES]);
            group.put_row(&mut out)?;
            limit("bytes of rows", out.len() - definitions, head.rows_bytes)?;
            let length = out.len() - at;
            put_record_head(&mut out, at, length, *kind, (thread as u32, unix_ns));
        }
        Ok(out)
    }

    fn spine_column(&self, number: usize) -> Result<Vec<u64>, StoreError> {
        let lengths = self.head.spine.0;
        let start: usize = lengths.iter().take(number).sum();
        let length = lengths.get(number).copied().unwrap_or(0);
        let column = self.part(0)?.get(start..start + length);
        let column = column.ok_or(StoreError::Truncated { what: "columns" })?;
        integers::decode(&mut Input::new(column, "columns"), self.head.records)
    }
}

#[cfg(test)]
impl Block {
    pub(crate) fn head_mut(&mut self) -> &mut BlockHead {
        &mut self.head
    }

    /// Flips a bit of the columns, at the place that is chosen, and makes the checksums fit.
    pub(crate) fn flip_bit(&mut self, below: &mut dyn FnMut(u64) -> u64) {
        let at = below((self.body.len() - END.len()) as u64) as usize;
        self.body[at] ^= 1 << below(8);
        let mut start = 0;
        for (number, (length, _)) in self.parts().collect::<Vec<_>>().into_iter().enumerate() {
            let checksum = crc32c::crc32c(&self.body[start..start + length]);
            match number.checked_sub(1) {
                None => self.head.spine.1 = checksum,
                Some(group) => self.head.groups[group].checksum = checksum,
            }
            start += length;
        }
    }
}

impl BlockHead {
    pub(crate) fn kinds(&self, kind: &GroupKind) -> Result<Vec<ColumnKind>, StoreError> {
        Ok(match kind {
            GroupKind::Fixed { callsite } => {
                let found = self.callsites.get(*callsite as usize);
                found
                    .map(|found| field_columns(&found.callsite.fields))
                    .unwrap_or_default()
            }
            GroupKind::Dynamic { shape, .. } => shape_parts(shape)?.into_iter().map(|part| part.1).collect(),
            GroupKind::Template { template, .. } => template_columns(template)?,
            GroupKind::Whole { .. } | GroupKind::Lines { .. } => WHOLE.to_vec(),
        })
    }

    /// Fields of the columns of a group of records; none for payloads and lines that are stored as they came, and for lines of a
    /// template.
    ///
    /// # Errors
    /// When the block contradicts itself.
    pub fn fields(&self, group: usize) -> Result<Vec<GroupColumn>, StoreError> {
        let name = |callsite: u32, index: usize| {
            let known = self.callsites.get(callsite as usize);
            let field = known.and_then(|known| known.callsite.fields.get(index));
            let name = field.map_or("", |field| field.name.as_str());
            if name.is_empty() {
                format!("arg{index}")
            } else {
                name.to_owned()
            }
        };
        let Some(entry) = self.groups.get(group) else {
            return Ok(Vec::new());
        };
        let kinds = self.kinds(&entry.kind)?.into_iter();
        let fields = kinds.filter_map(|kind| match kind {
            ColumnKind::Field(field) => Some(field),
            _ => None,
        });
        Ok(match &entry.kind {
            GroupKind::Fixed { callsite } => fields
                .enumerate()
                .map(|(index, kind)| GroupColumn {
                    name: name(*callsite, index),
                    kind,
                })
                .collect(),
            GroupKind::Dynamic { callsite, shape } => shape_parts(shape)?
                .into_iter()
                .zip(fields)
                .map(|((head, _), kind)| GroupColumn {
                    name: match shape_key(head) {
                        ShapeKey::Index(index) => name(*callsite, index),
                        ShapeKey::Inline("") => "arg0".to_owned(),
                        ShapeKey::Inline(key) => key.to_owned(),
                    },
                    kind,
                })
                .collect(),
            _ => Vec::new(),
        })
    }
}

fn read_column(
    kind: ColumnKind,
    bytes: &[u8],
    rows: usize,
    budget: &mut usize,
) -> Result<Column, StoreError> {
    let mut input = Input::new(bytes, "columns");
    let column = Column::decode(kind, &mut input, rows, budget)?;
    match input.is_empty() {
        true => Ok(column),
        false => Err(StoreError::Contradiction {
            what: "length of a column",
        }),
    }
}

pub(crate) fn row_kind(kind: &GroupKind) -> (u8, u32) {
    match kind {
        GroupKind::Fixed { callsite }
        | GroupKind::Dynamic { callsite, .. }
        | GroupKind::Whole { callsite } => (RECORD, *callsite),
        GroupKind::Template { level, .. } | GroupKind::Lines { level } => {
            (LINE, u32::from(level.map_or(NO_LEVEL, Level::code)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::RowWriter;
    use logdrive_testkit::Random;

    /// Rows of lines with ids and sizes that repeat, times, and numbers of other lines.
    fn rows() -> Vec<u8> {
        let mut random = Random::new(2);
        let (mut writer, mut out, mut at) = (RowWriter::default(), vec![0; 1 << 16], 0);
        let ids: Vec<u64> = (0..20).map(|_| random.bits() >> 2 | 1 << 50).collect();
        for number in 0..200u64 {
            let id = ids[random.below(20) as usize];
            let size = if random.one_in(4) {
                random.below(1 << 26)
            } else {
                1 << 26
            };
            let line = match number % 3 {
                0 => format!("08:00:{:02} received blk_{id} of {size} n{number}", number / 10),
                1 => format!("deleted blk_{id} as /data/blk_{id} {}", number * number % 89),
                _ => format!(
                    "sent {} bytes in {size} to {:x}",
                    number * number % 89,
                    random.bits()
                ),
            };
            at = writer
                .line(&mut out, at, None, number * 100_000_000, line.as_bytes())
                .expect("room");
        }
        out.truncate(at);
        out
    }

    /// A checksum catches accidents; whoever writes a file may have sums that fit.
    #[test]
    fn hostile_columns_whose_checksums_fit_are_errors_or_other_values() {
        let mut bytes = Vec::new();
        Encoder::default().encode(&rows(), &mut bytes).expect("a block");
        let head = BlockHead::decode(&bytes).expect("a head");
        let sound = bytes[head.head_bytes..].to_vec();
        let (mut random, mut errors) = (Random::new(6), 0);
        for at in 0..sound.len() - 1 {
            let (mut head, mut body) = (head.clone(), sound.clone());
            let change = [1, 0x80, 1 + random.below(255) as u8][at % 3];
            body[at] = body[at].wrapping_add(change);
            let mut start = head.spine.0.iter().sum();
            head.spine.1 = crc32c::crc32c(&body[..start]);
            for group in &mut head.groups {
                let end = start + group.columns.iter().sum::<usize>();
                group.checksum = crc32c::crc32c(&body[start..end]);
                start = end;
            }
            let rows_bytes = head.rows_bytes;
            match Block::new(head, body).expect("its sums fit").rows() {
                Ok(rows) => assert!(rows.len() <= rows_bytes + 1_024),
                Err(_) => errors += 1,
            }
        }
        assert!(errors > 100, "{errors}");
    }
}
