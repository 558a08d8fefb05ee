//! Rations: how many records a second, and how many bytes of lines a day, some processes may have in the log together.
//! What is over is dropped, counted by the sinks with the reason, and told in the log.
//!
//! The last eighth of a ration is for warnings and errors, as that of a ring is.

use crate::feed::Member;
use crate::limits::{RATION_TOLD_NS, RATIONS_UNUSED_MAX};
use crate::outlet::SinkDrop;

/// What some processes may have together.
///
/// ```
/// use logdrive_drain::Ration;
/// let ration = Ration {
///     whose: "user 1000".into(),
///     is_own: false,
///     records_per_second: Some(10_000),
///     bytes_per_day: None,
/// };
/// assert_eq!(ration.whose, "user 1000");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ration {
    /// Whose it is, as the log names them. Processes whose rations have the same name share it.
    pub whose: String,
    /// Whether it is that of one process alone, whatever its name.
    pub is_own: bool,
    /// Records in one second that go to any sink; `None` for no limit.
    pub records_per_second: Option<u64>,
    /// Bytes of lines in files from one midnight to the next, in UTC; `None` for no limit.
    pub bytes_per_day: Option<u64>,
}

/// Who may have how much, of the processes that an agent drains. Called by the drain: it must not wait for anybody.
pub trait Rationing: Send {
    /// The rations that a process is under; all hold at once.
    fn rations(&self, member: &Member) -> Vec<Ration>;

    /// What is known from before: the bytes that shared rations have had on a day, counted from 1970.
    fn spent(&self, day: u64) -> Vec<(String, u64)>;

    /// What shared rations have had on a day. Called once a second at most, when something has changed.
    fn remember(&self, day: u64, spent: &[(String, u64)]);
}

/// A ration, and what was had of it.
struct Slot {
    ration: Ration,
    records: u64,
    bytes: u64,
    /// Processes under it.
    members: usize,
    too_fast: u64,
    too_much: u64,
    told_at_ns: Option<u64>,
}

impl Slot {
    fn new(ration: Ration, bytes: u64) -> Self {
        Self {
            ration,
            records: 0,
            bytes,
            members: 0,
            too_fast: 0,
            too_much: 0,
            told_at_ns: None,
        }
    }

    fn records_left(&self, urgent: bool) -> u64 {
        left(self.ration.records_per_second, self.records, urgent)
    }

    fn bytes_left(&self, urgent: bool) -> u64 {
        left(self.ration.bytes_per_day, self.bytes, urgent)
    }

    /// A line about what was dropped, when it is time for one.
    fn tell_too_much(&mut self, now_ns: u64, all: bool) -> Option<String> {
        let is_due = self
            .told_at_ns
            .is_none_or(|at| now_ns.saturating_sub(at) >= RATION_TOLD_NS);
        if self.too_much == 0 || !(is_due || all) {
            return None;
        }
        self.told_at_ns = Some(now_ns);
        let count = std::mem::take(&mut self.too_much);
        let limit = self.ration.bytes_per_day.unwrap_or(0);
        Some(format!(
            "{count} records dropped of {}: more than {limit} bytes of lines today (UTC)",
            self.ration.whose
        ))
    }

    fn tell_too_fast(&mut self) -> Option<String> {
        let count = std::mem::take(&mut self.too_fast);
        let limit = self.ration.records_per_second.unwrap_or(0);
        (count > 0).then(|| {
            format!(
                "{count} records dropped of {}: more than {limit} records in a second",
                self.ration.whose
            )
        })
    }
}

/// The last eighth is for what is urgent.
fn left(limit: Option<u64>, used: u64, urgent: bool) -> u64 {
    let Some(limit) = limit else { return u64::MAX };
    let usable = if urgent { limit } else { limit - limit / 8 };
    usable.saturating_sub(used)
}

