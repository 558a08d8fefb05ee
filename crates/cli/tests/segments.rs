//! Segments as a program writes them and `logdrive cat` shows them. The programs are this one, started anew with a role.

mod support;

use logdrive::{File, Full, Layout};
use logdrive_testkit::{Process, directory, report, role, this_test_as, wait_for_input, wait_until};
use std::path::{Path, PathBuf};
use support::agent::{Agent, place, socket};
use support::collector::{World, json};
use support::{logdrive, run, stdout, text};

const DIR: &str = "LOGDRIVE_TEST_SEGMENTS_DIR";
const RECORDS: u64 = 40_000;

fn dir() -> PathBuf {
    PathBuf::from(std::env::var_os(DIR).expect("a directory"))
}

fn start(test: &str, role: &str, dir: &Path) -> Process {
    Process::spawn(this_test_as(test, role).env(DIR, dir))
}

/// Records of all kinds, of several threads and levels.
fn log_all() {
    for number in 0..RECORDS {
        let price = number as f64 * 0.25;
        logdrive::info!(
            order_id = number,
            price,
            quantity = -3i32,
            customer = "acme-ltd",
            "order filled"
        );
        if number % 16 == 0 {
            logdrive::warn!("slow {number} took {:.3} s", price);
            logdrive::debug!(
                peer = Some("10.0.0.1:80"),
                missing = None::<u8>,
                wide = u128::MAX,
                "two\nlines {{}}"
            );
            logdrive::trace!(
                sign = 'ß',
                small = 1.5f32,
                yes = true,
                text = format!("text {number}"),
                "kinds"
            );
        }
    }
    let threads = (0..4).map(|thread| {
        let named = std::thread::Builder::new().name(format!("worker {thread}"));
        named
            .spawn(move || (0..1_000).for_each(|number| logdrive::info!("{thread} {number}")))
            .expect("a thread")
    });
    threads
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|thread| thread.join().expect("it logs"));
}

#[test]
fn cat_shows_a_segment_as_sinks_of_text_and_json_have_it() {
    const TEST: &str = "cat_shows_a_segment_as_sinks_of_text_and_json_have_it";
    if role().is_some() {
        let dir = dir();
        let file = |name: &str| File::new(dir.join(name));
        let guard = logdrive::builder("shop")
            .use_env(false)
            .run_dir(dir.join("run"))
            .file(file("shop.log"))
            .file(file("shop.json").layout(Layout::json()))
            .file(file("shop.segment").layout(Layout::segments()))
            .filter("trace")
            .full(Full::Block)
            .init()
            .expect("it starts");
        log_all();
        drop(guard);
        report("ended");
        return;
    }
    let dir = directory();
    start(TEST, "log", dir.path()).expect("ended");
    let read = |name: &str| std::fs::read(dir.path().join(name)).expect("a file");
    let lines = |text: &[u8]| text.split(|byte| *byte == b'\n').count();
    let (log, json, segment) = (read("shop.log"), read("shop.json"), read("shop.segment"));
    assert!(lines(&log) > RECORDS as usize, "{} lines", lines(&log));
    let shown = run(dir.path(), &["cat", "--no-merge", "shop.segment"]);
    assert_eq!(text(&shown.stderr), "");
    assert!(
        shown.stdout == log,
        "as text: {} of {} lines",
        lines(&shown.stdout),
        lines(&log)
    );
    let shown = run(dir.path(), &["cat", "--no-merge", "--json", "shop.segment"]);
    assert!(
        shown.stdout == json,
        "as JSON: {} of {} lines",
        lines(&shown.stdout),
        lines(&json)
    );
    assert!(
        segment.len() * 8 < log.len(),
        "{} of {} bytes",
        segment.len(),
        log.len()
    );
    let filtered = |name| stdout(dir.path(), &["cat", name, "-l", "warn", "-n", "5"]);
    assert_eq!(filtered("shop.segment"), filtered("shop.log"));
}

#[test]
fn a_segment_of_a_killed_program_has_each_record_once() {
    const TEST: &str = "a_segment_of_a_killed_program_has_each_record_once";
    if role().is_some() {
        let dir = dir();
        let _guard = logdrive::builder("shop")
            .use_env(false)
            .run_dir(dir.join("run"))
            .file(File::new(dir.join("shop.segment")).layout(Layout::segments()))
            .full(Full::Block)
            .init()
            .expect("it starts");
        for number in 0..RECORDS {
            logdrive::info!("| {number}");
            if number == RECORDS / 2 {
                logdrive::flush();
            }
        }
        report("logged");
        wait_for_input();
        return;
    }
    let dir = directory();
    let mut program = start(TEST, "log", dir.path());
    program.expect("logged");
    program.kill();
    let recovered = run(dir.path(), &["recover", "--all", "--run-dir", "run"]);
    assert!(recovered.status.success(), "{}", text(&recovered.stderr));
    let shown = stdout(dir.path(), &["cat", "--no-merge", "shop.segment"]);
    let number = |line: &str| line.split_once("| ")?.1.parse::<u64>().ok();
    let numbers: Vec<u64> = shown.lines().filter_map(number).collect();
    let wrong = (0..).zip(&numbers).find(|(expected, number)| expected != *number);
    assert!(
        wrong.is_none() && numbers.len() as u64 == RECORDS,
        "{} records, {wrong:?}",
        numbers.len()
    );
}

