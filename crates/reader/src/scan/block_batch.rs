//! The records of a group of a block as a query asks them: column by column, each read when it is asked, and the block itself
//! when its head does not say enough.

use super::column_test::{Ask, column_rows, is_text};
use super::message_parts::MessageParts;
use super::summary_test::Summary;
use crate::filter::Filter;
use crate::record_values::{OwnPart, own_part};
use logdrive_drain::layout::{Layout, Plan, Record, Thread};
use logdrive_query::{Batch, Selection, ValueTest};
use logdrive_store::{
    Block, BlockHead, BlockPlace, DictionaryCallsite, GroupColumn, GroupKind, StoreError, StoredColumn, Texts,
};
use logdrive_wire::{Kind, Level};
use std::fs::File;
use std::io;

/// A block whose columns are read when they are needed.
pub(crate) struct LazyBlock<'a> {
    file: &'a File,
    place: BlockPlace,
    pub(crate) head: BlockHead,
    block: Option<Block>,
    times: Option<Vec<Vec<u64>>>,
    threads: Option<Vec<Vec<u64>>>,
    order: Option<Vec<u64>>,
}

/// Reason why a block cannot be asked.
#[derive(Debug)]
pub(crate) enum BlockError {
    Io(io::Error),
    Damage(StoreError),
}

impl From<io::Error> for BlockError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<StoreError> for BlockError {
    fn from(error: StoreError) -> Self {
        Self::Damage(error)
    }
}

impl<'a> LazyBlock<'a> {
    /// Reads the head.
    pub(crate) fn read(file: &'a File, place: BlockPlace) -> Result<Self, BlockError> {
        Ok(Self {
            file,
            place,
            head: place.read_head(file)??,
            block: None,
            times: None,
            threads: None,
            order: None,
        })
    }

    /// The block with its columns.
    pub(crate) fn block(&mut self) -> Result<&Block, BlockError> {
        if self.block.is_none() {
            self.block = Some(self.place.read_body(self.file, self.head.clone())??);
        }
        self.block.as_ref().ok_or(BlockError::Damage(StoreError::NoBlock))
    }

    /// Number of the group of each record.
    pub(crate) fn order(&mut self) -> Result<&[u64], BlockError> {
        if self.order.is_none() {
            self.order = Some(self.block()?.order()?);
        }
        Ok(self.order.as_deref().unwrap_or_default())
    }

    /// Values of a column of the spine, by group.
    fn by_group(&mut self, values: Vec<u64>) -> Result<Vec<Vec<u64>>, BlockError> {
        let counts: Vec<usize> = self.head.groups().map(|(_, count)| count).collect();
        let mut groups: Vec<Vec<u64>> = counts.into_iter().map(Vec::with_capacity).collect();
        for (number, value) in self.order()?.iter().zip(values) {
            if let Some(group) = groups.get_mut(*number as usize) {
                group.push(value);
            }
        }
        Ok(groups)
    }

    /// Times of the records of a group.
    pub(crate) fn times(&mut self, group: usize) -> Result<&[u64], BlockError> {
        if self.times.is_none() {
            let times = self.block()?.times()?;
            self.times = Some(self.by_group(times)?);
        }
        Ok(self
            .times
            .as_ref()
            .and_then(|times| times.get(group))
            .map_or(&[], Vec::as_slice))
    }

    /// Numbers of the threads of the records of a group.
    pub(crate) fn threads(&mut self, group: usize) -> Result<&[u64], BlockError> {
        if self.threads.is_none() {
            let threads = self.block()?.threads()?;
            self.threads = Some(self.by_group(threads)?);
        }
        Ok(self
            .threads
            .as_ref()
            .and_then(|threads| threads.get(group))
            .map_or(&[], Vec::as_slice))
    }
}

/// The thread of a number, as layouts take it.
pub(crate) fn thread_of(head: &BlockHead, number: u64) -> Thread<'_> {
    let thread = usize::try_from(number)
        .ok()
        .and_then(|number| head.threads.get(number));
    Thread {
        name: thread.map_or("", |thread| &thread.name),
        id: thread.map_or(0, |thread| thread.id),
    }
}

