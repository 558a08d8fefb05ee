//! A backend that drains the sessions of other processes, too: an agent's.

use crate::backend::{Backend, BackendOptions, make_session};
use crate::client::ClientProcess;
use crate::drain::command::Command;
use crate::error::BackendError;
use crate::flight_recorder::{RecorderOptions, RecorderPolicy};
use crate::quota::QuotaPolicy;
use crate::recover;
use crate::status::BackendStatus;
use logdrive_ring::HostedSession;
use logdrive_ring::clock::unix_ns;
use logdrive_wire::Callsite;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

impl Backend {
    /// Starts a backend that drains sessions of other processes as well: [`Backend::join`] adds one. `router` says which
    /// sinks get the records of a callsite of a process: bit 0 for the first sink, and so on.
    ///
    /// Where an earlier backend of the same name was killed, what it had taken and not written is written first, and
    /// sessions that it drained go on where it stopped.
    ///
    /// # Errors
    /// As [`Backend::start`].
    pub fn start_multi_session(
        options: &BackendOptions,
        router: impl Fn(&ClientProcess, &Callsite) -> u32 + Send + 'static,
    ) -> Result<Self, BackendError> {
        let status = Arc::new(BackendStatus::new(options.sinks.len()));
        let ancestors = recover::journals_of(&options.run_dirs(), &options.app);
        let session = make_session(options, &status)?;
        let latest = ancestors.first().map_or(0, |journal| journal.id);
        // Before the recovery, which publishes epochs of its own in the earlier buffers.
        session
            .buffers()
            .start_journal(unix_ns().max(latest.saturating_add(1)), &ancestors);
        let recovery = recover::start_recovery(options, &status);
        Self::start_in(options, session, status, recovery, Some(Box::new(router)))
    }

    /// Drains a session of another process from now on.
    pub fn join(&self, session: Arc<HostedSession>) {
        self.commands.send(Command::Join(session));
    }

    /// The process of a session writes nothing more: drains the rest, says the text in the log, and forgets the session.
    /// A [flush ticket](Backend::request_flush) that is requested afterwards is passed when all that is done.
    pub fn leave(&self, session: u64, text: Option<String>) {
        self.commands.send(Command::Leave(session, text));
    }

    /// Routes records anew, from now on.
    pub fn set_router(&self, router: impl Fn(&ClientProcess, &Callsite) -> u32 + Send + 'static) {
        self.commands.send(Command::SetRouter(Box::new(router)));
    }

    /// Keeps records that no sink takes in memory, from now on; what is kept already stays where the size stays the
    /// same.
    pub fn set_recorder_policy(&self, policy: impl RecorderPolicy + 'static) {
        self.commands.send(Command::SetRecorderPolicy(Box::new(policy)));
    }

    /// Gives processes quotas, from now on; what they have had of theirs today stays had.
    pub fn set_quota_policy(&self, policy: impl QuotaPolicy + 'static) {
        self.commands.send(Command::SetQuotaPolicy(Box::new(policy)));
    }

    /// Writes what is kept of the process of a session, as the recorder says how far back: it has crashed, and leaves
    /// next.
    pub fn dump_session(&self, session: u64, span: Option<Duration>, reason: String) {
        self.commands.send(Command::Dump(Some(session), span, reason));
    }

    /// Writes what is [kept](Backend::request_recorder) of the process of a session, where it asked for that: it has
    /// crashed, as the text says.
    pub fn dump_crashed(&self, session: u64, reason: String) {
        self.commands.send(Command::DumpCrashed(session, reason));
    }

    /// Writes what is kept of the process of a session, so far back or all. Returns where the number of records comes
    /// once they are laid out: a flush ticket that is requested then is passed when they are with the kernel. Where
    /// nothing is kept of that process, the sender is dropped.
    pub fn start_dump(&self, session: u64, span: Option<Duration>, reason: String) -> Receiver<u64> {
        let (answer, answered) = channel();
        self.commands.send(Command::DumpFor {
            session,
            span,
            reason,
            answer,
        });
        answered
    }

    /// Keeps records of the process of a session, which is here or [joins](Backend::join) next, in memory, with these
    /// options, where the [recorder](Backend::set_recorder_policy) has none for it. They are written where the router
    /// sends its fatal records.
    pub fn request_recorder(&self, session: u64, options: RecorderOptions) {
        self.commands.send(Command::RequestRecorder(session, options));
    }

    /// Names the epochs in rings that are drained here.
    pub fn journal(&self) -> u64 {
        self.session().buffers().journal()
    }
}
