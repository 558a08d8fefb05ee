//! The running logger of this process: one engine, which callsites and threads attach to.
//!
//! Everything here is cold: a callsite comes once, a thread comes once, and a call comes when its ring is full.

use crate::config::Config;
use crate::engine::Engine;
use crate::shutdown::{self, Ending, Shutdown};
use logdrive_drain::control::{Rule, SAMPLE_FIELD, sampled_variants, switch_of};
use logdrive_drain::{Backend, BackendError, Filter, Stats, Stopped, describe_end};
use logdrive_ring::clock::unix_ns;
use logdrive_ring::control::{
    ControlEntry, ControlRef, OFF, OFF_COUNTED, ON, UNREGISTERED, settle, unbind_all,
};
use logdrive_ring::local::{self, Clock, Section, Wrote};
use logdrive_ring::{
    CallsiteCounters, CallsiteCounts, ClockSource, DropReason, FullPolicy, SessionWriter, StaticCell,
    ordinary_end, signals,
};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::limits::RECORD_BYTES_MAX;
use logdrive_wire::record::{HEADER_BYTES, align_up};
use logdrive_wire::{Callsite, Field, Kind, Level};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

// Two crates that do not know each other agree on it.
const _: () = assert!(RECORD_BYTES_MAX == logdrive_ring::limits::RECORD_BYTES_MAX);

/// The logger while it runs. In a static cell, so that reading it takes no lock; its engine goes when it is stopped.
#[derive(Debug)]
struct Runtime {
    engine: Mutex<Option<Arc<dyn Engine>>>,
    levels: Mutex<Levels>,
    counters: &'static CallsiteCounters,
    /// The control word of callsites that the filter switches off.
    off: u32,
    full: FullPolicy,
    clock: Clock,
    generation: u32,
    /// Thread that waits for signals that ask the process to end.
    end_thread: Mutex<Option<JoinHandle<()>>>,
}

/// Levels of all callsites: the program's filter, and on top of it the rules of live control.
#[derive(Debug)]
struct Levels {
    filter: Filter,
    rules: Vec<Rule>,
    /// Sequence number of these rules.
    sequence: u64,
}

impl Levels {
    /// Reads the rules where they have changed. Damaged ones are none; the drain says so.
    fn renew(&mut self, session: &SessionWriter) {
        let sequence = session.rules().sequence();
        if sequence != self.sequence {
            let read = session.rules().read().unwrap_or((sequence, Vec::new()));
            (self.sequence, self.rules) = read;
        }
    }

    /// Switches a callsite as filter and rules say. The control word that the filter gives is its base already.
    fn settle(&mut self, session: &SessionWriter, entry: &ControlEntry, callsite: &Callsite) {
        let off = session.rules().off_control();
        settle(
            entry,
            || session.rules().sequence(),
            |base| {
                self.renew(session);
                let now_unix_ns = if self.rules.is_empty() { 0 } else { unix_ns() };
                switch_of(&self.rules, entry.id(), callsite, base, off, now_unix_ns)
            },
        );
    }
}

static RUNTIME: StaticCell<Runtime> = StaticCell::empty();
static CONFIG: StaticCell<Config> = StaticCell::empty();
/// Runs in the child of a `fork`, for a part that others build on.
static FORK_HOOK: OnceLock<fn()> = OnceLock::new();
static FORKED: AtomicBool = AtomicBool::new(false);
static STARTING: Mutex<()> = Mutex::new(());
/// Calls before the start, after the end, and from threads that cannot be given a ring while nothing runs.
static CLOSED: AtomicU64 = AtomicU64::new(0);
/// True if a logger has ended: calls between two loggers belong to neither.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Bytes of the longest record that the rings of the running session take; of any ring while none runs.
static RECORD_BYTES: AtomicUsize = AtomicUsize::new(RECORD_BYTES_MAX);

