//! Sizes of structs: fields, and methods over all `impl` blocks of the crate without those of traits.

use super::lexer::{Kind, Token};
use super::modules::Crates;
use super::source::{Source, closing, is_in, test_lines};
use std::collections::BTreeMap;

/// Size of one struct or enum.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) line: u32,
    pub(crate) fields: usize,
    pub(crate) methods: usize,
}

/// Fields that a struct may have.
pub(crate) const FIELDS: usize = 15;
/// Methods that a struct or enum may have.
pub(crate) const METHODS: usize = 30;

impl Size {
    /// Returns whether the type has more fields or methods than one idea needs.
    pub(crate) fn is_too_large(&self) -> bool {
        self.fields > FIELDS || self.methods > METHODS
    }
}

/// Sizes by the file that defines the type, as an index into the sources, and its name.
pub(crate) type Sizes = BTreeMap<(usize, String), Size>;

/// Measures every type of the project, tests aside.
pub(crate) fn sizes(files: &[Source], crates: &Crates) -> Sizes {
    let mut sizes = Sizes::new();
    let mut methods = Vec::new();
    for (at, module) in crates.modules().iter().enumerate().filter(|(_, m)| !m.is_test) {
        let code = files[module.file].code();
        let tests = test_lines(&code);
        for range in module.tokens() {
            let part = &code[range.clone()];
            for (index, token) in part.iter().enumerate() {
                if is_in(&tests, token.line) {
                    continue;
                }
                if token.is("impl") {
                    methods.extend(inherent(part, index, &tests).map(|(name, count)| (at, name, count)));
                }
                let name = part.get(index + 1).filter(|name| name.kind == Kind::Name);
                if let Some(name) = name.filter(|_| token.is("struct") || token.is("enum")) {
                    let size = sizes.entry((module.file, name.text.to_owned())).or_default();
                    size.line = token.line;
                    if token.is("struct") && !is_row(&part[..index]) {
                        size.fields = fields(part, index + 2);
                    }
                }
            }
        }
    }
    for (module, name, count) in methods {
        let home = crates.modules()[crates.home_of(module, &name)].file;
        if let Some(size) = sizes.get_mut(&(home, name)) {
            size.methods += count;
        }
    }
    sizes
}

/// Returns whether the attributes of the struct at the end of `before` make it a row of data: a layout of bytes, or one
/// that a derive reads or writes field by field. Such a struct has as many fields as its format.
fn is_row(before: &[Token<'_>]) -> bool {
    const ROWS: [&str; 6] = ["repr", "Serialize", "Deserialize", "Args", "Parser", "Options"];
    let ends_item = |token: &&Token<'_>| token.is(";") || token.is("}") || token.is("{");
    let mut attributes = before.iter().rev().take_while(|token| !ends_item(token));
    attributes.any(|token| ROWS.iter().any(|row| token.is(row)))
}

/// Number of named fields of the struct whose name stands before `from`; 0 for a tuple.
fn fields(code: &[Token<'_>], from: usize) -> usize {
    let Some(open) = body(code, from) else { return 0 };
    let end = closing(code, open);
    let (mut at, mut count) = (open + 1, 0);
    while at < end {
        let token = &code[at];
        if token.is("(") || token.is("[") || token.is("{") {
            at = closing(code, at);
        } else if token.is(":") {
            let is_path = code[at + 1].is(":");
            count += usize::from(!is_path);
            at += usize::from(is_path);
        }
        at += 1;
    }
    count
}

/// Type and number of methods of the `impl` at `at`, unless it is one of a trait.
fn inherent(
    code: &[Token<'_>],
    at: usize,
    tests: &[std::ops::RangeInclusive<u32>],
) -> Option<(String, usize)> {
    let open = body(code, at + 1)?;
    let (mut depth, mut name) = (0_usize, None);
    for (index, token) in code[..open].iter().enumerate().skip(at + 1) {
        let is_arrow = token.is(">") && code[index - 1].is("-");
        if token.is("<") {
            depth += 1;
        } else if token.is(">") && !is_arrow {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && token.is("where") {
            break;
        } else if depth == 0 && token.is("for") {
            return None;
        } else if depth == 0 && token.kind == Kind::Name {
            name = Some(token.text.to_owned());
        }
    }
    let end = closing(code, open);
    let (mut count, mut index) = (0, open + 1);
    while index < end {
        let token = &code[index];
        if token.is("(") || token.is("[") || token.is("{") {
            index = closing(code, index);
        } else if token.is("fn") && !is_in(tests, token.line) {
            count += 1;
        }
        index += 1;
    }
    Some((name?, count))
}

/// Index of the `{` that opens the body of the item that goes on at `from`.
fn body(code: &[Token<'_>], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(token) = code.get(at) {
        if token.is("{") {
            return Some(at);
        } else if token.is(";") || token.is("}") || token.is(",") && at == from {
            return None;
        } else if token.is("(") || token.is("[") {
            at = closing(code, at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_add_up_over_files_without_those_of_traits_and_tests() {
        let texts = [
            (
                "c/src/lib.rs",
                "mod a;\npub struct S<T> { a: Vec<u8>, pub(crate) b: std::fmt::X<T>, }\nimpl<T: Fn() -> u8> S<T> { fn a() {} }\n",
            ),
            (
                "c/src/a.rs",
                "use crate::S;\nimpl S<u8> { fn b() { fn inner() {} } const fn c() {}\n#[cfg(test)]\nfn d() {} }\nimpl Clone for S<u8> { fn clone() {} }\n#[cfg(test)]\nmod tests { struct S; impl S { fn e() {} } }\n",
            ),
        ];
        let files: Vec<Source> = texts.iter().map(|(path, text)| Source::new(path, text)).collect();
        let sizes = sizes(&files, &Crates::read(&files));
        let size = Size {
            line: 2,
            fields: 2,
            methods: 3,
        };
        assert_eq!(sizes, Sizes::from([((0, "S".to_owned()), size)]));
    }
}
