//! Bounds of queries and of what they keep, each with its reason.

/// Bytes of a query: pages of alternatives fit; what is longer was not written by hand.
pub const QUERY_BYTES_MAX: usize = 64 << 10;
/// Parentheses and negations inside of each other: reading and evaluating a query recurse this deep.
pub const DEPTH_MAX: usize = 64;
/// Pipes of a query.
pub const PIPES_MAX: usize = 64;
/// Functions of one `stats`, fields of one list, and parts of one pattern.
pub const LIST_MAX: usize = 256;
/// Bytes of a compiled regular expression, and of its automaton's cache: counted repetitions can take gigabytes.
pub const REGEX_BYTES_MAX: usize = 1 << 20;
/// Groups that `stats`, `top` and `uniq` keep; records of further ones are counted and told.
pub const GROUPS_MAX: usize = 1 << 20;
/// Bytes that the groups of `stats`, `top` and `uniq` take at most, as for their number.
pub const GROUP_BYTES_MAX: usize = 96 << 20;
/// Bytes of records that `sort` keeps; of more it keeps those that come first, and tells.
pub const SORT_BYTES_MAX: usize = 96 << 20;
/// Values from which a quantile is exact; of more it is within half a per cent.
pub const QUANTILE_VALUES_MAX: usize = 1 << 12;
/// Records that `limit`, `offset` and `top` count up to.
pub const COUNT_MAX: u64 = 1 << 40;
