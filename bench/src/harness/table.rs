//! Prints the results as an aligned table, with colour on a terminal.

use console::{Alignment, Style, measure_text_width, pad_str};

use super::case::{Case, Ratio, Workload};
use super::report::{CaseResult, Summary};

const COLUMN_GAP: &str = "  ";

/// Renders the table of a workload's results, without a last line end.
#[must_use]
pub fn render(workload: &dyn Workload, results: &[CaseResult], colours: bool) -> String {
    let varying = varying_params(results);
    let with_params = !varying.is_empty();
    let mut rows = vec![header(workload, with_params)];
    rows.extend(
        results
            .iter()
            .map(|result| row(workload, results, result, &varying)),
    );
    let text_columns = if with_params { 2 } else { 1 };
    let lines: Vec<String> = aligned(&rows, text_columns)
        .into_iter()
        .enumerate()
        .map(|(number, line)| {
            style_of(number, &rows[number], workload.ratio())
                .force_styling(colours)
                .apply_to(line)
                .to_string()
        })
        .collect();
    lines.join("\n")
}

/// Rows of equal length as lines with their cells below each other: the first
/// columns to the left, the others, which hold numbers, to the right.
#[must_use]
pub fn aligned(rows: &[Vec<String>], text_columns: usize) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| measure_text_width(cell))
                .max()
                .unwrap_or(0)
        })
        .collect();
    rows.iter()
        .map(|row| aligned_row(row, &widths, text_columns))
        .collect()
}

/// The parameters in which the results differ; the others say nothing here.
fn varying_params(results: &[CaseResult]) -> Vec<&str> {
    let Some((first, rest)) = results.split_first() else {
        return Vec::new();
    };
    let names = results.iter().flat_map(|result| result.case.params.keys());
    let mut varying: Vec<&str> = names
        .filter(|name| {
            let value = first.case.params.get(*name);
            rest.iter().any(|other| other.case.params.get(*name) != value)
        })
        .map(String::as_str)
        .collect();
    varying.sort_unstable();
    varying.dedup();
    varying
}

fn header(workload: &dyn Workload, with_params: bool) -> Vec<String> {
    let mut cells = vec!["subject".to_string()];
    if with_params {
        cells.push("params".to_string());
    }
    cells.extend(workload.metrics().iter().map(|m| m.name.to_string()));
    if let Some(ratio) = workload.ratio() {
        cells.push(format!("x {}", ratio.floor));
    }
    cells
}

fn row(
    workload: &dyn Workload,
    results: &[CaseResult],
    result: &CaseResult,
    varying: &[&str],
) -> Vec<String> {
    let mut cells = vec![result.case.subject.to_string()];
    if !varying.is_empty() {
        cells.push(result.case.params_text(|name| varying.contains(&name)));
    }
    for metric in workload.metrics() {
        cells.push(result.summary(metric.name).map_or("-".to_string(), |s| {
            let decimals = metric.decimals;
            format!("{:.decimals$}", s.median)
        }));
    }
    if let Some(ratio) = workload.ratio() {
        cells.push(
            ratio_to_floor(ratio, results, result).map_or("-".to_string(), |value| format!("{value:.2}")),
        );
    }
    cells
}

/// The result over the floor: over the floor's case that shares most
/// parameters with it. Rounds are compared one by one, and the median of
/// that counts: on a shared machine one round can be half as fast as the next.
fn ratio_to_floor(ratio: Ratio, results: &[CaseResult], result: &CaseResult) -> Option<f64> {
    let shared = |case: &Case| {
        let own = &result.case.params;
        case.params
            .iter()
            .filter(|(name, value)| own.get(*name) == Some(value))
            .count()
    };
    let mut floors: Vec<&CaseResult> = results
        .iter()
        .filter(|other| other.case.subject == ratio.floor)
        .collect();
    // Stable, so that the first of equals stays in front.
    floors.sort_by_key(|floor| std::cmp::Reverse(shared(&floor.case)));
    let (own, floor) = (result.values(ratio.metric), floors.first()?.values(ratio.metric));
    let over = |own: f64, floor: f64| (floor != 0.0).then(|| own / floor);
    if own.len() != floor.len() {
        return over(Summary::of(&own)?.median, Summary::of(&floor)?.median);
    }
    let rounds: Vec<f64> = own
        .iter()
        .zip(&floor)
        .filter_map(|(own, floor)| over(*own, *floor))
        .collect();
    Summary::of(&rounds).map(|rounds| rounds.median)
}

fn aligned_row(row: &[String], widths: &[usize], text_columns: usize) -> String {
    let cells: Vec<String> = row
        .iter()
        .zip(widths)
        .enumerate()
        .map(|(column, (cell, width))| {
            let side = if column < text_columns {
                Alignment::Left
            } else {
                Alignment::Right
            };
            pad_str(cell, *width, side, None).into_owned()
        })
        .collect();
    cells.join(COLUMN_GAP).trim_end().to_string()
}

fn style_of(number: usize, row: &[String], ratio: Option<Ratio>) -> Style {
    let subject = row.first().map_or("", String::as_str);
    if number == 0 {
        Style::new().bold()
    } else if subject.starts_with("logdrive") {
        Style::new().green()
    } else if ratio.is_some_and(|ratio| ratio.floor == subject) {
        Style::new().cyan()
    } else {
        Style::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::{About, Job, Metric, Samples, Scale};
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
