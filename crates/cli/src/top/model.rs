//! The model of the screen, and the effects of keys on it. No terminal, no session and no clock in here: looks come in as
//! samples, keys as commands, and what is to be done outside goes out as an [`Effect`].

use super::args::ProcessSort;
use super::edit::{Change, Edit, Scope, read_sample};
use super::limits::{HISTORY, INPUT_CHARACTERS_MAX, INTERVAL_NS_MAX, INTERVAL_NS_MIN};
use super::rates::{ProcessRow, SiteRow, of_processes, of_sites};
use super::sample::{Life, Sample, Sites};
use crate::control_args::SortBy;
use logdrive_drain::control::{Action, Rule, RuleKind, Selector};
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};

/// List that keys are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Processes,
    Sites,
}

/// Question that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing: keys are commands.
    Watch,
    /// A filter is typed; what it was before.
    Filter { before: String },
    /// A level is chosen.
    Level(Scope),
    /// A sample is typed.
    Sample(String),
    /// The keys are shown.
    Help,
}

/// Movement in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    By(isize),
    First,
    Last,
}

/// Command of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    Suspend,
    Redraw,
    Look,
    Go(Step),
    OtherPane,
    Back,
    Sort,
    Pause,
    Span,
    Faster,
    Slower,
    AskFilter,
    AskLevel,
    AskSample,
    Mute,
    TakeBack,
    Help,
    Type(char),
    Erase,
    EraseAll,
    Accept,
    Cancel,
    OtherScope,
    /// The lowest level that passes, by its code; none for off.
    PickLevel(Option<u8>),
}

/// Effect of a command outside of the model.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    Quit,
    Suspend,
    Redraw,
    /// Look at the sessions now.
    Look,
    Change(Change),
}

/// Tone of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Done,
    Doubt,
    Wrong,
}

/// For how long changes hold: for ever, or so many seconds.
const SPANS_S: [u64; 5] = [0, 60, 600, 3_600, 86_400];

/// The steps of + and -.
const INTERVALS_NS: [u64; 7] = [
    INTERVAL_NS_MIN,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) pane: Pane,
    pub(super) mode: Mode,
    pub(super) paused: bool,
    pub(super) interval_ns: u64,
    pub(super) process_sort: ProcessSort,
    pub(super) site_sort: SortBy,
    pub(super) process_filter: String,
    pub(super) site_filter: String,
    pub(super) message: Option<(Tone, String)>,
    pub(super) troubles: Vec<String>,
    /// Places in which sessions are looked for, in words.
    pub(super) places: Vec<String>,
    /// Whether anything has been looked at.
    pub(super) has_looked: bool,
    span: usize,
    has_rates: bool,
    /// Whether somebody has chosen what is selected.
    has_moved: bool,
    sample: Option<Sample>,
    rows: Vec<ProcessRow>,
    sites_seen: Option<Sites>,
    sites: Vec<SiteRow>,
    /// The key of the selected process, and the number of the selected callsite.
    selected: Option<String>,
    selected_site: Option<u32>,
    /// Records a second of the past, the newest last.
    history: HashMap<String, VecDeque<u64>>,
}

impl Model {
    pub(super) fn new(interval_ns: u64, sort: ProcessSort, filter: &str) -> Self {
        Self {
            pane: Pane::Processes,
            mode: Mode::Watch,
            paused: false,
            interval_ns,
            process_sort: sort,
            site_sort: SortBy::Records,
            process_filter: filter.to_owned(),
            site_filter: String::new(),
            message: None,
            troubles: Vec::new(),
            places: Vec::new(),
            has_looked: false,
            span: 0,
            has_rates: false,
            has_moved: false,
            sample: None,
            rows: Vec::new(),
            sites_seen: None,
            sites: Vec::new(),
            selected: None,
            selected_site: None,
            history: HashMap::new(),
        }
    }

    /// Takes a look at all processes.
    pub(super) fn take(&mut self, sample: Sample) {
        self.has_looked = true;
        self.troubles.clone_from(&sample.troubles);
        let has_rates = self.sample.is_some();
        let are_first_rates = has_rates && !self.has_rates;
        self.has_rates = has_rates;
        self.rows = of_processes(self.sample.as_ref(), sample.clone());
        self.sample = Some(sample);
        let keys: Vec<&String> = self.rows.iter().map(|row| &row.process.key).collect();
        self.history.retain(|key, _| keys.contains(&key));
        for row in self.rows.iter().filter(|_| has_rates) {
            let past = self.history.entry(row.process.key.clone()).or_default();
            past.push_back(row.rates.records_per_s.round() as u64);
            if past.len() > HISTORY {
                past.pop_front();
            }
        }
        self.sort_rows();
        // Only now is it known who is the busiest. From here on the selection stays with its process.
        if are_first_rates && !self.has_moved {
            self.select(None);
        }
        self.keep_selection();
    }

