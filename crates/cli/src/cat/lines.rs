//! Lines that come from elsewhere than a file that is merged: filtered and coloured as `cat` does it, and the last
//! records of a log file.

use super::compose;
use super::filter::Filter;
use super::head::{Form, read_head};
use super::input::Input;
use super::merge::{self, Sink};
use super::print::{Pen, PrintOptions, Printer, Shape};
use super::record::Record;
use super::siblings;
use super::source::{Entry, Source, SourceOptions};
use super::{filter_of, marked};
use crate::args::FilterArgs;
use crate::error::CliError;
use crate::instant::Times;
use crate::limits::{CHUNK_BYTES, PAST_BYTES_MAX, PAST_FIRST_BYTES};
use crate::output::Output;
use crate::paint::{ColorChoice, Paint};
use clap::ValueEnum;
use jiff::tz::TimeZone;
use std::fs::File;
use std::io::{IsTerminal, Read, Seek, SeekFrom};
use std::path::Path;

/// How records are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object a line
    Json,
    /// `key=value` pairs
    Logfmt,
}

/// A record of the past: when it was, and its lines.
pub(crate) type Past = (u64, Vec<u8>);

/// Filters and prints lines.
pub(crate) struct Lines {
    filter: Filter,
    asks_for_line: bool,
    format: Format,
    printer: Printer,
    times: Times,
    parts: Record,
    names: compose::Names,
    /// For lines that are made anew: colours come when they are printed.
    plain: PrintOptions,
}

impl Lines {
    pub(crate) fn new(
        args: &FilterArgs,
        since_ns: Option<u64>,
        format: Format,
        color: ColorChoice,
    ) -> Result<Self, CliError> {
        let paint = color.for_stdout();
        let options = PrintOptions {
            shape: Shape::AsIs,
            paint,
            safe: paint.on || std::io::stdout().is_terminal(),
            with_name: false,
            marked: marked(args),
        };
        let plain = PrintOptions {
            paint: Paint { on: false },
            safe: false,
            marked: Vec::new(),
            ..options.clone()
        };
        Ok(Self {
            asks_for_line: !(args.field.is_empty()
                && args.module.is_empty()
                && args.thread.is_empty()
                && args.grep.is_empty()
                && args.exclude.is_empty()),
            filter: filter_of(args, since_ns, None),
            format,
            printer: Printer::new(options, Output::stdout()?, color.for_stderr()),
            times: Times::new(TimeZone::system()),
            parts: Record::default(),
            names: compose::Names::default(),
            plain,
        })
    }

    /// Whether more than the level decides, so that [`Lines::passes`] has to be asked.
    pub(crate) fn asks_for_line(&self) -> bool {
        self.asks_for_line
    }

    /// Whether a record's line passes the filters.
    pub(crate) fn passes(&mut self, line: &[u8]) -> bool {
        let first = line.strip_suffix(b"\n").unwrap_or(line);
        match read_head(first, &mut self.times) {
            Some(head) => {
                self.filter.passes_head(&head)
                    && self.filter.passes_whole(line, &mut self.parts, &mut self.times)
            }
            None => self.filter.passes_headless(line),
        }
    }

    /// Prints a line, as it stands but for colours.
    #[inline]
    pub(crate) fn print(&mut self, line: &[u8]) -> Result<(), CliError> {
        self.printer.print("", line, false)
    }

