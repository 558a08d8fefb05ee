//! Builder: starting and ending the logger.

use crate::config::Config;
use crate::keep::Keep;
use crate::runtime::{self, InitError};
use crate::sinks::{Console, File, IntoSink};
use logdrive_drain::control::read_selector;
use logdrive_drain::file::FileOptions;
use logdrive_drain::schema::{Kind, PROGRAM, Row, Setting, Value, Words, Wrong, limits};
use logdrive_drain::{
    BackendOptions, CallbackSink, Filter, FilterError, MemorySink, Overflow, SinkOptions, Stats, Stopped,
    Target,
};
use logdrive_ring::{FullPolicy, User};
use logdrive_wire::Level;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

/// Starts logging to `./APP.log`, as text in UTC, from debug on or as the environment variable `LOGDRIVE` says.
///
/// Makes a session, starts the drain's threads, and has the records written that killed runs of the same program left, in
/// front of its own. This takes some milliseconds; where there is much to recover, or a disk does not answer, a tenth of a
/// second, and the rest is done beside the program: meanwhile its lines wait in memory that survives SIGKILL.
///
/// The guard drains and ends the logger when it is dropped: keep it in `main`. An exit of the program, SIGTERM, SIGINT and
/// SIGHUP do so, too, within two seconds: see [`Builder::shutdown_timeout`]. Calls before the start and after the end are
/// dropped and counted.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # std::env::set_current_dir(dir.path())?;
/// let guard = logdrive::init("shop")?;
/// logdrive::info!(order_id = 7, "order filled");
/// drop(guard);
/// assert!(std::fs::read_to_string("shop.log")?.contains("order filled order_id=7"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When logging runs already, `LOGDRIVE` cannot be read, or no session or file can be made. The error says what to do.
pub fn init(app: &str) -> Result<Guard, InitError> {
    builder(app).init()
}

/// Returns a builder with the defaults, for an application of this name. Without a sink it logs to `./APP.log`. Letters other
/// than those of file names become `_` in the names of files and of the session.
pub fn builder(app: &str) -> Builder {
    Builder {
        backend: BackendOptions::new(app),
        keep: None,
        filter: None,
        use_env: true,
        terminal: None,
        full: FullPolicy::default(),
        clock: Clock::default(),
        agent: AgentOptions {
            socket: None,
            timeout: Duration::from_millis(500),
        },
        flush_every: None,
        flush_level: None,
        overflow: None,
        panic_hook: true,
        note_signals: true,
        count_disabled: false,
        shutdown_timeout: Duration::from_secs(2),
    }
}

/// Source of the times of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The processor's counter: exact to some nanoseconds, about 10 ns a call. Falls back to the system's monotonic clock where
    /// the counter is not steady.
    #[default]
    Tsc,
    /// A word in memory that the drain renews at every pass: about 2 ns a call, exact to about a millisecond. Records of one
    /// thread keep their order; those of different threads may have equal times.
    Coarse,
}

/// Options of the agent that drains the session.
#[derive(Debug, Clone)]
struct AgentOptions {
    socket: Option<PathBuf>,
    /// Longest wait of a start for it.
    timeout: Duration,
}

/// Description of a logger: its sinks and options. Setters only store values and cannot fail; [`Builder::init`] checks them.
/// A later call of the same setter replaces the value of an earlier one.
///
/// ```
/// use logdrive::{Console, File, Full, Layout};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("logs/shop.log");
/// let guard = logdrive::builder("shop")
///     .file(File::new(path).layout(Layout::json()).rotate_bytes(64 << 20).keep_files(10))
///     .console(Console::stderr())
///     .filter("info,shop::net=trace")
///     .full(Full::Wait)
///     .init()?;
/// # drop(guard);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `init` is called"]
pub struct Builder {
    /// Sinks without what is set for all of them; `keep` joins at the start.
    backend: BackendOptions,
    keep: Option<Keep>,
    filter: Option<String>,
    use_env: bool,
    terminal: Option<bool>,
    full: FullPolicy,
    clock: Clock,
    agent: AgentOptions,
    flush_every: Option<Duration>,
    flush_level: Option<Level>,
    overflow: Option<Overflow>,
    panic_hook: bool,
    note_signals: bool,
    count_disabled: bool,
    shutdown_timeout: Duration,
}

