//! `logdrive query`: records found, counted and summed up, on all cores.
//!
//! The reader (`logdrive_reader`) finds records, [`work`] makes of them what the pipes and the form of output ask for, and
//! [`table`] and [`histogram`] draw the rows.

pub(crate) mod args;
mod columns;
mod histogram;
mod progress;
mod row_buffer;
mod rows;
mod running;
mod table;
mod work;

use crate::error::CliError;
use crate::instant::now_unix_ns;
use crate::output::{Output, note, titled_note};
use crate::paint::{ColorChoice, Style};
use crate::signals::Signals;
use args::{QueryArgs, QueryFormat};
use logdrive_query::{Pipeline, Query, Record};
use logdrive_reader::{Filter, LogFile, QueryScan, ReadError, SegmentForm};
use progress::Progress;
use rows::RowPrinter;
use running::Running;
use signal_hook::consts::SIGINT;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use work::{Made, Shaping, Work};

/// Interval at which Ctrl-C is looked for.
const SIGNAL_EVERY: Duration = Duration::from_millis(50);

/// Rows that are printed at once.
const ROWS_AT_ONCE: usize = 1_024;

/// Status of a command that was ended with Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Runs the command.
pub(crate) fn run(args: &QueryArgs, color: ColorChoice) -> Result<ExitCode, CliError> {
    let query = whole_query(args)?;
    let sources = Sources::of(args)?;
    let now = now_unix_ns();
    let mut at_work = AtWork::start(&query, args, &sources, now, color)?;
    let mut printer = RowPrinter::new(args, query.has_pipes(), color)?;
    let end = at_work.run(&mut |made| printer.take(made))?;
    at_work.finish(&mut |made| printer.take(made))?;
    printer.finish()?;
    Ok(at_work.status(end))
}

/// End of a reading of all rows.
#[cfg(feature = "export")]
pub(crate) struct ReadRows {
    end: End,
    status: ExitCode,
}

#[cfg(feature = "export")]
impl ReadRows {
    /// Whether all was read.
    pub(crate) fn is_whole(&self) -> bool {
        self.end == End::Whole
    }

    /// Status of the command.
    pub(crate) fn status(&self) -> ExitCode {
        self.status
    }
}

/// Gives each row of a query, in order.
#[cfg(feature = "export")]
pub(crate) fn each_row(
    args: &QueryArgs,
    color: ColorChoice,
    each: &mut dyn FnMut(logdrive_query::Row) -> Result<(), CliError>,
) -> Result<ReadRows, CliError> {
    let sources = Sources::of(args)?;
    let mut at_work = AtWork::start(&args.query, args, &sources, now_unix_ns(), color)?;
    let mut take = |made: Made| {
        made.rows.into_iter().try_for_each(&mut *each)?;
        Ok(ControlFlow::Continue(()))
    };
    let end = at_work.run(&mut take)?;
    at_work.finish(&mut take)?;
    Ok(ReadRows {
        end,
        status: at_work.status(end),
    })
}

/// The query with what the options ask of its records.
fn whole_query(args: &QueryArgs) -> Result<Query, CliError> {
    let query = args.query.clone();
    let with = |pipes: String| {
        query
            .clone()
            .with_pipes(&pipes)
            .map_err(|cause| CliError::Query { cause })
    };
    match (&args.histogram, args.count) {
        (Some(field), _) => with(histogram::pipes(field)),
        (None, true) => with("stats count() as count".to_owned()),
        (None, false) => Ok(query),
    }
}

/// Sources that the command reads: files, and programs that run.
pub(super) struct Sources {
    files: Vec<LogFile>,
    running: Option<Running>,
    /// Bytes of the files; of streams nothing is known.
    bytes: u64,
    /// Whether reading may wait for a writer.
    has_streams: bool,
}

impl Sources {
    fn of(args: &QueryArgs) -> Result<Self, CliError> {
        let mut files = Vec::new();
        let mut names = Vec::new();
        for source in &args.sources {
            match source {
                path if path.as_os_str() == "-" => files.push(path.clone()),
                path if path.is_dir() => files.extend(files_in(path)?),
                path if path.exists() => files.push(path.clone()),
                name => names.push(name.clone()),
            }
        }
        let running = match names.is_empty() {
            true => None,
            false => {
                let running = Running::find(&names, args)?;
                files.extend(running.files());
                Some(running)
            }
        };
        let sizes = files.iter().filter_map(|path| std::fs::metadata(path).ok());
        let is_file = |path: &PathBuf| path.as_os_str() != "-" && path.is_file();
        Ok(Self {
            bytes: sizes.map(|metadata| metadata.len()).sum(),
            has_streams: !files.iter().all(is_file),
            files: files.into_iter().map(LogFile::alone).collect(),
            running,
        })
    }
}

/// The files of a directory, by their names, without hidden ones.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>, CliError> {
    let failed = |cause| CliError::Read {
        path: dir.to_owned(),
        cause,
    };
    let mut files = Vec::new();
    let entries = std::fs::read_dir(dir).map_err(failed)?;
    for entry in entries.take(logdrive_reader::DIRECTORY_ENTRIES_MAX) {
        let entry = entry.map_err(failed)?;
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !is_hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// How the reading of a query has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// All was read, or enough.
    Whole,
    Interrupted,
}

/// A query that is read.
pub(super) struct AtWork<'a> {
    scan: Option<QueryScan<Work>>,
    sources: &'a Sources,
    filter: Filter,
    own: Work,
    pipeline: Arc<Mutex<Pipeline>>,
    signals: Signals,
    progress: Progress,
    color: ColorChoice,
    has_failed: bool,
}

