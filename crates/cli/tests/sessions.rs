//! `ps`, `stats` and `recover` on sessions of real programs that were killed.

mod support;

use logdrive_testkit::Random;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use support::{VICTIM_DIR, Victim, run, stdout, text, wait_to_be_killed};

/// Records that a victim logs.
const RECORDS: usize = 2_000;

/// Does nothing, unless it was started by [`Victim::start`]: then this is a program that logs and waits to be killed.
/// Its sink writes so late that all its records are in shared memory when it dies.
#[test]
fn victim() {
    let Some(dir) = std::env::var_os(VICTIM_DIR) else {
        assert_eq!(RECORDS % 2, 0);
        return;
    };
    let app = std::env::var("LOGDRIVE_CLI_TEST_APP").expect("the app's name is given");
    let builder = logdrive::builder(&app)
        .run_dir(Path::new(&dir).join("run"))
        .flush_every(std::time::Duration::from_secs(3_600))
        .full(logdrive::Full::Block);
    let builder = match app.as_str() {
        "console" => builder.console(logdrive::Console::stderr()),
        _ => builder.file(logdrive::File::new(
            Path::new(&dir).join(format!("logs/{app}.log")),
        )),
    };
    let _guard = builder.init().expect("logging starts");
    for id in 0..RECORDS {
        logdrive::info!(id, "order filled");
        logdrive::trace!("switched off");
    }
    wait_to_be_killed();
}

/// A directory with the sessions of victims that were killed.
fn killed(apps: &[&str]) -> (tempfile::TempDir, Vec<u32>) {
    let dir = tempfile::tempdir().expect("a directory");
    let pids = apps
        .iter()
        .map(|app| Victim::start("victim", dir.path(), app).kill())
        .collect();
    (dir, pids)
}

const RUN: [&str; 2] = ["--run-dir", "run"];

fn json_lines(output: &str) -> Vec<serde_json::Value> {
    output
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect()
}

#[test]
fn a_killed_program_is_listed() {
    let (dir, pids) = killed(&["shop"]);
    let listed = run(dir.path(), &["ps", "--run-dir", "run"]);
    let table = text(&listed.stdout);
    assert!(table.starts_with("APP "), "{table}");
    let row: Vec<&str> = table
        .lines()
        .nth(1)
        .expect("a session")
        .split_whitespace()
        .collect();
    assert_eq!(
        (row[0], row[1], row[2]),
        ("shop", pids[0].to_string().as_str(), "dead")
    );
    assert!(table.contains("2,000"), "{table}");
    assert!(
        text(&listed.stderr).contains("logdrive recover --run-dir run"),
        "{}",
        text(&listed.stderr)
    );
}

#[test]
fn a_killed_program_is_recovered_without_loss() {
    let (dir, pids) = killed(&["shop"]);
    let found = run(dir.path(), &["recover", "--run-dir", "run"]);
    assert!(found.status.success());
    assert!(
        text(&found.stdout).contains("logs/shop.log"),
        "{}",
        text(&found.stdout)
    );
    assert!(
        text(&found.stderr).contains("nothing was changed"),
        "{}",
        text(&found.stderr)
    );

    let recovered = stdout(dir.path(), &["recover", "--all", "--run-dir", "run"]);
    assert!(
        recovered.starts_with(&format!(
            "recovered shop (process {}): 2,000 records into ",
            pids[0]
        )),
        "{recovered}"
    );
    assert!(recovered.contains("ended without a word"), "{recovered}");
    let log = fs::read_to_string(dir.path().join("logs/shop.log")).expect("there is a log");
    let ids: Vec<String> = log
        .lines()
        .filter_map(|line| Some(line.split_once(" order filled id=")?.1.to_owned()))
        .collect();
    let expected: Vec<String> = (0..RECORDS).map(|id| id.to_string()).collect();
    assert_eq!(ids, expected);
    assert!(
        log.lines()
            .last()
            .is_some_and(|line| line.contains("ended without a word")),
        "{log}"
    );

    let nothing = run(dir.path(), &["recover", "--all", "--run-dir", "run"]);
    assert_eq!(
        (nothing.status.code(), text(&nothing.stdout)),
        (Some(0), String::new())
    );
    assert!(
        text(&nothing.stderr).starts_with("nothing to recover"),
        "{}",
        text(&nothing.stderr)
    );
    let found = stdout(dir.path(), &["cat", "logs/shop.log", "-f", "id>=1998", "--json"]);
    let found: Vec<u64> = json_lines(&found)
        .iter()
        .filter_map(|line| line["id"].as_u64())
        .collect();
    assert_eq!(found, [1_998, 1_999]);
}

