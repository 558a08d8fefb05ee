//! The error of a query that is not understood: its place, and a hint.

use std::fmt;

/// Columns of a query that an error shows on each side of the place.
const SHOWN_COLUMNS: usize = 60;

/// A query that is not understood.
///
/// Its text has the query, a caret below the place, and what may be written instead.
///
/// ```
/// let error = logdrive_query::Query::parse("order_id=7").unwrap_err();
/// assert_eq!(error.offset, 8);
/// assert!(error.to_string().ends_with("write order_id:=7 for a field's value"), "{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct QueryError {
    /// The query.
    pub query: String,
    /// Place of the mistake, in bytes from the query's start.
    pub offset: usize,
    /// Mistake.
    pub message: String,
    /// Advice; may be empty.
    pub hint: String,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A query of several lines is shown on one: the caret stands below the place.
        let shown = |text: &str| text.replace(|c: char| c.is_control(), " ");
        let offset = self.query.floor_char_boundary(self.offset);
        let (before, after) = self.query.split_at(offset);
        let skipped = before.chars().count().saturating_sub(SHOWN_COLUMNS);
        let before: String = before.chars().skip(skipped).collect();
        let after: String = after.chars().take(SHOWN_COLUMNS).collect();
        let front = if skipped > 0 { "..." } else { "" };
        let columns = front.len() + before.chars().count();
        writeln!(f, "{}", self.message)?;
        writeln!(f, "  {front}{}{}", shown(&before), shown(&after))?;
        write!(f, "  {:columns$}^", "")?;
        match self.hint.is_empty() {
            true => Ok(()),
            false => write!(f, " {}", self.hint),
        }
    }
}
