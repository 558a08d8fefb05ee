//! Errors of commands. Each says what happened, to what, and what to do next.

use logdrive_agent::AgentError;
use logdrive_drain::BackendError;
use logdrive_reader::io_text;
use logdrive_ring::RingError;
use std::io;
use std::path::PathBuf;

/// Why a command could not do what it was asked. A `process` is named as [`process_title`](crate::output::process_title)
/// does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CliError {
    #[error("cannot open {}: {}", path.display(), io_text(cause))]
    Open { path: PathBuf, cause: io::Error },
    #[error("cannot open {}: there is no such file; {hint}", path.display())]
    NoFile { path: PathBuf, hint: String },
    #[error("cannot read {}: {}", path.display(), io_text(cause))]
    Read { path: PathBuf, cause: io::Error },
    #[error(transparent)]
    Log {
        #[from]
        cause: logdrive_reader::ReadError,
    },
    #[error("{0} is a directory: name the log files in it, such as {0}/*.log", path.display())]
    Directory { path: PathBuf },
    #[error("{cause}")]
    Query { cause: logdrive_query::QueryError },
    #[error("a qlog trace is made of a whole log: leave out --follow")]
    QlogFollow,
    #[cfg(feature = "export")]
    #[error("standard input cannot be read twice, as an export is: name a file")]
    ReadTwice,
    #[error("no file is named: name log files, or - to read standard input")]
    NothingToRead,
    #[error("{count} files are too many at once: name {limit} at most, or merge them in parts")]
    TooManyFiles { count: usize, limit: usize },
    #[error("cannot write to standard output: {}", io_text(cause))]
    Output { cause: io::Error },
    #[error("cannot write {}: {}", path.display(), io_text(cause))]
    Write { path: PathBuf, cause: io::Error },
    #[error("cannot look for sessions in {}: {cause}", path.display())]
    RunDir { path: PathBuf, cause: RingError },
    #[error("there is no directory {}: name one that exists with --run-dir", path.display())]
    NoRunDir { path: PathBuf },
    #[error("there is no absolute path in the environment variable {variable}: set it, or leave out --user")]
    NoDirectory { variable: &'static str },
    #[error("{cause}")]
    Agent { cause: AgentError },
    #[error("the agent cannot start: {cause}")]
    Start { cause: logdrive_agent::StartError },
    #[error("cannot hold signals: {cause}")]
    Signals { cause: io::Error },
    #[error(transparent)]
    Transport {
        #[from]
        cause: logdrive_ship::TransportError,
    },
    #[error(transparent)]
    Collector {
        #[from]
        cause: logdrive_collector::CollectorError,
    },
    /// An input that other machines can reach.
    #[error(
        "other machines can reach {address}, and nothing there is encrypted: take an address of this machine, or say --insecure"
    )]
    InputInsecure {
        /// The address.
        address: String,
    },
    /// An engine that records cannot be delivered to.
    #[error("{cause}")]
    Engine {
        /// Cause.
        cause: logdrive_engines::EngineError,
    },
    #[error("no address to listen at: name one, such as --listen unix:///run/user/1000/collect.sock")]
    NothingToListen,
    #[error("no directory for the log: name one with --out DIR")]
    NowhereToCollect,
    #[error("cannot start a thread: {}; send fewer logs at once", io_text(cause))]
    Thread { cause: io::Error },
    #[error("the system gives no random bytes: {}", io_text(cause))]
    Random { cause: io::Error },
    #[error(
        "nowhere to send to: give --to ADDRESS, such as --to unix:///run/logdrive/collect.sock, or --config FILE"
    )]
    NowhereToSend,
    #[error(
        "records go to one engine, or to collectors: give --to with the engine alone, without --backup and --spool; `logdrive collect --to` has a spool"
    )]
    EngineAlone,
    #[error("there is no manual page {name}{hint}")]
    NoManual { name: String, hint: String },
    #[error("there is no session of {name}{hint}")]
    UnknownSession { name: String, hint: String },
    #[error(
        "there is no file {name}, and no running program of that name; `logdrive ps` lists those there are"
    )]
    NothingToView { name: String },
    #[error("{name} is a file: name files only, or programs only")]
    FileAmongPrograms { name: String },
    #[error("{} is compressed, a segment or no file, and cannot be followed: `logdrive cat` prints it", path.display())]
    NotFollowed { path: PathBuf },
    #[error("a screen needs a terminal: `logdrive cat` prints to files and pipes")]
    NoTerminal,
    #[error("no running process named {name}{hint}")]
    NoRunningProcess { name: String, hint: String },
    #[error("cannot control {process}: {cause}")]
    Control { process: String, cause: AgentError },
    #[error(
        "{process} keeps nothing in memory: start it with `Builder::keep`, or let an agent keep its records"
    )]
    KeepsNothing { process: String },
    #[error(
        "{process} does not answer: it is stopped, has ended, or its log takes no bytes; ask again, \
         what is kept is still there"
    )]
    NoDump { process: String },
    #[error(
        "callsite {id} may be another statement in each of the {processes} processes: name one process by its id, or the \
         statement by file:line"
    )]
    NumberOfMany { id: u32, processes: usize },
    #[error("no record of what you named in {process} has a field {field}{hint}")]
    NoSuchField {
        process: String,
        field: String,
        hint: String,
    },
    #[error("{process} is alive and writes its log itself; there is nothing to recover while it runs")]
    Alive { process: String },
    #[error("cannot recover {}: {cause}; the session is left as it is", path.display())]
    Recover { path: PathBuf, cause: BackendError },
    #[error("{process} logged to no file: name one for its records with --into FILE")]
    NowhereToRecover { process: String },
}

impl CliError {
    /// Returns the exit status: 2 when the command line was wrong.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            #[cfg(feature = "export")]
            Self::ReadTwice => 2,
            Self::NothingToRead
            | Self::NoTerminal
            | Self::QlogFollow
            | Self::Query { .. }
            | Self::FileAmongPrograms { .. }
            | Self::TooManyFiles { .. }
            | Self::NoManual { .. }
            | Self::NothingToListen
            | Self::NowhereToSend
            | Self::EngineAlone
            | Self::NowhereToCollect => 2,
            _ => 1,
        }
    }

    /// Whether the reader of our output has gone: that is an end like any other.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output { cause } if cause.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<io::Error> for CliError {
    /// For errors of standard output, which is what is written to all the time.
    fn from(cause: io::Error) -> Self {
        Self::Output { cause }
    }
}
