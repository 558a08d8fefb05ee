//! Measures a case in a process of its own: this program, started again.
//!
//! The child prints its samples as the last line on its standard output that
//! starts with `RESULT_MARK`; a logger that prints there does no harm. A
//! child that hangs ends itself, so that one broken subject cannot stop a run.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use super::case::{Case, Job, Samples, Workload};
use crate::{BenchError, Result};

/// Stands before the samples on the child's standard output.
const RESULT_MARK: &str = "logdrive-bench-result ";

/// A full run of the slowest subject takes about a minute on two cores; ten
/// times that is a hang.
const CHILD_TIMEOUT: Duration = Duration::from_secs(600);

/// Exit status of a child that ran into the timeout.
const TIMEOUT_STATUS: i32 = 124;

/// Starts this program again to measure `case`, and returns what it measured.
pub fn spawn(workload: &str, case: &Case) -> Result<Samples> {
    let job = Job {
        subject: case.subject.to_string(),
        params: case.params.clone(),
        settings: case.settings.clone(),
    };
    let job = serde_json::to_string(&job).map_err(|error| BenchError::subject(case.subject, error))?;
    let program = std::env::current_exe().map_err(BenchError::io("find", Path::new("this program")))?;
    let output = Command::new(&program)
        .args(["--child", workload, case.subject, &job])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(BenchError::io("start", &program))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success()
        && let Some(samples) = find_result(&text)
    {
        return Ok(samples);
    }
    Err(BenchError::Child {
        workload: workload.to_string(),
        subject: case.subject.to_string(),
        status: output.status.to_string(),
    })
}

fn find_result(text: &str) -> Option<Samples> {
    let line = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix(RESULT_MARK))?;
    serde_json::from_str(line).ok()
}

/// The child's side: measures the job and prints the samples.
pub fn serve(workload: &dyn Workload, job: &str) -> ExitCode {
    std::thread::spawn(|| {
        std::thread::sleep(CHILD_TIMEOUT);
        eprintln!("no result after {} s, giving up", CHILD_TIMEOUT.as_secs());
        std::process::exit(TIMEOUT_STATUS);
    });
    let outcome = serde_json::from_str::<Job>(job)
        .map_err(|error| BenchError::Usage(format!("the job cannot be read: {error}")))
        .and_then(|job| workload.measure(&job))
        .and_then(|samples| {
            serde_json::to_string(&samples)
                .map_err(|error| BenchError::Usage(format!("the samples have no JSON: {error}")))
        });
    match outcome {
        Ok(json) => {
            println!("{RESULT_MARK}{json}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}", error.full_message());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_found_among_what_a_logger_printed() {
        let text = "noise\nlogdrive-bench-result {\"wall_s\":1.5}\nmore noise";
        let samples = find_result(text).unwrap();
        assert_eq!(samples.value("wall_s"), Some(1.5));
        assert!(find_result("noise only").is_none());
    }
}