logdrive_drain::words!(Clock {
    Tsc = "tsc": "the processor's counter",
    Coarse = "coarse": "a word that the drain renews each millisecond",
});

// The options of a logger, as programs in other languages set them. The methods of the same names tell more.
logdrive_drain::rows! { Builder {
    /// Levels of modules and files. The environment variable `LOGDRIVE` goes before it.
    filter: [
        |builder| builder.filter.to_value(),
        |builder, value| {
            let directives = String::from_value(value)?;
            directives.parse::<Filter>().map_err(|error| Wrong::new(error.to_string()))?;
            builder.filter = Some(directives);
            Ok(())
        }
    ] => Row::of(Kind::Parsed("levels such as \"info,net::quic=trace\"")).scope(PROGRAM),
    /// Fate of a call whose thread's ring is full.
    full: (full) => Row::of(Kind::Word).words(FullPolicy::WORDS).scope(PROGRAM),
    /// Source of the times of records.
    clock: (clock) => Row::of(Kind::Word).words(Clock::WORDS).scope(PROGRAM),
    /// Bytes of each thread's ring, rounded up to a power of two.
    ring_bytes: (backend.ring_bytes) => Row::of(Kind::Size(limits::RING_BYTES)).scope(PROGRAM),
    /// Directory of the session.
    run_dir: (backend.run_dir) => Row::of(Kind::Path(limits::PATH_BYTES_MAX)).scope(PROGRAM),
    /// User and group that the program becomes after the start.
    run_as: [
        |builder| builder.backend.run_as.map(|user| Value::Text(format!("{}:{}", user.uid, user.gid))),
        |builder, value| {
            let text = String::from_value(value)?;
            let numbers = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
            let (uid, gid) = numbers.ok_or_else(|| Wrong::new("expected the numbers of a user and a group"))?;
            builder.backend.run_as = Some(User { uid, gid });
            Ok(())
        }
    ] => Row::of(Kind::Parsed("numbers of a user and a group, such as \"65534:65534\"")).scope(PROGRAM),
    /// Socket of the agent that drains the session.
    agent: (agent.socket) => Row::of(Kind::Path(limits::PATH_BYTES_MAX)).scope(PROGRAM),
    /// Time that lines may wait in a buffer, for all sinks.
    flush_every: (flush_every) => Row::of(Kind::Time(limits::FLUSH_EVERY)).scope(PROGRAM),
    /// Level from which on a record is flushed at once, for all sinks.
    flush_level: (flush_level) => Row::of(Kind::Level).scope(PROGRAM),
    /// Handling of records for a sink that is too slow, for all sinks.
    overflow: (overflow) => Row::of(Kind::Word).words(Overflow::WORDS).scope(PROGRAM),
    /// Bytes of the flight recorder, which keeps records that no sink takes; unset: there is none.
    keep_bytes: [
        |builder| builder.keep.as_ref()?.options.bytes.to_value(),
        |builder, value| {
            builder.keep_mut().options.bytes = u64::from_value(value)?;
            Ok(())
        }
    ] => Row::of(Kind::Size(limits::RECORDER_BYTES)).scope(PROGRAM),
    /// Level from which on a record has the flight recorder written.
    keep_trigger: [
        |builder| builder.keep.as_ref()?.options.trigger_level.to_value(),
        |builder, value| {
            builder.keep_mut().options.trigger_level = Option::from_value(value)?;
            Ok(())
        }
    ] => Row::of(Kind::Level).off().scope(PROGRAM),
    /// Statement, file, module or target whose records have the flight recorder written; one more each time.
    keep_trigger_at: [
        |builder| builder.keep.as_ref()?.callsites.last().cloned().map(Value::Text),
        |builder, value| {
            let callsite = String::from_value(value)?;
            read_selector(&callsite).map_err(|error| Wrong::new(error.to_string()))?;
            builder.keep_mut().callsites.push(callsite);
            Ok(())
        }
    ] => Row::of(Kind::Parsed("a place such as \"src/net.rs:42\", a file, a module or a target")).scope(PROGRAM),
    /// Time before a trigger whose records the flight recorder writes; unset: all.
    keep_before: [
        |builder| builder.keep.as_ref()?.options.before.to_value(),
        |builder, value| {
            builder.keep_mut().options.before = Option::from_value(value)?;
            Ok(())
        }
    ] => Row::of(Kind::Time(limits::RECORDER_TIME)).off().scope(PROGRAM),
    /// Shortest time between two dumps of the flight recorder that records trigger.
    keep_pause: [
        |builder| builder.keep.as_ref()?.options.pause.to_value(),
        |builder, value| {
            builder.keep_mut().options.pause = Duration::from_value(value)?;
            Ok(())
        }
    ] => Row::of(Kind::Time(limits::RECORDER_TIME)).scope(PROGRAM),
    /// A recovery writes what the flight recorder of a killed process holds.
    keep_on_crash: [
        |builder| builder.keep.as_ref()?.options.on_crash.to_value(),
        |builder, value| {
            builder.keep_mut().options.on_crash = bool::from_value(value)?;
            Ok(())
        }
    ] => Row::of(Kind::Flag).scope(PROGRAM),
    /// Signals that end the process are noted in the session.
    note_signals: (note_signals) => Row::of(Kind::Flag).scope(PROGRAM),
    /// Calls that the filter switches off are counted.
    count_disabled: (count_disabled) => Row::of(Kind::Flag).scope(PROGRAM),
    /// Time in which the log is drained where the program ends without stopping its logger; 0 leaves it for recovery.
    shutdown_timeout: (shutdown_timeout) => Row::of(Kind::Time(limits::SHUTDOWN_TIMEOUT)).scope(PROGRAM),
    /// Sessions of dead processes of the same name are drained before the start.
    recover: (backend.recover) => Row::of(Kind::Flag).scope(PROGRAM),
    /// Sessions of dead processes that are kept where they cannot be recovered; the oldest are dropped, and counted.
    held_sessions: (backend.held_sessions) => Row::of(Kind::Count(limits::HELD_SESSIONS)).scope(PROGRAM),
    /// Bytes that they take together.
    held_bytes: (backend.held_bytes) => Row::of(Kind::Size(limits::HELD_BYTES)).scope(PROGRAM),
    /// `LOGDRIVE`, `LOGDRIVE_AGENT` and a terminal are looked at.
    use_env: (use_env) => Row::of(Kind::Flag).scope(PROGRAM),
    /// The log is shown on standard error, too, where that is a terminal.
    terminal: (terminal) => Row::of(Kind::Flag).scope(PROGRAM),
} }

