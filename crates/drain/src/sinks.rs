//! The sinks of a running backend: those of its start, and those that are added and closed later.

use crate::client::ClientProcess;
use crate::drain::command::{Command, CommandSender};
use crate::error::BackendError;
#[cfg(all(feature = "ship", target_os = "linux"))]
use crate::ship::ShipOptions;
use crate::sink::buffer::{SinkBuffer, SinkSettings};
use crate::sink::options::{SinkOptions, Target, with_sink};
use crate::sink::start::SinkStarter;
use crate::sink::writer::{IoRequest, Output};
use crate::status::FlushStatus;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Sender of requests to the I/O thread of each sink; none where a sink is closed and its place is free.
type Writers = Vec<Option<Sender<IoRequest>>>;

/// The sinks of a backend, by their numbers. [`Backend::sinks`](crate::Backend::sinks) returns them.
#[derive(Debug)]
pub struct Sinks {
    /// In a box, for it is most of a backend's size.
    starter: Box<SinkStarter>,
    writers: Mutex<Writers>,
    commands: CommandSender,
}

impl Sinks {
    pub(crate) fn new(starter: SinkStarter, writers: Writers, commands: CommandSender) -> Self {
        Self {
            starter: Box::new(starter),
            writers: Mutex::new(writers),
            commands,
        }
    }

    fn writers(&self) -> MutexGuard<'_, Writers> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how a client process ended whose session is over: in the sinks that its warnings go to.
    pub fn report_end(&self, client: ClientProcess, text: String) {
        self.commands.send(Command::ReportEnd(client, text));
    }

    /// Sends a request to the I/O thread of every sink.
    pub(crate) fn send_all(&self, request: impl Fn() -> IoRequest) {
        for writer in self.writers().iter().flatten() {
            // A sink whose thread has ended has nothing to open or to make durable.
            let _ = writer.send(request());
        }
    }

    /// Opens another sink, in one of the places that
    /// [`BackendOptions::sink_places`](crate::BackendOptions::sink_places) gives; returns its number. Records go there
    /// as the router says, from now on.
    ///
    /// # Errors
    /// When all places are taken, the target cannot be opened, or a thread cannot be started.
    pub fn add(&self, options: &SinkOptions) -> Result<usize, BackendError> {
        if self.free_places() == 0 {
            return Err(self.no_place());
        }
        self.start(options, self.starter.open(&options.target)?)
    }

    /// As [`Sinks::add`], for a file that cannot be opened so far: that is tried again with its lines, each time after
    /// `check` has said that it may be. What does not fit into its buffers until then is dropped, counted and reported.
    ///
    /// # Errors
    /// When all places are taken, or a thread cannot be started; and as [`Sinks::add`] where the target is no file,
    /// because only files are opened late.
    pub fn add_deferred(
        &self,
        options: &SinkOptions,
        check: impl FnMut() -> Result<(), String> + Send + 'static,
    ) -> Result<usize, BackendError> {
        let Target::File(file) = &options.target else {
            return self.add(options);
        };
        self.start(options, self.starter.defer(file, Some(Box::new(check))))
    }

    fn start(&self, options: &SinkOptions, output: Output) -> Result<usize, BackendError> {
        self.reclaim_closed();
        let mut writers = self.writers();
        let buffers = &self.starter.buffers;
        let free = writers.iter().position(Option::is_none);
        let index = free.unwrap_or(writers.len());
        if index >= buffers.sink_count() {
            return Err(self.no_place());
        }
        let spare = buffers.take_all(index)?;
        // Before the first line: a recovery of the session has to know where its buffers go.
        self.describe(index, Some(options))?;
        // What the place says of a file before is not about this one.
        buffers.note_error(index, 0);
        self.starter.status.open_sink(index);
        let started = self.starter.start(index, options, output, spare);
        let writer = started.as_ref().ok().map(SinkBuffer::sender);
        match writers.get_mut(index) {
            Some(place) => *place = writer,
            None => writers.push(writer),
        }
        let sink_buffer = started.inspect_err(|_| self.starter.status.close(index))?;
        self.commands.send(Command::AddSink(Box::new(sink_buffer)));
        Ok(index)
    }

