//! Quotas: how many records a second, and how many bytes of lines a day, some processes may have in the log together.
//! What is over is dropped, counted by the sinks with the reason, and reported in the log.
//!
//! The last eighth of a quota is for warnings and errors, as that of a ring is.

use crate::client::ClientProcess;
use crate::limits::{QUOTA_REPORT_NS, QUOTAS_UNUSED_MAX};
use crate::sink::drop_reason::SinkDrop;

/// Quota that some processes share.
///
/// ```
/// use logdrive_drain::Quota;
/// let quota = Quota {
///     owner: "user 1000".into(),
///     is_per_process: false,
///     records_per_second: Some(10_000),
///     bytes_per_day: None,
/// };
/// assert_eq!(quota.owner, "user 1000");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// Owner of the quota, as the log names it. Processes whose quotas have the same owner share it.
    pub owner: String,
    /// Set if it is that of one process alone, whatever its name.
    pub is_per_process: bool,
    /// Records in one second that go to any sink; `None` for no limit.
    pub records_per_second: Option<u64>,
    /// Bytes of lines in files from one midnight to the next, in UTC; `None` for no limit.
    pub bytes_per_day: Option<u64>,
}

/// Quotas of the processes that an agent drains. The drain calls it, so it must not block.
pub trait QuotaPolicy: Send {
    /// The quotas that a process is under; all hold at once.
    fn quotas(&self, client: &ClientProcess) -> Vec<Quota>;

    /// Returns the bytes that shared quotas have used on a day, counted from 1970, as saved before.
    fn spent(&self, day: u64) -> Vec<(String, u64)>;

    /// Saves the bytes that shared quotas have used on a day. Called at most once a second, after a change.
    fn remember(&self, day: u64, spent: &[(String, u64)]);
}

/// A quota, and what was had of it.
struct QuotaUsage {
    quota: Quota,
    records: u64,
    bytes: u64,
    /// Processes under it.
    clients: usize,
    over_records: u64,
    over_bytes: u64,
    reported_at_ns: Option<u64>,
}

impl QuotaUsage {
    fn new(quota: Quota, bytes: u64) -> Self {
        Self {
            quota,
            records: 0,
            bytes,
            clients: 0,
            over_records: 0,
            over_bytes: 0,
            reported_at_ns: None,
        }
    }

    fn records_left(&self, urgent: bool) -> u64 {
        left(self.quota.records_per_second, self.records, urgent)
    }

    fn bytes_left(&self, urgent: bool) -> u64 {
        left(self.quota.bytes_per_day, self.bytes, urgent)
    }

    /// A line about what was dropped, when it is time for one.
    fn report_over_bytes(&mut self, now_ns: u64, all: bool) -> Option<String> {
        let is_due = self
            .reported_at_ns
            .is_none_or(|at| now_ns.saturating_sub(at) >= QUOTA_REPORT_NS);
        if self.over_bytes == 0 || !(is_due || all) {
            return None;
        }
        self.reported_at_ns = Some(now_ns);
        let count = std::mem::take(&mut self.over_bytes);
        let limit = self.quota.bytes_per_day.unwrap_or(0);
        Some(format!(
            "{count} records dropped of {}: more than {limit} bytes of lines today (UTC)",
            self.quota.owner
        ))
    }

