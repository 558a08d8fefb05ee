//! An agent that may be there: it is asked for its sessions, and what it does not answer is remembered.

use super::Located;
use crate::error::CliError;
use crate::limits::AGENT_AWAY_MS;
use logdrive_agent::{AgentError, Client};
use logdrive_wire::agent::SessionEntry;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// An agent that may be there.
#[derive(Debug)]
pub(super) struct AgentPlace {
    pub(super) socket: PathBuf,
    /// The user has named it, so that a failure to answer is reported.
    is_named: bool,
    /// Nothing else is meant, so that this is an error.
    is_needed: bool,
    /// It is that of one command.
    pub(super) is_private: bool,
    pub(super) has_answered: bool,
    /// It was asked in a hurry, and did not answer in time.
    pub(super) is_late: bool,
    client: Option<Client>,
    /// Why it did not answer.
    pub(super) silence: Option<AgentError>,
    silent_since: Option<Instant>,
}

impl AgentPlace {
    pub(super) fn new(socket: PathBuf) -> Self {
        Self {
            socket,
            is_named: false,
            is_needed: false,
            is_private: false,
            has_answered: false,
            is_late: false,
            client: None,
            silence: None,
            silent_since: None,
        }
    }

    pub(super) fn named(socket: PathBuf) -> Self {
        Self {
            is_named: true,
            ..Self::new(socket)
        }
    }

    pub(super) fn needed(socket: PathBuf) -> Self {
        Self {
            is_needed: true,
            ..Self::new(socket)
        }
    }

    pub(super) fn private(socket: PathBuf) -> Self {
        Self {
            is_private: true,
            ..Self::new(socket)
        }
    }

    /// Asks, on the connection there is or on a new one: an agent closes those that say nothing for some seconds.
    pub(super) fn ask<T>(
        &mut self,
        timeout: Duration,
        question: impl Fn(&mut Client) -> Result<T, AgentError>,
    ) -> Result<T, AgentError> {
        if let Some(mut client) = self.client.take() {
            client.set_timeout(timeout);
            match question(&mut client) {
                Err(AgentError::NoAnswer { .. } | AgentError::Io { .. }) => {}
                answer => {
                    self.client = Some(client);
                    return answer;
                }
            }
        }
        let mut client = Client::connect(&self.socket, timeout)?;
        let answer = question(&mut client);
        // What comes late would be taken for the answer to the next question.
        if !matches!(answer, Err(AgentError::NoAnswer { .. })) {
            self.client = Some(client);
        }
        answer
    }

    pub(super) fn sessions(&mut self, timeout: Duration) -> Result<Vec<Located>, AgentError> {
        let entries = self.ask(timeout, Client::sessions)?;
        self.has_answered = true;
        let located = |entry: SessionEntry| Located {
            path: self.socket.join(entry.session.to_string()),
            holder: Some(entry.pid),
            entry: Some(entry),
        };
        Ok(entries.into_iter().map(located).collect())
    }

    /// Its sessions; none, and a note why, where it does not answer and is not required.
    pub(super) fn found(&mut self, timeout: Duration) -> Result<Vec<Located>, CliError> {
        let found = self.sessions(timeout);
        self.keep_silence(found)
    }

    /// The same; none so far where it is late.
    pub(super) fn found_in_a_hurry(&mut self, timeout: Duration) -> Result<Vec<Located>, CliError> {
        match self.sessions(timeout) {
            Err(cause) if is_late(&cause) => {
                self.is_late = true;
                self.client = None;
                Ok(Vec::new())
            }
            found => self.keep_silence(found),
        }
    }

    fn keep_silence(&mut self, found: Result<Vec<Located>, AgentError>) -> Result<Vec<Located>, CliError> {
        match found {
            Ok(sessions) => {
                (self.silence, self.silent_since) = (None, None);
                Ok(sessions)
            }
            Err(cause) if self.is_needed && !self.has_answered => Err(CliError::Agent { cause }),
            Err(cause) => {
                (self.silence, self.silent_since) = (Some(cause), Some(Instant::now()));
                Ok(Vec::new())
            }
        }
    }

    /// Whether it has not answered a moment ago. To ask it at each look would hold all looks up.
    pub(super) fn is_away(&self) -> bool {
        let since = self.silent_since;
        since.is_some_and(|since| since.elapsed() < Duration::from_millis(AGENT_AWAY_MS))
    }

    /// Returns why it does not answer. The absence of an agent is not reported; an agent that refuses the tool is.
    pub(super) fn reported_silence(&self) -> Option<&AgentError> {
        let is_absent = |silence: &AgentError| {
            matches!(
                silence,
                AgentError::NoAgent { cause, .. }
                    if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
            )
        };
        let silence = self.silence.as_ref();
        silence.filter(|silence| self.is_named || !is_absent(silence))
    }
}

/// Whether a longer timeout may bring an answer.
fn is_late(silence: &AgentError) -> bool {
    let is_time =
        |cause: &io::Error| matches!(cause.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock);
    match silence {
        AgentError::NoAnswer { .. } => true,
        AgentError::NoAgent { cause, .. } => is_time(cause),
        _ => false,
    }
}
