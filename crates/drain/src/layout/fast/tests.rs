//! The fast path against the interpreter: every line of the one is a line of the other, to the byte.

use super::super::{Layout, LayoutOptions, LineBuffer, Outcome, Plan, ProcessInfo, Record, Style, Thread};
use super::{PREFIX_BYTES, SECOND_NS, SharedPrefix};
use logdrive_testkit::Random;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind};

const TIME_NS: u64 = 1_795_264_496_123_456_789;

fn layout(style: &Style) -> Layout {
    Layout::new(LayoutOptions::from(style.clone()), ProcessInfo::default()).expect("a layout")
}

/// Every style, and patterns with no time, with one, and with several in all places.
fn styles() -> Vec<Style> {
    let patterns = [
        "{thread} {time} {level} {time} {message}",
        "{time:%H:%M:%S.%3f} {level:1} {message}{fields}",
        "{thread_id} {time:%H.%6f} {message}",
        "{time:%9f}{message}",
        "{message}{fields}",
        "{level} [{thread}] {message}",
        "{time:unix_ns} {message} {time}{fields}",
        "{time} [{thread:>9}] {message} {level} {time:%S.%9f}",
    ];
    let styles = [
        Style::Text,
        Style::Glog,
        Style::GlogRaw,
        Style::Json,
        Style::Logfmt,
    ];
    let patterns = patterns.map(|pattern| Style::Pattern(pattern.to_owned()));
    styles.into_iter().chain(patterns).collect()
}

/// The line by the interpreter alone, with a layout that has kept nothing; `None` if the payload cannot be read.
fn interpreted(style: &Style, plan: &Plan, record: &Record<'_>) -> Option<Vec<u8>> {
    let mut bytes = vec![b'#'; 16_000];
    let steps = &plan.main;
    let end = layout(style)
        .interpret_front(plan, steps, steps.steps.len(), record, &mut bytes, 0)
        .ok()?;
    bytes.truncate(end);
    Some(bytes)
}

/// A callsite with some values in its message and some behind it, and whether all are of the usual kinds.
fn site(random: &mut Random) -> (Callsite, bool) {
    let kinds = [
        Kind::U64,
        Kind::U32,
        Kind::I64,
        Kind::I32,
        Kind::F64,
        Kind::Str,
        Kind::Bool,
    ];
    let mut site = Callsite {
        file: "src/net.rs".into(),
        line: 7,
        module: "shop".into(),
        ..Callsite::default()
    };
    let mut is_usual = true;
    for index in 0..random.below(7) {
        let kind = kinds[random.below(7).min(random.below(7)) as usize];
        let argument = random.below(4) > 0;
        let is_fixed = kind == Kind::F64 && argument && random.below(4) > 0;
        let is_general = kind == Kind::F64 && argument && !is_fixed && random.below(2) > 0;
        is_usual &= kind != Kind::Bool;
        if argument {
            let text = "a constant text with \u{e9} and more than a block of it"
                .chars()
                .take(random.below(40) as usize);
            site.message.extend(text);
            let decimals = random.below(8);
            site.message += &match (is_fixed, is_general) {
                (true, _) => format!("{{{index}:.{decimals}}}"),
                (_, true) => format!("{{{index}:g}}"),
                _ => format!("{{{index}}}"),
            };
        }
        site.fields.push(Field {
            name: format!("f{index}"),
            kind: FieldKind::plain(kind),
            argument,
        });
    }
    // Values that the message does not show stand behind it, which is another order.
    site.fields.sort_by_key(|field| !field.argument);
    let mut number = 0;
    let mut message = String::new();
    for part in site.message.split_inclusive('{') {
        message += part
            .split_once([':', '}'])
            .map_or(part, |(digits, _)| &part[digits.len()..]);
        if part.ends_with('{') {
            message += &number.to_string();
            number += 1;
        }
    }
    site.message = message;
    (site, is_usual)
}

fn payload(random: &mut Random, site: &Callsite) -> Vec<u8> {
    let texts: [&[u8]; 6] = [
        b"",
        b"cust-042",
        b"two words",
        b"a\n\\=",
        "\u{202e}\u{e9}".as_bytes(),
        &[b'x'; 300],
    ];
    let mut payload = Vec::new();
    for field in &site.fields {
        let number = random.bits() >> random.below(64);
        let number = if random.below(3) == 0 {
            number.wrapping_neg()
        } else {
            number
        };
        match field.kind.kind {
            Kind::U64 | Kind::I64 => payload.extend(number.to_le_bytes()),
            Kind::U32 | Kind::I32 => payload.extend((number as u32).to_le_bytes()),
            Kind::F64 => payload.extend((number.cast_signed() as f64 / 64.0).to_le_bytes()),
            Kind::Bool => payload.push(number as u8 & 1),
            _ => {
                let text = texts[random.below(texts.len() as u64) as usize];
                payload.extend((text.len() as u32).to_le_bytes());
                payload.extend(text);
            }
        }
    }
    payload
}