/// Name by which a thread is asked.
fn thread_name(thread: &Thread<'_>) -> Vec<u8> {
    match thread.name {
        "" => thread.id.to_string().into_bytes(),
        name => name.as_bytes().to_vec(),
    }
}

/// A group of records that have a callsite, and columns for their fields.
pub(crate) struct GroupBatch<'a, 'f> {
    block: &'a mut LazyBlock<'f>,
    filter: &'a Filter,
    messages: &'a mut Layout,
    space: &'a mut [u8],
    group: usize,
    rows: usize,
    site: DictionaryCallsite,
    fields: Vec<GroupColumn>,
    columns: Vec<Option<StoredColumn>>,
    payloads: Option<Texts>,
    /// The first error; what was selected behind it means nothing.
    pub(crate) error: Option<BlockError>,
}

/// Callsite and fields of a group, where all of its values have columns that can be asked one by one.
fn columns_of(head: &BlockHead, group: usize) -> Option<(DictionaryCallsite, Vec<GroupColumn>)> {
    let (kind, _) = head.groups().nth(group)?;
    let callsite = match kind {
        GroupKind::Fixed { callsite } | GroupKind::Dynamic { callsite, .. } => *callsite,
        _ => return None,
    };
    let site = head.callsites.get(callsite as usize)?.clone();
    let fields = head.fields(group).ok()?;
    let is_single =
        |column: &GroupColumn| !matches!(column.kind.kind, Kind::Scope | Kind::Message | Kind::None);
    let is_plain = fields.iter().all(is_single) && !site.callsite.dynamic;
    is_plain.then_some((site, fields))
}

impl<'a, 'f> GroupBatch<'a, 'f> {
    /// The group, where it can be asked column by column.
    pub(crate) fn new(
        block: &'a mut LazyBlock<'f>,
        group: usize,
        filter: &'a Filter,
        messages: &'a mut Layout,
        space: &'a mut [u8],
    ) -> Option<Self> {
        let (site, fields) = columns_of(&block.head, group)?;
        let rows = block.head.groups().nth(group).map_or(0, |(_, rows)| rows);
        Some(Self {
            block,
            filter,
            messages,
            space,
            group,
            rows,
            site,
            columns: fields.iter().map(|_| None).collect(),
            fields,
            payloads: None,
            error: None,
        })
    }

    /// Whether all records have the same values of these fields.
    pub(crate) fn is_constant(&self, fields: &[String]) -> bool {
        let is_constant = |field: &String| {
            let is_column = self.fields.iter().any(|column| column.name == *field);
            match field.as_str() {
                "level" => !is_column,
                name => !is_column && name != "_time" && !self.varies(own_part(name)),
            }
        };
        fields.iter().all(is_constant)
    }

    /// Whether an own part differs from record to record.
    fn varies(&self, part: Option<OwnPart>) -> bool {
        match part {
            Some(OwnPart::Thread) => self.block.head.threads.len() > 1,
            Some(OwnPart::Message) => self.constant_message().is_none(),
            _ => false,
        }
    }

    /// The message, where it shows no values.
    fn constant_message(&self) -> Option<&str> {
        let message = self.site.callsite.message.as_str();
        (!message.contains(['{', '}'])).then_some(message)
    }

    fn column(&mut self, number: usize) -> Result<&StoredColumn, BlockError> {
        let missing = || {
            BlockError::Damage(StoreError::Contradiction {
                what: "number of a column",
            })
        };
        let group = self.group;
        let place = self.columns.get_mut(number).ok_or_else(missing)?;
        if place.is_none() {
            *place = Some(self.block.block()?.column(group, number)?);
        }
        place.as_ref().ok_or_else(missing)
    }

