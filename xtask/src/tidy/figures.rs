//! Figures of the project as a whole and of each crate: lines, public items, circles of imports, and
//! the way in which doc comments open.

use super::lexer::{Kind, Token};
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

/// Figures of one crate, or of all, by the name of the column.
pub(crate) type Figures = BTreeMap<&'static str, usize>;

/// Columns in their order. `cargo xtask lines --help` says what each counts.
pub(crate) const COLUMNS: [&str; 8] = [
    "lines",
    "production",
    "public",
    "docs",
    "asking",
    "circles",
    "tied",
    "large",
];

/// Files of one crate that import each other in a circle, and what ties them.
pub(crate) struct Circle {
    pub(crate) files: BTreeSet<usize>,
    pub(crate) links: Vec<Link>,
}

/// Adds figures to others.
pub(crate) fn add(all: &mut Figures, more: &Figures) {
    for (column, count) in more {
        *all.entry(column).or_default() += count;
    }
}

/// Folder of the crate that a file belongs to: up to and without `src`, `tests` and the like.
pub(crate) fn crate_of(path: &str) -> &str {
    let parts = "src/ tests/ examples/ benches/ fuzz_targets/ build.rs".split(' ');
    let starts = parts.filter_map(|part| {
        let found = path.find(&format!("/{part}")).map(|at| &path[..at]);
        found.or_else(|| path.starts_with(part).then_some("."))
    });
    starts.min_by_key(|dir| dir.len()).unwrap_or(".")
}

/// Figures of each crate, by its folder.
pub(crate) fn by_crate(files: &[Source], crates: &Crates) -> BTreeMap<String, Figures> {
    let tests = crates.test_files();
    let mut all: BTreeMap<String, Figures> = BTreeMap::new();
    let mut add_to = |path: &str, figures: &Figures| {
        add(all.entry(crate_of(path).to_owned()).or_default(), figures);
    };
    for (at, file) in files.iter().enumerate().filter(|(_, file)| file.is_rust()) {
        let is_test = tests.get(&at).is_some_and(|is_test| *is_test);
        add_to(
            &file.path,
            &of_file(file, is_test || super::testing::lies_under_tests(&file.path)),
        );
    }
    for Circle { files: tied, .. } in circles(files, crates) {
        if let Some(first) = tied.first() {
            add_to(
                &files[*first].path,
                &Figures::from([("circles", 1), ("tied", tied.len())]),
            );
        }
    }
    for ((file, _), _) in large_types(files, crates) {
        add_to(&files[file].path, &Figures::from([("large", 1)]));
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
            let text = |line: u32| lines.get(line as usize - 1).map_or("", |text| text.trim());
            let filled = |line: &u32| !text(*line).is_empty();
            production.extend((token.line..=token.last_line()).filter(filled));
        }
        let is_public = |pair: &&[Token<'_>]| pair[0].is("pub") && ITEMS.iter().any(|word| pair[1].is(word));
        let public = code.windows(2).filter(is_public);
        public_items = public.filter(|pair| !is_in(&tests, pair[0].line)).count();
    }
    let openings = doc_openings(file);
    Figures::from([
        ("lines", file.text.lines().count()),
        ("production", production.len()),
        ("public", public_items),
        ("docs", openings.len()),
        ("asking", openings.iter().filter(|(_, word)| asks(word)).count()),
    ])
}

/// Returns whether a doc comment that opens with `word` asks instead of telling.
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
    let reached = next.keys().map(|from| (*from, reach(*from, &next)));
    let reached: BTreeMap<usize, BTreeSet<usize>> = reached.collect();
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
        let wanted = [
            ("lines", 16),
            ("production", 4),
            ("public", 1),
            ("docs", 2),
            ("asking", 1),
        ];
        assert_eq!(figures, BTreeMap::from([("c".to_owned(), wanted.into())]));
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
