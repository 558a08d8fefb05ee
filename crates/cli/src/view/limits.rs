//! Every bound of `logdrive view`, each with the reason for the number.

/// Bytes of pages that are read before keys are looked at again: some ten milliseconds.
pub(super) const STEP_BYTES: u64 = 8 << 20;

/// Pages that are counted record by record for the histogram: they are in memory, and take some ten milliseconds.
pub(super) const EXACT_PAGES_MAX: usize = 48;

/// Characters of what is typed.
pub(super) const INPUT_CHARACTERS_MAX: usize = 2_000;

/// Bytes of a record that a row shows: more than the widest screen has places for, whatever is left out before.
pub(super) const ROW_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a value that is shown unfolded.
pub(super) const VALUE_BYTES_MAX: usize = 256 * 1024;

/// Lines of a record that is shown unfolded.
pub(super) const DETAIL_LINES_MAX: usize = 10_000;

/// Bytes that are copied at most: terminals take no more in one sequence.
pub(super) const COPY_BYTES_MAX: usize = 100_000;

/// Records around each that passes a filter.
pub(super) const CONTEXT_MAX: usize = 100;

/// Names of fields that can be chosen from: as many as a screen can list in some pages.
pub(super) const FIELD_NAMES_MAX: usize = 500;

/// Lines that were typed and are kept.
pub(super) const HISTORY_MAX: usize = 100;
