//! Medians over the rounds, and the result lines as JSON.

use serde::{Serialize, Serializer};

use super::case::{Case, Metric, Params, Samples};

/// Result of the rounds of one case for one metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The middle value; with an even number of rounds, the mean of the two.
    #[serde(serialize_with = "rounded")]
    pub median: f64,
    /// The least value.
    #[serde(serialize_with = "rounded")]
    pub min: f64,
    /// The greatest value.
    #[serde(serialize_with = "rounded")]
    pub max: f64,
    /// Number of rounds that measured it.
    pub rounds: usize,
}

impl Summary {
    /// Summarises the values; `None` if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Summary> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let rounds = sorted.len();
        let median = f64::midpoint(sorted[(rounds - 1) / 2], sorted[rounds / 2]);
        Some(Summary {
            median,
            min,
            max,
            rounds,
        })
    }
}

/// All that the rounds measured of one case.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// The case.
    pub case: Case,
    /// One entry for each round that succeeded.
    pub runs: Vec<Samples>,
}

impl CaseResult {
    /// The summary of a metric, if any round measured it.
    #[must_use]
    pub fn summary(&self, metric: &str) -> Option<Summary> {
        Summary::of(&self.values(metric))
    }

    /// Measurements of a metric by round, in the order of the rounds.
    #[must_use]
    pub fn values(&self, metric: &str) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.value(metric)).collect()
    }
}

#[derive(Serialize)]
struct ResultLine<'a> {
    workload: &'a str,
    subject: &'a str,
    params: &'a Params,
    metric: &'a str,
    unit: &'a str,
    #[serde(flatten)]
    summary: Summary,
}

/// One JSON object for each case and metric, without line ends.
#[must_use]
pub fn json_lines(workload: &str, metrics: &[Metric], results: &[CaseResult]) -> Vec<String> {
    let mut lines = Vec::new();
    for result in results {
        for metric in metrics {
            let Some(summary) = result.summary(metric.name) else {
                continue;
            };
            let line = ResultLine {
                workload,
                subject: result.case.subject,
                params: &result.case.params,
                metric: metric.name,
                unit: metric.unit,
                summary,
            };
            // Strings and finite numbers always have a JSON form.
            lines.extend(serde_json::to_string(&line));
        }
    }
    lines
}

/// Cuts digits that no measurement here has.
fn rounded<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value * 1e4).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_rounds_is_the_middle_one() {
        let summary = Summary::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(
            (summary.median, summary.min, summary.max, summary.rounds),
            (2.0, 1.0, 3.0, 3)
        );
        assert_eq!(Summary::of(&[1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn a_result_line_has_exactly_the_agreed_keys() {
        let metric = Metric::new("wall_s", "s", 2);
        let result = CaseResult {
            case: Case::new("write").param("threads", 4),
            runs: vec![Samples::default().with("wall_s", 0.5)],
        };
        assert_eq!(
            json_lines("glog", &[metric], &[result]),
            [concat!(
                r#"{"workload":"glog","subject":"write","params":{"threads":4},"#,
                r#""metric":"wall_s","unit":"s","median":0.5,"min":0.5,"max":0.5,"rounds":1}"#
            )]
        );
    }
}
