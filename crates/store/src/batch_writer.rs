//! Batches as blocks of a segment: the columns of a batch are those of its block already, so that only the head is written
//! anew, with texts that are the same in all records as further columns.

use crate::batch::Batch;
use crate::block::{Block, NO_THREAD};
use crate::bytes::Compressor;
use crate::columns::StoredColumn;
use crate::dictionary::DictionaryCallsite;
use crate::error::{StoreError, limit};
use crate::filter::FilterBuilder;
use crate::head::{BlockHead, END, GroupEntry, GroupKind};
use crate::integers;
use crate::limits::{COLUMNS_MAX, ROW_BYTES_MAX, ROWS_BYTES_MAX};
use crate::rows::{DEFINITION_HEAD_BYTES, RECORD_HEAD_BYTES};
use crate::summary::ColumnSummary;
use crate::texts;
use logdrive_wire::kind::{FieldKind, Kind};
use logdrive_wire::value::INLINE_KEY;

/// Callsite of a batch as a segment is to have it.
///
/// ```
/// let site = logdrive_store::RowCallsite::new(&logdrive_wire::Callsite::default(), None)?;
/// let entry = logdrive_store::DictionaryCallsite::of(&site)?;
/// let stored = logdrive_store::StoredCallsite { entry, has_values: false };
/// assert_eq!(stored.entry.process, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct StoredCallsite {
    /// The callsite: with fields for the texts behind its own, unless it is dynamic.
    pub entry: DictionaryCallsite,
    /// Its records have the texts.
    pub has_values: bool,
}

/// Writes batches as blocks of a segment. It keeps its memory for the next one.
///
/// ```
/// use logdrive_store::{Batch, BatchDictionary, BatchEncoder, BatchWriter, BlockHead, DictionaryCallsite};
/// use logdrive_store::{RowCallsite, RowThread, RowWriter, StoredCallsite};
/// let site = RowCallsite::new(&logdrive_wire::Callsite::default(), None)?;
/// let mut rows = [0; 256];
/// let thread = RowThread { id: 1, name: "main" };
/// let end = RowWriter::default().record(&mut rows, 0, &site, thread, 99, b"").expect("room");
/// let mut dictionary = BatchDictionary::default();
/// let batch = BatchEncoder::default().encode(&rows[..end], 1 << 18)?.remove(0);
/// for definition in &batch.definitions {
///     dictionary.define(definition.number, &definition.bytes)?;
/// }
/// let batch = Batch::read(&batch.block, &dictionary)?;
/// let stored = StoredCallsite { entry: DictionaryCallsite::of(&site)?, has_values: false };
/// let mut segment = Vec::new();
/// assert!(BatchWriter::default().put(&batch, &[&stored], &[], &mut segment)?);
/// assert_eq!(BlockHead::decode(&segment)?.records, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct BatchWriter {
    compressor: Compressor,
    filter: FilterBuilder,
    body: Vec<u8>,
}

impl BatchWriter {
    /// Appends the block of a batch. Its callsites are in the order of the batch, and each text, with the name of its field,
    /// is that of all records of those that have values. `false`: there are records whose payloads have to be taken apart
    /// for that, or the block would be too large; nothing was appended.
    ///
    /// All that a reader of the block relies on is checked before.
    ///
    /// # Errors
    /// When the batch contradicts itself.
    pub fn put(
        &mut self,
        batch: &Batch,
        callsites: &[&StoredCallsite],
        values: &[(&str, &str)],
        out: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        let block = &batch.block;
        let head = block.head();
        self.body.clear();
        self.filter.clear();
        block.order()?;
        let times = block.times()?;
        let is_known = |thread: &u64| *thread == NO_THREAD || *thread < head.threads.len() as u64;
        if !block.threads()?.iter().all(is_known) {
            return Err(StoreError::Contradiction {
                what: "thread of a row",
            });
        }
        self.body.extend_from_slice(block.part(0)?);
        let mut groups = Vec::with_capacity(head.groups.len());
        let mut rows_bytes = 0;
        for number in 0..head.groups.len() {
            let Some((group, bytes)) = self.put_group(block, number, callsites, values)? else {
                return Ok(false);
            };
            groups.push(group);
            rows_bytes += bytes;
        }
        let definitions = callsites.iter().map(|callsite| callsite.entry.definition.len());
        let definitions: usize = definitions.map(|bytes| bytes + DEFINITION_HEAD_BYTES).sum();
        if rows_bytes + definitions > ROWS_BYTES_MAX || definitions > ROW_BYTES_MAX {
            return Ok(false);
        }
        self.body.extend_from_slice(END);
        let mut stored = BlockHead {
            head_bytes: 0,
            body_bytes: self.body.len(),
            records: head.records,
            rows_bytes: rows_bytes + definitions,
            times: integers::range(&times),
            level_counts: level_counts(&groups, callsites),
            callsites: callsites.iter().map(|callsite| callsite.entry.clone()).collect(),
            threads: head.threads.clone(),
            groups,
            spine: head.spine,
            filter: Vec::new(),
            zstd_level: None,
        };
        self.filter.build(&mut stored.filter);
        stored.encode(&mut self.compressor, out);
        out.extend_from_slice(&self.body);
        Ok(true)
    }

