//! The records of a block that a query finds.

use super::block_batch::{BlockError, GroupBatch, LazyBlock, thread_of};
use super::summary_test::may_pass_group;
use super::task::Task;
use crate::filter::{Filter, LineFilter};
use crate::head::read_head;
use crate::limits::RECORD_BYTES_MAX;
use crate::record_values::QueriedRecord;
use crate::segment::may_pass;
use crate::typed::{TypedRecord, message_style};
use logdrive_drain::layout::{Layout, LayoutError, Plan, ProcessInfo, Record, Style};
use logdrive_query::Selection;
use logdrive_store::{DictionaryCallsite, GroupKind, Rows, Texts};
use std::ops::ControlFlow;

/// Room for a line.
const LINE_BYTES: usize = 1 << 20;

/// Lines of text of a block at its borders: their record may begin before it, or go on behind it.
#[derive(Debug, Default)]
pub(crate) struct BorderLines {
    /// Lines before the first record.
    pub(crate) leading: Vec<u8>,
    /// The last record, where it may go on. A record that is typed, or whose block is left out, ends what is open before it.
    pub(crate) open: Vec<u8>,
    /// Whether a record begins in the block.
    pub(crate) begins: bool,
}

/// Layouts with which records of segments are asked and printed.
pub(crate) struct BlockScan {
    filter: Filter,
    lines: Layout,
    messages: Layout,
    text: LineFilter,
    space: Vec<u8>,
}

/// Records of one group, with what it takes to give them away.
struct GroupRecords {
    site: DictionaryCallsite,
    line: Plan,
    message: Plan,
    payloads: Texts,
    times: Vec<u64>,
    threads: Vec<u64>,
    selected: Selection,
    /// Number of the next record in the order of the log.
    next: usize,
}

impl BlockScan {
    pub(crate) fn new(filter: Filter, style: Style) -> Result<Self, LayoutError> {
        Ok(Self {
            lines: Layout::new(style.into(), ProcessInfo::default())?,
            messages: Layout::new(message_style().into(), ProcessInfo::default())?,
            text: LineFilter::new(filter.clone()),
            filter,
            space: vec![0; LINE_BYTES],
        })
    }

    /// Gives the records of a block that pass to the task. Lines of text at its borders are given back.
    pub(crate) fn scan(
        &mut self,
        block: &mut LazyBlock<'_>,
        task: &mut impl Task,
    ) -> Result<BorderLines, BlockError> {
        if !may_pass(&self.filter, &block.head) {
            return Ok(BorderLines {
                begins: true,
                ..BorderLines::default()
            });
        }
        let is_text = |kind: &GroupKind| matches!(kind, GroupKind::Template { .. } | GroupKind::Lines { .. });
        if block.head.groups().any(|(kind, _)| is_text(kind)) {
            return self.scan_rows(block, task);
        }
        let counts: Vec<usize> = block.head.groups().map(|(_, rows)| rows).collect();
        let mut found: Vec<Option<GroupRecords>> = Vec::with_capacity(counts.len());
        for (group, rows) in counts.into_iter().enumerate() {
            let selected = match rows {
                0 => Selection::none(0),
                _ => self.select(block, group, rows, task)?,
            };
            found.push(match selected.is_empty() {
                true => None,
                false => Some(self.records(block, group, selected)?),
            });
        }
        self.give(block, &mut found, task)?;
        Ok(BorderLines {
            begins: true,
            ..BorderLines::default()
        })
    }

