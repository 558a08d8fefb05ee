//! Layouts: how a record becomes a line of text. No I/O and no clock: bytes in, bytes out.
//!
//! A [`Layout`] compiles each callsite once into a [`Plan`] and then writes lines into a [`LineBuffer`]. The styles:
//!
//! ```text
//! text    2026-11-21T12:34:56.123456789Z INFO  main app::net net.rs:42 connected to 10.0.0.1 peer=7 name="a b"
//! glog    I20261121 12:34:56.123456   417 net.rs:42] connected to 10.0.0.1 peer=7 name="a b"
//! json    {"ts":"2026-11-21T12:34:56.123456789Z","level":"INFO","thread":"main","module":"app::net",
//!          "file":"src/net.rs","line":42,"message":"connected to 10.0.0.1","peer":7,"name":"a b"}   (one line)
//! logfmt  ts=2026-11-21T12:34:56.123456789Z level=info thread=main module=app::net file=src/net.rs
//!          line=42 message="connected to 10.0.0.1" peer=7 name="a b"                                (one line)
//! pattern whatever is asked for, such as `{time:%H:%M:%S.%3f} {level:1} {message}{fields}`
//! ```
//!
//! **A record is one line, always.** What could end a line, move a cursor or reorder text is escaped in everything
//! that comes from a record, in names and templates too, and [`unescape`] gets it back.
//!
//! **Fields.** Text and glog show as `key=value` what the message does not show, and leave out what is absent. A value
//! with a space, a quote or `=` in it stands between quotes, and so does an empty one. Spans stand before the message,
//! `outer{key=value}:inner: `. The module's place is taken by the target where a callsite has one. JSON and logfmt
//! show every field that has a name, also those in the message; in JSON an absent one is `null`, integers up to 64
//! bits and finite floats are numbers, other numbers are strings, spans are an array of objects with `name`. A key
//! that is reserved or taken gets `_1`, `_2`, ... behind it. A field without a name is `argN`, N its index, where it
//! has to be shown.
//!
//! **Bytes** are shown as text with the escapes of text, in JSON inside of a string.
//!
//! **Broken input.** A template that cannot be read, or that names a field that is not there, is shown as it is, and
//! all fields as `key=value`. A payload that does not fit its callsite gives a line with what could be read and a
//! mark: ` [malformed record]`, in JSON and logfmt `malformed` = `true`. A line that is larger than any buffer is cut
//! and ends with ` [cut]`; in JSON and logfmt it becomes time, level and the front of the line under the key `cut`.

mod buffer;
mod compile;
mod dynamic;
mod error;
mod escape;
mod fast;
mod interpret;
mod json_text;
pub mod limits;
mod number;
mod options;
mod pattern;
mod payload;
mod plan;
mod prefix;
mod slog;
mod spec;
#[cfg(feature = "segments")]
mod stored;
mod structured;
mod thread;
mod time;
mod value;
mod write;

use crate::segment::{self, RowLayout, RowPlan, RowRun};
use logdrive_wire::Callsite;

pub use buffer::LineBuffer;
pub use error::LayoutError;
pub use escape::{Escape, escaped, unescape};
pub use fast::SharedPrefix;
pub use options::{LayoutOptions, Style};
pub use plan::Plan;

use dynamic::SpanTextCache;
use escape::whole_front;
use limits::{LINE_BYTES_MAX, NAME_BYTES_MAX};
use pattern::Part;
use prefix::PrefixCache;
use thread::ThreadNameCache;
use time::TimeFormatter;
use write::{OVERFLOW, put};

/// The process whose records are laid out, for patterns that name it.
///
/// ```
/// use logdrive_drain::layout::ProcessInfo;
/// let process = ProcessInfo { app: "shop".into(), pid: 417, host: "web-1".into() };
/// assert_eq!(process.pid, 417);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessInfo {
    /// Name of the application, as it was started with.
    pub app: String,
    /// Process id, in its own namespace.
    pub pid: u32,
    /// Name of the machine that it runs on.
    pub host: String,
}