    fn no_place(&self) -> BackendError {
        BackendError::SinkPlaces { limit: self.places() }
    }

    /// Closes a sink that no route leads to any more, when what it was given is written. Its place is free for another
    /// one [then](Sinks::wait_closed).
    pub fn close(&self, number: usize) {
        self.commands.send(Command::CloseSink(number));
    }

    /// Waits until a sink that is being closed has written what it has, so long at most.
    pub fn wait_closed(&self, number: usize, timeout: Duration) -> bool {
        self.starter.status.wait_closed_sink(number, timeout)
    }

    /// Gives back what closed sinks had, and makes their places free.
    pub fn reclaim_closed(&self) {
        let mut writers = self.writers();
        for (number, writer) in writers.iter_mut().enumerate() {
            if writer.is_some() && self.starter.status.is_closed(number) {
                *writer = None;
                // Its buffers are free: the drain released them before it let the sink close. Where memory cannot be
                // given back, or the text has no room, the next sink in this place has it.
                let _ = self.starter.buffers.release(number);
                let _ = self.describe(number, None);
            }
        }
    }

    /// Says in the session what a sink is, for its recovery.
    fn describe(&self, number: usize, sink: Option<&SinkOptions>) -> Result<(), BackendError> {
        let buffers = &self.starter.buffers;
        let config = buffers.config();
        let text = with_sink(&String::from_utf8_lossy(&config), number, sink);
        Ok(buffers.replace_config(text.as_bytes())?)
    }

    /// Maximum number of sinks.
    pub fn places(&self) -> usize {
        self.starter.buffers.sink_count()
    }

    /// Places that are free now.
    pub fn free_places(&self) -> usize {
        self.reclaim_closed();
        let writers = self.writers();
        let open = writers.iter().flatten().count();
        self.places().saturating_sub(open)
    }

    /// Changes what can change of an open sink: its layout, its levels, what happens when it is slow, how long lines
    /// wait, and which collectors they are sent to.
    ///
    /// # Errors
    /// When the layout cannot be used, or there is no more room in the session to note the collectors for a recovery.
    pub fn update(&self, number: usize, options: &SinkOptions) -> Result<(), BackendError> {
        let settings = SinkSettings::new(options, options.layout.clone(), &self.starter.process)?;
        #[cfg(all(feature = "ship", target_os = "linux"))]
        if let Target::Ship(ship) = &options.target {
            self.redirect(number, options, ship)?;
        }
        self.commands
            .send(Command::UpdateSink(number, Box::new(settings)));
        Ok(())
    }

    /// Has a sink that sends do so to other collectors.
    #[cfg(all(feature = "ship", target_os = "linux"))]
    fn redirect(&self, number: usize, sink: &SinkOptions, ship: &ShipOptions) -> Result<(), BackendError> {
        let watched = self.starter.status.watched().into_iter();
        let Some((_, watch)) = watched.rev().find(|(sink, _)| *sink == number) else {
            return Ok(());
        };
        if watch.members() == ship.to {
            return Ok(());
        }
        // One thread at a time writes there.
        let _writers = self.writers();
        // Before the first line goes there: a recovery of the session sends to the same.
        self.describe(number, Some(sink))?;
        watch.set_members(ship.to.clone());
        Ok(())
    }

    /// Makes what these sinks have written durable (C2), by their bits; a flush ticket that is requested afterwards is
    /// passed when that is done. What is to be durable has to be written before.
    pub fn request_sync(&self, sinks: u32) {
        for (number, writer) in self.writers().iter().enumerate() {
            let Some(writer) = writer else { continue };
            if sinks >> number.min(31) & 1 == 1 {
                // A sink whose thread has ended has nothing to make durable.
                let _ = writer.send(IoRequest::Sync);
            }
        }
    }

    /// Returns the progress of these sinks, as bits, towards a flush ticket.
    pub fn flush_status(&self, ticket: u64, sinks: u32) -> FlushStatus {
        self.starter.status.flush_status(ticket, sinks)
    }

    /// Returns how often each sink could not write, or not make durable, what it was given, for good. What a sink
    /// drops because it is too slow is counted elsewhere.
    pub fn lost(&self) -> Vec<u64> {
        self.starter.status.lost()
    }
}
