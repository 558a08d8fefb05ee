//! Options of a sink, and their text form in the session for a recoverer.

use crate::file::FileOptions;
use crate::layout::{LayoutOptions, Style};
use crate::schema::{self, FILE, Kind, Options, PROGRAM, Row, Setting, Value, Word, Words, Wrong, limits};
use crate::ship::ShipOptions;
use crate::sink::callback::CallbackSink;
use crate::sink::memory::MemorySink;
use crate::sink::targets::Targets;
use logdrive_wire::Level;
use std::path::PathBuf;
use std::time::Duration;

/// Target of a sink's lines.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Target {
    /// A file, rotated and removed by its own rules.
    File(FileOptions),
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Memory of this process, for tests.
    Memory(MemorySink),
    /// A function of this process.
    Callback(CallbackSink),
    /// A collector, with the feature `ship`.
    Ship(Box<ShipOptions>),
    /// Nowhere: lines are formatted and thrown away.
    Discard,
}

/// Handling of records for a sink whose buffers are all full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// Drop them, count them, and report their number in the log when there is room again. Other sinks go on.
    #[default]
    Drop,
    /// Hold everything back, all sinks and in the end the rings, until there is room.
    Hold,
}

/// Moment at which bytes are made durable with `fdatasync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// At a time that the kernel chooses.
    #[default]
    Never,
    /// After each flush that a record's level caused, and when the sink is closed.
    AtLevel,
    /// At most once in this time.
    Every(Duration),
}

crate::words!(Overflow {
    Drop = "drop": "drop and count what does not fit, and say so in the log; other sinks go on",
    Hold = "hold": "hold all sinks back, and in the end the rings, where each program's own policy decides",
});

impl Setting for Sync {
    fn to_value(&self) -> Option<Value> {
        Some(match self {
            Self::Never => Value::Word("never"),
            Self::AtLevel => Value::Word("level"),
            Self::Every(time) => Value::Time(*time),
        })
    }

    fn from_value(value: Value) -> Result<Self, Wrong> {
        match value {
            Value::Word("never") => Ok(Self::Never),
            Value::Word("level") => Ok(Self::AtLevel),
            value => Duration::from_value(value).map(Self::Every),
        }
    }
}

/// Layouts that are one word.
const LAYOUTS: &[Word] = &[
    (
        "text",
        "time, level, thread, module, place, message and fields, for people",
    ),
    ("json", "one JSON object a line: fields keep their types"),
    ("logfmt", "key=value pairs"),
    ("glog", "as Google's glog"),
    (
        "segments",
        "records as they are: compressed blocks with typed columns, for files, which `logdrive cat` shows, and for collectors",
    ),
];

/// Times at which bytes are made durable.
const SYNCS: &[Word] = &[
    (
        "never",
        "the kernel writes when it likes: a power cut may lose some 30 s",
    ),
    (
        "level",
        "after every record of `flush_level`, and when a file is closed",
    ),
];

/// Kinds of targets in configuration files.
const TYPES: &[Word] = &[
    ("file", "a file, rotated and removed by the rules below"),
    ("stdout", "standard output, which systemd puts into the journal"),
    ("stderr", "standard error"),
    ("discard", "nowhere: lines are made and thrown away"),
];

impl Setting for Target {
    fn to_value(&self) -> Option<Value> {
        match self {
            Self::File(_) => Some(Value::Word("file")),
            Self::Stdout => Some(Value::Word("stdout")),
            Self::Stderr => Some(Value::Word("stderr")),
            Self::Discard => Some(Value::Word("discard")),
            Self::Memory(_) | Self::Callback(_) | Self::Ship(_) => None,
        }
    }

    fn from_value(value: Value) -> Result<Self, Wrong> {
        match value {
            Value::Word("file") => Ok(Self::File(FileOptions::new(""))),
            Value::Word("stdout") => Ok(Self::Stdout),
            Value::Word("stderr") => Ok(Self::Stderr),
            Value::Word("discard") => Ok(Self::Discard),
            _ => Err(Wrong::new("there is no such word")),
        }
    }
}

