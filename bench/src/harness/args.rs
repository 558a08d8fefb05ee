//! The command line of the benchmark program.

use lexopt::prelude::*;

use super::case::Scale;
use crate::{BenchError, Result};

/// Medians of fewer rounds say nothing.
pub const MIN_ROUNDS: usize = 3;

/// Usage of the program.
pub const USAGE: &str = "\
Usage: cargo xtask bench WORKLOAD... [--json] [--quick] [--only SUBJECT,...] [--rounds N] [--list]

  --json            print one JSON object a line, and nothing else, on stdout
  --quick           a smoke test of seconds; its figures are not kept
  --only A,B        measure only these subjects
  --rounds N        how often each subject runs (3 or more, with --quick 1 or more; 3 when not given)
  --list            name the workloads and their subjects
";

/// Request of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Args {
    /// Measure workloads.
    Run(RunArgs),
    /// Be the measuring process of one case.
    Child {
        /// The workload.
        workload: String,
        /// The job, as JSON.
        job: String,
    },
    /// Name the workloads and their subjects.
    List,
    /// Print how to call the program.
    Help,
}

/// Choice of measurements and of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunArgs {
    /// The workloads, in turn.
    pub workloads: Vec<String>,
    /// Size of each.
    pub scale: Scale,
    /// Results as JSON lines instead of a table.
    pub json: bool,
    /// Only these subjects, or all.
    pub only: Vec<String>,
    /// Number of runs of each case.
    pub rounds: usize,
    /// The command that repeats the run, for the record.
    pub command: String,
}

impl Args {
    /// Reads the arguments of this process.
    pub fn from_env() -> Result<Args> {
        Args::parse(std::env::args_os().skip(1))
    }

    fn parse(words: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Args> {
        let words: Vec<_> = words.into_iter().collect();
        let command = words.iter().fold("cargo xtask bench".to_string(), |all, word| {
            format!("{all} {}", word.to_string_lossy())
        });
        let mut run = RunArgs {
            workloads: Vec::new(),
            scale: Scale::Full,
            json: false,
            only: Vec::new(),
            rounds: MIN_ROUNDS,
            command,
        };
        let mut parser = lexopt::Parser::from_args(words);
        while let Some(argument) = parser.next().map_err(usage)? {
            match argument {
                Value(name) => run.workloads.push(name.string().map_err(usage)?),
                Long("json") => run.json = true,
                Long("quick") => run.scale = Scale::Quick,
                Long("only") => run.only.extend(names(&mut parser)?),
                Long("rounds") => run.rounds = rounds(&mut parser)?,
                Long("list") => return Ok(Args::List),
                Long("help") | Short('h') => return Ok(Args::Help),
                Long("child") => return child(&mut parser),
                other => return Err(usage(other.unexpected())),
            }
        }
        if run.scale == Scale::Full && run.rounds < MIN_ROUNDS {
            return Err(BenchError::Usage(format!(
                "--rounds takes a number of at least {MIN_ROUNDS}, not '{}'; --quick takes 1, too",
                run.rounds
            )));
        }
        if run.workloads.is_empty() {
            return Err(BenchError::Usage(format!("name a workload\n\n{USAGE}")));
        }
        Ok(Args::Run(run))
    }
}

fn usage(error: lexopt::Error) -> BenchError {
    BenchError::Usage(format!("{error}\n\n{USAGE}"))
}

fn text(parser: &mut lexopt::Parser) -> Result<String> {
    parser.value().and_then(|word| word.string()).map_err(usage)
}

fn names(parser: &mut lexopt::Parser) -> Result<Vec<String>> {
    Ok(text(parser)?.split(',').map(str::to_string).collect())
}

fn rounds(parser: &mut lexopt::Parser) -> Result<usize> {
    let word = text(parser)?;
    match word.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(BenchError::Usage(format!(
            "--rounds takes a number of at least {MIN_ROUNDS}, not '{word}'"
        ))),
    }
}

/// `--child WORKLOAD SUBJECT JOB`: the subject is there for whoever looks at
/// the list of processes.
fn child(parser: &mut lexopt::Parser) -> Result<Args> {
    let workload = text(parser)?;
    let _subject = text(parser)?;
    let job = text(parser)?;
    Ok(Args::Child { workload, job })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args> {
        Args::parse(line.split_whitespace().map(Into::into))
    }

    #[test]
    fn a_run_is_read_with_its_command() {
        let Args::Run(run) = parse("glog callsite --json --quick --only write,logdrive --rounds 5").unwrap()
        else {
            panic!("not a run");
        };
        assert_eq!(run.workloads, ["glog", "callsite"]);
        assert_eq!(run.only, ["write", "logdrive"]);
        assert_eq!((run.rounds, run.json, run.scale), (5, true, Scale::Quick));
        assert!(run.command.starts_with("cargo xtask bench glog callsite --json"));
    }

    #[test]
    fn fewer_than_three_rounds_are_refused_where_figures_count() {
        for line in ["glog --rounds 2", "glog --quick --rounds 0"] {
            let error = parse(line).unwrap_err();
            assert!(error.to_string().contains("at least 3"), "{error}");
        }
        assert!(matches!(parse("glog --quick --rounds 1"), Ok(Args::Run(run)) if run.rounds == 1));
    }

    #[test]
    fn unknown_options_and_a_missing_workload_show_the_usage() {
        for line in ["glog --fast", "", "--quick"] {
            assert!(parse(line).unwrap_err().to_string().contains("Usage:"));
        }
    }
}
