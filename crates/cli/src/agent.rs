//! `logdrive agent`: the service that hands sessions to processes and writes their logs.

use crate::config::load::{DEFAULT_PATH, Loaded, Reading, load};
use crate::config::user_places;
use crate::error::CliError;
use crate::limits::AGENT_TIMEOUT_MS;
use crate::output::{safe, service_note};
use crate::paint::ColorChoice;
use crate::session_finder::usual_socket;
use crate::signals::Signals;
use clap::Args;
use logdrive_agent::config::{AgentConfig, Places};
use logdrive_agent::{Agent, Client, KeeperCommand, StartError, StoreOptions};
use logdrive_drain::Stopped;
use signal_hook::consts::{SIGHUP, SIGUSR1};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const AGENT_EXAMPLES: &str = "\
Examples:
  logdrive agent                          as /etc/logdrive/logdrive.toml says
  logdrive agent --user                   an agent of one's own, below $XDG_RUNTIME_DIR
  logdrive agent --config shop.toml       as another file says
  logdrive agent --reload                 the agent that runs reads its configuration again
  logdrive config init > logdrive.toml    a commented file with all defaults
  LOGDRIVE_AGENT=/run/logdrive/agent.sock ./shop
                                          a program that logs through the agent

Signals: HUP reads the configuration again and opens all files anew; a file that is wrong changes
nothing. TERM and INT write what was taken, and end; processes go on, and wait for the next agent.";

/// Drain the logs of many processes, in one place
///
/// Listens on a Unix socket, gives each process that asks its shared memory, writes the records of all of them to the
/// sinks that the configuration names, and outlives them: what a killed process had logged is written, with how it
/// ended. When the agent itself is killed, the next one goes on where it stopped; nothing is lost or written twice. The
/// descriptor store of the service manager holds the memory should agent and program be killed together; where there is
/// none, a second process does, the keeper, which ends by itself.
#[derive(Debug, Args)]
#[command(after_long_help = AGENT_EXAMPLES)]
pub(crate) struct AgentArgs {
    /// The configuration; without it and without the default file, the defaults hold
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Run an agent of one's own: the defaults lie below $XDG_RUNTIME_DIR and $XDG_STATE_HOME
    #[arg(long, conflicts_with = "config")]
    pub(crate) user: bool,
    /// Listen on this socket, whatever the configuration says
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Tell the agent that runs to read its configuration again, and print what it says
    ///
    /// The agent is that of --socket, or of LOGDRIVE_AGENT, or the one of this user or of the machine. It obeys root
    /// and its own user.
    #[arg(long, conflicts_with_all = ["config", "user"])]
    pub(crate) reload: bool,
}

/// Has a running agent read its configuration again.
fn ask_to_reload(args: &AgentArgs) -> Result<bool, CliError> {
    let socket = args.socket.clone().unwrap_or_else(usual_socket);
    let agent = |cause| CliError::Agent { cause };
    let mut client = Client::connect(&socket, Duration::from_millis(AGENT_TIMEOUT_MS)).map_err(agent)?;
    let said = client.reload().map_err(agent)?;
    writeln!(io::stdout(), "{}", safe(&said))?;
    Ok(true)
}

/// Runs the agent until it is told to end. `false` when something was not written.
pub(crate) fn run(args: &AgentArgs, color: ColorChoice) -> Result<bool, CliError> {
    if args.reload {
        return ask_to_reload(args);
    }
    let signals = Signals::of_service()?;
    let Some(config) = configuration(args, color)? else {
        return Ok(false);
    };
    // Before anything is opened: the service manager passes descriptors by their numbers.
    let store = std::env::current_exe()
        .map(|program| StoreOptions::from_environment(KeeperCommand::new(program, ["keeper"])));
    let mut agent = Agent::start(config)?;
    match store {
        Ok(store) => agent.store_descriptors(store),
        Err(cause) => agent.notice(format!(
            "there is no keeper: this program cannot be found: {cause}"
        )),
    }
    service_note(color, "listens", format_args!("on {}", agent.socket().display()));
    loop {
        agent.turn();
        while let Some(text) = agent.take_problem() {
            service_note(color, "warning", &text);
        }
        while let Some(requester) = agent.take_reload() {
            let said = reload(&mut agent, args, color);
            agent.answer_reload(requester, said.as_deref().map_err(String::as_str));
        }
        match signals.take() {
            // The result has been reported.
            Some(SIGHUP) => drop(reload(&mut agent, args, color)),
            Some(SIGUSR1) => agent.reopen(),
            Some(_) => break,
            None => {}
        }
    }
    Ok(agent.stop() == Stopped::Complete)
}

/// Hold the memory of sessions for an agent, which starts this itself
#[derive(Debug, Args)]
pub(crate) struct KeeperArgs {
    /// Where the agent finds it
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
}

/// Holds the descriptors of an agent, until they are not needed any more.
pub(crate) fn keep(args: &KeeperArgs) -> Result<bool, CliError> {
    logdrive_agent::keep(&args.socket).map_err(StartError::from)?;
    Ok(true)
}

/// Returns the configuration of the file, or the defaults; `None` when the file is wrong, which has been reported.
fn configuration(args: &AgentArgs, color: ColorChoice) -> Result<Option<AgentConfig>, CliError> {
    let path = match &args.config {
        Some(path) => Some(path.as_path()),
        None if args.user => None,
        None => Some(Path::new(DEFAULT_PATH)).filter(|path| path.exists()),
    };
    let mut config = match path {
        None if args.user => AgentConfig::at(&user_places()?),
        None => AgentConfig::at(&Places::system()),
        Some(path) => match load(path, Reading::ToObey)? {
            Ok(Loaded { config, notes }) => {
                notes.iter().for_each(|note| service_note(color, "note", note));
                config
            }
            Err(refused) => {
                // Where it cannot be said, the exit status says it.
                let _ = write!(io::stderr(), "{}", refused.report(color.for_stderr()));
                return Ok(None);
            }
        },
    };
    if let Some(socket) = &args.socket {
        config.socket.clone_from(socket);
    }
    Ok(Some(config))
}

/// Reads the configuration again. The result is reported here, in the log and to the tool; when the file is wrong,
/// nothing changes.
fn reload(agent: &mut Agent, args: &AgentArgs, color: ColorChoice) -> Result<String, String> {
    agent.reopen();
    let result = match configuration(args, color) {
        Ok(Some(config)) => agent.reload(config).map_err(|error| error.to_string()),
        Ok(None) => Err("the file is wrong, see `logdrive config check`".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let said = match result {
        Ok(later) if later.is_empty() => Ok("the configuration was read again".to_owned()),
        Ok(later) => {
            let later: Vec<String> = later.iter().map(ToString::to_string).collect();
            let later = later.join("; ");
            Ok(format!(
                "the configuration was read again; after a restart: {later}"
            ))
        }
        Err(why) => Err(format!("the configuration stays as it was: {why}")),
    };
    let text = said.as_ref().unwrap_or_else(|text| text);
    service_note(color, "reload", text);
    agent.notice(text.clone());
    said
}

impl From<StartError> for CliError {
    fn from(cause: StartError) -> Self {
        Self::Start { cause }
    }
}
