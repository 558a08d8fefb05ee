//! Arguments of `logdrive query`.

use crate::session_args::{AgentAt, RunDirArgs};
use crate::time_args::TimeArgs;
use clap::{Args, ValueEnum};
use logdrive_query::Query;
use std::path::PathBuf;

/// Form of what a query gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueryFormat {
    /// Lines for people; rows as pairs
    Text,
    /// One JSON object a line
    Json,
    /// `key=value` pairs
    Logfmt,
    /// Comma-separated values with a line of headings
    Csv,
    /// Columns with headings
    Table,
}

/// Find, count and sum up records of log files, segments and running programs
///
/// A query is a filter and pipes: 'level:error | stats by (module) count()'. docs/query.md has all forms with examples. Reads text,
/// JSON, logfmt and glog, compressed or not, and segments, on all cores; blocks and columns of segments that cannot matter
/// are not read. Records come file by file, in the order of each; `| sort by (_time)` puts them on one time line.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct QueryArgs {
    /// Filter and pipes; '*' is all records
    #[arg(value_name = "QUERY", value_parser = Query::parse, allow_hyphen_values = true)]
    pub(crate) query: Query,
    /// Log files, segments, directories of them, running programs by their names, or - for standard input
    #[arg(value_name = "FILE|DIR|APP", required = true)]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) times: TimeArgs,
    /// Form of the results: text, json, logfmt, csv, table; rows are a table on a terminal
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    pub(crate) format: Option<QueryFormat>,
    /// Print JSON lines: short for --format json
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub(crate) json: bool,
    /// Print the number of records alone
    #[arg(long, conflicts_with_all = ["format", "json", "histogram"], help_heading = "Output")]
    pub(crate) count: bool,
    /// Draw how many records there are over time, or of each value of FIELD
    #[arg(
        long, value_name = "FIELD", num_args = 0..=1, require_equals = true, default_missing_value = "_time",
        conflicts_with_all = ["format", "json"], help_heading = "Output"
    )]
    pub(crate) histogram: Option<String>,
    #[command(flatten)]
    pub(crate) run_dir: RunDirArgs,
    #[command(flatten)]
    pub(crate) agent: AgentAt,
}

const EXAMPLES: &str = "\
Examples:
  logdrive query 'timeout user:ann' app.log             records with a word and a value
  logdrive query 'level:>=warn | top 5 by (module)' logs/
  logdrive query '* | stats by (user) count(), sum(took_ms), quantile(0.99, took_ms)' app.segment
  logdrive query 'took_ms:>250 | sort by (took_ms desc) | limit 10' *.segment
  logdrive query error app.log.zst --count              their number
  logdrive query level:error app.log --histogram        over time
  logdrive query '*' app.segment --histogram=took_ms    of each value, or in steps
  logdrive query '* | fields _time, user, took_ms' app.segment --format csv
  logdrive query 'user:ann' shop                        what a running program has logged

Ctrl-C ends a query with what it has found so far.

Exit status: 0 all was read, 1 something could not be read, 2 the command line is wrong, 130 it was
ended with Ctrl-C.";
