//! Looks at sessions: those of run directories, and those that agents hold.

use super::edit::{self, Change};
use super::limits::{AGENT_AWAY_MS, AGENT_PATIENCE_MS, PROCESSES_MAX};
use super::sample::{Life, Process, Sample, Sites, Via};
use super::watched_session::WatchedSession;
use crate::error::CliError;
use crate::instant::now_unix_ns;
use crate::output::safe;
use crate::run_dirs::{find_all, run_dirs};
use crate::top::args::TopArgs;
use logdrive_agent::supervisor::private_sockets;
use logdrive_agent::{AgentError, Client};
use logdrive_ring::SessionReader;
use logdrive_wire::agent::{SessionEntry, SessionState};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Socket of an agent of the system.
const SYSTEM_SOCKET: &str = "/run/logdrive/agent.sock";

/// Looks at sessions, again and again.
#[derive(Debug)]
pub(super) struct Source {
    dirs: Vec<PathBuf>,
    agents: Vec<Agent>,
    /// Sessions that can be read, by their keys.
    watched: HashMap<String, WatchedSession>,
    start: Instant,
}

/// An agent that is asked.
#[derive(Debug)]
struct Agent {
    socket: PathBuf,
    /// Whether somebody has named it, so that its absence is told.
    is_named: bool,
    /// Whether it was found as that of one command.
    is_private: bool,
    client: Option<Client>,
    ask_again: Option<Instant>,
    /// Error that is reported until then.
    trouble: Option<String>,
}

impl Source {
    /// Sources that the arguments name.
    pub(super) fn new(args: &TopArgs) -> Result<Self, CliError> {
        raise_file_limit();
        let agents = sockets(args)
            .into_iter()
            .map(|(socket, is_named)| Agent::new(socket, is_named, false));
        Ok(Self {
            dirs: run_dirs(&args.run_dir)?,
            agents: agents.collect(),
            watched: HashMap::new(),
            start: Instant::now(),
        })
    }

    /// Places that are searched, in words.
    pub(super) fn places(&self) -> Vec<String> {
        let dirs = self
            .dirs
            .iter()
            .map(|dir| format!("run directory {}", dir.display()));
        let agents = self
            .agents
            .iter()
            .map(|agent| format!("agent at {}", agent.socket.display()));
        dirs.chain(agents).map(|place| safe(&place)).collect()
    }

    fn at_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Looks at all processes.
    pub(super) fn look(&mut self) -> Sample {
        let mut sample = Sample {
            at_ns: self.at_ns(),
            ..Sample::default()
        };
        self.look_into_dirs(&mut sample);
        self.find_private_agents();
        for number in 0..self.agents.len() {
            self.ask_agent(number, &mut sample);
        }
        sample.processes.truncate(PROCESSES_MAX);
        let seen: HashSet<&str> = sample
            .processes
            .iter()
            .map(|process| process.key.as_str())
            .collect();
        self.watched.retain(|key, _| seen.contains(key.as_str()));
        sample
    }

    fn look_into_dirs(&mut self, sample: &mut Sample) {
        let now_unix_ns = now_unix_ns();
        for dir in &self.dirs {
            let found = match find_all(std::slice::from_ref(dir)) {
                Ok(found) => found,
                Err(error) => {
                    sample.troubles.push(error.to_string());
                    continue;
                }
            };
            for found in found {
                let key = found.path.to_string_lossy().into_owned();
                let life = if found.holder.is_some() {
                    Life::Alive
                } else {
                    Life::Dead
                };
                match session_of_path(&mut self.watched, &key, &found.path) {
                    Ok(session) => sample
                        .processes
                        .push(session.process(&key, Via::Own, life, now_unix_ns)),
                    // It has just ended.
                    Err(_) if !found.path.join("session").exists() => {}
                    Err(error) => sample.processes.push(damaged(key, &found.path, error)),
                }
            }
        }
    }

    /// Commands under `logdrive run` have agents of their own, beside the sessions.
    fn find_private_agents(&mut self) {
        let sockets: Vec<PathBuf> = self.dirs.iter().flat_map(|dir| private_sockets(dir)).collect();
        self.agents
            .retain(|agent| !agent.is_private || sockets.contains(&agent.socket));
        for socket in sockets {
            if self.agents.iter().all(|agent| agent.socket != socket) {
                self.agents.push(Agent::new(socket, false, true));
            }
        }
    }

    fn ask_agent(&mut self, number: usize, sample: &mut Sample) {
        let Some(agent) = self.agents.get_mut(number) else {
            return;
        };
        let entries = match agent.sessions() {
            Ok(entries) => entries,
            Err(trouble) => return sample.troubles.extend(trouble),
        };
        for entry in entries {
            let key = key_of(&agent.socket, entry.session);
            let process = match session_of_agent(&mut self.watched, &key, agent, entry.session) {
                Ok(session) => session.process(&key, Via::Agent, life_of(&entry), now_unix_ns()),
                Err(why) => told(key, &agent.socket, &entry, why),
            };
            sample.processes.push(process);
        }
    }

    /// Looks at the callsites of a process; `None` when it has gone.
    pub(super) fn sites(&self, key: &str) -> Option<Sites> {
        self.watched.get(key)?.sites(key, self.at_ns()).ok()
    }

    /// Makes a change in a session; what it did, or why it could not be done.
    pub(super) fn change(&self, change: &Change) -> Result<String, String> {
        let session = self
            .watched
            .get(&change.key)
            .ok_or_else(|| "the process has ended".to_owned())?;
        edit::make(session.session(), change).map_err(|error| error.to_string())
    }
}

