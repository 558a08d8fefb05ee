//! The plan of a callsite: constant text and variable parts in the order of the line, made once.
//!
//! Each step is a piece of constant text and the variable part behind it. The text's first 32 bytes lie in the step
//! itself, so that most steps are one cache line and one wide copy.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Kind, Level, Spec};

use crate::segment::RowPlan;

use super::escape::{Bare, Escape};
use super::limits::FAST_STEPS_MAX;
use super::pattern::Pad;
use super::time::{Digits, TimeForm};
use super::value::Form;
use super::write::{OVERFLOW, WIDE, put, put_block, room};

/// Compiled steps of the lines of one callsite; made by [`Layout::compile`](super::Layout::compile), and only for
/// lines of the same layout. `Layout` has an example.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The line as it should be.
    pub(super) main: Steps,
    /// The line for a record whose payload cannot be read: what can be, and a mark.
    pub(super) broken: Steps,
    /// Kinds of the payload's values in order; empty for a dynamic callsite.
    pub(super) kinds: Box<[FieldKind]>,
    pub(super) fields: Box<Fields>,
    pub(super) level: Level,
    /// The callsite as rows of segments name it; none where lines are made.
    pub(super) row: Option<RowPlan>,
}

impl Plan {
    /// Returns true if lines of one second and thread have a prefix in common behind which the values are read in their
    /// order, so that a [`SharedPrefix`](super::SharedPrefix) serves them.
    #[inline]
    pub fn has_shared_prefix(&self) -> bool {
        self.main.sequential && self.row.is_none()
    }

    /// Returns true if records behind each other can be written faster than each by itself.
    #[inline]
    pub(crate) fn has_runs(&self) -> bool {
        self.row.is_some() || self.main.sequential
    }
}

/// Keys, and what else is needed for values that are met one by one.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    /// For each field of the callsite the text in front of its value, such as ` key=` or `,"key":`.
    pub(super) key_texts: Vec<KeyText>,
    /// Keys that a key inside of a record must not take: reserved ones first, then those of the fields.
    pub(super) names: Vec<String>,
    /// Number of `names` that are reserved.
    pub(super) reserved: usize,
    /// The callsite's message, escaped as the style shows it.
    pub(super) message: Vec<u8>,
    /// True if a message may stand behind other values: the callsite has none of its own.
    pub(super) seek_message: bool,
    /// Style in which fields and messages are written.
    pub(super) style: FieldStyle,
}

/// Constant text in front of a value, mostly short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyText {
    pub(super) text: Vec<u8>,
    /// The text again if it is no longer than this.
    block: [u8; WIDE],
}

impl KeyText {
    pub(super) fn new(text: Vec<u8>) -> Self {
        let mut block = [0; WIDE];
        put(&mut block, 0, &text);
        Self { text, block }
    }

    #[inline(always)]
    pub(super) fn put(&self, bytes: &mut [u8], at: usize) -> usize {
        if self.text.len() <= WIDE {
            return put_block(bytes, at, &self.block, self.text.len());
        }
        put(bytes, at, &self.text)
    }
}

/// Style of key and value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldStyle {
    /// ` key=value`
    Text,
    /// ` key=value` as logfmt quotes it, each key once.
    Logfmt,
    /// `,"key":value`, each key once.
    Json,
}

impl FieldStyle {
    pub(super) fn form(self) -> Form {
        match self {
            Self::Text => Form::Bare(Bare::Text),
            Self::Logfmt => Form::Bare(Bare::Logfmt),
            Self::Json => Form::Json,
        }
    }

    /// Escapes of a message in this style.
    pub(super) fn message(self) -> Escape {
        match self {
            Self::Text => Escape::Text,
            Self::Logfmt | Self::Json => Escape::Json,
        }
    }
}

/// The steps of a line, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Steps {
    /// A number that no other steps of the process have.
    pub(super) number: u64,
    pub(super) steps: Vec<Step>,
    /// Number of steps in the prefix of a line, which shows time and thread only.
    pub(super) prefix_steps: usize,
    /// The steps behind the prefix. The constant text of the first belongs to the prefix.
    pub(super) body: Vec<Step>,
    /// The body once more, where the fast path can write it.
    pub(super) fast_body: Option<Box<[FastStep]>>,
    /// Constant text that is longer than a step holds.
    pub(super) text: Vec<u8>,
    pub(super) placeholders: Vec<SpecPlaceholder>,
    pub(super) pads: Vec<Pad>,
    pub(super) rares: Vec<Rare>,
    /// The payload's values are used once each, in their order: they are read in passing.
    pub(super) sequential: bool,
    /// True if values that cannot be read are left out, instead of giving up the line.
    pub(super) lenient: bool,
}

