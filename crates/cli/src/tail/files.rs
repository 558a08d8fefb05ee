//! Log files that are followed: what they have, then what comes, merged by time, through rotation and truncation.

use super::pause::ends_within;
use crate::args::{CatArgs, CatFormat};
use crate::cat::lines::Lines;
use crate::error::CliError;
use crate::filter_args::FilterArgs;
use crate::format_args::Format;
use crate::output::note;
use crate::paint::{ColorChoice, Style};
use crate::signals::Signals;
use crate::tail_args::TailArgs;
use jiff::tz::TimeZone;
use logdrive_reader::is_plain_text;
use logdrive_reader::pages::{
    Budget, Change, Direction, PagedLog, RecordPlace, Step, TimeLine, WalkFrom, Want,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Interval of looks at the files.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Arguments of a command that follows files.
pub(crate) struct FileArgs<'a> {
    files: Vec<PathBuf>,
    filters: &'a FilterArgs,
    since_ns: Option<u64>,
    /// Records that are shown before what comes; all without a number.
    lines: Option<usize>,
    format: Option<Format>,
    zone: Option<TimeZone>,
    ends: bool,
}

impl<'a> FileArgs<'a> {
    /// Those of `cat --follow`.
    pub(crate) fn of_cat(args: &'a CatArgs) -> Result<Self, CliError> {
        if args.files.is_empty() {
            return Err(CliError::NothingToRead);
        }
        let format = match args.format() {
            Some(CatFormat::Text) => Some(Format::Text),
            Some(CatFormat::Json) => Some(Format::Json),
            Some(CatFormat::Logfmt) => Some(Format::Logfmt),
            // A trace ends with its connection.
            Some(CatFormat::Qlog) => return Err(CliError::QlogFollow),
            None => None,
        };
        Ok(Self {
            files: args.files.clone(),
            filters: &args.filters,
            since_ns: args.times.since_ns(),
            lines: args.lines.map(|lines| lines as usize),
            format,
            zone: args.times.zone.asked(),
            ends: false,
        })
    }

    /// Those of `tail`, where all names are files.
    pub(crate) fn of_tail(args: &'a TailArgs) -> Self {
        Self {
            files: args.names.iter().map(PathBuf::from).collect(),
            filters: &args.filters,
            since_ns: args.since.as_ref().and_then(|since| since.unix_ns(&args.zone)),
            lines: match (args.lines, &args.since) {
                (Some(lines), _) => Some(lines as usize),
                (None, Some(_)) => None,
                (None, None) => Some(10),
            },
            format: args.format.chosen(),
            zone: args.zone.asked(),
            ends: args.no_follow,
        }
    }
}

/// State of a log that is followed.
#[derive(Debug, Default)]
struct Printed {
    /// The record that was printed last, and how many of its bytes.
    last: Option<(RecordPlace, usize)>,
    passes: bool,
}

/// Files at work.
struct Followed {
    line: TimeLine,
    lines: Lines,
    printed: HashMap<u32, Printed>,
    replaced: HashSet<u32>,
    is_as_it_stands: bool,
}

/// Follows files until a signal comes or the reader of the output goes.
pub(crate) fn follow(args: &FileArgs<'_>, color: ColorChoice) -> Result<(), CliError> {
    let signals = Signals::new(&[SIGHUP, SIGINT, SIGTERM])?;
    let format = args.format.unwrap_or_default();
    let lines = Lines::new(args.filters, args.since_ns, format, color, args.zone.clone())?;
    let mut line = TimeLine::default();
    for path in &args.files {
        if !is_plain_text(path)? {
            return Err(CliError::NotFollowed { path: path.clone() });
        }
        line.add(Arc::new(PagedLog::open(path, args.files.len())?));
    }
    line.set_filter(Some(lines.filter.clone()));
    let mut followed = Followed {
        line,
        lines,
        printed: HashMap::new(),
        replaced: HashSet::new(),
        is_as_it_stands: args.format.is_none(),
    };
    let from = followed.first(args.lines);
    let mut walk = followed.line.walk(from, Direction::Forwards);
    loop {
        let mut budget = Budget::bytes(u64::MAX);
        while let Step::Found(place) = followed.line.step(&mut walk, Want::All, &mut budget) {
            followed.print(place)?;
        }
        followed.lines.flush()?;
        if let Some(failure) = followed.line.take_failure() {
            note(color.for_stderr().the(Style::Warning, failure));
        }
        if args.ends || ends_within(&signals, LOOK_EVERY) {
            return Ok(());
        }
        let cut = followed.look(color)?;
        walk.resume(followed.line.logs().len());
        cut.into_iter().for_each(|log| walk.restart(log));
    }
}