impl Agent {
    const fn new(socket: PathBuf, is_named: bool, is_private: bool) -> Self {
        Self {
            socket,
            is_named,
            is_private,
            client: None,
            ask_again: None,
            trouble: None,
        }
    }

    /// Its sessions; `Err` with what there is to tell where it does not answer.
    fn sessions(&mut self) -> Result<Vec<SessionEntry>, Option<String>> {
        if self.ask_again.is_some_and(|at| Instant::now() < at) {
            return Err(self.trouble.clone());
        }
        match self.try_sessions() {
            Ok(entries) => Ok(entries),
            Err(error) => {
                self.client = None;
                self.ask_again = Some(Instant::now() + Duration::from_millis(AGENT_AWAY_MS));
                let is_absent = matches!(error, AgentError::NoAgent { .. }) && !self.is_named;
                self.trouble = (!is_absent).then(|| error.to_string());
                Err(self.trouble.clone())
            }
        }
    }

    fn try_sessions(&mut self) -> Result<Vec<SessionEntry>, AgentError> {
        self.client()?.sessions()
    }

    fn client(&mut self) -> Result<&mut Client, AgentError> {
        let client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(&self.socket, Duration::from_millis(AGENT_PATIENCE_MS))?,
        };
        Ok(self.client.insert(client))
    }
}

/// Returns the watched session of a directory.
fn session_of_path<'a>(
    watched: &'a mut HashMap<String, WatchedSession>,
    key: &str,
    path: &Path,
) -> Result<&'a mut WatchedSession, String> {
    if !watched.contains_key(key) {
        let session = SessionReader::open(path).and_then(WatchedSession::of);
        watched.insert(key.to_owned(), session.map_err(|error| error.to_string())?);
    }
    let session = watched.get_mut(key).ok_or("it has gone")?;
    session.find_rings();
    Ok(session)
}

/// The session of a session that an agent holds. The agent is asked again when there are more rings than it showed.
fn session_of_agent<'a>(
    watched: &'a mut HashMap<String, WatchedSession>,
    key: &str,
    agent: &mut Agent,
    session: u64,
) -> Result<&'a WatchedSession, String> {
    if watched.get(key).is_none_or(WatchedSession::misses_rings) {
        let view = agent.client().and_then(|client| client.open(session));
        let view = view.map_err(|error| error.to_string())?;
        // Where it is not told, the session's own name stands there.
        let sinks = agent.client().and_then(|client| client.files(session, false));
        let session = WatchedSession::of_agent(view, &sinks.unwrap_or_default());
        let session = session.map_err(|error| error.to_string())?;
        watched.insert(key.to_owned(), session);
    }
    watched.get(key).ok_or_else(|| "it has gone".to_owned())
}

fn key_of(socket: &Path, session: u64) -> String {
    format!("{}#{session}", socket.display())
}

fn life_of(entry: &SessionEntry) -> Life {
    match entry.state {
        SessionState::Connected => Life::Alive,
        SessionState::Away => Life::Away,
        SessionState::Ending => Life::Dead,
    }
}

/// A session in a directory that cannot be read: its directory is named APP-PID-NUMBER.
fn damaged(key: String, path: &Path, why: String) -> Process {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut parts = name.rsplitn(3, '-').skip(1);
    let pid = parts.next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
    let app = safe(parts.next().unwrap_or(&name));
    unread(key, app, pid, Via::Own, safe(&path.to_string_lossy()), why)
}

/// A session that the agent tells of and does not show.
fn told(key: String, socket: &Path, entry: &SessionEntry, why: String) -> Process {
    let place = safe(&socket.to_string_lossy());
    let process = unread(key, safe(&entry.app), entry.pid, Via::Agent, place, why);
    Process {
        age_s: Some(now_unix_ns().saturating_sub(entry.start_unix_ns) / 1_000_000_000),
        rings: entry.ring_count,
        ..process
    }
}

fn unread(key: String, app: String, pid: u32, via: Via, place: String, why: String) -> Process {
    Process {
        key,
        app,
        pid,
        via,
        life: Life::Damaged,
        age_s: None,
        rings: 0,
        rings_in_use: 0,
        callsites: 0,
        committed: 0,
        bytes: 0,
        dropped: 0,
        sampled_out: 0,
        fill: 0.0,
        pending: 0,
        written: 0,
        errors: 0,
        panics: 0,
        place,
        damage: Some(safe(&why)),
    }
}

/// The sockets of agents, and whether somebody has named them.
fn sockets(args: &TopArgs) -> Vec<(PathBuf, bool)> {
    if !args.socket.is_empty() {
        return args.socket.iter().map(|socket| (socket.clone(), true)).collect();
    }
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let named = variable("LOGDRIVE_AGENT").filter(|value| value != "off");
    let of_user = variable("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("logdrive/agent.sock"));
    let mut sockets: Vec<(PathBuf, bool)> = named
        .map(|path| (PathBuf::from(path), true))
        .into_iter()
        .collect();
    let usual = of_user.into_iter().chain([PathBuf::from(SYSTEM_SOCKET)]);
    for socket in usual {
        if sockets.iter().all(|(other, _)| *other != socket) {
            sockets.push((socket, false));
        }
    }
    sockets
}

/// Agents show sessions as descriptors, of which the usual limit allows a thousand.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, fewer sessions can be looked at, which the screen says.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}
