//! The bounds of dynamic records and their callsites, each with the reason for the number.

use logdrive_wire::limits::RECORD_BYTES_MAX;
use logdrive_wire::record::HEADER_BYTES;

/// Bytes of all values of a record together: what is left of the largest record behind its header.
pub(crate) const VALUES_BYTES_MAX: usize = RECORD_BYTES_MAX - HEADER_BYTES;

/// Bytes of a thread's scratch: the largest record's values.
pub(crate) const SCRATCH_BYTES: usize = VALUES_BYTES_MAX;

/// Bytes of a message that is kept in the callsite table instead of the record. A description that is too long for
/// the table has its texts cut to this length, and a message that was cut must not stand for a whole one.
pub(crate) const CONSTANT_MESSAGE_BYTES_MAX: usize = 256;

/// Places that a look-up tries before it gives up; at half load a run of this length does not occur.
pub(crate) const PROBES_MAX: usize = 64;

/// Bytes of one span, name and fields. They are repeated in every record of the span.
#[cfg(feature = "tracing")]
pub(crate) const SPAN_BYTES_MAX: usize = 4096;

/// Bytes of all spans around a record; a quarter of the largest record.
#[cfg(feature = "tracing")]
pub(crate) const SCOPE_BYTES_MAX: usize = RECORD_BYTES_MAX / 4;

/// Places for callsites of `tracing`: a large program has some thousands. Further ones are found under a lock.
#[cfg(feature = "tracing")]
pub(crate) const TRACING_SITES: usize = 16 * 1024;

/// Spans that live at one time are in chunks of so many, which is some 100 KiB.
#[cfg(feature = "tracing")]
pub(crate) const SPANS_PER_CHUNK: usize = 256;

/// Chunks of spans: four million spans at one time. Further ones show neither name nor fields.
#[cfg(feature = "tracing")]
pub(crate) const SPAN_CHUNKS_MAX: usize = 16 * 1024;

/// Words of a span's bytes, and of those around it, that are kept without a lock. More are kept behind one.
#[cfg(feature = "tracing")]
pub(crate) const SPAN_WORDS: usize = 32;

/// Free places for spans that a thread keeps for itself.
#[cfg(feature = "tracing")]
pub(crate) const FREE_SPANS_PER_THREAD_MAX: usize = 256;

/// Bytes behind the lock that a free place for a span keeps, so that the next span there allocates nothing.
#[cfg(feature = "tracing")]
pub(crate) const SPAN_BYTES_KEPT_MAX: usize = 1024;

/// Callsites of `log`, whose targets may be made at the call. Records of further ones share one callsite per level.
#[cfg(feature = "log")]
pub(crate) const LOG_SITES_MAX: usize = 4096;

/// Places for them: twice as many, so that look-ups stay short.
#[cfg(feature = "log")]
pub(crate) const LOG_PLACES: usize = 2 * LOG_SITES_MAX;
