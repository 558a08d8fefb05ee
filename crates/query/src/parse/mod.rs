//! The parser of queries: a filter, and pipes behind it.
//!
//! It reads strictly: what is not in the grammar of `docs/query.md` is an error with its place and a hint, never a text
//! that is searched instead.

mod aliases;
mod filter;
mod pipe;
mod text;
mod time;

pub(crate) use aliases::read_condition;

use crate::ast::{Expr, Pipe};
use crate::error::QueryError;
use crate::limits::{PIPES_MAX, QUERY_BYTES_MAX};
use text::{Complaint, Input, Parsed, at_end, blank, fail, has};
use winnow::error::ErrMode;
use winnow::stream::Location;

/// Reads a whole query.
pub(crate) fn read_query(text: &str) -> Result<(Expr, Vec<Pipe>), QueryError> {
    read_all(text, |input| {
        let filter = filter::filter(input)?;
        let mut pipes = Vec::new();
        while has(input, "|")? {
            if pipes.len() == PIPES_MAX {
                return fail(input, format!("a query has {PIPES_MAX} pipes at most"), "");
            }
            pipes.push(pipe::pipe(input)?);
        }
        Ok((filter, pipes))
    })
}

/// Reads a filter that has no pipes behind it.
pub(crate) fn read_filter(text: &str) -> Result<Expr, QueryError> {
    read_all(text, |input| {
        let filter = filter::filter(input)?;
        match has(input, "|")? {
            true => fail(
                input,
                "a pipe cannot stand here",
                "give the query to logdrive query",
            ),
            false => Ok(filter),
        }
    })
}

/// Reads a text up to its end.
fn read_all<T>(text: &str, read: impl FnOnce(&mut Input<'_>) -> Parsed<T>) -> Result<T, QueryError> {
    let wrong = |offset, message: String, hint: String| QueryError {
        query: text.to_owned(),
        offset,
        message,
        hint,
    };
    if text.len() > QUERY_BYTES_MAX {
        let message = format!(
            "the query has {} bytes, and {QUERY_BYTES_MAX} are the most",
            text.len()
        );
        return Err(QueryError {
            query: String::new(),
            offset: 0,
            message,
            hint: "split it".to_owned(),
        });
    }
    let mut input = Input::new(text);
    let found = read(&mut input).and_then(|found| {
        blank(&mut input)?;
        match at_end(&input) {
            true => Ok(found),
            false => filter::unexpected(&mut input),
        }
    });
    found.map_err(|error| match error {
        ErrMode::Cut(Complaint {
            offset,
            message,
            hint,
        })
        | ErrMode::Backtrack(Complaint {
            offset,
            message,
            hint,
        }) => wrong(offset, message, hint),
        ErrMode::Incomplete(_) => wrong(
            input.current_token_start(),
            "the query ends early".to_owned(),
            String::new(),
        ),
    })
}