/// Error that keeps logging from being started. Its debug form is the same sentence, because a `main` that returns it shows
/// that.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// A logger of this process runs already.
    #[error(
        "logging runs already in this process; keep the first guard, and do not start again before it is dropped"
    )]
    Running,
    /// A signal handler that interrupts the logger cannot start one.
    #[error("a signal handler has interrupted the logger in its thread; start logging outside of handlers")]
    Interrupted,
    /// A statement that [`crate::Keep::trigger_at`] names cannot be read.
    #[error("what has kept records written: {0}")]
    Trigger(#[from] logdrive_drain::control::DirectiveError),
    /// `LOGDRIVE` or the builder's filter cannot be read.
    #[error(transparent)]
    Filter(#[from] crate::FilterError),
    /// The session, a sink or a thread could not be started.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl std::fmt::Debug for InitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

pub(crate) fn start(config: Config) -> Result<(), InitError> {
    if local::is_busy() {
        return Err(InitError::Interrupted);
    }
    let section = Section::open();
    let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if RUNTIME.value().is_some() {
        return Err(InitError::Running);
    }
    // Relaxed: changed under the lock, or where there is one thread.
    FORKED.store(false, Ordering::Relaxed);
    // Relaxed: statistics, changed under the lock.
    if ENDED.swap(false, Ordering::Relaxed) {
        CLOSED.store(0, Ordering::Relaxed);
    }
    launch(&config)?;
    local::on_fork(after_fork);
    let (notices, first_line) = (config.notices.clone(), config.first_line.clone());
    CONFIG.set(config);
    drop(starting);
    drop(section);
    if let Some(line) = first_line {
        // A terminal that takes nothing gets none; this waits a tenth of a second for it.
        let _ = logdrive_drain::console::Console::stderr().write_some(0, line.as_bytes());
    }
    for notice in notices {
        crate::warn!(target: "logdrive", "{}", notice);
    }
    filter_changed();
    Ok(())
}

/// Others remember what the filter said; they ask anew.
fn filter_changed() {
    #[cfg(feature = "tracing")]
    crate::tracing::refresh();
}

fn launch(config: &Config) -> Result<(), InitError> {
    let engine = start_engine(config)?;
    let session = engine.session();
    // Relaxed: a call that still sees the old length is cut to it, or dropped by a smaller ring.
    RECORD_BYTES.store(session.record_bytes_max(), Ordering::Relaxed);
    let off = if config.count_disabled { OFF_COUNTED } else { OFF };
    session.rules().set_off_control(off);
    let counters = session.counters();
    let header = session.header();
    header.end().note_start_kills();
    if config.note_signals {
        signals::note_fatal_signals(header);
    }
    let clock = match header.clock_source() {
        _ if config.backend.coarse_clock => Clock::Coarse(header.coarse_clock()),
        ClockSource::Monotonic => Clock::Monotonic,
        _ => Clock::Counter,
    };
    let end_thread = Mutex::new(shutdown::arm(SHUTDOWN, header, config.shutdown_timeout));
    RUNTIME.set(Runtime {
        engine: Mutex::new(Some(engine)),
        levels: Mutex::new(Levels {
            filter: config.filter.clone(),
            rules: Vec::new(),
            sequence: 0,
        }),
        counters,
        off,
        full: config.full,
        clock,
        generation: local::generation(),
        end_thread,
    });
    local::start_running();
    Ok(())
}

/// Joins the agent that is configured; where that cannot be, starts a backend, which says why in the log.
fn start_engine(config: &Config) -> Result<Arc<dyn Engine>, BackendError> {
    let Some(socket) = &config.agent else {
        return Ok(Arc::new(Backend::start(&config.backend)?));
    };
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let why = match crate::agent::AgentSession::start(socket, config) {
        Ok(session) => return Ok(Arc::new(session)),
        Err(why) => why.to_string(),
    };
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let why = format!(
        "there are no agents on this system, so that {} cannot be one",
        socket.display()
    );
    let backend = Backend::start(&config.backend)?;
    backend.notice(format!("{why}; so this process writes its log itself"));
    Ok(Arc::new(backend))
}

/// In the child of a `fork`: nothing of the parent's logger is used. The next call starts one of the child's own.
fn after_fork() {
    RUNTIME.clear();
    signals::forget_header();
    ordinary_end::forget_signals();
    unbind_all();
    if let Some(hook) = FORK_HOOK.get() {
        hook();
    }
    // Relaxed: the child has one thread.
    FORKED.store(CONFIG.value().is_some(), Ordering::Relaxed);
}

/// Has a function called in children of a `fork`; the first one stays. It must not take locks.
pub(crate) fn on_fork(hook: fn()) {
    let _first_stays = FORK_HOOK.set(hook);
}

fn runtime() -> Option<&'static Runtime> {
    if let Some(runtime) = RUNTIME.value() {
        return Some(runtime);
    }
    if !FORKED.load(Ordering::Relaxed) || local::is_denied() {
        return None;
    }
    let _section = Section::masked();
    // A lock that another thread of the parent held at the fork stays locked: then the call is dropped and counted.
    let _starting = STARTING.try_lock().ok()?;
    let config = CONFIG.value()?;
    if RUNTIME.value().is_none() && FORKED.swap(false, Ordering::Relaxed) {
        let mut config = config.clone();
        // The parent lives, so nothing of it is to be recovered; and a child that only logs a line starts fast.
        config.backend.recover = false;
        launch(&config).ok()?;
    }
    RUNTIME.value()
}

/// The logger with its engine, if it has not ended.
fn running() -> Option<(&'static Runtime, Arc<dyn Engine>)> {
    let runtime = runtime()?;
    Some((runtime, runtime.engine()?))
}

/// Returns the engine of the running logger; `None` also for a signal handler that has interrupted the logger.
pub(crate) fn engine() -> Option<Arc<dyn Engine>> {
    match local::is_busy() {
        true => None,
        false => RUNTIME.value().and_then(Runtime::engine),
    }
}

/// Asks the engine of the running logger for something that may last. `None` when none runs, and for a signal handler that
/// has interrupted the logger.
pub(crate) fn ask<T>(question: impl FnOnce(&dyn Engine) -> T) -> Option<T> {
    let engine = engine()?;
    // Handlers run meanwhile, and may only write to the ring of the thread.
    let _section = Section::open();
    Some(question(&*engine))
}

impl Runtime {
    fn engine(&self) -> Option<Arc<dyn Engine>> {
        let _section = Section::masked();
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        engine.clone()
    }

    /// The control word that the filter gives.
    fn base(&self, filter: &Filter, callsite: &Callsite) -> u32 {
        if filter.allows(callsite.target_or_module(), callsite.level) {
            ON
        } else {
            self.off
        }
    }

    fn levels(&self) -> std::sync::MutexGuard<'_, Levels> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a callsite, and binds it to its control entry. `None` when the table is full. For a masked section.
    fn register(
        &self,
        session: &SessionWriter,
        control: &'static ControlRef,
        callsite: &dyn Fn() -> Callsite,
    ) -> Option<&'static ControlEntry> {
        let mut levels = self.levels();
        // Another thread may have come first.
        let entry = control.entry();
        if entry.control() != UNREGISTERED {
            return Some(entry);
        }
        let callsite = callsite();
        let entry = enter(session, &callsite, self.base(&levels.filter, &callsite))?;
        levels.settle(session, entry, &callsite);
        control.bind(entry);
        Some(entry)
    }
}

