//! Help, version, completions, manual pages, and what is said about a wrong command line.

mod support;

use std::fs;
use std::path::Path;
use support::{run, stdout, text};

const COMMANDS: [&str; 19] = [
    "run",
    "collect",
    "send",
    "bench",
    "cat",
    "tail",
    "view",
    "top",
    "ps",
    "stats",
    "recover",
    "level",
    "sample",
    "mute",
    "callsites",
    "dump",
    "config",
    "completions",
    "man",
];

fn here() -> &'static Path {
    Path::new(".")
}

#[test]
fn every_command_has_help_with_examples() {
    let main = stdout(here(), &["--help"]);
    for command in COMMANDS {
        assert!(main.contains(&format!("  {command} ")), "{main}");
        let long = stdout(here(), &[command, "--help"]);
        assert!(
            long.contains("Examples:\n") && long.contains(&format!("  logdrive {command}")),
            "{long}"
        );
        assert!(long.contains(&format!("Usage: logdrive {command}")), "{long}");
        let short = stdout(here(), &[command, "-h"]);
        assert!(short.lines().count() < long.lines().count(), "{short}");
        for text in [&long, &short] {
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        }
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(
        stdout(here(), &["--version"]),
        format!("logdrive {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn a_wrong_command_line_is_status_two_with_a_suggestion() {
    let none = run(here(), &[]);
    assert_eq!(none.status.code(), Some(2));
    assert!(
        text(&none.stderr).contains("Usage: logdrive"),
        "{}",
        text(&none.stderr)
    );
    for (args, expected) in [
        (&["recove"][..], "recover"),
        (&["ps", "--jsno"], "--json"),
        (&["completions", "tcsh"], "bash, elvish, fish, powershell, zsh"),
        (&["cat", "--color", "sometimes"], "auto, always, never"),
        (&["recover", "--into"], "--into <FILE>"),
    ] {
        let output = run(here(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            text(&output.stderr).contains(expected),
            "{args:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn completions_know_commands_and_options() {
    for (shell, expected) in [
        ("bash", "_logdrive()"),
        ("zsh", "#compdef logdrive"),
        ("fish", "complete -c logdrive"),
    ] {
        let script = stdout(here(), &["completions", shell]);
        assert!(script.contains(expected), "{shell}");
        for word in ["recover", "no-merge", "run-dir"] {
            assert!(script.contains(word), "{shell} {word}");
        }
    }
}

#[test]
fn manual_pages_are_written() {
    let page = stdout(here(), &["man"]);
    assert!(
        page.contains(".TH logdrive 1") && page.contains("Examples"),
        "{page}"
    );
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(stdout(dir.path(), &["man", "--dir", "made/man1"]), "");
    for command in COMMANDS {
        let page =
            fs::read_to_string(dir.path().join(format!("made/man1/logdrive-{command}.1"))).expect("a page");
        assert!(page.contains(&format!(".TH logdrive-{command} 1")), "{page}");
        // Examples are columns, which must not be filled to paragraphs.
        let (_, examples) = page.split_once(".nf\n").expect("examples");
        assert!(
            examples.contains(&format!("logdrive {command}")) || examples.contains("logdrive\\"),
            "{page}"
        );
    }
    for page in ["made/man1/logdrive-config-check.1", "made/man5/logdrive.toml.5"] {
        assert!(dir.path().join(page).exists(), "{page}");
    }
    fs::write(dir.path().join("file"), "").expect("a file");
    let output = run(dir.path(), &["man", "--dir", "file"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).starts_with("error: cannot write file: "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_page_is_found_by_its_name() {
    for (name, title) in [
        ("cat", ".TH logdrive-cat 1"),
        ("logdrive-config-init", ".TH logdrive-config-init 1"),
        ("logdrive.toml", ".TH logdrive.toml 5"),
    ] {
        assert!(stdout(here(), &["man", name]).contains(title), "{name}");
    }
    let output = run(here(), &["man", "logdrive.tmol"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("did you mean logdrive.toml?"),
        "{}",
        text(&output.stderr)
    );
}
