//! Pipes at work: records go in, records or rows come out.

use crate::ast::{Extraction, Pipe};
use crate::groups::{Groups, Purpose};
use crate::plan::Plan;
use crate::record::{Record, Row, first_value};
use crate::sorted::Sorted;
use memchr::memmem;
use regex::bytes::Regex;
use std::ops::ControlFlow;

/// Receiver of what comes out of the last pipe.
pub trait Output {
    /// Takes the next record. [`ControlFlow::Break`]: nothing more is wanted.
    fn take(&mut self, record: &mut dyn Record) -> ControlFlow<()>;
}

impl<F: FnMut(&mut dyn Record) -> ControlFlow<()>> Output for F {
    fn take(&mut self, record: &mut dyn Record) -> ControlFlow<()> {
        self(record)
    }
}

/// The pipes of a query, with what they keep.
///
/// ```
/// use logdrive_query::{Query, Record, Row};
/// use std::ops::ControlFlow;
/// let mut pipeline = Query::parse("* | stats count() by (user)")?.pipeline(0);
/// let mut rows = Vec::new();
/// let mut output = |record: &mut dyn Record| {
///     rows.push(record.row());
///     ControlFlow::Continue(())
/// };
/// for user in ["ann", "bob", "ann"] {
///     let mut record = Row::default();
///     record.push("user", user);
///     let _ = pipeline.push(&mut record, &mut output);
/// }
/// pipeline.finish(&mut output);
/// assert_eq!(*rows[0].cells[1].1, *b"2");
/// # Ok::<(), logdrive_query::QueryError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pipeline {
    stages: Vec<Stage>,
    notes: Vec<String>,
}

#[derive(Debug, Clone)]
enum Stage {
    Filter(Box<Plan>),
    Groups(Box<Groups>),
    Sorted(Box<Sorted>),
    Limit(u64),
    Offset(u64),
    Fields(Vec<String>),
    Extract(Extraction, String),
    ExtractRegexp(Regex, String),
}

impl Stage {
    fn new(pipe: &Pipe, next: Option<&Pipe>, now_unix_ns: u64) -> Self {
        let from = |from: &Option<String>| from.clone().unwrap_or_else(|| "message".to_owned());
        match pipe {
            Pipe::Filter(filter) => Self::Filter(Box::new(Plan::new(filter, now_unix_ns))),
            Pipe::Stats { by, functions } => Self::Groups(Box::new(Groups::new(
                by.clone(),
                functions.clone(),
                Purpose::Stats,
            ))),
            Pipe::Top { count, by } => {
                Self::Groups(Box::new(Groups::counted(by.clone(), Purpose::Top(*count))))
            }
            Pipe::Uniq { by, hits, limit } => {
                let (hits, limit) = (*hits, *limit);
                Self::Groups(Box::new(Groups::counted(
                    by.clone(),
                    Purpose::Uniq { hits, limit },
                )))
            }
            Pipe::Sort { by, limit } => {
                let next = match next {
                    Some(Pipe::Limit(count)) => Some(*count),
                    _ => None,
                };
                let limit = limit.iter().copied().chain(next).min();
                Self::Sorted(Box::new(Sorted::new(by.clone(), limit)))
            }
            Pipe::Limit(count) => Self::Limit(*count),
            Pipe::Offset(count) => Self::Offset(*count),
            Pipe::Fields(fields) => Self::Fields(fields.clone()),
            Pipe::Extract { pattern, from: field } => Self::Extract(pattern.clone(), from(field)),
            Pipe::ExtractRegexp { pattern, from: field } => {
                Self::ExtractRegexp(pattern.0.clone(), from(field))
            }
        }
    }

    fn is_collecting(&self) -> bool {
        matches!(self, Self::Groups(_) | Self::Sorted(_))
    }
}

impl Pipeline {
    pub(crate) fn new(pipes: &[Pipe], now_unix_ns: u64) -> Self {
        let nexts = pipes.iter().skip(1).map(Some).chain([None]);
        let stages = pipes.iter().zip(nexts);
        Self {
            stages: stages
                .map(|(pipe, next)| Stage::new(pipe, next, now_unix_ns))
                .collect(),
            notes: Vec::new(),
        }
    }

