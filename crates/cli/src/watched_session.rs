//! Sessions as commands show them: the facts about each, its numbers, its callsites and its rules, wherever its memory
//! comes from.

use crate::error::CliError;
use crate::instant::now_unix_ns;
use crate::output::{process_title, safe};
use crate::session_finder::{Located, SessionFinder};
use logdrive_agent::AgentError;
use logdrive_drain::control::{Action, Rule, is_off, sampled_variants, selects};
use logdrive_drain::{RecoverableSink, SinkDrop, SinkStats, Stats, sinks_from_text};
use logdrive_ring::control::{ControlEntry, EVERY, KeyField, KeyedLimit, PER_KEY, PER_SECOND};
use logdrive_ring::{CallsiteTotals, Consumer, Ring, SessionReader, is_set_aside};
use logdrive_wire::Callsite;
use logdrive_wire::agent::SessionState;
use std::path::PathBuf;
use std::sync::Arc;

/// Whether a session's process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Its process logs.
    Alive,
    /// Its process lives, and has lost its connection to the agent.
    Away,
    /// Its process is gone, and what it logged waits to be recovered.
    Dead,
    /// It cannot be read.
    Damaged,
}

impl State {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Away => "away",
            Self::Dead => "dead",
            Self::Damaged => "damaged",
        }
    }
}

/// Facts about a session at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) at: Located,
    pub(crate) state: State,
    pub(crate) app: String,
    pub(crate) pid: u32,
    /// When the process began to log; 0 where that is not known.
    pub(crate) start_unix_ns: u64,
    /// The signal that ended the process, where it could note it.
    pub(crate) signal: Option<u32>,
    pub(crate) panics: u32,
    pub(crate) stats: Stats,
    /// Bytes of lines laid out.
    pub(crate) bytes: u64,
    /// Fill of the fullest ring, from 0 to 1.
    pub(crate) fill: f64,
    pub(crate) sinks: Vec<RecoverableSink>,
    /// Why it cannot be read.
    pub(crate) damage: Option<String>,
}

impl Session {
    /// A session that cannot be read. The directory of one is named APP-PID-NUMBER.
    pub(crate) fn damaged(at: Located, error: &AgentError) -> Self {
        let name = at.path.file_name().unwrap_or_default().to_string_lossy();
        let mut parts = name.rsplitn(3, '-').skip(1);
        let pid = parts.next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
        let app = parts.next().unwrap_or(&name);
        let entry = at.entry.as_ref();
        let mut stats = Stats::default();
        stats.rings.0 = entry.map_or(0, |entry| entry.ring_count);
        Self {
            state: State::Damaged,
            app: safe(entry.map_or(app, |entry| &entry.app)),
            pid: entry.map_or(pid, |entry| entry.pid),
            start_unix_ns: entry.map_or(0, |entry| entry.start_unix_ns),
            signal: None,
            panics: 0,
            stats,
            bytes: 0,
            fill: 0.0,
            sinks: Vec::new(),
            damage: Some(safe(&error.to_string())),
            at,
        }
    }

    /// State of the process as its agent knows it, where an agent has the session.
    pub(crate) fn state_at_agent(&self) -> State {
        match (self.state, self.at.entry.as_ref().map(|entry| entry.state)) {
            (State::Alive, Some(SessionState::Away)) => State::Away,
            (State::Alive, Some(SessionState::Ending)) => State::Dead,
            (state, _) => state,
        }
    }

