//! Arguments of `logdrive run`.

use crate::config::units::{read_duration, read_size};
use clap::{Args, ValueEnum};
use logdrive_wire::Level;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Run a command and keep what it prints as records
///
/// Each line that the command prints on standard output and standard error becomes a record, with the time at which it
/// came. Lines that name their level in a usual way get it; lines of usual loggers become message and fields. The log is written by threads
/// of its own: a command that prints much is held up by neither a slow terminal nor a slow pager. What programs of the
/// command log with Logdrive comes into the same log.
#[derive(Debug, Args)]
#[command(after_long_help = RUN_EXAMPLES, override_usage = "logdrive run [OPTIONS] -- COMMAND [ARGS]...")]
pub(crate) struct RunArgs {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["COMMAND", "ARGS"])]
    pub(crate) command: Vec<OsString>,

    /// The log file [default: NAME.log in this directory, NAME.segment for segments]
    #[arg(short = 'o', long, value_name = "FILE", help_heading = "Log")]
    pub(crate) log: Option<PathBuf>,
    /// How lines look: text, json, logfmt, glog, plain (what was printed, and nothing else), or segments (compressed, for
    /// `logdrive cat`)
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true,
        help_heading = "Log"
    )]
    pub(crate) format: Format,
    /// Start a new file before the log would grow beyond this, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Log")]
    pub(crate) rotate_size: Option<u64>,
    /// Keep at most N older files, compressed with zstd
    #[arg(long, value_name = "N", help_heading = "Log")]
    pub(crate) keep: Option<u32>,
    /// The name of the log and of who speaks in it [default: the command's]
    #[arg(long, value_name = "NAME", help_heading = "Log")]
    pub(crate) name: Option<String>,
    /// What happens when output comes faster than it is written: block, wait, drop
    ///
    /// `block` holds the command up, so that nothing is lost; it is the default. `drop` leaves lines out, and `wait`
    /// does so after a moment; what is left out is counted and told in the log.
    #[arg(
        long,
        value_enum,
        value_name = "POLICY",
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true,
        help_heading = "Log"
    )]
    pub(crate) full: Full,
    /// Keep the session there instead of in the default run directory
    #[arg(long, value_name = "DIR", help_heading = "Log")]
    pub(crate) run_dir: Option<PathBuf>,

    /// Leave out lines below this level: trace, debug, info, warn, error, fatal
    #[arg(
        short,
        long,
        value_name = "LEVEL",
        default_value = "trace",
        hide_default_value = true,
        help_heading = "Lines"
    )]
    pub(crate) level: Level,
    /// The level of lines on standard error that name none [default: info]
    ///
    /// Not warn, because many programs print everything there. The log tells the two outputs apart in any case:
    /// `logdrive cat -m stderr` shows one of them.
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "info",
        hide_default_value = true,
        help_heading = "Lines"
    )]
    pub(crate) stderr_level: Level,
    /// Take lines as text: look for neither levels nor fields in them, and join none
    #[arg(long, help_heading = "Lines")]
    pub(crate) no_parse: bool,
    /// Leave colours and other control sequences of terminals in the lines, escaped
    #[arg(long, help_heading = "Lines")]
    pub(crate) keep_ansi: bool,

    /// Also print what the command prints, unchanged
    #[arg(short, long, help_heading = "Command")]
    pub(crate) tee: bool,
    /// Leave standard output alone, and keep standard error only
    #[arg(long, conflicts_with = "pty", help_heading = "Command")]
    pub(crate) stderr_only: bool,
    /// Give the command a terminal of its own, for programs that print otherwise without one
    ///
    /// Both outputs are one then, called tty. With --tee on a terminal the command can be used as if it ran there.
    #[arg(long, help_heading = "Command")]
    pub(crate) pty: bool,
    /// How long processes that the command leaves behind may go on printing, such as 30s
    ///
    /// Without it they may until they pause for a second, and for ten seconds at most.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Command")]
    pub(crate) wait_output: Option<Duration>,
    /// Leave programs that log with Logdrive to logs of their own
    ///
    /// Without it they find this program in LOGDRIVE_AGENT, and what they log comes into the same log as what they print,
    /// merged by time; their own settings of files and layouts are not used.
    #[arg(long, help_heading = "Command")]
    pub(crate) no_agent: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  logdrive run -- make -j8                          what make prints, in make.log
  logdrive run --tee -- cargo test                  and on the screen
  logdrive run --pty --tee -- ./server              with colours, as without logdrive
  logdrive run --format json -o web.json -- ./web   lines of JSON
  logdrive run --stderr-only -- ./export | gzip > data.gz
  logdrive run --rotate-size 64MiB --keep 10 -- ./service
  logdrive cat make.log -l warn                     warnings and errors of that build

Lines: the log says who speaks in the place of a thread, and which output it was. A line that is
longer than a record goes in several, with the fields part=1, part=2 and so on, and last=true on
the last. A line that has not ended after a pause of 200 ms, such as a prompt, has partial=true,
and its rest is part=2. Bytes that are no text, control characters too, are escaped; colours are
taken out.

Programs that log with Logdrive: the command finds LOGDRIVE_AGENT in its environment, the socket of
an agent that this program is. Records of all its processes come into the log, with the threads that
logged them, and a line for each that was killed. Processes that are left behind may log as long as
they may print. `logdrive top` and `logdrive level` see them as they see others.

Signals go on to the command, but for those that the terminal sends to both. If this program is
killed by SIGKILL, the command gets SIGPIPE when it prints next; what it had printed until then is
not lost: `logdrive recover` brings it into the log, as does the next run of the same name.

Exit status: that of the command; if a signal ended the command, the same signal ends this program
(128 + its number to a shell). 127 there is no such command, 126 it cannot be executed, 125
something else kept it from being run, 2 the command line is wrong.";

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Time, level, name, output and line
    #[default]
    Text,
    /// A JSON object a line
    Json,
    /// Keys and values
    Logfmt,
    /// As Google's glog
    Glog,
    /// Lines as they were printed
    Plain,
    /// Compressed blocks of records
    Segments,
}

/// What happens when the ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Full {
    /// The command is held up
    #[default]
    Block,
    /// It is held up for a moment, then lines are left out
    Wait,
    /// Lines are left out
    Drop,
}

fn size(text: &str) -> Result<u64, String> {
    match read_size(text)? {
        0 => Err("is nothing: leave the option out, or give at least 1 B".to_owned()),
        bytes => Ok(bytes),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    read_duration(text)
}