/// The numbers of steps. Relaxed: unique is all they are.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

impl Steps {
    /// Splits the steps into the prefix, with at most one time in it and nothing of the payload, and the body.
    fn split(&mut self) {
        let vars = || self.steps.iter().map(|step| step.var);
        let changes = |var: &Var| self.digits_of(*var).is_some();
        let until_value = vars().take_while(|var| changes(var) || self.is_steady(*var));
        let second_time = vars().enumerate().filter(|(_, var)| changes(var)).nth(1);
        self.prefix_steps = until_value
            .count()
            .min(second_time.map_or(usize::MAX, |(at, _)| at));
        self.body = self.steps.get(self.prefix_steps..).unwrap_or_default().to_vec();
        if let Some(first) = self.body.first_mut() {
            (first.head, first.length) = ([0; WIDE], 0);
        }
        self.join_event();
        if !self.lenient {
            self.fast_body = fast_body(&self.body, &self.text);
        }
    }

    /// Makes one step of those that would each take a dynamic payload apart.
    fn join_event(&mut self) {
        let is_event = |pair: &[Step]| match pair {
            [one, two] => {
                two.length == 0
                    && self.rare_of(one.var) == Some(Rare::SpansAndMessage)
                    && self.rare_of(two.var) == Some(Rare::Fields)
            }
            _ => false,
        };
        if !self.lenient
            && let Some(at) = self.body.windows(2).position(is_event)
        {
            self.body.remove(at + 1);
            if let Some(step) = self.body.get_mut(at) {
                step.var = Var::Event;
            }
        }
    }

    fn rare_of(&self, var: Var) -> Option<Rare> {
        match var {
            Var::Rare(index) => self.rares.get(usize::from(index)).copied(),
            _ => None,
        }
    }

    fn is_thread(&self, var: Var) -> bool {
        let is_rare = |rare| matches!(rare, Rare::ThreadId | Rare::ThreadBare | Rare::ThreadIdPadded);
        matches!(var, Var::Thread(_)) || self.rare_of(var).is_some_and(is_rare)
    }

    /// Returns true if this part stays the same for a thread and a second.
    fn is_steady(&self, var: Var) -> bool {
        match self.rare_of(var) {
            Some(Rare::Time(form)) => form.is_steady(),
            _ => self.is_thread(var),
        }
    }

    /// Returns the digits of this part that change within a second, if nothing else of it does.
    pub(super) fn digits_of(&self, var: Var) -> Option<Digits> {
        match (var, self.rare_of(var)) {
            (Var::Iso, _) => TimeForm::Iso.digits(),
            (_, Some(Rare::Time(form))) => form.digits(),
            _ => None,
        }
    }
}

/// A placeholder of the message with a spec.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpecPlaceholder {
    pub(super) kind: FieldKind,
    pub(super) spec: Spec,
    pub(super) escape: Escape,
}

/// Constant text, and what follows it.
#[derive(Debug, Clone)]
pub(super) struct Step {
    head: [u8; WIDE],
    /// Number of bytes of the whole constant text.
    length: u32,
    /// Offset of the bytes behind the head in the text of all steps.
    tail: u32,
    /// Index of the field whose value `var` shows, or [`NO_FIELD`].
    pub(super) field: u16,
    pub(super) var: Var,
}

/// A value, and the constant text behind it, in a body of the fast path.
#[derive(Debug, Clone)]
pub(super) struct FastStep {
    /// Kind of the value; [`Var::End`] for more text.
    pub(super) var: Var,
    /// Index of its field, where values are not read in their order.
    pub(super) field: u16,
    /// Bytes of the text that count.
    pub(super) length: usize,
    pub(super) text: [u8; WIDE],
}

/// The body in the form that the fast path writes: `None` unless it has usual values only. A step of the plan has its text in
/// front of the value, and the text of the first is part of the prefix; here each value stands with the text behind it,
/// which saves the fast path a step. Longer texts go on in steps of their own.
fn fast_body(body: &[Step], text: &[u8]) -> Option<Box<[FastStep]>> {
    let (end, values) = body.split_last()?;
    if end.var != Var::End {
        return None;
    }
    let mut fast = Vec::with_capacity(values.len());
    for (value, behind) in values.iter().zip(body.iter().skip(1)) {
        if !value.var.is_usual() || fast.len() >= FAST_STEPS_MAX {
            return None;
        }
        let length = behind.length as usize;
        fast.push(FastStep {
            var: value.var,
            field: value.field,
            length: length.min(WIDE),
            text: behind.head,
        });
        let tail = behind.tail as usize;
        let tail = text.get(tail..tail + length.saturating_sub(WIDE))?;
        fast.extend(tail.chunks(WIDE).map(|piece| {
            let mut text = [0; WIDE];
            put(&mut text, 0, piece);
            FastStep {
                var: Var::End,
                field: NO_FIELD,
                length: piece.len(),
                text,
            }
        }));
    }
    Some(fast.into_boxed_slice())
}

