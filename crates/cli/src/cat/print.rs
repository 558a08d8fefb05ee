//! Printing of records: as they stand, in colours, as JSON lines or as lines of text.

use crate::error::CliError;
use crate::output::{Output, titled_note};
use crate::paint::{ColorChoice, Paint, RESET, Style};
use jiff::tz::TimeZone;
use logdrive_reader::{
    Formatter, Needle, Pen, Piece, ReadError, Shape, ShapeRecord, Shapes, Sink, SourceRecord, put_safe,
};
use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::Arc;

/// Options of printing.
#[derive(Debug, Clone)]
pub(super) struct PrintOptions {
    pub(super) shape: Shape,
    pub(super) paint: Paint,
    /// Escape what a terminal would obey.
    pub(super) safe: bool,
    /// Put the log's name before each record.
    pub(super) with_name: bool,
    /// Texts that are marked where they are found.
    pub(super) marked: Vec<Needle>,
    /// Zone in which times are shown, if another one than their own was asked for.
    pub(super) zone: Option<TimeZone>,
}

/// Prints records.
pub(super) struct Printer {
    pub(super) options: PrintOptions,
    pub(super) output: Output,
    pub(super) stderr: Paint,
    pub(super) formatter: Formatter,
    /// Name of the log whose records are printed.
    log: String,
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
            formatter: Formatter::new(),
            log: String::new(),
            has_failed: false,
            lacks_end: false,
        }
    }

    /// Prints one record, or a further piece of the record before.
    #[inline]
    pub(super) fn print(&mut self, name: &str, record: &[u8], goes_on: bool) -> Result<(), CliError> {
        let zoned = match &self.options.zone {
            Some(zone) if !goes_on => self.formatter.in_zone(record, zone),
            _ => Cow::Borrowed(record),
        };
        let record = &*zoned;
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
            false => self.print_shaped(name, record, goes_on),
        }
        self.lacks_end = record.last() != Some(&b'\n');
        self.output.flush_if_full()?;
        Ok(())
    }

    /// Prints what was made of a record by a thread.
    fn print_made(&mut self, record: &SourceRecord<'_>) -> Result<(), CliError> {
        if self.options.with_name && !record.goes_on {
            let paint = self.options.paint;
            write!(self.output.bytes, "{}: ", paint.the(Style::File, record.name))?;
        }
        self.output.bytes.extend_from_slice(record.bytes);
        Ok(self.output.flush_if_full()?)
    }

    /// Prints a line between groups of records that are apart; JSON and logfmt have none.
    pub(super) fn print_gap(&mut self) -> Result<(), CliError> {
        if matches!(self.options.shape, Shape::AsIs | Shape::Text) {
            if std::mem::take(&mut self.lacks_end) {
                self.output.bytes.push(b'\n');
            }
            writeln!(self.output.bytes, "{}", self.options.paint.the(Style::Dim, "--"))?;
        }
        Ok(())
    }

    /// Reports that something could not be read. The rest goes on.
    pub(super) fn fail(&mut self, error: &CliError) -> Result<(), CliError> {
        // In the order of what happened, when both go to one terminal.
        self.output.flush()?;
        self.has_failed = true;
        titled_note(self.stderr, Style::Bad, "error", error);
        Ok(())
    }

    /// Writes all that was printed.
    pub(super) fn finish(&mut self) -> Result<(), CliError> {
        if std::mem::take(&mut self.lacks_end) {
            self.output.bytes.push(b'\n');
        }
        Ok(self.output.flush()?)
    }

    /// Makers of what is printed of a log, for threads that read it; none where records are printed as they stand.
    pub(super) fn shapes(&self, name: &str) -> Option<Shapes> {
        let (options, name) = (self.options.clone(), name.to_owned());
        let is_plain = options.shape == Shape::AsIs && !options.safe && options.zone.is_none();
        let make = move || -> Box<dyn ShapeRecord> {
            let mut formatter = Formatter::new();
            formatter.set_file(name.as_ref());
            Box::new(Shaper {
                options: options.clone(),
                formatter,
            })
        };
        (!is_plain).then(|| -> Shapes { Arc::new(make) })
    }

    fn print_shaped(&mut self, name: &str, record: &[u8], goes_on: bool) {
        if self.log != name {
            name.clone_into(&mut self.log);
            self.formatter.set_file(name.as_ref());
        }
        let mut pen = ColorPen {
            out: &mut self.output.bytes,
            options: &self.options,
        };
        self.formatter
            .write(&mut pen, self.options.shape, record, goes_on);
    }
}

impl Sink for Printer {
    type Error = CliError;

    #[inline]
    fn take(&mut self, record: &SourceRecord<'_>) -> Result<(), CliError> {
        match record.is_shaped {
            true => self.print_made(record),
            false => self.print(record.name, record.bytes, record.goes_on),
        }
    }

    fn before_wait(&mut self) -> Result<(), CliError> {
        Ok(self.output.flush()?)
    }

    fn failed(&mut self, error: ReadError) -> Result<(), CliError> {
        self.fail(&error.into())
    }
}

/// Makes what is printed of records.
pub(crate) struct Shaper {
    options: PrintOptions,
    formatter: Formatter,
}

impl Shaper {
    /// Makes lines for standard output.
    pub(crate) fn new(shape: Shape, color: ColorChoice) -> Self {
        let paint = color.for_stdout();
        Self {
            options: PrintOptions {
                shape,
                paint,
                safe: paint.on || std::io::stdout().is_terminal(),
                with_name: false,
                zone: None,
                marked: Vec::new(),
            },
            formatter: Formatter::new(),
        }
    }
}

impl ShapeRecord for Shaper {
    fn shape(&mut self, record: &[u8], goes_on: bool, out: &mut Vec<u8>) {
        let zoned = match &self.options.zone {
            Some(zone) if !goes_on => self.formatter.in_zone(record, zone),
            _ => Cow::Borrowed(record),
        };
        let record = &*zoned;
        if self.options.shape == Shape::AsIs && !self.options.safe {
            return out.extend_from_slice(record);
        }
        let mut pen = ColorPen {
            out,
            options: &self.options,
        };
        self.formatter
            .write(&mut pen, self.options.shape, record, goes_on);
    }
}

/// Writes pieces of a line in their colours.
struct ColorPen<'a> {
    out: &'a mut Vec<u8>,
    options: &'a PrintOptions,
}

impl Pen for ColorPen<'_> {
    /// Writes one piece in its colour, with what was searched for marked.
    fn put(&mut self, piece: Piece, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        if !self.options.paint.on {
            return self.put_escaped(text);
        }
        let style = match piece {
            Piece::Plain => Style::Plain,
            Piece::Detail => Style::Dim,
            Piece::Level(level) => Style::Level(level),
            Piece::Key => Style::Key,
        };
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

    fn bytes(&mut self) -> &mut Vec<u8> {
        self.out
    }
}

impl ColorPen<'_> {
    fn find_marked(&self, text: &[u8]) -> Option<(usize, usize)> {
        let needles = self.options.marked.iter().filter(|needle| !needle.is_empty());
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
}
