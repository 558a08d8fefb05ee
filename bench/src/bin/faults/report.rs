//! Table of the results, for people or as JSON.

use crate::run::{Outcome, RowResult};
use console::{Alignment, pad_str, style};

/// Columns of the table: title and width.
const COLUMNS: [(&str, usize); 14] = [
    ("fault", 46),
    ("language", 8),
    ("calls", 7),
    ("committed", 9),
    ("written", 7),
    ("told", 6),
    ("diff", 6),
    ("first µs", 8),
    ("worst µs", 8),
    ("own µs", 6),
    ("stall µs", 8),
    ("MiB", 6),
    ("s", 5),
    ("result", 0),
];

/// Line of the titles.
pub(crate) fn titles() -> String {
    cells(&COLUMNS.map(|(title, _)| title.to_owned()))
}

fn cells(texts: &[String; COLUMNS.len()]) -> String {
    let padded = texts
        .iter()
        .zip(COLUMNS)
        .enumerate()
        .map(|(at, (text, (_, width)))| {
            let side = if at < 2 { Alignment::Left } else { Alignment::Right };
            match width {
                0 => text.clone(),
                width => pad_str(text, width, side, None).into_owned(),
            }
        });
    padded.collect::<Vec<_>>().join("  ")
}

/// Line of a row.
pub(crate) fn line(outcome: &Outcome) -> String {
    let dash = || "-".to_owned();
    let has_numbers = !matches!(outcome.verdict, RowResult::Skipped(_));
    let number = |value: u64| if has_numbers { value.to_string() } else { dash() };
    let verdict = match &outcome.verdict {
        RowResult::Passed => style("ok".to_owned()).green(),
        RowResult::Failed(why) => style(format!("FAILED: {why}")).red().bold(),
        RowResult::Skipped(why) => style(format!("skipped: {why}")).dim(),
    };
    let told = match outcome.told_by_reason.is_empty() {
        true => String::new(),
        false => format!(" ({})", reasons(outcome)),
    };
    cells(&[
        outcome.fault.to_owned(),
        outcome.language.to_owned(),
        number(outcome.calls),
        outcome.committed.map_or_else(dash, |count| count.to_string()),
        number(outcome.written),
        number(outcome.told),
        if has_numbers {
            outcome.difference.to_string()
        } else {
            dash()
        },
        number(outcome.first_us),
        number(outcome.worst_us),
        number(outcome.own_us),
        number(outcome.stall_us),
        if has_numbers {
            format!("{:.1}", outcome.memory_mib)
        } else {
            dash()
        },
        format!("{:.1}", outcome.seconds),
        format!("{verdict}{told}"),
    ])
}

fn reasons(outcome: &Outcome) -> String {
    let reasons = outcome.told_by_reason.iter();
    let texts = reasons.map(|(reason, count)| format!("{count} {reason}"));
    texts.collect::<Vec<_>>().join(", ")
}
