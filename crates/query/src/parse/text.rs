//! Tokens of a query: texts, between quotes or not, numbers and signs.

use crate::ast::{Literal, Pattern, is_bare_char, is_bare_first};
use crate::limits::{DEPTH_MAX, REGEX_BYTES_MAX};
use crate::number::Number;
use winnow::combinator::opt;
use winnow::error::{ErrMode, ModalResult, ParserError};
use winnow::stream::{Location, Stream};
use winnow::token::{any, literal, one_of, take_while};
use winnow::{LocatingSlice, Parser};

pub(super) type Input<'a> = LocatingSlice<&'a str>;
pub(super) type Parsed<T> = ModalResult<T, Complaint>;

/// Mistake in a query, while it is read.
#[derive(Debug)]
pub(super) struct Complaint {
    pub(super) offset: usize,
    pub(super) message: String,
    pub(super) hint: String,
}

impl ParserError<Input<'_>> for Complaint {
    type Inner = Self;

    fn from_input(input: &Input<'_>) -> Self {
        Self {
            offset: input.current_token_start(),
            message: "this is not understood".to_owned(),
            hint: String::new(),
        }
    }

    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}

/// The error of something at the present place.
pub(super) fn fail<T>(input: &Input<'_>, message: impl Into<String>, hint: impl Into<String>) -> Parsed<T> {
    fail_at(input.current_token_start(), message, hint)
}

pub(super) fn fail_at<T>(offset: usize, message: impl Into<String>, hint: impl Into<String>) -> Parsed<T> {
    Err(ErrMode::Cut(Complaint {
        offset,
        message: message.into(),
        hint: hint.into(),
    }))
}

/// The text that is left.
pub(super) fn rest<'a>(input: &Input<'a>) -> &'a str {
    input.peek_finish()
}

pub(super) fn at_end(input: &Input<'_>) -> bool {
    rest(input).is_empty()
}

/// Skips blanks.
pub(super) fn blank(input: &mut Input<'_>) -> Parsed<()> {
    take_while(0.., char::is_whitespace).void().parse_next(input)
}

/// Skips blanks and this sign, if it comes next.
pub(super) fn has(input: &mut Input<'_>, sign: &'static str) -> Parsed<bool> {
    blank(input)?;
    Ok(opt(literal(sign)).parse_next(input)?.is_some())
}

/// Skips blanks and a sign that has to be there.
pub(super) fn expect(input: &mut Input<'_>, sign: &'static str, hint: &str) -> Parsed<()> {
    match has(input, sign)? {
        true => Ok(()),
        false => fail(input, format!("`{sign}` is missing"), hint),
    }
}

/// Skips blanks and a keyword, if it comes next as a whole word.
pub(super) fn has_keyword(input: &mut Input<'_>, keyword: &str) -> Parsed<bool> {
    blank(input)?;
    let start = input.checkpoint();
    if opt(bare)
        .parse_next(input)?
        .is_some_and(|word| word.eq_ignore_ascii_case(keyword))
    {
        return Ok(true);
    }
    input.reset(&start);
    Ok(false)
}

/// Reads a text without quotes. `::` stands in it where more follows: names of modules need no quotes.
pub(super) fn bare<'a>(input: &mut Input<'a>) -> Parsed<&'a str> {
    let part = |input: &mut Input<'a>| {
        (one_of(is_bare_first), take_while(0.., is_bare_char))
            .void()
            .parse_next(input)
    };
    let further = winnow::combinator::repeat::<_, _, (), _, _>(0.., (literal("::"), part).void());
    (part, further).take().parse_next(input)
}

/// Reads a text between `"`, `'` or backticks. Between backticks a backslash is one.
pub(super) fn quoted(input: &mut Input<'_>) -> Parsed<String> {
    let start = input.current_token_start();
    let quote = one_of(['"', '\'', '`']).parse_next(input)?;
    let mut text = String::new();
    while let Some(c) = opt(any::<_, ErrMode<Complaint>>).parse_next(input)? {
        match c {
            _ if c == quote => return Ok(text),
            '\\' if quote != '`' => text.push_str(&escape(input)?),
            _ => text.push(c),
        }
    }
    fail_at(
        start,
        "these quotes are not closed",
        format!("end the text with {quote}"),
    )
}

