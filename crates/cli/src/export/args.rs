//! Arguments of `logdrive export`.

use crate::query::args::{QueryArgs, QueryFormat};
use crate::session_args::{AgentAt, RunDirArgs};
use crate::time_args::TimeArgs;
use clap::Args;
use logdrive_query::Query;
use std::path::PathBuf;

/// Write records or rows to a file of columns: Parquet or Arrow
///
/// Takes what `logdrive query` takes. A column is made of each field, of the kind that all of its values have: whole numbers, floats,
/// truth values, times, else text. For that the sources are read twice, in bounded memory.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ExportArgs {
    /// Filter and pipes; '*' is all records
    #[arg(value_name = "QUERY", value_parser = Query::parse, allow_hyphen_values = true)]
    query: Query,
    /// Log files, segments, directories of them, or running programs by their names
    #[arg(value_name = "FILE|DIR|APP", required = true)]
    sources: Vec<PathBuf>,
    /// Write a Parquet file, compressed with zstd; one that is there is not written over
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "arrow",
        help_heading = "Output"
    )]
    pub(crate) parquet: Option<PathBuf>,
    /// Write an Arrow IPC file (Feather); one that is there is not written over
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "parquet",
        help_heading = "Output"
    )]
    pub(crate) arrow: Option<PathBuf>,
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    run_dir: RunDirArgs,
    #[command(flatten)]
    agent: AgentAt,
}

impl ExportArgs {
    /// The same as a query that gives rows.
    pub(crate) fn rows(&self) -> QueryArgs {
        QueryArgs {
            query: self.query.clone(),
            sources: self.sources.clone(),
            times: self.times.clone(),
            format: Some(QueryFormat::Csv),
            json: false,
            count: false,
            histogram: None,
            run_dir: self.run_dir.clone(),
            agent: self.agent.clone(),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  logdrive export '*' app.segment --parquet app.parquet
  logdrive export 'level:>=warn | fields _time, user, took_ms' logs/ --parquet slow.parquet
  logdrive export '* | stats by (user) count() as n' app.log --arrow users.arrow
  duckdb -c \"SELECT level, count(*) FROM 'app.parquet' GROUP BY level\"

Exit status: 0 all was read, 1 something could not be read, 2 the command line is wrong, 130 it was
ended with Ctrl-C.";
