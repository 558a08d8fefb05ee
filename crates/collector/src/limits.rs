//! The bounds of the collector and of the sender of log files, each with the reason for the number.

use std::time::Duration;

/// A record that is an error, or has several lines, waits so long for more lines: a program writes a stack trace at once.
pub(crate) const RECORD_WAIT: Duration = Duration::from_millis(200);

/// Lines of one batch of a sender, in bytes: two batches fit into a ring, and a frame.
pub(crate) const BATCH_BYTES: usize = 256 * 1024;

/// Interval at which a sender writes its state and reports its progress.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Pause at the end of a log before it is checked again.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// Interval at which the directory of a log is listed; sooner where the log itself was replaced.
pub(crate) const SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// Files of one log: more than any rotation keeps. Those beyond are skipped, and counted.
pub(crate) const FILES_MAX: usize = 1_024;

/// Entries of a directory that are listed for one log.
pub(crate) const ENTRIES_MAX: usize = 65_536;

/// Bytes of a state: [`FILES_MAX`] files and as many runs, of at most 150 bytes each.
pub(crate) const STATE_BYTES_MAX: u64 = 512 * 1024;

/// Bytes of a sender's records that are laid out before they are written: with long names a compressed frame of a few hundred
/// bytes makes gigabytes.
pub(crate) const OUTPUT_BYTES_MAX: usize = 8 << 20;

/// Memory of a definition and of the plan by which its records are laid out: so much, and so many times its bytes. Measured:
/// 3.2 KiB for the shortest, of 18 bytes, and 79 times its bytes for one with 16 fields.
pub(crate) const DEFINITION_MEMORY: (usize, usize) = (3 << 10, 80);

/// Memory of the definitions of all senders together: 2,500 programs of 100 callsites, and not what anybody who may connect
/// makes of some megabytes.
pub(crate) const DEFINITIONS_MEMORY_ALL_MAX: usize = 2 << 30;

/// Times that a group of batches is written to a new file, where the file was deleted under it or could not be brought to
/// the disk; then its senders try again.
pub(crate) const COMMIT_TRIES_MAX: u32 = 4;

/// Bytes that wait for a slow disk before nothing more is read from their senders: at 5 ms a sync, 3 GB/s.
pub(crate) const QUEUED_BYTES_MAX: usize = 32 << 20;

/// Log files that were left because a sync failed, and may come back longer after a power cut; older ones have been on the
/// disk long since.
pub(crate) const VOID_FILES_MAX: usize = 16;

/// Messages for the operator that wait: peers that are refused can make many.
pub(crate) const NOTICES_MAX: usize = 100;

/// Groups of collectors that one log is sent to.
pub(crate) const STATES_MAX: u32 = 64;

/// Logs that one sender sends at once: each has a thread and a connection.
pub const LOGS_MAX: usize = 256;

/// Messages and requests of an input that wait: of a slow disk's seconds, datagrams beyond are lost.
#[cfg(feature = "inputs")]
pub(crate) const INTAKE_QUEUE: usize = 10_000;

/// Time that a request waits until its records are kept: less than clients of OpenTelemetry wait by default.
#[cfg(feature = "inputs")]
pub(crate) const INTAKE_ACK_TIMEOUT: Duration = Duration::from_secs(8);

/// Bytes of a message of syslog; RFC 5424 asks for 2,048, and programs write more.
#[cfg(feature = "inputs")]
pub(crate) const SYSLOG_MESSAGE_BYTES_MAX: usize = 256 << 10;

/// Connections of syslog at once: each may hold a message.
#[cfg(feature = "inputs")]
pub(crate) const SYSLOG_CONNECTIONS_MAX: usize = 1_024;

/// Bytes of a request, also after decompression.
#[cfg(feature = "inputs")]
pub(crate) const HTTP_BODY_BYTES_MAX: usize = 16 << 20;

/// Connections of HTTP at once: each may hold a request.
#[cfg(feature = "inputs")]
pub(crate) const HTTP_CONNECTIONS_MAX: usize = 256;

/// Time of a handshake of TLS, after which a connection of syslog is closed.
#[cfg(feature = "inputs")]
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Records, and bytes of their texts, that are read from a source before they are passed on together.
#[cfg(feature = "inputs")]
pub(crate) const GROUP_MAX: (usize, usize) = (20_000, 8 << 20);

/// Bytes of a checkpoint: a group, of which half may be names of fields and heads of batches, and the place.
#[cfg(feature = "inputs")]
pub(crate) const CHECKPOINT_BYTES_MAX: u64 = 256 << 20;

/// Bytes of a field of the journal that are taken: as journald itself takes of a line, and more of several lines.
#[cfg(feature = "inputs")]
pub(crate) const JOURNALD_FIELD_BYTES_MAX: usize = 256 << 10;

/// Fields, and bytes of them, that are taken of an entry of the journal; others are left out.
#[cfg(feature = "inputs")]
pub(crate) const JOURNALD_ENTRY_MAX: (usize, usize) = (250, 1 << 20);

/// Writers of a topic whose ids are remembered, and ranges of numbers of each: one that was killed sends its last batch again,
/// and batches of several partitions come interleaved.
#[cfg(feature = "kafka")]
pub(crate) const KNOWN_IDS_MAX: (usize, usize) = (256, 4_096);

/// Time for which a log file may be gone before its sender ends.
#[cfg(feature = "inputs")]
pub(crate) const GONE_TIME: Duration = Duration::from_secs(30);
