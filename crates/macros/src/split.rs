//! Search for the end of an expression: the first comma that is not inside of generics or of a closure's parameters.
//!
//! Commas in brackets never show here, since a bracketed part is one token. What is left are turbofishes and
//! qualified paths, types behind `as` and `->`, and closures; `<` and `|` are distinguished from the operators by
//! whether an operand stands before them, as the compiler's own parser does.

use proc_macro::{Delimiter, Punct, Spacing, TokenTree};

/// Words behind which an expression starts, so that `|` opens a closure and `<` a qualified path.
const STARTERS: [&str; 18] = [
    "as", "async", "break", "const", "continue", "else", "if", "in", "let", "loop", "match", "move", "mut",
    "return", "static", "unsafe", "while", "yield",
];

/// State of reading the type behind `as` or `->`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    /// Not within such a type.
    No,
    /// Before the first name of the type.
    Start,
    /// Behind a name: `<` opens its generics.
    Named,
}

struct Scan<'a> {
    tokens: &'a [TokenTree],
    index: usize,
    angle_depth: usize,
    /// True if the token before ends an operand.
    operand: bool,
    kind: Type,
}

/// The number of tokens of the expression at the start of `tokens`.
pub(crate) fn expression_length(tokens: &[TokenTree]) -> usize {
    let mut scan = Scan {
        tokens,
        index: 0,
        angle_depth: 0,
        operand: false,
        kind: Type::No,
    };
    while let Some(token) = tokens.get(scan.index) {
        match token {
            TokenTree::Punct(punct) if scan.angle_depth > 0 => scan.inside_generics(punct.as_char()),
            TokenTree::Punct(punct) if punct.as_char() == ',' => return scan.index,
            TokenTree::Punct(punct) => scan.punct(punct.as_char()),
            TokenTree::Ident(ident) => scan.word(&ident.to_string()),
            TokenTree::Group(group) => {
                scan.operand = !(group.delimiter() == Delimiter::Bracket && scan.follows('#'));
                scan.kind = Type::No;
            }
            TokenTree::Literal(_) => scan.operand = true,
        }
        scan.index += 1;
    }
    tokens.len()
}

impl Scan<'_> {
    fn inside_generics(&mut self, found: char) {
        match found {
            '<' => self.angle_depth += 1,
            '>' if !self.joins('-') && !self.joins('=') => {
                self.angle_depth -= 1;
                self.operand = true;
            }
            _ => {}
        }
    }

    fn word(&mut self, word: &str) {
        self.operand = !STARTERS.contains(&word);
        self.kind = match self.kind {
            _ if word == "as" => Type::Start,
            Type::Start if !matches!(word, "mut" | "const" | "dyn" | "unsafe") => Type::Named,
            kind => kind,
        };
    }

    fn punct(&mut self, found: char) {
        match found {
            '<' if self.kind == Type::Named || !self.operand => self.angle_depth = 1,
            // `<<`, `<=`, `||`: the second character must not be taken for a start of its own.
            '<' if self.next_joins('<') || self.next_joins('=') => self.skip_operator(),
            '|' if self.operand && self.next_joins('|') => self.skip_operator(),
            '|' if !self.operand => self.closure_parameters(),
            '-' if self.next_joins('>') => {
                self.index += 1;
                self.operand = false;
                self.kind = Type::Start;
            }
            '?' => {}
            '\'' => {
                // A label or lifetime: its name is not an operand.
                self.index += 1;
                self.operand = false;
            }
            ':' => self.operand = false,
            '&' | '*' if self.kind == Type::Start => {}
            _ => {
                self.operand = false;
                self.kind = Type::No;
            }
        }
    }

    fn skip_operator(&mut self) {
        self.index += 1;
        self.operand = false;
        self.kind = Type::No;
    }

    fn closure_parameters(&mut self) {
        let is_bar = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == '|');
        let behind = self.tokens.get(self.index + 1..).unwrap_or(&[]);
        if let Some(length) = behind.iter().position(is_bar) {
            self.index += length + 1;
        }
    }

    fn punct_at(&self, index: usize) -> Option<&Punct> {
        match self.tokens.get(index)? {
            TokenTree::Punct(punct) => Some(punct),
            _ => None,
        }
    }

    fn punct_before(&self) -> Option<&Punct> {
        self.punct_at(self.index.checked_sub(1)?)
    }

    fn follows(&self, expected: char) -> bool {
        self.punct_before()
            .is_some_and(|punct| punct.as_char() == expected)
    }

    /// Returns true if the character before is `expected` and makes one operator with this one.
    fn joins(&self, expected: char) -> bool {
        self.follows(expected) && self.punct_before().is_some_and(is_joint)
    }

    /// Returns true if `expected` comes next and makes one operator with this character.
    fn next_joins(&self, expected: char) -> bool {
        let next = self.punct_at(self.index + 1);
        self.punct_at(self.index).is_some_and(is_joint) && next.is_some_and(|next| next.as_char() == expected)
    }
}

fn is_joint(punct: &Punct) -> bool {
    punct.spacing() == Spacing::Joint
}
