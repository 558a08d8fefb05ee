//! `logdrive view` in a terminal that tmux makes: keys go in, and what the terminal shows comes out.

mod support;

use logdrive_testkit::{report, wait_until};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use support::{logdrive, text};

/// A terminal of its own, which goes when this is dropped.
struct Terminal {
    socket: String,
}

impl Terminal {
    /// Starts a command line; `None` where there is no tmux.
    fn start(dir: &Path, name: &str, command: &str) -> Option<Self> {
        let socket = format!("logdrive-test-{}-{name}", std::process::id());
        let command = format!("{command}; echo \"status $?\"; sleep 60");
        let started = Command::new("tmux")
            .current_dir(dir)
            .env("TERM", "xterm-256color")
            .env("TZ", "UTC")
            .env("LANG", "C.UTF-8")
            .env("LOGDRIVE", env!("CARGO_BIN_EXE_logdrive"))
            .env_remove("TMUX")
            .env_remove("PAGER")
            .args(["-u", "-L", &socket, "-f", "/dev/null"])
            .args(["new-session", "-d", "-x", "76", "-y", "12", "sh", "-c", &command])
            .output();
        match started {
            Ok(output) if output.status.success() => Some(Self { socket }),
            Ok(output) => panic!("tmux: {}", text(&output.stderr)),
            Err(error) => {
                report(&format!(
                    "skipped: tmux cannot be started: {error} (apt-get install tmux)"
                ));
                None
            }
        }
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let output = Command::new("tmux")
            .args(["-L", &self.socket])
            .args(args)
            .output();
        output.expect("tmux runs")
    }

    fn press(&self, keys: &[&str]) {
        for key in keys {
            assert!(self.tmux(&["send-keys", key]).status.success(), "{key}");
        }
    }

    fn shown(&self) -> String {
        text(&self.tmux(&["capture-pane", "-p"]).stdout)
    }

