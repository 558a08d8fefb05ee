//! The command line, and the help that goes with it.

use crate::agent::{AgentArgs, KeeperArgs};
use crate::bench::BenchArgs;
use crate::collect::CollectArgs;
use crate::config::ConfigArgs;
use crate::control_args::{CallsitesArgs, LevelArgs, MuteArgs, SampleArgs};
use crate::docs_args::{CompletionsArgs, ManArgs};
use crate::drain::DrainArgs;
use crate::dump_args::DumpArgs;
use crate::filter_args::FilterArgs;
use crate::limits::{AROUND_RECORDS_MAX, LAST_RECORDS_MAX};
use crate::paint::ColorChoice;
use crate::query::args::QueryArgs;
use crate::run_args::RunArgs;
use crate::send::SendArgs;
use crate::session_args::{AgentAt, RunDirArgs};
use crate::tail_args::TailArgs;
use crate::time_args::TimeArgs;
use crate::top::args::TopArgs;
use crate::view::args::ViewArgs;
use clap::builder::Styles;
use clap::builder::styling::{AnsiColor, Effects};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .usage(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .literal(AnsiColor::Cyan.on_default().effects(Effects::BOLD))
    .placeholder(AnsiColor::Cyan.on_default())
    .error(AnsiColor::Red.on_default().effects(Effects::BOLD))
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Yellow.on_default());

/// Reads, watches and recovers the logs of programs that log with Logdrive
#[derive(Debug, Parser)]
#[command(
    name = "logdrive",
    version,
    styles = STYLES,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_long_help = MAIN_EXAMPLES
)]
pub(crate) struct Cli {
    /// When to use colours: auto, always, never; auto is on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true,
        help_heading = "Global options"
    )]
    pub(crate) color: ColorChoice,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const MAIN_EXAMPLES: &str = "\
Examples:
  logdrive run -- make -j8              keeps what any program prints, as make.log
  logdrive cat app.log --level warn     warnings and errors, in colour
  logdrive query 'level:error | top 5 by (module)' app.log    counts and sums over logs
  logdrive agent                        drains the logs of many processes in one place
  logdrive view shop                    its log on a screen, to search and filter
  logdrive tail shop                    what all processes of a program log, as it comes
  logdrive top                          who logs how much, and keys to change it
  logdrive ps                           which programs log, and what dead ones left
  logdrive level shop net=trace         changes levels while the program runs
  logdrive recover --all                brings what killed programs had logged into their logs

Each command has examples of its own: logdrive cat --help

A session is what one process shares while it logs: it lies in shared memory, by default in
/dev/shm/logdrive-UID. When the process ends well its session goes; when it is killed the session
stays, with every record that the process had committed, until it is recovered.";

/// Command to run. The help of each command is that of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Agent(AgentArgs),
    #[command(hide = true)]
    Keeper(KeeperArgs),
    Collect(CollectArgs),
    Send(SendArgs),
    Bench(BenchArgs),
    Cat(CatArgs),
    Query(QueryArgs),
    #[cfg(feature = "export")]
    Export(crate::export::args::ExportArgs),
    Import(ImportArgs),
    Compact(CompactArgs),
    Tail(TailArgs),
    View(ViewArgs),
    Top(TopArgs),
    Ps(PsArgs),
    Stats(StatsArgs),
    Recover(RecoverArgs),
    Level(LevelArgs),
    Sample(SampleArgs),
    Mute(MuteArgs),
    Callsites(CallsitesArgs),
    #[command(hide = true)]
    Drain(DrainArgs),
    Dump(DumpArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Merge log files by time, filter them and colour them
///
/// Reads text, JSON lines, logfmt and glog as Logdrive writes them, and what others write: log4j, Python, Go's loggers, nginx,
/// Apache, PostgreSQL, syslog, journald, containers and more (docs/foreign.md). A line that does
/// not begin with a time or a level belongs to the record before it. Files and standard input may be
/// compressed with gzip, zstd, xz or bzip2. Each file should be in order of time; records that are a little late are put into their place.
#[derive(Debug, Args)]
#[command(after_long_help = CAT_EXAMPLES)]
pub(crate) struct CatArgs {
    /// Log files, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Read the rotated files of each FILE too, and those of further processes beside it
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Print one file after the other as they stand, without putting records in order of time
    #[arg(long)]
    pub(crate) no_merge: bool,
    /// Print only the last N records that pass the filters
    #[arg(
        short = 'n', long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(LAST_RECORDS_MAX))
    )]
    pub(crate) lines: Option<u32>,

    /// Go on when the end is reached, and print what comes, through rotation and truncation
    #[arg(short = 'F', long, conflicts_with_all = ["all", "no_merge"])]
    pub(crate) follow: bool,

    #[command(flatten)]
    pub(crate) filters: FilterArgs,
    #[command(flatten)]
    pub(crate) around: AroundArgs,
    #[command(flatten)]
    pub(crate) times: TimeArgs,

    /// Print records in this form, whatever the input
    #[arg(long, value_name = "FORMAT", help_heading = "Output")]
    pub(crate) format: Option<CatFormat>,
    /// The same as --format json
    #[arg(long, conflicts_with_all = ["format", "text"], help_heading = "Output")]
    pub(crate) json: bool,
    /// The same as --format text
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub(crate) text: bool,
    /// Put the name of its file before each record
    #[arg(short = 'H', long, conflicts_with = "json", help_heading = "Output")]
    pub(crate) with_filename: bool,
    /// On a terminal, print without a pager
    ///
    /// The pager is that of LOGDRIVE_PAGER or PAGER, or else less; into files and pipes there is none.
    #[arg(long, help_heading = "Output")]
    pub(crate) no_pager: bool,
}

