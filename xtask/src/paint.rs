//! Colours for the workshop's own messages: only on a terminal, and never when `NO_COLOR` is set.
//! All of it goes to stderr, so that a command's stdout stays what the command itself printed.

use std::io::IsTerminal;
use std::sync::OnceLock;

/// Returns whether stderr takes colours.
fn coloured() -> bool {
    static COLOURED: OnceLock<bool> = OnceLock::new();
    *COLOURED.get_or_init(|| {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        !refused && !dumb && std::io::stderr().is_terminal()
    })
}

fn paint(code: &str, text: &str) -> String {
    if coloured() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// For what went well.
pub(crate) fn good(text: &str) -> String {
    paint("32", text)
}

/// For what failed.
pub(crate) fn bad(text: &str) -> String {
    paint("1;31", text)
}

/// For what was left out.
pub(crate) fn note(text: &str) -> String {
    paint("33", text)
}

/// For headings.
pub(crate) fn strong(text: &str) -> String {
    paint("1", text)
}

/// For what may be skipped when reading: command lines, hints.
pub(crate) fn faint(text: &str) -> String {
    paint("2", text)
}
