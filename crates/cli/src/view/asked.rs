//! Text and filter that were asked for.

use crate::instant::now_unix_ns;
use logdrive_query::Query;
use logdrive_reader::Filter;
use logdrive_reader::pages::Pattern;
use regex::bytes::{Regex, RegexBuilder};

/// Bytes of a compiled search, as the query language has it.
const SEARCH_BYTES_MAX: usize = 1 << 20;

/// Search and filter.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Conditions of the command line, but for its queries.
    pub(super) base: Filter,
    /// Queries of the command line.
    pub(super) queries: Vec<Query>,
    /// Query that was typed.
    pub(super) filter: String,
    /// Text that was searched last.
    pub(super) search: Option<Search>,
    /// Records that are shown around each that passes.
    pub(super) context: usize,
}

/// A text that is searched.
#[derive(Debug, Clone)]
pub(super) struct Search {
    pub(super) text: String,
    pub(super) pattern: Regex,
}

impl Search {
    /// Reads a regular expression. Without capital letters it finds both cases.
    ///
    /// # Errors
    /// With what is wrong with it, on one line.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let pattern = RegexBuilder::new(text)
            .case_insensitive(!text.chars().any(char::is_uppercase))
            .multi_line(true)
            .size_limit(SEARCH_BYTES_MAX)
            .dfa_size_limit(SEARCH_BYTES_MAX)
            .build()
            .map_err(|error| {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default();
                last.strip_prefix("error: ").unwrap_or(last).to_owned()
            })?;
        Ok(Self {
            text: text.to_owned(),
            pattern,
        })
    }

    /// The same for threads that search.
    pub(super) fn pattern(&self) -> Pattern {
        let pattern = self.pattern.clone();
        Pattern {
            matches: Box::new(move |bytes| pattern.is_match(bytes)),
            is_local: is_local(&self.text),
        }
    }
}

/// Returns whether bytes with a record that matches match as well: where nothing asks for the start or the end of the record. `false`
/// where that is not seen from the text.
fn is_local(text: &str) -> bool {
    let may_turn_off_lines = text.contains("(?") && text.contains('-');
    // The end of a line may follow what takes its line break, or a start of a line that is the end of the record.
    let may_end = text.contains('$') && (text.contains(['\\', '[', '^']) || text.contains("(?"));
    !text.contains("\\A") && !text.contains("\\z") && !may_turn_off_lines && !may_end
}

impl Asked {
    /// The filter of the command line and of the query that was typed; `None` where all records pass.
    ///
    /// # Errors
    /// With what is wrong with the query, on one line.
    pub(super) fn plan(&self, typed: &str) -> Result<Option<Filter>, String> {
        let mut queries = self.queries.clone();
        if !typed.trim().is_empty() {
            let query = Query::parse_filter(typed).map_err(|error| match error.hint.is_empty() {
                true => error.message.clone(),
                false => format!("{}: {}", error.message, error.hint),
            })?;
            queries.push(query);
        }
        let base = &self.base;
        let is_open = base.level.is_none()
            && base.since_ns.is_none()
            && base.until_ns.is_none()
            && base.wanted.is_empty()
            && base.unwanted.is_empty()
            && base.modules.is_empty()
            && base.threads.is_empty();
        Ok(match queries.is_empty() {
            true if is_open => None,
            true => Some(base.clone()),
            false => Some(base.clone().asking(Query::plan_all(&queries, now_unix_ns()))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_without_capitals_finds_both_cases() {
        let finds = |text: &str, line: &[u8]| Search::read(text).expect("a pattern").pattern.is_match(line);
        assert!(finds("time.ut", b"a Timeout"));
        assert!(!finds("Time", b"a timeout"));
        assert!(Search::read("(").is_err_and(|error| error.contains("group")));
    }

    #[test]
    fn a_search_that_asks_for_the_end_of_a_record_looks_at_each() {
        for text in ["timeout", "a.*b$", "^a", r"id=\d+", "(?i)a|b", r"a\s+b"] {
            assert!(is_local(text), "{text}");
        }
        for text in [r"\Aa", r"a\z", r"a\s$", "a[^b]$", "(?-m)^a", "(?s)a.$", "^$"] {
            assert!(!is_local(text), "{text}");
        }
    }

    #[test]
    fn a_filter_is_that_of_the_command_line_and_what_is_typed() {
        let mut asked = Asked::default();
        assert!(asked.plan(" ").expect("nothing").is_none());
        assert!(asked.plan("level:error").expect("a query").is_some());
        assert!(asked.plan("a=1").is_err_and(|error| error.contains("a:=1")));
        asked.base.level = Some(logdrive_wire::Level::Warn);
        assert!(asked.plan("").expect("a level").is_some());
    }
}
