//! The modules of a crate: which file holds which module, what is compiled for tests only, and where
//! the item that a path names is defined.
//!
//! Reads `mod`, `use` and paths from tokens alone. A macro's expansion and names that only the type
//! checker can resolve are not followed.

use super::Source;
use super::lexer::{Kind, Token};
use super::source::{closing, is_in, test_lines};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Number of re-exports that are followed from one name; more is a circle of re-exports.
const RE_EXPORTS: usize = 16;

/// All crates of the project.
pub(crate) struct Crates {
    modules: Vec<Module>,
}

/// One module, in a file of its own or inline.
pub(crate) struct Module {
    /// Root module of its crate.
    root: usize,
    parent: Option<usize>,
    /// File that holds it, as an index into the sources.
    pub(crate) file: usize,
    pub(crate) is_test: bool,
    children: BTreeMap<String, usize>,
    imports: Vec<Import>,
    /// Names that the module's text defines, those of associated items included.
    defined: BTreeSet<String>,
    /// Tokens of the module in its file, without its inline children.
    tokens: Vec<Range<usize>>,
}

/// One name that a `use` brings in.
#[derive(Clone)]
struct Import {
    /// Name in this module; `*` for a glob.
    name: String,
    path: Vec<String>,
    is_public: bool,
}

/// A path that one file names and another defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) name: String,
}

/// Returns whether a file is the root of a library, a program, a test or an example.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let [.., folder, name] = parts.as_slice() else {
        return path == "build.rs";
    };
    let in_folder = |wanted: &str| *folder == wanted;
    let below = |wanted: &str| parts.len() >= 3 && parts[parts.len() - 3] == wanted && *name == "main.rs";
    in_folder("src") && (*name == "lib.rs" || *name == "main.rs")
        || ["bin", "tests", "examples", "benches", "fuzz_targets"]
            .iter()
            .any(|wanted| in_folder(wanted) && !path.contains("/src/tests/") || below(wanted))
        || *name == "build.rs" && !in_folder("src")
}

/// Returns whether a root file is a program of the tests.
fn is_test_root(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/")
}

impl Crates {
    /// Finds the modules of all crates among `files`.
    pub(crate) fn read(files: &[Source]) -> Crates {
        let places: BTreeMap<&str, usize> = files
            .iter()
            .enumerate()
            .map(|(at, file)| (file.path.as_str(), at))
            .collect();
        let mut crates = Crates { modules: Vec::new() };
        let roots = files
            .iter()
            .enumerate()
            .filter(|(_, file)| file.is_rust() && is_root(&file.path));
        for (at, file) in roots {
            let root = crates.modules.len();
            let dir = folder(&file.path).to_owned();
            crates.add_file(files, &places, (at, dir), (root, None, is_test_root(&file.path)));
        }
        crates
    }

    pub(crate) fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Files that hold modules, and whether all of their modules are compiled for tests only.
    pub(crate) fn test_files(&self) -> BTreeMap<usize, bool> {
        let mut files = BTreeMap::new();
        for module in &self.modules {
            let is_test = files.entry(module.file).or_insert(true);
            *is_test &= module.is_test;
        }
        files
    }

    /// Adds the module of a file, with the folder of its children, and all modules below it.
    fn add_file(
        &mut self,
        files: &[Source],
        places: &BTreeMap<&str, usize>,
        (file, dir): (usize, String),
        (root, parent, is_test): (usize, Option<usize>, bool),
    ) -> usize {
        let code = files[file].code();
        let walk = Walk {
            files,
            places,
            file,
            code: &code,
            tests: test_lines(&code),
            root,
        };
        self.add_module(&walk, 0..code.len(), dir, parent, is_test)
    }