/// All rations of a drain.
#[derive(Default)]
pub(crate) struct Rations {
    rationing: Option<Box<dyn Rationing>>,
    slots: Vec<Option<Slot>>,
    second_ends_ns: u64,
    day: u64,
    /// Whether bytes were spent that nobody remembers yet.
    is_unsaved: bool,
}

const DAY_NS: u64 = 86_400 * 1_000_000_000;

impl Rations {
    /// Others are in force from now on. Every process has to [`Rations::enter`] anew; what was had stays had.
    pub(crate) fn replace(&mut self, rationing: Box<dyn Rationing>, now_unix_ns: u64) {
        if self.rationing.is_none() {
            self.day = now_unix_ns / DAY_NS;
            for (whose, bytes) in rationing.spent(self.day).into_iter().take(RATIONS_UNUSED_MAX) {
                let ration = Ration {
                    whose,
                    is_own: false,
                    records_per_second: None,
                    bytes_per_day: None,
                };
                self.slots.push(Some(Slot::new(ration, bytes)));
            }
        }
        self.rationing = Some(rationing);
    }

    /// The slots of a process, which had others before.
    pub(crate) fn enter(&mut self, member: &Member, before: &[usize]) -> Vec<usize> {
        let Some(rationing) = &self.rationing else {
            return Vec::new();
        };
        let rations = rationing.rations(member);
        let slots: Vec<usize> = rations
            .into_iter()
            .map(|ration| self.slot_for(ration, before))
            .collect();
        for slot in &slots {
            if let Some(Some(slot)) = self.slots.get_mut(*slot) {
                slot.members += 1;
            }
        }
        slots
    }

