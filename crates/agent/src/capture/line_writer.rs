//! Writes lines into the ring of the calling thread, as records of the callsite of their stream, level and shape.
//!
//! A program's output has no log statements, so the callsites are made here: one for each stream, level and shape of
//! line that occurs. They stand in the session like all others, and are switched like all others.

use super::limits::PIECE_BYTES_MAX;
use super::lines::{Line, Piece};
use super::structured::StructuredLine;
use logdrive_drain::control::{SAMPLE_FIELD, switch_of};
use logdrive_reader::foreign::{JoinRule, LineJoiner, ansi, is_level_behind, last_state, level, may_be_head};
use logdrive_ring::clock::{ticks_of, unix_ns};
use logdrive_ring::control::{ControlEntry, EVERY, OFF, OFF_COUNTED, ON, PER_SECOND, settle};
use logdrive_ring::local::{self, Clock, Wrote};
use logdrive_ring::{
    CallsiteCounters, CallsiteCounts, ClockSource, DropReason, FullPolicy, RecordWriter, RingError,
    SessionWriter, thread_counts,
};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::record::{HEADER_BYTES, align_up};
use logdrive_wire::value::INLINE_KEY;
use logdrive_wire::{Callsite, Field, Kind, Level};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Options for making records of lines.
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// The level of lines that name none.
    pub level: Level,
    /// Lines below this level are left out, and counted as disabled.
    pub min_level: Level,
    /// True if lines are searched for a level, and joined.
    pub parse: bool,
    /// True if they become message and fields, where their form is known.
    pub fields: bool,
    /// True if control sequences for terminals stay in the text.
    pub keep_ansi: bool,
    /// Policy for a full ring.
    pub full: FullPolicy,
}

/// Fields of a record besides its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A line of text.
    Line,
    /// A line of JSON or logfmt: a message and fields.
    Object,
    /// A piece of a long line.
    Part,
    /// The last piece of one.
    Last,
    /// The front of a line that has not ended.
    Partial,
    /// A further piece of a line that has not ended.
    PartialPart,
}

const SHAPES: usize = 6;
const LEVELS: usize = 6;

/// Callsite 0 of every session reports dropped records.
const GAP_CALLSITE: u32 = 0;

/// Bytes of a kind and an index in front of a dynamic value, and of the length of a text.
const TAG_BYTES: usize = 2;
const LENGTH_BYTES: usize = 4;

/// Bytes at the front of a line among which a time has its first digit.
const HEAD_BYTES: usize = 24;

/// Bytes of the field of a sample in a dynamic record: kind, place, key with its length, value.
const NAMED_SAMPLE_BYTES: usize = TAG_BYTES + 2 + SAMPLE_FIELD.len() + 8;

/// The counts of the session that lines go to. A process runs one command.
static COUNTERS: RwLock<Option<&'static CallsiteCounters>> = RwLock::new(None);

