//! Arguments of `logdrive dump`.

use crate::control_args::LiveArgs;
use crate::instant::span_argument;
use clap::Args;

/// Write down what the flight recorder of a running program keeps in memory
///
/// A program may keep records below the level of its log in memory, until something happens: an error, a crash, or this
/// command. They go to all of its sinks between two lines of the logger that say how many they are; then the memory is
/// empty.
#[derive(Debug, Args)]
#[command(after_long_help = DUMP_EXAMPLES)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    /// Only what is not older than this, and forget the rest: 30s, 10m, 2h
    #[arg(long = "last", value_name = "TIME", value_parser = span_argument)]
    pub(crate) span_ns: Option<u64>,
    /// Print one JSON object for each process
    #[arg(long)]
    pub(crate) json: bool,
}

const DUMP_EXAMPLES: &str = "\
Examples:
  logdrive dump shop               all that is kept, of all its processes
  logdrive dump shop --last 30s    the last half minute
  logdrive dump 4711               of one process

The command ends when the records are with the kernel. A program keeps records when it was started
with `Builder::keep`, or when the configuration of its agent has a [[recorder]] for it.

Exit status: 0 all is well; 1 there is no such program, it keeps nothing, or it does not answer;
2 the command line is wrong.";
