//! Cuts Rust source into tokens well enough for the rules: comments, strings of every kind,
//! characters, lifetimes, names, numbers and single punctuation marks, each with its line.
//!
//! It accepts anything, and never fails: on a file that does not compile the compiler speaks first.

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name or keyword.
    Name,
    /// A string, a character or a number.
    Literal,
    Lifetime,
    Mark,
    /// An ordinary comment.
    Comment,
    /// A documentation comment.
    Doc,
}

/// One token of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// Offset of the first byte.
    pub(crate) at: usize,
    /// Line of the first character, from 1.
    pub(crate) line: u32,
}

impl Token<'_> {
    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text && matches!(self.kind, Kind::Name | Kind::Mark)
    }

    /// Returns whether it is a comment of either kind.
    pub(crate) fn is_comment(&self) -> bool {
        matches!(self.kind, Kind::Comment | Kind::Doc)
    }

    /// Line of the last character.
    pub(crate) fn last_line(&self) -> u32 {
        self.line + newlines(self.text)
    }
}

/// All tokens of `text`, comments included.
pub(crate) fn lex(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() {
            line += u32::from(first == '\n');
            at += first.len_utf8();
            continue;
        }
        let (kind, length) = token(rest, first);
        let token = Token {
            kind,
            text: &rest[..length],
            at,
            line,
        };
        line = token.last_line();
        tokens.push(token);
        at += length;
    }
    tokens
}

fn newlines(text: &str) -> u32 {
    u32::try_from(text.bytes().filter(|&byte| byte == b'\n').count()).unwrap_or(u32::MAX)
}

/// Kind and length in bytes of the token that `rest` begins with; the length is never 0.
fn token(rest: &str, first: char) -> (Kind, usize) {
    if rest.starts_with("//") {
        let length = rest.find('\n').unwrap_or(rest.len());
        let doc = rest.starts_with("//!") || (rest.starts_with("///") && !rest.starts_with("////"));
        return (if doc { Kind::Doc } else { Kind::Comment }, length);
    }
    if rest.starts_with("/*") {
        let doc = rest.starts_with("/*!") || (rest.starts_with("/**") && !rest.starts_with("/**/"));
        return (if doc { Kind::Doc } else { Kind::Comment }, block_comment(rest));
    }
    if let Some(length) = string(rest) {
        return (Kind::Literal, length);
    }
    if first == '\'' {
        return quote(rest);
    }
    if first.is_ascii_digit() {
        return (Kind::Literal, number(rest));
    }
    if first.is_alphabetic() || first == '_' {
        let raw = if rest.starts_with("r#") { 2 } else { 0 };
        let length = rest[raw..]
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .map_or(rest.len(), |end| raw + end);
        return (Kind::Name, length.max(1));
    }
    (Kind::Mark, first.len_utf8())
}

fn block_comment(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut at, mut depth) = (2, 1);
    while at < bytes.len() && depth > 0 {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    at.min(rest.len())
}

/// Length of a plain, byte, C or raw string at the start of `rest`.
fn string(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix(['b', 'c']).unwrap_or(rest);
    let prefix = rest.len() - body.len();
    if let Some(raw) = body.strip_prefix('r') {
        let hashes = raw.bytes().take_while(|&byte| byte == b'#').count();
        let opened = raw[hashes..].strip_prefix('"')?;
        let close = format!("\"{}", &raw[..hashes]);
        let start = rest.len() - opened.len();
        return Some(
            opened
                .find(&close)
                .map_or(rest.len(), |end| start + end + close.len()),
        );
    }
    let opened = body.strip_prefix('"')?;
    let mut escaped = false;
    for (at, byte) in opened.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(prefix + 1 + at + 1),
            _ => {}
        }
    }
    Some(rest.len())
}

/// A character or a lifetime: `'a'`, `'\n'` and `'{'` close their quote, `'a` does not.
fn quote(rest: &str) -> (Kind, usize) {
    let mut chars = rest[1..].chars();
    let Some(inner) = chars.next() else {
        return (Kind::Mark, 1);
    };
    if inner == '\\' {
        let body = 2 + chars.next().map_or(0, char::len_utf8);
        let length = rest[body..].find('\'').map_or(rest.len(), |end| body + end + 1);
        return (Kind::Literal, length);
    }
    if chars.next() == Some('\'') {
        return (Kind::Literal, 1 + inner.len_utf8() + 1);
    }
    let name = rest[1..]
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len() - 1);
    (Kind::Lifetime, 1 + name)
}

/// Digits, suffix and fraction. The dot of `0..n` and of `1.max(2)` is not part of the number.
fn number(rest: &str) -> usize {
    let part = |from: usize| {
        rest[from..]
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .map_or(rest.len(), |end| from + end)
    };
    let whole = part(0);
    let fraction = rest[whole..]
        .strip_prefix('.')
        .and_then(|after| after.chars().next());
    if fraction.is_some_and(|digit| digit.is_ascii_digit()) {
        part(whole + 1)
    } else {
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        lex(source).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn braces_in_strings_chars_and_comments_are_not_marks() {
        let source = r###"f("}\"{", '{', b'}', r#"}" {"#, br"{", c"}") /* { /* } */ { */ // {"###;
        let marks: String = lex(source)
            .iter()
            .filter(|t| t.kind == Kind::Mark)
            .map(|t| t.text)
            .collect();
        assert_eq!(marks, "(,,,,,)");
    }

    #[test]
    fn lifetimes_labels_and_characters_are_told_apart() {
        let kinds: Vec<Kind> = lex(r"'a 'static 'x' '\'' '\u{7d}' '_")
            .iter()
            .map(|t| t.kind)
            .collect();
        use Kind::{Lifetime, Literal};
        assert_eq!(kinds, [Lifetime, Lifetime, Literal, Literal, Literal, Lifetime]);
    }

    #[test]
    fn ranges_methods_and_raw_names_are_cut_where_they_end() {
        assert_eq!(
            texts("0..n 1.5e3 1.max(r#fn)"),
            ["0", ".", ".", "n", "1.5e3", "1", ".", "max", "(", "r#fn", ")"]
        );
    }

    #[test]
    fn lines_count_through_strings_and_comments() {
        let tokens = lex("a\n/* x\n y */ \"p\nq\"\nb");
        assert_eq!(tokens.last().map(|t| (t.text, t.line)), Some(("b", 5)));
        assert_eq!((tokens[1].line, tokens[1].last_line()), (2, 3));
    }

    #[test]
    fn torn_source_ends_instead_of_failing() {
        for source in [
            "\"open", "r#\"open", "/* open", "'", "'\\", "b'", "é'é", "1.", "r#",
        ] {
            assert!(!lex(source).is_empty(), "{source}");
        }
    }
}
