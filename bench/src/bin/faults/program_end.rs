//! Ends of the programs that log.

use crate::language::Language;
use nix::sys::signal::Signal;

/// End of a program once its calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The logger is stopped, then `main` returns.
    Orderly,
    /// `main` returns, or the program ends, in the way of this name; see `program.rs`.
    Own(&'static str),
    /// A signal from outside.
    Signal(Signal),
}

impl End {
    /// The word of the plan.
    pub(crate) fn word(self) -> &'static str {
        match self {
            End::Orderly => "stop",
            End::Own(word) => word,
            End::Signal(_) => "wait",
        }
    }

    /// Words with which the log names this end; none where it is in order.
    pub(crate) fn cause(self, language: Language) -> Option<&'static str> {
        Some(match (self, language) {
            (End::Orderly | End::Own("return"), _) => return None,
            (End::Own("exit" | "quick_exit"), _) => "exited with status 3",
            // A sidecar sees the status of the program that was executed.
            (End::Own("exec"), Language::Go) => return None,
            (End::Own("_exit" | "exec"), _) => "ended without a word",
            (End::Own("abort"), _) | (End::Own("panic"), Language::Cpp) => "was ended by signal 6 (SIGABRT)",
            // The stack is unwound, which stops the logger.
            (End::Own("panic"), Language::Rust) => "panicked: as told",
            (End::Own("panic"), Language::Go) => "exited with status 2",
            (End::Own("segv"), _) => "was ended by signal 11 (SIGSEGV)",
            (End::Own("eat"), _) => "out of memory",
            (End::Signal(Signal::SIGKILL), Language::Go) => "was ended by signal 9 (SIGKILL)",
            (End::Signal(Signal::SIGKILL), _) => "ended without a word",
            (End::Signal(Signal::SIGTERM), _) => "was ended by signal 15 (SIGTERM)",
            (End::Signal(Signal::SIGINT), _) => "was ended by signal 2 (SIGINT)",
            (End::Signal(Signal::SIGHUP), _) => "was ended by signal 1 (SIGHUP)",
            (End::Own(_) | End::Signal(_), _) => return None,
        })
    }
}
