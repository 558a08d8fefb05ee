//! This process's side of an agent: the session comes from there, the agent drains it, and one thread maintains the
//! connection. `spec/agent.md` has the messages and the rules.

mod connection;
mod limits;
mod thread;

use crate::config::Config;
use crate::engine::Engine;
use connection::{Connection, FlushTarget, keep_request, send, send_keep_request};
use limits::{CONNECT_PART, NO_PROGRESS_MS, PROGRESS_MS, RINGS_AT_START, SPILLED_BUFFERS};
use logdrive_drain::{Stats, Stopped, gap_callsite};
use logdrive_ring::channel::{Channel, Received, into_files};
use logdrive_ring::{
    AgentConnection, FullPolicy, MemoryFiles, SessionOptions, SessionWriter, control, local,
};
use logdrive_wire::Level;
use logdrive_wire::agent::{Hello, Message, Welcome};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Error that keeps this process from getting a session from an agent. It is only shown.
pub(crate) type JoinError = Box<dyn std::error::Error + Send + Sync>;

/// A session that an agent drains.
#[derive(Debug)]
pub(crate) struct AgentSession {
    connection: Arc<Connection>,
    session: Arc<SessionWriter>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Disabled calls of the process before this session began.
    disabled_before: u64,
    /// Options for writing the session to files where there is no agent at the end.
    spill: SessionOptions,
}

impl AgentSession {
    /// Gets a session from the agent at a socket. Waits as long as the configuration says at most.
    pub(crate) fn start(socket: &Path, config: &Config) -> Result<Self, JoinError> {
        let channel = Channel::connect_to_agent(socket, config.agent_timeout / CONNECT_PART)?;
        let (welcome, mut files) = hello(&channel, socket, config)?;
        let rings = files.split_off(MemoryFiles::PARTS.min(files.len()));
        let memory = MemoryFiles::check(files)?;
        let shown = rings.len();
        let connection = Arc::new(Connection::new(channel, socket, config, &welcome));
        let session = Arc::new(SessionWriter::join(
            socket,
            memory,
            rings,
            usize::try_from(welcome.ring_bytes).unwrap_or(0),
            Arc::clone(&connection) as Arc<dyn AgentConnection>,
        )?);
        let gap = gap_callsite().encode().unwrap_or_default();
        session.register(&gap, control::ON)?;
        let disabled_before = local::disabled_calls();
        let keeper = thread::ConnectionThread::new(&connection, &session, shown, disabled_before);
        let thread = std::thread::Builder::new()
            .name("logdrive-agent".to_owned())
            .spawn(move || keeper.run())
            .map_err(|cause| format!("cannot start the thread logdrive-agent: {cause}"))?;
        Ok(Self {
            connection,
            session,
            thread: Mutex::new(Some(thread)),
            disabled_before,
            spill: SessionOptions {
                buffers_per_sink: SPILLED_BUFFERS,
                ..config.backend.session_options()
            },
        })
    }

    /// Waits for an answer of the agent, for which `wait` checks within a time. `None` when nothing of the session has
    /// moved for five seconds, or at the given moment.
    fn wait_for<T>(&self, until: Option<Instant>, wait: impl Fn(Duration) -> Option<T>) -> Option<T> {
        let mut progress = Progress::new(&self.session);
        loop {
            let step = Duration::from_millis(PROGRESS_MS);
            let left = until.map_or(step, |until| until.saturating_duration_since(Instant::now()));
            let answer = wait(step.min(left));
            if answer.is_some() || left.is_zero() || !progress.is_moving() {
                return answer;
            }
        }
    }

    fn wait_for_flush(&self, what: FlushTarget) -> bool {
        let ticket = self.connection.request_flush(what);
        let answer = self.wait_for(None, |time| self.connection.wait_for_ticket(ticket, time));
        self.connection.forget_ticket(ticket);
        answer.unwrap_or(false)
    }

    /// Without an agent the memory is lost when this process ends: the records that are left go to files.
    fn leave_in_files(&self) -> Stopped {
        if !self.session.has_left() {
            return Stopped::Complete;
        }
        // Where there is no room for them, what is left is lost, and there is no place to report it.
        let _ = self.session.spill(&self.spill);
        Stopped::LeftForRecovery
    }
}

impl Engine for AgentSession {
    fn session(&self) -> &Arc<SessionWriter> {
        &self.session
    }

    fn stats(&self) -> Stats {
        let disabled = local::disabled_calls().saturating_sub(self.disabled_before);
        self.session.header().store_disabled(disabled);
        Stats::of_joined(&self.session)
    }

    /// `false` when it could not be done, or nothing moves for five seconds.
    fn flush(&self, durable: bool) -> bool {
        self.wait_for_flush(match durable {
            true => FlushTarget::Durable,
            false => FlushTarget::Written,
        })
    }

