//! Functions of `stats`: what they keep while records pass, and their results.

use crate::ast::Function;
use crate::limits::QUANTILE_VALUES_MAX;
use crate::number::{Number, compare_values};
use std::collections::{BTreeMap, HashSet};

/// Growth of a bucket of values: their middle is within half of it.
const BUCKET_GROWTH: f64 = 1.01;

/// State of a function for one group.
#[derive(Debug, Clone)]
pub(crate) enum Accumulator {
    Count(u64),
    Distinct(HashSet<Box<[u8]>>),
    Sum(Sum),
    Avg(Sum),
    Min(Option<Box<[u8]>>),
    Max(Option<Box<[u8]>>),
    Quantile(f64, Values),
}

impl Accumulator {
    pub(crate) fn new(function: Function) -> Self {
        match function {
            Function::Count => Self::Count(0),
            Function::CountUniq => Self::Distinct(HashSet::new()),
            Function::Sum => Self::Sum(Sum::default()),
            Function::Avg => Self::Avg(Sum::default()),
            Function::Min => Self::Min(None),
            Function::Max => Self::Max(None),
            Function::Quantile(share) => Self::Quantile(share, Values::default()),
        }
    }

    /// Adds a record's value, or a record where the function is of no field. Returns the bytes that it now keeps more.
    pub(crate) fn add(&mut self, value: &[u8], has_room: bool) -> Result<usize, Full> {
        match self {
            Self::Count(count) => *count += 1,
            Self::Distinct(seen) if !seen.contains(value) => {
                if !has_room {
                    return Err(Full);
                }
                seen.insert(value.into());
                return Ok(value.len() + 48);
            }
            Self::Distinct(_) => {}
            Self::Sum(sum) | Self::Avg(sum) => sum.add(value),
            Self::Min(least) => keep_if(least, value, std::cmp::Ordering::Less),
            Self::Max(most) => keep_if(most, value, std::cmp::Ordering::Greater),
            Self::Quantile(_, values) => {
                return Ok(Number::read(value).map_or(0, |number| values.add(number.float())));
            }
        }
        Ok(0)
    }

    /// Counts so many records at once, where it counts records.
    pub(crate) fn count(&mut self, records: u64) {
        if let Self::Count(count) = self {
            *count += records;
        }
    }

    /// Bytes of the values that it keeps, about.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Distinct(seen) => seen.iter().map(|value| value.len() + 48).sum(),
            Self::Quantile(_, values) => 8 * values.values.len(),
            _ => 0,
        }
    }

    /// Adds what another one of the same function has.
    pub(crate) fn merge(&mut self, other: Self) {
        match (self, other) {
            (Self::Count(own), Self::Count(other)) => *own += other,
            (Self::Distinct(own), Self::Distinct(other)) => own.extend(other),
            (Self::Sum(own), Self::Sum(other)) | (Self::Avg(own), Self::Avg(other)) => own.merge(&other),
            (Self::Min(own), Self::Min(Some(other))) => keep_if(own, &other, std::cmp::Ordering::Less),
            (Self::Max(own), Self::Max(Some(other))) => keep_if(own, &other, std::cmp::Ordering::Greater),
            (Self::Quantile(_, own), Self::Quantile(_, other)) => own.merge(other),
            _ => {}
        }
    }

    /// The result; empty where no value was one.
    pub(crate) fn result(&self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Distinct(seen) => seen.len().to_string(),
            Self::Sum(sum) => sum.sum_text(),
            Self::Avg(sum) => sum.average_text(),
            Self::Min(value) | Self::Max(value) => {
                let value = value.as_deref().unwrap_or_default();
                String::from_utf8_lossy(value).into_owned()
            }
            Self::Quantile(share, values) => values
                .quantile(*share)
                .map_or(String::new(), |value| value.to_string()),
        }
    }

    pub(crate) fn is_approximate(&self) -> bool {
        matches!(self, Self::Quantile(_, Values { buckets: Some(_), .. }))
    }
}

/// There is no room for a further value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Keeps a value that comes before or behind the present one; of equal numbers the text that comes first.
fn keep_if(kept: &mut Option<Box<[u8]>>, value: &[u8], wanted: std::cmp::Ordering) {
    let is_better = kept.as_deref().is_none_or(|kept| {
        let order = compare_values(value, kept);
        order == wanted || (order.is_eq() && value < kept)
    });
    if is_better {
        *kept = Some(value.into());
    }
}

/// Sum of numbers: exact as long as all are whole, else with the error of each addition carried along.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sum {
    whole: i128,
    float: f64,
    carried: f64,
    has_floats: bool,
    count: u64,
}

impl Sum {
    fn add(&mut self, value: &[u8]) {
        match Number::read(value) {
            None => return,
            Some(Number::Whole(number)) => match self.whole.checked_add(number) {
                Some(sum) => self.whole = sum,
                None => self.add_float(number as f64),
            },
            Some(Number::Float(number)) => self.add_float(number),
        }
        self.count += 1;
    }