    fn add_module(
        &mut self,
        walk: &Walk<'_>,
        tokens: Range<usize>,
        dir: String,
        parent: Option<usize>,
        is_test: bool,
    ) -> usize {
        let own = self.modules.len();
        self.modules.push(Module {
            root: walk.root,
            parent,
            file: walk.file,
            is_test,
            children: BTreeMap::new(),
            imports: Vec::new(),
            defined: BTreeSet::new(),
            tokens: Vec::new(),
        });
        let code = walk.code;
        let (mut at, mut start) = (tokens.start, tokens.start);
        while at < tokens.end {
            let name = code.get(at + 1).filter(|_| code[at].is("mod"));
            let (Some(name), Some(mark)) = (name, code.get(at + 2)) else {
                at += 1;
                continue;
            };
            let is_test = is_test || is_in(&walk.tests, code[at].line);
            let plain = name.text.trim_start_matches("r#");
            if mark.is(";") {
                self.add_child_file(walk, (own, plain), at, &dir, is_test);
            } else if mark.is("{") {
                let end = closing(code, at + 2);
                self.modules[own].tokens.push(start..at);
                let dir = format!("{dir}{plain}/");
                let child = self.add_module(walk, at + 3..end, dir, Some(own), is_test);
                self.modules[own].children.insert(plain.to_owned(), child);
                (at, start) = (end, end);
            }
            at += 1;
        }
        self.modules[own].tokens.push(start..tokens.end);
        let module = &mut self.modules[own];
        for range in module.tokens.clone() {
            let part = &code[range];
            module.defined.extend(definitions(part));
            for statement in use_statements(part) {
                let is_public = statement.start > 0
                    && (part[statement.start - 1].is("pub") || part[statement.start - 1].is(")"));
                let tree = &part[statement.start + 1..statement.end];
                let mut paths = Vec::new();
                use_tree(tree, &mut Vec::new(), &mut paths);
                module
                    .imports
                    .extend(paths.into_iter().map(|(name, path)| Import {
                        name,
                        path,
                        is_public,
                    }));
            }
        }
        own
    }

    /// Adds the module that `mod NAME;` at `at` declares, where its file is part of the project.
    fn add_child_file(
        &mut self,
        walk: &Walk<'_>,
        (own, name): (usize, &str),
        at: usize,
        dir: &str,
        is_test: bool,
    ) {
        let candidates = match path_attribute(&walk.code[..at]) {
            Some(path) => vec![normal(&format!("{}{path}", folder(&walk.files[walk.file].path)))],
            None => vec![format!("{dir}{name}.rs"), format!("{dir}{name}/mod.rs")],
        };
        let Some(file) = candidates
            .iter()
            .find_map(|path| walk.places.get(path.as_str()).copied())
        else {
            return;
        };
        let path = &walk.files[file].path;
        let own_dir = folder(path).to_owned();
        let dir = if path.ends_with("/mod.rs") {
            own_dir
        } else {
            format!("{own_dir}{}/", walk.files[file].stem())
        };
        let child = self.add_file(
            walk.files,
            walk.places,
            (file, dir),
            (walk.root, Some(own), is_test),
        );
        self.modules[own].children.insert(name.to_owned(), child);
    }

    /// The module that defines what `path` names in module `from`; `None` for what lies in another crate.
    pub(crate) fn resolve(&self, from: usize, path: &[String]) -> Option<usize> {
        self.follow(from, path, RE_EXPORTS)
    }

    fn follow(&self, from: usize, path: &[String], left: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let left = left.checked_sub(1)?;
        match first.as_str() {
            "crate" => self.descend(self.modules[from].root, rest, left),
            "self" => self.descend(from, rest, left),
            "super" => self.descend(self.modules[from].parent?, rest, left),
            name if self.modules[from].children.contains_key(name) => self.descend(from, path, left),
            _ => None,
        }
    }