/// The field of steps that show none.
pub(super) const NO_FIELD: u16 = u16::MAX;

/// A variable part of a line. The frequent ones stand first and are done in the loop itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Var {
    /// Nothing: the text stands at the end.
    End,
    Iso,
    Thread(Escape),
    /// Text of any kind, always present.
    Str(Form),
    U64,
    U32,
    I64,
    I32,
    /// `{:.N}`
    F64Fixed(u8),
    /// `{:g}`
    F64General,
    /// `{}`, or what stands for it behind a key.
    F64(Form),
    /// Spans, message and fields of a dynamic record, taken apart once. Only in the body.
    Event,
    PadBegin,
    /// Index into `pads`.
    PadEnd(u16),
    /// Index into `rares`.
    Rare(u16),
}

impl Var {
    /// Returns true for the values that the fast path writes.
    fn is_usual(self) -> bool {
        matches!(
            self,
            Self::U64
                | Self::U32
                | Self::I64
                | Self::I32
                | Self::F64Fixed(_)
                | Self::F64General
                | Self::F64(_)
                | Self::Str(_)
        )
    }
}

/// A variable part that is done out of line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rare {
    Time(TimeForm),
    ThreadId,
    /// The thread's name as a logfmt value.
    ThreadBare,
    /// The thread's id with least width 5, as glog has it.
    ThreadIdPadded,
    Value(FieldKind, Form),
    /// A placeholder with a spec: index into `placeholders`.
    Placeholder(u16),
    /// An optional field: start and length of its key in `text`. Nothing when it is absent.
    Optional {
        kind: Kind,
        form: Form,
        key: u32,
        key_length: u16,
    },
    /// All fields of a static callsite whose template cannot be used.
    AllFields,
    /// For dynamic callsites: the spans and the message, the former alone, the latter alone, the fields.
    SpansAndMessage,
    Spans,
    Message,
    Fields,
    /// `,"spans":[...]` or ` spans="..."`
    SpansField,
}

impl Step {
    /// Writes the constant text.
    #[inline(always)]
    pub(super) fn put_text(&self, bytes: &mut [u8], at: usize, text: &[u8]) -> usize {
        let Some(place) = room::<WIDE>(bytes, at) else {
            return OVERFLOW;
        };
        *place = self.head;
        let length = self.length as usize;
        if length > WIDE {
            return self.put_tail(bytes, at + WIDE, text);
        }
        at + length
    }

    #[inline(always)]
    fn put_tail(&self, bytes: &mut [u8], at: usize, text: &[u8]) -> usize {
        let (start, left) = (self.tail as usize, self.length as usize - WIDE);
        match text.get(start..).and_then(|rest| rest.get(..left)) {
            Some(tail) => put(bytes, at, tail),
            None => OVERFLOW,
        }
    }
}

/// Puts steps together; constant text that follows on constant text becomes one piece.
#[derive(Debug, Default)]
pub(super) struct Builder {
    steps: Steps,
    literal: Vec<u8>,
    /// The fields in the order in which the line shows them.
    order: Vec<u16>,
    by_index: bool,
}

impl Builder {
    /// Adds constant text as it is.
    pub(super) fn raw(&mut self, text: impl AsRef<[u8]>) {
        self.literal.extend_from_slice(text.as_ref());
    }

    /// Adds constant text with its escapes.
    pub(super) fn text(&mut self, text: &str, escape: Escape) {
        self.raw(super::escape::escaped(text.as_bytes(), escape));
    }

    /// Takes a space away that stands at the end of the constant text.
    pub(super) fn trim_space(&mut self) {
        if self.literal.last() == Some(&b' ') {
            self.literal.pop();
        }
    }

    /// A part that no field belongs to.
    pub(super) fn var(&mut self, var: Var) {
        self.step(NO_FIELD, var);
    }

    /// A part out of line that no field belongs to.
    pub(super) fn rare(&mut self, rare: Rare) {
        self.rare_of(NO_FIELD, rare);
    }

