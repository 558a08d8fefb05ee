//! Figures of the project as a whole and of each crate: lines, public items, circles of imports, and
//! the way in which doc comments open.

use super::lexer::Kind;
use super::modules::{Crates, Link};
use super::source::{Source, is_in, test_lines};
use super::structs::{self, Sizes};
use std::collections::{BTreeMap, BTreeSet};

/// First words of a doc comment that ask instead of telling.
pub(crate) const ASKING: [&str; 5] = ["What", "How", "Where", "Who", "Whose"];
/// Keywords that follow `pub` where it makes an item public.
const ITEMS: [&str; 14] = [
    "fn", "struct", "enum", "trait", "type", "const", "static", "mod", "use", "union", "macro", "unsafe",
    "async", "extern",
];

/// Figures of one crate, or of all.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Lines of all Rust files.
    pub(crate) lines: usize,
    /// Lines with code that is compiled outside of tests.
    pub(crate) production: usize,
    pub(crate) public_items: usize,
    pub(crate) docs: usize,
    /// Doc comments that open with one of [`ASKING`].
    pub(crate) asking: usize,
    pub(crate) circles: usize,
    /// Files that lie in some circle.
    pub(crate) files_in_circles: usize,
    /// Structs and enums with more fields or methods than are allowed.
    pub(crate) large_types: usize,
}

/// Files of one crate that import each other in a circle, and what ties them.
pub(crate) struct Circle {
    pub(crate) files: BTreeSet<usize>,
    pub(crate) links: Vec<Link>,
}

impl Figures {
    pub(crate) fn add(&mut self, other: &Figures) {
        self.lines += other.lines;
        self.production += other.production;
        self.public_items += other.public_items;
        self.docs += other.docs;
        self.asking += other.asking;
        self.circles += other.circles;
        self.files_in_circles += other.files_in_circles;
        self.large_types += other.large_types;
    }
}

/// Folder of the crate that a file belongs to: up to and without `src`, `tests` and the like.
pub(crate) fn crate_of(path: &str) -> &str {
    let parts = [
        "src/",
        "tests/",
        "examples/",
        "benches/",
        "fuzz_targets/",
        "build.rs",
    ];
    let starts = parts.iter().filter_map(|part| {
        let found = path.find(&format!("/{part}")).map(|at| &path[..at]);
        found.or_else(|| path.starts_with(part).then_some("."))
    });
    starts.min_by_key(|dir| dir.len()).unwrap_or(".")
}

/// Figures of each crate, by its folder.
pub(crate) fn by_crate(files: &[Source], crates: &Crates) -> BTreeMap<String, Figures> {
    let tests = crates.test_files();
    let mut all: BTreeMap<String, Figures> = BTreeMap::new();
    for (at, file) in files.iter().enumerate().filter(|(_, file)| file.is_rust()) {
        let is_test =
            tests.get(&at).copied().unwrap_or(false) || super::testing::lies_under_tests(&file.path);
        let figures = all.entry(crate_of(&file.path).to_owned()).or_default();
        figures.add(&of_file(file, is_test));
    }
    for circle in circles(files, crates) {
        if let Some(first) = circle.files.first() {
            let figures = all.entry(crate_of(&files[*first].path).to_owned()).or_default();
            figures.circles += 1;
            figures.files_in_circles += circle.files.len();
        }
    }
    for ((file, _), _) in large_types(files, crates) {
        all.entry(crate_of(&files[file].path).to_owned())
            .or_default()
            .large_types += 1;
    }
    all
}

/// Sizes of the types that have more fields or methods than are allowed.
pub(crate) fn large_types(files: &[Source], crates: &Crates) -> Sizes {
    let mut sizes = structs::sizes(files, crates);
    sizes.retain(|_, size| size.is_too_large());
    sizes
}

fn of_file(file: &Source, is_test: bool) -> Figures {
    let code = file.code();
    let tests = test_lines(&code);
    let mut production = BTreeSet::new();
    let mut public_items = 0;
    if !is_test {
        let lines: Vec<&str> = file.text.lines().collect();
        for token in code.iter().filter(|token| !is_in(&tests, token.line)) {
            let filled = |line: &u32| {
                lines
                    .get(*line as usize - 1)
                    .is_some_and(|text| !text.trim().is_empty())
            };
            production.extend((token.line..=token.last_line()).filter(filled));
        }
        public_items = code
            .windows(2)
            .filter(|pair| pair[0].is("pub") && ITEMS.iter().any(|word| pair[1].is(word)))
            .filter(|pair| !is_in(&tests, pair[0].line))
            .count();
    }
    let openings = doc_openings(file);
    Figures {
        lines: file.text.lines().count(),
        production: production.len(),
        public_items,
        docs: openings.len(),
        asking: openings.iter().filter(|(_, word)| asks(word)).count(),
        ..Figures::default()
    }
}

