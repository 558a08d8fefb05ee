//! The command line of the benchmark program.

use super::case::Scale;
use crate::{BenchError, Result};

/// Medians of fewer rounds say nothing.
const MIN_ROUNDS: usize = 3;

/// Choice of measurements and of the report.
#[derive(Clone, Debug, clap::Parser)]
#[command(bin_name = "cargo xtask bench", about = "Workloads and their rivals")]
pub struct Args {
    /// Workloads to measure, one after the other
    #[arg(required_unless_present = "list", value_name = "WORKLOAD")]
    pub workloads: Vec<String>,
    /// Print one JSON object a line, and nothing else, on stdout
    #[arg(long)]
    pub json: bool,
    /// Run a smoke test of seconds, whose figures are not kept
    #[arg(long)]
    pub quick: bool,
    /// Measure only these subjects
    #[arg(long, value_name = "SUBJECT", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Number of runs of each subject: 3 or more, with --quick 1 or more
    #[arg(long, value_name = "N", default_value_t = MIN_ROUNDS)]
    pub rounds: usize,
    /// Records of the log that `search` asks, 100 million by default
    #[arg(long, value_name = "N")]
    pub records: Option<u64>,
    /// Leave the log of `search` where it is, for the next run
    #[arg(long)]
    pub keep: bool,
    /// Name the workloads and their subjects
    #[arg(long)]
    pub list: bool,
}

impl Args {
    /// Refuses a number of rounds whose medians would say nothing, and options that no chosen workload has.
    pub fn check(&self) -> Result<()> {
        let is_of_search = self.records.is_some() || self.keep;
        if is_of_search && !self.workloads.iter().any(|name| name == "search") {
            return Err(BenchError::new("--records and --keep are options of `search`"));
        }
        if self.rounds < self.scale().pick(MIN_ROUNDS, 1) {
            return Err(BenchError::new(format!(
                "--rounds takes a number of at least {MIN_ROUNDS}, not '{}'; --quick takes 1, too",
                self.rounds
            )));
        }
        Ok(())
    }

    /// Size of each workload.
    #[must_use]
    pub fn scale(&self) -> Scale {
        match self.quick {
            true => Scale::Quick,
            false => Scale::Full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn parse(line: &str) -> std::result::Result<Args, clap::Error> {
        Args::try_parse_from(["bench"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn a_run_is_read() {
        let args = parse("glog callsite --json --quick --only write,logdrive --rounds 5").unwrap();
        assert_eq!(args.workloads, ["glog", "callsite"]);
        assert_eq!(args.only, ["write", "logdrive"]);
        assert_eq!((args.rounds, args.json, args.scale()), (5, true, Scale::Quick));
    }

    #[test]
    fn fewer_than_three_rounds_are_refused_where_figures_count() {
        for line in ["glog --rounds 2", "glog --quick --rounds 0"] {
            let error = parse(line).unwrap().check().unwrap_err();
            assert!(error.to_string().contains("at least 3"), "{error}");
        }
        assert!(parse("glog --quick --rounds 1").unwrap().check().is_ok());
        assert!(parse("glog --rounds x").is_err());
    }

    #[test]
    fn options_of_search_are_refused_without_it() {
        let args = parse("search --records 1000 --keep").unwrap();
        assert_eq!(
            (args.records, args.keep, args.check().is_ok()),
            (Some(1_000), true, true)
        );
        for line in ["glog --records 1000", "glog --keep"] {
            let error = parse(line).unwrap().check().unwrap_err();
            assert!(error.to_string().contains("options of `search`"), "{error}");
        }
    }

    #[test]
    fn unknown_options_and_a_missing_workload_show_the_usage() {
        for line in ["glog --fast", "", "--quick"] {
            assert!(parse(line).unwrap_err().to_string().contains("Usage:"), "{line}");
        }
    }
}
