//! Random queries give the same records, whether the columns of a segment are asked or each of its records is taken apart, and
//! whether lines of text are searched in all their bytes by threads or taken apart one by one.

use logdrive_query::{Query, Record};
use logdrive_reader::{
    Filter, Input, LogFile, QueryScan, ReadError, SegmentForm, Sink, Source, SourceOptions, SourceRecord,
    Task, merge,
};
use logdrive_store::{BlockPlaces, RowCallsite, RowThread, SegmentWriter};
use logdrive_testkit::Random;
use logdrive_wire::kind::{FieldKind, Kind};
use logdrive_wire::{Callsite, Field, Level};
use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

const BEGIN_NS: u64 = 1_795_264_496_000_000_000;
const RECORDS: u64 = 700;
const QUERIES: usize = 250;

const TEXTS: [&str; 12] = [
    "ann", "bob", "", "7", "7.0", "ann bob", "a_b", "Ann", "x:ann", "größe", "250", "None",
];

fn field(name: &str, kind: Kind, optional: bool, argument: bool) -> Field {
    Field {
        name: name.to_owned(),
        kind: FieldKind { kind, optional },
        argument,
    }
}

/// Statements of all kinds of columns, with messages that show values and such that do not.
fn callsites() -> Vec<Callsite> {
    let site = |level, line, message: &str, fields| Callsite {
        level,
        line,
        file: "src/shop.rs".to_owned(),
        module: "shop::net".to_owned(),
        message: message.to_owned(),
        fields,
        ..Callsite::default()
    };
    vec![
        site(
            Level::Info,
            1,
            "order filled",
            vec![
                field("id", Kind::U64, false, false),
                field("user", Kind::Str, false, false),
                field("n", Kind::I32, false, false),
                field("uid", Kind::I64, false, false),
            ],
        ),
        site(
            Level::Warn,
            2,
            "slow {user} took{n} of {x}",
            vec![
                field("user", Kind::Str, false, true),
                field("n", Kind::I64, true, true),
                field("x", Kind::F64, false, true),
            ],
        ),
        site(
            Level::Error,
            3,
            "user {user} has {n}",
            vec![
                field("user", Kind::Str, false, true),
                field("n", Kind::U8, false, true),
                field("ok", Kind::Bool, true, false),
            ],
        ),
        site(
            Level::Debug,
            4,
            "ann {{braces}}",
            vec![
                field("n", Kind::I128, false, false),
                field("user", Kind::Char, false, false),
            ],
        ),
    ]
}

