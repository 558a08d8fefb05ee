//! The bounds of what one log call captures, each with the reason for the number.

use logdrive_wire::limits::RECORD_BYTES_MAX;
use logdrive_wire::record::HEADER_BYTES;

/// Bytes of all values of a record together: what is left of the largest record behind its header.
pub const PAYLOAD_BYTES_MAX: usize = RECORD_BYTES_MAX - HEADER_BYTES;

/// Bytes that are kept of a rendered value. It is just past any record, so that a value that was stopped here is
/// cut, marked and counted in the same place as all others.
pub const RENDERED_BYTES_MAX: usize = RECORD_BYTES_MAX;

/// Strings that a thread keeps for rendering: one for each rendered value of a call, and for calls nested in the
/// `Display` of a value. More are allocated when a call needs them.
pub const POOL_STRINGS_MAX: usize = 16;

/// Bytes of a new string of the pool: most rendered values are shorter, so that it is allocated once.
pub const POOL_STRING_BYTES: usize = 256;

/// Bytes of all values of a record that has to be read before it is written, because one of them is the key of a
/// sample. What most records have; it is stack that is cleared at each such call.
pub const KEYED_BYTES_USUAL: usize = 512;

/// The same for longer records, whose texts are cut for the look: 255 numbers of the largest kind, and as much again.
pub const KEYED_BYTES_MAX: usize = 8 * 1024;

/// Mark at the end of a text that was cut.
pub const CUT_MARK: &str = "…";
