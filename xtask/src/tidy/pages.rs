//! Rules about the project's pages and data: their length, facts that stand twice, and the vectors.

use super::{Report, Source, Tree};
use serde_json::Value;

/// Pages with a limit, in lines: a page that is read by everyone has to stay short.
const LENGTHS: [(&str, usize); 2] = [("README.md", 150), ("CONTRIBUTING.md", 100)];
/// Integers beyond this lose digits in languages whose numbers are doubles.
const EXACT_INTEGER_MAX: u64 = 1 << 53;

pub(super) fn lengths(tree: &Tree, report: &mut Report) {
    for (path, most) in LENGTHS {
        let Some(file) = tree.file(path) else {
            report.add_at(path, 1, "the page is missing; write it");
            continue;
        };
        let lines = file.text.lines().count();
        if lines > most {
            let advice = "move detail to a page of its own";
            report.add_at(path, 1, format!("{lines} lines, {most} are allowed; {advice}"));
        }
    }
}

/// Compares the version that a page names after `Rust` with the one in the manifest.
pub(super) fn rust_version(tree: &Tree, report: &mut Report) {
    let mut versions = tree
        .packages
        .iter()
        .map(|package| package.rust_version.as_deref());
    let Some(wanted) = versions.find_map(|version| version) else {
        return;
    };
    for package in &tree.packages {
        if package.rust_version.as_deref() != Some(wanted) {
            let manifest = format!("{}/Cargo.toml", package.dir);
            let advice = "write `rust-version.workspace = true`";
            report.add_at(
                &manifest,
                1,
                format!("the minimum Rust version is not {wanted}; {advice}"),
            );
        }
    }
    let is_page = |file: &&Source| file.extension() == "md" && !file.path.starts_with("bench/");
    for file in tree.files().iter().filter(is_page) {
        for (at, line) in file.lines() {
            if let Some(named) = named_version(line).filter(|named| named != wanted) {
                let what = format!("the page says Rust {named}, the manifest {wanted}");
                report.add(file, at, format!("{what}; name the same version"));
            }
        }
    }
}

/// The `1.95` of `Rust 1.95`, `rustc 1.95.0` or a badge's `Rust-1.95`.
fn named_version(line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    let starts = ["rust ", "rust-", "rustc ", "rust version ", "msrv "];
    let rest = starts.iter().find_map(|start| {
        let at = lower.find(&format!("{start}1."))?;
        Some(&line[at + start.len()..])
    })?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
    let version = &rest[..end.unwrap_or(rest.len())];
    Some(version.split('.').take(2).collect::<Vec<_>>().join("."))
}

pub(super) fn vectors(tree: &Tree, report: &mut Report) {
    let is_vector = |path: &str| path.starts_with("vectors/") && path.ends_with(".json");
    for file in tree.files().iter().filter(|file| is_vector(&file.path)) {
        match serde_json::from_str::<Value>(&file.text) {
            Err(cause) => {
                let line = u32::try_from(cause.line()).unwrap_or(1);
                report.add_at(
                    &file.path,
                    line,
                    format!("it does not parse: {cause}; mend the JSON"),
                );
            }
            Ok(value) => {
                if let Some(number) = large_integer(&value) {
                    let found = file.lines().find(|(_, line)| line.contains(&number));
                    let text = "loses digits in some languages; write 64-bit integers as strings";
                    report.add_at(
                        &file.path,
                        found.map_or(1, |(at, _)| at),
                        format!("{number} {text}"),
                    );
                }
            }
        }
    }
}

/// The first number in `value` that a double cannot hold exactly.
fn large_integer(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => {
            let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            let is_large = magnitude.is_some_and(|magnitude| magnitude > EXACT_INTEGER_MAX);
            is_large.then(|| number.to_string())
        }
        Value::Array(items) => items.iter().find_map(large_integer),
        Value::Object(map) => map.values().find_map(large_integer),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Package;
    use crate::tidy::{assert_finds, assert_passes, findings_of};

    #[test]
    fn pages_that_are_long_or_missing_are_found() {
        let fine = ("CONTRIBUTING.md", "x\n");
        assert_finds(
            "pages",
            &[("README.md", &"x\n".repeat(151)), fine],
            "README.md:1: 151 lines",
        );
        assert_finds("pages", &[fine], "README.md:1: the page is missing");
        assert_passes("pages", &[("README.md", &"x\n".repeat(150)), fine]);
    }

    #[test]
    fn a_version_that_drifted_is_found() {
        let versions = |page: &str, own: &str| {
            let mut tree = Tree::of(&[("README.md", page)]);
            let package = |version: &str| Package {
                rust_version: Some(version.to_owned()),
                ..Package::default()
            };
            tree.packages = vec![package("1.95"), package(own)];
            findings_of("version", &tree).len()
        };
        assert_eq!(versions("needs Rust 1.95.0 or later\n", "1.95"), 0);
        assert_eq!(versions("needs Rust 1.90\n", "1.95"), 1);
        assert_eq!(versions("needs Linux\n", "1.80"), 1);
    }

    #[test]
    fn broken_vectors_and_large_integers_are_found() {
        assert_finds("vectors", &[("vectors/a.json", "{\n]")], "vectors/a.json:2:");
        let large = "{\"valid\": [\n{\"time\": 9007199254740993}]}";
        assert_finds(
            "vectors",
            &[("vectors/a.json", large)],
            "vectors/a.json:2: 9007199254740993 loses digits",
        );
        assert_passes(
            "vectors",
            &[(
                "vectors/a.json",
                "[9007199254740992, \"18446744073709551615\", -1, 0.5]",
            )],
        );
    }
}
