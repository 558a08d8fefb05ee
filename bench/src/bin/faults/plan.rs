//! Plan of a program, as `KEY=VALUE` words on its command line; programs of all languages read the same words.

use std::path::PathBuf;
use std::str::FromStr;

/// Keys: `program` (its number), `log`, `notes`, `run` (default directory where empty), `app`, `threads`, `records` (of each
/// thread), `pause_us` (after each call), `full`, `ring`, `rotate`, `compress`, `overflow`, `layout=segments` (in Rust), `agent`, `sync=1` (at the half),
/// `fresh=1` (other threads for the second half), `act` (what it does to itself at the half), `interrupt_us`
/// (between signals, for the acts `handler` and `fork`), `slow_reader=1` (of standard error), `end`. In Rust and C++,
/// `run_as` (UID:GID that it is to become), `warn_every` (calls of which one is a warning); in Rust, `keep` (bytes of a flight
/// recorder, which has every other call), `collector` (address, in the place of a log), `spool` (directory of a sink of typed records to it),
/// `messages` (address of a server that gets requests in the place of log calls), `deliver=1` (the collector has to have all before the end), `also` (another log) and `order=1` (late records are counted).
pub(crate) struct Plan(Vec<(String, String)>);

impl Plan {
    /// Takes words; a later one of the same key counts.
    pub(crate) fn of(words: &[String]) -> Plan {
        let pairs = words.iter().filter_map(|word| word.split_once('='));
        Plan(
            pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// The value of a key, unless it is empty.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().rfind(|(known, _)| known == key);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub(crate) fn path(&self, key: &str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    pub(crate) fn number<T: FromStr>(&self, key: &str) -> Option<T> {
        self.text(key)?.parse().ok()
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.text(key) == Some("1")
    }
}
