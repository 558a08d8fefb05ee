//! Digits of lines that follow from something else in their block: from the time of their row, which many lines begin with,
//! or from the digits of other lines, where statements of one request show the same numbers.

use crate::bytes::{Compressor, Input, put_varint};
use crate::error::StoreError;
use crate::integers;
use crate::limits::{DERIVED_EDGE_VALUES, DERIVED_VALUES_MIN, POOL_NUMBER_MIN, RECENT_NUMBERS};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// A part of the time of the row.
pub(crate) const TIME: u8 = 4;
/// The values of an earlier column, from a place on, with one number added.
pub(crate) const LIKE: u8 = 6;
/// Distinct large numbers of the block, and which one each value is.
const POOL: u8 = 7;
/// The same with the numbers of the block's pool, which stands in another column.
const POOLED: u8 = 8;
/// The values of an earlier column of the group.
const SAME: u8 = 11;
/// Distinct large numbers of the block, and which one each value is of all columns that have some, in the order of the rows.
const SEQUENCE: u8 = 12;
/// The next values of that.
const IN_SEQUENCE: u8 = 13;

/// Nanoseconds of a unit, and units of the next larger one.
const PARTS: [(u64, u64); 6] = [
    (3_600_000_000_000, 24),
    (60_000_000_000, 60),
    (1_000_000_000, 60),
    (1_000_000, 1_000),
    (1_000, 1_000_000),
    (1, 1_000_000_000),
];
/// Places at which columns are compared with others.
const ANCHORS: [usize; 2] = [12, 60];
/// Differences that are compared at a place.
const ANCHOR_DIFFERENCES: usize = 4;

/// Source of the values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Derivation {
    /// Number of the part.
    Time(usize),
    Column(OtherColumn),
    /// Numbers of the pool, and which one each value is.
    Pool {
        pool: Vec<u64>,
        places: Vec<u64>,
    },
    /// Column that has the pool, and which number of it each value is.
    Pooled {
        column: usize,
        places: Vec<u64>,
    },
    /// So many columns before this one in the group.
    Same(usize),
    Sequence(Sequence),
    /// Column that has the sequence.
    InSequence(usize),
}

/// Large numbers of a block in the order of its rows: distinct ones, and a code for each value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sequence {
    numbers: Vec<u64>,
    codes: Vec<u64>,
}

/// Numbers that were named last, the last one first.
#[derive(Debug, Default)]
struct RecentNumbers {
    places: Vec<u32>,
}

impl RecentNumbers {
    /// Moves a number to the front; returns where it was.
    fn take(&mut self, place: u32) -> Option<usize> {
        let rank = self.places.iter().position(|known| *known == place);
        self.move_up(rank, place);
        rank
    }

    fn move_up(&mut self, rank: Option<usize>, place: u32) {
        let end = match rank {
            Some(rank) => rank,
            None if self.places.len() < RECENT_NUMBERS => {
                self.places.push(place);
                self.places.len() - 1
            }
            None => RECENT_NUMBERS - 1,
        };
        self.places.copy_within(..end, 1);
        self.places[0] = place;
    }
}

impl Sequence {
    /// Adds a value that is the number at a place, or a new one.
    fn push(&mut self, recent: &mut RecentNumbers, number: u64, place: Option<usize>) {
        let found = place.unwrap_or(self.numbers.len());
        let rank = recent.take(found as u32);
        self.codes.push(match (place, rank) {
            (None, _) => 0,
            (Some(_), Some(rank)) => rank as u64 + 1,
            (Some(place), None) => (RECENT_NUMBERS + self.numbers.len() - place) as u64,
        });
        if place.is_none() {
            self.numbers.push(number);
        }
    }

    /// The values.
    fn values(&self) -> Result<Vec<u64>, StoreError> {
        let wrong = StoreError::Contradiction {
            what: "place in a pool",
        };
        let (mut recent, mut next) = (RecentNumbers::default(), 0);
        let value = |code: &u64| {
            let code = usize::try_from(*code).unwrap_or(usize::MAX);
            let place = match code {
                0 => {
                    next += 1;
                    recent.move_up(None, next as u32 - 1);
                    next - 1
                }
                1..=RECENT_NUMBERS => {
                    let place = *recent.places.get(code - 1).ok_or(wrong.clone())?;
                    recent.move_up(Some(code - 1), place);
                    place as usize
                }
                _ => {
                    let place = next.checked_sub(code - RECENT_NUMBERS).ok_or(wrong.clone())?;
                    recent.take(place as u32);
                    place
                }
            };
            self.numbers.get(place).copied().ok_or(wrong.clone())
        };
        self.codes.iter().map(value).collect()
    }

