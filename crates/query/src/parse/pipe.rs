//! Pipes: what becomes of the records that pass.

use super::filter::filter;
use super::text::{
    Input, Parsed, Text, blank, compile, count, expect, fail, fail_at, field_name, has, has_keyword, number,
    rest, text,
};
use crate::ast::{Extraction, Function, Key, Named, Pipe, SortKey};
use crate::limits::LIST_MAX;
use winnow::stream::{Location, Stream};

const PIPES: &str =
    "there are stats, top, uniq, sort, limit, offset, fields, extract, extract_regexp and filter";
const FUNCTIONS: &str = "there are count, count_uniq, sum, avg, min, max, median, quantile and percentile";

/// Reads a pipe behind its `|`.
pub(super) fn pipe(input: &mut Input<'_>) -> Parsed<Pipe> {
    let Some(name) = text(input)?.filter(|name| !name.is_quoted) else {
        return fail(input, "a pipe is missing", PIPES);
    };
    match name.text.as_str() {
        "stats" => stats(input),
        "top" => top(input),
        "uniq" => uniq(input),
        "sort" => sort(input),
        "limit" | "head" => count(input).map(Pipe::Limit),
        "offset" | "skip" => count(input).map(Pipe::Offset),
        "fields" | "keep" => fields(input),
        "extract" => extract(input),
        "extract_regexp" => extract_regexp(input),
        "filter" | "where" => filter(input).map(Pipe::Filter),
        "unique" => fail_at(name.offset, "there is no pipe `unique`", "write uniq by (field)"),
        "count" => fail_at(name.offset, "there is no pipe `count`", "write stats count()"),
        other => fail_at(name.offset, format!("there is no pipe `{other}`"), PIPES),
    }
}

/// Reads items between commas.
fn list<T>(input: &mut Input<'_>, mut item: impl FnMut(&mut Input<'_>) -> Parsed<T>) -> Parsed<Vec<T>> {
    let mut items = vec![item(input)?];
    while has(input, ",")? {
        if items.len() == LIST_MAX {
            return fail(input, format!("a list has {LIST_MAX} items at most"), "");
        }
        items.push(item(input)?);
    }
    Ok(items)
}

fn key(input: &mut Input<'_>) -> Parsed<Key> {
    let field = field_name(input)?;
    let step_at = input.current_token_start() + 1;
    let step = match has(input, ":")? {
        true => Some(number(input)?),
        false => None,
    };
    match &step {
        Some(step) if step.number.float() <= 0.0 => {
            fail_at(step_at, "steps are larger than 0", "write by (_time:1m)")
        }
        _ => Ok(Key { field, step }),
    }
}

/// Reads `by (a, b)`; `None` where no `by` comes next.
fn by(input: &mut Input<'_>) -> Parsed<Option<Vec<Key>>> {
    if !has_keyword(input, "by")? {
        return Ok(None);
    }
    expect(input, "(", "write by (field, field)")?;
    let keys = list(input, key)?;
    expect(input, ")", "write by (field, field)")?;
    Ok(Some(keys))
}

fn needed_by(input: &mut Input<'_>, hint: &str) -> Parsed<Vec<Key>> {
    match by(input)? {
        Some(keys) => Ok(keys),
        None => fail(input, "`by (...)` is missing", hint),
    }
}

fn stats(input: &mut Input<'_>) -> Parsed<Pipe> {
    let first = by(input)?;
    let functions = list(input, function)?;
    let keys = match first {
        Some(keys) => Some(keys),
        None => by(input)?,
    };
    Ok(Pipe::Stats {
        by: keys.unwrap_or_default(),
        functions,
    })
}

fn function(input: &mut Input<'_>) -> Parsed<Named> {
    let Some(name) = text(input)?.filter(|name| !name.is_quoted) else {
        return fail(input, "a function is missing", FUNCTIONS);
    };
    if ![
        "count",
        "count_uniq",
        "sum",
        "avg",
        "min",
        "max",
        "median",
        "quantile",
        "percentile",
    ]
    .contains(&&*name.text)
    {
        return fail_at(
            name.offset,
            format!("there is no function `{}`", name.text),
            FUNCTIONS,
        );
    }
    expect(input, "(", &format!("write {}(field)", name.text))?;
    let function = match name.text.as_str() {
        "count" => Function::Count,
        "count_uniq" => Function::CountUniq,
        "sum" => Function::Sum,
        "avg" => Function::Avg,
        "min" => Function::Min,
        "max" => Function::Max,
        "median" => Function::Quantile(0.5),
        _ => Function::Quantile(share(input, &name)?),
    };
    blank(input)?;
    let is_none = rest(input).starts_with(')') || has(input, "*")?;
    let field = match is_none {
        true if function == Function::Count => None,
        true => return fail(input, "a field is missing", format!("write {}(field)", name.text)),
        false => Some(field_name(input)?),
    };
    expect(input, ")", "one field stands in a function")?;
    Ok(Named {
        function,
        field,
        name: result_name(input)?,
    })
}

