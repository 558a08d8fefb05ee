//! Rows: records in a buffer, in the order of the log, with the callsites and threads that they name.
//!
//! A buffer of rows is complete in itself: a callsite or thread stands in it before the first record that names it.
//! A row is `u32 length | u8 kind | u24 number | ...`; `spec/segment.md` draws them.

use crate::bytes::{are_equal, copy_words};
use crate::error::{StoreError, limit};
use crate::limits::{CALLSITES_MAX, NAME_BYTES_MAX, RECENT_THREADS, ROW_BYTES_MAX, THREADS_MAX};
use logdrive_wire::{Callsite, Cursor, WireError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const RECORD: u8 = 0;
pub(crate) const CALLSITE: u8 = 1;
pub(crate) const THREAD: u8 = 2;
pub(crate) const LINE: u8 = 3;
/// Bytes of a record's row before its payload.
pub(crate) const RECORD_HEAD_BYTES: usize = 20;
/// Bytes before what a row of a callsite or thread says.
pub(crate) const DEFINITION_HEAD_BYTES: usize = 8;
/// In place of a level: the line has none.
pub(crate) const NO_LEVEL: u8 = 0xff;

/// Process that a callsite belongs to, where several log into one segment.
///
/// ```
/// let process = logdrive_store::RowProcess { app: "shop".into(), pid: 417, host: "web-1".into() };
/// assert_eq!(process.pid, 417);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowProcess {
    /// Name of the application.
    pub app: String,
    /// Its process id.
    pub pid: u32,
    /// Host that it runs on.
    pub host: String,
}

/// Thread of a record.
///
/// ```
/// let thread = logdrive_store::RowThread { id: 1, name: "main" };
/// assert_eq!(thread.name, "main");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowThread<'a> {
    /// Id of the thread, as the system counts it.
    pub id: u64,
    /// Its name; may be empty.
    pub name: &'a str,
}

/// A callsite as rows name it. Made once for each callsite and [`RowWriter`].
#[derive(Debug)]
pub struct RowCallsite {
    pub(crate) definition: Box<[u8]>,
    /// Serial number of its latest definition, and in the low bits its number in the buffer.
    defined: AtomicU64,
}

impl RowCallsite {
    /// A callsite, of another process where one is given.
    ///
    /// # Errors
    /// When a name is longer than its limit.
    pub fn new(callsite: &Callsite, process: Option<&RowProcess>) -> Result<Self, WireError> {
        let mut definition = Vec::new();
        match process {
            None => definition.push(0),
            Some(process) => {
                definition.push(1);
                definition.extend_from_slice(&process.pid.to_le_bytes());
                for name in [&process.app, &process.host] {
                    let length = name.len().min(NAME_BYTES_MAX);
                    let name = name.get(..length).unwrap_or("");
                    definition.extend_from_slice(&(name.len() as u16).to_le_bytes());
                    definition.extend_from_slice(name.as_bytes());
                }
            }
        }
        definition.extend_from_slice(&callsite.encode()?);
        Ok(Self::of_definition(&definition))
    }

    /// The callsite of a definition that was read.
    pub(crate) fn of_definition(definition: &[u8]) -> Self {
        Self {
            definition: definition.into(),
            defined: AtomicU64::new(0),
        }
    }
}

/// Reads a callsite's definition.
pub(crate) fn read_definition(bytes: &[u8]) -> Result<(Option<RowProcess>, Callsite), WireError> {
    let mut cursor = Cursor::new(bytes);
    let process = match cursor.u8()? {
        0 => None,
        1 => Some(RowProcess {
            pid: cursor.u32()?,
            app: cursor.short_str("application")?.to_owned(),
            host: cursor.short_str("host")?.to_owned(),
        }),
        found => {
            return Err(WireError::Unknown {
                what: "flags of a callsite's definition",
                found: u64::from(found),
            });
        }
    };
    let callsite = Callsite::decode(cursor.take(cursor.left())?)?;
    Ok((process, callsite))
}

/// Serial numbers of definitions: none is used twice in a process, so that one that was taken back is never found.
static SERIALS: AtomicU64 = AtomicU64::new(1);
const NUMBER_BITS: u32 = 20;