/// The thread that wrote a record.
///
/// ```
/// use logdrive_drain::layout::Thread;
/// let unnamed = Thread { name: "", id: 417 };
/// assert!(unnamed.name.is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread<'a> {
    /// Its name; empty if it has none, and then its id is shown.
    pub name: &'a str,
    /// Id of the thread, as the system counts it.
    pub id: u64,
}

/// A record to lay out.
///
/// ```
/// use logdrive_drain::layout::{Record, Thread};
/// let record = Record { unix_ns: 0, thread: Thread { name: "main", id: 1 }, payload: &[] };
/// assert_eq!(record.thread.name, "main");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Time in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Thread that wrote the record.
    pub thread: Thread<'a>,
    /// The bytes behind the record's header, padding included.
    pub payload: &'a [u8],
}

/// Result of laying out a record. [`Layout`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The line was written.
    Done,
    /// The payload could not be read; what could be was written, with a mark.
    Malformed,
    /// It does not fit, and nothing was written.
    Overflow,
}

/// Turns records into lines in one style.
///
/// ```
/// use logdrive_drain::layout::{Layout, LayoutOptions, LineBuffer, Outcome, ProcessInfo, Record, Style, Thread};
/// use logdrive_wire::Callsite;
///
/// let mut layout = Layout::new(LayoutOptions::from(Style::Text), ProcessInfo::default())?;
/// let site = Callsite { file: "src/main.rs".into(), line: 7, module: "app".into(), message: "ready".into(),
///     ..Callsite::default() };
/// let plan = layout.compile(&site);
/// let mut bytes = [0; 256];
/// let mut out = LineBuffer::new(&mut bytes);
/// let record = Record { unix_ns: 1_500_000_000_000_000_000, thread: Thread { name: "main", id: 1 }, payload: &[] };
/// assert_eq!(layout.line(&plan, &record, &mut out), Outcome::Done);
/// assert_eq!(out.as_bytes(), b"2017-07-14T02:40:00.000000000Z INFO  main app main.rs:7 ready\n");
/// # Ok::<(), logdrive_drain::layout::LayoutError>(())
/// ```
#[derive(Debug)]
pub struct Layout {
    options: LayoutOptions,
    process: ProcessInfo,
    pattern: Vec<Part>,
    time: TimeFormatter,
    /// Offset of each value of the present payload, for plans that do not read them in passing.
    offsets: Vec<usize>,
    /// Text of the present value, for values with a spec.
    scratch: Vec<u8>,
    spans: SpanTextCache,
    thread: ThreadNameCache,
    prefixes: PrefixCache,
    rows: RowLayout,
}

impl Layout {
    /// Prepares a layout.
    ///
    /// # Errors
    /// When a pattern cannot be read, a name is too long, or local time is asked for and was not built in.
    pub fn new(options: LayoutOptions, process: ProcessInfo) -> Result<Self, LayoutError> {
        let pattern = match &options.style {
            Style::Pattern(pattern) => {
                options::check_pattern_length(pattern)?;
                pattern::parse(pattern)?
            }
            _ => Vec::new(),
        };
        if options.style == Style::Segments && !segment::IS_BUILT_IN {
            return Err(LayoutError::NoSegments);
        }
        for (what, name) in [("application name", &process.app), ("host name", &process.host)] {
            if name.len() > NAME_BYTES_MAX {
                return Err(LayoutError::TooLong {
                    what,
                    limit: NAME_BYTES_MAX,
                });
            }
        }
        Ok(Self {
            time: TimeFormatter::new(options.local_time)?,
            options,
            process,
            pattern,
            offsets: Vec::new(),
            scratch: Vec::new(),
            spans: SpanTextCache::default(),
            thread: ThreadNameCache::default(),
            prefixes: PrefixCache::default(),
            rows: RowLayout::default(),
        })
    }

    /// The options that it was made with.
    pub fn options(&self) -> &LayoutOptions {
        &self.options
    }

    /// Prepares the lines of a callsite. Once per callsite: it allocates.
    pub fn compile(&self, site: &Callsite) -> Plan {
        self.compile_as(site, &self.process, false)
    }

