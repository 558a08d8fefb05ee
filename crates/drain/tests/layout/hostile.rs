//! Callsites and payloads that a hostile producer might write: no panic, one line each, and JSON that parses.

use std::collections::HashSet;

use logdrive_drain::layout::{Layout, LayoutOptions, LineBuffer, Outcome, Plan, Record, Style};
use logdrive_testkit::Random;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, Level};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::records::{Payload, layout, pattern, record, write};

const SEED: u64 = 4_711;

/// JSON in which no object has a key twice.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Walk;
        macro_rules! scalars {
            ($($name:ident: $type:ty),*) => {$(
                fn $name<E>(self, _: $type) -> Result<Unique, E> { Ok(Unique) }
            )*};
        }
        impl<'de> Visitor<'de> for Walk {
            type Value = Unique;
            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("json with unique keys")
            }
            scalars!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);
            fn visit_unit<E>(self) -> Result<Unique, E> {
                Ok(Unique)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Unique, A::Error> {
                while seq.next_element::<Unique>()?.is_some() {}
                Ok(Unique)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
                let mut keys = HashSet::new();
                while let Some(key) = map.next_key::<String>()? {
                    if !keys.insert(key.clone()) {
                        return Err(serde::de::Error::custom(format!("key {key:?} twice")));
                    }
                    map.next_value::<Unique>()?;
                }
                Ok(Unique)
            }
        }
        deserializer.deserialize_any(Walk)
    }
}

fn text(random: &mut Random, most: usize) -> String {
    let alphabet: Vec<char> = "ab_1 =\"'\\{}:.*$?x#0é漢\n\r\t\u{1b}\0\u{7f}\u{9b}\u{2028}\u{202e}🦀"
        .chars()
        .collect();
    let plain = random.one_in(2);
    let length = random.index(most + 1);
    (0..length)
        .map(|_| {
            if plain {
                *random.pick(&['a', 'b', '_'])
            } else {
                *random.pick(&alphabet)
            }
        })
        .collect()
}

fn template(random: &mut Random) -> String {
    let pieces = [
        "{}", "{0}", "{1:.2}", "{2:>8}", "{0:?}", "{1:#x?}", "{:1$}", "{a}", "{{", "}", "lit ", "{3:e}", "\n",
    ];
    (0..random.index(6)).map(|_| *random.pick(&pieces)).collect()
}

fn kind(random: &mut Random) -> FieldKind {
    loop {
        if let Ok(kind) = FieldKind::from_code(random.bits() as u8) {
            return kind;
        }
    }
}

fn callsite(random: &mut Random) -> Callsite {
    let names = ["a", "b", "level", "ts", "msg", "message", "a_1", "spans", ""];
    let fields = (0..random.index(7))
        .map(|_| Field {
            name: if random.one_in(3) {
                text(random, 6)
            } else {
                (*random.pick(&names)).into()
            },
            kind: kind(random),
            argument: random.one_in(2),
        })
        .collect();
    Callsite {
        level: *random.pick(&Level::ALL),
        dynamic: random.one_in(2),
        line: random.bits() as u32,
        file: text(random, 12),
        module: text(random, 12),
        target: text(random, 12),
        message: template(random),
        fields,
    }
}

/// A value of this kind, presence byte included.
fn value(random: &mut Random, kind: FieldKind, mut payload: Payload) -> Payload {
    if kind.optional {
        let present = random.one_in(2);
        payload = payload.raw(&[u8::from(present)]);
        if !present {
            return payload;
        }
    }
    let bits = random.bits().to_le_bytes();
    match kind.kind {
        Kind::None => payload,
        Kind::Bool => payload.raw(&[bits[0] & 1]),
        Kind::I8 | Kind::U8 => payload.raw(&bits[..1]),
        Kind::I16 | Kind::U16 => payload.raw(&bits[..2]),
        Kind::I32 | Kind::U32 | Kind::F32 => payload.raw(&bits[..4]),
        Kind::Char => payload.raw(&(random.index(0xd800) as u32).to_le_bytes()),
        Kind::I64 | Kind::U64 | Kind::F64 | Kind::Pointer => payload.raw(&bits),
        Kind::I128 | Kind::U128 => payload.raw(&bits).raw(&bits),
        Kind::Str | Kind::Display | Kind::Debug | Kind::Message => payload.blob(text(random, 40).as_bytes()),
        Kind::Bytes => payload.blob(&bits[..random.index(9)]),
        Kind::Scope => {
            let spans = spans(random);
            payload.blob(&spans.0)
        }
    }
}

