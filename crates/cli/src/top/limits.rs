//! Every bound of `logdrive top`, each with the reason for the number.

/// Shortest refresh interval: below this the reading costs more than it shows.
pub(super) const INTERVAL_NS_MIN: u64 = 100_000_000;

/// Characters of what is typed.
pub(super) const INPUT_CHARACTERS_MAX: usize = 200;

/// Processes that are read in one snapshot; an agent has as many connections.
pub(super) const PROCESSES_MAX: usize = 4_096;
