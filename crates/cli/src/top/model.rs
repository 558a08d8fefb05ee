//! The model of the screen, and the effects of keys on it. No terminal, no session and no clock in here: looks come in
//! as samples, keys as commands, and what is to be done outside goes out as an [`Effect`].

use super::args::ProcessSort;
use super::limits::{INPUT_CHARACTERS_MAX, INTERVAL_NS_MIN};
use super::list::{List, Step};
use super::sample::read_sample;
use super::source::Sample;
use crate::control_args::SortBy;
use crate::edit::Edit;
use crate::rates::{ProcessRow, SiteRow, process_rows, site_rows};
use crate::watched_session::{Sites, State};
use logdrive_drain::control::{Action, Rule, RuleKind, Selector};
use std::path::{Path, PathBuf};

/// List that keys are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Processes,
    Sites,
}

/// Scope of a level that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Process,
    Module,
    Site,
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
    /// Change the rules of this session.
    Change(PathBuf, Edit),
}

/// Tone of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Done,
    Warning,
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
    pub(super) processes: List<ProcessRow>,
    /// Callsites of the selected process.
    pub(super) sites: List<SiteRow>,
    pub(super) message: Option<(Tone, String)>,
    pub(super) troubles: Vec<String>,
    /// Places in which sessions are searched, in words.
    pub(super) places: Vec<String>,
    /// Rules that hold in the selected process.
    pub(super) rules: Vec<Rule>,
    /// Number of looks so far, and time of the last one.
    looks: (u64, u64),
    /// Time of the last refresh of the callsites.
    sites_at_ns: Option<u64>,
    span: usize,
    /// Whether the user has chosen the selected row.
    has_moved: bool,
}

impl Model {
    pub(super) fn new(interval_ns: u64, sort: ProcessSort, filter: &str) -> Self {
        Self {
            pane: Pane::Processes,
            mode: Mode::Watch,
            paused: false,
            interval_ns,
            processes: List::new(sort, filter),
            sites: List::new(SortBy::Records, ""),
            message: None,
            troubles: Vec::new(),
            places: Vec::new(),
            rules: Vec::new(),
            looks: (0, 0),
            sites_at_ns: None,
            span: 0,
            has_moved: false,
        }
    }

    /// Takes a snapshot of all processes.
    pub(super) fn take(&mut self, sample: Sample) {
        self.troubles = sample.troubles;
        let (count, before_ns) = self.looks;
        self.looks = (count + 1, sample.at_ns);
        let before = std::mem::take(&mut self.processes.rows);
        let seconds = seconds_between(before_ns, sample.at_ns);
        self.processes
            .set(process_rows(before, sample.processes, seconds));
        // Only now is it known who is the busiest. From here on the selection stays with its process.
        let are_first_rates = count == 1;
        if (are_first_rates && !self.has_moved) || self.processes.place().is_none() {
            self.select_first_process();
        }
    }

    /// Takes a snapshot of the callsites of a process, if that is the selected one.
    pub(super) fn take_sites(&mut self, session: &Path, at_ns: u64, sites: Sites) {
        if self.processes.key().is_none_or(|key| key != session) {
            return;
        }
        let seconds = self
            .sites_at_ns
            .map_or(0.0, |before_ns| seconds_between(before_ns, at_ns));
        let rows = site_rows(&self.sites.rows, sites.sites, seconds);
        self.sites.set(rows);
        self.rules = sites.rules;
        self.sites_at_ns = Some(at_ns);
        self.keep_site_selection();
    }

    /// Whether there is a snapshot.
    pub(super) fn has_looked(&self) -> bool {
        self.looks.0 > 0
    }