#[test]
fn damage_of_a_segment_is_told_with_its_place_and_the_rest_is_shown() {
    const TEST: &str = "damage_of_a_segment_is_told_with_its_place_and_the_rest_is_shown";
    if role().is_some() {
        let dir = dir();
        let guard = logdrive::builder("shop")
            .use_env(false)
            .run_dir(dir.join("run"))
            .file(File::new(dir.join("shop.segment")).layout(Layout::segments()))
            .init()
            .expect("it starts");
        for number in 0..3 {
            logdrive::info!("| {number}");
            logdrive::flush();
        }
        drop(guard);
        report("ended");
        return;
    }
    let dir = directory();
    start(TEST, "log", dir.path()).expect("ended");
    let path = dir.path().join("shop.segment");
    let mut bytes = std::fs::read(&path).expect("the segment");
    bytes[100] ^= 1;
    std::fs::write(&path, bytes).expect("the segment");
    let shown = run(dir.path(), &["cat", "shop.segment"]);
    assert_eq!(shown.status.code(), Some(1));
    let (out, errors) = (text(&shown.stdout), text(&shown.stderr));
    assert!(
        !out.contains("| 0") && out.contains("| 1") && out.contains("| 2"),
        "{out}"
    );
    assert!(
        errors.contains("bytes at offset 0 are left out: the checksum of the head"),
        "{errors}"
    );
}

#[test]
fn imported_text_is_shown_again_byte_for_byte_and_filtered_by_its_times() {
    let dir = directory();
    let mut random = logdrive_testkit::Random::new(1);
    let mut lines = String::from("a line before any time\n\n");
    for number in 0..30_000u64 {
        let (block, bytes) = (random.bits() >> 3, random.below(100_000));
        lines += &format!(
            "2026-11-24 05:{:02}:{:02},{:03} INFO dfs.DataNode: Received block blk_-{block} of size {bytes} from /10.250.{}.{}\n",
            number / 600,
            number / 10 % 60,
            number % 10 * 100,
            random.below(20),
            random.below(256),
        );
        if random.one_in(500) {
            lines += "2026-11-24 05:59:00,000 ERROR java.io.IOException: 0x7fe1 \t007\n\tat Reader.run(Reader.java:77)\n";
        }
    }
    std::fs::write(dir.path().join("data.log"), &lines).expect("a file");
    assert_eq!(
        stdout(dir.path(), &["import", "data.log", "-o", "data.segment"]),
        ""
    );
    assert!(stdout(dir.path(), &["cat", "--no-merge", "data.segment"]) == lines);
    let length = std::fs::metadata(dir.path().join("data.segment"))
        .expect("a segment")
        .len();
    let zstd = zstd::encode_all(lines.as_bytes(), 3).expect("memory").len() as u64;
    assert!(length * 3 < zstd * 2, "{length} bytes, {zstd} of zstd -3");
    let late = |name| {
        stdout(
            dir.path(),
            &["cat", name, "--since", "2026-11-24T05:49:00Z", "-l", "error"],
        )
    };
    assert_eq!(late("data.segment"), late("data.log"));
    let again = run(dir.path(), &["import", "data.log", "-o", "data.segment"]);
    assert!(
        text(&again.stderr).contains("cannot write data.segment"),
        "{}",
        text(&again.stderr)
    );
}

#[test]
fn a_terminal_takes_no_segments_and_a_segment_no_header() {
    let started = logdrive::builder("shop")
        .use_env(false)
        .run_dir(directory().path().join("run"))
        .sink(logdrive::Console::stdout().layout(Layout::segments()))
        .init();
    let error = started.expect_err("it is refused").to_string();
    assert!(error.contains("the layout segments is for files"), "{error}");
    let started = logdrive::builder("shop")
        .use_env(false)
        .run_dir(directory().path().join("run"))
        .file(
            File::new(directory().path().join("shop.segment"))
                .layout(Layout::segments())
                .with(|options| options.header = Some("# shop".to_owned())),
        )
        .init();
    let error = started.expect_err("it is refused").to_string();
    assert!(error.contains("a file of segments has no header"), "{error}");
}

/// Lines without their times.
fn behind_times(lines: &str) -> Vec<&str> {
    lines
        .lines()
        .map(|line| line.split_once(' ').map_or(line, |(_, rest)| rest))
        .collect()
}