impl Builder {
    /// Adds a file as a sink. It is opened by [`Builder::init`].
    pub fn file(self, file: File) -> Self {
        self.sink(file)
    }

    /// Adds standard output or standard error as a sink.
    pub fn console(self, console: Console) -> Self {
        self.sink(console)
    }

    /// Adds a memory sink, for tests. It keeps lines up to its own limit of bytes and then forgets the oldest.
    pub fn memory(self, memory: &MemorySink) -> Self {
        self.sink(SinkOptions::new(Target::Memory(memory.clone())))
    }

    /// Adds a function of the program as a sink: it gets whole lines, one or more at a time, and answers whether it has taken
    /// them. See [`CallbackSink`] for the thread that calls it, and for what it may do.
    pub fn callback(self, callback: CallbackSink) -> Self {
        self.sink(SinkOptions::new(Target::Callback(callback)))
    }

    /// Adds a sink that formats lines and discards them, to measure everything but the disk.
    pub fn discard(self) -> Self {
        self.sink(SinkOptions::new(Target::Discard))
    }

    /// Adds any sink. Records go to every sink whose lowest level they reach; 16 sinks at most, more are an error of
    /// [`Builder::init`].
    pub fn sink(mut self, sink: impl IntoSink) -> Self {
        self.backend.sinks.push(sink.into_sink());
        self
    }