fn counts_of(entry: &'static ControlEntry) -> Option<&'static CallsiteCounts> {
    let counters = *COUNTERS.read().unwrap_or_else(PoisonError::into_inner);
    counters?.of_entry(entry)
}

/// Writes the lines of one stream. Used by the thread that made it.
#[derive(Debug)]
pub struct LineWriter {
    session: Arc<SessionWriter>,
    target: &'static str,
    options: RecordOptions,
    /// The time of all lines of one read: when they came is not known better.
    time: &'static AtomicU64,
    clock: ClockSource,
    sites: [[Option<&'static ControlEntry>; SHAPES]; LEVELS],
    /// The level of the line whose pieces come.
    level: Level,
    plain: Vec<u8>,
    /// Made when the first such line comes.
    structured: Option<StructuredLine>,
    open: OpenRecord,
}

/// A record to which lines may still be joined.
#[derive(Debug)]
struct OpenRecord {
    joiner: LineJoiner,
    /// Its lines; empty when none is open.
    text: Vec<u8>,
    is_open: bool,
    level: Level,
    /// Time of its first line.
    ticks: u64,
}

impl OpenRecord {
    fn new(level: Level) -> Self {
        Self {
            joiner: LineJoiner::new(JoinRule::Output),
            text: Vec::new(),
            is_open: false,
            level,
            ticks: 0,
        }
    }
}

impl LineWriter {
    /// Gives the calling thread a ring of the session, which it keeps until it ends. The thread goes by `name` in the
    /// log, its lines by `target`.
    ///
    /// # Errors
    /// Fails when there is no room for another ring.
    pub fn attach(
        session: &Arc<SessionWriter>,
        name: &str,
        target: &'static str,
        options: RecordOptions,
    ) -> Result<Self, RingError> {
        *COUNTERS.write().unwrap_or_else(PoisonError::into_inner) = Some(session.counters());
        let clock = session.header().clock_source();
        // A few for a whole run.
        let time: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(ticks_of(clock))));
        let producer = session.acquire(name)?;
        if !local::attach(producer, options.full, Clock::Coarse(time), local::generation()) {
            return Err(RingError::Limit {
                what: "rings of this thread",
                limit: 0,
            });
        }
        Ok(Self {
            session: Arc::clone(session),
            target,
            level: options.level,
            open: OpenRecord::new(options.level),
            options,
            time,
            clock,
            sites: [[None; SHAPES]; LEVELS],
            plain: Vec::new(),
            structured: None,
        })
    }

    /// Takes the time for the lines that come from a read just made.
    pub fn begin(&mut self) {
        // Relaxed: read by this thread only.
        self.time.store(ticks_of(self.clock), Ordering::Relaxed);
    }

    /// Writes a line, or a piece of one.
    #[inline(always)]
    pub fn record(&mut self, line: Line<'_>) {
        if line.has_escape && !self.options.keep_ansi {
            self.record_stripped(line);
        } else if line.piece == Piece::Whole {
            self.record_whole(line.text, line.has_escape, line.next);
        } else {
            self.record_piece(line);
        }
    }

    /// Writes the record to which lines might still have been joined.
    pub fn flush(&mut self) {
        if !std::mem::take(&mut self.open.is_open) {
            return;
        }
        self.open.joiner.end_record();
        let text = std::mem::take(&mut self.open.text);
        // Relaxed: read by this thread only.
        let now = self.time.swap(self.open.ticks, Ordering::Relaxed);
        self.whole(self.open.level, &text);
        // Relaxed: as above.
        self.time.store(now, Ordering::Relaxed);
        self.open.text = text;
        self.open.text.clear();
    }

    /// Returns whether lines of the open record are likely to follow, as within a stack trace.
    pub fn awaits_more(&self) -> bool {
        self.open.is_open && (self.open.level.is_urgent() || self.open.joiner.is_in_trace())
    }

    fn record_stripped(&mut self, line: Line<'_>) {
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        ansi::strip(line.text, &mut plain);
        let shown = last_state(&plain);
        match line.piece {
            Piece::Whole => self.record_whole(shown, line.has_escape, line.next),
            _ => self.record_piece(Line { text: shown, ..line }),
        }
        self.plain = plain;
    }

    /// A line that is one record. Its parts come in registers: a `Line` would be put together in memory, and reading it
    /// back at once waits for that.
    #[inline(never)]
    fn record_whole(&mut self, text: &[u8], has_escape: bool, next: Option<u8>) {
        let is_pairs = self.options.fields && StructuredLine::may_be_pairs(text);
        if is_pairs && self.structured(self.options.level, |line| line.read(text)) {
            return;
        }
        let level = self.level_of(text, has_escape);
        // Without an error and an indented line behind it, it is a record as it is.
        let is_alone = matches!(next, Some(next) if next != b' ' && next != b'\t');
        let is_plain =
            is_alone && !level.is_urgent() && text.first() != Some(&b'/') && !is_level_behind(text);
        if !self.options.parse || (is_plain && !self.open.is_open) {
            return self.whole(level, text);
        }
        self.join(text, level, is_plain);
    }

    /// A line that may belong to the record before, or to which others may belong.
    fn join(&mut self, text: &[u8], level: Level, is_plain: bool) {
        let has_room = self.open.text.len() + text.len() < PIECE_BYTES_MAX;
        if self.open.is_open && self.open.joiner.continues(text) && has_room {
            self.open.text.push(b'\n');
            self.open.text.extend_from_slice(text);
            return;
        }
        self.flush();
        if is_plain {
            return self.whole(level, text);
        }
        // The first line of a record, whatever it is.
        self.open.joiner.continues(text);
        self.open.is_open = true;
        self.open.text.extend_from_slice(text);
        self.open.level = match level.is_urgent() || !self.open.joiner.is_in_trace() {
            true => level,
            false => Level::Error,
        };
        // Relaxed: stored by this thread only.
        self.open.ticks = self.time.load(Ordering::Relaxed);
    }

    #[inline]
    fn level_of(&self, text: &[u8], has_escape: bool) -> Level {
        let found = match (self.options.parse, has_escape) {
            (false, _) => None,
            (true, false) => level::recognise_plain(text),
            (true, true) => level::recognise(text),
        };
        found.unwrap_or(self.options.level)
    }

    fn record_piece(&mut self, line: Line<'_>) {
        self.flush();
        let Line { text, piece, .. } = line;
        // A line has one level, which its first piece decides.
        if let Piece::Part(1) | Piece::Partial(1) = piece {
            self.level = self.level_of(text, line.has_escape);
        }
        let level = self.level;
        match piece {
            Piece::Whole => self.record_whole(text, line.has_escape, line.next),
            Piece::Part(part) => self.text(level, Shape::Part, text, 4, |put| put.u32(part)),
            Piece::Last(part) => self.text(level, Shape::Last, text, 5, |put| {
                put.u32(part);
                put.u8(1);
            }),
            Piece::Partial(1) => self.text(level, Shape::Partial, text, 1, |put| put.u8(1)),
            Piece::Partial(part) => self.text(level, Shape::PartialPart, text, 5, |put| {
                put.u32(part);
                put.u8(1);
            }),
        }
    }

    /// A record of whole lines, whose level was found in its text.
    fn whole(&mut self, level: Level, text: &[u8]) {
        // Of what keeps its control sequences nothing is taken apart.
        let is_parsed = self.options.fields
            && may_have_head(text)
            && !(self.options.keep_ansi && memchr::memchr(ansi::ESCAPE, text).is_some());
        if !is_parsed || !self.structured(level, |line| line.read_any(text)) {
            self.text(level, Shape::Line, text, 0, |_| {});
        }
    }

    /// Writes what is read as fields; `false` when nothing is. `level`: that of a record which names none.
    fn structured(&mut self, level: Level, read: impl Fn(&mut StructuredLine) -> bool) -> bool {
        let mut line = self.structured.take().unwrap_or_default();
        let is_structured = read(&mut line);
        let (level, payload) = (line.level.unwrap_or(level), std::mem::take(&mut line.payload));
        // The record before may need it.
        self.structured = Some(line);
        if is_structured {
            self.flush();
            self.write(level, Shape::Object, payload.len(), |put| put.bytes(&payload));
        }
        if let Some(line) = &mut self.structured {
            line.payload = payload;
        }
        is_structured
    }

    #[inline]
    fn text(
        &mut self,
        level: Level,
        shape: Shape,
        text: &[u8],
        more_bytes: usize,
        more: impl Fn(&mut RecordWriter<'_>),
    ) {
        self.write(level, shape, LENGTH_BYTES + text.len() + more_bytes, |put| {
            // A piece is shorter than 64 KiB.
            put.u32(text.len() as u32);
            put.bytes(text);
            more(put);
        });
    }

    #[inline]
    fn write(&mut self, level: Level, shape: Shape, bytes: usize, fill: impl Fn(&mut RecordWriter<'_>)) {
        let Some(entry) = self.entry(level, shape) else {
            return;
        };
        match entry.control() {
            ON => {}
            OFF => return,
            OFF_COUNTED => return local::count_disabled(),
            _ => return self.write_sampled(entry, level, shape, bytes, &fill),
        }
        self.put(entry.id(), level, bytes, fill);
    }

    /// A line of a callsite that is sampled, if it is one that is kept.
    #[cold]
    fn write_sampled(
        &mut self,
        entry: &'static ControlEntry,
        level: Level,
        shape: Shape,
        bytes: usize,
        fill: &dyn Fn(&mut RecordWriter<'_>),
    ) {
        let control = entry.control();
        let one_of = entry.parameter().max(1);
        match control {
            PER_SECOND if !thread_counts::pass_budget(entry, counts_of) => return,
            EVERY if !thread_counts::pass_every(entry, counts_of) => return,
            _ => {}
        }
        let sampled_variant = if control == EVERY {
            self.sampled_variant(entry, level, shape)
        } else {
            None
        };
        match (sampled_variant, shape) {
            (None, _) => self.put(entry.id(), level, bytes, fill),
            (Some(sampled_variant), Shape::Object) => {
                self.put(sampled_variant, level, bytes + NAMED_SAMPLE_BYTES, |put| {
                    fill(put);
                    put.u8(Kind::U64.code());
                    put.u8(INLINE_KEY);
                    put.bytes(&(SAMPLE_FIELD.len() as u16).to_le_bytes());
                    put.bytes(SAMPLE_FIELD.as_bytes());
                    put.u64(one_of);
                })
            }
            (Some(sampled_variant), _) => self.put(sampled_variant, level, bytes + 8, |put| {
                fill(put);
                put.u64(one_of);
            }),
        }
    }

    /// The callsite under which kept lines go, which say of how many they are one; `None` where there is no room for it.
    fn sampled_variant(&self, entry: &'static ControlEntry, level: Level, shape: Shape) -> Option<u32> {
        match entry.sampled_variant() {
            0 => {}
            sampled_variant => return (sampled_variant != entry.id()).then_some(sampled_variant),
        }
        let mut callsite = callsite(self.target, level, shape);
        if shape != Shape::Object {
            callsite.fields.push(Field {
                name: SAMPLE_FIELD.to_owned(),
                kind: FieldKind::plain(Kind::U64),
                argument: false,
            });
        }
        let bytes = callsite.encode().ok()?;
        let sampled_variant = self.session.register(&bytes, OFF).ok().map(ControlEntry::id);
        entry.set_sampled_variant(sampled_variant.unwrap_or(entry.id()));
        sampled_variant
    }

    #[inline]
    fn put(&self, id: u32, level: Level, bytes: usize, fill: impl Fn(&mut RecordWriter<'_>)) {
        let length = align_up(HEADER_BYTES + bytes);
        let wrote = local::write(id, length, level.is_urgent(), &fill);
        if wrote != Wrote::Committed {
            self.write_slowly(wrote, id, length, level, &fill);
        }
    }

    #[cold]
    fn write_slowly(
        &self,
        mut wrote: Wrote,
        id: u32,
        length: usize,
        level: Level,
        fill: &dyn Fn(&mut RecordWriter<'_>),
    ) {
        if wrote == Wrote::GapDue {
            write_gap();
            wrote = local::write(id, length, level.is_urgent(), |put| fill(put));
        }
        match wrote {
            // A drop is counted where it is decided.
            Wrote::Committed | Wrote::Dropped => {}
            // Its ring is of the largest size.
            Wrote::GapDue | Wrote::RingFull => drop(local::count_drop(DropReason::Other)),
            Wrote::NoRing => self.session.header().count_drop(DropReason::Closed, 1),
        }
    }

    #[inline]
    fn entry(&mut self, level: Level, shape: Shape) -> Option<&'static ControlEntry> {
        match self.sites[level.code() as usize][shape as usize] {
            Some(entry) => Some(entry),
            None => self.register(level, shape),
        }
    }

    /// Writes a record that comes once: its callsite is registered for it.
    pub fn once(&mut self, callsite: &Callsite, bytes: usize, fill: impl Fn(&mut RecordWriter<'_>)) {
        self.flush();
        // Relaxed: as in `begin`.
        self.time.store(ticks_of(self.clock), Ordering::Relaxed);
        let entry = self.enter(callsite, callsite.level >= self.options.min_level);
        if let Some(entry) = entry.filter(|entry| entry.control() == ON) {
            self.put(entry.id(), callsite.level, bytes, fill);
        }
    }

    #[cold]
    fn register(&mut self, level: Level, shape: Shape) -> Option<&'static ControlEntry> {
        let entry = self.enter(
            &callsite(self.target, level, shape),
            level >= self.options.min_level,
        );
        self.sites[level.code() as usize][shape as usize] = entry;
        entry
    }

    fn enter(&self, callsite: &Callsite, on: bool) -> Option<&'static ControlEntry> {
        let control = if on { ON } else { OFF_COUNTED };
        let bytes = callsite.encode().ok()?;
        let entry = self.session.register(&bytes, control).ok();
        match entry {
            Some(entry) => self.settle(entry, callsite),
            None => drop(local::count_drop(DropReason::NoCallsite)),
        }
        entry
    }

    /// Switches a callsite that is new as the rules say that were made before it was.
    fn settle(&self, entry: &ControlEntry, callsite: &Callsite) {
        let file = self.session.rules();
        settle(
            entry,
            || file.sequence(),
            |base| {
                // Damaged rules are none; the drain says so.
                let rules = file.read().map_or(Vec::new(), |(_, rules)| rules);
                switch_of(&rules, entry.id(), callsite, base, OFF_COUNTED, unix_ns())
            },
        );
    }
}

/// Returns whether the first words of a line may be those of a logger: a number of a time, or a level.
fn may_have_head(text: &[u8]) -> bool {
    let has_digit = || text.iter().take(HEAD_BYTES).any(u8::is_ascii_digit);
    may_be_head(text) && (has_digit() || level::recognise_plain(text).is_some())
}

/// The callsite of lines of one kind.
fn callsite(target: &str, level: Level, shape: Shape) -> Callsite {
    let field = |name: &str, kind| Field {
        name: name.to_owned(),
        kind: FieldKind::plain(kind),
        argument: name.is_empty(),
    };
    let (part, last, partial) = (
        field("part", Kind::U32),
        field("last", Kind::Bool),
        field("partial", Kind::Bool),
    );
    let more = match shape {
        Shape::Line | Shape::Object => vec![],
        Shape::Part => vec![part],
        Shape::Last => vec![part, last],
        Shape::Partial => vec![partial],
        Shape::PartialPart => vec![part, partial],
    };
    let site = Callsite {
        level,
        target: target.to_owned(),
        ..Callsite::default()
    };
    if shape == Shape::Object {
        return Callsite {
            dynamic: true,
            ..site
        };
    }
    Callsite {
        message: "{0}".to_owned(),
        fields: std::iter::once(field("", Kind::Str)).chain(more).collect(),
        ..site
    }
}

/// Writes gap records for the drops of the calling thread that have not been reported.
fn write_gap() {
    let mut counts = local::take_gap();
    for reason in DropReason::ALL {
        let count = counts[reason as usize];
        if count == 0 {
            continue;
        }
        let text = reason.text().as_bytes();
        let length = align_up(HEADER_BYTES + 8 + LENGTH_BYTES + text.len());
        let wrote = local::write(GAP_CALLSITE, length, true, |put| {
            put.u64(count);
            put.u32(text.len() as u32);
            put.bytes(text);
        });
        if wrote == Wrote::Committed {
            counts[reason as usize] = 0;
        }
    }
    local::return_gap(&counts);
}