    /// Values of each column of each group, by the columns that have some and the group of each row.
    pub(crate) fn of_groups(
        &self,
        columns: &[Vec<usize>],
        order: &[u64],
    ) -> Result<Vec<Vec<Vec<u64>>>, StoreError> {
        let wrong = StoreError::Contradiction {
            what: "numbers of a pool",
        };
        let mut found: Vec<Vec<Vec<u64>>> = columns.iter().map(|of| vec![Vec::new(); of.len()]).collect();
        let mut values = self.values()?.into_iter();
        for group in order {
            let columns = usize::try_from(*group)
                .ok()
                .and_then(|group| found.get_mut(group));
            for column in columns.ok_or(wrong.clone())? {
                column.push(values.next().ok_or(wrong.clone())?);
            }
        }
        match values.next() {
            None => Ok(found),
            Some(_) => Err(wrong),
        }
    }
}

/// Values of another column, with values of its own before and behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtherColumn {
    /// Number of the column among all of the block.
    pub(crate) column: usize,
    /// First value of that column that is taken.
    start: usize,
    addend: u64,
    before: Vec<u64>,
    behind: Vec<u64>,
}

/// Returns true if a column of digits takes its values from the sequence of the block.
pub(crate) fn is_pooled(column: &[u8]) -> bool {
    matches!(column.first(), Some(&SEQUENCE | &IN_SEQUENCE))
}

fn part_of(unix_ns: u64, (unit_ns, most): (u64, u64)) -> u64 {
    unix_ns / unit_ns % most
}

impl Derivation {
    pub(crate) fn encode(&self, compressor: &mut Compressor, scratch: &mut Vec<u64>, out: &mut Vec<u8>) {
        match self {
            Self::Pool { pool, places } => {
                out.push(POOL);
                put_varint(out, pool.len() as u64);
                integers::encode(pool, compressor, out);
                integers::encode(places, compressor, out);
            }
            Self::Pooled { column, places } => {
                out.push(POOLED);
                put_varint(out, *column as u64);
                integers::encode(places, compressor, out);
            }
            Self::Same(back) => out.extend([SAME, *back as u8]),
            Self::Sequence(sequence) => {
                out.push(SEQUENCE);
                put_varint(out, sequence.numbers.len() as u64);
                put_varint(out, sequence.codes.len() as u64);
                integers::encode(&sequence.numbers, compressor, out);
                integers::encode_well(&sequence.codes, compressor, scratch, out);
            }
            Self::InSequence(column) => {
                out.push(IN_SEQUENCE);
                put_varint(out, *column as u64);
            }
            Self::Time(part) => out.extend([TIME, *part as u8]),
            Self::Column(like) => {
                out.push(LIKE);
                for number in [like.column as u64, like.start as u64, like.addend] {
                    put_varint(out, number);
                }
                for edge in [&like.before, &like.behind] {
                    put_varint(out, edge.len() as u64);
                    edge.iter().for_each(|value| put_varint(out, *value));
                }
            }
        }
    }

