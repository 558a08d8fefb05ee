//! `ps`, `level`, `sample`, `mute`, `callsites`, `tail` and `dump` on programs whose sessions an agent has.

mod support;

use logdrive_testkit::{DEADLINE, wait_for};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use support::agent::{Agent, ONE_FILE, Program, configure, log_of, ok, place, play, run, socket};
use support::{logdrive, text};

/// Does nothing, unless a test started it: then this is a program that logs through the agent.
#[test]
fn program() {
    assert!(!play());
}

fn json_lines(text: &str) -> Vec<serde_json::Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect()
}

#[test]
fn levels_change_through_the_agent_and_go_back() {
    let dir = place(ONE_FILE);
    let dir = dir.path();
    let _agent = Agent::start(dir);
    let mut shop = Program::start(dir, "shop");
    assert!(shop.does("detail 1"));
    let said = ok(dir, &["level", "shop", "net::quic=debug"]);
    assert_eq!(
        said,
        format!("{}: net::quic=debug; 1 callsite changed\n", shop.title("shop"))
    );
    // The change holds when the command has ended: no wait.
    shop.does("detail 2");
    // A rule that is set and removed between two ticks of the drain is not logged.
    let told = |text: &str| log_of(dir, "shop").contains(text).then_some(());
    wait_for("the log tells it", || told("live control: net::quic=debug"));
    let said = ok(dir, &["level", &shop.pid().to_string(), "--reset"]);
    assert!(said.contains(": 1 rule removed; 1 callsite changed"), "{said}");
    shop.does("detail 3");
    assert!(shop.does("flush"));
    let log = log_of(dir, "shop");
    let numbers = |text: &str| -> Vec<bool> {
        let has = |number: u64| text.contains(&format!("detail number={number}"));
        (1..=3).map(has).collect()
    };
    assert_eq!(numbers(&log), [false, true, false], "{log}");
    wait_for("the log tells it", || {
        told("live control: ended: net::quic=debug")
    });
    shop.end();
}

#[test]
fn a_rule_ends_by_itself_also_when_command_and_agent_were_killed() {
    let dir = place(ONE_FILE);
    let dir = dir.path();
    let agent = Agent::start(dir);
    let mut shop = Program::start(dir, "shop");
    shop.does("detail 1");
    let mut command = logdrive(dir)
        .args(["level", "shop", "debug", "--for", "1s", "--agent"])
        .arg(socket(dir))
        .stdout(Stdio::null())
        .spawn()
        .expect("the command runs");
    // As soon as it holds, so that nothing of the command is left that could end it.
    let mut number = 1;
    wait_for("the rule holds", || {
        number += 1;
        shop.does(&format!("detail {number}"));
        shop.does("flush");
        log_of(dir, "shop").contains(" detail ").then_some(())
    });
    let _ = command.kill();
    command.wait().expect("it ends");
    agent.kill();
    let _agent = Agent::start(dir);
    wait_for("the rule has ended", || {
        shop.does("flush");
        log_of(dir, "shop")
            .contains("all=debug, its time is over")
            .then_some(())
    });
    shop.does("detail 1000000");
    assert!(shop.does("flush"));
    assert!(!log_of(dir, "shop").contains("detail number=1000000"));
    let listed = run(dir, &["level", "shop"]);
    assert!(
        text(&listed.stderr).starts_with("no rules in shop (process "),
        "{listed:?}"
    );
    shop.end();
}

