//! Records as queries see them: a time, a level, and values of named fields.

use logdrive_wire::Level;

/// Names of a record's own parts besides time and level, in the order of the layouts.
pub const OWN_PARTS: [&str; 7] = ["app", "pid", "thread", "module", "file", "line", "message"];

/// Names of fields that a reader gives to parts of a line that has no names, such as that of an access log.
///
/// They do not stand in the line, so that nobody may search them there.
///
/// ```
/// assert_eq!(logdrive_query::GivenName::Status.text(), "status");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenName {
    /// Program that made a request.
    Agent,
    /// Bytes of a response.
    Bytes,
    /// Address of a client.
    Client,
    /// Number of a connection.
    Connection,
    /// Host that wrote the line.
    Host,
    /// Method of a request.
    Method,
    /// Kind of a message, as syslog has it.
    Msgid,
    /// Path of a request, with its query.
    Path,
    /// Protocol of a request.
    Protocol,
    /// Page that led to a request.
    Referrer,
    /// Role of a process.
    Role,
    /// Status of a response.
    Status,
    /// Standard output or standard error.
    Stream,
    /// Name of a user.
    User,
    /// Namespace of a pod.
    Namespace,
    /// Pod that a container belongs to.
    Pod,
    /// Name of a container.
    Container,
    /// End of a line behind all parts that have a meaning.
    Rest,
}

impl GivenName {
    /// All of them, in their order.
    pub const ALL: [Self; 18] = [
        Self::Agent,
        Self::Bytes,
        Self::Client,
        Self::Connection,
        Self::Host,
        Self::Method,
        Self::Msgid,
        Self::Path,
        Self::Protocol,
        Self::Referrer,
        Self::Role,
        Self::Status,
        Self::Stream,
        Self::User,
        Self::Namespace,
        Self::Pod,
        Self::Container,
        Self::Rest,
    ];

    /// Returns the name of the field.
    pub fn text(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Bytes => "bytes",
            Self::Client => "client",
            Self::Connection => "connection",
            Self::Host => "host",
            Self::Method => "method",
            Self::Msgid => "msgid",
            Self::Path => "path",
            Self::Protocol => "protocol",
            Self::Referrer => "referrer",
            Self::Role => "role",
            Self::Status => "status",
            Self::Stream => "stream",
            Self::User => "user",
            Self::Namespace => "namespace",
            Self::Pod => "pod",
            Self::Container => "container",
            Self::Rest => "rest",
        }
    }

    /// Returns whether a reader may give a field this name.
    pub(crate) fn is_one(name: &str) -> bool {
        Self::ALL.iter().any(|given| given.text() == name)
    }
}

/// Name of the time.
pub const TIME: &str = "_time";

/// Name of the level.
pub const LEVEL: &str = "level";

/// A record, whatever it is read from: a line, a row of a segment, a ring of a live process, or a pipe.
///
/// A field may have several values, as where a span has one of the same name; the record's own comes first. Values are
/// text without escapes, and may be no UTF-8. The methods take `&mut self` so that a record may be taken apart when it
/// is first asked.
pub trait Record {
    /// Time, in nanoseconds since 1970; `None` for what has none.
    fn unix_ns(&mut self) -> Option<u64>;

    /// Level, if there is one.
    fn level(&mut self) -> Option<Level>;

    /// Gives the values of the fields of this name, and of the own part of this name ([`OWN_PARTS`]; `msg` and `_msg`
    /// are the message, `target` is the module).
    fn values(&mut self, field: &str, each: &mut dyn FnMut(&[u8]));

    /// Gives names and values of all fields, without the own parts.
    fn each_field(&mut self, each: &mut dyn FnMut(&[u8], &[u8]));

    /// Returns the record as it stands in its log, with the end of its last line; `None` for one that a pipe made.
    fn line(&mut self) -> Option<&[u8]> {
        None
    }