#[test]
fn a_run_into_segments_is_shown_as_a_run_into_text() {
    let dir = directory();
    let script = "i=0; while [ $i -lt 2000 ]; do echo \"line $i\"; i=$((i+1)); done; echo 'WARN x' >&2; echo '{\"a\":1}'";
    for more in [&[][..], &["--format", "segments"][..]] {
        let output = logdrive(dir.path())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .args(["run", "--run-dir", "run", "--name", "web"])
            .args(more)
            .args(["--", "sh", "-c", script])
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let expected = std::fs::read_to_string(dir.path().join("web.log")).expect("a log");
    let shown = stdout(dir.path(), &["cat", "--no-merge", "web.segment"]);
    let of_output = |lines: &str| -> Vec<String> {
        let lines = behind_times(lines).into_iter();
        lines
            .filter(|line| line.contains(" stdout ") || line.contains(" stderr "))
            .map(str::to_owned)
            .collect()
    };
    let (found, expected) = (of_output(&shown), of_output(&expected));
    assert_eq!(found.len(), 2_002, "{shown}");
    let (mut found, mut expected) = (found, expected);
    // Both outputs are read as they come.
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn an_agent_writes_segments_beside_text() {
    const TEST: &str = "an_agent_writes_segments_beside_text";
    if role().is_some() {
        let dir = dir();
        let guard = logdrive::builder("shop")
            .use_env(false)
            .agent(socket(&dir))
            .agent_timeout(std::time::Duration::from_secs(60))
            .run_dir(dir.join("run"))
            .file(File::new(dir.join("alone.log")))
            .filter("trace")
            .full(Full::Block)
            .init()
            .expect("it starts");
        log_all();
        drop(guard);
        report("ended");
        return;
    }
    let sink = |name: &str, ending: &str, layout: &str| {
        format!(
            "[[sink]]\nname = \"{name}\"\ntype = \"file\"\npath = \"DIR/{{app}}.{ending}\"\nlayout = \"{layout}\"\noverflow = \"hold\"\n\n"
        )
    };
    let dir = place(&(sink("main", "log", "text") + &sink("small", "segment", "segments")));
    let agent = Agent::start(dir.path());
    for _ in 0..2 {
        start(TEST, "log", dir.path()).expect("ended");
    }
    let log = || std::fs::read_to_string(dir.path().join("agent/shop.log")).expect("a log");
    let shown = || stdout(dir.path(), &["cat", "--no-merge", "agent/shop.segment"]);
    // A segment is written once a second, and the agent's last word on a process comes behind its end.
    wait_until("both have all", || shown().len() == log().len());
    drop(agent);
    let (log, shown) = (log(), shown());
    assert!(
        log.lines().count() as u64 > 2 * RECORDS,
        "{}",
        log.lines().count()
    );
    assert!(!dir.path().join("alone.log").exists());
    let wrong = shown.lines().zip(log.lines()).find(|(shown, line)| shown != line);
    assert!(
        wrong.is_none() && shown.len() == log.len(),
        "{wrong:?}, {} of {} bytes",
        shown.len(),
        log.len()
    );
}

#[test]
fn a_collector_of_segments_has_what_one_of_text_has() {
    let lines: String = (0..20_000)
        .map(|number| match number % 100 {
            7 => "    at Reader.run(Reader.java:77)\n".to_owned(),
            8 => format!(
                "{{\"time\":\"2026-11-24T05:00:{:02}Z\",\"level\":\"warn\",\"host\":\"x\"}}\n",
                number % 60
            ),
            _ => format!(
                "2026-11-24T05:00:{:02}.5Z INFO order {number} filled\n",
                number % 60
            ),
        })
        .collect();
    let collected = |more: &[&str], name: &str| {
        let world = World::new();
        std::fs::write(world.path("app.log"), &lines).expect("a file");
        let (collector, address) = world.collect(&world.address(), more);
        let file = world.path("app.log");
        let sent = world
            .send(file.to_str().expect("text"), &address, &["--format", "text"])
            .output()
            .expect("it ran");
        assert_eq!(json(&sent)["acknowledged"], 20_000);
        // A line of a stack trace is one record with the line before it.
        assert_eq!(json(&collector.end())["records"], 19_800);
        let bytes = std::fs::metadata(world.path("out").join(name))
            .expect("a log")
            .len();
        let shown = stdout(&world.path("out"), &["cat", "--no-merge", "--json", name]);
        let warnings = stdout(
            &world.path("out"),
            &["cat", "--json", name, "-l", "warn", "-n", "3"],
        );
        let plain = |text: &str| -> Vec<String> {
            let values = text.lines().map(|line| {
                let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
                format!("{} {} {}", value["ts"], value["level"], value["message"])
            });
            values.collect()
        };
        (plain(&shown), plain(&warnings), bytes)
    };
    let text = collected(&[], "collected.log");
    let segments = collected(&["--format", "segments"], "collected.segment");
    assert_eq!(text.0.len(), 19_800);
    assert!(text.0 == segments.0, "{:?}", segments.0.first());
    assert_eq!(text.1, segments.1);
    assert!(segments.2 * 10 < text.2, "{} of {} bytes", segments.2, text.2);
}
