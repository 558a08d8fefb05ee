//! The drain's part of live control: budgets are refilled, rules end in time, and the log says what was changed and
//! what was left out.
//!
//! None of it is needed for a change to hold: the tool that makes a change stores all control words.

use super::text::describe_span;
use super::{Action, Rule, apply, describe_rule, kind_of};
use crate::limits::{CHANGE_LINES_MAX, CONTROL_TICK_NS, SAMPLED_LINES_MAX};
use logdrive_ring::SessionReader;
use logdrive_ring::clock::unix_ns;
use logdrive_ring::control::{ControlEntry, EVERY, KeyField, KeyedLimit, PER_KEY, PER_SECOND, Switch};
use logdrive_ring::rules::RulesFile;
use logdrive_wire::{Callsite, Level};
use std::collections::BTreeMap;

const SECOND_NS: u64 = 1_000_000_000;

/// A line for the log about live control.
pub(crate) type Notice = (Level, String);

/// The state of one session's live control, as its drain knows it.
#[derive(Debug, Default)]
pub(crate) struct ControlMaintenance {
    /// That of the rules that were read last.
    sequence: u64,
    rules: Vec<Rule>,
    /// When the next rule ends; 0 for never.
    ends_unix_ns: u64,
    sampled: Vec<Sampled>,
    /// Calls sampled out that the log knows of, by callsite.
    reported: BTreeMap<u32, u64>,
    ticked_at_ns: u64,
    reported_at_ns: u64,
}

/// A callsite under sampling.
#[derive(Debug)]
struct Sampled {
    id: u32,
    /// Name of it in the log.
    place: String,
    /// Text in the log about its limit; empty if its records carry it.
    limit: String,
    switch: Switch,
    /// A callsite begins with a whole budget: what it gets more is for the time after it was found.
    refilled_at_ns: u64,
    /// Parts of a call that the next refill adds, in billionths.
    carry: u64,
}

