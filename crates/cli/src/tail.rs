//! `logdrive tail`: what programs log, as it comes, all processes on one time line.
//!
//! Records come from the rings, which are observed (`logdrive_reader::follow`). What was logged before comes from the
//! log files. Both meet at one moment: the follower begins first, then the files are read once they have everything up
//! to that moment, which takes the time between two flushes of the log, 25 ms by default.

pub(crate) mod files;
pub(crate) mod past;
mod pause;

use crate::cat::lines::Lines;
use crate::error::CliError;
use crate::format_args::Format;
use crate::instant::now_unix_ns;
use crate::output::{note, process_title, safe};
use crate::paint::{ColorChoice, Paint, Style};

use crate::session_finder::{Located, SessionFinder};
use crate::sessions::{read, select};
use crate::signals::Signals;
use crate::tail_args::TailArgs;
use logdrive_drain::layout::{LayoutOptions, Style as LayoutStyle};
use logdrive_reader::follow::{Follow, FollowOptions, FollowedRecord, Polled, Start};
use logdrive_wire::Level;
use past::Pasts;
use pause::{Pause, ends_within};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval of the search for new processes.
const SCAN_EVERY: Duration = Duration::from_millis(500);

/// Interval at which agents are asked for the rings of new threads, where there are any: sooner than such a ring is
/// full.
const EXTEND_EVERY: Duration = Duration::from_millis(20);

/// Runs the command.
pub(crate) fn run(args: &TailArgs, color: ColorChoice) -> Result<(), CliError> {
    // A session is a directory, and no program has the name of a file.
    let is_file = |name: &String| Path::new(name).is_file();
    if !args.names.is_empty() && args.names.iter().all(is_file) {
        return files::follow(&files::FileArgs::of_tail(args), color);
    }
    if let Some(file) = args.names.iter().find(|name| is_file(name)) {
        return Err(CliError::FileAmongPrograms { name: safe(file) });
    }
    let signals = Signals::new(&[SIGHUP, SIGINT, SIGTERM])?;
    let mut tail = Tail::new(args, color)?;
    tail.scan()?;
    if tail.known.is_empty() && !args.wait {
        return Err(tail.no_running_process());
    }
    tail.show_past(&signals)?;
    if args.no_follow {
        return tail.finish();
    }
    let mut pause = Pause::new();
    let mut scan_at = Instant::now() + SCAN_EVERY;
    let mut extend_at = Instant::now();
    loop {
        let polled = tail.follow.poll();
        let taken = tail.take(false)?;
        tail.report_ended();
        if tail.is_over() {
            return tail.finish();
        }
        if taken > 0 {
            tail.lines.flush()?;
        }
        if Instant::now() >= scan_at {
            tail.scan()?;
            scan_at = Instant::now() + SCAN_EVERY;
        } else if Instant::now() >= extend_at {
            tail.extend();
            extend_at = Instant::now() + EXTEND_EVERY;
        }
        if ends_within(&signals, pause.after(&polled)) {
            tail.follow.poll();
            tail.take(true)?;
            return tail.finish();
        }
    }
}

/// A process that is, or was, followed.
#[derive(Debug)]
struct Known {
    at: Located,
    app: String,
    pid: u32,
    /// Records up to the beginning come from its file.
    has_file: bool,
    /// Its log files, for one that an agent has: others log there, too.
    shared_files: Vec<PathBuf>,
    has_ended: bool,
}

impl Known {
    fn title(&self) -> String {
        process_title(&self.app, self.pid)
    }
}

/// The command at work.
struct Tail<'a> {
    args: &'a TailArgs,
    finder: SessionFinder,
    follow: Follow,
    lines: Lines,
    /// By the number under which it is followed.
    known: BTreeMap<u64, Known>,
    next_id: u64,
    /// Records up to this time are past, of sessions that were there when the command began.
    began_unix_ns: u64,
    /// Whether lines name their process: once there was more than one.
    names_process: bool,
    has_begun: bool,
    missed: u64,
    stderr: Paint,
}

impl<'a> Tail<'a> {
    fn new(args: &'a TailArgs, color: ColorChoice) -> Result<Self, CliError> {
        let format = args.format.chosen().unwrap_or_default();
        let style = match format {
            Format::Text => LayoutStyle::Text,
            Format::Json => LayoutStyle::Json,
            Format::Logfmt => LayoutStyle::Logfmt,
        };
        let options = FollowOptions {
            layout: LayoutOptions::from(style),
            min_level: args.filters.level.unwrap_or(Level::Trace),
            ..FollowOptions::default()
        };
        let mut finder = SessionFinder::of(&args.run_dir, &args.agent)?;
        for name in args.names.iter().filter(|name| name.contains('/')) {
            finder.look_at(Path::new(name));
        }
        Ok(Self {
            args,
            finder,
            follow: Follow::new(options),
            lines: Lines::new(
                &args.filters,
                args.since.as_ref().and_then(|since| since.unix_ns(&args.zone)),
                format,
                color,
                args.zone.asked(),
            )?,
            known: BTreeMap::new(),
            next_id: 0,
            began_unix_ns: now_unix_ns(),
            names_process: false,
            has_begun: false,
            missed: 0,
            stderr: color.for_stderr(),
        })
    }

