//! From a callsite to the steps of its lines: text, glog and patterns.

use logdrive_wire::kind::FieldKind;
use logdrive_wire::template::{Count, Form as SpecForm};
use logdrive_wire::{Callsite, Field, Kind, Level, Piece, Spec, Template};

use super::escape::Escape;
use super::limits::PIECES_MAX;
use super::number::FIXED_DECIMALS_MAX;
use super::pattern::{Item, Pad, Part};
use super::plan::{Builder, FieldStyle, KeyText, Rare, SpecPlaceholder, Steps, Var};
use super::spec::{count_chars, front, padding_before};
use super::time::TimeForm;
use super::value::Form;
use super::{LayoutOptions, ProcessInfo, Style};

/// Source of message and fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MessageSource {
    /// A static callsite's template, all of whose fields exist.
    Template(Vec<Piece>),
    /// The template as it is, and all fields: it cannot be read, or the payload cannot.
    Raw,
    /// A dynamic callsite, whose values say themselves what they are.
    Dynamic,
}

impl MessageSource {
    pub(super) fn of(site: &Callsite) -> Self {
        if site.dynamic {
            return Self::Dynamic;
        }
        let index_of = |name: &str| site.fields.iter().position(|field| field.name == name);
        match Template::parse(&site.message, index_of) {
            Ok(template) if is_usable(&template.pieces, site) => Self::Template(template.pieces),
            _ => Self::Raw,
        }
    }

    /// The same for a payload that cannot be read.
    pub(super) fn malformed(site: &Callsite) -> Self {
        if site.dynamic { Self::Dynamic } else { Self::Raw }
    }
}

fn is_usable(pieces: &[Piece], site: &Callsite) -> bool {
    let count_is_usable = |count: Option<Count>| match count {
        Some(Count::Field(index)) => site.fields.get(index).is_some_and(|field| is_count(field.kind)),
        Some(Count::Fixed(_)) | None => true,
    };
    pieces.len() <= PIECES_MAX
        && pieces.iter().all(|piece| match piece {
            Piece::Literal(_) => true,
            Piece::Field { index, spec } => {
                *index < site.fields.len() && count_is_usable(spec.width) && count_is_usable(spec.precision)
            }
        })
}

fn is_count(kind: FieldKind) -> bool {
    use Kind::{I8, I16, I32, I64, U8, U16, U32, U64};
    !kind.optional && matches!(kind.kind, U8 | U16 | U32 | U64 | I8 | I16 | I32 | I64)
}

/// Makes the steps of one kind of line of a callsite.
pub(super) fn steps(
    options: &LayoutOptions,
    process: &ProcessInfo,
    pattern: &[Part],
    site: &Callsite,
    key_texts: &[KeyText],
    names_process: bool,
    malformed: bool,
) -> Steps {
    let source = if malformed {
        MessageSource::malformed(site)
    } else {
        MessageSource::of(site)
    };
    let mut compiler = Compiler {
        site,
        source: &source,
        malformed,
        process_named: names_process.then_some(process),
        key_texts,
        color: options.color,
        style: options.style.field_style(),
        steps: Builder::default(),
    };
    match &options.style {
        Style::Text | Style::Segments => compiler.text(),
        Style::Glog => compiler.glog(Escape::Text),
        Style::GlogRaw => compiler.glog(Escape::Raw),
        Style::Json => compiler.json(),
        Style::Slog => compiler.slog(),
        Style::Logfmt => compiler.logfmt(),
        Style::Pattern(_) => compiler.pattern(pattern, process),
    }
    if malformed && compiler.style == FieldStyle::Text {
        compiler.steps.raw(" [malformed record]");
    }
    compiler.steps.finish(site, malformed)
}

/// State of one compilation.
#[derive(Debug)]
pub(super) struct Compiler<'a> {
    pub(super) site: &'a Callsite,
    pub(super) source: &'a MessageSource,
    pub(super) malformed: bool,
    /// The process, where the line names it.
    pub(super) process_named: Option<&'a ProcessInfo>,
    color: bool,
    style: FieldStyle,
    /// Constant text in front of each field's value.
    key_texts: &'a [KeyText],
    pub(super) steps: Builder,
}

/// The line of a callsite whose lines have no front in the style of glog: glog's `kNoLogPrefix`, which is -1.
const NO_FRONT: u32 = u32::MAX;

const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

fn color_of(level: Level) -> &'static str {
    match level {
        Level::Trace => "\x1b[35m",
        Level::Debug => "\x1b[34m",
        Level::Info => "\x1b[32m",
        Level::Warn => "\x1b[33m",
        Level::Error => "\x1b[31m",
        Level::Fatal => "\x1b[1;31m",
    }
}

