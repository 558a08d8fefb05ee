//! `cargo xtask lines`: figures that show whether the project grows or shrinks, of each crate and of all.

use crate::args::{Args, Form};
use crate::shell::{self, Outcome};
use crate::tidy::{self, COLUMNS, Circle, Figures, Size, Tree};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Meaning of the columns.
pub(crate) const RULE: &str = "\
lines       lines of Rust files that git tracks
production  lines that hold code, without blanks, comments, and what only tests compile: files below
            tests/, modules and items under `#[cfg(test)]` or `#[cfg(loom)]`; the workshop (bench, fuzz,
            xtask) and examples count
public      items with a plain `pub` outside of tests
docs        doc comments; a run of lines is one
asking      those that open with What, How, Where, Who or Whose
circles     groups of files of one crate of which each imports each other, by whatever way, outside of
            tests; a module may use the modules below it, and a re-export (`pub use`) is an import
            only where the file uses the name itself
tied        files in circles
large       structs and enums with more than 15 fields, or more than 30 methods over all `impl` blocks
            without those of traits";

/// Prints the figures, and what the switches ask for: what ties each circle, types that are too large, doc comments
/// that open with a question word, words of names that no list knows.
pub(crate) fn run(args: &[String]) -> Outcome {
    let form = Form {
        switches: &["json", "circles", "types", "docs", "words"],
        ..Form::default()
    };
    let own = Args::read(args, &form)?;
    let tree = Tree::read(&shell::root()?)?;
    let figures = tree.figures();
    let mut all = Figures::default();
    figures.values().for_each(|of_one| tidy::add(&mut all, of_one));
    let circles = tree.circles();
    let packages = tree.package_count();
    if own.switch("json") {
        println!("{}", document(&figures, &all, &circles, packages, &tree));
        return Ok(());
    }
    print!("{}", table(&figures, &all));
    println!("\nmembers of the workspace: {packages}");
    if own.switch("circles") {
        for circle in &circles {
            println!("\n{}", described(circle, &tree));
        }
    }
    if own.switch("types") {
        println!();
        for ((file, name), size) in tree.large_types() {
            let (
                path,
                Size {
                    line,
                    fields,
                    methods,
                },
            ) = (tree.path(file), size);
            println!("{path}:{line}: {name}: {fields} fields, {methods} methods");
        }
    }
    if own.switch("docs") {
        println!();
        for (path, line, _) in tree.doc_comments().filter(|(_, _, is_asking)| *is_asking) {
            println!("{path}:{line}");
        }
    }
    if own.switch("words") {
        println!();
        for (word, (path, line)) in tree.unknown_words() {
            let advice = tidy::field_word(&word).map_or(String::new(), |good| format!(" (rather: {good})"));
            println!("{word}: {path}:{line}{advice}");
        }
    }
    Ok(())
}

/// The figures as a table, one row a crate.
fn table(figures: &BTreeMap<String, Figures>, all: &Figures) -> String {
    let heads = COLUMNS.map(|name| format!("{name:>11}"));
    let mut text = format!("{:17}{}\n", "crate", heads.concat());
    let rows = figures.iter().map(|(name, figures)| (name.as_str(), figures));
    for (name, figures) in rows.chain([("all", all)]) {
        let cells = COLUMNS.map(|column| match column {
            "asking" => format!(
                "{:>12}",
                format!("{} {:>4.1}%", count(figures, column), share(figures))
            ),
            _ => format!("{:>11}", count(figures, column)),
        });
        text.push_str(&format!("{name:17}{}\n", cells.concat()));
    }
    text
}

fn count(figures: &Figures, column: &str) -> usize {
    figures.get(column).copied().unwrap_or(0)
}

/// Percentage of doc comments that open with a question word.
fn share(figures: &Figures) -> f64 {
    100.0 * count(figures, "asking") as f64 / count(figures, "docs").max(1) as f64
}

fn row(figures: &Figures) -> Value {
    let mut row = serde_json::Map::new();
    for column in COLUMNS {
        let name = match column {
            "public" => "public_items",
            "tied" => "files_in_circles",
            "large" => "large_types",
            other => other,
        };
        row.insert(name.to_owned(), json!(count(figures, column)));
    }
    row.insert("asking_percent".to_owned(), json!(share(figures)));
    row.into()
}

fn document(
    figures: &BTreeMap<String, Figures>,
    all: &Figures,
    circles: &[Circle],
    packages: usize,
    tree: &Tree,
) -> Value {
    let crates: BTreeMap<&String, Value> = figures.iter().map(|(name, of_one)| (name, row(of_one))).collect();
    let paths = |circle: &Circle| circle.files.iter().map(|file| tree.path(*file).into()).collect();
    let circles: Vec<Vec<Value>> = circles.iter().map(paths).collect();
    json!({"all": row(all), "crates": crates, "circles": circles, "members": packages})
}

/// The files of a circle, and below each the files that it imports from, with the names.
fn described(circle: &Circle, tree: &Tree) -> String {
    let mut lines = Vec::new();
    for file in &circle.files {
        lines.push(tree.path(*file).to_owned());
        let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for link in circle.links.iter().filter(|link| link.from == *file) {
            names.entry(tree.path(link.to)).or_default().push(&link.name);
        }
        for (to, names) in names {
            lines.push(format!("    {to}: {}", names.join(", ")));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_the_share_of_asking_comments() {
        let figures = Figures::from([("docs", 200), ("asking", 3)]);
        let text = table(&BTreeMap::new(), &figures);
        assert!(text.contains("3  1.5%"), "{text}");
        assert_eq!(row(&figures)["asking_percent"], json!(1.5));
    }
}