crate::options! {
    /// One sink.
    #[derive(Debug, Clone)]
    pub struct SinkOptions {
        /// Format of a line. One of your own is "pattern" and text with {time} {time:%H:%M:%S.%3f} {level} {thread}
        /// {thread_id} {target} {module} {file} {path} {line} {message} {fields} {spans} {app} {pid} {host} in it;
        /// {level:>5} and the like as in Rust, and a backslash stands for itself behind another one.
        pub layout: LayoutOptions => Row::of(Kind::Parsed(
            "\"pattern \" and a line of your own, such as \"pattern {time} {level:5} {message}{fields}\"",
        ))
        .words(LAYOUTS)
        .live(),
        /// Records below this level are left out. They cost the disk nothing, but formatting is saved as well only
        /// where no other sink takes them.
        pub min_level: Level => Row::of(Kind::Level).live(),
        /// Handling of records when the target is too slow and all buffers are full.
        pub overflow: Overflow => Row::of(Kind::Word).words(Overflow::WORDS).live().scope(FILE | PROGRAM),
        /// Lines wait at most this long before they are handed to the kernel, or sent.
        pub flush_every: Duration => Row::of(Kind::Time(limits::FLUSH_EVERY)).live().scope(FILE | PROGRAM),
        /// A record of this level or above is handed to the kernel, or sent, at once.
        pub flush_level: Level => Row::of(Kind::Level).live().scope(FILE | PROGRAM),
        /// When written lines are flushed to the disk (fdatasync); with a time, at most once in that time.
        pub sync: Sync => Row::of(Kind::Time(limits::SYNC_EVERY)).words(SYNCS).scope(FILE | PROGRAM),
        /// Output buffers of 1 MiB, for each file: they absorb a pause of the disk, and what was sent stays in them
        /// until it is acknowledged. A sink that comes by a reload gets at most as many as any had at the start, or 8.
        pub buffers: Option<usize> => Row::of(Kind::Count(limits::BUFFERS))
            .unset("8", "8")
            .scope(FILE | PROGRAM),
    }
    and {
        /// Target of the lines.
        pub target: Target,
        /// Callsites whose records it takes.
        pub targets: Targets,
    }
    with {
        /// The times in lines and in the names of rotated files are local ones. UTC has no hour twice; the layout glog
        /// has no zone in its lines and is local unless told.
        local_time: (layout.local_time) => Row::of(Kind::Flag).scope(FILE | PROGRAM),
        /// Kind of the target.
        kind: [|sink| sink.target.to_value(), |sink, value| {
            // A target of this kind keeps its options.
            if sink.target.to_value().as_ref() != Some(&value) {
                sink.target = Target::from_value(value)?;
            }
            Ok(())
        }] => Row::of(Kind::Word).words(TYPES).named("type").scope(FILE),
    }
    by [visit, visit_mut]
}

/// A collector's options come first, since they are what it is about.
fn visit<'a>(sink: &'a SinkOptions, each: &mut dyn FnMut(&'a dyn Options)) {
    #[cfg(all(feature = "ship", target_os = "linux"))]
    if let Target::Ship(ship) = &sink.target {
        ship.visit(each);
    }
    each(sink);
    if let Target::File(file) = &sink.target {
        file.visit(each);
    }
}

fn visit_mut(sink: &mut SinkOptions, each: &mut dyn FnMut(&mut dyn Options)) {
    #[cfg(all(feature = "ship", target_os = "linux"))]
    if let Target::Ship(ship) = &mut sink.target {
        ship.visit_mut(each);
    }
    each(sink);
    if let Target::File(file) = &mut sink.target {
        file.visit_mut(each);
    }
}

impl Default for RecoverableSink {
    /// A target that ended with its process.
    fn default() -> Self {
        Self {
            file: None,
            ship: None,
            layout: LayoutOptions::from(Style::Text),
            min_level: Level::Trace,
            targets: Targets::default(),
            is_console: false,
        }
    }
}

impl SinkOptions {
    /// A sink with the defaults: text in UTC, flushed within 25 ms and at errors.
    ///
    /// ```
    /// use logdrive_drain::{SinkOptions, Target};
    /// let sink = SinkOptions::new(Target::Discard);
    /// assert_eq!(sink.flush_every.as_millis(), 25);
    /// ```
    pub fn new(target: Target) -> Self {
        Self {
            target,
            targets: Targets::default(),
            layout: LayoutOptions::from(Style::Text),
            min_level: Level::Trace,
            overflow: Overflow::default(),
            flush_every: Duration::from_millis(25),
            flush_level: Level::Error,
            sync: Sync::default(),
            buffers: None,
        }
    }
}

/// A sink as the session describes it: only files and collectors can be reached by another process.
#[derive(Debug, Clone)]
pub struct RecoverableSink {
    /// The file; `None` for another target.
    pub file: Option<FileOptions>,
    /// The collector; `None` for another target.
    pub ship: Option<Box<ShipOptions>>,
    /// Format of lines.
    pub layout: LayoutOptions,
    /// The sink's lowest level.
    pub min_level: Level,
    /// Callsites whose records it takes.
    pub targets: Targets,
    /// Set where its lines go to standard output of the process that drains. A session does not say so.
    pub is_console: bool,
}

impl RecoverableSink {
    /// Destination of its lines, as messages name it; `None` for a target that ended with its process.
    pub(crate) fn destination(&self) -> Option<PathBuf> {
        let shipped = || Some(PathBuf::from(self.ship.as_ref()?.destination()));
        self.file.as_ref().map(|file| file.path.clone()).or_else(shipped)
    }
}

