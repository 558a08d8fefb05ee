//! Every bound of the layouts, each with the reason for the number.

/// Bytes of a pattern. It is stored in a session's configuration; longer ones are not readable.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// Times that a pattern may show the message, and the fields. Each time costs as many steps as the template has.
pub const PATTERN_REPEATS_MAX: usize = 4;

/// Bytes of the one-line form of the options: a pattern whose every byte is escaped, and the words before it.
pub const OPTIONS_BYTES_MAX: usize = 4 * PATTERN_BYTES_MAX + 64;

/// Bytes of the application's and the host's name; Linux host names have at most 64.
pub const NAME_BYTES_MAX: usize = 256;

/// Pieces of one message template. A piece costs 64 bytes of plan; beyond this the template is shown as it is.
pub const PIECES_MAX: usize = 1024;

/// Values of one dynamic record that are shown. Equals the most fields that a callsite may have.
pub const RECORD_VALUES_MAX: usize = 255;

/// Bytes of text that one formatted value may take, so that `{:1024?}` of many bytes stays bounded.
pub const VALUE_TEXT_BYTES_MAX: usize = 256 * 1024;

/// Bytes of text that are made of a record before it is cut. Every record without a hostile template fits: 64 KiB
/// of payload grow sixfold at most.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of spans whose text is kept for the next record with the same spans.
pub const SPANS_KEPT_BYTES_MAX: usize = 1024;

/// Span texts that are kept. A few threads with spans of their own take turns in a merged log.
pub const SPANS_KEPT: usize = 16;

/// Depth of JSON that a program has rendered and that stands in a line as it is; deeper text is a string. Each level takes a
/// call on the stack.
pub const JSON_DEPTH_MAX: usize = 64;

/// Steps of a body that the fast path writes, after which it takes no further value: its room is 512 bytes.
pub(super) const FAST_STEPS_MAX: usize = 64;
