//! The query language: a named subset of LogsQL over any records, described in `docs/query.md`.
//!
//! ```text
//! text ─► Query (parser, AST) ─► Plan: which records pass
//!                             └► Pipeline: what becomes of them
//! ```
//!
//! Records come through [`Record`], so that lines of text and JSON, rows of segments and rings of live processes answer
//! alike. The crate has no I/O and no clock: now is an argument. A query is hostile input: its length, its depth, its
//! regular expressions and the memory of its pipes are bounded ([`limits`]), and what is left out for a bound is told.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod accumulate;
mod ast;
mod columns;
mod error;
mod groups;
pub mod limits;
mod matcher;
mod number;
mod parse;
mod pipeline;
mod plan;
mod raw;
mod record;
mod sorted;

pub use columns::{Batch, Selection, ValueTest};
pub use error::QueryError;
pub use pipeline::{Output, Pipeline};
pub use plan::Plan;
pub use raw::RawSearch;
pub use record::{Cell, GivenName, LEVEL, OWN_PARTS, Record, Row, TIME};

use ast::{Expr, Pipe};
use std::fmt;

/// A query that was read.
///
/// ```
/// use logdrive_query::Query;
/// let query = Query::parse("level:>=warn took_ms:>250 | top 5 by (user)")?;
/// assert_eq!(query.to_string(), "(level:>=warn and took_ms:>250) | top 5 by (user)");
/// # Ok::<(), logdrive_query::QueryError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    filter: Expr,
    pipes: Vec<Pipe>,
}

impl Query {
    /// Reads a filter with its pipes.
    ///
    /// # Errors
    /// For anything that is not understood, with its place and what may be written instead.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let (filter, pipes) = parse::read_query(text)?;
        Ok(Self { filter, pipes })
    }

    /// Reads a filter that may have no pipes.
    ///
    /// # Errors
    /// As for [`Query::parse`].
    pub fn parse_filter(text: &str) -> Result<Self, QueryError> {
        let filter = parse::read_filter(text)?;
        Ok(Self {
            filter,
            pipes: Vec::new(),
        })
    }

    /// Reads a condition in the forms of hl: `key=value`, `key!=value`, `key~=text`, `key~~=pattern`, `key>1`, joined with
    /// `and` and `or`.
    ///
    /// # Errors
    /// As for [`Query::parse`].
    ///
    /// ```
    /// use logdrive_query::Query;
    /// let query = Query::parse_condition("user=ann or took_ms>250")?;
    /// assert_eq!(query.to_string(), "(user:=ann or took_ms:>250)");
    /// # Ok::<(), logdrive_query::QueryError>(())
    /// ```
    pub fn parse_condition(text: &str) -> Result<Self, QueryError> {
        let filter = parse::read_condition(text)?;
        Ok(Self {
            filter,
            pipes: Vec::new(),
        })
    }

    /// Returns the plan of the filter; `now_unix_ns` is what relative times are counted from.
    pub fn plan(&self, now_unix_ns: u64) -> Plan {
        Plan::new(&self.filter, now_unix_ns)
    }

    /// Returns the plan of several filters, which all have to pass.
    pub fn plan_all(queries: &[Self], now_unix_ns: u64) -> Plan {
        let filters = queries.iter().map(|query| query.filter.clone());
        Plan::new(&Expr::And(filters.collect()), now_unix_ns)
    }

    /// Returns the pipes, which have kept nothing yet.
    pub fn pipeline(&self, now_unix_ns: u64) -> Pipeline {
        Pipeline::new(&self.pipes, now_unix_ns)
    }

    /// Adds pipes behind its own.
    ///
    /// # Errors
    /// As for [`Query::parse`].
    pub fn with_pipes(mut self, pipes: &str) -> Result<Self, QueryError> {
        self.pipes.extend(Self::parse(&format!("* | {pipes}"))?.pipes);
        Ok(self)
    }

    /// The query whose filter all of these have to pass as well.
    #[must_use]
    pub fn and_all(mut self, others: &[Self]) -> Self {
        if !others.is_empty() {
            let filters = std::iter::once(&self)
                .chain(others)
                .map(|query| query.filter.clone());
            self.filter = Expr::And(filters.collect());
        }
        self
    }

    /// Whether there are pipes.
    pub fn has_pipes(&self) -> bool {
        !self.pipes.is_empty()
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.filter)?;
        self.pipes.iter().try_for_each(|pipe| write!(f, " | {pipe}"))
    }
}

impl std::str::FromStr for Query {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        Self::parse(text)
    }
}
