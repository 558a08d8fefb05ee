//! Arguments of `logdrive view`.

use crate::filter_args::FilterArgs;
use crate::session_args::{AgentAt, RunDirArgs};
use crate::time_args::TimeArgs;
use clap::Args;

/// Read logs on a screen: search, filter, follow, and see when what happened
///
/// Shows log files, rotated and compressed ones, segments, standard input, and what running programs log, all on one time line.
/// A file of any size is there at once; a thread counts its records behind the screen. A filter leaves the place where it
/// was. Keys are those of less and lnav; ? shows them.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ViewArgs {
    /// Log files, applications, process ids; - or nothing for standard input
    #[arg(value_name = "FILE|APP|PID")]
    pub(crate) names: Vec<String>,
    /// Read the rotated files of each FILE too, and those of further processes beside it
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Begin at the end, and show what comes; as the key F
    #[arg(short = 'F', long)]
    pub(crate) follow: bool,
    /// Begin at the start of the logs instead of their end
    #[arg(long, conflicts_with = "follow")]
    pub(crate) start: bool,
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
    /// Show also N records before and after each that passes
    #[arg(
        short = 'C',
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Filters"
    )]
    pub(crate) context: usize,
    #[command(flatten)]
    pub(crate) times: TimeArgs,
    /// Show these parts and fields, in this order: time,level,message,user; as the key o
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Output")]
    pub(crate) fields: Vec<String>,
    /// Hide these parts and fields
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Output")]
    pub(crate) hide: Vec<String>,
    #[command(flatten)]
    pub(crate) run_dir: RunDirArgs,
    #[command(flatten)]
    pub(crate) agent: AgentAt,
}

const EXAMPLES: &str = "\
Examples:
  logdrive view app.log                     its end; g goes to its start, / searches, & filters
  logdrive view app.log --all               with its rotated files
  logdrive view web.log db.log.zst -l warn  warnings of two programs on one time line
  logdrive view shop -F                     what a running program logs, as it comes
  logdrive view app.log -q 'took_ms:>250' -C 3
  kubectl logs pod | logdrive view --local

Keys: arrows, PgUp, PgDn, g and G move, / searches, n and N again, & or f filters, Esc takes the
filter away, e and E go to the next error and to the one before, w and W to warnings, F follows,
Enter unfolds a record, i shows the histogram and b its brush, m and ' set marks and go to them,
z changes the zone, o chooses fields, y copies, ? shows all keys, q ends.

What can be read only in order (standard input, compressed files, programs without a log file) is
copied to a file without a name in TMPDIR, or else in /var/tmp, which goes with the command.

Exit status: 0 all is well, 1 a log could not be opened, 2 the command line is wrong.";