    /// Rows of a group that pass. Those that are only counted are counted here, and not selected.
    fn select(
        &mut self,
        block: &mut LazyBlock<'_>,
        group: usize,
        rows: usize,
        task: &mut impl Task,
    ) -> Result<Selection, BlockError> {
        let Self {
            filter,
            messages,
            space,
            ..
        } = self;
        if let Some(query) = &filter.query
            && !may_pass_group(query, &block.head, group)
        {
            return Ok(Selection::none(rows));
        }
        let Some(mut batch) = GroupBatch::new(block, group, filter, messages, space) else {
            return self.select_rows(block, group, rows);
        };
        let mut selected = match &filter.query {
            Some(query) => query.select(&mut batch, rows),
            None => Selection::all(rows),
        };
        let times = (filter.since_ns.unwrap_or(0), filter.until_ns.unwrap_or(u64::MAX));
        selected = logdrive_query::Batch::between(&mut batch, times.0, times.1, &selected);
        if let Some(error) = batch.error.take() {
            return Err(error);
        }
        let is_counted = task
            .counted_fields()
            .is_some_and(|fields| batch.is_constant(fields));
        if !is_counted || selected.is_empty() {
            return Ok(selected);
        }
        let kind = block.head.groups().nth(group).map(|(kind, _)| kind.clone());
        if let Some(GroupKind::Fixed { callsite }) = kind
            && let Some(site) = block.head.callsites.get(callsite as usize)
        {
            let plan = self.messages.compile(&site.callsite);
            let record = Record {
                unix_ns: block.head.times.0,
                thread: thread_of(&block.head, 0),
                payload: &[],
            };
            let mut typed = typed(site, &record, &mut self.messages, &plan, &mut self.space, None);
            task.count(&mut asked(&mut typed, &self.filter), selected.count());
            return Ok(Selection::none(rows));
        }
        Ok(selected)
    }

    /// The same for groups whose values have no columns of their own: record by record.
    fn select_rows(
        &mut self,
        block: &mut LazyBlock<'_>,
        group: usize,
        rows: usize,
    ) -> Result<Selection, BlockError> {
        let records = self.records(block, group, Selection::all(rows))?;
        let mut selected = Selection::none(rows);
        for row in 0..rows {
            let record = records.record(&block.head, row);
            let mut typed = typed(
                &records.site,
                &record,
                &mut self.messages,
                &records.message,
                &mut self.space,
                None,
            );
            if typed.passes(&self.filter) {
                selected.insert(row);
            }
        }
        Ok(selected)
    }

    /// Reads what it takes to give records of a group away.
    fn records(
        &mut self,
        block: &mut LazyBlock<'_>,
        group: usize,
        selected: Selection,
    ) -> Result<GroupRecords, BlockError> {
        let kind = block.head.groups().nth(group).map(|(kind, _)| kind.clone());
        let number = match kind {
            Some(
                GroupKind::Fixed { callsite }
                | GroupKind::Dynamic { callsite, .. }
                | GroupKind::Whole { callsite },
            ) => callsite as usize,
            _ => usize::MAX,
        };
        let missing = logdrive_store::StoreError::Contradiction {
            what: "callsite of a group",
        };
        let site = block.head.callsites.get(number).cloned().ok_or(missing)?;
        Ok(GroupRecords {
            line: Plan::of_stored(&self.lines, &site.callsite, site.process.as_ref()),
            message: self.messages.compile(&site.callsite),
            payloads: block.block()?.payloads(group)?,
            times: block.times(group)?.to_vec(),
            threads: block.threads(group)?.to_vec(),
            site,
            selected,
            next: 0,
        })
    }