    /// Puts the columns of a group, and gives its entry and the bytes of its rows. `None`: its payloads have no columns, or
    /// there would be too many.
    fn put_group(
        &mut self,
        block: &Block,
        number: usize,
        callsites: &[&StoredCallsite],
        values: &[(&str, &str)],
    ) -> Result<Option<(GroupEntry, usize)>, StoreError> {
        let missing = StoreError::Contradiction {
            what: "number of a callsite",
        };
        let entry = block.head().groups.get(number).ok_or(missing.clone())?;
        let (callsite, is_dynamic) = match &entry.kind {
            GroupKind::Fixed { callsite } => (*callsite, false),
            GroupKind::Dynamic { callsite, .. } => (*callsite, true),
            _ => return Ok(None),
        };
        let site = callsites.get(callsite as usize).ok_or(missing)?;
        if site.entry.callsite.dynamic != is_dynamic {
            return Err(StoreError::Contradiction {
                what: "kind of group",
            });
        }
        let values = if site.has_values { values } else { &[] };
        if entry.columns.len() + values.len() > COLUMNS_MAX {
            return Ok(None);
        }
        let mut summaries = Vec::with_capacity(entry.columns.len() + values.len());
        let Some((bytes, longest)) = self.check_columns(block, number, &mut summaries)? else {
            return Ok(None);
        };
        let shape_bytes = match &entry.kind {
            GroupKind::Dynamic { shape, .. } => shape.len(),
            _ => 0,
        };
        // Of each record besides the values of the sender.
        let mut more_bytes = RECORD_HEAD_BYTES + shape_bytes;
        let mut stored = entry.clone();
        let start = self.body.len();
        let own = block.part(number + 1)?;
        if !is_dynamic {
            self.body.extend_from_slice(own);
        }
        let mut shape = Vec::new();
        let mut lengths = Vec::with_capacity(values.len());
        for (name, text) in values {
            let at = self.body.len();
            // A column without values has no bytes.
            if entry.rows > 0 {
                texts::put_constant(text.as_bytes(), &mut self.body);
                self.filter.add_texts(std::iter::once(text.as_bytes()));
            }
            lengths.push(self.body.len() - at);
            more_bytes += 4 + text.len();
            shape.extend([FieldKind::plain(Kind::Str).code(), INLINE_KEY]);
            shape.extend_from_slice(&(name.len() as u16).to_le_bytes());
            shape.extend_from_slice(name.as_bytes());
        }
        if is_dynamic {
            self.body.extend_from_slice(own);
            more_bytes += shape.len();
        }
        if longest + more_bytes > ROW_BYTES_MAX {
            return Ok(None);
        }
        let place = if is_dynamic { 0 } else { stored.columns.len() };
        stored.columns.splice(place..place, lengths);
        summaries.splice(place..place, values.iter().map(|_| ColumnSummary::Tokens));
        // Those of the sender are not believed: a query would leave out what is there.
        stored.summaries = summaries;
        if let GroupKind::Dynamic { shape: own, .. } = &mut stored.kind {
            own.splice(0..0, shape);
        }
        stored.checksum = crc32c::crc32c(self.body.get(start..).unwrap_or(&[]));
        Ok(Some((stored, bytes + more_bytes * entry.rows)))
    }

