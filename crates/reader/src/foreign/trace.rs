//! Stack traces of usual languages: lines with which they begin, and lines that belong to them.

use crate::foreign::level;
use logdrive_wire::Level;

/// Lines of source that node shows before an error, at most.
const SOURCE_LINES_MAX: u8 = 8;

/// Rule about lines that are no heads and look like nothing that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinRule {
    /// Those of a log file belong to the record before, once a record has a head.
    LogFile,
    /// Those of the output of a program are records: it may print besides logging.
    Output,
}

/// Kind of a stack trace, as far as what may follow differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Trace {
    /// None is open.
    #[default]
    None,
    /// Frames that are indented or begin with known words.
    Frames,
    /// A traceback of Python, before the line of its exception, and behind it.
    Python,
    PythonEnd,
    /// The dump of a Go program, to its end.
    Go,
    /// The message of a panic in Rust, and what follows it.
    RustMessage,
    Rust,
    /// The line of source that node shows in front of an error, and what it shows then.
    NodeSource,
    Node,
}

/// The open record of a stream, as far as it decides what belongs to it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OpenTrace {
    trace: Trace,
    /// Whether the record began with a head.
    has_head: bool,
    /// Whether a record is open at all.
    is_open: bool,
    /// Lines of source that may still come before an error of node.
    source_lines: u8,
}

impl OpenTrace {
    /// Returns whether a trace is open.
    pub(crate) fn is_in_trace(&self) -> bool {
        self.trace != Trace::None
    }

    /// Returns whether a record is open at all.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns whether the next line belongs to the open record; else it begins the next one.
    pub(crate) fn continues(&mut self, line: &[u8], has_head: bool, rule: JoinRule) -> bool {
        if self.is_open && !has_head && self.belongs(line, rule) {
            return true;
        }
        *self = Self {
            trace: first_of_trace(line),
            has_head,
            is_open: true,
            source_lines: SOURCE_LINES_MAX,
        };
        false
    }

    /// Whether a line that is no head belongs to the open record.
    fn belongs(&mut self, line: &[u8], rule: JoinRule) -> bool {
        if self.trace == Trace::NodeSource {
            self.source_lines = self.source_lines.saturating_sub(1);
            if self.source_lines == 0 {
                self.trace = Trace::None;
            }
        }
        if let Some(next) = next_in_trace(self.trace, line) {
            self.trace = next;
            return true;
        }
        let begun = first_of_trace(line);
        // A trace belongs to the record that tells of it.
        if is_frame(line) || (begun != Trace::None && self.has_head) {
            self.trace = if begun == Trace::None {
                Trace::Frames
            } else {
                begun
            };
            return true;
        }
        self.trace = Trace::None;
        let is_indented = matches!(line.first(), Some(b' ' | b'\t'));
        self.has_head && (rule == JoinRule::LogFile || is_indented)
    }
}

/// The level of lines that are no record of a known form, such as `error: text`; a stack trace is an error.
pub(crate) fn level_of_unknown(line: &[u8]) -> Option<Level> {
    level::recognise_plain(line)
        .or_else(|| crash_level(line))
        .or_else(|| begins_trace(line).then_some(Level::Error))
}

fn begins_with_one(line: &[u8], texts: &[&[u8]]) -> bool {
    texts.iter().any(|text| line.starts_with(text))
}

/// A frame of a stack trace, whatever stands before it.
fn is_frame(line: &[u8]) -> bool {
    let text = line.trim_ascii_start();
    if text.len() == line.len() {
        return begins_with_one(
            text,
            &[
                b"Caused by: ",
                b"Suppressed: ",
                b"goroutine ",
                b"stack backtrace:",
            ],
        );
    }
    begins_with_one(
        text,
        &[
            b"at ",
            b"File \"",
            b"from ",
            b"... ",
            b"Caused by: ",
            b"Suppressed: ",
            b"--- End of ",
            b"---> ",
        ],
    )
}

/// The kind of the trace that begins with a line.
fn first_of_trace(line: &[u8]) -> Trace {
    match line.first() {
        Some(b'T') if line.starts_with(b"Traceback (most recent call last):") => Trace::Python,
        Some(b'E') if line.starts_with(b"Exception in thread ") => Trace::Frames,
        Some(b'U') if line.starts_with(b"Unhandled exception") || line.starts_with(b"Uncaught ") => {
            Trace::Frames
        }
        Some(b'p') if line.starts_with(b"panic: ") => Trace::Go,
        Some(b'f') if line.starts_with(b"fatal error: ") => Trace::Go,
        Some(b'g') if line.starts_with(b"goroutine ") => Trace::Go,
        Some(b't') if is_rust_panic(line) => Trace::RustMessage,
        Some(b'/' | b'n' | b'f') if is_node_source(line) => Trace::NodeSource,
        Some(_) if is_exception(line) => Trace::Frames,
        _ => Trace::None,
    }
}

