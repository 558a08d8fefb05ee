//! The head of a line as it was read: form, time, level.

use crate::part::Part;
use logdrive_wire::Level;

/// Form in which a record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// Time, level, and text, as Logdrive writes.
    Text,
    /// As glog writes.
    Glog,
    /// A JSON object.
    Json,
    /// Pairs of key and value.
    Logfmt,
    /// As another program writes.
    Foreign(ForeignForm),
    /// Nothing that is known; lines before the first record.
    #[default]
    Unknown,
}

/// Facts of the head of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) form: Form,
    pub(crate) unix_ns: u64,
    pub(crate) level: Option<Level>,
    /// Part that is the time, in text and glog.
    pub(crate) time: Part,
    pub(crate) level_part: Part,
    /// Whether the line has a time; else it has that of the line before.
    pub(crate) is_timed: bool,
}

impl Head {
    /// Whether the level stands in the next line.
    pub(crate) fn is_level_behind(&self) -> bool {
        self.form == Form::Foreign(ForeignForm::JavaUtil)
    }

    /// The head of a JSON object that says neither time nor level.
    pub(crate) fn of_object() -> Self {
        Self {
            form: Form::Json,
            unix_ns: 0,
            level: None,
            time: Part::default(),
            level_part: Part::default(),
            is_timed: false,
        }
    }

    /// The head with its parts so many bytes further behind.
    pub(crate) fn shifted(self, bytes: usize) -> Self {
        Self {
            time: self.time.shifted(bytes),
            level_part: self.level_part.shifted(bytes),
            ..self
        }
    }
}

/// Form of a line of another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignForm {
    /// Words of a logger behind a time, or without one.
    Words,
    /// A request as a web server writes it.
    Access,
    /// `417:M 21 Nov 2026 12:34:56.789 * text`
    Redis,
    /// `Nov 21 12:34:56 host app[417]: text`, with or without its priority.
    Syslog,
    /// The later form of syslog, with fields.
    Syslog5424,
    /// A line that a container's runtime wrote: time, stream, whether it is whole, and the line of the program.
    Container,
    /// `[I 261121 12:34:56 app:7] text`
    Tornado,
    /// `<3>text`
    Priority,
    /// A date and the logger; level and message stand in the next line.
    JavaUtil,
    /// The first line of what a program says when it crashes.
    Crash,
}

/// A head as its front says it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundHead {
    pub(crate) head: Head,
    pub(crate) inner: Option<InnerLine>,
}

/// A line within the line, and its say about the level.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InnerLine {
    /// The level is that of the line at this offset.
    Decides(usize),
    /// The level is that of the line at this offset, where it says one in its head.
    May(usize),
    /// A container's runtime wrapped a line, and said so at this offset.
    Wrapped(usize),
}

impl From<Head> for FoundHead {
    fn from(head: Head) -> Self {
        Self { head, inner: None }
    }
}

impl Head {
    /// The head with a line within the line.
    pub(crate) fn around(self, inner: InnerLine) -> FoundHead {
        FoundHead {
            head: self,
            inner: Some(inner),
        }
    }
}