/// Whether a doc comment that opens with `word` asks instead of telling.
pub(crate) fn asks(word: &str) -> bool {
    ASKING.contains(&word)
}

/// Line and first word of every doc comment of a file.
pub(crate) fn doc_openings(file: &Source) -> Vec<(u32, &str)> {
    let mut openings = Vec::new();
    let mut last = None;
    for comment in file.comments() {
        if comment.kind != Kind::Doc {
            continue;
        }
        let goes_on = last.is_some_and(|line| line + 1 == comment.line) && comment.text.starts_with("//");
        last = Some(comment.last_line());
        if !goes_on {
            let text = comment.text.trim_start_matches(['/', '!', '*', ' ']);
            let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
            openings.push((comment.line, &text[..end]));
        }
    }
    openings
}

/// Every circle of imports between files of one crate: files of which each reaches each other.
pub(crate) fn circles(files: &[Source], crates: &Crates) -> Vec<Circle> {
    let links = crates.links(files);
    let mut next: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for link in &links {
        next.entry(link.from).or_default().insert(link.to);
    }
    let reached: BTreeMap<usize, BTreeSet<usize>> =
        next.keys().map(|from| (*from, reach(*from, &next))).collect();
    let mut circles = Vec::new();
    let mut seen: BTreeSet<usize> = BTreeSet::new();
    for (from, there) in &reached {
        if !there.contains(from) || seen.contains(from) {
            continue;
        }
        let both = |to: &&usize| reached.get(to).is_some_and(|back| back.contains(from));
        let members: BTreeSet<usize> = there.iter().filter(both).copied().collect();
        seen.extend(members.iter());
        let inside = |link: &&Link| members.contains(&link.from) && members.contains(&link.to);
        circles.push(Circle {
            links: links.iter().filter(inside).cloned().collect(),
            files: members,
        });
    }
    circles
}

fn reach(from: usize, next: &BTreeMap<usize, BTreeSet<usize>>) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for to in next.get(&at).into_iter().flatten() {
            if reached.insert(*to) {
                open.push(*to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[(&str, &str)]) -> (Vec<Source>, Crates) {
        let files: Vec<Source> = texts.iter().map(|(path, text)| Source::new(path, text)).collect();
        let crates = Crates::read(&files);
        (files, crates)
    }

    #[test]
    fn only_lines_with_code_outside_of_tests_are_production() {
        let text = "//! What this is.\nuse a::b;\n\n/// A thing.\n/// Of two lines.\npub struct S;\nconst T: &str = \"a\n\nb\";\n#[cfg(test)]\nuse c::d;\n#[cfg(test)]\nmod tests {\n    fn a() {}\n}\n";
        let (files, crates) = read(&[("c/src/lib.rs", text), ("c/tests/a.rs", "fn b() {}\n")]);
        let figures = by_crate(&files, &crates);
        let wanted = Figures {
            lines: 16,
            production: 4,
            public_items: 1,
            docs: 2,
            asking: 1,
            ..Figures::default()
        };
        assert_eq!(figures, BTreeMap::from([("c".to_owned(), wanted)]));
    }

    #[test]
    fn a_circle_is_found_over_several_files() {
        let (files, crates) = read(&[
            ("c/src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("c/src/a.rs", "use crate::b::B;\npub struct A;\n"),
            ("c/src/b.rs", "use super::c::C;\npub struct B;\n"),
            ("c/src/c.rs", "fn f(a: crate::a::A) {}\npub struct C;\n"),
        ]);
        let circles = circles(&files, &crates);
        assert_eq!(circles.len(), 1);
        assert_eq!(circles[0].files, BTreeSet::from([1, 2, 3]));
        assert_eq!(circles[0].links.len(), 3);
    }

    #[test]
    fn a_file_belongs_to_the_folder_above_its_sources() {
        assert_eq!(crate_of("crates/ring/src/tests/a.rs"), "crates/ring");
        assert_eq!(crate_of("fuzz/fuzz_targets/a.rs"), "fuzz");
        assert_eq!(crate_of("examples/a.rs"), ".");
    }
}
