//! Search for sessions in run directories, and at agents, whose sessions have no files.
//!
//! A session that an agent has is named as if its number were a file below the agent's socket:
//! `/run/logdrive/agent.sock/1763723456789`.

mod agent_place;
mod run_dirs;

use crate::error::CliError;
use crate::limits::{AGENT_HURRY_MS, AGENT_TIMEOUT_MS, AGENT_WATCH_MS};
use crate::output::safe;
use crate::session_args::{AgentAt, RunDirArgs};
use agent_place::AgentPlace;
use logdrive_agent::config::Places as AgentPlaces;
use logdrive_agent::supervisor::private_sockets;
use logdrive_agent::{AgentError, Client};
use logdrive_drain::{RecoverableSink, sinks_from_text};
use logdrive_ring::SessionReader;
use logdrive_wire::agent::SessionEntry;
use run_dirs::{dirs_text, find_all, run_dirs};
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

    /// Whether a name means it: its application, its process, its own number or directory, or its path.
    pub(crate) fn is_named(&self, name: &str, app: &str, pid: u32) -> bool {
        let path = Path::new(name);
        app == name
            || name.parse() == Ok(pid)
            || self.path.file_name().is_some_and(|own| own == name)
            || self.path == path
            || self.path == absolute(path)
    }
}

/// Search for sessions in run directories and at agents.
#[derive(Debug)]
pub(crate) struct SessionFinder {
    dirs: Vec<PathBuf>,
    agents: Vec<AgentPlace>,
    /// Timeout for an agent's answer.
    timeout: Duration,
    /// A search that goes on for long: an agent that does not answer is left alone for a while, and that of a command
    /// goes with the command.
    goes_on: bool,
}

impl SessionFinder {
    /// The places that are named on the command line, or else the usual ones.
    pub(crate) fn of(run_dir: &RunDirArgs, agent: &AgentAt) -> Result<Self, CliError> {
        let named = agent.agent.as_deref();
        let is_only_agent = run_dir.run_dir.is_empty() && named.is_some_and(|socket| !is_none(socket));
        let agents = match named {
            Some(socket) if is_none(socket) => Vec::new(),
            Some(socket) => vec![AgentPlace::needed(absolute(socket))],
            None if run_dir.run_dir.is_empty() => usual_agents(),
            None => Vec::new(),
        };
        Ok(Self {
            dirs: match is_only_agent {
                true => Vec::new(),
                false => run_dirs(run_dir)?,
            },
            agents,
            timeout: Duration::from_millis(AGENT_TIMEOUT_MS),
            goes_on: false,
        })
    }

    /// Run directories only: no agent is asked, that of a command neither.
    pub(crate) fn of_dirs(run_dir: &RunDirArgs) -> Result<Self, CliError> {
        let agent = AgentAt {
            agent: Some(PathBuf::from(NONE)),
        };
        Self::of(run_dir, &agent)
    }

