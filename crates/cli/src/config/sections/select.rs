//! The tables that say which records and processes they are about: `[[route]]`, `[[recorder]]`, `[[level]]`.

use super::super::keys::{Key, Kind, Section};
use super::{key, required, unset};
use logdrive_agent::config::limits::{RECORDER_BEFORE, RECORDER_BYTES, ROUTES_MAX, RULES_MAX};

const APP: Key = key(
    "app",
    Kind::App,
    "\"*\"",
    "Applications, by name. A process names itself, and nothing keeps it from taking another's name: where that \
     matters, name the user too.",
);
const USER: Key = unset(
    "user",
    Kind::User,
    "any user",
    "\"www-data\"",
    "The user of the process, as the kernel knows it.",
);
const MODULE: Key = unset(
    "module",
    Kind::Module,
    "any module",
    "\"net::quic\"",
    "The module or target of the log statement, with all that is below it: net means net::quic too, but not network.",
);

pub(super) const ROUTE: Section = Section {
    name: "route",
    many: Some(ROUTES_MAX),
    help: &[
        "Which records go to which sinks. Routes are tried in their order; the first that matches decides, unless it \
         has `continue`. All conditions of a route have to hold. A record goes to a sink once, however many routes \
         name it.",
        "Records that no route matches are dropped and counted: end with a route that has nothing but sinks. Without \
         any route, all records go to all sinks.",
    ],
    keys: &[
        APP,
        USER,
        MODULE,
        key(
            "level",
            Kind::Level,
            "\"trace\"",
            "Records of this level and above.",
        ),
        required(
            "sinks",
            Kind::Sinks,
            "[\"main\"]",
            "The names of the sinks they go to.",
        ),
        key(
            "continue",
            Kind::Flag,
            "false",
            "Try the routes behind too, so that this one only adds sinks: for errors that go to a file of their own as \
             well.",
        ),
    ],
    shown: &[],
    is_example: false,
};

pub(super) const RECORDER: Section = Section {
    name: "recorder",
    many: Some(RULES_MAX),
    help: &[
        "Flight recorders: what no sink takes because of its level, or no route because of its, is kept in memory, in \
         binary and without formatting. When something happens, what was kept of the last time is written. So debug \
         records cost the disk nothing until they are needed. The records have to be on: see [[level]], and the \
         program's own filter.",
        "The memory is the agent's, one for each process, as large as the largest of its recorders; it does not outlive the \
         agent. The first recorder that matches a process and a module is the one. `logdrive dump APP` has it written at any time.",
    ],
    keys: &[
        APP,
        USER,
        MODULE,
        key(
            "level",
            Kind::Level,
            "\"trace\"",
            "The lowest level that is kept.",
        ),
        key(
            "keep",
            Kind::Size(RECORDER_BYTES),
            "\"64 MiB\"",
            "Memory for each process; the oldest records make room for new ones. 64 MiB are about a million records.",
        ),
        key(
            "before",
            Kind::Time(RECORDER_BEFORE),
            "\"30s\"",
            "How far back a dump goes; what is older is left out.",
        ),
        key(
            "on_level",
            Kind::LevelOrOff,
            "\"error\"",
            "A record of this level or above has what is kept written.",
        ),
        unset(
            "on_callsites",
            Kind::Callsites,
            "none",
            "[\"net.rs:42\"]",
            "So does a record of one of these log statements, by file and line; a file or a module means all in it.",
        ),
        key(
            "on_crash",
            Kind::Flag,
            "true",
            "So does the end of the process by a signal.",
        ),
        unset(
            "sinks",
            Kind::Sinks,
            "where the routes send fatal records of the same module",
            "[\"main\"]",
            "The sinks that it is written to, whatever their level.",
        ),
    ],
    shown: &[("app", "\"shop\"")],
    is_example: true,
};

pub(super) const LEVEL: Section = Section {
    name: "level",
    many: Some(RULES_MAX),
    help: &[
        "The levels that processes begin with, until somebody changes them with `logdrive level`. The first that \
         matches a process is the one; a process that none matches logs what it chose itself. A level here can also \
         raise what the program chose.",
    ],
    keys: &[
        APP,
        USER,
        required(
            "rules",
            Kind::Rules,
            "\"info,net::quic=trace\"",
            "A level for all, then levels for modules, files (net.rs) or lines (net.rs:42); the narrowest counts.",
        ),
    ],
    shown: &[("app", "\"shop*\"")],
    is_example: true,
};
