//! Samples of processes at one moment: numbers that only grow, and numbers of that moment.
//!
//! Nothing in here looks at a session; see [`super::source`].

use logdrive_drain::control::Rule;
use logdrive_ring::CallsiteTotals;
use logdrive_wire::Callsite;

/// Everything that was seen in one look.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    /// When, by a clock that only goes forward.
    pub(super) at_ns: u64,
    pub(super) processes: Vec<Process>,
    /// Places that could not be searched, in words.
    pub(super) troubles: Vec<String>,
}

/// Drain of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Via {
    /// The process itself.
    Own,
    /// An agent.
    Agent,
}

impl Via {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Agent => "agent",
        }
    }
}

/// Condition of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Alive,
    /// It lives, and has lost its connection to the agent.
    Away,
    /// Dead, with records that wait to be recovered.
    Dead,
    /// Its session cannot be read.
    Damaged,
}

impl Life {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Away => "away",
            Self::Dead => "dead",
            Self::Damaged => "damaged",
        }
    }
}

/// A process as it is seen.
#[derive(Debug, Clone)]
pub(super) struct Process {
    /// Tells its session from all others.
    pub(super) key: String,
    pub(super) app: String,
    pub(super) pid: u32,
    pub(super) via: Via,
    pub(super) life: Life,
    /// Since it began to log; `None` where that is not known.
    pub(super) age_s: Option<u64>,
    pub(super) rings: u32,
    pub(super) rings_in_use: u32,
    pub(super) callsites: u32,
    /// Records committed.
    pub(super) committed: u64,
    /// Bytes of lines laid out.
    pub(super) bytes: u64,
    /// Calls and records that were not kept, by whomever.
    pub(super) dropped: u64,
    pub(super) sampled_out: u64,
    /// Returns the fill of the fullest ring, from 0 to 1.
    pub(super) fill: f64,
    /// Records on their way to the slowest sink.
    pub(super) pending: u64,
    /// Records written by the sink that has written least.
    pub(super) written: u64,
    /// Writes that failed, in all sinks.
    pub(super) errors: u64,
    pub(super) panics: u32,
    /// Its log file, or where its session is.
    pub(super) place: String,
    /// Why it cannot be read.
    pub(super) damage: Option<String>,
}

/// The callsites of one process at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Sites {
    /// Of which process.
    pub(super) key: String,
    pub(super) at_ns: u64,
    pub(super) sites: Vec<Site>,
    /// Rules of live control that hold.
    pub(super) rules: Vec<Rule>,
}

/// A callsite.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub(super) id: u32,
    pub(super) callsite: Callsite,
    /// State of its control word, in words.
    pub(super) state: String,
    /// Whether a rule of live control has set that.
    pub(super) by_rule: bool,
    pub(super) totals: CallsiteTotals,
}
