//! The tables and keys of the configuration: the one place that says what there is, what it means and what holds
//! without it.

mod agent;
mod limits;
mod select;
mod ship;
mod sink;

use super::keys::{Key, Kind, Section, Without};

/// All tables, in the order in which they are shown.
pub(crate) const SECTIONS: [&Section; 10] = [
    &agent::AGENT,
    &sink::SINK,
    &ship::SHIP,
    &select::ROUTE,
    &limits::TOTAL,
    &limits::PROCESS,
    &limits::USER,
    &limits::APP,
    &select::RECORDER,
    &select::LEVEL,
];

/// What the commented default is about.
pub(crate) const ABOUT_DEFAULT: &str = "The configuration of `logdrive agent`, in TOML. Each key stands here with what holds without it; a key that is \
     commented out has no value unless it is given. An empty file means the same as this one.";

/// What the manual page is about.
pub(crate) const ABOUT_PAGE: &str = "The configuration of `logdrive agent`, in TOML. Each key stands here with what holds without it. An empty file \
     is a sound configuration, and `logdrive config init` prints one with all keys and defaults.";

/// What else holds for the whole file, as paragraphs.
pub(crate) const ABOUT: [&str; 2] = [
    "Sizes are \"64 MiB\" (1024 * 1024 bytes each), \"64 MB\" (1000 * 1000) or a number of bytes; times are \"200ms\", \
     \"10s\", \"10m\", \"1h 30m\" or \"7d\"; levels are trace, debug, info, warn, error and fatal; permissions are \
     octal, as \"0640\" or 0o640.",
    "`logdrive config check FILE` tells all that is wrong with a file. The agent reads the file again on SIGHUP and \
     goes on with what it had when the new one is wrong.",
];

/// The table of a name.
pub(crate) fn section(name: &str) -> Option<&'static Section> {
    SECTIONS.into_iter().find(|section| section.name == name)
}

/// A key with a default.
const fn key(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Key {
    Key {
        name,
        kind,
        without: Without::Default(default),
        help,
        files_only: false,
    }
}

/// A key that has to be given.
const fn required(name: &'static str, kind: Kind, example: &'static str, help: &'static str) -> Key {
    Key {
        name,
        kind,
        without: Without::Required(example),
        help,
        files_only: false,
    }
}

/// A key without which something else holds.
const fn unset(
    name: &'static str,
    kind: Kind,
    without: &'static str,
    example: &'static str,
    help: &'static str,
) -> Key {
    Key {
        name,
        kind,
        without: Without::Unset(without, example),
        help,
        files_only: false,
    }
}

/// The same for sinks that are files only.
const fn of_file(key: Key) -> Key {
    Key {
        files_only: true,
        ..key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_there_once_and_every_help_is_a_sentence() {
        let names: BTreeSet<&str> = SECTIONS.iter().map(|section| section.name).collect();
        assert_eq!(names.len(), SECTIONS.len());
        for section in SECTIONS {
            let names: BTreeSet<&str> = section.keys.iter().map(|key| key.name).collect();
            assert_eq!(names.len(), section.keys.len(), "{}", section.name);
            let helps = section
                .keys
                .iter()
                .map(|key| key.help)
                .chain(section.help.iter().copied());
            for help in helps {
                let first = help.chars().next().is_some_and(|c| !c.is_lowercase());
                assert!(first && help.ends_with('.'), "{}: {help}", section.name);
            }
            for (name, _) in section.shown {
                assert!(section.key(name).is_some(), "{}: {name}", section.name);
            }
        }
    }
}