/// Reads what stands behind a backslash. An escape that means nothing here stays, as those of regular expressions do.
fn escape(input: &mut Input<'_>) -> Parsed<String> {
    let Some(c) = opt(any::<_, ErrMode<Complaint>>).parse_next(input)? else {
        return Ok(String::new());
    };
    Ok(match c {
        'n' => "\n".to_owned(),
        't' => "\t".to_owned(),
        'r' => "\r".to_owned(),
        '\\' | '"' | '\'' | '`' => c.to_string(),
        'u' => {
            let digits = (
                literal("{"),
                take_while(1..=6, |c: char| c.is_ascii_hexdigit()),
                literal("}"),
            );
            let found = opt(digits.map(|(_, digits, _): (&str, &str, &str)| digits)).parse_next(input)?;
            let code = found.and_then(|digits| u32::from_str_radix(digits, 16).ok());
            code.and_then(char::from_u32).map_or_else(
                || {
                    format!(
                        "\\u{}",
                        found.map_or(String::new(), |digits| format!("{{{digits}}}"))
                    )
                },
                String::from,
            )
        }
        _ => format!("\\{c}"),
    })
}

/// Text with or without quotes, and which.
#[derive(Debug, Clone)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) is_quoted: bool,
    /// Place of its first byte.
    pub(super) offset: usize,
}

/// Reads a text, if one comes next.
pub(super) fn text(input: &mut Input<'_>) -> Parsed<Option<Text>> {
    blank(input)?;
    let offset = input.current_token_start();
    if rest(input).starts_with(['"', '\'', '`']) {
        let text = quoted(input)?;
        return Ok(Some(Text {
            text,
            is_quoted: true,
            offset,
        }));
    }
    let found = opt(bare).parse_next(input)?;
    Ok(found.map(|text| Text {
        text: text.to_owned(),
        is_quoted: false,
        offset,
    }))
}

/// Reads the name of a field.
pub(super) fn field_name(input: &mut Input<'_>) -> Parsed<String> {
    match text(input)? {
        Some(text) if text.text.is_empty() => fail_at(text.offset, "a field has a name", ""),
        Some(text) => {
            check_field(&text)?;
            Ok(text.text)
        }
        None => fail(input, "the name of a field is missing", ""),
    }
}

/// Checks that a text may be the name of a field.
pub(super) fn check_field(text: &Text) -> Parsed<()> {
    if text.text.starts_with("_stream") {
        let hint = "name a field such as app or module";
        return fail_at(text.offset, "there are no streams here", hint);
    }
    let begins = text
        .text
        .starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '@');
    match begins || text.is_quoted {
        true => Ok(()),
        false => fail_at(
            text.offset,
            "the name of a field begins with a letter",
            "put a text with a colon between quotes: \"10.0.0.1:80\"",
        ),
    }
}

/// Reads a number, perhaps with a unit.
pub(super) fn number(input: &mut Input<'_>) -> Parsed<Literal> {
    blank(input)?;
    let offset = input.current_token_start();
    let word = number_text(input)?;
    match Number::read(word.as_bytes()) {
        Some(number) => Ok(Literal {
            text: word.to_owned(),
            number,
        }),
        None if word.is_empty() => fail_at(
            offset,
            "a number is missing",
            "write one such as 5, 1.5, 10KiB or 250ms",
        ),
        None => fail_at(
            offset,
            format!("`{word}` is no number"),
            "write one such as 5, 1.5, 10KiB or 250ms; texts are compared with := and in()",
        ),
    }
}

/// Reads letters, digits and what else a number has.
pub(super) fn number_text<'a>(input: &mut Input<'a>) -> Parsed<&'a str> {
    take_while(0.., |c: char| c.is_alphanumeric() || "+-._".contains(c)).parse_next(input)
}

/// Reads a number of records.
pub(super) fn count(input: &mut Input<'_>) -> Parsed<u64> {
    blank(input)?;
    let offset = input.current_token_start();
    let digits: &str = take_while(0.., char::is_alphanumeric).parse_next(input)?;
    match digits
        .parse()
        .ok()
        .filter(|count| *count <= crate::limits::COUNT_MAX)
    {
        Some(count) => Ok(count),
        None => fail_at(
            offset,
            "a number of records is missing",
            "write a whole number such as 10",
        ),
    }
}

/// Compiles a regular expression that was read at a place.
pub(super) fn compile(text: &str, offset: usize) -> Parsed<Pattern> {
    let built = regex::bytes::RegexBuilder::new(text)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .nest_limit(DEPTH_MAX as u32)
        .build();
    match built {
        Ok(regex) => Ok(Pattern(regex)),
        Err(regex::Error::CompiledTooBig(_)) => fail_at(
            offset,
            "the regular expression takes more than 1 MiB of memory",
            "use smaller repetitions",
        ),
        Err(error) => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            let cause = last.strip_prefix("error: ").unwrap_or(last);
            fail_at(
                offset,
                format!("the regular expression is not understood: {cause}"),
                "",
            )
        }
    }
}
