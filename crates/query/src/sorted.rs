//! Rows in the order of fields: `sort`.

use crate::ast::SortKey;
use crate::limits::SORT_BYTES_MAX;
use crate::number::compare_values;
use crate::record::{Record, Row, TIME, first_value};
use std::cmp::Ordering;

/// Rows above those wanted that are collected before the surplus is thrown away.
const SURPLUS_ROWS: usize = 4_096;

/// Sorts rows; of more than its memory holds, or than are wanted, it keeps those that come first.
#[derive(Debug, Clone)]
pub(crate) struct Sorted {
    by: Vec<SortKey>,
    limit: Option<usize>,
    rows: Vec<Entry>,
    bytes: usize,
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

impl Sorted {
    pub(crate) fn new(by: Vec<SortKey>, limit: Option<u64>) -> Self {
        Self {
            by,
            limit: limit.and_then(|count| usize::try_from(count).ok()),
            rows: Vec::new(),
            bytes: 0,
            count: 0,
            left_out: 0,
        }
    }

    pub(crate) fn add(&mut self, record: &mut dyn Record) {
        let mut value = Vec::new();
        let mut key = |by: &SortKey| {
            first_value(record, &by.field, &mut value);
            value.as_slice().into()
        };
        let keys = self.by.iter().map(&mut key).collect();
        let row = record.row();
        self.bytes += row.size();
        self.rows.push(Entry {
            keys,
            number: self.count,
            row,
        });
        self.count += 1;
        self.shrink();
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
        self.rows.truncate(count);
        self.bytes = self.rows.iter().map(|entry| entry.row.size()).sum();
    }

    fn sort(&mut self) {
        let by = &self.by;
        self.rows.sort_by(|own, other| {
            let pairs = own.keys.iter().zip(&other.keys).zip(by);
            let mut orders = pairs.map(|((own, other), by)| {
                // Times as texts are in order, too, and no numbers.
                let order = match by.field.as_str() {
                    TIME => own.cmp(other),
                    _ => compare_values(own, other),
                };
                if by.descending { order.reverse() } else { order }
            });
            let order = orders.find(|order| order.is_ne());
            order
                .unwrap_or(Ordering::Equal)
                .then(own.number.cmp(&other.number))
        });
    }

    /// Adds rows of the same query over records that came behind.
    pub(crate) fn merge(&mut self, other: Self) {
        let before = self.count;
        self.count += other.count;
        self.left_out += other.left_out;
        self.bytes += other.bytes;
        self.rows.extend(other.rows.into_iter().map(|entry| Entry {
            number: before + entry.number,
            ..entry
        }));
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
