//! Bounds of segments, each with its reason.

/// Bytes of the rows of a block: what a reader has to hold for one block.
pub const ROWS_BYTES_MAX: usize = 8 << 20;
/// Rows of a block: more give a column no better ratio, and cost a reader that needs one of them.
pub const ROWS_MAX: usize = 1 << 16;
/// Bytes of a head, its dictionary and its filter.
pub const HEAD_BYTES_MAX: usize = 4 << 20;
/// Bytes of all columns of a block. What does not compress is stored as it is, with at most a few bytes a value more.
pub const BODY_BYTES_MAX: usize = 32 << 20;
/// Groups of a block whose records have kinds or templates of their own; records of further ones are stored as bytes.
pub const GROUPS_MAX: usize = 4_096;
/// Fields of a record that have columns of their own, as many as a record may have.
pub const COLUMNS_MAX: usize = 255;
/// Threads of a block.
pub const THREADS_MAX: usize = 1 << 16;
/// Threads that are found without a hash of their ids: a writer of rows looks for one with each record.
pub const RECENT_THREADS: usize = 64;
/// Callsites of a block.
pub const CALLSITES_MAX: usize = 1 << 16;
/// Bytes of a thread's name, of an application's or a host's.
pub const NAME_BYTES_MAX: usize = 1_024;
/// Bytes of a row: a record of the most bytes, a callsite, or a line of text.
pub const ROW_BYTES_MAX: usize = 1 << 20;
/// Bytes of a line from which no template is taken: such lines are dumps, not sentences.
pub const TEMPLATE_LINE_BYTES_MAX: usize = 4_096;
/// Variables of a line that have columns: lines with more are lists.
pub const TEMPLATE_VARIABLES_MAX: usize = 64;
/// Lines of one template below which columns of their own cost more than they save.
pub const TEMPLATE_LINES_MIN: usize = 8;
/// Bytes of a token that is in a filter: longer ones are found by their front.
pub const TOKEN_BYTES_MAX: usize = 64;
/// Bytes of each integer of a column, from which on its values are in the filter: there a filter takes a third of the column at most.
pub const FILTERED_INTEGER_BYTES: usize = 4;
/// Values that a writer looks at to choose an encoding.
pub const SAMPLE_VALUES: usize = 1_024;
/// Values that a writer looks at to find one that most are.
pub const COMMON_VALUES: usize = 64;
/// Values of which a writer counts bytes to find out whether codes of different lengths pay.
pub const ENTROPY_VALUES: usize = 4_096;
/// Part of the packed bytes below which such codes are taken: they take longer to read.
pub const ENTROPY_GAIN: f64 = 0.95;
/// Bytes that a compressed plane has besides its codes: what says which codes they are.
pub const PLANE_BYTES: f64 = 128.0;
/// Chunks of a column that a writer looks at, at most twice as many, to choose between values and their differences.
pub const SAMPLED_CHUNKS: usize = 16;
/// Values that share a reference and a width in a packed column.
pub const CHUNK_VALUES: usize = 128;
/// Digits of one mark below which other columns are not looked at.
pub const DERIVED_VALUES_MIN: usize = 24;
/// Digits before and behind those that a column has in common with another one: lines of a request that is under way when
/// a block ends are in both blocks.
pub const DERIVED_EDGE_VALUES: usize = 8;
/// Numbers from which on those of a column of digits may stand in a pool, if most are: smaller ones take few bytes as they are.
pub const POOL_NUMBER_MIN: u64 = 1 << 40;
/// Numbers of a pool that are named by how long ago they were: they are searched for each value.
pub const RECENT_NUMBERS: usize = 255;
/// Level of zstd for columns: above it text gains a few per cent and costs twice the time.
pub const ZSTD_LEVEL: i32 = 3;
/// Bytes below which compression is not tried: a frame has 13 of its own.
pub const COMPRESS_BYTES_MIN: usize = 32;
/// Places that are tried as the next block behind a damaged one: more of them are no accident.
pub const RESYNC_TRIES_MAX: usize = 4_096;
/// Bytes that are read at a time in search of the next block.
pub const RESYNC_READ_BYTES: usize = 1 << 16;
/// Bytes of a column of the spine above which every encoding is tried.
pub const WELL_BYTES_MIN: usize = 256;
/// Bytes that are read at a time to find where blocks begin: one read serves the fronts of small blocks.
pub const HEAD_READ_BYTES: u64 = 4_096;
/// Nanoseconds that a block of a [`SegmentWriter`](crate::SegmentWriter) spans at most: a reader skips by time.
pub const BLOCK_SPAN_NS: u64 = 1_000_000_000;

/// Callsites and threads that a batch encoder numbers before it begins again: more than a large program has, of which a
/// receiver holds one dictionary for each connection.
pub const DEFINITIONS_MAX: usize = 1 << 16;
/// Bytes of them.
pub const DEFINITIONS_BYTES_MAX: usize = 8 << 20;

/// Bytes of columns that an encoder keeps for its next block: twice the rows of a sink's buffer.
pub(crate) const SPARE_BYTES_MAX: usize = 4 << 20;
