//! Arguments of `logdrive tail`.

use crate::filter_args::FilterArgs;
use crate::format_args::FormatArgs;
use crate::limits::LAST_RECORDS_MAX;
use crate::session_args::{AgentAt, RunDirArgs};
use crate::time_args::{GivenTime, ZoneArgs};
use clap::Args;

/// Follow live what programs log
///
/// Shows the records of all processes of these applications on one time line, as they are logged, and before them the
/// last ones of their log files. Records are read from the memory in which the programs keep them: levels below that
/// of the log file are seen too, nothing has to be flushed, and the programs do not notice. A terminal that is too slow
/// misses records, and how many is told; their logs have them all.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct TailArgs {
    /// Applications (all their processes, later ones too), process ids or session directories, or log files; all programs
    /// without one
    #[arg(value_name = "APP|PID|PATH|FILE")]
    pub(crate) names: Vec<String>,
    /// Begin with the last N records, from the log files; 10 without --since
    #[arg(
        short = 'n', long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(0..=i64::from(LAST_RECORDS_MAX))
    )]
    pub(crate) lines: Option<u32>,
    /// Begin with the records from this time on, from the log files and their rotated ones: 5m, 12:34, a date, 'yesterday 14:00'
    #[arg(long, value_name = "TIME", value_parser = GivenTime::since)]
    pub(crate) since: Option<GivenTime>,
    #[command(flatten)]
    pub(crate) zone: ZoneArgs,
    /// Print what there is, and end
    #[arg(long)]
    pub(crate) no_follow: bool,
    /// Wait until such a program starts
    #[arg(short, long, conflicts_with = "no_follow")]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) run_dir: RunDirArgs,
    #[command(flatten)]
    pub(crate) agent: AgentAt,
}

const EXAMPLES: &str = "\
Examples:
  logdrive tail shop                         all processes of one application
  logdrive tail shop db -l warn              warnings of two
  logdrive tail shop -m net::quic -f peer=7  one module, one peer
  logdrive tail shop -q 'timeout or took_ms:>250'  words, or slow ones
  logdrive tail shop --since 5m              the last five minutes, then live
  logdrive tail 4711 -n 0 --json | jq .message
  logdrive tail app.log web.log              log files of any program, through rotation
  logdrive tail shop --wait                  from the first record of the next start on
  logdrive tail shop -n 100 --no-follow      a look at the end of its logs

Ctrl-C ends it with status 0. Where more than one process is followed, lines name it:
app[pid]/thread. A statement whose level is off logs nothing that could be shown:
logdrive level shop net=trace switches it on in the running program.

Exit status: 0 all is well; 1 there is no such program, or it could not be followed; 2 the command
line is wrong.";