/// One letter for a level. glog itself knows I, W, E and F.
fn letter_of(level: Level) -> &'static str {
    level.name().get(..1).unwrap_or("?")
}

/// The last part of a path of any system.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

impl Compiler<'_> {
    /// `2026-11-21T12:34:56.123456789Z INFO  thread module file.rs:42 message key=value`
    fn text(&mut self) {
        let site = self.site;
        self.dim(true);
        self.steps.var(Var::Iso);
        self.dim(false);
        self.steps.raw(" ");
        self.level(site.level.name());
        self.steps.raw(" ".repeat(6 - site.level.name().len()));
        if let Some(process_named) = self.process_named {
            // With the thread it is one word, so that a line has the same parts as without.
            self.steps.text(&process_named.app, Escape::Text);
            self.steps.raw(format!("[{}]/", process_named.pid));
        }
        self.steps.var(Var::Thread(Escape::Text));
        let place = self.place();
        let module = site.target_or_module();
        if !module.is_empty() || !place.is_empty() {
            self.steps.raw(" ");
            self.dim(true);
            self.steps.text(module, Escape::Text);
            self.steps.raw(if module.is_empty() || place.is_empty() {
                ""
            } else {
                " "
            });
            self.steps.text(&place, Escape::Text);
            self.dim(false);
        }
        self.message_and_fields();
    }

    /// `I20261121 12:34:56.123456   417 file.cc:42] message key=value`
    fn glog(&mut self, escape: Escape) {
        let site = self.site;
        if escape == Escape::Raw && site.line == NO_FRONT {
            self.message(escape);
            return self.fields();
        }
        self.level(letter_of(site.level));
        self.steps.rare(Rare::Time(TimeForm::Glog));
        self.steps.raw(" ");
        self.steps.rare(Rare::ThreadIdPadded);
        self.steps.raw(" ");
        let file = match file_name(&site.file) {
            "" => site.target_or_module(),
            file => file,
        };
        self.steps
            .text(if file.is_empty() { "-" } else { file }, Escape::Text);
        self.steps.raw(format!(":{}]", site.line));
        if escape == Escape::Raw {
            // glog ends the prefix with its space, also where the message is empty.
            self.steps.raw(" ");
            self.message(escape);
            return self.fields();
        }
        self.message_and_fields();
    }

    fn dim(&mut self, on: bool) {
        if self.color {
            self.steps.raw(if on { DIM } else { PLAIN });
        }
    }

    fn level(&mut self, name: &str) {
        if self.color {
            self.steps.raw(color_of(self.site.level));
        }
        self.steps.raw(name);
        self.dim(false);
    }

    /// `file.rs:42`, or nothing.
    fn place(&self) -> String {
        match (file_name(&self.site.file), self.site.line) {
            ("", _) => String::new(),
            (file, 0) => file.to_owned(),
            (file, line) => format!("{file}:{line}"),
        }
    }

    /// A space and the message, where there is one, and the fields.
    fn message_and_fields(&mut self) {
        if *self.source == MessageSource::Dynamic {
            self.steps.rare(Rare::SpansAndMessage);
        } else if !self.site.message.is_empty() {
            self.steps.raw(" ");
            self.message(Escape::Text);
        }
        self.fields();
    }

    /// Adds the message alone.
    pub(super) fn message(&mut self, escape: Escape) {
        match self.source {
            MessageSource::Dynamic => self.steps.rare(Rare::Message),
            MessageSource::Raw => self.steps.text(&self.site.message, escape),
            MessageSource::Template(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Literal(text) => self.steps.text(text, escape),
                        Piece::Field { index, spec } => self.placeholder(*index, spec, escape),
                    }
                }
            }
        }
    }

    fn placeholder(&mut self, index: usize, spec: &Spec, escape: Escape) {
        let Some(field) = self.site.fields.get(index) else {
            return;
        };
        let kind = field.kind;
        // The value's own code has applied the spec already, at the call.
        let rendered = matches!(kind.kind, Kind::Display | Kind::Debug | Kind::Message) && !kind.optional;
        if spec.is_plain() || rendered {
            self.steps.value(index, kind, Form::Argument(escape));
        } else if let (
            FieldKind {
                kind: Kind::F64,
                optional: false,
            },
            Some(var),
        ) = (kind, float_var(spec))
        {
            self.steps.field(index, var);
        } else {
            let spec = *spec;
            self.steps
                .spec_placeholder(index, SpecPlaceholder { kind, spec, escape });
        }
    }

    /// The fields that the message does not show, as ` key=value`.
    fn fields(&mut self) {
        match self.source {
            MessageSource::Raw => self.steps.rare(Rare::AllFields),
            MessageSource::Dynamic => self.steps.rare(Rare::Fields),
            MessageSource::Template(_) => {
                let site = self.site;
                for (index, field) in site.fields.iter().enumerate() {
                    if !field.argument {
                        self.field(index, field);
                    }
                }
            }
        }
    }

    /// Adds one field with its key.
    pub(super) fn field(&mut self, index: usize, field: &Field) {
        let FieldKind { kind, optional } = field.kind;
        let Some(KeyText { text: lead, .. }) = self.key_texts.get(index) else {
            return;
        };
        if self.style == FieldStyle::Json {
            self.steps.raw(lead);
            return self.steps.value(index, field.kind, Form::Json);
        }
        if optional {
            return self.steps.optional(index, kind, self.style.form(), lead);
        }
        if kind != Kind::None {
            self.steps.raw(lead);
            self.steps.value(index, field.kind, self.style.form());
        }
    }

    /// Adds the parts of a pattern.
    fn pattern(&mut self, parts: &[Part], process: &ProcessInfo) {
        for part in parts {
            match part {
                Part::Literal(text) => self.steps.raw(text),
                Part::Time(TimeForm::Iso) => self.steps.var(Var::Iso),
                Part::Time(form) => self.steps.rare(Rare::Time(*form)),
                Part::Item(item, pad) => self.item(*item, *pad, process),
            }
        }
    }

    fn item(&mut self, item: Item, pad: Option<Pad>, process: &ProcessInfo) {
        let site = self.site;
        let line = site.line.to_string();
        let pid = process.pid.to_string();
        let constant = match item {
            Item::Level | Item::LevelLetter => {
                let name = if item == Item::Level {
                    site.level.name()
                } else {
                    letter_of(site.level)
                };
                return self.level(&padded(name, pad));
            }
            Item::Target => site.target_or_module(),
            Item::Module => &site.module,
            Item::File => file_name(&site.file),
            Item::Path => &site.file,
            Item::Line => &line,
            Item::Pid => &pid,
            Item::App => &process.app,
            Item::Host => &process.host,
            Item::Thread | Item::ThreadId | Item::Message | Item::RawMessage | Item::Fields | Item::Spans => {
                return self.variable_item(item, pad);
            }
        };
        self.steps.text(&padded(constant, pad), Escape::Text);
    }

    fn variable_item(&mut self, item: Item, pad: Option<Pad>) {
        if item == Item::Fields && pad.is_none() {
            self.steps.trim_space();
        }
        if pad.is_some() {
            self.steps.pad_begin();
        }
        match item {
            Item::Thread => self.steps.var(Var::Thread(Escape::Text)),
            Item::ThreadId => self.steps.rare(Rare::ThreadId),
            Item::Message => self.message(Escape::Text),
            Item::RawMessage => self.message(Escape::Raw),
            Item::Fields => self.fields(),
            Item::Spans if *self.source == MessageSource::Dynamic => self.steps.rare(Rare::Spans),
            _ => {}
        }
        if let Some(pad) = pad {
            self.steps.pad_end(pad);
        }
    }
}

