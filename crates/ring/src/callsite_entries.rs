//! The entries of a callsite table as bytes, drawn in `spec/session.md`: each has a check, so that a damaged one is left
//! out and those behind it are found again.

use crate::checksum::Checksum;
use crate::limits::{CALLSITE_BYTES_MAX, CALLSITES_MAX, RESYNC_BYTES_MAX};

/// Bytes in front of a callsite.
pub(crate) const HEAD_BYTES: usize = 8;

/// Entries of a table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries {
    /// Number and bytes of each whole callsite.
    pub(crate) callsites: Vec<(u32, Vec<u8>)>,
    /// Bytes up to the end of the last whole one.
    pub(crate) used: usize,
    /// Set if there is something else than whole entries before that end.
    pub(crate) has_gaps: bool,
}

/// Takes a callsite table apart. Bytes that are no entry are left out up to the next multiple of 8 at which a whole entry
/// begins.
pub(crate) fn split_table(bytes: &[u8]) -> Entries {
    let mut entries = Entries::default();
    let mut at = 0;
    let mut is_lost = false;
    let mut budget = RESYNC_BYTES_MAX;
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() > HEAD_BYTES) {
        let Some((id, callsite)) = entry_of(rest, &mut budget) else {
            is_lost = true;
            at += 8;
            continue;
        };
        entries.callsites.push((id, callsite.to_vec()));
        entries.has_gaps |= is_lost;
        is_lost = false;
        at = (at + HEAD_BYTES + callsite.len()).next_multiple_of(8);
        entries.used = at.min(bytes.len());
    }
    entries
}

/// The whole entry that bytes begin with, if they do. Bytes that turn out to be none are taken from the budget.
fn entry_of<'a>(bytes: &'a [u8], budget: &mut usize) -> Option<(u32, &'a [u8])> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let [l0, l1, l2, l3, i0, i1, c0, c1] = *head;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let id = u32::from(u16::from_le_bytes([i0, i1]));
    if length == 0 || length > CALLSITE_BYTES_MAX || *budget < length {
        return None;
    }
    let callsite = rest.get(..length)?;
    if check_of(id, callsite) != u16::from_le_bytes([c0, c1]) {
        *budget -= length;
        return None;
    }
    Some((id, callsite))
}

/// The bytes in front of a callsite.
pub(crate) fn head_of(id: u32, callsite: &[u8]) -> [u8; HEAD_BYTES] {
    debug_assert!((id as usize) < CALLSITES_MAX, "the caller checks the number");
    let [l0, l1, l2, l3] = (callsite.len() as u32).to_le_bytes();
    let [i0, i1, ..] = id.to_le_bytes();
    let [c0, c1] = check_of(id, callsite).to_le_bytes();
    [l0, l1, l2, l3, i0, i1, c0, c1]
}

fn check_of(id: u32, callsite: &[u8]) -> u16 {
    let sum = Checksum::new()
        .bytes(&(callsite.len() as u32).to_le_bytes())
        .bytes(&id.to_le_bytes());
    sum.bytes(callsite).folded()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(callsites: &[&[u8]]) -> Vec<u8> {
        let mut table = Vec::new();
        for (id, callsite) in (0..).zip(callsites) {
            table.extend_from_slice(&head_of(id, callsite));
            table.extend_from_slice(callsite);
            table.resize(table.len().next_multiple_of(8), 0);
        }
        table
    }

    #[test]
    fn a_damaged_entry_costs_itself_alone() {
        let callsites: [&[u8]; 3] = [b"first", b"the second one", b"third"];
        let whole = table(&callsites);
        let entries = split_table(&whole);
        assert_eq!(
            (entries.callsites.len(), entries.used, entries.has_gaps),
            (3, whole.len(), false)
        );
        let second = 16..16 + 24;
        for bit in second.start * 8..second.end * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let found: Vec<u32> = split_table(&damaged)
                .callsites
                .iter()
                .map(|(id, _)| *id)
                .collect();
            // The last two bytes are padding.
            let expected: &[u32] = if bit < (second.end - 2) * 8 {
                &[0, 2]
            } else {
                &[0, 1, 2]
            };
            assert_eq!(found, expected, "bit {bit}");
        }
    }

    #[test]
    fn a_reserved_table_ends_with_its_last_entry() {
        let mut table = table(&[b"a"]);
        let used = table.len();
        table.resize(4096, 0);
        let entries = split_table(&table);
        assert_eq!(
            (entries.callsites.len(), entries.used, entries.has_gaps),
            (1, used, false)
        );
    }

    /// Lengths that all of the table would have to be read for, at each of its places.
    #[test]
    fn hostile_lengths_do_not_cost_without_bound() {
        let head = [0, 0, 1, 0, 0, 0, 0, 0];
        let table: Vec<u8> = head
            .iter()
            .copied()
            .cycle()
            .take(crate::limits::TABLE_BYTES_MAX)
            .collect();
        assert_eq!(split_table(&table).callsites, []);
    }
}