/// The level of what a program says when it crashes; `None` for any other line. A traceback may also be part of a record.
pub(crate) fn crash_level(line: &[u8]) -> Option<Level> {
    let is_python = line.starts_with(b"Traceback (most recent call last):");
    let is_of_thread = begins_with_one(line, &[b"Exception in thread \"", b"Unhandled exception. "]);
    match line.first()? {
        b'p' if line.starts_with(b"panic: ") => Some(Level::Fatal),
        b'f' if line.starts_with(b"fatal error: ") => Some(Level::Fatal),
        b'T' | b'E' | b'U' if is_python || is_of_thread => Some(Level::Error),
        b't' if is_rust_panic(line) => Some(Level::Error),
        b'/' | b'n' | b'f' if is_node_source(line) => Some(Level::Error),
        _ => None,
    }
}

/// Whether a stack trace begins with a line.
fn begins_trace(line: &[u8]) -> bool {
    !matches!(first_of_trace(line), Trace::None | Trace::NodeSource)
}

/// `thread 'main' panicked at src/main.rs:7:5:`
fn is_rust_panic(line: &[u8]) -> bool {
    line.starts_with(b"thread '") && memchr::memmem::find(line, b" panicked at ").is_some()
}

/// `/app/shop.js:12`, `node:internal/process/promises:288`
fn is_node_source(line: &[u8]) -> bool {
    let colon = memchr::memrchr(b':', line).unwrap_or(0);
    let (file, number) = line.split_at(colon);
    let is_number = number.len() > 1 && number.iter().skip(1).all(u8::is_ascii_digit);
    let is_file = [&b".js"[..], b".mjs", b".cjs", b".ts"]
        .iter()
        .any(|end| file.ends_with(end));
    is_number && (is_file || file.starts_with(b"node:"))
}

/// `java.io.IOException: text`, `TypeError: text`, `System.ArgumentException`
fn is_exception(line: &[u8]) -> bool {
    let is_of_class = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$');
    let length = line.iter().take(256).take_while(|byte| is_of_class(byte)).count();
    let Some(class) = line.get(..length) else {
        return false;
    };
    let ends = [&b"Exception"[..], b"Error", b"Throwable"]
        .iter()
        .any(|end| class.ends_with(end));
    ends && matches!(line.get(length), None | Some(b':')) && class != b"Error"
        || class == b"Error" && line.starts_with(b"Error: ")
}

/// What a trace is once a line of it has come; `None` for a line that is not of it.
fn next_in_trace(trace: Trace, line: &[u8]) -> Option<Trace> {
    let is_indented = matches!(line.first(), Some(b' ' | b'\t'));
    match trace {
        Trace::None => None,
        Trace::Frames => {
            let closes = matches!(line, b"}" | b"]") || line.starts_with(b"Node.js v");
            (is_indented || closes || is_frame(line)).then_some(Trace::Frames)
        }
        Trace::Python if is_indented || line.is_empty() => Some(Trace::Python),
        // The line of the exception.
        Trace::Python => Some(Trace::PythonEnd),
        Trace::PythonEnd => match line {
            [] | [b' ' | b'\t', ..] => Some(Trace::PythonEnd),
            _ if line.starts_with(b"Traceback (") => Some(Trace::Python),
            _ => begins_with_one(line, &[b"During handling of ", b"The above exception "])
                .then_some(Trace::PythonEnd),
        },
        Trace::Go => is_of_go(line).then_some(Trace::Go),
        Trace::RustMessage => (!line.is_empty()).then_some(Trace::Rust),
        Trace::Rust => {
            let is_known = begins_with_one(line, &[b"stack backtrace:", b"note: "]);
            (is_indented || is_known).then_some(Trace::Rust)
        }
        Trace::NodeSource => match is_exception(line) || is_frame(line) {
            true => Some(Trace::Node),
            false => Some(Trace::NodeSource),
        },
        Trace::Node if line.is_empty() => Some(Trace::Node),
        Trace::Node => next_in_trace(Trace::Frames, line).map(|_| Trace::Node),
    }
}

/// A line of the dump of a Go program.
fn is_of_go(line: &[u8]) -> bool {
    if line.is_empty() || line.first() == Some(&b'\t') {
        return true;
    }
    let known: [&[u8]; 6] = [
        b"goroutine ",
        b"created by ",
        b"exit status ",
        b"[signal ",
        b"runtime ",
        b"...additional",
    ];
    // `main.(*Shop).Fill(0xc000012345, {0x1, 0x2})`
    let is_call = line.ends_with(b")")
        && memchr::memchr2(b'.', b'/', line).is_some()
        && memchr::memchr(b'(', line).is_some();
    // `rax    0x0`
    let is_register = line
        .get(..8)
        .is_some_and(|front| front.ends_with(b" ") && front.first().is_some_and(u8::is_ascii_lowercase))
        && memchr::memmem::find(line, b"0x").is_some();
    begins_with_one(line, &known) || is_call || is_register
}
