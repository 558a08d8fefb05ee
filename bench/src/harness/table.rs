//! Prints the results as an aligned table, with colour on a terminal.

use std::collections::BTreeSet;

use console::{Alignment, Style, measure_text_width, pad_str};

use super::case::{About, Ratio, Workload};
use super::report::{CaseResult, Summary};

const COLUMN_GAP: &str = "  ";

/// Renders the table of a workload's results, without a last line end.
#[must_use]
pub fn render(workload: &dyn Workload, results: &[CaseResult], colours: bool) -> String {
    let varying = varying_params(results);
    let with_params = !varying.is_empty();
    let about = workload.about();
    let mut rows = vec![header(about, with_params)];
    rows.extend(results.iter().map(|result| row(about, results, result, &varying)));
    let lines = aligned(&rows, 1 + usize::from(with_params));
    let styled = lines.into_iter().enumerate().map(|(number, line)| {
        let style = style_of(number, &rows[number], about.ratio);
        style.force_styling(colours).apply_to(line).to_string()
    });
    styled.collect::<Vec<_>>().join("\n")
}

/// Rows of equal length as lines with their cells below each other: the first
/// columns to the left, the others, which hold numbers, to the right.
#[must_use]
pub fn aligned(rows: &[Vec<String>], text_columns: usize) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| measure_text_width(cell)).max().unwrap_or(0)
    };
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let side = match column < text_columns {
                true => Alignment::Left,
                false => Alignment::Right,
            };
            pad_str(cell, width(column), side, None)
        });
        cells.collect::<Vec<_>>().join(COLUMN_GAP).trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

/// The parameters in which the results differ; the others say nothing here.
fn varying_params(results: &[CaseResult]) -> Vec<&str> {
    let names: BTreeSet<&String> = results
        .iter()
        .flat_map(|result| result.case.params.keys())
        .collect();
    let varies = |name: &&String| {
        let values = results.iter().map(|result| result.case.params.get(*name));
        values.clone().zip(values.skip(1)).any(|(one, next)| one != next)
    };
    names.into_iter().filter(varies).map(String::as_str).collect()
}

fn header(about: About, with_params: bool) -> Vec<String> {
    let mut cells = vec!["subject".to_string()];
    cells.extend(with_params.then(|| "params".to_string()));
    cells.extend(about.metrics.iter().map(|metric| metric.name.to_string()));
    cells.extend(about.ratio.map(|ratio| format!("x {}", ratio.floor)));
    cells
}

fn row(about: About, results: &[CaseResult], result: &CaseResult, varying: &[&str]) -> Vec<String> {
    let number = |value: Option<f64>, decimals: usize| {
        value.map_or("-".to_string(), |value| format!("{value:.decimals$}"))
    };
    let mut cells = vec![result.case.subject.to_string()];
    if !varying.is_empty() {
        cells.push(result.case.params_text(|name| varying.contains(&name)));
    }
    for metric in about.metrics {
        let median = result.summary(metric.name).map(|summary| summary.median);
        cells.push(number(median, metric.decimals));
    }
    cells.extend(
        about
            .ratio
            .map(|ratio| number(ratio_to_floor(ratio, results, result), 2)),
    );
    cells
}

/// The result over the floor: over the floor's case that shares most
/// parameters with it. Rounds are compared one by one, and the median of
/// that counts: on a shared machine one round can be half as fast as the next.
fn ratio_to_floor(ratio: Ratio, results: &[CaseResult], result: &CaseResult) -> Option<f64> {
    let shared = |floor: &&CaseResult| {
        let params = floor.case.params.iter();
        params
            .filter(|(name, value)| result.case.params.get(*name) == Some(value))
            .count()
    };
    let floors = results.iter().filter(|other| other.case.subject == ratio.floor);
    // Backwards, so that the first of equals is taken.
    let floor = floors.rev().max_by_key(shared)?;
    let (own, floor) = (result.values(ratio.metric), floor.values(ratio.metric));
    let over = |own: f64, floor: f64| (floor != 0.0).then(|| own / floor);
    if own.len() != floor.len() {
        return over(Summary::of(&own)?.median, Summary::of(&floor)?.median);
    }
    let rounds = own
        .iter()
        .zip(&floor)
        .filter_map(|(own, floor)| over(*own, *floor));
    Summary::of(&rounds.collect::<Vec<_>>()).map(|rounds| rounds.median)
}