impl Followed {
    /// The place of the first record that is shown.
    fn first(&mut self, lines: Option<usize>) -> WalkFrom {
        let Some(count) = lines else {
            return WalkFrom::Start;
        };
        let mut walk = self.line.walk(WalkFrom::End, Direction::Backwards);
        let mut first = WalkFrom::Start;
        let mut budget = Budget::bytes(u64::MAX);
        if count == 0 {
            return match self.line.step(&mut walk, Want::All, &mut budget) {
                Step::Found(place) => WalkFrom::Behind(place),
                _ => first,
            };
        }
        for _ in 0..count {
            match self.line.step(&mut walk, Want::Passing, &mut budget) {
                Step::Found(place) => first = WalkFrom::At(place),
                _ => return WalkFrom::Start,
            }
        }
        first
    }

    /// Prints a record, if it passes.
    fn print(&mut self, place: RecordPlace) -> Result<(), CliError> {
        let passes = self.line.record_passes(place);
        let bytes = self
            .line
            .record(place, |_, bytes| bytes.to_vec())
            .unwrap_or_default();
        let printed = self.printed.entry(place.log).or_default();
        printed.last = Some((place, 0));
        printed.passes = passes;
        // The end of a line that is being written comes later.
        if passes && bytes.ends_with(b"\n") {
            printed.last = Some((place, bytes.len()));
            if let Some(path) = self
                .line
                .logs()
                .get(place.log as usize)
                .and_then(|log| log.path())
            {
                self.lines.set_file(path);
            }
            self.lines.print_record(&bytes, self.is_as_it_stands)?;
        }
        Ok(())
    }

    /// Prints what has come to the records that were printed last.
    fn print_further(&mut self, log: u32) -> Result<(), CliError> {
        let Some((place, length)) = self.printed.get(&log).and_then(|printed| printed.last) else {
            return Ok(());
        };
        if length == 0 {
            return self.print(place);
        }
        let bytes = self
            .line
            .record(place, |_, bytes| bytes.to_vec())
            .unwrap_or_default();
        let further = bytes.get(length..).unwrap_or_default();
        let end = memchr::memrchr(b'\n', further).map_or(0, |end| end + 1);
        if end > 0 {
            self.lines.print_further(further.get(..end).unwrap_or_default())?;
            if let Some(printed) = self.printed.get_mut(&log) {
                printed.last = Some((place, length + end));
            }
        }
        Ok(())
    }

    /// Looks at the files, and returns the logs that were cut, which begin anew.
    fn look(&mut self, color: ColorChoice) -> Result<Vec<u32>, CliError> {
        let mut cut = Vec::new();
        for (log, change) in self.line.look() {
            match change {
                Change::Nothing => {}
                Change::Grown => self.print_further(log)?,
                Change::Cut => {
                    let name = self.line.logs().get(log as usize).map_or("", |log| log.name());
                    let text = format!("{} was cut, and begins anew", crate::output::safe(name));
                    note(color.for_stderr().the(Style::Dim, text));
                    self.printed.remove(&log);
                    cut.push(log);
                }
                Change::Replaced if self.replaced.insert(log) => self.follow_anew(log)?,
                Change::Replaced => {}
            }
        }
        Ok(cut)
    }

    /// Follows the file that has the name of a log now, from its start.
    fn follow_anew(&mut self, log: u32) -> Result<(), CliError> {
        let path = self.line.logs().get(log as usize).and_then(|log| log.path());
        if let Some(path) = path.map(PathBuf::from) {
            let log = PagedLog::open(&path, self.line.logs().len())?;
            self.line.add(Arc::new(log));
        }
        Ok(())
    }
}
