//! Time to lay out one line: nanoseconds per line, median and minimum of many short rounds, one thread. Where other
//! work shares the machine, the minimum is what the code costs and the median what the neighbours take.
//!
//! A case `NAME-shared` writes the same lines behind a shared prefix; JSON lines of callsites have too long a prefix.
//!
//! `cargo run --release -p logdrive-drain --example layout_speed [CASE [ROUNDS]]`

use std::hint::black_box;
use std::time::Instant;

use logdrive_drain::layout::{
    Layout, LayoutOptions, LineBuffer, Outcome, Plan, ProcessInfo, Record, Style, Thread,
};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, Level};

/// Rounds of a case where none are asked for.
const ROUNDS: usize = 3_000;
const LINES: u64 = 2_000;
const START_NS: u64 = 1_795_264_496_123_456_789;

/// A case: a callsite and the payloads of some records.
struct Case {
    name: &'static str,
    style: Style,
    site: Callsite,
    payloads: Vec<Vec<u8>>,
}

fn site(message: &str, fields: &[(&str, Kind, bool)]) -> Callsite {
    let field = |&(name, kind, argument): &(&str, Kind, bool)| Field {
        name: name.into(),
        kind: FieldKind::plain(kind),
        argument,
    };
    Callsite {
        level: Level::Info,
        line: 142,
        file: "src/net/session.rs".into(),
        module: "shop::net::session".into(),
        message: message.into(),
        fields: fields.iter().map(field).collect(),
        ..Callsite::default()
    }
}

fn blob(payload: &mut Vec<u8>, text: &str) {
    payload.extend_from_slice(&(text.len() as u32).to_le_bytes());
    payload.extend_from_slice(text.as_bytes());
}

fn arguments(number: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend_from_slice(&(number * 7_919 % 10_000_000).to_le_bytes());
    payload.extend_from_slice(&((number * 31 % 1_000_000) as f64 / 97.0).to_le_bytes());
    payload.extend_from_slice(&((number as i32 * 37) % 5_000 - 2_500).to_le_bytes());
    blob(
        &mut payload,
        ["EURUSD-1", "AAPL-2026-11", "BTC-PERP-99", "MSFT-W1-call"][number as usize % 4],
    );
    payload
}

fn span(payload: &mut Vec<u8>, name: &str, fields: &[u8]) {
    payload.extend_from_slice(&(name.len() as u16).to_le_bytes());
    payload.extend_from_slice(name.as_bytes());
    payload.extend_from_slice(&(fields.len() as u16).to_le_bytes());
    payload.extend_from_slice(fields);
}

/// A QUIC event as the `tracing` layer writes it: a span with two fields, four fields of its own.
fn event(number: u64) -> Vec<u8> {
    let inline = |fields: &mut Vec<u8>, kind: Kind, key: &str| {
        fields.extend_from_slice(&[kind.code(), 0xff]);
        fields.extend_from_slice(&(key.len() as u16).to_le_bytes());
        fields.extend_from_slice(key.as_bytes());
    };
    let mut fields = Vec::new();
    inline(&mut fields, Kind::Display, "side");
    blob(&mut fields, "Server");
    inline(&mut fields, Kind::Display, "remote");
    blob(&mut fields, "127.0.0.1:40321");
    let mut spans = Vec::new();
    span(&mut spans, "connection", &fields);
    let mut payload = vec![Kind::Scope.code(), 0xff, 0, 0];
    payload.extend_from_slice(&(spans.len() as u32).to_le_bytes());
    payload.extend_from_slice(&spans);
    for (index, value) in [number % 1_000_000, 1_452, number % 64].into_iter().enumerate() {
        payload.extend_from_slice(&[Kind::U64.code(), index as u8]);
        payload.extend_from_slice(&value.to_le_bytes());
    }
    payload.extend_from_slice(&[Kind::Display.code(), 3]);
    blob(&mut payload, "Data");
    payload
}

const TEXT: &str = "user 81723 added item 5512 to the basket, which now holds 7 items";

/// Four arguments in the message: a u64, an f64 with two decimals, an i32 and a short string.
fn order_site() -> Callsite {
    let four = [
        ("", Kind::U64, true),
        ("", Kind::F64, true),
        ("", Kind::I32, true),
        ("", Kind::Str, true),
    ];
    site("order {} filled at {:.2} with {} left on {} today", &four)
}

/// The same as fields.
fn keys_site() -> Callsite {
    let keys = [
        ("id", Kind::U64, false),
        ("price", Kind::F64, false),
        ("left", Kind::I32, false),
        ("on", Kind::Str, false),
    ];
    site("order filled", &keys)
}

