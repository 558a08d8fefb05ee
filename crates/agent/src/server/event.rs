//! Events of a server for its owner, who drains the sessions.

use logdrive_drain::{ClientProcess, RecorderOptions, describe_cause, describe_exit_alone, noted_exit};
use logdrive_ring::{Exit, HostedSession, Peer};
use std::sync::Arc;

/// Something that the owner of a [`super::Server`] has to act on.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A process has a session: drain it from now on.
    Joined(Arc<HostedSession>),
    /// A process has shown the session that it has from an earlier agent: go on with it. The epochs in its rings
    /// belong to this journal; where it is another one than ours, they say nothing.
    Adopted {
        /// The session.
        session: Arc<HostedSession>,
        /// The journal of the agent that drained it last.
        journal: u64,
    },
    /// A process needs the drain now.
    Bell,
    /// The process waits for [`super::Server::flushed`].
    Flush {
        /// The session's number.
        session: u64,
        /// Comes back.
        ticket: u64,
        /// True if the files have to be on disk.
        durable: bool,
    },
    /// The process of a session that comes next, or is here, wants its records kept, within its limits.
    Keep {
        /// The session's number.
        session: u64,
        /// Options of the recorder.
        keep: RecorderOptions,
    },
    /// The process wants what is kept of it written, and waits for [`super::Server::flushed`].
    WriteKept {
        /// The session's number.
        session: u64,
        /// Comes back.
        ticket: u64,
        /// Nanoseconds to go back; 0 for everything that is kept.
        span_ns: u64,
    },
    /// The process writes nothing more, and waits for [`super::Server::done`].
    Bye {
        /// The session's number.
        session: u64,
    },
    /// The process is gone: drain the rest, log how it ended, and forget the session, as the server has done.
    Left {
        /// The session.
        session: Arc<HostedSession>,
        /// End of the process.
        end: End,
    },
    /// A process whose session ended in order, and is forgotten, has now ended otherwise than with success.
    Ended {
        /// The process.
        client: ClientProcess,
        /// Its end in words: for a record in its log.
        text: String,
    },
    /// A tool waits for [`super::Server::answer`] or [`super::Server::refuse`].
    Request {
        /// Tool that waits for the answer.
        requester: Requester,
        /// The tool, as the kernel knows it.
        peer: Peer,
        /// Request to answer.
        request: Request,
    },
    /// Something to say in the agent's log.
    Notice(String),
}

/// A tool that waits for an answer. One that has gone meanwhile gets none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester(pub(super) u64);

/// Request of a tool that the owner answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The agent's statistics, as text. Only root and the agent's user come this far.
    Stats,
    /// To read the configuration again. Only root and the agent's user come this far.
    Reload,
    /// To write down what a flight recorder keeps. The owner looks whose sessions the requester may see.
    Dump {
        /// Of which application.
        app: String,
        /// Nanoseconds to go back; 0 for everything that is kept.
        span_ns: u64,
    },
    /// The same of one session, which the requester may see.
    DumpSession {
        /// Its number.
        session: u64,
        /// Nanoseconds to go back; 0 for everything that is kept.
        span_ns: u64,
    },
    /// The sinks of a session, which the requester may see, as text.
    Files {
        /// Its number.
        session: u64,
        /// True if to wait until what was committed before is with the kernel.
        written: bool,
    },
}

/// End of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The process said goodbye, and ended before it received `done`; with its exit, where that is known.
    Goodbye(Option<Exit>),
    /// The kernel says how.
    Exited(Exit),
    /// The process has ended, and its exit status is unknown.
    Ended,
    /// The process lives, but has closed its connection and not come back, as after `exec`.
    Vanished,
}

impl End {
    /// Returns whether the process was ended, and did not end by itself: its flight recorder may hold the reason.
    pub fn is_crash(self, session: &HostedSession) -> bool {
        match self {
            Self::Exited(Exit::Signal(_)) => true,
            Self::Exited(Exit::Status(status)) => status != 0 && session.header().totals().panics > 0,
            Self::Ended => true,
            Self::Goodbye(_) | Self::Vanished => false,
        }
    }

    /// In words, with what the process has noted itself: for the record that ends a session. The noted words are the
    /// process's own and believed only where the kernel does not say more.
    pub fn describe(self, session: &HostedSession) -> String {
        let header = session.header();
        let how = match (self, header.totals().signal) {
            (Self::Exited(exit), _) => describe_cause(header, Some(exit)),
            (Self::Ended, Some(_)) => describe_cause(header, None),
            (Self::Ended, None) => "was killed or exited without goodbye".to_owned(),
            (Self::Goodbye(None | Some(Exit::Status(0))), _) => "ended in order".to_owned(),
            (Self::Goodbye(Some(exit)), _) => match noted_exit(header) {
                Some((noted, text)) if noted == exit => text,
                _ => describe_exit_alone(exit),
            },
            (Self::Vanished, _) => "closed its connection and did not come back".to_owned(),
        };
        format!("process {} of {} {how}", session.peer().pid, session.app())
    }
}