    /// The same for a callsite of another process, whose lines name it: `app[pid]/thread` in text, keys `app` and
    /// `pid` in JSON and logfmt. A pattern names what it asks for.
    ///
    /// ```
    /// use logdrive_drain::layout::{Layout, ProcessInfo, Style};
    /// let agent = ProcessInfo { app: "agent".into(), pid: 1, host: "web-1".into() };
    /// let shop = ProcessInfo { app: "shop".into(), pid: 417, host: "web-1".into() };
    /// let layout = Layout::new(Style::Text.into(), agent)?;
    /// let _plan = layout.compile_for(&logdrive_wire::Callsite::default(), &shop);
    /// # Ok::<(), logdrive_drain::layout::LayoutError>(())
    /// ```
    pub fn compile_for(&self, site: &Callsite, process: &ProcessInfo) -> Plan {
        self.compile_as(site, process, true)
    }

    fn compile_as(&self, site: &Callsite, process: &ProcessInfo, names_process: bool) -> Plan {
        let fields = structured::fields(site, self.options.style.field_style(), names_process);
        let steps = |malformed| {
            let key_texts = &fields.key_texts;
            compile::steps(
                &self.options,
                process,
                &self.pattern,
                site,
                key_texts,
                names_process,
                malformed,
            )
        };
        Plan {
            main: steps(false),
            broken: steps(true),
            kinds: match site.dynamic {
                true => Box::default(),
                false => site.fields.iter().map(|field| field.kind).collect(),
            },
            level: site.level,
            row: (self.options.style == Style::Segments)
                .then(|| {
                    let named = (process.app.as_str(), process.pid, process.host.as_str());
                    RowPlan::new(site, names_process.then_some(named))
                })
                .flatten(),
            fields: Box::new(fields),
        }
    }

    /// Writes a record's line, with its line break.
    ///
    /// Does not allocate for common values. On [`Outcome::Overflow`] the buffer is as before: take a new one and call
    /// again, and where an empty one is too small, call [`line_cut`](Self::line_cut).
    #[inline]
    pub fn line(&mut self, plan: &Plan, record: &Record<'_>, out: &mut LineBuffer<'_>) -> Outcome {
        if plan.row.is_some() {
            return self.row(plan, record, out);
        }
        match self.put_line(plan, &plan.main, record, out.bytes, out.length) {
            Ok(end) if end <= out.bytes.len() => {
                out.length = end;
                Outcome::Done
            }
            Ok(_) => Outcome::Overflow,
            Err(_) => self.line_malformed(plan, record, out),
        }
    }

    /// Writes a record as a row of a segment.
    #[inline(never)]
    fn row(&mut self, plan: &Plan, record: &Record<'_>, out: &mut LineBuffer<'_>) -> Outcome {
        let Some(row) = &plan.row else {
            return Outcome::Overflow;
        };
        let thread = (record.thread.id, record.thread.name);
        let place = (out.before, out.length);
        match self
            .rows
            .put(row, thread, (record.unix_ns, record.payload), out.bytes, place)
        {
            Some(end) => {
                out.length = end;
                Outcome::Done
            }
            None => Outcome::Overflow,
        }
    }

    /// Returns what the rows of a record's callsite and thread begin with; `None` where lines are made, and where no such
    /// row stands in the buffer so far.
    pub(crate) fn row_run(
        &mut self,
        plan: &Plan,
        thread: &Thread<'_>,
        out: &LineBuffer<'_>,
    ) -> Option<RowRun> {
        let place = (out.before, out.length);
        self.rows.run(plan.row.as_ref()?, (thread.id, thread.name), place)
    }

    #[cold]
    fn line_malformed(&mut self, plan: &Plan, record: &Record<'_>, out: &mut LineBuffer<'_>) -> Outcome {
        match self.put_line(plan, &plan.broken, record, out.bytes, out.length) {
            Ok(end) if end <= out.bytes.len() => {
                out.length = end;
                Outcome::Malformed
            }
            _ => Outcome::Overflow,
        }
    }

