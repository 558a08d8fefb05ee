//! `level`, `sample`, `mute` and `callsites` on programs that run.

mod support;

use logdrive_testkit::wait_for;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use support::{VICTIM_DIR, Victim, logdrive, run, stdout, text};

/// Does nothing, unless it was started by [`Victim::start`]: then this is a program that logs all the time.
#[test]
fn talker() {
    let Some(dir) = std::env::var_os(VICTIM_DIR) else {
        assert_eq!(logdrive::stats(), None);
        return;
    };
    let app = std::env::var("LOGDRIVE_CLI_TEST_APP").expect("the app's name is given");
    let _guard = logdrive::builder(&app)
        .run_dir(Path::new(&dir).join("run"))
        .filter("info")
        .flush_every(Duration::from_millis(5))
        .file(logdrive::File::new(Path::new(&dir).join(format!("{app}.log"))))
        .init()
        .expect("logging starts");
    println!("\nvictim is ready");
    std::io::stdout().flush().expect("somebody reads");
    for number in 0u64.. {
        let peer = ["ann", "bob"][(number % 2) as usize];
        logdrive::info!(number, peer, "tick");
        logdrive::debug!(target: "net::quic", number, "detail");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

fn talker_in(dir: &Path, app: &str) -> Victim {
    let victim = Victim::start("talker", dir, app);
    until(dir, app, |log| log.contains(" tick "));
    victim
}

/// Waits until the log of a program is so.
fn until(dir: &Path, app: &str, is_so: impl Fn(&str) -> bool) -> String {
    let read = || std::fs::read_to_string(dir.join(format!("{app}.log"))).unwrap_or_default();
    wait_for("the log", || Some(read()).filter(|log| is_so(log)))
}

/// Records that a program logs from now on.
fn fresh<'a>(log: &'a str, mark: &str) -> Vec<&'a str> {
    let Some(at) = log.rfind(mark) else {
        return Vec::new();
    };
    log[at..].lines().skip(1).collect()
}

fn with_dir<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &["--run-dir", "run"]].concat()
}

fn ok(dir: &Path, args: &[&str]) -> String {
    stdout(dir, &with_dir(args))
}

#[test]
fn levels_of_a_running_program_change_and_go_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let victim = talker_in(dir, "shop");
    let title = format!("shop (process {})", victim.pid());
    assert_eq!(
        ok(dir, &["level", "shop", "net::quic=debug"]),
        format!("{title}: net::quic=debug; 1 callsite changed\n")
    );
    until(dir, "shop", |log| {
        log.contains(" detail ") && log.contains(" live control: net::quic=debug")
    });
    let listed = ok(dir, &["level", "shop"]);
    assert!(listed.starts_with("APP "), "{listed}");
    assert!(
        listed
            .lines()
            .nth(1)
            .is_some_and(|row| row.ends_with("net::quic  debug")),
        "{listed}"
    );
    assert_eq!(
        ok(dir, &["level", &victim.pid().to_string(), "--reset"]),
        format!("{title}: 1 rule removed; 1 callsite changed\n")
    );
    let ended = " live control: ended: net::quic=debug";
    let log = until(dir, "shop", |log| fresh(log, ended).len() > 30);
    // What was called just before may stand behind the line that says so: records are put in order, it is not.
    assert!(
        fresh(&log, ended)
            .iter()
            .skip(10)
            .all(|line| !line.contains(" detail "))
    );
    let none = run(dir, &with_dir(&["level", "shop"]));
    assert!(
        text(&none.stderr).starts_with("no rules in shop (process "),
        "{none:?}"
    );
}

#[test]
fn a_rule_goes_by_itself_after_its_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let _victim = talker_in(dir, "shop");
    let said = ok(dir, &["level", "shop", "debug", "--for", "1s"]);
    assert!(said.contains(": all=debug for 1 s; 1 callsite changed"), "{said}");
    let log = until(dir, "shop", |log| {
        log.contains("ended: all=debug, its time is over")
    });
    assert!(log.contains(" detail "), "{log}");
    let list = run(dir, &with_dir(&["level", "shop"]));
    assert_eq!(text(&list.stdout), "");
}

