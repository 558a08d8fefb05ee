//! The rule about atomics: every ordering stronger than Relaxed carries a label, `SYNC(name)` in a
//! comment beside it, and both ends of a pair carry the same one.

use super::lexer::Token;
use super::source::{is_in, test_lines};
use super::{Report, Source, Tree};
use std::collections::BTreeMap;

const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];
/// Lines above an operation in which its label may stand: a comment, and the few operations that it explains.
const REACH_LINES: u32 = 12;
const LABEL: &str = "SYNC(";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let mut ends: BTreeMap<String, Vec<(&Source, u32)>> = BTreeMap::new();
    let files = tree.production();
    for file in files.filter(|file| file.path.starts_with("crates/")) {
        let labels = labels(file);
        for line in strong_lines(file) {
            if !labels
                .iter()
                .any(|(at, _)| *at <= line + 1 && at + REACH_LINES >= line)
            {
                let advice = "say in a comment which other end it pairs with: `SYNC(name): ...`";
                let text = format!("an ordering stronger than Relaxed without a label; {advice}");
                report.add(file, line, text);
            }
        }
        for (line, name) in labels {
            ends.entry(name).or_default().push((file, line));
        }
    }
    for (name, places) in ends {
        if let [(file, line)] = places[..] {
            let advice = "label the other end of the pair with the same name";
            report.add(
                file,
                line,
                format!("`SYNC({name})` stands at one end only; {advice}"),
            );
        }
    }
}

/// Lines outside tests and imports that name a strong ordering.
fn strong_lines(file: &Source) -> Vec<u32> {
    let code = file.code();
    let is_atomic = |token: &Token<'_>| token.is("Ordering") || token.is("atomic");
    if !code.iter().any(is_atomic) {
        return Vec::new();
    }
    let tests = test_lines(&code);
    let mut lines = Vec::new();
    let mut in_use = false;
    for (at, token) in code.iter().enumerate() {
        in_use = if token.is("use") {
            true
        } else {
            in_use && !token.is(";")
        };
        if !in_use && is_strong(&code, at) && !is_in(&tests, token.line) {
            lines.push(token.line);
        }
    }
    lines.dedup();
    lines
}

/// `Ordering::Release`, or a bare `Release` as an argument.
fn is_strong(code: &[Token<'_>], at: usize) -> bool {
    if !STRONG.iter().any(|name| code[at].is(name)) {
        return false;
    }
    let qualified = at >= 3 && code[at - 3].is("Ordering");
    // A compiler fence orders one thread with its own signal handlers: it has no other end.
    let compiler_only = at >= 5 && code[at - 5].is("compiler_fence");
    let argument = at >= 1 && (code[at - 1].is(",") || code[at - 1].is("("));
    !compiler_only && qualified
        || argument && code.get(at + 1).is_some_and(|next| next.is(")") || next.is(","))
}

/// Every `SYNC(name)` in the file's comments, with its line.
fn labels(file: &Source) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for comment in file.comments() {
        for (line, text) in (comment.line..).zip(comment.text.lines()) {
            for part in text.split(LABEL).skip(1) {
                if let Some((names, _)) = part.split_once(')') {
                    found.extend(names.split(',').map(|name| (line, name.trim().to_owned())));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::tidy::{assert_finds, assert_passes};

    const RING: &str = "crates/ring/src/ring.rs";

    #[test]
    fn an_ordering_without_a_label_is_found() {
        assert_finds(
            "orderings",
            &[(RING, "fn a() { x.load(Ordering::Acquire); }\n")],
            "crates/ring/src/ring.rs:1:",
        );
        let imported = "use std::sync::atomic::Ordering::Release;\nfn a() { x.store(1, Release); }\n";
        assert_finds("orderings", &[(RING, imported)], "crates/ring/src/ring.rs:2:");
    }

    #[test]
    fn a_label_at_one_end_only_is_found() {
        let one = "// SYNC(commit): pairs with the consumer.\nfn a() { x.store(1, Ordering::Release); }\n";
        assert_finds("orderings", &[(RING, one)], "crates/ring/src/ring.rs:1:");
        let other = "fn b() { x.load(Ordering::Acquire) } // SYNC(commit)\n";
        assert_passes(
            "orderings",
            &[(RING, one), ("crates/ring/src/consumer.rs", other)],
        );
    }

    #[test]
    fn relaxed_tests_and_comparisons_pass() {
        let code = "fn a() { x.load(Ordering::Relaxed); compiler_fence(Ordering::SeqCst); if y == Ordering::Less {} }\n";
        let test = "#[cfg(test)]\nmod tests {\nfn a() { x.load(Ordering::SeqCst); }\n}\n";
        assert_passes("orderings", &[(RING, code), ("crates/ring/src/a.rs", test)]);
    }
}