/// Reads the share of `quantile(0.95, field)` or of `percentile(95, field)`.
fn share(input: &mut Input<'_>, name: &Text) -> Parsed<f64> {
    let is_percent = name.text == "percentile";
    let example = if is_percent {
        "percentile(95, took_ms)"
    } else {
        "quantile(0.95, took_ms)"
    };
    blank(input)?;
    let offset = input.current_token_start();
    let number = number(input)?.number.float();
    let share = if is_percent { number / 100.0 } else { number };
    if !(0.0..=1.0).contains(&share) {
        return fail_at(
            offset,
            "this share is not between none and all",
            format!("write {example}"),
        );
    }
    expect(input, ",", &format!("write {example}"))?;
    Ok(share)
}

/// Reads the name behind a function, with or without `as`.
fn result_name(input: &mut Input<'_>) -> Parsed<Option<String>> {
    if has_keyword(input, "as")? {
        return field_name(input).map(Some);
    }
    blank(input)?;
    let start = input.checkpoint();
    if rest(input).starts_with([',', '|', ')']) || has_keyword(input, "by")? {
        input.reset(&start);
        return Ok(None);
    }
    match text(input)? {
        Some(name) => {
            super::text::check_field(&name)?;
            Ok(Some(name.text))
        }
        None => Ok(None),
    }
}

fn top(input: &mut Input<'_>) -> Parsed<Pipe> {
    blank(input)?;
    let count = match rest(input).starts_with(|c: char| c.is_ascii_digit()) {
        true => count(input)?,
        false => 10,
    };
    let by = needed_by(input, "write top 10 by (field)")?;
    Ok(Pipe::Top { count, by })
}

fn uniq(input: &mut Input<'_>) -> Parsed<Pipe> {
    let by = needed_by(input, "write uniq by (field)")?;
    let hits = has_keyword(input, "with")?;
    if hits && !has_keyword(input, "hits")? {
        return fail(input, "`hits` is missing", "write uniq by (field) with hits");
    }
    let limit = limit(input)?;
    Ok(Pipe::Uniq { by, hits, limit })
}

fn limit(input: &mut Input<'_>) -> Parsed<Option<u64>> {
    match has_keyword(input, "limit")? {
        true => count(input).map(Some),
        false => Ok(None),
    }
}

fn sort(input: &mut Input<'_>) -> Parsed<Pipe> {
    if !has_keyword(input, "by")? {
        return fail(
            input,
            "`by (...)` is missing",
            "write sort by (field desc, field)",
        );
    }
    expect(input, "(", "write sort by (field desc, field)")?;
    let mut by = list(input, |input| {
        let field = field_name(input)?;
        let descending = has_keyword(input, "desc")?;
        if !descending {
            has_keyword(input, "asc")?;
        }
        Ok(SortKey { field, descending })
    })?;
    expect(input, ")", "write sort by (field desc, field)")?;
    if has_keyword(input, "desc")? {
        by.iter_mut().for_each(|key| key.descending = !key.descending);
    }
    let limit = limit(input)?;
    Ok(Pipe::Sort { by, limit })
}

fn fields(input: &mut Input<'_>) -> Parsed<Pipe> {
    let has_parentheses = has(input, "(")?;
    let fields = list(input, field_name)?;
    if has_parentheses {
        expect(input, ")", "write fields a, b")?;
    }
    Ok(Pipe::Fields(fields))
}

/// Reads `from field`, where it comes next.
fn from(input: &mut Input<'_>) -> Parsed<Option<String>> {
    match has_keyword(input, "from")? {
        true => field_name(input).map(Some),
        false => Ok(None),
    }
}

fn extract(input: &mut Input<'_>) -> Parsed<Pipe> {
    let hint = "write extract \"user=<user> took <ms> ms\" from message";
    let Some(text) = text(input)? else {
        return fail(input, "a pattern is missing", hint);
    };
    let pattern = match extraction(&text.text) {
        Ok(pattern) => pattern,
        Err(message) => return fail_at(text.offset, message, hint),
    };
    let from = from(input)?;
    Ok(Pipe::Extract { pattern, from })
}

/// Takes a pattern apart: `front<name>text<name>text`.
fn extraction(text: &str) -> Result<Extraction, String> {
    let mut pieces = text.split('<');
    let front = pieces.next().unwrap_or_default().to_owned();
    let mut parts: Vec<(String, String)> = Vec::new();
    for piece in pieces {
        let (name, behind) = piece.split_once('>').ok_or("`>` is missing in the pattern")?;
        if parts.last().is_some_and(|(_, behind)| behind.is_empty()) {
            return Err("between two fields of the pattern stands no text".to_owned());
        }
        let name = if name == "_" { "" } else { name };
        parts.push((name.to_owned(), behind.to_owned()));
    }
    if parts.iter().all(|(name, _)| name.is_empty()) {
        return Err("the pattern has no field".to_owned());
    }
    if parts.len() > LIST_MAX {
        return Err(format!("a pattern has {LIST_MAX} fields at most"));
    }
    Ok(Extraction {
        text: text.to_owned(),
        front,
        parts,
    })
}

fn extract_regexp(input: &mut Input<'_>) -> Parsed<Pipe> {
    let hint = "write extract_regexp \"user=(?P<user>\\w+)\" from message";
    let Some(text) = text(input)? else {
        return fail(input, "a regular expression is missing", hint);
    };
    let pattern = compile(&text.text, text.offset)?;
    if pattern.0.capture_names().flatten().next().is_none() {
        return fail_at(text.offset, "the regular expression names no group", hint);
    }
    let from = from(input)?;
    Ok(Pipe::ExtractRegexp { pattern, from })
}