    fn report_over_records(&mut self) -> Option<String> {
        let count = std::mem::take(&mut self.over_records);
        let limit = self.quota.records_per_second.unwrap_or(0);
        (count > 0).then(|| {
            format!(
                "{count} records dropped of {}: more than {limit} records in a second",
                self.quota.owner
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

/// All quotas of a drain.
#[derive(Default)]
pub(crate) struct Quotas {
    policy: Option<Box<dyn QuotaPolicy>>,
    slots: Vec<Option<QuotaUsage>>,
    second_ends_ns: u64,
    day: u64,
    /// Set if bytes were spent that are not stored yet.
    is_unsaved: bool,
}

const DAY_NS: u64 = 86_400 * 1_000_000_000;

impl Quotas {
    /// Others are in force from now on. Every process has to [`Quotas::enter`] anew; what was had stays had.
    pub(crate) fn replace(&mut self, policy: Box<dyn QuotaPolicy>, now_unix_ns: u64) {
        if self.policy.is_none() {
            self.day = now_unix_ns / DAY_NS;
            for (owner, bytes) in policy.spent(self.day).into_iter().take(QUOTAS_UNUSED_MAX) {
                let quota = Quota {
                    owner,
                    is_per_process: false,
                    records_per_second: None,
                    bytes_per_day: None,
                };
                self.slots.push(Some(QuotaUsage::new(quota, bytes)));
            }
        }
        self.policy = Some(policy);
    }

    /// The slots of a process, which had others before.
    pub(crate) fn enter(&mut self, client: &ClientProcess, before: &[usize]) -> Vec<usize> {
        let Some(policy) = &self.policy else {
            return Vec::new();
        };
        let quotas = policy.quotas(client);
        let slots: Vec<usize> = quotas
            .into_iter()
            .map(|quota| self.slot_for(quota, before))
            .collect();
        for slot in &slots {
            if let Some(Some(slot)) = self.slots.get_mut(*slot) {
                slot.clients += 1;
            }
        }
        slots
    }

    fn slot_for(&mut self, quota: Quota, before: &[usize]) -> usize {
        let is_it = |number: usize, slot: &QuotaUsage| {
            let may_be = !quota.is_per_process || before.contains(&number);
            may_be && slot.quota.is_per_process == quota.is_per_process && slot.quota.owner == quota.owner
        };
        let mut found = self.slots.iter().enumerate();
        let found = found.find(|(number, slot)| slot.as_ref().is_some_and(|slot| is_it(*number, slot)));
        if let Some((number, _)) = found {
            if let Some(Some(slot)) = self.slots.get_mut(number) {
                slot.quota = quota;
            }
            return number;
        }
        let slot = Some(QuotaUsage::new(quota, 0));
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

    /// A process has left its slots; lines about what was dropped and not reported.
    pub(crate) fn leave(&mut self, slots: &[usize], now_ns: u64) -> Vec<String> {
        let mut lines = Vec::new();
        for number in slots {
            let Some(Some(slot)) = self.slots.get_mut(*number) else {
                continue;
            };
            slot.clients = slot.clients.saturating_sub(1);
            if slot.quota.is_per_process && slot.clients == 0 {
                lines.extend(slot.report_over_records());
                lines.extend(slot.report_over_bytes(now_ns, true));
            }
        }
        self.forget_unused();
        lines
    }

    /// Forgets quotas without a process. The bytes of the day stay, as long as they are not those of too many.
    fn forget_unused(&mut self) {
        let mut unused = 0;
        for place in &mut self.slots {
            let Some(slot) = place else { continue };
            if slot.clients > 0 || slot.over_records > 0 || slot.over_bytes > 0 {
                continue;
            }
            unused += 1;
            if slot.quota.is_per_process || slot.bytes == 0 || unused > QUOTAS_UNUSED_MAX {
                *place = None;
            }
        }
    }

    /// Number of records and bytes that are left for certain, below warnings.
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
                slot.over_records += 1;
                return Some(SinkDrop::RecordQuota);
            }
            if slot.bytes_left(urgent) == 0 {
                slot.over_bytes += 1;
                return Some(SinkDrop::ByteQuota);
            }
        }
        None
    }

    /// Returns whether no more bytes may be written today; then a record is counted.
    pub(crate) fn refuse_bytes(&mut self, slots: &[usize]) -> bool {
        for slot in slots {
            if let Some(Some(slot)) = self.slots.get_mut(*slot)
                && slot.bytes_left(false) == 0
            {
                slot.over_bytes += 1;
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
                self.is_unsaved |= slot.quota.bytes_per_day.is_some();
            }
        }
    }

    /// Begins the next second or day when it is time; lines about what was dropped. With `all`, everything is reported.
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
            lines.extend(slot.report_over_records());
            lines.extend(slot.report_over_bytes(now_ns, all || is_new_day));
            if is_new_day {
                slot.bytes = 0;
                slot.reported_at_ns = None;
            }
        }
        if is_new_day {
            self.day = day;
            self.is_unsaved = true;
            self.forget_unused();
        }
        if std::mem::take(&mut self.is_unsaved) {
            self.remember();
        }
        lines
    }

    fn remember(&self) {
        let Some(policy) = &self.policy else { return };
        let shared = self.slots.iter().flatten();
        let spent: Vec<(String, u64)> = shared
            .filter(|slot| !slot.quota.is_per_process && slot.bytes > 0)
            .map(|slot| (slot.quota.owner.clone(), slot.bytes))
            .collect();
        policy.remember(self.day, &spent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A user's and each process's own quota, and what was remembered.
    #[derive(Clone)]
    struct Both {
        process: Option<u64>,
        user_bytes: Option<u64>,
        remembered: Arc<Mutex<Vec<(u64, String, u64)>>>,
    }

    impl QuotaPolicy for Both {
        fn quotas(&self, client: &ClientProcess) -> Vec<Quota> {
            let own = Quota {
                owner: format!("process {}", client.pid),
                is_per_process: true,
                records_per_second: self.process,
                bytes_per_day: None,
            };
            let user = Quota {
                owner: format!("user {}", client.uid),
                is_per_process: false,
                records_per_second: None,
                bytes_per_day: self.user_bytes,
            };
            vec![own, user]
        }

        fn spent(&self, day: u64) -> Vec<(String, u64)> {
            let remembered = self.remembered.lock().expect("no panic");
            let of_day = remembered.iter().filter(|(found, ..)| *found == day);
            of_day.map(|(_, owner, bytes)| (owner.clone(), *bytes)).collect()
        }

        fn remember(&self, day: u64, spent: &[(String, u64)]) {
            let spent = spent.iter().map(|(owner, bytes)| (day, owner.clone(), *bytes));
            *self.remembered.lock().expect("no panic") = spent.collect();
        }
    }

    fn client(pid: u32) -> ClientProcess {
        ClientProcess {
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
        let mut quotas = Quotas::default();
        quotas.replace(Box::new(both(Some(16), None)), 0);
        let one = quotas.enter(&client(1), &[]);
        let other = quotas.enter(&client(2), &[]);
        assert!(quotas.tick(0, 0, false).is_empty());
        for _ in 0..14 {
            assert_eq!(quotas.refuse(&one, false), None);
            quotas.spend(&one, 1, 10);
        }
        assert_eq!(quotas.refuse(&one, false), Some(SinkDrop::RecordQuota));
        assert_eq!(quotas.refuse(&one, true), None);
        quotas.spend(&one, 2, 10);
        assert_eq!(quotas.refuse(&one, true), Some(SinkDrop::RecordQuota));
        assert_eq!(quotas.refuse(&other, false), None, "each for itself");
        assert!(quotas.tick(SECOND_NS - 1, 0, false).is_empty());
        assert_eq!(
            quotas.tick(SECOND_NS, 0, false),
            ["2 records dropped of process 1: more than 16 records in a second"]
        );
        assert_eq!(quotas.refuse(&one, false), None, "the next second");
    }

    #[test]
    fn processes_of_a_user_share_the_bytes_of_a_day() {
        let config = both(None, Some(800));
        let mut quotas = Quotas::default();
        quotas.replace(Box::new(config.clone()), 5 * DAY_NS);
        let one = quotas.enter(&client(1), &[]);
        let other = quotas.enter(&client(2), &[]);
        quotas.tick(0, 5 * DAY_NS, false);
        quotas.spend(&one, 1, 600);
        assert_eq!(quotas.left(&other), (u64::MAX, 100));
        quotas.spend(&other, 1, 100);
        assert_eq!(quotas.refuse(&one, false), Some(SinkDrop::ByteQuota));
        assert_eq!(quotas.refuse(&one, true), None);
        let reported = quotas.tick(SECOND_NS, 5 * DAY_NS, false);
        assert_eq!(
            reported,
            ["1 records dropped of user 1000: more than 800 bytes of lines today (UTC)"]
        );
        // The next drain goes on with what was had.
        let mut again = Quotas::default();
        again.replace(Box::new(config), 5 * DAY_NS);
        let slots = again.enter(&client(3), &[]);
        assert_eq!(again.refuse(&slots, false), Some(SinkDrop::ByteQuota));
        // At midnight it begins anew.
        again.tick(2 * SECOND_NS, 6 * DAY_NS, false);
        assert_eq!(again.refuse(&slots, false), None);
    }

    #[test]
    fn other_limits_hold_at_once_and_what_was_had_stays_had() {
        let mut quotas = Quotas::default();
        quotas.replace(Box::new(both(Some(80), Some(800))), 0);
        let before = quotas.enter(&client(1), &[]);
        quotas.tick(0, 0, false);
        quotas.spend(&before, 40, 400);
        quotas.replace(Box::new(both(Some(40), Some(400))), 0);
        let after = quotas.enter(&client(1), &before);
        quotas.leave(&before, 0);
        assert_eq!(quotas.left(&after), (0, 0));
        let other = quotas.enter(&client(2), &[]);
        assert_eq!(quotas.left(&other), (35, 0));
        quotas.leave(&other, 0);
        assert_eq!(quotas.slots.iter().flatten().count(), 2, "its own is gone");
    }
}
