//! A backend that drains the sessions of other processes, too: an agent's.

use crate::backend::{Backend, BackendOptions, make_session};
use crate::client::ClientProcess;
use crate::drain::command::Command;
use crate::error::BackendError;
use crate::flight_recorder::{RecorderOptions, RecorderPolicy};
use crate::options::{SinkOptions, Target, with_sink};
use crate::quota::QuotaPolicy;
use crate::recover;
#[cfg(all(feature = "ship", target_os = "linux"))]
use crate::ship::ShipOptions;
use crate::sink::buffer::{SinkBuffer, SinkSettings};
use crate::sink::start::{open, start_sink};
use crate::sink::writer::{DeferredFile, IoRequest, Output};
use crate::stats::StatsSource;
use crate::status::{BackendStatus, DumpAnswer, FlushStatus};
use logdrive_ring::HostedSession;
use logdrive_ring::clock::unix_ns;
use logdrive_wire::Callsite;
use std::sync::{Arc, PoisonError};
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
        recover::recover_app(&options.run_dirs(), &options.app, &status);
        Self::start_in(options, session, &status, Some(Box::new(router)))
    }

    /// Drains a session of another process from now on.
    pub fn join(&self, session: Arc<HostedSession>) {
        self.send_command(Command::Join(session));
    }

    /// The process of a session writes nothing more: drains the rest, says the text in the log, and forgets the session.
    /// A mark that is [requested](Backend::request_flush) afterwards is reached when all that is done.
    pub fn leave(&self, session: u64, text: Option<String>) {
        self.send_command(Command::Leave(session, text));
    }

    /// Routes records anew, from now on.
    pub fn set_router(&self, router: impl Fn(&ClientProcess, &Callsite) -> u32 + Send + 'static) {
        self.send_command(Command::SetRouter(Box::new(router)));
    }

    /// Keeps records that no sink takes in memory, from now on; what is kept already stays where the size stays the same.
    pub fn set_recorder_policy(&self, policy: impl RecorderPolicy + 'static) {
        self.send_command(Command::SetRecorderPolicy(Box::new(policy)));
    }

    /// Gives processes quotas, from now on; what they have had of theirs today stays had.
    pub fn set_quota_policy(&self, policy: impl QuotaPolicy + 'static) {
        self.send_command(Command::SetQuotaPolicy(Box::new(policy)));
    }

    /// Changes what can change of an open sink: its layout, its levels, what happens when it is slow, how long lines wait, and
    /// which collectors they are sent to.
    ///
    /// # Errors
    /// When the layout cannot be used, or there is no more room in the session to note the collectors for a recovery.
    pub fn update_sink(&self, number: usize, options: &SinkOptions) -> Result<(), BackendError> {
        let settings = SinkSettings::new(options, options.layout.clone(), &self.process)?;
        #[cfg(all(feature = "ship", target_os = "linux"))]
        if let Target::Ship(ship) = &options.target {
            self.redirect(number, options, ship)?;
        }
        self.send_command(Command::UpdateSink(number, Box::new(settings)));
        Ok(())
    }

    /// Has a sink that sends do so to other collectors.
    #[cfg(all(feature = "ship", target_os = "linux"))]
    fn redirect(&self, number: usize, sink: &SinkOptions, ship: &ShipOptions) -> Result<(), BackendError> {
        let watched = self.status.watched().into_iter();
        let Some((_, watch)) = watched.rev().find(|(sink, _)| *sink == number) else {
            return Ok(());
        };
        if watch.members() == ship.to {
            return Ok(());
        }
        // One thread at a time writes there.
        let _writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the first line goes there: whoever recovers the session sends to the same.
        self.describe_sink(number, Some(sink))?;
        watch.set_members(ship.to.clone());
        Ok(())
    }

    /// Returns a source of statistics for another thread.
    pub fn stats_source(&self) -> StatsSource {
        StatsSource {
            session: Arc::clone(&self.session),
            counts: Arc::clone(&self.counts),
        }
    }

    /// Writes what is kept of the process of a session, as the recorder says how far back: it has crashed, and leaves next.
    pub fn dump_session(&self, session: u64, span: Option<Duration>, reason: String) {
        self.send_command(Command::Dump(Some(session), span, reason));
    }

    /// The process of a session has crashed, as the text says: writes what is [kept](Backend::request_recorder) as it wished, where it
    /// wanted that.
    pub fn dump_crashed(&self, session: u64, reason: String) {
        self.send_command(Command::DumpCrashed(session, reason));
    }

    /// Writes what is kept of the process of a session, so far back or all. What came of it will be under the number that is
    /// returned, see [`Backend::take_dump`].
    pub fn start_dump(&self, session: u64, span: Option<Duration>, reason: String) -> u64 {
        let dump = self.status.next_dump();
        self.send_command(Command::DumpFor {
            dump,
            session,
            span,
            reason,
        });
        dump
    }

    /// Takes the result of a dump, once; `None` while it goes on.
    pub fn take_dump(&self, dump: u64) -> Option<DumpAnswer> {
        self.status.take_dump(dump)
    }

    /// Keeps records of the process of a session, which is here or [joins](Backend::join) next, in memory as it wishes, where
    /// the [recorder](Backend::set_recorder_policy) has none for it. They are written where the router sends its fatal records.
    pub fn request_recorder(&self, session: u64, options: RecorderOptions) {
        self.send_command(Command::RequestRecorder(session, options));
    }

    /// Opens another sink, in one of the places that [`BackendOptions::sink_places`] gives; returns its number. Records go
    /// there as the router says, from now on.
    ///
    /// # Errors
    /// When all places are taken, the target cannot be opened, or a thread cannot be started.
    pub fn add_sink(&self, options: &SinkOptions) -> Result<usize, BackendError> {
        if self.free_sink_places() == 0 {
            return Err(self.no_place());
        }
        let output = open(&options.target, &self.storage, &self.status)?;
        self.start_output(options, output)
    }

    /// As [`Backend::add_sink`], for a file that cannot be opened so far: that is tried again with its lines, each time after
    /// `check` has said that it may be. What does not fit into its buffers until then is dropped, counted and reported.
    ///
    /// # Errors
    /// When all places are taken, or a thread cannot be started; and as [`Backend::add_sink`] where the target is no file,
    /// because only files are opened late.
    pub fn add_deferred_sink(
        &self,
        options: &SinkOptions,
        check: impl FnMut() -> Result<(), String> + Send + 'static,
    ) -> Result<usize, BackendError> {
        let Target::File(file) = &options.target else {
            return self.add_sink(options);
        };
        let late = DeferredFile {
            options: file.clone(),
            storage: Arc::clone(&self.storage),
            check: Some(Box::new(check)),
        };
        self.start_output(options, Output::DeferredFile(Box::new(late)))
    }

    fn start_output(&self, options: &SinkOptions, output: Output) -> Result<usize, BackendError> {
        self.reclaim_closed();
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let buffers = self.session.buffers();
        let free = writers.iter().position(Option::is_none);
        let index = free.unwrap_or(writers.len());
        if index >= buffers.sink_count() {
            return Err(self.no_place());
        }
        let spare = buffers.take_all(index)?;
        // Before the first line: whoever recovers the session has to know where its buffers go.
        self.describe_sink(index, Some(options))?;
        // What the place says of a file before is not about this one.
        buffers.note_error(index, 0);
        match free {
            Some(_) => self.status.reopen_sink(index),
            None => self.status.add_sink(),
        }
        let started = start_sink(
            index,
            options,
            output,
            spare,
            buffers,
            &self.status,
            &self.process,
        );
        let writer = started.as_ref().ok().map(SinkBuffer::sender);
        match writers.get_mut(index) {
            Some(place) => *place = writer,
            None => writers.push(writer),
        }
        let sink_buffer = started.inspect_err(|_| self.status.close(index))?;
        self.send_command(Command::AddSink(Box::new(sink_buffer)));
        Ok(index)
    }

    fn no_place(&self) -> BackendError {
        BackendError::SinkPlaces {
            limit: self.sink_places(),
        }
    }

    /// Closes a sink that no route leads to any more, when what it was given is written. Its place is free for another one
    /// [then](Backend::wait_closed).
    pub fn close_sink(&self, number: usize) {
        self.send_command(Command::CloseSink(number));
    }

    /// Waits until a sink that is being closed has written what it has, so long at most.
    pub fn wait_closed(&self, number: usize, timeout: Duration) -> bool {
        self.status.wait_closed_sink(number, timeout)
    }

    /// Gives back what closed sinks had, and makes their places free.
    pub fn reclaim_closed(&self) {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, writer) in writers.iter_mut().enumerate() {
            if writer.is_some() && self.status.is_closed(number) {
                *writer = None;
                // Nobody has its buffers: the drain let go of them before it let the sink close. Where memory cannot be
                // given back, or the text has no room, the next sink in this place has it.
                let _ = self.session.buffers().release(number);
                let _ = self.describe_sink(number, None);
            }
        }
    }

    /// Says in the session what a sink is, for whoever recovers it.
    fn describe_sink(&self, number: usize, sink: Option<&SinkOptions>) -> Result<(), BackendError> {
        let buffers = self.session.buffers();
        let config = buffers.config();
        let text = with_sink(&String::from_utf8_lossy(&config), number, sink);
        Ok(buffers.replace_config(text.as_bytes())?)
    }

    /// Maximum number of sinks.
    pub fn sink_places(&self) -> usize {
        self.session.buffers().sink_count()
    }

    /// Places that are free now.
    pub fn free_sink_places(&self) -> usize {
        self.reclaim_closed();
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let open = writers.iter().flatten().count();
        self.sink_places().saturating_sub(open)
    }

    /// Names the epochs in rings that are drained here.
    pub fn journal(&self) -> u64 {
        self.session.buffers().journal()
    }

    /// Asks for a flush without waiting for it: a flush ticket for [`Backend::flush_status`].
    pub fn request_flush(&self) -> u64 {
        let mark = self.status.request();
        self.session.waker().wake();
        mark
    }

    /// Makes what these sinks have written durable (C2), by their bits; a mark that is requested afterwards is reached when
    /// that is done. What is to be durable has to be written before.
    pub fn request_sync(&self, sinks: u32) {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, writer) in writers.iter().enumerate() {
            let Some(writer) = writer else { continue };
            if sinks >> number.min(31) & 1 == 1 {
                // A sink whose thread has ended has nothing to make durable.
                let _ = writer.send(IoRequest::Sync);
            }
        }
    }

    /// Returns the progress of these sinks, as bits, towards a flush ticket.
    pub fn flush_status(&self, mark: u64, sinks: u32) -> FlushStatus {
        self.status.flush_status(mark, sinks)
    }

    /// How often each sink could not write, or not make durable, what it was given, for good. What a sink drops because it is
    /// too slow is counted elsewhere.
    pub fn lost(&self) -> Vec<u64> {
        self.status.lost()
    }

    /// Wakes the drain: a process needs it.
    pub fn wake(&self) {
        self.session.waker().wake();
    }

    pub(crate) fn send_command(&self, command: Command) {
        // A drain that has ended drains nothing more.
        let _ = self.commands.send(command);
        self.session.waker().wake();
    }
}