    /// Reads all columns of a group, sums them up, and gives the bytes of their values, and those of one record at most.
    /// `None`: there are values that no field of their kind has.
    fn check_columns(
        &mut self,
        block: &Block,
        number: usize,
        summaries: &mut Vec<ColumnSummary>,
    ) -> Result<Option<(usize, usize)>, StoreError> {
        let head = block.head();
        let entry = head.groups.get(number);
        let entry = entry.ok_or(StoreError::Contradiction { what: "group" })?;
        let kinds = head.kinds(&entry.kind)?;
        if kinds.len() != entry.columns.len() {
            return Err(StoreError::Contradiction {
                what: "columns of a group",
            });
        }
        let mut rest = block.part(number + 1)?;
        let (mut all_bytes, mut longest) = (0, 0);
        for (kind, length) in kinds.into_iter().zip(&entry.columns) {
            let cut = StoreError::Truncated { what: "columns" };
            let (column, behind) = rest.split_at_checked(*length).ok_or(cut)?;
            rest = behind;
            let (read, values) = StoredColumn::decode_whole(kind, column, entry.rows, head.rows_bytes)?;
            let Some((bytes, of_one)) = read.payload_bytes(kind, entry.rows) else {
                return Ok(None);
            };
            all_bytes += bytes;
            longest += of_one;
            limit("bytes of rows", all_bytes, head.rows_bytes)?;
            summaries.push(read.sum_up(kind, values, &mut self.filter));
        }
        Ok(Some((all_bytes, longest)))
    }
}

