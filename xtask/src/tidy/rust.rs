//! Rules about the content of Rust files: openings, names, prints, and the purity of `wire`.

use super::source::{is_in, test_lines};
use super::{Report, Source, Tree};

/// File names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] = [
    "util", "utils", "common", "manager", "helper", "helpers", "misc", "stuff",
];
/// Names that the standard library gives its own methods, which a wrapper repeats.
const STD_NAMES: [&str; 3] = ["get_mut", "get_ref", "get_unchecked"];
const NO_PRINTS: &str = "#![deny(clippy::print_stdout, clippy::print_stderr)]";
/// Modules of `std` that reach outside the process, and its clocks.
const IMPURE: [&str; 6] = ["fs", "net", "thread", "process", "Instant", "SystemTime"];

pub(super) fn openings(tree: &Tree, report: &mut Report) {
    for file in tree.rust() {
        let first = file.text.lines().next().unwrap_or("").strip_prefix("//!");
        if first.is_none_or(|text| text.trim().is_empty()) {
            let advice = "open it with a `//!` paragraph that says which one idea it holds";
            report.add(file, 1, format!("the file does not say what it is; {advice}"));
        }
    }
}

pub(super) fn names(tree: &Tree, report: &mut Report) {
    for file in tree.rust() {
        for pair in file.code().windows(2) {
            let name = pair[1].text;
            let rest = name.strip_prefix("get_").filter(|_| !STD_NAMES.contains(&name));
            if let Some(rest) = rest.filter(|_| pair[0].is("fn")) {
                let text = format!("`{name}` starts with `get_`; name it for what it gives: `{rest}`");
                report.add(file, pair[1].line, text);
            }
        }
        let mut parts = file.path.trim_end_matches(".rs").split('/');
        if let Some(part) = parts.find(|part| EMPTY_NAMES.contains(part)) {
            let advice = "name the file for the one idea it holds, with a word of the glossary";
            report.add(file, 1, format!("`{part}` says nothing; {advice}"));
        }
    }
}

/// The check itself is clippy's; its level differs between libraries and programs, so each library sets it.
pub(super) fn prints(tree: &Tree, report: &mut Report) {
    let roots = tree.packages.iter().flat_map(|package| &package.roots);
    for root in roots.filter(|root| root.starts_with("crates/") && root.ends_with("/lib.rs")) {
        if let Some(file) = tree.file(root).filter(|file| !file.text.contains(NO_PRINTS)) {
            let advice = "add it below the opening paragraph";
            report.add(
                file,
                1,
                format!("the library's root lacks `{NO_PRINTS}`; {advice}"),
            );
        }
    }
}

pub(super) fn pure(tree: &Tree, report: &mut Report) {
    let in_wire = |file: &&Source| file.path.starts_with("crates/wire/src/");
    for file in tree.production().filter(in_wire) {
        let code = file.code();
        let tests = test_lines(&code);
        for (at, token) in code.iter().enumerate() {
            let in_path = at >= 2 && code[at - 1].is(":") && code[at - 2].is(":");
            let of_std = in_path && at >= 3 && code[at - 3].is("std");
            let clock = token.is("Instant") || token.is("SystemTime");
            let impure = IMPURE.iter().any(|name| token.is(name)) && (of_std || clock);
            if impure && !is_in(&tests, token.line) {
                let advice = "pass bytes and `now` in, and do the I/O on a higher floor";
                report.add(
                    file,
                    token.line,
                    format!("`wire` uses `{}`; {advice}", token.text),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NO_PRINTS;
    use crate::metadata::Package;
    use crate::tidy::{Tree, assert_finds, assert_passes, findings_of};

    const LIB: &str = "crates/wire/src/lib.rs";

    #[test]
    fn a_file_without_a_paragraph_is_found() {
        assert_finds("opening", &[(LIB, "use x;\n")], "crates/wire/src/lib.rs:1:");
        assert_finds("opening", &[(LIB, "//!\nuse x;\n")], "crates/wire/src/lib.rs:1:");
        assert_passes("opening", &[(LIB, "//! X.\nuse x;\n")]);
    }

    #[test]
    fn empty_names_are_found() {
        assert_finds("names", &[(LIB, "fn get_x() {}\n")], "crates/wire/src/lib.rs:1:");
        assert_finds(
            "names",
            &[("crates/wire/tests/common/mod.rs", "")],
            "crates/wire/tests/common/mod.rs:1:",
        );
        assert_passes("names", &[(LIB, "fn get_mut() {}\nfn getter() { get_x(); }\n")]);
    }

    #[test]
    fn a_library_that_may_print_is_found() {
        let tree = |root: &str, text: &str| {
            let mut tree = Tree::of(&[(root, text)]);
            tree.packages = vec![Package {
                roots: vec![root.to_owned()],
                ..Package::default()
            }];
            findings_of("prints", &tree)
        };
        assert!(tree(LIB, "//! X.\n")[0].starts_with("crates/wire/src/lib.rs:1: the library's root lacks"));
        assert!(tree(LIB, &format!("//! X.\n{NO_PRINTS}\n")).is_empty());
        assert!(tree("crates/cli/src/main.rs", "//! X.\n").is_empty());
    }

    #[test]
    fn io_and_clocks_in_wire_are_found() {
        assert_finds("pure", &[(LIB, "use std::fs;\n")], "crates/wire/src/lib.rs:1:");
        assert_finds(
            "pure",
            &[(LIB, "use std::time::Instant;\n")],
            "crates/wire/src/lib.rs:1:",
        );
        assert_passes(
            "pure",
            &[
                (LIB, "use std::fmt;\nlet fs = 1;\n"),
                ("crates/ring/src/lib.rs", "use std::fs;\n"),
            ],
        );
    }
}
