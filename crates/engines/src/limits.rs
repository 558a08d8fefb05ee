//! The bounds of deliveries, each with the reason for the number.

use std::time::Duration;

/// Records of one batch: with 200 bytes each, a request of some MiB, and few enough to hold in memory three times.
pub(crate) const BATCH_RECORDS: usize = 20_000;

/// Bytes of the rows of one batch, for the same reason; a block that is larger is a batch of its own.
pub(crate) const BATCH_ROWS_BYTES: usize = 4 << 20;

/// Time that a batch waits for more records when it is not full: short for people, long enough for an engine.
pub(crate) const LINGER: Duration = Duration::from_millis(200);

/// Pause before the log is looked at again when nothing came.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// First pause before a batch is tried again; it doubles up to the longest.
pub(crate) const RETRY_FIRST: Duration = Duration::from_millis(200);

/// Longest pause before a batch is tried again: an engine that is back is found within half a minute.
pub(crate) const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// Time for a connection and its handshake.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for the answer to one request: engines that sync or merge take seconds.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of an engine's answer that are read.
pub(crate) const RESPONSE_BYTES_MAX: u64 = 8 << 20;

/// Bytes of an engine's answer that an error shows.
pub(crate) const SHOWN_BYTES: usize = 300;

/// Bytes of a file of dead letters: a poison source fills no disk.
pub(crate) const DEAD_LETTER_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a state of a delivery.
pub(crate) const STATE_BYTES_MAX: u64 = 4 << 10;

/// First bytes of a segment that tell it from others with the number of its inode: the head of its first block, with the
/// block's times and checksum.
pub(crate) const FRONT_BYTES: usize = 48;

/// Room of a line of JSON, and of a message.
pub(crate) const LINE_BYTES: usize = 1 << 20;

/// Callsites of lines of text that are kept, one for each level and target.
pub(crate) const TEXT_CALLSITES_MAX: usize = 1024;