fn plain_kind(random: &mut Random) -> FieldKind {
    loop {
        let kind = kind(random);
        if !matches!(kind.kind, Kind::Scope | Kind::Message) {
            return kind;
        }
    }
}

fn inline(random: &mut Random, payload: Payload) -> Payload {
    let kind = plain_kind(random);
    let key = text(random, 5);
    value(random, kind, payload.key(kind.code(), &key))
}

fn spans(random: &mut Random) -> Payload {
    let mut spans = Payload::default();
    for _ in 0..random.index(4) {
        let mut fields = Payload::default();
        for _ in 0..random.index(4) {
            fields = inline(random, fields);
        }
        let name = text(random, 8);
        spans = spans
            .short(&name)
            .raw(&(fields.0.len() as u16).to_le_bytes())
            .raw(&fields.0);
    }
    spans
}

/// A payload that fits the callsite.
fn payload(random: &mut Random, site: &Callsite) -> Payload {
    let mut payload = Payload::default();
    if !site.dynamic {
        for field in &site.fields {
            payload = value(random, field.kind, payload);
        }
    } else {
        if random.one_in(2) {
            let spans = spans(random);
            payload = payload.key(Kind::Scope.code(), "").blob(&spans.0);
        }
        if random.one_in(2) {
            payload = payload
                .key(Kind::Message.code(), "")
                .blob(text(random, 30).as_bytes());
        }
        for _ in 0..random.index(8) {
            if site.fields.is_empty() || random.one_in(2) {
                payload = inline(random, payload);
            } else {
                let kind = plain_kind(random);
                let index = random.index(site.fields.len()) as u8;
                payload = value(random, kind, payload.tag(kind.code(), index));
            }
        }
    }
    let padding = payload.0.len().next_multiple_of(8) - payload.0.len();
    payload.raw(&vec![0; padding])
}

/// Returns whether the values of the callsite can be read at all: spans inside of a static record are bytes to us.
fn styles() -> Vec<LayoutOptions> {
    let mut styles: Vec<LayoutOptions> = [Style::Text, Style::Glog, Style::Json, Style::Slog, Style::Logfmt]
        .map(Into::into)
        .into();
    styles.push(
        pattern("{time:%F %T.%6f} {level:>6} {thread:.8} {spans}{message:>20.30} {fields:*^40} {host}")
            .into(),
    );
    styles.push(pattern("{fields}{message}{message}{fields}").into());
    styles
}

