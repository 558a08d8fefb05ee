//! Random rows, and what they say, for the tests of segments and batches.

use logdrive_store::{Block, Row, RowCallsite, RowThread, RowWriter, Rows};
use logdrive_testkit::Random;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, Level};

/// A row with what its numbers stand for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Whole {
    pub(crate) callsite: Option<Callsite>,
    pub(crate) level: Option<Level>,
    pub(crate) thread: Option<u32>,
    pub(crate) unix_ns: u64,
    pub(crate) payload: Vec<u8>,
}

pub(crate) fn all(rows: &[u8], callsites: &[Callsite]) -> Vec<Whole> {
    let mut rows = Rows::new(rows);
    let mut found = Vec::new();
    while let Some(Row {
        callsite,
        line_level,
        thread,
        unix_ns,
        payload,
    }) = rows.next_row().expect("rows")
    {
        found.push(Whole {
            callsite: callsite.map(|number| callsites[number as usize].clone()),
            level: line_level,
            thread,
            unix_ns,
            payload: payload.to_vec(),
        });
    }
    found
}

pub(crate) fn of_block(block: &Block) -> Vec<Whole> {
    let callsites: Vec<Callsite> = block
        .head()
        .callsites
        .iter()
        .map(|found| found.callsite.clone())
        .collect();
    all(&block.rows().expect("rows"), &callsites)
}

fn field_kinds() -> Vec<FieldKind> {
    (1..=255u8)
        .filter_map(|code| FieldKind::from_code(code).ok())
        .collect()
}