fn pick(random: &mut Random, texts: &[&'static str]) -> &'static str {
    let text: &&str = random.pick(texts);
    text
}

fn value(random: &mut Random, field: &Field, row: u64) -> Vec<u8> {
    let number = random.below(300) as i64 - 20;
    let mut out = Vec::new();
    if field.kind.optional {
        let is_present = random.one_in(2);
        out.push(u8::from(is_present));
        if !is_present {
            return out;
        }
    }
    let str_bytes = |text: &str| [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    match field.kind.kind {
        Kind::Bool => out.push(u8::from(number > 100)),
        Kind::U8 => out.push(number.unsigned_abs() as u8),
        Kind::I64 if field.name == "uid" => out.extend(uid(row).to_le_bytes()),
        Kind::I32 => out.extend((number as i32).to_le_bytes()),
        Kind::I64 => out.extend(number.to_le_bytes()),
        Kind::U64 => out.extend(row.to_le_bytes()),
        Kind::I128 => out.extend(i128::from(number).to_le_bytes()),
        Kind::F64 => out.extend((number as f64 / 4.0).to_le_bytes()),
        Kind::Char => out.extend(u32::from(*random.pick(&['a', '7', 'ö'])).to_le_bytes()),
        // Some blocks have a dictionary, others have not.
        _ if random.one_in(3) => out.extend(str_bytes(&format!("req-{row} ann{}", row % 7))),
        _ => out.extend(str_bytes(pick(random, &TEXTS))),
    }
    out
}

/// A number that one record alone has.
fn uid(row: u64) -> i64 {
    (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).cast_signed()
}

fn write_segment(path: &Path, random: &mut Random) {
    let sites = callsites();
    let rows: Vec<RowCallsite> = sites
        .iter()
        .map(|site| RowCallsite::new(site, None).expect("names are short"))
        .collect();
    let mut writer = SegmentWriter::new(File::create(path).expect("a file"));
    for row in 0..RECORDS {
        let number = random.index(sites.len());
        let fields = sites[number].fields.iter();
        let payload: Vec<u8> = fields.flat_map(|field| value(random, field, row)).collect();
        let thread = RowThread {
            id: 4_711 + row % 2,
            name: if row % 2 == 0 { "main" } else { "" },
        };
        // Some seconds, and so some blocks.
        let time = BEGIN_NS + row * 5_000_000;
        writer
            .record(&rows[number], thread, time, &payload)
            .expect("it is written");
    }
    writer.flush().expect("it is written");
}

fn test(random: &mut Random) -> String {
    let field = *random.pick(&[
        "user", "n", "id", "uid", "x", "ok", "message", "thread", "module", "line", "none",
    ]);
    let text = *random.pick(&TEXTS);
    let word = if text.is_empty() { "ann" } else { text };
    let number = random.below(300) as i64 - 20;
    let own = uid(random.below(RECORDS + RECORDS / 4));
    match random.below(21) {
        0 | 1 => format!("\"{word}\""),
        2 => format!("\"{word}\"*"),
        3 => format!("*\"{text}x\"* or *\"req-{number}\"*"),
        4 => format!("{field}:\"{text}\""),
        5 => format!("{field}:=\"{text}\""),
        6 => format!("{field}:=\"{number}\""),
        7 => format!("{field}:>{number}"),
        8 => format!("{field}:<={number}.5"),
        9 => format!("{field}:range[{number}, {})", number + 60),
        10 => format!("{field}:in(\"{text}\", \"{number}\", main)"),
        11 => format!("{field}:*"),
        12 => format!("{field}:\"\""),
        13 => format!("{field}:~\"[aA]nn.*[0-9]\""),
        14 => format!("level:{}", pick(random, &["info", ">=warn", "in(debug, error)"])),
        15 => format!("_time:>2026-11-21T12:34:{:02}", 56 + random.below(4)),
        16 => format!("i(\"{text}x\") or {field}:i(ANN)"),
        17 => format!(
            "\"{}\" or \"req-{} ann1\"",
            own.unsigned_abs(),
            random.below(RECORDS)
        ),
        18 => format!("uid:=\"{own}\" or {field}:in(\"{own}\", \"{number}\")"),
        19 => format!("uid:range({}, {})", i128::from(own) - 2, i128::from(own) + 2),
        _ => "~\"took[0-9]+ of\"".to_owned(),
    }
}

fn query(random: &mut Random) -> String {
    let mut text = String::new();
    for number in 0..=random.below(3) {
        if number > 0 {
            text.push_str(pick(random, &[" and ", " or ", " "]));
        }
        if random.one_in(4) {
            text.push_str("not ");
        }
        text.push_str(&format!("({})", test(random)));
    }
    text
}

/// Lines that pass.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Task for Lines {
    type Made = Vec<u8>;

    fn take(&mut self, record: &mut dyn Record) -> ControlFlow<()> {
        self.0.extend_from_slice(record.line().expect("it has a line"));
        ControlFlow::Continue(())
    }

    fn made(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

impl Sink for Lines {
    type Error = ReadError;

    fn take(&mut self, record: &SourceRecord<'_>) -> Result<(), ReadError> {
        self.0.extend_from_slice(record.bytes);
        Ok(())
    }

    fn before_wait(&mut self) -> Result<(), ReadError> {
        Ok(())
    }

    fn failed(&mut self, error: ReadError) -> Result<(), ReadError> {
        Err(error)
    }
}

fn by_query(path: &Path, filter: &Filter) -> String {
    let files = vec![LogFile::alone(path.to_owned())];
    let mut scan =
        QueryScan::start(files, filter, &SegmentForm::Text, Lines::default).expect("threads start");
    let mut found = Vec::new();
    while let Some(part) = scan.next_part(Duration::from_secs(1)) {
        assert!(part.failures.is_empty(), "{:?}", part.failures);
        part.before
            .into_iter()
            .chain(part.made)
            .for_each(|lines| found.extend(lines));
    }
    String::from_utf8_lossy(&found).into_owned()
}

fn by_records(path: &Path, filter: &Filter, threads: usize) -> String {
    let options = SourceOptions {
        chunk_bytes: 64 * 1024,
        keep_order: true,
    };
    let input = Input::new(vec![LogFile::alone(path.to_owned())]);
    let mut source = Source::new(String::new(), input, options);
    if threads > 0 {
        source.start_threads(filter, threads, None, None);
    }
    let mut lines = Lines::default();
    merge(&mut [source], filter, &mut lines).expect("it is read");
    String::from_utf8_lossy(&lines.0).into_owned()
}

#[test]
fn columns_and_records_give_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let (segment, text) = (dir.path().join("x.segment"), dir.path().join("x.log"));
    let mut random = Random::seeded(17);
    write_segment(&segment, &mut random);
    let all = by_records(&segment, &Filter::default(), 0);
    assert_eq!(all.lines().count() as u64, RECORDS);
    // Parts of a mebibyte, so that some begin in the middle of the file.
    std::fs::write(&text, all.repeat(24)).expect("a file");
    let mut found_some = 0;
    for _ in 0..QUERIES {
        let asked = query(&mut random);
        let plan = Query::parse(&asked).expect(&asked).plan(BEGIN_NS);
        let filter = Filter::default().asking(plan);
        let expected = by_records(&segment, &filter, 0);
        assert_eq!(by_query(&segment, &filter), expected, "{asked} of columns");
        found_some += u64::from(!expected.is_empty() && expected != all);
    }
    assert!(found_some > QUERIES as u64 / 4, "{found_some}");
    for _ in 0..QUERIES / 10 {
        let asked = query(&mut random);
        let plan = Query::parse(&asked).expect(&asked).plan(BEGIN_NS);
        let filter = Filter::default().asking(plan);
        let expected = by_records(&text, &filter, 0);
        assert_eq!(by_records(&text, &filter, 2), expected, "{asked} of text");
    }
}

/// Asks a segment in which the columns of all blocks are damaged but those of one.
#[test]
fn what_one_block_has_is_found_without_the_columns_of_others() {
    const WHOLE: usize = 2;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.segment");
    write_segment(&path, &mut Random::seeded(18));
    let mut bytes = std::fs::read(&path).expect("a file");
    let file = File::open(&path).expect("a file");
    let mut places = BlockPlaces::new();
    let mut blocks = Vec::new();
    while let Some(place) = places.next_place(&file, bytes.len() as u64).expect("it is read") {
        blocks.push(place);
    }
    assert!(blocks.len() > 3, "{}", blocks.len());
    let mut rows_before = 0;
    let mut first = 0;
    for (number, place) in blocks.iter().enumerate() {
        let head = place.read_head(&file).expect("it is read").expect("a head");
        match number {
            WHOLE => first = rows_before,
            _ => bytes[place.offset as usize + place.head_bytes] ^= 1,
        }
        rows_before += head.records as u64;
    }
    let lines = by_records(&path, &Filter::default(), 0);
    let lines: Vec<&str> = lines.lines().skip(first as usize).collect();
    std::fs::write(&path, bytes).expect("a file");
    let value = |name: &str| {
        let values = lines.iter().take(50).filter_map(|line| line.split_once(name));
        values
            .map(|found| found.1.split(' ').next().unwrap_or_default().to_owned())
            .next()
    };
    let (uid, id) = (
        value(" uid=").expect("a record"),
        value(" id=").expect("a record"),
    );
    let word = uid.trim_start_matches('-');
    for (asked, count) in [
        (format!("uid:={uid}"), 1),
        (format!("uid:in({uid}, 7)"), 1),
        (format!("id:={id}"), 1),
        (
            format!("id:range({}.5, {id}]", id.parse::<u64>().expect("a number") - 1),
            1,
        ),
        (format!("{word} level:info"), 1),
        (format!("user:{word}"), 0),
        ("user:\"nobody here\"".to_owned(), 0),
        ("x:>1000000".to_owned(), 0),
        ("\"nowhere at all\" -level:warn".to_owned(), 0),
    ] {
        println!("{asked}");
        let plan = Query::parse(&asked).expect(&asked).plan(BEGIN_NS);
        let found = by_query(&path, &Filter::default().asking(plan));
        assert_eq!(found.lines().count(), count, "{asked}: {found}");
    }
}
