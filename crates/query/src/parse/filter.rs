//! Filters: tests of fields, and how they are joined.

use super::text::{
    Input, Parsed, Text, at_end, bare, blank, check_field, compile, expect, fail, fail_at, has, has_keyword,
    number, number_text, rest, text,
};
use super::time;
use crate::ast::{Bound, Expr, LevelTest, Operator, Test, is_keyword};
use crate::limits::{DEPTH_MAX, LIST_MAX};
use logdrive_wire::Level;
use winnow::Parser;
use winnow::combinator::{opt, peek};
use winnow::stream::{Location, Stream};

/// Place inside of parentheses, and behind the name of a field.
#[derive(Debug, Clone, Copy)]
struct Scope<'a> {
    field: Option<&'a str>,
    depth: usize,
}

impl Scope<'_> {
    /// The scope of what stands inside.
    fn deeper(self, input: &Input<'_>) -> Parsed<Self> {
        match self.depth < DEPTH_MAX {
            true => Ok(Self {
                depth: self.depth + 1,
                ..self
            }),
            false => fail(input, format!("a query is {DEPTH_MAX} levels deep at most"), ""),
        }
    }
}

/// Reads a filter.
pub(super) fn filter(input: &mut Input<'_>) -> Parsed<Expr> {
    or(
        input,
        Scope {
            field: None,
            depth: 0,
        },
    )
}

fn or(input: &mut Input<'_>, scope: Scope<'_>) -> Parsed<Expr> {
    let mut any = vec![and(input, scope)?];
    while has_keyword(input, "or")? {
        any.push(and(input, scope)?);
    }
    Ok(match any.len() {
        1 => any.remove(0),
        _ => Expr::Or(any),
    })
}

fn and(input: &mut Input<'_>, scope: Scope<'_>) -> Parsed<Expr> {
    let mut all = vec![not(input, scope)?];
    while has_keyword(input, "and")? || begins_operand(input)? {
        all.push(not(input, scope)?);
    }
    Ok(match all.len() {
        1 => all.remove(0),
        _ => Expr::And(all),
    })
}

/// Whether a blank, which means `and`, is followed by an operand.
fn begins_operand(input: &mut Input<'_>) -> Parsed<bool> {
    blank(input)?;
    let word = peek(opt(bare)).parse_next(input)?;
    if word.is_some_and(|word| word.eq_ignore_ascii_case("or")) || at_end(input) {
        return Ok(false);
    }
    Ok(!rest(input).starts_with([')', '|', ']', ',']))
}

fn not(input: &mut Input<'_>, scope: Scope<'_>) -> Parsed<Expr> {
    if has(input, "-")? || has(input, "!")? || has_keyword(input, "not")? {
        if rest(input).starts_with(['=', '~']) {
            return fail(
                input,
                "a field is missing before this sign",
                "write field:!=value or field:!~\"pattern\"",
            );
        }
        return Ok(Expr::Not(Box::new(not(input, scope.deeper(input)?)?)));
    }
    operand(input, scope)
}

fn operand(input: &mut Input<'_>, scope: Scope<'_>) -> Parsed<Expr> {
    if has(input, "(")? {
        let inner = or(input, scope.deeper(input)?)?;
        expect(input, ")", "close the parentheses")?;
        return Ok(inner);
    }
    let start = input.checkpoint();
    match (text(input)?, scope.field) {
        (Some(text), field) if begins_test(input)? => {
            if let Some(field) = field {
                let hint = format!("all inside of {field}:(...) is of {field}");
                return fail_at(text.offset, "a field cannot stand here", hint);
            }
            if is_keyword(&text.text) && !text.is_quoted {
                return fail_at(
                    text.offset,
                    "this word joins tests",
                    format!("quote the name: \"{}\":...", text.text),
                );
            }
            check_field(&text)?;
            behind_field(input, &text, scope)
        }
        _ => {
            input.reset(&start);
            match scope.field {
                Some(field) => field_test(input, field),
                None => plain_test(input),
            }
        }
    }
}

/// Skips the colon between a field and its test, if it comes next.
fn begins_test(input: &mut Input<'_>) -> Parsed<bool> {
    has(input, ":")
}