    /// Waits until the terminal shows something, and gives all that it shows.
    fn wait_for(&self, what: &str) -> String {
        wait_until(what, || self.shown().contains(what));
        self.shown()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn put_log(path: &Path, records: u64) {
    let mut file = std::fs::File::create(path).expect("a file");
    for id in 0..records {
        let level = if id % 50 == 20 { "ERROR" } else { "INFO " };
        let (minute, second) = (id / 60, id % 60);
        writeln!(
            file,
            "2026-11-21T08:{minute:02}:{second:02}.000000000Z {level} main shop::orders a.rs:1 order id={id}"
        )
        .expect("written");
    }
}

#[test]
fn keys_search_filter_and_unfold_on_a_real_terminal() {
    let dir = tempfile::tempdir().expect("a directory");
    put_log(&dir.path().join("app.log"), 200);
    let view = "\"$LOGDRIVE\" --color never view app.log";
    let Some(terminal) = Terminal::start(dir.path(), "keys", view) else {
        return;
    };
    terminal.wait_for("id=199");
    terminal.press(&["E"]);
    terminal.wait_for("08:02:50.000000000");
    terminal.press(&["&", "level:error", "Enter"]);
    let filtered = terminal.wait_for("& level:error");
    wait_until("the filter", || terminal.shown().contains("id=120"));
    assert!(!terminal.shown().contains("id=121"), "{filtered}");
    // Together they would be one key, Alt-g.
    terminal.press(&["Escape"]);
    wait_until("the filter's end", || !terminal.shown().contains("& level"));
    terminal.press(&["g"]);
    assert_eq!(
        terminal.wait_for("id=0\n"),
        " app.log  15 kB                                                         UTC
 2026-11-21 08:00:00.000 INFO  main shop::orders order id=0
 2026-11-21 08:00:01.000 INFO  main shop::orders order id=1
 2026-11-21 08:00:02.000 INFO  main shop::orders order id=2
 2026-11-21 08:00:03.000 INFO  main shop::orders order id=3
 2026-11-21 08:00:04.000 INFO  main shop::orders order id=4
 2026-11-21 08:00:05.000 INFO  main shop::orders order id=5
 2026-11-21 08:00:06.000 INFO  main shop::orders order id=6
 2026-11-21 08:00:07.000 INFO  main shop::orders order id=7
 2026-11-21 08:00:08.000 INFO  main shop::orders order id=8
 2026-11-21T08:00:00.000000000+00:00
 q quit  ? keys  / search  n next  & filter  e error  F follow
"
    );
    terminal.press(&["/", "id=7", "Enter", "n", "n", "Enter"]);
    let unfolded = terminal.wait_for("record, lines");
    assert!(
        unfolded.contains("2026-11-21 08:01:11.000") && unfolded.contains("id       71"),
        "{unfolded}"
    );
    terminal.press(&["q"]);
    let ended = terminal.wait_for("status 0");
    assert!(!ended.contains("orders"), "{ended}");
}

#[test]
fn what_comes_is_followed_and_a_signal_gives_the_terminal_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.log");
    put_log(&path, 20);
    let view = "sh -c 'echo $$ > pid; exec \"$LOGDRIVE\" view app.log --follow'";
    let Some(terminal) = Terminal::start(dir.path(), "follow", view) else {
        return;
    };
    terminal.wait_for("id=19");
    let mut file = std::fs::File::options().append(true).open(&path).expect("opened");
    writeln!(
        file,
        "2026-11-21T09:00:00.000000000Z WARN  main shop a.rs:1 came id=20"
    )
    .expect("written");
    terminal.wait_for("came id=20");
    std::fs::rename(&path, dir.path().join("app.1.log")).expect("renamed");
    std::fs::write(
        &path,
        "2026-11-21T09:00:01.000000000Z WARN  main shop a.rs:1 new id=21\n",
    )
    .expect("written");
    terminal.wait_for("new id=21");
    let pid = std::fs::read_to_string(dir.path().join("pid")).expect("a process");
    let killed = Command::new("kill").arg(pid.trim()).status().expect("kill runs");
    assert!(killed.success());
    let ended = terminal.wait_for("status 0");
    assert!(!ended.contains("id=21"), "{ended}");
}

#[test]
fn a_segment_is_read_in_place_without_a_copy() {
    let dir = tempfile::tempdir().expect("a directory");
    put_log(&dir.path().join("app.log"), 200);
    support::stdout(dir.path(), &["import", "app.log", "-o", "app.segment"]);
    // There is no room for a copy.
    let view = "TMPDIR=/nonexistent \"$LOGDRIVE\" --color never view app.segment";
    let Some(terminal) = Terminal::start(dir.path(), "segment", view) else {
        return;
    };
    terminal.wait_for("id=199");
    terminal.press(&["g"]);
    terminal.wait_for("id=0\n");
    terminal.press(&["/", "id=77", "Enter"]);
    terminal.wait_for("08:01:17.000000000");
    terminal.press(&["q"]);
    terminal.wait_for("status 0");
}

#[test]
fn cat_goes_through_a_pager_on_a_terminal_only() {
    let dir = tempfile::tempdir().expect("a directory");
    put_log(&dir.path().join("app.log"), 2);
    let piped = logdrive(dir.path())
        .env("PAGER", "sed s/order/PAGED/")
        .args(["cat", "app.log"])
        .output();
    assert!(!text(&piped.expect("it runs").stdout).contains("PAGED"));
    let cat = "export PAGER='sed s/order/PAGED/'; \"$LOGDRIVE\" cat app.log; \"$LOGDRIVE\" cat app.log --no-pager -n 1";
    let Some(terminal) = Terminal::start(dir.path(), "pager", cat) else {
        return;
    };
    let shown = terminal.wait_for("status 0");
    assert_eq!(shown.matches("PAGED").count(), 2, "{shown}");
    assert!(shown.contains("order id=1"), "{shown}");
}

#[test]
fn without_a_terminal_it_says_what_prints() {
    let dir = tempfile::tempdir().expect("a directory");
    put_log(&dir.path().join("app.log"), 2);
    let output = support::run(dir.path(), &["view", "app.log"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("logdrive cat"),
        "{}",
        text(&output.stderr)
    );
}