/// Writes the record behind a prefix and checks the line, which is refused where the record is not of the prefix.
fn check_behind(
    layout: &mut Layout,
    prefix: &mut SharedPrefix,
    plan: &Plan,
    record: &Record<'_>,
    expected: Option<&[u8]>,
) -> bool {
    let mut bytes = vec![b'#'; 16_000];
    let mut out = LineBuffer::new(&mut bytes);
    let is_written = layout.line_after(prefix, plan, record, &mut out);
    let second_ns = prefix.prefix.second_ns();
    let is_of_second = (second_ns..second_ns + SECOND_NS).contains(&record.unix_ns);
    assert_eq!(is_written, is_of_second && expected.is_some());
    assert_eq!(out.as_bytes(), expected.filter(|_| is_written).unwrap_or(b""));
    is_written
}

#[test]
fn random_records_have_the_lines_of_the_interpreter() {
    let mut random = Random::new(0x9001c);
    let (mut fast, mut refused, mut behind) = (0, 0, 0);
    let styles = styles();
    for round in 0..4_000 {
        let style = &styles[round % styles.len()];
        let mut layout = layout(style);
        let (site, is_usual) = site(&mut random);
        let plan = layout.compile(&site);
        // In another order a value of another kind may not be shown at all.
        let is_fast = plan.main.fast_body.is_some() && plan.main.sequential;
        assert!(is_usual || !is_fast, "{site:?}");
        fast += usize::from(plan.main.fast_body.is_some());
        let thread = Thread { name: "w\t1", id: 4 };
        let first = Record {
            unix_ns: TIME_NS,
            thread,
            payload: &[],
        };
        let mut prefix = layout.shared_prefix(&plan, &first);
        for _ in 0..6 {
            let mut payload = payload(&mut random, &site);
            if random.below(5) == 0 {
                payload.truncate(random.below(payload.len() as u64 + 1) as usize);
            }
            // Mostly within the second, and one time twice and thrice.
            let unix_ns = match random.below(8) {
                0 => TIME_NS - SECOND_NS,
                1 => TIME_NS + SECOND_NS,
                2..5 => TIME_NS,
                _ => TIME_NS + random.below(500_000_000),
            };
            let record = Record {
                unix_ns,
                thread,
                payload: &payload,
            };
            let expected = interpreted(style, &plan, &record);
            let mut bytes = vec![0; 16_000];
            let mut out = LineBuffer::new(&mut bytes);
            let outcome = layout.line(&plan, &record, &mut out);
            refused += usize::from(outcome == Outcome::Malformed);
            match &expected {
                Some(expected) => assert_eq!(
                    String::from_utf8_lossy(out.as_bytes()),
                    String::from_utf8_lossy(expected)
                ),
                None => assert_eq!(outcome, Outcome::Malformed),
            }
            if let Some(prefix) = &mut prefix {
                let is_written = check_behind(&mut layout, prefix, &plan, &record, expected.as_deref());
                behind += usize::from(is_written);
            }
        }
    }
    assert!(fast > 1_000, "{fast} of 4000 had a fast body");
    assert!(refused > 700, "{refused} payloads were refused");
    assert!(behind > 3_000, "{behind} lines were written behind a prefix");
}

/// A text as a value of a payload.
fn text_value(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes()[..], text].concat()
}

#[test]
fn lines_of_one_text_have_the_lines_of_the_interpreter_behind_a_prefix() {
    let long = vec![b'x'; 500];
    let texts: [&[u8]; 6] = [
        b"",
        b"plain",
        b"a \"b\"\\\x1b[1m\n=",
        &[0xff, 0x80],
        "\u{e9}\u{202e} two words".as_bytes(),
        &long,
    ];
    let site = Callsite {
        target: "std\u{e9}rr".to_owned(),
        message: "{0}".to_owned(),
        fields: vec![Field {
            name: String::new(),
            kind: FieldKind::plain(Kind::Str),
            argument: true,
        }],
        ..Callsite::default()
    };
    let second = TIME_NS / SECOND_NS * SECOND_NS;
    for style in styles() {
        for name in ["", "main", "a thread with a name beyond its length"] {
            let mut layout = layout(&style);
            let plan = layout.compile(&site);
            let thread = Thread { name, id: 417 };
            for text in texts {
                let payload = text_value(text);
                let record = |unix_ns| Record {
                    unix_ns,
                    thread,
                    payload: &payload,
                };
                let Some(mut prefix) = layout.shared_prefix(&plan, &record(TIME_NS)) else {
                    panic!("a prefix of usual length: {style:?}");
                };
                for unix_ns in [
                    second - 1,
                    second,
                    second + 7,
                    second + 7,
                    second + 7,
                    second + SECOND_NS - 1,
                    second + 7,
                    second + SECOND_NS,
                    u64::MAX,
                ] {
                    let record = record(unix_ns);
                    let expected = interpreted(&style, &plan, &record);
                    check_behind(&mut layout, &mut prefix, &plan, &record, expected.as_deref());
                }
                let expected = interpreted(&style, &plan, &record(TIME_NS)).expect("a line");
                let mut small = vec![0; expected.len() - 1];
                let mut out = LineBuffer::new(&mut small);
                assert!(!layout.line_after(&mut prefix, &plan, &record(TIME_NS), &mut out));
                assert!(out.is_empty());
            }
        }
    }
}

