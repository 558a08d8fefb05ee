//! Arguments that say which records pass.

use crate::instant::now_unix_ns;
use clap::Args;
use logdrive_query::Query;
use logdrive_reader::{Filter, Needle};
use logdrive_wire::Level;

/// Conditions on records, whatever they are read from.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only records of this level and above: trace, debug, info, warn, error, fatal
    #[arg(short, long, value_name = "LEVEL", help_heading = "Filters")]
    pub(crate) level: Option<Level>,
    /// Only records that this query finds: 'timeout level:>=warn took_ms:>250'
    ///
    /// Words and phrases of messages and fields, field:value, field:>5, field:~"pattern", and, or, not, parentheses; a named
    /// subset of LogsQL. docs/query.md has all forms with examples. May be given several times; all have to hold.
    #[arg(short, long, value_name = "QUERY", value_parser = Query::parse_filter, allow_hyphen_values = true, help_heading = "Filters")]
    pub(crate) query: Vec<Query>,
    /// Only records with such a field: key=value, key!=value, key~=text, key>number, also >= < <=
    ///
    /// Conditions may be joined with `and` and `or`, and given several times; all have to hold. Fields of spans count too,
    /// and so do the record's own parts: level, app, pid, thread, module, file, line, message. `!=` also passes records
    /// without the field. Numbers compare as numbers.
    #[arg(short, long, value_name = "COND", value_parser = Query::parse_condition, help_heading = "Filters")]
    pub(crate) field: Vec<Query>,
    /// Only records of this module or target and what is below it; `net` means net::quic too
    #[arg(short, long, value_name = "PREFIX", help_heading = "Filters")]
    pub(crate) module: Vec<String>,
    /// Only records of the thread of this name
    #[arg(short, long, value_name = "NAME", help_heading = "Filters")]
    pub(crate) thread: Vec<String>,
    /// Only records with this text in them, as it stands in the file; all given texts must be there
    #[arg(short, long, value_name = "TEXT", help_heading = "Filters")]
    pub(crate) grep: Vec<String>,
    /// No records with this text in them
    #[arg(short = 'v', long, value_name = "TEXT", help_heading = "Filters")]
    pub(crate) exclude: Vec<String>,
    /// Upper and lower case letters are the same to --grep and --exclude (ASCII only)
    #[arg(short, long, help_heading = "Filters")]
    pub(crate) ignore_case: bool,
}

impl FilterArgs {
    /// The filter for records of a stretch of time.
    pub(crate) fn filter(&self, since_ns: Option<u64>, until_ns: Option<u64>) -> Filter {
        let filter = Filter {
            level: self.level,
            since_ns,
            until_ns,
            wanted: self.needles(&self.grep),
            unwanted: self.needles(&self.exclude),
            modules: self.module.clone(),
            threads: self.thread.clone(),
            ..Filter::default()
        };
        let queries: Vec<Query> = self.query.iter().chain(&self.field).cloned().collect();
        match queries.is_empty() {
            true => filter,
            false => filter.asking(Query::plan_all(&queries, now_unix_ns())),
        }
    }

    /// Texts that are marked where they are found.
    pub(crate) fn marked(&self) -> Vec<Needle> {
        self.needles(&self.grep)
    }

    fn needles(&self, texts: &[String]) -> Vec<Needle> {
        let needle = |text: &String| Needle::new(text, self.ignore_case);
        texts.iter().map(needle).collect()
    }
}