#[test]
fn callsites_are_sorted_by_rate_and_can_be_sampled_and_muted() {
    let dir = place(ONE_FILE);
    let dir = dir.path();
    let _agent = Agent::start(dir);
    let mut shop = Program::start(dir, "shop");
    shop.does("tock 1");
    shop.does("ticks 100");
    shop.does("flush");
    // Counts from before the first tick are reported once a second at most.
    let mut rows = Vec::new();
    wait_for("both are counted", || {
        rows = json_lines(&ok(dir, &["callsites", "shop", "--json", "--interval", "10ms"]));
        let records = |message: &str| {
            let row = rows.iter().find(|row| row["message"] == message);
            row.and_then(|row| row["records"].as_u64())
        };
        (records("tick") == Some(100) && records("tock") == Some(1)).then_some(())
    });
    assert_eq!(
        (&rows[0]["message"], &rows[1]["message"]),
        (&"tick".into(), &"tock".into())
    );
    assert!(rows[0]["bytes"].as_u64() > rows[1]["bytes"].as_u64(), "{rows:?}");
    let id = rows[0]["id"].to_string();
    let place = format!("agent.rs:{}", rows[0]["line"]);

    let said = ok(dir, &["sample", "shop", "--callsite", &id, "--every", "10"]);
    assert!(said.contains(": 1 of 10; 1 callsite changed"), "{said}");
    shop.does("ticks 200");
    shop.does("flush");
    let sampled = log_of(dir, "shop").matches(" sample_every=10\n").count();
    assert_eq!(sampled, 20);
    ok(dir, &["sample", "shop", "--callsite", &id, "--off"]);
    let per_key = ["--per-second", "5", "--per-key", "peer"];
    let said = ok(
        dir,
        &[&["sample", "shop", "--callsite", &place][..], &per_key].concat(),
    );
    assert!(
        said.contains(": 5 per second and peer; 1 callsite changed"),
        "{said}"
    );
    shop.does("ticks 1000");
    let told = format!("records sampled out at {place} (5 per second and peer kept)");
    wait_for("the log tells what was left out", || {
        log_of(dir, "shop").contains(&told).then_some(())
    });

    ok(dir, &["mute", "shop", &place]);
    shop.does("tick 4242");
    ok(dir, &["mute", "shop", &place, "--off"]);
    ok(dir, &["level", "shop", "--reset"]);
    shop.does("tick 4243");
    assert!(shop.does("flush"));
    let log = log_of(dir, "shop");
    assert!(
        !log.contains("tick number=4242") && log.contains("tick number=4243"),
        "{log}"
    );
    let rows = json_lines(&ok(dir, &["stats", "shop", "--json"]));
    assert!(rows[0]["sampled_out"].as_u64() > Some(0), "{rows:?}");
    shop.end();
}

#[test]
fn sessions_of_an_agent_are_listed_with_their_agent() {
    let dir = place(ONE_FILE);
    let dir = dir.path();
    let _agent = Agent::start(dir);
    let mut shop = Program::start(dir, "shop");
    shop.does("ticks 3");
    assert!(shop.does("flush"));
    let rows = json_lines(&ok(dir, &["ps", "--json"]));
    assert_eq!(rows.len(), 1, "{rows:?}");
    let row = &rows[0];
    assert_eq!(
        (&row["app"], &row["pid"], &row["state"], &row["committed"]),
        (&"shop".into(), &shop.pid().into(), &"alive".into(), &3.into())
    );
    let at = socket(dir).display().to_string();
    assert_eq!(
        (&row["agent"], &row["connected"]),
        (&at.clone().into(), &true.into())
    );
    let session = row["session"].as_u64().expect("a number");
    assert_eq!(row["path"], format!("{at}/{session}"));
    let log = dir.join("agent/shop.log").display().to_string();
    assert_eq!(row["files"][0], log);
    let table = ok(dir, &["ps"]);
    assert!(table.contains(&format!("{at}/{session}")), "{table}");
    let stats = ok(dir, &["stats"]);
    assert!(stats.contains(&log) && stats.contains("sink 0: "), "{stats}");
    // By its number, and by its path without any further word.
    for (name, with_agent) in [(session.to_string(), true), (format!("{at}/{session}"), false)] {
        let args = ["level", &name, "warn"];
        let output = match with_agent {
            true => run(dir, &args),
            false => support::run(dir, &args),
        };
        let said = text(&output.stdout);
        assert!(said.starts_with(&shop.title("shop")), "{name} {output:?}");
    }
    // The environment names the agent, too.
    let output = logdrive(dir)
        .args(["ps", "--json"])
        .env("LOGDRIVE_AGENT", socket(dir))
        .output()
        .expect("the command runs");
    assert!(
        text(&output.stdout).contains(&format!("\"session\":{session}")),
        "{output:?}"
    );
    shop.end();
}