impl<'a> AtWork<'a> {
    fn start(
        query: &Query,
        args: &QueryArgs,
        sources: &'a Sources,
        now: u64,
        color: ColorChoice,
    ) -> Result<Self, CliError> {
        let times = Filter {
            since_ns: args.times.since_ns(),
            until_ns: args.times.until_ns(),
            ..Filter::default()
        };
        let filter = times.asking(query.plan(now));
        let pipeline = query.pipeline(now);
        let shaping = Shaping::of(args, query.has_pipes(), color);
        let form = match shaping.format {
            QueryFormat::Json => SegmentForm::Json,
            QueryFormat::Logfmt => SegmentForm::Logfmt,
            _ => SegmentForm::Text,
        };
        // Pipes of all records together; those before them are the work of threads.
        let mut last = pipeline.clone();
        if !pipeline.can_be_shared() {
            last.split_front();
        }
        let shared = Arc::new(Mutex::new(last));
        let make = || Work::new(&pipeline, query.has_pipes(), &shared, shaping);
        let scan = QueryScan::start(sources.files.clone(), &filter, &form, make)?;
        Ok(Self {
            scan: Some(scan),
            sources,
            own: make(),
            pipeline: Arc::clone(&shared),
            signals: Signals::new(&[SIGINT])?,
            progress: Progress::new(sources.bytes, color),
            filter,
            color,
            has_failed: false,
        })
    }

    /// Reads all, and gives what was made of it to `each`, in order.
    fn run(
        &mut self,
        each: &mut dyn FnMut(Made) -> Result<ControlFlow<()>, CliError>,
    ) -> Result<End, CliError> {
        if let Some(running) = &self.sources.running {
            running.take_records(&self.filter, &mut self.own);
            let made = logdrive_reader::Task::made(&mut self.own);
            if self.pass(made, each)?.is_break() {
                return Ok(End::Whole);
            }
        }
        while let Some(part) = self.scan.as_mut().and_then(|scan| scan.next_part(SIGNAL_EVERY)) {
            for failure in part.failures {
                self.fail(failure);
            }
            for made in part.before.into_iter().chain(part.made) {
                if self.pass(made, each)?.is_break() {
                    return Ok(End::Whole);
                }
            }
            if part.is_idle {
                // Who reads the output sees what there is while more is waited for.
                if each(Made::default())?.is_break() {
                    return Ok(End::Whole);
                }
            }
            self.progress.add(part.bytes);
            if self.signals.take().is_some() {
                if self.sources.has_streams {
                    // Threads that wait for a pipe would be waited for.
                    std::mem::forget(self.scan.take());
                }
                return Ok(End::Interrupted);
            }
        }
        Ok(End::Whole)
    }

    /// Passes on what was made of a part: rows through the pipes that need all of them in their order.
    fn pass(
        &mut self,
        made: Made,
        each: &mut dyn FnMut(Made) -> Result<ControlFlow<()>, CliError>,
    ) -> Result<ControlFlow<()>, CliError> {
        if let Some(sorted) = made.sorted {
            let mut pipeline = self.pipeline.lock().unwrap_or_else(PoisonError::into_inner);
            pipeline.merge(*sorted);
            return Ok(ControlFlow::Continue(()));
        }
        if made.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        if made.packed.is_empty() {
            return each(made);
        }
        let mut pipeline = self.pipeline.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = Made::default();
        for mut row in made.packed.rows() {
            let flow = pipeline.push(&mut row, &mut |record: &mut dyn Record| {
                out.rows.push(record.row());
                ControlFlow::Continue(())
            });
            if flow.is_break() {
                return each(out).map(|_| flow);
            }
            if out.rows.len() >= ROWS_AT_ONCE && each(std::mem::take(&mut out))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        each(out)
    }

    /// Gives what the pipes have kept to `each`.
    fn finish(
        &mut self,
        each: &mut dyn FnMut(Made) -> Result<ControlFlow<()>, CliError>,
    ) -> Result<(), CliError> {
        self.progress.finish();
        // Threads give what they have when they end.
        drop(self.scan.take());
        self.own.share();
        let mut pipeline = self.pipeline.lock().unwrap_or_else(PoisonError::into_inner);
        let mut result = Ok(());
        pipeline.finish(&mut |record: &mut dyn Record| {
            let made = Made {
                rows: vec![record.row()],
                ..Made::default()
            };
            match each(made) {
                Ok(flow) => flow,
                Err(error) => {
                    result = Err(error);
                    ControlFlow::Break(())
                }
            }
        });
        for text in pipeline.take_notes() {
            titled_note(self.color.for_stderr(), Style::Warning, "note", text);
        }
        result
    }

    fn fail(&mut self, error: ReadError) {
        self.progress.hide();
        self.has_failed = true;
        titled_note(
            self.color.for_stderr(),
            Style::Bad,
            "error",
            CliError::from(error),
        );
    }

    fn status(&self, end: End) -> ExitCode {
        match end {
            End::Interrupted => {
                note("ended by Ctrl-C: this is what was found so far");
                ExitCode::from(INTERRUPTED)
            }
            End::Whole => ExitCode::from(u8::from(self.has_failed)),
        }
    }
}

/// The form of output that was asked for, or that suits.
fn format_of(args: &QueryArgs, has_pipes: bool) -> QueryFormat {
    match (args.json, args.format) {
        (true, _) => QueryFormat::Json,
        (false, Some(format)) => format,
        (false, None) if has_pipes && std::io::stdout().is_terminal() => QueryFormat::Table,
        (false, None) => QueryFormat::Text,
    }
}

/// Standard output of results.
fn output() -> Result<Output, CliError> {
    Ok(Output::stdout()?)
}
