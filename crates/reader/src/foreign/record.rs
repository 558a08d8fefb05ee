//! A record of another program as typed values, and its bytes as a dynamic record.

use logdrive_store::{RowCallsite, RowProcess};
use logdrive_wire::limits::{FIELDS_MAX, NAME_BYTES_MAX, RECORD_BYTES_MAX};
use logdrive_wire::value::INLINE_KEY;
use logdrive_wire::{Callsite, Kind, Level, WireError};
use std::collections::HashMap;

/// Bytes of the values of a record: what is left of the largest one is for its header.
pub const PAYLOAD_BYTES_MAX: usize = RECORD_BYTES_MAX - 64;

/// Fields of a record that are encoded: a record may have 255 values, among them the message and what a drain adds.
const ENCODED_FIELDS_MAX: usize = FIELDS_MAX - 5;

/// Callsites that are kept, one for each level and target; those beyond have no target.
pub const FOREIGN_CALLSITES_MAX: usize = 1024;

/// Value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum ForeignValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number below zero.
    I64(i64),
    /// A whole number.
    U64(u64),
    /// A number with a fraction or an exponent.
    F64(f64),
    /// Text, or what is nested, as its JSON; any bytes.
    Text(Vec<u8>),
    /// Nothing, such as `null`.
    None,
}

/// A record of another program.
///
/// ```
/// use logdrive_reader::foreign::{ForeignParser, ForeignValue};
/// let record = ForeignParser::default().read(b"time=2026-11-21T12:34:56Z level=warn msg=slow took_ms=250");
/// assert_eq!((record.message.as_slice(), record.level), (&b"slow"[..], Some(logdrive_wire::Level::Warn)));
/// assert_eq!(record.fields, [("took_ms".to_owned(), ForeignValue::U64(250))]);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForeignRecord {
    /// Time in nanoseconds since 1970; `None` where the line says none.
    pub unix_ns: Option<u64>,
    /// Level; `None` where the line says none.
    pub level: Option<Level>,
    /// Name or number of the thread; may be empty.
    pub thread: String,
    /// Logger, module or target; may be empty.
    pub target: String,
    /// Message with all lines of the record.
    pub message: Vec<u8>,
    /// Fields in the order in which they stand, process and place among them.
    pub fields: Vec<(String, ForeignValue)>,
}

impl ForeignRecord {
    /// Adds a field with a text.
    pub fn push_text(&mut self, key: &str, value: &str) {
        let value = ForeignValue::Text(value.as_bytes().to_vec());
        self.fields.push((key.to_owned(), value));
    }

    /// Appends the message and the fields as the values of a dynamic record, at most [`PAYLOAD_BYTES_MAX`] bytes of them.
    /// Returns whether all of them fit; else the end of the message, or fields, are left out.
    ///
    /// ```
    /// use logdrive_reader::foreign::ForeignRecord;
    /// use logdrive_wire::{Value, value::DynamicFields};
    /// let record = ForeignRecord { message: b"slow".to_vec(), ..ForeignRecord::default() };
    /// let mut payload = Vec::new();
    /// assert!(record.encode(&mut payload));
    /// let first = DynamicFields::new(&payload).next_value()?.expect("a message");
    /// assert_eq!(first.value, Value::Message(b"slow"));
    /// # Ok::<(), logdrive_wire::WireError>(())
    /// ```
    pub fn encode(&self, payload: &mut Vec<u8>) -> bool {
        let start = payload.len();
        let most = start + PAYLOAD_BYTES_MAX;
        let message = front(&self.message, PAYLOAD_BYTES_MAX - MESSAGE_HEAD_BYTES);
        if !message.is_empty() {
            // A message stands for itself: the index means nothing.
            payload.extend_from_slice(&[Kind::Message.code(), 0]);
            payload.extend_from_slice(&(message.len() as u32).to_le_bytes());
            payload.extend_from_slice(message);
        }
        let mut fits = message.len() == self.message.len() && self.fields.len() <= ENCODED_FIELDS_MAX;
        for (key, value) in self.fields.iter().take(ENCODED_FIELDS_MAX) {
            let before = payload.len();
            put_field(payload, key, value);
            if payload.len() > most || key.len() > NAME_BYTES_MAX {
                payload.truncate(before);
                fits = false;
            }
        }
        fits
    }
}

