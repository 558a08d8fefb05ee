//! The text of a string literal: what the compiler would make of its quotes and escapes.

/// The value of a string literal as it stands in the source; `None` for any other literal.
pub(crate) fn string_value(source: &str) -> Option<String> {
    if let Some(rest) = source.strip_prefix('r') {
        let hashes = rest.bytes().take_while(|byte| *byte == b'#').count();
        let inner = rest.get(hashes..rest.len().checked_sub(hashes)?)?;
        let inner = inner.strip_prefix('"')?.strip_suffix('"')?;
        return Some(inner.replace("\r\n", "\n"));
    }
    unescape(source.strip_prefix('"')?.strip_suffix('"')?)
}

fn unescape(inner: &str) -> Option<String> {
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars().peekable();
    while let Some(found) = chars.next() {
        match found {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\\' => match chars.next()? {
                'n' => text.push('\n'),
                'r' => text.push('\r'),
                't' => text.push('\t'),
                '0' => text.push('\0'),
                'x' => {
                    let digits = [chars.next()?, chars.next()?];
                    let code = digits[0].to_digit(16)? * 16 + digits[1].to_digit(16)?;
                    text.push(char::from_u32(code)?);
                }
                'u' => {
                    let digits: String = chars.by_ref().take_while(|c| *c != '}').collect();
                    let digits = digits.strip_prefix('{')?.replace('_', "");
                    text.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                '\n' | '\r' => while chars.next_if(|c| matches!(c, ' ' | '\n' | '\r' | '\t')).is_some() {},
                same @ ('\\' | '\'' | '"') => text.push(same),
                _ => return None,
            },
            other => text.push(other),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::string_value;

    #[test]
    fn quotes_and_escapes_are_undone() {
        let cases = [
            (r#""plain""#, "plain"),
            (r#""a\n\t\\\"\'\0\r""#, "a\n\t\\\"'\0\r"),
            (r#""\x41\u{1F600}\u{00_e9}""#, "A\u{1F600}é"),
            ("\"one \\\n      two\"", "one two"),
            (r###"r"raw \n""###, r"raw \n"),
            (r###"r#"a "quoted" b"#"###, r#"a "quoted" b"#),
            ("\"a\r\nb\"", "a\nb"),
        ];
        for (source, value) in cases {
            assert_eq!(string_value(source).as_deref(), Some(value), "{source}");
        }
    }

    #[test]
    fn other_literals_are_refused() {
        for source in [
            "5",
            "b\"x\"",
            "c\"x\"",
            "'x'",
            "\"x\"suffix",
            "r",
            "1.5f64",
            "br\"x\"",
        ] {
            assert_eq!(string_value(source), None, "{source}");
        }
    }
}
