//! Reasons why a row has no result: the machine lacks something, or the row fails.

use std::path::Path;

/// Reason why a row ended before its log was read.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The machine lacks what the row takes.
    Skip(String),
    /// The row fails.
    Fail(String),
}

impl<E: std::error::Error> From<E> for Halt {
    fn from(error: E) -> Halt {
        Halt::Fail(error.to_string())
    }
}

/// A row that cannot run here, and the reason.
pub(crate) fn skip(why: impl Into<String>) -> Halt {
    Halt::Skip(why.into())
}

/// A row that fails, and the reason.
pub(crate) fn fail(why: impl Into<String>) -> Halt {
    Halt::Fail(why.into())
}

/// The same for a failed operation on a file.
pub(crate) fn file<E: std::fmt::Display>(what: &str, path: &Path) -> impl FnOnce(E) -> Halt {
    let what = format!("{what} {}", path.display());
    move |error| Halt::Fail(format!("{what}: {error}"))
}
