//! Arguments of the commands of live control: `level`, `sample`, `mute`, `callsites`.

use crate::instant::{interval_argument, span_argument};
use crate::session_args::{AgentAt, RunDirArgs};
use clap::{ArgGroup, Args, ValueEnum};
use logdrive_drain::control::{Action, Selector, read_action_directive, read_selector};

/// Whom a command of live control is about.
#[derive(Debug, Args)]
pub(crate) struct LiveArgs {
    /// Application (all its live processes), process id or session directory
    #[arg(value_name = "APP|PID|PATH")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) run_dir: RunDirArgs,
    #[command(flatten)]
    pub(crate) agent: AgentAt,
}

/// Duration of a change.
#[derive(Debug, Args)]
pub(crate) struct SpanArgs {
    /// End by itself after this time: 30s, 10m, 2h, 1d
    #[arg(long = "for", value_name = "TIME", value_parser = span_argument)]
    pub(crate) span_ns: Option<u64>,
}

impl SpanArgs {
    /// Nanoseconds; 0 for ever.
    pub(crate) fn ns(&self) -> u64 {
        self.span_ns.unwrap_or(0)
    }
}

/// Change the levels of a running program, at once and without its help
///
/// The program's own filter (LOGDRIVE, or its code) says which of its log statements are on. Rules go on top of it,
/// while the program runs: they hold for statements that have been called and for those that come later, until they
/// end, are removed, or the program ends. Statements that were left out when the program was compiled cannot come
/// back. Without directives the rules that hold are listed.
#[derive(Debug, Args)]
#[command(after_long_help = LEVEL_EXAMPLES)]
pub(crate) struct LevelArgs {
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    /// LEVEL for all, SELECTOR=LEVEL, or SELECTOR for everything there; separated by commas or spaces
    ///
    /// A level is trace, debug, info, warn, error, fatal or off. A selector is a module or target with what is below
    /// it (net::quic), a file (net.rs), a line (net.rs:42), or one callsite (id:17, see `logdrive callsites`). The
    /// narrowest selector decides, then the newest rule.
    #[arg(value_name = "DIRECTIVE", value_delimiter = ',', value_parser = read_directive)]
    pub(crate) directives: Vec<(Action, Selector)>,
    #[command(flatten)]
    pub(crate) span: SpanArgs,
    /// Remove all rules: levels, mutes and sampling
    #[arg(long, conflicts_with_all = ["directives", "span_ns"])]
    pub(crate) reset: bool,
    /// Print one JSON object for each process
    #[arg(long)]
    pub(crate) json: bool,
}

const LEVEL_EXAMPLES: &str = "\
Examples:
  logdrive level shop net::quic=trace --for 10m   one module, for ten minutes
  logdrive level shop info,shop::db=debug         all at info, one module at debug
  logdrive level shop net.rs:42=off               one line is silent
  logdrive level 4711 debug                       one process only
  logdrive level shop                             the rules that hold
  logdrive level shop --reset                     back to the program's own filter

The change holds when the command ends. The log of the program says what was set and when it ended.

Exit status: 0 all is well; 1 there is no such program, or it could not be changed; 2 the command
line is wrong.";

/// Keep only a part of what a log statement logs, and count the rest
///
/// What is left out costs the program some nanoseconds a call and is counted: `logdrive stats` and `logdrive callsites`
/// show how much. Lines that are kept of --every N carry sample_every=N, so that counts can be scaled back; for the
/// other ways the log says about once a second how much was left out.
#[derive(Debug, Args)]
#[command(
    after_long_help = SAMPLE_EXAMPLES,
    override_usage = "logdrive sample [OPTIONS] --callsite <SELECTOR> <--every N|--per-second N|--off> <APP>",
    group = ArgGroup::new("how").required(true).args(["every", "per_second", "off"])
)]
pub(crate) struct SampleArgs {
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    /// Which statements: a callsite's number, file:line, file, module, or all
    #[arg(long, value_name = "SELECTOR", value_parser = read_callsite)]
    pub(crate) callsite: Selector,
    /// Keep one call of N: the first of the process, then one of N in each thread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) every: Option<u32>,
    /// Keep N calls a second for each callsite, in all threads together
    #[arg(long, value_name = "N")]
    pub(crate) per_second: Option<u32>,
    /// With --per-second: keep so many for each value of this field
    ///
    /// Such a call evaluates its values before it is known whether it is kept. Some 4,000 values a second are told
    /// apart; further ones share what they may log.
    #[arg(long, value_name = "FIELD", requires = "per_second")]
    pub(crate) per_key: Option<String>,
    /// Keep all again
    #[arg(long, conflicts_with = "span_ns")]
    pub(crate) off: bool,
    #[command(flatten)]
    pub(crate) span: SpanArgs,
    /// Print one JSON object for each process
    #[arg(long)]
    pub(crate) json: bool,
}