    /// Lets the agent write what it keeps of this process, so far back or all, and waits as for a flush.
    fn dump(&self, span: Option<Duration>) -> bool {
        let span_ns = span.map_or(0, |span| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        self.wait_for_flush(FlushTarget::Kept(span_ns))
    }

    fn is_own(&self) -> bool {
        false
    }

    /// Says goodbye and waits until all is drained, as long as anything moves, and five seconds more, or until the given
    /// moment. The agent's log has its own lines about the end of a process.
    fn stop(&self, until: Option<Instant>, _end: Option<(Level, &str)>) -> Stopped {
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Stopped::Complete;
        };
        self.connection.send_goodbye();
        let complete = self.wait_for(until, |time| self.connection.wait_for_done(time));
        let has_agent = self.connection.is_connected();
        self.connection.end();
        // It ends by itself; that it has panicked, which it does not, would change nothing here.
        let _ = thread.join();
        if complete == Some(true) {
            return Stopped::Complete;
        }
        // An agent that has the session, and only hangs, drains it when this process has ended.
        if !has_agent && !self.connection.is_connected() {
            return self.leave_in_files();
        }
        Stopped::LeftForRecovery
    }
}

/// Watch over a session: whether anything of it moves.
struct Progress<'a> {
    session: &'a SessionWriter,
    consumed: u64,
    since: Instant,
}

impl<'a> Progress<'a> {
    fn new(session: &'a SessionWriter) -> Self {
        Self {
            session,
            consumed: 0,
            since: Instant::now(),
        }
    }

    /// `false` when nothing has moved for five seconds.
    fn is_moving(&mut self) -> bool {
        let rings = self.session.rings_from(0);
        let consumed = rings
            .iter()
            .fold(0u64, |sum, ring| sum.wrapping_add(ring.counts().consumed));
        if consumed != self.consumed {
            self.consumed = consumed;
            self.since = Instant::now();
        }
        self.since.elapsed() < Duration::from_millis(NO_PROGRESS_MS)
    }
}

fn hello(channel: &Channel, socket: &Path, config: &Config) -> Result<(Welcome, Vec<File>), JoinError> {
    let message = Message::Hello(Hello {
        app: app_name(&config.backend.app),
        ring_bytes: config.backend.ring_bytes as u64,
        ring_count: RINGS_AT_START,
        policy: policy_code(config.full),
        coarse: config.backend.coarse_clock,
    });
    let keep = config.backend.keep.as_ref().map(keep_request);
    let welcome = config.agent_timeout - config.agent_timeout / CONNECT_PART;
    let said = send_keep_request(channel, keep.as_ref()).and_then(|()| send(channel, &message, &[]));
    said.map_err(|cause| format!("cannot send to the agent: {cause}"))?;
    let (answer, descriptors) = receive(channel, socket, welcome)?;
    match answer {
        Message::Welcome(welcome) => Ok((welcome, into_files(descriptors))),
        _ => Err(no_answer(socket, "has answered something else than was asked")),
    }
}

/// The next message of an agent, within a time.
fn receive(
    channel: &Channel,
    socket: &Path,
    timeout: Duration,
) -> Result<(Message, Vec<OwnedFd>), JoinError> {
    let until = Instant::now() + timeout;
    let mut buffer = vec![0; logdrive_wire::limits::AGENT_MESSAGE_BYTES_MAX];
    loop {
        let mut descriptors = Vec::new();
        match channel.receive(&mut buffer, &mut descriptors, true) {
            Ok(Received::Packet(length)) => {
                let message = Message::decode(buffer.get(..length).unwrap_or_default())
                    .map_err(|error| format!("the agent's message cannot be read: {error}"))?;
                if let Message::Refused(refused) = message {
                    let what = format!("refused: {}; {}", refused.reason, refused.advice);
                    return Err(no_answer(socket, &what));
                }
                if message.descriptors() as usize != descriptors.len() {
                    return Err(no_answer(socket, "has sent other descriptors than it says"));
                }
                return Ok((message, descriptors));
            }
            Ok(Received::Closed) => return Err(no_answer(socket, "has closed the connection")),
            Ok(Received::Cut) => {
                return Err(no_answer(
                    socket,
                    "has sent descriptors, and this process has too many files open",
                ));
            }
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(no_answer(socket, "does not answer"));
                }
                channel
                    .wait(left)
                    .map_err(|cause| format!("cannot wait for the agent: {cause}"))?;
            }
            Err(cause) => return Err(format!("cannot receive from the agent: {cause}").into()),
        }
    }
}

fn no_answer(socket: &Path, what: &str) -> JoinError {
    format!("the agent at {} {what}", socket.display()).into()
}

fn policy_code(policy: FullPolicy) -> u32 {
    match policy {
        FullPolicy::Drop => 0,
        FullPolicy::Wait => 1,
        FullPolicy::Block => 2,
    }
}

/// An application's name as messages take it.
fn app_name(app: &str) -> String {
    let mut name = app.replace(char::is_control, "_");
    name.truncate(name.floor_char_boundary(logdrive_wire::limits::AGENT_APP_BYTES_MAX));
    if name.is_empty() {
        name.push_str("app");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_becomes_one_that_messages_take() {
        for name in ["shop", "", "a\nb", &"é".repeat(200), &"x".repeat(64)] {
            assert!(logdrive_wire::agent::is_app_name(&app_name(name)), "{name}");
        }
        assert_eq!(app_name("a\tb"), "a_b");
    }
}
