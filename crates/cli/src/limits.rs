//! Every bound of the command line tool, each with the reason for the number.

/// Records that `--lines` may ask for, as they are kept in memory.
pub(crate) const LAST_RECORDS_MAX: u32 = 10_000_000;

/// Bytes of output that are collected before they are written.
pub(crate) const OUTPUT_BYTES: usize = 128 * 1024;

/// Letters by which a name may differ from one that exists to be suggested: a third of it, at most this many.
pub(crate) const TYPO_LETTERS_MAX: usize = 3;

/// Bytes of a configuration file: some hundred routes with comments; what is larger is no configuration.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Problems of a configuration file that are reported at once.
pub(crate) const CONFIG_PROBLEMS_MAX: usize = 50;

/// Characters of a line that an error shows.
pub(crate) const EXCERPT_CHARACTERS_MAX: usize = 100;

/// Timeout for an agent's answer, in milliseconds: it answers between two turns of its own, and a flush takes
/// as long as a disk.
pub(crate) const AGENT_TIMEOUT_MS: u64 = 3_000;

/// Timeout for an agent's answer where others could be kept waiting, in milliseconds: it is asked again when those are
/// served. One that is idle takes a tenth of one.
pub(crate) const AGENT_HURRY_MS: u64 = 4;

/// Timeout for an agent's answer to `top`, in milliseconds: the screen waits for it.
pub(crate) const AGENT_WATCH_MS: u64 = 500;

/// Delay before an agent that did not answer `top` is asked again, in milliseconds, so that a dead one does not hold the
/// screen up at each look.
pub(crate) const AGENT_AWAY_MS: u64 = 5_000;

/// Bytes of the groups of one thread of a query, before they are added to those of all.
pub(crate) const SHARED_GROUP_BYTES: usize = 4 << 20;

/// Rows of a table that decide about the widths of its columns.
pub(crate) const TABLE_ROWS_MAX: usize = 10_000;

/// Bars of a histogram: as many as a terminal shows.
pub(crate) const HISTOGRAM_BARS: usize = 24;

/// Logs that are merged with threads for each of them: each of these has some MiB of memory.
pub(crate) const THREADED_LOGS_MAX: usize = 4;

/// Timeout of `dump` for a process that does not answer, in milliseconds: longer than a drain waits for a disk.
pub(crate) const DUMP_WAIT_MS_MAX: u64 = 10_000;

/// Interval at which `dump` checks for the answer, in milliseconds.
pub(crate) const DUMP_LOOK_MS: u64 = 2;

/// Bytes of records that are kept for `cat -B`, until one behind them passes.
pub(crate) const AROUND_BYTES_MAX: usize = 64 << 20;

/// Records around each that passes, of `cat -C`.
pub(crate) const AROUND_RECORDS_MAX: u32 = 100_000;

/// Columns of an export: more have no value in most rows.
#[cfg(feature = "export")]
pub(crate) const EXPORT_COLUMNS_MAX: usize = 1_024;

/// Rows of a batch of an export, and bytes of their values.
#[cfg(feature = "export")]
pub(crate) const EXPORT_BATCH_ROWS: usize = 8_192;
#[cfg(feature = "export")]
pub(crate) const EXPORT_BATCH_BYTES: usize = 8 << 20;

/// Rows of a group of a Parquet file, which is in memory until it is written: as many as DuckDB takes at once.
#[cfg(feature = "export")]
pub(crate) const EXPORT_GROUP_ROWS: usize = 122_880;