#[test]
fn what_cannot_be_done_says_what_there_is_and_what_to_do() {
    let dir = place(ONE_FILE);
    let dir = dir.path();
    let nobody = run(dir, &["ps"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(
        text(&nobody.stderr).contains("start one with `logdrive agent`"),
        "{nobody:?}"
    );
    let _agent = Agent::start(dir);
    let none = run(dir, &["level", "shop", "debug"]);
    let at = format!("logs with Logdrive in the agent at {}", socket(dir).display());
    assert!(text(&none.stderr).contains(&at), "{none:?}");
    let shop = Program::start(dir, "shop");
    let error = text(&run(dir, &["level", "shpo", "debug"]).stderr);
    let alive = format!("alive are shop ({}); did you mean shop?", shop.pid());
    assert!(error.contains(&alive), "{error}");
    let error = text(&run(dir, &["dump", "shop"]).stderr);
    assert!(error.contains("keeps nothing in memory"), "{error}");
    let error = text(&run(dir, &["tail", "shpo"]).stderr);
    assert!(error.contains("did you mean shop?"), "{error}");
    shop.end();
}

#[test]
fn what_an_agent_keeps_is_written_when_it_is_asked_for_when_it_breaks_and_when_it_dies() {
    let from_info = "[[sink]]\nname = \"main\"\npath = \"DIR/{app}.log\"\nmin_level = \"info\"\n";
    let dir = place(from_info);
    let dir = dir.path();
    let _agent = Agent::start(dir);
    let mut shop = Program::keeping(dir, "shop");
    let kept = || log_of(dir, "shop").matches(" kept number=").count();
    shop.does("details 1234");
    assert!(shop.does("flush"));
    assert_eq!(kept(), 0);
    let log = dir.join("agent/shop.log").display().to_string();
    assert_eq!(
        ok(dir, &["dump", "shop"]),
        format!("1,234 records written to {log}\n")
    );
    assert_eq!(kept(), 1_234);
    let text = log_of(dir, "shop");
    assert!(
        text.contains("flight recorder: 1,234 records of the last "),
        "{text}"
    );

    shop.does("details 10");
    let json = json_lines(&ok(
        dir,
        &["dump", &shop.pid().to_string(), "--last", "1h", "--json"],
    ));
    assert_eq!(
        (&json[0]["records"], &json[0]["files"][0]),
        (&10.into(), &log.into())
    );
    // By the program itself, and by an error.
    shop.does("details 100");
    assert!(shop.does("dump"));
    assert_eq!(kept(), 1_344);
    assert!(log_of(dir, "shop").contains("because the program asked for it"));
    shop.does("details 5");
    shop.does("fail 1");
    assert!(shop.does("flush"));
    assert_eq!(kept(), 1_349);
    shop.does("details 7");
    let pid = shop.pid();
    shop.kill();
    let end = format!("process {pid} of shop was ended by signal 9 (SIGKILL)");
    wait_for("its end", || {
        let log = log_of(dir, "shop");
        let lines: Vec<&str> = log.lines().collect();
        lines.last().is_some_and(|last| last.contains(&end)).then_some(())
    });
    assert_eq!(kept(), 1_356);
}

#[test]
fn what_a_program_wants_kept_is_known_to_the_next_agent() {
    let from_info = "[[sink]]\nname = \"main\"\npath = \"DIR/{app}.log\"\nmin_level = \"info\"\n";
    let dir = place(from_info);
    let dir = dir.path();
    let agent = Agent::start(dir);
    let mut shop = Program::keeping(dir, "shop");
    agent.kill();
    let _agent = Agent::start(dir);
    assert!(shop.does("flush"), "the next agent has it");
    shop.does("details 20");
    let said = ok(dir, &["dump", "shop"]);
    assert!(said.starts_with("20 records written to "), "{said}");
    shop.end();
}

#[test]
fn an_agent_reads_its_configuration_again_when_its_user_says_so() {
    let dir = place(ONE_FILE);
    let dir = dir.path();
    let _agent = Agent::start(dir);
    let reload = || {
        let socket = socket(dir).display().to_string();
        support::run(dir, &["agent", "--reload", "--socket", &socket])
    };
    let output = reload();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), "the configuration was read again\n");
    configure(dir, "[[snik]]\n");
    let output = reload();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("the configuration stays as it was"),
        "{output:?}"
    );
    let more = "[[sink]]\nname = \"new\"\npath = \"DIR/new.log\"\n[[route]]\nsinks = \"new\"\n";
    configure(dir, &format!("{ONE_FILE}{more}"));
    assert!(reload().status.success());
    let mut shop = Program::start(dir, "shop");
    shop.does("tick 7");
    assert!(shop.does("flush"));
    assert!(log_of(dir, "new").contains("tick number=7"));
    shop.end();
}