const SAMPLE_EXAMPLES: &str = "\
Examples:
  logdrive sample shop --callsite net.rs:42 --every 1000
  logdrive sample shop --callsite 17 --per-second 100 --for 1h
  logdrive sample shop --callsite net.rs:42 --per-second 10 --per-key peer
  logdrive sample shop --callsite net.rs:42 --off

`logdrive callsites shop` shows which line floods the log, and the numbers of callsites. The line of
a statement holds for all processes of a program; a number only for one.";

/// Silence a part of a running program, whatever its levels say
#[derive(Debug, Args)]
#[command(after_long_help = MUTE_EXAMPLES)]
pub(crate) struct MuteArgs {
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    /// Which statements: a callsite's number, file:line, file, module, or all
    #[arg(value_name = "SELECTOR", required = true, value_delimiter = ',', value_parser = read_callsite)]
    pub(crate) selectors: Vec<Selector>,
    #[command(flatten)]
    pub(crate) span: SpanArgs,
    /// End such a mute
    #[arg(long, conflicts_with = "span_ns")]
    pub(crate) off: bool,
    /// Print one JSON object for each process
    #[arg(long)]
    pub(crate) json: bool,
}

const MUTE_EXAMPLES: &str = "\
Examples:
  logdrive mute shop net.rs:42 --for 10m   one line
  logdrive mute shop h2,hyper              two modules
  logdrive mute shop net.rs:42 --off       it speaks again";

/// Show which log statements log how much, the loudest first
///
/// Watches the live processes for the interval and prints a line for each statement (callsite) that has been called.
#[derive(Debug, Args)]
#[command(after_long_help = CALLSITES_EXAMPLES)]
pub(crate) struct CallsitesArgs {
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    /// What comes first: records, bytes, drops, sampled, or id
    #[arg(
        short,
        long,
        value_enum,
        value_name = "BY",
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) sort: SortBy,
    /// Print only the first N; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) lines: usize,
    /// How long rates are measured: 1s, 500ms, 10s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = |text: &str| interval_argument(text, 10))]
    pub(crate) interval: u64,
    /// Print again and again until the programs end
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Print one JSON object for each callsite
    #[arg(long)]
    pub(crate) json: bool,
}

const CALLSITES_EXAMPLES: &str = "\
Examples:
  logdrive callsites shop                      the twenty loudest
  logdrive callsites shop --sort bytes -n 5    what fills the disk
  logdrive callsites shop --watch              as it changes
  logdrive callsites shop --json -n 0 | jq 'select(.dropped > 0)'

Columns:
  ID         the callsite's number in its process, for --callsite and id:
  STATE      on, off; muted; 1 of N, N/s, N/s per FIELD: sampled; `rule` where a rule says so
  RECORDS/S  records laid out for the log
  BYTES/S    bytes of their lines, in all sinks together
  DROPS/S    calls whose record was dropped because the thread's ring was full
  SAMPLED/S  calls that sampling left out
  RECORDS    since the program began to log";

/// The order of callsites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SortBy {
    /// Most records a second first
    #[default]
    Records,
    /// Most bytes a second first
    Bytes,
    /// Most drops a second first
    Drops,
    /// Most sampled-out calls a second first
    Sampled,
    /// In the order of their numbers
    Id,
}

fn read_directive(text: &str) -> Result<(Action, Selector), String> {
    read_action_directive(text).map_err(|error| error.to_string())
}

/// A selector where a bare number is a callsite's.
fn read_callsite(text: &str) -> Result<Selector, String> {
    if let Ok(id) = text.trim().parse() {
        return Ok(Selector::Callsite(id));
    }
    read_selector(text).map_err(|error| error.to_string())
}