    /// Takes a look at the callsites of the selected process.
    pub(super) fn take_sites(&mut self, sites: Sites) {
        if self.selected.as_ref() != Some(&sites.key) {
            return;
        }
        self.sites = of_sites(self.sites_seen.as_ref(), sites.clone());
        self.sites_seen = Some(sites);
        self.sort_sites();
        self.keep_site_selection();
    }

    /// The processes that pass the filter, in their order.
    pub(super) fn processes(&self) -> impl Iterator<Item = &ProcessRow> {
        self.rows.iter().filter(|row| self.is_shown(row))
    }

    /// The callsites that pass the filter, in their order.
    pub(super) fn sites(&self) -> impl Iterator<Item = &SiteRow> {
        self.sites.iter().filter(|row| self.is_site_shown(row))
    }

    /// Number of processes, whether shown or not.
    pub(super) fn process_count(&self) -> usize {
        self.rows.len()
    }

    /// The selected process.
    pub(super) fn process(&self) -> Option<&ProcessRow> {
        let key = self.selected.as_ref()?;
        self.processes().find(|row| row.process.key == *key)
    }

    /// The selected callsite.
    pub(super) fn site(&self) -> Option<&SiteRow> {
        let id = self.selected_site?;
        self.sites().find(|row| row.site.id == id)
    }

    /// The key of the process whose callsites are wanted.
    pub(super) fn wanted(&self) -> Option<&str> {
        let process = &self.process()?.process;
        let is_there = matches!(process.life, Life::Alive | Life::Away);
        is_there.then_some(process.key.as_str())
    }

    /// Row of the selected process among those that are shown.
    pub(super) fn process_place(&self) -> Option<usize> {
        let key = self.selected.as_ref()?;
        self.processes().position(|row| row.process.key == *key)
    }

    /// Row of the selected callsite among those that are shown.
    pub(super) fn site_place(&self) -> Option<usize> {
        let id = self.selected_site?;
        self.sites().position(|row| row.site.id == id)
    }

    /// Records a second of the selected process, the newest last.
    pub(super) fn past(&self) -> Vec<u64> {
        let past = self.selected.as_ref().and_then(|key| self.history.get(key));
        past.map_or_else(Vec::new, |past| past.iter().copied().collect())
    }

    /// The rules that hold in the selected process.
    pub(super) fn rules(&self) -> &[Rule] {
        match &self.sites_seen {
            Some(sites) if self.selected.as_ref() == Some(&sites.key) => &sites.rules,
            _ => &[],
        }
    }

    /// For how long changes hold, in seconds; 0 for ever.
    pub(super) fn span_s(&self) -> u64 {
        SPANS_S.get(self.span).copied().unwrap_or(0)
    }

    /// Says something in the line for messages.
    pub(super) fn say(&mut self, tone: Tone, text: impl Into<String>) {
        self.message = Some((tone, text.into()));
    }

    /// Does what a key means.
    pub(super) fn act(&mut self, command: Command) -> Effect {
        self.message = None;
        match command {
            Command::Quit => return Effect::Quit,
            Command::Suspend => return Effect::Suspend,
            Command::Redraw => return Effect::Redraw,
            Command::Look => return Effect::Look,
            Command::Go(step) => return self.go(step),
            Command::OtherPane => self.other_pane(),
            Command::Back => self.back(),
            Command::Sort => self.next_sort(),
            Command::Pause => self.paused = !self.paused,
            Command::Span => self.span = (self.span + 1) % SPANS_S.len(),
            Command::Faster => self.change_interval(Ordering::Less),
            Command::Slower => self.change_interval(Ordering::Greater),
            Command::AskFilter => {
                self.mode = Mode::Filter {
                    before: self.filter().clone(),
                }
            }
            Command::AskLevel => self.ask_level(),
            Command::AskSample => self.ask_sample(),
            Command::Mute => return self.mute(),
            Command::TakeBack => return self.take_back(),
            Command::Help => self.mode = Mode::Help,
            Command::Type(letter) => self.type_letter(letter),
            Command::Erase | Command::EraseAll => self.erase(command == Command::EraseAll),
            Command::Accept => return self.accept(),
            Command::Cancel => self.cancel(),
            Command::OtherScope => self.other_scope(),
            Command::PickLevel(lowest) => return self.pick_level(lowest),
        }
        Effect::Nothing
    }