    /// Looks for processes that have come or gone.
    fn scan(&mut self) -> Result<(), CliError> {
        let found = self.finder.find()?;
        for (id, known) in self.known.iter_mut().filter(|(_, known)| !known.has_ended) {
            let is_found = found.iter().any(|at| at.path == known.at.path && at.is_alive());
            // An agent that is away says nothing about its sessions; they go on without it.
            let is_alive = is_found || (self.finder.is_silent(&known.at.path) && is_running(known.pid));
            if !is_alive {
                known.has_ended = true;
                self.follow.has_ended(*id);
            }
        }
        for at in found {
            let mut known = self.known.values();
            let is_known = known.any(|known| known.at.path == at.path && !known.has_ended);
            if !is_known && at.is_alive() {
                self.add(at);
            }
        }
        self.extend();
        Ok(())
    }

    /// Opens the rings of threads that have come to sessions of agents.
    fn extend(&mut self) {
        for id in self.follow.lacking_rings() {
            // One that cannot be opened has just ended, or its agent is away: the next look tries again.
            if let Some(known) = self.known.get(&id)
                && let Ok(view) = self.finder.view(&known.at)
            {
                self.follow.extend(id, view);
            }
        }
    }

    /// Follows a live session, if it is meant.
    fn add(&mut self, at: Located) {
        let Some((app, pid)) = self.finder.owner_of(&at) else {
            return;
        };
        if !self.is_meant(&at, &app, pid) {
            return;
        }
        // One that cannot be opened is being made or removed, or damaged, which `ps` reports.
        let Ok(view) = self.finder.view(&at) else {
            return;
        };
        let shared_files = self.files_of_agent(&at);
        let has_files = !shared_files.is_empty() || !past::files_of(&view, pid).is_empty();
        let has_file = !self.has_begun && has_files;
        // A session that comes later, or has no file, is shown from as far back as its memory goes.
        let from = if has_file || (self.args.lines == Some(0) && !self.has_begun) {
            Start::Newest
        } else {
            Start::Oldest
        };
        let id = self.next_id;
        if let Err(error) = self.follow.add(id, view, from) {
            self.say(&format!("{} is not followed: {error}", process_title(&app, pid)));
            return;
        }
        self.next_id += 1;
        if self.has_begun {
            self.say(&format!("{} logs", process_title(&app, pid)));
        }
        // An agent's own lines, which come before the others, name their process, too.
        self.names_process |= !shared_files.is_empty() || self.known.values().any(|known| !known.has_ended);
        self.known.insert(
            id,
            Known {
                at,
                app,
                pid,
                has_file,
                shared_files,
                has_ended: false,
            },
        );
    }

    /// The files to which an agent writes the records of a session.
    fn files_of_agent(&mut self, at: &Located) -> Vec<PathBuf> {
        // Where the agent does not report them, the past is what memory has.
        let mut sinks = self.finder.sinks(at, false).unwrap_or_default();
        sinks.sort_by_key(|sink| sink.min_level);
        let files = sinks.into_iter().filter_map(|sink| Some(sink.file?.path));
        files.filter(|path| path.is_file()).collect()
    }

    fn is_meant(&self, at: &Located, app: &str, pid: u32) -> bool {
        let names = &self.args.names;
        names.is_empty() || names.iter().any(|name| at.is_named(name, app, pid))
    }

    /// No live process matches.
    fn no_running_process(&mut self) -> CliError {
        let finder = &mut self.finder;
        let found = finder.find();
        let sessions = found.and_then(|found| select(read(found, finder), &self.args.names, finder));
        let hint = match sessions {
            Err(error) => return error,
            Ok(sessions) if sessions.is_empty() => {
                ": no program of this user logs with Logdrive here; --wait waits for one".to_owned()
            }
            Ok(_) => {
                ": it is dead, and `logdrive recover` brings what it had logged into its log; --wait waits \
                      for its next start"
                    .to_owned()
            }
        };
        let name = match self.args.names.as_slice() {
            [] => "anything".to_owned(),
            names => safe(&names.join(" or ")),
        };
        CliError::NoRunningProcess { name, hint }
    }