fn event_site() -> Callsite {
    let fields = [
        ("pn", Kind::U64, false),
        ("len", Kind::U64, false),
        ("stream", Kind::U64, false),
        ("kind", Kind::Str, false),
    ];
    Callsite {
        dynamic: true,
        ..site("got frame", &fields)
    }
}

fn string(_number: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    blob(&mut payload, TEXT);
    payload
}

fn cases() -> Vec<Case> {
    let case = |name, style, site: Callsite, payload: fn(u64) -> Vec<u8>| Case {
        name,
        style,
        site,
        payloads: (0..64).map(payload).collect(),
    };
    let string_site = || site("{}", &[("", Kind::Str, true)]);
    vec![
        case("text-literal", Style::Text, site(TEXT, &[]), |_| Vec::new()),
        case("text-string", Style::Text, string_site(), string),
        case("text-args", Style::Text, order_site(), arguments),
        case("text-fields", Style::Text, keys_site(), arguments),
        case("text-event", Style::Text, event_site(), event),
        case("glog-args", Style::Glog, order_site(), arguments),
        case("json-string", Style::Json, string_site(), string),
        case("json-args", Style::Json, order_site(), arguments),
        case("json-fields", Style::Json, keys_site(), arguments),
        case("json-event", Style::Json, event_site(), event),
        case("logfmt-fields", Style::Logfmt, keys_site(), arguments),
    ]
}

fn record(number: u64, payload: &[u8]) -> Record<'_> {
    Record {
        unix_ns: START_NS + number * 137,
        thread: Thread {
            name: "worker-03",
            id: 4_711,
        },
        payload,
    }
}

/// One round with a lookup of the prefix for each line: nanoseconds per line.
fn round(layout: &mut Layout, plan: &Plan, payloads: &[Vec<u8>], buffer: &mut [u8]) -> f64 {
    let started = Instant::now();
    let mut length = 0;
    for (number, payload) in (0..LINES).zip(payloads.iter().cycle()) {
        let mut out = LineBuffer::resume(buffer, length);
        if layout.line(plan, &record(number, payload), &mut out) != Outcome::Done {
            length = 0;
            continue;
        }
        length = out.len();
    }
    black_box(&buffer[..length]);
    started.elapsed().as_nanos() as f64 / LINES as f64
}

/// One round behind a shared prefix, where the plan and the length of the prefix allow it.
fn round_shared(layout: &mut Layout, plan: &Plan, payloads: &[Vec<u8>], buffer: &mut [u8]) -> Option<f64> {
    let started = Instant::now();
    let mut prefix = layout.shared_prefix(plan, &record(0, &payloads[0]))?;
    let mut out = LineBuffer::new(buffer);
    let mut lines = 0;
    for (number, payload) in (0..LINES).zip(payloads.iter().cycle()) {
        let is_written = layout.line_after(&mut prefix, plan, &record(number, payload), &mut out);
        lines += u64::from(is_written);
    }
    assert_eq!(lines, LINES, "a buffer holds a round");
    black_box(out.as_bytes());
    Some(started.elapsed().as_nanos() as f64 / LINES as f64)
}

fn print_row(name: &str, bytes: usize, mut rounds: Vec<f64>) {
    rounds.sort_by(f64::total_cmp);
    let (median, least) = (rounds[rounds.len() / 2], rounds[0]);
    println!("{name:22} {bytes:>6} {median:>8.1} {least:>8.1}");
}

fn main() {
    let only = std::env::args().nth(1);
    let rounds = std::env::args().nth(2);
    let rounds = rounds.map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    let mut buffer = vec![0u8; 1 << 20];
    println!("{:22} {:>6} {:>8} {:>8}", "case", "bytes", "median", "min");
    for case in cases() {
        let shared_name = format!("{}-shared", case.name);
        let is_wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
        if !is_wanted(case.name) && !is_wanted(&shared_name) {
            continue;
        }
        let mut layout =
            Layout::new(LayoutOptions::from(case.style), ProcessInfo::default()).expect("a known style");
        let plan = layout.compile(&case.site);
        let mut out = LineBuffer::new(&mut buffer);
        assert_eq!(
            layout.line(&plan, &record(0, &case.payloads[0]), &mut out),
            Outcome::Done
        );
        let bytes = out.len();
        println!("    {}", String::from_utf8_lossy(out.as_bytes()).trim_end());
        if is_wanted(case.name) {
            let times = (0..rounds).map(|_| round(&mut layout, &plan, &case.payloads, &mut buffer));
            print_row(case.name, bytes, times.collect());
        }
        if is_wanted(&shared_name) {
            let times: Option<Vec<f64>> = (0..rounds)
                .map(|_| round_shared(&mut layout, &plan, &case.payloads, &mut buffer))
                .collect();
            if let Some(times) = times {
                print_row(&shared_name, bytes, times);
            }
        }
    }
}
