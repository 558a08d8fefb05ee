//! Rules about tests: none ignored, none that sleeps, none without an assertion.

use super::lexer::{Kind, Token};
use super::source::{Function, functions, is_in, test_lines};
use super::{Report, Source, Tree};
use std::collections::BTreeSet;

/// Parts of names whose call can fail a test.
const JUDGES: &str = "assert expect unwrap panic unreachable check verify";

/// Returns whether the whole file is test code: it lies under `tests/`, or only tests compile it.
pub(super) fn is_test_file(tree: &Tree, file: &Source) -> bool {
    lies_under_tests(&file.path) || tree.test_files.contains(&file.path)
}

/// Returns whether a folder `tests` stands in the path.
pub(super) fn lies_under_tests(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/")
}

pub(super) fn ignored(tree: &Tree, report: &mut Report) {
    for file in tree.rust() {
        let code = file.code();
        let is_ignored = |trio: &&[Token<'_>]| trio[0].is("#") && trio[1].is("[") && trio[2].is("ignore");
        for trio in code.windows(3).filter(is_ignored) {
            report.add(file, trio[2].line, "an ignored test; make it run, or take it out");
        }
        for comment in file.comments().iter().filter(|comment| comment.kind == Kind::Doc) {
            let text = comment.text.trim_start_matches(['/', '!', '*', ' ']);
            let info = text.strip_prefix("```").unwrap_or_default();
            if info.split([',', ' ']).any(|word| word == "ignore") {
                let text = "an ignored example; let it compile; `no_run` keeps it from running";
                report.add(file, comment.line, text);
            }
        }
    }
}

pub(super) fn sleeps(tree: &Tree, report: &mut Report) {
    for file in tree.rust() {
        let code = file.code();
        let whole = is_test_file(tree, file);
        let tests = test_lines(&code);
        for pair in code.windows(2) {
            let line = pair[0].line;
            if pair[0].is("sleep") && pair[1].is("(") && (whole || is_in(&tests, line)) {
                let advice = "pass time in, or wait on a condition with a deadline";
                report.add(file, line, format!("a test sleeps; {advice}"));
            }
        }
    }
}

/// A test passes this rule when it calls something that can fail it: directly, by `?`, or through a
/// function of the project that does.
pub(super) fn assertions(tree: &Tree, report: &mut Report) {
    let codes: Vec<(&Source, Vec<Token<'_>>)> = tree.rust().map(|file| (file, file.code())).collect();
    let all = codes.iter();
    let all = all.flat_map(|(file, code)| functions(code).into_iter().map(move |f| (*file, f)));
    let all: Vec<(&Source, Function<'_>)> = all.collect();
    let mut judging: BTreeSet<&str> = BTreeSet::new();
    loop {
        let found = all.iter().filter(|(_, f)| judges(f, &judging));
        let found: BTreeSet<&str> = found.map(|(_, f)| f.name).collect();
        if found.len() == judging.len() {
            break;
        }
        judging = found;
    }
    for (file, function) in all.iter().filter(|(_, f)| f.is_test && !judges(f, &judging)) {
        let text = format!(
            "the test `{}` asserts nothing; say what must be true at its end",
            function.name
        );
        report.add(file, function.first_line, text);
    }
}

fn judges(function: &Function<'_>, judging: &BTreeSet<&str>) -> bool {
    function.body.iter().any(|token| match token.kind {
        Kind::Name => JUDGES.split(' ').any(|part| token.text.contains(part)) || judging.contains(token.text),
        Kind::Mark => token.text == "?",
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use crate::tidy::{assert_finds, assert_passes};

    const LIB: &str = "crates/ring/src/lib.rs";

    #[test]
    fn an_ignored_test_and_an_ignored_example_are_found() {
        assert_finds(
            "ignored",
            &[(LIB, "#[test]\n#[ignore]\nfn a() {}\n")],
            "crates/ring/src/lib.rs:2:",
        );
        assert_finds(
            "ignored",
            &[(LIB, "#[ignore = \"slow\"]\nfn a() {}\n")],
            "crates/ring/src/lib.rs:1:",
        );
        assert_finds(
            "ignored",
            &[(LIB, "/// ```rust,ignore\n/// ```\nfn a() {}\n")],
            "crates/ring/src/lib.rs:1:",
        );
        assert_passes(
            "ignored",
            &[(LIB, "#[cfg_attr(miri, ignore)]\n/// ```no_run\nfn ignore() {}\n")],
        );
    }

    #[test]
    fn a_sleeping_test_is_found_wherever_tests_live() {
        let sleeps = "fn a() { std::thread::sleep(x); }\n";
        assert_finds(
            "sleep",
            &[("crates/ring/tests/a.rs", sleeps)],
            "crates/ring/tests/a.rs:1:",
        );
        assert_finds(
            "sleep",
            &[(LIB, &format!("#[cfg(test)]\nmod tests {{\n{sleeps}}}\n"))],
            "crates/ring/src/lib.rs:3:",
        );
        let files = [
            (LIB, "#[cfg(test)]\nmod kill;\n"),
            ("crates/ring/src/kill.rs", sleeps),
        ];
        assert_finds("sleep", &files, "crates/ring/src/kill.rs:1:");
    }

    #[test]
    fn sleeping_outside_tests_or_with_a_reason_passes() {
        let sleeps = "fn a() { std::thread::sleep(x); }\n";
        let allowed = format!("// {}: allow(sleep): polls with a deadline\n{sleeps}", "tidy");
        assert_passes("sleep", &[(LIB, sleeps), ("crates/ring/tests/a.rs", &allowed)]);
    }

    #[test]
    fn a_test_that_cannot_fail_is_found() {
        let file = "#[test]\nfn a() { run(); }\nfn run() {}\n";
        assert_finds("assertion", &[(LIB, file)], "crates/ring/src/lib.rs:2:");
        let judged = "#[test]\nfn a() { run(); }\nfn run() { deep(); }\nfn deep() { assert!(x); }\n";
        assert_passes("assertion", &[(LIB, judged)]);
        assert_passes("assertion", &[(LIB, "#[test]\nfn a() -> R { run()?; Ok(()) }\n")]);
    }
}