    /// Drain of the session: the process itself, or an agent.
    pub(crate) fn via(&self) -> &'static str {
        if self.at.entry.is_some() { "agent" } else { "own" }
    }

    /// Seconds since the process began to log; `None` where that is not known.
    pub(crate) fn age_seconds(&self) -> Option<u64> {
        (self.start_unix_ns != 0).then(|| now_unix_ns().saturating_sub(self.start_unix_ns) / 1_000_000_000)
    }

    /// `shop (process 4711)`
    pub(crate) fn title(&self) -> String {
        process_title(&self.app, self.pid)
    }

    /// The files that it logs to.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        files_of(&self.sinks)
    }

    /// Its first log file, or where the session is.
    pub(crate) fn place(&self) -> String {
        let file = self.files().into_iter().next();
        safe(&file.as_deref().unwrap_or(&self.at.path).to_string_lossy())
    }

    /// Number of the program's own statements that have been called.
    pub(crate) fn callsite_count(&self) -> u32 {
        // Callsite 0 is the logger's own.
        self.stats.callsites.saturating_sub(1)
    }

    /// Calls and records that were not kept, at the call or by any sink.
    pub(crate) fn dropped(&self) -> u64 {
        self.stats.dropped_calls().saturating_add(self.sum(lost))
    }

    /// Writes that failed, in all sinks.
    pub(crate) fn failed_writes(&self) -> u64 {
        self.sum(|sink| sink.counts.errors)
    }

    /// Records that the slowest sink is done with.
    pub(crate) fn accounted(&self) -> u64 {
        let drained = self.stats.committed.saturating_sub(self.stats.in_rings);
        let sinks = self.stats.sinks.iter();
        let accounted = sinks.map(|sink| sink.counts.written_records.saturating_add(sink.dropped()));
        accounted.min().unwrap_or(drained)
    }

    fn sum(&self, of: fn(&SinkStats) -> u64) -> u64 {
        self.stats.sinks.iter().map(of).fold(0, u64::saturating_add)
    }

    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.at.is_named(name, &self.app, self.pid)
    }
}

/// Records that a sink should have written and did not.
fn lost(sink: &SinkStats) -> u64 {
    let count = |reason: SinkDrop| sink.counts.dropped.get(reason as usize).copied().unwrap_or(0);
    let meant = count(SinkDrop::Level).saturating_add(count(SinkDrop::NotRouted));
    sink.dropped().saturating_sub(meant)
}

/// The files among sinks.
pub(crate) fn files_of(sinks: &[RecoverableSink]) -> Vec<PathBuf> {
    let files = sinks
        .iter()
        .filter_map(|sink| Some(sink.file.as_ref()?.path.clone()));
    files.collect()
}

/// The sinks of a session that drains itself.
pub(crate) fn sinks_of(view: &SessionReader) -> Vec<RecoverableSink> {
    let config = view.buffers().map(|buffers| buffers.config()).unwrap_or_default();
    sinks_from_text(&String::from_utf8_lossy(&config))
}

/// The callsites of one session at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sites {
    pub(crate) sites: Vec<Site>,
    /// Rules of live control that hold.
    pub(crate) rules: Vec<Rule>,
}

/// A callsite.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) id: u32,
    pub(crate) callsite: Callsite,
    /// State of its control word, in words.
    pub(crate) state: String,
    /// Whether a rule of live control has set that.
    pub(crate) by_rule: bool,
    /// Counts, with those of its sampled variant.
    pub(crate) totals: CallsiteTotals,
}

/// A session that is open. Its mappings stay from look to look.
#[derive(Debug)]
pub(crate) struct WatchedSession {
    pub(crate) at: Located,
    pub(crate) app: String,
    pub(crate) pid: u32,
    pub(crate) view: SessionReader,
    /// Sinks, as its agent reports them.
    sinks_at_agent: Vec<RecoverableSink>,
    /// Callsites that it had when it was opened.
    callsites_seen: u32,
}

impl WatchedSession {
    /// Opens a session.
    ///
    /// # Errors
    /// When it cannot be read, or its agent does not show it.
    pub(crate) fn open(at: Located, finder: &mut SessionFinder) -> Result<Self, AgentError> {
        let view = finder.view(&at)?;
        // What an agent knows from the kernel counts more than what the process has written.
        let (app, pid) = match &at.entry {
            Some(entry) => (safe(&entry.app), entry.pid),
            None => (safe(&view.header().identity().app), view.header().identity().pid),
        };
        Ok(Self {
            app,
            pid,
            sinks_at_agent: Vec::new(),
            callsites_seen: view.header().totals().callsites,
            at,
            view,
        })
    }