    /// Walks `path` down from module `at`, through re-exports.
    fn descend(&self, at: usize, path: &[String], left: usize) -> Option<usize> {
        let Some((first, rest)) = path.split_first() else {
            return Some(at);
        };
        let module = &self.modules[at];
        if first == "super" {
            return self.descend(module.parent?, rest, left);
        }
        if let Some(child) = module.children.get(first) {
            return self.descend(*child, rest, left);
        }
        if let Some(import) = module.imports.iter().find(|import| import.name == *first) {
            let path: Vec<String> = import.path.iter().chain(rest).cloned().collect();
            return self.follow(at, &path, left).or_else(|| {
                // A name of another module that was brought in before: `use a::b; pub use b::C;`.
                let next = self.import_first(at, &path)?;
                self.follow(at, &next, left.checked_sub(1)?)
            });
        }
        if !module.defined.contains(first) {
            for glob in module.imports.iter().filter(|import| import.name == "*") {
                let found = self.follow(at, &glob.path, left);
                if let Some(found) = found.filter(|found| self.modules[*found].holds(first)) {
                    return self.descend(found, path, left.checked_sub(1)?);
                }
            }
        }
        Some(at)
    }

    /// `path` with its first name replaced by what an import of the module `at` says it is.
    fn import_first(&self, at: usize, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let import = self.modules[at]
            .imports
            .iter()
            .find(|import| import.name == *first && import.path.first() != Some(first))?;
        Some(import.path.iter().chain(rest).cloned().collect())
    }

    /// Returns whether module `at` lies below module `top`.
    fn is_below(&self, at: usize, top: usize) -> bool {
        self.modules[at]
            .parent
            .is_some_and(|parent| parent == top || self.is_below(parent, top))
    }

    /// The module in which a type that module `from` calls `name` is defined.
    pub(crate) fn home_of(&self, from: usize, name: &str) -> usize {
        let path = ["self".to_owned(), name.to_owned()];
        self.resolve(from, &path).unwrap_or(from)
    }

    /// Paths between files of one crate, outside of tests. A re-export links only where the file uses the name itself,
    /// and a module may use the modules below it: they are its parts.
    pub(crate) fn links(&self, files: &[Source]) -> BTreeSet<Link> {
        let mut links = BTreeSet::new();
        for (at, module) in self.modules.iter().enumerate().filter(|(_, m)| !m.is_test) {
            let code = files[module.file].code();
            let tests = test_lines(&code);
            for range in &module.tokens {
                let part = &code[range.clone()];
                for path in self.paths(at, part, &tests) {
                    let target = self
                        .resolve(at, &path)
                        .filter(|to| self.modules[*to].file != module.file && !self.is_below(*to, at));
                    if let (Some(to), Some(name)) = (target, path.last()) {
                        links.insert(Link {
                            from: module.file,
                            to: self.modules[to].file,
                            name: name.clone(),
                        });
                    }
                }
            }
        }
        links
    }

    /// Paths that a piece of a module names: by `use`, and in code where they begin with `crate`, `super`, `self` or a
    /// child of the module.
    fn paths(
        &self,
        module: usize,
        part: &[Token<'_>],
        tests: &[std::ops::RangeInclusive<u32>],
    ) -> Vec<Vec<String>> {
        let statements = use_statements(part);
        let mut paths = Vec::new();
        for statement in &statements {
            if is_in(tests, part[statement.start].line) {
                continue;
            }
            let mut found = Vec::new();
            use_tree(
                &part[statement.start + 1..statement.end],
                &mut Vec::new(),
                &mut found,
            );
            let before = statement.start.checked_sub(1).map(|at| &part[at]);
            let is_public = before.is_some_and(|token| token.is("pub") || token.is(")"));
            let is_used = |name: &str| {
                part.iter().enumerate().any(|(at, token)| {
                    token.is(name) && !statements.iter().any(|s| s.contains(&at)) && !is_in(tests, token.line)
                })
            };
            found.retain(|(name, _)| !is_public || is_used(name));
            paths.extend(found.into_iter().map(|(_, path)| path));
        }
        let mut at = 0;
        while at < part.len() {
            if let Some(statement) = statements.iter().find(|s| s.contains(&at)) {
                at = statement.end;
                continue;
            }
            let (path, next) = path_at(part, at);
            let is_qualified = at >= 2 && part[at - 1].is(":") && part[at - 2].is(":");
            let own_start = !is_qualified && (at == 0 || !part[at - 1].is("."));
            let starts_here = path.first().is_some_and(|first| {
                ["crate", "super", "self"].contains(&first.as_str())
                    || self.modules[module].children.contains_key(first)
            });
            if path.len() > 1 && own_start && starts_here && !is_in(tests, part[at].line) {
                paths.push(path);
            }
            at = next;
        }
        paths
    }
}

impl Module {
    fn holds(&self, name: &str) -> bool {
        self.defined.contains(name)
            || self.children.contains_key(name)
            || self
                .imports
                .iter()
                .any(|import| import.is_public && import.name == name)
    }

