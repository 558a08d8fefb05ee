//! Segments as a program writes them and `logdrive cat` shows them. The programs are this one, started anew with a role.

mod support;

use logdrive::{File, Full, Layout};
use logdrive_testkit::{Process, directory, report, role, this_test_as, wait_for_input};
use std::path::{Path, PathBuf};
use support::{run, stdout, text};

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
fn a_terminal_takes_no_segments_and_the_error_says_what_does() {
    let started = logdrive::builder("shop")
        .use_env(false)
        .run_dir(directory().path().join("run"))
        .sink(logdrive::Console::stdout().layout(Layout::segments()))
        .init();
    let error = started.expect_err("it is refused").to_string();
    assert!(error.contains("the layout segments is for files"), "{error}");
}