/// Number of records of each level.
fn level_counts(groups: &[GroupEntry], callsites: &[&StoredCallsite]) -> [u64; 6] {
    let mut counts = [0; 6];
    for group in groups {
        let (GroupKind::Fixed { callsite } | GroupKind::Dynamic { callsite, .. }) = group.kind else {
            continue;
        };
        let level = callsites
            .get(callsite as usize)
            .map(|known| known.entry.callsite.level);
        let count = level.and_then(|level| counts.get_mut(usize::from(level.code())));
        if let Some(count) = count {
            *count += group.rows as u64;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchDictionary, BatchEncoder, RowCallsite, RowThread, RowWriter, Rows};
    use logdrive_testkit::Random;
    use logdrive_wire::{Callsite, Cursor, Field, Value};

    const VALUES: [(&str, &str); 2] = [("session", "0f"), ("identity", "uid:1000")];

    fn site(kinds: &[FieldKind], is_dynamic: bool) -> Callsite {
        let field = |kind: &FieldKind| Field {
            name: "field".to_owned(),
            kind: *kind,
            argument: false,
        };
        Callsite {
            fields: kinds.iter().map(field).collect(),
            dynamic: is_dynamic,
            ..Callsite::default()
        }
    }

    fn put_text(text: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }

    /// The callsite as a segment has it.
    fn with_values(mut site: Callsite) -> StoredCallsite {
        let is_dynamic = site.dynamic;
        for (name, _) in VALUES.iter().filter(|_| !is_dynamic) {
            site.fields.push(Field {
                name: (*name).to_owned(),
                kind: FieldKind::plain(Kind::Str),
                argument: false,
            });
        }
        let row = RowCallsite::new(&site, None).expect("a callsite");
        let entry = DictionaryCallsite::of(&row).expect("an entry");
        StoredCallsite {
            entry,
            has_values: true,
        }
    }

    /// A batch with records of fixed kinds and of their own, and the callsites as a segment has them.
    fn batch() -> (Batch, Vec<StoredCallsite>) {
        let optional = FieldKind {
            kind: Kind::Char,
            optional: true,
        };
        let kinds = [
            Kind::U64,
            Kind::I64,
            Kind::I16,
            Kind::Bool,
            Kind::F64,
            Kind::Str,
            Kind::Str,
        ];
        let kinds = kinds.map(FieldKind::plain);
        let kinds = [&kinds[..], &[optional]].concat();
        let sites = [(site(&kinds, false), false), (site(&[], true), true)];
        let named: Vec<RowCallsite> = sites
            .iter()
            .map(|(site, _)| RowCallsite::new(site, None).expect("a callsite"))
            .collect();
        let (mut writer, mut rows, mut at) = (RowWriter::default(), vec![0; 1 << 18], 0);
        let mut random = Random::new(11);
        for number in 0..300u64 {
            let mut payload = number.to_le_bytes().to_vec();
            payload.extend_from_slice(&random.bits().to_le_bytes());
            payload.extend_from_slice(&(number as i16 - 9).to_le_bytes());
            payload.push(u8::from(number % 3 == 0));
            payload.extend_from_slice(&(number as f64 / 4.0).to_le_bytes());
            put_text(&format!("order {}", number * 7_919 % 300), &mut payload);
            put_text(&format!("state {}", number % 3), &mut payload);
            payload.push(u8::from(number % 2 == 0));
            if number % 2 == 0 {
                payload.extend_from_slice(&u32::from('é').to_le_bytes());
            }
            let mut own = vec![FieldKind::plain(Kind::Str).code(), INLINE_KEY, 3, 0];
            own.extend_from_slice(b"key");
            put_text("slow", &mut own);
            for (callsite, payload) in named.iter().zip([&payload, &own]) {
                let thread = RowThread { id: 1, name: "main" };
                let end = writer.record(&mut rows, at, callsite, thread, number, payload);
                at = end.expect("room");
            }
        }
        let encoded = BatchEncoder::default().encode(&rows[..at], 1 << 20);
        let encoded = encoded.expect("a batch").remove(0);
        let mut dictionary = BatchDictionary::default();
        for definition in &encoded.definitions {
            dictionary
                .define(definition.number, &definition.bytes)
                .expect("a definition");
        }
        let stored = sites.map(|(site, _)| with_values(site));
        let read = Batch::read(&encoded.block, &dictionary).expect("a batch");
        (read, stored.to_vec())
    }

    /// The block that was made of a batch, and its rows.
    fn stored(batch: &Batch, callsites: &[StoredCallsite]) -> Option<(Block, Vec<u8>)> {
        let (mut out, callsites) = (Vec::new(), callsites.iter().collect::<Vec<_>>());
        let is_put = BatchWriter::default().put(batch, &callsites, &VALUES, &mut out);
        is_put.ok().filter(|is_put| *is_put)?;
        let head = BlockHead::decode(&out).expect("a head");
        let body = out[head.head_bytes..].to_vec();
        let block = Block::new(head, body).expect("a block");
        let rows = block.rows().expect("what was stored can be read");
        Some((block, rows))
    }

    #[test]
    fn records_read_back_with_the_texts_behind_or_before_their_own_values() {
        let (batch, callsites) = batch();
        let (block, bytes) = stored(&batch, &callsites).expect("stored");
        let before = batch.block.rows().expect("rows");
        let (mut before, mut rows, mut count) = (Rows::new(&before), Rows::new(&bytes), 0);
        while let Some(row) = rows.next_row().expect("a row") {
            let own = before.next_row().expect("a row").expect("as many");
            let mut expected = Vec::new();
            let is_dynamic = block.head().callsites[row.callsite.expect("a callsite") as usize]
                .callsite
                .dynamic;
            for (name, text) in VALUES {
                if is_dynamic {
                    expected.extend([FieldKind::plain(Kind::Str).code(), INLINE_KEY]);
                    expected.extend_from_slice(&(name.len() as u16).to_le_bytes());
                    expected.extend_from_slice(name.as_bytes());
                }
                put_text(text, &mut expected);
            }
            let expected = match is_dynamic {
                true => [&expected, own.payload].concat(),
                false => [own.payload, &expected].concat(),
            };
            assert_eq!((row.payload, row.unix_ns), (&expected[..], own.unix_ns));
            assert_eq!((row.callsite, row.thread), (own.callsite, own.thread));
            count += 1;
        }
        assert_eq!((count, block.head().records), (600, 600));
        assert_eq!(block.head().times, (0, 299));
        assert_eq!(block.head().level_counts, batch.block.head().level_counts);
        assert!(block.head().filter().may_have(b"order"));
    }

    /// Queries leave out the same blocks and columns of a log, whether its records came as columns or one by one.
    #[test]
    fn summaries_and_filter_are_those_of_a_block_that_was_made_of_the_rows() {
        let (batch, callsites) = batch();
        let (block, rows) = stored(&batch, &callsites).expect("stored");
        let mut expected = Vec::new();
        crate::Encoder::default()
            .encode(&rows, &mut expected)
            .expect("a block");
        let expected = BlockHead::decode(&expected).expect("a head");
        let summaries = |head: &BlockHead| -> Vec<_> {
            let groups = head.groups.iter();
            groups
                .map(|group| (group.kind.clone(), group.summaries.clone()))
                .collect()
        };
        assert_eq!(summaries(block.head()), summaries(&expected));
        assert_eq!(block.head().filter, expected.filter);
        let of_large = block.head().summary(0, 1);
        assert!(
            matches!(of_large, ColumnSummary::Integers { in_filter: true, .. }),
            "{of_large:?}"
        );
        for token in ["state", "order", "slow", "0f", "uid", "1000"] {
            assert!(block.head().filter().may_have(token.as_bytes()), "{token}");
        }
        assert!(!block.head().filter().may_have(b"absent"));
    }

    #[test]
    fn a_group_of_another_kind_than_its_callsite_is_refused() {
        for wrong in [0, 1] {
            let (mut batch, callsites) = batch();
            let group = batch.block.head_mut().groups.get_mut(0).expect("a group");
            group.kind = match wrong {
                0 => GroupKind::Fixed { callsite: 1 },
                _ => GroupKind::Dynamic {
                    callsite: 0,
                    shape: Vec::new(),
                },
            };
            assert!(stored(&batch, &callsites).is_none());
        }
    }

    /// A buffer that becomes several batches defines its callsites in all of them, also where they have no records.
    #[test]
    fn a_callsite_without_records_has_the_columns_of_the_texts() {
        let site = |name: &str| Callsite {
            message: name.to_owned(),
            fields: site(&[FieldKind::plain(Kind::U64)], false).fields,
            ..Callsite::default()
        };
        let sites = [site("once"), site("often")];
        let named = sites
            .clone()
            .map(|site| RowCallsite::new(&site, None).expect("a callsite"));
        let (mut writer, mut rows, mut at) = (RowWriter::default(), vec![0; 1 << 16], 0);
        for number in 0..200u64 {
            let callsite = &named[usize::from(number > 0)];
            let thread = RowThread { id: 1, name: "main" };
            at = writer
                .record(&mut rows, at, callsite, thread, number, &number.to_le_bytes())
                .expect("room");
        }
        let batches = BatchEncoder::default()
            .encode(&rows[..at], 2_000)
            .expect("batches");
        let mut dictionary = BatchDictionary::default();
        let mut records = 0;
        for batch in &batches {
            for definition in &batch.definitions {
                dictionary
                    .define(definition.number, &definition.bytes)
                    .expect("a definition");
            }
            let read = Batch::read(&batch.block, &dictionary).expect("a batch");
            let callsites = sites.clone().map(with_values);
            let (_, bytes) = stored(&read, &callsites[..read.callsites.len()]).expect("stored");
            let mut rows = Rows::new(&bytes);
            while rows.next_row().expect("a row").is_some() {
                records += 1;
            }
        }
        assert_eq!((batches.len() > 1, records), (true, 200));
    }

    /// The columns are the sender's, so that what no reader could use must not come into the log.
    #[test]
    fn whatever_a_sender_puts_into_columns_is_readable_or_refused() {
        let (batch, callsites) = batch();
        let (mut random, mut kept, mut refused) = (Random::new(5), 0, 0);
        for _ in 0..500 {
            let mut block = batch.block.clone();
            for _ in 0..=random.below(2) {
                block.flip_bit(&mut |end| random.below(end));
            }
            let flipped = Batch {
                block,
                callsites: batch.callsites.clone(),
            };
            let Some((block, bytes)) = stored(&flipped, &callsites) else {
                refused += 1;
                continue;
            };
            kept += 1;
            let mut rows = Rows::new(&bytes);
            while let Some(row) = rows.next_row().expect("a row") {
                let site = &block.head().callsites[row.callsite.expect("a callsite") as usize].callsite;
                let mut cursor = Cursor::new(row.payload);
                for field in &site.fields {
                    Value::read(field.kind, &mut cursor).expect("a value of its kind");
                }
            }
        }
        assert!(kept > 25 && refused > 25, "{kept} kept, {refused} refused");
    }
}
