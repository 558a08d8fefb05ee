//! The flight recorder: records that no sink takes are kept in memory, in binary, and written when something happens.
//!
//! [`memory`] holds the records; this file says which are kept and what has them written. `drain/dump.rs` writes
//! them.

use crate::client::ClientProcess;
use crate::control::selects;
use crate::limits::DUMP_PAUSE;
use logdrive_ring::KeepCounts;
use logdrive_ring::rules::Selector;
use logdrive_wire::{Callsite, Level};
use memory::RecorderMemory;
use std::sync::mpsc::Sender;
use std::time::Duration;

pub(crate) mod memory;

/// Options of a flight recorder: records below the level of all sinks that stay in memory, and the triggers of a dump.
///
/// ```
/// use logdrive_drain::RecorderOptions;
/// let keep = RecorderOptions::new(64 << 20);
/// assert_eq!(keep.trigger_level, Some(logdrive_wire::Level::Error));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecorderOptions {
    /// Bytes of memory; the oldest records make room. Rounded up to 256 KiB, 1 MiB at least.
    pub bytes: u64,
    /// A record of this level or above has what is kept written. Default: error.
    pub trigger_level: Option<Level>,
    /// So does a record of one of these callsites.
    pub trigger_callsites: Vec<Selector>,
    /// Has recovery write what a killed process kept. Default: yes.
    pub on_crash: bool,
    /// Only what is not older than this is written, and the rest forgotten; `None` for all.
    pub before: Option<Duration>,
    /// Between two dumps that records trigger lies at least this time: then it is a storm, of which the beginning tells
    /// the most. Default: 10 seconds.
    pub pause: Duration,
}

impl RecorderOptions {
    /// So many bytes, written when an error occurs, all that there is.
    pub fn new(bytes: u64) -> Self {
        Self {
            bytes,
            trigger_level: Some(Level::Error),
            trigger_callsites: Vec::new(),
            on_crash: true,
            before: None,
            pause: DUMP_PAUSE,
        }
    }

    fn rule_for(&self, id: u32, callsite: &Callsite) -> RecorderRule {
        let is_above = self.trigger_level.is_some_and(|level| callsite.level >= level);
        let mut selectors = self.trigger_callsites.iter();
        RecorderRule {
            keep: true,
            triggers: is_above || selectors.any(|selector| selects(selector, id, callsite)),
            sinks: u32::MAX,
        }
    }

    /// Text for recovery, at the front of the session's configuration.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("[keep]\non_crash = {}\n", self.on_crash);
        if let Some(before) = self.before {
            text.push_str(&format!("before_ns = {}\n", before.as_nanos()));
        }
        text
    }

    /// Reads what [`RecorderOptions::to_text`] wrote. Without it, everything is kept until it is written after a crash.
    pub(crate) fn from_text(config: &str) -> Self {
        let head = config.split("[sink]\n").next().unwrap_or("");
        let value = |key: &str| {
            head.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))
        };
        Self {
            trigger_level: None,
            on_crash: value("on_crash") != Some("false"),
            before: value("before_ns")
                .and_then(|text| text.parse().ok())
                .map(Duration::from_nanos),
            ..Self::new(0)
        }
    }
}

/// Decision of a flight recorder on the records of a callsite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecorderRule {
    /// Keeps those that no sink takes.
    pub keep: bool,
    /// A record has what is kept written.
    pub triggers: bool,
    /// The sinks to which they are written then, whatever their level: bit 0 for the first.
    pub sinks: u32,
}

/// The flight recorders of the processes that an agent drains.
pub trait RecorderPolicy: Send {
    /// Returns the options for a process, or `None` to record nothing. The triggers of the options are ignored.
    fn options_for(&self, client: &ClientProcess) -> Option<RecorderOptions>;

    /// Decides on the records of a callsite. The answer holds for all of them.
    fn rule_for(&self, client: &ClientProcess, id: u32, callsite: &Callsite) -> RecorderRule;
}

/// A request to write what is kept.
#[derive(Debug)]
pub(crate) struct DumpRequest {
    /// So far back; `None` for all.
    pub(crate) span: Option<Duration>,
    /// Reason that the log gives.
    pub(crate) reason: String,
    pub(crate) requesters: Requesters,
}

/// Requesters of a dump, which get an answer.
#[derive(Debug, Default)]
pub(crate) struct Requesters {
    /// The number of a request in the session's file.
    pub(crate) request: Option<u64>,
    /// Receivers of the number of records that are laid out; dropped without an answer where nothing is kept any more.
    pub(crate) answers: Vec<Sender<u64>>,
}

