//! Every bound of the reader, each with the reason for the number.

/// Bytes that are read from a file at a time, when there are few files: large enough for the disk, small enough to
/// stay in the processor's second-level cache.
pub const CHUNK_BYTES: usize = 512 * 1024;

/// Bytes of a part of a file that one thread looks at: it stays in the processor's cache, and its border costs little.
pub(crate) const PART_BYTES: u64 = 1 << 20;

/// Bytes that are read first where a part should end, to find where a record begins.
pub(crate) const BORDER_READ_BYTES: u64 = 4 * 1024;

/// Bytes that are searched for the beginning of a record; without one a part ends within a record.
pub(crate) const BORDER_BYTES_MAX: u64 = 16 << 20;

/// Bytes by which a record may stand behind its place in the order of times.
pub(crate) const LATE_BYTES: u64 = 256 << 10;

/// Records of a file whose times are compared before it is believed to be in order.
pub(crate) const ORDER_PROBES: u64 = 64;

/// Bytes from the end on in which the last records are searched; rarer ones are searched in all of the file.
pub(crate) const LAST_SEARCH_BYTES_MAX: u64 = 16 << 20;

/// Threads that look at parts of one log: more of them wait for memory.
pub(crate) const SCAN_THREADS_MAX: usize = 16;

/// Parts that are worked on ahead, for each thread.
pub(crate) const PARTS_AHEAD: u64 = 2;

/// Memories of parts that are kept for later ones: one is taken while another is filled, by a few threads.
pub(crate) const SPARE_PARTS_MAX: usize = 4;

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

/// Bytes of a record that [`Last`](crate::Last) keeps in memory; what is longer is no record but a file without line
/// ends, and its rest is left out.
pub(crate) const LAST_RECORD_BYTES_MAX: usize = 16 << 20;

/// Log files that are merged at once: each takes a descriptor and a chunk.
pub const FILES_MAX: usize = 1000;

/// Entries of a directory that are searched for rotated files.
pub const DIRECTORY_ENTRIES_MAX: usize = 100_000;

/// Fields of one record that are read: as many as a callsite may have, and as many in its spans.
pub(crate) const FIELDS_MAX: usize = 512;

/// Nesting of JSON objects that are looked into: `spans` is an array of objects.
pub(crate) const JSON_DEPTH_MAX: usize = 32;

/// Bytes of the end of a log file that are read first for its last records: some hundred records.
pub(crate) const PAST_FIRST_BYTES: u64 = 64 * 1024;

/// Bytes of a log file, and of records of its rotated files, that are read for its last records. What is older is for
/// a merge.
pub(crate) const PAST_BYTES_MAX: u64 = 256 << 20;

/// Sessions that one follower watches: each has its mappings and its table of callsites.
pub(crate) const SESSIONS_MAX: usize = 1024;

/// Bytes that a follower holds of all rings together. What comes faster than it is taken is missed, and counted.
pub(crate) const HELD_BYTES_MAX: usize = 64 << 20;

/// Bytes that a follower holds of one ring, so that one flood leaves room for the others.
pub(crate) const RING_HELD_BYTES_MAX: usize = 16 << 20;

/// Bytes that a follower copies from a ring before it goes on to the next one.
pub(crate) const POLL_BYTES_MAX: usize = 4 << 20;

/// Digits of the number of a rotation in a file's name, at least; fewer are of an earlier form, within one second.
pub(crate) const SEQUENCE_DIGITS_MIN: usize = 6;

/// Bytes of a page at least: a screen needs one of each log, and 1000 logs are to fit into 64 MiB.
pub(crate) const PAGE_BYTES_MIN: u64 = 64 * 1024;

/// Bytes of a page at most: it is read and taken apart within the time of a few screens.
pub(crate) const PAGE_BYTES_MAX: u64 = 16 << 20;

/// Bytes of a page that is a block of a segment, as a step counts them: lines of 65536 records.
pub(crate) const BLOCK_PAGE_BYTES: u64 = 8 << 20;

/// Pages of one log from which on they are larger: their index then takes some megabytes.
pub(crate) const PAGES_WANTED: u64 = 1 << 16;

/// Pages of one log that have an entry in the index; a log that has grown beyond that is shown without counts there.
pub(crate) const PAGES_INDEXED_MAX: u32 = 1 << 20;

/// Bytes that a search looks through at a time: it reads those of a record more, and is to be stopped soon.
pub(crate) const SEARCH_STRETCH_BYTES: u64 = 4 << 20;

/// Threads of a search: each takes the memory of a stretch, and more are faster than memory.
pub(crate) const SEARCH_THREADS_MAX: usize = 16;

/// Bytes of pages that are kept in memory.
pub(crate) const PAGES_KEPT_BYTES_MAX: usize = 64 << 20;

/// Memory of an xz decoder, in KiB: what `xz -9` asks for is 64 MiB and some.
pub(crate) const XZ_MEMORY_KIB_MAX: u32 = 256 * 1024;

/// Bytes at the front of a line that are searched for a level: behind a long time stamp there is room for a name.
pub(crate) const HEAD_BYTES: usize = 64;

/// Bytes that are searched when they hold colours, which do not count.
pub(crate) const HEAD_BYTES_COLOURED: usize = 160;

/// Lines before a line without a time that are searched for one.
pub(crate) const UNTIMED_LINES_MAX: usize = 64;

/// Lines of one record of foreign text: the largest traces that are read by people; longer ones go on in another record.
pub(crate) const JOINED_LINES_MAX: usize = 4096;

/// Bytes of one record of foreign text, as of any record.
pub(crate) const JOINED_BYTES_MAX: usize = RECORD_BYTES_MAX;

/// Bytes of a line of which only the last state is shown: a progress bar is drawn some thousand times.
pub(crate) const OVERWRITTEN_BYTES_MAX: usize = 256 * 1024;

/// Lines at the end of a piece of a log in which the begin of its last record is searched.
pub(crate) const OPEN_LINES_MAX: usize = 1024;
