//! Arguments that say which records pass.

use clap::Args;
use logdrive_reader::{Condition, Filter, Needle};
use logdrive_wire::Level;

/// Conditions on records, whatever they are read from.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only records of this level and above: trace, debug, info, warn, error, fatal
    #[arg(short, long, value_name = "LEVEL", help_heading = "Filters")]
    pub(crate) level: Option<Level>,
    /// Only records with such a field: key=value, key!=value, key>number, also >= < <=
    ///
    /// May be given several times; all have to hold. Fields of spans count too, and so do the record's own parts:
    /// app, pid, thread, module, file, line, message. `!=` also passes records without the field. Numbers compare as numbers.
    #[arg(short, long, value_name = "COND", help_heading = "Filters")]
    pub(crate) field: Vec<Condition>,
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
        Filter {
            level: self.level,
            since_ns,
            until_ns,
            wanted: self.needles(&self.grep),
            unwanted: self.needles(&self.exclude),
            modules: self.module.clone(),
            threads: self.thread.clone(),
            conditions: self.field.clone(),
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
