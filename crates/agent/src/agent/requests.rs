//! Requests of tools to the agent, and the answers.

use super::{Agent, describe};
use crate::server::{Request, Requester};
use logdrive_drain::sinks_to_text;
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
                let text = describe(&self.backend.stats(), &self.server, &self.sinks);
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
        let sinks = sessions.iter().map(|session| self.sinks.sinks_of(session));
        let sinks = sinks.fold(0, |all, bits| all | bits);
        self.flush_waiters.dump(requester, sessions, span_ns, sinks);
    }

    fn report_files(&mut self, requester: Requester, session: u64, written: bool) {
        let Some(found) = self.server.session(session) else {
            return self.server.refuse(requester, gone(session), Instant::now());
        };
        let text = sinks_to_text(&self.sinks.options_of(found));
        let sinks = self.sinks.sinks_of(found);
        self.flush_waiters
            .name_sinks((requester, text), written, sinks, &mut self.server);
    }

    /// A tool that wants the configuration to be read again. The owner does it, and [answers](Agent::answer_reload).
    pub fn take_reload(&mut self) -> Option<Requester> {
        self.reloads.pop_front()
    }

    /// Answers a tool's reload: the agent's report, or the reason why the configuration stays as it was.
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