    /// Gives the records of all groups away, in the order of the log.
    fn give(
        &mut self,
        block: &mut LazyBlock<'_>,
        groups: &mut [Option<GroupRecords>],
        task: &mut impl Task,
    ) -> Result<(), BlockError> {
        if groups.iter().all(Option::is_none) {
            return Ok(());
        }
        let order = block.order()?.to_vec();
        for number in order {
            let Some(group) = groups.get_mut(number as usize).and_then(Option::as_mut) else {
                continue;
            };
            let row = group.next;
            group.next += 1;
            if !group.selected.contains(row) {
                continue;
            }
            let record = group.record(&block.head, row);
            let mut typed = typed(
                &group.site,
                &record,
                &mut self.messages,
                &group.message,
                &mut self.space,
                Some((&mut self.lines, &group.line)),
            );
            if task.take(&mut asked(&mut typed, &self.filter)).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Goes through a block with lines of text, row by row.
    fn scan_rows(
        &mut self,
        block: &mut LazyBlock<'_>,
        task: &mut impl Task,
    ) -> Result<BorderLines, BlockError> {
        let mut border = BorderLines::default();
        let bytes = block.block()?.rows()?;
        let callsites = &block.head.callsites;
        let plans: Vec<(Plan, Plan)> = callsites
            .iter()
            .map(|known| {
                (
                    self.lines.compile(&known.callsite),
                    self.messages.compile(&known.callsite),
                )
            })
            .collect();
        let mut rows = Rows::new(&bytes);
        let mut flow = ControlFlow::Continue(());
        while let Some(row) = rows.next_row()? {
            let number = row.callsite.map(|number| number as usize);
            let known = number.and_then(|number| callsites.get(number).zip(plans.get(number)));
            if let Some((site, (line, message))) = known {
                flow = flow_of(flow, self.close(&mut border, task));
                let record = Record {
                    unix_ns: row.unix_ns,
                    thread: thread_of(&block.head, row.thread.map_or(u64::MAX, u64::from)),
                    payload: row.payload,
                };
                let lines = Some((&mut self.lines, line));
                let mut typed = typed(site, &record, &mut self.messages, message, &mut self.space, lines);
                if typed.passes(&self.filter) && flow.is_continue() {
                    flow = task.take(&mut asked(&mut typed, &self.filter));
                }
                continue;
            }
            let begins = read_head(row.payload, &mut self.text.times).is_some();
            if begins || border.open.len() > RECORD_BYTES_MAX {
                flow = flow_of(flow, self.close(&mut border, task));
            }
            border.begins |= begins;
            let lines = match border.begins {
                true => &mut border.open,
                false => &mut border.leading,
            };
            lines.extend_from_slice(row.payload);
            lines.push(b'\n');
        }
        Ok(border)
    }

    /// Ends the record of text that is open.
    fn close(&mut self, border: &mut BorderLines, task: &mut impl Task) -> ControlFlow<()> {
        border.begins = true;
        let flow = self.give_lines(&border.open, task);
        border.open.clear();
        flow
    }

    /// Gives lines of one record to the task, if they pass.
    pub(crate) fn give_lines(&mut self, lines: &[u8], task: &mut impl Task) -> ControlFlow<()> {
        match lines.is_empty() {
            true => ControlFlow::Continue(()),
            false => self.text.ask(lines, &mut |record| task.take(record)),
        }
    }
}

fn flow_of(before: ControlFlow<()>, now: ControlFlow<()>) -> ControlFlow<()> {
    if before.is_break() { before } else { now }
}

impl GroupRecords {
    fn record<'a>(&'a self, head: &'a logdrive_store::BlockHead, row: usize) -> Record<'a> {
        Record {
            unix_ns: self.times.get(row).copied().unwrap_or(0),
            thread: thread_of(head, self.threads.get(row).copied().unwrap_or(u64::MAX)),
            payload: self.payloads.value(row),
        }
    }
}

fn typed<'a>(
    site: &'a DictionaryCallsite,
    record: &'a Record<'a>,
    messages: &'a mut Layout,
    message: &'a Plan,
    space: &'a mut [u8],
    lines: Option<(&'a mut Layout, &'a Plan)>,
) -> TypedRecord<'a> {
    let process = site.process.as_ref();
    TypedRecord {
        callsite: &site.callsite,
        process: process.map(|process| (process.app.as_str(), process.pid)),
        record,
        messages,
        message,
        space,
        lines,
    }
}

fn asked<'a, 'r>(typed: &'a mut TypedRecord<'r>, filter: &'a Filter) -> QueriedRecord<'a, TypedRecord<'r>> {
    QueriedRecord {
        unix_ns: Some(typed.record.unix_ns),
        level: Some(typed.callsite.level),
        values: typed,
        process: filter.process.as_ref(),
    }
}
