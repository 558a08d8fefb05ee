//! Errors in a layout's options.

use super::escape::{Escape, escaped};

/// Error in a layout's options. Records have no such errors: each one becomes a line.
///
/// ```
/// use logdrive_drain::layout::LayoutOptions;
/// let error = LayoutOptions::from_text("pattern {level").unwrap_err();
/// assert_eq!(error.to_string(), "pattern, byte 0: this { has no }");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A word that is not part of a layout's one-line form.
    #[error(
        "unknown word \"{word}\" in a layout: use text, glog, json, logfmt, segments or pattern, and local or color"
    )]
    UnknownWord {
        /// The unknown word, shortened and escaped.
        word: String,
    },
    /// No style, or more than one.
    #[error("a layout names one style: text, glog, json, logfmt, segments or pattern")]
    StyleCount,
    /// A text is longer than its limit.
    #[error("the {what} is too long: use at most {limit} bytes")]
    TooLong {
        /// Name of the text, such as `pattern`.
        what: &'static str,
        /// Most bytes that it may have.
        limit: usize,
    },
    /// A pattern that cannot be read.
    #[error("pattern, byte {offset}: {what}")]
    Pattern {
        /// Byte offset of the mistake in the pattern.
        offset: usize,
        /// The mistake, and what is allowed there.
        what: String,
    },
    /// Segments were asked for, and this build has none.
    #[error("the layout segments needs the feature segments of logdrive-drain: use text or json")]
    NoSegments,
    /// Segments were asked for where lines are wanted.
    #[error("the layout segments is for files: give a terminal, a pipe or a collector text or json")]
    SegmentsNeedFile,
    /// A header was asked for in a file of segments, which has no lines.
    #[error("a file of segments has no header: leave the header out, or choose another layout")]
    SegmentsHaveNoHeader,
    /// Local time was asked for, and this build has UTC only.
    #[error("local time needs the feature local-time of logdrive-drain: use utc")]
    NoLocalTime,
}

/// Foreign text for an error message: short, and on one line.
pub(super) fn shorten(text: &str) -> String {
    let front: String = text.chars().take(40).collect();
    String::from_utf8(escaped(front.as_bytes(), Escape::Text)).unwrap_or_default()
}