    /// Rows of which a column is as asked.
    fn column_rows(
        &mut self,
        number: usize,
        ask: &Ask<'_>,
        within: &Selection,
    ) -> Result<Selection, BlockError> {
        let Some(kind) = self.fields.get(number).map(|column| column.kind.kind) else {
            return Ok(Selection::none(self.rows));
        };
        if let Ask::Test(test) = ask
            && !Summary::new(&self.block.head, self.group, number, kind).may_pass(*test)
        {
            return Ok(Selection::none(self.rows));
        }
        let is_loaded = self.columns.get(number).is_some_and(Option::is_some);
        if !is_loaded
            && is_text(kind)
            && let Ask::Test(test) = ask
        {
            let filter = self.block.head.filter();
            let may_be_plain = test.may_pass_with(&mut |word| filter.may_have(word));
            let block = self.block.block()?;
            let column = block.column_with(self.group, number, may_be_plain, &|value| test.passes(value))?;
            let Some(column) = column else {
                return Ok(Selection::none(self.rows));
            };
            if let Some(place) = self.columns.get_mut(number) {
                *place = Some(column);
            }
        }
        let column = self.column(number)?;
        Ok(column_rows(column, kind, ask, within))
    }

    fn constant_rows(&self, passes: bool) -> Selection {
        match passes {
            true => Selection::all(self.rows),
            false => Selection::none(self.rows),
        }
    }

    /// Rows of which an own part is as asked.
    fn part_rows(
        &mut self,
        part: OwnPart,
        ask: &Ask<'_>,
        within: &Selection,
    ) -> Result<Selection, BlockError> {
        let site = &self.site;
        let some = |text: &str| !text.is_empty() && ask.passes(text.as_bytes());
        let passes = match part {
            OwnPart::App => match (&site.process, &self.filter.process) {
                (Some(process), _) => some(&process.app),
                (None, known) => known.as_ref().is_some_and(|(app, _)| some(app)),
            },
            OwnPart::Pid => match (&site.process, &self.filter.process) {
                (Some(process), _) => some(&process.pid.to_string()),
                (None, known) => known.as_ref().is_some_and(|(_, pid)| some(pid)),
            },
            OwnPart::Module => some(site.callsite.target_or_module()),
            OwnPart::File | OwnPart::Path => {
                let path = &site.callsite.file;
                some(path) || some(path.rsplit(['/', '\\']).next().unwrap_or_default())
            }
            OwnPart::Line => site.callsite.line > 0 && some(&site.callsite.line.to_string()),
            OwnPart::Thread => return self.thread_rows(ask, within),
            OwnPart::Message => return self.message_rows(ask, within),
        };
        Ok(self.constant_rows(passes))
    }

    fn thread_rows(&mut self, ask: &Ask<'_>, _: &Selection) -> Result<Selection, BlockError> {
        let head = &self.block.head;
        let count = head.threads.len() as u64;
        let numbers = (0..count).chain([u64::from(u32::MAX)]);
        let known: Vec<(u64, bool)> = numbers
            .map(|number| (number, ask.passes(&thread_name(&thread_of(head, number)))))
            .collect();
        if known.iter().all(|(_, passes)| !passes) {
            return Ok(self.constant_rows(false));
        }
        let other = known.last().is_some_and(|(_, passes)| *passes);
        let threads = self.block.threads(self.group)?;
        Ok(Selection::of_values(threads, |number| {
            known.get(number as usize).map_or(other, |(_, passes)| *passes)
        }))
    }

    fn message_rows(&mut self, ask: &Ask<'_>, within: &Selection) -> Result<Selection, BlockError> {
        if let Some(message) = self.constant_message() {
            let passes = ask.passes(message.as_bytes());
            return Ok(self.constant_rows(passes));
        }
        let parts = MessageParts::of(&self.site.callsite);
        if parts.is_exact() && ask.is_of_one_word() {
            let mut rows = self.constant_rows(ask.passes(parts.text.as_bytes()));
            for column in parts.columns {
                let found = self.column_rows(column, ask, within)?;
                rows = rows.or(&found);
            }
            return Ok(rows);
        }
        if let Ask::Test(test) = ask
            && !test.may_pass_with(&mut |word| self.may_show_word(word, &parts))
        {
            return Ok(self.constant_rows(false));
        }
        if self.payloads.is_none() {
            self.payloads = Some(self.block.block()?.payloads(self.group)?);
        }
        let plan = self.messages.compile(&self.site.callsite);
        let mut rows = Selection::none(self.rows);
        let payloads = self.payloads.take().unwrap_or_default();
        for row in within.iter() {
            let message = self.lay_out(&plan, payloads.value(row));
            if ask.passes(message.strip_suffix(b"\n").unwrap_or(message)) {
                rows.insert(row);
            }
        }
        self.payloads = Some(payloads);
        Ok(rows)
    }

