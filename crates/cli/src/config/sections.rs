//! The tables of the agent's configuration. Their options are rows of the structs that they are read into; here stands the
//! order of the tables, and the text that is about whole tables.

use logdrive_agent::config::limits::{ROUTES_MAX, RULES_MAX, SINKS_MAX};
use logdrive_agent::config::{
    AgentConfig, AppLimit, AppPattern, LevelRule, Limits, ProcessSelector, Quota, Recorder, Route,
    SinkConfig, UserLimit,
};
use logdrive_drain::Target;
use logdrive_drain::schema::{FILE, Kind, Options, Row, Value};
use logdrive_drain::ship::ShipOptions;

/// A table of a file, `[name]` or `[[name]]`.
pub(crate) struct Section {
    /// Name with dots: `limits.user`. Empty for a file without tables.
    pub(crate) name: &'static str,
    /// Most tables of this name, where there may be several.
    pub(crate) many: Option<usize>,
    /// Help: paragraphs.
    pub(crate) help: &'static [&'static str],
    /// Structs that the table is read into, with the defaults.
    pub(crate) parts: fn() -> Vec<Box<dyn Options>>,
    /// Options of those structs that the table does not have.
    pub(crate) skip: &'static [&'static str],
    /// Values that the commented default shows where they are not the defaults.
    pub(crate) shown: &'static [(&'static str, &'static str)],
    /// The commented default has the table as a comment only.
    pub(crate) is_example: bool,
}

/// An option that is not given.
pub(crate) enum Without {
    /// It has to be given; an example.
    Required(&'static str),
    /// This value holds, as TOML.
    Default(String),
    /// These words say what holds; an example.
    Unset(&'static str, &'static str),
}

impl Section {
    /// Rows of the options, in the order in which they are shown.
    pub(crate) fn rows(&self) -> Vec<&'static Row> {
        let parts = (self.parts)();
        let rows = parts.iter().flat_map(|part| part.rows());
        rows.filter(|row| self.has(row)).collect()
    }

    /// The table has an option of one of its structs.
    pub(crate) fn has(&self, row: &Row) -> bool {
        row.scope & FILE != 0 && !self.skip.contains(&row.name)
    }

    /// Row of a name.
    pub(crate) fn row(&self, name: &str) -> Option<&'static Row> {
        self.rows().into_iter().find(|row| row.name == name)
    }

    /// Consequence of leaving an option out.
    pub(crate) fn without(&self, row: &Row) -> Without {
        if row.is_required {
            return Without::Required(row.example);
        }
        let value = (self.parts)().iter().find_map(|part| part.value(row.name));
        match value {
            Some(Value::Path(path)) if path.as_os_str().is_empty() => {
                Without::Unset(row.without, row.example)
            }
            Some(value) => Without::Default(row.show(&value)),
            None if row.off => Without::Default("\"off\"".to_owned()),
            None => Without::Unset(row.without, row.example),
        }
    }

    /// Header as it stands in a file: `[agent]`, `[[sink]]`.
    pub(crate) fn header(&self) -> String {
        match self.many {
            Some(_) => format!("[[{}]]", self.name),
            None => format!("[{}]", self.name),
        }
    }

    /// Name of an option with its table, for errors.
    pub(crate) fn title(&self, key: &str) -> String {
        match self.name {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        }
    }
}

/// An option that is read by hand, since it is a list of tables.
pub(crate) fn is_by_hand(row: &Row) -> bool {
    matches!(row.kind, Kind::Tables(_))
}

/// All tables, in the order in which they are shown.
pub(crate) const SECTIONS: [&Section; 10] = [
    &AGENT, &SINK, &SHIP, &ROUTE, &TOTAL, &PROCESS, &USER, &APP, &RECORDER, &LEVEL,
];

/// First words of the commented default.
pub(crate) const ABOUT_DEFAULT: &str = "The configuration of `logdrive agent`, in TOML. Each key stands here with what holds without it; a key that is \
     commented out has no value unless it is given. An empty file means the same as this one.";

/// First words of the manual page.
pub(crate) const ABOUT_PAGE: &str = "The configuration of `logdrive agent`, in TOML. Each key stands here with what holds without it. An empty file \
     is a sound configuration, and `logdrive config init` prints one with all keys and defaults.";

/// Paragraphs about the whole file.
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

const AGENT: Section = Section {
    name: "agent",
    many: None,
    help: &[
        "Where the agent is found. What stands in this table holds from the next start on, but for `metrics`, \
         `connections` and `idle_timeout`, which a reload changes.",
    ],
    parts: || vec![Box::new(AgentConfig::default())],
    skip: &[],
    shown: &[],
    is_example: false,
};

const SINK: Section = Section {
    name: "sink",
    many: Some(SINKS_MAX),
    help: &[
        "Where lines go. Each sink has a thread and buffers of its own, so that one that hangs or is full holds up no \
         other. Without any, there is the one that follows.",
        "A directory of log files belongs to one agent; another one that is to write there is refused. A reload opens new \
         sinks, and changes `layout`, `min_level`, `overflow`, `flush_every` and `flush_level` of open ones; all else of \
         them holds from the next start on.",
    ],
    parts: || {
        let sink = SinkConfig::file("", "");
        let mut parts: Vec<Box<dyn Options>> = vec![Box::new(sink.clone()), Box::new(sink.options.clone())];
        if let Target::File(file) = sink.options.target {
            parts.push(Box::new(file));
        }
        parts
    },
    skip: &[],
    shown: &[("name", "\"main\""), ("path", "\"/var/log/logdrive/{app}.log\"")],
    is_example: false,
};

