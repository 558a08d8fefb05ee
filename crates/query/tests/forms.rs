//! Forms of the language: what is read, what is an error and where, and that what is written back means the same.

use logdrive_query::{Query, Row};
use std::fmt::Write;

/// Filters as they may be written, and as they are written back.
const FILTERS: &[(&str, &str)] = &[
    ("error", "error"),
    ("*", "*"),
    ("a b and c", "(a and b and c)"),
    ("a or b c", "(a or (b and c))"),
    ("not a or -b !c", "(not a or (not b and not c))"),
    ("(a or b) c", "((a or b) and c)"),
    (r#""two words""#, r#""two words""#),
    ("'it is' `C:\\x`", r#"("it is" and "C:\\x")"#),
    ("err* \"two wo\"*", "(err* and \"two wo\"*)"),
    ("*mid*", "*mid*"),
    ("i(Error)", "i(Error)"),
    (r#"~"time.*out""#, r#"~"time.*out""#),
    ("user:ann", "user:ann"),
    ("user: ann", "user:ann"),
    ("user:=ann", "user:=ann"),
    ("user:=an*", "user:=an*"),
    ("user:!=ann", "not user:=ann"),
    (r#"user:~"^a\d+""#, r#"user:~"^a\\d+""#),
    ("user:!~ann", "not user:~ann"),
    ("user:in(ann, \"b c\", -5)", r#"user:in(ann, "b c", "-5")"#),
    ("user:(ann or bob*)", "(user:ann or user:bob*)"),
    ("user:*", "user:*"),
    (r#"user:"""#, r#"user:"""#),
    ("took_ms:>5", "took_ms:>5"),
    ("size:<=10KiB", "size:<=10KiB"),
    ("size:>-1.5", "size:>-1.5"),
    ("n:range[1,5)", "n:range[1, 5)"),
    ("n:range(-inf, 5]", "n:range(-inf, 5]"),
    ("module:app::net", "module:\"app::net\""),
    ("domain:in.example.com", "domain:in.example.com"),
    (r#""order id":7"#, r#""order id":7"#),
    ("level:WARN", "level:warn"),
    ("level:>=warn", "level:>=warn"),
    ("level:in(warn,error)", "level:in(warn, error)"),
    ("level:(warn or error)", "(level:warn or level:error)"),
    ("level:!=debug", "not level:debug"),
    ("_time:10m", "_time:10m"),
    ("_time:5m offset 1h", "_time:5m offset 1h"),
    ("_time:2026-11-21", "_time:2026-11-21"),
    (
        "_time:[2026-11-21T08:00, 2026-11-21T09:00Z)",
        "_time:[2026-11-21T08:00, 2026-11-21T09:00Z)",
    ),
    ("_time:>=2026-11-21", "_time:>=2026-11-21"),
];

/// The same of pipes.
const PIPES: &[(&str, &str)] = &[
    ("a | stats count()", "a | stats count()"),
    ("a | stats count() by (user)", "a | stats by (user) count()"),
    (
        "a | stats by (user, _time:1m) sum(n) as s, avg(n) mean, median(n)",
        "a | stats by (user, _time:1m) sum(n) as s, avg(n) as mean, quantile(0.5, n)",
    ),
    (
        "a | stats percentile(95, n), quantile(0.5, n), count_uniq(u), min(n), max(n)",
        "a | stats quantile(0.95, n), quantile(0.5, n), count_uniq(u), min(n), max(n)",
    ),
    ("a | top 5 by (user)", "a | top 5 by (user)"),
    ("a | top by (user)", "a | top 10 by (user)"),
    (
        "a | uniq by (user) with hits limit 3",
        "a | uniq by (user) with hits limit 3",
    ),
    (
        "a | sort by (n desc, user) limit 3",
        "a | sort by (n desc, user) limit 3",
    ),
    ("a | sort by (n, user) desc", "a | sort by (n desc, user desc)"),
    ("a | limit 3 | offset 2", "a | limit 3 | offset 2"),
    ("a | fields user, n", "a | fields user, n"),
    (
        r#"a | extract "took <ms> ms" from message"#,
        r#"a | extract "took <ms> ms" from message"#,
    ),
    (
        r#"a | extract_regexp "(?P<n>[0-9]+)""#,
        r#"a | extract_regexp "(?P<n>[0-9]+)""#,
    ),
    (
        "a | stats count() n | filter n:>5",
        "a | stats count() as n | filter n:>5",
    ),
];

#[test]
fn every_form_is_read_and_written_back() {
    for (text, expected) in FILTERS.iter().chain(PIPES).copied() {
        let query = Query::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(query.to_string(), expected, "{text}");
        assert_eq!(Query::parse(expected).as_ref(), Ok(&query), "{expected}");
    }
}

#[test]
fn what_is_not_understood_is_an_error_at_its_place() {
    let mut shown = String::new();
    for (text, offset) in [
        ("", 0),
        ("order_id=7", 8),
        ("order_id=7 or order_id=8", 8),
        ("user!=ann", 4),
        ("took_ms>5", 7),
        ("pod=~\"x\"", 3),
        ("a and", 5),
        ("or b", 0),
        ("and", 0),
        ("(a or b", 7),
        ("a)", 1),
        ("\"open", 0),
        ("foo*bar", 4),
        ("user:~bar.*", 10),
        ("user:~\"a(\"", 6),
        ("user:~\"(a{1000}){1000}\"", 6),
        ("=x", 0),
        (":x", 0),
        ("n:>many", 3),
        ("n:range[1,5", 11),
        ("n:range[1;5)", 9),
        ("n:in(a", 6),
        ("n:in()", 5),
        ("level:loud", 6),
        ("level:>loud", 7),
        ("_time:soon", 6),
        ("_time:[2026-13-01, 2026-12-01]", 7),
        ("_stream:x", 0),
        ("10.0.0.1:80", 0),
        ("http://x/y", 5),
        ("seq(a, b)", 0),
        ("user:(a:b)", 6),
        ("-=x", 1),
        ("a | unique by (x)", 4),
        ("a | stats", 9),
        ("a | stats total()", 10),
        ("a | stats sum()", 14),
        ("a | stats quantile(5, n)", 19),
        ("a | sort n", 9),
        ("a | top 5", 9),
        ("a | limit many", 10),
        ("a | fields", 10),
        ("a | extract \"none\"", 12),
        ("a | extract \"<a><b>\"", 12),
        ("a | extract_regexp \"[0-9]+\"", 19),
        ("a | stats count() by (_time:0s)", 28),
        ("a || b", 3),
        ("a |", 3),
        ("a & b", 2),
    ] {
        let error = Query::parse(text).expect_err(text);
        assert_eq!(error.offset, offset, "{text}: {error}");
        assert!(!error.message.is_empty());
        writeln!(shown, "{error}\n").expect("a string takes all");
    }
    // The caret stands below the place.
    assert!(
        shown.contains("\n  order_id=7 or order_id=8\n          ^ write order_id:=7 for"),
        "{shown}"
    );
    assert!(
        shown.contains("\n  a | unique by (x)\n      ^ write uniq by (field)"),
        "{shown}"
    );
}

#[test]
fn conditions_of_hl_are_aliases() {
    for (text, expected) in [
        ("id=7", "(id:=7 or id:range[7, 7])"),
        ("user=ann", "user:=ann"),
        ("user=", r#"user:="""#),
        ("user = ann b ", r#"user:="ann b""#),
        ("user!=ann", "not user:=ann"),
        ("user~=nn", "user:*nn*"),
        ("user!~=nn", "not user:*nn*"),
        ("user~~=^a", r#"user:~"^a""#),
        ("ms>=1.5", "ms:>=1.5"),
        ("level=WARN", "level:warn"),
        ("level>=warn", "level:>=warn"),
        (
            "user=ann or user=bob and n>1",
            "(user:=ann or (user:=bob and n:>1))",
        ),
        (r#"user="ann or bob""#, r#"user:="ann or bob""#),
        ("file=a/b.rs", "file:=a/b.rs"),
        ("größe=ä", "größe:=ä"),
    ] {
        let query = Query::parse_condition(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(query.to_string(), expected, "{text}");
        assert_eq!(Query::parse(expected).as_ref(), Ok(&query), "{expected}");
    }
    for (text, offset) in [
        ("", 0),
        ("id", 2),
        ("=7", 0),
        ("id>many", 3),
        ("id=7 or 8", 5),
        ("id!7", 2),
        (r#"user="a" b"#, 9),
        ("level=loud", 6),
        ("user~~=(", 7),
        ("user~=", 6),
    ] {
        let error = Query::parse_condition(text).expect_err(text);
        assert_eq!(error.offset, offset, "{text}: {error}");
    }
}

#[test]
fn hostile_queries_are_refused_within_bounds() {
    let deep = |open: &str, close: &str| format!("{}a{}", open.repeat(5_000), close.repeat(5_000));
    for text in [
        deep("(", ")"),
        deep("-", ""),
        deep("not ", ""),
        deep("x:(", ")"),
        "a | limit 1 ".repeat(100),
        "x".repeat(100_000),
        format!("n:in({}b)", "a,".repeat(10_000)),
        format!("~\"{}\"", "(".repeat(10_000)),
        format!("~\"{}\"", "a{999}".repeat(1_000)),
    ] {
        let error = Query::parse(&text).expect_err("it is too much");
        let shown = error.to_string();
        assert!(shown.len() < 1_000, "{shown}");
    }
    // Many tests in a row are no depth.
    let many = "a ".repeat(20_000);
    assert!(Query::parse(&many).expect("it is flat").plan(0).matches(&mut {
        let mut row = Row::default();
        row.push("message", "a");
        row
    }));
}

#[test]
fn an_error_of_a_long_query_shows_its_surroundings() {
    let text = format!("{} b=1", "ä ".repeat(200));
    let error = Query::parse(&text).expect_err("an equals sign");
    let shown = error.to_string();
    let [_, line, caret] = shown.lines().collect::<Vec<_>>()[..] else {
        panic!("{shown}");
    };
    let column = caret.chars().position(|c| c == '^').expect("a caret");
    assert_eq!(line.chars().nth(column), Some('='), "{shown}");
}