impl ControlMaintenance {
    /// Returns whether it is time for [`ControlMaintenance::tick`].
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.ticked_at_ns) >= CONTROL_TICK_NS
    }

    /// Does what is due, and returns lines for the log. `report_counts` makes threads report their counts.
    pub(crate) fn tick(
        &mut self,
        session: &SessionReader,
        now_ns: u64,
        report_counts: &dyn Fn(),
    ) -> Vec<Notice> {
        let mut notices = Vec::new();
        self.ticked_at_ns = now_ns;
        self.end_rules(session);
        if let Ok(rules) = session.rules()
            && rules.sequence() != self.sequence
        {
            self.look_at_rules(session, rules, &mut notices);
        }
        self.refill(session);
        if now_ns.saturating_sub(self.reported_at_ns) >= SECOND_NS {
            self.reported_at_ns = now_ns;
            report_counts();
            self.report_sampled(session, &mut notices);
        }
        notices
    }

    /// Returns what has not been reported, at the end of a session.
    pub(crate) fn finish(&mut self, session: &SessionReader, report_counts: &dyn Fn()) -> Vec<Notice> {
        let mut notices = Vec::new();
        report_counts();
        self.report_sampled(session, &mut notices);
        notices
    }

    /// Takes rules away whose time is over. Where a tool is changing them just now, the next tick does it.
    fn end_rules(&mut self, session: &SessionReader) {
        if self.ends_unix_ns == 0 {
            return;
        }
        let now_unix_ns = unix_ns();
        if now_unix_ns < self.ends_unix_ns {
            return;
        }
        let Ok(file) = session.rules() else { return };
        let Ok(Some(lock)) = file.try_lock() else {
            return;
        };
        // Damaged rules are reported by their next reader.
        let Ok((_, mut rules)) = file.read() else {
            return;
        };
        rules.retain(|rule| rule.holds(now_unix_ns));
        if lock.replace(&rules).is_ok() {
            // What cannot be decoded cannot be switched.
            let _ = apply(session, &rules, now_unix_ns);
        }
    }

    fn look_at_rules(&mut self, session: &SessionReader, file: &RulesFile, notices: &mut Vec<Notice>) {
        self.sequence = file.sequence();
        let now_unix_ns = unix_ns();
        let rules = match file.read() {
            Ok((sequence, rules)) => {
                self.sequence = sequence;
                rules
            }
            Err(error) => {
                notices.push((
                    Level::Warn,
                    format!(
                        "live control: no rule holds any more, {error}; set them again with `logdrive level`"
                    ),
                ));
                // As above.
                let _ = apply(session, &[], now_unix_ns);
                Vec::new()
            }
        };
        notices.extend(changes(&self.rules, &rules, now_unix_ns));
        self.ends_unix_ns = rules
            .iter()
            .map(|rule| rule.until_unix_ns)
            .filter(|until| *until != 0)
            .min()
            .unwrap_or(0);
        self.rules = rules;
        self.find_sampled(session);
    }

    /// Looks which callsites are sampled; returns those that are not any more.
    fn find_sampled(&mut self, session: &SessionReader) -> Vec<Sampled> {
        let is_sampled = |entry: &ControlEntry| matches!(entry.control(), EVERY | PER_SECOND | PER_KEY);
        let found: Vec<(u32, Switch)> = (1..)
            .map_while(|id| session.control(id).map(|entry| (id, entry)))
            .filter(|(_, entry)| is_sampled(entry))
            .map(|(id, entry)| (id, entry.switch()))
            .collect();
        let same = |sampled: &Sampled| found.contains(&(sampled.id, sampled.switch));
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.sampled).into_iter().partition(same);
        let known: Vec<u32> = kept.iter().map(|sampled| sampled.id).collect();
        self.sampled = kept;
        let fresh: Vec<_> = found.into_iter().filter(|(id, _)| !known.contains(id)).collect();
        if !fresh.is_empty() {
            let table: BTreeMap<u32, Vec<u8>> = session.callsites().unwrap_or_default().into_iter().collect();
            for (id, switch) in fresh {
                let bytes = table.get(&id).map_or(&[][..], Vec::as_slice);
                self.sampled.push(self.sampled(id, switch, bytes));
            }
        }
        gone
    }

    fn sampled(&self, id: u32, switch: Switch, callsite: &[u8]) -> Sampled {
        let callsite = Callsite::decode(callsite).unwrap_or_default();
        Sampled {
            id,
            place: place_of(id, &callsite),
            limit: match switch.control {
                PER_SECOND => format!("{} per second", switch.parameter),
                PER_KEY => {
                    let limit = KeyedLimit::of(switch.parameter);
                    format!(
                        "{} per second and {}",
                        limit.per_second,
                        self.field_of(limit, &callsite)
                    )
                }
                _ => String::new(),
            },
            switch,
            refilled_at_ns: self.ticked_at_ns,
            carry: 0,
        }
    }

    fn field_of(&self, limit: KeyedLimit, callsite: &Callsite) -> String {
        let named = |action: &Action| match action {
            Action::PerKey { field, .. } if KeyedLimit::named(field) == limit.key => Some(field.clone()),
            _ => None,
        };
        match limit.key {
            KeyField::Index(index) => callsite
                .fields
                .get(usize::from(index))
                .map(|field| field.name.clone()),
            KeyField::Named(_) => self.rules.iter().find_map(|rule| named(&rule.action)),
        }
        .unwrap_or_else(|| "key".to_owned())
    }

    /// Lets more calls pass, as the time that has gone by allows.
    fn refill(&mut self, session: &SessionReader) {
        let now_ns = self.ticked_at_ns;
        for sampled in self
            .sampled
            .iter_mut()
            .filter(|sampled| sampled.switch.control == PER_SECOND)
        {
            let since_ns = now_ns.saturating_sub(sampled.refilled_at_ns).min(SECOND_NS);
            sampled.refilled_at_ns = now_ns;
            let per_second = u32::try_from(sampled.switch.parameter).unwrap_or(u32::MAX);
            // Both factors are below 2^32.
            let billionths = since_ns * u64::from(per_second) + sampled.carry;
            sampled.carry = billionths % SECOND_NS;
            let calls = u32::try_from(billionths / SECOND_NS).unwrap_or(u32::MAX);
            if let Some(entry) = session.control(sampled.id).filter(|_| calls > 0) {
                entry.add_budget(calls, per_second);
            }
        }
    }

    /// Says how many records each sampled callsite has left out since the last time, where its records do not.
    fn report_sampled(&mut self, session: &SessionReader, notices: &mut Vec<Notice>) {
        let gone = self.find_sampled(session);
        let mut left_out = (0, 0u64);
        let mut lines = 0;
        for sampled in self.sampled.iter().chain(&gone) {
            let now = session
                .counts(sampled.id)
                .map_or(0, |counts| counts.totals().sampled_out);
            let before = self.reported.insert(sampled.id, now).unwrap_or(0);
            let count = now.wrapping_sub(before);
            // A correction may make the count run back for a moment.
            if count.cast_signed() <= 0 || sampled.limit.is_empty() {
                continue;
            }
            if lines == SAMPLED_LINES_MAX {
                left_out = (left_out.0 + 1, left_out.1.wrapping_add(count));
                continue;
            }
            lines += 1;
            notices.push((
                Level::Info,
                format!(
                    "{count} records sampled out at {} ({} kept)",
                    sampled.place, sampled.limit
                ),
            ));
        }
        if left_out.0 > 0 {
            let (callsites, count) = left_out;
            notices.push((
                Level::Info,
                format!("{count} records sampled out at {callsites} further callsites"),
            ));
        }
    }
}