    /// The path of the session whose callsites are wanted.
    pub(super) fn wanted(&self) -> Option<&Path> {
        let session = &self.processes.selected()?.session;
        let is_there = matches!(session.state_at_agent(), State::Alive | State::Away);
        is_there.then_some(session.at.path.as_path())
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
            Command::Sort => match self.pane {
                Pane::Processes => self.processes.next_sort(),
                Pane::Sites => self.sites.next_sort(),
            },
            Command::Pause => self.paused = !self.paused,
            Command::Span => self.span = (self.span + 1) % SPANS_S.len(),
            Command::Faster => {
                let next = INTERVALS_NS.iter().rev().find(|ns| **ns < self.interval_ns);
                self.interval_ns = next.copied().unwrap_or(INTERVAL_NS_MIN);
            }
            Command::Slower => {
                let next = INTERVALS_NS.iter().find(|ns| **ns > self.interval_ns);
                self.interval_ns = next.copied().unwrap_or(self.interval_ns);
            }
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
            Command::Type(letter) => self.edit_typed(|text| {
                if text.chars().count() < INPUT_CHARACTERS_MAX {
                    text.push(letter);
                }
            }),
            Command::Erase => self.edit_typed(|text| {
                text.pop();
            }),
            Command::EraseAll => self.edit_typed(String::clear),
            Command::Accept => return self.accept(),
            Command::Cancel => {
                if let Mode::Filter { before } = std::mem::replace(&mut self.mode, Mode::Watch) {
                    *self.filter() = before;
                    self.keep_selection();
                }
            }
            Command::OtherScope => self.other_scope(),
            Command::PickLevel(lowest) => return self.pick_level(lowest),
        }
        Effect::Nothing
    }

    fn filter(&mut self) -> &mut String {
        match self.pane {
            Pane::Processes => &mut self.processes.filter,
            Pane::Sites => &mut self.sites.filter,
        }
    }

    fn go(&mut self, step: Step) -> Effect {
        self.has_moved = true;
        match self.pane {
            Pane::Processes if self.processes.go(step) => {
                self.forget_sites();
                // The callsites of another process are read at once.
                return Effect::Look;
            }
            Pane::Processes => {}
            Pane::Sites => {
                self.sites.go(step);
            }
        }
        Effect::Nothing
    }

    fn forget_sites(&mut self) {
        self.sites.set(Vec::new());
        self.sites.select(None);
        self.rules.clear();
        self.sites_at_ns = None;
    }

    fn select_first_process(&mut self) {
        if self.processes.select_first() {
            self.forget_sites();
        }
    }

    /// Selects what is shown, after a filter has changed.
    fn keep_selection(&mut self) {
        if self.processes.place().is_none() {
            self.select_first_process();
        }
        self.keep_site_selection();
    }

    /// As long as keys are about processes, the loudest callsite is selected.
    fn keep_site_selection(&mut self) {
        if self.pane == Pane::Processes || self.sites.place().is_none() {
            self.sites.select_first();
        }
    }

    fn other_pane(&mut self) {
        self.pane = match self.pane {
            Pane::Processes if self.processes.selected().is_some() => Pane::Sites,
            _ => Pane::Processes,
        };
    }

    /// Out of the callsites; otherwise the filter goes.
    fn back(&mut self) {
        if self.pane == Pane::Sites && self.sites.filter.is_empty() {
            self.pane = Pane::Processes;
        } else {
            self.filter().clear();
        }
        self.keep_selection();
    }

    /// Edits what is typed at the moment.
    fn edit_typed(&mut self, edit: impl FnOnce(&mut String)) {
        match &mut self.mode {
            Mode::Sample(text) => edit(text),
            Mode::Filter { .. } => {
                edit(self.filter());
                self.keep_selection();
            }
            _ => {}
        }
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

    fn ask_level(&mut self) {
        if self.wanted().is_none() {
            return self.say(Tone::Warning, "no live process is selected");
        }
        self.mode = Mode::Level(match self.sites.selected() {
            Some(_) => self.scope(),
            None => Scope::Process,
        });
    }

    fn other_scope(&mut self) {
        let has_site = self.sites.selected().is_some();
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
        let site = self.sites.selected().map(|row| &row.site);
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
    pub(super) fn scope(&self) -> Scope {
        match self.pane {
            Pane::Processes => Scope::Process,
            Pane::Sites => Scope::Site,
        }
    }

    fn change(&mut self, edit: Edit) -> Effect {
        match self.wanted().map(Path::to_owned) {
            Some(session) => Effect::Change(session, edit),
            None => self.refuse("no live process is selected"),
        }
    }

    fn set(&mut self, action: Action, selector: Selector) -> Effect {
        let for_ns = self.span_s().saturating_mul(1_000_000_000);
        self.change(Edit::Set(vec![(action, selector)], for_ns))
    }

    fn refuse(&mut self, why: &str) -> Effect {
        self.say(Tone::Warning, why);
        Effect::Nothing
    }

    fn pick_level(&mut self, lowest: Option<u8>) -> Effect {
        let Mode::Level(scope) = std::mem::replace(&mut self.mode, Mode::Watch) else {
            return Effect::Nothing;
        };
        match self.selector(scope) {
            Some(selector) => self.set(Action::Level(lowest), selector),
            None => self.refuse("no callsite with a module is selected"),
        }
    }

    fn mute(&mut self) -> Effect {
        let Some(selector) = self.selector(self.scope()) else {
            return self.refuse("no callsite is selected");
        };
        let is_mute = |rule: &Rule| rule.action == Action::Mute && rule.selector == selector;
        match self.rules.iter().any(is_mute) {
            true => self.change(Edit::Remove(RuleKind::Mute, vec![selector])),
            false => self.set(Action::Mute, selector),
        }
    }

    fn ask_sample(&mut self) {
        if self.wanted().is_none() {
            self.say(Tone::Warning, "no live process is selected");
        } else if self.selector(self.scope()).is_none() {
            self.say(Tone::Warning, "no callsite is selected");
        } else {
            self.mode = Mode::Sample(String::new());
        }
    }

    fn set_sample(&mut self, text: &str) -> Effect {
        let Some(selector) = self.selector(self.scope()) else {
            return Effect::Nothing;
        };
        match read_sample(text) {
            Ok(Some(action)) => self.set(action, selector),
            Ok(None) => self.change(Edit::Remove(RuleKind::Sample, vec![selector])),
            Err(expected) => {
                self.say(Tone::Wrong, expected);
                self.mode = Mode::Sample(text.to_owned());
                Effect::Nothing
            }
        }
    }

    fn take_back(&mut self) -> Effect {
        match self.selector(self.scope()) {
            None => self.refuse("no callsite is selected"),
            Some(Selector::All) => self.change(Edit::Reset),
            Some(selector) => self.change(Edit::Clear(selector)),
        }
    }
}

fn seconds_between(before_ns: u64, now_ns: u64) -> f64 {
    now_ns.saturating_sub(before_ns) as f64 / 1e9
}

#[cfg(test)]
mod tests;