/// A sink that fails makes only the flushes of its own processes false.
#[test]
fn a_flush_tells_the_truth_about_the_sinks_of_its_own_records() {
    let tables = "[[sink]]\nname = \"main\"\npath = \"DIR/{app}.log\"\n\n\
                  [[sink]]\nname = \"out\"\ntype = \"stdout\"\n\n\
                  [[route]]\napp = \"loud\"\nsinks = [\"out\", \"main\"]\n\n\
                  [[route]]\nsinks = \"main\"\n";
    let dir = place(tables);
    let dir = dir.path();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let _agent = Agent::start_with(dir, Stdio::from(writer));
    let (mut loud, mut quiet) = (Program::start(dir, "loud"), Program::start(dir, "quiet"));
    loud.does("tick 1");
    assert!(loud.does("flush"));
    // The output has no reader any more: what goes there is lost.
    drop(reader);
    loud.does("tick 2");
    quiet.does("tick 2");
    assert!(!loud.does("flush"), "its sink has lost a record");
    assert!(quiet.does("flush"), "its sink has not");
    for app in ["loud", "quiet"] {
        assert!(log_of(dir, app).contains("tick number=2"));
    }
    loud.end();
    quiet.end();
}

/// `logdrive tail` while it follows.
struct Tail {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Tail {
    fn start(dir: &Path, args: &[&str]) -> Self {
        let mut child = logdrive(dir)
            .arg("tail")
            .args(args)
            .arg("--agent")
            .arg(socket(dir))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let stdout: ChildStdout = child.stdout.take().expect("a pipe");
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let read = std::io::BufRead::lines(std::io::BufReader::new(stdout));
            for line in read.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    #[track_caller]
    fn next(&self) -> String {
        let line = self.lines.recv_timeout(DEADLINE);
        line.expect("a line comes")
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        // It follows until it is ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn tail_shows_two_processes_of_an_agent_on_one_time_line() {
    let dir = place(ONE_FILE);
    let dir = dir.path();
    let _agent = Agent::start(dir);
    let mut programs = [Program::start(dir, "shop"), Program::start(dir, "shop")];
    let mut other = Program::start(dir, "other");
    for number in 0..6 {
        programs[number % 2].does(&format!("tick {number}"));
    }
    // What was logged before comes from the file that both log to.
    let tail = Tail::start(dir, &["shop", "-n", "4"]);
    let expect = |tail: &Tail, number: usize, pid: u32| {
        let line = tail.next();
        assert!(
            line.contains(&format!("tick number={number} ")),
            "{number}: {line}"
        );
        assert!(line.contains(&format!("shop[{pid}]/")), "{line}");
    };
    for number in 2..6 {
        expect(&tail, number, programs[number % 2].pid());
    }
    for number in 6..40 {
        programs[number % 2].does(&format!("tick {number}"));
        other.does("tock 1");
    }
    for number in 6..40 {
        expect(&tail, number, programs[number % 2].pid());
    }
    // A new thread has a ring that the command has not seen; and a new process a session.
    for number in 40..50 {
        programs[0].does(&format!("thread {number}"));
        expect(&tail, number, programs[0].pid());
    }
    let mut third = Program::start(dir, "shop");
    third.does("tick 50");
    expect(&tail, 50, third.pid());
    drop(tail);

    // Only one of those who log to the file.
    let pid = programs[1].pid().to_string();
    let past = ok(dir, &["tail", &pid, "--no-follow", "-n", "3"]);
    let numbers: Vec<&str> = past
        .lines()
        .filter_map(|line| line.split("number=").nth(1))
        .collect();
    assert_eq!(numbers.len(), 3, "{past}");
    assert!(
        numbers[2].starts_with("39 ") && numbers[0].starts_with("35 "),
        "{past}"
    );
}