    fn slot_for(&mut self, ration: Ration, before: &[usize]) -> usize {
        let is_it = |number: usize, slot: &Slot| {
            let may_be = !ration.is_own || before.contains(&number);
            may_be && slot.ration.is_own == ration.is_own && slot.ration.whose == ration.whose
        };
        let mut found = self.slots.iter().enumerate();
        let found = found.find(|(number, slot)| slot.as_ref().is_some_and(|slot| is_it(*number, slot)));
        if let Some((number, _)) = found {
            if let Some(Some(slot)) = self.slots.get_mut(number) {
                slot.ration = ration;
            }
            return number;
        }
        let slot = Some(Slot::new(ration, 0));
        match self.slots.iter().position(Option::is_none) {
            Some(number) => {
                self.slots[number] = slot;
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        }
    }

    /// A process has left its slots; lines about what was dropped and not told.
    pub(crate) fn leave(&mut self, slots: &[usize], now_ns: u64) -> Vec<String> {
        let mut lines = Vec::new();
        for number in slots {
            let Some(Some(slot)) = self.slots.get_mut(*number) else {
                continue;
            };
            slot.members = slot.members.saturating_sub(1);
            if slot.ration.is_own && slot.members == 0 {
                lines.extend(slot.tell_too_fast());
                lines.extend(slot.tell_too_much(now_ns, true));
            }
        }
        self.tidy();
        lines
    }

    /// Forgets rations that nobody is under. The bytes of the day stay, as long as they are not those of too many.
    fn tidy(&mut self) {
        let mut unused = 0;
        for place in &mut self.slots {
            let Some(slot) = place else { continue };
            if slot.members > 0 || slot.too_fast > 0 || slot.too_much > 0 {
                continue;
            }
            unused += 1;
            if slot.ration.is_own || slot.bytes == 0 || unused > RATIONS_UNUSED_MAX {
                *place = None;
            }
        }
    }

    /// How many records and bytes are left for sure, below warnings.
    pub(crate) fn left(&self, slots: &[usize]) -> (u64, u64) {
        let slots = slots.iter().filter_map(|slot| self.slots.get(*slot)?.as_ref());
        slots.fold((u64::MAX, u64::MAX), |(records, bytes), slot| {
            (
                records.min(slot.records_left(false)),
                bytes.min(slot.bytes_left(false)),
            )
        })
    }

    /// Why a record must not be written, if so; then it is counted.
    pub(crate) fn refuse(&mut self, slots: &[usize], urgent: bool) -> Option<SinkDrop> {
        for slot in slots {
            let Some(Some(slot)) = self.slots.get_mut(*slot) else {
                continue;
            };
            if slot.records_left(urgent) == 0 {
                slot.too_fast += 1;
                return Some(SinkDrop::TooFast);
            }
            if slot.bytes_left(urgent) == 0 {
                slot.too_much += 1;
                return Some(SinkDrop::TooMuch);
            }
        }
        None
    }

    /// Whether no more bytes may be written today; then a record is counted.
    pub(crate) fn refuse_bytes(&mut self, slots: &[usize]) -> bool {
        for slot in slots {
            if let Some(Some(slot)) = self.slots.get_mut(*slot)
                && slot.bytes_left(false) == 0
            {
                slot.too_much += 1;
                return true;
            }
        }
        false
    }

    /// Records were written, with so many bytes in files.
    pub(crate) fn spend(&mut self, slots: &[usize], records: u64, bytes: u64) {
        for slot in slots {
            if let Some(Some(slot)) = self.slots.get_mut(*slot) {
                slot.records = slot.records.saturating_add(records);
                slot.bytes = slot.bytes.saturating_add(bytes);
                self.is_unsaved |= slot.ration.bytes_per_day.is_some();
            }
        }
    }

    /// Begins the next second or day when it is time; lines about what was dropped. With `all`, everything is told.
    pub(crate) fn tick(&mut self, now_ns: u64, now_unix_ns: u64, all: bool) -> Vec<String> {
        if self.slots.is_empty() || (now_ns < self.second_ends_ns && !all) {
            return Vec::new();
        }
        self.second_ends_ns = now_ns + 1_000_000_000;
        let day = now_unix_ns / DAY_NS;
        let is_new_day = day > self.day;
        let mut lines = Vec::new();
        for slot in self.slots.iter_mut().flatten() {
            slot.records = 0;
            lines.extend(slot.tell_too_fast());
            lines.extend(slot.tell_too_much(now_ns, all || is_new_day));
            if is_new_day {
                slot.bytes = 0;
                slot.told_at_ns = None;
            }
        }
        if is_new_day {
            self.day = day;
            self.is_unsaved = true;
            self.tidy();
        }
        if std::mem::take(&mut self.is_unsaved) {
            self.remember();
        }
        lines
    }

    fn remember(&self) {
        let Some(rationing) = &self.rationing else { return };
        let shared = self.slots.iter().flatten();
        let spent: Vec<(String, u64)> = shared
            .filter(|slot| !slot.ration.is_own && slot.bytes > 0)
            .map(|slot| (slot.ration.whose.clone(), slot.bytes))
            .collect();
        rationing.remember(self.day, &spent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A user's and each process's own ration, and what was remembered.
    #[derive(Clone)]
    struct Both {
        process: Option<u64>,
        user_bytes: Option<u64>,
        remembered: Arc<Mutex<Vec<(u64, String, u64)>>>,
    }

    impl Rationing for Both {
        fn rations(&self, member: &Member) -> Vec<Ration> {
            let own = Ration {
                whose: format!("process {}", member.pid),
                is_own: true,
                records_per_second: self.process,
                bytes_per_day: None,
            };
            let user = Ration {
                whose: format!("user {}", member.uid),
                is_own: false,
                records_per_second: None,
                bytes_per_day: self.user_bytes,
            };
            vec![own, user]
        }

        fn spent(&self, day: u64) -> Vec<(String, u64)> {
            let remembered = self.remembered.lock().expect("no panic");
            let of_day = remembered.iter().filter(|(found, ..)| *found == day);
            of_day.map(|(_, whose, bytes)| (whose.clone(), *bytes)).collect()
        }

        fn remember(&self, day: u64, spent: &[(String, u64)]) {
            let spent = spent.iter().map(|(whose, bytes)| (day, whose.clone(), *bytes));
            *self.remembered.lock().expect("no panic") = spent.collect();
        }
    }

    fn member(pid: u32) -> Member {
        Member {
            app: "shop".into(),
            pid,
            uid: 1000,
        }
    }

    fn both(process: Option<u64>, user_bytes: Option<u64>) -> Both {
        Both {
            process,
            user_bytes,
            remembered: Arc::default(),
        }
    }

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_process_has_so_many_records_a_second_and_the_last_eighth_is_for_warnings() {
        let mut rations = Rations::default();
        rations.replace(Box::new(both(Some(16), None)), 0);
        let one = rations.enter(&member(1), &[]);
        let other = rations.enter(&member(2), &[]);
        assert!(rations.tick(0, 0, false).is_empty());
        for _ in 0..14 {
            assert_eq!(rations.refuse(&one, false), None);
            rations.spend(&one, 1, 10);
        }
        assert_eq!(rations.refuse(&one, false), Some(SinkDrop::TooFast));
        assert_eq!(rations.refuse(&one, true), None);
        rations.spend(&one, 2, 10);
        assert_eq!(rations.refuse(&one, true), Some(SinkDrop::TooFast));
        assert_eq!(rations.refuse(&other, false), None, "each for itself");
        assert!(rations.tick(SECOND_NS - 1, 0, false).is_empty());
        assert_eq!(
            rations.tick(SECOND_NS, 0, false),
            ["2 records dropped of process 1: more than 16 records in a second"]
        );
        assert_eq!(rations.refuse(&one, false), None, "the next second");
    }

    #[test]
    fn processes_of_a_user_share_the_bytes_of_a_day() {
        let config = both(None, Some(800));
        let mut rations = Rations::default();
        rations.replace(Box::new(config.clone()), 5 * DAY_NS);
        let one = rations.enter(&member(1), &[]);
        let other = rations.enter(&member(2), &[]);
        rations.tick(0, 5 * DAY_NS, false);
        rations.spend(&one, 1, 600);
        assert_eq!(rations.left(&other), (u64::MAX, 100));
        rations.spend(&other, 1, 100);
        assert_eq!(rations.refuse(&one, false), Some(SinkDrop::TooMuch));
        assert_eq!(rations.refuse(&one, true), None);
        let told = rations.tick(SECOND_NS, 5 * DAY_NS, false);
        assert_eq!(
            told,
            ["1 records dropped of user 1000: more than 800 bytes of lines today (UTC)"]
        );
        // The next drain goes on with what was had.
        let mut again = Rations::default();
        again.replace(Box::new(config), 5 * DAY_NS);
        let slots = again.enter(&member(3), &[]);
        assert_eq!(again.refuse(&slots, false), Some(SinkDrop::TooMuch));
        // At midnight it begins anew.
        again.tick(2 * SECOND_NS, 6 * DAY_NS, false);
        assert_eq!(again.refuse(&slots, false), None);
    }

    #[test]
    fn other_limits_hold_at_once_and_what_was_had_stays_had() {
        let mut rations = Rations::default();
        rations.replace(Box::new(both(Some(80), Some(800))), 0);
        let before = rations.enter(&member(1), &[]);
        rations.tick(0, 0, false);
        rations.spend(&before, 40, 400);
        rations.replace(Box::new(both(Some(40), Some(400))), 0);
        let after = rations.enter(&member(1), &before);
        rations.leave(&before, 0);
        assert_eq!(rations.left(&after), (0, 0));
        let other = rations.enter(&member(2), &[]);
        assert_eq!(rations.left(&other), (35, 0));
        rations.leave(&other, 0);
        assert_eq!(rations.slots.iter().flatten().count(), 2, "its own is gone");
    }
}
