//! The bounds of deliveries, each with the reason for the number.

use std::time::Duration;

/// Records of one batch: with 200 bytes each, a request of some MiB, and few enough to hold in memory three times.
pub(crate) const BATCH_RECORDS: usize = 20_000;

/// Bytes of the rows of one batch, for the same reason; a block that is larger is a batch of its own.
pub(crate) const BATCH_ROWS_BYTES: usize = 4 << 20;

/// Records and bytes of rows of one batch of Kafka, of which two are under way: with what its client keeps of each record, some
/// 10 MiB.
#[cfg(feature = "kafka")]
pub(crate) const KAFKA_BATCH: (usize, usize) = (10_000, 2 << 20);

/// Bytes of rows of lines that wait for an engine, beside the batch that is under way.
pub(crate) const WAITING_BYTES: usize = 4 << 20;

/// Columns of fields of a table of Parquet: more have no value in most rows.
#[cfg(feature = "parquet")]
pub(crate) const PARQUET_COLUMNS_MAX: usize = 1_024;

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

/// Bytes of a request to Loki: its own parts pass on 4 MiB to each other by default, and answer more as if it would pass by
/// itself. What they make of our JSON is smaller than that.
#[cfg(feature = "http")]
pub(crate) const LOKI_REQUEST_BYTES_MAX: usize = 4 << 20;

/// Bytes of an engine's answer that are read.
pub(crate) const RESPONSE_BYTES_MAX: u64 = 8 << 20;

/// Bytes of an engine's answer that an error shows.
pub(crate) const SHOWN_BYTES: usize = 300;

/// Bytes of a file of dead letters: a poison source fills no disk.
pub(crate) const DEAD_LETTER_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a state of a delivery: the numbers of as many files as there may be, and some.
pub(crate) const STATE_BYTES_MAX: u64 = 1 << 20;

/// Files of a log whose first numbers a state has: 256 GiB of 64 MiB each.
pub(crate) const FILE_STARTS_MAX: usize = 4096;

/// Interval at which a state is synced: after a power cut an engine gets the records of so long again.
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// First bytes of a segment that tell it from others with the number of its inode: the head of its first block, with the
/// block's times and checksum.
pub(crate) const FRONT_BYTES: usize = 48;

/// Room of a line of JSON, and of a message.
pub(crate) const LINE_BYTES: usize = 1 << 20;

/// Callsites of lines of text that are kept, one for each level and target.
pub(crate) const TEXT_CALLSITES_MAX: usize = 1024;
