//! Rules about the shape and content of Rust files: lengths, openings, names, leftovers, prints, and
//! the purity of `wire`.

use super::lexer::Kind;
use super::source::{functions as functions_of, is_in, test_lines};
use super::testing::is_test_file;
use super::{Report, Source, Tree};

const FUNCTION_LINES: u32 = 70;
const FILE_LINES: usize = 800;
/// Languages whose files are held to the length of a file.
const SOURCES: [&str; 6] = ["rs", "c", "h", "cpp", "hpp", "go"];
/// File names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] = [
    "util", "utils", "common", "manager", "helper", "helpers", "misc", "stuff",
];
/// Names that the standard library gives its own methods, which a wrapper repeats.
const STD_NAMES: [&str; 3] = ["get_mut", "get_ref", "get_unchecked"];
const LEFTOVERS: [&str; 3] = ["todo", "unimplemented", "dbg"];
const PRINTS: [&str; 4] = ["print", "println", "eprint", "eprintln"];
/// Crates that run inside a user's program, or that serve one.
const LIBRARIES: [&str; 8] = [
    "wire", "ring", "drain", "store", "ship", "reader", "logdrive", "capi",
];
/// Modules of `std` that reach outside the process, and its clocks.
const IMPURE: [&str; 6] = ["fs", "net", "thread", "process", "Instant", "SystemTime"];

pub(super) fn functions(tree: &Tree, report: &mut Report) {
    for file in tree.rust() {
        let code = file.code();
        for function in functions_of(&code) {
            let lines = function.last_line - function.first_line + 1;
            if lines > FUNCTION_LINES {
                let what = format!(
                    "`{}` has {lines} lines, {FUNCTION_LINES} are allowed",
                    function.name
                );
                report.add(
                    file,
                    function.first_line,
                    what,
                    "split off a piece that has a name of its own",
                );
            }
        }
    }
}

pub(super) fn files(tree: &Tree, report: &mut Report) {
    for file in tree
        .files()
        .iter()
        .filter(|file| SOURCES.contains(&file.extension()))
    {
        let lines = file.text.lines().count();
        if lines > FILE_LINES {
            let what = format!("the file has {lines} lines, {FILE_LINES} are allowed");
            report.add(
                file,
                1,
                what,
                "find its second idea and move it to a file of its own",
            );
        }
    }
}

pub(super) fn openings(tree: &Tree, report: &mut Report) {
    for file in tree.rust() {
        let first = file.text.lines().next().unwrap_or("");
        if first
            .strip_prefix("//!")
            .is_none_or(|text| text.trim().is_empty())
        {
            let advice = "open it with a `//!` paragraph that says which one idea it holds";
            report.add(file, 1, "the file does not say what it is", advice);
        }
    }
}

pub(super) fn names(tree: &Tree, report: &mut Report) {
    for file in tree.rust() {
        let code = file.code();
        for pair in code
            .windows(2)
            .filter(|pair| pair[0].is("fn") && pair[1].kind == Kind::Name)
        {
            let name = pair[1].text;
            if let Some(rest) = name.strip_prefix("get_").filter(|_| !STD_NAMES.contains(&name)) {
                let advice = format!("name it for what it gives: `{rest}`");
                report.add(file, pair[1].line, format!("`{name}` starts with `get_`"), advice);
            }
        }
        let empty = file
            .path
            .split('/')
            .map(|part| part.strip_suffix(".rs").unwrap_or(part));
        if let Some(part) = empty.into_iter().find(|part| EMPTY_NAMES.contains(part)) {
            let advice = "name the file for the one idea it holds, with a word of the glossary";
            report.add(file, 1, format!("`{part}` says nothing"), advice);
        }
    }
}

/// Lines where one of `macros` is called.
fn calls<'a>(file: &'a Source, macros: &[&str]) -> Vec<(u32, &'a str)> {
    let code = file.code();
    let called = code
        .windows(2)
        .filter(|pair| pair[1].is("!") && macros.iter().any(|name| pair[0].is(name)));
    called.map(|pair| (pair[0].line, pair[0].text)).collect()
}

