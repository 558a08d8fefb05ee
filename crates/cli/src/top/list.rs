//! A list of the screen: rows of which some pass a filter, and one is selected.

use super::args::ProcessSort;
use crate::control_args::SortBy;
use crate::rates::{ProcessRow, SiteRow};
use clap::ValueEnum;
use std::cmp::Ordering;
use std::path::PathBuf;

/// Movement in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    By(isize),
    First,
    Last,
}

/// A row of a list.
pub(super) trait Row {
    /// Identifies the row.
    type Key: Clone + PartialEq;
    /// By what rows are sorted.
    type Sort: ValueEnum + Copy + PartialEq;

    fn key(&self) -> Self::Key;

    /// Texts that a filter searches.
    fn texts(&self) -> Vec<String>;

    fn compare(&self, other: &Self, by: Self::Sort) -> Ordering;
}

/// Rows with a filter, an order and a selection.
#[derive(Debug)]
pub(super) struct List<R: Row> {
    pub(super) rows: Vec<R>,
    pub(super) filter: String,
    pub(super) sort: R::Sort,
    selected: Option<R::Key>,
}

impl<R: Row> List<R> {
    pub(super) fn new(sort: R::Sort, filter: &str) -> Self {
        Self {
            rows: Vec::new(),
            filter: filter.to_owned(),
            sort,
            selected: None,
        }
    }

    /// Takes new rows, in any order.
    pub(super) fn set(&mut self, rows: Vec<R>) {
        self.rows = rows;
        self.rows.sort_by(|a, b| a.compare(b, self.sort));
    }

    /// Sorts by what comes next.
    pub(super) fn next_sort(&mut self) {
        let all = R::Sort::value_variants();
        let next = all.iter().skip_while(|sort| **sort != self.sort).nth(1);
        self.sort = next.or(all.first()).copied().unwrap_or(self.sort);
        let rows = std::mem::take(&mut self.rows);
        self.set(rows);
    }

    /// Name of what it is sorted by.
    pub(super) fn sort_name(&self) -> String {
        let value = self.sort.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The rows that pass the filter, in their order.
    pub(super) fn shown(&self) -> impl Iterator<Item = &R> {
        let wanted = self.filter.to_lowercase();
        let passes = move |row: &&R| {
            wanted.is_empty()
                || row
                    .texts()
                    .iter()
                    .any(|text| text.to_lowercase().contains(&wanted))
        };
        self.rows.iter().filter(passes)
    }

    /// Place of the selected row among those that are shown.
    pub(super) fn place(&self) -> Option<usize> {
        let key = self.selected.as_ref()?;
        self.shown().position(|row| row.key() == *key)
    }

    /// The selected row, if it is shown.
    pub(super) fn selected(&self) -> Option<&R> {
        self.shown().nth(self.place()?)
    }

    /// Key of what is selected, shown or not.
    pub(super) fn key(&self) -> Option<&R::Key> {
        self.selected.as_ref()
    }

    /// Selects a row by its key; whether that is another one.
    pub(super) fn select(&mut self, key: Option<R::Key>) -> bool {
        let is_other = self.selected != key;
        self.selected = key;
        is_other
    }

    /// Selects the first row that is shown; whether that is another one.
    pub(super) fn select_first(&mut self) -> bool {
        let first = self.shown().next().map(R::key);
        self.select(first)
    }

    /// Moves the selection; whether another row is selected then.
    pub(super) fn go(&mut self, step: Step) -> bool {
        let Some(last) = self.shown().count().checked_sub(1) else {
            return self.select(None);
        };
        let place = match (step, self.place()) {
            (Step::First, _) | (Step::By(_), None) => 0,
            (Step::Last, _) => last,
            (Step::By(by), Some(place)) => place.saturating_add_signed(by).min(last),
        };
        let key = self.shown().nth(place).map(R::key);
        self.select(key)
    }
}

impl Row for ProcessRow {
    type Key = PathBuf;
    type Sort = ProcessSort;

    fn key(&self) -> PathBuf {
        self.session.at.path.clone()
    }

    fn texts(&self) -> Vec<String> {
        let session = &self.session;
        vec![
            session.app.clone(),
            session.pid.to_string(),
            session.via().to_owned(),
            session.state_at_agent().name().to_owned(),
            session.place(),
        ]
    }

    fn compare(&self, other: &Self, by: ProcessSort) -> Ordering {
        // An unknown lag sorts as the longest.
        let lag = |row: &Self| row.lag_s.unwrap_or(f64::INFINITY);
        let (a, b) = (self, other);
        let first = match by {
            ProcessSort::Records => b.rates.records_per_s.total_cmp(&a.rates.records_per_s),
            ProcessSort::Bytes => b.rates.bytes_per_s.total_cmp(&a.rates.bytes_per_s),
            ProcessSort::Drops => b.rates.drops_per_s.total_cmp(&a.rates.drops_per_s),
            ProcessSort::Fill => b.session.fill.total_cmp(&a.session.fill),
            ProcessSort::Lag => lag(b).total_cmp(&lag(a)),
            ProcessSort::App => a.session.app.cmp(&b.session.app),
            ProcessSort::Pid => Ordering::Equal,
        };
        let then = match by {
            ProcessSort::Drops => b.session.dropped().cmp(&a.session.dropped()),
            ProcessSort::App | ProcessSort::Pid => Ordering::Equal,
            _ => b.session.stats.committed.cmp(&a.session.stats.committed),
        };
        let names = |row: &Self| (row.session.pid, row.key());
        first.then(then).then_with(|| names(a).cmp(&names(b)))
    }
}

impl Row for SiteRow {
    type Key = u32;
    type Sort = SortBy;

    fn key(&self) -> u32 {
        self.site.id
    }

    fn texts(&self) -> Vec<String> {
        let callsite = &self.site.callsite;
        vec![
            callsite.target_or_module().to_owned(),
            format!("{}:{}", callsite.file, callsite.line),
            callsite.message.clone(),
            callsite.level.name().to_owned(),
            self.site.state.clone(),
        ]
    }

    fn compare(&self, other: &Self, by: SortBy) -> Ordering {
        SiteRow::compare(self, other, by).then(self.site.id.cmp(&other.site.id))
    }
}