    fn filter(&mut self) -> &mut String {
        match self.pane {
            Pane::Processes => &mut self.process_filter,
            Pane::Sites => &mut self.site_filter,
        }
    }

    fn is_shown(&self, row: &ProcessRow) -> bool {
        let process = &row.process;
        let number = process.pid.to_string();
        let texts = [
            process.app.as_str(),
            &number,
            process.via.name(),
            process.life.name(),
            &process.place,
        ];
        contains_any(&texts, &self.process_filter)
    }

    fn is_site_shown(&self, row: &SiteRow) -> bool {
        let callsite = &row.site.callsite;
        let place = format!("{}:{}", callsite.file, callsite.line);
        let texts = [
            callsite.target_or_module(),
            &place,
            &callsite.message,
            callsite.level.name(),
            &row.site.state,
        ];
        contains_any(&texts, &self.site_filter)
    }

    fn go(&mut self, step: Step) -> Effect {
        self.has_moved = true;
        match self.pane {
            Pane::Processes => {
                let keys: Vec<String> = self.processes().map(|row| row.process.key.clone()).collect();
                let place = moved(self.process_place(), step, keys.len());
                let key = place.and_then(|place| keys.get(place)).cloned();
                if key == self.selected {
                    return Effect::Nothing;
                }
                self.select(key);
                // The callsites of another process are looked for at once.
                Effect::Look
            }
            Pane::Sites => {
                let ids: Vec<u32> = self.sites().map(|row| row.site.id).collect();
                let place = moved(self.site_place(), step, ids.len());
                self.selected_site = place.and_then(|place| ids.get(place)).copied();
                Effect::Nothing
            }
        }
    }

    fn select(&mut self, key: Option<String>) {
        if self.selected != key {
            self.selected = key;
            self.sites.clear();
            self.sites_seen = None;
            self.selected_site = None;
        }
    }

    fn keep_selection(&mut self) {
        if self.process_place().is_none() {
            let first = self.processes().next().map(|row| row.process.key.clone());
            self.select(first);
        }
    }

    /// As long as keys are about processes, the loudest callsite is selected.
    fn keep_site_selection(&mut self) {
        if self.pane == Pane::Processes || self.site_place().is_none() {
            let first = self.sites().next().map(|row| row.site.id);
            self.selected_site = first;
        }
    }

    fn other_pane(&mut self) {
        self.pane = match self.pane {
            Pane::Processes if self.process().is_some() => Pane::Sites,
            _ => Pane::Processes,
        };
    }

    /// Out of the callsites; otherwise the filter goes.
    fn back(&mut self) {
        if self.pane == Pane::Sites && self.site_filter.is_empty() {
            self.pane = Pane::Processes;
        } else {
            self.filter().clear();
        }
        self.keep_selection();
        self.keep_site_selection();
    }

    fn next_sort(&mut self) {
        match self.pane {
            Pane::Processes => {
                self.process_sort = match self.process_sort {
                    ProcessSort::Records => ProcessSort::Bytes,
                    ProcessSort::Bytes => ProcessSort::Drops,
                    ProcessSort::Drops => ProcessSort::Fill,
                    ProcessSort::Fill => ProcessSort::Lag,
                    ProcessSort::Lag => ProcessSort::App,
                    ProcessSort::App => ProcessSort::Pid,
                    ProcessSort::Pid => ProcessSort::Records,
                };
                self.sort_rows();
            }
            Pane::Sites => {
                self.site_sort = match self.site_sort {
                    SortBy::Records => SortBy::Bytes,
                    SortBy::Bytes => SortBy::Drops,
                    SortBy::Drops => SortBy::Sampled,
                    SortBy::Sampled => SortBy::Id,
                    SortBy::Id => SortBy::Records,
                };
                self.sort_sites();
            }
        }
    }

    fn sort_rows(&mut self) {
        let by = self.process_sort;
        self.rows.sort_by(|a, b| compare_processes(by, a, b));
    }

    fn sort_sites(&mut self) {
        let by = self.site_sort;
        self.sites.sort_by(|a, b| compare_sites(by, a, b));
    }

