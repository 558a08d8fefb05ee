//! One file as the rules see it: its text, its tokens when it is Rust, which of its lines are test
//! code, its functions, and where a comment allows an exception.

use super::lexer::{self, Kind, Token};
use std::cell::Cell;
use std::ops::{Range, RangeInclusive};

/// A file of the project.
pub(crate) struct Source {
    /// Relative to the workspace, with `/`.
    pub(crate) path: String,
    /// Empty for a file that is not UTF-8.
    pub(crate) text: String,
    /// Kind, place in `text` and line of each token; empty unless it is Rust. Cut once, asked by most rules.
    cuts: Vec<(Kind, Range<usize>, u32)>,
    allowances: Vec<Allowance>,
}

/// An exception that a comment grants: `tidy: allow(RULE): reason`.
pub(crate) struct Allowance {
    pub(crate) rule: String,
    pub(crate) reason: String,
    /// The comment's line.
    pub(crate) line: u32,
    lines: RangeInclusive<u32>,
    pub(crate) used: Cell<bool>,
}

/// A function with a body.
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) first_line: u32,
    /// Has `#[test]` or an attribute that ends in `test`, such as `#[tokio::test]`.
    pub(crate) is_test: bool,
    /// Tokens of the body, braces included.
    pub(crate) body: &'a [Token<'a>],
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Source {
        let rust = path.ends_with(".rs");
        let tokens = if rust { lexer::lex(text) } else { Vec::new() };
        let cuts = tokens
            .iter()
            .map(|token| (token.kind, token.at..token.at + token.text.len(), token.line));
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
            cuts: cuts.collect(),
            allowances: allowances(path, text),
        }
    }

    pub(crate) fn extension(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.extension() == "rs"
    }

    /// The file's name without folders and extension.
    pub(crate) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.split('.').next().unwrap_or(name)
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (u32, &str)> {
        (1..).zip(self.text.lines())
    }

    fn tokens(&self) -> impl Iterator<Item = Token<'_>> {
        self.cuts.iter().map(|(kind, place, line)| Token {
            kind: *kind,
            text: &self.text[place.clone()],
            at: place.start,
            line: *line,
        })
    }

    /// Tokens without comments.
    pub(crate) fn code(&self) -> Vec<Token<'_>> {
        self.tokens().filter(|token| !token.is_comment()).collect()
    }

    /// Comments only.
    pub(crate) fn comments(&self) -> Vec<Token<'_>> {
        self.tokens().filter(Token::is_comment).collect()
    }

    pub(crate) fn allowances(&self) -> &[Allowance] {
        &self.allowances
    }

    /// Returns whether a comment allows `rule` at `line`; marks that comment as needed.
    pub(crate) fn allows(&self, rule: &str, line: u32) -> bool {
        let mut found = false;
        for allowance in &self.allowances {
            if allowance.rule == rule && allowance.lines.contains(&line) {
                allowance.used.set(true);
                found = true;
            }
        }
        found
    }
}

/// Index of the mark that closes the one at `open`, or the last index when it is never closed.
pub(crate) fn closing(code: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in code.iter().enumerate().skip(open) {
        if token.is("{") || token.is("(") || token.is("[") {
            depth += 1;
        } else if token.is("}") || token.is(")") || token.is("]") {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at;
            }
        }
    }
    code.len().saturating_sub(1)
}

/// Index of the `{` that opens the body of the item at `from`, unless a `;` ends the item first.
fn body_start(code: &[Token<'_>], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(token) = code.get(at) {
        if token.is("(") || token.is("[") {
            at = closing(code, at);
        } else if token.is("{") {
            return Some(at);
        } else if token.is(";") || token.is("}") {
            return None;
        }
        at += 1;
    }
    None
}

