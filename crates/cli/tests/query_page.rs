//! The page of the query language, `docs/query.md`: each of its examples finds what the page says, and the same on text, JSON,
//! segments and rings of a live process.

mod support;

use logdrive::{File, Full, Layout};
use logdrive_testkit::{Process, directory, report, role, this_test_as};
use std::fs;
use std::path::{Path, PathBuf};
use support::{run, stdout, text};

const DIR: &str = "LOGDRIVE_TEST_QUERY_DIR";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/query.md");

mod shop {
    pub(crate) mod orders {
        pub(crate) fn fill(id: u64, user: &str, took_ms: f64) {
            logdrive::info!(id, user, took_ms, "order filled");
        }
    }
    pub(crate) mod net {
        pub(crate) fn log(id: u64) {
            match id {
                3 => logdrive::warn!(
                    id,
                    peer = "10.0.0.1:80",
                    took_ms = 900.0,
                    "slow answer of 10.0.0.1:80"
                ),
                7 => logdrive::error!(
                    id,
                    peer = "10.0.0.2:80",
                    took_ms = 30000.0,
                    "Timeout of the connection"
                ),
                _ => {
                    let attempt = 3;
                    logdrive::warn!(id, "retry {attempt} of 5");
                }
            }
        }
    }
}

/// Logs the records of the page.
fn log_page() {
    use shop::{net, orders};
    orders::fill(1, "ann", 12.5);
    orders::fill(2, "bob", 250.25);
    net::log(3);
    logdrive::error!(
        id = 4,
        user = "ann",
        reason = "card declined",
        "payment failed: timeout"
    );
    logdrive::debug!(id = 5, key = "user:ann", bytes = 10240, "cache miss");
    logdrive::info!(id = 6, user = "ann marie", "user logged in");
    net::log(7);
    logdrive::info!(id = 8, user = "dave", took_ms = 31.0, note = "", "order filled");
    net::log(9);
}

/// Plays a program that logs the records of the page, to files or to its memory alone, and waits for its end.
fn play(kind: &str) {
    let dir = PathBuf::from(std::env::var_os(DIR).expect("a directory"));
    let file = |name: &str| File::new(dir.join(name));
    let builder = logdrive::builder(kind)
        .use_env(false)
        .run_dir(dir.join("run"))
        .filter("trace")
        .full(Full::Block);
    let builder = match kind {
        "files" => builder
            .file(file("live.log"))
            .file(file("live.json").layout(Layout::json()))
            .file(file("live.segment").layout(Layout::segments())),
        _ => builder.discard(),
    };
    let guard = builder.init().expect("logging starts");
    let worker = std::thread::Builder::new().name("worker-1".to_owned());
    worker.spawn(log_page).expect("a thread").join().expect("it logs");
    if kind == "files" {
        drop(guard);
        report("logged");
        return;
    }
    report("logged");
    logdrive_testkit::wait_for_input();
    drop(guard);
}

fn start(test: &str, role: &str, dir: &Path) -> Process {
    let mut process = Process::spawn(this_test_as(test, role).env(DIR, dir));
    process.expect("logged");
    process
}

/// Text between the first fence of the page that begins so, and its end.
fn block<'a>(page: &'a str, begins: &str) -> &'a str {
    let at = page
        .find(&format!("```text\n{begins}"))
        .expect("the block is there")
        + "```text\n".len();
    page[at..].split("```").next().expect("there is an end")
}

/// A row of a table.
#[derive(Debug)]
struct Example {
    section: String,
    /// Cells; those of code are without their backticks.
    cells: Vec<String>,
}

fn examples(page: &str) -> Vec<Example> {
    let mut section = String::new();
    let mut examples = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.to_owned();
        }
        if !line.starts_with("| `") {
            continue;
        }
        let cells = line.trim_matches('|').split(" | ");
        let cells = cells.map(|cell| cell.trim().trim_matches('|').trim().trim_matches('`').to_owned());
        examples.push(Example {
            section: section.clone(),
            cells: cells.collect(),
        });
    }
    examples
}

/// The ids of the records that the command printed as JSON or as text.
fn ids(printed: &str) -> String {
    let mut ids: Vec<&str> = printed
        .lines()
        .filter_map(|line| {
            let at = line
                .find("\"id\":")
                .map(|at| at + 5)
                .or_else(|| line.find(" id=").map(|at| at + 4))?;
            line[at..].split(|c: char| !c.is_ascii_digit()).next()
        })
        .collect();
    ids.sort_unstable();
    ids.join(" ")
}

fn found(dir: &Path, args: &[&str]) -> String {
    ids(&stdout(dir, args))
}