    /// Places that are searched again and again: run directories, and these agents, or else those that the environment
    /// names and the usual ones, which may come later.
    pub(crate) fn going_on(run_dir: &RunDirArgs, sockets: &[PathBuf]) -> Result<Self, CliError> {
        let named = |socket: &PathBuf| AgentPlace::named(socket.clone());
        let mut agents: Vec<AgentPlace> = sockets.iter().map(named).collect();
        if sockets.is_empty() {
            agents.extend(agent_of_environment().flatten().iter().map(named));
            for socket in usual_sockets() {
                if agents.iter().all(|other| other.socket != socket) {
                    agents.push(AgentPlace::new(socket));
                }
            }
        }
        Ok(Self {
            dirs: run_dirs(run_dir)?,
            agents,
            timeout: Duration::from_millis(AGENT_WATCH_MS),
            goes_on: true,
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
    pub(crate) fn find_path(&mut self, session: &Path) -> Result<Vec<Located>, CliError> {
        let parent = match session.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !is_socket(parent) {
            return find_all(&[parent.to_owned()]);
        }
        let (socket, timeout) = (absolute(parent), self.timeout);
        let agent = self.agents.iter_mut().find(|agent| agent.socket == socket);
        let sessions = agent.map(|agent| agent.sessions(timeout));
        Ok(sessions.and_then(Result::ok).unwrap_or_default())
    }

    /// The sessions of the run directories.
    pub(crate) fn find_in_dirs(&self) -> Result<Vec<Located>, CliError> {
        find_all(&self.dirs)
    }

    /// All sessions that are there now.
    pub(crate) fn find(&mut self) -> Result<Vec<Located>, CliError> {
        self.find_by(|agent, timeout| agent.found(timeout))
    }

    /// The sessions that are found at once: those of an agent that is slow are [late](SessionFinder::find_late).
    pub(crate) fn find_in_a_hurry(&mut self) -> Result<Vec<Located>, CliError> {
        self.find_by(|agent, _| agent.found_in_a_hurry(Duration::from_millis(AGENT_HURRY_MS)))
    }

    fn find_by(
        &mut self,
        ask: impl Fn(&mut AgentPlace, Duration) -> Result<Vec<Located>, CliError>,
    ) -> Result<Vec<Located>, CliError> {
        let mut all = self.find_in_dirs()?;
        self.find_private_agents();
        for agent in &mut self.agents {
            all.extend(ask(agent, self.timeout)?);
        }
        Ok(all)
    }

    /// The sessions of agents that were asked in a hurry and were slow.
    pub(crate) fn find_late(&mut self) -> Result<Vec<Located>, CliError> {
        let mut all = Vec::new();
        for agent in self.agents.iter_mut().filter(|agent| agent.is_late) {
            all.extend(agent.found(self.timeout)?);
            agent.is_late = agent.silence.is_some();
        }
        Ok(all)
    }

    /// All sessions that are there now, and in words the places that could not be searched.
    pub(crate) fn look(&mut self) -> (Vec<Located>, Vec<String>) {
        let (mut all, mut troubles) = (Vec::new(), Vec::new());
        for dir in &self.dirs {
            match find_all(std::slice::from_ref(dir)) {
                Ok(found) => all.extend(found),
                Err(error) => troubles.push(error.to_string()),
            }
        }
        self.find_private_agents();
        for agent in self.agents.iter_mut().filter(|agent| !agent.is_away()) {
            match agent.found(self.timeout) {
                Ok(found) => all.extend(found),
                Err(error) => troubles.push(error.to_string()),
            }
        }
        troubles.extend(self.silences());
        (all, troubles)
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
        let sockets: Vec<PathBuf> = sockets.map(|socket| absolute(&socket)).collect();
        if self.goes_on {
            self.agents
                .retain(|agent| !agent.is_private || sockets.contains(&agent.socket));
        }
        for socket in sockets {
            if !self.agents.iter().any(|agent| agent.socket == socket) {
                self.agents.push(AgentPlace::private(socket));
            }
        }
    }

    /// Opens a session.
    pub(crate) fn view(&mut self, at: &Located) -> Result<SessionReader, AgentError> {
        let timeout = self.timeout;
        let (Some(entry), Some(agent)) = (&at.entry, self.agent_of(at)) else {
            return Ok(SessionReader::open(&at.path)?);
        };
        agent.ask(timeout, |client| client.open(entry.session))
    }

    /// Application and process of a session; `None` when it has just gone, or cannot be read, which `ps` reports.
    pub(crate) fn owner_of(&mut self, at: &Located) -> Option<(String, u32)> {
        if let Some(entry) = &at.entry {
            return Some((safe(&entry.app), entry.pid));
        }
        let process = SessionReader::open(&at.path).ok()?.header().identity();
        Some((safe(&process.app), process.pid))
    }

    /// The sinks that the records of an agent's session go to. With `written`, those that were committed before are
    /// with the kernel then.
    pub(crate) fn sinks(&mut self, at: &Located, written: bool) -> Result<Vec<RecoverableSink>, AgentError> {
        let timeout = self.timeout;
        let (Some(entry), Some(agent)) = (&at.entry, self.agent_of(at)) else {
            return Ok(Vec::new());
        };
        let text = agent.ask(timeout, |client| client.files(entry.session, written))?;
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
        let silent = self.agents.iter().filter_map(AgentPlace::reported_silence);
        silent.map(ToString::to_string).collect()
    }

    /// Returns the numbers of the agents that answer; those that refuse are left out.
    pub(crate) fn agent_stats(&mut self) -> Vec<(PathBuf, String)> {
        let timeout = self.timeout;
        let stats =
            |agent: &mut AgentPlace| Some((agent.socket.clone(), agent.ask(timeout, Client::stats).ok()?));
        let answering = self.agents.iter_mut().filter(|agent| agent.has_answered);
        answering.filter_map(stats).collect()
    }

    /// Returns the places that were searched and that answered, as text for people.
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

    /// Returns all places that are searched, one by one.
    pub(crate) fn places(&self) -> Vec<String> {
        let dirs = self.dirs.iter();
        let dirs = dirs.map(|dir| format!("run directory {}", dir.display()));
        let agents = self.agents.iter();
        let agents = agents.map(|agent| format!("agent at {}", agent.socket.display()));
        dirs.chain(agents).map(|place| safe(&place)).collect()
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

/// The agent that the environment names; `Some(None)` where it says that there is none.
fn agent_of_environment() -> Option<Option<PathBuf>> {
    let socket = PathBuf::from(std::env::var_os("LOGDRIVE_AGENT")?);
    Some((!is_none(&socket)).then(|| absolute(&socket)))
}

/// The agent that the environment names; or those of the machine and of this user, where they have left a socket.
fn usual_agents() -> Vec<AgentPlace> {
    match agent_of_environment() {
        Some(socket) => socket.map(AgentPlace::named).into_iter().collect(),
        None => {
            let sockets = usual_sockets().into_iter().filter(|socket| is_socket(socket));
            sockets.map(AgentPlace::new).collect()
        }
    }
}

/// Returns the socket of the agent that the environment names, or that of this user, or that of the machine.
pub(crate) fn usual_socket() -> PathBuf {
    let mut sockets = usual_sockets();
    let there = sockets.iter().rposition(|socket| socket.exists());
    let usual = sockets.swap_remove(there.unwrap_or(0));
    agent_of_environment().flatten().unwrap_or(usual)
}

/// Returns the sockets of the agent of the machine and of that of this user.
fn usual_sockets() -> Vec<PathBuf> {
    let mut sockets = vec![AgentPlaces::system().socket];
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(runtime) = runtime.filter(|path| path.is_absolute()) {
        sockets.push(AgentPlaces::of_user(&runtime, Path::new("")).socket);
    }
    sockets
}
