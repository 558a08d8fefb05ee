//! Random and mangled texts: whatever stands in a file, reading it ends with a configuration or with problems that can
//! be shown. `LOGDRIVE_TEST_SEED` repeats a run, and `LOGDRIVE_TEST_ROUNDS` makes it longer.

use super::init;
use super::parse::parse;
use super::problem::report;
use super::sections::SECTIONS;
use super::testing::Island;
use crate::paint::Paint;
use logdrive_agent::config::Places;

/// Xorshift: enough to hit every branch, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(1);
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

fn number_from(variable: &str, default: u64) -> u64 {
    let value = std::env::var(variable).ok();
    value.and_then(|text| text.parse().ok()).unwrap_or(default)
}

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
    for _ in 0..=random.below(6) {
        if lines.is_empty() {
            lines.push(String::new());
        }
        let at = random.below(lines.len());
        let section = SECTIONS[random.below(SECTIONS.len())];
        match random.below(8) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, section.header()),
            2 => lines.insert(at, lines[random.below(lines.len())].clone()),
            3 | 4 => {
                let rows = section.rows();
                let key = rows[random.below(rows.len())];
                lines.insert(at, format!("{} = {}", key.name, random.of(&PIECES)));
            }
            5 | 6 => {
                let key = lines[at].split('=').next().unwrap_or_default().to_owned();
                lines[at] = format!("{key} = {}", random.of(&PIECES));
            }
            _ => lines[at] = lines[at].replacen(['"', '=', '[', ']'], random.of(&PIECES), 1),
        }
    }
    let mut bytes = lines.join("\n").into_bytes();
    for _ in 0..random.below(3) {
        let at = random.below(bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte = u8::try_from(random.below(256)).unwrap_or(0);
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
    let seed = number_from("LOGDRIVE_TEST_SEED", 20_261_121).max(1);
    let rounds = number_from("LOGDRIVE_TEST_ROUNDS", 3_000);
    println!("seed {seed}, {rounds} rounds");
    let mut random = Random(seed);
    let seeds = seeds();
    let (mut sound, mut refused) = (0, 0);
    for round in 0..rounds {
        let text = mangle(&seeds[random.below(seeds.len())], &mut random);
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
            Err(_) => panic!("round {round} of seed {seed}:\n{text}"),
        }
    }
    println!("{sound} sound, {refused} refused");
    assert!(
        sound > 0 && refused > rounds / 2,
        "the mangling hits neither too little nor too much"
    );
}