    /// Shows the last records before the beginning.
    fn show_past(&mut self, signals: &Signals) -> Result<(), CliError> {
        self.began_unix_ns = now_unix_ns();
        self.has_begun = true;
        let count = match (self.args.lines, &self.args.since) {
            (Some(lines), _) => lines as usize,
            (None, Some(_)) => usize::MAX,
            (None, None) => 10,
        };
        if self.known.is_empty() {
            return Ok(());
        }
        let mut pasts = Pasts::new(count, self.began_unix_ns);
        if count > 0 {
            let behind = pasts.wait_for_files(&self.known, &mut self.follow, &mut self.finder, signals);
            for title in behind {
                self.say(&format!(
                    "{title} has not written its newest records yet: those just before this moment are missing here"
                ));
            }
            pasts.read_files(&self.known, &self.args.names, &self.lines);
        }
        for error in pasts.take_failures() {
            self.say(&error.to_string());
        }
        let (known, lines, names) = (&self.known, &mut self.lines, self.names_process);
        let is_end = self.args.no_follow;
        let mut printed = false;
        self.follow.poll();
        self.follow.take(is_end, |record| {
            let has_file = known.get(&record.id).is_some_and(|known| known.has_file);
            if record.unix_ns <= pasts.until_ns {
                // What its file has is not shown twice.
                if !has_file && count > 0 {
                    pasts.keep(record, lines, names);
                }
                return Ok(());
            }
            // Who wants no more than what there is gets as many as were asked for, however much is logged meanwhile.
            if is_end {
                return Ok(());
            }
            if !printed {
                printed = true;
                pasts.print(known, lines, names)?;
            }
            show(record, lines, names)
        })?;
        if !printed {
            pasts.print(known, lines, names)?;
        }
        self.lines.flush()
    }

    /// Prints what is old enough to be in order, or `all`.
    fn take(&mut self, all: bool) -> Result<u64, CliError> {
        let (known, lines, names) = (&self.known, &mut self.lines, self.names_process);
        let began_unix_ns = self.began_unix_ns;
        self.follow.take(all, |record| {
            let is_past = record.unix_ns <= began_unix_ns;
            if is_past && known.get(&record.id).is_some_and(|known| known.has_file) {
                return Ok(());
            }
            show(record, lines, names)
        })
    }

    fn report_ended(&mut self) {
        for gone in self.follow.take_gone() {
            let known = self.known.get(&gone.id);
            let (app, path) = match known {
                Some(known) => (known.app.clone(), known.at.path.clone()),
                None => continue,
            };
            // A session that stays is one that could not be removed.
            let how = if path.join("session").exists() {
                "was killed; its log is finished at its next start, or by `logdrive recover`"
            } else {
                "has ended"
            };
            self.missed += gone.missed;
            self.say(&format!("{} {how}", process_title(&app, gone.process.pid)));
        }
    }

    /// Whether nothing can come any more: only processes were named, and all have ended.
    fn is_over(&self) -> bool {
        let names = &self.args.names;
        let is_one_process = |name: &String| {
            name.parse::<u32>().is_ok()
                || name.contains('/')
                || self.known.values().any(|known| {
                    let own = known.at.path.file_name();
                    own.is_some_and(|own| own == &**name)
                })
        };
        !self.args.wait
            && !names.is_empty()
            && names.iter().all(is_one_process)
            && self.follow.followed().next().is_none()
    }

    /// Writes what is left and reports what is missing.
    fn finish(mut self) -> Result<(), CliError> {
        self.lines.flush()?;
        let missed = self.follow.missed();
        if missed > 0 {
            self.say(&format!(
                "{} records were overwritten before they could be shown; the logs have them",
                crate::table::count_text(missed)
            ));
        }
        if self.follow.damaged() > 0 {
            self.say("some of what was found in memory is damaged and was left out: see `logdrive stats`");
        }
        Ok(())
    }

    /// A dim line beside the records.
    fn say(&self, text: &str) {
        note(self.stderr.the(Style::Dim, text).to_string());
    }
}

/// Whether there is such a process.
fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Prints a record, if it passes.
fn show(record: &mut FollowedRecord<'_>, lines: &mut Lines, names_process: bool) -> Result<(), CliError> {
    if !record.passes(&lines.filter) {
        return Ok(());
    }
    match names_process {
        true => lines.print(record.line_with_process()),
        false => lines.print(record.line()),
    }
}

impl Pause {
    fn after(&mut self, polled: &Polled) -> Duration {
        self.next(polled.bytes, polled.fullest)
    }
}