    fn add_float(&mut self, number: f64) {
        self.has_floats = true;
        let sum = self.float + number;
        self.carried += match self.float.abs() >= number.abs() {
            true => (self.float - sum) + number,
            false => (number - sum) + self.float,
        };
        self.float = sum;
    }

    fn merge(&mut self, other: &Self) {
        match self.whole.checked_add(other.whole) {
            Some(sum) => self.whole = sum,
            None => self.add_float(other.whole as f64),
        }
        if other.has_floats {
            self.add_float(other.float);
            self.add_float(other.carried);
        }
        self.count += other.count;
    }

    fn float(&self) -> f64 {
        self.whole as f64 + self.float + self.carried
    }

    fn sum_text(&self) -> String {
        match (self.count, self.has_floats) {
            (0, _) => String::new(),
            (_, false) => self.whole.to_string(),
            (_, true) => self.float().to_string(),
        }
    }

    fn average_text(&self) -> String {
        match self.count {
            0 => String::new(),
            count => (self.float() / count as f64).to_string(),
        }
    }
}

/// Numbers of which quantiles are taken: themselves, or when they are many, how many lie in each bucket.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values {
    values: Vec<f64>,
    buckets: Option<Buckets>,
}

/// Counts by the logarithm of the value.
#[derive(Debug, Clone, Default)]
struct Buckets {
    negative: BTreeMap<i32, u64>,
    zeros: u64,
    positive: BTreeMap<i32, u64>,
}

impl Buckets {
    fn add(&mut self, value: f64) {
        let bucket = (value.abs().ln() / BUCKET_GROWTH.ln()).ceil() as i32;
        match value {
            0.0 => self.zeros += 1,
            _ if value > 0.0 => *self.positive.entry(bucket).or_default() += 1,
            _ => *self.negative.entry(bucket).or_default() += 1,
        }
    }

    /// Value of each bucket, and the number of values in it, from the least on.
    fn each(&self) -> impl Iterator<Item = (f64, u64)> {
        let middle = |bucket: i32| 2.0 * BUCKET_GROWTH.powi(bucket) / (1.0 + BUCKET_GROWTH);
        let negative = self
            .negative
            .iter()
            .rev()
            .map(move |(bucket, count)| (-middle(*bucket), *count));
        let positive = self
            .positive
            .iter()
            .map(move |(bucket, count)| (middle(*bucket), *count));
        negative.chain([(0.0, self.zeros)]).chain(positive)
    }

    fn merge(&mut self, other: &Self) {
        for (own, other) in [
            (&mut self.negative, &other.negative),
            (&mut self.positive, &other.positive),
        ] {
            other
                .iter()
                .for_each(|(bucket, count)| *own.entry(*bucket).or_default() += count);
        }
        self.zeros += other.zeros;
    }
}

impl Values {
    /// Adds a value, and returns the bytes that are now kept more.
    fn add(&mut self, value: f64) -> usize {
        if let Some(buckets) = &mut self.buckets {
            buckets.add(value);
            return 0;
        }
        self.values.push(value);
        if self.values.len() > QUANTILE_VALUES_MAX {
            self.make_buckets();
        }
        8
    }

    fn make_buckets(&mut self) -> &mut Buckets {
        let values = std::mem::take(&mut self.values);
        let buckets = self.buckets.get_or_insert_default();
        values.into_iter().for_each(|value| buckets.add(value));
        buckets
    }

    fn merge(&mut self, other: Self) {
        if let Some(buckets) = &other.buckets {
            self.make_buckets().merge(buckets);
        }
        for value in other.values {
            self.add(value);
        }
    }

    /// The least value that at least this share of all values does not exceed.
    fn quantile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = |count: u64| ((share * count as f64).ceil() as u64).clamp(1, count.max(1));
        let Some(buckets) = &self.buckets else {
            return sorted.get(rank(sorted.len() as u64) as usize - 1).copied();
        };
        let mut left = rank(buckets.each().map(|(_, count)| count).sum());
        let found = buckets.each().find(|(_, count)| {
            let is_here = left <= *count;
            left = left.saturating_sub(*count);
            is_here
        });
        found.map(|(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_many_values_are_within_half_a_per_cent() {
        let mut values = [Values::default(), Values::default()];
        for number in -20_000i32..80_000 {
            values[usize::from(number % 3 == 0)].add(f64::from(number) / 4.0);
        }
        let [mut all, others] = values;
        all.merge(others);
        for (share, expected) in [
            (0.0, -5_000.0),
            (0.1, -2_500.25),
            (0.5, 7_499.75),
            (0.99, 19_749.75),
            (1.0, 19_999.75),
        ] {
            let found: f64 = all.quantile(share).expect("there are values");
            assert!(
                (found - expected).abs() <= expected.abs() * 0.0051,
                "{share}: {found}"
            );
        }
    }

    #[test]
    fn whole_numbers_are_added_exactly() {
        let mut sum = Sum::default();
        for _ in 0..3 {
            sum.add(b"9007199254740993");
        }
        sum.add(b"none");
        assert_eq!(sum.sum_text(), "27021597764222979");
        sum.add(b"0.5");
        assert_eq!(sum.average_text(), "6755399441055745");
    }
}