/// The files of the page's records, and of the same records of a program.
fn page_files(dir: &Path, page: &str) -> Vec<String> {
    fs::write(dir.join("page.log"), block(page, "2026-")).expect("a file");
    let json = stdout(dir, &["cat", "page.log", "--json"]);
    fs::write(dir.join("page.json"), json).expect("a file");
    stdout(dir, &["import", "page.log", "-o", "page.segment"]);
    let names = [
        "page.log",
        "page.json",
        "page.segment",
        "live.log",
        "live.json",
        "live.segment",
    ];
    names.map(str::to_owned).to_vec()
}

#[test]
fn examples_find_the_same_in_text_json_segments_and_rings() {
    const TEST: &str = "examples_find_the_same_in_text_json_segments_and_rings";
    if let Some(role) = role() {
        return play(&role);
    }
    let dir = directory();
    let dir = dir.path();
    let page = fs::read_to_string(PAGE).expect("the page is there");
    start(TEST, "files", dir).wait();
    let _rings = start(TEST, "rings", dir);
    let files = page_files(dir, &page);
    // The program has logged what the page shows, but for times and places.
    let behind_place = |line: &str| {
        let (_, place) = line.split_once(".rs:")?;
        Some(place.split_once(' ')?.1.to_owned())
    };
    let logged = fs::read_to_string(dir.join("live.log")).expect("a file");
    let shown = block(&page, "2026-");
    let messages = |text: &str| text.lines().filter_map(behind_place).collect::<Vec<_>>();
    assert_eq!(messages(&logged), messages(shown));
    let examples = examples(&page);
    assert!(examples.len() > 50, "{}", examples.len());
    let mut asked = 0;
    for example in &examples {
        let query = example.cells[0].as_str();
        let (option, expected, is_live) = match example.section.as_str() {
            "Words and texts" | "Fields" => ("-q", &example.cells[2], true),
            "Joined tests" => ("-q", &example.cells[1], true),
            "Times" => ("-q", &example.cells[2], false),
            "Conditions" => ("-f", &example.cells[2], true),
            "Arguments of messages" => ("-q", &example.cells[1], true),
            other => panic!("no examples are expected in {other:?}: {query}"),
        };
        for file in &files {
            let is_typed = ["live.json", "live.segment"].contains(&file.as_str());
            let expected = match example.section.as_str() {
                "Times" if file.starts_with("live") => continue,
                "Arguments of messages" if !is_typed => &example.cells[2],
                _ => expected,
            };
            assert_eq!(
                found(dir, &["cat", file, option, query]),
                *expected,
                "{query} of {file}"
            );
            if option == "-q" {
                assert_eq!(
                    found(dir, &["query", query, file]),
                    *expected,
                    "query {query} of {file}"
                );
            }
            asked += 1;
        }
        if is_live {
            asked += ask_rings(dir, option, query, expected);
        }
        if example.section == "Conditions" {
            let same = example.cells[1].as_str();
            assert_eq!(found(dir, &["cat", "page.log", "-q", same]), *expected, "{same}");
        }
    }
    assert!(asked > 300, "{asked}");
}

/// Asks the rings of the living program with `query` and `tail`; returns the number of commands that count.
fn ask_rings(dir: &Path, option: &str, query: &str, expected: &str) -> usize {
    if option == "-q" {
        let args = ["query", query, "rings", "--run-dir", "run"];
        assert_eq!(found(dir, &args), *expected, "query {query} of rings");
    }
    let of_rings = ["tail", "rings", "--run-dir", "run", "--no-follow", "-n", "100"];
    let args = [&of_rings[..], &[option, query]].concat();
    assert_eq!(found(dir, &args), *expected, "{query} of rings");
    1
}

/// Command lines of the page with what they print.
fn commands(page: &str) -> Vec<(Vec<String>, String)> {
    let blocks = page.split("```text\n$ logdrive ").skip(1);
    let command = |block: &str| {
        let block = block.split("```").next().expect("there is an end");
        let (line, printed) = block.split_once('\n').expect("there is output");
        let mut args = Vec::new();
        for (number, quoted) in line.split('\'').enumerate() {
            match number % 2 {
                1 => args.push(quoted.to_owned()),
                _ => args.extend(quoted.split_whitespace().map(str::to_owned)),
            }
        }
        (args, printed.to_owned())
    };
    blocks.map(command).collect()
}

