//! Blocks: rows become columns of groups, and columns become rows again, in the same order.

use crate::bytes::{Compressor, Input};
use crate::columns::{Column, ColumnKind, StoredColumn, Tools};
use crate::derivation::{Derivation, DerivationFinder};
use crate::error::{StoreError, limit};
use crate::group::{
    Group, Rebuild, ShapeKey, WHOLE, field_columns, is_static, put_shape, shape_key, shape_parts,
    template_columns,
};
use crate::head::{BlockHead, DictionaryCallsite, DictionaryThread, END, GroupEntry, GroupKind};
use crate::integers;
use crate::limits::{DERIVED_EDGE_VALUES, GROUPS_MAX, ROWS_BYTES_MAX, ROWS_MAX, TEMPLATE_LINES_MIN};
use crate::line_template::{self, Variable};
use crate::rows::{
    CALLSITE, LINE, NO_LEVEL, RECORD, Row, Rows, THREAD, put_definition, put_record, read_definition,
};
use crate::texts::{Texts, Wanted};
use logdrive_wire::Level;
use logdrive_wire::kind::FieldKind;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

/// In place of a thread: the row has none.
const NO_THREAD: u64 = u32::MAX as u64;

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
    order: Vec<u64>,
    times: Vec<u64>,
    threads: Vec<u64>,
    shape: Vec<u8>,
}

/// Lines of a block that were taken apart, before their groups are known.
#[derive(Debug, Default)]
struct Lines {
    /// Template of each line, and its variables.
    split: Vec<(Option<usize>, Range<usize>)>,
    variables: Vec<Variable>,
    templates: HashMap<(u8, Vec<u8>), usize>,
    counts: Vec<usize>,
}

/// What a block is made of.
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
            ..Self::default()
        }
    }

    /// Appends blocks of these rows: one for each 65536 of them. Nothing is appended for no rows.
    ///
    /// # Errors
    /// When the rows cannot be read, or are more than 8 MiB. What was appended before is whole.
    pub fn encode(&mut self, rows: &[u8], out: &mut Vec<u8>) -> Result<(), StoreError> {
        limit("bytes of rows", rows.len(), ROWS_BYTES_MAX)?;
        let mut ahead = Rows::new(rows);
        let mut here = Rows::new(rows);
        self.lines.begin();
        loop {
            let mut count = 0;
            while count < ROWS_MAX {
                let Some(row) = ahead.next_row()? else {
                    break;
                };
                if row.callsite.is_none() {
                    self.lines.split(&row);
                }
                count += 1;
            }
            if count == 0 {
                return Ok(());
            }
            self.encode_block(&mut here, count, out)?;
            self.lines.begin();
        }
    }

    fn encode_block(
        &mut self,
        rows: &mut Rows<'_>,
        count: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let bytes_before = rows.rest().len();
        let mut found = Groups::default();
        let mut level_counts = [0; 6];
        self.order.clear();
        self.times.clear();
        self.threads.clear();
        let mut line = 0;
        for _ in 0..count {
            let Some(row) = rows.next_row()? else {
                break;
            };
            let number = match row.callsite {
                Some(callsite) => found.push_record(
                    callsite as usize,
                    rows.definitions(),
                    row.payload,
                    &mut self.shape,
                )?,
                None => {
                    line += 1;
                    found.push_line(&row, &self.lines, line - 1)
                }
            };
            let level = row
                .callsite
                .and_then(|site| Some(found.callsites.get(site as usize)?.entry.callsite.level));
            if let Some(place) = level
                .or(row.line_level)
                .and_then(|level| level_counts.get_mut(usize::from(level.code())))
            {
                *place += 1;
            }
            self.order.push(number as u64);
            self.times.push(row.unix_ns);
            self.threads.push(row.thread.map_or(NO_THREAD, u64::from));
        }
        let threads = rows.threads().iter().map(|(id, name)| DictionaryThread {
            id: *id,
            name: String::from_utf8_lossy(name).into_owned(),
        });
        let definitions: usize = rows
            .definitions()
            .iter()
            .map(|definition| definition.len() + 8)
            .sum();
        let head = BlockHead {
            head_bytes: 0,
            body_bytes: 0,
            records: count,
            rows_bytes: (bytes_before - rows.rest().len() + definitions).min(ROWS_BYTES_MAX),
            times: integers::range(&self.times),
            level_counts,
            callsites: Vec::new(),
            threads: threads.collect(),
            groups: Vec::new(),
            spine: ([0; 3], 0),
            filter: Vec::new(),
        };
        self.put_block(found, head, out);
        Ok(())
    }

    /// Writes columns behind the place of the head, then the head before them.
    fn put_block(&mut self, found: Groups, mut head: BlockHead, out: &mut Vec<u8>) {
        let tools = &mut self.tools;
        tools.hashes.clear();
        let mut body = Vec::new();
        let spine = [&self.order, &self.times, &self.threads];
        for (values, length) in spine.into_iter().zip(&mut head.spine.0) {
            let start = body.len();
            integers::encode_well(values, &mut tools.compressor, &mut tools.scratch, &mut body);
            *length = body.len() - start;
        }
        head.spine.1 = crc32c::crc32c(&body);
        let digits = found.groups.iter().map(Group::digits).collect();
        let mut finder = DerivationFinder::new(digits, &self.order, &self.times);
        for (number, group) in found.groups.iter().enumerate() {
            let group_start = body.len();
            let mut columns = Vec::with_capacity(group.columns.len());
            for (place, column) in group.columns.iter().enumerate() {
                let start = body.len();
                let derivation = finder.next(number, place);
                column.encode(tools, derivation.as_ref(), &mut body);
                columns.push(body.len() - start);
            }
            head.groups.push(GroupEntry {
                kind: group.kind.clone(),
                rows: group.rows,
                columns,
                checksum: crc32c::crc32c(&body[group_start..]),
            });
        }
        head.callsites = found.callsites.into_iter().map(|known| known.entry).collect();
        body.extend_from_slice(END);
        head.body_bytes = body.len();
        crate::filter::build(&mut tools.hashes, &mut head.filter);
        head.encode(&mut tools.compressor, out);
        out.extend_from_slice(&body);
    }
}

