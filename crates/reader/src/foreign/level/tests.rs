//! Lines as common programs and libraries print them, and prose that must not be taken for a level.

use super::*;
use Level::{Debug, Error, Fatal, Info, Trace, Warn};
use logdrive_testkit::Random;

fn assert_levels(lines: &[(&str, Level)]) {
    for (line, level) in lines {
        assert_eq!(recognise(line.as_bytes()), Some(*level), "{line}");
    }
}

#[test]
fn levels_in_the_first_word_or_in_brackets_are_found() {
    assert_levels(&[
        // First word.
        ("INFO started", Info),
        ("ERROR: disk full", Error),
        ("WARNING:root:disk full", Warn),
        ("INFO:     127.0.0.1 - \"GET / HTTP/1.1\" 200", Info),
        ("INFO[0000] logrus on a terminal", Info),
        ("error: could not compile", Error),
        ("error[E0382]: borrow of moved value", Error),
        ("warning: unused variable", Warn),
        ("Error: no such file", Error),
        ("fatal: not a git repository", Fatal),
        ("panic: runtime error", Fatal),
        ("  DEBUG indented", Debug),
        ("TRACE", Trace),
        ("NOTE: see above", Info),
        ("fail: Microsoft.Hosting[6]", Error),
        // Brackets.
        ("[INFO] Building app 1.0", Info),
        ("[ WARN ] spaces", Warn),
        ("[error] sbt", Error),
        ("[warn] [net] two", Warn),
        ("(DEBUG) text", Debug),
        ("<info> text", Info),
        ("[main] INFO com.example.App - text", Info),
        ("[app][ERROR] text", Error),
        ("[E 12:34:56.789 NotebookApp] text", Error),
        ("[I 2611 12:34:56 web:1] text", Info),
        ("[ERROR 2026-11-21 12:34:56] text", Error),
        ("[2026-11-21 12:34:56.123] [net] [warning] spdlog", Warn),
        ("[2026-11-21T12:34:56,789][INFO ][o.e.n.Node] elastic", Info),
        ("[2026-11-21 12:34:56 +0000] [417] [INFO] gunicorn", Info),
        ("[2026-11-21T12:34:56Z WARN  app::net] env_logger", Warn),
        ("[417:417:1121/123456.789:ERROR:gpu.cc(42)] chromium", Error),
    ]);
}

#[test]
fn levels_behind_a_time_are_found() {
    assert_levels(&[
        ("2026-11-21T12:34:56.123456Z  INFO app: tracing", Info),
        ("2026-11-21 12:34:56,789 - app - ERROR - python", Error),
        (
            "2026-11-21 12:34:56.789  WARN 417 --- [main] c.e.App : spring",
            Warn,
        ),
        ("2026/11/21 12:34:56 [error] 417#0: nginx", Error),
        ("2026/11/21 12:34:56 INFO msg slog=1", Info),
        ("2026/11/21 12:34:56 error: go's log", Error),
        ("2026-11-21T12:34:56.123Z\tDEBUG\tcaller.go:7\tzap", Debug),
        ("2026-11-21 12:34:56.789 UTC [417] ERROR:  postgres", Error),
        ("2026-11-21 12:34:56.789 UTC [417] LOG:  postgres", Info),
        ("2026-11-21T12:34:56.123456Z 0 [Warning] [MY-010055] mysql", Warn),
        ("12:34:56.789 [main] ERROR com.example - logback", Error),
        ("12:34PM INF zerolog", Info),
        ("1763712345.123 DBG text", Debug),
        ("1763712345 WARN text", Warn),
        ("Nov 21 12:34:56 host app[417]: ERROR text", Error),
        ("Nov 21, 2026 12:34:56 PM INFO text", Info),
        ("Sat, 21 Nov 2026 WARN text", Warn),
    ]);
}

