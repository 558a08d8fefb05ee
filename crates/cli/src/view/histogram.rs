//! The histogram: how many records of which severity there are in each piece of the time that is shown, and the part of it
//! that is brushed.

use super::limits::EXACT_PAGES_MAX;
use logdrive_reader::pages::{PageFacts, TimeLine};
use logdrive_wire::Level;

/// Counts of one column.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Bin {
    pub(super) all: f64,
    pub(super) warnings: f64,
    pub(super) errors: f64,
}

/// Histogram of the time that is shown.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    pub(super) is_open: bool,
    pub(super) bins: Vec<Bin>,
    /// Columns of the screen.
    pub(super) width: usize,
    /// First and last time of the bins.
    pub(super) range: Option<(u64, u64)>,
    /// Ranges that were shown before, the widest first.
    pub(super) zoomed: Vec<(u64, u64)>,
    /// Columns of the brush: where it began, and where it is.
    pub(super) brush: Option<(usize, usize)>,
    /// Filter and entries of which the bins were made.
    made_of: (u64, u64, Option<(u64, u64)>, usize),
}

impl Histogram {
    /// First and last time of a column.
    pub(super) fn times_of(&self, column: usize) -> Option<(u64, u64)> {
        let (first, last) = self.range?;
        let width = bin_width(first, last, self.bins.len());
        let start = first.saturating_add(width.saturating_mul(column as u64));
        Some((start, start.saturating_add(width - 1).min(last)))
    }

    /// Column of a time.
    pub(super) fn column_of(&self, unix_ns: u64) -> Option<usize> {
        let (first, last) = self.range?;
        if self.bins.is_empty() || !(first..=last).contains(&unix_ns) {
            return None;
        }
        let width = bin_width(first, last, self.bins.len());
        Some((((unix_ns - first) / width) as usize).min(self.bins.len() - 1))
    }

    /// First and last time of what is brushed.
    pub(super) fn brushed(&self) -> Option<(u64, u64)> {
        let (from, to) = self.brush?;
        let (first, last) = (from.min(to), from.max(to));
        Some((self.times_of(first)?.0, self.times_of(last)?.1))
    }

    /// Moves the end of the brush; `extends` leaves its beginning in its place.
    pub(super) fn move_brush(&mut self, by: isize, extends: bool) {
        let last = self.bins.len().saturating_sub(1);
        let (from, to) = self.brush.unwrap_or((last, last));
        let to = to.saturating_add_signed(by).min(last);
        self.brush = Some((if extends { from } else { to }, to));
    }

    /// Counts the records anew, if something has changed; whether it has.
    pub(super) fn count(&mut self, line: &mut TimeLine) -> bool {
        let width = self.width;
        let range = self.zoomed.last().copied().or_else(|| line.times());
        let (done, _) = line.index().progress(line.is_filtered());
        let made_of = (line.filter_number(), done, range, width);
        if made_of == self.made_of && !self.bins.is_empty() {
            return false;
        }
        self.made_of = made_of;
        self.range = range;
        self.bins = vec![Bin::default(); width];
        if let Some((first, last)) = range {
            count_pages(&mut self.bins, line, first, last);
        }
        true
    }
}

fn bin_width(first: u64, last: u64, bins: usize) -> u64 {
    (last - first) / bins.max(1) as u64 + 1
}

/// Counts the pages of all logs: those that lie within one column as a whole, others record by record where they are few,
/// and spread evenly over their time where they are many.
fn count_pages(bins: &mut [Bin], line: &mut TimeLine, first: u64, last: u64) {
    let mut spread = Vec::new();
    let width = bin_width(first, last, bins.len());
    let is_filtered = line.is_filtered();
    for log in 0..line.logs().len() as u32 {
        line.index().each(log, is_filtered, |page, facts| {
            if facts.records() == 0 || facts.last_ns < first || facts.first_ns > last || facts.last_ns == 0 {
                return;
            }
            let column = |unix_ns: u64| (unix_ns.clamp(first, last) - first) / width;
            let is_within = facts.first_ns >= first && facts.last_ns <= last;
            match is_within && column(facts.first_ns) == column(facts.last_ns) {
                true => add(bins, column(facts.first_ns) as usize, facts, 1.0),
                false => spread.push((log, page, *facts)),
            }
        });
    }
    let is_exact = spread.len() <= EXACT_PAGES_MAX;
    for (log, page, facts) in spread {
        match is_exact {
            true => line.each_of_page(log, page, |record, passes| {
                if passes && (first..=last).contains(&record.unix_ns) {
                    let mut one = PageFacts::default();
                    if let Some(count) = one
                        .levels
                        .get_mut(record.level.map_or(6, |level| usize::from(level.code())))
                    {
                        *count = 1;
                    }
                    add(bins, ((record.unix_ns - first) / width) as usize, &one, 1.0);
                }
            }),
            false => {
                let length = (facts.last_ns - facts.first_ns + 1) as f64;
                let (from, to) = (facts.first_ns.max(first), facts.last_ns.min(last));
                for column in (from - first) / width..=(to - first) / width {
                    let start = (first + column * width).max(from);
                    let end = (first + (column + 1) * width - 1).min(to);
                    add(bins, column as usize, &facts, (end - start + 1) as f64 / length);
                }
            }
        }
    }
}

fn add(bins: &mut [Bin], column: usize, facts: &PageFacts, share: f64) {
    let Some(last) = bins.len().checked_sub(1) else {
        return;
    };
    if let Some(bin) = bins.get_mut(column.min(last)) {
        let errors = facts.records_from(Level::Error);
        bin.all += facts.records() as f64 * share;
        bin.errors += errors as f64 * share;
        bin.warnings += (facts.records_from(Level::Warn) - errors) as f64 * share;
    }
}
