//! Every bound of `logdrive top`, each with the reason for the number.

/// Shortest time between two looks: below this looking costs the machine more than it tells.
pub(super) const INTERVAL_NS_MIN: u64 = 100_000_000;

/// Longest time between two looks.
pub(super) const INTERVAL_NS_MAX: u64 = 3_600_000_000_000;

/// Timeout for an agent's answer, in milliseconds: the screen waits for it.
pub(super) const AGENT_PATIENCE_MS: u64 = 500;

/// Delay before an agent that did not answer is asked again, in milliseconds, so that a dead one does not hold the
/// screen up at each look.
pub(super) const AGENT_AWAY_MS: u64 = 5_000;

/// Rates of the past that are kept for the small curve.
pub(super) const HISTORY: usize = 120;

/// Characters of what is typed.
pub(super) const INPUT_CHARACTERS_MAX: usize = 200;

/// Processes that are looked at in one go; an agent has as many connections.
pub(super) const PROCESSES_MAX: usize = 4_096;
