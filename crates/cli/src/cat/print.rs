//! Records on their way out: as they stand, in colours, as JSON lines or as lines of text.

use super::compose;
use super::filter::Needle;
use super::head::{Form, Role};
use super::json::Members;
use super::merge::Sink;
use super::pairs;
use super::record::{Part, Record};
use super::source::{Entry, Source};
use crate::error::CliError;
use crate::escape::put_safe;
use crate::instant::Times;
use crate::output::Output;
use crate::paint::{Paint, RESET, Style};
use jiff::tz::TimeZone;
use std::io::Write;

/// What is made of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Its own lines.
    AsIs,
    /// A JSON object on a line.
    Json,
    /// A line of text, and the lines that belong to it.
    Text,
}

/// How records are printed.
#[derive(Debug, Clone)]
pub(super) struct PrintOptions {
    pub(super) shape: Shape,
    pub(super) paint: Paint,
    /// Escape what a terminal would obey.
    pub(super) safe: bool,
    /// Put the log's name before each record.
    pub(super) with_name: bool,
    /// What is marked where it is found.
    pub(super) marked: Vec<Needle>,
}

/// Prints records.
pub(super) struct Printer {
    pub(super) options: PrintOptions,
    pub(super) output: Output,
    pub(super) stderr: Paint,
    times: Times,
    record: Record,
    names: compose::Names,
    /// Whether something could not be read.
    pub(super) has_failed: bool,
    /// Whether what was printed last lacks the end of its line.
    lacks_end: bool,
}

impl Printer {
    pub(super) fn new(options: PrintOptions, output: Output, stderr: Paint) -> Self {
        Self {
            options,
            output,
            stderr,
            times: Times::new(TimeZone::system()),
            record: Record::default(),
            names: compose::Names::default(),
            has_failed: false,
            lacks_end: false,
        }
    }

    /// Prints one record, or a further piece of the record before.
    #[inline]
    pub(super) fn print(&mut self, name: &str, record: &[u8], goes_on: bool) -> Result<(), CliError> {
        if self.lacks_end && !goes_on {
            self.output.bytes.push(b'\n');
        }
        if self.options.with_name && !goes_on {
            let paint = self.options.paint;
            write!(self.output.bytes, "{}: ", paint.the(Style::File, name))?;
        }
        let is_plain = self.options.shape == Shape::AsIs && !self.options.safe;
        match is_plain {
            true => self.output.bytes.extend_from_slice(record),
            false => self.print_shaped(record, goes_on),
        }
        self.lacks_end = record.last() != Some(&b'\n');
        self.output.flush_if_full()?;
        Ok(())
    }

    /// Writes all that was printed.
    pub(super) fn finish(&mut self) -> Result<(), CliError> {
        if std::mem::take(&mut self.lacks_end) {
            self.output.bytes.push(b'\n');
        }
        Ok(self.output.flush()?)
    }

    fn print_shaped(&mut self, record: &[u8], goes_on: bool) {
        let out = &mut self.output.bytes;
        let mut pen = Pen {
            out,
            options: &self.options,
        };
        if goes_on && self.options.shape != Shape::Json {
            return pen.lines(record);
        }
        self.record.read(record, &mut self.times);
        let line = record.get(..self.record.line_length).unwrap_or(b"");
        match (self.options.shape, self.record.form) {
            (Shape::Json, Form::Json) if compose::is_json(line) => {
                return compose::keep_json(pen.out, record, &self.record);
            }
            (Shape::Json, Form::Json) => self.record.forget_parts(),
            _ => {}
        }
        match (self.options.shape, self.record.form) {
            (Shape::Json, _) => return compose::json(pen.out, record, &self.record, &mut self.names),
            (Shape::Text, Form::Json | Form::Logfmt | Form::Glog) => {
                compose::text(&mut pen, line, &self.record)
            }
            (_, Form::Json) => pen.json(line, &self.record),
            (_, Form::Logfmt) => pen.logfmt(line, &self.record),
            (_, Form::Text | Form::Glog) => pen.text(line, &self.record),
            (_, Form::Unknown) => pen.put(Style::Plain, line),
        }
        pen.lines(record.get(self.record.line_length..).unwrap_or(b""));
    }
}

impl Sink for Printer {
    #[inline]
    fn take(&mut self, source: &Source, entry: Entry) -> Result<(), CliError> {
        self.print(&source.name, source.bytes(entry), entry.goes_on)
    }

    fn before_wait(&mut self) -> Result<(), CliError> {
        Ok(self.output.flush()?)
    }

    fn failed(&mut self, error: CliError) -> Result<(), CliError> {
        // In the order of what happened, when both go to one terminal.
        self.output.flush()?;
        self.has_failed = true;
        // Where errors cannot be printed there is nobody to tell; the exit status says it.
        let _ = writeln!(
            std::io::stderr(),
            "{} {error}",
            self.stderr.the(Style::Bad, "error:")
        );
        Ok(())
    }
}

