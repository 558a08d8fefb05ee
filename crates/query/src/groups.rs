//! Groups of records by the values of fields: `stats`, `top` and `uniq`.

use crate::accumulate::Accumulator;
use crate::ast::{Function, Key, Named};
use crate::limits::{GROUP_BYTES_MAX, GROUPS_MAX};
use crate::number::{Number, compare_values};
use crate::record::{Record, Row, TIME, first_value, time_text};
use std::cmp::Ordering;
use std::collections::HashMap;

/// Bytes that a group takes besides its key.
const GROUP_BYTES: usize = 96;

/// Rows that are made of the groups.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Purpose {
    Stats,
    /// So many with the most records.
    Top(u64),
    /// All, or so many; with the number of records or without.
    Uniq {
        hits: bool,
        limit: Option<u64>,
    },
}

/// Values of the keys of a group.
type Keys = Vec<Box<[u8]>>;

/// Records with the same values of their keys.
#[derive(Debug, Clone)]
struct Group {
    accumulators: Vec<Accumulator>,
    records: u64,
}

/// Records by the values of their keys.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    keys: Vec<Key>,
    functions: Vec<Named>,
    purpose: Purpose,
    groups: HashMap<Box<[u8]>, Group>,
    bytes: usize,
    /// Records of groups for which there was no room.
    left_out: u64,
    /// Values that could not be kept to be told apart.
    uncounted: u64,
    /// Memory for a key and for a value, kept from record to record.
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Groups {
    pub(crate) fn new(keys: Vec<Key>, functions: Vec<Named>, purpose: Purpose) -> Self {
        let mut groups = Self {
            keys,
            functions,
            purpose,
            groups: HashMap::new(),
            bytes: 0,
            left_out: 0,
            uncounted: 0,
            key: Vec::new(),
            value: Vec::new(),
        };
        if groups.keys.is_empty() {
            // Of no records the count is 0.
            let group = groups.group();
            groups.groups.insert(Box::default(), group);
        }
        groups
    }

    /// Groups whose records are counted.
    pub(crate) fn counted(keys: Vec<Key>, purpose: Purpose) -> Self {
        let count = Named {
            function: Function::Count,
            field: None,
            name: Some("hits".to_owned()),
        };
        Self::new(keys, vec![count], purpose)
    }

    fn group(&self) -> Group {
        let functions = self.functions.iter();
        Group {
            accumulators: functions.map(|named| Accumulator::new(named.function)).collect(),
            records: 0,
        }
    }

    /// Bytes that the groups take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Fields on which the groups depend, where records are only counted.
    pub(crate) fn counted_fields(&self) -> Option<Vec<&str>> {
        let mut functions = self.functions.iter();
        let is_counted = functions.all(|named| named.function == Function::Count && named.field.is_none());
        let fields = || self.keys.iter().map(|key| key.field.as_str()).collect();
        is_counted.then(fields)
    }

    /// Counts so many records that do not differ in the fields on which the groups depend.
    pub(crate) fn count(&mut self, record: &mut dyn Record, count: u64) {
        if let Some(group) = self.group_of(record, count) {
            group.records += count;
            group
                .accumulators
                .iter_mut()
                .for_each(|function| function.count(count));
        }
    }

    /// The group of a record, of as many records; `None` where there is no room for it.
    fn group_of(&mut self, record: &mut dyn Record, count: u64) -> Option<&mut Group> {
        self.key.clear();
        for key in &self.keys {
            put_key(record, key, &mut self.value);
            self.key
                .extend_from_slice(&(self.value.len() as u32).to_le_bytes());
            self.key.extend_from_slice(&self.value);
        }
        if !self.groups.contains_key(&*self.key) {
            let size = self.key.len() + GROUP_BYTES + 64 * self.functions.len();
            if self.groups.len() >= GROUPS_MAX || self.bytes + size > GROUP_BYTES_MAX {
                self.left_out += count;
                return None;
            }
            self.bytes += size;
            let group = self.group();
            self.groups.insert(self.key.as_slice().into(), group);
        }
        self.groups.get_mut(&*self.key)
    }

    pub(crate) fn add(&mut self, record: &mut dyn Record) {
        if self.group_of(record, 1).is_none() {
            return;
        }
        let Some(group) = self.groups.get_mut(&*self.key) else {
            return;
        };
        group.records += 1;
        for (named, accumulator) in self.functions.iter().zip(&mut group.accumulators) {
            let is_there = match &named.field {
                None => true,
                Some(field) => first_value(record, field, &mut self.value) && !self.value.is_empty(),
            };
            if is_there {
                match accumulator.add(&self.value, self.bytes < GROUP_BYTES_MAX) {
                    Ok(bytes) => self.bytes += bytes,
                    Err(_) => self.uncounted += 1,
                }
            }
        }
    }

    /// Adds the groups of the same query over other records.
    pub(crate) fn merge(&mut self, other: Self) {
        self.left_out += other.left_out;
        self.uncounted += other.uncounted;
        for (key, group) in other.groups {
            let values: usize = group.accumulators.iter().map(Accumulator::bytes).sum();
            let has_room = self.bytes + values <= GROUP_BYTES_MAX;
            let takes_more = self.groups.len() < GROUPS_MAX;
            match self.groups.get_mut(&key) {
                Some(own) if has_room => {
                    self.bytes += values;
                    own.records += group.records;
                    let accumulators = own.accumulators.iter_mut().zip(group.accumulators);
                    accumulators.for_each(|(own, other)| own.merge(other));
                }
                None if has_room && takes_more => {
                    self.bytes += values + key.len() + GROUP_BYTES + 64 * self.functions.len();
                    self.groups.insert(key, group);
                }
                _ => self.left_out += group.records,
            }
        }
    }

    /// Takes the rows: in the order of their keys, or for `top` of their counts.
    pub(crate) fn take_rows(&mut self) -> Vec<Row> {
        let mut groups: Vec<(Keys, Vec<Accumulator>)> = std::mem::take(&mut self.groups)
            .into_iter()
            .map(|(key, group)| (split_key(&key), group.accumulators))
            .collect();
        groups.sort_by(|(own, _), (other, _)| compare_keys(own, other));
        match self.purpose {
            Purpose::Stats => {}
            Purpose::Top(count) => {
                let hits = |accumulators: &[Accumulator]| match accumulators.first() {
                    Some(Accumulator::Count(count)) => *count,
                    _ => 0,
                };
                groups.sort_by_key(|(_, accumulators)| std::cmp::Reverse(hits(accumulators)));
                groups.truncate(usize::try_from(count).unwrap_or(usize::MAX));
            }
            Purpose::Uniq { limit, .. } => {
                let count = limit.and_then(|count| usize::try_from(count).ok());
                groups.truncate(count.unwrap_or(usize::MAX));
            }
        }
        groups
            .iter()
            .map(|(key, accumulators)| self.row(key, accumulators))
            .collect()
    }

    fn row(&self, key: &[Box<[u8]>], accumulators: &[Accumulator]) -> Row {
        let mut row = Row::default();
        for (known, value) in self.keys.iter().zip(key) {
            row.push(&known.field, value);
        }
        if matches!(self.purpose, Purpose::Uniq { hits: false, .. }) {
            return row;
        }
        for (named, accumulator) in self.functions.iter().zip(accumulators) {
            row.push(named.column(), accumulator.result());
        }
        row
    }

    /// Adds what the reader of the rows has to know.
    pub(crate) fn put_notes(&self, notes: &mut Vec<String>) {
        if self.left_out > 0 {
            notes.push(format!(
                "{} records are left out: they belong to more groups than are kept in memory ({GROUPS_MAX} groups, {} MiB); \
                 group by fewer values",
                self.left_out,
                GROUP_BYTES_MAX >> 20
            ));
        }
        if self.uncounted > 0 {
            notes.push(format!(
                "count_uniq is too low: {} MiB of different values are kept, and further ones were not counted",
                GROUP_BYTES_MAX >> 20
            ));
        }
        let mut accumulators = self.groups.values().flat_map(|group| &group.accumulators);
        if accumulators.any(Accumulator::is_approximate) {
            notes.push("quantiles of many values are within half a per cent".to_owned());
        }
    }
}

