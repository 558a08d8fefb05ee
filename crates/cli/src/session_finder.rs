//! SessionFinder where sessions are: run directories, and agents, whose sessions have no files.
//!
//! A session that an agent has is named as if its number were a file below the agent's socket:
//! `/run/logdrive/agent.sock/1763723456789`.

use crate::error::CliError;
use crate::limits::{AGENT_HURRY_MS, AGENT_PATIENCE_MS};
use crate::output::safe;
use crate::run_dirs::{dirs_text, find_all, run_dirs};
use crate::session_args::{AgentAt, RunDirArgs};
use logdrive_agent::config::Places as AgentPlaces;
use logdrive_agent::supervisor::private_sockets;
use logdrive_agent::{AgentError, Client};
use logdrive_drain::{RecoverableSink, sinks_from_text};
use logdrive_ring::{FoundSession, SessionReader};
use logdrive_wire::agent::SessionEntry;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Instead of a socket: no agent is asked.
const NONE: &str = "off";

/// A session that was found, and not looked into.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    /// Its directory; or its number below the socket of its agent.
    pub(crate) path: PathBuf,
    /// Its process; `None` when that is dead.
    pub(crate) holder: Option<u32>,
    /// Entry in its agent's list, for a session that an agent has.
    pub(crate) entry: Option<SessionEntry>,
}

impl Located {
    pub(crate) fn is_alive(&self) -> bool {
        self.holder.is_some()
    }

    /// The socket of its agent.
    pub(crate) fn agent(&self) -> Option<&Path> {
        self.entry.as_ref().and_then(|_| self.path.parent())
    }

    /// Whether a name means it: its application, its process, or its own number or directory.
    pub(crate) fn is_named(&self, name: &str, app: &str, pid: u32) -> bool {
        app == name || name.parse() == Ok(pid) || self.path.file_name().is_some_and(|own| own == name)
    }
}

impl From<FoundSession> for Located {
    fn from(found: FoundSession) -> Self {
        Self {
            path: found.path,
            holder: found.holder,
            entry: None,
        }
    }
}

/// An agent that may be there.
#[derive(Debug)]
struct AgentPlace {
    socket: PathBuf,
    /// Somebody has named it, so that it is told that it does not answer.
    is_named: bool,
    /// Nothing else is meant, so that this is an error.
    is_needed: bool,
    has_answered: bool,
    /// It was asked in a hurry, and did not answer in time.
    is_late: bool,
    patience: Duration,
    client: Option<Client>,
    /// Why it did not answer.
    silence: Option<AgentError>,
}

impl AgentPlace {
    fn new(socket: PathBuf) -> Self {
        Self {
            socket,
            is_named: false,
            is_needed: false,
            has_answered: false,
            is_late: false,
            patience: Duration::from_millis(AGENT_PATIENCE_MS),
            client: None,
            silence: None,
        }
    }

    /// Asks, on the connection there is or on a new one: an agent closes those that say nothing for some seconds.
    fn ask<T>(&mut self, question: impl Fn(&mut Client) -> Result<T, AgentError>) -> Result<T, AgentError> {
        if let Some(mut client) = self.client.take() {
            match question(&mut client) {
                Err(AgentError::NoAnswer { .. } | AgentError::Io { .. }) => {}
                answer => {
                    self.client = Some(client);
                    return answer;
                }
            }
        }
        let mut client = Client::connect(&self.socket, self.patience)?;
        let answer = question(&mut client);
        // What comes late would be taken for the answer to the next question.
        if !matches!(answer, Err(AgentError::NoAnswer { .. })) {
            self.client = Some(client);
        }
        answer
    }

    /// Its sessions; none, and a note why, where it does not answer and nobody has to have it.
    fn found(&mut self) -> Result<Vec<Located>, CliError> {
        match self.sessions() {
            Ok(sessions) => {
                self.silence = None;
                Ok(sessions)
            }
            Err(cause) if self.is_needed && !self.has_answered => Err(CliError::Agent { cause }),
            Err(cause) => {
                self.silence = Some(cause);
                Ok(Vec::new())
            }
        }
    }

    /// The same; none so far where it is late.
    fn found_in_a_hurry(&mut self) -> Result<Vec<Located>, CliError> {
        self.patience = Duration::from_millis(AGENT_HURRY_MS);
        let sessions = self.sessions();
        self.patience = Duration::from_millis(AGENT_PATIENCE_MS);
        if let Some(client) = &mut self.client {
            client.set_patience(self.patience);
        }
        match sessions {
            Ok(sessions) => {
                self.silence = None;
                Ok(sessions)
            }
            Err(cause) if is_late(&cause) => {
                self.is_late = true;
                self.client = None;
                Ok(Vec::new())
            }
            Err(cause) if self.is_needed => Err(CliError::Agent { cause }),
            Err(cause) => {
                self.silence = Some(cause);
                Ok(Vec::new())
            }
        }
    }