    /// Ranges of the file's tokens that belong to the module itself.
    pub(crate) fn tokens(&self) -> &[Range<usize>] {
        &self.tokens
    }
}

/// State that stays the same while one file is read.
struct Walk<'a> {
    files: &'a [Source],
    places: &'a BTreeMap<&'a str, usize>,
    file: usize,
    code: &'a [Token<'a>],
    tests: Vec<std::ops::RangeInclusive<u32>>,
    root: usize,
}

/// The folder of a path, with the slash at its end.
fn folder(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..=at])
}

/// A path without `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// The value of a `#[path = "..."]` that ends right before an item's visibility.
fn path_attribute(before: &[Token<'_>]) -> Option<String> {
    let end = before.iter().rposition(|token| token.is("]"))?;
    let between = &before[end + 1..];
    let visible = between.iter().all(|token| {
        ["pub", "(", "crate", "super", ")"]
            .iter()
            .any(|word| token.is(word))
    });
    let value = before.get(end.checked_sub(1)?)?;
    let is_path = before.get(end.checked_sub(3)?)?.is("path") && before[end - 2].is("=");
    (visible && is_path).then(|| value.text.trim_matches('"').to_owned())
}

/// Names that items of the text define.
fn definitions(code: &[Token<'_>]) -> Vec<String> {
    const WORDS: [&str; 9] = [
        "struct", "enum", "fn", "const", "static", "type", "trait", "union", "mod",
    ];
    let mut names = Vec::new();
    for (at, token) in code.iter().enumerate() {
        let defines = WORDS.iter().any(|word| token.is(word));
        let name = if token.is("macro_rules") { at + 2 } else { at + 1 };
        if let Some(name) = code.get(name).filter(|name| name.kind == Kind::Name)
            && (defines || token.is("macro_rules"))
        {
            names.push(name.text.to_owned());
        }
    }
    names
}

/// From each `use` to its `;`.
fn use_statements(code: &[Token<'_>]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, token) in code.iter().enumerate().filter(|(_, token)| token.is("use")) {
        // `impl Trait + use<'a>` captures, and imports nothing.
        let captures = code.get(at + 1).is_none_or(|next| next.is("<"));
        let end = code[at..].iter().position(|token| token.is(";"));
        if let Some(end) = end.filter(|_| !captures && token.kind == Kind::Name) {
            found.push(at..at + end);
        }
    }
    found
}

/// Adds the names that a `use` tree brings in, each with its path; a glob's name is `*`.
fn use_tree(tree: &[Token<'_>], prefix: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
    let depth = prefix.len();
    let mut at = 0;
    while at < tree.len() {
        let token = &tree[at];
        if token.is("{") {
            let end = closing(tree, at);
            for part in comma_parts(&tree[at + 1..end]) {
                use_tree(part, prefix, found);
            }
            prefix.truncate(depth);
            return;
        }
        if token.is("*") {
            found.push(("*".to_owned(), prefix.clone()));
            prefix.truncate(depth);
            return;
        }
        if token.is("as") {
            let name = tree.get(at + 1).map_or("_", |name| name.text);
            found.push((name.to_owned(), prefix.clone()));
            prefix.truncate(depth);
            return;
        }
        if token.kind == Kind::Name {
            prefix.push(token.text.trim_start_matches("r#").to_owned());
        }
        at += 1;
    }
    if prefix.len() > depth || !tree.is_empty() {
        // `a::{self}` is `a`.
        if prefix.len() > 1 && prefix.last().is_some_and(|last| last == "self") {
            prefix.pop();
        }
        if let Some(name) = prefix.last() {
            found.push((name.clone(), prefix.clone()));
        }
    }
    prefix.truncate(depth);
}

/// The parts between commas, those inside of brackets left together.
fn comma_parts<'a>(tree: &'a [Token<'a>]) -> Vec<&'a [Token<'a>]> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while at < tree.len() {
        if tree[at].is("{") {
            at = closing(tree, at);
        } else if tree[at].is(",") {
            parts.push(&tree[start..at]);
            start = at + 1;
        }
        at += 1;
    }
    parts.push(&tree[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// The path that begins at `at`, and where reading goes on.
fn path_at(code: &[Token<'_>], at: usize) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut next = at;
    while let Some(token) = code.get(next).filter(|token| token.kind == Kind::Name) {
        path.push(token.text.to_owned());
        next += 1;
        let colons = code
            .get(next..next + 2)
            .is_some_and(|pair| pair[0].is(":") && pair[1].is(":"));
        if !colons {
            break;
        }
        next += 2;
    }
    (path, next.max(at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        Crates::read(&files)
            .links(&files)
            .iter()
            .map(|link| {
                format!(
                    "{} > {}: {}",
                    files[link.from].stem(),
                    files[link.to].stem(),
                    link.name
                )
            })
            .collect()
    }

    #[test]
    fn paths_lead_to_the_file_that_defines_the_name() {
        let files = [
            ("c/src/lib.rs", "mod a;\npub mod b;\npub use b::deep::B;\n"),
            (
                "c/src/a.rs",
                "use crate::{B, b::{self, deep}};\nfn f() { super::b::g(); }\n",
            ),
            ("c/src/b/mod.rs", "pub mod deep;\npub fn g() { deep::h() }\n"),
            ("c/src/b/deep.rs", "pub struct B;\npub fn h() {}\n"),
        ];
        assert_eq!(
            links(&files),
            ["a > mod: b", "a > mod: g", "a > deep: B", "a > deep: deep",]
        );
    }

    #[test]
    fn tests_and_mere_re_exports_do_not_link() {
        let files = [
            (
                "c/src/lib.rs",
                "mod a;\npub use a::A;\npub struct E;\n#[cfg(test)]\nmod tests;\n",
            ),
            (
                "c/src/a.rs",
                "use crate::E;\npub struct A;\n#[cfg(test)]\nmod tests { use crate::A; }\n",
            ),
            ("c/src/tests.rs", "use crate::a::A;\nmod more;\n"),
            ("c/src/tests/more.rs", "use crate::a::A;\n"),
        ];
        assert_eq!(links(&files), ["a > lib: E"]);
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let tests = Crates::read(&sources).test_files();
        assert_eq!(
            tests,
            BTreeMap::from([(0, false), (1, false), (2, true), (3, true)])
        );
    }

    #[test]
    fn globs_and_path_attributes_are_followed() {
        let files = [
            (
                "c/src/lib.rs",
                "#[path = \"x/b.rs\"]\nmod a;\nmod c;\npub use a::*;\n",
            ),
            ("c/src/x/b.rs", "pub struct A;\n"),
            ("c/src/c.rs", "use crate::A;\n"),
        ];
        assert_eq!(links(&files), ["c > b: A"]);
    }
}
