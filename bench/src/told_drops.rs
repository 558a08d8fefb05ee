//! Drops that a log tells, by the words of its lines about itself: gap lines, and the sums in the line of a process's end.

use std::collections::BTreeMap;

/// Sums of the drops that a log tells.
#[derive(Debug, Default, Clone)]
pub struct ToldDrops {
    /// Drops that gap lines tell, by reason.
    pub gaps: BTreeMap<String, u64>,
    /// Drops that lines of processes' ends tell.
    ends: u64,
}

impl ToldDrops {
    /// Takes a line of the logger about itself.
    pub fn take(&mut self, line: &str) {
        if let Some((count, reason)) = gap(line) {
            *self.gaps.entry(reason.to_owned()).or_default() += count;
        }
        self.ends += sums(line);
    }

    /// All drops: those of gap lines, or the sums of the ends, which include them.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.gaps.values().sum::<u64>().max(self.ends)
    }
}

/// Count and reason of a gap line, or of one about records that are lost.
fn gap(line: &str) -> Option<(u64, &str)> {
    if let Some((front, reason)) = line.split_once(" are lost: ") {
        let (front, _) = front.split_once(" records in ")?;
        // Fields of the collector follow, where it is one that wrote the line.
        let reason = reason.split(" host=").next().unwrap_or(reason);
        return Some((front.rsplit(' ').next()?.parse().ok()?, reason.trim_end()));
    }
    let (front, rest) = line.split_once(" records dropped")?;
    let count = front.rsplit(' ').next()?.parse().ok()?;
    let (_, reason) = rest.split_once(": ")?;
    // A sink says from when to when.
    let reason = reason.split(", from ").next().unwrap_or(reason);
    Some((count, reason.trim_end()))
}

/// Drops in the sums of an end: of calls, and of the sinks that were to write them.
fn sums(line: &str) -> u64 {
    let Some((_, sums)) = line.split_once(" calls committed, ") else {
        return 0;
    };
    let after = |text: &str| text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
    let of_sinks = sums.split(" written, ").skip(1).filter_map(after).sum::<u64>();
    after(sums).unwrap_or(0) + of_sinks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gap_lines_and_sums_of_ends_are_told_drops() {
        let mut told = ToldDrops::default();
        told.take("x WARN logdrive 12 records dropped: ring full");
        told.take("x WARN logdrive 3 records dropped by process 7 of shop: ring full");
        assert_eq!((told.sum(), told.gaps["ring full"]), (15, 15));
        told.take("x WARN logdrive 4 records in the spool /x are lost: their bytes are damaged or missing on disk host=web-1");
        assert_eq!(told.gaps["their bytes are damaged or missing on disk"], 4);
        told.gaps.remove("their bytes are damaged or missing on disk");
        told.take("process 8 of x ended; 9 calls committed, 13 dropped (ring full 13); a.log: 2 written, 7 dropped (overflow 7)");
        assert_eq!(told.sum(), 20);
    }
}
