//! A list of timed steps: each is announced, run and timed, and a table at the end says what passed,
//! what was left out and why, and what did not get its turn.

use crate::paint;
use crate::shell::{Failure, Outcome};
use std::time::{Duration, Instant};

/// End of a step.
pub(crate) enum End {
    /// Everything in it was done.
    Passed,
    /// Something could not be done on this machine; the text says what and how to get it.
    LeftOut(String),
}

/// Result of a step's work.
pub(crate) type StepOutcome = Result<End, Failure>;

struct Row {
    name: String,
    time: Option<Duration>,
    verdict: Verdict,
}

enum Verdict {
    Passed,
    LeftOut(String),
    Failed,
    NotReached,
}

/// The steps of one run.
pub(crate) struct Steps {
    title: &'static str,
    started: Instant,
    rows: Vec<Row>,
    failure: Option<Failure>,
    keep_going: bool,
}

impl Steps {
    /// Steps that stop at the first failure.
    pub(crate) fn stopping(title: &'static str) -> Steps {
        Steps {
            title,
            started: Instant::now(),
            rows: Vec::new(),
            failure: None,
            keep_going: false,
        }
    }

    /// Steps that all get their turn; the first failure is reported at the end.
    pub(crate) fn independent(title: &'static str) -> Steps {
        Steps {
            keep_going: true,
            ..Steps::stopping(title)
        }
    }

    /// Runs one step, unless an earlier failure stops the run. `repeat` is the command that runs just
    /// this step again.
    pub(crate) fn step(&mut self, name: &str, repeat: &str, work: impl FnOnce() -> StepOutcome) {
        if self.failure.is_some() && !self.keep_going {
            self.rows.push(Row {
                name: name.to_owned(),
                time: None,
                verdict: Verdict::NotReached,
            });
            return;
        }
        eprintln!("\n{}", paint::strong(&format!("{}: {name}", self.title)));
        let start = Instant::now();
        let verdict = match work() {
            Ok(End::Passed) => Verdict::Passed,
            Ok(End::LeftOut(what)) => {
                eprintln!("{}", paint::note(&format!("left out: {what}")));
                Verdict::LeftOut(what)
            }
            Err(failure) => {
                eprintln!("{}: {name}: {failure}", paint::bad("failed"));
                if self.failure.is_none() {
                    self.failure = Some(with_repeat(failure, name, repeat));
                }
                Verdict::Failed
            }
        };
        let time = start.elapsed();
        eprintln!("{}", paint::faint(&format!("{name} took {}", seconds(time))));
        self.rows.push(Row {
            name: name.to_owned(),
            time: Some(time),
            verdict,
        });
    }

    /// Prints the table and gives the run's outcome.
    pub(crate) fn finish(self) -> Outcome {
        eprint!("\n{}", self.table());
        let count =
            |wanted: fn(&Verdict) -> bool| self.rows.iter().filter(|row| wanted(&row.verdict)).count();
        let passed = count(|verdict| matches!(verdict, Verdict::Passed | Verdict::LeftOut(_)));
        let failed = count(|verdict| matches!(verdict, Verdict::Failed));
        let not_reached = count(|verdict| matches!(verdict, Verdict::NotReached));
        // The one line on stdout: scripts that run the workshop read it.
        println!(
            "{}: {passed} passed, {failed} failed, {not_reached} skipped",
            self.title
        );
        self.failure.map_or(Ok(()), Err)
    }

    fn table(&self) -> String {
        let width = self
            .rows
            .iter()
            .map(|row| row.name.len())
            .max()
            .unwrap_or(0)
            .max("step".len());
        let mut table = paint::strong(&format!("{:width$}  {:>9}  result", "step", "time"));
        table.push('\n');
        for row in &self.rows {
            let time = row.time.map_or_else(|| "-".to_owned(), seconds);
            let verdict = match &row.verdict {
                Verdict::Passed => paint::good("passed"),
                Verdict::LeftOut(what) => paint::note(&format!("passed, but left out: {what}")),
                Verdict::Failed => paint::bad("FAILED"),
                Verdict::NotReached => paint::note("not reached"),
            };
            table.push_str(&format!("{:width$}  {time:>9}  {verdict}\n", row.name));
        }
        table.push_str(&format!(
            "{:width$}  {:>9}\n",
            "in all",
            seconds(self.started.elapsed())
        ));
        table
    }
}

fn with_repeat(mut failure: Failure, name: &str, repeat: &str) -> Failure {
    let again = format!("to repeat it: {repeat}");
    failure.message = format!("{name}: {}", failure.message);
    failure.advice = if failure.advice.is_empty() {
        again
    } else {
        format!("{}\n      {again}", failure.advice)
    };
    failure
}

/// A duration for people: `0.4 s`, `12.0 s`, `3 m 20 s`.
fn seconds(time: Duration) -> String {
    let whole_s = time.as_secs();
    if whole_s < 100 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} m {:02} s", whole_s / 60, whole_s % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_stops_the_run_and_says_how_to_repeat_the_step() {
        let mut steps = Steps::stopping("trial");
        steps.step("one", "run one", || Ok(End::Passed));
        steps.step("two", "run two", || Err(Failure::new("it broke", "mend it")));
        steps.step("three", "run three", || {
            unreachable!("a step after a failure must not run")
        });
        let table = steps.table();
        assert!(
            table.contains("not reached") && table.contains("FAILED"),
            "{table}"
        );
        let failure = steps.finish().expect_err("the second step failed");
        assert_eq!(failure.message, "two: it broke");
        assert_eq!(failure.advice, "mend it\n      to repeat it: run two");
    }

    #[test]
    fn independent_steps_all_get_their_turn() {
        let mut steps = Steps::independent("trial");
        let mut ran = 0;
        steps.step("one", "run one", || Err(Failure::new("it broke", "")));
        steps.step("two", "run two", || {
            ran += 1;
            Ok(End::LeftOut("a part".to_owned()))
        });
        assert_eq!(ran, 1);
        assert!(steps.finish().is_err());
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(seconds(Duration::from_millis(430)), "0.4 s");
        assert_eq!(seconds(Duration::from_secs(200)), "3 m 20 s");
    }
}