    fn rare_of(&mut self, field: u16, rare: Rare) {
        let index = self.steps.rares.len() as u16;
        self.steps.rares.push(rare);
        self.step(field, Var::Rare(index));
    }

    /// A field's value in its plain form.
    pub(super) fn value(&mut self, field: usize, kind: FieldKind, form: Form) {
        match hot(kind, form) {
            Some(var) => self.field(field, var),
            None => self.rare_field(field, Rare::Value(kind, form)),
        }
    }

    /// A field's value with a spec.
    pub(super) fn spec_placeholder(&mut self, field: usize, placeholder: SpecPlaceholder) {
        let index = self.steps.placeholders.len() as u16;
        self.steps.placeholders.push(placeholder);
        self.by_index |= !placeholder.spec.is_plain() && has_field_count(&placeholder.spec);
        self.rare_field(field, Rare::Placeholder(index));
    }

    /// An optional field, which brings its key.
    pub(super) fn optional(&mut self, field: usize, kind: Kind, form: Form, key: &[u8]) {
        let range = self.keep(key);
        let (key, key_length) = (range.start as u32, range.len() as u16);
        self.rare_field(
            field,
            Rare::Optional {
                kind,
                form,
                key,
                key_length,
            },
        );
    }

    /// A field through a step of its own.
    pub(super) fn field(&mut self, field: usize, var: Var) {
        self.order.push(field as u16);
        self.step(field as u16, var);
    }

    fn rare_field(&mut self, field: usize, rare: Rare) {
        self.order.push(field as u16);
        self.rare_of(field as u16, rare);
    }

    /// Begins a part that [`pad_end`](Self::pad_end) pads.
    pub(super) fn pad_begin(&mut self) {
        self.var(Var::PadBegin);
    }

    pub(super) fn pad_end(&mut self, pad: Pad) {
        let index = self.steps.pads.len() as u16;
        self.steps.pads.push(pad);
        self.var(Var::PadEnd(index));
    }

    fn keep(&mut self, text: &[u8]) -> Range<usize> {
        let start = self.steps.text.len();
        self.steps.text.extend_from_slice(text);
        start..start + text.len()
    }

    fn step(&mut self, field: u16, var: Var) {
        let literal = core::mem::take(&mut self.literal);
        let mut head = [0; WIDE];
        let at = put(&mut head, 0, literal.get(..WIDE).unwrap_or(&literal));
        debug_assert!(at <= WIDE);
        let tail = self.keep(literal.get(WIDE..).unwrap_or(b""));
        self.steps.steps.push(Step {
            head,
            length: literal.len() as u32,
            tail: tail.start as u32,
            field,
            var,
        });
    }

    /// The end of the line. Says whether the payload of this callsite can be read in passing.
    pub(super) fn finish(mut self, site: &Callsite, lenient: bool) -> Steps {
        self.raw("\n");
        self.step(NO_FIELD, Var::End);
        self.steps.text.extend_from_slice(&[0; WIDE]);
        let stored = site
            .fields
            .iter()
            .enumerate()
            .filter(|(_, field)| takes_bytes(field.kind));
        let order = self.order.iter().copied().map(usize::from);
        let order = order.filter(|&index| {
            site.fields
                .get(index)
                .is_some_and(|field| takes_bytes(field.kind))
        });
        self.steps.sequential =
            !self.by_index && (site.dynamic || lenient || order.eq(stored.map(|(index, _)| index)));
        self.steps.lenient = lenient;
        self.steps.number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        self.steps.split();
        self.steps
    }
}

fn has_field_count(spec: &Spec) -> bool {
    use logdrive_wire::template::Count;
    [spec.width, spec.precision]
        .iter()
        .any(|count| matches!(count, Some(Count::Field(_))))
}

fn takes_bytes(kind: FieldKind) -> bool {
    kind.optional || kind.kind != Kind::None
}

/// The step in the loop itself for this kind and form, where there is one. Integers look alike everywhere.
fn hot(kind: FieldKind, form: Form) -> Option<Var> {
    if kind.optional {
        return None;
    }
    match (kind.kind, form) {
        (Kind::U64, _) => Some(Var::U64),
        (Kind::U32, _) => Some(Var::U32),
        (Kind::I64, _) => Some(Var::I64),
        (Kind::I32, _) => Some(Var::I32),
        (Kind::F64, form) => Some(Var::F64(form)),
        (Kind::Str | Kind::Display | Kind::Debug | Kind::Message, _) => Some(Var::Str(form)),
        _ => None,
    }
}
