//! Log files that `tail` and `cat --follow` follow, records around others, zones, compressed input, and the format for lnav.

mod support;

use logdrive_testkit::{Process, wait_until};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use support::{logdrive, run, stdout, text};

fn line(id: u64) -> String {
    let level = if id % 10 == 5 { "ERROR" } else { "INFO " };
    format!("2026-11-21T08:00:{id:02}.000000000Z {level} main shop a.rs:1 order id={id}\n")
}

fn put(path: &Path, ids: std::ops::Range<u64>) {
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .expect("opened");
    file.write_all(ids.map(line).collect::<String>().as_bytes())
        .expect("written");
}

/// Identifiers in what was printed.
fn ids(text: &str) -> Vec<&str> {
    let words = text.split_whitespace();
    words.filter_map(|word| word.strip_prefix("id=")).collect()
}

/// A command that goes on.
struct Following {
    _child: Process,
    shown: Arc<Mutex<String>>,
}

impl Following {
    fn start(dir: &Path, args: &[&str]) -> Self {
        let child = logdrive(dir)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.expect("it runs");
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut out, sink) = (child.stdout.take().expect("a pipe"), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut bytes) {
                sink.lock().expect("no panic").push_str(&text(&bytes[..count]));
            }
        });
        Self {
            _child: child.into(),
            shown,
        }
    }

    fn wait_for(&self, expected: &[&str]) {
        wait_until(&format!("{expected:?}"), || {
            let shown = self.shown.lock().expect("no panic");
            ids(&shown) == expected
        });
    }
}