    fn sessions(&mut self) -> Result<Vec<Located>, AgentError> {
        let entries = self.ask(Client::sessions)?;
        self.has_answered = true;
        let located = |entry: SessionEntry| Located {
            path: self.socket.join(entry.session.to_string()),
            holder: Some(entry.pid),
            entry: Some(entry),
        };
        Ok(entries.into_iter().map(located).collect())
    }
}

/// Search for sessions in run directories and at agents.
#[derive(Debug)]
pub(crate) struct SessionFinder {
    dirs: Vec<PathBuf>,
    agents: Vec<AgentPlace>,
}

impl SessionFinder {
    /// The places that are named on the command line, or else the usual ones.
    pub(crate) fn of(run_dir: &RunDirArgs, agent: &AgentAt) -> Result<Self, CliError> {
        let named = agent.agent.as_deref();
        let is_only_agent = run_dir.run_dir.is_empty() && named.is_some_and(|socket| !is_none(socket));
        Ok(Self {
            dirs: match is_only_agent {
                true => Vec::new(),
                false => run_dirs(run_dir)?,
            },
            agents: match named {
                Some(socket) if is_none(socket) => Vec::new(),
                Some(socket) => vec![AgentPlace {
                    is_needed: true,
                    ..AgentPlace::new(absolute(socket))
                }],
                None if run_dir.run_dir.is_empty() => usual_agents(),
                None => Vec::new(),
            },
        })
    }

    /// Asks the agent, too, of a session that is named by its path. `false` when it is not one of an agent.
    pub(crate) fn look_at_agent_of(&mut self, session: &Path) -> bool {
        let Some(socket) = session.parent().filter(|parent| is_socket(parent)).map(absolute) else {
            return false;
        };
        if !self.agents.iter().any(|agent| agent.socket == socket) {
            self.agents.push(AgentPlace::new(socket));
        }
        true
    }

    /// Looks where a session lies that is named by its path, too.
    pub(crate) fn look_at(&mut self, session: &Path) {
        if self.look_at_agent_of(session) {
            return;
        }
        // One that is named by its path may lie anywhere.
        if let Some(parent) = session.parent().filter(|parent| parent.is_dir())
            && !self.dirs.iter().any(|dir| dir == parent)
        {
            self.dirs.push(parent.to_owned());
        }
    }

    /// The session of this path, and nothing else: no agent is asked that may keep its asker waiting, but its own.
    pub(crate) fn find_path(&mut self, session: &Path) -> Vec<Located> {
        let parent = session.parent().unwrap_or(session);
        if !is_socket(parent) {
            let found = find_all(&[parent.to_owned()]).unwrap_or_default();
            return found.into_iter().map(Located::from).collect();
        }
        let socket = absolute(parent);
        let agent = self.agents.iter_mut().find(|agent| agent.socket == socket);
        let sessions = agent.map(AgentPlace::sessions);
        sessions.and_then(Result::ok).unwrap_or_default()
    }

    /// All sessions that are there now.
    pub(crate) fn find(&mut self) -> Result<Vec<Located>, CliError> {
        let mut all: Vec<Located> = find_all(&self.dirs)?.into_iter().map(Located::from).collect();
        self.find_private_agents();
        for agent in &mut self.agents {
            all.extend(agent.found()?);
        }
        Ok(all)
    }

    /// The sessions that are found at once: those of an agent that is slow are [late](SessionFinder::find_late).
    pub(crate) fn find_in_a_hurry(&mut self) -> Result<Vec<Located>, CliError> {
        let mut all: Vec<Located> = find_all(&self.dirs)?.into_iter().map(Located::from).collect();
        self.find_private_agents();
        for agent in &mut self.agents {
            all.extend(agent.found_in_a_hurry()?);
        }
        Ok(all)
    }

    /// The sessions of agents that were asked in a hurry and were slow.
    pub(crate) fn find_late(&mut self) -> Result<Vec<Located>, CliError> {
        let mut all = Vec::new();
        for agent in self.agents.iter_mut().filter(|agent| agent.is_late) {
            all.extend(agent.found()?);
            agent.is_late = agent.silence.is_some();
        }
        Ok(all)
    }

    /// Agents that have not answered, however long they were given.
    pub(crate) fn late(&self) -> Vec<String> {
        let late = self.agents.iter().filter(|agent| agent.is_late);
        late.filter_map(|agent| agent.silence.as_ref().map(ToString::to_string))
            .collect()
    }

    /// Commands under `logdrive run` have agents of their own, beside the sessions.
    fn find_private_agents(&mut self) {
        let sockets = self.dirs.iter().flat_map(|dir| private_sockets(dir));
        for socket in sockets.map(|socket| absolute(&socket)) {
            if !self.agents.iter().any(|agent| agent.socket == socket) {
                self.agents.push(AgentPlace::new(socket));
            }
        }
    }