/// The end of the logger where the program has not ended it.
const SHUTDOWN: Shutdown = Shutdown {
    is_running: || RUNTIME.value().is_some(),
    stop: shut_down,
};

/// Ends the logger, at the latest at that moment. What could not be written stays in the session, whose recovery reports
/// it with the cause.
fn shut_down(until: Instant, ending: Ending) {
    let Some(engine) = engine() else { return };
    let cause = || describe_end(engine.session().header(), None);
    match ending {
        Ending::Success => drop(stop_with(|engine| engine.stop(Some(until), None))),
        Ending::Cause(level) => {
            let cause = cause();
            drop(stop_with(|engine| {
                engine.stop(Some(until), Some((level, &cause)))
            }));
        }
        // An agent has all of it, and reports the end itself.
        Ending::Crash if !engine.is_own() => {}
        Ending::Crash => {
            let cause = cause();
            drop(stop_with(|engine| {
                engine.stop_crashed(until, (Level::Warn, &cause))
            }));
        }
    }
}

/// Ends the logger; `None` when none runs.
pub(crate) fn stop() -> Option<(Stopped, Stats)> {
    stop_with(|engine| engine.stop(None, None))
}

fn stop_with(end: impl FnOnce(&dyn Engine) -> Stopped) -> Option<(Stopped, Stats)> {
    // Nothing that a mere log call holds is needed here.
    if Section::is_open() {
        return None;
    }
    let _section = Section::open();
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = RUNTIME.value()?;
    CONFIG.clear();
    // Relaxed: changed under the lock, or where there is one thread.
    FORKED.store(false, Ordering::Relaxed);
    RUNTIME.clear();
    unbind_all();
    local::end_generation();
    local::detach_thread();
    signals::forget_header();
    // The lock goes before the engine ends: a call that has seen the logger a moment ago does not wait for that.
    let engine = (runtime.engine.lock().unwrap_or_else(PoisonError::into_inner)).take()?;
    let stopped = end(&*engine);
    let end_thread = (runtime.end_thread.lock().unwrap_or_else(PoisonError::into_inner)).take();
    // Behind the drain: a signal that comes before ends the process when that is done.
    shutdown::disarm(end_thread);
    // Relaxed: as in `start`.
    ENDED.store(true, Ordering::Relaxed);
    Some((stopped, stats_of(&*engine)))
}

