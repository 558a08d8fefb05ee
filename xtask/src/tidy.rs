//! `cargo xtask tidy`: the rules of the project that a program can check, so that nobody has to
//! remember them. To change a rule, change it here and say why.
//!
//! Each rule is a function from the tree to findings. A finding says where, what and what to do. A
//! line may claim an exception with a reason, `tidy: allow(RULE): reason` in a comment above it; an
//! exception without a reason, or one that is no longer needed, is a finding too.

mod figures;
mod floors;
mod lexer;
mod links;
mod modules;
mod orderings;
mod pages;
mod ratchet;
mod rust;
mod source;
mod structs;
mod testing;
mod text;
mod unsafety;
mod words;

use crate::args::{Args, Form};
use crate::metadata::{self, Package};
use crate::paint;
use crate::shell::{self, Call, Failure, Outcome};
pub(crate) use figures::{COLUMNS, Circle, Figures, add};
use modules::Crates;
pub(crate) use source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
pub(crate) use structs::Size;
pub(crate) use words::advice as field_word;

/// One breach of one rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    file: String,
    line: u32,
    rule: &'static str,
    /// Description of what breaks the rule, and advice.
    text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line, text, rule) = (&self.file, self.line, &self.text, self.rule);
        write!(out, "{file}:{line}: {text} [{rule}]")
    }
}

/// A rule: its name (as in an exception), what it wants, and the check.
struct Rule {
    name: &'static str,
    wants: &'static str,
    check: fn(&Tree, &mut Report),
}

/// Rules from rows of a name, what the rule wants, and its check.
macro_rules! rules {
    ($($name:literal $wants:literal $check:path;)*) => { &[$(Rule { name: $name, wants: $wants, check: $check }),*] };
}

const RULES: &[Rule] = rules! {
    "circles" "no files of one crate import each other in a circle" ratchet::circles;
    "structs" "a type has at most 15 fields and 30 methods, rows of data aside" ratchet::structs;
    "docs" "at most 3 % of doc comments open with What, How, Where, Who or Whose" ratchet::docs;
    "words" "names of types and files are made of the glossary's words and plain ones" ratchet::words;
    "opening" "a Rust file opens with a `//!` paragraph" rust::openings;
    "names" "no `get_`, no `utils`, `common`, `manager`, `helpers`" rust::names;
    "prints" "a library's root denies `print!` and its like: the terminal belongs to the user's program"
        rust::prints;
    "pure" "`wire` has no I/O and no clock" rust::pure;
    "ignored" "no ignored test, no ignored example in docs" testing::ignored;
    "sleep" "no sleeping in tests" testing::sleeps;
    "assertion" "no test without an assertion" testing::assertions;
    "unsafe" "`unsafe` only where ARCHITECTURE.md lists it" unsafety::check;
    "orderings" "atomic orderings stronger than Relaxed are labelled in pairs" orderings::check;
    "floors" "crates depend downwards only" floors::check;
    "whitespace" "no trailing blanks, no tabs, one line break at the end" text::whitespace;
    "machine" "no path of one machine, no private registry" text::machine;
    "lock" "Cargo.lock is tracked" text::lock;
    "pages" "README at most 150 lines, CONTRIBUTING at most 100" pages::lengths;
    "version" "one minimum Rust version everywhere" pages::rust_version;
    "vectors" "vectors parse, and large integers are strings" pages::vectors;
    "links" "links between the project's pages lead somewhere" links::check;
};

/// Files and packages that the rules look at.
pub(crate) struct Tree {
    files: Vec<Source>,
    paths: BTreeSet<String>,
    crates: Crates,
    /// Files that are compiled for tests only, wherever they lie.
    test_files: BTreeSet<String>,
    packages: Vec<Package>,
    lock_is_tracked: bool,
    /// Breaches that are still allowed, by rule.
    ceilings: BTreeMap<&'static str, usize>,
}

impl Tree {
    /// Reads every file that git tracks or would add; without git, every file outside `target`.
    pub(crate) fn read(root: &Path) -> Result<Tree, Failure> {
        let (paths, lock_is_tracked) = listed_by_git(root).unwrap_or_else(|| {
            let mut paths = BTreeSet::new();
            walk(root, root, &mut paths);
            let lock = paths.contains("Cargo.lock");
            (paths, lock)
        });
        let mut files = Vec::new();
        let mut present = BTreeSet::new();
        for path in paths {
            // A file that is listed but gone was deleted and not committed yet.
            let Ok(bytes) = std::fs::read(root.join(&path)) else {
                continue;
            };
            files.push(Source::new(&path, &String::from_utf8(bytes).unwrap_or_default()));
            present.insert(path);
        }
        let crates = Crates::read(&files);
        Ok(Tree {
            test_files: test_files(&files, &crates),
            crates,
            files,
            paths: present,
            packages: metadata::packages(root)?,
            lock_is_tracked,
            ceilings: ratchet::CEILINGS.into(),
        })
    }