    /// Copies the record: its time, level, own parts and fields in this order, each with its first value.
    fn row(&mut self) -> Row {
        let mut row = Row::default();
        let mut value = Vec::new();
        for name in [TIME, LEVEL].into_iter().chain(OWN_PARTS) {
            if first_value(self, name, &mut value) {
                row.push(name, &value);
            }
        }
        self.each_field(&mut |name, value| {
            let is_known = row.cells.iter().any(|(known, _)| **known == *name);
            if !is_known {
                row.push(name, value);
            }
        });
        row.line = self.line().map(Into::into);
        row
    }
}

/// Writes a time as the layouts do: `2026-11-21T12:34:56.123456789Z`.
pub(crate) fn time_text(unix_ns: u64) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(unix_ns)) {
        Ok(time) => format!("{time:.9}"),
        Err(_) => unix_ns.to_string(),
    }
}

/// Gives the first value of a field, the time and the level included. `false`: there is none.
pub(crate) fn first_value(record: &mut (impl Record + ?Sized), field: &str, out: &mut Vec<u8>) -> bool {
    out.clear();
    let mut is_found = false;
    match field {
        TIME => {
            let time = record.unix_ns();
            time.iter()
                .for_each(|time| out.extend_from_slice(time_text(*time).as_bytes()));
            return time.is_some();
        }
        LEVEL => {
            if let Some(level) = record.level() {
                out.extend_from_slice(level.name().as_bytes());
                return true;
            }
        }
        _ => {}
    }
    record.values(field, &mut |value| {
        if !is_found {
            is_found = true;
            out.extend_from_slice(value);
        }
    });
    is_found
}

/// Name and value of a column.
pub type Cell = (Box<[u8]>, Box<[u8]>);

/// A record in memory: what pipes make and keep.
///
/// ```
/// use logdrive_query::{Record, Row};
/// let mut row = Row::default();
/// row.push("user", "ann");
/// let mut found = Vec::new();
/// row.values("user", &mut |value| found.extend_from_slice(value));
/// assert_eq!(found, b"ann");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// Names and values, in the order of the columns.
    pub cells: Vec<Cell>,
    /// The record as it stood in its log, where the row is a whole record.
    pub line: Option<Box<[u8]>>,
}

impl Row {
    /// Adds a column.
    pub fn push(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.cells.push((name.as_ref().into(), value.as_ref().into()));
    }

    /// Sets the value of a column, which is added where it is missing.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        match self
            .cells
            .iter_mut()
            .find(|(known, _)| **known == *name.as_bytes())
        {
            Some((_, place)) => *place = value.into(),
            None => self.push(name, value),
        }
    }

    /// Bytes that it takes, about.
    pub(crate) fn size(&self) -> usize {
        let cells = self
            .cells
            .iter()
            .map(|(name, value)| name.len() + value.len() + 64);
        cells.sum::<usize>() + self.line.as_ref().map_or(0, |line| line.len()) + 64
    }

    fn cell(&self, name: &str) -> Option<&[u8]> {
        let found = self.cells.iter().find(|(known, _)| **known == *name.as_bytes());
        found.map(|(_, value)| &**value)
    }
}

/// Other names of own parts.
pub(crate) fn own_name(field: &str) -> &str {
    match field {
        "msg" | "_msg" => "message",
        "target" => "module",
        other => other,
    }
}

impl Record for Row {
    fn unix_ns(&mut self) -> Option<u64> {
        let text = std::str::from_utf8(self.cell(TIME)?).ok()?;
        let time: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(time.as_nanosecond()).ok()
    }

    fn level(&mut self) -> Option<Level> {
        std::str::from_utf8(self.cell(LEVEL)?).ok()?.parse().ok()
    }

    fn values(&mut self, field: &str, each: &mut dyn FnMut(&[u8])) {
        let name = own_name(field);
        for (known, value) in &self.cells {
            if **known == *field.as_bytes() || **known == *name.as_bytes() {
                each(value);
            }
        }
    }

    fn each_field(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) {
        for (name, value) in &self.cells {
            let is_own = OWN_PARTS
                .iter()
                .chain(&[TIME, LEVEL])
                .any(|own| own.as_bytes() == &**name);
            if !is_own {
                each(name, value);
            }
        }
    }

    fn line(&mut self) -> Option<&[u8]> {
        self.line.as_deref()
    }

    fn row(&mut self) -> Row {
        self.clone()
    }
}
