//! The parts of a line that are read value by value: dynamic records, spans, and fields without a usable template.

use std::borrow::Cow;

use logdrive_wire::limits::SCOPE_DEPTH_MAX;
use logdrive_wire::{Cursor, Kind, Value};

use super::escape::{Bare, Escape, put_bare, put_escaped, put_plain};
use super::limits::{RECORD_VALUES_MAX, SPANS_KEPT, SPANS_KEPT_BYTES_MAX};
use super::payload::{Malformed, Progress, Tag, skip, take_blob, take_short, take_tag};
use super::plan::{FieldStyle, Fields, Plan, Rare};
use super::structured::RESERVED_SPAN;
use super::value::{put_payload, put_value};
use super::write::{OVERFLOW, grow, put, put_byte};

/// All fields of a static callsite as `key=value`. Where a value cannot be read, the rest cannot be found either.
pub(super) fn put_all_fields(
    plan: &Plan,
    payload: &[u8],
    lenient: bool,
    bytes: &mut [u8],
    mut at: usize,
) -> Result<usize, Malformed> {
    let mut cursor = Cursor::new(payload);
    let fields = &plan.fields;
    for (kind, lead) in plan.kinds.iter().zip(&fields.key_texts) {
        match Value::read(*kind, &mut cursor) {
            Ok((Value::None, _)) if fields.style != FieldStyle::Json => {}
            Ok((value, _)) => {
                at = lead.put(bytes, at);
                at = put_value(bytes, at, &value, fields.style.form());
            }
            Err(_) if lenient => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(at)
}

/// A dynamic payload, taken apart: spans and message lead, fields follow.
#[derive(Debug, Clone, Copy, Default)]
struct Parts<'a> {
    spans: &'a [u8],
    message: Option<&'a [u8]>,
    /// True if the message was found among the fields, which then leave it out.
    message_inside: bool,
    /// Offset at which the fields begin.
    fields: usize,
}

impl<'a> Parts<'a> {
    #[inline]
    fn of(payload: &'a [u8], seek_message: bool) -> Result<Self, Malformed> {
        let mut parts = Parts::default();
        if let Some(spans) = take_leading(payload, Kind::Scope, &mut parts.fields)? {
            parts.spans = spans;
        }
        parts.message = take_leading(payload, Kind::Message, &mut parts.fields)?;
        if seek_message && parts.message.is_none() {
            let mut offset = parts.fields;
            // A value that cannot be read is met again by who writes the fields.
            parts.message = find_message(payload, &mut offset).unwrap_or(None);
            parts.message_inside = parts.message.is_some();
        }
        Ok(parts)
    }
}

/// Takes the next value if it is a blob of this kind. Its key means nothing.
#[inline]
fn take_leading<'a>(
    payload: &'a [u8],
    kind: Kind,
    offset: &mut usize,
) -> Result<Option<&'a [u8]>, Malformed> {
    if payload
        .get(*offset)
        .is_none_or(|code| code & !Kind::OPTIONAL != kind.code())
    {
        return Ok(None);
    }
    match take_tag(payload, offset)? {
        Some(tag) => {
            tag.check_key()?;
            match tag.present {
                true => take_blob(payload, offset).map(Some),
                false => Ok(None),
            }
        }
        None => Ok(None),
    }
}

fn find_message<'a>(payload: &'a [u8], offset: &mut usize) -> Result<Option<&'a [u8]>, Malformed> {
    for _ in 0..RECORD_VALUES_MAX {
        let Some(tag) = take_tag(payload, offset)? else {
            break;
        };
        tag.check_key()?;
        match tag.kind {
            _ if !tag.present => {}
            Kind::Message => return take_blob(payload, offset).map(Some),
            kind => skip(payload, kind, offset)?,
        }
    }
    Ok(None)
}

/// Writes one part of a dynamic record's line.
pub(super) fn put_part(
    kept: &mut SpanTextCache,
    plan: &Plan,
    rare: Rare,
    payload: &[u8],
    lenient: bool,
    bytes: &mut [u8],
    at: usize,
) -> Result<usize, Malformed> {
    let fields = &plan.fields;
    let parts = match Parts::of(payload, fields.seek_message) {
        Ok(parts) => parts,
        Err(_) if lenient => Parts::default(),
        Err(malformed) => return Err(malformed),
    };
    let escape = fields.style.message();
    let spans = parts.spans;
    match rare {
        Rare::SpansAndMessage => put_spans_and_message(kept, &parts, fields, lenient, bytes, at),
        Rare::Message => Ok(put_message(parts.message, fields, escape, bytes, at)),
        Rare::Spans | Rare::SpansField => put_spans(kept, spans, fields.style, lenient, bytes, at),
        _ => put_fields(fields, &parts, payload, lenient, bytes, at),
    }
}