    /// Whether records come out as they went in, with their lines.
    pub fn keeps_records(&self) -> bool {
        let keeps = |stage: &Stage| {
            matches!(
                stage,
                Stage::Filter(_) | Stage::Sorted(_) | Stage::Limit(_) | Stage::Offset(_)
            )
        };
        self.stages.iter().all(keeps)
    }

    /// Whether nothing comes out before [`Pipeline::finish`], in whatever order records go in, so that several pipelines
    /// may share them ([`Pipeline::merge`]).
    pub fn can_be_shared(&self) -> bool {
        let ordered = |stage: &Stage| matches!(stage, Stage::Limit(_) | Stage::Offset(_));
        let before = self.stages.iter().take_while(|stage| !stage.is_collecting());
        let first = self.stages.iter().find(|stage| stage.is_collecting());
        matches!(first, Some(Stage::Groups(_))) && !before.into_iter().any(ordered)
    }

    /// Puts a record in. [`ControlFlow::Break`]: no further one changes anything.
    pub fn push(&mut self, record: &mut dyn Record, output: &mut dyn Output) -> ControlFlow<()> {
        push(&mut self.stages, record, output)
    }

    /// Takes the first pipes off that look at each record by itself.
    pub fn split_front(&mut self) -> Self {
        let is_alone = |stage: &Stage| {
            let waits = matches!(stage, Stage::Limit(_) | Stage::Offset(_));
            !stage.is_collecting() && !waits
        };
        let count = self.stages.iter().take_while(|stage| is_alone(stage)).count();
        let rest = self.stages.split_off(count);
        Self {
            stages: std::mem::replace(&mut self.stages, rest),
            notes: Vec::new(),
        }
    }

    /// Number of the first records that are wanted, where later ones change nothing.
    pub fn wanted_records(&self) -> Option<u64> {
        match self.stages.as_slice() {
            [Stage::Limit(count), ..] => Some(*count),
            [Stage::Offset(offset), Stage::Limit(count), ..] => offset.checked_add(*count),
            _ => None,
        }
    }

    /// Whether the first pipe sorts, so that parts of the records can be sorted by themselves ([`Pipeline::merge`]).
    pub fn begins_with_sort(&self) -> bool {
        matches!(self.stages.first(), Some(Stage::Sorted(_)))
    }

    /// Takes what a first pipe that sorts has kept, to be merged with what others have, and goes on without it.
    #[must_use]
    pub fn take_sorted(&mut self, empty: &Self) -> Self {
        let mut next = empty.clone();
        if let (Some(Stage::Sorted(own)), Some(Stage::Sorted(next))) =
            (self.stages.first_mut(), next.stages.first_mut())
        {
            // The rows go with the pipes that were here; the new ones know what is not wanted any more.
            let kept = own.split();
            **next = std::mem::replace(own, kept);
        }
        std::mem::replace(self, next)
    }

    /// Fields on which the result depends, where the first pipe only counts records by them: then
    /// [`Pipeline::count`] takes many records at once.
    pub fn counted_fields(&self) -> Option<Vec<&str>> {
        match self.stages.first() {
            Some(Stage::Groups(groups)) => groups.counted_fields(),
            _ => None,
        }
    }

    /// Counts so many records that do not differ in the fields of [`Pipeline::counted_fields`].
    pub fn count(&mut self, record: &mut dyn Record, count: u64) {
        if let Some(Stage::Groups(groups)) = self.stages.first_mut() {
            groups.count(record, count);
        }
    }

    /// Bytes that groups take, about.
    pub fn group_bytes(&self) -> usize {
        let groups = self.stages.iter().map(|stage| match stage {
            Stage::Groups(groups) => groups.bytes(),
            _ => 0,
        });
        groups.sum()
    }

    /// Adds what another pipeline of the same query has kept, of records that stand behind those of this one.
    pub fn merge(&mut self, other: Self) {
        for (own, other) in self.stages.iter_mut().zip(other.stages) {
            match (own, other) {
                (Stage::Groups(own), Stage::Groups(other)) => return own.merge(*other),
                (Stage::Sorted(own), Stage::Sorted(other)) => return own.merge(*other),
                _ => {}
            }
        }
    }