#[test]
fn files_are_followed_through_growth_rotation_and_truncation() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.log");
    put(&path, 0..15);
    let tail = Following::start(dir.path(), &["tail", "app.log", "-n", "2"]);
    let all = Following::start(dir.path(), &["cat", "app.log", "--follow", "-l", "error"]);
    tail.wait_for(&["13", "14"]);
    all.wait_for(&["5"]);
    let mut file = File::options().append(true).open(&path).expect("opened");
    let (front, rest) = (
        "2026-11-21T08:00:15.0Z ERR",
        "OR main shop a.rs:1 order id=15\n  id=further\n",
    );
    file.write_all(front.as_bytes()).expect("written");
    file.write_all(rest.as_bytes()).expect("written");
    tail.wait_for(&["13", "14", "15", "further"]);
    all.wait_for(&["5", "15", "further"]);
    std::fs::rename(&path, dir.path().join("app.1.log")).expect("renamed");
    put(&path, 16..18);
    tail.wait_for(&["13", "14", "15", "further", "16", "17"]);
    File::options()
        .write(true)
        .open(&path)
        .expect("opened")
        .set_len(0)
        .expect("cut");
    // The cut is seen before more comes.
    wait_until("a look", || {
        put(&path, 25..26);
        ids(&all.shown.lock().expect("no panic")).contains(&"25")
    });
    let ended = run(dir.path(), &["tail", "app.1.log", "-n", "1", "--no-follow"]);
    assert_eq!(ids(&text(&ended.stdout)), ["15", "further"]);
    std::fs::write(dir.path().join("a.gz"), [0x1f, 0x8b, 8]).expect("written");
    let refused = run(dir.path(), &["tail", "a.gz"]);
    assert!(
        text(&refused.stderr).contains("cannot be followed"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn records_around_those_that_pass_are_printed() {
    let dir = tempfile::tempdir().expect("a directory");
    put(&dir.path().join("app.log"), 0..30);
    let cat = |args: &[&str]| stdout(dir.path(), &[&["cat", "app.log", "-l", "error"], args].concat());
    assert_eq!(ids(&cat(&[])), ["5", "15", "25"]);
    let around = cat(&["-C", "1"]);
    assert_eq!(ids(&around), ["4", "5", "6", "14", "15", "16", "24", "25", "26"]);
    assert_eq!(around.lines().filter(|line| *line == "--").count(), 2);
    assert_eq!(
        ids(&cat(&["-A", "2"])),
        ["5", "6", "7", "15", "16", "17", "25", "26", "27"]
    );
    assert_eq!(
        ids(&cat(&["-B", "2"])),
        ["3", "4", "5", "13", "14", "15", "23", "24", "25"]
    );
    // Groups that touch are one.
    assert!(!cat(&["-C", "5"]).contains("--"));
    assert!(
        cat(&["-C", "1", "--json"])
            .lines()
            .all(|line| line.starts_with('{'))
    );
}

#[test]
fn times_are_shown_and_read_in_a_zone() {
    let dir = tempfile::tempdir().expect("a directory");
    put(&dir.path().join("app.log"), 0..30);
    let cat = |args: &[&str]| stdout(dir.path(), &[&["cat", "app.log"], args].concat());
    let zoned = cat(&[
        "--tz",
        "+02:00",
        "--since",
        "2026-11-21T10:00:20",
        "--until",
        "2026-11-21T10:00:21",
    ]);
    assert_eq!(ids(&zoned), ["20", "21"]);
    assert!(
        zoned.starts_with("2026-11-21T10:00:20.000000000+02:00 INFO"),
        "{zoned}"
    );
    let json = cat(&["--tz", "+02:00", "--json", "-n", "1"]);
    assert!(
        json.starts_with(r#"{"ts":"2026-11-21T10:00:29.000000000+02:00","level":"INFO""#),
        "{json}"
    );
    // What was shown is read again as the same time.
    std::fs::write(dir.path().join("zoned.log"), &zoned).expect("written");
    let back = stdout(dir.path(), &["cat", "zoned.log", "--tz", "utc"]);
    assert_eq!(back, format!("{}{}", line(20), line(21)));
    let wrong = run(dir.path(), &["cat", "app.log", "--tz", "Atlantis/North"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(
        ids(&cat(&["--since", "last friday", "--until", "10 minutes ago"])).len() % 30,
        0
    );
}

/// The line of id 1, compressed by xz and by bzip2.
const XZ: &str = include_str!("follow_files/xz.hex");
const BZIP2: &str = include_str!("follow_files/bzip2.hex");

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(&text(pair), 16).expect("hexadecimal");
    digits.chunks(2).map(pair).collect()
}

#[test]
fn files_of_xz_and_bzip2_are_read_whatever_their_names() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, hex) in [("a.log.xz", XZ), ("b.log", BZIP2)] {
        let bytes = bytes_of(hex);
        std::fs::write(dir.path().join(name), &bytes).expect("written");
        assert_eq!(stdout(dir.path(), &["cat", name]), line(1), "{name}");
        std::fs::write(dir.path().join("cut"), &bytes[..bytes.len() - 20]).expect("written");
        let cut = run(dir.path(), &["cat", "cut"]);
        assert_eq!(cut.status.code(), Some(1), "{name}");
        assert!(
            text(&cut.stderr).contains("cannot decompress"),
            "{}",
            text(&cut.stderr)
        );
    }
    let piped = support::with_stdin(dir.path(), &["cat"], &bytes_of(XZ));
    assert_eq!(text(&piped.stdout), line(1));
}

#[test]
fn the_format_for_lnav_takes_our_lines() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/lnav/logdrive.json");
    let formats = std::fs::read(path).expect("the file");
    let formats: serde_json::Value = serde_json::from_slice(&formats).expect("JSON");
    let patterns = ["line", "own"].map(|name| {
        let pattern = formats["logdrive_text"]["regex"][name]["pattern"].as_str();
        regex::Regex::new(pattern.expect("a pattern")).expect("a regular expression")
    });
    let captures = |line: &str| {
        let mut found = patterns.iter().filter_map(|pattern| pattern.captures(line));
        let found = found.next().unwrap_or_else(|| panic!("{line}"));
        [
            "timestamp",
            "level",
            "app",
            "pid",
            "thread",
            "module",
            "file",
            "line",
            "body",
        ]
        .map(|name| {
            found
                .name(name)
                .map_or(String::new(), |part| part.as_str().to_owned())
        })
    };
    let dir = tempfile::tempdir().expect("a directory");
    put(&dir.path().join("app.log"), 5..6);
    let own = stdout(dir.path(), &["cat", "app.log", "--text"]);
    assert_eq!(
        captures(own.trim_end()),
        [
            "2026-11-21T08:00:05.000000000Z",
            "ERROR",
            "",
            "",
            "main",
            "shop",
            "a.rs",
            "1",
            "order id=5"
        ]
    );
    for sample in formats["logdrive_text"]["sample"].as_array().expect("samples") {
        let [_, level, ..] = captures(sample["line"].as_str().expect("a line"));
        let named = sample["level"].as_str().expect("a level");
        assert!(named.starts_with(&level.to_lowercase()), "{sample}");
    }
    let named = formats["logdrive_text"]["sample"][1]["line"].as_str();
    let [_, _, app, pid, thread, module, ..] = captures(named.expect("a line"));
    assert_eq!(
        [app, pid, thread, module],
        ["shop", "4711", "worker 3", "shop::net"]
    );
    let notice = formats["logdrive_text"]["sample"][2]["line"].as_str();
    let [.., body] = captures(notice.expect("a line"));
    assert_eq!(body, "12 records dropped: ring full");
    // The keys of the JSON form are those of our lines.
    let json: serde_json::Value =
        serde_json::from_str(&stdout(dir.path(), &["cat", "app.log", "--json"])).expect("JSON");
    for key in ["ts", "level", "thread", "module", "file", "line", "message"] {
        assert!(!json[key].is_null(), "{key}: {json}");
        let is_known = ["ts", "level"].contains(&key) || !formats["logdrive_json"]["value"][key].is_null();
        assert!(is_known, "{key}");
    }
    assert_eq!(formats["logdrive_json"]["timestamp-field"], "ts");
}