/// Bytes of a message before its text: kind, index, length.
const MESSAGE_HEAD_BYTES: usize = 6;

/// The front of a text that ends between two characters.
fn front(text: &[u8], most: usize) -> &[u8] {
    if text.len() <= most {
        return text;
    }
    let back = (0..4).find(|back| text.get(most - back).is_some_and(|byte| byte & 0xc0 != 0x80));
    text.get(..most - back.unwrap_or(0)).unwrap_or(text)
}

/// Appends a field with its key.
fn put_field(payload: &mut Vec<u8>, key: &str, value: &ForeignValue) {
    let key = std::str::from_utf8(front(key.as_bytes(), NAME_BYTES_MAX)).unwrap_or("");
    let mut put = |kind: Kind, bytes: &[&[u8]]| {
        payload.extend_from_slice(&[kind.code(), INLINE_KEY]);
        payload.extend_from_slice(&(key.len() as u16).to_le_bytes());
        payload.extend_from_slice(key.as_bytes());
        bytes.iter().for_each(|bytes| payload.extend_from_slice(bytes));
    };
    match value {
        ForeignValue::Bool(value) => put(Kind::Bool, &[&[u8::from(*value)]]),
        ForeignValue::I64(value) => put(Kind::I64, &[&value.to_le_bytes()]),
        ForeignValue::U64(value) => put(Kind::U64, &[&value.to_le_bytes()]),
        ForeignValue::F64(value) => put(Kind::F64, &[&value.to_le_bytes()]),
        ForeignValue::Text(text) => put(Kind::Str, &[&(text.len() as u32).to_le_bytes(), text]),
        ForeignValue::None => put(Kind::None, &[]),
    }
}

/// Callsites of records of other programs: one for each level and target.
///
/// ```
/// use logdrive_reader::foreign::{ForeignCallsites, ForeignRecord};
/// use logdrive_store::{RowThread, RowWriter, Rows};
/// let record = ForeignRecord { unix_ns: Some(99), ..ForeignRecord::default() };
/// let mut payload = Vec::new();
/// assert!(record.encode(&mut payload));
/// let mut callsites = ForeignCallsites::default();
/// let mut buffer = [0; 256];
/// let thread = RowThread { id: 0, name: &record.thread };
/// let callsite = callsites.of(&record)?;
/// let end = RowWriter::default().record(&mut buffer, 0, callsite, thread, 99, &payload).expect("room");
/// assert_eq!(Rows::new(&buffer[..end]).next_row().expect("a row").expect("one").unix_ns, 99);
/// # Ok::<(), logdrive_wire::WireError>(())
/// ```
#[derive(Debug, Default)]
pub struct ForeignCallsites {
    process: Option<RowProcess>,
    known: HashMap<(Level, String), RowCallsite>,
}

impl ForeignCallsites {
    /// Callsites of a process, where its name is known.
    pub fn of_process(process: RowProcess) -> Self {
        Self {
            process: Some(process),
            known: HashMap::new(),
        }
    }

    /// Returns the callsite of a record; a record without a level has info.
    ///
    /// # Errors
    /// When the name of the process is too long.
    pub fn of(&mut self, record: &ForeignRecord) -> Result<&RowCallsite, WireError> {
        let level = record.level.unwrap_or(Level::Info);
        let mut key = (level, record.target.clone());
        let is_full = self.known.len() >= FOREIGN_CALLSITES_MAX && !self.known.contains_key(&key);
        if is_full || key.1.len() > NAME_BYTES_MAX {
            key.1.clear();
        }
        if !self.known.contains_key(&key) {
            let callsite = dynamic_callsite(key.0, &key.1);
            self.known
                .insert(key.clone(), RowCallsite::new(&callsite, self.process.as_ref())?);
        }
        self.known.get(&key).ok_or(WireError::Unknown {
            what: "callsite",
            found: 0,
        })
    }
}

/// The callsite of records of one level and target, whose fields come with each of them.
pub fn dynamic_callsite(level: Level, target: &str) -> Callsite {
    Callsite {
        level,
        target: target.to_owned(),
        dynamic: true,
        ..Callsite::default()
    }
}