/// Every function in `code` that has a body, nested ones too.
pub(crate) fn functions<'a>(code: &'a [Token<'a>]) -> Vec<Function<'a>> {
    let mut found = Vec::new();
    for (at, token) in code.iter().enumerate() {
        let Some(name) = code
            .get(at + 1)
            .filter(|next| token.is("fn") && next.kind == Kind::Name)
        else {
            continue;
        };
        let Some(open) = body_start(code, at + 2) else {
            continue;
        };
        let close = closing(code, open);
        found.push(Function {
            name: name.text,
            first_line: token.line,
            is_test: is_test(code, at),
            body: &code[open..=close],
        });
    }
    found
}

/// Returns whether the attributes in front of the `fn` at `at` make it a test. Walks back over modifiers and
/// attributes to the end of the item before.
fn is_test(code: &[Token<'_>], at: usize) -> bool {
    let ends_item = |token: &Token<'_>| token.is(";") || token.is("}") || token.is("{");
    let before = code[..at].iter().rposition(ends_item);
    let mut attributes = code[before.map_or(0, |end| end + 1)..at].windows(2);
    attributes.any(|pair| pair[0].is("test") && pair[1].is("]"))
}

/// Lines of the items that are compiled for tests only.
pub(crate) fn test_lines(code: &[Token<'_>]) -> Vec<RangeInclusive<u32>> {
    let mut ranges = Vec::new();
    for at in 0..code.len() {
        if !is_attribute(code, at, "cfg") {
            continue;
        }
        let end = closing(code, at + 1);
        if cfg_wants_test(&code[at + 4..end]) {
            ranges.push(code[at].line..=code[item_end(code, end + 1)].last_line());
        }
    }
    ranges
}

/// Returns whether `line` lies in one of the ranges.
pub(crate) fn is_in(ranges: &[RangeInclusive<u32>], line: u32) -> bool {
    ranges.iter().any(|range| range.contains(&line))
}

/// Index of the last token of the item, field or statement at `from`, attributes in front included.
fn item_end(code: &[Token<'_>], from: usize) -> usize {
    const ITEMS: &str =
        "fn struct enum impl trait mod use const static type unsafe async extern let union macro_rules";
    let mut at = from;
    while code.get(at).is_some_and(|token| token.is("#")) {
        at = closing(code, at + 1) + 1;
    }
    let mut first = at;
    if code.get(at).is_some_and(|token| token.is("pub")) {
        let scoped = code.get(at + 1).is_some_and(|token| token.is("("));
        first = if scoped { closing(code, at + 1) + 1 } else { at + 1 };
    }
    let begins_with = |words: &str| {
        let token = code.get(first);
        token.is_some_and(|token| words.split(' ').any(|word| token.is(word)))
    };
    let (is_item, is_let) = (begins_with(ITEMS), begins_with("let use"));
    while let Some(token) = code.get(at) {
        if token.is("(") || token.is("[") || token.is("{") {
            let is_body = token.is("{") && !is_let;
            at = closing(code, at);
            let goes_on = code.get(at + 1).is_some_and(|next| next.is(",") || next.is(";"));
            if is_body {
                return if goes_on && !is_item { at + 1 } else { at };
            }
        } else if token.is(";") || token.is(",") && !is_item {
            return at;
        } else if token.is("}") || token.is(")") {
            break;
        }
        at += 1;
    }
    at.saturating_sub(1).min(code.len().saturating_sub(1))
}

/// Returns whether `#[NAME` stands at `at`, followed by a parenthesis.
fn is_attribute(code: &[Token<'_>], at: usize, name: &str) -> bool {
    let Some([hash, bracket, word, parenthesis]) = code.get(at..at + 4) else {
        return false;
    };
    hash.is("#") && bracket.is("[") && word.is(name) && parenthesis.is("(")
}

/// Returns whether a `cfg` predicate asks for `test` or for the model checker, other than inside `not(...)`.
fn cfg_wants_test(predicate: &[Token<'_>]) -> bool {
    let mut at = 0;
    while at < predicate.len() {
        if predicate[at].is("test") || predicate[at].is("loom") {
            return true;
        }
        let negates = predicate[at].is("not") && at + 1 < predicate.len();
        at = if negates {
            closing(predicate, at + 1) + 1
        } else {
            at + 1
        };
    }
    false
}

/// Finds the comments that allow an exception. One covers its own line, and the lines below it up to
/// the first one with code.
fn allowances(path: &str, text: &str) -> Vec<Allowance> {
    let opening = format!("{}: allow(", "tidy");
    let rust = path.ends_with(".rs");
    let in_comment: Vec<(u32, &str)> = if rust {
        let tokens = lexer::lex(text)
            .into_iter()
            .filter(|token| token.kind == Kind::Comment);
        tokens
            .map(|token| (token.line, token.text.trim_start_matches(['/', ' '])))
            .collect()
    } else {
        let starts = ["<!-- ", "# "];
        let comment = |line: &str| {
            starts
                .iter()
                .find_map(|start| line.find(start).map(|at| at + start.len()))
        };
        (1..)
            .zip(text.lines())
            .filter_map(|(at, line)| Some((at, &line[comment(line)?..])))
            .collect()
    };
    let mut found = Vec::new();
    for (line, comment) in in_comment {
        let Some((rule, reason)) = comment
            .strip_prefix(&opening)
            .and_then(|rest| rest.split_once(')'))
        else {
            continue;
        };
        let reason = reason.trim_start_matches(':').trim_end_matches("-->").trim();
        found.push(Allowance {
            rule: rule.to_owned(),
            reason: reason.to_owned(),
            line,
            lines: line..=covered(text, line),
            used: Cell::new(false),
        });
    }
    found
}

/// The first line after `line` that is neither blank, comment nor attribute; `line` itself when it
/// carries code of its own.
fn covered(text: &str, line: u32) -> u32 {
    let bare = |text: &str| {
        let text = text.trim_start();
        text.is_empty() || ["//", "#", "<!--"].iter().any(|start| text.starts_with(start))
    };
    let mut lines = (1_u32..).zip(text.lines()).skip_while(|(at, _)| *at < line);
    lines.find(|(_, text)| !bare(text)).map_or(line, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_over_braces_in_strings_and_signatures() {
        let source = Source::new(
            "a.rs",
            "fn a(x: [u8; { 3 }]) -> X\nwhere\n X: Y,\n{\n \"}\";\n}\ntrait T { fn b(); }\n",
        );
        let code = source.code();
        let found: Vec<_> = functions(&code)
            .iter()
            .map(|f| (f.name, f.first_line, f.body.len()))
            .collect();
        assert_eq!(found, [("a", 1, 4)]);
    }

    #[test]
    fn tests_are_known_by_their_attribute() {
        let source = Source::new(
            "a.rs",
            "#[test]\n#[should_panic]\nfn a() {}\n#[tokio::test]\nasync fn b() {}\nfn c() {}\n",
        );
        let code = source.code();
        let found: Vec<bool> = functions(&code).iter().map(|f| f.is_test).collect();
        assert_eq!(found, [true, true, false]);
    }

    #[test]
    fn test_only_items_are_known_by_their_cfg() {
        let text = "#[cfg(not(any(test, x)))]\nmod a {\n}\n#[cfg(all(test, unix))]\nmod b {\n}\n#[cfg(test)]\nmod c;\n";
        let source = Source::new("a.rs", text);
        let code = source.code();
        assert_eq!(test_lines(&code), [4..=6, 7..=8]);
    }

    #[test]
    fn an_allowance_covers_the_code_below_it_and_no_more() {
        let comment = format!("// {}: allow(sleep): polls with a deadline", "tidy");
        let source = Source::new("a.rs", &format!("{comment}\n#[inline]\nf();\ng();\n"));
        assert!(source.allows("sleep", 3) && !source.allows("sleep", 4) && !source.allows("names", 3));
        assert_eq!(source.allowances()[0].reason, "polls with a deadline");
    }
}