/// Writes pieces of a line in their colours.
pub(super) struct Pen<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) options: &'a PrintOptions,
}

impl Pen<'_> {
    /// One piece in its colour, with what was searched for marked.
    pub(super) fn put(&mut self, style: Style, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        if !self.options.paint.on {
            return self.put_escaped(text);
        }
        let mut rest = text;
        while let Some((at, length)) = self.find_marked(rest) {
            let (before, found) = rest.split_at(at);
            let (found, after) = found.split_at(length);
            self.put_colored(style, before);
            self.put_colored(Style::Found, found);
            rest = after;
        }
        self.put_colored(style, rest);
    }

    fn find_marked(&self, text: &[u8]) -> Option<(usize, usize)> {
        let needles = self.options.marked.iter().filter(|needle| needle.len() > 0);
        needles
            .filter_map(|needle| Some((needle.find(text)?, needle.len())))
            .min_by_key(|found| found.0)
    }

    fn put_colored(&mut self, style: Style, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        let sequence = style.sequence();
        self.out.extend_from_slice(sequence.as_bytes());
        self.put_escaped(text);
        if !sequence.is_empty() {
            self.out.extend_from_slice(RESET.as_bytes());
        }
    }

    fn put_escaped(&mut self, text: &[u8]) {
        match self.options.safe {
            true => put_safe(self.out, text),
            false => self.out.extend_from_slice(text),
        }
    }

    /// Lines without colours: those that belong to a record. Their ends are ends.
    pub(super) fn lines(&mut self, text: &[u8]) {
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let end = if line.ends_with(b"\r\n") {
                2
            } else {
                usize::from(line.ends_with(b"\n"))
            };
            let (line, end) = line.split_at(line.len() - end);
            self.put(Style::Plain, line);
            self.out.extend_from_slice(end);
        }
    }

    /// A line of text or glog.
    fn text(&mut self, line: &[u8], record: &Record) {
        let level = record.level.map_or(Style::Plain, Style::Level);
        let place = Part::new(
            record.file.part.start(),
            record.line.end().max(record.file.part.end()),
        );
        let mut at = 0;
        let mut head = [
            (record.level_part, level),
            (record.time, Style::Dim),
            (record.module.part, Style::Dim),
            (place, Style::Dim),
        ];
        // In glog the level stands before the time.
        head.sort_by_key(|(part, _)| part.start());
        for (part, style) in head {
            at = self.piece(line, at, part, style);
        }
        for field in &record.fields {
            at = self.piece(line, at, field.key.part, Style::Key);
            at = self.piece(line, at, Part::new(at, at + 1), Style::Dim);
        }
        self.put(Style::Plain, line.get(at..).unwrap_or(b""));
    }

    /// The text up to a part, then the part in its colour; returns where it ends.
    fn piece(&mut self, line: &[u8], at: usize, part: Part, style: Style) -> usize {
        if part.is_empty() || part.start() < at {
            return at;
        }
        self.put(Style::Plain, line.get(at..part.start()).unwrap_or(b""));
        self.put(style, part.of(line));
        part.end()
    }

    /// A JSON line: what frames it is dim.
    fn json(&mut self, line: &[u8], record: &Record) {
        let mut at = 0;
        for (key, value) in Members::new(line, 0).into_iter().flatten() {
            let role = Role::of(key.of(line));
            self.put(Style::Dim, line.get(at..key.start()).unwrap_or(b""));
            self.put(if role.is_some() { Style::Dim } else { Style::Key }, key.of(line));
            self.put(Style::Dim, line.get(key.end()..value.part.start()).unwrap_or(b""));
            self.put(self.style_of_value(role, record), value.part.of(line));
            at = value.part.end();
        }
        self.put(Style::Dim, line.get(at..).unwrap_or(b""));
    }

    /// A line of pairs.
    fn logfmt(&mut self, line: &[u8], record: &Record) {
        let mut at = 0;
        while let Some(pair) = pairs::read_pair(line, at, pairs::Style::Logfmt) {
            let role = Role::of(pair.key.of(line));
            self.put(
                if role.is_some() { Style::Dim } else { Style::Key },
                pair.key.of(line),
            );
            self.put(
                Style::Dim,
                line.get(pair.key.end()..pair.value.part.start()).unwrap_or(b""),
            );
            self.put(self.style_of_value(role, record), pair.value.part.of(line));
            self.put(
                Style::Dim,
                line.get(pair.value.part.end()..pair.next).unwrap_or(b""),
            );
            at = pair.next;
            if at >= line.len() {
                break;
            }
        }
        self.put(Style::Plain, line.get(at..).unwrap_or(b""));
    }

    fn style_of_value(&self, role: Option<Role>, record: &Record) -> Style {
        match (role, record.level) {
            (Some(Role::Level), Some(level)) => Style::Level(level),
            (Some(Role::Time | Role::Target | Role::Module | Role::File | Role::Line), _) => Style::Dim,
            _ => Style::Plain,
        }
    }
}