/// Writes the value of a key; empty where the record has none.
fn put_key(record: &mut dyn Record, key: &Key, out: &mut Vec<u8>) {
    let Some(step) = &key.step else {
        first_value(record, &key.field, out);
        return;
    };
    if key.field == TIME {
        out.clear();
        if let (Some(time), Number::Whole(step)) = (record.unix_ns(), step.number) {
            let step = u64::try_from(step).unwrap_or(u64::MAX);
            out.extend_from_slice(time_text(time - time % step).as_bytes());
        }
        return;
    }
    if first_value(record, &key.field, out)
        && let Some(number) = Number::read(out)
    {
        let floor = match (number, step.number) {
            (Number::Whole(number), Number::Whole(step)) => (number - number.rem_euclid(step)).to_string(),
            (number, step) => ((number.float() / step.float()).floor() * step.float()).to_string(),
        };
        out.clear();
        out.extend_from_slice(floor.as_bytes());
    }
}

fn split_key(mut key: &[u8]) -> Keys {
    let mut values = Vec::new();
    while let Some((length, rest)) = key.split_first_chunk::<4>() {
        let (value, behind) = rest.split_at(rest.len().min(u32::from_le_bytes(*length) as usize));
        values.push(value.into());
        key = behind;
    }
    values
}

fn compare_keys(own: &[Box<[u8]>], other: &[Box<[u8]>]) -> Ordering {
    let pairs = own.iter().zip(other);
    let mut orders = pairs.map(|(own, other)| compare_values(own, other).then_with(|| own.cmp(other)));
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
