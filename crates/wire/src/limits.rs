//! Every bound of the record format, each with the reason for the number.

/// Largest record, header included. A record is a line; beyond this a value belongs into a file of its own.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;

/// Record lengths and positions are multiples of this, so that headers are aligned.
pub const RECORD_ALIGN: usize = 8;

/// Fields of one callsite. One byte indexes them in dynamic records, and 0xff is the mark of an inline key.
pub const FIELDS_MAX: usize = 255;

/// Bytes of a file, module, target or field name; more is a mistake of the producer.
pub const NAME_BYTES_MAX: usize = 1024;

/// Bytes of a message template; a literal message may be long, but it is stored once.
pub const TEMPLATE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of one encoded callsite: its strings at their limits with every field named would be past any use.
pub const CALLSITE_BYTES_MAX: usize = 64 * 1024;

/// Width or precision of one placeholder: wider padding than this is a way to fill a disk.
pub const PAD_MAX: usize = 1024;

/// Spans that one record may carry.
pub const SCOPE_DEPTH_MAX: usize = 64;

/// Bytes of one message to or from an agent: fits into the default send buffer of a socket several times.
pub const AGENT_MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Descriptors of one message; the kernel's own limit.
pub const AGENT_DESCRIPTORS_MAX: u32 = 253;

/// Rings that come with one message; with the other descriptors well below their limit.
pub const AGENT_RINGS_MAX: u32 = 128;

/// Bytes of an application's name; the field in the session's header has one more, for the zero.
pub const AGENT_APP_BYTES_MAX: usize = 63;

/// Callsites that a process may name for its flight recorder: a person writes them.
pub const AGENT_KEEP_CALLSITES_MAX: u32 = 64;

/// Bytes of a reason or an advice, for people.
pub const AGENT_TEXT_BYTES_MAX: usize = 1024;
