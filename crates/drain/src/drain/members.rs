//! Sessions that come to a drain and go: those of other processes, at an agent.

use super::recorder::choose_keep;
use super::{Drain, Order};
use crate::backend::END_LEVEL;
use crate::feed::{Feed, Member};
use crate::inside::Inside;
use crate::keep::Keep;
use crate::limits::{PAUSE_NS_MAX, PAUSE_SESSIONS, PAUSE_TIMES_MAX};
use crate::outlet::Outlet;
use crate::reader::Reader;
use logdrive_ring::{Consumer, HostedSession};
use logdrive_wire::Level;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

impl Drain {
    /// Does what other threads have asked for.
    pub(super) fn follow_orders(&mut self) {
        while let Some(Ok(order)) = self.orders.as_ref().map(Receiver::try_recv) {
            match order {
                Order::Join(session) => self.join(session),
                Order::Leave(id, text) => self.see_off(id, text),
                Order::Route(router) => {
                    self.router = Some(router);
                    self.feeds.iter_mut().flatten().for_each(Feed::forget_sites);
                }
                Order::Dump(whose, span, because) => self.want_dump(&whose, span, &because),
                Order::DumpFor {
                    dump,
                    session,
                    span,
                    because,
                } => self.want_dump_for(dump, session, span, because),
                Order::Crash(session, because) => self.want_crash_dump(session, &because),
                Order::Keep(session, options) => self.wish_to_keep(session, options),
                Order::Record(recorder) => self.set_recorder(recorder),
                Order::Ration(rationing) => self.set_rations(rationing),
                Order::Tune(number, tuning) => {
                    if let Some(outlet) = self.outlets.get_mut(number) {
                        outlet.tune(*tuning);
                        self.inside = Inside::new(&self.outlets);
                        self.feeds.iter_mut().flatten().for_each(Feed::forget_sites);
                    }
                }
                Order::Sink(outlet) => {
                    match self.outlets.get_mut(outlet.number()) {
                        Some(closed) => *closed = *outlet,
                        None => self.outlets.push(*outlet),
                    }
                    self.inside = Inside::new(&self.outlets);
                    self.feeds.iter_mut().flatten().for_each(Feed::forget_sites);
                }
                Order::Close(number) => self.close_outlet(number),
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
        if self.outlets.get(number).is_none_or(Outlet::is_closed) {
            return;
        }
        if self.outlets[number].has_untold() {
            self.make_room(number, Level::Info);
        }
        self.commit();
        self.outlets[number].hand_over();
        self.outlets[number].close();
        self.feeds.iter_mut().flatten().for_each(Feed::forget_sites);
    }

    /// How long nothing may be looked at while nothing comes: with many sessions, each of which a pass looks at, longer.
    pub(super) fn longest_pause_ns(&self) -> u64 {
        let times = (1 + self.feeds.len() as u64 / PAUSE_SESSIONS).min(PAUSE_TIMES_MAX);
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
        let member = Member {
            app: session.app().to_owned(),
            pid: session.peer().pid,
            uid: session.peer().uid,
        };
        let rations = self.rations.enter(&member, &[]);
        let mut feed = Feed::new(Arc::clone(session.reader()), epoch, Some(member));
        feed.client_id = Some(session.id());
        let wish = self.wish.take().filter(|(id, _)| *id == session.id());
        feed.wish = wish.map(|(_, options)| options);
        choose_keep(&mut feed, self.recorder.as_deref(), &self.marks);
        feed.rations = rations;
        if !is_new {
            feed.take_untold_drops();
        }
        let number = match self.feeds.iter().position(Option::is_none) {
            Some(number) => number,
            None => {
                self.feeds.push(None);
                self.feeds.len() - 1
            }
        };
        for ring in feed.fresh_rings() {
            let consumer = Consumer::adopt(ring, epoch);
            consumer.settle();
            self.readers.push(Reader::new(consumer, number));
        }
        session.header().store_journal(own);
        // Rings that are still to come are new.
        feed.epoch = 0;
        if let Some(place) = self.feeds.get_mut(number) {
            *place = Some(feed);
        }
    }

    /// The process of a session writes nothing more. If it does, it does so for nobody.
    fn see_off(&mut self, id: u64, text: Option<String>) {
        self.add_readers();
        let is = |feed: &Option<Feed>| feed.as_ref().and_then(|feed| feed.client_id) == Some(id);
        let Some(number) = self.feeds.iter().position(is) else {
            return;
        };
        if let Some(Some(feed)) = self.feeds.get_mut(number) {
            feed.leaving = Some(text);
        }
        let of_it = |reader: &&mut Reader| reader.feed == number;
        self.readers.iter_mut().filter(of_it).for_each(Reader::finish);
    }

    /// The thread of a session whose record is the newest.
    fn last_thread_of(&self, number: usize) -> Option<String> {
        let of_it = |reader: &&Reader| reader.feed == number && reader.newest_ticks() > 0;
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
        for number in 1..self.feeds.len() {
            let Some(Some(feed)) = self.feeds.get(number) else {
                continue;
            };
            if feed.leaving.is_none() {
                continue;
            }
            let is_left = |reader: &Reader| reader.feed == number && reader.has_more();
            if self.readers.iter().any(is_left) || feed.keep.as_ref().is_some_and(Keep::is_busy) {
                all = false;
                continue;
            }
            self.tell_drops_of(number, true);
            self.leave_rations(number);
            if let Some(Some(mut text)) = self.feeds[number].as_ref().and_then(|feed| feed.leaving.clone()) {
                if let Some(thread) = self.last_thread_of(number) {
                    text.push_str(&format!("; thread {thread} was the last to write"));
                }
                self.tell_of(number, END_LEVEL, &text);
            }
            self.readers.retain(|reader| reader.feed != number);
            self.feeds[number] = None;
        }
        all
    }
}
