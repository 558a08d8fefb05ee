//! Random and mangled texts: whatever stands in a file, reading it ends with a configuration or with problems that can
//! be shown. `LOGDRIVE_SEED` repeats a run, and `LOGDRIVE_TEST_ROUNDS` makes it longer.

use super::init;
use super::parse::parse;
use super::problem::report;
use super::sections::SECTIONS;
use super::testing::Island;
use crate::paint::Paint;
use logdrive_agent::config::Places;
use logdrive_testkit::Random;

/// Pieces that mean something somewhere.
const PIECES: [&str; 40] = [
    "\"\"",
    "\"off\"",
    "\"*\"",
    "\"64 MiB\"",
    "\"-1 B\"",
    "\"9999999999999999999 TiB\"",
    "\"200ms\"",
    "\"P1Y\"",
    "\"-5m\"",
    "\"1e9s\"",
    "0",
    "-1",
    "18446744073709551616",
    "0o777",
    "0x1F",
    "640",
    "1.5",
    "nan",
    "-inf",
    "true",
    "2026-11-21T12:34:56Z",
    "[]",
    "[[]]",
    "[\"main\", \"main\"]",
    "[1, \"a\"]",
    "{}",
    "{ a = 1 }",
    "\"/\"",
    "\"/a/../b\"",
    "\"/{app}{pid}{{\"",
    "\"unix:/x\"",
    "\"[::]:1\"",
    "\"127.0.0.1:0\"",
    "\"a=b=c,,\"",
    "\"id:1\"",
    "\"\\u0000\"",
    "\"\\u202e\"",
    "'''\n'''",
    "\"{time:%Q}\"",
    "=",
];

/// Takes the text apart into lines and puts it together otherwise.
fn mangle(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=random.index(6) {
        if lines.is_empty() {
            lines.push(String::new());
        }
        let at = random.index(lines.len());
        let section = SECTIONS[random.index(SECTIONS.len())];
        match random.index(8) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, section.header()),
            2 => lines.insert(at, lines[random.index(lines.len())].clone()),
            3 | 4 => {
                let rows = section.rows();
                let key = rows[random.index(rows.len())];
                lines.insert(at, format!("{} = {}", key.name, random.pick(&PIECES)));
            }
            5 | 6 => {
                let key = lines[at].split('=').next().unwrap_or_default().to_owned();
                lines[at] = format!("{key} = {}", random.pick(&PIECES));
            }
            _ => lines[at] = lines[at].replacen(['"', '=', '[', ']'], PIECES[random.index(PIECES.len())], 1),
        }
    }
    let mut bytes = lines.join("\n").into_bytes();
    for _ in 0..random.index(3) {
        let at = random.index(bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte = u8::try_from(random.index(256)).unwrap_or(0);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The default without its comments, and all examples put in.
fn seeds() -> Vec<String> {
    let text = init::text(&Places::system());
    let plain = |line: &&str| !line.starts_with('#') && !line.is_empty();
    let code = |line: &&str| !line.starts_with("# ") && !line.is_empty();
    let full = text.lines().filter(code).map(|line| line.trim_start_matches('#'));
    vec![
        text.lines().filter(plain).collect::<Vec<_>>().join("\n"),
        full.collect::<Vec<_>>().join("\n"),
        String::new(),
    ]
}

#[test]
fn no_text_makes_reading_panic_and_every_problem_can_be_shown() {
    let rounds = std::env::var("LOGDRIVE_TEST_ROUNDS").ok();
    let rounds = rounds.and_then(|text| text.parse().ok()).unwrap_or(3_000);
    let mut random = Random::seeded(20_261_121);
    let seeds = seeds();
    let (mut sound, mut refused) = (0, 0);
    for round in 0..rounds {
        let text = mangle(&seeds[random.index(seeds.len())], &mut random);
        // What is printed last belongs to the round that failed.
        let outcome = std::panic::catch_unwind(|| match parse(&text, &Island) {
            Ok(config) => {
                assert!(!config.sinks.is_empty() && !config.routes.is_empty());
                true
            }
            Err(problems) => {
                let in_text = |at: usize| at <= text.len();
                assert!(!problems.is_empty());
                assert!(
                    problems
                        .iter()
                        .all(|problem| problem.span.as_ref().is_none_or(|span| in_text(span.start)))
                );
                let shown = report(&problems, "x.toml", &text, Paint { on: false });
                let plain = |c: char| c == '\n' || !c.is_control();
                assert!(shown.chars().all(plain), "{shown:?}");
                false
            }
        });
        match outcome {
            Ok(true) => sound += 1,
            Ok(false) => refused += 1,
            Err(_) => panic!("round {round} of {rounds}:\n{text}"),
        }
    }
    println!("{sound} sound, {refused} refused");
    assert!(
        sound > 0 && refused > rounds / 2,
        "the mangling hits neither too little nor too much"
    );
}