    pub(crate) fn files(&self) -> &[Source] {
        &self.files
    }

    /// Path of the file at `index`, relative to the workspace.
    pub(crate) fn path(&self, index: usize) -> &str {
        &self.files[index].path
    }

    /// Figures of each crate, by its folder.
    pub(crate) fn figures(&self) -> BTreeMap<String, Figures> {
        figures::by_crate(&self.files, &self.crates)
    }

    /// Circles of imports inside the crates.
    pub(crate) fn circles(&self) -> Vec<Circle> {
        figures::circles(&self.files, &self.crates)
    }

    /// Structs and enums with more fields or methods than are allowed.
    pub(crate) fn large_types(&self) -> structs::Sizes {
        figures::large_types(&self.files, &self.crates)
    }

    /// File and line of each doc comment, and whether it opens with a question word.
    pub(crate) fn doc_comments(&self) -> impl Iterator<Item = (&str, u32, bool)> {
        self.rust().flat_map(|file| {
            let openings = figures::doc_openings(file).into_iter();
            openings.map(|(line, word)| (file.path.as_str(), line, figures::asks(word)))
        })
    }

    /// Words of names that neither the glossary nor the list of plain words knows, each with a place.
    pub(crate) fn unknown_words(&self) -> BTreeMap<String, (String, u32)> {
        words::unknown(self)
    }

    fn ceiling(&self, rule: &str) -> usize {
        self.ceilings.get(rule).copied().unwrap_or(0)
    }

    pub(crate) fn package_count(&self) -> usize {
        self.packages.len()
    }

    fn rust(&self) -> impl Iterator<Item = &Source> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// Rust files that are not compiled for tests alone.
    fn production(&self) -> impl Iterator<Item = &Source> {
        self.rust().filter(|file| !testing::is_test_file(self, file))
    }

    fn file(&self, path: &str) -> Option<&Source> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns whether `path` is a file of the project or a folder of one.
    fn holds(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        let next = self.paths.range(inside.clone()..).next();
        let is_folder = next.is_some_and(|next| next.starts_with(&inside));
        path.is_empty() || self.paths.contains(path) || is_folder
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Tree {
        let paths = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        let files: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let crates = Crates::read(&files);
        Tree {
            test_files: test_files(&files, &crates),
            crates,
            files,
            paths,
            packages: Vec::new(),
            lock_is_tracked: true,
            ceilings: BTreeMap::new(),
        }
    }
}

/// Paths of the files that only tests compile.
fn test_files(files: &[Source], crates: &Crates) -> BTreeSet<String> {
    let tests = crates.test_files().into_iter().filter(|(_, is_test)| *is_test);
    tests.map(|(file, _)| files[file].path.clone()).collect()
}

/// Paths that git tracks or would add, and whether `Cargo.lock` is among the tracked ones.
fn listed_by_git(root: &Path) -> Option<(BTreeSet<String>, bool)> {
    if !root.join(".git").exists() || !Call::new("git").words("rev-parse --git-dir").dir(root).succeeds() {
        return None;
    }
    let list = |words: &str| {
        let call = Call::new("git").words("ls-files -z").words(words);
        let listed = call.dir(root).stdout().ok()?;
        let paths = listed.split('\0').filter(|path| !path.is_empty());
        Some(paths.map(str::to_owned).collect::<BTreeSet<_>>())
    };
    let paths = list("--cached --others --exclude-standard")?;
    Some((paths, list("Cargo.lock")?.contains("Cargo.lock")))
}

fn walk(root: &Path, dir: &Path, paths: &mut BTreeSet<String>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        let skipped = [".git", "target"].iter().any(|name| entry.file_name() == *name);
        if path.is_dir() && !path.is_symlink() {
            if !skipped {
                walk(root, &path, paths);
            }
        } else if let Ok(inside) = path.strip_prefix(root) {
            paths.insert(inside.to_string_lossy().into_owned());
        }
    }
}

/// Collects what a rule finds.
#[derive(Default)]
pub(crate) struct Report {
    rule: &'static str,
    findings: Vec<Finding>,
    /// Remarks of a rule although nothing breaks it.
    notes: Vec<String>,
}

impl Report {
    /// A finding in a file of the tree, unless a comment there allows it. The text says what breaks the rule, and, after a
    /// semicolon, what to do.
    fn add(&mut self, file: &Source, line: u32, text: impl Into<String>) {
        if !file.allows(self.rule, line) {
            self.add_at(&file.path, line, text);
        }
    }

