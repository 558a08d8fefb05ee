//! Languages of the programs that log.

/// Language of the program that logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Cpp,
    Go,
}

impl Language {
    pub(crate) const ALL: [Language; 3] = [Language::Rust, Language::Cpp, Language::Go];

    /// Name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Language::Rust => "Rust",
            Language::Cpp => "C++",
            Language::Go => "Go",
        }
    }
}