pub(super) fn leftovers(tree: &Tree, report: &mut Report) {
    for file in tree.rust() {
        for (line, name) in calls(file, &LEFTOVERS) {
            report.add(
                file,
                line,
                format!("`{name}!` is left over"),
                "finish it or take it out",
            );
        }
    }
}

/// Whether a file belongs to the product of one of the `crates`, tests and build scripts aside.
fn is_product(tree: &Tree, file: &Source, crates: &[&str]) -> bool {
    let inside = crates
        .iter()
        .any(|name| file.path.starts_with(&format!("crates/{name}/src/")));
    inside && !is_test_file(tree, file)
}

pub(super) fn prints(tree: &Tree, report: &mut Report) {
    for file in tree.rust().filter(|file| is_product(tree, file, &LIBRARIES)) {
        let tests = test_lines(&file.code());
        for (line, name) in calls(file, &PRINTS) {
            if !is_in(&tests, line) {
                let advice = "return an error, count it, or make it a record";
                report.add(file, line, format!("a library calls `{name}!`"), advice);
            }
        }
    }
}

pub(super) fn pure(tree: &Tree, report: &mut Report) {
    for file in tree.rust().filter(|file| is_product(tree, file, &["wire"])) {
        let code = file.code();
        let tests = test_lines(&code);
        for (at, token) in code.iter().enumerate() {
            let in_path = at >= 2 && code[at - 1].is(":") && code[at - 2].is(":");
            let of_std = in_path && at >= 3 && code[at - 3].is("std");
            let clock = token.is("Instant") || token.is("SystemTime");
            let impure = IMPURE.iter().any(|name| token.is(name)) && (of_std || clock);
            if impure && !is_in(&tests, token.line) {
                let what = format!("`wire` uses `{}`", token.text);
                report.add(
                    file,
                    token.line,
                    what,
                    "pass bytes and `now` in, and do the I/O on a higher floor",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tidy::{assert_finds, assert_passes};

    const LIB: &str = "crates/wire/src/lib.rs";

    #[test]
    fn a_function_of_71_lines_is_found() {
        let long = |lines: usize| format!("//! X.\nfn a() {{\n{}}}\n", "    b();\n".repeat(lines - 2));
        assert_finds(
            "function",
            &[(LIB, &long(71))],
            "crates/wire/src/lib.rs:2: `a` has 71 lines",
        );
        assert_passes("function", &[(LIB, &long(70))]);
    }

    #[test]
    fn a_file_of_801_lines_is_found() {
        assert_finds(
            "file",
            &[(LIB, &"//! X.\n".repeat(801))],
            "crates/wire/src/lib.rs:1:",
        );
        assert_finds(
            "file",
            &[("clients/cpp/a.hpp", &"// X.\n".repeat(801))],
            "clients/cpp/a.hpp:1:",
        );
        assert_passes(
            "file",
            &[(LIB, &"//! X.\n".repeat(800)), ("a.json", &"1\n".repeat(801))],
        );
    }

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
    fn leftover_macros_are_found_in_code_only() {
        assert_finds(
            "leftovers",
            &[(LIB, "\nfn a() { todo!() }\n")],
            "crates/wire/src/lib.rs:2:",
        );
        assert_passes(
            "leftovers",
            &[(LIB, "// todo!()\nfn a() { \"dbg!(x)\"; todo(); }\n")],
        );
    }

    #[test]
    fn a_print_in_a_library_is_found_and_in_a_program_or_test_it_is_not() {
        let code = "fn a() { println!(); }\n";
        assert_finds("prints", &[(LIB, code)], "crates/wire/src/lib.rs:1:");
        let test = format!("#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert_passes(
            "prints",
            &[
                ("crates/cli/src/main.rs", code),
                ("crates/wire/tests/a.rs", code),
                (LIB, &test),
            ],
        );
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
