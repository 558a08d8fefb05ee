//! Requests of tools to the agent, and the answers.

use super::{Agent, describe};
use crate::config::Process;
use crate::flush_waiters::{PendingDump, Waiter};
use crate::server::{Request, Requester};
use logdrive_drain::{SinkOptions, sinks_to_text};
use logdrive_ring::{HostedSession, Peer};
use logdrive_wire::agent::{Refused, RefusedCode};
use std::sync::Arc;
use std::time::Instant;

impl Agent {
    /// Answers a tool, now or when it is done.
    pub(super) fn answer_request(&mut self, requester: Requester, peer: Peer, request: &Request) {
        let now = Instant::now();
        match request {
            Request::Stats => {
                let text = describe(&self.backend.stats(), &self.server, &self.sink_use);
                self.server.answer(requester, &text, now);
            }
            Request::Reload => self.reloads.push_back(requester),
            Request::Dump { app, span_ns } => {
                let sessions = self.server.sessions_of(peer, app);
                if sessions.is_empty() {
                    let why = unknown(format!("no process of {app} has a session here"));
                    return self.server.refuse(requester, why, now);
                }
                self.dump(requester, &sessions, *span_ns);
            }
            Request::DumpSession { session, span_ns } => match self.server.session(*session) {
                Some(found) => self.dump(requester, &[Arc::clone(found)], *span_ns),
                None => self.server.refuse(requester, gone(*session), now),
            },
            Request::Files { session, written } => self.report_files(requester, *session, *written),
        }
    }

    fn dump(&mut self, requester: Requester, sessions: &[Arc<HostedSession>], span_ns: u64) {
        let mut sinks = 0;
        let mut of = Vec::new();
        for session in sessions {
            sinks |= self.sinks_of(session);
            of.push(PendingDump::start(&self.backend, session, span_ns));
        }
        self.flush_waiters
            .add(Waiter::Dump { requester, of }, sinks, None, false, Instant::now());
    }

    fn report_files(&mut self, requester: Requester, session: u64, written: bool) {
        let now = Instant::now();
        let Some(found) = self.server.session(session).map(Arc::clone) else {
            return self.server.refuse(requester, gone(session), now);
        };
        let text = sinks_to_text(&self.sink_options_of(&found));
        if !written {
            return self.server.answer(requester, &text, now);
        }
        let sinks = self.sinks_of(&found);
        self.flush_waiters
            .add(Waiter::Files { requester, text }, sinks, None, false, now);
    }

    /// The sinks that records of a process may go to, as bits.
    pub(super) fn sinks_of(&self, session: &HostedSession) -> u32 {
        self.routing.lock().flush_sinks(&process_of(session))
    }

    /// The same; none for a session that is gone.
    pub(super) fn sinks_of_number(&self, session: u64) -> u32 {
        let session = self.server.session(session);
        session.map_or(0, |session| self.sinks_of(session))
    }

    fn sink_options_of(&self, session: &HostedSession) -> Vec<SinkOptions> {
        let process = process_of(session);
        let sinks = self.routing.lock();
        let places = sinks.sink_indices(&process).into_iter();
        places
            .filter_map(|place| Some(sinks.options_for(sinks.config.sinks.get(place)?, &process)))
            .collect()
    }

    /// A tool that wants the configuration to be read again. The owner does it, and [answers](Agent::answer_reload).
    pub fn take_reload(&mut self) -> Option<Requester> {
        self.reloads.pop_front()
    }

    /// Tells a tool what came of its wish: what the agent says to it, or why the configuration stays as it was.
    pub fn answer_reload(&mut self, requester: Requester, notices: Result<&str, &str>) {
        let now = Instant::now();
        match notices {
            Ok(text) => self.server.answer(requester, text, now),
            Err(reason) => {
                let why = Refused {
                    code: RefusedCode::Message,
                    reason: reason.to_owned(),
                    advice: "mend it, then say `logdrive agent --reload` again".to_owned(),
                };
                self.server.refuse(requester, why, now);
            }
        }
    }
}

pub(super) fn process_of(session: &HostedSession) -> Process<'_> {
    Process {
        app: session.app(),
        pid: session.peer().pid,
        uid: session.peer().uid,
    }
}

fn gone(session: u64) -> Refused {
    unknown(format!("there is no session {session} any more"))
}

fn unknown(reason: String) -> Refused {
    Refused {
        code: RefusedCode::UnknownSession,
        reason,
        advice: "`logdrive ps` lists the sessions there are".to_owned(),
    }
}
