//! Router of captured lines to the tests that wrote them.
//!
//! A line starts with the number of its thread. Threads mark in the log itself from where to where they belong to a
//! capture, so that neither the order of lines nor the reuse of thread numbers needs care.

use crate::builder::{Guard, builder};
use crate::sinks::Layout;
use crate::statement::{RecordDraft, Statement};
use crate::{Full, Level, MemorySink, Overflow, SinkOptions, Target};
use logdrive_ring::control::ControlRef;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::record::{HEADER_BYTES, align_up};
use logdrive_wire::{Callsite, Field, Kind};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts of a line, with a tab between them; tabs inside of them are escaped.
const PATTERN: &str = "{thread_id}\t{level}\t{target}\t{spans}\t{message}\t{fields}";
/// Bytes of lines that wait to be read. Tests that log more without reading it lose the oldest.
const MEMORY_BYTES_MAX: usize = 256 << 20;
/// Target of the records that begin and end a capture.
const TARGET: &str = "logdrive::testing";

/// A captured record.
///
/// ```
/// let log = logdrive::testing::capture();
/// logdrive::error!(target: "db", code = 5, "cannot connect");
/// let record = &log.records()[0];
/// assert_eq!((record.target.as_str(), record.fields.as_str()), ("db", "code=5"));
/// assert_eq!(record.to_string(), "ERROR db: cannot connect code=5");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Level of the statement.
    pub level: Level,
    /// Target of the statement, or its module where it has none.
    pub target: String,
    /// Spans around the record, as `outer{key=value}:inner`.
    pub spans: String,
    /// The message, with control characters escaped.
    pub message: String,
    /// The fields that the message does not show, as `key=value key="a value"`.
    pub fields: String,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}:", self.level.name(), self.target)?;
        if !self.spans.is_empty() {
            write!(f, " {}:", self.spans)?;
        }
        let parts = [&self.message, &self.fields];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .try_for_each(|part| write!(f, " {part}"))
    }
}

struct Router {
    logger: Option<(Guard, MemorySink)>,
    next_id: u64,
    /// The records of captures that are under way.
    captures: BTreeMap<u64, Vec<Record>>,
    /// The captures that a thread belongs to now.
    threads: BTreeMap<u64, Vec<u64>>,
}

static ROUTER: Mutex<Router> = Mutex::new(Router {
    logger: None,
    next_id: 1,
    captures: BTreeMap::new(),
    threads: BTreeMap::new(),
});

fn router() -> MutexGuard<'static, Router> {
    ROUTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new capture, of the calling thread.
pub(super) fn begin() -> u64 {
    let id = {
        let mut router = router();
        if router.logger.is_none() {
            router.logger = Some(start());
        }
        let id = router.next_id;
        router.next_id += 1;
        router.captures.insert(id, Vec::new());
        id
    };
    adopt(id);
    id
}

/// Ends a capture, and with the last one the logger.
pub(super) fn finish(id: u64) {
    let mut router = router();
    router.captures.remove(&id);
    router.route();
    for captures in router.threads.values_mut() {
        captures.retain(|capture| *capture != id);
    }
    if router.captures.is_empty() {
        router.threads.clear();
        // Under the lock, so that the next capture starts behind the end.
        router.logger = None;
    }
}

/// Looks at the records of a capture, after all that was logged before has come.
pub(super) fn read<R>(id: u64, look: impl FnOnce(&mut Vec<Record>) -> R) -> R {
    crate::flush();
    let mut router = router();
    router.route();
    look(router.captures.entry(id).or_default())
}

/// The calling thread belongs to the capture from here on.
pub(super) fn adopt(id: u64) {
    mark(id, true);
}

/// The calling thread does not belong to the capture any more.
pub(super) fn disown(id: u64) {
    mark(id, false);
}