fn put_value(random: &mut Random, kind: FieldKind, out: &mut Vec<u8>) {
    if kind.optional {
        let is_present = random.below(3) > 0;
        out.push(u8::from(is_present));
        if !is_present {
            return;
        }
    }
    let bytes = random.bits().to_le_bytes();
    match kind.kind {
        Kind::Bool => out.push(bytes[0] & 1),
        Kind::I8 | Kind::U8 => out.push(bytes[0]),
        Kind::I16 | Kind::U16 => out.extend_from_slice(&bytes[..2]),
        Kind::I32 | Kind::U32 | Kind::F32 => out.extend_from_slice(&bytes[..4]),
        Kind::I64 | Kind::U64 | Kind::Pointer => out.extend_from_slice(&bytes),
        Kind::F64 => {
            let value = random.below(100_000) as f64 / 100.0;
            let value = if bytes[0] < 8 {
                f64::from_le_bytes(bytes)
            } else {
                value
            };
            out.extend_from_slice(&value.to_le_bytes());
        }
        Kind::I128 | Kind::U128 => out.extend([bytes, bytes].concat()),
        Kind::Char => out.extend_from_slice(&u32::from(char::from(bytes[0])).to_le_bytes()),
        Kind::None => {}
        Kind::Scope => out.extend_from_slice(&0u32.to_le_bytes()),
        _ => {
            let text = match random.below(3) {
                0 => "BTCUSD".to_owned(),
                1 => String::new(),
                _ => format!("peer 10.0.0.{} said \"{:x}\"", bytes[0], random.bits()),
            };
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    }
}

pub(crate) fn callsite(random: &mut Random, number: usize) -> Callsite {
    let kinds = field_kinds();
    let is_dynamic = random.below(3) == 0;
    let level = Level::from_code(random.below(6) as u8).expect("a level");
    let fields = (0..random.below(9)).map(|field| Field {
        name: format!("field{field}"),
        kind: loop {
            let kind = kinds[random.below(kinds.len() as u64) as usize];
            if !matches!(kind.kind, Kind::Scope | Kind::Message) {
                break kind;
            }
        },
        argument: false,
    });
    Callsite {
        dynamic: is_dynamic,
        line: number as u32,
        level,
        message: format!("message {number}"),
        fields: fields.collect(),
        ..Callsite::default()
    }
}

/// Mostly a sound payload; sometimes one that is cut or has an unknown tag.
fn payload(random: &mut Random, site: &Callsite) -> Vec<u8> {
    let mut out = sound_payload(random, site);
    if random.one_in(50) {
        match site.dynamic {
            true => out.insert(0, 0xfe),
            false => drop(out.pop()),
        }
    }
    out
}

fn sound_payload(random: &mut Random, site: &Callsite) -> Vec<u8> {
    let mut out = Vec::new();
    if !site.dynamic {
        site.fields
            .iter()
            .for_each(|field| put_value(random, field.kind, &mut out));
        return out;
    }
    let kinds = field_kinds();
    for number in 0..random.below(4) {
        // Few shapes, so that some have many records.
        let kind = kinds[(site.line as usize * 7 + number as usize * 3) % kinds.len()];
        out.push(kind.code());
        match (number as usize) < site.fields.len() {
            true => out.push(number as u8),
            false => out.extend(b"\xff\x03\x00key"),
        }
        put_value(random, kind, &mut out);
    }
    out
}

/// Rows of random records, and those records.
pub(crate) fn random_rows(random: &mut Random, count: usize) -> (Vec<u8>, Vec<Whole>) {
    let sites: Vec<Callsite> = (0..8).map(|number| callsite(random, number)).collect();
    let named: Vec<RowCallsite> = sites
        .iter()
        .map(|site| RowCallsite::new(site, None).expect("a callsite"))
        .collect();
    let names = ["main", "worker", "", "größe"];
    let (mut writer, mut out, mut at) = (RowWriter::default(), vec![0; 4 << 20], 0);
    let mut unix_ns = 1_700_000_000_000_000_000;
    let mut expected = Vec::new();
    for _ in 0..count {
        unix_ns = unix_ns + random.below(2_000) - 500;
        let number = random.below(sites.len() as u64 + 1) as usize;
        if let Some(site) = sites.get(number) {
            let payload = payload(random, site);
            let name = random.below(4) as usize;
            let thread = RowThread {
                id: name as u64 + 7,
                name: names[name],
            };
            at = writer
                .record(&mut out, at, &named[number], thread, unix_ns, &payload)
                .expect("room");
            expected.push((Some(site.clone()), None, unix_ns, payload));
        } else {
            let line = match random.below(4) {
                0 => format!(
                    "2026-11-24 04:{:02}:00,{:03} INFO block blk_-{} of 10.0.0.{}",
                    random.below(60),
                    random.below(1000),
                    random.bits() >> 2,
                    random.below(256)
                ),
                1 => format!(
                    "GET /index/{:x} took {}ms 007",
                    random.bits() >> 40,
                    random.below(5000)
                ),
                2 => "no variable \x11 but a mark".to_owned(),
                _ => format!("line {}", random.bits()),
            };
            let level = Level::from_code(random.below(9) as u8);
            at = writer
                .line(&mut out, at, level, unix_ns, line.as_bytes())
                .expect("room");
            expected.push((None, level, unix_ns, line.into_bytes()));
        }
    }
    out.truncate(at);
    let mut rows = Rows::new(&out);
    let expected = expected.into_iter().map(|(callsite, level, unix_ns, payload)| {
        let row = rows.next_row().expect("rows").expect("one");
        Whole {
            callsite,
            level,
            thread: row.thread,
            unix_ns,
            payload,
        }
    });
    let expected = expected.collect();
    (out, expected)
}

/// The rows of `vectors/segment.json`: a record of fixed kinds, a dynamic one, a gap, and lines of text.
pub(crate) fn vector_rows() -> Vec<u8> {
    let field = |name: &str, kind| Field {
        name: name.into(),
        kind: FieldKind::plain(kind),
        argument: true,
    };
    let order = Callsite {
        line: 42,
        file: "src/shop.rs".into(),
        module: "shop".into(),
        message: "order {0} of {1}".into(),
        fields: vec![field("id", Kind::U64), field("symbol", Kind::Str)],
        ..Callsite::default()
    };
    let other = Callsite {
        dynamic: true,
        level: Level::Warn,
        message: "slow".into(),
        ..Callsite::default()
    };
    let order = RowCallsite::new(&order, None).expect("a callsite");
    let other = RowCallsite::new(&other, None).expect("a callsite");
    let (mut writer, mut out, mut at) = (RowWriter::default(), vec![0; 1 << 16], 0);
    let main = RowThread {
        id: 417,
        name: "main",
    };
    for number in 0..12u64 {
        let time = 1_700_000_000_000_000_000 + 250 * number;
        let payload = [
            &(7_000 + number).to_le_bytes()[..],
            &6u32.to_le_bytes(),
            b"BTCUSD",
        ]
        .concat();
        at = writer
            .record(&mut out, at, &order, main, time, &payload)
            .expect("room");
        let payload = [&b"\x0c\xff\x04\x00took"[..], &1.5f32.to_le_bytes()].concat();
        at = writer
            .record(
                &mut out,
                at,
                &other,
                RowThread { id: 418, name: "" },
                time + 7,
                &payload,
            )
            .expect("room");
        let line = format!(
            "08:00:{number:02} block blk_{} is 0x7f in {number}ms",
            900 + number * 31
        );
        at = writer
            .line(&mut out, at, Some(Level::Info), time + 9, line.as_bytes())
            .expect("room");
    }
    out.truncate(at);
    out
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16).expect("hex"))
        .collect()
}