/// Writes all of a record's line that comes from its payload, as text has it.
#[inline(never)]
pub(super) fn put_event(
    kept: &mut SpanTextCache,
    plan: &Plan,
    payload: &[u8],
    bytes: &mut [u8],
    at: usize,
) -> Result<usize, Malformed> {
    let fields = &plan.fields;
    let parts = Parts::of(payload, fields.seek_message)?;
    let at = put_spans_and_message(kept, &parts, fields, false, bytes, at)?;
    put_fields(fields, &parts, payload, false, bytes, at)
}

#[inline(always)]
fn put_spans_and_message(
    kept: &mut SpanTextCache,
    parts: &Parts<'_>,
    fields: &Fields,
    lenient: bool,
    bytes: &mut [u8],
    at: usize,
) -> Result<usize, Malformed> {
    let empty = parts.message.map_or(fields.message.is_empty(), <[u8]>::is_empty);
    if parts.spans.is_empty() && empty {
        return Ok(at);
    }
    let at = put_byte(bytes, at, b' ');
    let at = put_spans(kept, parts.spans, fields.style, lenient, bytes, at)?;
    Ok(put_message(
        parts.message,
        fields,
        fields.style.message(),
        bytes,
        at,
    ))
}

fn put_message(found: Option<&[u8]>, fields: &Fields, escape: Escape, bytes: &mut [u8], at: usize) -> usize {
    match found {
        Some(text) => put_escaped(bytes, at, text, escape),
        None => put(bytes, at, &fields.message),
    }
}

/// Keys that one record or span has used already.
#[derive(Debug, Default)]
struct Used<'a> {
    /// Indices of fields that were met, as bits.
    indices: [u64; 4],
    inline: Vec<Cow<'a, str>>,
    count: usize,
}

impl<'a> Used<'a> {
    /// Returns true if the field of this index comes for the first time.
    fn is_first(&mut self, index: u8) -> bool {
        let word = &mut self.indices[usize::from(index >> 6)];
        let bit = 1u64 << (index & 63);
        let first = *word & bit == 0;
        *word |= bit;
        first
    }

    /// The key itself, or one with a number behind it where it is taken.
    fn unique(&mut self, key: &'a str, taken: impl Fn(&str) -> bool) -> &str {
        let mut unique = Cow::Borrowed(key);
        let mut number = 0;
        while taken(&unique) || self.inline.contains(&unique) {
            // A record of nothing but one key must not make this quadratic, so the steps soon become wide.
            number += if number < 4 { 1 } else { self.inline.len() };
            unique = Cow::Owned(format!("{key}_{number}"));
        }
        self.inline.push(unique);
        self.inline.last().map_or("", |key| key)
    }
}

/// Writes the fields of a dynamic record.
fn put_fields(
    fields: &Fields,
    parts: &Parts<'_>,
    payload: &[u8],
    lenient: bool,
    bytes: &mut [u8],
    at: usize,
) -> Result<usize, Malformed> {
    let mut used = Used::default();
    let mut progress = Progress {
        at,
        offset: parts.fields,
    };
    let mut message_inside = parts.message_inside;
    loop {
        match put_field(fields, payload, &mut used, &mut message_inside, bytes, progress) {
            Ok(Some(next)) if next.at != OVERFLOW => progress = next,
            Ok(Some(_)) => return Ok(OVERFLOW),
            Ok(None) => return Ok(progress.at),
            Err(_) if lenient => return Ok(progress.at),
            Err(malformed) => return Err(malformed),
        }
    }
}