/// The one that came second said that a session belongs to a living process, and failed.
#[test]
fn recoverers_at_the_same_time_leave_each_other_what_they_have() {
    let apps = ["a", "b", "c", "d", "e", "f"];
    let (dir, _) = killed(&apps);
    let start = || {
        let mut command = support::logdrive(dir.path());
        command.args(["recover", "--all", "--run-dir", "run"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    };
    let recoverers = [start(), start(), start()];
    for recoverer in recoverers {
        let output = recoverer.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    for app in apps {
        let log = fs::read_to_string(dir.path().join(format!("logs/{app}.log"))).expect("a log");
        assert_eq!(log.matches(" order filled id=").count(), RECORDS, "{app}");
    }
}

#[test]
fn numbers_of_sessions_add_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let alive = Victim::start("victim", dir.path(), "gateway");
    let pid = Victim::start("victim", dir.path(), "shop").kill();
    let sessions = json_lines(&stdout(dir.path(), &["stats", "--json", "--run-dir", "run"]));
    assert_eq!(sessions.len(), 2);
    for session in &sessions {
        let number = |name: &str| session[name].as_u64().expect("a number");
        assert_eq!(
            number("calls"),
            number("committed") + number("dropped") + number("disabled")
        );
        assert_eq!(number("committed"), RECORDS as u64);
        assert_eq!(session["sinks"][0]["adds_up"], true, "{session}");
        assert_eq!(session["sinks"][0]["pending"], RECORDS as u64, "{session}");
    }
    assert_eq!(
        (&sessions[0]["state"], &sessions[1]["state"]),
        (&"alive".into(), &"dead".into())
    );
    let shown = stdout(dir.path(), &["stats", "shop", "--run-dir", "run"]);
    assert!(
        shown.contains("2,000 = 2,000 committed + 0 dropped + "),
        "{shown}"
    );
    assert!(
        shown.contains("2,000 committed = 0 written + 0 dropped + 2,000 pending   adds up"),
        "{shown}"
    );
    // By process id, by the name of the directory and by its path.
    let directory = format!("shop-{pid}-0");
    for name in [&pid.to_string(), &directory, &format!("run/{directory}")] {
        assert_eq!(
            stdout(dir.path(), &["stats", name, "--run-dir", "run"])
                .lines()
                .count(),
            shown.lines().count()
        );
    }
    let states: Vec<_> = json_lines(&stdout(dir.path(), &["ps", "--json", "--run-dir", "run"]));
    assert_eq!(states[0]["pid"], alive.pid());
}

#[test]
fn a_live_program_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let alive = Victim::start("victim", dir.path(), "gateway");
    let output = run(dir.path(), &["recover", "gateway", "--run-dir", "run"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "error: gateway (process {}) is alive and writes its log itself",
        alive.pid()
    );
    assert!(
        text(&output.stderr).starts_with(&expected),
        "{}",
        text(&output.stderr)
    );
    let all = run(dir.path(), &["recover", "--all", "--run-dir", "run"]);
    assert_eq!(all.status.code(), Some(0));
    assert!(
        text(&all.stderr).starts_with("nothing to recover"),
        "{}",
        text(&all.stderr)
    );
}

#[test]
fn a_program_without_a_file_is_recovered_into_one() {
    let (dir, _) = killed(&["console", "shop"]);
    let dry = run(dir.path(), &["recover", "--all", "--dry-run", "--run-dir", "run"]);
    assert!(
        text(&dry.stdout).contains("it logged to no file: use --into FILE"),
        "{}",
        text(&dry.stdout)
    );
    // One that cannot be recovered does not keep the others from it.
    let all = run(dir.path(), &["recover", "--all", "--run-dir", "run"]);
    assert_eq!(all.status.code(), Some(1));
    assert!(
        text(&all.stderr).contains("name one for its records with --into FILE"),
        "{}",
        text(&all.stderr)
    );
    assert!(
        text(&all.stdout).starts_with("recovered shop"),
        "{}",
        text(&all.stdout)
    );
    let recovered = stdout(
        dir.path(),
        &[
            "recover",
            "console",
            "--into",
            "lost.log",
            "--json",
            "--run-dir",
            "run",
        ],
    );
    let line = &json_lines(&recovered)[0];
    assert_eq!(
        (&line["recovered"], &line["records"]),
        (&true.into(), &RECORDS.into())
    );
    let lost = fs::read_to_string(dir.path().join("lost.log")).expect("there is a log");
    assert_eq!(lost.matches(" order filled id=").count(), RECORDS);
    assert_eq!(stdout(dir.path(), &["ps", "--json", "--run-dir", "run"]), "");
}

#[test]
fn a_session_beside_the_log_is_found() {
    let (dir, _) = killed(&["shop"]);
    fs::create_dir(dir.path().join("logs/.logdrive")).expect("a directory");
    let from = fs::read_dir(dir.path().join("run"))
        .expect("a directory")
        .next()
        .expect("a session")
        .expect("an entry");
    fs::rename(
        from.path(),
        dir.path().join("logs/.logdrive").join(from.file_name()),
    )
    .expect("it can be moved");
    for (cwd, args) in [
        (".", &["ps", "--json", "--run-dir", "logs"][..]),
        (".", &["ps", "--json", "--run-dir", "logs/.logdrive"]),
    ] {
        assert_eq!(
            json_lines(&stdout(&dir.path().join(cwd), args)).len(),
            1,
            "{args:?}"
        );
    }
    let shown = stdout(&dir.path().join("logs"), &["ps", "--json"]);
    assert!(json_lines(&shown).iter().any(|line| {
        line["path"]
            .as_str()
            .is_some_and(|path| path.starts_with(".logdrive/shop-"))
    }));
}

#[test]
fn damaged_sessions_are_told_and_recovered() {
    let (dir, pids) = killed(&["shop"]);
    let session = dir.path().join(format!("run/shop-{}-0", pids[0]));
    let mut header = fs::read(session.join("session")).expect("a header");
    header[0] ^= 0xff;
    fs::write(session.join("session"), &header).expect("it can be written");
    let listed = run(dir.path(), &["ps", "--run-dir", "run"]);
    assert!(
        text(&listed.stdout).contains(&format!("shop  {}  damaged", pids[0])),
        "{}",
        text(&listed.stdout)
    );
    assert!(
        text(&listed.stderr).contains("session header is damaged: magic is"),
        "{}",
        text(&listed.stderr)
    );
    let shown = stdout(dir.path(), &["stats", "shop", "--run-dir", "run"]);
    assert!(shown.contains("session header is damaged"), "{shown}");
    let output = run(dir.path(), &["recover", "--all", "--run-dir", "run", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recovered = &json_lines(&text(&output.stdout))[0];
    assert_eq!(recovered["recovered"], true);
    let damage = recovered["damage"][0].as_str().unwrap_or("");
    assert!(
        damage.starts_with("session header is damaged: magic is"),
        "{damage}"
    );
    assert!(!session.exists());
}

#[test]
fn damage_inside_of_a_session_never_harms_the_command() {
    for round in 0..12u64 {
        let (dir, _) = killed(&["shop"]);
        let session = fs::read_dir(dir.path().join("run"))
            .expect("a directory")
            .next()
            .expect("a session")
            .expect("an entry");
        // A seed for each round, so that a failure can be repeated.
        let mut random = Random::new(round);
        for entry in fs::read_dir(session.path()).expect("a directory") {
            let path = entry.expect("an entry").path();
            let mut bytes = fs::read(&path).expect("a file");
            // The log's path stays: the command writes where the session says.
            let log = dir.path().as_os_str().as_encoded_bytes();
            let kept = bytes.windows(log.len()).position(|window| window == log);
            let kept = kept.map_or(0..0, |at| at.saturating_sub(64)..at + 512);
            for _ in 0..40 {
                let at = random.index(bytes.len().clamp(1, 16_384));
                if let Some(byte) = bytes.get_mut(at).filter(|_| !kept.contains(&at)) {
                    *byte = random.bits() as u8;
                }
            }
            if round % 4 == 3 {
                bytes.truncate(bytes.len() / 2);
            }
            fs::write(&path, &bytes).expect("it can be written");
        }
        for command in [&["ps"][..], &["stats"], &["recover"], &["recover", "--all"]] {
            let output = run(dir.path(), &[command, &RUN].concat());
            let code = output.status.code();
            assert!(
                matches!(code, Some(0 | 1)),
                "seed {round}, {command:?}: {code:?} {}",
                text(&output.stderr)
            );
        }
    }
}

#[test]
fn where_there_is_nothing_all_is_well() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("run")).expect("a directory");
    for (command, expected) in [
        ("ps", "no sessions in run"),
        ("stats", "no sessions in run"),
        ("recover", "nothing to recover"),
    ] {
        let output = run(dir.path(), &[command, "--run-dir", "run"]);
        assert_eq!(
            (output.status.code(), text(&output.stdout)),
            (Some(0), String::new()),
            "{command}"
        );
        assert!(
            text(&output.stderr).starts_with(expected),
            "{}",
            text(&output.stderr)
        );
        let json = run(dir.path(), &[command, "--json", "--run-dir", "run"]);
        assert_eq!(
            (json.status.code(), text(&json.stdout)),
            (Some(0), String::new()),
            "{command}"
        );
    }
}

#[test]
fn unknown_names_and_unsafe_directories_are_errors_that_help() {
    let (dir, _) = killed(&["shop"]);
    let error = |args: &[&str]| {
        let output = run(dir.path(), args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        text(&output.stderr)
    };
    for command in ["stats", "recover"] {
        let found = error(&[command, "shpo", "--run-dir", "run"]);
        assert_eq!(found, "error: there is no session of shpo; did you mean shop?\n");
        assert!(
            error(&[command, "mailer", "--run-dir", "run"]).contains("`logdrive ps` lists those there are")
        );
        assert!(error(&[command, "run", "--run-dir", "run"]).contains("there is no session of run"));
        assert!(error(&[command, "./run"]).contains("name it with --run-dir"));
        assert!(error(&[command, "./none"]).contains("there is no such directory"));
    }
    assert!(error(&["ps", "--run-dir", "none"]).contains("there is no directory none: name one that exists"));
    fs::write(dir.path().join("file"), "").expect("a file");
    assert!(error(&["ps", "--run-dir", "file"]).contains("there is no directory file: name one that exists"));
    let open = dir.path().join("open");
    fs::create_dir(&open).expect("a directory");
    fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("it is ours");
    assert!(error(&["ps", "--run-dir", "open"]).contains("others may write to it"));
    let both = run(dir.path(), &["recover", "shop", "--all"]);
    assert_eq!(both.status.code(), Some(2));
}