fn start() -> (Guard, MemorySink) {
    let memory = MemorySink::new(MEMORY_BYTES_MAX);
    let mut sink = SinkOptions::new(Target::Memory(memory.clone()));
    sink.layout = Layout::pattern(PATTERN).into();
    let logger = builder("logdrive-testing")
        .use_env(false)
        .filter("trace")
        .panic_hook(false)
        .note_signals(false)
        .shutdown_timeout(std::time::Duration::ZERO)
        .sink(sink);
    let guard = match logger.full(Full::Block).overflow(Overflow::Hold).init() {
        Ok(guard) => guard,
        Err(error) => panic!("cannot start the logger that captures for tests: {error}"),
    };
    join_facades();
    (guard, memory)
}

/// A subscriber or logger that the test has set stays.
fn join_facades() {
    #[cfg(feature = "tracing")]
    {
        static JOINED: std::sync::Once = std::sync::Once::new();
        JOINED.call_once(|| {
            let dispatch = tracing_core::Dispatch::new(crate::tracing::subscriber());
            let _ = tracing_core::dispatcher::set_global_default(dispatch);
        });
    }
    #[cfg(feature = "log")]
    let _ = crate::log::install();
}

/// Statement of the records that begin and end a capture, whatever the filter says.
struct Mark;

impl Statement for Mark {
    fn control(&self) -> &'static ControlRef {
        static CONTROL: ControlRef = ControlRef::unregistered();
        &CONTROL
    }

    fn describe(&self) -> Callsite {
        let field = || Field {
            name: String::new(),
            kind: FieldKind::plain(Kind::U64),
            argument: true,
        };
        Callsite {
            level: Level::Warn,
            target: TARGET.to_owned(),
            message: "{0} {1}".to_owned(),
            fields: vec![field(), field()],
            ..Callsite::default()
        }
    }

    fn is_urgent(&self) -> bool {
        true
    }

    fn ignores_filter(&self) -> bool {
        true
    }
}

fn mark(id: u64, belongs: bool) {
    if let Some(entry) = Mark.entry() {
        RecordDraft::new(&Mark, entry.id()).put(align_up(HEADER_BYTES + 16), &|put| {
            put.u64(id);
            put.u64(u64::from(belongs));
        });
    }
}

impl Router {
    /// Gives every line that has come to the captures that its thread belongs to.
    fn route(&mut self) {
        let Some((_, memory)) = &self.logger else { return };
        for line in memory.take() {
            let Some((thread, record)) = parse(&line) else {
                continue;
            };
            if record.target == TARGET {
                self.follow_mark(thread, &record.message);
                continue;
            }
            let captures = self.threads.get(&thread).map_or(&[][..], Vec::as_slice);
            for (at, capture) in captures.iter().enumerate() {
                // A thread may have been adopted twice.
                if captures.iter().take(at).any(|earlier| earlier == capture) {
                    continue;
                }
                if let Some(records) = self.captures.get_mut(capture) {
                    records.push(record.clone());
                }
            }
        }
    }

    fn follow_mark(&mut self, thread: u64, mark: &str) {
        let Some((id, belongs)) = mark.split_once(' ') else {
            return;
        };
        let Ok(id) = id.parse() else { return };
        let captures = self.threads.entry(thread).or_default();
        if belongs == "0" {
            if let Some(at) = captures.iter().position(|capture| *capture == id) {
                captures.remove(at);
            }
        } else if self.captures.contains_key(&id) {
            captures.push(id);
        }
    }
}

fn parse(line: &str) -> Option<(u64, Record)> {
    let mut parts = line.split('\t');
    let thread = parts.next()?.parse().ok()?;
    let record = Record {
        level: parts.next()?.trim().parse().ok()?,
        target: parts.next()?.to_owned(),
        spans: parts.next()?.trim_end().trim_end_matches(':').to_owned(),
        message: parts.next()?.to_owned(),
        fields: parts.next()?.trim_start().to_owned(),
    };
    Some((thread, record))
}