/// Writes the next field; `Ok(None)` if there is none.
#[inline]
fn put_field<'a>(
    fields: &'a Fields,
    payload: &'a [u8],
    used: &mut Used<'a>,
    message_inside: &mut bool,
    bytes: &mut [u8],
    progress: Progress,
) -> Result<Option<Progress>, Malformed> {
    let Progress { at, mut offset } = progress;
    let Some(tag) = take_tag(payload, &mut offset)? else {
        return Ok(None);
    };
    used.count += 1;
    // The index of a message means nothing.
    let unknown = tag.kind != Kind::Message
        && tag
            .index
            .is_some_and(|index| usize::from(index) >= fields.key_texts.len());
    if unknown || used.count > RECORD_VALUES_MAX || tag.kind == Kind::Scope {
        return Err(Malformed);
    }
    if tag.kind == Kind::Message && *message_inside && tag.present {
        *message_inside = false;
        tag.check_key()?;
        skip(payload, tag.kind, &mut offset)?;
        return Ok(Some(Progress { at, offset }));
    }
    if !tag.present && fields.style != FieldStyle::Json {
        tag.check_key()?;
        return Ok(Some(Progress { at, offset }));
    }
    let at = put_key_text(fields, &tag, used, bytes, at)?;
    let form = fields.style.form();
    if !tag.present {
        return Ok(Some(Progress {
            at: put_value(bytes, at, &Value::None, form),
            offset,
        }));
    }
    put_payload(bytes, Progress { at, offset }, tag.kind, payload, form).map(Some)
}

/// Writes what stands in front of a value: separator and key.
#[inline]
fn put_key_text<'a>(
    fields: &'a Fields,
    tag: &Tag<'a>,
    used: &mut Used<'a>,
    bytes: &mut [u8],
    at: usize,
) -> Result<usize, Malformed> {
    let Some(index) = tag.index else {
        return put_inline_key(fields, tag, used, bytes, at);
    };
    let lead = fields.key_texts.get(usize::from(index));
    if fields.style == FieldStyle::Text || used.is_first(index) {
        return Ok(lead.map_or(at, |lead| lead.put(bytes, at)));
    }
    let name = fields.names.get(fields.reserved + usize::from(index));
    Ok(put_unique_key(
        fields,
        name.map_or("arg", |name| name),
        used,
        bytes,
        at,
    ))
}

#[inline(never)]
fn put_inline_key<'a>(
    fields: &'a Fields,
    tag: &Tag<'a>,
    used: &mut Used<'a>,
    bytes: &mut [u8],
    at: usize,
) -> Result<usize, Malformed> {
    if fields.style == FieldStyle::Text {
        let at = put_byte(bytes, at, b' ');
        let at = put_key_of(tag, bytes, at)?;
        return Ok(put_byte(bytes, at, b'='));
    }
    Ok(put_unique_key(fields, tag.key()?, used, bytes, at))
}

/// Writes a key of text that stands in the record. Most are plain, and then nothing else has to be known of them.
#[inline]
fn put_key_of(tag: &Tag<'_>, bytes: &mut [u8], at: usize) -> Result<usize, Malformed> {
    match super::escape::put_plain_key(bytes, at, tag.key_bytes) {
        Some(end) => Ok(end),
        None => Ok(super::escape::put_key(bytes, at, tag.key()?.as_bytes())),
    }
}

#[inline(never)]
fn put_unique_key<'a>(
    fields: &'a Fields,
    key: &'a str,
    used: &mut Used<'a>,
    bytes: &mut [u8],
    at: usize,
) -> usize {
    let key = used.unique(key, |key| fields.names.iter().any(|name| name == key));
    put_key(fields.style, key, bytes, at)
}

fn put_key(style: FieldStyle, key: &str, bytes: &mut [u8], at: usize) -> usize {
    if style == FieldStyle::Json {
        let at = put(bytes, at, b",\"");
        let at = put_escaped(bytes, at, key.as_bytes(), Escape::Json);
        return put(bytes, at, b"\":");
    }
    let at = put_byte(bytes, at, b' ');
    let at = super::escape::put_key(bytes, at, key.as_bytes());
    put_byte(bytes, at, b'=')
}

/// The text of spans that were seen lately: a thread stays within its spans for many records.
#[derive(Debug, Default)]
pub(super) struct SpanTextCache {
    entries: Vec<SpanText>,
    /// Single spans that others are in: they stay while those come and go.
    outer: Vec<SpanText>,
}

#[derive(Debug, Default, Clone)]
struct SpanText {
    spans: Vec<u8>,
    text: Vec<u8>,
}