/// Writes rows into buffers. It may be told to write a row again at an earlier place: what stood there counts no more.
///
/// ```
/// use logdrive_store::{RowCallsite, Rows, RowThread, RowWriter};
/// let site = RowCallsite::new(&logdrive_wire::Callsite::default(), None)?;
/// let mut buffer = [0; 256];
/// let thread = RowThread { id: 1, name: "main" };
/// let end = RowWriter::default().record(&mut buffer, 0, &site, thread, 99, b"").expect("room");
/// let mut rows = Rows::new(&buffer[..end]);
/// assert_eq!(rows.next_row().expect("a row").expect("one").unix_ns, 99);
/// # Ok::<(), logdrive_wire::WireError>(())
/// ```
#[derive(Debug)]
pub struct RowWriter {
    /// Definition of each callsite of the buffer: its serial number with its own, and its place.
    callsites: Vec<(u64, usize)>,
    threads: Vec<DefinedThread>,
    thread_numbers: HashMap<u64, usize>,
    last_thread: usize,
    /// Numbers of threads by the low bits of their ids: some may be gone.
    recent_threads: [u32; RECENT_THREADS],
    /// Bytes of the buffer before the part that is written to.
    before: usize,
}

impl Default for RowWriter {
    fn default() -> Self {
        Self {
            callsites: Vec::new(),
            threads: Vec::new(),
            thread_numbers: HashMap::new(),
            last_thread: 0,
            recent_threads: [u32::MAX; RECENT_THREADS],
            before: 0,
        }
    }
}

#[derive(Debug)]
struct DefinedThread {
    id: u64,
    name: String,
    at: usize,
}

impl RowWriter {
    /// Writes a record at a place of a buffer, behind the definitions that it needs. At place 0 a new buffer begins.
    /// Returns its end; `None` where it does not fit, and then nothing counts.
    #[inline]
    pub fn record(
        &mut self,
        out: &mut [u8],
        at: usize,
        callsite: &RowCallsite,
        thread: RowThread<'_>,
        unix_ns: u64,
        payload: &[u8],
    ) -> Option<usize> {
        self.take_back(at);
        let (at, thread) = self.thread(out, at, thread)?;
        let (at, number) = self.callsite(out, at, callsite)?;
        put_record(out, at, (RECORD, number), thread, unix_ns, payload)
    }

    /// Writes a line of text that has no callsite; otherwise as [`RowWriter::record`].
    pub fn line(
        &mut self,
        out: &mut [u8],
        at: usize,
        level: Option<logdrive_wire::Level>,
        unix_ns: u64,
        line: &[u8],
    ) -> Option<usize> {
        self.take_back(at);
        let level = level.map_or(NO_LEVEL, logdrive_wire::Level::code);
        put_record(out, at, (LINE, u32::from(level)), u32::MAX, unix_ns, line)
    }

    /// Returns the numbers of a callsite and a thread where both are defined in the buffer before this place.
    pub fn numbers(
        &mut self,
        at: usize,
        callsite: &RowCallsite,
        thread: RowThread<'_>,
    ) -> Option<RowNumbers> {
        self.take_back(at);
        let callsite = self.defined(callsite)?;
        let is_last = self.is_thread(self.last_thread, thread);
        is_last.then_some(RowNumbers {
            callsite,
            thread: self.last_thread as u32,
        })
    }

    /// Says that what is written to next is the rest of a buffer, behind so many bytes.
    #[inline]
    pub fn go_on_behind(&mut self, before: usize) {
        self.before = before;
    }

    /// Forgets definitions at this place and behind it.
    #[inline]
    fn take_back(&mut self, at: usize) {
        let at = self.before + at;
        while self.callsites.last().is_some_and(|(_, place)| *place >= at) {
            self.callsites.pop();
        }
        while self.threads.last().is_some_and(|thread| thread.at >= at) {
            if let Some(gone) = self.threads.pop() {
                self.thread_numbers.remove(&gone.id);
            }
        }
    }

    /// Returns true if a thread of this number is defined, and is this one.
    #[inline]
    fn is_thread(&self, number: usize, thread: RowThread<'_>) -> bool {
        self.threads.get(number).is_some_and(|known| {
            known.id == thread.id && are_equal(known.name.as_bytes(), thread.name.as_bytes())
        })
    }

    #[inline]
    fn thread(&mut self, out: &mut [u8], at: usize, thread: RowThread<'_>) -> Option<(usize, u32)> {
        if self.is_thread(self.last_thread, thread) {
            return Some((at, self.last_thread as u32));
        }
        let slot = thread.id as usize % RECENT_THREADS;
        let mut number = self.recent_threads[slot] as usize;
        if !self.is_thread(number, thread) {
            number = self.thread_numbers.get(&thread.id).copied().unwrap_or(usize::MAX);
        }
        if self.is_thread(number, thread) {
            self.recent_threads[slot] = number as u32;
            self.last_thread = number;
            return Some((at, number as u32));
        }
        self.define_thread(out, at, thread)
    }

