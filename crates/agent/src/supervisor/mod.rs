//! `logdrive run`: starts a command and keeps what it prints as records.
//!
//! Each output of the command has a reader thread with a ring of its own ([`crate::capture`]). The calling thread reads
//! signals, passes them on, and waits for the command's end. Where records go is one value, the destination; as a rule
//! it is a private agent (`private.rs`), to which programs of the command that log with Logdrive bring their records.

mod command;
mod destination;
mod error;
mod lifecycle;
pub mod limits;
mod private_agent;
mod signals;
mod supervise;
mod terminal;

pub use command::name_of;
pub use destination::DestinationOptions;
pub use error::CommandError;
pub use private_agent::private_sockets;

use crate::capture::stream::StreamEnd;
use destination::Destination;
use logdrive_drain::{Stats, Stopped};
use logdrive_ring::FullPolicy;
use logdrive_wire::Level;
use signals::Signals;
use std::ffi::OsString;
use std::time::Duration;

/// Command to run, and options for its records.
///
/// ```
/// use logdrive_agent::supervisor::{DestinationOptions, CommandOptions};
/// use logdrive_drain::BackendOptions;
/// let destination = DestinationOptions::Embedded(BackendOptions::new("make"));
/// let options = CommandOptions::new("make", vec!["all".into()], destination);
/// assert_eq!((options.name.as_str(), options.tee), ("make", false));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommandOptions {
    /// The program, by path or by a name that is looked for in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The name that lines go by, in the place of a thread. Default: the last part of the program's path.
    pub name: String,
    /// Destination of the records.
    pub destination: DestinationOptions,
    /// Policy for records that come faster than they are written. Default: the command is held up.
    pub full: FullPolicy,
    /// Lines below this level are left out. Default: none.
    pub min_level: Level,
    /// The level of lines on standard error that name none. Default: info, because many programs say everything there.
    pub stderr_level: Level,
    /// True if lines are looked at for a level, and joined where they belong together. Default: yes.
    pub parse: bool,
    /// True if such lines become message and fields, where their form is known. Default: yes.
    pub fields: bool,
    /// True if control sequences for terminals stay in the text. Default: no.
    pub keep_ansi: bool,
    /// True if the outputs are also copied to our own, byte by byte. Default: no.
    pub tee: bool,
    /// True if standard output is left alone. Default: no.
    pub stderr_only: bool,
    /// True if the command gets a terminal of its own. Both outputs are one then. Default: no.
    pub pty: bool,
    /// Longest time that processes which the command left behind may print. Default: until they pause for a second,
    /// and at most ten.
    pub wait_output: Option<Duration>,
    /// True if start and end of the command are records, too. Default: yes.
    pub events: bool,
}

impl CommandOptions {
    /// The defaults.
    pub fn new(program: impl Into<OsString>, args: Vec<OsString>, destination: DestinationOptions) -> Self {
        let program = program.into();
        Self {
            name: name_of(&program),
            program,
            args,
            destination,
            full: FullPolicy::Block,
            min_level: Level::Trace,
            stderr_level: Level::Info,
            parse: true,
            fields: true,
            keep_ansi: false,
            tee: false,
            stderr_only: false,
            pty: false,
            wait_output: None,
            events: true,
        }
    }
}

/// End of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// By itself, with this status.
    Exited(i32),
    /// By the signal of this number.
    Killed(i32),
}

impl ExitReason {
    /// The exit status by which a shell reports it.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Exited(status) => status.to_le_bytes()[0],
            Self::Killed(signal) => signal.wrapping_add(128).to_le_bytes()[0],
        }
    }

    /// Ends this process by the signal that ended the command. Comes back when there was none, or when it is ignored
    /// here.
    pub fn pass_on(self) {
        if let Self::Killed(signal) = self {
            signals::end_by(signal);
        }
    }
}

/// Outcome of a command.
#[derive(Debug)]
#[non_exhaustive]
pub struct CommandOutcome {
    /// End of the command.
    pub how: ExitReason,
    /// End of each output, by its name.
    pub outputs: Vec<(&'static str, StreamEnd)>,
    /// True if all that it printed is in the log.
    pub stopped: Stopped,
    /// The numbers of the session.
    pub stats: Stats,
}

/// Runs a command to its end, and writes the log to its end.
///
/// To be called once, from the first thread, before others are started: signals are held from then on.
///
/// # Errors
/// Fails when the command cannot be started; nothing of it has run then.
pub fn run(options: &CommandOptions) -> Result<CommandOutcome, CommandError> {
    command::find(&options.program)?;
    let signals = Signals::hold().map_err(CommandError::system("read signals"))?;
    let destination = Destination::start(&options.destination, options.min_level)?;
    let outcome = supervise::supervise(options, &signals, &destination);
    let (stopped, stats) = destination.stop();
    let (how, outputs) = outcome?;
    Ok(CommandOutcome {
        how,
        outputs,
        stopped,
        stats,
    })
}
