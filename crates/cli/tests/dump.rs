//! `logdrive dump`: what a live program keeps in memory is written on request.
//!
//! The program that logs is the test itself.

mod support;

use logdrive::{File, Keep, Level};
use support::{run, stdout, text};

#[test]
fn what_is_kept_is_in_the_log_when_the_command_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("shop.log");
    let start = |keep: Option<Keep>| {
        let mut builder = logdrive::builder("shop")
            .use_env(false)
            .filter("trace")
            .run_dir(dir.path().join("run"))
            .file(File::new(&log).min_level(Level::Info));
        if let Some(keep) = keep {
            builder = builder.keep(keep);
        }
        builder.init().expect("a logger")
    };
    let guard = start(Some(Keep::bytes(1 << 20)));
    for number in 0..1_234 {
        logdrive::debug!("kept {}", number);
    }
    let told = stdout(dir.path(), &["dump", "shop", "--run-dir", "run"]);
    assert_eq!(told, format!("1,234 records written to {}\n", log.display()));
    let lines = std::fs::read_to_string(&log).expect("the log");
    assert_eq!(lines.lines().filter(|line| line.contains("kept ")).count(), 1_234);
    assert!(
        lines.contains("flight recorder: 1,234 records of the last "),
        "{lines}"
    );

    logdrive::debug!("one more");
    let args = ["dump", "shop", "--last", "1h", "--json", "--run-dir", "run"];
    let json = stdout(dir.path(), &args);
    assert!(json.starts_with(r#"{"app":"shop","pid":"#), "{json}");
    assert!(json.contains(r#""records":1,"#), "{json}");
    let nothing = stdout(dir.path(), &["dump", "shop", "--run-dir", "run"]);
    assert!(nothing.starts_with("0 records written to "), "{nothing}");
    drop(guard);

    let guard = start(None);
    logdrive::info!("keeps nothing");
    let refused = run(dir.path(), &["dump", "shop", "--run-dir", "run"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("keeps nothing in memory"));
    drop(guard);
    let wrong = run(dir.path(), &["dump", "shop", "--last", "soon"]);
    assert_eq!(wrong.status.code(), Some(2));
}