/// Constant text with a pattern's width.
fn padded(text: &str, pad: Option<Pad>) -> String {
    let Some(pad) = pad else {
        return text.to_owned();
    };
    let kept = core::str::from_utf8(front(text.as_bytes(), pad.most)).unwrap_or(text);
    let missing = pad.width.saturating_sub(count_chars(kept.as_bytes()));
    let before = padding_before(pad.align, missing);
    let fill = |count: usize| pad.fill.to_string().repeat(count);
    format!("{}{kept}{}", fill(before), fill(missing - before))
}

/// The step for a float with a frequent spec.
fn float_var(spec: &Spec) -> Option<Var> {
    let general = Spec {
        form: SpecForm::General,
        ..Spec::default()
    };
    match *spec == general {
        true => Some(Var::F64General),
        false => fixed_decimals(spec).map(Var::F64Fixed),
    }
}

/// The decimals of a spec that asks for nothing else, `{:.2}` or `{:f}`.
fn fixed_decimals(spec: &Spec) -> Option<u8> {
    let decimals = match (spec.precision, spec.form) {
        (Some(Count::Fixed(decimals)), SpecForm::Display | SpecForm::Debug | SpecForm::Fixed) => decimals,
        (None, SpecForm::Fixed) => 6,
        _ => return None,
    };
    let bare = Spec {
        precision: spec.precision,
        form: spec.form,
        ..Spec::default()
    };
    (*spec == bare && decimals <= FIXED_DECIMALS_MAX).then_some(decimals as u8)
}