    fn change_interval(&mut self, to: Ordering) {
        let next = match to {
            Ordering::Less => INTERVALS_NS.iter().rev().find(|ns| **ns < self.interval_ns),
            _ => INTERVALS_NS.iter().find(|ns| **ns > self.interval_ns),
        };
        self.interval_ns = next
            .copied()
            .unwrap_or(self.interval_ns)
            .clamp(INTERVAL_NS_MIN, INTERVAL_NS_MAX);
    }

    fn type_letter(&mut self, letter: char) {
        let is_filter = matches!(self.mode, Mode::Filter { .. });
        let text = match &mut self.mode {
            Mode::Sample(text) => text,
            Mode::Filter { .. } => self.filter(),
            _ => return,
        };
        if text.chars().count() < INPUT_CHARACTERS_MAX {
            text.push(letter);
        }
        if is_filter {
            self.keep_selection();
            self.keep_site_selection();
        }
    }

    fn erase(&mut self, all: bool) {
        let text = match &mut self.mode {
            Mode::Sample(text) => text,
            Mode::Filter { .. } => self.filter(),
            _ => return,
        };
        if all {
            text.clear();
        } else {
            text.pop();
        }
        self.keep_selection();
        self.keep_site_selection();
    }

    fn accept(&mut self) -> Effect {
        match std::mem::replace(&mut self.mode, Mode::Watch) {
            Mode::Sample(text) => self.set_sample(&text),
            Mode::Filter { .. } => Effect::Look,
            Mode::Watch if self.pane == Pane::Processes => {
                self.other_pane();
                Effect::Nothing
            }
            _ => Effect::Nothing,
        }
    }

    fn cancel(&mut self) {
        if let Mode::Filter { before } = std::mem::replace(&mut self.mode, Mode::Watch) {
            *self.filter() = before;
            self.keep_selection();
            self.keep_site_selection();
        }
    }

    fn ask_level(&mut self) {
        match (self.pane, self.wanted().is_some(), self.site().is_some()) {
            (_, false, _) => self.say(Tone::Doubt, "no live process is selected"),
            (Pane::Sites, true, true) => self.mode = Mode::Level(Scope::Site),
            _ => self.mode = Mode::Level(Scope::Process),
        }
    }

    fn other_scope(&mut self) {
        let has_site = self.site().is_some();
        if let Mode::Level(scope) = &mut self.mode {
            *scope = match scope {
                Scope::Process if has_site => Scope::Site,
                Scope::Site => Scope::Module,
                _ => Scope::Process,
            };
        }
    }

    /// Which callsites a scope means, as things are selected.
    pub(super) fn selector(&self, scope: Scope) -> Option<Selector> {
        let site = self.site().map(|row| &row.site);
        match scope {
            Scope::Process => Some(Selector::All),
            Scope::Module => {
                let module = site?.callsite.target_or_module();
                (!module.is_empty()).then(|| Selector::Module(module.to_owned()))
            }
            Scope::Site => Some(Selector::Callsite(site?.id)),
        }
    }

    /// The scope of keys that ask nothing.
    fn scope(&self) -> Scope {
        match self.pane {
            Pane::Processes => Scope::Process,
            Pane::Sites => Scope::Site,
        }
    }

    fn change(&mut self, edit: Edit) -> Effect {
        let Some(key) = self.wanted().map(str::to_owned) else {
            self.say(Tone::Doubt, "no live process is selected");
            return Effect::Nothing;
        };
        Effect::Change(Change {
            key,
            edit,
            for_ns: self.span_s().saturating_mul(1_000_000_000),
        })
    }

    fn pick_level(&mut self, lowest: Option<u8>) -> Effect {
        let Mode::Level(scope) = std::mem::replace(&mut self.mode, Mode::Watch) else {
            return Effect::Nothing;
        };
        match self.selector(scope) {
            Some(selector) => self.change(Edit::Set(Action::Level(lowest), selector)),
            None => {
                self.say(Tone::Doubt, "no callsite with a module is selected");
                Effect::Nothing
            }
        }
    }

    fn mute(&mut self) -> Effect {
        let Some(selector) = self.selector(self.scope()) else {
            self.say(Tone::Doubt, "no callsite is selected");
            return Effect::Nothing;
        };
        let is_mute = |rule: &Rule| rule.action == Action::Mute && rule.selector == selector;
        let edit = if self.rules().iter().any(is_mute) {
            Edit::Remove(RuleKind::Mute, selector)
        } else {
            Edit::Set(Action::Mute, selector)
        };
        self.change(edit)
    }