    /// Opens a session for live control, which one of an old version does not have.
    ///
    /// # Errors
    /// As for [`WatchedSession::open`].
    pub(crate) fn open_for_control(at: Located, finder: &mut SessionFinder) -> Result<Self, AgentError> {
        let session = Self::open(at, finder)?;
        session.view.rules()?;
        Ok(session)
    }

    /// Asks its agent, if it has one, for its sinks; `None` where the agent does not report them.
    pub(crate) fn with_sinks(mut self, finder: &mut SessionFinder) -> Self {
        self.sinks_at_agent = finder.sinks(&self.at, false).unwrap_or_default();
        self
    }

    /// Whether the process has made rings or callsites that are seen only when it is opened again.
    pub(crate) fn is_behind(&self) -> bool {
        let header = self.view.header();
        let callsites = header.totals().callsites;
        let lacks_callsites =
            callsites > self.callsites_seen && self.view.counts(callsites.saturating_sub(1)).is_none();
        header.totals().rings > self.view.ring_total() || lacks_callsites
    }

    /// `shop (process 4711)`
    pub(crate) fn title(&self) -> String {
        process_title(&self.app, self.pid)
    }

    /// The session, by what it says of itself now.
    pub(crate) fn snapshot(&self) -> Session {
        let header = self.view.header();
        let mut session = Session {
            at: self.at.clone(),
            state: if self.at.is_alive() {
                State::Alive
            } else if is_set_aside(&self.at.path) {
                State::Damaged
            } else {
                State::Dead
            },
            app: self.app.clone(),
            pid: self.pid,
            start_unix_ns: header.identity().start_unix_ns,
            signal: header.totals().signal.map(|(signal, _, _)| signal),
            panics: header.totals().panics,
            stats: Stats::of_view(&self.view),
            bytes: 0,
            fill: fullest(&self.view.rings().0),
            sinks: match self.at.entry {
                Some(_) => self.sinks_at_agent.clone(),
                None => sinks_of(&self.view),
            },
            damage: None,
        };
        // As far as counts are mapped: what the header says may be hostile.
        let bytes = (0..header.totals().callsites)
            .map_while(|id| Some(self.view.counts(id)?.totals().bytes))
            .fold(0, u64::saturating_add);
        // An agent's own session lays out what others committed.
        session.bytes = bytes.max(session.sum(|sink| sink.counts.written_bytes));
        session
    }

    /// The callsites that the program's own statements are, with their numbers.
    pub(crate) fn callsites(&self) -> Result<Vec<(u32, Callsite)>, CliError> {
        let table = self.view.callsites().map_err(|cause| self.cannot(cause))?;
        let sampled_variants = sampled_variants(&table, |id| self.view.control(id));
        Ok(table
            .iter()
            .filter(|(id, _)| *id != 0 && !sampled_variants.contains(id))
            .filter_map(|(id, bytes)| Some((*id, Callsite::decode(bytes).ok()?)))
            .collect())
    }

    /// The same with their states and counts, and the rules that hold.
    pub(crate) fn sites(&self) -> Result<Sites, CliError> {
        // What cannot be read does not hold either.
        let read = self.view.rules().and_then(|rules| rules.read());
        let rules = read.map_or(Vec::new(), |(_, rules)| rules);
        let sites = self.callsites()?.into_iter().filter_map(|(id, callsite)| {
            let entry = self.view.control(id)?;
            let (state, by_rule) = state_of(entry, &callsite, &rules);
            Some(Site {
                id,
                callsite,
                state,
                by_rule,
                totals: self.totals_of(id, entry.sampled_variant()),
            })
        });
        Ok(Sites {
            sites: sites.collect(),
            rules,
        })
    }

    /// Counts of a callsite and of the one under which its kept records go; zeros where the session has none.
    fn totals_of(&self, id: u32, sampled_variant: u32) -> CallsiteTotals {
        let totals = |id| {
            self.view
                .counts(id)
                .map(|counts| counts.totals())
                .unwrap_or_default()
        };
        let own: CallsiteTotals = totals(id);
        if sampled_variant == 0 || sampled_variant == id {
            return own;
        }
        let variant = totals(sampled_variant);
        CallsiteTotals {
            records: own.records.saturating_add(variant.records),
            bytes: own.bytes.saturating_add(variant.bytes),
            ..own
        }
    }