/// Writes the spans around a record.
fn put_spans(
    kept: &mut SpanTextCache,
    spans: &[u8],
    style: FieldStyle,
    lenient: bool,
    bytes: &mut [u8],
    at: usize,
) -> Result<usize, Malformed> {
    if spans.is_empty() {
        return Ok(at);
    }
    let place = place_of(spans);
    if let Some(entry) = kept.entries.get(place)
        && entry.spans == spans
    {
        return Ok(put(bytes, at, &entry.text));
    }
    let end = match style {
        FieldStyle::Text => kept.put_text(spans, lenient, bytes, at)?,
        FieldStyle::Json => {
            let at = put(bytes, at, b",\"spans\":[");
            let at = put_each_span(spans, b',', lenient, bytes, at, |span, _, bytes, at| {
                put_span(span, style, lenient, bytes, at)
            })?;
            put_byte(bytes, at, b']')
        }
        FieldStyle::Logfmt => {
            let text = spans_as_text(spans, lenient)?;
            let at = put(bytes, at, b" spans=");
            put_bare(bytes, at, &text, Bare::Logfmt)
        }
    };
    // A lenient text may lack something that a strict one would refuse.
    if !lenient
        && spans.len() <= SPANS_KEPT_BYTES_MAX
        && let Some(text) = bytes.get(at..end)
    {
        keep(&mut kept.entries, place, spans, text);
    }
    Ok(end)
}

/// Slot in which spans like these are kept. They differ in their ends: ids and counters.
fn place_of(spans: &[u8]) -> usize {
    let tail = spans
        .last_chunk::<8>()
        .map_or(0, |tail| u64::from_le_bytes(*tail));
    let front = spans
        .first_chunk::<8>()
        .map_or(0, |front| u64::from_le_bytes(*front));
    let mixed = (tail ^ front.rotate_left(29) ^ spans.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % SPANS_KEPT
}

fn keep(entries: &mut Vec<SpanText>, place: usize, spans: &[u8], text: &[u8]) {
    if entries.is_empty() {
        entries.resize(SPANS_KEPT, SpanText::default());
    }
    if let Some(entry) = entries.get_mut(place) {
        entry.spans.clear();
        entry.spans.extend_from_slice(spans);
        entry.text.clear();
        entry.text.extend_from_slice(text);
    }
}

impl SpanTextCache {
    /// `outer{key=value}:inner: `
    fn put_text(
        &mut self,
        spans: &[u8],
        lenient: bool,
        bytes: &mut [u8],
        at: usize,
    ) -> Result<usize, Malformed> {
        let at = put_each_span(
            spans,
            b':',
            lenient,
            bytes,
            at,
            |span, is_last, bytes, at| match is_last || lenient {
                true => put_span(span, FieldStyle::Text, lenient, bytes, at),
                false => self.put_outer(span, bytes, at),
            },
        )?;
        Ok(put(bytes, at, b": "))
    }

    /// Writes a span that another one is in.
    fn put_outer(&mut self, span: &[u8], bytes: &mut [u8], at: usize) -> Result<usize, Malformed> {
        let place = place_of(span);
        if let Some(entry) = self.outer.get(place)
            && entry.spans == span
        {
            return Ok(put(bytes, at, &entry.text));
        }
        let end = put_span(span, FieldStyle::Text, false, bytes, at)?;
        if span.len() <= SPANS_KEPT_BYTES_MAX
            && let Some(text) = bytes.get(at..end)
        {
            keep(&mut self.outer, place, span, text);
        }
        Ok(end)
    }
}

/// Writes spans with a separator between them. `put_one` gets the bytes of each, and whether it is the last one. A
/// lenient writer ends before the first span that cannot be read.
#[inline]
fn put_each_span(
    spans: &[u8],
    separator: u8,
    lenient: bool,
    bytes: &mut [u8],
    mut at: usize,
    mut put_one: impl FnMut(&[u8], bool, &mut [u8], usize) -> Result<usize, Malformed>,
) -> Result<usize, Malformed> {
    let mut rest = spans;
    let mut depth = 0;
    while !rest.is_empty() && at != OVERFLOW {
        let found = split_span(rest).and_then(|(span, behind)| {
            let at = if depth > 0 {
                put_byte(bytes, at, separator)
            } else {
                at
            };
            Ok((put_one(span, behind.is_empty(), bytes, at)?, behind))
        });
        match found.and_then(|found| {
            if depth < SCOPE_DEPTH_MAX {
                Ok(found)
            } else {
                Err(Malformed)
            }
        }) {
            Ok(found) => (at, rest) = found,
            Err(_) if lenient => break,
            Err(malformed) => return Err(malformed),
        }
        depth += 1;
    }
    Ok(at)
}

/// The first span's bytes, and those behind it.
#[inline]
fn split_span(spans: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut offset = 0;
    for _part in ["name", "fields"] {
        take_short(spans, &mut offset)?;
    }
    spans.split_at_checked(offset).ok_or(Malformed)
}

/// `name{key=value}`, or `{"name":"name","key":value}`. A lenient writer leaves fields out from the first on that
/// cannot be read.
fn put_span(
    span: &[u8],
    style: FieldStyle,
    lenient: bool,
    bytes: &mut [u8],
    at: usize,
) -> Result<usize, Malformed> {
    let mut offset = 0;
    let name = take_short(span, &mut offset)?;
    let fields = take_short(span, &mut offset)?;
    let is_json = style == FieldStyle::Json;
    let at = if is_json {
        put(bytes, at, b"{\"name\":\"")
    } else {
        at
    };
    let at = match put_plain(bytes, at, name).filter(|_| !is_json) {
        Some(end) => end,
        // What is plain is UTF-8, too.
        None => {
            let name = core::str::from_utf8(name).map_err(|_| Malformed)?;
            put_escaped(bytes, at, name.as_bytes(), style.message())
        }
    };
    let start = if is_json { put_byte(bytes, at, b'"') } else { at };
    let mut progress = Progress { at: start, offset: 0 };
    let mut used = Used::default();
    for _ in 0..=RECORD_VALUES_MAX {
        let is_first = progress.at == start;
        match put_span_field(style, fields, &mut used, is_first, bytes, progress) {
            Ok(Some(next)) => progress = next,
            Ok(None) => break,
            Err(_) if lenient => break,
            Err(malformed) => return Err(malformed),
        }
    }
    Ok(match is_json || progress.at != start {
        true => put_byte(bytes, progress.at, b'}'),
        false => progress.at,
    })
}

/// Writes the next field of a span, all of which bring their keys; `Ok(None)` if there is none.
#[inline(always)]
fn put_span_field<'a>(
    style: FieldStyle,
    fields: &'a [u8],
    used: &mut Used<'a>,
    is_first: bool,
    bytes: &mut [u8],
    progress: Progress,
) -> Result<Option<Progress>, Malformed> {
    let Progress { mut at, mut offset } = progress;
    let Some(tag) = take_tag(fields, &mut offset)? else {
        return Ok(None);
    };
    if tag.index.is_some() || tag.kind == Kind::Scope {
        return Err(Malformed);
    }
    if style == FieldStyle::Json {
        let key = used.unique(tag.key()?, |key| key == RESERVED_SPAN);
        at = put_key(style, key, bytes, at);
        if !tag.present {
            at = put_value(bytes, at, &Value::None, style.form());
        }
    } else if tag.present {
        at = put_byte(bytes, at, if is_first { b'{' } else { b' ' });
        at = put_key_of(&tag, bytes, at)?;
        at = put_byte(bytes, at, b'=');
    } else {
        tag.check_key()?;
    }
    match tag.present {
        true => put_payload(bytes, Progress { at, offset }, tag.kind, fields, style.form()).map(Some),
        false => Ok(Some(Progress { at, offset })),
    }
}