    fn ask_sample(&mut self) {
        if self.wanted().is_none() {
            self.say(Tone::Doubt, "no live process is selected");
        } else if self.selector(self.scope()).is_none() {
            self.say(Tone::Doubt, "no callsite is selected");
        } else {
            self.mode = Mode::Sample(String::new());
        }
    }

    fn set_sample(&mut self, text: &str) -> Effect {
        let Some(selector) = self.selector(self.scope()) else {
            return Effect::Nothing;
        };
        match read_sample(text) {
            Ok(Some(action)) => self.change(Edit::Set(action, selector)),
            Ok(None) => self.change(Edit::Remove(RuleKind::Sample, selector)),
            Err(expected) => {
                self.say(Tone::Wrong, expected);
                self.mode = Mode::Sample(text.to_owned());
                Effect::Nothing
            }
        }
    }

    fn take_back(&mut self) -> Effect {
        match self.selector(self.scope()) {
            None => {
                self.say(Tone::Doubt, "no callsite is selected");
                Effect::Nothing
            }
            Some(Selector::All) => self.change(Edit::Reset),
            Some(selector) => self.change(Edit::Clear(selector)),
        }
    }
}

fn contains_any(texts: &[&str], wanted: &str) -> bool {
    let wanted = wanted.to_lowercase();
    wanted.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&wanted))
}

fn moved(place: Option<usize>, step: Step, count: usize) -> Option<usize> {
    let last = count.checked_sub(1)?;
    Some(match (step, place) {
        (Step::First, _) | (Step::By(_), None) => 0,
        (Step::Last, _) => last,
        (Step::By(by), Some(place)) => place.saturating_add_signed(by).min(last),
    })
}

fn compare_processes(by: ProcessSort, a: &ProcessRow, b: &ProcessRow) -> Ordering {
    // A lag that nobody knows is the longest.
    let lag = |row: &ProcessRow| row.rates.lag_s.unwrap_or(f64::INFINITY);
    let first = match by {
        ProcessSort::Records => b.rates.records_per_s.total_cmp(&a.rates.records_per_s),
        ProcessSort::Bytes => b.rates.bytes_per_s.total_cmp(&a.rates.bytes_per_s),
        ProcessSort::Drops => b.rates.drops_per_s.total_cmp(&a.rates.drops_per_s),
        ProcessSort::Fill => b.process.fill.total_cmp(&a.process.fill),
        ProcessSort::Lag => lag(b).total_cmp(&lag(a)),
        ProcessSort::App => a.process.app.cmp(&b.process.app),
        ProcessSort::Pid => Ordering::Equal,
    };
    let then = match by {
        ProcessSort::Drops => b.process.dropped.cmp(&a.process.dropped),
        ProcessSort::App | ProcessSort::Pid => Ordering::Equal,
        _ => b.process.committed.cmp(&a.process.committed),
    };
    let names = || (a.process.pid, &a.process.key).cmp(&(b.process.pid, &b.process.key));
    first.then(then).then_with(names)
}

fn compare_sites(by: SortBy, a: &SiteRow, b: &SiteRow) -> Ordering {
    let (of_a, of_b) = (a.site.totals, b.site.totals);
    let (first, then) = match by {
        SortBy::Records => (
            b.rates.records_per_s.total_cmp(&a.rates.records_per_s),
            of_b.records.cmp(&of_a.records),
        ),
        SortBy::Bytes => (
            b.rates.bytes_per_s.total_cmp(&a.rates.bytes_per_s),
            of_b.bytes.cmp(&of_a.bytes),
        ),
        SortBy::Drops => (
            b.rates.drops_per_s.total_cmp(&a.rates.drops_per_s),
            of_b.dropped.cmp(&of_a.dropped),
        ),
        SortBy::Sampled => (
            b.rates.sampled_out_per_s.total_cmp(&a.rates.sampled_out_per_s),
            of_b.sampled_out.cmp(&of_a.sampled_out),
        ),
        SortBy::Id => (Ordering::Equal, Ordering::Equal),
    };
    first.then(then).then(a.site.id.cmp(&b.site.id))
}

/// The loudest callsites by what a snapshot sorts by.
pub(super) fn sort_sites(rows: &mut [SiteRow]) {
    rows.sort_by(|a, b| compare_sites(SortBy::Records, a, b));
}

#[cfg(test)]
mod tests;