    /// Adds a flight recorder: records that the filter passes and that are below the level of all sinks are kept in memory, and
    /// written when a trigger occurs. The file that is made when no sink is given then begins at info. Default: none.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = Some(keep);
        self
    }

    /// The flight recorder, which an option of it asks for.
    fn keep_mut(&mut self) -> &mut Keep {
        self.keep.get_or_insert_with(|| Keep::bytes(1 << 20))
    }

    /// Sets the callsites that are on, as `info,net=trace`; see [`Filter`]. The environment variable `LOGDRIVE` replaces it. A
    /// mistake in it is an error of [`Builder::init`]. Default: `debug`.
    pub fn filter(mut self, directives: &str) -> Self {
        self.filter = Some(directives.to_owned());
        self
    }

    /// Reads the environment variables `LOGDRIVE` and `LOGDRIVE_AGENT`, or with `false` ignores them, and a terminal, too. A part
    /// of `LOGDRIVE` that cannot be read is left out, and a line in the log says so. Default: reads them.
    pub fn use_env(mut self, on: bool) -> Self {
        self.use_env = on;
        self
    }

    /// Shows the log on standard error, too, where that is a terminal: from info on, in colours unless `NO_COLOR` says
    /// otherwise, with a first line that says where the file is. A terminal that takes nothing costs lines there and nothing
    /// else. With `false` the process stays silent, as it does without a terminal. Has no effect where a console or a memory
    /// is a sink, or an agent has the log. Default: shows it, unless [`Builder::use_env`] is off.
    pub fn terminal(mut self, on: bool) -> Self {
        self.terminal = Some(on);
        self
    }

    /// Sets the fate of a call when its thread's ring is full: `Wait` waits 10 ms once in an overload and then drops, `Drop`
    /// drops at once, `Block` waits as long as it takes. Dropped calls are counted and reported in the log. Default: `Wait`.
    pub fn full(mut self, policy: FullPolicy) -> Self {
        self.full = policy;
        self
    }

    /// Sets the source of the times of records. Default: the processor's counter.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the bytes of each thread's largest ring, rounded up to a power of two; 64 KiB to 1 GiB. A thread begins with one of
    /// 64 KiB, which is replaced by a larger one when it fills. The longest record is 64 KiB, or an
    /// eighth of the ring where that is less. Default: 1 MiB.
    pub fn ring_bytes(mut self, bytes: usize) -> Self {
        self.backend.ring_bytes = bytes;
        self
    }

    /// Sets the directory in which the session is made. It must be on a local file system. Default: `/dev/shm/logdrive-UID`, else `.logdrive` beside the first log file.
    pub fn run_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.backend.run_dir = Some(dir.into());
        self
    }

    /// Prepares the log for a program that starts as root and becomes this user and group afterwards, as daemons do: the run
    /// directory is that of this user, and the session, the log files and all directories that have to be made are this
    /// user's from the start, so that new threads log, files rotate and the user's tools see the session when the program
    /// has called `setuid`. A log directory that this user owns is accepted. Directories that are there stay whose they are: in
    /// one of root's, the log file is handed over and written, and cannot be rotated.
    ///
    /// The program changes its user itself, after the start. Has no effect where it runs as this user already, or an agent
    /// has the log. Where it may not change users, a line in the log says so. Linux only. Default: none.
    pub fn run_as(mut self, uid: u32, gid: u32) -> Self {
        self.backend.run_as = Some(User { uid, gid });
        self
    }

    /// Sets the socket of an agent that drains the session. This process then has no drain, no I/O threads and no sinks of its
    /// own. Its committed records survive its death, and the agent's, but not that of both at once. The
    /// sinks that are described here are used only where no agent answers [in time](Builder::agent_timeout); then a line in the log
    /// says so. When the agent dies later, rings fill, [`Builder::full`] applies, and the process tries to reach an agent
    /// again for as long as it lives, each second at least.
    ///
    /// The environment variable `LOGDRIVE_AGENT` replaces it; when it is empty or `off`, there is no agent. Programs with
    /// rights that their user has not (set-user-id) ignore the variable. Linux only. Default: no agent.
    pub fn agent(mut self, socket: impl Into<PathBuf>) -> Self {
        self.agent.socket = Some(socket.into());
        self
    }

    /// Sets how long a start waits for the agent, from 10 milliseconds to a minute. A process to which none answers in this
    /// time writes its log itself. Default: half a second.
    pub fn agent_timeout(mut self, timeout: Duration) -> Self {
        self.agent.timeout = timeout.clamp(Duration::from_millis(10), Duration::from_secs(60));
        self
    }

    /// Sets the longest time that lines wait in a buffer before they are written, for all sinks; see also the setter of the same
    /// name of each sink, which this replaces. Default: 25 ms.
    pub fn flush_every(mut self, time: Duration) -> Self {
        self.flush_every = Some(time);
        self
    }

    /// Sets the level from which on a record is written at once, with all before it, for all sinks. Default: error.
    pub fn flush_level(mut self, level: Level) -> Self {
        self.flush_level = Some(level);
        self
    }

    /// Sets the fate of records for a sink that is too slow, for all sinks: dropped for that sink and counted, or held back, which
    /// fills the rings. Default: dropped; with the policy `Block` held back.
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = Some(overflow);
        self
    }

    /// Logs panics at level error, with the place and the calls that led to it (without them where `RUST_BACKTRACE` is 0),
    /// waits for the log as [`crate::flush`] does, and then runs the earlier panic hook. It is installed once for the
    /// program and stays after the logger's end. A hook that the program sets later takes its place. Default: on.
    pub fn panic_hook(mut self, on: bool) -> Self {
        self.panic_hook = on;
        self
    }

    /// Notes SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE and SIGSYS in the session, with the thread and its calls, and has the
    /// log written with a line about it, for [`Builder::shutdown_timeout`] at most. Then the signal takes its course: the
    /// handler that was there before runs, or the process ends. A signal that an earlier handler deals with leaves no
    /// note. The calls are places in files, such as `shop+0x1f2a3`, which `addr2line -e shop 0x1f2a3` names. Default: yes.
    pub fn note_signals(mut self, on: bool) -> Self {
        self.note_signals = on;
        self
    }

    /// Counts also the calls that the filter switches off, so that `calls = committed + dropped + disabled + sampled out`
    /// holds exactly in [`crate::stats`]. Such a call then costs some nanoseconds instead of less than one. Default: no.
    pub fn count_disabled(mut self, on: bool) -> Self {
        self.count_disabled = on;
        self
    }

    /// Sets the time in which the log is drained where the program ends and its guard was not dropped: by a return from
    /// `main`, `exit`, `quick_exit`, or by SIGTERM, SIGINT or SIGHUP with their default action. Then the end goes on as it
    /// would have, with the same exit status. What is not written in this time stays in the session, for recovery.
    ///
    /// A signal is taken only if the program neither handles nor ignores it when the logger starts, and a handler that the
    /// program installs later takes the place of ours. The first process of a container, which the kernel keeps from such
    /// signals, has its log written and goes on. With 0, no signal is taken and nothing is done at an exit. Signals on Linux
    /// only. Default: 2 s.
    pub fn shutdown_timeout(mut self, time: Duration) -> Self {
        self.shutdown_timeout = time;
        self
    }

    /// Drains the sessions that dead processes of the same name left. The start waits for that 30 ms at most; what takes
    /// longer goes on beside the program, whose own lines come behind in a file that both log to. A file or collector that
    /// takes nothing for five seconds is given up for this start, and a line in the log says which sessions wait for it with
    /// how many records; [`Builder::held_sessions`] bounds them. With `false` they stay until another start or `logdrive recover` drains them. Default: drains them.
    pub fn recover(mut self, on: bool) -> Self {
        self.backend.recover = on;
        self
    }

    /// Sets how many sessions of dead processes of the same name are kept where they cannot be recovered, because their disk
    /// is full or hangs or their collector does not answer, and the bytes that they take together, which is also no more than
    /// half of their file system. Beyond that a start drops the oldest, and a line in the log says how many records of how
    /// many sessions those were. The newest stays in any case. Default: 64 sessions and 256 MiB.
    pub fn held_sessions(mut self, sessions: u64, bytes: u64) -> Self {
        self.backend.held_sessions = sessions;
        self.backend.held_bytes = bytes;
        self
    }

    /// Sets the file system through which files are written; for tests that make it fail.
    pub fn storage(mut self, storage: std::sync::Arc<dyn logdrive_drain::file::Storage>) -> Self {
        self.backend.storage = storage;
        self
    }

    /// Starts the logger. Blocks as [`init`] does; with [`Builder::agent`] up to [`Builder::agent_timeout`]
    /// more.
    ///
    /// # Errors
    /// As [`init`]. After an error nothing runs, and another start may be tried.
    pub fn init(self) -> Result<Guard, InitError> {
        let panic_hook = self.panic_hook;
        runtime::start(self.into_config()?)?;
        if panic_hook {
            crate::panics::install();
        }
        Ok(Guard { stopped: false })
    }

    fn into_config(self) -> Result<Config, InitError> {
        let mut filter: Filter = self.filter.as_deref().map_or(Ok(Filter::default()), str::parse)?;
        let mut notices = Vec::new();
        if let Some(text) = self.use_env.then(|| std::env::var("LOGDRIVE").ok()).flatten() {
            let (read, wrong) = Filter::read_leniently(&text, &filter);
            filter = read;
            let of_one = |error: &FilterError| format!("LOGDRIVE: {error}; this part is left out");
            notices.extend(wrong.iter().map(of_one));
        }
        let shows_terminal = self.terminal.unwrap_or(self.use_env);
        let mut backend = self.backend;
        if backend.sinks.is_empty() {
            let path = format!("{}.log", logdrive_ring::file_part(&backend.app));
            let mut sink = SinkOptions::new(Target::File(FileOptions::new(path)));
            if self.keep.is_some() {
                sink.min_level = Level::Info;
            }
            backend.sinks.push(sink);
        }
        backend.keep = self.keep.map(Keep::into_options).transpose()?;
        let holds = self.full == FullPolicy::Block;
        for sink in &mut backend.sinks {
            sink.flush_every = self.flush_every.unwrap_or(sink.flush_every);
            sink.flush_level = self.flush_level.unwrap_or(sink.flush_level);
            sink.overflow = match self.overflow {
                Some(overflow) => overflow,
                None if holds => Overflow::Hold,
                None => sink.overflow,
            };
        }
        backend.coarse_clock = self.clock == Clock::Coarse;
        let agent = match self.use_env {
            true => agent_from_env(self.agent.socket),
            false => self.agent.socket,
        };
        let shows_terminal = shows_terminal && agent.is_none() && std::io::stderr().is_terminal();
        let first_line = shows_terminal
            .then(|| show_on_terminal(&mut backend.sinks))
            .flatten();
        Ok(Config {
            backend,
            agent,
            agent_timeout: self.agent.timeout,
            filter,
            full: self.full,
            note_signals: self.note_signals,
            count_disabled: self.count_disabled,
            notices,
            first_line,
            shutdown_timeout: self.shutdown_timeout,
        })
    }
}