#[test]
fn levels_of_other_formats_are_found() {
    assert_levels(&[
        ("E1121 12:34:56.123456   417 file.cc:42] glog", Error),
        (
            "I20261121 12:34:56.123456   417 file.cc:42] glog with a year",
            Info,
        ),
        ("W1121 12:34:56.123456       1 main.go:10] klog", Warn),
        ("<3>kernel", Error),
        ("<30>daemon", Info),
        ("<15>user", Debug),
        ("E, [2026-11-21T12:34:56.123456 #417] ERROR -- : ruby", Error),
        ("cc1: fatal error: x.h: No such file", Error),
        ("app.c:7:3: warning: unused", Warn),
        ("ld: error: undefined symbol", Error),
        ("thread 'main' panicked at src/main.rs:7:5:", Error),
        ("thread 'main' (417) panicked at src/main.rs:7:5:", Error),
        ("time=\"2026-11-21T12:34:56Z\" level=warning msg=x", Warn),
        (
            "time=2026-11-21T12:34:56.123456789+01:00 level=ERROR msg=x",
            Error,
        ),
        ("ts=1 lvl=dbg msg=x", Debug),
        ("{severity=critical}", Fatal),
        // Colours.
        ("\x1b[32mINFO\x1b[0m started", Info),
        (
            "\x1b[2m2026-11-21T12:34:56.123456Z\x1b[0m \x1b[33m WARN\x1b[0m \x1b[2mapp\x1b[0m: x",
            Warn,
        ),
        (
            "\x1b[0m\x1b[1m\x1b[38;5;9merror\x1b[0m\x1b[1m: cargo\x1b[0m",
            Error,
        ),
    ]);
}

#[test]
fn prose_is_no_level() {
    for line in [
        "",
        " ",
        "hello",
        "0 errors, 2 warnings",
        "3 ERROR lines",
        "found 3 ERROR lines",
        "the INFO command",
        "information about it",
        "Errors: 0",
        "error handling is on",
        "Error handling is on",
        "warning signs",
        "INFORMATION",
        "ERRORS",
        "PANIC at the disco",
        "ALERT levels",
        "FAIL",
        "Note that",
        "errors: none",
        "no level=",
        "sublevel=error",
        "[errors] none",
        "[1/7] ERROR.txt",
        "[ 12%] Building C object error.c.o",
        "<html>",
        "<b>ERROR</b>",
        "<999>",
        "<3",
        "E1121",
        "E1121 text",
        "I am here",
        "Monday ERROR",
        "Mon petit ERROR",
        "2 + 2",
        "12:34:56 all is well",
        "2026-11-21 12:34:56 no error here",
        "thread 'main' is here",
        "downloading: error_log.txt",
        "\x1b[31mred prose\x1b[0m",
        "\x1b",
    ] {
        assert_eq!(recognise(line.as_bytes()), None, "{line}");
    }
}

#[test]
fn a_level_far_behind_the_front_does_not_count() {
    let line = format!("2026-11-21 {} ERROR: x", "-".repeat(HEAD_BYTES));
    assert_eq!(recognise(line.as_bytes()), None);
}

#[test]
fn no_bytes_make_it_panic() {
    let alphabet = b"<[({0123456789:-/.TtEeIi ERRORlevel=\"\x1b[m])>,|'\xff\x00\n";
    let mut random = Random::new(7);
    let mut found = 0;
    for _ in 0..200_000 {
        let line: Vec<u8> = (0..20).map(|_| alphabet[random.index(alphabet.len())]).collect();
        found += usize::from(recognise(&line).is_some());
    }
    assert!(found < 200_000);
}

#[test]
fn blanks_and_digits_are_counted_in_words_as_they_are_one_by_one() {
    let alphabet = b"    \t\x0b\x0c\r00123456789:/\x7f\x80\xb0\xffa";
    let mut random = Random::new(7);
    for round in 0..100_000 {
        let kinds = [4, 9, 19, alphabet.len()][round % 4];
        let text: Vec<u8> = (0..random.index(27))
            .map(|_| {
                let from = if round % 8 == 2 { 8 } else { 0 };
                alphabet[from + random.index(kinds - from)]
            })
            .collect();
        assert_eq!(trim_start(&text), text.trim_ascii_start(), "{text:?}");
        let digits = text.iter().position(|byte| !byte.is_ascii_digit());
        assert_eq!(digits_at(&text), digits, "{text:?}");
    }
}