    pub(crate) fn cannot(&self, cause: impl Into<AgentError>) -> CliError {
        CliError::Control {
            process: self.title(),
            cause: cause.into(),
        }
    }
}

/// Returns the fill of the fullest ring, from 0 to 1. One that breaks the rules says nothing.
fn fullest(rings: &[Arc<Ring>]) -> f64 {
    let fill = |ring: &Arc<Ring>| {
        let pending = Consumer::new(Arc::clone(ring)).pending_bytes().unwrap_or(0);
        pending as f64 / ring.capacity_bytes() as f64
    };
    rings.iter().map(fill).fold(0.0, f64::max)
}

/// The state in words, and whether a rule made it.
fn state_of(entry: &ControlEntry, callsite: &Callsite, rules: &[Rule]) -> (String, bool) {
    let (id, base, switch) = (entry.id(), entry.base(), entry.switch());
    let (control, parameter) = (switch.control, switch.parameter);
    let text = match control {
        EVERY => format!("1 of {parameter}"),
        PER_SECOND => format!("{parameter}/s"),
        PER_KEY => {
            let limit = KeyedLimit::of(parameter);
            let key = match limit.key {
                KeyField::Index(index) => callsite
                    .fields
                    .get(usize::from(index))
                    .map(|field| field.name.clone()),
                KeyField::Named(_) => rules.iter().find_map(|rule| match &rule.action {
                    Action::PerKey { field, .. } if KeyedLimit::named(field) == limit.key => {
                        Some(field.clone())
                    }
                    _ => None,
                }),
            };
            format!(
                "{}/s per {}",
                limit.per_second,
                safe(key.as_deref().unwrap_or("key"))
            )
        }
        word if is_off(word) => {
            let is_mute = |rule: &Rule| rule.action == Action::Mute && selects(&rule.selector, id, callsite);
            return match (rules.iter().any(is_mute), is_off(base)) {
                (true, _) => ("muted".to_owned(), true),
                (false, is_off_anyway) => ("off".to_owned(), !is_off_anyway),
            };
        }
        _ => return ("on".to_owned(), is_off(base)),
    };
    (text, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_args::RunDirArgs;
    use logdrive_ring::{SessionOptions, SessionWriter, control};

    /// Counts are mapped as far as they go when they are first read: without this those of later callsites would be
    /// left out of all sums.
    #[test]
    fn a_session_that_has_grown_beyond_what_is_mapped_is_opened_again() {
        let run_dir = tempfile::tempdir().expect("a directory");
        let options = SessionOptions {
            app: "shop".to_owned(),
            run_dirs: vec![run_dir.path().to_owned()],
            ring_bytes: 1 << 16,
            config: Vec::new(),
            sink_count: 0,
            buffers_per_sink: 0,
            buffer_bytes: 512 * 1024,
            sinks_at_start: 0,
            keep_bytes: 0,
        };
        let (writer, _) = SessionWriter::create(&options).expect("a session");
        let register = |count: u32| {
            for _ in 0..count {
                writer.register(b"callsite", control::ON).expect("there is room");
            }
        };
        let dirs = RunDirArgs {
            run_dir: vec![run_dir.path().to_owned()],
        };
        let mut finder = SessionFinder::of_dirs(&dirs).expect("it is there");
        let at = finder.find_in_dirs().expect("readable").remove(0);
        let mut open = || WatchedSession::open(at.clone(), &mut finder).expect("readable");
        register(10);
        let session = open();
        assert_eq!(
            session.view.counts(9).map(|counts| counts.totals().records),
            Some(0)
        );
        register(10);
        assert!(!session.is_behind());
        register(10_000);
        assert!(session.is_behind());
        assert!(!open().is_behind());
    }
}