/// Spans as text in a buffer of their own.
fn spans_as_text(spans: &[u8], lenient: bool) -> Result<Vec<u8>, Malformed> {
    let write = |bytes: &mut [u8]| {
        put_each_span(spans, b':', lenient, bytes, 0, |span, _, bytes, at| {
            put_span(span, FieldStyle::Text, lenient, bytes, at)
        })
    };
    // A reader that stops early is not an overflow: the error is checked afterwards.
    let text = grow(spans.len() * 2, |bytes| write(bytes).unwrap_or(0));
    match text.is_empty() {
        true => write(&mut []).map(|_| text),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_testkit::Random;
    use logdrive_wire::value::DynamicFields;
    use logdrive_wire::{Named, Scope};

    /// `outer{key=value}:inner: `, read by the decoder of the format.
    fn put_spans_text(
        spans: &[u8],
        lenient: bool,
        bytes: &mut [u8],
        mut at: usize,
    ) -> Result<usize, Malformed> {
        for (depth, span) in Scope::new(spans).spans().take(SCOPE_DEPTH_MAX + 1).enumerate() {
            let span = match span {
                Ok(span) => span,
                Err(_) if lenient => break,
                Err(error) => return Err(error.into()),
            };
            if depth > 0 {
                at = put_byte(bytes, at, b':');
            }
            at = put_escaped(bytes, at, span.name.as_bytes(), Escape::Text);
            let mut open = false;
            let mut values = span.fields;
            for _ in 0..=RECORD_VALUES_MAX {
                let named = match next_of_span(&mut values) {
                    Ok(Some(named)) => named,
                    Ok(None) => break,
                    Err(_) if lenient => break,
                    Err(malformed) => return Err(malformed),
                };
                if named.value == Value::None {
                    continue;
                }
                at = put_byte(bytes, at, if open { b' ' } else { b'{' });
                open = true;
                at = super::super::escape::put_key(bytes, at, named.key.as_bytes());
                at = put_byte(bytes, at, b'=');
                at = put_value(bytes, at, &named.value, FieldStyle::Text.form());
            }
            if open {
                at = put_byte(bytes, at, b'}');
            }
            if at == OVERFLOW {
                return Ok(OVERFLOW);
            }
        }
        Ok(put(bytes, at, b": "))
    }

    /// The next value of a span, all of which bring their keys.
    fn next_of_span<'a>(values: &mut DynamicFields<'a>) -> Result<Option<Named<'a>>, Malformed> {
        match values.next_value()? {
            Some(named) if named.index.is_some() || matches!(named.value, Value::Scope(_)) => Err(Malformed),
            Some(mut named) => {
                if named.key.is_empty() {
                    named.key = "arg";
                }
                Ok(Some(named))
            }
            None => Ok(None),
        }
    }

    fn append_value(random: &mut Random, fields: &mut Vec<u8>) {
        let texts: [&[u8]; 5] = [b"", b"Data", b"two words", b"a\n\\=", "\u{202e}é".as_bytes()];
        let text = texts[random.index(texts.len())];
        let key = ["id", "space", "", "a b", "schl\u{fc}ssel"][random.index(5)];
        let length = (text.len() as u32).to_le_bytes();
        let (kind, value) = match random.index(7) {
            0 => (Kind::U64, (random.index(1_000) as u64).to_le_bytes().to_vec()),
            1 => (Kind::Bool, vec![random.index(2) as u8]),
            2 => (Kind::F64, (random.index(9) as f64 / 4.0).to_le_bytes().to_vec()),
            3 => (Kind::Char, u32::from('x').to_le_bytes().to_vec()),
            4 => (Kind::Str, [&length, text].concat()),
            5 => (Kind::Debug, [&length, text].concat()),
            _ => (Kind::None, Vec::new()),
        };
        let presence = random.index(4);
        let code = kind.code() | if presence < 2 { Kind::OPTIONAL } else { 0 };
        fields.extend_from_slice(&[code, 0xff, key.len() as u8, 0]);
        fields.extend_from_slice(key.as_bytes());
        match presence {
            0 => fields.push(0),
            1 => fields.extend([&[1], value.as_slice()].concat()),
            _ => fields.extend(value),
        }
    }

    fn spans(random: &mut Random) -> Vec<u8> {
        let mut spans = Vec::new();
        let most = if random.index(8) == 0 { 20 } else { 3 };
        for _ in 0..1 + random.index(most) {
            let name = ["drive", "recv", "send", "a b\t"][random.index(4)];
            let mut fields = Vec::new();
            for _ in 0..random.index(3) {
                append_value(random, &mut fields);
            }
            spans.extend_from_slice(&(name.len() as u16).to_le_bytes());
            spans.extend_from_slice(name.as_bytes());
            spans.extend_from_slice(&(fields.len() as u16).to_le_bytes());
            spans.extend(fields);
        }
        spans
    }

    #[test]
    fn spans_that_are_kept_one_by_one_are_those_that_are_read_together() {
        let mut random = Random::new(0x5ca1e);
        let mut kept = SpanTextCache::default();
        let mut refused = 0;
        for round in 0..40_000 {
            let mut spans = spans(&mut random);
            if round % 3 == 0 {
                let at = random.index(spans.len());
                spans[at] = random.index(256) as u8;
            }
            // Mostly room for all of it.
            let room = if round % 5 == 0 { random.index(60) } else { 2_000 };
            let (mut bytes, mut expected) = (vec![0; room], vec![0; room]);
            let lenient = round % 7 == 0;
            let found = kept.put_text(&spans, lenient, &mut bytes, 0);
            let wanted = put_spans_text(&spans, lenient, &mut expected, 0);
            match (found, wanted) {
                (Ok(end), Ok(wanted)) if wanted <= room => {
                    assert_eq!(bytes.get(..end), expected.get(..wanted), "{spans:?}");
                }
                (Ok(end), Ok(_)) => assert!(end > room, "{spans:?}"),
                // What does not fit is not read to its end.
                (found, wanted) if room < 2_000 => assert!(found.is_err() || wanted.is_err()),
                (found, wanted) => {
                    assert_eq!(found, wanted, "{spans:?}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 1_000, "{refused} of the damaged ones were refused");
    }
}