/// Reads what follows `field:`.
fn behind_field(input: &mut Input<'_>, name: &Text, scope: Scope<'_>) -> Parsed<Expr> {
    let field = name.text.as_str();
    if !name.is_quoted && rest(input).starts_with("//") {
        return fail(
            input,
            "this is an address, not the value of a field",
            "put it between quotes",
        );
    }
    if has(input, "(")? {
        let scope = scope.deeper(input)?;
        let inner = or(
            input,
            Scope {
                field: Some(field),
                ..scope
            },
        )?;
        expect(input, ")", "close the parentheses")?;
        return Ok(inner);
    }
    field_test(input, field)
}

fn field_test(input: &mut Input<'_>, field: &str) -> Parsed<Expr> {
    match field {
        "_time" => time::time_test(input).map(Expr::Time),
        "level" => level_test(input),
        _ => {
            if has(input, "!=")? {
                return Ok(Expr::Not(Box::new(of_field(field, exact(input)?))));
            }
            if has(input, "!~")? {
                return Ok(Expr::Not(Box::new(of_field(field, regex(input)?))));
            }
            test(input).map(|test| of_field(field, test))
        }
    }
}

fn of_field(field: &str, test: Test) -> Expr {
    Expr::Test {
        field: Some(field.to_owned()),
        test,
    }
}

/// Reads a test that has no field: a text, or a regular expression.
fn plain_test(input: &mut Input<'_>) -> Parsed<Expr> {
    blank(input)?;
    let offset = input.current_token_start();
    if let Some(sign) = ["=", ">", "<"]
        .into_iter()
        .find(|sign| rest(input).starts_with(sign))
    {
        return fail(
            input,
            format!("a field is missing before `{sign}`"),
            format!("write field:{sign}value"),
        );
    }
    let test = test(input)?;
    match test {
        Test::Exists => Ok(Expr::All),
        Test::Empty => fail_at(
            offset,
            "an empty text is in every record",
            "write * for all records",
        ),
        Test::In(_) | Test::Range { .. } => {
            fail_at(offset, "a field is missing before this", "write field:in(a, b)")
        }
        Test::Phrase { .. } | Test::Substring(_) | Test::Regex(_) => {
            check_behind_word(input, offset)?;
            Ok(Expr::Test { field: None, test })
        }
        Test::Exact { .. } | Test::Compare { .. } => fail_at(offset, "a field is missing before this", ""),
    }
}

/// Says what may be meant where a sign stands directly behind a word.
fn check_behind_word(input: &Input<'_>, offset: usize) -> Parsed<()> {
    let word = format!("{}", Excerpt(input, offset));
    let signs = ["!=", "!~", "=~", "==", "=", "~", ">=", ">", "<=", "<"];
    let Some(sign) = signs.into_iter().find(|sign| rest(input).starts_with(sign)) else {
        return Ok(());
    };
    let value: String = rest(input)[sign.len()..]
        .chars()
        .take_while(|c| !c.is_whitespace() && *c != ')')
        .take(40)
        .collect();
    let hint = match sign {
        "=" | "==" => format!("write {word}:={value} for a field's value"),
        "!=" => format!("write {word}:!={value} for any other value"),
        "~" | "=~" => format!("write {word}:~\"...\" for a regular expression"),
        "!~" => format!("write {word}:!~\"...\" for a regular expression"),
        _ => format!("write {word}:{sign}{value} for a field's number"),
    };
    fail(input, format!("`{sign}` cannot stand behind a word"), hint)
}

/// The text of a query from an offset to the present place.
struct Excerpt<'a, 'b>(&'a Input<'b>, usize);

impl std::fmt::Display for Excerpt<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut whole = *self.0;
        whole.reset_to_start();
        let end = self.0.current_token_start();
        f.write_str(rest(&whole).get(self.1..end).unwrap_or_default())
    }
}

/// Reads a test of a value.
fn test(input: &mut Input<'_>) -> Parsed<Test> {
    blank(input)?;
    if has(input, "=")? {
        return exact(input);
    }
    if has(input, "~")? {
        return regex(input);
    }
    for (sign, operator) in Operator::ALL {
        if has(input, sign)? {
            let number = number(input)?;
            return Ok(Test::Compare { operator, number });
        }
    }
    if has(input, "*")? {
        return substring(input);
    }
    let Some(text) = text(input)? else {
        return nothing(input);
    };
    if !text.is_quoted && rest(input).starts_with(['(', '[']) {
        return function(input, &text);
    }
    phrase(input, text, false)
}

