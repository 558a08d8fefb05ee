//! Errors in a layout's options.

use core::fmt;

use super::escape::{Escape, escaped};

/// Error in a layout's options. Records have no such errors: each one becomes a line.
///
/// ```
/// use logdrive_drain::layout::LayoutOptions;
/// let error = LayoutOptions::from_text("pattern {level").unwrap_err();
/// assert_eq!(error.to_string(), "pattern, byte 0: this { has no }");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// A word that is not part of a layout's one-line form.
    UnknownWord {
        /// The unknown word, shortened and escaped.
        word: String,
    },
    /// No style, or more than one.
    StyleCount,
    /// A text is longer than its limit.
    TooLong {
        /// Name of the text, such as `pattern`.
        what: &'static str,
        /// Most bytes that it may have.
        limit: usize,
    },
    /// A pattern that cannot be read.
    Pattern {
        /// Byte offset of the mistake in the pattern.
        offset: usize,
        /// The mistake, and what is allowed there.
        what: String,
    },
    /// Local time was asked for, and this build has UTC only.
    NoLocalTime,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownWord { word } => write!(
                f,
                "unknown word \"{word}\" in a layout: use text, glog, json, logfmt or pattern, and local or color"
            ),
            Self::StyleCount => f.write_str("a layout names one style: text, glog, json, logfmt or pattern"),
            Self::TooLong { what, limit } => write!(f, "the {what} is too long: use at most {limit} bytes"),
            Self::Pattern { offset, what } => write!(f, "pattern, byte {offset}: {what}"),
            Self::NoLocalTime => {
                f.write_str("local time needs the feature local-time of logdrive-drain: use utc")
            }
        }
    }
}

impl std::error::Error for LayoutError {}

/// Foreign text for an error message: short, and on one line.
pub(super) fn shorten(text: &str) -> String {
    let front: String = text.chars().take(40).collect();
    String::from_utf8(escaped(front.as_bytes(), Escape::Text)).unwrap_or_default()
}