    /// A finding at a place that cannot hold a comment, or where no exception is granted.
    fn add_at(&mut self, file: &str, line: u32, text: impl Into<String>) {
        let (rule, file, text) = (self.rule, file.to_owned(), text.into());
        self.findings.push(Finding {
            file,
            line,
            rule,
            text,
        });
    }
}

pub(crate) fn run(args: &[String]) -> Outcome {
    let form = Form {
        switches: &["rules"],
        ..Form::default()
    };
    if Args::read(args, &form)?.switch("rules") {
        let rules = RULES.iter();
        rules.for_each(|rule| println!("{:11} {}", rule.name, rule.wants));
        return Ok(());
    }
    let tree = Tree::read(&shell::root()?)?;
    let (findings, notes) = check_all(&tree);
    findings.iter().for_each(|finding| println!("{finding}"));
    notes.iter().for_each(|text| eprintln!("{}", paint::faint(text)));
    if findings.is_empty() {
        let (rules, files) = (RULES.len(), tree.files.len());
        eprintln!("{}: {rules} rules over {files} files", paint::good("tidy"));
        return Ok(());
    }
    Err(Failure::new(
        format!("tidy has {} findings", findings.len()),
        "`cargo xtask tidy --rules` says what each rule wants",
    ))
}

/// Findings of all rules, and their notes.
fn check_all(tree: &Tree) -> (Vec<Finding>, Vec<String>) {
    let (mut findings, mut notes) = (Vec::new(), Vec::new());
    for rule in RULES {
        let report = check_one(tree, rule);
        findings.extend(report.findings);
        notes.extend(report.notes);
    }
    findings.extend(needless_allowances(tree));
    findings.sort();
    findings.dedup();
    (findings, notes)
}

fn check_one(tree: &Tree, rule: &Rule) -> Report {
    let mut report = Report {
        rule: rule.name,
        ..Report::default()
    };
    (rule.check)(tree, &mut report);
    report
}

/// Exceptions that name no rule, give no reason or excuse nothing. Runs after all rules.
fn needless_allowances(tree: &Tree) -> Vec<Finding> {
    let mut report = Report {
        rule: "allow",
        ..Report::default()
    };
    for file in tree.files() {
        for allowance in file.allowances() {
            let rule = &allowance.rule;
            let text = if !RULES.iter().any(|known| known.name == rule) {
                format!("there is no rule `{rule}`; see cargo xtask tidy --rules")
            } else if allowance.reason.is_empty() {
                "an exception without a reason; say why after the colon".to_owned()
            } else if !allowance.used.get() {
                format!("nothing here breaks the rule `{rule}`; delete the exception")
            } else {
                continue;
            };
            report.add_at(&file.path, allowance.line, text);
        }
    }
    report.findings
}

/// Findings of the rule `name` alone, as text, for the rules' tests.
#[cfg(test)]
fn findings_of(name: &str, tree: &Tree) -> Vec<String> {
    let report = check_one(tree, rule(name));
    report.findings.iter().map(Finding::to_string).collect()
}

#[cfg(test)]
fn rule(name: &str) -> &'static Rule {
    let found = RULES.iter().find(|rule| rule.name == name);
    found.expect("a rule of this name")
}

/// Asserts that the rule finds something at `place` (`file:line:`) and nothing elsewhere.
#[cfg(test)]
fn assert_finds(name: &str, files: &[(&str, &str)], place: &str) {
    let found = findings_of(name, &Tree::of(files));
    assert!(
        found.len() == 1 && found[0].starts_with(place),
        "wanted one finding at {place}, got {found:#?}"
    );
}

/// Asserts that the rule finds nothing.
#[cfg(test)]
fn assert_passes(name: &str, files: &[(&str, &str)]) {
    let found = findings_of(name, &Tree::of(files));
    assert!(found.is_empty(), "wanted no finding, got {found:#?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_needs_a_rule_a_reason_and_a_use() {
        let text = format!(
            "//! X.\n// {0}: allow(nonsense): why\n// {0}: allow(names)\n// {0}: allow(opening): why\nfn get_x() {{}}\n",
            "tidy"
        );
        let (found, _) = check_all(&Tree::of(&[("crates/wire/src/a.rs", &text)]));
        let lines: Vec<u32> = found
            .iter()
            .filter(|f| f.rule == "allow")
            .map(|f| f.line)
            .collect();
        assert_eq!(lines, [2, 3, 4], "{found:#?}");
    }

    #[test]
    fn a_finding_reads_as_place_what_and_advice() {
        let found = findings_of("names", &Tree::of(&[("a.rs", "//! X.\nfn get_x() {}\n")]));
        assert_eq!(
            found,
            ["a.rs:2: `get_x` starts with `get_`; name it for what it gives: `x` [names]"]
        );
    }
}
