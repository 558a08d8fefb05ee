//! The side of a server: an engine that a proof starts, disturbs and asks for what it has, or a program whose records come by
//! an input.

use super::process::Process;
use crate::shell::{Failure, Outcome, Tool};
use std::ops::Range;
use std::path::Path;

/// A record as an engine gives it back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    /// Number that the program gave it.
    pub(super) number: u64,
    /// Id that the delivery gave it.
    pub(super) id: String,
}

/// An engine that a proof runs against.
pub(super) trait Server {
    /// Address for `collect --to`.
    fn address(&self) -> String;

    /// Processes of it, which are killed and halted. All run.
    fn processes(&mut self) -> &mut [Process];

    /// Waits until it takes records, at first and after a kill.
    fn wait(&mut self) -> Outcome;

    /// All records that it has.
    fn rows(&mut self) -> Result<Vec<Row>, Failure>;

    /// Members of a record, with a comma before them, by which it is refused; `None` where it takes all.
    fn poison(&self) -> Option<String>;

    /// Whether what it has acknowledged outlives a kill without notice.
    fn is_durable(&self) -> bool {
        true
    }

    /// Whether records may be lost on the way to it, since it acknowledges none.
    fn may_lose(&self) -> bool {
        false
    }

    /// Whether a batch that it took without an answer is there twice, with nothing to tell it by.
    fn may_repeat(&self) -> bool {
        false
    }
}

/// A program whose records come to a collector by one of its inputs.
pub(super) trait Origin {
    /// Address for `collect --input`.
    fn address(&self) -> String;

    /// Further arguments of `collect`.
    fn arguments(&self) -> Vec<String> {
        Vec::new()
    }

    /// Gives it records with these numbers. They are with it when this returns.
    fn append(&mut self, numbers: Range<u64>) -> Outcome;

    /// Processes of it, which are halted, and killed where it outlives that.
    fn processes(&mut self) -> &mut [Process];

    /// Waits until it takes records, at first and after a kill.
    fn wait(&mut self) -> Outcome;

    /// Whether it and the way from it outlive kills without notice. Where not, the collector is ended with a signal.
    fn is_durable(&self) -> bool {
        true
    }
}

/// Starts a server: directory of its programs, directory of its data, path of the command `logdrive`.
type Start = fn(&Path, &Path, &Path) -> Result<Box<dyn Server>, Failure>;

/// The same for the origin of records.
type StartOrigin = fn(&Path, &Path, &Path) -> Result<Box<dyn Origin>, Failure>;

/// Function that fetches and builds what a kind needs, and starts it.
pub(super) enum Side {
    Output(Start),
    Input(StartOrigin),
}

/// A kind of server.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) tools: &'static [&'static Tool],
    /// Cycles when none are given.
    pub(super) cycles: u64,
    pub(super) side: Side,
}

/// Writes a file of a server.
pub(super) fn write(path: &Path, text: &str) -> Outcome {
    std::fs::write(path, text)
        .map_err(|cause| Failure::new(format!("{} cannot be written: {cause}", path.display()), ""))
}
