//! Reasons for which a sink leaves a record out.

/// Reason why a sink did not write a record. The code is the index of its counter.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkDrop {
    /// All buffers were full: the target is too slow, hangs or fails.
    Overflow = 0,
    /// The target is gone for good, such as a closed pipe.
    Gone = 1,
    /// The record is below the sink's level.
    Level = 2,
    /// The record's callsite is not known, so nothing can be said about its values.
    Unknown = 3,
    /// The line is longer than a whole buffer, and not even its front fits.
    TooLong = 4,
    /// No route leads the record to this sink.
    NotRouted = 5,
    /// More records in a second than its process, user or application may have.
    RecordQuota = 6,
    /// More bytes of lines in a day than its process, user or application may have.
    ByteQuota = 7,
}

impl SinkDrop {
    /// Names in the order of the codes.
    pub const NAMES: [&'static str; 8] = [
        "overflow",
        "gone",
        "below_level",
        "unknown_callsite",
        "too_long",
        "elsewhere",
        "records_per_second",
        "disk_bytes_per_day",
    ];
}
