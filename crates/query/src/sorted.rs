//! Rows in the order of fields: `sort`.

use crate::ast::SortKey;
use crate::limits::SORT_BYTES_MAX;
use crate::number::compare_values;
use crate::record::{Record, Row, TIME, first_value};
use std::cmp::Ordering;

/// Rows above those wanted that are collected before the surplus is thrown away.
const SURPLUS_ROWS: usize = 256;

/// Sorts rows; of more than its memory holds, or than are wanted, it keeps those that come first.
#[derive(Debug, Clone)]
pub(crate) struct Sorted {
    by: Vec<SortKey>,
    limit: Option<usize>,
    rows: Vec<Entry>,
    bytes: usize,
    /// Keys of the last row that was kept when others were thrown away: what comes behind it is not wanted.
    bound: Option<Vec<Box<[u8]>>>,
    /// Keys of the row that comes, in memory that is used again.
    keys: Vec<Vec<u8>>,
    /// Rows that came; rows with equal keys stay in their order.
    count: u64,
    left_out: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    keys: Vec<Box<[u8]>>,
    number: u64,
    row: Row,
}

/// Order of two rows by their keys. Rows without a value come last, whichever the order.
fn order<K: AsRef<[u8]>, L: AsRef<[u8]>>(by: &[SortKey], own: &[K], other: &[L]) -> Ordering {
    let pairs = own.iter().zip(other).zip(by);
    let mut orders = pairs.map(|((own, other), by)| {
        let (own, other) = (own.as_ref(), other.as_ref());
        if own.is_empty() || other.is_empty() {
            return own.is_empty().cmp(&other.is_empty());
        }
        // Times as texts are in order, too, and no numbers.
        let order = match by.field.as_str() {
            TIME => own.cmp(other),
            _ => compare_values(own, other),
        };
        if by.descending { order.reverse() } else { order }
    });
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

impl Sorted {
    pub(crate) fn new(by: Vec<SortKey>, limit: Option<u64>) -> Self {
        Self {
            by,
            limit: limit.and_then(|count| usize::try_from(count).ok()),
            rows: Vec::new(),
            bytes: 0,
            bound: None,
            keys: Vec::new(),
            count: 0,
            left_out: 0,
        }
    }

    pub(crate) fn add(&mut self, record: &mut dyn Record) {
        let mut keys = std::mem::take(&mut self.keys);
        keys.resize(self.by.len(), Vec::new());
        for (by, key) in self.by.iter().zip(&mut keys) {
            first_value(record, &by.field, key);
        }
        self.count += 1;
        let is_behind = |bound: &Vec<Box<[u8]>>| order(&self.by, &keys, bound).is_ge();
        match self.bound.as_ref().is_some_and(is_behind) {
            true => self.left_out += u64::from(self.limit.is_none()),
            false => {
                let row = record.row();
                self.bytes += row.size();
                self.rows.push(Entry {
                    keys: keys.iter().map(|key| key.as_slice().into()).collect(),
                    number: self.count,
                    row,
                });
                self.shrink();
            }
        }
        self.keys = keys;
    }

    /// The same without rows, for records that come behind: those that are not wanted here are not wanted there.
    pub(crate) fn split(&mut self) -> Self {
        self.keep(self.limit.unwrap_or(usize::MAX));
        let mut next = Self::new(self.by.clone(), None);
        next.limit = self.limit;
        next.bound = self.bound.clone().filter(|_| self.limit.is_some());
        std::mem::replace(self, next)
    }

    /// Throws the surplus away, once there is enough of it.
    fn shrink(&mut self) {
        let wanted = self.limit.unwrap_or(usize::MAX);
        if self.rows.len() >= wanted.saturating_mul(2).saturating_add(SURPLUS_ROWS) {
            self.keep(wanted);
        }
        while self.bytes > SORT_BYTES_MAX && self.rows.len() > 1 {
            let half = self.rows.len() / 2;
            self.left_out += self.rows.len().min(wanted).saturating_sub(half) as u64;
            self.keep(half);
        }
    }

    /// Keeps the first so many.
    fn keep(&mut self, count: usize) {
        self.sort();
        if self.rows.len() >= count {
            self.rows.truncate(count);
            self.bound = self.rows.last().map(|entry| entry.keys.clone());
        }
        self.bytes = self.rows.iter().map(|entry| entry.row.size()).sum();
    }

    fn sort(&mut self) {
        let by = &self.by;
        self.rows
            .sort_by(|own, other| order(by, &own.keys, &other.keys).then(own.number.cmp(&other.number)));
    }

    /// Adds rows of the same query over records that came behind.
    pub(crate) fn merge(&mut self, other: Self) {
        let before = self.count;
        self.count += other.count;
        self.left_out += other.left_out;
        self.bytes += other.bytes;
        let bound = self.bound.take();
        for entry in other.rows {
            let is_behind = |bound: &Vec<Box<[u8]>>| order(&self.by, &entry.keys, bound).is_ge();
            if bound.as_ref().is_some_and(is_behind) {
                self.left_out += u64::from(self.limit.is_none());
                self.bytes -= entry.row.size().min(self.bytes);
                continue;
            }
            self.rows.push(Entry {
                number: before + entry.number,
                ..entry
            });
        }
        self.bound = bound;
        self.shrink();
    }

    pub(crate) fn take_rows(&mut self) -> Vec<Row> {
        self.sort();
        let wanted = self.limit.unwrap_or(usize::MAX);
        let rows = std::mem::take(&mut self.rows).into_iter().take(wanted);
        rows.map(|entry| entry.row).collect()
    }

    pub(crate) fn put_notes(&self, notes: &mut Vec<String>) {
        if self.left_out > 0 {
            notes.push(format!(
                "sort keeps {} MiB: at least {} records that come last are left out; add a limit or fields before it",
                SORT_BYTES_MAX >> 20,
                self.left_out
            ));
        }
    }
}