    #[cold]
    fn define_thread(&mut self, out: &mut [u8], at: usize, thread: RowThread<'_>) -> Option<(usize, u32)> {
        let number = self.threads.len();
        let name = thread.name.as_bytes();
        let end = put_head(
            out,
            at,
            DEFINITION_HEAD_BYTES + 8 + name.len(),
            (THREAD, number as u32),
        )?;
        out.get_mut(at + 8..at + 16)?
            .copy_from_slice(&thread.id.to_le_bytes());
        out.get_mut(at + 16..end)?.copy_from_slice(name);
        self.threads.push(DefinedThread {
            id: thread.id,
            name: thread.name.to_owned(),
            at: self.before + at,
        });
        self.thread_numbers.insert(thread.id, number);
        self.last_thread = number;
        Some((end, number as u32))
    }

    #[inline]
    fn callsite(&mut self, out: &mut [u8], at: usize, callsite: &RowCallsite) -> Option<(usize, u32)> {
        match self.defined(callsite) {
            Some(number) => Some((at, number)),
            None => self.define(out, at, callsite),
        }
    }

    /// Returns the number of a callsite that is defined in the buffer.
    #[inline]
    fn defined(&self, callsite: &RowCallsite) -> Option<u32> {
        // Relaxed: the value is used by the thread of the writer alone.
        let defined = callsite.defined.load(Ordering::Relaxed);
        let number = (defined & ((1 << NUMBER_BITS) - 1)) as usize;
        let (serial, _) = self.callsites.get(number)?;
        (*serial == defined).then_some(number as u32)
    }

    #[cold]
    fn define(&mut self, out: &mut [u8], at: usize, callsite: &RowCallsite) -> Option<(usize, u32)> {
        let number = self.callsites.len();
        let length = DEFINITION_HEAD_BYTES + callsite.definition.len();
        let end = put_head(out, at, length, (CALLSITE, number as u32))?;
        out.get_mut(at + DEFINITION_HEAD_BYTES..end)?
            .copy_from_slice(&callsite.definition);
        // Relaxed: only uniqueness matters.
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed) << NUMBER_BITS | number as u64;
        // Relaxed: as above.
        callsite.defined.store(serial, Ordering::Relaxed);
        self.callsites.push((serial, self.before + at));
        Some((end, number as u32))
    }
}

/// Numbers of a callsite and a thread in a buffer, for records that have both, one behind the other. They hold until the
/// writer takes definitions back or begins another buffer.
///
/// ```
/// use logdrive_store::{RowCallsite, RowThread, RowWriter};
/// let site = RowCallsite::new(&logdrive_wire::Callsite::default(), None)?;
/// let (mut writer, mut buffer, thread) = (RowWriter::default(), [0; 256], RowThread { id: 1, name: "main" });
/// let at = writer.record(&mut buffer, 0, &site, thread, 99, b"").expect("room");
/// let numbers = writer.numbers(at, &site, thread).expect("both are defined");
/// assert_eq!(numbers.record(&mut buffer, at, 100, b""), Some(at + 20));
/// # Ok::<(), logdrive_wire::WireError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RowNumbers {
    callsite: u32,
    thread: u32,
}

impl RowNumbers {
    /// Writes a record at a place; returns its end, or `None` where it does not fit.
    #[inline(always)]
    pub fn record(self, out: &mut [u8], at: usize, unix_ns: u64, payload: &[u8]) -> Option<usize> {
        put_record(out, at, (RECORD, self.callsite), self.thread, unix_ns, payload)
    }
}

#[inline]
fn put_head(out: &mut [u8], at: usize, length: usize, kind: (u8, u32)) -> Option<usize> {
    let end = at + length;
    if length > ROW_BYTES_MAX {
        return None;
    }
    let head = out.get_mut(at..end)?.first_chunk_mut::<8>()?;
    let word = u64::from(kind.1) << 40 | u64::from(kind.0) << 32 | length as u64;
    *head = word.to_le_bytes();
    Some(end)
}

#[inline]
pub(crate) fn put_record(
    out: &mut [u8],
    at: usize,
    kind: (u8, u32),
    thread: u32,
    unix_ns: u64,
    payload: &[u8],
) -> Option<usize> {
    let end = put_record_head(
        out,
        at,
        RECORD_HEAD_BYTES + payload.len(),
        kind,
        (thread, unix_ns),
    )?;
    copy_words(out.get_mut(at + RECORD_HEAD_BYTES..end)?, payload);
    Some(end)
}