/// Name of a callsite in the log, in the form that lines have.
fn place_of(id: u32, callsite: &Callsite) -> String {
    let file = callsite.file.rsplit(['/', '\\']).next().unwrap_or("");
    match (file, callsite.target_or_module()) {
        ("", "") => format!("callsite {id}"),
        ("", target) => format!("{target} (callsite {id})"),
        (file, _) => format!("{file}:{}", callsite.line),
    }
}

/// Notices about a change of rules.
fn changes(before: &[Rule], after: &[Rule], now_unix_ns: u64) -> Vec<Notice> {
    let is_in =
        |rules: &[Rule], rule: &Rule| rules.iter().any(|other| other.made_unix_ns == rule.made_unix_ns);
    let is_replaced = |rule: &Rule| {
        after
            .iter()
            .any(|other| other.selector == rule.selector && kind_of(&other.action) == kind_of(&rule.action))
    };
    let ended = before
        .iter()
        .filter(|rule| !is_in(after, rule) && !is_replaced(rule))
        .map(|rule| {
            let why = if rule.holds(now_unix_ns) {
                ""
            } else {
                ", its time is over"
            };
            format!("live control: ended: {}{why}", describe_rule(rule))
        });
    let made = after.iter().filter(|rule| !is_in(before, rule)).map(|rule| {
        let span = match rule.until_unix_ns.saturating_sub(rule.made_unix_ns) / SECOND_NS {
            _ if rule.until_unix_ns == 0 => String::new(),
            seconds => format!(", for {}", describe_span(seconds)),
        };
        format!("live control: {}{span}", describe_rule(rule))
    });
    let mut texts: Vec<String> = ended.chain(made).collect();
    if texts.len() > CHANGE_LINES_MAX {
        let rest = texts.len() - CHANGE_LINES_MAX + 1;
        texts.truncate(CHANGE_LINES_MAX - 1);
        texts.push(format!("live control: {rest} further rules were set or ended"));
    }
    texts.into_iter().map(|text| (Level::Info, text)).collect()
}