fn check_line(layout: &Layout, site: &Callsite, line: &[u8]) {
    let found = core::str::from_utf8(line).unwrap_or_else(|error| panic!("{error}: {line:?} of {site:?}"));
    let inner = found.strip_suffix('\n').expect("a line ends");
    let harmless = |found: char| {
        !found.is_control()
            && !matches!(found, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(inner.chars().all(harmless), "{inner:?} of {site:?}");
    if layout.options().style == Style::Slog {
        // Keys may stand twice, as with package slog.
        serde_json::from_str::<serde::de::IgnoredAny>(inner)
            .unwrap_or_else(|error| panic!("{error}: {inner} of {site:?}"));
    }
    if layout.options().style == Style::Json
        && let Err(error) = serde_json::from_str::<Unique>(inner)
    {
        panic!("{error}: {inner} of {site:?}");
    }
}

/// The same line with less and less room: it overflows and leaves nothing, or it is the same; cut it is a line too.
fn check_small_buffers(
    layout: &mut Layout,
    plan: &Plan,
    site: &Callsite,
    line: &Record<'_>,
    whole: &[u8],
    random: &mut Random,
) {
    let capacity = random.index(whole.len() + 80);
    let mut bytes = vec![0; capacity + 10];
    let mut out = LineBuffer::resume(&mut bytes, 10);
    match layout.line(plan, line, &mut out) {
        Outcome::Overflow => assert_eq!(out.len(), 10),
        _ => assert_eq!(&out.as_bytes()[10..], whole),
    }
    let mut bytes = vec![0; capacity];
    let mut out = LineBuffer::new(&mut bytes);
    match layout.line_cut(plan, line, &mut out) {
        Outcome::Overflow => {
            assert_eq!(out.len(), 0);
            assert!(
                capacity < 80 && capacity < whole.len(),
                "{capacity} bytes are enough for a cut line"
            );
        }
        _ => check_line(layout, site, out.as_bytes()),
    }
}

#[test]
fn records_that_fit_their_callsite_are_lines_in_every_style() {
    let mut random = Random::new(SEED);
    let mut layouts: Vec<Layout> = styles().into_iter().map(layout).collect();
    for round in 0..4_000 {
        let site = callsite(&mut random);
        let payload = payload(&mut random, &site);
        let line = record(&payload.0);
        for layout in &mut layouts {
            let plan = layout.compile(&site);
            let (outcome, bytes) = write(layout, &plan, &line);
            assert_eq!(
                outcome,
                Outcome::Done,
                "round {round} of seed {SEED}: {site:?} {payload:?}"
            );
            check_line(layout, &site, &bytes);
            if round % 4 == 0 {
                check_small_buffers(layout, &plan, &site, &line, &bytes, &mut random);
            }
        }
    }
}

#[test]
fn any_bytes_give_a_line_and_no_panic() {
    let mut random = Random::new(SEED + 1);
    let mut layouts: Vec<Layout> = styles().into_iter().map(layout).collect();
    let mut malformed = 0;
    for _ in 0..6_000 {
        let site = callsite(&mut random);
        let mut payload = payload(&mut random, &site).0;
        for _ in 0..random.index(4) {
            if !payload.is_empty() {
                let place = random.index(payload.len());
                payload[place] = random.bits() as u8;
            }
        }
        if random.one_in(3) {
            payload.truncate(random.index(payload.len() + 1));
        }
        if random.one_in(4) {
            payload = (0..random.index(60)).map(|_| random.bits() as u8).collect();
        }
        let line = record(&payload);
        for layout in &mut layouts {
            let plan = layout.compile(&site);
            let (outcome, bytes) = write(layout, &plan, &line);
            malformed += usize::from(outcome == Outcome::Malformed);
            check_line(layout, &site, &bytes);
            check_small_buffers(layout, &plan, &site, &line, &bytes, &mut random);
        }
    }
    assert!(malformed > 1_000, "the mutations hit nothing: {malformed}");
}

#[test]
fn a_template_that_multiplies_its_text_is_cut_at_a_megabyte() {
    let field = Field {
        name: "x".into(),
        kind: FieldKind::plain(Kind::Str),
        argument: true,
    };
    let site = Callsite {
        message: "{0:?}".repeat(1_000),
        fields: vec![field],
        ..Callsite::default()
    };
    let payload = Payload::default().blob(&[0xff; 60_000]);
    for style in [Style::Text, Style::Json, Style::Logfmt] {
        let mut layout = layout(style.into());
        let plan = layout.compile(&site);
        let mut bytes = vec![0; 1 << 20];
        let mut out = LineBuffer::new(&mut bytes);
        assert_eq!(
            layout.line(&plan, &record(&payload.0), &mut out),
            Outcome::Overflow
        );
        assert_eq!(
            layout.line_cut(&plan, &record(&payload.0), &mut out),
            Outcome::Done
        );
        assert!(out.len() > 900_000, "{}", out.len());
        check_line(&layout, &site, out.as_bytes());
    }
}

#[test]
fn a_record_of_nothing_but_keys_stays_bounded() {
    let site = Callsite {
        dynamic: true,
        ..Callsite::default()
    };
    let mut payload = Payload::default();
    while payload.0.len() < 65_000 {
        payload = payload.key(Kind::None.code(), "k");
    }
    let mut layout = layout(Style::Json.into());
    let plan = layout.compile(&site);
    let (outcome, bytes) = write(&mut layout, &plan, &record(&payload.0));
    assert_eq!(outcome, Outcome::Malformed);
    check_line(&layout, &site, &bytes);
    assert!(bytes.len() < 8_192);
}
