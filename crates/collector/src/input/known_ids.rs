//! Memory of the ids of records, by which those that a producer sent twice are left out: numbers that count up for each
//! writer, as ranges.

use crate::limits::KNOWN_IDS_MAX;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Numbers that were seen.
#[derive(Debug, Default)]
struct Numbers {
    /// Starts of ranges, with the number behind each.
    ranges: BTreeMap<u64, u64>,
}

impl Numbers {
    /// Notes a number; `false` when it was there.
    fn insert(&mut self, number: u64) -> bool {
        let before = self
            .ranges
            .range(..=number)
            .next_back()
            .map(|(start, end)| (*start, *end));
        if before.is_some_and(|(_, end)| number < end) {
            return false;
        }
        let Some(mut end) = number.checked_add(1) else {
            return true;
        };
        if let Some(after) = self.ranges.remove(&end) {
            end = after;
        }
        let start = before
            .filter(|(_, end)| *end == number)
            .map_or(number, |(start, _)| start);
        self.ranges.insert(start, end);
        if self.ranges.len() > KNOWN_IDS_MAX.1 {
            // The lowest were seen longest ago.
            self.ranges.pop_first();
        }
        true
    }
}

/// Ids that were seen, of the writers that were seen last.
#[derive(Debug, Default)]
pub(crate) struct KnownIds {
    writers: BTreeMap<u64, Numbers>,
    /// Writers in the order in which they were seen first.
    order: VecDeque<u64>,
}

impl KnownIds {
    /// Notes an id, 16 hexadecimal digits, a dash and a number; `false` when it was there. A text that is no id never was.
    pub(crate) fn insert(&mut self, id: &[u8]) -> bool {
        let parsed = std::str::from_utf8(id).ok().and_then(|id| {
            let (writer, number) = id.split_once('-').filter(|(writer, _)| writer.len() == 16)?;
            Some((u64::from_str_radix(writer, 16).ok()?, number.parse().ok()?))
        });
        let Some((writer, number)) = parsed else {
            return true;
        };
        if !self.writers.contains_key(&writer) {
            self.order.push_back(writer);
            if self.order.len() > KNOWN_IDS_MAX.0
                && let Some(oldest) = self.order.pop_front()
            {
                self.writers.remove(&oldest);
            }
        }
        self.writers.entry(writer).or_default().insert(number)
    }

    pub(crate) fn to_value(&self) -> Value {
        let writers = self
            .order
            .iter()
            .filter_map(|writer| Some((writer, self.writers.get(writer)?)));
        writers
            .map(|(writer, numbers)| {
                let ranges: Vec<(u64, u64)> =
                    numbers.ranges.iter().map(|(start, end)| (*start, *end)).collect();
                json!([writer, ranges])
            })
            .collect()
    }

    /// Reads what [`KnownIds::to_value`] wrote; of anything else nothing.
    pub(crate) fn of_value(value: &Value) -> Self {
        let mut seen = Self::default();
        for writer in value.as_array().into_iter().flatten() {
            let (Some(key), Some(ranges)) = (
                writer.get(0).and_then(Value::as_u64),
                writer.get(1).and_then(Value::as_array),
            ) else {
                continue;
            };
            let range = |range: &Value| Some((range.get(0)?.as_u64()?, range.get(1)?.as_u64()?));
            let ranges = ranges.iter().filter_map(range).collect();
            seen.order.push_back(key);
            seen.writers.insert(key, Numbers { ranges });
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_known_as_a_set_knows_them_also_after_a_restart() {
        let (mut seen, mut model) = (KnownIds::default(), HashSet::new());
        // Three writers, whose numbers come in runs that overlap and are out of order.
        let mut state = 7_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let id = format!("{:016x}-{}", state >> 62, (state >> 33) % 3_000);
            assert_eq!(seen.insert(id.as_bytes()), model.insert(id.clone()), "{id}");
            if state.is_multiple_of(1_000) {
                seen = KnownIds::of_value(&seen.to_value());
            }
        }
        assert!(seen.insert(b"no id") && seen.insert(b"no id"));
        assert!(seen.insert(format!("{:016x}-{}", 1, u64::MAX).as_bytes()));
    }

    #[test]
    fn memory_has_a_bound() {
        let mut seen = KnownIds::default();
        for number in 0..3 * KNOWN_IDS_MAX.1 {
            seen.insert(format!("{:016x}-{}", 1, 2 * number).as_bytes());
        }
        for writer in 0..2 * KNOWN_IDS_MAX.0 {
            seen.insert(format!("{writer:016x}-0").as_bytes());
        }
        assert!(seen.order.len() == KNOWN_IDS_MAX.0 && seen.writers.len() == KNOWN_IDS_MAX.0);
        let mut numbers = Numbers::default();
        for number in 0..3 * KNOWN_IDS_MAX.1 as u64 {
            assert!(numbers.insert(2 * number));
        }
        assert_eq!(numbers.ranges.len(), KNOWN_IDS_MAX.1);
        assert!(!numbers.insert(6 * KNOWN_IDS_MAX.1 as u64 - 2));
    }
}