    /// Reads where values come from; `None` where they stand here.
    pub(crate) fn decode(
        input: &mut Input<'_>,
        count: usize,
        budget: &mut usize,
    ) -> Result<Option<Self>, StoreError> {
        match input.peek() {
            Some(POOL) => {
                input.u8()?;
                // Each number stands twice at least, and each time with more digits than it has bytes here.
                let length = input.length("numbers of a pool", *budget / 8)?;
                *budget -= length * 8;
                let pool = integers::decode(input, length)?;
                let places = integers::decode(input, count)?;
                Ok(Some(Self::Pool { pool, places }))
            }
            Some(POOLED) => {
                input.u8()?;
                let column = input.length("number of a column", usize::MAX)?;
                let places = integers::decode(input, count)?;
                Ok(Some(Self::Pooled { column, places }))
            }
            Some(SAME) => {
                input.u8()?;
                Ok(Some(Self::Same(usize::from(input.u8()?))))
            }
            Some(SEQUENCE) => {
                input.u8()?;
                // Each value is a byte of its row at least.
                let numbers = input.length("numbers of a pool", *budget)?;
                let codes = input.length("values of a pool", *budget)?;
                let numbers = integers::decode(input, numbers)?;
                let codes = integers::decode(input, codes)?;
                Ok(Some(Self::Sequence(Sequence { numbers, codes })))
            }
            Some(IN_SEQUENCE) => {
                input.u8()?;
                Ok(Some(Self::InSequence(
                    input.length("number of a column", usize::MAX)?,
                )))
            }
            Some(TIME) => {
                input.u8()?;
                let part = usize::from(input.u8()?);
                crate::error::limit("part of a time", part, PARTS.len() - 1)?;
                Ok(Some(Self::Time(part)))
            }
            Some(LIKE) => {
                input.u8()?;
                let column = input.length("number of a column", usize::MAX)?;
                let start = input.length("place in a column", usize::MAX)?;
                let addend = input.varint()?;
                let mut edge = || -> Result<Vec<u64>, StoreError> {
                    let count = input.length("values of an edge", DERIVED_EDGE_VALUES)?;
                    (0..count).map(|_| input.varint()).collect()
                };
                let (before, behind) = (edge()?, edge()?);
                Ok(Some(Self::Column(OtherColumn {
                    column,
                    start,
                    addend,
                    before,
                    behind,
                })))
            }
            _ => Ok(None),
        }
    }

    /// Values that stand at these places of a pool.
    pub(crate) fn of_pool(pool: &[u64], places: &[u64]) -> Result<Vec<u64>, StoreError> {
        let value = |place: &u64| {
            let found = usize::try_from(*place).ok().and_then(|place| pool.get(place));
            found.copied().ok_or(StoreError::Contradiction {
                what: "place in a pool",
            })
        };
        places.iter().map(value).collect()
    }

    /// Values that are a part of these times.
    pub(crate) fn of_times(part: usize, times: &[u64]) -> Vec<u64> {
        let part = PARTS.get(part).copied().unwrap_or((1, 1));
        times.iter().map(|unix_ns| part_of(*unix_ns, part)).collect()
    }
}

impl OtherColumn {
    /// Values made of those of the other column.
    pub(crate) fn of_column(&self, source: &[u64], count: usize) -> Result<Vec<u64>, StoreError> {
        let own = self.before.len() + self.behind.len();
        let taken = count.checked_sub(own);
        let taken = taken.and_then(|taken| source.get(self.start..self.start.checked_add(taken)?));
        let taken = taken.ok_or(StoreError::Contradiction {
            what: "place in another column",
        })?;
        let mut values = self.before.clone();
        values.extend(taken.iter().map(|value| value.wrapping_add(self.addend)));
        values.extend_from_slice(&self.behind);
        Ok(values)
    }
}

/// Finds derivations while the columns of a block are written in their order.
#[derive(Debug)]
pub(crate) struct DerivationFinder<'a> {
    /// Of each group, the values of its columns that are digits.
    groups: Vec<Vec<Option<&'a [u64]>>>,
    /// Times of the rows of each group that has digits.
    times: Vec<Vec<u64>>,
    /// Columns that hold their values, by their differences at a place: group, column and number of each, and the place.
    known: HashMap<u64, Known>,
    pool: Option<Pool>,
    next: usize,
}

/// Large numbers that repeat in the block, such as ids.
#[derive(Debug)]
struct Pool {
    sequence: Sequence,
    /// Columns that have them.
    columns: HashSet<(usize, usize)>,
    /// Number of the column that has the numbers, once it is written.
    column: Option<usize>,
}

