//! A backend that drains the sessions of other processes, too: an agent's.

use crate::backend::{Backend, BackendOptions, make_session, open, start_sink};
use crate::drain::{Order, Whose};
use crate::error::BackendError;
use crate::feed::Member;
use crate::keep::{KeepOptions, Recorder};
use crate::layout::Layout;
use crate::marks::{DumpAnswer, Marks, Reach};
use crate::options::{SinkOptions, Target, with_sink};
use crate::outlet::{Outlet, Tuning};
use crate::ration::Rationing;
use crate::recover;
#[cfg(all(feature = "ship", target_os = "linux"))]
use crate::ship::ShipOptions;
use crate::stats::StatsSource;
use crate::writer::{Late, Message, Output};
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
    pub fn start_hub(
        options: &BackendOptions,
        router: impl Fn(&Member, &Callsite) -> u32 + Send + 'static,
    ) -> Result<Self, BackendError> {
        let marks = Arc::new(Marks::new(options.sinks.len()));
        let ancestors = recover::journals_of(&options.run_dirs(), &options.app);
        let session = make_session(options, &marks)?;
        let latest = ancestors.first().map_or(0, |journal| journal.id);
        // Before the recovery, which publishes epochs of its own in the earlier buffers.
        session
            .buffers()
            .start_journal(unix_ns().max(latest.saturating_add(1)), &ancestors);
        recover::recover_app(&options.run_dirs(), &options.app, &marks);
        Self::start_in(options, session, &marks, Some(Box::new(router)))
    }

    /// Drains a session of another process from now on.
    pub fn join(&self, session: Arc<HostedSession>) {
        self.order(Order::Join(session));
    }

    /// The process of a session writes nothing more: drains the rest, says the text in the log, and forgets the session.
    /// A mark that is [requested](Backend::request_flush) afterwards is reached when all that is done.
    pub fn leave(&self, session: u64, text: Option<String>) {
        self.order(Order::Leave(session, text));
    }

    /// Routes records anew, from now on.
    pub fn route(&self, router: impl Fn(&Member, &Callsite) -> u32 + Send + 'static) {
        self.order(Order::Route(Box::new(router)));
    }

    /// Keeps records that no sink takes in memory, from now on; what is kept already stays where the size stays the same.
    pub fn record(&self, recorder: impl Recorder + 'static) {
        self.order(Order::Record(Box::new(recorder)));
    }

    /// Gives processes rations, from now on; what they have had of theirs today stays had.
    pub fn ration(&self, rationing: impl Rationing + 'static) {
        self.order(Order::Ration(Box::new(rationing)));
    }

    /// Changes what can change of an open sink: its layout, its levels, what happens when it is slow, how long lines wait, and
    /// which collectors they are sent to.
    ///
    /// # Errors
    /// When the layout cannot be used, or there is no more room in the session to note the collectors for a recovery.
    pub fn tune_sink(&self, number: usize, options: &SinkOptions) -> Result<(), BackendError> {
        let tuning = Tuning {
            layout: Layout::new(options.layout.clone(), self.process.clone())?,
            min_level: options.min_level,
            flush_level: options.flush_level,
            flush_every: options.flush_every,
            overflow: options.overflow,
        };
        #[cfg(all(feature = "ship", target_os = "linux"))]
        if let Target::Ship(ship) = &options.target {
            self.redirect(number, options, ship)?;
        }
        self.order(Order::Tune(number, Box::new(tuning)));
        Ok(())
    }

    /// Has a sink that sends do so to other collectors.
    #[cfg(all(feature = "ship", target_os = "linux"))]
    fn redirect(&self, number: usize, sink: &SinkOptions, ship: &ShipOptions) -> Result<(), BackendError> {
        let watched = self.marks.watched().into_iter();
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

    /// Where another thread gets the statistics from.
    pub fn stats_source(&self) -> StatsSource {
        StatsSource {
            session: Arc::clone(&self.session),
            counts: Arc::clone(&self.counts),
        }
    }

    /// Writes what is kept of all processes of an application, so far back or all. A mark for [`Backend::has_reached`].
    pub fn request_dump(&self, app: &str, span: Option<Duration>) -> u64 {
        let because = "of a command".to_owned();
        self.order(Order::Dump(Whose::App(app.to_owned()), span, because));
        self.request_flush()
    }

    /// Writes what is kept of the process of a session, as the recorder says how far back: it has crashed, and leaves next.
    pub fn dump_session(&self, session: u64, span: Option<Duration>, because: String) {
        self.order(Order::Dump(Whose::Session(session), span, because));
    }

    /// The process of a session has crashed, as the text says: writes what is [kept](Backend::keep) as it wished, where it
    /// wanted that.
    pub fn dump_crashed(&self, session: u64, because: String) {
        self.order(Order::Crash(session, because));
    }

    /// Writes what is kept of the process of a session, so far back or all. What came of it will be under the number that is
    /// returned, see [`Backend::take_dump`].
    pub fn start_dump(&self, session: u64, span: Option<Duration>, because: String) -> u64 {
        let dump = self.marks.next_dump();
        self.order(Order::DumpFor {
            dump,
            session,
            span,
            because,
        });
        dump
    }

    /// What came of a dump, once; `None` while it goes on.
    pub fn take_dump(&self, dump: u64) -> Option<DumpAnswer> {
        self.marks.take_dump(dump)
    }

    /// Keeps records of the process of a session, which is here or [joins](Backend::join) next, in memory as it wishes, where
    /// the [recorder](Backend::record) has none for it. They are written where the router sends its fatal records.
    pub fn keep(&self, session: u64, wish: KeepOptions) {
        self.order(Order::Keep(session, wish));
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
        let output = open(&options.target, &self.storage, &self.marks)?;
        self.add_output(options, output)
    }

    /// As [`Backend::add_sink`], for a file that cannot be opened so far: that is tried again with its lines, each time after
    /// `before` has said that it may be. What does not fit into its buffers until then is dropped, counted and told.
    ///
    /// # Errors
    /// When all places are taken, the target is no file, or a thread cannot be started.
    pub fn add_sink_late(
        &self,
        options: &SinkOptions,
        before: impl FnMut() -> Result<(), String> + Send + 'static,
    ) -> Result<usize, BackendError> {
        let Target::File(file) = &options.target else {
            return Err(BackendError::NoFile);
        };
        let late = Late {
            options: file.clone(),
            storage: Arc::clone(&self.storage),
            before: Some(Box::new(before)),
        };
        self.add_output(options, Output::Late(Box::new(late)))
    }

    fn add_output(&self, options: &SinkOptions, output: Output) -> Result<usize, BackendError> {
        self.settle_closed();
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
            Some(_) => self.marks.reopen_sink(index),
            None => self.marks.add_sink(),
        }
        let started = start_sink(index, options, output, spare, buffers, &self.marks, &self.process);
        let writer = started.as_ref().ok().map(Outlet::sender);
        match writers.get_mut(index) {
            Some(place) => *place = writer,
            None => writers.push(writer),
        }
        let outlet = started.inspect_err(|_| self.marks.close(index))?;
        self.order(Order::Sink(Box::new(outlet)));
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
        self.order(Order::Close(number));
    }

    /// Waits until a sink that is being closed has written what it has, so long at most.
    pub fn wait_closed(&self, number: usize, patience: Duration) -> bool {
        self.marks.wait_closed_sink(number, patience)
    }

    /// Gives back what closed sinks had, and makes their places free.
    pub fn settle_closed(&self) {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, writer) in writers.iter_mut().enumerate() {
            if writer.is_some() && self.marks.is_closed(number) {
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

    /// How many sinks there can be.
    pub fn sink_places(&self) -> usize {
        self.session.buffers().sink_count()
    }

    /// Places that are free now.
    pub fn free_sink_places(&self) -> usize {
        self.settle_closed();
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let open = writers.iter().flatten().count();
        self.sink_places().saturating_sub(open)
    }

    /// Names the epochs in rings that are drained here.
    pub fn journal(&self) -> u64 {
        self.session.buffers().journal()
    }

    /// Asks for a flush without waiting for it: a mark for [`Backend::has_reached`].
    pub fn request_flush(&self) -> u64 {
        let mark = self.marks.request();
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
                let _ = writer.send(Message::Sync);
            }
        }
    }

    /// Whether everything that was committed before the mark was requested is with the kernel (C1) in all sinks.
    pub fn has_reached(&self, mark: u64) -> bool {
        self.marks.has_reached(mark, u32::MAX)
    }

    /// How far these sinks are with a mark, by their bits.
    pub fn reach_of(&self, mark: u64, sinks: u32) -> Reach {
        self.marks.reach_of(mark, sinks)
    }

    /// How often each sink could not write, or not make durable, what it was given, for good. What a sink drops because it is
    /// too slow is counted elsewhere.
    pub fn lost(&self) -> Vec<u64> {
        self.marks.lost()
    }

    /// Wakes the drain: a process needs it.
    pub fn wake(&self) {
        self.session.waker().wake();
    }

    pub(crate) fn order(&self, order: Order) {
        // A drain that has ended drains nothing more.
        let _ = self.orders.send(order);
        self.session.waker().wake();
    }
}