impl Lines {
    fn begin(&mut self) {
        self.split.clear();
        self.variables.clear();
        self.templates.clear();
        self.counts.clear();
    }

    fn split(&mut self, row: &Row<'_>) {
        let first = self.variables.len();
        let mut template = Vec::new();
        let is_split = line_template::split(row.payload, &mut template, &mut self.variables).is_some();
        let key = (row.line_level.map_or(NO_LEVEL, Level::code), template);
        let next = self.templates.len();
        let number = match self.templates.get(&key) {
            Some(known) if is_split => Some(*known),
            None if is_split && next < GROUPS_MAX => {
                self.templates.insert(key, next);
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
    fn add(&mut self, kind: GroupKind, columns: Vec<ColumnKind>) -> usize {
        self.groups.push(Group::new(kind, columns));
        self.groups.len() - 1
    }

    fn load_callsites(&mut self, definitions: &[&[u8]]) -> Result<(), StoreError> {
        for definition in definitions.iter().skip(self.callsites.len()) {
            let (process, callsite) = read_definition(definition).map_err(StoreError::Callsite)?;
            let number = self.callsites.len() as u32;
            let is_fixed = !callsite.dynamic && is_static(&callsite.fields);
            let columns = field_columns(&callsite.fields);
            let fixed = is_fixed.then(|| self.add(GroupKind::Fixed { callsite: number }, columns));
            let entry = DictionaryCallsite {
                callsite,
                process,
                definition: definition.to_vec(),
            };
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
        shape: &mut Vec<u8>,
    ) -> Result<usize, StoreError> {
        if self.callsites.len() < definitions.len() {
            self.load_callsites(definitions)?;
        }
        if let Some(number) = self.callsites.get(callsite).and_then(|known| known.fixed)
            && self
                .groups
                .get_mut(number)
                .is_some_and(|group| group.push_record(payload))
        {
            return Ok(number);
        }
        Ok(self.push_other(callsite, payload, shape))
    }

    /// Adds a dynamic record, or one that cannot be taken apart.
    fn push_other(&mut self, callsite: usize, payload: &[u8], shape: &mut Vec<u8>) -> usize {
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
                    let found = self.add(kind.clone(), columns);
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
        let found = known.unwrap_or_else(|| self.add(GroupKind::Whole { callsite: number }, WHOLE.to_vec()));
        if let Some(known) = self.callsites.get_mut(callsite) {
            known.whole = Some(found);
        }
        if let Some(group) = self.groups.get_mut(found) {
            group.push_whole(payload);
        }
        found
    }

    /// Adds a line; returns its group.
    fn push_line(&mut self, row: &Row<'_>, lines: &Lines, line: usize) -> usize {
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
                    let found = self.add_template(row);
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
                let found = self.add(kind.clone(), WHOLE.to_vec());
                self.others.insert(kind, found);
                found
            }
        };
        if let Some(group) = self.groups.get_mut(found) {
            group.push_whole(row.payload);
        }
        found
    }

    fn add_template(&mut self, row: &Row<'_>) -> usize {
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
}

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
    fn part(&self, number: usize) -> Result<&[u8], StoreError> {
        let start: usize = self.parts().take(number).map(|part| part.0).sum();
        let length = self.parts().nth(number).map_or(0, |part| part.0);
        self.body
            .get(start..start + length)
            .ok_or(StoreError::Truncated { what: "columns" })
    }

    fn columns(&self, number: usize, budget: &mut usize) -> Result<Vec<Column>, StoreError> {
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
            if let Some(derivation) = column.derivation.take() {
                column.low = self.derive(number, &derivation, group.rows)?;
            }
            columns.push(column);
        }
        Ok(columns)
    }

    /// Values of a column of digits of a group that come from elsewhere.
    fn derive(&self, group: usize, derivation: &Derivation, rows: usize) -> Result<Vec<u64>, StoreError> {
        let missing = StoreError::Contradiction {
            what: "source of a column",
        };
        match derivation {
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
        let mut payload = Vec::new();
        for ((number, unix_ns), thread) in order.into_iter().zip(times).zip(threads) {
            let group = usize::try_from(number)
                .ok()
                .and_then(|number| groups.get_mut(number));
            let Some((group, kind)) = group else {
                return Err(StoreError::Contradiction {
                    what: "order of records",
                });
            };
            payload.clear();
            group.put_row(&mut payload)?;
            let at = out.len();
            out.resize(at + crate::rows::RECORD_HEAD_BYTES + payload.len(), 0);
            limit("bytes of rows", out.len() - definitions, head.rows_bytes)?;
            put_record(&mut out, at, *kind, thread as u32, unix_ns, &payload);
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

impl BlockHead {
    fn kinds(&self, kind: &GroupKind) -> Result<Vec<ColumnKind>, StoreError> {
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

fn row_kind(kind: &GroupKind) -> (u8, u32) {
    match kind {
        GroupKind::Fixed { callsite }
        | GroupKind::Dynamic { callsite, .. }
        | GroupKind::Whole { callsite } => (RECORD, *callsite),
        GroupKind::Template { level, .. } | GroupKind::Lines { level } => {
            (LINE, u32::from(level.map_or(NO_LEVEL, Level::code)))
        }
    }
}
