//! Measures a case in a process of its own: this program, started again.
//!
//! The child prints its samples as the last line on its standard output that
//! starts with `RESULT_MARK`; a logger that prints there does no harm. A
//! child that hangs ends itself, so that one broken subject cannot stop a run.

use std::process::Stdio;
use std::time::Duration;

use super::case::{Case, Job, Samples};
use crate::{BenchError, Result, role, workloads};

/// The role of a measuring process: the workload, the subject, which is there for a reader of the list of processes, and
/// the job as JSON.
pub const MEASURE: &str = "--child";

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
    let output = role::command(MEASURE, &[workload, case.subject, &job])?
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let samples = find_result(&String::from_utf8_lossy(&output.stdout));
    samples.filter(|_| output.status.success()).ok_or_else(|| {
        let (subject, status) = (case.subject, output.status);
        BenchError::new(format!(
            "{workload} {subject}: the measuring process ended with {status} and without a result"
        ))
    })
}

fn find_result(text: &str) -> Option<Samples> {
    let mut lines = text.lines().rev();
    let line = lines.find_map(|line| line.strip_prefix(RESULT_MARK))?;
    serde_json::from_str(line).ok()
}

/// The child's side: measures the job and prints the samples.
pub fn serve(words: &[String]) -> Result<()> {
    std::thread::spawn(|| {
        std::thread::sleep(CHILD_TIMEOUT);
        eprintln!("no result after {} s, giving up", CHILD_TIMEOUT.as_secs());
        std::process::exit(TIMEOUT_STATUS);
    });
    let [workload, _, job] = words else {
        return Err(BenchError::new("a workload, a subject and a job are wanted"));
    };
    let unreadable = |error| BenchError::new(format!("the job cannot be read: {error}"));
    let samples = workloads::find(workload)?.measure(&serde_json::from_str(job).map_err(unreadable)?)?;
    println!("{RESULT_MARK}{}", serde_json::json!(samples));
    Ok(())
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
