//! Random queries over random records, held against an evaluator that is written as simply as it can be: it shares no code
//! with the crate but the reading of the query, which is written from the model's own tree.

use logdrive_query::{Query, Record, Row};
use logdrive_testkit::Random;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

const FIELDS: [&str; 4] = ["user", "n", "note", "message"];
const VALUES: [&str; 14] = [
    "ann", "bob", "", "7", "7.0", "-3", "12", "ann bob", "annbob", "a_b", "Ann", "x:ann", "größe", "1.5",
];
const TEXTS: [&str; 9] = ["ann", "bob", "a", "7", "ann bob", "Ann", "or", "größe", "x:a"];
const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];
const NOW: u64 = 1_795_264_496_000_000_000;

/// A filter of the model.
#[derive(Debug, Clone)]
enum Model {
    All,
    And(Vec<Model>),
    Or(Vec<Model>),
    Not(Box<Model>),
    Word(Option<&'static str>, &'static str, bool),
    Anywhere(Option<&'static str>, &'static str),
    Exact(&'static str, &'static str),
    Exists(&'static str),
    Empty(&'static str),
    In(&'static str, Vec<&'static str>),
    Above(&'static str, i64),
    Between(&'static str, i64, i64),
    FromLevel(usize),
    LastSeconds(u64),
}

fn one_of(random: &mut Random, texts: &[&'static str]) -> &'static str {
    let text: &&str = random.pick(texts);
    text
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

impl Model {
    fn random(random: &mut Random, depth: u32) -> Self {
        let field = one_of(random, &FIELDS);
        let some_field = random.maybe(|_| field);
        let inner = |random: &mut Random| Self::random(random, depth - 1);
        match random.below(if depth == 0 { 11 } else { 15 }) {
            0 => Self::All,
            1 | 2 => Self::Word(some_field, one_of(random, &TEXTS), random.one_in(2)),
            3 => Self::Anywhere(some_field, one_of(random, &TEXTS)),
            4 => Self::Exact(field, one_of(random, &VALUES)),
            5 => Self::Exists(field),
            6 => Self::Empty(field),
            7 => Self::In(
                field,
                (0..=random.below(3)).map(|_| one_of(random, &VALUES)).collect(),
            ),
            8 => Self::Above(field, random.below(16) as i64 - 4),
            9 => Self::Between(field, random.below(8) as i64 - 4, random.below(16) as i64),
            10 if random.one_in(2) => Self::FromLevel(random.index(LEVELS.len())),
            10 => Self::LastSeconds(1 + random.below(10)),
            11 | 12 => Self::And((0..=random.below(3)).map(|_| inner(random)).collect()),
            13 => Self::Or((0..=random.below(3)).map(|_| inner(random)).collect()),
            _ => Self::Not(Box::new(inner(random))),
        }
    }

    fn text(&self) -> String {
        let joined = |all: &[Self], between: &str| {
            let texts: Vec<String> = all.iter().map(Self::text).collect();
            format!("({})", texts.join(between))
        };
        let of = |field: &Option<&str>| field.map_or(String::new(), |field| format!("{field}:"));
        match self {
            Self::All => "*".to_owned(),
            Self::And(all) => joined(all, if all.len() > 2 { " " } else { " and " }),
            Self::Or(any) => joined(any, " or "),
            Self::Not(inner) => format!("-{}", inner.text()),
            Self::Word(field, text, prefix) => {
                format!("{}{}{}", of(field), quoted(text), if *prefix { "*" } else { "" })
            }
            Self::Anywhere(field, text) => format!("{}*{}*", of(field), quoted(text)),
            Self::Exact(field, value) => format!("{field}:={}", quoted(value)),
            Self::Exists(field) => format!("{field}:*"),
            Self::Empty(field) => format!("{field}:\"\""),
            Self::In(field, values) => {
                let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
                format!("{field}:in({})", values.join(","))
            }
            Self::Above(field, number) => format!("{field}:>{number}"),
            Self::Between(field, low, high) => format!("{field}:range[{low}, {high})"),
            Self::FromLevel(level) => format!("level:>={}", LEVELS[*level]),
            Self::LastSeconds(count) => format!("_time:{count}s"),
        }
    }

    fn passes(&self, record: &Sample) -> bool {
        let values = |field: &Option<&'static str>| match field {
            Some(field) => record.values(field),
            None => FIELDS.iter().flat_map(|field| record.values(field)).collect(),
        };
        let number = |value: &str| value.parse::<f64>().ok();
        match self {
            Self::All => true,
            Self::And(all) => all.iter().all(|one| one.passes(record)),
            Self::Or(any) => any.iter().any(|one| one.passes(record)),
            Self::Not(inner) => !inner.passes(record),
            Self::Word(field, text, prefix) => {
                values(field).iter().any(|value| has_word(value, text, *prefix))
            }
            Self::Anywhere(field, text) => values(field).iter().any(|value| value.contains(text)),
            Self::Exact(field, wanted) => record.values(field).iter().any(|value| value == wanted),
            Self::Exists(field) => record.values(field).iter().any(|value| !value.is_empty()),
            Self::Empty(field) => record.values(field).iter().all(|value| value.is_empty()),
            Self::In(field, wanted) => record.values(field).iter().any(|value| wanted.contains(value)),
            Self::Above(field, least) => {
                let mut numbers = record.values(field).into_iter().filter_map(number);
                numbers.any(|number| number > *least as f64)
            }
            Self::Between(field, low, high) => {
                let mut numbers = record.values(field).into_iter().filter_map(number);
                numbers.any(|number| number >= *low as f64 && number < *high as f64)
            }
            Self::FromLevel(least) => record.level >= *least,
            Self::LastSeconds(count) => record.age_s <= *count,
        }
    }
}

fn has_word(value: &str, text: &str, prefix: bool) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    value.match_indices(text).any(|(at, _)| {
        let starts = !value[..at].ends_with(is_word);
        let ends = prefix || !value[at + text.len()..].starts_with(is_word);
        starts && ends
    })
}

/// A record of the model.
#[derive(Debug)]
struct Sample {
    level: usize,
    age_s: u64,
    fields: Vec<(&'static str, &'static str)>,
}

impl Sample {
    fn random(random: &mut Random) -> Self {
        let mut fields = vec![("message", one_of(random, &VALUES))];
        for field in ["user", "n", "note", "user"] {
            fields.extend(random.maybe(|random| (field, one_of(random, &VALUES))));
        }
        Self {
            level: random.index(LEVELS.len()),
            age_s: random.below(12),
            fields,
        }
    }

    fn values(&self, field: &str) -> Vec<&'static str> {
        let own = self.fields.iter().filter(|(name, _)| *name == field);
        own.map(|(_, value)| *value).collect()
    }

    fn first(&self, field: &str) -> &'static str {
        self.values(field).first().copied().unwrap_or_default()
    }

    fn row(&self) -> Row {
        let mut row = Row::default();
        let time = jiff_text(NOW - self.age_s * 1_000_000_000);
        row.push("_time", time);
        row.push("level", LEVELS[self.level].to_uppercase());
        self.fields.iter().for_each(|(name, value)| row.push(name, value));
        row
    }
}

fn jiff_text(unix_ns: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).expect("it is in range");
    format!("{time:.9}")
}

#[test]
fn random_filters_agree_with_the_model() {
    Random::rounds(4_000, |random| {
        let model = Model::random(random, 3);
        let text = model.text();
        let query = Query::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let again = query.to_string();
        assert_eq!(Query::parse(&again).as_ref(), Ok(&query), "{text} became {again}");
        let plan = query.plan(NOW);
        for _ in 0..12 {
            let sample = Sample::random(random);
            let mut row = sample.row();
            let passes = model.passes(&sample);
            assert_eq!(plan.matches(&mut row), passes, "{text} of {sample:?}");
            // What is certain beforehand is so.
            if passes {
                let time = NOW - sample.age_s * 1_000_000_000;
                assert!(
                    (plan.times().0..=plan.times().1).contains(&time),
                    "{text} of {sample:?}"
                );
                assert!(plan.may_have_level(row.level()), "{text} of {sample:?}");
                let pairs: Vec<String> = sample
                    .fields
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                assert!(plan.may_match(pairs.join(" ").as_bytes()), "{text} of {pairs:?}");
            }
        }
    });
}

fn rows_of(query: &str, samples: &[Sample], is_shared: bool) -> Vec<Vec<String>> {
    let query = Query::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let plan = query.plan(NOW);
    let mut rows = Vec::new();
    let mut output = |record: &mut dyn Record| {
        let cells = record.row().cells;
        rows.push(
            cells
                .iter()
                .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
                .collect(),
        );
        ControlFlow::Continue(())
    };
    let mut pipelines = [query.pipeline(NOW), query.pipeline(NOW)];
    for (number, sample) in samples.iter().enumerate() {
        let half = usize::from(is_shared && number >= samples.len() / 2);
        let mut row = sample.row();
        if plan.matches(&mut row) && pipelines[half].push(&mut row, &mut output).is_break() {
            break;
        }
    }
    let [mut whole, other] = pipelines;
    assert!(!is_shared || whole.can_be_shared());
    whole.merge(other);
    whole.finish(&mut output);
    rows
}

fn number_text(number: f64) -> String {
    number.to_string()
}

#[test]
fn statistics_of_random_records_agree_with_plain_ones() {
    Random::rounds(300, |random| {
        let samples: Vec<Sample> = (0..random.below(40)).map(|_| Sample::random(random)).collect();
        let mut groups: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
        for sample in &samples {
            groups.entry(LEVELS[sample.level]).or_default().push(sample);
        }
        let text = "* | stats by (level) count(), count(user), count_uniq(user), sum(n), min(n), max(n), quantile(0.5, n)";
        let mut expected: Vec<Vec<String>> = groups
            .iter()
            .map(|(level, samples)| {
                let users: Vec<&str> = samples
                    .iter()
                    .map(|sample| sample.first("user"))
                    .filter(|user| !user.is_empty())
                    .collect();
                let mut different = users.clone();
                different.sort_unstable();
                different.dedup();
                let mut numbers: Vec<(f64, &str)> = samples
                    .iter()
                    .filter_map(|sample| Some((sample.first("n").parse().ok()?, sample.first("n"))))
                    .collect();
                numbers.sort_by(|own, other| own.0.total_cmp(&other.0).then(own.1.cmp(other.1)));
                let mut texts: Vec<&str> = samples.iter().map(|sample| sample.first("n")).collect();
                texts.retain(|text| !text.is_empty() && text.parse::<f64>().is_err());
                texts.sort_unstable();
                let least = numbers.first().map(|(_, text)| *text).or(texts.first().copied());
                let most = texts.last().copied().or_else(|| {
                    let last = numbers.last()?.0;
                    numbers
                        .iter()
                        .find(|(number, _)| *number == last)
                        .map(|(_, text)| *text)
                });
                let sum: f64 = numbers.iter().map(|(number, _)| number).sum();
                let middle = numbers
                    .get((numbers.len().max(1) - 1) / 2)
                    .map(|(number, _)| number_text(*number));
                let sum = if numbers.is_empty() {
                    String::new()
                } else {
                    number_text(sum)
                };
                vec![
                    level.to_uppercase(),
                    samples.len().to_string(),
                    users.len().to_string(),
                    different.len().to_string(),
                    sum,
                    least.unwrap_or_default().to_owned(),
                    most.unwrap_or_default().to_owned(),
                    middle.unwrap_or_default(),
                ]
            })
            .collect();
        expected.sort();
        for is_shared in [false, true] {
            assert_eq!(rows_of(text, &samples, is_shared), expected, "{samples:?}");
        }
    });
}

#[test]
fn top_uniq_sort_and_limits_agree_with_plain_ones() {
    Random::rounds(300, |random| {
        let samples: Vec<Sample> = (0..random.below(40)).map(|_| Sample::random(random)).collect();
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        samples
            .iter()
            .for_each(|sample| *counts.entry(sample.first("note")).or_default() += 1);
        let total: u64 = counts.values().sum();
        let found = rows_of("* | top 3 by (note)", &samples, true);
        let mut largest: Vec<u64> = counts.values().copied().collect();
        largest.sort_unstable_by(|own, other| other.cmp(own));
        largest.truncate(3);
        let hits: Vec<u64> = found.iter().map(|row| row[1].parse().expect("a count")).collect();
        assert_eq!(hits, largest);
        assert!(found.iter().all(|row| counts[&*row[0]].to_string() == row[1]));
        let found = rows_of("* | uniq by (note) with hits", &samples, true);
        assert_eq!(found.len(), counts.len());
        assert_eq!(
            found
                .iter()
                .map(|row| row[1].parse::<u64>().expect("a count"))
                .sum::<u64>(),
            total
        );
        let found = rows_of(
            "* | fields n, level | filter n:* | sort by (n desc) limit 5",
            &samples,
            false,
        );
        let mut numbers: Vec<f64> = samples
            .iter()
            .filter_map(|sample| sample.first("n").parse().ok())
            .collect();
        numbers.sort_by(|own, other| other.total_cmp(own));
        // Texts are larger than numbers, so that they come first here.
        let texts = samples
            .iter()
            .filter(|sample| !sample.first("n").is_empty() && sample.first("n").parse::<f64>().is_err());
        let texts = texts.count().min(5);
        let tail: Vec<f64> = found[texts..]
            .iter()
            .map(|row| row[0].parse().expect("a number"))
            .collect();
        numbers.truncate(5 - texts);
        assert_eq!(tail, numbers);
        let found = rows_of("* | offset 2 | limit 4", &samples, false);
        assert_eq!(found.len(), samples.len().saturating_sub(2).min(4));
    });
}

/// Threads sort parts by themselves, and leave out what is behind the rows that they gave before.
#[test]
fn parts_that_are_sorted_by_threads_give_the_first_of_all() {
    Random::rounds(20, |random| {
        let descending = random.one_in(2);
        let text = format!(
            "* | sort by (n{}) | limit 7",
            if descending { " desc" } else { "" }
        );
        let empty = Query::parse(&text).expect("a query").pipeline(NOW);
        let (mut all, mut own) = (empty.clone(), empty.clone());
        let mut nothing = |_: &mut dyn Record| ControlFlow::Continue(());
        let mut values = Vec::new();
        for id in 0..3_000 {
            let mut row = Row::default();
            let value = random.maybe(|random| random.below(200));
            value.iter().for_each(|value| row.push("n", value.to_string()));
            row.push("id", id.to_string());
            values.push((value, id));
            let _ = own.push(&mut row, &mut nothing);
            if random.one_in(500) {
                all.merge(own.take_sorted(&empty));
            }
        }
        all.merge(own.take_sorted(&empty));
        let mut found = Vec::new();
        all.finish(&mut |record: &mut dyn Record| {
            record.values("id", &mut |id| {
                found.push(String::from_utf8_lossy(id).into_owned())
            });
            ControlFlow::Continue(())
        });
        // Those without a value come last.
        values.sort_by_key(|(value, id)| {
            let value = value.map(|value| value as i64 * if descending { -1 } else { 1 });
            (value.is_none(), value, *id)
        });
        let expected: Vec<String> = values.iter().take(7).map(|(_, id)| id.to_string()).collect();
        assert_eq!(found, expected, "{text}");
    });
}

#[test]
fn texts_are_taken_apart_by_patterns() {
    for (text, pattern, expected) in [
        (
            "user=ann took 12 ms",
            "extract \"user=<user> took <ms> ms\"",
            ["ann", "12"],
        ),
        (
            "user=ann took 12",
            "extract \"user=<user> took <ms> ms\"",
            ["", ""],
        ),
        ("GET /a?b 200", "extract \"<_> <user> <ms>\"", ["/a?b", "200"]),
        (
            "user=ann took 12 ms",
            "extract_regexp \"user=(?P<user>\\w+).*?(?P<ms>\\d+)\"",
            ["ann", "12"],
        ),
    ] {
        let query = Query::parse(&format!("* | {pattern} from message | fields user, ms")).expect(pattern);
        let mut row = Row::default();
        row.push("message", text);
        let mut found = Vec::new();
        let mut output = |record: &mut dyn Record| {
            found = record.row().cells;
            ControlFlow::Continue(())
        };
        let _ = query.pipeline(0).push(&mut row, &mut output);
        let values: Vec<_> = found
            .iter()
            .map(|(_, value)| String::from_utf8_lossy(value))
            .collect();
        assert_eq!(values, expected, "{pattern}");
    }
}

#[test]
fn groups_and_rows_beyond_the_bounds_are_told() {
    let query = Query::parse("* | stats by (n) count()").expect("it is sound");
    let mut pipeline = query.pipeline(0);
    let mut output = |_: &mut dyn Record| ControlFlow::Continue(());
    let large = "x".repeat(1 << 20);
    for number in 0..120 {
        let mut row = Row::default();
        row.push("n", format!("{number}{large}"));
        let _ = pipeline.push(&mut row, &mut output);
    }
    let mut rows = 0;
    pipeline.finish(&mut |_: &mut dyn Record| {
        rows += 1;
        ControlFlow::Continue(())
    });
    let notes = pipeline.take_notes();
    assert_eq!((rows, notes.len()), (95, 1), "{notes:?}");
    assert!(notes[0].starts_with("25 records are left out"), "{notes:?}");

    let mut pipeline = Query::parse("* | sort by (n desc)")
        .expect("it is sound")
        .pipeline(0);
    for number in 0..300 {
        let mut row = Row::default();
        row.push("n", number.to_string());
        row.push("text", &large);
        let _ = pipeline.push(&mut row, &mut output);
    }
    let mut kept = Vec::new();
    pipeline.finish(&mut |record: &mut dyn Record| {
        record.values("n", &mut |value| {
            kept.push(String::from_utf8_lossy(value).into_owned())
        });
        ControlFlow::Continue(())
    });
    assert_eq!(
        kept.first().map(String::as_str),
        Some("299"),
        "the first ones stay"
    );
    assert!((20..150).contains(&kept.len()));
    assert!(pipeline.take_notes()[0].starts_with("sort keeps 96 MiB"));
}

#[test]
fn mangled_queries_are_read_or_refused_at_a_place() {
    const PIECES: [&str; 40] = [
        "a",
        "user",
        ":",
        "=",
        "~",
        "*",
        "\"",
        "'",
        "`",
        "\\",
        "(",
        ")",
        "[",
        "]",
        ",",
        "|",
        "and",
        " or ",
        " ",
        "not",
        "-",
        "!",
        ">",
        "<=",
        "5",
        "10KiB",
        "range",
        "in",
        "i(",
        "_time",
        "level",
        "warn",
        "2026-11-21",
        "stats",
        "count()",
        " by ",
        "<x>",
        "é",
        "\u{202e}",
        "::",
    ];
    Random::rounds(20_000, |random| {
        let text: String = (0..random.below(16)).map(|_| one_of(random, &PIECES)).collect();
        for read in [Query::parse, Query::parse_condition] {
            match read(&text) {
                Ok(query) => {
                    let again = query.to_string();
                    assert_eq!(Query::parse(&again).as_ref(), Ok(&query), "{text} became {again}");
                    let mut row = Sample::random(random).row();
                    query.plan(NOW).matches(&mut row);
                }
                Err(error) => {
                    assert!(error.offset <= text.len(), "{text}");
                    assert!(error.to_string().contains("\n  "), "{text}: {error}");
                }
            }
        }
    });
}