/// Bytes of the longest record now.
#[inline(always)]
pub(crate) fn record_bytes_max() -> usize {
    // Relaxed: see `launch`.
    RECORD_BYTES.load(Ordering::Relaxed)
}

/// Returns the engine's statistics, with the calls that no session has counted.
pub(crate) fn stats_of(engine: &dyn Engine) -> Stats {
    let mut stats = engine.stats();
    // Relaxed: a statistic.
    stats.dropped[DropReason::Closed as usize] += CLOSED.load(Ordering::Relaxed);
    stats
}

/// Replaces the filter of the running logger, for all callsites at once. `false` when none runs.
pub(crate) fn set_filter(filter: Filter) -> bool {
    let Some((runtime, engine)) = RUNTIME.value().zip(engine()) else {
        return false;
    };
    let section = Section::masked();
    // New callsites wait for this lock, so that none slips through with the old filter.
    let mut levels = runtime.levels();
    levels.filter = filter;
    let session = engine.session();
    let (callsites, _) = session.callsites_from(0);
    let sampled_variants = sampled_variants(&callsites, |id| session.control(id));
    for (id, bytes) in callsites
        .iter()
        .skip(1)
        .filter(|(id, _)| !sampled_variants.contains(id))
    {
        if let (Ok(callsite), Some(entry)) = (Callsite::decode(bytes), session.control(*id)) {
            entry.set_base(runtime.base(&levels.filter, &callsite));
            levels.settle(session, entry, &callsite);
        }
    }
    drop(levels);
    drop(section);
    filter_changed();
    true
}

/// The counts that belong to a control entry of the running session.
pub(crate) fn counts_of(entry: &'static ControlEntry) -> Option<&'static CallsiteCounts> {
    RUNTIME.value()?.counters.of_entry(entry)
}

/// Enters the callsite under which a sampled callsite's kept records go: the same with one more field, which says of
/// how many calls a record is one. `None` where that is not possible now, or never will be.
pub(crate) fn register_sampled_variant(
    entry: &'static ControlEntry,
    callsite: &dyn Fn() -> Callsite,
) -> Option<u32> {
    if local::is_busy() {
        return None;
    }
    let (runtime, engine) = RUNTIME.value().zip(engine())?;
    runtime.counters.of_entry(entry)?;
    let _section = Section::masked();
    // Keeps other threads from making the same.
    let _levels = runtime.levels();
    match entry.sampled_variant() {
        0 => {}
        sampled_variant => return (sampled_variant != entry.id()).then_some(sampled_variant),
    }
    let mut callsite = callsite();
    callsite.fields.push(Field {
        name: SAMPLE_FIELD.to_owned(),
        kind: FieldKind::plain(Kind::U64),
        argument: false,
    });
    let sampled_variant = enter(engine.session(), &callsite, OFF).map(ControlEntry::id);
    entry.set_sampled_variant(sampled_variant.unwrap_or(entry.id()));
    sampled_variant
}

/// Returns the decision of filter and rules on a callsite; `None` when nothing runs, or when a signal handler asks inside of a log call.
#[cfg(any(feature = "tracing", feature = "log"))]
pub(crate) fn allows(target: &str, level: Level) -> Option<bool> {
    if local::is_busy() {
        return None;
    }
    let runtime = runtime()?;
    let _section = Section::masked();
    let mut levels = runtime.levels();
    if let Some(engine) = runtime.engine() {
        levels.renew(engine.session());
    }
    let by_rules = match levels.rules.as_slice() {
        [] => None,
        rules => logdrive_drain::control::allowed_by_rules(rules, target, level, unix_ns()),
    };
    Some(by_rules.unwrap_or_else(|| levels.filter.allows(target, level)))
}

/// Enters a callsite into the session's table. `None`: nothing runs, or the table is full; counted.
pub(crate) fn register(
    control: &'static ControlRef,
    callsite: &dyn Fn() -> Callsite,
) -> Option<&'static ControlEntry> {
    // Inside of a log call, hence in a signal handler: locks are out of the question.
    if local::is_busy() {
        count_drop(DropReason::Reentrant);
        return None;
    }
    let Some((runtime, engine)) = running() else {
        count_drop(DropReason::Closed);
        return None;
    };
    let section = Section::masked();
    let registered = runtime.register(engine.session(), control, callsite);
    drop(section);
    if registered.is_none() {
        count_drop(DropReason::NoCallsite);
    }
    registered
}

