//! Client of an agent, for tools: list of sessions, memory of one, statistics, reload.

use crate::error::AgentError;
use logdrive_ring::channel::{Channel, Received, into_files};
use logdrive_ring::{MemoryFiles, RingError, SessionReader};
use logdrive_wire::agent::{Message, SessionEntry};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A tool's connection to an agent. Each request waits for its answer, up to the timeout.
///
/// ```no_run
/// use logdrive_agent::Client;
/// let mut client = Client::connect("/run/logdrive/agent.sock".as_ref(), std::time::Duration::from_secs(1))?;
/// for session in client.sessions()? {
///     println!("{} {} {}", session.session, session.pid, session.app);
/// }
/// # Ok::<(), logdrive_agent::AgentError>(())
/// ```
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    channel: Channel,
    timeout: Duration,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects to the agent that listens at this socket.
    ///
    /// # Errors
    /// Fails when no agent answers there, or it is not trusted.
    pub fn connect(path: &Path, timeout: Duration) -> Result<Self, AgentError> {
        let channel = match Channel::connect_to_agent(path, timeout) {
            Ok(channel) => channel,
            Err(RingError::Io { cause, .. }) => {
                return Err(AgentError::NoAgent {
                    path: path.to_owned(),
                    cause,
                });
            }
            Err(other) => return Err(other.into()),
        };
        Ok(Self {
            path: path.to_owned(),
            channel,
            timeout,
            buffer: vec![0; logdrive_wire::limits::AGENT_MESSAGE_BYTES_MAX],
        })
    }

    /// The sessions that this user may see, in the order of their numbers.
    ///
    /// # Errors
    /// Fails when the agent does not answer, or refuses.
    pub fn sessions(&mut self) -> Result<Vec<SessionEntry>, AgentError> {
        let mut all: Vec<SessionEntry> = Vec::new();
        loop {
            let above = all.last().map_or(0, |last| last.session);
            match self.ask(&Message::List { above })?.0 {
                Message::Sessions { more, entries } => {
                    // Rising numbers bound the loop, whatever the agent says.
                    let rises = entries.iter().all(|entry| entry.session > above);
                    let goes_on = more && rises && !entries.is_empty();
                    all.extend(entries);
                    if !goes_on {
                        return Ok(all);
                    }
                }
                other => return Err(self.unexpected(&other)),
            }
        }
    }

    /// Opens the memory of a session of one's own, or of anybody's for root.
    ///
    /// # Errors
    /// Fails when there is no such session, it belongs to another user, or the answer breaks the protocol.
    pub fn open(&mut self, session: u64) -> Result<SessionReader, AgentError> {
        let (message, descriptors) = self.ask(&Message::Open { session })?;
        let Message::Session { ring_total, .. } = message else {
            return Err(self.unexpected(&message));
        };
        let mut files = into_files(descriptors);
        let mut rings: Vec<File> = files.split_off(MemoryFiles::PARTS.min(files.len()));
        while rings.len() < ring_total as usize {
            match self.receive()? {
                (Message::Rings { count, .. }, more) if count > 0 => rings.extend(into_files(more)),
                (other, _) => return Err(self.unexpected(&other)),
            }
        }
        let memory = MemoryFiles::check(files)?;
        Ok(SessionReader::of_memory(
            &self.session_path(session),
            memory,
            rings,
        )?)
    }

    /// Returns the name of a session that an agent has: its number below the agent's socket. There is no such file.
    pub fn session_path(&self, session: u64) -> PathBuf {
        self.path.join(session.to_string())
    }

    /// Sets the timeout of an answer from now on.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// The agent's socket.
    pub fn socket(&self) -> &Path {
        &self.path
    }

    /// The sinks that records of a session go to, as [`logdrive_drain::sinks_from_text`] reads them. With `written`,
    /// waits until all that was committed before is with the kernel.
    ///
    /// # Errors
    /// Fails when the agent does not answer, or refuses.
    pub fn files(&mut self, session: u64, written: bool) -> Result<String, AgentError> {
        self.ask_for_text(&Message::Files { session, written })
    }

    /// The agent's statistics, as text.
    ///
    /// # Errors
    /// Fails when the agent does not answer, or refuses.
    pub fn stats(&mut self) -> Result<String, AgentError> {
        self.ask_for_text(&Message::Stats)
    }

    /// Lets the agent read its configuration again; what it says to that.
    ///
    /// # Errors
    /// Fails when the agent does not answer, or refuses: then it goes on with the configuration that it has.
    pub fn reload(&mut self) -> Result<String, AgentError> {
        self.ask_for_text(&Message::Reload)
    }

    /// Lets the agent write down what the flight recorder of an application keeps, so far back, or all; what it says to
    /// that.
    ///
    /// # Errors
    /// Fails when the agent does not answer, or refuses.
    pub fn dump(&mut self, app: &str, span: Option<Duration>) -> Result<String, AgentError> {
        let span_ns = span.map_or(0, |span| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        self.ask_for_text(&Message::Dump {
            span_ns,
            app: app.to_owned(),
        })
    }

    /// The same for one session; of the process's own user, or of anybody's for root.
    ///
    /// # Errors
    /// As [`Client::dump`], and when there is no such session.
    pub fn dump_session(&mut self, session: u64, span: Option<Duration>) -> Result<String, AgentError> {
        let span_ns = span.map_or(0, |span| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        self.ask_for_text(&Message::DumpSession { session, span_ns })
    }

    fn ask_for_text(&mut self, question: &Message) -> Result<String, AgentError> {
        let mut message = self.ask(question)?.0;
        let mut all = String::new();
        loop {
            match message {
                Message::Answer { more, text } => {
                    all.push_str(&text);
                    if !more {
                        return Ok(all);
                    }
                }
                other => return Err(self.unexpected(&other)),
            }
            message = self.receive()?.0;
        }
    }

    fn ask(&mut self, question: &Message) -> Result<(Message, Vec<OwnedFd>), AgentError> {
        let bytes = question.encode()?;
        let sent = self.channel.send(&bytes, &[]);
        sent.map_err(|cause| AgentError::io("send to", &self.path, cause))?;
        self.receive()
    }

    fn receive(&mut self) -> Result<(Message, Vec<OwnedFd>), AgentError> {
        let until = Instant::now() + self.timeout;
        loop {
            let mut descriptors = Vec::new();
            let received = self.channel.receive(&mut self.buffer, &mut descriptors, true);
            match received {
                Ok(Received::Packet(length)) => {
                    let message = Message::decode(self.buffer.get(..length).unwrap_or_default())?;
                    if let Message::Refused(refused) = message {
                        return Err(refused.into());
                    }
                    if message.descriptors() as usize != descriptors.len() {
                        return Err(self.no_answer("has sent other descriptors than it says"));
                    }
                    return Ok((message, descriptors));
                }
                Ok(Received::Closed) => return Err(self.no_answer("has closed the connection")),
                Ok(Received::Cut) => {
                    return Err(self.no_answer("has sent more descriptors than this process can open"));
                }
                Err(cause) if cause.kind() == std::io::ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(self.no_answer("does not answer"));
                    }
                    let waited = self.channel.wait(left);
                    waited.map_err(|cause| AgentError::io("wait for", &self.path, cause))?;
                }
                Err(cause) => return Err(AgentError::io("receive from", &self.path, cause)),
            }
        }
    }

    fn no_answer(&self, what: &'static str) -> AgentError {
        AgentError::NoAnswer {
            path: self.path.clone(),
            what,
        }
    }

    fn unexpected(&self, _message: &Message) -> AgentError {
        self.no_answer("has answered something else than was asked")
    }
}