const SHIP: Section = Section {
    name: "ship",
    many: Some(SINKS_MAX),
    help: &[
        "Collectors (`logdrive collect`) that records are sent to. Each is a sink that routes may name. A record is in the \
         collector's log once, whatever is restarted, cut or killed on the way: what the collector has not acknowledged \
         stays in the agent's buffers or in the spool, and is sent again.",
        "A reload opens new ones, and changes `to`, `backup`, `layout`, `min_level`, `overflow`, `flush_every` and \
         `flush_level` of open ones; all else of them holds from the next start on.",
    ],
    parts: || {
        let sink = SinkConfig::ship("", ShipOptions::new(Vec::new()));
        let mut parts: Vec<Box<dyn Options>> = vec![Box::new(sink.clone())];
        if let Target::Ship(ship) = &sink.options.target {
            parts.extend([
                ship.clone() as Box<dyn Options>,
                Box::new(ship.transport.tls.clone()),
            ]);
        }
        parts.push(Box::new(sink.options));
        parts
    },
    skip: &["type", "sync"],
    shown: &[("name", "\"central\"")],
    is_example: true,
};

const ROUTE: Section = Section {
    name: "route",
    many: Some(ROUTES_MAX),
    help: &[
        "Which records go to which sinks. Routes are tried in their order; the first that matches decides, unless it \
         has `continue`. All conditions of a route have to hold. A record goes to a sink once, however many routes \
         name it.",
        "Records that no route matches are dropped and counted: end with a route that has nothing but sinks. Without \
         any route, all records go to all sinks.",
    ],
    parts: || vec![Box::new(ProcessSelector::anyone()), Box::new(Route::to_all(&[]))],
    skip: &[],
    shown: &[],
    is_example: false,
};

const TOTAL: Section = Section {
    name: "limits",
    many: None,
    help: &[
        "What processes may take. All limits that apply to a process hold at once: those for all together, for each \
         process, for its user and for its application.",
        "This table is for all processes together.",
    ],
    parts: || vec![Box::new(Limits::default().total)],
    skip: &[],
    shown: &[],
    is_example: false,
};

const PROCESS: Section = Section {
    name: "limits.process",
    many: None,
    help: &["For each process, which has at most 4096 rings."],
    parts: || vec![Box::new(Limits::default().process)],
    skip: &["processes"],
    shown: &[],
    is_example: false,
};

const USER: Section = Section {
    name: "limits.user",
    many: Some(RULES_MAX),
    help: &[
        "For all processes of a user together. The first that matches is the one, so \"*\" comes last. Without any, \
         there is the one that follows.",
    ],
    parts: || {
        let (user, quota) = (None, Quota::default());
        vec![Box::new(UserLimit { user, quota }), Box::new(quota)]
    },
    skip: &[],
    shown: &[
        ("processes", "256"),
        ("rings", "4096"),
        ("memory_bytes", "\"4 GiB\""),
    ],
    is_example: false,
};

const APP: Section = Section {
    name: "limits.app",
    many: Some(RULES_MAX),
    help: &[
        "For all processes of one application together. The first that matches is the one; each name that a pattern \
         matches is an application of its own.",
    ],
    parts: || {
        let (app, quota) = (AppPattern::any(), Quota::default());
        vec![Box::new(AppLimit { app, quota }), Box::new(quota)]
    },
    skip: &[],
    shown: &[("records_per_second", "100000")],
    is_example: true,
};

const RECORDER: Section = Section {
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
    parts: || vec![Box::new(ProcessSelector::anyone()), Box::new(Recorder::new())],
    skip: &[],
    shown: &[("app", "\"shop\"")],
    is_example: true,
};

const LEVEL: Section = Section {
    name: "level",
    many: Some(RULES_MAX),
    help: &[
        "The levels that processes begin with, until somebody changes them with `logdrive level`. The first that \
         matches a process is the one; a process that none matches logs what it chose itself. A level here can also \
         raise what the program chose.",
    ],
    parts: || {
        let (processes, rules) = (ProcessSelector::anyone(), Vec::new());
        vec![
            Box::new(ProcessSelector::anyone()),
            Box::new(LevelRule { processes, rules }),
        ]
    },
    skip: &[],
    shown: &[("app", "\"shop*\"")],
    is_example: true,
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_there_once_and_every_help_is_a_sentence() {
        let names: BTreeSet<&str> = SECTIONS.iter().map(|section| section.name).collect();
        assert_eq!(names.len(), SECTIONS.len());
        for section in SECTIONS {
            let rows = section.rows();
            let names: BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
            assert_eq!(names.len(), rows.len(), "{}", section.name);
            for help in rows
                .iter()
                .map(|row| row.help())
                .chain(section.help.iter().copied())
            {
                let first = help.chars().next().is_some_and(|c| !c.is_lowercase());
                assert!(first && help.ends_with('.'), "{}: {help}", section.name);
            }
            for (name, _) in section.shown {
                assert!(section.row(name).is_some(), "{}: {name}", section.name);
            }
        }
    }
}