impl Pool {
    /// Numbers are taken in the order of the rows, so that those of one time are near each other.
    fn new(groups: &[Vec<Option<&[u64]>>], order: &[u64]) -> Option<Self> {
        let mut pooled = HashSet::new();
        let mut large: Vec<Vec<&[u64]>> = vec![Vec::new(); groups.len()];
        for (group, columns) in groups.iter().enumerate() {
            for (column, values) in columns.iter().enumerate() {
                let values = values.filter(|values| values.len() >= DERIVED_VALUES_MIN);
                let values = values.filter(|values| are_large(values));
                if let Some(values) = values.filter(|_| same_before(columns, column).is_none()) {
                    large[group].push(values);
                    pooled.insert((group, column));
                }
            }
        }
        if pooled.is_empty() {
            return None;
        }
        let (mut known, mut rows) = (HashMap::new(), vec![0; groups.len()]);
        let (mut sequence, mut recent) = (Sequence::default(), RecentNumbers::default());
        for group in order {
            let group = *group as usize;
            let row = *rows.get(group)?;
            rows[group] = row + 1;
            for values in large.get(group)? {
                let number = *values.get(row)?;
                let next = sequence.numbers.len();
                let place = known.insert(number, next);
                if let Some(place) = place {
                    known.insert(number, place);
                }
                sequence.push(&mut recent, number, place);
            }
        }
        (sequence.numbers.len() * 2 <= sequence.codes.len()).then_some(Self {
            sequence,
            columns: pooled,
            column: None,
        })
    }

    fn derivation(&mut self, group: usize, column: usize, number: usize) -> Option<Derivation> {
        if !self.columns.contains(&(group, column)) {
            return None;
        }
        Some(match self.column {
            Some(column) => Derivation::InSequence(column),
            None => {
                self.column = Some(number);
                Derivation::Sequence(std::mem::take(&mut self.sequence))
            }
        })
    }
}

/// Returns true if most of a sample of values are large.
fn are_large(values: &[u64]) -> bool {
    let sample = || values.iter().step_by((values.len() / DERIVED_VALUES_MIN).max(1));
    sample().filter(|value| **value >= POOL_NUMBER_MIN).count() * 2 > sample().count()
}

/// Returns how many columns before this one in its group one with the same values stands.
fn same_before(columns: &[Option<&[u64]>], column: usize) -> Option<usize> {
    let values = (*columns.get(column)?)?;
    if values.len() < DERIVED_VALUES_MIN {
        return None;
    }
    let before = columns.get(column.saturating_sub(usize::from(u8::MAX))..column)?;
    let is_same = |other: &Option<&[u64]>| other.is_some_and(|other| other == values);
    before.iter().rev().position(is_same).map(|back| back + 1)
}

#[derive(Debug, Clone, Copy)]
struct Known {
    group: usize,
    column: usize,
    number: usize,
    place: usize,
}

impl<'a> DerivationFinder<'a> {
    pub(crate) fn new(groups: Vec<Vec<Option<&'a [u64]>>>, order: &[u64], times: &[u64]) -> Self {
        let has_digits: Vec<bool> = groups
            .iter()
            .map(|columns| columns.iter().any(Option::is_some))
            .collect();
        let mut of_groups = vec![Vec::new(); groups.len()];
        if has_digits.contains(&true) {
            for (number, unix_ns) in order.iter().zip(times) {
                let number = *number as usize;
                if has_digits.get(number) == Some(&true) {
                    of_groups[number].push(*unix_ns);
                }
            }
        }
        Self {
            pool: Pool::new(&groups, order),
            groups,
            times: of_groups,
            known: HashMap::new(),
            next: 0,
        }
    }

    fn digits(&self, group: usize, column: usize) -> Option<&'a [u64]> {
        *self.groups.get(group)?.get(column)?
    }

    /// Returns where the values of the next column come from, unless it holds them itself. Columns are asked for in their
    /// order, each once.
    pub(crate) fn next(&mut self, group: usize, column: usize) -> Option<Derivation> {
        let number = self.next;
        self.next += 1;
        let values = self.digits(group, column)?;
        if values.len() < DERIVED_VALUES_MIN || values.iter().all(|value| *value == values[0]) {
            return None;
        }
        if let Some(back) = self
            .groups
            .get(group)
            .and_then(|columns| same_before(columns, column))
        {
            return Some(Derivation::Same(back));
        }
        if let Some(part) = self.time_part(group, values) {
            return Some(Derivation::Time(part));
        }
        let pool = self.pool.as_mut();
        if let Some(pooled) = pool.and_then(|pool| pool.derivation(group, column, number)) {
            return Some(pooled);
        }
        if let Some(like) = self.like(values) {
            return Some(Derivation::Column(like));
        }
        for place in ANCHORS {
            if let Some(key) = key_at(values, place) {
                self.known.entry(key).or_insert(Known {
                    group,
                    column,
                    number,
                    place,
                });
            }
        }
        None
    }

    fn time_part(&self, group: usize, values: &[u64]) -> Option<usize> {
        let times = self.times.get(group)?;
        let is_part = |part: &(u64, u64)| {
            times.len() == values.len()
                && times
                    .iter()
                    .zip(values)
                    .all(|(unix_ns, value)| part_of(*unix_ns, *part) == *value)
        };
        PARTS.iter().position(is_part)
    }

    fn like(&self, values: &[u64]) -> Option<OtherColumn> {
        let around = |place: usize| -> Range<usize> {
            place.saturating_sub(DERIVED_EDGE_VALUES)..place + DERIVED_EDGE_VALUES + 1
        };
        ANCHORS.into_iter().flat_map(around).find_map(|place| {
            let known = self.known.get(&key_at(values, place)?)?;
            let source = self.digits(known.group, known.column)?;
            like(values, source, (place, known.place), known.number)
        })
    }
}