    /// Opens a session.
    pub(crate) fn view(&mut self, at: &Located) -> Result<SessionReader, AgentError> {
        let (Some(entry), Some(agent)) = (&at.entry, self.agent_of(at)) else {
            return Ok(SessionReader::open(&at.path)?);
        };
        agent.ask(|client| client.open(entry.session))
    }

    /// Application and process of a session; `None` when it has just gone, or cannot be read, which `ps` tells.
    pub(crate) fn owner_of(&mut self, at: &Located) -> Option<(String, u32)> {
        if let Some(entry) = &at.entry {
            return Some((safe(&entry.app), entry.pid));
        }
        let view = SessionReader::open(&at.path).ok()?;
        Some((safe(&view.header().app()), view.header().pid()))
    }

    /// The sinks that the records of an agent's session go to. With `written`, those that were committed before are with the
    /// kernel then.
    pub(crate) fn sinks(&mut self, at: &Located, written: bool) -> Result<Vec<RecoverableSink>, AgentError> {
        let (Some(entry), Some(agent)) = (&at.entry, self.agent_of(at)) else {
            return Ok(Vec::new());
        };
        let text = agent.ask(|client| client.files(entry.session, written))?;
        Ok(sinks_from_text(&text))
    }

    fn agent_of(&mut self, at: &Located) -> Option<&mut AgentPlace> {
        let socket = at.agent()?;
        self.agents.iter_mut().find(|agent| agent.socket == socket)
    }

    /// Whether the agent of a session does not answer, so that nothing is known of the session.
    pub(crate) fn is_silent(&self, session: &Path) -> bool {
        let mut agents = self.agents.iter();
        agents.any(|agent| agent.silence.is_some() && session.parent() == Some(&agent.socket))
    }

    /// Agents that ought to have answered, and why they did not.
    pub(crate) fn silences(&self) -> Vec<String> {
        let told =
            |agent: &&AgentPlace| agent.is_named || agent.silence.as_ref().is_some_and(is_worth_telling);
        let silent = self.agents.iter().filter(told);
        silent
            .filter_map(|agent| agent.silence.as_ref().map(ToString::to_string))
            .collect()
    }

    /// Returns the numbers of the agents that answer; those that refuse are left out.
    pub(crate) fn agent_stats(&mut self) -> Vec<(PathBuf, String)> {
        let stats = |agent: &mut AgentPlace| Some((agent.socket.clone(), agent.ask(Client::stats).ok()?));
        let answering = self.agents.iter_mut().filter(|agent| agent.has_answered);
        answering.filter_map(stats).collect()
    }

    /// Returns the places that were searched, as text for people.
    pub(crate) fn text(&self) -> String {
        let agents = self.agents.iter().filter(|agent| agent.has_answered);
        let mut names: Vec<String> = agents
            .map(|agent| format!("the agent at {}", agent.socket.display()))
            .collect();
        if !self.dirs.is_empty() {
            names.insert(0, dirs_text(&self.dirs));
        }
        names.join(" or ")
    }
}

/// As it is from any directory.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    // An empty path is the only one that has no such form.
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn is_none(socket: &Path) -> bool {
    socket.as_os_str().is_empty() || socket.as_os_str() == NONE
}

fn is_socket(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_socket())
}

/// Whether more patience may bring an answer.
fn is_late(silence: &AgentError) -> bool {
    let is_time =
        |cause: &io::Error| matches!(cause.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock);
    match silence {
        AgentError::NoAnswer { .. } => true,
        AgentError::NoAgent { cause, .. } => is_time(cause),
        _ => false,
    }
}

/// That nobody is there is no news; that somebody is and may not be asked is.
fn is_worth_telling(silence: &AgentError) -> bool {
    !matches!(
        silence,
        AgentError::NoAgent { cause, .. }
            if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
    )
}

/// The agent that the environment names; or those of the machine and of this user, where they have left a socket.
fn usual_agents() -> Vec<AgentPlace> {
    match std::env::var_os("LOGDRIVE_AGENT").map(PathBuf::from) {
        Some(socket) if is_none(&socket) => Vec::new(),
        Some(socket) => vec![AgentPlace {
            is_named: true,
            ..AgentPlace::new(absolute(&socket))
        }],
        None => usual_sockets()
            .into_iter()
            .filter(|socket| is_socket(socket))
            .map(AgentPlace::new)
            .collect(),
    }
}

/// Returns the sockets of the agent of the machine and of that of this user.
pub(crate) fn usual_sockets() -> Vec<PathBuf> {
    let mut sockets = vec![AgentPlaces::system().socket];
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(runtime) = runtime.filter(|path| path.is_absolute()) {
        sockets.push(AgentPlaces::of_user(&runtime, Path::new("")).socket);
    }
    sockets
}
