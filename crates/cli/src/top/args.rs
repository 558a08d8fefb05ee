//! Arguments of `logdrive top`.

use crate::instant::interval_argument;
use crate::session_args::RunDirArgs;
use crate::top::limits::INTERVAL_NS_MIN;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Watch programs while they log: who logs how much, which line floods the log, and change it by a key
///
/// Shows the sessions of the run directories and those that agents hold, the busiest first, and below them the log
/// statements (callsites) of the selected process, the loudest first. Keys change levels, mute and sample while the
/// programs run. Into a pipe one snapshot is printed.
#[derive(Debug, Args)]
#[command(after_long_help = TOP_EXAMPLES)]
pub(crate) struct TopArgs {
    /// Only processes whose application, process id, user or log contains this text; can be changed with the key /
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// How often the screen is renewed: 500ms, 1s, 10s
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = |text: &str| interval_argument(text, INTERVAL_NS_MIN / 1_000_000))]
    pub(crate) interval: u64,
    /// What comes first: records, bytes, drops, fill, lag, app or pid
    #[arg(
        short,
        long,
        value_enum,
        value_name = "BY",
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) sort: ProcessSort,
    /// Callsites that a snapshot shows of each process, and the screen reads; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) lines: usize,
    /// Print one snapshot, rates measured over the interval, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print a snapshot as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print so many snapshots, one an interval
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Ask the agent that listens here, too; may be given several times
    ///
    /// Without it the usual places are looked at: what LOGDRIVE_AGENT says, $XDG_RUNTIME_DIR/logdrive/agent.sock, and
    /// /run/logdrive/agent.sock.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) run_dir: RunDirArgs,
}

const TOP_EXAMPLES: &str = "\
Examples:
  logdrive top                              all processes of this user
  logdrive top shop --interval 500ms        those of one application
  logdrive top --sort drops                 who loses records
  logdrive top --once                       one snapshot, as text
  logdrive top --json | jq '.processes[] | select(.drops_per_s > 0)'
  logdrive top --json --count 60 > a-minute.jsonl

Keys: arrows or j k move, Tab goes to the callsites and back, s sorts, / filters, p pauses, l sets a
level, m mutes, e samples, x takes that back, f says for how long, + and - change the interval,
? shows all keys, q ends.

Columns:
  RECORDS/S  records committed by the process, a second
  BYTES/S    bytes of the lines that were laid out for its sinks, a second
  DROPS/S    calls and records that were not kept, a second
  FILL       how full its fullest ring is
  LAG        how long its slowest sink needs for what is on its way to it
  VIA        own: it writes its log itself; agent: an agent does";

/// The order of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ProcessSort {
    /// Most records a second first
    #[default]
    Records,
    /// Most bytes a second first
    Bytes,
    /// Most drops a second first
    Drops,
    /// The fullest ring first
    Fill,
    /// The slowest sink first
    Lag,
    /// By name
    App,
    /// By process id
    Pid,
}
