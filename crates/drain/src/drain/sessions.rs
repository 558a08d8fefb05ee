//! Sessions that come to a drain and go: those of other processes, at an agent.

use super::recorder::choose_keep;
use super::{Command, Drain};
use crate::client::ClientProcess;
use crate::drain::ring_reader::RingReader;
use crate::drain::session_input::SessionInput;
use crate::flight_recorder::FlightRecorder;
use crate::internal_notices::InternalNotices;
use crate::limits::{PAUSE_NS_MAX, PAUSE_SESSIONS, PAUSE_TIMES_MAX};
use crate::process_exit::END_LEVEL;
use crate::sink::buffer::SinkBuffer;
use logdrive_ring::{Consumer, HostedSession};
use logdrive_wire::Level;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

impl Drain {
    /// Does what other threads have asked for.
    pub(super) fn handle_commands(&mut self) {
        while let Some(Ok(command)) = self.commands.as_ref().map(Receiver::try_recv) {
            match command {
                Command::Join(session) => self.join(session),
                Command::Leave(id, text) => self.finish_session(id, text),
                Command::SetRouter(router) => {
                    self.router = Some(router);
                    self.inputs
                        .iter_mut()
                        .flatten()
                        .for_each(SessionInput::forget_sites);
                }
                Command::Dump(whose, span, reason) => self.want_dump(&whose, span, &reason),
                Command::DumpFor {
                    dump,
                    session,
                    span,
                    reason,
                } => self.want_dump_for(dump, session, span, reason),
                Command::DumpCrashed(session, reason) => self.want_crash_dump(session, &reason),
                Command::RequestRecorder(session, options) => self.request_recorder(session, options),
                Command::SetRecorderPolicy(policy) => self.set_recorder_policy(policy),
                Command::SetQuotaPolicy(policy) => self.set_quota_policy(policy),
                Command::UpdateSink(number, settings) => {
                    if let Some(outlet) = self.outlets.get_mut(number) {
                        outlet.tune(*settings);
                        self.inside = InternalNotices::new(&self.outlets);
                        self.inputs
                            .iter_mut()
                            .flatten()
                            .for_each(SessionInput::forget_sites);
                    }
                }
                Command::AddSink(outlet) => {
                    match self.outlets.get_mut(outlet.number()) {
                        Some(closed) => *closed = *outlet,
                        None => self.outlets.push(*outlet),
                    }
                    self.inside = InternalNotices::new(&self.outlets);
                    self.inputs
                        .iter_mut()
                        .flatten()
                        .for_each(SessionInput::forget_sites);
                }
                Command::CloseSink(number) => self.close_outlet(number),
            }
        }
    }

    /// The sinks that are not closed, as bits.
    pub(super) fn open_sinks(&self) -> u32 {
        let outlets = self.outlets.iter().enumerate();
        let open = outlets.filter(|(_, outlet)| !outlet.is_closed());
        open.fold(0, |bits, (number, _)| bits | 1 << number)
    }

    /// Writes what a sink has, and closes it. No route leads to it any more.
    fn close_outlet(&mut self, number: usize) {
        if self.outlets.get(number).is_none_or(SinkBuffer::is_closed) {
            return;
        }
        if self.outlets[number].has_unreported() {
            self.make_room(number, Level::Info);
        }
        self.commit();
        self.outlets[number].hand_over();
        self.outlets[number].close();
        self.inputs
            .iter_mut()
            .flatten()
            .for_each(SessionInput::forget_sites);
    }

    /// How long nothing may be looked at while nothing comes: with many sessions, each of which a pass looks at, longer.
    pub(super) fn longest_pause_ns(&self) -> u64 {
        let times = (1 + self.inputs.len() as u64 / PAUSE_SESSIONS).min(PAUSE_TIMES_MAX);
        PAUSE_NS_MAX * times
    }