/// Differences of neighbours at a place; `None` where they are all the same, which is cheap to hold.
fn key_at(values: &[u64], place: usize) -> Option<u64> {
    let values = values.get(place..place + ANCHOR_DIFFERENCES + 1)?;
    let (mut key, mut is_straight) = (0u64, true);
    let first = values[1].wrapping_sub(values[0]);
    for pair in values.windows(2) {
        let difference = pair[1].wrapping_sub(pair[0]);
        is_straight &= difference == first;
        key = (key.rotate_left(13) ^ difference).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    (!is_straight).then_some(key)
}

/// Compares a column with another one of which a place has the same differences.
fn like(
    values: &[u64],
    source: &[u64],
    (place, source_place): (usize, usize),
    column: usize,
) -> Option<OtherColumn> {
    if source.len() > values.len() + 2 * DERIVED_EDGE_VALUES {
        return None;
    }
    // Place in the source of a place here.
    let shift = source_place as isize - place as isize;
    let addend = values.get(place)?.wrapping_sub(*source.get(source_place)?);
    let is_same = |at: usize| {
        let other = at.checked_add_signed(shift).and_then(|at| source.get(at));
        other.is_some_and(|other| values[at] == other.wrapping_add(addend))
    };
    let edge = DERIVED_EDGE_VALUES.min(values.len());
    let from = (0..edge).rev().find(|at| !is_same(*at)).map_or(0, |at| at + 1);
    let to = (values.len() - edge..values.len())
        .find(|at| !is_same(*at))
        .unwrap_or(values.len());
    let start = from.checked_add_signed(shift)?;
    let same = values.get(from..to)?;
    let others = source.get(start..start + same.len())?;
    let is_like = same
        .iter()
        .zip(others)
        .all(|(value, other)| *value == other.wrapping_add(addend));
    is_like.then(|| OtherColumn {
        column,
        start,
        addend,
        before: values[..from].to_vec(),
        behind: values[to..].to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_is_shifted_and_moved_is_like_another() {
        let source: Vec<u64> = (0..100u64).map(|n| n * n % 97 + 1_000).collect();
        for (cut, grown, addend) in [(0, 0, 0), (3, 2, 7), (0, 5, 0u64.wrapping_sub(9)), (5, 0, 1)] {
            let mut values: Vec<u64> = vec![5; grown];
            values.extend(source[cut..].iter().map(|value| value.wrapping_add(addend)));
            values.extend(vec![6; grown]);
            let place = ANCHORS[0] + grown - cut;
            let like = like(&values, &source, (place, ANCHORS[0]), 3).expect("alike");
            let mut out = Vec::new();
            let derivation = Derivation::Column(like);
            derivation.encode(&mut Compressor::default(), &mut Vec::new(), &mut out);
            let read =
                Derivation::decode(&mut Input::new(&out, "column"), values.len(), &mut 0).expect("sound");
            assert_eq!(read.as_ref(), Some(&derivation));
            let Some(Derivation::Column(like)) = read else {
                panic!()
            };
            assert_eq!(like.of_column(&source, values.len()), Ok(values.clone()));
            assert!(like.of_column(&source, source.len() + 99).is_err());
        }
    }

    #[test]
    fn parts_of_times_are_those_of_a_clock() {
        // 2026-11-25T19:15:05.995Z
        let time = 1_795_634_105_995_000_000;
        let parts = (0..6).map(|part| Derivation::of_times(part, &[time])[0]);
        assert_eq!(parts.collect::<Vec<_>>(), [19, 15, 5, 995, 995_000, 995_000_000]);
    }
}