    fn lay_out(&mut self, plan: &Plan, payload: &[u8]) -> &[u8] {
        let record = Record {
            unix_ns: 0,
            thread: Thread { name: "", id: 0 },
            payload,
        };
        plan.line_in(self.messages, &record, self.space)
    }

    /// Whether a word may stand in a message of these parts.
    fn may_show_word(&self, word: &[u8], parts: &MessageParts) -> bool {
        let may_have = |number: &usize| {
            let kind = self.fields.get(*number).map(|column| column.kind.kind);
            kind.is_some_and(|kind| {
                Summary::new(&self.block.head, self.group, *number, kind).may_have_word(word)
            })
        };
        parts.may_show(word) || parts.columns.iter().any(may_have)
    }

    fn field_rows(
        &mut self,
        field: Option<&str>,
        ask: &Ask<'_>,
        within: &Selection,
    ) -> Result<Selection, BlockError> {
        let mut rows = Selection::none(self.rows);
        let part = field.map_or(Some(OwnPart::Message), own_part);
        let columns = 0..self.fields.len();
        let named = columns.filter(|number| {
            let column = self.fields.get(*number);
            field.is_none_or(|field| column.is_some_and(|column| column.name == field))
        });
        let mut named: Vec<usize> = named.collect();
        // Integers are the cheapest, and what was found in one column is not looked for in the next.
        named.sort_by_key(|number| self.fields.get(*number).map(|column| is_text(column.kind.kind)));
        let is_cheap = part.is_some_and(|part| !self.varies(Some(part)));
        if let Some(part) = part.filter(|_| is_cheap) {
            rows = self.part_rows(part, ask, within)?;
        }
        for number in named {
            let left = within.clone().without(&rows);
            if left.is_empty() {
                return Ok(rows);
            }
            rows = rows.or(&self.column_rows(number, ask, &left)?);
        }
        if let Some(part) = part.filter(|_| !is_cheap) {
            let left = within.clone().without(&rows);
            rows = rows.or(&self.part_rows(part, ask, &left)?);
        }
        Ok(rows)
    }
}

impl Batch for GroupBatch<'_, '_> {
    fn level(&self) -> Option<Level> {
        Some(self.site.callsite.level)
    }

    fn between(&mut self, first: u64, last: u64, within: &Selection) -> Selection {
        let (least, largest) = self.block.head.times;
        if least >= first && largest <= last {
            return within.clone();
        }
        if largest < first || least > last {
            return Selection::none(self.rows);
        }
        match self.block.times(self.group) {
            Ok(times) => Selection::of_values(times, |time| first <= time && time <= last).and(within),
            Err(error) => {
                self.error.get_or_insert(error);
                Selection::none(self.rows)
            }
        }
    }

    fn test(&mut self, field: Option<&str>, test: ValueTest<'_>, within: &Selection) -> Selection {
        if self.error.is_some() {
            return Selection::none(self.rows);
        }
        let rows = match field.is_some() && test.is_for_empty() {
            true => self
                .field_rows(field, &Ask::NotEmpty, within)
                .map(|filled| within.clone().without(&filled)),
            false => self.field_rows(field, &Ask::Test(test), within),
        };
        match rows {
            Ok(rows) => rows.and(within),
            Err(error) => {
                self.error.get_or_insert(error);
                Selection::none(self.rows)
            }
        }
    }

    fn cost(&self, field: Option<&str>) -> u32 {
        let Some(field) = field else {
            return 1_000;
        };
        let columns = self.fields.iter().filter(|column| column.name == field);
        let columns = columns.map(|column| if is_text(column.kind.kind) { 100 } else { 10 });
        let part = match own_part(field) {
            Some(OwnPart::Message) if self.constant_message().is_none() => 500,
            Some(OwnPart::Thread) => 20,
            _ => 1,
        };
        columns.sum::<u32>() + part
    }
}
