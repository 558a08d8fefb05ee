//! Every bound of the command line tool, each with the reason for the number.

/// Bytes that are read from a file at a time, when there are few files: large enough for the disk, small enough to
/// stay in the processor's second-level cache.
pub(crate) const CHUNK_BYTES: usize = 512 * 1024;

/// The least that is read at a time, when there are many files.
pub(crate) const CHUNK_BYTES_MIN: usize = 64 * 1024;

/// Bytes that the chunks of all files may take together.
pub(crate) const CHUNKS_BYTES_MAX: usize = 64 << 20;

/// Bytes of one record with the lines that belong to it. What is longer is passed on in pieces of this size, which
/// stay together; a record of Logdrive has at most 1 MiB.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 20;

/// Records of a file that are kept back so that a late one still finds its place. Logdrive's records are late only
/// when a thread was stopped in the middle of a call.
pub(crate) const REORDER_RECORDS: usize = 1024;

/// Bytes of records that are kept back: they are copied once for each chunk that is read.
pub(crate) const REORDER_BYTES: usize = 64 * 1024;

/// Records that `--lines` may ask for, as they are kept in memory.
pub(crate) const LAST_RECORDS_MAX: u32 = 10_000_000;

/// Bytes of a record that `--lines` keeps in memory; what is longer is no record but a file without line ends, and its
/// rest is left out.
pub(crate) const LAST_RECORD_BYTES_MAX: usize = 16 << 20;

/// Bytes of output that are collected before they are written.
pub(crate) const OUTPUT_BYTES: usize = 128 * 1024;

/// Log files of one command: each takes a descriptor and a chunk.
pub(crate) const FILES_MAX: usize = 1000;

/// Entries of a directory that are looked at for rotated files.
pub(crate) const DIRECTORY_ENTRIES_MAX: usize = 100_000;

/// Fields of one record that are looked at: as many as a callsite may have, and as many in its spans.
pub(crate) const FIELDS_MAX: usize = 512;

/// Nesting of JSON objects that are looked into: `spans` is an array of objects.
pub(crate) const JSON_DEPTH_MAX: usize = 32;

/// Letters by which a name may differ from one that exists to be suggested: a third of it, at most this many.
pub(crate) const TYPO_LETTERS_MAX: usize = 3;

/// Bytes of a configuration file: some hundred routes with comments; what is larger is no configuration.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Problems of a configuration file that are told: nobody mends more at once.
pub(crate) const CONFIG_PROBLEMS_MAX: usize = 50;

/// Characters of a line that an error shows.
pub(crate) const EXCERPT_CHARACTERS_MAX: usize = 100;

/// Characters of a wrong value that an error repeats.
pub(crate) const FOUND_CHARACTERS_MAX: usize = 60;

/// Bytes of the end of a log file that `tail` reads first: some hundred records.
pub(crate) const PAST_FIRST_BYTES: u64 = 64 * 1024;

/// Bytes of a log file, and of records of rotated files, that `tail` reads before it follows: what is older is for
/// `cat`.
pub(crate) const PAST_BYTES_MAX: u64 = 256 << 20;

/// How long an agent may take for an answer, in milliseconds: it answers between two turns of its own, and a flush takes
/// as long as a disk.
pub(crate) const AGENT_PATIENCE_MS: u64 = 3_000;

/// How long an agent may take where others could be kept waiting, in milliseconds: it is asked again when those are served.
/// One that is idle takes a tenth of one.
pub(crate) const AGENT_HURRY_MS: u64 = 4;

/// How long `dump` waits for a process that does not answer, in milliseconds: longer than a drain waits for a disk.
pub(crate) const DUMP_WAIT_MS_MAX: u64 = 10_000;

/// How often `dump` looks for the answer, in milliseconds.
pub(crate) const DUMP_LOOK_MS: u64 = 2;