    /// Writes as much of a record's line as fits, with a mark, for a line that does not fit an empty buffer.
    ///
    /// Slow, and allocates up to [`LINE_BYTES_MAX`]. [`Outcome::Overflow`] means that not even the mark fits.
    pub fn line_cut(&mut self, plan: &Plan, record: &Record<'_>, out: &mut LineBuffer<'_>) -> Outcome {
        if self.options.style == Style::Segments {
            return self.row(plan, record, out);
        }
        let room = out.bytes.len() - out.length;
        // Only what fits is shown, but a part of the line has to fit here as a whole to be shown at all.
        let most = room + 8 * record.payload.len() + 4_096;
        let (whole, outcome) = self.whole_line(plan, record, most.min(LINE_BYTES_MAX));
        let end = if whole.last() == Some(&b'\n') && whole.len() <= room {
            // Only the room for wide copies was missing.
            put(out.bytes, out.length, &whole)
        } else {
            let whole = whole.strip_suffix(b"\n").unwrap_or(&whole);
            match self.options.style {
                Style::Json | Style::Slog | Style::Logfmt => {
                    self.put_cut_structured(plan, record, whole, out)
                }
                _ => put_cut_text(whole, out),
            }
        };
        if end > out.bytes.len() {
            return Outcome::Overflow;
        }
        out.length = end;
        outcome
    }

    /// The line, or as many of its parts as fit; only a whole line has its break.
    fn whole_line(&mut self, plan: &Plan, record: &Record<'_>, bytes_most: usize) -> (Vec<u8>, Outcome) {
        let mut bytes = vec![0; bytes_most];
        let (mut steps, mut outcome) = (&plan.main, Outcome::Done);
        if self.put_line(plan, steps, record, &mut bytes, 0).is_err() {
            (steps, outcome) = (&plan.broken, Outcome::Malformed);
        }
        // More steps make a longer line: search for the most that fit.
        let (mut fitting, mut most) = (0, steps.steps.len());
        while fitting < most {
            let middle = (fitting + most).div_ceil(2);
            match self.interpret_front(plan, steps, middle, record, &mut bytes, 0) {
                Ok(end) if end <= bytes.len() => fitting = middle,
                _ => most = middle - 1,
            }
        }
        let length = self
            .interpret_front(plan, steps, fitting, record, &mut bytes, 0)
            .unwrap_or(0);
        bytes.truncate(length);
        (bytes, outcome)
    }

    /// `{"ts":"...","level":"INFO","cut":"the front of the line"}`, or the same in logfmt.
    fn put_cut_structured(
        &mut self,
        plan: &Plan,
        record: &Record<'_>,
        whole: &[u8],
        out: &mut LineBuffer<'_>,
    ) -> usize {
        let nanos = self.time.enter(record.unix_ns);
        let (start, level, key, close) = match self.options.style {
            Style::Slog => ("{\"time\":\"", "\",\"level\":\"", "\",\"cut\":\"", "\"}\n"),
            Style::Json => ("{\"ts\":\"", "\",\"level\":\"", "\",\"cut\":\"", "\"}\n"),
            _ => ("ts=", " level=", " cut=\"", "\"\n"),
        };
        let at = put(out.bytes, out.length, start.as_bytes());
        let at = self.time.put_iso(out.bytes, at, nanos);
        let at = put(out.bytes, at, level.as_bytes());
        let at = put(
            out.bytes,
            at,
            structured::level_name(plan.level, plan.fields.style).as_bytes(),
        );
        let at = put(out.bytes, at, key.as_bytes());
        let Some(room) = room_before(out, at, close.len()) else {
            return OVERFLOW;
        };
        let text = escaped(whole, Escape::Json);
        let front = text.get(..whole_front(&text, room, Escape::Json)).unwrap_or(b"");
        let at = put(out.bytes, at, front);
        put(out.bytes, at, close.as_bytes())
    }
}

/// Bytes between `at` and an end of `reserved` bytes.
fn room_before(out: &LineBuffer<'_>, at: usize, reserved: usize) -> Option<usize> {
    out.bytes.len().checked_sub(at)?.checked_sub(reserved)
}

fn put_cut_text(whole: &[u8], out: &mut LineBuffer<'_>) -> usize {
    const MARK: &[u8] = b" [cut]\n";
    let Some(room) = room_before(out, out.length, MARK.len()) else {
        return OVERFLOW;
    };
    let front = whole.get(..whole_front(whole, room, Escape::Text)).unwrap_or(b"");
    let at = put(out.bytes, out.length, front);
    put(out.bytes, at, MARK)
}
