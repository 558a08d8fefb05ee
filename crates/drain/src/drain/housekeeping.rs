//! What a drain does once in a while, for each session: live control, rings that go back, drops that nobody has reported.

use super::Drain;
use crate::drain::ring_reader::NO_RECORD;
use crate::limits::HOUSEKEEPING_NS;
use logdrive_ring::DropReason;
use logdrive_ring::clock::monotonic_ns;
use logdrive_wire::Level;

impl Drain {
    /// Once a second: finished rings go back, drops that no producer will tell are reported, a ring is kept ready.
    pub(super) fn housekeeping(&mut self) {
        let now_ns = monotonic_ns();
        if now_ns < self.housekeeping_at_ns {
            return;
        }
        self.housekeeping_at_ns = now_ns + HOUSEKEEPING_NS;
        if let Some(Some(own)) = self.inputs.first()
            && own.source.own().is_some()
        {
            own.source.header().store_disabled(self.counts.disabled_calls());
        }
        self.report_drops();
    }

    /// Looks after live control some times a second, however busy the drain is.
    pub(super) fn keep_control(&mut self, stopping: bool) {
        let now_ns = monotonic_ns();
        for number in 0..self.inputs.len() {
            let Some(Some(input)) = self.inputs.get_mut(number) else {
                continue;
            };
            let notices = input.keep_control(now_ns, stopping);
            // Processes that share a log are reported apart, as in what is said of drops.
            let whose = input.client.as_ref().filter(|_| !notices.is_empty());
            let whose = whose.map_or_else(String::new, |client| format!(", in {client}"));
            for (level, text) in notices {
                self.report_for(number, level, &(text + &whose));
            }
        }
    }

    pub(super) fn recycle_rings(&mut self) {
        for reader in self.readers.iter().filter(|reader| !reader.quarantined) {
            if reader.consumer.is_finished()
                && !reader.has_taken()
                && let Some(Some(input)) = self.inputs.get(reader.input)
            {
                input.source.recycle(reader.ring());
            }
        }
    }

    /// Gap lines for drops that their own thread has not reported: it ended, is quiet, or never had a ring.
    pub(crate) fn report_drops(&mut self) {
        for number in 0..self.outlets.len() {
            // A sink that was too slow and has room again, while nothing more comes for it.
            if self.outlets[number].has_unreported() {
                self.make_room(number, Level::Info);
            }
        }
        for number in 0..self.inputs.len() {
            self.report_drops_of(number, false);
        }
    }

    /// The same for one session; `all` also of threads that seem to be at work.
    pub(super) fn report_drops_of(&mut self, number: usize, all: bool) {
        let Some(Some(input)) = self.inputs.get_mut(number) else {
            return;
        };
        let mut counts = input.take_unreported_drops();
        let unknown = input.take_unreported_unknown();
        for reader in self.readers.iter().filter(|reader| reader.input == number) {
            let idle =
                reader.head.time_ticks == NO_RECORD && reader.consumer.pending_bytes().unwrap_or(0) == 0;
            if all || idle || reader.quarantined {
                add(&mut counts, &reader.ring().header().take_unreported());
            }
        }
        let whose = input
            .client
            .as_ref()
            .map_or_else(String::new, |client| format!(" by {client}"));
        for reason in DropReason::ALL
            .into_iter()
            .filter(|reason| counts[*reason as usize] > 0)
        {
            let count = counts[reason as usize];
            let text = format!("{count} records dropped{whose}: {}", reason.text());
            self.report_for(number, Level::Warn, &text);
        }
        if unknown > 0 {
            let text = format!("{unknown} more records of unknown callsites{whose}");
            self.report_for(number, Level::Warn, &text);
        }
    }
}

fn add(sum: &mut [u64; DropReason::COUNT], more: &[u64; DropReason::COUNT]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.saturating_add(*more);
    }
}