/// Reads the rest of a phrase: a star where it is a prefix.
fn phrase(input: &mut Input<'_>, text: Text, ignore_case: bool) -> Parsed<Test> {
    if is_keyword(&text.text) && !text.is_quoted {
        let hint = format!("for the word itself write \"{}\"", text.text);
        return fail_at(
            text.offset,
            format!("`{}` stands where a test is expected", text.text),
            hint,
        );
    }
    let prefix = rest(input).starts_with('*') && has(input, "*")?;
    if text.text.is_empty() && !prefix {
        return Ok(Test::Empty);
    }
    if text.text.is_empty() {
        return Ok(Test::Exists);
    }
    check_behind_star(input, prefix)?;
    Ok(Test::Phrase {
        text: text.text,
        prefix,
        ignore_case,
    })
}

/// A text that goes on behind a star would be two tests without a word.
fn check_behind_star(input: &Input<'_>, has_star: bool) -> Parsed<()> {
    let glued = rest(input).starts_with(|c: char| !c.is_whitespace() && !")|,:=<>~!]".contains(c));
    match glued {
        true if has_star => fail(
            input,
            "a star ends a text",
            "write field:~\"foo.*bar\" for a pattern, or a blank between two tests",
        ),
        true => fail(
            input,
            "this cannot stand in a text without quotes",
            "put the whole text between quotes",
        ),
        false => Ok(()),
    }
}

fn substring(input: &mut Input<'_>) -> Parsed<Test> {
    let is_text = rest(input).starts_with(|c: char| crate::ast::is_bare_first(c) || "\"'`".contains(c));
    if !is_text {
        return Ok(Test::Exists);
    }
    let Some(text) = text(input)? else {
        return Ok(Test::Exists);
    };
    match rest(input).starts_with('*') {
        true => has(input, "*")?,
        false => {
            let hint = format!(
                "write *{}* for a text anywhere, or ~\"...$\" for an end",
                text.text
            );
            return fail(input, "the second star is missing", hint);
        }
    };
    check_behind_star(input, true)?;
    match text.text.is_empty() {
        true => Ok(Test::Exists),
        false => Ok(Test::Substring(text.text)),
    }
}

fn exact(input: &mut Input<'_>) -> Parsed<Test> {
    let Some(text) = value(input)? else {
        return fail(input, "a value is missing", "write field:=\"value\"");
    };
    let prefix = rest(input).starts_with('*') && has(input, "*")?;
    check_behind_star(input, prefix)?;
    Ok(Test::Exact {
        text: text.text,
        prefix,
    })
}

/// Reads a text, or a number with its sign.
fn value(input: &mut Input<'_>) -> Parsed<Option<Text>> {
    blank(input)?;
    let offset = input.current_token_start();
    if rest(input).starts_with('-') {
        let number = number_text(input)?;
        return Ok(Some(Text {
            text: number.to_owned(),
            is_quoted: true,
            offset,
        }));
    }
    text(input)
}

fn regex(input: &mut Input<'_>) -> Parsed<Test> {
    let Some(text) = text(input)? else {
        return fail(
            input,
            "a regular expression is missing",
            "write it between quotes: ~\"time.*out\"",
        );
    };
    let goes_on = rest(input).starts_with(|c: char| !c.is_whitespace() && c != ')' && c != '|');
    if !text.is_quoted && goes_on {
        return fail(
            input,
            "the regular expression ends here",
            "put all of it between quotes: ~\"time.*out\"",
        );
    }
    compile(&text.text, text.offset).map(Test::Regex)
}

/// Reads what stands in the parentheses of a function.
fn function(input: &mut Input<'_>, name: &Text) -> Parsed<Test> {
    match name.text.as_str() {
        "in" => in_list(input).map(Test::In),
        "range" => range(input),
        "i" => {
            expect(input, "(", "")?;
            let Some(text) = text(input)? else {
                return fail(input, "a text is missing", "write i(error) or i(\"a phrase\")");
            };
            let test = phrase(input, text, true)?;
            expect(input, ")", "close the parentheses")?;
            Ok(test)
        }
        other => fail_at(
            name.offset,
            format!("there is no `{other}(...)` here"),
            "there are in(a, b), range[1, 5) and i(word); between two tests write and, or, or a blank",
        ),
    }
}