/// The sinks as text, for the session.
pub fn sinks_to_text(sinks: &[SinkOptions]) -> String {
    let mut text = String::new();
    for sink in sinks {
        text.push_str("[sink]\n");
        text.push_str(&schema::to_text(sink));
        text.push_str(&sink.targets.to_text());
        if let Target::File(file) = &sink.target {
            // Another process has another working directory.
            let file = file.absolute().unwrap_or_else(|_| file.clone());
            text.push_str("[file]\n");
            text.push_str(&file.to_text());
        }
        if let Target::Ship(ship) = &sink.target {
            text.push_str("[ship]\n");
            text.push_str(&ship.to_text());
        }
    }
    text
}

/// Reads what [`sinks_to_text`] wrote. A sink that cannot be read is taken for one that ended with its process.
pub fn sinks_from_text(text: &str) -> Vec<RecoverableSink> {
    text.split("[sink]\n").skip(1).map(sink_from_text).collect()
}

/// The text with another sink in one place, or with none there: one that is closed. Where there are fewer, closed ones
/// fill up.
pub(crate) fn with_sink(text: &str, place: usize, sink: Option<&SinkOptions>) -> String {
    const BEGIN: &str = "[sink]\n";
    let mut parts = text.split(BEGIN);
    let mut all = parts.next().unwrap_or_default().to_owned();
    let mut parts: Vec<String> = parts.map(|part| format!("{BEGIN}{part}")).collect();
    if parts.len() <= place {
        parts.resize(place + 1, BEGIN.to_owned());
    }
    if let Some(part) = parts.get_mut(place) {
        *part = sink.map_or_else(
            || BEGIN.to_owned(),
            |sink| sinks_to_text(std::slice::from_ref(sink)),
        );
    }
    parts.iter().for_each(|part| all.push_str(part));
    all
}

/// Reads one sink: lines of the sink itself, then `[file]` or `[ship]` and the lines of its target. What cannot be read
/// is left at its default.
fn sink_from_text(text: &str) -> RecoverableSink {
    let (head, file) = match text.split_once("[file]\n") {
        Some((head, file)) => (head, FileOptions::from_text(file).ok()),
        None => (text, None),
    };
    let (head, ship) = match head.split_once("[ship]\n") {
        Some((head, ship)) => (head, ShipOptions::from_text(ship).map(Box::new)),
        None => (head, None),
    };
    let mut options = SinkOptions::new(Target::Discard);
    for (key, value) in head.lines().filter_map(|line| line.split_once(" = ")) {
        if !options.targets.read_line(key, value) {
            let _ = schema::set_line(&mut options, key, value);
        }
    }
    RecoverableSink {
        file,
        ship,
        layout: options.layout,
        min_level: options.min_level,
        targets: options.targets,
        is_console: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinks_read_back_from_their_text() {
        let mut file = SinkOptions::new(Target::File(FileOptions::new("/tmp/a b\n[sink]\n.log")));
        file.layout = LayoutOptions::from(Style::Json);
        file.min_level = Level::Warn;
        file.targets.only = vec!["net".to_owned()];
        let text = sinks_to_text(&[SinkOptions::new(Target::Stderr), file]);
        let sinks = sinks_from_text(&text);
        assert_eq!(sinks.len(), 2);
        let other = SinkOptions::new(Target::File(FileOptions::new("/tmp/other.log")));
        for text in [
            with_sink(&text, 0, Some(&other)),
            with_sink(&text, 3, Some(&other)),
        ] {
            let paths = sinks_from_text(&text).into_iter();
            let paths: Vec<_> = paths
                .filter_map(|sink| Some(sink.file?.path.to_str()?.to_owned()))
                .collect();
            assert_eq!(paths.len(), 2);
            assert!(paths.contains(&"/tmp/other.log".to_owned()), "{paths:?}");
        }
        let closed = sinks_from_text(&with_sink(&format!("[keep]\n{text}"), 1, None));
        assert!(closed.len() == 2 && closed[1].file.is_none());
        assert!(sinks[0].file.is_none());
        assert_eq!(sinks[1].layout.style, Style::Json);
        assert_eq!(sinks[1].min_level, Level::Warn);
        assert_eq!(sinks[1].targets.only, ["net"]);
        assert_eq!(
            sinks[1].file.as_ref().unwrap().path.to_str(),
            Some("/tmp/a b\n[sink]\n.log")
        );
    }

    #[cfg(all(feature = "ship", target_os = "linux"))]
    #[test]
    fn a_sink_that_sends_elsewhere_reads_back_with_its_last_collectors() {
        let ship = |to: &str| ShipOptions::new(vec![to.parse().expect("an address")]);
        let sink = |to: &str| SinkOptions::new(Target::Ship(Box::new(ship(to))));
        let mut text = sinks_to_text(&[sink("unix:///a"), sink("unix:///b"), sink("unix:///f")]);
        for to in ["unix:///c", "unix:///d"] {
            text = with_sink(&text, 1, Some(&sink(to)));
        }
        let to: Vec<String> = sinks_from_text(&text)
            .into_iter()
            .map(|sink| sink.ship.expect("one").destination())
            .collect();
        assert_eq!(to, ["unix:///a", "unix:///d", "unix:///f"]);
    }
}