/// Writes the head of a row of so many bytes; returns its end, or `None` where it does not fit.
#[inline]
pub(crate) fn put_record_head(
    out: &mut [u8],
    at: usize,
    length: usize,
    kind: (u8, u32),
    (thread, unix_ns): (u32, u64),
) -> Option<usize> {
    let end = put_head(out, at, length, kind)?;
    out.get_mut(at + 8..at + 12)?
        .copy_from_slice(&thread.to_le_bytes());
    out.get_mut(at + 12..at + 20)?
        .copy_from_slice(&unix_ns.to_le_bytes());
    Some(end)
}

/// Writes a definition of a buffer that is made of a block.
pub(crate) fn put_definition(out: &mut Vec<u8>, kind: u8, number: usize, parts: [&[u8]; 2]) {
    let at = out.len();
    let length = DEFINITION_HEAD_BYTES + parts[0].len() + parts[1].len();
    out.resize(at + DEFINITION_HEAD_BYTES, 0);
    let word = (number as u64) << 40 | u64::from(kind) << 32 | length as u64;
    out[at..].copy_from_slice(&word.to_le_bytes());
    out.extend_from_slice(parts[0]);
    out.extend_from_slice(parts[1]);
}

/// A record, or a line without callsite.
///
/// ```
/// assert!(logdrive_store::Rows::new(&[]).next_row().expect("no error").is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// Number of its callsite in the buffer; `None` for a line of text.
    pub callsite: Option<u32>,
    /// Level of a line of text; a record has that of its callsite.
    pub line_level: Option<logdrive_wire::Level>,
    /// Number of its thread in the buffer.
    pub thread: Option<u32>,
    /// Time in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Values of a record, as behind the header of its record; or a line without its line break.
    pub payload: &'a [u8],
}

/// Reason why a buffer of rows cannot be read.
pub type RowError = StoreError;

/// Reads the rows of a buffer.
#[derive(Debug)]
pub struct Rows<'a> {
    rest: &'a [u8],
    callsites: Vec<&'a [u8]>,
    threads: Vec<(u64, &'a [u8])>,
}