/// Records around those that pass.
#[derive(Debug, Args)]
pub(crate) struct AroundArgs {
    /// Print also N records before and behind each that passes the filters, and a line `--` between groups
    #[arg(
        short = 'C', long, value_name = "N", conflicts_with_all = ["lines", "follow"], help_heading = "Filters",
        value_parser = clap::value_parser!(u32).range(..=i64::from(AROUND_RECORDS_MAX))
    )]
    context: Option<u32>,
    /// The same, before it only
    #[arg(
        short = 'B', long, value_name = "N", conflicts_with_all = ["lines", "follow"], help_heading = "Filters",
        value_parser = clap::value_parser!(u32).range(..=i64::from(AROUND_RECORDS_MAX))
    )]
    before_context: Option<u32>,
    /// The same, behind it only
    #[arg(
        short = 'A', long, value_name = "N", conflicts_with_all = ["lines", "follow"], help_heading = "Filters",
        value_parser = clap::value_parser!(u32).range(..=i64::from(AROUND_RECORDS_MAX))
    )]
    after_context: Option<u32>,
}

impl AroundArgs {
    /// Number of records before and behind.
    pub(crate) fn records(&self) -> (usize, usize) {
        let around = self.context.unwrap_or(0);
        let before = self.before_context.unwrap_or(around);
        let behind = self.after_context.unwrap_or(around);
        (before as usize, behind as usize)
    }
}

impl CatArgs {
    /// The form that was asked for, none for that of the input.
    pub(crate) fn format(&self) -> Option<CatFormat> {
        match (self.json, self.text) {
            (true, _) => Some(CatFormat::Json),
            (_, true) => Some(CatFormat::Text),
            _ => self.format,
        }
    }
}

/// Form in which `cat` prints records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CatFormat {
    /// Lines of text
    Text,
    /// One JSON object a line
    Json,
    /// `key=value` pairs
    Logfmt,
    /// A qlog trace of one connection, for qvis: of records of the tracer for quic-go
    Qlog,
}

/// Store text logs of any program as a segment
///
/// Lines keep their bytes and their order; words with digits in them become columns, so that the segment is a small part of
/// the text. `logdrive cat` shows the lines again. A last line without its end gets one.
#[derive(Debug, Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub(crate) struct ImportArgs {
    /// Text files, one behind the other, or - for standard input; they may be compressed
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The segment, which must not be there yet
    #[arg(short, long, value_name = "SEGMENT")]
    pub(crate) out: PathBuf,
}

/// Rewrite segments in full blocks
///
/// A program that writes a block each second leaves many small ones. Rotated files are compacted by whoever writes the log; this
/// does the same to files that you name, and keeps their names. Records, their order and their values stay, and so does a file
/// that is damaged or written to.
#[derive(Debug, Args)]
#[command(after_help = COMPACT_EXAMPLES)]
pub(crate) struct CompactArgs {
    /// The segments
    #[arg(value_name = "SEGMENT", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Compress with this level of zstd, from 1 to 22, also where all blocks are full
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=22))]
    pub(crate) level: Option<i32>,
}

