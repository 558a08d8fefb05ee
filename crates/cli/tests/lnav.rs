//! The formats in `docs/lnav` with lnav itself: lines of text and of JSON are of their formats, with levels and fields.

mod support;

use logdrive_testkit::report;
use std::path::Path;
use std::process::Command;
use support::{stdout, text};

const FORMATS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lnav");

const LOG: &str = "\
2026-11-21T08:00:00.000000000Z INFO  main shop::orders orders.rs:11 order filled id=1
2026-11-21T08:00:01.000000000Z WARN  worker-1 shop::net net.rs:7 slow answer id=2
2026-11-21T08:00:02.000000000Z ERROR main shop::orders orders.rs:24 payment failed id=3
";

/// Output of lnav for a file; `None` where there is no lnav.
fn lnav(dir: &Path, file: &str) -> Option<String> {
    let query = ";SELECT log_format, log_level, file, line, thread FROM all_logs ORDER BY log_line";
    let format = if file.ends_with("json") {
        "logdrive_json"
    } else {
        "logdrive_text"
    };
    let output = Command::new("lnav")
        .current_dir(dir)
        .env("HOME", dir)
        .args(["-n", "-I", FORMATS, "-c", &query.replace("all_logs", format)])
        .args(["-c", ":write-csv-to -", file])
        .output();
    match output {
        Ok(output) => Some(text(&output.stdout)),
        Err(error) => {
            report(&format!(
                "skipped: lnav cannot be started: {error} (apt-get install lnav)"
            ));
            None
        }
    }
}

#[test]
fn lnav_reads_text_and_json() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    std::fs::write(dir.join("app.log"), LOG).expect("a file");
    std::fs::write(dir.join("app.json"), stdout(dir, &["cat", "--json", "app.log"])).expect("a file");
    for (file, format) in [("app.log", "logdrive_text"), ("app.json", "logdrive_json")] {
        let Some(found) = lnav(dir, file) else {
            return;
        };
        let expected = [
            "info,orders.rs,11,main",
            "warning,net.rs,7,worker-1",
            "error,orders.rs,24,main",
        ];
        let expected = expected.map(|row| format!("{format},{row}\n")).concat();
        assert_eq!(
            found,
            format!("log_format,log_level,file,line,thread\n{expected}")
        );
    }
}