impl<'a> Rows<'a> {
    /// Starts at the first row.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            callsites: Vec::new(),
            threads: Vec::new(),
        }
    }

    /// The same rows, read from an earlier rest on.
    pub(crate) fn at(&self, rest: &'a [u8]) -> Self {
        Self {
            rest,
            callsites: self.callsites.clone(),
            threads: self.threads.clone(),
        }
    }

    /// Bytes that were not read so far.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Number of callsites so far.
    pub fn callsite_count(&self) -> usize {
        self.callsites.len()
    }

    /// Reads a callsite by its number; `None` where it is not defined so far, or cannot be read.
    pub fn callsite(&self, number: usize) -> Option<Callsite> {
        let (_, callsite) = read_definition(self.callsites.get(number)?).ok()?;
        Some(callsite)
    }

    /// Definitions of the callsites so far.
    pub(crate) fn definitions(&self) -> &[&'a [u8]] {
        &self.callsites
    }

    pub(crate) fn threads(&self) -> &[(u64, &'a [u8])] {
        &self.threads
    }

    /// Reads the next record or line.
    ///
    /// # Errors
    /// When a row is cut, or names something that does not stand before it.
    #[inline]
    pub fn next_row(&mut self) -> Result<Option<Row<'a>>, StoreError> {
        match self.next_record() {
            Some(row) => Ok(Some(row)),
            None => self.next_other(),
        }
    }

    /// Reads the next row if it is a sound record.
    #[inline]
    pub(crate) fn next_record(&mut self) -> Option<Row<'a>> {
        let [w0, w1, w2, w3, w4, w5, w6, w7, t0, t1, t2, t3, time @ ..] =
            *self.rest.first_chunk::<RECORD_HEAD_BYTES>()?;
        let word = u64::from_le_bytes([w0, w1, w2, w3, w4, w5, w6, w7]);
        let (length, kind, number) = (word as u32 as usize, (word >> 32) as u8, (word >> 40) as u32);
        let thread = u32::from_le_bytes([t0, t1, t2, t3]);
        let is_known = (number as usize) < self.callsites.len() && (thread as usize) < self.threads.len();
        if kind != RECORD || length > ROW_BYTES_MAX || !is_known {
            return None;
        }
        let (row, rest) = self.rest.split_at_checked(length)?;
        let payload = row.get(RECORD_HEAD_BYTES..)?;
        self.rest = rest;
        Some(Row {
            callsite: Some(number),
            line_level: None,
            thread: Some(thread),
            unix_ns: u64::from_le_bytes(time),
            payload,
        })
    }

    /// Reads the next row, whatever it is.
    #[inline(never)]
    fn next_other(&mut self) -> Result<Option<Row<'a>>, StoreError> {
        loop {
            let Some(head) = self.rest.first_chunk::<8>() else {
                return match self.rest.is_empty() {
                    true => Ok(None),
                    false => Err(StoreError::Truncated { what: "rows" }),
                };
            };
            let word = u64::from_le_bytes(*head);
            let (length, kind, number) = (word as u32 as usize, (word >> 32) as u8, (word >> 40) as u32);
            limit("length of a row", length, ROW_BYTES_MAX)?;
            let (row, rest) = self
                .rest
                .split_at_checked(length)
                .filter(|_| length >= DEFINITION_HEAD_BYTES)
                .ok_or(StoreError::Truncated { what: "rows" })?;
            self.rest = rest;
            match kind {
                RECORD | LINE => return self.record(kind, number, row).map(Some),
                _ => self.definition(kind, number, row)?,
            }
        }
    }

    fn record(&self, kind: u8, number: u32, row: &'a [u8]) -> Result<Row<'a>, StoreError> {
        let cut = || StoreError::Truncated { what: "rows" };
        let (head, payload) = row.split_first_chunk::<RECORD_HEAD_BYTES>().ok_or_else(cut)?;
        let [_, _, _, _, _, _, _, _, t0, t1, t2, t3, time @ ..] = *head;
        let thread = u32::from_le_bytes([t0, t1, t2, t3]);
        let row = Row {
            callsite: (kind == RECORD).then_some(number),
            line_level: (kind == LINE)
                .then(|| logdrive_wire::Level::from_code(number as u8))
                .flatten(),
            thread: (thread != u32::MAX).then_some(thread),
            unix_ns: u64::from_le_bytes(time),
            payload,
        };
        if kind == RECORD && number as usize >= self.callsites.len() {
            return Err(StoreError::Contradiction {
                what: "callsite of a row",
            });
        }
        if row
            .thread
            .is_some_and(|thread| thread as usize >= self.threads.len())
        {
            return Err(StoreError::Contradiction {
                what: "thread of a row",
            });
        }
        Ok(row)
    }

    fn definition(&mut self, kind: u8, number: u32, row: &'a [u8]) -> Result<(), StoreError> {
        let rest = row.get(DEFINITION_HEAD_BYTES..).unwrap_or(&[]);
        let known = match kind {
            CALLSITE => {
                limit("callsites", self.callsites.len() + 1, CALLSITES_MAX)?;
                self.callsites.push(rest);
                self.callsites.len()
            }
            THREAD => {
                limit("threads", self.threads.len() + 1, THREADS_MAX)?;
                let (id, name) = rest
                    .split_first_chunk()
                    .ok_or(StoreError::Truncated { what: "rows" })?;
                self.threads.push((u64::from_le_bytes(*id), name));
                self.threads.len()
            }
            found => {
                return Err(StoreError::Unknown {
                    what: "kind of row",
                    found: u64::from(found),
                });
            }
        };
        match number as usize + 1 == known {
            true => Ok(()),
            false => Err(StoreError::Contradiction {
                what: "number of a row",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_was_taken_back_is_written_again() {
        let site = RowCallsite::new(&Callsite::default(), None).expect("a callsite");
        let other = RowCallsite::new(
            &Callsite {
                line: 7,
                ..Callsite::default()
            },
            None,
        )
        .expect("a callsite");
        let (mut writer, mut out) = (RowWriter::default(), [0; 4096]);
        let main = RowThread { id: 1, name: "main" };
        let start = writer.record(&mut out, 0, &site, main, 1, b"a").expect("room");
        // Staged twice at the same place, since another sink was full, with another record between them.
        writer
            .record(&mut out, start, &other, RowThread { id: 2, name: "b" }, 2, b"b")
            .expect("room");
        let end = writer
            .record(&mut out, start, &site, main, 3, b"c")
            .expect("room");
        let end = writer
            .record(&mut out, end, &other, RowThread { id: 2, name: "b" }, 2, b"b")
            .expect("room");
        let mut rows = Rows::new(&out[..end]);
        let mut read = Vec::new();
        while let Some(row) = rows.next_row().expect("rows") {
            read.push((row.callsite, row.thread, row.payload.to_vec()));
        }
        let expected = [(0, 0, b"a"), (0, 0, b"c"), (1, 1, b"b")];
        assert_eq!(
            read,
            expected.map(|(site, thread, text)| (Some(site), Some(thread), text.to_vec()))
        );
        // A new buffer has definitions of its own.
        let end = writer.record(&mut out, 0, &other, main, 9, b"d").expect("room");
        let mut rows = Rows::new(&out[..end]);
        assert_eq!(rows.next_row().expect("rows").expect("one").callsite, Some(0));
    }
}