#[test]
fn dynamic_records_have_the_lines_of_the_interpreter_behind_a_prefix() {
    let site = Callsite {
        dynamic: true,
        ..Callsite::default()
    };
    let text = text_value(b"acme");
    let payload = [&[Kind::Str.code(), 0xff, 1, 0, b'k'], &text[..]].concat();
    for style in styles() {
        let mut layout = layout(&style);
        let plan = layout.compile(&site);
        let record = |payload| Record {
            unix_ns: TIME_NS,
            thread: Thread { name: "main", id: 1 },
            payload,
        };
        let mut prefix = layout
            .shared_prefix(&plan, &record(&payload))
            .expect("a prefix of usual length");
        let mut written = 0;
        for length in 0..=payload.len() {
            let record = record(&payload[..length]);
            let expected = interpreted(&style, &plan, &record);
            let is_written = check_behind(&mut layout, &mut prefix, &plan, &record, expected.as_deref());
            written += usize::from(is_written);
        }
        assert!(written > 0, "{style:?}");
    }
}

#[test]
fn a_prefix_that_is_too_long_is_not_shared() {
    let mut layout = layout(&Style::Text);
    let plan = layout.compile(&Callsite {
        target: "t".repeat(PREFIX_BYTES),
        message: "ready".to_owned(),
        ..Callsite::default()
    });
    let record = Record {
        unix_ns: 0,
        thread: Thread { name: "main", id: 1 },
        payload: &[],
    };
    assert!(plan.has_shared_prefix() && layout.shared_prefix(&plan, &record).is_none());
}

/// Long and short prefixes, and one that is too long to be kept.
fn sites() -> Vec<Callsite> {
    [1, 30, 60, 90, 300]
        .into_iter()
        .map(|length| Callsite {
            file: "src/net.rs".into(),
            line: length,
            module: "m".repeat(length as usize),
            message: "ready".into(),
            ..Callsite::default()
        })
        .collect()
}

fn check(style: &Style, names: &[&str], random: &mut Random) {
    let mut kept = layout(style);
    let plans: Vec<_> = sites().iter().map(|site| kept.compile(site)).collect();
    let mut now = 1_795_264_496_999_990_000;
    for _ in 0..3_000 {
        let plan = &plans[random.below(plans.len() as u64) as usize];
        let id = random.below(names.len() as u64);
        // Mostly some nanoseconds, sometimes a second, sometimes back.
        now = match random.below(50) {
            0 => now + 1_000_000_000,
            1 => now - 1_000_000_000,
            _ => now + random.below(2_000),
        };
        let record = Record {
            unix_ns: now,
            thread: Thread {
                name: names[id as usize],
                id: 400 + id % 3,
            },
            payload: &[],
        };
        let mut bytes = vec![b'#'; 120 + random.below(400) as usize];
        let mut out = LineBuffer::new(&mut bytes);
        let outcome = kept.line(plan, &record, &mut out);
        let expected = interpreted(style, plan, &record).expect("a line");
        match outcome {
            Outcome::Done => assert_eq!(
                String::from_utf8_lossy(out.as_bytes()),
                String::from_utf8_lossy(&expected)
            ),
            // Wide copies want some room behind the line.
            _ => assert!(
                expected.len() + 64 > out.capacity(),
                "{outcome:?} of {} bytes",
                expected.len()
            ),
        }
    }
}

#[test]
fn a_prefix_that_is_kept_is_the_prefix_of_no_other_line() {
    let mut random = Random::new(0x1eaf);
    let names = [
        "main",
        "w01",
        "w02",
        "",
        "",
        "tokio-worker-14",
        "a\nb",
        "a name of 21 letters.",
    ];
    for style in styles() {
        check(&style, &names, &mut random);
    }
}