fn style_of(number: usize, row: &[String], ratio: Option<Ratio>) -> Style {
    let subject = row.first().map_or("", String::as_str);
    match ratio {
        _ if number == 0 => Style::new().bold(),
        _ if subject.starts_with("logdrive") => Style::new().green(),
        Some(ratio) if ratio.floor == subject => Style::new().cyan(),
        _ => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::{Case, Job, Metric, Samples, Scale};
    use super::*;
    use crate::Result;

    struct Fixed;

    impl Workload for Fixed {
        fn about(&self) -> About {
            About::new("fixed", const { &[Metric::new("wall_s", "s", 1)] }).with_floor("wall_s", "write")
        }

        fn title(&self, _scale: Scale) -> String {
            String::new()
        }
        fn cases(&self, _scale: Scale) -> Vec<Case> {
            vec![]
        }
        fn measure(&self, _job: &Job) -> Result<Samples> {
            Ok(Samples::default())
        }
    }

    fn result(case: Case, wall_s: f64) -> CaseResult {
        CaseResult {
            case,
            runs: vec![Samples::default().with("wall_s", wall_s)],
        }
    }

    #[test]
    fn numbers_are_right_aligned_and_compared_with_the_floor() {
        let results = [
            result(Case::new("write"), 0.5),
            result(Case::new("slow-one"), 10.0),
        ];
        let table = render(&Fixed, &results, false);
        assert_eq!(
            table,
            "subject   wall_s  x write\nwrite        0.5     1.00\nslow-one    10.0    20.00"
        );
    }

    #[test]
    fn the_floor_with_the_same_parameters_is_preferred() {
        let results = [
            result(Case::new("write").param("threads", 1), 1.0),
            result(Case::new("write").param("threads", 4), 2.0),
            result(Case::new("x").param("threads", 4), 4.0),
        ];
        let table = render(&Fixed, &results, false);
        assert!(table.lines().nth(3).unwrap().ends_with("2.00"), "{table}");
    }

    #[test]
    fn the_floor_that_shares_most_parameters_stands_in_for_the_same_ones() {
        let floor = |stack, value| {
            result(
                Case::new("write").param("level", "off").param("stack", stack),
                value,
            )
        };
        let results = [
            floor("quinn", 1.0),
            floor("quic-go", 2.0),
            result(
                Case::new("x").param("level", "debug").param("stack", "quic-go"),
                4.0,
            ),
        ];
        let table = render(&Fixed, &results, false);
        assert!(table.lines().nth(3).unwrap().ends_with("2.00"), "{table}");
    }

    #[test]
    fn rounds_are_compared_one_by_one() {
        let rounds = |subject, values: [f64; 3]| CaseResult {
            case: Case::new(subject),
            runs: values
                .map(|value| Samples::default().with("wall_s", value))
                .to_vec(),
        };
        let results = [rounds("write", [1.0, 4.0, 1.0]), rounds("x", [2.0, 8.0, 3.0])];
        let table = render(&Fixed, &results, false);
        assert!(table.lines().nth(2).unwrap().ends_with("2.00"), "{table}");
    }

    #[test]
    fn without_colours_there_is_no_escape() {
        let results = [result(Case::new("logdrive"), 1.0)];
        assert!(!render(&Fixed, &results, false).contains('\x1b'));
        assert!(render(&Fixed, &results, true).contains('\x1b'));
    }
}