    /// Takes a session over, new or from an earlier drain: from where that one's journal says.
    fn join(&mut self, session: Arc<HostedSession>) {
        let (own, found) = (self.buffers.journal(), session.header().journal());
        let is_new = found == 0;
        let epoch = self
            .buffers
            .ancestors()
            .iter()
            .find(|ancestor| ancestor.id == found)
            // What this very drain has taken it has also released.
            .map_or(0, |ancestor| ancestor.epoch);
        session.header().store_calibration(&self.calibration);
        self.coarse |= session.options().coarse;
        let client = ClientProcess {
            app: session.app().to_owned(),
            pid: session.peer().pid,
            uid: session.peer().uid,
        };
        let quotas = self.quotas.enter(&client, &[]);
        let mut input = SessionInput::new(Arc::clone(session.reader()), epoch, Some(client));
        input.client_id = Some(session.id());
        let wish = self.recorder_request.take().filter(|(id, _)| *id == session.id());
        input.recorder_request = wish.map(|(_, options)| options);
        choose_keep(&mut input, self.recorder_policy.as_deref(), &self.status);
        input.quotas = quotas;
        if !is_new {
            input.take_unreported_drops();
        }
        let number = match self.inputs.iter().position(Option::is_none) {
            Some(number) => number,
            None => {
                self.inputs.push(None);
                self.inputs.len() - 1
            }
        };
        for ring in input.fresh_rings() {
            let consumer = Consumer::adopt(ring, epoch);
            consumer.settle();
            self.readers.push(RingReader::new(consumer, number));
        }
        session.header().store_journal(own);
        // Rings that are still to come are new.
        input.epoch = 0;
        if let Some(place) = self.inputs.get_mut(number) {
            *place = Some(input);
        }
    }

    /// The process of a session writes nothing more. If it does, it does so for nobody.
    fn finish_session(&mut self, id: u64, text: Option<String>) {
        self.add_readers();
        let is = |input: &Option<SessionInput>| input.as_ref().and_then(|input| input.client_id) == Some(id);
        let Some(number) = self.inputs.iter().position(is) else {
            return;
        };
        if let Some(Some(input)) = self.inputs.get_mut(number) {
            input.leaving = Some(text);
        }
        let of_it = |reader: &&mut RingReader| reader.input == number;
        self.readers.iter_mut().filter(of_it).for_each(RingReader::finish);
    }

    /// The thread of a session whose record is the newest.
    fn last_thread_of(&self, number: usize) -> Option<String> {
        let of_it = |reader: &&RingReader| reader.input == number && reader.newest_ticks() > 0;
        let last = self
            .readers
            .iter()
            .filter(of_it)
            .max_by_key(|reader| reader.newest_ticks())?;
        Some(match last.thread_name.as_str() {
            "" => last.thread_id.to_string(),
            name => format!("{name} ({})", last.thread_id),
        })
    }

    /// Forgets sessions that are over and drained, with what is to be said of them; `false` while one is not drained.
    pub(super) fn let_go(&mut self) -> bool {
        let mut all = true;
        for number in 1..self.inputs.len() {
            let Some(Some(input)) = self.inputs.get(number) else {
                continue;
            };
            if input.leaving.is_none() {
                continue;
            }
            let is_left = |reader: &RingReader| reader.input == number && reader.has_more();
            if self.readers.iter().any(is_left) || input.keep.as_ref().is_some_and(FlightRecorder::is_busy) {
                all = false;
                continue;
            }
            self.report_drops_of(number, true);
            self.leave_quotas(number);
            if let Some(Some(mut text)) = self.inputs[number]
                .as_ref()
                .and_then(|input| input.leaving.clone())
            {
                if let Some(thread) = self.last_thread_of(number) {
                    text.push_str(&format!("; thread {thread} was the last to write"));
                }
                self.report_for(number, END_LEVEL, &text);
            }
            self.readers.retain(|reader| reader.input != number);
            self.inputs[number] = None;
        }
        all
    }
}