/// Adds the terminal to sinks of which one is a file and none is a console or a memory; returns the first line.
fn show_on_terminal(sinks: &mut Vec<SinkOptions>) -> Option<String> {
    let shows =
        |sink: &SinkOptions| matches!(sink.target, Target::Stdout | Target::Stderr | Target::Memory(_));
    let file = sinks.iter().find_map(|sink| match &sink.target {
        Target::File(file) => Some(&file.path),
        _ => None,
    })?;
    if sinks.len() >= logdrive_ring::SINKS_MAX || sinks.iter().any(shows) {
        return None;
    }
    let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
    let mut terminal = SinkOptions::new(Target::Stderr);
    // Below the level of all other sinks, records are for a flight recorder.
    let lowest = sinks.iter().map(|sink| sink.min_level).min()?;
    terminal.min_level = lowest.max(Level::Info);
    let from = terminal.min_level.name().to_ascii_lowercase();
    sinks.push(terminal);
    Some(format!(
        "logdrive: the log is in {}; from {from} on it is shown here, too\n",
        file.display()
    ))
}

/// The agent's socket as the environment says, if it says anything.
fn agent_from_env(given: Option<PathBuf>) -> Option<PathBuf> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if logdrive_ring::is_privileged() {
        return given;
    }
    match std::env::var_os("LOGDRIVE_AGENT") {
        None => given,
        Some(socket) if socket.is_empty() || socket == "off" => None,
        Some(socket) => Some(PathBuf::from(socket)),
    }
}

/// Running logger of this process. Its drop ends the logger: it blocks until all committed records are written, but no longer
/// than five seconds without progress. Records that could not be written stay in the session for recovery.
#[derive(Debug)]
#[must_use = "the logger ends when the guard is dropped; keep it in `main`"]
pub struct Guard {
    stopped: bool,
}

impl Guard {
    /// Ends the logger as the drop does, and returns whether everything was written, with the last statistics. `None` when it
    /// had ended already. Calls after it are dropped and counted.
    pub fn stop(mut self) -> Option<(Stopped, Stats)> {
        self.stopped = true;
        runtime::stop()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.stopped {
            // Records that could not be written stay in the session, for recovery.
            let _ = runtime::stop();
        }
    }
}
