//! Conditions in the forms of hl: `key=value`, `key!=value`, `key~=text`, `key>number`, joined with `and` and `or`.
//!
//! They become tests of the query language: `key=7` is `(key:=7 or key:range[7, 7])`, since 7.0 is the same number.

use super::text::{Input, Parsed, blank, compile, fail, fail_at, has, has_keyword, quoted, rest};
use crate::ast::{Bound, Expr, LevelTest, Literal, Operator, Test, is_keyword};
use crate::error::QueryError;
use crate::limits::LIST_MAX;
use crate::number::Number;
use winnow::Parser;
use winnow::stream::{Location, Stream};
use winnow::token::take_while;

const HINT: &str = "write key=value, key!=value, key~=text, or with a number key>1, key>=1, key<1, key<=1";
/// The longer ones first, so that `>=` is not read as `>`.
const SIGNS: [&str; 11] = ["!~~=", "~~=", "!~=", "~=", "!=", ">=", "<=", "==", "=", ">", "<"];

/// Reads a condition, or several with `and` and `or` between them.
pub(crate) fn read_condition(text: &str) -> Result<Expr, QueryError> {
    super::read_all(text, |input| {
        let mut any = vec![all_of(input)?];
        while any.len() < LIST_MAX && has_keyword(input, "or")? {
            any.push(all_of(input)?);
        }
        Ok(match any.len() {
            1 => any.remove(0),
            _ => Expr::Or(any),
        })
    })
}

fn all_of(input: &mut Input<'_>) -> Parsed<Expr> {
    let mut all = vec![condition(input)?];
    while all.len() < LIST_MAX && has_keyword(input, "and")? {
        all.push(condition(input)?);
    }
    Ok(match all.len() {
        1 => all.remove(0),
        _ => Expr::And(all),
    })
}

fn key_char(c: char) -> bool {
    !c.is_whitespace() && !"=!<>~\"'`()".contains(c)
}

fn condition(input: &mut Input<'_>) -> Parsed<Expr> {
    blank(input)?;
    let offset = input.current_token_start();
    let key: &str = take_while(0.., key_char).parse_next(input)?;
    if key.is_empty() {
        return fail_at(offset, "the name of a field is missing", HINT);
    }
    if key.starts_with("_stream") || key == "_time" {
        return fail_at(
            offset,
            "this is no field",
            "for times give --since and --until, or --query '_time:10m'",
        );
    }
    let mut found = None;
    for sign in SIGNS {
        if found.is_none() && has(input, sign)? {
            found = Some(sign);
        }
    }
    let Some(sign) = found else {
        return fail(input, "a sign such as = is missing", HINT);
    };
    let (value, value_at) = value(input)?;
    let expr = positive(key, sign.trim_start_matches('!'), value, value_at)?;
    Ok(match sign.starts_with('!') {
        true => Expr::Not(Box::new(expr)),
        false => expr,
    })
}

/// Reads a value: up to the end, or to an `and` or `or` with a condition behind it.
fn value(input: &mut Input<'_>) -> Parsed<(String, usize)> {
    blank(input)?;
    let offset = input.current_token_start();
    if rest(input).starts_with('"') {
        return Ok((quoted(input)?, offset));
    }
    let mut length = 0;
    for word in rest(input).split_inclusive(char::is_whitespace) {
        if is_keyword(word.trim()) && length > 0 {
            if goes_on(rest(input).get(length + word.len()..).unwrap_or_default()) {
                break;
            }
            let message = format!("no condition follows `{}`", word.trim());
            let hint = "write key=1 or key=2, or put a value with this word between quotes";
            return fail_at(offset + length, message, hint);
        }
        length += word.len();
    }
    let text = input.next_slice(length);
    Ok((text.trim().to_owned(), offset))
}

/// Whether a condition comes next.
fn goes_on(text: &str) -> bool {
    let text = text.trim_start();
    let behind = text.trim_start_matches(key_char);
    behind.len() < text.len() && SIGNS.iter().any(|sign| behind.trim_start().starts_with(sign))
}

fn positive(key: &str, sign: &str, value: String, offset: usize) -> Parsed<Expr> {
    let test = |test| Expr::Test {
        field: Some(key.to_owned()),
        test,
    };
    let operator = Operator::ALL.into_iter().find(|(known, _)| *known == sign);
    if key == "level" {
        let Ok(level) = value.parse() else {
            let hint = "levels are trace, debug, info, warn, error, fatal";
            return fail_at(offset, format!("there is no level `{value}`"), hint);
        };
        return Ok(Expr::Level(match operator {
            Some((_, operator)) => LevelTest::Compare(operator, level),
            None => LevelTest::In(vec![level]),
        }));
    }
    let literal = Number::read(value.as_bytes()).map(|number| Literal {
        text: value.clone(),
        number,
    });
    match (sign, operator, literal) {
        ("~=", ..) if value.is_empty() => fail_at(offset, "a text is missing", HINT),
        ("~=", ..) => Ok(test(Test::Substring(value))),
        ("~~=", ..) => compile(&value, offset).map(|pattern| test(Test::Regex(pattern))),
        (_, Some((_, operator)), Some(number)) => Ok(test(Test::Compare { operator, number })),
        (_, Some(_), None) => fail_at(
            offset,
            format!("{sign} compares numbers, and {value:?} is none"),
            "",
        ),
        (_, None, number) => {
            let exact = test(Test::Exact {
                text: value,
                prefix: false,
            });
            let end = |number: Literal| Bound {
                number: Some(number),
                included: true,
            };
            Ok(match number {
                Some(number) => Expr::Or(vec![
                    exact,
                    test(Test::Range {
                        low: end(number.clone()),
                        high: end(number),
                    }),
                ]),
                None => exact,
            })
        }
    }
}