fn in_list(input: &mut Input<'_>) -> Parsed<Vec<String>> {
    expect(input, "(", "write in(a, b)")?;
    let mut values = Vec::new();
    loop {
        match value(input)? {
            Some(text) => values.push(text.text),
            None => return fail(input, "a value is missing", "write in(a, \"b c\")"),
        }
        if values.len() > LIST_MAX {
            return fail(input, format!("a list has {LIST_MAX} values at most"), "");
        }
        if !has(input, ",")? {
            break;
        }
    }
    expect(input, ")", "write in(a, \"b c\"): values between commas")?;
    Ok(values)
}

fn range(input: &mut Input<'_>) -> Parsed<Test> {
    let low_included = has(input, "[")?;
    if !low_included {
        expect(input, "(", "write range[1, 5)")?;
    }
    let low = bound(input, low_included, "-inf")?;
    expect(input, ",", "write range[1, 5): the ends between a comma")?;
    let high = bound(input, false, "inf")?;
    let high_included = has(input, "]")?;
    if !high_included {
        expect(input, ")", "[ ] include the end, ( ) do not: range[1, 5)")?;
    }
    let high = Bound {
        included: high_included,
        ..high
    };
    Ok(Test::Range { low, high })
}

fn bound(input: &mut Input<'_>, included: bool, none: &str) -> Parsed<Bound> {
    blank(input)?;
    let start = input.checkpoint();
    let word = number_text(input)?;
    if word.eq_ignore_ascii_case(none) {
        return Ok(Bound {
            number: None,
            included,
        });
    }
    input.reset(&start);
    Ok(Bound {
        number: Some(number(input)?),
        included,
    })
}

fn level_test(input: &mut Input<'_>) -> Parsed<Expr> {
    if has(input, "!=")? {
        return Ok(Expr::Not(Box::new(Expr::Level(LevelTest::In(vec![level(
            input,
        )?])))));
    }
    for (sign, operator) in Operator::ALL {
        if has(input, sign)? {
            return Ok(Expr::Level(LevelTest::Compare(operator, level(input)?)));
        }
    }
    if has(input, "*")? {
        return Ok(Expr::Level(LevelTest::Exists));
    }
    if rest(input).starts_with("in(") || rest(input).starts_with("in (") {
        bare(input)?;
        expect(input, "(", "")?;
        let mut levels = vec![level(input)?];
        while levels.len() < LIST_MAX && has(input, ",")? {
            levels.push(level(input)?);
        }
        expect(input, ")", "write level:in(warn, error)")?;
        return Ok(Expr::Level(LevelTest::In(levels)));
    }
    has(input, "=")?;
    Ok(Expr::Level(LevelTest::In(vec![level(input)?])))
}

fn level(input: &mut Input<'_>) -> Parsed<Level> {
    let hint = "levels are trace, debug, info, warn, error, fatal; write level:>=warn for these and above";
    match text(input)? {
        Some(text) => match text.text.parse() {
            Ok(level) => Ok(level),
            Err(_) => fail_at(text.offset, format!("there is no level `{}`", text.text), hint),
        },
        None => fail(input, "a level is missing", hint),
    }
}

/// The error of what no test begins with.
fn nothing<T>(input: &mut Input<'_>) -> Parsed<T> {
    match rest(input).chars().next() {
        None => fail(
            input,
            "a test is missing at the end",
            "write a word, field:value, or * for all records",
        ),
        Some('|') => fail(
            input,
            "a test is missing before the pipe",
            "write * for all records",
        ),
        Some(')') => fail(input, "a test is missing before `)`", ""),
        Some(_) => unexpected(input),
    }
}

/// The error of what cannot stand at a place.
pub(super) fn unexpected<T>(input: &mut Input<'_>) -> Parsed<T> {
    match rest(input).chars().next() {
        Some(')') => fail(input, "there is no `(` to this", "leave it out"),
        Some(c) => fail(
            input,
            format!("`{c}` cannot stand here"),
            "put a text with such signs between quotes",
        ),
        None => fail(input, "the query ends early", ""),
    }
}