#[test]
fn a_flooding_line_is_found_sampled_and_muted() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let _victim = talker_in(dir, "shop");
    let rows = ok(dir, &["callsites", "shop", "--json", "--interval", "200ms"]);
    let rows: Vec<serde_json::Value> = rows
        .lines()
        .map(|row| serde_json::from_str(row).expect("JSON"))
        .collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(
        (&rows[0]["message"], &rows[0]["state"]),
        (&"tick".into(), &"on".into())
    );
    assert_eq!(
        (&rows[1]["message"], &rows[1]["state"]),
        (&"detail".into(), &"off".into())
    );
    assert!(rows[0]["records_per_s"].as_f64() > Some(0.0), "{rows:?}");
    let id = rows[0]["id"].to_string();
    let place = format!("control.rs:{}", rows[0]["line"]);

    let said = ok(dir, &["sample", "shop", "--callsite", &id, "--every", "10"]);
    assert!(
        said.contains(&format!("id:{id}: 1 of 10; 1 callsite changed")),
        "{said}"
    );
    let log = until(dir, "shop", |log| log.matches(" sample_every=10\n").count() > 3);
    assert!(log.contains(&format!("live control: id:{id}: 1 of 10")), "{log}");
    let table = ok(dir, &["callsites", "shop", "--interval", "100ms", "--sort", "id"]);
    let row = table.lines().find(|row| row.contains(&place)).expect("its row");
    assert!(row.contains("  1 of 10  ") && row.ends_with("  tick"), "{table}");
    ok(dir, &["sample", "shop", "--callsite", &id, "--off"]);

    let said = ok(
        dir,
        &[
            "sample",
            "shop",
            "--callsite",
            &place,
            "--per-second",
            "5",
            "--per-key",
            "peer",
        ],
    );
    assert!(
        said.contains(&format!("{place}: 5 per second and peer; 1 callsite changed")),
        "{said}"
    );
    let told = format!("records sampled out at {place} (5 per second and peer kept)");
    until(dir, "shop", |log| log.contains(&told));
    let stats: serde_json::Value =
        serde_json::from_str(&ok(dir, &["stats", "shop", "--json"])).expect("JSON");
    assert!(stats["sampled_out"].as_u64() > Some(0), "{stats}");
    mute_and_unmute(dir, &place);
}

fn mute_and_unmute(dir: &Path, place: &str) {
    ok(dir, &["mute", "shop", place]);
    let muted = format!("live control: mute {place}");
    until(dir, "shop", |log| log.contains(&muted));
    let table = ok(dir, &["callsites", "shop", "--interval", "100ms"]);
    assert!(
        table
            .lines()
            .any(|row| row.contains("  muted  ") && row.contains(place)),
        "{table}"
    );
    ok(dir, &["mute", "shop", place, "--off"]);
    let again = run(dir, &with_dir(&["mute", "shop", place, "--off"]));
    assert_eq!(again.status.code(), Some(1), "there is nothing to end");
}

#[test]
fn one_command_changes_all_processes_of_a_program() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let victims = [talker_in(dir, "shop"), talker_in(dir, "shop")];
    let output = run(dir, &with_dir(&["level", "shop", "net=debug", "--for", "1h"]));
    let said = text(&output.stdout);
    for victim in &victims {
        let line = format!(
            "shop (process {}): net=debug for 1 h; 1 callsite changed",
            victim.pid()
        );
        assert!(said.contains(&line), "{said}");
    }
    assert_eq!(text(&output.stderr), "2 callsites changed in 2 processes\n");
    let many = run(dir, &with_dir(&["mute", "shop", "1"]));
    assert_eq!(many.status.code(), Some(1));
    assert!(
        text(&many.stderr).contains("another statement in each of the 2 processes"),
        "{many:?}"
    );
    let json = ok(dir, &["level", "shop", "--reset", "--json"]);
    assert_eq!(
        json.lines().filter(|line| line.contains("\"rules\":[]")).count(),
        2,
        "{json}"
    );
}