    /// Writes all that was printed.
    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        self.printer.finish()
    }

    /// Prints a record of the past in the format that was asked for, with the process that wrote it, if any is given.
    pub(crate) fn print_past(&mut self, record: &[u8], process: Option<(&str, u32)>) -> Result<(), CliError> {
        let mut shaped = self.shaped(record);
        if let Some((app, pid)) = process {
            self.name(&mut shaped, app, pid);
        }
        self.print(&shaped)
    }

    fn shaped(&mut self, record: &[u8]) -> Vec<u8> {
        self.parts.read(record, &mut self.times);
        let mut out = Vec::with_capacity(record.len() + 64);
        let end = self.parts.line_length;
        match (self.format, self.parts.form) {
            (Format::Json, Form::Json) => out.extend_from_slice(record),
            (Format::Json, _) => compose::json(&mut out, record, &self.parts, &mut self.names),
            (Format::Text, Form::Json | Form::Logfmt | Form::Glog) => {
                let line = record.get(..end).unwrap_or(b"");
                let mut pen = Pen {
                    out: &mut out,
                    options: &self.plain,
                };
                compose::text(&mut pen, line, &self.parts);
                out.extend_from_slice(record.get(end..).unwrap_or(b""));
            }
            _ => out.extend_from_slice(record),
        }
        out
    }

    /// Names a process in a line, where the layouts do it: before the thread.
    fn name(&mut self, line: &mut Vec<u8>, app: &str, pid: u32) {
        self.parts.read(line, &mut self.times);
        let thread = self.parts.thread.part.start();
        let (at, text) = match self.parts.form {
            Form::Text => (Some(thread), format!("{app}[{pid}]/")),
            Form::Json => (
                memchr::memmem::find(line, b"\"thread\":"),
                format!("\"app\":{},\"pid\":{pid},", serde_json::Value::from(app)),
            ),
            Form::Logfmt => (
                memchr::memmem::find(line, b"thread="),
                format!("app={app} pid={pid} "),
            ),
            Form::Glog | Form::Unknown => (None, String::new()),
        };
        if let Some(at) = at.filter(|at| *at > 0 && *at <= line.len()) {
            line.splice(at..at, text.bytes());
        }
    }

    /// The records of a log file that pass and are not newer than `until_ns`: the last `count` of them, or with a
    /// filter that says since when, those since then, with the rotated files.
    pub(crate) fn past_of(
        &mut self,
        path: &Path,
        count: usize,
        until_ns: u64,
    ) -> Result<Vec<Past>, CliError> {
        let (mut past, is_all) = self.end_of(path, count, until_ns)?;
        if is_all && past.len() < count && self.filter.since_ns.is_some() {
            past.splice(0..0, self.rotated_of(path)?);
        }
        let surplus = past.len().saturating_sub(count);
        past.drain(..surplus);
        Ok(past)
    }

    /// From the end of the file backwards, in steps that grow; and whether the whole file was looked at.
    fn end_of(&mut self, path: &Path, count: usize, until_ns: u64) -> Result<(Vec<Past>, bool), CliError> {
        let cannot_read = |cause| CliError::Read {
            path: path.to_owned(),
            cause,
        };
        let mut file = File::open(path).map_err(|cause| CliError::Open {
            path: path.to_owned(),
            cause,
        })?;
        let length = file.metadata().map_err(cannot_read)?.len();
        let mut window = PAST_FIRST_BYTES;
        loop {
            let start = length.saturating_sub(window);
            file.seek(SeekFrom::Start(start)).map_err(cannot_read)?;
            let mut bytes = Vec::new();
            (&mut file)
                .take(length - start)
                .read_to_end(&mut bytes)
                .map_err(cannot_read)?;
            let (past, oldest_ns) = self.records_of(&bytes, start == 0, until_ns);
            let has_enough = match self.filter.since_ns {
                Some(since) => oldest_ns.is_some_and(|oldest| oldest < since),
                None => past.len() >= count,
            };
            if start == 0 || has_enough || window >= PAST_BYTES_MAX {
                return Ok((past, start == 0 && !has_enough));
            }
            window *= 4;
        }
    }

    /// The records that pass, and the time of the first one, whether or not it does.
    fn records_of(&mut self, bytes: &[u8], is_whole: bool, until_ns: u64) -> (Vec<Past>, Option<u64>) {
        // The last line may be half written.
        let end = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        let bytes = bytes.get(..end).unwrap_or(b"");
        let mut starts = Vec::new();
        let mut at = 0;
        let mut is_line_start = is_whole;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if is_line_start && let Some(head) = read_head(line, &mut self.times) {
                starts.push((at, head.unix_ns));
            }
            is_line_start = true;
            at += line.len();
        }
        let mut past = Vec::new();
        for (index, (start, unix_ns)) in starts.iter().enumerate() {
            let end = starts.get(index + 1).map_or(bytes.len(), |(next, _)| *next);
            let record = bytes.get(*start..end).unwrap_or(b"");
            if *unix_ns <= until_ns && self.passes(record) {
                past.push((*unix_ns, record.to_vec()));
            }
        }
        (past, starts.first().map(|(_, unix_ns)| *unix_ns))
    }

    /// What the rotated files of a log have.
    fn rotated_of(&mut self, path: &Path) -> Result<Vec<Past>, CliError> {
        let mut parts = siblings::all_of(path)?.into_iter().next().unwrap_or_default();
        // The file itself was read.
        parts.retain(|part| part.path != path);
        let options = SourceOptions {
            chunk_bytes: CHUNK_BYTES,
            keep_order: false,
        };
        let source = Source::new(String::new(), Input::new(parts), options);
        let mut collect = Collect::default();
        merge::merge(&mut [source], &self.filter, &mut collect)?;
        Ok(collect.past)
    }
}

/// Collects records, and forgets the oldest where they become too many.
#[derive(Default)]
struct Collect {
    past: Vec<Past>,
    bytes: u64,
}

impl Sink for Collect {
    fn take(&mut self, source: &Source, entry: Entry) -> Result<(), CliError> {
        let bytes = source.bytes(entry);
        self.bytes += bytes.len() as u64;
        match self.past.last_mut().filter(|_| entry.goes_on) {
            Some((_, record)) => record.extend_from_slice(bytes),
            None => self.past.push((entry.unix_ns, bytes.to_vec())),
        }
        if self.bytes > PAST_BYTES_MAX {
            let half = self.past.len() / 2;
            self.past.drain(..half);
            self.bytes = self.past.iter().map(|(_, record)| record.len() as u64).sum();
        }
        Ok(())
    }

    fn before_wait(&mut self) -> Result<(), CliError> {
        Ok(())
    }

    fn failed(&mut self, error: CliError) -> Result<(), CliError> {
        crate::ps::tell(&format!("error: {error}"));
        Ok(())
    }
}