const COMPACT_EXAMPLES: &str = "\
Examples:
  logdrive compact shop.2026-*.segment
  logdrive compact --level 19 old/*.segment       smaller, at a few MB/s

Exit status: 0 all is compact, 1 a file was left as it is, 2 the command line is wrong.";

const IMPORT_EXAMPLES: &str = "\
Examples:
  logdrive import server.log.1.gz server.log -o server.segment
  zstdcat old.zst | logdrive import - -o old.segment
  logdrive cat server.segment -l warn             shows them as any log

Exit status: 0 all was stored, 1 a file could not be read or written, 2 the command line is wrong.";

const CAT_EXAMPLES: &str = "\
Examples:
  logdrive cat app.log -l warn                    warnings, errors and fatal ones
  logdrive cat web.log db.log --since 10m         two programs on one time line
  logdrive cat app.log -q 'timeout -user:ann'     a word, but not of one user
  logdrive cat app.log --all -f 'order_id=7'      one order, through all rotated files
  logdrive cat app.log -f 'took_ms>250' -n 20     the last 20 slow ones
  logdrive cat quic.log --format qlog > c.sqlog   a connection of quic-go, for qvis
  logdrive cat app.log -l error -C 3               errors, and what happened around them
  logdrive cat app.log --since 'yesterday 14:00' --local
  logdrive cat app.log -m net::quic -t worker-3   one module in one thread
  logdrive cat app.log --json | jq .message       text made into JSON lines
  logdrive cat app.json --format logfmt           JSON made into pairs; also --format text
  logdrive cat app.log --follow -l error          errors as they come
  zcat old.gz | logdrive cat --color always | less -R

Lines of glog carry no zone and are read as local time, as glog writes it: set TZ for another zone.
Control characters in foreign lines are shown as escapes when they would reach a terminal.

Exit status: 0 all was read, 1 some file could not be read, 2 the command line is wrong.";

/// List sessions: programs that log now, and what dead ones left
#[derive(Debug, Args)]
#[command(after_long_help = PS_EXAMPLES)]
pub(crate) struct PsArgs {
    /// Print one JSON object for each session
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) run_dir: RunDirArgs,
    #[command(flatten)]
    pub(crate) agent: AgentAt,
}

const PS_EXAMPLES: &str = "\
Examples:
  logdrive ps                           all sessions of this user
  logdrive ps --run-dir /srv/shop/logs  sessions in .logdrive beside the logs there
  logdrive ps --agent /run/logdrive/agent.sock   those that this agent has
  logdrive ps --json | jq -r 'select(.state == \"dead\") | .path'

Columns:
  STATE      alive; dead: its process was killed and its records wait for `logdrive recover`;
             damaged: `logdrive recover` saves what is whole, and says how to remove the rest
  AGE        since the process began to log
  RINGS      threads that log now / rings made
  COMMITTED  records that calls have committed
  DROPPED    calls whose record was not kept (reasons: logdrive stats)
  PENDING    records on their way to the slowest sink; where an agent has the session, to the agent
  PATH       the session's directory; or the socket of the agent that has it, and its number there";

/// Show the numbers of sessions, and whether they add up
#[derive(Debug, Args)]
#[command(after_long_help = STATS_EXAMPLES)]
pub(crate) struct StatsArgs {
    /// Application, process id or session directory; all sessions without one
    #[arg(value_name = "APP|PID|PATH")]
    pub(crate) sessions: Vec<String>,
    /// Print one JSON object for each session
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the numbers as Prometheus reads them
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,
    #[command(flatten)]
    pub(crate) run_dir: RunDirArgs,
    #[command(flatten)]
    pub(crate) agent: AgentAt,
}

const STATS_EXAMPLES: &str = "\
Examples:
  logdrive stats            all sessions
  logdrive stats shop       those of one application
  logdrive stats 4711       that of one process
  logdrive stats --json shop | jq '.sinks[].dropped'
  logdrive stats --prometheus > /var/lib/node_exporter/logdrive.prom

Two sums hold at every moment when no thread is inside of a call:
  calls     = committed + dropped at the call + disabled by their level + sampled out
  committed = written + dropped by the sink + pending            (for every sink)
A process that logs while it is looked at may be off by the records of that moment; look again.";

/// Write what killed programs had logged into their log files
///
/// Every record that a program has committed survives its SIGKILL, in shared memory. This command writes those
/// records to the files that the program logged to, in their order and each once, adds a line that says how the
/// process ended, and removes the session. The program's next start does the same by itself. Without arguments it
/// lists what there is to recover and changes nothing.
#[derive(Debug, Args)]
#[command(after_long_help = RECOVER_EXAMPLES)]
pub(crate) struct RecoverArgs {
    /// Application, process id or session directory
    #[arg(value_name = "APP|PID|PATH", conflicts_with = "all")]
    pub(crate) sessions: Vec<String>,
    /// Recover every dead session
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Write the records to this file instead, for a session that logged to no file. What was to be shipped as typed
    /// records becomes a segment, which `logdrive cat` shows as text, whatever the file's name
    #[arg(long, value_name = "FILE")]
    pub(crate) into: Option<PathBuf>,
    /// Say what would be done, and change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object for each session
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) run_dir: RunDirArgs,
}

const RECOVER_EXAMPLES: &str = "\
Examples:
  logdrive recover                        what there is to recover
  logdrive recover --all                  all of it; good in a service's start script
  logdrive recover shop --dry-run         what would be written, and where
  logdrive recover 4711 --into lost.log   for a program that logged to the console only
  logdrive recover 4712 --into lost.segment
                                          for one that ships to a collector which is gone for good

Exit status: 0 all is well, also when there was nothing to recover; 1 something could not be
recovered, and its session is left as it is; 2 the command line is wrong.";