/// Something that listens as an agent does, and says nothing.
struct Silent {
    socket: OwnedFd,
}

impl Silent {
    fn listen(path: &Path) -> Self {
        let socket =
            net::socket(net::AddressFamily::UNIX, net::SocketType::SEQPACKET, None).expect("a socket");
        let address = net::SocketAddrUnix::new(path).expect("a short path");
        net::bind(&socket, &address).expect("a free place");
        net::listen(&socket, 8).expect("it listens");
        Self { socket }
    }

    fn accept(&self) -> OwnedFd {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: 30,
            tv_nsec: 0,
        };
        assert_eq!(poll(&mut polled, Some(&timeout)), Ok(1), "nobody comes");
        net::accept(&self.socket).expect("a connection")
    }
}

#[test]
fn an_agent_that_does_not_answer_keeps_no_other_program_waiting() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let victim = talker_in(dir, "shop");
    let place = dir.join(format!("run/run-{}.agent", std::process::id()));
    std::fs::create_dir(&place).expect("a directory");
    let silent = Silent::listen(&place.join("agent.sock"));
    let mut child = logdrive(dir)
        .args(with_dir(&["level", "shop", "net::quic=debug"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // With a short timeout first, then with the full one: by then the level of the one that was found has changed.
    let hurried = silent.accept();
    let patient = silent.accept();
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let line = lines.next().expect("a line").expect("text");
    let title = format!("shop (process {})", victim.pid());
    assert_eq!(line, format!("{title}: net::quic=debug; 1 callsite changed"));
    until(dir, "shop", |log| log.contains(" detail "));
    drop((silent, hurried, patient));
    let output = child.wait_with_output().expect("the command ends");
    assert!(output.status.success(), "{output:?}");
    let error = text(&output.stderr);
    assert!(
        error.contains("agent.sock"),
        "who may be missing is told: {error}"
    );
}

#[test]
fn what_cannot_be_done_says_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let failed = |args: &[&str], status: i32| {
        let output = run(dir, &with_dir(args));
        assert_eq!(output.status.code(), Some(status), "{args:?} {output:?}");
        text(&output.stderr)
    };
    std::fs::create_dir(dir.join("run")).expect("a directory");
    assert!(
        failed(&["level", "shop", "debug"], 1).contains("no program of this user logs with Logdrive in run")
    );
    let victim = talker_in(dir, "shop");
    let error = failed(&["level", "shpo", "debug"], 1);
    let alive = format!("alive are shop ({}); did you mean shop?", victim.pid());
    assert!(error.contains(&alive), "{error}");
    assert!(failed(&["level", "shop", "net=loud"], 2).contains("trace, debug, info"));
    assert!(failed(&["level", "shop", "debug", "--for", "soon"], 2).contains("30s, 10m"));
    assert!(failed(&["sample", "shop", "--callsite", "1"], 2).contains("--every"));
    let error = failed(
        &[
            "sample",
            "shop",
            "--callsite",
            "1",
            "--per-second",
            "3",
            "--per-key",
            "nobody",
        ],
        1,
    );
    assert!(
        error.contains("has a field nobody; there are number, peer"),
        "{error}"
    );
    let waits = run(dir, &with_dir(&["level", "shop", "net::qiuc=trace"]));
    let hint = "nothing of net::qiuc has been called so far, the rule waits for it; did you mean net::quic?";
    assert!(text(&waits.stderr).contains(hint), "{waits:?}");
    victim.kill();
    assert!(failed(&["callsites", "shop"], 1).contains("is dead; `logdrive recover`"));
}