/// Forms that the page names beside those of its examples, and the ids of the records that they find.
const FURTHER: [(&str, &str); 20] = [
    ("took_ms:>250.25", "3 7"),
    ("took_ms:<31", "1"),
    ("took_ms:<=31", "1 8"),
    ("took_ms:range(31, 900]", "2 3"),
    ("took_ms:range[900, inf)", "3 7"),
    ("took_ms:<250ms", "1 2 3 7 8"),
    ("bytes:>10KB", "5"),
    ("bytes:<=10240", "5"),
    (r#"peer:!~"^10\.0\.0\.1""#, "1 2 4 5 6 7 8 9"),
    (r#""card dec"*"#, "4"),
    ("_msg:timeout", "4"),
    ("target:net", "3 7 9"),
    ("level:>warn", "4 7"),
    ("level:<info", "5"),
    ("level:<=info", "1 2 5 6 8"),
    ("NOT level:info AND user:ann", "4"),
    ("!level:info -timeout", "3 5 7 9"),
    ("user:=`ann marie`", "6"),
    ("user:='ann marie'", "6"),
    (r#""and" or user:bob"#, "2"),
];

/// The same of times, which are those of the page.
const FURTHER_TIMES: [(&str, &str); 3] = [
    ("_time:>=2026-11-21T08:01:00Z", "7 8 9"),
    ("_time:<2026-11-21T08:00:02Z", "1 2"),
    ("_time:<=2026-11-21T08:00:02Z", "1 2 3"),
];

/// The same of pipes, with a part of what they print.
const FURTHER_PIPES: [(&str, &str); 6] = [
    (
        "took_ms:* | stats avg(took_ms) as mean, count_uniq(user) as users",
        "mean=6238.75",
    ),
    ("took_ms:* | stats by (took_ms:100) count() as n", "n=2"),
    ("user:* | uniq by (user)", "ann marie"),
    ("id:* | sort by (id desc) | offset 7 | fields id", "id=2\nid=1"),
    (
        "level:error | stats count() as n, max(took_ms) as most",
        "n=2 most=30000",
    ),
    ("id:* | top by (level)", "level=INFO hits=4"),
];

#[test]
fn forms_that_the_page_names_find_the_same_in_text_json_segments_and_rings() {
    const TEST: &str = "forms_that_the_page_names_find_the_same_in_text_json_segments_and_rings";
    if let Some(role) = role() {
        return play(&role);
    }
    let dir = directory();
    let dir = dir.path();
    let page = fs::read_to_string(PAGE).expect("the page is there");
    start(TEST, "files", dir).wait();
    let _rings = start(TEST, "rings", dir);
    let files = page_files(dir, &page);
    for (query, expected) in FURTHER.iter().chain(&FURTHER_TIMES) {
        let is_of_times = query.starts_with("_time");
        for file in files
            .iter()
            .filter(|file| !is_of_times || file.starts_with("page"))
        {
            assert_eq!(
                found(dir, &["query", query, file]),
                *expected,
                "{query} of {file}"
            );
        }
        if !is_of_times {
            ask_rings(dir, "-q", query, expected);
        }
    }
    for (query, part) in FURTHER_PIPES {
        let printed = stdout(dir, &["query", query, "page.log"]);
        assert!(printed.contains(part), "{query}: {printed}");
        for file in &files {
            assert_eq!(stdout(dir, &["query", query, file]), printed, "{query} of {file}");
        }
        let of_rings = stdout(dir, &["query", query, "rings", "--run-dir", "run"]);
        assert_eq!(of_rings, printed, "{query} of rings");
    }
}

#[test]
fn pipes_give_the_same_of_text_json_segments_and_rings() {
    const TEST: &str = "pipes_give_the_same_of_text_json_segments_and_rings";
    if let Some(role) = role() {
        return play(&role);
    }
    let dir = directory();
    let dir = dir.path();
    let page = fs::read_to_string(PAGE).expect("the page is there");
    start(TEST, "files", dir).wait();
    let _rings = start(TEST, "rings", dir);
    let files = page_files(dir, &page);
    // Modules of the program are below that of the test.
    let plain = |printed: String| printed.replace("query_page::shop::", "shop::");
    let commands = commands(&page);
    assert!(commands.len() >= 8, "{}", commands.len());
    for (args, printed) in commands {
        let printed = printed.replace(
            '\n',
            if args.contains(&"csv".to_owned()) {
                "\r\n"
            } else {
                "\n"
            },
        );
        // The program logs all from two modules of its own.
        let is_of_modules = args[1].contains("module");
        for file in &files {
            if is_of_modules && file.starts_with("live") {
                continue;
            }
            let of_file: Vec<&str> = args
                .iter()
                .map(|arg| if arg == "page.log" { file.as_str() } else { arg })
                .collect();
            assert_eq!(plain(stdout(dir, &of_file)), printed, "{args:?} of {file}");
        }
        if !is_of_modules {
            let of_rings = args
                .iter()
                .map(|arg| if arg == "page.log" { "rings" } else { arg });
            let of_rings: Vec<&str> = of_rings.chain(["--run-dir", "run"]).collect();
            assert_eq!(plain(stdout(dir, &of_rings)), printed, "{args:?} of rings");
        }
    }
}

#[test]
fn the_page_shows_the_error_as_it_is() {
    let dir = directory();
    let page = fs::read_to_string(PAGE).expect("the page is there");
    let output = run(dir.path(), &["cat", "-q", "order_id=7 or order_id=8"]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.starts_with(block(&page, "error:")), "{error}");
}
