//! Commands: what other threads ask of the drain between two passes.

use super::pipeline::Pipeline;
use super::route::Router;
use super::{dump, sessions};
use crate::client::ClientProcess;
use crate::flight_recorder::{RecorderOptions, RecorderPolicy};
use crate::process_exit::END_LEVEL;
use crate::quota::QuotaPolicy;
use crate::sink::buffer::{SinkBuffer, SinkSettings};
use logdrive_ring::{HostedSession, SessionWriter};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// Request of another thread to the drain.
pub(crate) enum Command {
    /// Drain this session, too.
    Join(Arc<HostedSession>),
    /// The process of this session writes nothing more: drain the rest, log the text, and forget the session.
    Leave(u64, Option<String>),
    /// A process has ended, as the text says, some time after its session.
    ReportEnd(ClientProcess, String),
    /// Use another router.
    SetRouter(Router),
    /// Write what the flight recorder of a session holds, or that of the process itself where none is named, so far
    /// back, for that reason.
    Dump(Option<u64>, Option<Duration>, String),
    /// The same of one session, with an answer.
    DumpFor {
        /// Session whose records are written.
        session: u64,
        /// Age of the oldest record that is written; `None` for all.
        span: Option<Duration>,
        /// Reason that the log gives.
        reason: String,
        /// Receiver of the number of records when they are laid out.
        answer: Sender<u64>,
    },
    /// The process of this session has crashed, as the text says: write its flight recorder where it asked for that.
    DumpCrashed(u64, String),
    /// The process of this session, which joins next, asks for a flight recorder.
    RequestRecorder(u64, RecorderOptions),
    /// Use another policy for flight recorders.
    SetRecorderPolicy(Box<dyn RecorderPolicy>),
    /// Use another policy for quotas.
    SetQuotaPolicy(Box<dyn QuotaPolicy>),
    /// Change the settings of a sink.
    UpdateSink(usize, Box<SinkSettings>),
    /// Add a sink, in a place of its own or in that of one that is closed.
    AddSink(Box<SinkBuffer>),
    /// Write what this sink has, and close it: no route leads to it any more.
    CloseSink(usize),
}

/// Sender of commands, which wakes the drain for each.
#[derive(Debug, Clone)]
pub(crate) struct CommandSender {
    sender: Sender<Command>,
    session: Arc<SessionWriter>,
}

impl CommandSender {
    pub(crate) fn new(sender: Sender<Command>, session: &Arc<SessionWriter>) -> Self {
        Self {
            sender,
            session: Arc::clone(session),
        }
    }

    pub(crate) fn send(&self, command: Command) {
        // A drain that has ended drains nothing more.
        let _ = self.sender.send(command);
        self.session.waker().wake();
    }
}

/// Does what other threads have asked for.
pub(super) fn handle_commands(pipe: &mut Pipeline, commands: &Receiver<Command>) {
    while let Ok(command) = commands.try_recv() {
        match command {
            Command::Join(session) => sessions::join(pipe, &session),
            Command::Leave(id, text) => sessions::finish(&mut pipe.collect, id, text),
            Command::ReportEnd(client, text) => {
                let sinks = pipe.route.notice_sinks(Some(&client));
                pipe.report_to(sinks, END_LEVEL, &text);
            }
            Command::SetRouter(router) => {
                pipe.route.router = Some(router);
                pipe.collect.forget_callsites();
            }
            Command::Dump(session, span, reason) => {
                dump::request(&mut pipe.collect, session, span, &reason);
            }
            Command::DumpFor {
                session,
                span,
                reason,
                answer,
            } => dump::request_answered(&mut pipe.collect, session, span, reason, answer),
            Command::DumpCrashed(session, reason) => {
                dump::request_crashed(&mut pipe.collect, session, &reason);
            }
            Command::RequestRecorder(session, options) => dump::request_recorder(pipe, session, options),
            Command::SetRecorderPolicy(policy) => dump::set_policy(pipe, policy),
            Command::SetQuotaPolicy(policy) => sessions::set_quota_policy(pipe, policy),
            Command::UpdateSink(number, settings) => {
                pipe.emit.update_sink(number, *settings);
                pipe.collect.forget_callsites();
            }
            Command::AddSink(sink) => {
                pipe.emit.add_sink(*sink);
                pipe.collect.forget_callsites();
            }
            Command::CloseSink(number) => {
                pipe.emit.close_sink(&mut pipe.collect, number);
                pipe.collect.forget_callsites();
            }
        }
    }
}