    /// Gives out what was kept. It may be asked once.
    pub fn finish(&mut self, output: &mut dyn Output) {
        for at in 0..self.stages.len() {
            let (done, left) = self.stages.split_at_mut(at + 1);
            let rows = match done.last_mut() {
                Some(Stage::Groups(groups)) => {
                    groups.put_notes(&mut self.notes);
                    groups.take_rows()
                }
                Some(Stage::Sorted(sorted)) => {
                    sorted.put_notes(&mut self.notes);
                    sorted.take_rows()
                }
                _ => continue,
            };
            for mut row in rows {
                if push(left, &mut row, output).is_break() {
                    break;
                }
            }
        }
    }

    /// Takes what the reader of the output has to know: what was left out, and what is not exact.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

fn push(stages: &mut [Stage], record: &mut dyn Record, output: &mut dyn Output) -> ControlFlow<()> {
    let Some((stage, left)) = stages.split_first_mut() else {
        return output.take(record);
    };
    match stage {
        Stage::Filter(plan) => match plan.matches(record) {
            true => push(left, record, output),
            false => ControlFlow::Continue(()),
        },
        Stage::Groups(groups) => {
            groups.add(record);
            ControlFlow::Continue(())
        }
        Stage::Sorted(sorted) => {
            sorted.add(record);
            ControlFlow::Continue(())
        }
        Stage::Limit(0) => ControlFlow::Break(()),
        Stage::Limit(count) => {
            *count -= 1;
            let is_last = *count == 0;
            match push(left, record, output) {
                ControlFlow::Continue(()) if is_last => ControlFlow::Break(()),
                flow => flow,
            }
        }
        Stage::Offset(0) => push(left, record, output),
        Stage::Offset(count) => {
            *count -= 1;
            ControlFlow::Continue(())
        }
        Stage::Fields(fields) => push(left, &mut only(record, fields), output),
        Stage::Extract(pattern, from) => push(left, &mut extracted(record, pattern, from), output),
        Stage::ExtractRegexp(regex, from) => push(left, &mut captured(record, regex, from), output),
    }
}

fn only(record: &mut dyn Record, fields: &[String]) -> Row {
    let mut row = Row::default();
    let mut value = Vec::new();
    for field in fields {
        first_value(record, field, &mut value);
        row.push(field, &value);
    }
    row
}

/// The record with the fields of a pattern; without a match they are empty.
fn extracted(record: &mut dyn Record, pattern: &Extraction, from: &str) -> Row {
    let mut text = Vec::new();
    first_value(record, from, &mut text);
    let mut row = record.row();
    row.line = None;
    let values = parts_of(&text, pattern).unwrap_or_default();
    for (number, (name, _)) in pattern.parts.iter().enumerate() {
        if !name.is_empty() {
            row.set(name, values.get(number).copied().unwrap_or_default());
        }
    }
    row
}

/// Returns the texts at the places of the pattern's fields.
fn parts_of<'a>(text: &'a [u8], pattern: &Extraction) -> Option<Vec<&'a [u8]>> {
    let start = memmem::find(text, pattern.front.as_bytes())? + pattern.front.len();
    let mut rest = text.get(start..)?;
    let mut values = Vec::with_capacity(pattern.parts.len());
    for (_, behind) in &pattern.parts {
        let end = match behind.is_empty() {
            true => rest.len(),
            false => memmem::find(rest, behind.as_bytes())?,
        };
        let (value, left) = rest.split_at(end);
        values.push(value);
        rest = left.get(behind.len()..)?;
    }
    Some(values)
}

fn captured(record: &mut dyn Record, regex: &Regex, from: &str) -> Row {
    let mut text = Vec::new();
    first_value(record, from, &mut text);
    let mut row = record.row();
    row.line = None;
    let captures = regex.captures(&text);
    for name in regex.capture_names().flatten() {
        let found = captures.as_ref().and_then(|captures| captures.name(name));
        row.set(name, found.map_or(b"".as_slice(), |found| found.as_bytes()));
    }
    row
}