/// A description that is too long for the format is entered without its names rather than not at all.
fn enter(session: &SessionWriter, callsite: &Callsite, base: u32) -> Option<&'static ControlEntry> {
    let bytes = callsite.encode().or_else(|_| {
        let mut callsite = callsite.clone();
        for text in [
            &mut callsite.file,
            &mut callsite.module,
            &mut callsite.target,
            &mut callsite.message,
        ] {
            text.truncate(text.floor_char_boundary(256));
        }
        for Field { name, .. } in &mut callsite.fields {
            name.truncate(name.floor_char_boundary(64));
        }
        callsite.encode()
    });
    session.register(&bytes.ok()?, base).ok()
}

/// Attachment of a thread to the running session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attached {
    /// Until the thread or the session ends.
    ForGood,
    /// The thread is ending, and cannot keep a ring: whoever asked calls `local::detach_thread` after its call.
    ForOneCall,
}

/// Gives the calling thread a ring.
pub(crate) fn attach() -> Result<Attached, DropReason> {
    if local::is_busy() {
        return Err(DropReason::Reentrant);
    }
    if local::is_denied() {
        return Err(DropReason::Backend);
    }
    let (runtime, engine) = running().ok_or(DropReason::Closed)?;
    let _section = Section::masked();
    let is_ending = local::is_ending();
    // A thread that is ending may have no name any more.
    let thread = (!is_ending).then(std::thread::current);
    let name = thread.as_ref().and_then(std::thread::Thread::name).unwrap_or("");
    let producer = (engine.session().acquire_as(name, runtime.full)).map_err(|_| DropReason::NoRing)?;
    let (full, clock, generation) = (runtime.full, runtime.clock, runtime.generation);
    let (is_put, attached) = if is_ending {
        let is_put = local::attach_for_one_call(producer, full, clock, generation);
        (is_put, Attached::ForOneCall)
    } else {
        let is_put = local::attach(producer, full, clock, generation);
        (is_put, Attached::ForGood)
    };
    is_put.then_some(attached).ok_or(DropReason::NoRing)
}

/// Replaces the calling thread's ring, which is full, by a larger one. Where that is not possible, its calls do what the
/// policy says.
pub(crate) fn enlarge_ring() {
    // A call that interrupts the logger takes no locks.
    let is_enlarged = !local::is_busy()
        && running().is_some_and(|(runtime, engine)| {
            let _section = Section::masked();
            engine.session().enlarge_ring(runtime.generation)
        });
    if !is_enlarged {
        local::keep_ring();
    }
}

/// Counts a call that came to nothing: in the thread's ring, else in the session, else in the process.
pub(crate) fn count_drop(reason: DropReason) {
    if reason == DropReason::Reentrant && local::is_busy() && local::count_reentrant() {
        return;
    }
    if reason != DropReason::Closed && local::count_drop(reason) {
        return;
    }
    match engine() {
        Some(engine) => engine.session().header().count_drop(reason, 1),
        // Relaxed: a statistic.
        None => drop(CLOSED.fetch_add(1, Ordering::Relaxed)),
    }
}

/// Writes gap records for the drops of the calling thread.
pub(crate) fn report_gap() {
    let mut counts = local::take_gap();
    for reason in DropReason::ALL {
        let count = counts[reason as usize];
        if count == 0 {
            continue;
        }
        let text = reason.text().as_bytes();
        let length = align_up(HEADER_BYTES + 8 + 4 + text.len());
        let wrote = local::write_uncounted(GAP_CALLSITE, length, Level::Warn.is_urgent(), |put| {
            put.u64(count);
            put.u32(text.len() as u32);
            put.bytes(text);
        });
        if wrote == Wrote::Committed {
            counts[reason as usize] = 0;
        }
    }
    local::return_gap(&counts);
}

/// Number of the callsite of gap records in every session.
const GAP_CALLSITE: u32 = 0;