impl Requesters {
    /// No requester: a record or a crash is the reason.
    pub(crate) fn is_empty(&self) -> bool {
        self.request.is_none() && self.answers.is_empty()
    }

    /// Answers with the number of records that were laid out.
    pub(crate) fn answer(&self, records: u64) {
        for answer in &self.answers {
            // One that waits no more needs no answer.
            let _ = answer.send(records);
        }
    }
}

/// A dump that goes on.
#[derive(Debug, Default)]
pub(crate) struct DumpProgress {
    /// Those that it answers.
    pub(crate) requesters: Requesters,
    pub(crate) written: u64,
    pub(crate) lost: u64,
    /// Sinks that have taken nothing for too long, and get nothing more.
    pub(crate) stuck: u32,
    /// Since when no sink has had room.
    pub(crate) waiting_since_ns: Option<u64>,
}

/// The flight recorder of one process.
#[derive(Debug)]
pub(crate) struct FlightRecorder {
    pub(crate) memory: RecorderMemory,
    pub(crate) options: RecorderOptions,
    /// Its process has requested it.
    pub(crate) is_requested: bool,
    /// The sinks that dumps go to.
    pub(crate) sinks: u32,
    pub(crate) pending: Option<DumpRequest>,
    pub(crate) dump: Option<DumpProgress>,
    /// The last request of the session's file that was seen.
    pub(crate) request_seen: u64,
    /// A request that is done when its records are flushed: its number, the records, and the flush ticket.
    pub(crate) answer: Option<(u64, u64, u64)>,
    /// No record triggers before that.
    pub(crate) paused_until_ns: u64,
}

impl FlightRecorder {
    pub(crate) fn new(memory: RecorderMemory, options: RecorderOptions) -> Self {
        let request_seen = memory.file().map_or(0, |file| file.requested().0);
        Self {
            memory,
            options,
            is_requested: false,
            sinks: 0,
            pending: None,
            dump: None,
            request_seen,
            answer: None,
            paused_until_ns: 0,
        }
    }

    /// Returns the recorder with these options in place of another. What that holds stays where the size stays the same.
    pub(crate) fn replace(before: Option<Self>, options: RecorderOptions, is_requested: bool) -> Self {
        match before {
            Some(before) if before.options.bytes == options.bytes => Self {
                options,
                is_requested,
                ..before
            },
            before => Self {
                is_requested,
                // A requester of what was held before gets what there is now.
                pending: before.and_then(Self::into_request),
                ..Self::new(RecorderMemory::private(options.bytes), options)
            },
        }
    }

    /// Returns the dump that was requested, or that goes on.
    fn into_request(self) -> Option<DumpRequest> {
        let going_on = |dump: DumpProgress| DumpRequest {
            span: None,
            reason: "of a command".to_owned(),
            requesters: dump.requesters,
        };
        self.pending.or_else(|| self.dump.map(going_on))
    }

    /// Requests a dump without a requester that waits, unless one is requested already.
    pub(crate) fn request_dump(&mut self, span: Option<Duration>, reason: &str) {
        self.pending.get_or_insert_with(|| DumpRequest {
            span,
            reason: reason.to_owned(),
            requesters: Requesters::default(),
        });
    }

    /// Decides on the records of a callsite of this process.
    pub(crate) fn rule_for(&self, id: u32, callsite: &Callsite) -> RecorderRule {
        self.options.rule_for(id, callsite)
    }

    /// Returns whether something has to be done soon.
    pub(crate) fn is_busy(&self) -> bool {
        self.pending.is_some() || self.dump.is_some()
    }

    /// Looks whether a tool has asked for a dump.
    pub(crate) fn poll(&mut self) {
        let Some(file) = self.memory.file() else { return };
        let (request, span_ns) = file.requested();
        if request != self.request_seen && self.pending.is_none() {
            self.request_seen = request;
            self.pending = Some(DumpRequest {
                span: (span_ns > 0).then(|| Duration::from_nanos(span_ns)),
                reason: "of a command".to_owned(),
                requesters: Requesters {
                    request: Some(request),
                    ..Requesters::default()
                },
            });
        }
    }
}

/// Statistics of a flight recorder, for [`crate::Stats`].
pub(crate) fn counts_of(file: Option<&logdrive_ring::KeepFile>) -> KeepCounts {
    file.map(logdrive_ring::KeepFile::counts).unwrap_or_default()
}

/// `18,204`
pub(crate) fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
