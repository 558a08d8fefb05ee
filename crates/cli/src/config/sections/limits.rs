//! The tables below `[limits]`.

use super::super::keys::{Key, Kind, Section, Without};
use super::{key, required};
use logdrive_agent::config::limits::{
    DISK_BYTES_PER_DAY, MEMORY_BYTES, PROCESSES, RECORDS_PER_SECOND, RINGS, RINGS_OF_PROCESS, RULES_MAX,
};

const PROCESSES_KEY: Key = key(
    "processes",
    Kind::CountOrOff(PROCESSES),
    "\"off\"",
    "Processes at once.",
);
const RINGS_KEY: Key = key(
    "rings",
    Kind::CountOrOff(RINGS),
    "\"off\"",
    "Rings: one for each thread that logs. A thread without one has its records dropped and counted.",
);
const MEMORY_KEY: Key = key(
    "memory_bytes",
    Kind::SizeOrOff(MEMORY_BYTES),
    "\"off\"",
    "Shared memory of rings, callsite tables and flight recorders.",
);
const RECORDS_KEY: Key = key(
    "records_per_second",
    Kind::CountOrOff(RECORDS_PER_SECOND),
    "\"off\"",
    "Records in one second; more are dropped, counted and told in the log. The last eighth is for warnings and errors. What \
     a flight recorder keeps does not count.",
);
const DISK_KEY: Key = key(
    "disk_bytes_per_day",
    Kind::SizeOrOff(DISK_BYTES_PER_DAY),
    "\"off\"",
    "Bytes of lines in files from midnight to midnight, UTC, before compression; more are dropped, counted and told in the \
     log. The last eighth is for warnings and errors.",
);

/// A key with another default.
const fn with(key: Key, default: &'static str) -> Key {
    Key {
        without: Without::Default(default),
        ..key
    }
}

pub(super) const TOTAL: Section = Section {
    name: "limits",
    many: None,
    help: &[
        "What processes may take. All limits that apply to a process hold at once: those for all together, for each \
         process, for its user and for its application.",
        "This table is for all processes together.",
    ],
    keys: &[
        with(PROCESSES_KEY, "1024"),
        with(RINGS_KEY, "16384"),
        with(MEMORY_KEY, "\"8 GiB\""),
        RECORDS_KEY,
        DISK_KEY,
    ],
    shown: &[],
    is_example: false,
};

pub(super) const PROCESS: Section = Section {
    name: "limits.process",
    many: None,
    help: &["For each process."],
    keys: &[
        Key {
            kind: Kind::Count(RINGS_OF_PROCESS),
            ..with(RINGS_KEY, "256")
        },
        with(MEMORY_KEY, "\"512 MiB\""),
        RECORDS_KEY,
        DISK_KEY,
    ],
    shown: &[],
    is_example: false,
};

pub(super) const USER: Section = Section {
    name: "limits.user",
    many: Some(RULES_MAX),
    help: &[
        "For all processes of a user together. The first that matches is the one, so \"*\" comes last. Without any, \
         there is the one that follows.",
    ],
    keys: &[
        required(
            "user",
            Kind::UserOrAll,
            "\"*\"",
            "The user, as the kernel knows it; \"*\" is every user, each for himself.",
        ),
        PROCESSES_KEY,
        RINGS_KEY,
        MEMORY_KEY,
        RECORDS_KEY,
        DISK_KEY,
    ],
    shown: &[
        ("processes", "256"),
        ("rings", "4096"),
        ("memory_bytes", "\"4 GiB\""),
    ],
    is_example: false,
};

pub(super) const APP: Section = Section {
    name: "limits.app",
    many: Some(RULES_MAX),
    help: &[
        "For all processes of one application together. The first that matches is the one; each name that a pattern \
         matches is an application of its own.",
    ],
    keys: &[
        required(
            "app",
            Kind::App,
            "\"shop*\"",
            "The application's name, with * and ?.",
        ),
        PROCESSES_KEY,
        RINGS_KEY,
        MEMORY_KEY,
        RECORDS_KEY,
        DISK_KEY,
    ],
    shown: &[("records_per_second", "100000")],
    is_example: true,
};
